// What a crew of the live kernel is on duty for. Crews work by orders that never change
// (backend/cuda/live_rows.hpp): a crew that sees new ones acknowledges them in its seat when it has
// nothing left of the old ones. Of the crews that serve a priority one looks, and the others wait
// for its lock.
//
// A kernel that is parked must end as a whole, because a crew that has left cannot come back. So
// crews that are told to gather count themselves in a word of the orders and wait. They leave if
// the count becomes that of all crews, and go on if somebody has called it off: a crew that sees
// newer orders first. Both are changes of one word, so all crews decide alike.
#pragma once

#include "backend/cuda/device/crew.cuh"
#include "backend/cuda/device/live_counts.cuh"
#include "backend/cuda/device/live_items.cuh"
#include "backend/cuda/device/live_marks.cuh"
#include "backend/cuda/device/live_memory.cuh"
#include "backend/cuda/live_rows.hpp"
#include "everkernel/abi/control.hpp"
#include "jit/device/lanes.cuh"
#include "jit/device/types.hpp"
#include "jit/device/words.cuh"

namespace everkernel::device {

/// Between two looks of a crew that waits for others to gather.
inline constexpr Word kGatherPause = 200;

/// What one crew is on duty for: the orders it works by, its seat, and whether it is the crew that
/// looks at a priority.
class LiveDuty {
 protected:
  EK_DEVICE explicit LiveDuty(const LiveParams& params)
      : params_(params), shared_(*params.shared), runner_(params), counts_(params) {
    const Word crew = crew_index();
    seat_ = params.seats + crew;
    looks_ = !kHasGroupHandlers || threadIdx.x < kWarpLanes;
    if (params.home_crews != 0 && crew < params.home_crews * abi::kPriorityCount) {
      first_level_ = crew / params.home_crews;
      end_level_ = first_level_ + 1;
    }
    if (looks_) marker().arrive();
  }

  /// Takes orders over, when nothing of the old ones is in use; false if crews are to leave.
  EK_DEVICE bool acknowledge(const LiveOrders* orders) {
    orders_ = orders;
    epoch_ = load_field(&orders->epoch);
    queues_ = load_pointer(&orders->queues);
    limits_ = load_pointer(&orders->limits);
    runner_.set_table(load_pointer(&orders->table), load_field(&orders->table_mask));
    const Leaving leaving{load_field(reinterpret_cast<const Word*>(&orders->leaving))};
    const bool is_news = static_cast<int>(epoch_ - params_.settled_epoch) > 0;
    must_gather_ = leaving == Leaving::gather && is_news;
    marker().acknowledge(epoch_);
    store_seat(0);
    return leaving != Leaving::leave;
  }

  EK_DEVICE LiveMarker marker() const { return {params_}; }

  /// Waits until every crew is here, when all of them leave; false if there are newer orders
  /// before, or SHUTDOWN is set. This crew holds nothing.
  EK_DEVICE bool wait_for_all() {
    const Words gathered = one_word(const_cast<Word*>(&orders_->gathered));
    Word count = 0;
    if (lane_index() == 0) {
      count = gathered.fetch_add_acq_rel(0, 1) + 1;
      if (count == params_.crew_count) one_word(&shared_.parked).store_relaxed(0, epoch_);
    }
    for (;;) {
      const bool is_over = same_orders() != orders_ || same_shut_down();
      if (lane_index() == 0) {
        count = gathered.load_acquire(0);
        if (is_over) count = call_off(gathered, count);
      }
      has_gathered_ = __shfl_sync(kAllLanes, count, 0) == params_.crew_count;
      if (has_gathered_ || is_over) return has_gathered_;
      sleep(kGatherPause);
    }
  }

  /// Whether crews look at one priority each.
  EK_DEVICE bool serves_one_level() const { return params_.home_crews != 0; }
  /// Whether this crew serves that priority alone.
  EK_DEVICE bool is_home() const { return end_level_ - first_level_ == 1; }

  /// Says what this crew is at. Counts of items that ended come before it.
  EK_DEVICE void store_seat(Word queue_number) const {
    __syncwarp();
    fence();
    if (lane_index() == 0) WideWord(seat_).store_relaxed(Wide{epoch_} << 32 | queue_number);
    __syncwarp();
  }

  /// The present orders, equal on all lanes.
  EK_DEVICE const LiveOrders* same_orders() const {
    const Wide orders = reinterpret_cast<Wide>(load_pointer(&shared_.orders));
    return reinterpret_cast<const LiveOrders*>(__shfl_sync(kAllLanes, orders, 0));
  }

