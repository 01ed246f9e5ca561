// The backend for NVIDIA GPUs. Driver and compiler are opened at run time: the build needs no CUDA
// toolkit, and a program starts on machines without a GPU and can report what is missing.
#pragma once

#include <memory>
#include <optional>

#include "everkernel/backend/backend.hpp"
#include "everkernel/jit/code_cache.hpp"

namespace everkernel::backend::cuda {

/// Options of make_backend().
struct CudaBackendOptions {
  int device = 0;  ///< the GPU, by its number among the GPUs visible to the driver
  /// Where compiled kernels are kept between processes. If empty, or if the folder cannot be used,
  /// every process compiles again. The folder is opened when the first kernel is compiled.
  std::optional<jit::CodeCacheOptions> cache = jit::CodeCacheOptions{};
};

/// Creates the CUDA backend. It cannot fail: if CUDA is not available, capabilities() says why, and
/// every other call fails with `unsupported`. The device is not used before memory is allocated or
/// a kernel is compiled. A lost device cannot be used again in this process.
std::shared_ptr<Backend> make_backend(const CudaBackendOptions& options = {});

}  // namespace everkernel::backend::cuda
