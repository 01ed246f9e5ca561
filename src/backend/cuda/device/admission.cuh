// The first half of a visit: decides whether a slot can run now, claims it and finds its handler.
// Slots that wait for IO continue here. visits.cuh has the second half.
#pragma once

#include "backend/cuda/device/builtins.cuh"
#include "backend/cuda/device/handlers.cuh"
#include "backend/cuda/device/io.cuh"
#include "backend/cuda/device/submission.cuh"
#include "backend/cuda/device/visitor.cuh"
#include "everkernel/abi/control.hpp"
#include "everkernel/abi/io_queue.hpp"
#include "everkernel/abi/opcode.hpp"
#include "everkernel/abi/slot.hpp"
#include "jit/device/types.hpp"
#include "jit/device/words.cuh"

namespace everkernel::device {

using abi::IoStatus;
using abi::Opcode;
using abi::SlotStatus;

/// Stores the fault code of a slot, before its status.
EK_DEVICE void store_fault(const LaunchedSubmission& submission, const Visitor& visitor,
                           Word code) {
  const Word word = abi::priority_word(abi::priority_of(visitor.priority_word), code);
  submission.slot(visitor.slot).store_relaxed(3, word);
}

/// Ends a slot as FAULT. The caller counts it.
EK_DEVICE void end_fault(const LaunchedSubmission& submission, Visitor& visitor, Word code) {
  store_fault(submission, visitor, code);
  submission.set_status(visitor.slot, SlotStatus::fault);
  visitor.is_faulted = true;
  visitor.visit = Visit::ended;
}

/// Ends a slot as DONE. The caller counts it.
EK_DEVICE void end_done(const LaunchedSubmission& submission, Visitor& visitor) {
  submission.set_status(visitor.slot, SlotStatus::done);
  visitor.is_done = true;
  visitor.visit = Visit::ended;
}

/// Visits a slot that waits for IO: continues or ends it if its request is answered.
EK_DEVICE void visit_waiting(const LaunchedSubmission& submission, Visitor& visitor) {
  const Words slot = submission.slot(visitor.slot);
  const Word io_slot = slot.load_relaxed(abi::kSlotFirstArg + abi::kIoSlotArg);
  const bool is_inside = io_slot < io_slot_count(submission);
  IoStatus answer = IoStatus::error;
  if (is_inside) answer = IoStatus{submission.io().load_acquire(io_status_word(io_slot))};
  if (!abi::is_complete(answer)) {
    visitor.visit = Visit::stuck;
    return;
  }
  if (!slot.claim(0, static_cast<Word>(SlotStatus::wait_io),
                  static_cast<Word>(SlotStatus::claimed))) {
    return;
  }
  visitor.opcode = slot.load_relaxed(1);
  visitor.tenant = slot.load_relaxed(2);
  visitor.priority_word = slot.load_relaxed(3);
  if (!is_inside) {
    return end_fault(submission, visitor, static_cast<Word>(FaultCode::index_out_of_range));
  }
  submission.io().store_release(io_status_word(io_slot), static_cast<Word>(IoStatus::empty));
  if (answer == IoStatus::error) {
    return end_fault(submission, visitor, static_cast<Word>(FaultCode::io_error));
  }
  if (is(visitor.opcode, Opcode::load_miss) && kPayload == kNoHandler) {
    return end_done(submission, visitor);
  }
  submission.set_status(visitor.slot, SlotStatus::requeue);
  visitor.visit = Visit::deferred;
}

/// Whether a queued slot could run now. The words may change until the slot is claimed; admit()
/// checks its own copy again behind the claim.
__device__ __noinline__ bool is_worth_claiming(SubmissionView submission, Word worker_count,
                                               Word index, Word note, Word found) {
  submission.assume_place();
  const Words slot = submission.slot(index);
  const Word tenant = slot.load_relaxed(2);
  const TenantStanding standing = submission.standing_of(tenant, submission.tenant_base());
  if (standing == TenantStanding::unknown) return true;  // the claim ends it as FAULT
  if (standing == TenantStanding::disabled) return false;
  const Word quota = submission.quota_of(tenant);
  if (quota < worker_count && submission.in_flight(tenant).load_relaxed(0) >= quota) return false;
  if ((note & kNeedsIoSlot) != 0 &&
      !has_free_io_slot(submission.io(),
                        WideWord(&submission.row.shared->prefetches).load_relaxed())) {
    return false;
  }
  const bool is_seen_fence = found == static_cast<Word>(SlotStatus::yield) &&
                             is(slot.load_relaxed(1), Opcode::batch_fence);
  if (!is_seen_fence) return true;
  // Only the slot that was open last time; run_fence() checks the others with all lanes.
  const Word count = slot.load_relaxed(abi::kSlotFirstArg);
  if (count > index || note >= count) return true;
  const SlotStatus first{submission.slot(index - count + note).load_relaxed(0)};
  return first == SlotStatus::empty || abi::is_terminal(first);
}

/// Takes a share of the tenant's quota; returns whether one was left. A quota that all workers
/// together cannot reach is not counted.
EK_DEVICE bool take_quota(const LaunchedSubmission& submission, Visitor& visitor, Word quota) {
  visitor.is_counted = quota < submission.context.worker_count;
  if (!visitor.is_counted) return true;
  const Words in_flight = submission.in_flight(visitor.tenant);
  if (in_flight.fetch_add_relaxed(0, 1) < quota) return true;
  in_flight.add_relaxed(0, 0u - 1);
  visitor.is_counted = false;
  return false;
}

/// How the operation of the visitor runs; sets its handler.
EK_DEVICE Kind kind_of(Visitor& visitor) {
  const bool is_packed = visitor.begun != 0;
  if (is(visitor.operation, Opcode::batch_fence)) return Kind::fence;
  visitor.handler = kNoHandler;
  if (kPayload != kNoHandler && !is(visitor.operation, Opcode::shutdown) && !is_packed) {
    visitor.handler = kPayload;
  } else if (is(visitor.operation, Opcode::memcpy) && !is_packed) {
    return Kind::copy;
  } else if (!is_plain_builtin(visitor.operation)) {
    visitor.handler = find_handler(visitor.operation);
  }
  if (visitor.handler == kNoHandler) return Kind::lane;
  const Word traits = traits_of(visitor.handler);
  if (kHasWarpHandlers && (traits & kTraitWarp) != 0) return Kind::warp;
  if (kHasGroupHandlers && (traits & kTraitGroup) != 0) return Kind::group;
  return Kind::lane;
}

/// Claims the slot of the visitor if it can run.
EK_DEVICE void admit(const LaunchedSubmission& submission, Visitor& visitor, bool is_first_look) {
  const Words slot = submission.slot(visitor.slot);
  visitor.found = slot.load_relaxed(0);
  const SlotStatus found{visitor.found};
  if (!abi::is_claimable(found)) {
    if (found == SlotStatus::wait_io) return visit_waiting(submission, visitor);
    visitor.was_claimed = is_first_look && found == SlotStatus::claimed;
    return;
  }
  if (!is_first_look && !is_worth_claiming(submission, submission.context.worker_count,
                                           visitor.slot, visitor.note, visitor.found)) {
    visitor.visit = Visit::stuck;
    return;
  }
  if (!slot.claim(0, visitor.found, static_cast<Word>(SlotStatus::claimed))) return;
  // These loads do not depend on each other and are issued together: all take the time of one.
  const Quad head = load_quad(submission.slot_words(visitor.slot));
  const Word base = submission.tenant_base();
  visitor.opcode = head.b;
  visitor.tenant = head.c;
  visitor.priority_word = head.d;
  const Word quota =
      visitor.tenant < abi::kControlTenantQuotas.count ? submission.quota_of(visitor.tenant) : 0;
  const TenantStanding standing = submission.standing_of(visitor.tenant, base);
  if (standing == TenantStanding::unknown) {
    return end_fault(submission, visitor, static_cast<Word>(FaultCode::tenant_out_of_range));
  }
  if (standing == TenantStanding::disabled || !take_quota(submission, visitor, quota)) {
    submission.set_status(visitor.slot, found);
    visitor.visit = Visit::stuck;
    return;
  }
  visitor.holds_slot = true;
  visitor.operation = visitor.opcode;
  visitor.kind = is(visitor.opcode, Opcode::packed_slot) ? Kind::nothing : Kind::unknown;
}

}  // namespace everkernel::device
