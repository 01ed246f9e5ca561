// Checks of the control words that a schedule reads before it drains a ring.
#pragma once

#include <span>

#include "everkernel/abi/platform.hpp"
#include "everkernel/base/result.hpp"

namespace everkernel::backend {

/// Offsets of the priority schedule. Fails with `corrupt` unless they rise from 0 to `slot_count`.
Result<void> check_priority_offsets(std::span<const abi::Word> offsets, abi::Word slot_count);
/// Tickets of the ticket schedule. Fails with `corrupt` if there are more than slots.
Result<void> check_tickets(abi::Word head, abi::Word tail, abi::Word slot_count);

}  // namespace everkernel::backend
