// The backend that every machine has: worker threads run the protocol on host memory.
#pragma once

#include <memory>

#include "everkernel/backend/backend.hpp"

namespace everkernel::backend::cpu {

/// Most worker threads of one kernel.
inline constexpr Word kMaxWorkers = 256;

/// Makes the CPU backend. It cannot fail, and always supports everything.
std::shared_ptr<Backend> make_backend();

}  // namespace everkernel::backend::cpu
