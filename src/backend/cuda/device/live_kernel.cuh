// The live kernel: crews that look at queues in host memory and run what they find, until they are
// told to leave. A crew is put together from parts, each of which adds its job to the one before:
// what it is on duty for (live_duty.cuh), looking (live_window.cuh), the express way
// (live_express.cuh), taking (live_taking.cuh), pulling portions of streams (live_pulling.cuh), and
// visits of items that wait (live_visits.cuh). This file is the loop around them.
#pragma once

#include "backend/cuda/device/crew.cuh"
#include "backend/cuda/device/live_items.cuh"
#include "backend/cuda/device/live_memory.cuh"
#include "backend/cuda/device/live_streams.cuh"
#include "backend/cuda/device/live_visits.cuh"
#include "backend/cuda/device/live_waiting.cuh"
#include "backend/cuda/live_rows.hpp"
#include "jit/device/lanes.cuh"
#include "jit/device/types.hpp"
#include "jit/device/words.cuh"

namespace everkernel::device {

/// Looks without an item after which the time without one is measured, and looks between two
/// readings of the clock: reading it takes longer than some looks may.
inline constexpr Word kTimedLooks = 16;
/// From then on, nanoseconds without an item before pauses begin. With the looks before, about
/// 100 us have passed.
inline constexpr Word kEagerTime = 80'000;
/// By how much pauses grow each time, in nanoseconds.
inline constexpr Word kPauseStep = 125;
/// A pause is divided into parts of this length, between which the crew looks for new orders.
inline constexpr Word kPausePart = 1000;
/// Pauses of a crew that waits, in ns: they grow with every poll, and after that many polls they
/// grow further, because every poll takes time from other kernels on the multiprocessor.
inline constexpr Word kFirstPollPause = 100;
inline constexpr Word kKeenPollPause = 1600;
inline constexpr Word kKeenPolls = 64;
inline constexpr Word kHomePollPause = 3200;
inline constexpr Word kIdlePollPause = 6400;
/// Looks in a row whose items are taken before others get a turn.
inline constexpr Word kTakesInARow = 4;
/// Looks in a row after which the short way is left for once: so few that items which meet it do
/// not show in the p99.
inline constexpr Word kExpressLooks = 256;
/// Items of one look that may be those of threads which wait for them one by one.
inline constexpr Word kFewItems = 4;

/// A clock of this multiprocessor.
EK_DEVICE Word cycles() {
  Word now;
  asm volatile("mov.u32 %0, %%clock;" : "=r"(now));
  return now;
}

/// One crew of the live kernel.
class LiveCrew : LiveVisits {
 public:
  EK_DEVICE explicit LiveCrew(const LiveParams& params) : LiveVisits(params) {}

  EK_DEVICE void run() {
    if (looks_ && lane_index() == 0) WideWord(seat_).store_relaxed(kSeatArrived);
    fence_all();  // a host that does not see the seat has stored the orders that are read next
    for (;;) {
      Word has_items = 0;
      if (looks_) has_items = find_items() ? 1 : 0;
      if (has_items != 0 && is_long_) mark_items();
      if (crew_.from_leader(has_items) == 0) break;
      run_items();
      if (looks_) finish();
    }
    fence();
    const Wide left = has_gathered_ ? 0 : kSeatLeft;
    if (looks_ && lane_index() == 0) WideWord(seat_).store_relaxed(left);
  }

 private:
  /// LiveRunner::run() contains all handlers and is inlined: it has one call.
  EK_DEVICE void run_items() {
    Word begun = 0;
    bool is_packed = looks_ && is_single_ && is(item_.opcode, Opcode::packed_slot);
    do {
      if (is_packed) {
        is_packed = runner_.next_operation(item_, begun, slot_of(item_));
        const bool is_others = item_.kind == Kind::lane && lane_index() != 0;
        if (!is_packed || is_others) item_.kind = Kind::nothing;
      }
      if (looks_) runner_.run(item_, is_single_);
      runner_.run_group(item_);
      if (looks_ && is_single_) item_.result = __shfl_sync(kAllLanes, item_.result, 0);
      if (is_packed) counts_.add_operation(item_);
    } while (crew_.any(is_packed));
    if (begun != 0) load_slot(item_);  // its own args, which are its results too
  }

  /// Waits until this crew is the one that looks at some priority, or holds a portion of a stream;
  /// false if it must leave.
  EK_DEVICE bool follow() {
    Word pause = kFirstPollPause;
    for (Word polls = 0;; ++polls) {
      const LiveOrders* const orders = same_orders();
      if (same_shut_down()) return false;
      if (orders != orders_) {
        if (!acknowledge(orders)) return false;
        if (must_gather_ && wait_for_all()) return false;
      } else if (begin_to_look() || pull()) {
        return true;
      }
      if (has_seen_more_) polls = 0;  // items flow
      const Word longest = polls < kKeenPolls ? kKeenPollPause : idle_poll_pause();
      if (pause > longest) pause = longest;
      sleep(pause);
      if (pause < longest) pause *= 2;
    }
  }
  /// Crews of the priority come next if the crew that looks takes a long item.
  EK_DEVICE Word idle_poll_pause() const {
    if (!serves_one_level()) return kKeenPollPause;
    return is_home() ? kHomePollPause : kIdlePollPause;
  }
  EK_DEVICE bool begin_to_look() {
    if (!take_lock()) return false;
    idle_looks_ = 0;
    quiet_since_ = look_count_;
    offer_stretches();
    arrange(0);
    return true;
  }

