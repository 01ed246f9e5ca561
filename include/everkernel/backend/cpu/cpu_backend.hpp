// The backend that every machine has: worker threads run the protocol on host memory.
#pragma once

#include <memory>
#include <optional>

#include "everkernel/backend/backend.hpp"
#include "everkernel/jit/code_cache.hpp"

namespace everkernel::backend::cpu {

/// Most worker threads of one kernel.
inline constexpr Word kMaxWorkers = 256;

/// How the CPU backend works.
struct CpuBackendOptions {
  /// Where native code is kept between processes. If empty, or if the folder cannot be used,
  /// caching is off. The folder is opened when the first handlers are compiled.
  std::optional<jit::CodeCacheOptions> cache = jit::CodeCacheOptions{};
};

/// Makes the CPU backend. It cannot fail, and always supports everything.
std::shared_ptr<Backend> make_backend(const CpuBackendOptions& options = {});

}  // namespace everkernel::backend::cpu
