// Pulling: a crew that waits takes 32 tickets of a stretch (live_streams.cuh) and runs them, one on
// each lane.
#pragma once

#include "backend/cuda/device/live_streams.cuh"
#include "backend/cuda/device/live_taking.cuh"
#include "backend/cuda/device/live_waiting.cuh"
#include "backend/cuda/live_rows.hpp"
#include "everkernel/abi/queue.hpp"
#include "everkernel/abi/slot.hpp"
#include "jit/device/lanes.cuh"
#include "jit/device/types.hpp"
#include "jit/device/words.cuh"

namespace everkernel::device {

/// Looks after which the crew that looks sees whether portions are left that nobody pulls.
inline constexpr Word kQuietLooks = 16;

/// A crew that pulls portions of stretches.
class LivePulling : protected LiveTaking {
 protected:
  using LiveTaking::LiveTaking;

  /// Whether the crew that looks has to see whether portions are left that no other crew pulls:
  /// perhaps all of them run long items.
  EK_DEVICE bool must_pull() { return has_streams_ && ++quiet_looks_ % kQuietLooks == 0; }

  /// Pulls a portion of a stretch, if there is one, and takes its items.
  EK_DEVICE bool pull() {
    if (!has_streams_) return false;
    const Word place = StreamBoard{shared_.board}.load(lane_index(), epoch_);
    LiveQueueRow* row = nullptr;
    bool has_more = false;
    if (place != 0) {
      row = load_pointer(queues_ + place - 1);
      const Word priority = load_field(&row->priority);
      has_more = priority >= first_level_ && priority < end_level_ && Stretches{row}.has_more();
    }
    __syncwarp();
    const Word lanes = __ballot_sync(kAllLanes, has_more);
    if (lanes == 0) return false;
    turn_ = (turn_ + crew_index()) % kWarpLanes;
    const Word lane = in_turn(lanes);
    row =
        reinterpret_cast<LiveQueueRow*>(__shfl_sync(kAllLanes, reinterpret_cast<Wide>(row), lane));
    Portion portion;
    if (lane_index() == 0) portion = Stretches{row}.pull();
    portion_.first = __shfl_sync(kAllLanes, portion.first, 0);
    portion_.count = __shfl_sync(kAllLanes, portion.count, 0);
    portion_.stretch = __shfl_sync(kAllLanes, portion.stretch, 0);
    if (portion_.count == 0) return false;
    portion_row_ = row;
    store_seat(load_field(&row->number));
    if (is_looking_) stop_looking();
    return take_portion(row);
  }

  /// Takes the items of a portion, up to the first entry that is not there; gives back the rest.
  EK_DEVICE bool take_portion(LiveQueueRow* row) {
    window_ = load_queue(row);
    width_ = kWarpLanes;
    lanes_each_ = 1;
    reach_ = portion_.count;
    behind_ = lane_index();
    head_ = portion_.first;
    note_tenants(runner_.control().load_relaxed(abi::kControlTenantBase.first));
    LiveLook look;
    begin_look(look);
    const Word lap = abi::lap_bit(head_ + behind_, window_.capacity);
    const bool is_there = lane_index() < portion_.count && is_entry_there(look, lap);
    const Word row_of = row_length(__ballot_sync(kAllLanes, is_there));
    const bool is_mine = behind_ < row_of;
    if (is_mine) read_entry(window_, head_ + behind_, look.quads);
    takes_shorts_ = !__any_sync(kAllLanes, is_mine && !item_.is_short);
    const Word takers = take_quota(__ballot_sync(kAllLanes, is_mine), look.quota);
    holds_ = (takers >> lane_index() & 1) != 0;
    if (!holds_ && lane_index() < portion_.count) give_back(row);
    const bool is_alone = holds_ && runs_together(item_);
    alone_ = __ballot_sync(kAllLanes, is_alone);
    alone_counted_ = __ballot_sync(kAllLanes, is_alone && item_.is_counted);
    if (is_alone) store_slot(item_, SlotStatus::claimed);
    holds_ = holds_ && !is_alone;
    if (!holds_) item_.kind = Kind::nothing;
    is_single_ = false;
    is_long_ = true;
    acquire_entries();
    __syncwarp();
    return true;
  }

  /// Takes the next item of the portion that all threads of the crew run together. It lies in its
  /// slot.
  EK_DEVICE void take_alone() {
    const Word lane = lowest_lane(alone_);
    alone_ &= alone_ - 1;
    item_ = {};
    item_.queue = window_;
    item_.ticket = portion_.first + lane;
    load_slot(item_);
    item_.operation = item_.opcode;
    item_.is_counted = (alone_counted_ >> lane & 1) != 0;
    if (!is(item_.opcode, Opcode::packed_slot)) classify(item_, false);
    is_single_ = true;
    holds_ = lane_index() == 0;
  }

  /// Lets a ticket of a portion wait until its entry is there, or its tenant may run.
  EK_DEVICE void give_back(LiveQueueRow* row) const {
    const Word place = abi::place_of(head_ + behind_, window_.capacity);
    Word* const slot = load_pointer(&row->slots) + Wide{place} * abi::kSlotWords;
    one_word(slot).store_relaxed(0, static_cast<Word>(SlotStatus::published));
    WaitingBits{row, window_.capacity}.set(place);
  }

  // The portion of a stretch that is being run.
  Portion portion_;
  Word alone_ = 0;          // lanes of its items that run one by one
  Word alone_counted_ = 0;  // those that hold a share of their tenant's quota
  LiveQueueRow* portion_row_ = nullptr;
};

}  // namespace everkernel::device
