// Runs generated handlers on a GPU, one block a run, and brings back what they left.
//
// The frames of many runs lie in one piece of memory that goes to the device and comes back; each
// region of it has watched words on both sides.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/cuda/context.hpp"
#include "backend/cuda/cuda_memory.hpp"
#include "backend/cuda/module.hpp"
#include "everkernel/jit/memory_use.hpp"
#include "support/jit_trial.hpp"

namespace everkernel::test {

/// How many threads run an item.
enum class Way : std::uint8_t { lane, warp, group };
inline constexpr Way kAllWays[] = {Way::lane, Way::warp, Way::group};

/// The way of a scope.
constexpr Way way_of(ir::Scope scope) {
  return static_cast<Way>(scope);
}
/// In words.
std::string way_name(Way way);

/// A handler that is to be run in a way.
struct Entry {
  std::size_t handler_index = 0;
  Way way = Way::lane;
  friend constexpr bool operator==(const Entry&, const Entry&) = default;
};

/// One run.
struct RunRequest {
  Entry entry = {};
  const FrameSpec* spec = nullptr;
  const RunResult* expected = nullptr;  // says how much room printf and emit need
};

/// The driver, the compiler and a context, opened once and for all threads.
struct GpuAccess {
  backend::cuda::Driver driver = {};
  backend::cuda::DeviceFacts facts = {};
  backend::cuda::Nvrtc nvrtc;
  std::shared_ptr<backend::cuda::Context> context = {};
};
/// Fails with the reason where there is no GPU, or no NVRTC.
const Result<GpuAccess>& gpu();

/// A source that has a kernel for each entry.
struct RunnerSource {
  std::string handlers = {};
  std::string kernels = {};
};
RunnerSource runner_source(const ir::VerifiedProgram& program, std::span<const Entry> entries,
                           jit::MemoryUse memory);
/// Compiles it for an architecture; the bytes are for the driver. Needs no GPU.
Result<backend::cuda::CompiledCode> compile_runner(const backend::cuda::Nvrtc& nvrtc,
                                                   const RunnerSource& source, int architecture);

/// Compiled handlers on the device. One thread at a time.
class HandlerRunner {
 public:
  /// Compiles and loads. The thread that calls has the context current.
  static Result<HandlerRunner> create(const GpuAccess& gpu, const RunnerSource& source);
  /// Runs every request on its own memory, all of them at one time. The results have the requests'
  /// order. Fails when the device does.
  Result<std::vector<RunResult>> run(std::span<const RunRequest> requests) const;

 private:
  HandlerRunner(const GpuAccess& gpu, backend::cuda::Module module, backend::cuda::Stream stream)
      : gpu_(&gpu), module_(std::move(module)), stream_(std::move(stream)) {}
  const GpuAccess* gpu_;
  backend::cuda::Module module_;
  backend::cuda::Stream stream_;
};

}  // namespace everkernel::test
