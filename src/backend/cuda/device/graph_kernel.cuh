// The graph kernel: every lane takes a region of planned work, runs its items in order, releases
// the regions that wait for it and continues with one of these. backend/cpu/graph_work.cpp does the
// same on a CPU; docs/decisions/0008 explains the plan.
//
// A launch begins with fresh regions and with the regions that earlier launches put aside. A region
// whose count reaches zero is held by the lane that counted it down, or goes to a queue from which
// every crew takes. A node with many waiters puts them into the queue in chunks, because counting
// them down is work too. Of a launch with few regions a crew holds one region: its lanes prepare
// the next items of the region together and run them one after the other. A region whose item
// yields, or may not run now, is put aside for the next launch: a launch visits every region once,
// so that a crew without work has nothing to come back for. A region released later is released by
// a crew that still works, and that crew looks at the queue before it leaves.
#pragma once

#include "backend/cuda/device/admission.cuh"
#include "backend/cuda/device/crew.cuh"
#include "backend/cuda/device/graph_counters.cuh"
#include "backend/cuda/device/graph_faults.cuh"
#include "backend/cuda/device/graph_tables.cuh"
#include "backend/cuda/device/handlers.cuh"
#include "backend/cuda/device/items.cuh"
#include "backend/cuda/device/submission.cuh"
#include "backend/cuda/device/visitor.cuh"
#include "backend/cuda/graph_rows.hpp"
#include "everkernel/abi/control.hpp"
#include "everkernel/abi/slot.hpp"
#include "jit/device/item.cuh"
#include "jit/device/lanes.cuh"
#include "jit/device/types.hpp"
#include "jit/device/words.cuh"

namespace everkernel::device {

/// The turn of a lane without an item.
inline constexpr Word kNoTurn = ~0u;
/// Most steps of a crew that has items between two looks for more.
inline constexpr Word kMostSteps = 8;

/// Whether what a crew knows of control words stays true: no handler changes them, and the host
/// changes none during a run.
inline constexpr bool kKeepsControl = (kAnyTrait & kTraitWritesControl) == 0;
/// Whether items of some handler may take long.
inline constexpr bool kHasLongItems = (kAnyTrait & (kTraitLoops | kTraitWarp | kTraitGroup)) != 0;

/// Whether some item may run again, with args of its own.
inline constexpr bool kMayResume = (kAnyTrait & kTraitCanLeave) != 0;

/// One crew of the graph kernel. Each of its lanes holds at most one region.
class GraphCrew {
 public:
  EK_DEVICE explicit GraphCrew(const GraphParams& params)
      : params_(params),
        shared_(*params.shared),
        submission_{params.launch.context, params.launch.first} {
    can_hold_ = crew_.lane < params.launch.slots_per_crew;
  }

  EK_DEVICE void run() {
    if (crew_.leads()) working().fetch_add_acq_rel(0, 1);
    while (next_regions()) {
      Visitor visitor;
      Word result = kDone;
      bool is_admitted = item_ != kNoNode && admit(visitor);
      Word turns = 1;
      if (has_one_region()) turns = spread_region(visitor, is_admitted);
      const Word my_turn = !is_admitted ? kNoTurn : has_one_region() ? lane_index() : 0;
      // run_items() contains all handlers and is inlined: it has one call.
      for (Word turn = 0; turn < turns; ++turn) {
        const bool is_on = turn == my_turn;
        Kind kind = is_on ? visitor.kind : Kind::nothing;
        if (is_on && has_faults_ && handles().is_poisoned(words_, traits_of(visitor.handler))) {
          result = fault_of(FaultCode::input_faulted);
          kind = Kind::nothing;
        }
        run_items(visitor, kind, result);
        if (has_one_region() && __any_sync(kAllLanes, is_on && result != kDone) != 0) {
          turns = after_bad_end(visitor, result, turn, turns);
        }
      }
      if (my_turn < turns) finish_item(visitor, result, turns);
      __syncwarp();
      if (has_one_region()) gather_region(turns);
    }
    leave();
  }

 private:
  // ---- entering and leaving ----

  EK_DEVICE Words working() const { return one_word(&shared_.working); }

  EK_DEVICE bool must_leave() const {
    const Word leave = one_word(const_cast<Word*>(params_.leave)).load_relaxed(0);
    return leave != 0 || submission_.must_stop();
  }

