// Items of live queues: an item lies in registers, from its entry to its outcome. It runs on one
// lane, or on all threads of its crew. live_kernel.cuh takes items and ends them.
#pragma once

#include "backend/cuda/device/admission.cuh"
#include "backend/cuda/device/builtins.cuh"
#include "backend/cuda/device/crew.cuh"
#include "backend/cuda/device/handlers.cuh"
#include "backend/cuda/device/io.cuh"
#include "backend/cuda/device/live_marks.cuh"
#include "backend/cuda/device/live_memory.cuh"
#include "backend/cuda/device/packed.cuh"
#include "backend/cuda/device/visitor.cuh"
#include "backend/cuda/live_rows.hpp"
#include "everkernel/abi/opcode.hpp"
#include "everkernel/abi/slot.hpp"
#include "jit/device/item.cuh"
#include "jit/device/lanes.cuh"
#include "jit/device/types.hpp"
#include "jit/device/words.cuh"

namespace everkernel::device {

/// An item that was taken.
struct LiveItem {
  LiveQueue queue = {};
  Wide ticket = 0;
  Word opcode = 0;
  Word args[abi::kSlotArgs] = {};
  // How it runs. Of a packed slot these are the operation's that runs next.
  Kind kind = Kind::nothing;
  Word operation = 0;
  Word handler = kNoHandler;
  bool is_short = true;
  bool is_counted = false;      // holds a share of its tenant's quota
  bool is_known_tenant = true;  // its tenant is in the table
  // How it ended.
  Word result = kDone;
  bool is_claim = true;  // the run counts as a claim

  EK_DEVICE Word place() const { return abi::place_of(ticket, queue.capacity); }
  EK_DEVICE Word lap() const { return abi::lap_bit(ticket, queue.capacity); }
};

/// Built-in operations above the opcodes that the control words count.
inline constexpr Word kLargeBuiltins = 4;

/// Whether an item of this kind and handler runs on one lane and ends soon by construction, so that
/// the crew that looks runs it beside others.
EK_DEVICE bool is_short_item(Kind kind, Word handler) {
  if (kind != Kind::lane) return kind == Kind::nothing;
  return handler == kNoHandler || (traits_of(handler) & kTraitLoops) == 0;
}

/// Finds out how an operation runs.
EK_DEVICE void classify(LiveItem& item, bool is_packed) {
  Visitor visitor;
  visitor.operation = item.operation;
  visitor.begun = is_packed ? 1 : 0;
  item.kind = kind_of(visitor);
  item.handler = visitor.handler;
  item.is_short = !is_packed && is_short_item(item.kind, item.handler);
}

/// Stores how a ticket ended. What its item wrote is visible by then.
EK_DEVICE void end_ticket(const LiveQueue& queue, Wide ticket, Word result, Word first, Word second,
                          Word third) {
  const Word place = abi::place_of(ticket, queue.capacity);
  const Word lap = abi::lap_bit(ticket, queue.capacity);
  const bool has_faulted = result != kDone;
  const Word code = result >> 8;
  const auto how = has_faulted ? OutcomeCode::fault : OutcomeCode::done;
  const Word byte = abi::outcome_byte(how, lap);
  store_ended(queue.ended, place, byte);  // first: the host may answer with the next lap's entry
  if (queue.has_results) {
    Quad quad{static_cast<Word>(how) | lap << 31, first, second, third};
    if (has_faulted) quad = {quad.a | (code & 0xFFFF) << 8, 0, 0, 0};
    store_completion(queue.outcomes, place, quad);
  } else {
    if (has_faulted) {
      Word* const codes = load_pointer(&queue.row->fault_codes);
      store_for_host(codes + place, abi::fault_word(code, lap));
    }
    store_outcome_byte(queue.outcomes, place, byte);
  }
}

/// Runs items. All threads of a crew call its functions together.
class LiveRunner {
 public:
  EK_DEVICE explicit LiveRunner(const LiveParams& params) : params_(params) {}

  EK_DEVICE void set_table(const void* entries, Word mask) {
    table_ = {static_cast<const BufferEntry*>(entries), mask};
  }

  EK_DEVICE Words control() const { return {params_.control, params_.control_words}; }
  EK_DEVICE Words io() const { return {params_.io_queue, params_.io_words}; }

