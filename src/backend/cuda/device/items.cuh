// Items of slots: made before a handler runs, with the args of the slot; afterwards their args and
// IO requests are stored. run_operations.cuh and the kernels call this.
#pragma once

#include "backend/cuda/device/handlers.cuh"
#include "backend/cuda/device/io.cuh"
#include "backend/cuda/device/submission.cuh"
#include "backend/cuda/device/visitor.cuh"
#include "everkernel/abi/slot.hpp"
#include "jit/device/item.cuh"
#include "jit/device/lanes.cuh"
#include "jit/device/types.hpp"
#include "jit/device/words.cuh"

namespace everkernel::device {

/// An item without its args.
EK_DEVICE Item make_item(const LaunchedSubmission& submission, Word slot, Word opcode, Word tenant,
                         Word priority_word, Word handler) {
  Item item;
  item.opcode = opcode;
  item.tenant = tenant;
  item.priority = abi::priority_of(priority_word);
  item.slot = slot;
  item.number = slot;
  item.record = slot * abi::kSlotWords;
  const Word traits = traits_of(handler);
  item.lanes = 1;
  if ((traits & kTraitWarp) != 0) item.lanes = kWarpLanes;
  if ((traits & kTraitGroup) != 0) item.lanes = submission.context.group_lanes;
  item.control = submission.control();
  item.buffers = submission.buffers();
  item.fuel = static_cast<Fuel>(submission.context.fuel_per_item);
  item.abort = submission.abort();
  item.sinks = submission.sinks();
  return item;
}

EK_DEVICE Item make_item(const LaunchedSubmission& submission, const Operation& operation) {
  return make_item(submission, operation.slot, operation.opcode, operation.tenant,
                   operation.priority_word, operation.handler);
}

/// Word `i` of an operation's args; 0 behind the last. The access stays inside the slot even if the
/// host changes a packed slot meanwhile.
EK_DEVICE Word load_arg(const Words& slot, Word args, Word i) {
  const Word at = (args & 0xFF) + i;
  return slot.load_relaxed_if(i < args >> 8 && at < abi::kSlotWords, at);
}

/// Loads the first args of an operation.
template <Word kCount>
EK_DEVICE void load_args(const SubmissionView& submission, const Operation& operation,
                         Word (&args)[kCount]) {
  if (operation.args != kAllArgs) {
#pragma unroll
    for (Word i = 0; i < kCount; ++i) {
      args[i] = load_arg(submission.slot(operation.slot), operation.args, i);
    }
    return;
  }
#pragma unroll
  for (Word i = 0; i < kCount; i += 4) {
    load_quad(submission.slot_words(operation.slot) + abi::kSlotFirstArg + i, args + i);
  }
}

EK_DEVICE void store_args(const LaunchedSubmission& submission, Word slot, const Word* args) {
#pragma unroll
  for (Word i = 0; i < abi::kSlotArgs; ++i) {
    submission.slot(slot).store_relaxed(abi::kSlotFirstArg + i, args[i]);
  }
}

/// Completes a run of a handler: publishes its IO request and stores its args in the slot. If no IO
/// slot is free, the item runs again later as if this run had not happened. The args of a packed
/// slot are not stored.
EK_DEVICE Word after_handler(const LaunchedSubmission& submission, Word handler, bool is_packed,
                             const Item& item, Word result) {
  if (is_packed) return result;
  const bool waits =
      (kAnyTrait & kTraitCanLeave) != 0 && static_cast<Ending>(result & 0xFF) == Ending::wait_io;
  Word io_slot = kNoSlot;
  if (waits) {
    const abi::IoOp op = item.io.is_write != 0 ? abi::IoOp::write : abi::IoOp::read;
    io_slot = ask_io(submission, {static_cast<Word>(op), item.io.source, item.io.destination,
                                  item.io.block, item.io.byte_count, item.slot});
    if (io_slot == kNoSlot) return kPutBack;
  }
  const bool writes_args =
      (kAnyTrait & kTraitWritesArgs) != 0 && (traits_of(handler) & kTraitWritesArgs) != 0;
  if (writes_args) store_args(submission, item.slot, item.args);
  return waits ? wait_for(submission, item.slot, io_slot) : result;
}

}  // namespace everkernel::device