  /// Takes regions for the lanes that have none; returns false if this crew must leave. A look for
  /// them takes as long as some short items, so a crew that has items looks seldom while it finds
  /// nothing; behind items that may take long it looks each time.
  EK_DEVICE bool next_regions() {
    for (;;) {
      const bool has_items = crew_.any(item_ != kNoNode);
      if (kKeepsControl && has_items && ++steps_ < steps_between_looks_) {
        if (!kHasLongItems || !crew_.any(was_long_)) return true;
      }
      if (crew_.any(must_leave())) return false;
      const bool has_looked = crew_.any(take());
      steps_ = 0;
      steps_between_looks_ = has_looked ? 1 : 2 * steps_between_looks_;
      if (steps_between_looks_ > kMostSteps) steps_between_looks_ = kMostSteps;
      if (crew_.any(item_ != kNoNode)) return true;
      if (!has_looked && !wait_for_work()) return false;
    }
  }

  /// Waits until a region is released; returns false if no crew works that could release one.
  /// Waiting only improves load balance: a crew that releases a region runs it if no other crew
  /// takes it.
  EK_DEVICE bool wait_for_work() {
    if (crew_.leads()) working().fetch_add_acq_rel(0, 0u - 1);
    __syncwarp();  // between two leader-only blocks: see Crew
    for (Word pause = 250;; pause = pause < 8000 ? pause * 2 : pause) {
      Word has_end = 0;
      Word has_work = 0;
      if (crew_.leads()) {
        has_end = working().load_acquire(0) == 0 || must_leave();
        has_work = WideWord(&shared_.head).load_relaxed() < WideWord(&shared_.tail).load_relaxed();
        if (has_work != 0) working().fetch_add_acq_rel(0, 1);
      }
      const Wide found = crew_.from_leader(has_end | has_work << 1);
      if ((found & 2) != 0) return true;
      if ((found & 1) != 0) {
        is_resting_ = true;
        return false;
      }
      sleep(pause);
    }
  }

  /// Adds the counts to the totals; the last crew of a launch reports.
  EK_DEVICE void leave() {
    settle_ticket();
    counts_.add_to(shared_.totals);
    __syncwarp();
    (void)crew_.any(false);  // a barrier: all warps of the crew have added
    Word before = 0;
    if (crew_.leads()) {
      if (!is_resting_) working().fetch_add_acq_rel(0, 0u - 1);
      before = one_word(&shared_.departed).fetch_add_acq_rel(0, 1);
    }
    if (crew_.from_leader(before) + 1 == params_.crew_count && crew_.lane < kWarpLanes) report();
  }

  /// Writes the report for the host and clears the shared words of this launch. All lanes of the
  /// first warp call it.
  EK_DEVICE void report() const {
    __syncwarp();  // memory that the leader has acquired is visible to all lanes
    GraphReport& out = *params_.report;
    const Wide* const totals = reinterpret_cast<const Wide*>(&shared_.totals);
    Wide* const reported = reinterpret_cast<Wide*>(&out.totals);
    for (Word i = lane_index(); i < kTotalsWords; i += kWarpLanes) {
      WideWord(reported + i).store_for_host(WideWord(totals + i).load_relaxed());
    }
    if (lane_index() != 0) return;
    WideWord(&out.aside).store_for_host(WideWord(&shared_.aside).load_relaxed());
    WideWord(&out.finished).store_for_host(WideWord(&shared_.finished).load_relaxed());
    if (submission_.row.emitted != nullptr) {
      WideWord(&out.emitted).store_for_host(WideWord(submission_.row.emitted).load_relaxed());
    }
    store_for_host(&out.is_shut_down,
                   submission_.control().load_relaxed(abi::kControlShutdown.first));
    WideWord(&shared_.fresh).store_relaxed(0);
    WideWord(&shared_.resumed).store_relaxed(0);
    WideWord(&shared_.aside).store_relaxed(0);
    WideWord(&shared_.finished).store_relaxed(0);
    working().store_relaxed(0, 0);
    one_word(&shared_.departed).store_relaxed(0, 0);
  }

  // ---- taking regions ----

  /// Gives a region to every lane that has none, as far as there are any; returns whether there was
  /// anything to take. A fresh region that waits for others is claimed and left: the lane that
  /// releases it runs it.
  EK_DEVICE bool take() {
    bool has_looked = params_.ages != 0 && take_resumed();
    has_looked = take_fresh() || has_looked;
    has_looked = take_released() || has_looked;
    if (params_.ages == 0) has_looked = take_resumed() || has_looked;
    return has_looked;
  }

