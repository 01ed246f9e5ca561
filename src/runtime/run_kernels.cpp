// The code a run uses: the general kernel, or one specialised to its opcodes.
#include <algorithm>

#include "runtime/run_memory.hpp"

namespace everkernel {
namespace {

// Compiled kernels kept for a megakernel: programs alternate between a few shapes of runs.
constexpr std::size_t kMostKernels = 8;

// The handlers of these opcodes, in that order, so that hot code is contiguous. The new program is
// verified again, as every program is before it is compiled.
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
  options.execution = key.is_native ? backend::Execution::native : backend::Execution::interpreter;
  options.planned = key.is_planned;
  const bool is_specialised = !key.opcodes.empty();
  if (is_specialised) {
    options.trusted_handlers = choose(options.trusted_handlers, key.opcodes);
  }
  if (is_specialised && options.program) {
    options.program = EVERKERNEL_TRY(specialise(*options.program, key.opcodes));
    // Without handlers of the program there is nothing to compile.
    if (options.program->handlers().empty()) options.program.reset();
  }
  auto kernel = EVERKERNEL_TRY(state.backend->compile(options));
  return std::shared_ptr<backend::Kernel>(std::move(kernel));
}

}  // namespace

Result<RunKernel> find_kernel(Megakernel::State& state, RunMemory& memory, RunKernelKey key) {
  std::uint64_t generation = 0;
  auto general = state.current_kernel(&generation);
  // The kernel of the megakernel serves if it is interpreted or the backend has no interpreter.
  const bool is_general = state.options.execution == backend::Execution::interpreter ||
                          !state.backend->capabilities().interpreter;
  const bool is_enough = !key.is_native || (!key.is_planned && key.opcodes.empty());
  if (is_general && is_enough) return RunKernel{std::move(general), true};
  std::erase_if(memory.kernels, [&](const auto& entry) { return entry.generation != generation; });
  const auto found = std::ranges::find(memory.kernels, key, &RunMemory::Entry::key);
  if (found != memory.kernels.end()) {
    std::rotate(found, found + 1, memory.kernels.end());
    return RunKernel{memory.kernels.back().kernel, true};
  }
  auto kernel = EVERKERNEL_TRY(compile(state, key));
  if (memory.kernels.size() == kMostKernels) memory.kernels.erase(memory.kernels.begin());
  memory.kernels.push_back({std::move(key), kernel, generation});
  const bool was_compiled = kernel->is_from_cache();
  return RunKernel{std::move(kernel), was_compiled};
}

}  // namespace everkernel
