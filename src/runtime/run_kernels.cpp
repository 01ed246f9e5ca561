// The code a run uses: the general kernel, or one specialised to its opcodes.
#include <algorithm>

#include "runtime/run_memory.hpp"

namespace everkernel {
namespace {

// Kernels that are kept. Programs alternate between a few shapes of runs, not more.
constexpr std::size_t kMostKernels = 8;

// The handlers of these opcodes, in that order: hot code lies together. Verified again, like
// everything that is about to run.
Result<ir::VerifiedProgram> specialise(const ir::VerifiedProgram& program,
                                       const std::vector<Word>& opcodes) {
  ir::Program chosen;
  for (const Word opcode : opcodes) {
    const ir::VerifiedHandler* const found = program.find(opcode);
    if (found != nullptr) chosen.handlers.push_back(found->handler);
  }
  return ir::verify(std::move(chosen));
}

// Trusted handlers need no compiling on the CPU, but on other devices code is made from them too.
std::vector<ir::TrustedHandler> choose(std::span<const ir::TrustedHandler> handlers,
                                       const std::vector<Word>& opcodes) {
  std::vector<ir::TrustedHandler> chosen;
  for (const Word opcode : opcodes) {
    const auto found = std::ranges::find(handlers, opcode, &ir::TrustedHandler::opcode);
    if (found != handlers.end()) chosen.push_back(*found);
  }
  return chosen;
}

Result<std::shared_ptr<backend::Kernel>> compile(Megakernel::State& state,
                                                 const RunKernelKey& key) {
  backend::KernelOptions options = state.options;
  options.execution = key.is_jit ? backend::Execution::native : backend::Execution::interpreter;
  options.planned = key.is_planned;
  const bool is_specialised = !key.opcodes.empty();
  if (is_specialised) {
    options.trusted_handlers = choose(options.trusted_handlers, key.opcodes);
  }
  if (is_specialised && options.program) {
    auto chosen = specialise(*options.program, key.opcodes);
    if (!chosen) return Failure(chosen.error());
    options.program = std::move(*chosen);
    // With trusted handlers alone there is nothing a compiler would have to be there for.
    if (options.program->handlers().empty()) options.program.reset();
  }
  auto kernel = state.backend->compile(options);
  if (!kernel) return Failure(kernel.error());
  return std::shared_ptr<backend::Kernel>(std::move(*kernel));
}

}  // namespace

Result<RunKernel> find_kernel(Megakernel::State& state, RunMemory& memory, RunKernelKey key) {
  std::uint64_t generation = 0;
  auto general = state.current_kernel(&generation);
  // The kernel that is there is interpreted, or all there is: code for one slot after the other.
  const bool is_general = state.options.execution == backend::Execution::interpreter ||
                          !state.backend->capabilities().interpreter;
  const bool is_enough = !key.is_jit || (!key.is_planned && key.opcodes.empty());
  if (is_general && is_enough) return RunKernel{std::move(general), true};
  std::erase_if(memory.kernels, [&](const auto& entry) { return entry.generation != generation; });
  const auto found = std::ranges::find(memory.kernels, key, &RunMemory::Entry::key);
  if (found != memory.kernels.end()) {
    std::rotate(found, found + 1, memory.kernels.end());
    return RunKernel{memory.kernels.back().kernel, true};
  }
  auto kernel = compile(state, key);
  if (!kernel) return Failure(kernel.error());
  if (memory.kernels.size() == kMostKernels) memory.kernels.erase(memory.kernels.begin());
  memory.kernels.push_back({std::move(key), *kernel, generation});
  const bool was_compiled = (*kernel)->is_from_cache();
  return RunKernel{std::move(*kernel), was_compiled};
}

}  // namespace everkernel
