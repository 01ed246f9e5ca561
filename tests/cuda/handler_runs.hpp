// Runs generated handlers on a GPU, one block a run, and brings back what they left.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "backend/cuda/context.hpp"
#include "backend/cuda/cuda_memory.hpp"
#include "backend/cuda/module.hpp"
#include "run_image.hpp"
#include "runner_source.hpp"

namespace everkernel::test {

/// The driver, the compiler and a context, opened once and for all threads.
struct GpuAccess {
  backend::cuda::Driver driver = {};
  backend::cuda::DeviceFacts facts = {};
  backend::cuda::Nvrtc nvrtc;
  std::shared_ptr<backend::cuda::Context> context = {};
};
/// Fails with the reason where there is no GPU, or no NVRTC.
const Result<GpuAccess>& gpu();

/// Where batches lie that were compiled ahead, perhaps by a machine without a GPU: the folder that
/// EVERKERNEL_COMPILED_DIR names, else null.
jit::CodeCache* compiled_ahead();

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