  /// Runs the items of the lanes whose kind is `lane`. If the item is `single`, which all lanes of
  /// the warp have in equal copies, it may be of kind `warp`, `fence` or `copy` too.
  EK_DEVICE void run(LiveItem& item, bool is_single) const {
    if (item.kind == Kind::lane) item.result = run_on_lane(item);
    __syncwarp();
    if (!is_single) return;
    if (__any_sync(kAllLanes, item.kind == Kind::fence)) run_fence(item);
    if (__any_sync(kAllLanes, item.kind == Kind::copy)) {
      const Word source = item.args[0], target = item.args[1], count = item.args[2];
      item.result = copy_fault({control(), item.queue.tenant}, source, target, count);
      if (item.result == kDone) {
        item.result = copy_words(WarpLanes(), control(), abort_word(), source, target, count);
      }
      __syncwarp();
    }
    if constexpr (kHasWarpHandlers) {
      if (__any_sync(kAllLanes, item.kind == Kind::warp)) {
        Item frame = make_frame(item);
        const Word ended = run_warp_handler(item.handler, frame);
        __syncwarp();  // writes of all lanes come before the fence of the lane that ends the item
        item.result = after_handler(item, frame, ended, lane_index() == 0);
      }
    }
  }

  /// Runs a short handler from registers alone, and gives the item's results. One lane calls it.
  EK_DEVICE Word run_short(const LiveQueue& queue, Wide ticket, Word handler, Word opcode,
                           const Word (&args)[abi::kSlotArgs], Quad& results) const {
    if constexpr (!kHasShortHandlers) return kDone;
    Item frame = empty_frame(queue, ticket, opcode, table_);
#pragma unroll
    for (Word i = 0; i < abi::kSlotArgs; ++i) frame.args[i] = args[i];
    const Word ended = run_short_handler(handler, frame);
    const Word* const left = frame.args + abi::kFirstResultArg;
    results = {left[0], left[1], left[2], 0};
    return ended;
  }

  /// Runs an item of kind `group` on all threads of the block. Thread 0 has it.
  EK_DEVICE void run_group(LiveItem& item) const {
    if constexpr (kHasGroupHandlers) {
      __shared__ LiveItem board;
      __shared__ BufferTable table;
      __syncthreads();
      if (threadIdx.x == 0) {
        board = item;
        table = table_;
      }
      __syncthreads();
      if (board.kind != Kind::group) return;
      Item frame = make_frame(board, table);
      const Word ended = run_group_handler(board.handler, frame);
      __syncthreads();  // writes of all threads come before the fence of the one that ends the item
      if (threadIdx.x < kWarpLanes) {
        item.result = after_handler(item, frame, ended, threadIdx.x == 0);
      }
    }
  }

  /// Advances to the next operation of a packed slot, unless the last one ended as FAULT; returns
  /// whether there is one. The payload lies in the slot of the item's place.
  EK_DEVICE bool next_operation(LiveItem& item, Word& begun, const Words& slot) const {
    const auto ending = static_cast<Ending>(item.result & 0xFF);
    if (ending == Ending::fault) return false;
    const Word next = ending == Ending::done ? packed_operation(slot, begun) : kUnsound;
    if (next == kUnsound) item.result = fault_of(FaultCode::bad_packed_payload);
    if (next == kUnsound || next == kNoOperation) return false;
    ++begun;
    item.operation = next & 0xFF;
#pragma unroll
    for (Word i = 0; i < abi::kSlotArgs; ++i) item.args[i] = load_arg(slot, next >> 8, i);
    classify(item, true);
    return true;
  }

  /// Whether the tickets before a fence have ended, by the record of their places. All lanes of a
  /// warp call it.
  EK_DEVICE bool is_fence_ready(const LiveItem& item) const {
    const LiveQueue& queue = item.queue;
    const Word count = item.args[0], most = queue.capacity - 1;
    const Word reach = count < most ? count : most;
    for (Word first = 0; first < reach; first += kWarpLanes) {
      const Wide ticket = item.ticket - reach + first + lane_index();
      bool has_ended = true;
      if (ticket < item.ticket) {
        const Word place = abi::place_of(ticket, queue.capacity);
        has_ended = is_ended(load_ended(queue.ended, place), abi::lap_bit(ticket, queue.capacity));
        if (!has_ended) {
          fence();  // the head is read behind a record of the next lap
          // A place is taken again only when its ticket has ended.
          has_ended = ticket + queue.capacity < WideWord(&queue.row->head).load_relaxed();
        }
      }
      __syncwarp();
      if (!__all_sync(kAllLanes, has_ended)) return false;
    }
    fence();  // writes of the items before the fence are visible from here on
    __syncwarp();
    return true;
  }

 private:
  EK_DEVICE static Words abort_word() {
    return one_word(crew_notes().abort);
  }

  EK_DEVICE ItemSinks sinks() const {
    return {control(), {params_.debug_log, params_.debug_log_words}, nullptr, 0,
            nullptr,   one_word(&params_.shared->hits_dropped)};
  }