  /// Finds items for the lanes of this warp; false if the crew must leave.
  EK_DEVICE bool find_items() {
    for (;;) {
      if (alone_ != 0) {
        take_alone();
        return true;
      }
      if (is_pulling_) {
        if (pull_again()) return true;
        stop_pulling();
      }
      if (!is_looking_) {
        if (!follow()) return false;
        if (!is_looking_) return true;
      }
      LiveLook look = look_for_news();
      if (look.has_orders) {
        stop_looking();  // follow() acknowledges the orders
        if (__any_sync(kAllLanes, look.shutdown != 0)) return false;
        continue;
      }
      // Items that wait, and portions that nobody pulls, have their turn beside a flood.
      const bool comes_first = look.found != 0 && ++takes_ % kTakesInARow != 0;
      if (comes_first && take(look)) return true;
      if (must_pull() && pull()) return true;
      if (must_visit(look) && take_waiting(look)) return true;
      if (!comes_first && look.found != 0 && take(look)) return true;
      if (rounds_ > 1) arrange(round_ + 1);
    }
  }

  /// Looks until there is something to do, and runs the commonest items by the way.
  EK_DEVICE LiveLook look_for_news() {
    for (;;) {
      LiveLook look;
      begin_look(look);
      bool needs_care = end_look(look);
      if (++look_count_ % kExpressLooks == 0) needs_care = true;
      if (look.found != 0) found_at_ = look_count_;
      if (look.found != 0 && !needs_care && run_express(look)) {
        wait_for_answer(look.found);
        open_stretches(look);
        begin_to_stream(look);
        continue;
      }
      if (look.found != 0 || needs_care) return look;
      rest();
    }
  }

  /// Gives a host thread that waits for an outcome the time to see it and to publish its next item:
  /// a look that passes by just before would miss the item for as long as a whole look takes.
  EK_DEVICE void wait_for_answer(Word found) const {
    if (__popc(found) > static_cast<int>(kFewItems * lanes_each_)) return;
    const Word begin = cycles();
    while (cycles() - begin < params_.answer_cycles) {
    }
  }

  /// Called after a look without an item: pauses when there was none for a while. Where one look is
  /// not enough for all queues, all looks of a round together pause for as long.
  EK_DEVICE void rest() {
    if (++idle_looks_ < kTimedLooks || params_.longest_pause_ns == 0) return;
    CrewNotes& notes = crew_notes();
    const bool is_first = idle_looks_ == kTimedLooks;
    if (is_first || notes.pause == 0) {
      if (idle_looks_ % kTimedLooks != 0) return;
      const Word now = static_cast<Word>(device_time());
      __syncwarp();
      if (is_first && lane_index() == 0) {
        notes.idle_since = now;
        notes.pause = 0;
      }
      __syncwarp();
      if (!__all_sync(kAllLanes, now - notes.idle_since >= kEagerTime)) return;
    }
    const Word longest = params_.longest_pause_ns / rounds_;
    const Word pause = notes.pause + kPauseStep < longest ? notes.pause + kPauseStep : longest;
    __syncwarp();
    if (lane_index() == 0) notes.pause = pause;
    __syncwarp();
    for (Word left = pause; left != 0 && same_orders() == orders_;) {
      const Word part = left < kPausePart ? left : kPausePart;
      sleep(part);
      left -= part;
    }
  }

  /// Ends the items of the lanes, or keeps them in their slots.
  EK_DEVICE void finish() {
    const Ending ending{item_.result & 0xFF};
    const bool has_faulted = holds_ && ending == Ending::fault && item_.result != kPutBack;
    const bool is_done = holds_ && ending == Ending::done;
    const bool waits = holds_ && !is_done && !has_faulted;
    note_visit(waits);
    if (waits) store_slot(item_, waiting_status(item_.result));
    __syncwarp();
    const bool is_claim = holds_ && item_.is_claim && item_.result != kPutBack;
    // Whoever looks at the counts waits for the crew that looks, but not for one that is away.
    const CountedItem counted{item_.queue.tenant, item_.queue.priority, item_.opcode};
    if (is_long_) counts_.add(counted, is_claim, is_done, has_faulted);
    const bool has_effects = holds_ && !(is_done && is(item_.opcode, Opcode::nop));
    if (__any_sync(kAllLanes, has_effects)) fence();
    if (is_done || has_faulted) {
      const Word* const results = item_.args + abi::kFirstResultArg;
      end_ticket(item_.queue, item_.ticket, item_.result, results[0], results[1], results[2]);
    }
    if (waits) {
      WaitingBits{item_.queue.row, item_.queue.capacity}.set(item_.place());
    }
    __syncwarp();
    if (!is_long_) counts_.add(counted, is_claim, is_done, has_faulted);
    if (holds_ && item_.is_counted) in_flight(item_.queue.tenant).add_relaxed(0, 0u - 1);
    __syncwarp();
    idle_looks_ = 0;
    if (!is_long_) return wait_for_answer(__ballot_sync(kAllLanes, holds_));
    marker().end();
    if (alone_ != 0) return;
    if (is_pulling_) {
      if (lane_index() == 0) Stretches{window_.row}.end(portion_);
      return;
    }
    store_seat(0);
    fence_all();  // the host sees this seat before the loads of the next look
  }

  Crew crew_;
  Word takes_ = 0;
};

/// Serves live queues until the orders or SHUTDOWN say that crews leave.
extern "C" __global__ void __launch_bounds__(EVERKERNEL_BLOCK_THREADS, EVERKERNEL_BLOCKS_PER_SM)
    everkernel_live(const __grid_constant__ LiveParams params) {
  if (crew_index() < params.crew_count) LiveCrew(params).run();
}

}  // namespace everkernel::device
