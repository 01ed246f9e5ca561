// The live kernel: crews that look at queues in host memory and run what they find, until they are
// told to leave.
//
// Of the crews that serve a priority one looks, and the others wait for its lock. The crew that
// looks runs short items itself and looks on. Before it runs a long one it gives the lock away, so
// that no item waits for someone to hand it on, and no long item stops the looking. A look is one
// load of the entries that come next in up to 32 queues; the words that decide whether they may run
// are loaded beside it, because a load from the host takes several times as long.
//
// Crews work by orders that never change (backend/cuda/live_rows.hpp): a crew that sees new ones
// acknowledges them in its seat when it has nothing left of the old ones.
#pragma once

#include "backend/cuda/device/crew.cuh"
#include "backend/cuda/device/live_counts.cuh"
#include "backend/cuda/device/live_items.cuh"
#include "backend/cuda/device/live_memory.cuh"
#include "backend/cuda/device/live_streams.cuh"
#include "backend/cuda/device/live_waiting.cuh"
#include "backend/cuda/live_rows.hpp"
#include "everkernel/abi/control.hpp"
#include "everkernel/abi/queue.hpp"
#include "everkernel/abi/slot.hpp"
#include "jit/device/lanes.cuh"
#include "jit/device/types.hpp"
#include "jit/device/words.cuh"

namespace everkernel::device {

/// Urgent items in a row after which a crew that looks at every priority takes a patient one.
inline constexpr Word kStarvation = 16;
/// Priorities that count as urgent are below this one.
inline constexpr Word kFirstPatient = static_cast<Word>(abi::Priority::normal);
/// From this quota on, short items that the looking crews run themselves are not counted: they hold
/// no worker, and there are never more of them at one time.
inline constexpr Word kLargeQuota = kWarpLanes * abi::kPriorityCount;
/// Looks without an item before pauses begin, and by how much they grow each time.
inline constexpr Word kEagerLooks = 64;
inline constexpr Word kPauseStep = 250;
/// Looks between two visits of items that wait while none of them can go on.
inline constexpr Word kMostSkips = 256;
/// Least entries of a window that count as a row of many when all of them are there.
inline constexpr Word kLongRow = 8;

/// Looks in a row whose items are taken before others get a turn.
inline constexpr Word kTakesInARow = 4;
/// Looks in a row after which the short way is left for once.
inline constexpr Word kExpressLooks = 64;
/// Looks after which the crew that looks sees whether portions are left that nobody pulls.
inline constexpr Word kQuietLooks = 16;
/// Items of one look that may be those of threads which wait for them one by one.
inline constexpr Word kFewItems = 4;

/// A clock of this multiprocessor.
EK_DEVICE Word cycles() {
  Word now;
  asm volatile("mov.u32 %0, %%clock;" : "=r"(now));
  return now;
}

/// What a look has seen.
struct LiveLook {
  const LiveOrders* orders;
  Word shutdown;
  Word tenant_base;
  // Of this lane: the record of the place, and of its queue the tenant's mask and quota and the
  // items that wait.
  Word ended, mask, quota, waiting;
  Quad quads[abi::kFullQuads];
  // Once it has ended.
  Word found;       // lanes whose entry is there and may be taken
  bool has_orders;  // there are new orders, or SHUTDOWN is set
};

/// One crew of the live kernel.
class LiveCrew {
 public:
  EK_DEVICE explicit LiveCrew(const LiveParams& params)
      : params_(params),
        shared_(*params.shared),
        runner_(params),
        counts_(params),
        has_streams_(params.slots_per_crew != 1) {
    const Word crew = crew_index();
    seat_ = params.seats + crew;
    looks_ = !kHasGroupHandlers || threadIdx.x < kWarpLanes;
    if (params.home_crews != 0 && crew < params.home_crews * abi::kPriorityCount) {
      first_level_ = crew / params.home_crews;
      end_level_ = first_level_ + 1;
    }
  }

