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

/// Looks after which the crew that looks pulls portions that are left: perhaps all other crews run
/// long items.
inline constexpr Word kQuietLooks = 1024;
/// Times in a row that a crew which serves one priority alone has to find that nobody pulls.
inline constexpr Word kLeftPolls = 8;
/// Portions of one queue in a row after which a crew looks what else there is.
inline constexpr Word kPullsInARow = 16;

/// A crew that pulls portions of stretches.
class LivePulling : protected LiveTaking {
 protected:
  using LiveTaking::LiveTaking;

  /// Whether the crew that looks has to see whether portions are left that no other crew pulls.
  EK_DEVICE bool must_pull() {
    if (!has_streams_ || look_count_ - quiet_since_ < kQuietLooks) return false;
    quiet_since_ = look_count_;
    return true;
  }

  /// Pulls a portion of a stretch, if there is one, and takes its items.
  EK_DEVICE bool pull() {
    if (!has_streams_) return false;
    LiveQueueRow* row = nullptr;
    bool may_pull = false;
    if (is_looking_) {
      row = lane_index() == first_lane() ? window_.row : nullptr;
      may_pull = row != nullptr;
    } else if (const Word place = StreamBoard{shared_.board}.load(lane_index(), epoch_)) {
      row = load_pointer(queues_ + place - 1);
      const Word priority = load_field(&row->priority);
      may_pull = priority >= first_level_ && priority < end_level_;
    }
    const bool has_more = may_pull && Stretches{row}.has_more();
    __syncwarp();
    const Word lanes = __ballot_sync(kAllLanes, has_more);
    has_seen_more_ = lanes != 0;
    if (lanes == 0) return false;
    if (is_home() && !is_looking_ && !is_left_to_home(row, lowest_lane(lanes))) return false;
    turn_ = (turn_ + crew_index()) % kWarpLanes;
    const Word lane = in_turn(lanes);
    row =
        reinterpret_cast<LiveQueueRow*>(__shfl_sync(kAllLanes, reinterpret_cast<Wide>(row), lane));
    portion_ = {};
    if (!pull_from(row)) return false;
    leave_for_portion(row);
    return take_portion();
  }
  /// Whether nobody has pulled the portions of that lane's queue for a while. A crew that serves
  /// one priority alone pulls only then: while it pulls, nobody looks as soon as the crew that
  /// looks takes a long item, and every crew that serves all priorities may be away with portions.
  EK_DEVICE bool is_left_to_home(LiveQueueRow* row, Word lane) {
    const Wide claim = lane_index() == lane ? Stretches{row}.load_claim() : 0;
    const Wide seen = __shfl_sync(kAllLanes, claim, lane);
    left_polls_ = seen == left_claim_ ? left_polls_ + 1 : 0;
    left_claim_ = seen;
    return left_polls_ >= kLeftPolls;
  }
  /// Pulls the next portion of the same queue, if items of the last one were short and there are no
  /// new orders.
  EK_DEVICE bool pull_again() {
    if (is_home() || !may_pull_again_ || ++pulls_ % kPullsInARow == 0) return false;
    if (is_needed_to_look()) return false;  // the crew that looked runs a long item
    return pull_from(window_.row) && take_portion();
  }
  EK_DEVICE void stop_pulling() {
    is_pulling_ = false;
    portion_.count = 0;
    store_seat(0);
    fence_all();  // the host sees this seat before the loads of the next look
  }

  EK_DEVICE bool pull_from(LiveQueueRow* row) {
    if (lane_index() == 0) Stretches{row}.pull(portion_);
    __syncwarp();
    portion_.first = __shfl_sync(kAllLanes, portion_.first, 0);
    portion_.count = __shfl_sync(kAllLanes, portion_.count, 0);
    return portion_.count != 0;
  }
  EK_DEVICE void leave_for_portion(LiveQueueRow* row) {
    is_pulling_ = true;
    window_ = load_queue(row);
    if (is_looking_) {
      leave_looking_for(window_.number);
    } else {
      store_seat(window_.number);
    }
    width_ = kWarpLanes;
    lanes_each_ = 1;
    lanes_shift_ = 0;
    streaming_ = 0;
    behind_ = lane_index();
    note_tenants(runner_.control().load_relaxed(abi::kControlTenantBase.first));
  }

  /// Takes the items of a portion, up to the first entry that is not there; gives back the rest.
  EK_DEVICE bool take_portion() {
    LiveQueueRow* const row = window_.row;
    reach_ = portion_.count;
    head_ = portion_.first;
    LiveLook look;
    begin_look(look, reach_);
    const Word lap = abi::lap_bit(head_ + behind_, window_.capacity);
    const bool is_there = lane_index() < portion_.count && is_entry_there(look, lap);
    const bool has_news = look.orders != orders_ || look.shutdown != 0;
    if (look.tenant_base != tenant_base_) note_tenants(look.tenant_base);  // for the next portion
    const Word row_of = row_length(__ballot_sync(kAllLanes, is_there));
    const bool is_mine = behind_ < row_of;
    read_entry(window_, head_ + behind_, look.quads);
    takes_shorts_ = !__any_sync(kAllLanes, is_mine && !item_.is_short);
    may_pull_again_ = takes_shorts_ && !__any_sync(kAllLanes, has_news);
    const Word takers = take_quota(__ballot_sync(kAllLanes, is_mine), look.quota);
    holds_ = (takers >> lane_index() & 1) != 0;
    if (!holds_ && lane_index() < portion_.count) give_back(row, is_ended(look.ended, lap ^ 1));
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

  /// Lets a ticket of a portion wait until its entry is there, or its tenant may run. If its place
  /// is not free, the producer has reserved more than the queue holds: the ticket never ends.
  EK_DEVICE void give_back(LiveQueueRow* row, bool is_free) const {
    if (!is_free) return;
    const Word place = abi::place_of(head_ + behind_, window_.capacity);
    Word* const slot = load_pointer(&row->slots) + Wide{place} * abi::kSlotWords;
    one_word(slot).store_relaxed(0, static_cast<Word>(SlotStatus::published));
    WaitingBits{row, window_.capacity}.set(place);
  }

  // The portion of a stretch that is being run.
  Portion portion_;
  bool has_seen_more_ = false;   // there were portions to pull, when this crew looked for some
  bool is_pulling_ = false;      // the seat names the queue of the portion
  bool may_pull_again_ = false;  // another one of the same queue may follow
  Word pulls_ = 0;
  // Of a crew that serves one priority alone: the claim that it saw last, and how often in a row.
  Wide left_claim_ = 0;
  Word left_polls_ = 0;
  Word alone_ = 0;          // lanes of its items that run one by one
  Word alone_counted_ = 0;  // those that hold a share of their tenant's quota
};

}  // namespace everkernel::device