  /// The lanes of this warp that have no region and may take one.
  EK_DEVICE Word free_lanes() const {
    return __ballot_sync(kAllLanes, can_hold_ && item_ == kNoNode);
  }
  EK_DEVICE static bool has_lane(Word lanes) { return (lanes >> lane_index() & 1) != 0; }

  /// Sets `place` to the next place below `end` on each free lane, and to `end` on all others;
  /// returns whether there was one.
  EK_DEVICE bool take_places(Wide* counter, Wide end, Wide& place) const {
    place = end;
    const Word free = free_lanes();
    if (end == 0 || free == 0) return false;
    Wide first = end;
    if (lane_index() == 0) {
      const WideWord next(counter);
      if (next.load_relaxed() < end)
        first = next.fetch_add_relaxed(static_cast<Wide>(__popc(free)));
    }
    first = __shfl_sync(kAllLanes, first, 0);
    if (has_lane(free) && first + rank_of_lane(free) < end) place = first + rank_of_lane(free);
    return first < end;
  }

  EK_DEVICE bool take_fresh() {
    Wide place;
    const bool has_looked = take_places(&shared_.fresh, params_.fresh_count, place);
    if (place < params_.fresh_count) {
      const Quad row = load_from_host(params_.fresh + place);
      if (row.c != 0) note_ticket(row.b, open_regions(row.b).fetch_add_relaxed(0, row.c) + row.c);
      claim(row.a, row.b);
    }
    __syncwarp();
    return has_looked;
  }

  /// Holds a fresh region, unless it waits for others. The count of a region that waits includes
  /// this claim, so that it is not released before its ticket is stored.
  EK_DEVICE void claim(Word item, Word ticket) {
    const Words waiting_for(params_.waiting_for, params_.item_count);
    if (params_.nodes != nullptr && waiting_for.load_relaxed(item) != 0) {
      tickets_of_regions().store_relaxed(item, ticket);
      if (waiting_for.fetch_add_acq_rel(item, 0u - 1) != 1) return;
    }
    hold(item, ticket);
  }
  EK_DEVICE Words tickets_of_regions() const { return {params_.ticket_of, params_.item_count}; }
  /// The place of a ticket in the queue of the run.
  EK_DEVICE Word place_of(Word ticket) const { return ticket & (submission_.row.slot_count - 1); }

  /// What the region waited for has ended, and so have the faults that concern it.
  EK_DEVICE void hold(Word item, Word ticket) {
    item_ = item;
    ticket_ = ticket;
    resumed_ = 0;
    has_faults_ = params_.is_ordered != 0 && one_word(&shared_.has_faults).load_relaxed(0) != 0;
  }

  EK_DEVICE bool take_released() {
    const Word free = free_lanes();
    if (free == 0) return false;
    Wide first = 0;
    Word count = 0;
    if (lane_index() == 0) count = reserve(static_cast<Word>(__popc(free)), first);
    count = __shfl_sync(kAllLanes, count, 0);
    first = __shfl_sync(kAllLanes, first, 0);
    if (has_lane(free) && rank_of_lane(free) < count) {
      const Words cell = one_word(params_.released + first + rank_of_lane(free));
      Word value = cell.load_acquire(0);
      while (value == 0) {
        sleep(100);  // the lane that got this place has not filled it yet
        value = cell.load_acquire(0);
      }
      if (value - 1 < params_.item_count) {
        give(value - 1);
      } else {
        release_chunk(value - 1 - params_.item_count);
      }
    }
    __syncwarp();
    return count != 0;
  }
  /// Takes up to `most` places of the queue and returns their number. Only lane 0 of a warp calls
  /// it.
  EK_DEVICE Word reserve(Word most, Wide& first) const {
    const WideWord head(&shared_.head);
    for (;;) {
      first = head.load_relaxed();
      const Wide end = WideWord(&shared_.tail).load_relaxed();
      if (end <= first) return 0;
      const Wide count = end - first < most ? end - first : most;
      if (head.exchange_if(first, first + count)) return static_cast<Word>(count);
    }
  }

