// The 64-byte work slot, by which a host passes an operation to a running megakernel.
//
// A host fills the words of a slot and stores the status last; a worker claims the slot by its
// status word, runs the operation and stores DONE or FAULT in the status word.
// protocol/ring_writer.hpp writes slots, protocol/ring.hpp reads them.
#pragma once

#include "everkernel/abi/platform.hpp"

namespace everkernel::abi {

/// Words in a slot.
inline constexpr Word kSlotWords = 16;
/// Bytes in a slot: one cache line.
inline constexpr Word kSlotBytes = kSlotWords * kWordBytes;
/// Argument words in a slot.
inline constexpr Word kSlotArgs = 12;
/// Word index of the first argument inside a slot.
inline constexpr Word kSlotFirstArg = 4;

/// Most slots of a ring that encode_ring() makes.
inline constexpr Word kMaxEncodedSlots = 1'048'576;
/// Most slots a ring may have at all: its words must stay countable in 32 bits.
inline constexpr Word kMaxRingSlots = 268'435'455;
/// Slots of a ring by default.
inline constexpr Word kDefaultSlotCount = 256;
/// Workers of a workgroup by default.
inline constexpr Word kDefaultWorkgroupSize = 256;

/// The status word of a slot. Memory may hold any other value; such a status is `unknown`, and no
/// worker touches the slot.
enum class SlotStatus : Word {
  empty = 0,      ///< free
  published = 1,  ///< filled by the host, not yet claimed
  claimed = 2,    ///< a worker runs it
  done = 3,       ///< complete; the host may publish here again
  wait_io = 4,    ///< waits for an IO request
  yield = 5,      ///< released its worker, runs again from its args
  requeue = 6,    ///< asked to run again later, or its IO completed
  fault = 7,      ///< ended with a fault code; the host may reset it
};

/// Number of known statuses; they are 0 … kSlotStatusCount − 1.
inline constexpr Word kSlotStatusCount = 8;

/// Whether the value is one of the eight statuses.
EVERKERNEL_HOST_DEVICE constexpr bool is_known(SlotStatus status) {
  return static_cast<Word>(status) < kSlotStatusCount;
}

/// Whether the host may publish into a slot in this state.
EVERKERNEL_HOST_DEVICE constexpr bool is_publishable(SlotStatus status) {
  return status == SlotStatus::empty || status == SlotStatus::done;
}

/// Whether a worker may claim a slot in this state.
EVERKERNEL_HOST_DEVICE constexpr bool is_claimable(SlotStatus status) {
  return status == SlotStatus::published || status == SlotStatus::yield ||
         status == SlotStatus::requeue;
}

/// Whether the item in the slot has ended.
EVERKERNEL_HOST_DEVICE constexpr bool is_terminal(SlotStatus status) {
  return status == SlotStatus::done || status == SlotStatus::fault;
}

/// Whether the item in the slot has been published and has not ended.
EVERKERNEL_HOST_DEVICE constexpr bool is_active(SlotStatus status) {
  return is_claimable(status) || status == SlotStatus::claimed || status == SlotStatus::wait_io;
}

/// Whether a host may cancel a slot in this state while no kernel runs on the ring.
EVERKERNEL_HOST_DEVICE constexpr bool is_cancellable(SlotStatus status) {
  return is_claimable(status) || status == SlotStatus::wait_io;
}

/// The status in snake case, `unknown` for any other value.
EVERKERNEL_HOST_DEVICE constexpr const char* status_name(SlotStatus status) {
  switch (status) {
    case SlotStatus::empty:
      return "empty";
    case SlotStatus::published:
      return "published";
    case SlotStatus::claimed:
      return "claimed";
    case SlotStatus::done:
      return "done";
    case SlotStatus::wait_io:
      return "wait_io";
    case SlotStatus::yield:
      return "yield";
    case SlotStatus::requeue:
      return "requeue";
    case SlotStatus::fault:
      return "fault";
  }
  return "unknown";
}

/// Scheduling class of a slot, most urgent first.
enum class Priority : Word {
  critical = 0,  ///< before everything else
  high = 1,      ///< before ordinary work
  normal = 2,    ///< the default of publishers
  low = 3,       ///< after ordinary work
  idle = 4,      ///< if no other slot is published
};

/// Number of priorities; they are 0 … kPriorityCount − 1.
inline constexpr Word kPriorityCount = 5;

/// The priority in snake case, `unknown` for any other value.
EVERKERNEL_HOST_DEVICE constexpr const char* priority_name(Word priority) {
  switch (Priority{priority}) {
    case Priority::critical:
      return "critical";
    case Priority::high:
      return "high";
    case Priority::normal:
      return "normal";
    case Priority::low:
      return "low";
    case Priority::idle:
      return "idle";
  }
  return "unknown";
}

/// The priority half (bits 15..0) of a slot's priority word.
EVERKERNEL_HOST_DEVICE constexpr Word priority_of(Word priority_word) {
  return priority_word & 0xFFFFu;
}

/// The fault half (bits 31..16) of a slot's priority word; 0 unless the status is FAULT.
EVERKERNEL_HOST_DEVICE constexpr Word fault_code_of(Word priority_word) {
  return priority_word >> 16;
}

/// The priority word of a slot with this priority and fault code, 16 bits each.
EVERKERNEL_HOST_DEVICE constexpr Word priority_word(Word priority, Word fault_code) {
  return (fault_code << 16) | (priority & 0xFFFFu);
}

/// One work slot, as it lies in the ring.
struct alignas(kSlotBytes) Slot {
  SlotStatus status;     ///< written last by the host, claimed by workers
  Word opcode;           ///< a built-in operation (opcode.hpp) or a handler
  Word tenant;           ///< the owner of the item, 0..28; 0 is the operator
  Word priority;         ///< priority_word(priority, fault code)
  Word args[kSlotArgs];  ///< operands; a handler's memory across yield and requeue
};

/// One entry of a work queue; becomes opcode, arg0, arg1 and arg2 of a slot.
struct WorkItem {
  Word op_handle;      ///< opcode
  Word input_handle;   ///< buffer the item reads
  Word output_handle;  ///< buffer the item writes
  Word param;          ///< operand of the handler

  /// Equal in all four words.
  EVERKERNEL_HOST_DEVICE friend constexpr bool operator==(const WorkItem& x, const WorkItem& y) {
    return x.op_handle == y.op_handle && x.input_handle == y.input_handle &&
           x.output_handle == y.output_handle && x.param == y.param;
  }
};

/// Bytes in a work item.
inline constexpr Word kWorkItemBytes = 16;

static_assert(sizeof(Slot) == kSlotBytes && alignof(Slot) == kSlotBytes);
static_assert(sizeof(WorkItem) == kWorkItemBytes && alignof(WorkItem) == kWordBytes);
static_assert(kSlotFirstArg + kSlotArgs == kSlotWords);
#if !defined(__CUDACC_RTC__)
static_assert(kIsWirePod<Slot> && kIsWirePod<WorkItem>);
static_assert(offsetof(Slot, status) == 0 && offsetof(Slot, opcode) == 4 &&
              offsetof(Slot, tenant) == 8 && offsetof(Slot, priority) == 12 &&
              offsetof(Slot, args) == kSlotFirstArg * kWordBytes);
static_assert(offsetof(WorkItem, op_handle) == 0 && offsetof(WorkItem, input_handle) == 4 &&
              offsetof(WorkItem, output_handle) == 8 && offsetof(WorkItem, param) == 12);
#endif

}  // namespace everkernel::abi
