// Items of live queues that have not ended: they yielded, wait for IO, or are a fence that is not
// ready. Each lies in the slot of its place, and a bit says so. live_kernel.cuh visits them.
#pragma once

#include "backend/cuda/device/live_items.cuh"
#include "backend/cuda/live_rows.hpp"
#include "everkernel/abi/io_queue.hpp"
#include "everkernel/abi/slot.hpp"
#include "jit/device/lanes.cuh"
#include "jit/device/types.hpp"
#include "jit/device/words.cuh"

namespace everkernel::device {

using abi::IoStatus;
using abi::SlotStatus;

inline constexpr Word kBitsPerWord = 32;

/// The status of an item whose run ended in this way without ending the item.
EK_DEVICE SlotStatus waiting_status(Word result) {
  const Ending ending{result & 0xFF};
  if (result == kPutBack || ending == Ending::requeue) return SlotStatus::requeue;
  return ending == Ending::yield ? SlotStatus::yield : SlotStatus::wait_io;
}

/// The slot of an item's place.
EK_DEVICE Words slot_of(const LiveItem& item) {
  Word* const slots = load_pointer(&item.queue.row->slots);
  return {slots + Wide{item.place()} * abi::kSlotWords, abi::kSlotWords};
}

EK_DEVICE void store_slot(const LiveItem& item, SlotStatus status) {
  const Words slot = slot_of(item);
  slot.store_relaxed(0, static_cast<Word>(status));
  slot.store_relaxed(1, item.opcode);
  slot.store_relaxed(2, item.queue.tenant);
  slot.store_relaxed(3, item.queue.priority);
#pragma unroll
  for (Word i = 0; i < abi::kSlotArgs; ++i)
    slot.store_relaxed(abi::kSlotFirstArg + i, item.args[i]);
}

/// Loads the opcode and args of an item from its slot; returns the status.
EK_DEVICE SlotStatus load_slot(LiveItem& item) {
  const Word* const words =
      load_pointer(&item.queue.row->slots) + Wide{item.place()} * abi::kSlotWords;
  const Quad head = load_quad(words);
  item.opcode = head.b;
#pragma unroll
  for (Word i = 0; i < abi::kSlotArgs; i += 4) {
    load_quad(words + abi::kSlotFirstArg + i, item.args + i);
  }
  return SlotStatus{head.a};
}

/// The bits of a queue's items that wait.
struct WaitingBits {
  LiveQueueRow* row;
  Word capacity;

  EK_DEVICE Words words() const {
    return {load_pointer(&row->waiting), (capacity + kBitsPerWord - 1) / kBitsPerWord};
  }
  EK_DEVICE Words count() const { return one_word(&row->waiting_count); }

  /// Releases what the caller has stored in the slot. A bit that is set counts once.
  EK_DEVICE void set(Word place) const {
    const Word bit = 1u << place % kBitsPerWord;
    fence();
    const Word before = words().atomic(place / kBitsPerWord).fetch_or(bit);
    if ((before & bit) == 0) count().add_release(0, 1);
  }
  /// Clears the bit of the next place, in turn; returns the place, or kNoSlot. Only the warp of the
  /// crew that looks calls it, with all lanes.
  EK_DEVICE Word take_next() const {
    const Word start = load_field(&row->next_waiting);
    Word found = find(start);
    if (found == kNoSlot && start != 0) found = find(0);
    if (found == kNoSlot) return kNoSlot;
    if (lane_index() == 0) {
      words().atomic(found / kBitsPerWord).bit_and(~(1u << found % kBitsPerWord));
      fence();  // what was stored in the slot before the bit is visible from here on
      count().fetch_add_acq_rel(0, 0u - 1);
      one_word(&row->next_waiting).store_relaxed(0, found + 1 == capacity ? 0 : found + 1);
    }
    __syncwarp();
    return found;
  }

 private:
  EK_DEVICE Word find(Word start) const {
    const Words bits = words();
    for (Word first = start / kBitsPerWord; first < bits.size(); first += kWarpLanes) {
      const Word at = first + lane_index();
      Word word = bits.load_relaxed_if(at < bits.size(), at);
      if (at == start / kBitsPerWord) word &= ~0u << start % kBitsPerWord;
      const Word lanes = __ballot_sync(kAllLanes, word != 0);
      if (lanes == 0) continue;
      const Word lane = lowest_lane(lanes);
      return (first + lane) * kBitsPerWord + lowest_lane(__shfl_sync(kAllLanes, word, lane));
    }
    return kNoSlot;
  }
};

/// Whether an item that waits for IO can go on. `has_ended` if it ends with that: `result` says
/// how.
EK_DEVICE bool end_io_wait(const LiveRunner& runner, LiveItem& item, bool& has_ended) {
  const Word io_slot = item.args[abi::kIoSlotArg];
  const bool is_inside = io_slot < runner.io().size() / abi::kIoSlotWords;
  IoStatus answer = IoStatus::error;
  if (is_inside) answer = IoStatus{runner.io().load_acquire(io_status_word(io_slot))};
  if (!abi::is_complete(answer)) return false;
  has_ended = true;
  item.is_claim = false;
  if (!is_inside) {
    item.result = fault_of(FaultCode::index_out_of_range);
    return true;
  }
  if (lane_index() == 0) {
    runner.io().store_release(io_status_word(io_slot), static_cast<Word>(IoStatus::empty));
  }
  __syncwarp();
  item.result = kDone;
  if (answer == IoStatus::error) {
    item.result = fault_of(FaultCode::io_error);
  } else if (!is(item.opcode, Opcode::load_miss) || kPayload != kNoHandler) {
    has_ended = false;
    item.is_claim = true;
  }
  return true;
}

}  // namespace everkernel::device
