// Rings: encoded empty, and read through a checked view.
#include "everkernel/protocol/ring.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace everkernel::protocol {

Result<std::size_t> ring_bytes(Word slot_count) {
  if (slot_count >= 1 && slot_count <= abi::kMaxEncodedSlots) {
    return std::size_t{slot_count} * abi::kSlotBytes;
  }
  return fail(
      Code::invalid_argument,
      fmt::format("ring: {} slots, an encoded ring has 1..{}", slot_count, abi::kMaxEncodedSlots),
      "choose a count in this range; a ring can be refilled as it drains");
}

Result<void> encode_ring(Word slot_count, std::span<std::byte> target) {
  const std::size_t needed = EVERKERNEL_TRY(ring_bytes(slot_count));
  EVERKERNEL_TRY(check_target(Buffer::ring, target.size(), needed));
  std::ranges::fill(target, std::byte{0});  // EMPTY is 0, and so is every unused word
  return {};
}

Result<RingView> RingView::parse(std::span<const std::byte> ring) {
  const std::size_t slots = EVERKERNEL_TRY(whole_units(Buffer::ring, ring.size(), abi::kSlotBytes));
  if (slots > abi::kMaxRingSlots) {
    return fail(Code::corrupt, fmt::format("ring: {} slots ({} bytes), a ring has at most {}",
                                           slots, ring.size(), abi::kMaxRingSlots));
  }
  return RingView(ring.data(), static_cast<Word>(slots));
}

Result<Word> RingView::count(abi::SlotStatus status, Word first_n) const {
  if (first_n > slot_count_) {
    return fail(Code::invalid_argument,
                fmt::format("ring: slot {} does not exist: the ring has {} slots ({} bytes)",
                            first_n - 1, slot_count_, std::size_t{slot_count_} * abi::kSlotBytes));
  }
  Word count = 0;
  for (Word i = 0; i < first_n; ++i) count += Word{slot(i).status == status};
  return count;
}

}  // namespace everkernel::protocol
