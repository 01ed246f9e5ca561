// The packed slot: several small operations in the arguments of one slot.
//
// Byte 0 is the number of inner operations, byte 1 the argument words of all of them; then two
// bytes an operation: its opcode and where its arguments begin. The arguments follow in whole
// words.
#pragma once

#include "everkernel/abi/platform.hpp"
#include "everkernel/abi/slot.hpp"

namespace everkernel::abi {

/// Metadata words of a packed slot with this many inner operations.
EVERKERNEL_HOST_DEVICE constexpr Word packed_metadata_words(Word op_count) {
  return (2 + 2 * op_count + kWordBytes - 1) / kWordBytes;
}

/// Most inner operations a packed slot can hold (all without arguments).
inline constexpr Word kMaxPackedOps = 23;
static_assert(packed_metadata_words(kMaxPackedOps) == kSlotArgs);
static_assert(packed_metadata_words(kMaxPackedOps + 1) > kSlotArgs);

/// Byte `index` of a packed payload. Bytes are little-endian inside words.
EVERKERNEL_HOST_DEVICE constexpr Word packed_byte(const Word* args, Word index) {
  return (args[index / kWordBytes] >> (8 * (index % kWordBytes))) & 0xFFu;
}

}  // namespace everkernel::abi