  EK_DEVICE bool take_resumed() {
    Wide place;
    const bool has_looked = take_places(&shared_.resumed, params_.resumed_count, place);
    if (place < params_.resumed_count) {
      const Continuation* const from = params_.resumed + place;
      const Quad head = load_quad(&from->item);
      hold(head.a, head.b);
      if (head.c != 0) resumed_ = static_cast<Word>(place) + 1;
    }
    __syncwarp();
    return has_looked;
  }

  // ---- one item ----

  /// Loads the item of this lane and finds its handler; returns whether the item may run now. If
  /// not, it is put aside.
  EK_DEVICE bool admit(Visitor& visitor) {
    prepare(visitor, origin_of(item_));
    if (may_run(visitor)) return true;
    put_aside();
    item_ = kNoNode;
    return false;
  }
  /// Tenant and priority of an item.
  EK_DEVICE Word origin_of(Word item) const {
    return params_.origins != nullptr ? load_origin(params_.origins, item) : params_.origin;
  }
  /// Loads the item of this lane and finds its handler. The item that perhaps comes next is on its
  /// way while this one runs.
  EK_DEVICE void prepare(Visitor& visitor, Word origin) {
    if (item_ == next_item_) {
      words_ = next_words_;
      waiters_ = next_waiters_;
    } else {
      words_ = load_item(params_.items, item_);
      if (params_.nodes != nullptr) waiters_ = load_waiters(params_.nodes, item_);
    }
    if (!has_one_region() && is_item(waiters_.only)) {
      next_item_ = waiters_.only;
      next_words_ = load_item(params_.items, next_item_);
      next_waiters_ = load_waiters(params_.nodes, next_item_);
    }
    next_ticket_ = kNoTicket;
    if (waits_alone(waiters_)) next_ticket_ = tickets_of_regions().load_relaxed(waiters_.only);
    visitor.slot = place_of(ticket_);
    visitor.opcode = words_.a;
    visitor.tenant = origin & 0xFF;
    visitor.priority_word = origin >> 8;
    visitor.handler = find_handler(visitor.opcode);
    was_long_ = false;
    if (visitor.handler == kNoHandler) return;  // NOP: a run has no other opcode without a handler
    const Word traits = traits_of(visitor.handler);
    visitor.kind = Kind::lane;
    if (kHasWarpHandlers && (traits & kTraitWarp) != 0) visitor.kind = Kind::warp;
    if (kHasGroupHandlers && (traits & kTraitGroup) != 0) visitor.kind = Kind::group;
    was_long_ = visitor.kind != Kind::lane || (traits & kTraitLoops) != 0;
  }
  /// Whether the tenant of an item is enabled and has quota left. A tenant whose items are not
  /// counted is not asked about again.
  EK_DEVICE bool may_run(Visitor& visitor) {
    const Word origin = visitor.tenant | visitor.priority_word << 8;
    if (origin == known_origin_) return true;
    if (submission_.standing_of(visitor.tenant, submission_.tenant_base()) !=
            TenantStanding::enabled ||
        !take_quota(submission_, visitor, submission_.quota_of(visitor.tenant))) {
      return false;
    }
    if (kKeepsControl && !visitor.is_counted) known_origin_ = origin;
    return true;
  }

  // ---- a crew that holds one region ----

  /// Whether lane 0 alone holds a region. The same on all lanes.
  EK_DEVICE bool has_one_region() const {
    return !kHasGroupHandlers && params_.launch.slots_per_crew == 1;
  }
  EK_DEVICE bool is_item(Word node) const { return node < params_.item_count; }
  /// Whether the region goes on with the only waiter.
  EK_DEVICE static bool continues(const Waiters& waiters) {
    return (waiters.only & kMany) == 0 && waiters.first_chunk - 1 < kWaitsAlone - 1;
  }
  /// Whether the only waiter begins another region, and waits for nothing else but its claim.
  EK_DEVICE static bool waits_alone(const Waiters& waiters) {
    return (waiters.only & kMany) == 0 && waiters.first_chunk == kWaitsAlone;
  }