  EK_DEVICE Item make_frame(const LiveItem& item) const {
    return make_frame(item, table_);
  }
  EK_DEVICE Item make_frame(const LiveItem& item, const BufferTable& table) const {
    Item frame = empty_frame(item.queue, item.ticket, item.operation, table);
#pragma unroll
    for (Word i = 0; i < abi::kSlotArgs; ++i) frame.args[i] = item.args[i];
    const Word traits = traits_of(item.handler);
    if ((traits & kTraitWarp) != 0) frame.lanes = kWarpLanes;
    if ((traits & kTraitGroup) != 0) frame.lanes = params_.group_lanes;
    return frame;
  }
  /// A frame of scope lane without arguments.
  EK_DEVICE Item empty_frame(const LiveQueue& queue, Wide ticket, Word operation,
                             const BufferTable& table) const {
    Item frame;
#pragma unroll
    for (Word i = 0; i < abi::kSlotArgs; ++i) frame.args[i] = 0;
    const Word place = abi::place_of(ticket, queue.capacity);
    frame.opcode = operation;
    frame.tenant = queue.tenant;
    frame.priority = queue.priority;
    frame.slot = place;
    frame.number = place;
    frame.record = place * abi::kSlotWords;
    frame.lanes = 1;
    frame.control = control();
    frame.buffers = table;
    frame.fuel = static_cast<Fuel>(params_.fuel_per_item);
    frame.abort = abort_word();
    frame.sinks = sinks();
    return frame;
  }

  EK_DEVICE Word run_on_lane(LiveItem& item) const {
    if (item.handler == kNoHandler) return run_builtin(item);
    if constexpr (kHasLaneHandlers) {
      Item frame = make_frame(item);
      const Word ended = run_lane_handler(item.handler, frame);
      return after_handler(item, frame, ended, true);
    }
    return kDone;  // not reached: the module has no handler of scope lane
  }

  EK_DEVICE Word run_builtin(LiveItem& item) const {
    if (is(item.operation, Opcode::nop)) return kDone;
    if (is_plain_builtin(item.operation)) {
      return run_plain_builtin({control(), item.queue.tenant}, table_, abort_word(), item.operation,
                               {item.args[0], item.args[1], item.args[2], item.args[3]});
    }
    if (is(item.operation, Opcode::printf)) {
      append_record(sinks(), item.place() * abi::kSlotWords, item.args[0], item.args[1],
                    item.args[2]);
      return kDone;
    }
    if (!is(item.operation, Opcode::load_miss)) return fault_of(FaultCode::unknown_opcode);
    const Word resource = item.args[0];
    const Word io_slot =
        ask({static_cast<Word>(abi::IoOp::read), resource, resource, 0, 0, resource});
    if (io_slot == kNoSlot) return kPutBack;
    if (item.args[1] == 0) {
      item.args[abi::kIoSlotArg] = io_slot;
      return outcome(Ending::wait_io);
    }
    prefetches().or_relaxed(Wide{1} << io_slot);
    return kDone;
  }

  EK_DEVICE WideWord prefetches() const {
    return WideWord(&params_.shared->prefetches);
  }
  EK_DEVICE Word ask(const IoRequest& request) const {
    return ask_io(io(), prefetches(), request);
  }

  /// Completes a run of a handler: keeps its args and publishes its IO request. If no IO slot is
  /// free, the item runs again later as if this run had not happened. `owns` on one thread, whose
  /// result counts.
  EK_DEVICE Word after_handler(LiveItem& item, const Item& frame, Word ended, bool owns) const {
    const bool waits =
        (kAnyTrait & kTraitCanLeave) != 0 && static_cast<Ending>(ended & 0xFF) == Ending::wait_io;
    Word io_slot = kNoSlot;
    if (waits && owns) {
      const abi::IoOp op = frame.io.is_write != 0 ? abi::IoOp::write : abi::IoOp::read;
      io_slot = ask({static_cast<Word>(op), frame.io.source, frame.io.destination, frame.io.block,
                     frame.io.byte_count, frame.slot});
      if (io_slot == kNoSlot) return kPutBack;
    }
    if ((kAnyTrait & kTraitWritesArgs) != 0 && (traits_of(item.handler) & kTraitWritesArgs) != 0) {
#pragma unroll
      for (Word i = 0; i < abi::kSlotArgs; ++i) item.args[i] = frame.args[i];
    }
    if (waits) item.args[abi::kIoSlotArg] = io_slot;
    return ended;
  }

  EK_DEVICE void run_fence(LiveItem& item) const {
    item.result = fault_of(FaultCode::bad_fence);
    const Wide first_ticket = WideWord(&item.queue.row->first_ticket).load_relaxed();
    if (Wide{item.args[0]} > item.ticket - first_ticket) return;
    item.is_claim = is_fence_ready(item);
    item.result = item.is_claim ? kDone : outcome(Ending::yield);
    if (!item.is_claim || lane_index() != 0) return;
    if (control().size() > abi::kControlFirstObservable) {
      control().store_relaxed(abi::kControlFirstObservable, item.args[1]);
    }
    control().add_release(abi::kControlEpoch.first, 1);
  }

  const LiveParams& params_;
  BufferTable table_ = {};
};

}  // namespace everkernel::device
