// Runs generated handlers on a GPU, each run in a block of its own, and reads their memory back.
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

/// Driver, compiler and context, opened once for all threads.
struct GpuAccess {
  backend::cuda::Driver driver = {};
  backend::cuda::DeviceFacts facts = {};
  backend::cuda::Nvrtc nvrtc;
  std::shared_ptr<backend::cuda::Context> context = {};
};
/// Opens the GPU at the first call. Fails if there is no GPU or no NVRTC.
const Result<GpuAccess>& gpu();

/// The cache of batches that were compiled ahead, perhaps on a machine without a GPU, in the folder
/// EVERKERNEL_COMPILED_DIR. Null if the variable is not set.
jit::CodeCache* compiled_ahead();

/// Compiled handlers on the device. For one thread at a time.
class HandlerRunner {
 public:
  /// Compiles and loads. The context is current on the calling thread.
  static Result<HandlerRunner> create(const GpuAccess& gpu, const RunnerSource& source);
  /// Runs all requests at the same time, each on its own memory. Returns the results in the order
  /// of the requests. Fails with the error of the device.
  Result<std::vector<RunResult>> run(std::span<const RunRequest> requests) const;

 private:
  HandlerRunner(const GpuAccess& gpu, backend::cuda::Module module, backend::cuda::Stream stream)
      : gpu_(&gpu), module_(std::move(module)), stream_(std::move(stream)) {}
  const GpuAccess* gpu_;
  backend::cuda::Module module_;
  backend::cuda::Stream stream_;
};

}  // namespace everkernel::test
