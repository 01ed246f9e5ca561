// The kernel of a run: that of the megakernel, or one whose code relies on the order of a plan.
#include <algorithm>

#include "runtime/run_memory.hpp"

namespace everkernel {
namespace {

// Whether the kernel of the megakernel itself serves: it interprets, or it is native code that
// relies on no plan.
bool is_general(const backend::KernelOptions& options, const backend::Capabilities& device,
                const RunKernelKey& key) {
  if (!device.interpreter) return !key.is_planned;
  return options.execution == key.execution &&
         (key.execution == backend::Execution::interpreter || !key.is_planned);
}

}  // namespace

Result<RunKernel> find_kernel(Megakernel::State& state, RunMemory& memory,
                              const RunKernelKey& key) {
  std::uint64_t generation = 0;
  const auto known = [](std::shared_ptr<backend::Kernel> kernel) {
    const backend::CodeCounts counts = kernel->code_counts();
    return RunKernel{.kernel = std::move(kernel), .counts_before = counts};
  };
  auto general = state.current_kernel(&generation);
  if (is_general(state.options, state.backend->capabilities(), key)) {
    return known(std::move(general));
  }
  std::erase_if(memory.kernels, [&](const auto& entry) { return entry.generation != generation; });
  const auto found = std::ranges::find(memory.kernels, key, &RunMemory::Entry::key);
  if (found != memory.kernels.end()) return known(found->kernel);
  backend::KernelOptions options = state.options;
  options.execution = key.execution;
  options.planned = key.is_planned;
  options.compile_deadline = backend::Clock::now();  // the run waits, up to its deadline
  auto made = EVERKERNEL_TRY(state.backend->compile(options));
  std::shared_ptr<backend::Kernel> kernel = std::move(made);
  memory.kernels.push_back({.key = key, .kernel = kernel, .generation = generation});
  return RunKernel{.kernel = std::move(kernel), .counts_before = {}};
}

}  // namespace everkernel