  /// Finds the items that follow the item of lane 0 in its region, for the lanes behind it; returns
  /// how many lanes have one. The items of most regions are evenly spaced in the list, so that each
  /// lane guesses its item, and only from the first wrong guess on the links are followed.
  EK_DEVICE Word find_followers() {
    const Word first = __shfl_sync(kAllLanes, item_, 0);
    const Word step = __shfl_sync(kAllLanes, waiters_.only, 0) - first;
    const Word guess = first + lane_index() * step;
    Waiters waiters{kNoNode, 0};
    if (lane_index() == 0) waiters = waiters_;
    if (lane_index() != 0 && is_item(guess)) waiters = load_waiters(params_.nodes, guess);
    const bool links_on = continues(waiters) && waiters.only == guess + step;
    const Word others = ~__ballot_sync(kAllLanes, links_on);
    Word count = others == 0 ? kWarpLanes : lowest_lane(others) + 1;
    if (lane_index() < count) item_ = guess;
    Waiters end{__shfl_sync(kAllLanes, waiters.only, count - 1),
                __shfl_sync(kAllLanes, waiters.first_chunk, count - 1)};
    for (; count < kWarpLanes && continues(end); ++count) {
      const Word item = end.only;
      if (lane_index() == count) item_ = item;
      end = load_waiters(params_.nodes, item);
    }
    return count;
  }

  /// Gives the lanes behind lane 0 the items that follow in its region, up to one of another
  /// origin; returns how many lanes have an item. Only lane 0 may hold a share of a quota.
  EK_DEVICE Word spread_region(Visitor& visitor, bool& is_admitted) {
    const Word origin = visitor.tenant | visitor.priority_word << 8;
    const bool may_spread = is_admitted && origin == known_origin_ && params_.nodes != nullptr;
    if (__shfl_sync(kAllLanes, Word{may_spread}, 0) == 0) return 1;
    const Word count = find_followers();
    if (lane_index() != 0) resumed_ = 0;
    ticket_ = __shfl_sync(kAllLanes, ticket_, 0);
    has_faults_ = __shfl_sync(kAllLanes, Word{has_faults_}, 0) != 0;
    const Word first_origin = __shfl_sync(kAllLanes, origin, 0);
    bool follows = lane_index() < count;
    if (follows && lane_index() != 0) {
      const Word its = origin_of(item_);
      follows = its == first_origin;
      prepare(visitor, its);
    }
    const Word others = ~__ballot_sync(kAllLanes, follows);
    const Word turns = others == 0 ? kWarpLanes : lowest_lane(others);
    is_admitted = lane_index() < turns;
    if (!is_admitted) item_ = kNoNode;
    return turns;
  }

  /// After the turn of an item that was not DONE: items that depend on it will not run. Returns how
  /// many lanes have a turn: none behind an item that runs again later.
  EK_DEVICE Word after_bad_end(const Visitor& visitor, Word result, Word turn, Word turns) {
    const bool is_fault = static_cast<Ending>(result & 0xFF) == Ending::fault;
    if (lane_index() == turn && is_fault) {
      handles().poison_outputs(words_, traits_of(visitor.handler));
    }
    __syncwarp();
    const bool has_faulted = __shfl_sync(kAllLanes, Word{is_fault}, turn) != 0;
    has_faults_ = has_faults_ || has_faulted;
    return has_faulted ? turns : turn + 1;
  }

  /// Gives the region that the last lane with an item holds now to lane 0.
  EK_DEVICE void gather_region(Word turns) {
    const Word last = turns - 1;
    item_ = __shfl_sync(kAllLanes, item_, last);
    ticket_ = __shfl_sync(kAllLanes, ticket_, last);
    resumed_ = __shfl_sync(kAllLanes, resumed_, last);
    has_faults_ = __shfl_sync(kAllLanes, Word{has_faults_}, last) != 0;
    was_long_ = __any_sync(kAllLanes, was_long_) != 0;
    if (lane_index() != 0) item_ = kNoNode;
  }

  // ---- running ----

  /// Runs the items of all lanes of a crew, each on its lane or on all lanes. All lanes call it.
  EK_DEVICE void run_items(const Visitor& visitor, Kind kind, Word& result) {
    if (kind == Kind::lane) {
      Item item = item_of(visitor);
      item.args[0] = words_.b;
      item.args[1] = words_.c;
      item.args[2] = words_.d;
#pragma unroll
      for (Word i = 3; i < abi::kSlotArgs; ++i) item.args[i] = 0;
      if (kMayResume && resumed_ != 0) load_args(resumed_, item);
      result = after_handler(item, run_lane_handler(visitor.handler, item));
    }
    __syncwarp();
    if constexpr (kHasWarpHandlers) {
      for_each_of_warp(kind == Kind::warp, [&](Word owner) {
        Item item = item_of(visitor, owner);
        const Word handler = __shfl_sync(kAllLanes, visitor.handler, owner);
        const Word ended = run_warp_handler(handler, item);
        __syncwarp();  // writes of all lanes come before the release of the owner
        if (lane_index() == owner) result = after_handler(item, ended);
        __syncwarp();
      });
    }
    if constexpr (kHasGroupHandlers) run_groups(visitor, kind, result);
  }

