// What a crew of the live kernel is on duty for. Crews work by orders that never change
// (backend/cuda/live_rows.hpp): a crew that sees new ones acknowledges them in its seat when it has
// nothing left of the old ones. Of the crews that serve a priority one looks, and the others wait
// for its lock.
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
    runner_.set_table(load_pointer(&orders->table), load_field(&orders->table_mask));
    const bool must_leave = load_field(&orders->must_leave) != 0;
    marker().acknowledge(epoch_);
    store_seat(0);
    return !must_leave;
  }

  EK_DEVICE LiveMarker marker() const { return {params_}; }

  EK_DEVICE bool serves_one_level() const { return params_.home_crews != 0; }

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

  /// Takes the lock of a priority that has queues and at which nobody looks. Each of the first
  /// lanes looks at one lock.
  EK_DEVICE bool take_lock() {
    const Word lane = lane_index();
    const bool is_mine = serves_one_level() ? lane >= first_level_ && lane < end_level_ : lane == 0;
    Word first = 0, end = 0, is_held = 1;
    if (is_mine) {
      first = load_field(orders_->level_begin + lane);
      end = load_field(orders_->level_begin +
                       (serves_one_level() ? lane + 1 : Word{abi::kPriorityCount}));
      is_held = load_field(&shared_.looking[lane].is_held);
    }
    __syncwarp();
    const Word free = __ballot_sync(kAllLanes, is_held == 0 && first != end);
    if (free == 0) return false;
    level_ = lowest_lane(free);
    Word got = 0;
    if (lane == 0) got = lock().claim(0, 0, 1) ? 1 : 0;
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
  Word epoch_ = 0;

  // While this crew looks.
  bool is_looking_ = false;
  Word level_ = 0;
  Word first_queue_ = 0, end_queue_ = 0;
  Word turn_ = 0, urgent_ = 0;
  Word offered_ = 0;  // epoch of the orders whose open stretches are on the board
};

}  // namespace everkernel::device
