// The backend for NVIDIA GPUs. Driver and compiler are opened at run time: nothing of CUDA is
// needed to build, and a machine without a GPU can still ask why there is none.
#pragma once

#include <memory>
#include <optional>

#include "everkernel/backend/backend.hpp"
#include "everkernel/jit/code_cache.hpp"

namespace everkernel::backend::cuda {

/// How the CUDA backend works.
struct CudaBackendOptions {
  int device = 0;  ///< which GPU, as the driver counts those that are visible
  /// Where compiled kernels are kept between processes; none keeps them nowhere. The folder is
  /// opened when the first kernel is compiled; one that cannot be used is done without.
  std::optional<jit::CodeCacheOptions> cache = jit::CodeCacheOptions{};
};

/// Makes the CUDA backend. It cannot fail: where CUDA is not to be had, capabilities() say why, and
/// every other call fails with `unsupported`. The device is not used before memory is allocated or
/// a kernel is compiled. A device that is lost does not come back in this process.
std::shared_ptr<Backend> make_backend(const CudaBackendOptions& options = {});

}  // namespace everkernel::backend::cuda
