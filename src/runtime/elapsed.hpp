// Time spent, as the reports count it.
#pragma once

#include <chrono>
#include <cstdint>

#include "everkernel/backend/backend.hpp"

namespace everkernel {

/// Nanoseconds from `begin` to now.
inline std::uint64_t nanoseconds_since(backend::Clock::time_point begin) {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(backend::Clock::now() - begin).count());
}

}  // namespace everkernel
