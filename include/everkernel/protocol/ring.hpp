// Makes and reads rings of work slots (abi/slot.hpp). ring_writer.hpp publishes into them.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>

#include "everkernel/abi/slot.hpp"
#include "everkernel/base/assert.hpp"
#include "everkernel/protocol/buffer.hpp"

namespace everkernel::protocol {

/// Bytes of a ring. Fails with `invalid_argument` outside 1..1,048,576 slots.
Result<std::size_t> ring_bytes(Word slot_count);

/// Writes an empty ring into `target`, which has exactly ring_bytes(slot_count) bytes. On an error
/// (`invalid_argument`) the target is unchanged.
Result<void> encode_ring(Word slot_count, std::span<std::byte> target);

/// A ring, checked once and then read freely. A view: the bytes must outlive it and belong to the
/// reader (copy live memory first, LiveWords::copy_to). Any status and opcode may be found in it.
class RingView {
 public:
  /// Fails with `corrupt` when the bytes are not whole slots or more than any ring may have. A ring
  /// without slots is fine.
  static Result<RingView> parse(std::span<const std::byte> ring);

  /// Number of slots.
  Word slot_count() const { return slot_count_; }

  /// A copy of one slot; `slot_index` is below slot_count().
  abi::Slot slot(Word slot_index) const {
    EVERKERNEL_ASSERT(slot_index < slot_count_);
    abi::Slot slot;
    std::memcpy(&slot, bytes_ + std::size_t{slot_index} * abi::kSlotBytes, sizeof slot);
    return slot;
  }

  /// Slots with that status among the first `first_n`. Fails with `invalid_argument` when the ring
  /// has fewer.
  Result<Word> count(abi::SlotStatus status, Word first_n) const;

 private:
  RingView(const std::byte* bytes, Word slot_count) : bytes_(bytes), slot_count_(slot_count) {}
  const std::byte* bytes_;
  Word slot_count_;
};

}  // namespace everkernel::protocol