  EK_DEVICE Item item_of(const Visitor& visitor) const {
    Item item = make_item(submission_, visitor.slot, visitor.opcode, visitor.tenant,
                          visitor.priority_word, visitor.handler);
    item.number = item.record = item_;
    return item;
  }
  EK_DEVICE void load_args(Word resumed, Item& item) const {
    const Continuation* const from = params_.resumed + (resumed - 1);
#pragma unroll
    for (Word i = 0; i < abi::kSlotArgs; i += 4) load_quad(from->args + i, item.args + i);
  }

  /// The item that lane `owner` holds, on all lanes of the warp.
  EK_DEVICE Item item_of(const Visitor& visitor, Word owner) const {
    Item item = make_item(submission_, __shfl_sync(kAllLanes, visitor.slot, owner),
                          __shfl_sync(kAllLanes, visitor.opcode, owner),
                          __shfl_sync(kAllLanes, visitor.tenant, owner),
                          __shfl_sync(kAllLanes, visitor.priority_word, owner),
                          __shfl_sync(kAllLanes, visitor.handler, owner));
    item.number = item.record = __shfl_sync(kAllLanes, item_, owner);
    item.args[0] = __shfl_sync(kAllLanes, words_.b, owner);
    item.args[1] = __shfl_sync(kAllLanes, words_.c, owner);
    item.args[2] = __shfl_sync(kAllLanes, words_.d, owner);
#pragma unroll
    for (Word i = 3; i < abi::kSlotArgs; ++i) item.args[i] = 0;
    const Word resumed = __shfl_sync(kAllLanes, resumed_, owner);
    if (kMayResume && resumed != 0) load_args(resumed, item);
    return item;
  }

  /// Runs the items of scope group that threads of the block hold, one after the other.
  EK_DEVICE void run_groups(const Visitor& visitor, Kind kind, Word& result) {
    __shared__ Word board[10];
    for_each_of_block(kind == Kind::group, [&](Word owner) {
      if (threadIdx.x == owner) {
        board[0] = visitor.slot;
        board[1] = visitor.opcode;
        board[2] = visitor.tenant;
        board[3] = visitor.priority_word;
        board[4] = visitor.handler;
        board[5] = item_;
        board[6] = words_.b;
        board[7] = words_.c;
        board[8] = words_.d;
        board[9] = resumed_;
      }
      __syncthreads();
      Item item = make_item(submission_, board[0], board[1], board[2], board[3], board[4]);
      item.number = item.record = board[5];
#pragma unroll
      for (Word k = 0; k < abi::kSlotArgs; ++k) item.args[k] = k < 3 ? board[6 + k] : 0;
      if (kMayResume && board[9] != 0) load_args(board[9], item);
      const Word ended = run_group_handler(board[4], item);
      __syncthreads();  // writes of all threads come before the release of the owner
      if (threadIdx.x == owner) result = after_handler(item, ended);
    });
  }

  /// Puts the region aside if its item yields or requeues, with the args as the item left them.
  EK_DEVICE Word after_handler(const Item& item, Word result) const {
    if (!kMayResume) return result;
    const auto ending = static_cast<Ending>(result & 0xFF);
    if (ending != Ending::yield && ending != Ending::requeue) return result;
    Word* const to = make_continuation(item.number, true);
    const Words words(to, sizeof(Continuation) / sizeof(Word));
#pragma unroll
    for (Word i = 0; i < abi::kSlotArgs; ++i) words.store_relaxed(4 + i, item.args[i]);
    return result;
  }
  /// Puts the region aside because its item may not run now, with the args as they are.
  EK_DEVICE void put_aside() const {
    Word* const to = make_continuation(item_, resumed_ != 0);
    if (resumed_ == 0) return;
    const Words from(const_cast<Word*>(params_.resumed[resumed_ - 1].args), abi::kSlotArgs);
    for (Word i = 0; i < abi::kSlotArgs; ++i) {
      Words(to, sizeof(Continuation) / sizeof(Word)).store_relaxed(4 + i, from.load_relaxed(i));
    }
  }
  /// Takes a place among the regions put aside; returns its words.
  EK_DEVICE Word* make_continuation(Word item, bool has_begun) const {
    const Wide place = WideWord(&shared_.aside).fetch_add_relaxed(1);
    Word* const to = &params_.aside[place].item;
    const Words words(to, sizeof(Continuation) / sizeof(Word));
    words.store_relaxed(0, item);
    words.store_relaxed(1, ticket_);
    words.store_relaxed(2, has_begun ? 1 : 0);
    return to;
  }