  EK_DEVICE void run() {
    if (looks_ && lane_index() == 0) WideWord(seat_).store_relaxed(kSeatArrived);
    fence_all();  // a host that does not see the seat has stored the orders that are read next
    for (;;) {
      Word has_items = 0;
      if (looks_) has_items = find_items() ? 1 : 0;
      if (crew_.from_leader(has_items) == 0) break;
      run_items();
      if (looks_) finish();
    }
    fence();
    if (looks_ && lane_index() == 0) WideWord(seat_).store_relaxed(kSeatLeft);
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
  /// Whether all threads of a crew run an item together.
  EK_DEVICE static bool runs_together(const LiveItem& item) {
    return is(item.opcode, Opcode::packed_slot) ||
           (item.kind != Kind::lane && item.kind != Kind::nothing);
  }

  /// The item of a lane, on all lanes of the warp.
  EK_DEVICE LiveItem spread(Word owner) const {
    constexpr Word kWords = sizeof(LiveItem) / sizeof(Word);
    union Copy {
      LiveItem item;
      Word words[kWords];
      EK_DEVICE Copy(const LiveItem& from) : item(from) {}
    } copy(item_);
#pragma unroll
    for (Word i = 0; i < kWords; ++i) {
      copy.words[i] = __shfl_sync(kAllLanes, copy.words[i], owner);
    }
    return copy.item;
  }

  // ---- orders ----

  /// Takes orders over, when nothing of the old ones is in use; false if crews are to leave.
  EK_DEVICE bool acknowledge(const LiveOrders* orders) {
    orders_ = orders;
    epoch_ = load_field(&orders->epoch);
    queues_ = load_pointer(&orders->queues);
    runner_.set_table(load_pointer(&orders->table), load_field(&orders->table_mask));
    const bool must_leave = load_field(&orders->must_leave) != 0;
    store_seat(0);
    return !must_leave;
  }
  EK_DEVICE bool serves_one_level() const {
    return params_.home_crews != 0;
  }

  /// Says what this crew is at. Counts of items that ended come before it.
  EK_DEVICE void store_seat(Word queue_number) const {
    fence();
    __syncwarp();
    if (lane_index() == 0) WideWord(seat_).store_relaxed(Wide{epoch_} << 32 | queue_number);
    __syncwarp();
  }

  // ---- who looks ----

  /// Waits until this crew is the one that looks at some priority, or holds a portion of a stream;
  /// false if it must leave.
  EK_DEVICE bool follow() {
    for (Word pause = 100;; pause = pause < 1600 ? pause * 2 : pause) {
      const LiveOrders* const orders = same_orders();
      if (__shfl_sync(kAllLanes, is_shut_down(), 0) != 0) return false;
      if (orders != orders_) {
        if (!acknowledge(orders)) return false;
      } else if (take_lock() || pull()) {
        return true;
      }
      sleep(pause);
    }
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
    is_looking_ = true;
    idle_looks_ = quiet_looks_ = 0;
    arrange(0);
    return true;
  }
  EK_DEVICE Words lock() const {
    return one_word(&shared_.looking[level_].is_held);
  }

  EK_DEVICE void stop_looking() {
    __syncwarp();
    if (lane_index() == 0) {
      one_word(&shared_.looking[level_].urgent).store_relaxed(0, urgent_);
      one_word(&shared_.looking[level_].turn).store_relaxed(0, turn_);
      lock().store_release(0, 0);
    }
    __syncwarp();
    is_looking_ = false;
  }

  /// Gives each lane a queue, and a place in the window of entries that come next in it. Four lanes
  /// load a full entry together, if the queue has as many: the bus then carries whole lines.
  EK_DEVICE void arrange(Word round) {
    const Word count = end_queue_ - first_queue_;
    Word ways = params_.slots_per_crew == 1 ? kWarpLanes : 1;
    while (ways < count && ways < kWarpLanes) ways *= 2;
    rounds_ = (count + ways - 1) / ways;
    round_ = round < rounds_ ? round : 0;
    width_ = kWarpLanes / ways;
    const Word index = round_ * ways + lane_index() / width_;
    queue_place_ = first_queue_ + index;
    window_ = {};
    head_ = 0;
    if (index < count) {
      window_ = load_queue(load_pointer(queues_ + first_queue_ + index));
      head_ = WideWord(&window_.row->head).load_relaxed();
    }
    lanes_each_ = window_.is_full && width_ >= abi::kFullQuads ? abi::kFullQuads : 1;
    reach_ = width_ / lanes_each_;
    behind_ = lane_index() % width_ / lanes_each_;
    has_full_windows_ = __any_sync(kAllLanes, lanes_each_ != 1) != 0;
    whole_windows_ = 0;
    is_counting_windows_ = __any_sync(kAllLanes, reach_ < kLongRow) != 0;
    has_express_ = serves_one_level() && params_.slots_per_crew != 1 && kPayload == kNoHandler;
    note_tenants(tenant_base_);
  }

  // ---- looking ----

  /// Finds items for the lanes of this warp; false if the crew must leave.
  EK_DEVICE bool find_items() {
    for (;;) {
      if (alone_ != 0) {
        take_alone();
        return true;
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
      const bool needs_care = end_look(look) || ++expresses_ % kExpressLooks == 0;
      if (look.found != 0 && !needs_care && run_express(look)) {
        wait_for_answer(look.found);
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

  EK_DEVICE void rest() {
    if (++idle_looks_ <= kEagerLooks * rounds_) return;
    const Word grown = kPauseStep * (idle_looks_ / kEagerLooks);
    const Word pause = grown < params_.longest_pause_ns ? grown : params_.longest_pause_ns;
    if (pause != 0) sleep(pause);
  }

  /// Begins to look at the next entries of all queues of this round. All loads are under way
  /// together.
  EK_DEVICE void begin_look(LiveLook& look) const {
    const Words control = runner_.control();
    look.ended = look.mask = look.quota = look.waiting = 0;
    look.orders = load_pointer(&shared_.orders);
    look.shutdown = is_shut_down();
    look.tenant_base = control.load_relaxed(abi::kControlTenantBase.first);
    if (window_.row != nullptr) {
      const Word place = abi::place_of(head_ + behind_, window_.capacity);
      look.ended = load_ended(window_.ended, place);
      look.waiting = load_field(&window_.row->waiting_count);
      look.mask = control.load_relaxed_if(is_known_, Wide{tenant_base_} + window_.tenant);
      look.quota = control.load_relaxed(abi::kControlTenantQuotas.first + window_.tenant);
      load_entry(place, look.quads);
    }
    __syncwarp();
  }

  /// Waits for the loads of a look, those from the host last; returns whether there is more to do
  /// than to run what it has found.
  EK_DEVICE bool end_look(LiveLook& look) {
    const Word lap = abi::lap_bit(head_ + behind_, window_.capacity);
    const bool has_news = look.orders != orders_ || look.shutdown != 0;
    look.has_orders = __any_sync(kAllLanes, has_news) != 0;
    const bool has_moved = __any_sync(kAllLanes, look.tenant_base != tenant_base_) != 0;
    const bool is_due = __any_sync(kAllLanes, look.waiting != 0) && ++skipped_ > skips_;
    const bool needs_care = look.has_orders || has_moved || is_due || rounds_ > 1;
    look.found = __ballot_sync(kAllLanes, is_entry_there(look, lap));
    if (has_full_windows_) look.found = whole_entries(look.found);
    if (has_moved) {
      note_tenants(__shfl_sync(kAllLanes, look.tenant_base, 0));
      look.found = 0;  // the masks of a table that was moved are looked at next time
    }
    return needs_care;
  }
  /// Whether the entry, or the part of it, that this lane has loaded is there and may be taken.
  EK_DEVICE bool is_entry_there(const LiveLook& look, Word lap) const {
    const bool is_free = window_.row != nullptr && is_ended(look.ended, lap ^ 1);
    const bool may_run = look.mask != 0 || !is_known_;
    bool is_there = is_free && may_run && look.quads[0].a >> 31 == lap;
    if (window_.is_full && lanes_each_ == 1) {
      is_there = is_there && look.quads[1].a >> 31 == lap && look.quads[2].a >> 31 == lap &&
                 look.quads[3].a >> 31 == lap;
    }
    return is_there;
  }
  /// Of entries that several lanes loaded, those of which every quad is there.
  EK_DEVICE Word whole_entries(Word lanes) const {
    const Word first = lane_index() & ~(lanes_each_ - 1);
    const Word mask = lanes_each_ == 1 ? 1 : 0xF;
    return __ballot_sync(kAllLanes, (lanes >> first & mask) == mask);
  }

  /// Runs the items that a look has found at once, if the first one of every queue is a NOP or a
  /// built-in operation on control words that no quota counts: between the load of an entry and the
  /// store of its outcome, every instruction counts. Returns whether it did.
  EK_DEVICE bool run_express(const LiveLook& look) {
    if (!has_express_) return false;
    const Quad head = look.quads[0];
    Word opcode = head.a & ~abi::kLapMask;
    Quad args{head.b, head.c, head.d, 0};
    bool is_sound = owns_entry();
    if (__any_sync(kAllLanes, window_.is_full)) {
      Quad second = look.quads[1];
      if (has_full_windows_) {
        const Quad next{
            __shfl_down_sync(kAllLanes, head.a, 1), __shfl_down_sync(kAllLanes, head.b, 1),
            __shfl_down_sync(kAllLanes, head.c, 1), __shfl_down_sync(kAllLanes, head.d, 1)};
        if (lanes_each_ != 1) second = next;
      }
      if (window_.is_full) {
        is_sound = is_sound && opcode == static_cast<Word>(SlotStatus::published) &&
                   (head.d & ~abi::kFullPriorityMask) == 0 && !window_.has_results;
        opcode = head.b;
        args = {(second.a & ~abi::kLapMask) | head.d >> abi::kDisplacedBits << 31, second.b,
                second.c, second.d};
      }
    }
    if (is_counting_windows_) count_windows(look.found);
    if (__any_sync(kAllLanes, is_row_of_many(look.found))) return false;
    const bool is_counted = look.quota < params_.crew_count && look.quota < kLargeQuota;
    const bool is_express = is_sound && is_known_ && !is_counted &&
                            opcode <= static_cast<Word>(Opcode::compare_swap) &&
                            (look.found >> lane_index() & 1) != 0;
    Word row = __ballot_sync(kAllLanes, is_express);
    const Word heads = __ballot_sync(kAllLanes, behind_ == 0 && owns_entry());
    if ((look.found & heads & ~row) != 0 || (row & heads) == 0) return false;
    if (has_full_windows_) row = all_lanes_of(row);
    const Word count = row_length(row);
    const bool takes = owns_entry() && behind_ < count;
    const Wide ticket = head_ + behind_;
    const bool has_effect = takes && opcode != static_cast<Word>(Opcode::nop);
    Word result = kDone;
    if (has_effect) {
      result = run_plain_builtin({runner_.control(), window_.tenant}, {}, {}, opcode, args);
    }
    if (__any_sync(kAllLanes, has_effect)) fence();
    if (takes) end_ticket(window_, ticket, result, 0, 0, 0);
    head_ += count;
    if (count != 0 && lane_index() == first_lane()) {
      WideWord(&window_.row->head).store_relaxed(head_);
    }
    counts_.add({window_.tenant, window_.priority, opcode}, takes, takes && result == kDone,
                takes && result != kDone);
    idle_looks_ = 0;
    return true;
  }
  /// All lanes of the entries that have one in the mask.
  EK_DEVICE Word all_lanes_of(Word owners) const {
    const Word first = lane_index() & ~(lanes_each_ - 1);
    return __ballot_sync(kAllLanes, (owners >> first & 1) != 0);
  }

  EK_DEVICE void note_tenants(Word base) {
    tenant_base_ = base;
    const Wide mask_at = Wide{base} + window_.tenant;
    is_known_ =
        mask_at >= abi::kControlTenantMasks.first && mask_at < abi::kControlTenantMasks.end();
  }

  EK_DEVICE void load_entry(Word place, Quad (&quads)[abi::kFullQuads]) const {
    if (!window_.is_full) {
      quads[0] = load_entry_quad(window_.entries + Wide{place} * 4);
      return;
    }
    const Word* const entry = window_.entries + Wide{place} * abi::kSlotWords;
    if (lanes_each_ != 1) {
      quads[0] = load_entry_quad(entry + 4 * (lane_index() % abi::kFullQuads));
      return;
    }
#pragma unroll
    for (Word i = 0; i < abi::kFullQuads; ++i) quads[i] = load_entry_quad(entry + 4 * i);
  }
  /// Gives each of the lanes that loaded an entry together all of its quads.
  EK_DEVICE void gather(LiveLook& look) const {
    if (!has_full_windows_) return;
    const Word first = lane_index() & ~(abi::kFullQuads - 1);
    const Quad mine = look.quads[0];
#pragma unroll
    for (Word i = 0; i < abi::kFullQuads; ++i) {
      const Word from = lanes_each_ != 1 ? first + i : lane_index();
      const Quad quad{__shfl_sync(kAllLanes, mine.a, from), __shfl_sync(kAllLanes, mine.b, from),
                      __shfl_sync(kAllLanes, mine.c, from), __shfl_sync(kAllLanes, mine.d, from)};
      if (lanes_each_ != 1) look.quads[i] = quad;
    }
  }
  /// Whether this lane is the only one, or the first, that loaded its entry.
  EK_DEVICE bool owns_entry() const {
    return (lane_index() & (lanes_each_ - 1)) == 0;
  }

  // ---- taking ----

  /// How many entries are in the mask one behind the other, from the first of this lane's queue on.
  /// The mask has all lanes of an entry, or none.
  EK_DEVICE Word row_length(Word lanes) const {
    const Word clear = ~(lanes >> (lane_index() & ~(width_ - 1)));
    const Word end = (clear == 0 ? kWarpLanes : lowest_lane(clear)) / lanes_each_;
    return end < reach_ ? end : reach_;
  }
  /// The first lane of this lane's queue.
  EK_DEVICE Word first_lane() const {
    return lane_index() & ~(width_ - 1);
  }
  /// The lane of the mask whose turn it is.
  EK_DEVICE Word in_turn(Word lanes) {
    const Word later = lanes & ~0u << turn_;
    const Word lane = lowest_lane(later != 0 ? later : lanes);
    turn_ = (lane + 1) % kWarpLanes;
    return lane;
  }

  /// Whether a look has found so much in this lane's queue that there may be a stretch: a whole
  /// window, and if windows are narrow several in a row.
  EK_DEVICE bool is_row_of_many(Word found) const {
    if (!has_streams_ || row_length(found) != reach_) return false;
    return reach_ >= kLongRow || whole_windows_ >= kLongRow / reach_;
  }
  EK_DEVICE void count_windows(Word found) {
    const bool is_whole = reach_ < kLongRow && row_length(found) == reach_;
    whole_windows_ = is_whole ? whole_windows_ + 1 : 0;
  }
  /// Makes stretches of what is filled in queues whose whole window is there; returns whether it
  /// made any. Otherwise the window is taken as it is.
  EK_DEVICE bool open_stretches(const LiveLook& look) {
    bool has_opened = false;
    Word count = 0;
    if (is_row_of_many(look.found) && lane_index() == first_lane()) {
      const Wide there = load_filled(window_.entries) - head_;
      count = there < window_.capacity ? static_cast<Word>(there) : window_.capacity;
      has_opened = count >= kLeastStretch && StreamBoard{shared_.board}.put(queue_place_, epoch_) &&
                   Stretches{window_.row}.open(head_, count);
      if (!has_opened) whole_windows_ = 0;
    }
    __syncwarp();
    const Word openers = __ballot_sync(kAllLanes, has_opened);
    if (openers != 0) quiet_looks_ = 0;
    count = __shfl_sync(kAllLanes, count, first_lane());
    if ((openers >> first_lane() & 1) != 0) {
      head_ += count;
      if (lane_index() == first_lane()) WideWord(&window_.row->head).store_relaxed(head_);
    }
    __syncwarp();
    return openers != 0;
  }

  /// Takes items that a look has found; returns whether there are any to run.
  EK_DEVICE bool take(LiveLook& look) {
    if (!has_express_ && is_counting_windows_) count_windows(look.found);
    if (open_stretches(look)) return false;
    gather(look);
    const bool is_of_level = is_level_in_turn(look.found);
    const bool is_there = is_of_level && behind_ < row_length(look.found);
    if (is_there) read_entry(window_, head_ + behind_, look.quads);
    const Word shorts = __ballot_sync(kAllLanes, is_there && item_.is_short);
    const Word heads = __ballot_sync(kAllLanes, is_there && behind_ == 0 && owns_entry());
    if (heads == 0) return false;  // a hole: an entry that was reserved and is not there yet
    const Word alone = heads & ~shorts;
    // Long items and short ones take turns.
    takes_shorts_ = (heads & shorts) != 0 && (alone == 0 || !takes_shorts_);
    Word takers = 0;
    if (takes_shorts_) {
      takers = __ballot_sync(kAllLanes, is_there && behind_ < row_length(shorts));
      if (params_.slots_per_crew == 1) takers = 1u << in_turn(takers);  // a lane a queue
    } else {
      takers = long_row(is_there, in_turn(alone), look.found);
    }
    if (!serves_one_level()) takers = bounded(takers);
    takers = take_quota(takers, look.quota);
    if (takers == 0) return false;
    const Word count = row_length(takers);
    head_ += count;
    if (count != 0 && lane_index() == first_lane()) {
      WideWord(&window_.row->head).store_relaxed(head_);
    }
    takers &= __ballot_sync(kAllLanes, owns_entry());
    holds_ = (takers >> lane_index() & 1) != 0;
    if (!holds_) item_.kind = Kind::nothing;
    if (takes_shorts_) {
      is_single_ = is_long_ = false;
      count_urgent(takers, lowest_lane(takers));
    } else {
      hold_long(takers);
    }
    acquire_entries();
    __syncwarp();
    return true;
  }

  /// Whether this lane's queue is of the priority whose turn it is. All lanes call it.
  EK_DEVICE bool is_level_in_turn(Word found) const {
    if (serves_one_level()) return true;
    const bool is_found = (found >> lane_index() & 1) != 0;
    const Word none = abi::kPriorityCount;
    const Word priority = is_found ? window_.priority : none;
    const Word urgent = WarpLanes().lowest(priority);
    const Word patient = WarpLanes().lowest(priority >= kFirstPatient ? priority : none);
    return window_.priority == (urgent_ >= kStarvation && patient != none ? patient : urgent);
  }
  /// No more urgent items than may run before a patient one.
  EK_DEVICE Word bounded(Word takers) const {
    const bool takes = (takers >> lane_index() & 1) != 0;
    const Word most = urgent_ < kStarvation ? kStarvation - urgent_ : 1;
    const bool may = window_.priority >= kFirstPatient || rank_of_lane(takers) / lanes_each_ < most;
    return __ballot_sync(kAllLanes, takes && may);
  }

  /// Makes the item of an entry.
  EK_DEVICE void read_entry(const LiveQueue& queue, Wide ticket,
                            const Quad (&quads)[abi::kFullQuads]) {
    item_ = {};
    item_.queue = queue;
    item_.ticket = ticket;
    item_.is_known_tenant = is_known_;
    const Quad head = quads[0];
    bool is_sound = true;
    if (!queue.is_full) {
      item_.opcode = head.a & ~abi::kLapMask;
      item_.args[0] = head.b;
      item_.args[1] = head.c;
      item_.args[2] = head.d;
    } else {
      item_.opcode = head.b;
      is_sound = (head.a & ~abi::kLapMask) == static_cast<Word>(SlotStatus::published) &&
                 (head.d & ~abi::kFullPriorityMask) == 0;
#pragma unroll
      for (Word i = 1; i < abi::kFullQuads; ++i) {
        const Word top = head.d >> (abi::kDisplacedBits + i - 1) << 31;
        item_.args[4 * i - 4] = (quads[i].a & ~abi::kLapMask) | top;
        item_.args[4 * i - 3] = quads[i].b;
        item_.args[4 * i - 2] = quads[i].c;
        item_.args[4 * i - 1] = quads[i].d;
      }
    }
    item_.operation = item_.opcode;
    if (!item_.is_known_tenant) {
      item_.result = fault_of(FaultCode::tenant_out_of_range);
    } else if (!is_sound) {
      item_.result = fault_of(FaultCode::bad_entry);
    } else if (is(item_.opcode, Opcode::packed_slot)) {
      item_.is_short = false;
    } else {
      classify(item_, false);
    }
  }

  /// The lanes that take long items: that one, and if its queue has a long row of items that run on
  /// a lane each, all of these.
  EK_DEVICE Word long_row(bool is_there, Word lane, Word found) const {
    const bool is_alike = is_there && item_.kind == Kind::lane && !item_.is_short;
    const Word row = row_length(__ballot_sync(kAllLanes, is_alike));
    const bool is_full_row = reach_ >= kLongRow && row_length(found) == reach_;
    const bool is_owners = first_lane() == lane;
    return __ballot_sync(kAllLanes, is_owners && (behind_ == 0 || (is_full_row && behind_ < row)));
  }

  /// Takes shares of the tenants' quotas. Each queue loses its last takers if there are not enough.
  EK_DEVICE Word take_quota(Word takers, Word quota) {
    const Word wanted = row_length(takers);
    const bool is_counted =
        wanted != 0 && quota < params_.crew_count && (!takes_shorts_ || quota < kLargeQuota);
    const bool counts_crew = quota >= kLargeQuota;  // long items of one take hold one crew
    item_.is_counted = is_counted && (!counts_crew || lane_index() == first_lane());
    if (!__any_sync(kAllLanes, is_counted)) return takers;
    Word got = wanted;
    if (is_counted && lane_index() == first_lane()) {
      const Words held = in_flight(window_.tenant);
      const Word shares = counts_crew ? 1 : wanted;
      const Word before = held.fetch_add_relaxed(0, shares);
      Word left = before < quota ? quota - before : 0;
      if (left > shares) left = shares;
      if (left < shares) held.add_relaxed(0, left - shares);
      got = counts_crew ? left * wanted : left;
    }
    got = __shfl_sync(kAllLanes, got, first_lane());
    return __ballot_sync(kAllLanes, behind_ < got);
  }
  EK_DEVICE Words in_flight(Word tenant) const {
    return one_word(shared_.in_flight + tenant);
  }

  EK_DEVICE void count_urgent(Word takers, Word owner) {
    if (serves_one_level()) return;
    const Word priority = __shfl_sync(kAllLanes, window_.priority, owner);
    urgent_ = priority < kFirstPatient ? urgent_ + static_cast<Word>(__popc(takers)) : 0;
  }

  /// Prepares to run items of one queue that are not short. Before items that may take long the
  /// lock is given away.
  EK_DEVICE void hold_long(Word takers) {
    const Word owner = lowest_lane(takers);
    const Kind kind{__shfl_sync(kAllLanes, static_cast<Word>(item_.kind), owner)};
    count_urgent(takers, owner);
    is_long_ = kind != Kind::fence;
    is_single_ = __shfl_sync(kAllLanes, Word{runs_together(item_)}, owner) != 0;
    if (is_single_) {
      item_ = spread(owner);
      holds_ = lane_index() == 0;
      if (holds_ && is(item_.opcode, Opcode::packed_slot)) store_slot(item_, SlotStatus::claimed);
      __syncwarp();
    }
    if (!is_long_) return;
    store_seat(load_field(&window_row(owner)->number));
    stop_looking();
  }
  EK_DEVICE LiveQueueRow* window_row(Word owner) const {
    return reinterpret_cast<LiveQueueRow*>(
        __shfl_sync(kAllLanes, reinterpret_cast<Wide>(item_.queue.row), owner));
  }

  // ---- streams ----

  /// Whether the crew that looks has to see whether portions are left that no other crew pulls:
  /// perhaps all of them run long items.
  EK_DEVICE bool must_pull() {
    return has_streams_ && ++quiet_looks_ % kQuietLooks == 0;
  }

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

  // ---- items that wait ----

  /// Whether it is time to visit an item that waits. While none of them can go on, visits become
  /// rare.
  EK_DEVICE bool must_visit(const LiveLook& look) {
    if (skipped_ <= skips_ || !__any_sync(kAllLanes, look.waiting != 0)) return false;
    skipped_ = 0;
    return true;
  }

  /// Takes the item that waits longest in the queue whose turn it is, if it can go on.
  EK_DEVICE bool take_waiting(const LiveLook& look) {
    const Word lane =
        in_turn(__ballot_sync(kAllLanes, lane_index() == first_lane() && look.waiting != 0));
    item_ = {};
    item_.queue = window_;
    item_.ticket = head_;
    item_.is_known_tenant = is_known_;
    item_ = spread(lane);
    const WaitingBits bits{item_.queue.row, item_.queue.capacity};
    const Word place = bits.take_next();
    if (place == kNoSlot) return false;
    // The ticket below the head that has this place.
    item_.ticket -= 1 + (static_cast<Word>(item_.ticket) - 1 - place & item_.queue.capacity - 1);
    if (begin_again(__shfl_sync(kAllLanes, look.quota, lane))) {
      skips_ = 0;
      return true;
    }
    skips_ = skips_ < kMostSkips ? 2 * skips_ + 1 : skips_;
    if (lane_index() == 0) bits.set(place);
    __syncwarp();
    item_ = {};
    return false;
  }

  /// Whether the item, which all lanes of the warp have, can go on. If so it is held.
  EK_DEVICE bool begin_again(Word quota) {
    const Wide mask_at = Wide{tenant_base_} + item_.queue.tenant;
    const bool may_run = item_.is_known_tenant && runner_.control().load_relaxed(mask_at) != 0;
    if (!__all_sync(kAllLanes, may_run)) return false;
    const SlotStatus status = load_slot(item_);
    item_.operation = item_.opcode;
    bool has_ended = false;
    if (status == SlotStatus::wait_io) {
      if (!end_io_wait(runner_, item_, has_ended)) return false;
      if (lane_index() == 0) {
        slot_of(item_).store_relaxed(0, static_cast<Word>(SlotStatus::requeue));
      }
      __syncwarp();
    }
    if (status == SlotStatus::published && !read_given_back()) return false;
    if (!has_ended) {
      if (!is(item_.opcode, Opcode::packed_slot) && item_.result == kDone) classify(item_, false);
      if (item_.kind == Kind::fence && !runner_.is_fence_ready(item_)) return false;
      if (!take_share(quota)) return false;
    }
    hold_again();
    return true;
  }
  /// Reads the entry of a ticket that was given back, which all lanes of the warp have; false if it
  /// is not there yet.
  EK_DEVICE bool read_given_back() {
    const LiveQueue queue = item_.queue;
    const Wide ticket = item_.ticket;
    const bool is_known = item_.is_known_tenant;
    const Word place = item_.place(), lap = item_.lap();
    const Word words = queue.is_full ? abi::kSlotWords : abi::kQuadBytes / sizeof(Word);
    Quad quads[abi::kFullQuads];
#pragma unroll
    for (Word i = 0; i < abi::kFullQuads; ++i) {
      const Word at = queue.is_full ? 4 * i : 0;
      quads[i] = load_entry_quad(queue.entries + Wide{place} * words + at);
    }
    bool is_there = is_ended(load_ended(queue.ended, place), lap ^ 1);
#pragma unroll
    for (Word i = 0; i < abi::kFullQuads; ++i) is_there = is_there && quads[i].a >> 31 == lap;
    if (!__all_sync(kAllLanes, is_there)) return false;
#pragma unroll
    for (Word i = 0; i < abi::kFullQuads; ++i) {  // lanes may have seen different words
      quads[i] = {__shfl_sync(kAllLanes, quads[i].a, 0), __shfl_sync(kAllLanes, quads[i].b, 0),
                  __shfl_sync(kAllLanes, quads[i].c, 0), __shfl_sync(kAllLanes, quads[i].d, 0)};
    }
    read_entry(queue, ticket, quads);
    item_.is_known_tenant = is_known;
    return true;
  }

  /// Takes a share of the tenant's quota for one item that all lanes of the warp have.
  EK_DEVICE bool take_share(Word quota) {
    item_.is_counted = quota < params_.crew_count && (!item_.is_short || quota < kLargeQuota);
    if (!item_.is_counted) return true;
    Word before = 0;
    if (lane_index() == 0) {
      before = in_flight(item_.queue.tenant).fetch_add_relaxed(0, 1);
      if (before >= quota) in_flight(item_.queue.tenant).add_relaxed(0, 0u - 1);
    }
    return __shfl_sync(kAllLanes, before, 0) < quota;
  }
  EK_DEVICE void hold_again() {
    is_single_ = runs_together(item_);
    holds_ = lane_index() == 0;
    is_long_ = !item_.is_short && item_.kind != Kind::fence;
    if (is_long_) {
      store_seat(load_field(&item_.queue.row->number));
      stop_looking();
    }
    if (!is_single_ && !holds_) item_.kind = Kind::nothing;
    acquire_entries();
    __syncwarp();
  }

  // ---- ending ----

  /// Ends the items of the lanes, or keeps them in their slots.
  EK_DEVICE void finish() {
    const Ending ending{item_.result & 0xFF};
    const bool has_faulted = holds_ && ending == Ending::fault && item_.result != kPutBack;
    const bool is_done = holds_ && ending == Ending::done;
    const bool waits = holds_ && !is_done && !has_faulted;
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
    if (alone_ != 0) return;
    if (portion_.count != 0 && lane_index() == 0) {
      Stretches{portion_row_}.end(portion_);
    }
    portion_.count = 0;
    store_seat(0);
    fence_all();  // the host sees this seat before the loads of the next look
  }

  /// Stores how a ticket ended. What its item wrote is visible by then.
  EK_DEVICE static void end_ticket(const LiveQueue& queue, Wide ticket, Word result, Word first,
                                   Word second, Word third) {
    const Word place = abi::place_of(ticket, queue.capacity);
    const Word lap = abi::lap_bit(ticket, queue.capacity);
    const bool has_faulted = result != kDone;
    const Word code = result >> 8;
    const auto how = has_faulted ? OutcomeCode::fault : OutcomeCode::done;
    const Word byte = abi::outcome_byte(how, lap);
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
    store_ended(queue.ended, place, byte);
  }

  const LiveParams& params_;
  LiveShared& shared_;
  LiveRunner runner_;
  LiveCounts counts_;
  Crew crew_;
  Wide* seat_;
  bool looks_;  // of the warp that looks
  const bool has_streams_;
  Word first_level_ = 0, end_level_ = abi::kPriorityCount;

  // The orders that were acknowledged.
  const LiveOrders* orders_ = nullptr;
  LiveQueueRow* const* queues_ = nullptr;
  Word epoch_ = 0;

  // While this crew looks.
  bool is_looking_ = false;
  Word level_ = 0;
  Word first_queue_ = 0, end_queue_ = 0;
  Word rounds_ = 1, round_ = 0;
  Word queue_place_ = 0;  // of this lane's queue, in the orders
  Word quiet_looks_ = 0;
  Word takes_ = 0, expresses_ = 0;
  Word width_ = 1;                 // lanes of this lane's queue
  Word lanes_each_ = 1;            // lanes that load one entry, a quad each
  bool has_full_windows_ = false;  // some queue's entries are loaded by several lanes
  bool has_express_ = false;       // run_express() may be used
  bool is_counting_windows_ = false;
  Word whole_windows_ = 0;  // narrow windows of this lane's queue in a row that were whole
  Word reach_ = 1;          // entries in the window of the queue
  Word behind_ = 0;         // entries of the queue that come before this lane's
  LiveQueue window_;
  Wide head_ = 0;
  Word tenant_base_ = abi::kControlTenantMasks.first;
  bool is_known_ = true;  // the tenant of this lane's queue is in the table
  Word turn_ = 0, urgent_ = 0, idle_looks_ = 0, skips_ = 0, skipped_ = 0;
  bool takes_shorts_ = false;

  // The portion of a stream that is being run.
  Portion portion_;
  Word alone_ = 0;          // lanes of its items that run one by one
  Word alone_counted_ = 0;  // those that hold a share of their tenant's quota
  LiveQueueRow* portion_row_ = nullptr;

  // The items of the lanes.
  LiveItem item_;
  bool holds_ = false;
  bool is_single_ = false;  // the item is on all lanes
  bool is_long_ = false;
};

/// Serves live queues until the orders or SHUTDOWN say that crews leave.
extern "C" __global__ void __launch_bounds__(EVERKERNEL_BLOCK_THREADS, EVERKERNEL_BLOCKS_PER_SM)
    everkernel_live(const __grid_constant__ LiveParams params) {
  if (crew_index() < params.crew_count) LiveCrew(params).run();
}

}  // namespace everkernel::device
