// A visit of a crew to slots: each lane claims its slot (admission.cuh), the operations run
// (run_operations.cuh), and the slots get their new status. The drain kernel calls visit().
#pragma once

#include "backend/cuda/device/admission.cuh"
#include "backend/cuda/device/crew.cuh"
#include "backend/cuda/device/packed.cuh"
#include "backend/cuda/device/run_operations.cuh"
#include "backend/cuda/device/submission.cuh"
#include "backend/cuda/device/visitor.cuh"
#include "everkernel/abi/control.hpp"
#include "everkernel/abi/opcode.hpp"
#include "everkernel/abi/slot.hpp"
#include "jit/device/item.cuh"
#include "jit/device/types.hpp"

namespace everkernel::device {

using abi::Opcode;
using abi::SlotStatus;

EK_DEVICE SlotStatus status_of(Ending ending) {
  switch (ending) {
    case Ending::done:
      return SlotStatus::done;
    case Ending::yield:
      return SlotStatus::yield;
    case Ending::requeue:
      return SlotStatus::requeue;
    case Ending::wait_io:
      return SlotStatus::wait_io;
    case Ending::fault:
      break;
  }
  return SlotStatus::fault;
}

/// Advances to the next operation of a packed slot, unless the last one ended as FAULT; returns
/// whether there is one.
EK_DEVICE bool next_operation(const LaunchedSubmission& submission, Visitor& visitor,
                              Word& result) {
  const auto ending = static_cast<Ending>(result & 0xFF);
  if (ending == Ending::fault) return false;
  const bool has_ended = ending == Ending::done;
  if (has_ended && visitor.begun != 0 && visitor.operation < abi::kControlMetrics.count) {
    submission.control().add_relaxed(abi::kControlMetrics.first + visitor.operation, 1);
  }
  // The check of the payload refused handlers that can leave, so that any other ending means that
  // the host has changed the slot.
  const Word next =
      has_ended ? packed_operation(submission.slot(visitor.slot), visitor.begun) : kUnsound;
  if (next == kUnsound) result = fault_of(FaultCode::bad_packed_payload);
  if (next == kUnsound || next == kNoOperation) return false;
  ++visitor.begun;
  visitor.operation = next & 0xFF;
  visitor.args = next >> 8;
  visitor.kind = Kind::unknown;
  return true;
}

/// Stores the new status of a claimed slot and returns the share of its tenant's quota.
EK_DEVICE void finish_visit(const LaunchedSubmission& submission, Visitor& visitor, Word result,
                            bool is_fence_open) {
  const Ending ending{result & 0xFF};
  SlotStatus status = SlotStatus::requeue;
  visitor.visit = Visit::deferred;
  if (is_fence_open) {
    status = SlotStatus::yield;
    // The fence held a share of the quota that the item of another lane may have needed: `deferred`
    // makes the crews visit the queue again. At the next visit the fence is checked before it takes
    // a share (is_worth_claiming).
    if (!visitor.is_counted) visitor.visit = Visit::stuck;
  } else if (result == kPutBack) {
    visitor.note = kNeedsIoSlot;
  } else {
    visitor.has_claimed = true;
    if (!is(visitor.opcode, Opcode::batch_fence)) visitor.note = 0;
    status = status_of(ending);
    visitor.is_done = ending == Ending::done;
    visitor.is_faulted = ending == Ending::fault;
    if (abi::is_terminal(status)) visitor.visit = Visit::ended;
    if (visitor.is_faulted) store_fault(submission, visitor, result >> 8);
  }
  submission.set_status(visitor.slot, status);
  if (visitor.is_counted) submission.in_flight(visitor.tenant).add_relaxed(0, 0u - 1);
}

/// Each lane of a crew visits a slot, or none. run_operations() contains all handlers and is
/// compiled in once: the loop calls it again as long as a packed slot of the crew has another
/// operation.
EK_DEVICE void visit(const LaunchedSubmission& submission, const Crew& crew, Visitor& visitor,
                     bool is_first_look) {
  if (visitor.slot != kNoSlot) admit(submission, visitor, is_first_look);
  Word result = kDone;
  bool is_fence_open = false;
  bool is_packed = visitor.holds_slot && is(visitor.opcode, Opcode::packed_slot);
  do {
    if (is_packed) is_packed = next_operation(submission, visitor, result);
    if (visitor.kind == Kind::unknown) visitor.kind = kind_of(visitor);
    run_operations(submission, visitor, result, is_fence_open);
  } while (crew.any(is_packed));
  if (visitor.holds_slot) finish_visit(submission, visitor, result, is_fence_open);
  __syncwarp();
}

}  // namespace everkernel::device