  // ---- how an item ended ----

  /// Stores the outcome of an item and continues with the next one. Of lanes with items of one
  /// region, the last one continues.
  EK_DEVICE void finish_item(const Visitor& visitor, Word result, Word turns) {
    const Word item = item_;
    const Ending ending{result & 0xFF};
    // Release: the next item of the tenant runs after this one.
    if (visitor.is_counted) submission_.in_flight(visitor.tenant).add_release(0, 0u - 1);
    counts_.add_claim(shared_.totals, visitor.tenant | visitor.priority_word << 8);
    item_ = kNoNode;
    if (ending == Ending::yield || ending == Ending::requeue) {
      if (ending == Ending::requeue) ++counts_.requeues;
      return;
    }
    if (ending == Ending::done) {
      ++counts_.done;
      if (visitor.handler == kNoHandler) ++counts_.nops;
    } else {
      if (!has_one_region()) handles().poison_outputs(words_, traits_of(visitor.handler));
      has_faults_ = params_.is_ordered != 0;
      ++counts_.faulted;
    }
    store_outcome(item, ending == Ending::done ? kItemDone : result >> 8);
    if (!has_one_region() || lane_index() + 1 == turns) go_on();
  }
  EK_DEVICE void store_outcome(Word item, Word outcome) const {
    Words(params_.outcomes, params_.item_count).store_relaxed(item, outcome);
  }

  /// Continues with the next item of the region. Behind the last item, releases the regions that
  /// wait for this one and continues with one of them.
  EK_DEVICE void go_on() {
    if (continues(waiters_)) {
      item_ = waiters_.only;
      resumed_ = 0;
      return;
    }
    const Word ticket = ticket_;
    if (next_ticket_ != kNoTicket) {  // it was claimed, and nobody looks at its count any more
      item_ = waiters_.only;
      ticket_ = next_ticket_;
      resumed_ = 0;
    } else {
      Word joins = kNoNode;
      release(waiters_, joins);
      release_joins(joins);
    }
    settle_ticket();
    end_region(ticket);
  }

  /// Counts down the waiters of a node: the first chunk here; the other chunks go to the queue,
  /// where any free lane takes them.
  EK_DEVICE void release(const Waiters& waiters, Word& joins) {
    if (waiters.only == kNoNode) return;
    if ((waiters.only & kMany) == 0) {
      // If this is all that it waits for, nobody else looks at its count any more.
      const bool is_last = counts_of(waiters.only).load_acquire(0) == 1;
      if (is_last || count_down(waiters.only)) pass_on(waiters.only, joins);
      return;
    }
    const Word others = (waiters.only & ~kMany) - 1;
    if (others != 0) push(params_.item_count + waiters.first_chunk + 1, others);
    release_chunk(waiters.first_chunk, joins);
  }
  /// Releases the waiters of joins whose count has reached zero. Until then these joins form a
  /// linked list; the links are stored in their counts, which are not needed any more.
  EK_DEVICE void release_joins(Word joins) {
    while (joins != kNoNode) {
      const Word join = joins;
      joins = join_counts().load_relaxed(join);
      release(load_waiters(params_.joins, join), joins);
    }
  }
  EK_DEVICE void release_chunk(Word chunk) {
    Word joins = kNoNode;
    release_chunk(chunk, joins);
    release_joins(joins);
  }
  EK_DEVICE void release_chunk(Word chunk, Word& joins) {
    Word waiters[kChunkWaiters];
    load_chunk(params_.chunks, chunk, waiters);
    Word free = 0;
    fence();  // one release for all waiters of the chunk
#pragma unroll
    for (Word i = 0; i < kChunkWaiters; ++i) {
      if (waiters[i] == kNoNode) continue;
      if (counts_of(waiters[i]).fetch_add_relaxed(0, 0u - 1) == 1) free |= 1u << i;
    }
    fence();
#pragma unroll
    for (Word i = 0; i < kChunkWaiters; ++i) {
      if ((free >> i & 1) != 0) pass_on(waiters[i], joins);
    }
  }

