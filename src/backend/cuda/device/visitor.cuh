// The state of one lane while it visits a slot, and the operation that it runs there.
#pragma once

#include "backend/cuda/device/submission.cuh"
#include "everkernel/abi/opcode.hpp"
#include "everkernel/abi/slot.hpp"
#include "jit/device/handler.cuh"
#include "jit/device/item.cuh"
#include "jit/device/lanes.cuh"
#include "jit/device/types.hpp"

namespace everkernel::device {

using abi::Opcode;

/// The result of a visit to a slot; backend::cpu::Visit.
enum class Visit : Word { passed, ended, deferred, stuck };

/// A bit of the note of a queued slot: its item asked for IO when no IO slot was free. The other
/// bits of a fence's note count the slots before it that are known to have ended.
inline constexpr Word kNeedsIoSlot = 0x80000000u;

/// Which lanes run an operation, and by which function.
enum class Kind : Word { nothing, unknown, lane, warp, group, fence, copy };

/// The result of an item that found no free IO slot: its slot is put back as if it had not run.
inline constexpr Word kPutBack = 0xFFFFFFFFu;

EK_DEVICE bool is(Word number, Opcode opcode) {
  return number == static_cast<Word>(opcode);
}
EK_DEVICE Word fault_of(FaultCode code) {
  return fault_outcome(static_cast<Word>(code));
}
inline constexpr Word kDone = 0;  // outcome(Ending::done)

/// Where the args of an operation lie in the words of its slot: the index of the first in the
/// lowest byte, the count above it. This constant is the args of an operation that has the slot to
/// itself.
inline constexpr Word kAllArgs = abi::kSlotFirstArg | abi::kSlotArgs << 8;

/// A lane and the slot that it visits.
struct Visitor {
  Word slot = kNoSlot;
  Word note = 0;  // state of the slot in the queue: see kNeedsIoSlot
  Word partition = 0;
  Word found = 0;  // status before the claim
  Word opcode = 0, tenant = 0, priority_word = 0;
  // The next operation to run: that of the slot, or one of a packed slot.
  Kind kind = Kind::nothing;
  Word operation = 0;  // its opcode
  Word handler = kNoHandler;
  Word args = kAllArgs;
  Word begun = 0;  // operations of a packed slot that have begun, including this one
  Visit visit = Visit::passed;
  bool holds_slot = false;  // has claimed the slot and must store how it ended
  bool is_counted = false;  // holds a share of the tenant's quota
  bool has_claimed = false;
  bool is_done = false;
  bool is_faulted = false;
  bool was_claimed = false;  // the slot was CLAIMED before this launch
};

/// An operation, as the functions that run it see it.
struct Operation {
  Word slot, opcode, tenant, priority_word, handler, args, is_packed;
};

EK_DEVICE Operation operation_of(const Visitor& visitor) {
  return {visitor.slot,    visitor.operation, visitor.tenant,    visitor.priority_word,
          visitor.handler, visitor.args,      visitor.begun != 0};
}
/// The operation of lane `owner`, on all lanes of the warp.
EK_DEVICE Operation operation_of(const Visitor& visitor, Word owner) {
  const Operation its = operation_of(visitor);
  const auto from_owner = [owner](Word word) { return __shfl_sync(kAllLanes, word, owner); };
  return {from_owner(its.slot),          from_owner(its.opcode),  from_owner(its.tenant),
          from_owner(its.priority_word), from_owner(its.handler), from_owner(its.args),
          from_owner(its.is_packed)};
}

}  // namespace everkernel::device
