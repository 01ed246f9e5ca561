// Where emit stores its hits: workers take one place after the other.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>

#include "everkernel/abi/hit.hpp"

namespace everkernel::backend {

/// Room for hits of one run or submission, shared by its workers. Without a counter there is none.
struct HitBuffer {
  std::span<abi::Hit> places = {};                ///< room
  std::atomic<std::uint64_t>* emitted = nullptr;  ///< hits so far, also those without room

  /// Appends a hit; false when there is no room for it.
  bool append(const abi::Hit& hit) const {
    if (emitted == nullptr) return false;
    const std::uint64_t place = emitted->fetch_add(1, std::memory_order_relaxed);
    if (place >= places.size()) return false;
    places[place] = hit;
    return true;
  }
};

}  // namespace everkernel::backend
