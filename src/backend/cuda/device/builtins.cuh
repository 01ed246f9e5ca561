// The built-in operations: store, add, copy, fence and so on. Plain ones run on one lane; fences
// and copies on all lanes of a warp. run_operations.cuh calls this.
#pragma once

#include "backend/cuda/device/io.cuh"
#include "backend/cuda/device/items.cuh"
#include "backend/cuda/device/submission.cuh"
#include "backend/cuda/device/visitor.cuh"
#include "everkernel/abi/control.hpp"
#include "everkernel/abi/opcode.hpp"
#include "everkernel/abi/slot.hpp"
#include "jit/device/buffers.cuh"
#include "jit/device/lanes.cuh"
#include "jit/device/sinks.cuh"
#include "jit/device/turns.cuh"
#include "jit/device/types.hpp"
#include "jit/device/words.cuh"

namespace everkernel::device {

using abi::Opcode;
using abi::SlotStatus;

/// The control words with the rights of a tenant.
struct TenantControl {
  Words words;
  Word tenant;

  EK_DEVICE bool has(Wide index) const { return index < words.size(); }
  EK_DEVICE bool may_write(Wide index) const {
    return tenant == 0 || index >= abi::kControlFirstObservable;
  }
  EK_DEVICE Word write_fault(Wide index) const {
    if (!has(index)) return fault_of(FaultCode::index_out_of_range);
    return may_write(index) ? kDone : fault_of(FaultCode::permission_denied);
  }
};

EK_DEVICE constexpr Wide observable(Word index) {
  return Wide{abi::kControlFirstObservable} + index;
}

/// The fault of a MEMCPY, or kDone.
EK_DEVICE Word copy_fault(const TenantControl& control, Word source, Word target, Word count) {
  const Wide size = control.words.size();
  if (Wide{source} + count > size || Wide{target} + count > size) {
    return fault_of(FaultCode::index_out_of_range);
  }
  if (count != 0 && !control.may_write(target)) return fault_of(FaultCode::permission_denied);
  return kDone;
}

/// Copies words as memmove does: one word a lane at a time, all of them loaded before any is
/// stored. Returns how the operation ended.
template <class Lanes>
EK_DEVICE Word copy_words(const Lanes& lanes, Words words, Words abort, Word source, Word target,
                          Word count) {
  const bool is_upward = target <= source;
  Word left = count;
  for (Word turns = 1; left != 0; ++turns) {
    if (turns % kPollTurns == 0 && lanes.from_leader(abort.load_relaxed(0)) != 0) {
      return fault_of(FaultCode::deadline);
    }
    const bool is_mine = lanes.index() < left;
    const Word step = count - left + lanes.index();
    const Word at = is_upward ? step : count - 1 - step;
    Word word = 0;
    if (is_mine) word = words.load_relaxed(source + at);
    lanes.meet();
    if (is_mine) words.store_relaxed(target + at, word);
    lanes.meet();
    left -= lanes.count() < left ? lanes.count() : left;
  }
  return kDone;
}

EK_DEVICE Word run_dfa_step(const TenantControl& control, const BufferTable& buffers, Quad args) {
  const Buffer table = find_buffer(buffers, args.d, control.tenant);
  if (table.fault != 0) return fault_outcome(table.fault);
  if ((table.access & kAccessRead) == 0) return fault_of(FaultCode::permission_denied);
  const Wide index = Wide{args.a} * 256 + (args.b & 0xFF);
  if (index >= table.length || !control.has(observable(args.c))) {
    return fault_of(FaultCode::index_out_of_range);
  }
  control.words.store_relaxed(observable(args.c),
                              Words(table.words, table.length).load_relaxed(index));
  return kDone;
}

EK_DEVICE bool is_plain_builtin(Word opcode) {
  return opcode < static_cast<Word>(Opcode::batch_fence) || is(opcode, Opcode::shutdown);
}

/// Runs a plain built-in operation on one lane. All checks come before the first write.
EK_DEVICE Word run_plain_builtin(const TenantControl& control, const BufferTable& buffers,
                                 Words abort, Word opcode, Quad args) {
  const Words& words = control.words;
  Word fault = kDone;
  switch (Opcode{opcode}) {
    case Opcode::store_u32:
      fault = control.write_fault(args.b);
      if (fault == kDone) words.store_relaxed(args.b, args.a);
      return fault;
    case Opcode::atomic_add:
      fault = control.write_fault(args.b);
      if (fault == kDone) words.add_relaxed(args.b, args.a);
      return fault;
    case Opcode::load_u32:
      if (!control.has(args.a) || !control.has(observable(args.b))) {
        return fault_of(FaultCode::index_out_of_range);
      }
      words.store_relaxed(observable(args.b), words.load_relaxed(args.a));
      return kDone;
    case Opcode::compare_swap:
      if (!control.has(args.a) || !control.has(observable(args.a))) {
        return fault_of(FaultCode::index_out_of_range);
      }
      if (!control.may_write(args.a)) return fault_of(FaultCode::permission_denied);
      words.store_relaxed(observable(args.a), words.exchange_if(args.a, args.b, args.c));
      return kDone;
    case Opcode::memcpy:
      fault = copy_fault(control, args.a, args.b, args.c);
      return fault == kDone ? copy_words(OneLane(), words, abort, args.a, args.b, args.c) : fault;
    case Opcode::dfa_step:
      return run_dfa_step(control, buffers, args);
    case Opcode::shutdown:
      fault = control.write_fault(abi::kControlShutdown.first);
      if (fault == kDone) words.store_relaxed(abi::kControlShutdown.first, 1);
      return fault;
    default:
      return kDone;  // NOP
  }
}

/// Runs a built-in operation on one lane.
__device__ __noinline__ Word run_builtin(SubmissionView submission, BufferTable buffers,
                                         Words abort, Operation operation) {
  submission.assume_place();
  Word args[4];
  load_args(submission, operation, args);
  if (is_plain_builtin(operation.opcode)) {
    return run_plain_builtin({submission.control(), operation.tenant}, buffers, abort,
                             operation.opcode, {args[0], args[1], args[2], args[3]});
  }
  if (is(operation.opcode, Opcode::printf)) {
    append_record(submission.sinks(), operation.slot * abi::kSlotWords, args[0], args[1], args[2]);
    return kDone;
  }
  if (is(operation.opcode, Opcode::load_miss)) {
    return run_load_miss(submission, operation.slot, args[0], args[1] != 0);
  }
  return fault_of(FaultCode::unknown_opcode);
}

/// Whether all `count` slots before a fence have ended. All lanes of a warp call it; `checked` of
/// these slots are known to have ended, and it is updated. Returns false also if the drain must
/// stop.
EK_DEVICE bool is_fence_ready(const SubmissionView& submission, Words abort, Word slot, Word count,
                              Word& checked) {
  for (Word turns = 1; checked < count; checked += kWarpLanes, ++turns) {
    if (turns % kPollTurns == 0 && __shfl_sync(kAllLanes, abort.load_relaxed(0), 0) != 0) {
      return false;
    }
    const Word at = checked + lane_index();
    bool has_ended = true;
    if (at < count) {
      const SlotStatus status{submission.slot(slot - count + at).load_relaxed(0)};
      has_ended = status == SlotStatus::empty || abi::is_terminal(status);
    }
    const Word open = __ballot_sync(kAllLanes, !has_ended);
    if (open != 0) {
      checked += lowest_lane(open);
      return false;
    }
  }
  checked = count;
  fence();  // writes of the items before the fence are visible from here on
  __syncwarp();
  return true;
}

/// An arg of a slot, equal on all lanes of the warp even if the host changes it meanwhile.
EK_DEVICE Word same_arg(const SubmissionView& submission, Word slot, Word i) {
  return __shfl_sync(kAllLanes, submission.slot(slot).load_relaxed(abi::kSlotFirstArg + i), 0);
}

/// The state of a fence after a visit.
struct FenceLook {
  Word checked;  // slots before the fence that are known to have ended
  Word result;   // how the fence ended, unless is_open
  bool is_open;
};

/// All lanes of a warp check the slots before a fence, beginning behind the `checked` ones. If all
/// have ended, the owner of the fence stores its tag and advances the epoch.
__device__ __noinline__ FenceLook run_fence(SubmissionView submission, Words abort, Word slot,
                                            Word checked, bool owns) {
  submission.assume_place();
  const Word count = same_arg(submission, slot, 0);
  const Word tag = same_arg(submission, slot, 1);
  if (count > slot) return {0, fault_of(FaultCode::bad_fence), false};
  if (!is_fence_ready(submission, abort, slot, count, checked)) return {checked, kDone, true};
  if (owns) {
    if (submission.control().size() > abi::kControlFirstObservable) {
      submission.control().store_relaxed(abi::kControlFirstObservable, tag);
    }
    submission.control().add_release(abi::kControlEpoch.first, 1);
  }
  return {checked, kDone, false};
}

/// All lanes of a warp run a MEMCPY; returns how it ended.
__device__ __noinline__ Word run_copy(SubmissionView submission, Words abort, Word slot,
                                      Word tenant) {
  submission.assume_place();
  const Word source = same_arg(submission, slot, 0);
  const Word target = same_arg(submission, slot, 1);
  const Word count = same_arg(submission, slot, 2);
  const Word fault = copy_fault({submission.control(), tenant}, source, target, count);
  if (fault != kDone) return fault;
  return copy_words(WarpLanes(), submission.control(), abort, source, target, count);
}

}  // namespace everkernel::device
