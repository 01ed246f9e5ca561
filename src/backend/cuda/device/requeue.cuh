// The queue of slots that have not ended and must be visited again: yields, open fences, tenants
// without quota, waits for IO. The host may drain a queue again by a launch over its cells.
#pragma once

#include "backend/cuda/launch_rows.hpp"
#include "jit/device/lanes.cuh"
#include "jit/device/types.hpp"
#include "jit/device/words.cuh"

namespace everkernel::device {

/// A first-in first-out queue for any number of crews. A cell holds a tag and a slot. At lap n of
/// the queue the tag of a free cell is 2n (any tag at lap 0), that of a cell with a slot 2n + 1.
/// Tags continue from launch to launch, so that cells are never cleared. There is a cell for every
/// slot, and a slot is in the queue at most once.
struct Queue {
  const Submission& row;
  Word partition;

  EK_DEVICE WideWord cell(Wide position) const {
    const Wide first = Wide{partition} * (Wide{row.cell_mask} + 1);
    return WideWord(row.cells + first + (position & row.cell_mask));
  }
  EK_DEVICE Word free_tag(Wide position) const {
    return row.tag_base + 2 * static_cast<Word>(position >> __popc(row.cell_mask));
  }
  EK_DEVICE WideWord head() const { return WideWord(row.shared->head + partition); }
  EK_DEVICE WideWord tail() const { return WideWord(row.shared->tail + partition); }
  /// The number of slots; other crews may change it at any time.
  EK_DEVICE Wide size() const {
    const Wide first = head().load_relaxed();
    const Wide end = tail().load_relaxed();
    return end > first ? end - first : 0;
  }

  EK_DEVICE void put(Wide position, Word slot, Word note) const {
    const Word tag = free_tag(position);
    const bool is_first_lap = position <= row.cell_mask;
    while (!is_first_lap && static_cast<Word>(cell(position).load_acquire() >> 32) != tag) {
      sleep(100);  // the crew that took the slot of the previous lap has not read it yet
    }
    one_word(row.notes + slot).store_relaxed(0, note);
    cell(position).store_release(Wide{tag + 1} << 32 | slot);
  }
  EK_DEVICE void take(Wide position, Word& slot, Word& note) const {
    const Word tag = free_tag(position) + 1;
    Wide value = cell(position).load_acquire();
    while (static_cast<Word>(value >> 32) != tag) {
      sleep(100);  // the crew that got this position has not filled it yet
      value = cell(position).load_acquire();
    }
    slot = static_cast<Word>(value);
    note = one_word(row.notes + slot).load_relaxed(0);
    cell(position).store_release(Wide{tag + 1} << 32);
  }

  /// Adds the slots of the lanes of a warp that have one; returns whether any has.
  EK_DEVICE bool push(bool has_slot, Word slot, Word note) const {
    const Word mask = __ballot_sync(kAllLanes, has_slot);
    if (mask == 0) return false;
    const Word lane = lane_index();
    Wide first = 0;
    if (lane == 0) first = tail().fetch_add_relaxed(static_cast<Wide>(__popc(mask)));
    first = __shfl_sync(kAllLanes, first, 0);
    if (has_slot) put(first + rank_of_lane(mask), slot, note);
    __syncwarp();
    return true;
  }
  /// Takes up to `most` positions for the crew and returns their number. Only the leader calls it.
  EK_DEVICE Word reserve(Word most, Wide& first) const {
    first = head().load_relaxed();
    for (;;) {
      const Wide end = tail().load_relaxed();
      if (end <= first) return 0;
      const Wide count = end - first < most ? end - first : most;
      if (head().exchange_if(first, first + count)) return static_cast<Word>(count);
      first = head().load_relaxed();
    }
  }
};

}  // namespace everkernel::device
