// Packed slots: several operations with their args in one slot. visits.cuh runs them one after the
// other.
#pragma once

#include "backend/cuda/device/handlers.cuh"
#include "backend/cuda/device/visitor.cuh"
#include "everkernel/abi/opcode.hpp"
#include "everkernel/abi/packed.hpp"
#include "everkernel/abi/slot.hpp"
#include "jit/device/types.hpp"
#include "jit/device/words.cuh"

namespace everkernel::device {

using abi::Opcode;

/// Two bytes of the metadata of a packed slot. Pair 0 is the number of operations and the number of
/// args of all of them; pair i + 1 is the opcode and the first arg of operation i.
struct PackedPair {
  Word first, second;
};
/// Loads pair `i`; pairs behind the slot are 0. The host may change the words at any time.
EK_DEVICE PackedPair packed_pair(const Words& slot, Word i) {
  const Word word = i / 2 < abi::kSlotArgs ? slot.load_relaxed(abi::kSlotFirstArg + i / 2) : 0;
  const Word bytes = word >> 16 * (i % 2);
  return {bytes & 0xFF, bytes >> 8 & 0xFF};
}

/// Whether a packed payload follows the rules of the wire format.
EK_DEVICE bool is_sound_packed(const Words& slot) {
  const PackedPair all = packed_pair(slot, 0);
  if (abi::packed_metadata_words(all.first) + all.second > abi::kSlotArgs) return false;
  for (Word i = 0; i < all.first; ++i) {
    const PackedPair operation = packed_pair(slot, i + 1);
    const Word end = i + 1 < all.first ? packed_pair(slot, i + 2).second : all.second;
    if (operation.second > end || end > all.second) return false;
    if (is(operation.first, Opcode::batch_fence)) return false;
    const Word handler = find_handler(operation.first);
    if (handler != kNoHandler && (traits_of(handler) & kTraitCanLeave) != 0) return false;
  }
  return true;
}

/// packed_operation() returns an operation as one word, with the opcode in the lowest byte and
/// Visitor::args above it, or one of these two.
inline constexpr Word kNoOperation = 0xFFFFFFFFu;
inline constexpr Word kUnsound = 0xFFFFFFFEu;

/// Operation `i` of a packed slot. The whole payload is checked before operation 0.
__device__ __noinline__ Word packed_operation(Words slot, Word i) {
  if (i == 0 && !is_sound_packed(slot)) return kUnsound;
  const PackedPair all = packed_pair(slot, 0);
  if (i >= all.first) return kNoOperation;
  const PackedPair operation = packed_pair(slot, i + 1);
  if (is(operation.first, Opcode::batch_fence)) return kUnsound;  // changed since the check
  const Word end = i + 1 < all.first ? packed_pair(slot, i + 2).second : all.second;
  const Word first = abi::kSlotFirstArg + abi::packed_metadata_words(all.first) + operation.second;
  return operation.first | (first & 0xFF) << 8 | (end - operation.second & 0xFF) << 16;
}

}  // namespace everkernel::device
