// An item of planned work, as callers and reports see it: whose it is, and how it ended.
#pragma once

#include <cstdint>

#include "everkernel/abi/platform.hpp"

namespace everkernel::backend {

using abi::Word;

/// Tenant and priority of an item.
struct Origin {
  std::uint8_t tenant = 0;    ///< 0..28
  std::uint8_t priority = 2;  ///< 0..4, 0 the most urgent

  /// Equal in both fields.
  friend constexpr bool operator==(const Origin&, const Origin&) = default;
};

/// Outcome of an item that has not ended.
inline constexpr Word kItemRemaining = 0;
/// Outcome of an item that reached DONE. Any other value is a fault code.
inline constexpr Word kItemDone = 0x10000;

}  // namespace everkernel::backend