  EK_DEVICE Word is_shut_down() const {
    return runner_.control().load_relaxed(abi::kControlShutdown.first);
  }
  /// The same, equal on all lanes.
  EK_DEVICE bool same_shut_down() const { return __shfl_sync(kAllLanes, is_shut_down(), 0) != 0; }

  /// The locks that this crew may take now, of priorities that have queues, and on their lanes
  /// where these queues are in the orders. Each of the first lanes looks at one lock.
  EK_DEVICE Word free_locks(Word& first, Word& end) const {
    const Word lane = lane_index();
    const bool is_mine = serves_one_level() ? lane >= first_level_ && lane < end_level_ : lane == 0;
    Word is_held = 1;
    if (is_mine) {
      first = load_field(orders_->level_begin + lane);
      end = load_field(orders_->level_begin +
                       (serves_one_level() ? lane + 1 : Word{abi::kPriorityCount}));
      is_held = load_field(&shared_.looking[lane].is_held);
    }
    __syncwarp();
    return __ballot_sync(kAllLanes, is_held == 0 && first != end);
  }
  /// Whether a crew that pulls portions is needed for looking.
  EK_DEVICE bool is_needed_to_look() const {
    Word first = 0, end = 0;
    return free_locks(first, end) != 0;
  }

  /// Takes the lock of a priority that has queues and at which nobody looks.
  EK_DEVICE bool take_lock() {
    Word first = 0, end = 0;
    const Word free = free_locks(first, end);
    if (free == 0) return false;
    level_ = lowest_lane(free);
    Word got = 0;
    if (lane_index() == 0) got = lock().claim(0, 0, 1) ? 1 : 0;
    if (__shfl_sync(kAllLanes, got, 0) == 0) return false;
    first_queue_ = __shfl_sync(kAllLanes, first, level_);
    end_queue_ = __shfl_sync(kAllLanes, end, level_);
    urgent_ = load_field(&shared_.looking[level_].urgent);
    turn_ = load_field(&shared_.looking[level_].turn);
    offered_ = load_field(&shared_.looking[level_].offered);
    is_looking_ = true;
    return true;
  }

  EK_DEVICE Words lock() const { return one_word(&shared_.looking[level_].is_held); }

  EK_DEVICE void stop_looking() {
    __syncwarp();
    fence();
    if (lane_index() == 0) store_lock();
    __syncwarp();
    is_looking_ = false;
  }
  /// Does both: the crew runs items of that queue, and another one may look.
  EK_DEVICE void leave_looking_for(Word queue_number) {
    __syncwarp();
    fence();
    if (lane_index() == 0) {
      WideWord(seat_).store_relaxed(Wide{epoch_} << 32 | queue_number);
      store_lock();
    }
    __syncwarp();
    is_looking_ = false;
  }

 private:
  /// Keeps crews from leaving, unless all have gathered; returns the word. One lane calls it.
  EK_DEVICE Word call_off(const Words& gathered, Word count) const {
    while (count < params_.crew_count) {
      const Word before = gathered.exchange_if(0, count, count | kCalledOff);
      if (before == count) return count | kCalledOff;
      count = before;
    }
    return count;
  }

  /// A fence comes before it, so that whoever takes the lock finds what this crew has stored.
  EK_DEVICE void store_lock() const {
    one_word(&shared_.looking[level_].urgent).store_relaxed(0, urgent_);
    one_word(&shared_.looking[level_].turn).store_relaxed(0, turn_);
    lock().store_relaxed(0, 0);
  }

 protected:
  const LiveParams& params_;
  LiveShared& shared_;
  LiveRunner runner_;
  LiveCounts counts_;
  Wide* seat_;
  bool looks_;  // of the warp that looks
  Word first_level_ = 0, end_level_ = abi::kPriorityCount;

  // The orders that were acknowledged.
  const LiveOrders* orders_ = nullptr;
  LiveQueueRow* const* queues_ = nullptr;
  const Wide* limits_ = nullptr;  // null: every entry may be taken
  Word epoch_ = 0;
  bool must_gather_ = false;
  bool has_gathered_ = false;  // this crew leaves together with all others

  // While this crew looks.
  bool is_looking_ = false;
  Word level_ = 0;
  Word first_queue_ = 0, end_queue_ = 0;
  Word turn_ = 0, urgent_ = 0;
  Word offered_ = 0;  // epoch of the orders whose open stretches are on the board
};

}  // namespace everkernel::device