  EK_DEVICE Words join_counts() const {
    return {params_.join_waiting_for, ~0u};
  }
  EK_DEVICE Words counts_of(Word node) const {
    const bool is_item = node < params_.item_count;
    return one_word(is_item ? params_.waiting_for + node
                            : params_.join_waiting_for + (node - params_.item_count));
  }
  /// Decrements the count of a node; returns whether it has reached zero.
  EK_DEVICE bool count_down(Word node) const {
    return counts_of(node).fetch_add_acq_rel(0, 0u - 1) == 1;
  }
  /// Continues with a region or join whose count has reached zero.
  EK_DEVICE void pass_on(Word node, Word& joins) {
    if (node < params_.item_count) {
      if (item_ == kNoNode) {
        give(node);  // this lane runs one released region; the others go to the queue
      } else {
        push(node, 1);
      }
      return;
    }
    const Word join = node - params_.item_count;
    join_counts().store_relaxed(join, joins);
    joins = join;
  }
  EK_DEVICE void give(Word item) {
    hold(item, tickets_of_regions().load_relaxed(item));
  }
  /// Adds `count` consecutive regions or chunks to the queue; releases the writes before it.
  EK_DEVICE void push(Word first, Word count) const {
    const Wide place = WideWord(&shared_.tail).fetch_add_relaxed(count);
    const Words cells(params_.released + place, count);
    fence();
    for (Word i = 0; i < count; ++i) cells.store_relaxed(i, first + i + 1);
  }

  /// The number of open regions of a ticket. All of them are added when the first region of the
  /// portion is taken, which may be after other regions have ended: the sum reaches zero when all
  /// of these additions have happened. The host reads the finished tickets after the launch, so
  /// that relaxed accesses are enough.
  EK_DEVICE Words open_regions(Word ticket) const {
    return one_word(params_.left + place_of(ticket));
  }
  EK_DEVICE void note_ticket(Word ticket, Word left) const {
    if (left != 0) return;
    const Wide place = WideWord(&shared_.finished).fetch_add_relaxed(1);
    store_for_host(params_.finished + place, ticket);
  }
  /// Counts a region that has ended. Nothing waits for the count: the lane looks at it later.
  EK_DEVICE void end_region(Word ticket) {
    ended_ticket_ = ticket;
    open_before_ = open_regions(ticket).fetch_add_relaxed(0, 0u - 1);
  }
  EK_DEVICE void settle_ticket() {
    if (open_before_ == 1) note_ticket(ended_ticket_, 0);
    open_before_ = 0;
  }

  EK_DEVICE PoisonedHandles handles() const {
    return {params_, shared_};
  }

  const GraphParams& params_;
  GraphShared& shared_;
  LaunchedSubmission submission_;
  Crew crew_;
  bool can_hold_ = false;    // this lane may hold a region
  bool is_resting_ = false;  // the crew is not in the count of working crews
  bool was_long_ = false;    // the item of this lane may take long
  bool has_faults_ = false;  // items on which the region depends may have faulted
  Word steps_ = 0, steps_between_looks_ = 1;
  Word known_origin_ = ~0u;  // the tenant of this origin is enabled and its items are not counted
  Word item_ = kNoNode;      // the next item of the region that this lane holds
  Word ticket_ = 0;          // the ticket of that region
  Word resumed_ = 0;         // index of the continuation that has its args, plus one; 0 = none
  Quad words_ = {};          // the words of the item (load_item)
  Waiters waiters_{kNoNode, 0};  // of the item
  Word next_item_ = kNoNode;     // the only waiter of an item before
  Quad next_words_ = {};
  Waiters next_waiters_{kNoNode, 0};
  Word next_ticket_ = kNoTicket;  // of the region of the only waiter, which waits for nothing else
  Word ended_ticket_ = 0;         // of the last region of this lane that has ended
  Word open_before_ = 0;          // regions of it that were open then; 0: was looked at
  GraphCounts counts_;
};

/// Runs planned work until no region can run in this launch.
extern "C" __global__ void __launch_bounds__(EVERKERNEL_BLOCK_THREADS, EVERKERNEL_BLOCKS_PER_SM)
    everkernel_graph(const __grid_constant__ GraphParams params) {
  if (crew_index() < params.crew_count) GraphCrew(params).run();
}

}  // namespace everkernel::device
