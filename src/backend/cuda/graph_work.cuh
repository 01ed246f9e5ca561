// Planned work: every lane goes through a region, releases what waited for it, and goes on with
// that. backend/cpu/graph_work.cpp is the same on a CPU; docs/decisions/0008 has the plan.
//
// A launch begins with fresh regions and with those that earlier launches put aside. A region whose
// count comes to zero is kept by the lane that brought it there, or goes to a queue that every crew
// takes from. So do waiters of a node that has many: counting them down is work as well. What
// yields, or may not run now, is put aside for the next launch: within one, every region is visited
// once, and a crew that finds nothing more has nothing to come back for. Whatever is released later
// is released by a crew that is still there and looks once more before it leaves. Part of
// megakernel.cu.
#pragma once

#include "backend/cuda/graph_rows.hpp"

namespace everkernel::device {

/// A handle that no dependent may touch any more; smaller values are the commuting opcode whose
/// items faulted, which does not stop items of that opcode.
inline constexpr Word kPoisonedForAll = 0xFFFFFFFFu;

// ---- what nobody writes during a launch ---------------------------------------------------------

EK_DEVICE Word load_place(const unsigned char* places, Word item) {
  Word place;
  asm volatile("ld.global.nc.u8 %0, [%1]; // ek:row"
               : "=r"(place)
               : "l"(__cvta_generic_to_global(places + item)));
  return place;
}
EK_DEVICE Word load_origin(const unsigned short* origins, Word item) {
  unsigned short origin;
  asm volatile("ld.global.nc.u16 %0, [%1]; // ek:row"
               : "=h"(origin)
               : "l"(__cvta_generic_to_global(origins + item)));
  return origin;
}
EK_DEVICE Word load_key(const Word* keys, Wide place) {
  Word key;
  asm volatile("ld.global.nc.u32 %0, [%1]; // ek:row"
               : "=r"(key)
               : "l"(__cvta_generic_to_global(keys + place)));
  return key;
}
EK_DEVICE Quad load_item(const abi::WorkItem* items, Word item) {
  Quad words;
  asm volatile("ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4]; // ek:row"
               : "=r"(words.a), "=r"(words.b), "=r"(words.c), "=r"(words.d)
               : "l"(__cvta_generic_to_global(items + item)));
  return words;
}

EK_DEVICE Waiters load_waiters(const Waiters* nodes, Word node) {
  Waiters waiters;
  asm volatile("ld.global.nc.v2.u32 {%0, %1}, [%2]; // ek:row"
               : "=r"(waiters.only), "=r"(waiters.first_chunk)
               : "l"(__cvta_generic_to_global(nodes + node)));
  return waiters;
}
EK_DEVICE void load_chunk(const Word* chunks, Word chunk, Word (&waiters)[kChunkWaiters]) {
  const Word* const from = chunks + Wide{chunk} * kChunkWaiters;
#pragma unroll
  for (Word i = 0; i < kChunkWaiters; i += 4) {
    asm volatile("ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4]; // ek:row"
                 : "=r"(waiters[i]), "=r"(waiters[i + 1]), "=r"(waiters[i + 2]),
                   "=r"(waiters[i + 3])
                 : "l"(__cvta_generic_to_global(from + i)));
  }
}

/// A row in memory of the host, which wrote it before the launch.
EK_DEVICE Quad load_from_host(const FreshRegion* row) {
  Quad words;
  asm volatile("ld.relaxed.sys.global.v4.u32 {%0, %1, %2, %3}, [%4]; // ek:row"
               : "=r"(words.a), "=r"(words.b), "=r"(words.c), "=r"(words.d)
               : "l"(__cvta_generic_to_global(row)));
  return words;
}

// ---- one crew -----------------------------------------------------------------------------------

/// One crew's way through planned work.
class GraphCrew {
 public:
  EK_DEVICE explicit GraphCrew(const GraphParams& params)
      : params_(params), shared_(*params.shared), ring_{params.launch.around, params.launch.first} {
    can_hold_ = crew_.lane < params.launch.slots_per_crew;
  }

  EK_DEVICE void run() {
    if (crew_.leads()) working().fetch_add_acq_rel(0, 1);
    // One place where items run: handlers are compiled into it.
    while (next_regions()) {
      Visitor visitor;
      Word result = kDone;
      const bool is_admitted = item_ != kNoNode && admit(visitor, result);
      run_items(visitor, result);
      if (is_admitted) settle(visitor, result);
      __syncwarp();
    }
    leave();
  }

 private:
  // ---- coming and going ----

  EK_DEVICE Words working() const { return one_word(&shared_.working); }

  EK_DEVICE bool must_leave() const {
    const Word leave = Words(const_cast<Word*>(params_.leave), 1).load_relaxed(0);
    return leave != 0 || ring_.must_stop();
  }

  /// Gives the lanes something to do; false when this crew is to leave.
  EK_DEVICE bool next_regions() {
    for (;;) {
      if (crew_.any(must_leave())) return false;
      const bool has_looked = take();
      if (crew_.any(item_ != kNoNode)) return true;
      if (!crew_.any(has_looked) && !wait_for_work()) return false;
    }
  }

  /// Waits until a region is released; false when nobody is there who could release one. That is
  /// for company alone: whoever releases takes what nobody else does.
  EK_DEVICE bool wait_for_work() {
    if (crew_.leads()) working().fetch_add_acq_rel(0, 0u - 1);
    __syncwarp();  // before the leader is alone again: see Crew
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

  /// Adds what was counted; the last crew of a launch reports.
  EK_DEVICE void leave() {
    flush();
    __syncwarp();
    (void)crew_.any(false);  // all warps of the crew have added
    Word before = 0;
    if (crew_.leads()) {
      if (!is_resting_) working().fetch_add_acq_rel(0, 0u - 1);
      before = one_word(&shared_.departed).fetch_add_acq_rel(0, 1);
    }
    if (crew_.from_leader(before) + 1 == params_.crew_count && crew_.lane < kWarp) report();
  }

  /// Tells the host, and clears what belongs to one launch. All lanes of the first warp.
  EK_DEVICE void report() const {
    __syncwarp();  // what the leader has acquired is there for all
    GraphReport& out = *params_.report;
    const Wide* const totals = reinterpret_cast<const Wide*>(&shared_.totals);
    Wide* const told = reinterpret_cast<Wide*>(&out.totals);
    for (Word i = lane_index(); i < kTotalsWords; i += kWarp) {
      WideWord(told + i).store_for_host(WideWord(totals + i).load_relaxed());
    }
    if (lane_index() != 0) return;
    WideWord(&out.aside).store_for_host(WideWord(&shared_.aside).load_relaxed());
    WideWord(&out.finished).store_for_host(WideWord(&shared_.finished).load_relaxed());
    if (ring_.row.emitted != nullptr) {
      WideWord(&out.emitted).store_for_host(WideWord(ring_.row.emitted).load_relaxed());
    }
    store_for_host(&out.is_shut_down, ring_.control().load_relaxed(abi::kControlShutdown.first));
    WideWord(&shared_.fresh).store_relaxed(0);
    WideWord(&shared_.resumed).store_relaxed(0);
    WideWord(&shared_.aside).store_relaxed(0);
    WideWord(&shared_.finished).store_relaxed(0);
    working().store_relaxed(0, 0);
    one_word(&shared_.departed).store_relaxed(0, 0);
  }

  // ---- taking regions ----

  /// Every lane that has none gets one, as far as there are any; says whether there was anything to
  /// take. Fresh regions that wait are claimed and left to whoever they wait for.
  EK_DEVICE bool take() {
    bool has_looked = params_.ages != 0 && take_resumed();
    has_looked = take_fresh() || has_looked;
    has_looked = take_released() || has_looked;
    if (params_.ages == 0) has_looked = take_resumed() || has_looked;
    return has_looked;
  }

  /// Lanes of this warp that have no region and may have one.
  EK_DEVICE Word free_lanes() const {
    return __ballot_sync(kAllLanes, can_hold_ && item_ == kNoNode);
  }
  EK_DEVICE static Word rank_of_lane(Word lanes) {
    return static_cast<Word>(__popc(lanes & ((1u << lane_index()) - 1)));
  }
  EK_DEVICE static bool has_lane(Word lanes) { return (lanes >> lane_index() & 1) != 0; }

  /// Gives each free lane the next place below `end`, `end` to all others; says whether there was
  /// one.
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
      if (row.c != 0) count_regions(row.b, row.c);
      claim(row.a, row.b);
    }
    __syncwarp();
    return has_looked;
  }

  /// A region that waits counts its own claim as one more thing it waits for.
  EK_DEVICE void claim(Word item, Word slot) {
    const Words waiting_for(params_.waiting_for, params_.item_count);
    if (waiting_for.load_relaxed(item) != 0) {
      slots_of_regions().store_relaxed(item, slot);
      if (waiting_for.fetch_add_acq_rel(item, 0u - 1) != 1) return;
    }
    hold(item, slot);
  }
  EK_DEVICE Words slots_of_regions() const { return {params_.slot_of, params_.item_count}; }

  EK_DEVICE void hold(Word item, Word slot) {
    item_ = item;
    slot_ = slot;
    resumed_ = 0;
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
        sleep(100);  // whoever got this place has not filled it yet
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

  /// Whether the item of this lane may run now, and what it needs for that. One that may not is put
  /// aside; of one that has nothing to run the result is known.
  EK_DEVICE bool admit(Visitor& visitor, Word& result) {
    words_ = load_item(params_.items, item_);
    const Word origin =
        params_.origins != nullptr ? load_origin(params_.origins, item_) : params_.origin;
    visitor.slot = slot_;
    visitor.opcode = words_.a;
    visitor.tenant = origin & 0xFF;
    visitor.priority_word = origin >> 8;
    if (ring_.standing_of(visitor.tenant, ring_.tenant_base()) != Ring::Standing::enabled ||
        !take_quota(ring_, visitor, ring_.quota_of(visitor.tenant))) {
      put_aside();
      item_ = kNoNode;
      return false;
    }
    count_claim(origin);
    visitor.handler = find_handler(visitor.opcode);
    if (visitor.handler == kNoHandler) {  // NOP: a run has no other opcode without a handler
      ++nops_;
      return true;
    }
    const Word traits = traits_of(visitor.handler);
    if (is_poisoned(traits)) {
      result = fault_of(FaultCode::input_faulted);
      return true;
    }
    visitor.kind = Kind::lane;
    if (kHasWarpHandlers && (traits & kTraitWarp) != 0) visitor.kind = Kind::warp;
    if (kHasGroupHandlers && (traits & kTraitGroup) != 0) visitor.kind = Kind::group;
    return true;
  }

  /// All lanes of a crew run their items, on one lane or on all of them.
  EK_DEVICE void run_items(const Visitor& visitor, Word& result) {
    if (visitor.kind == Kind::lane) {
      Item item = item_of(visitor);
      item.args[0] = words_.b;
      item.args[1] = words_.c;
      item.args[2] = words_.d;
#pragma unroll
      for (Word i = 3; i < abi::kSlotArgs; ++i) item.args[i] = 0;
      if (resumed_ != 0) load_args(resumed_, item);
      result = after_handler(item, run_lane_handler(visitor.handler, item));
    }
    __syncwarp();
    if constexpr (kHasWarpHandlers) {
      for_each_of_warp(visitor, Kind::warp, [&](Word owner) {
        Item item = item_of(visitor, owner);
        const Word handler = __shfl_sync(kAllLanes, visitor.handler, owner);
        const Word ended = run_warp_handler(handler, item);
        __syncwarp();  // what all lanes wrote comes before the owner's release
        if (lane_index() == owner) result = after_handler(item, ended);
        __syncwarp();
      });
    }
    if constexpr (kHasGroupHandlers) run_groups(visitor, result);
  }

  EK_DEVICE Item item_of(const Visitor& visitor) const {
    Item item = make_item(ring_, visitor.slot, visitor.opcode, visitor.tenant,
                          visitor.priority_word, visitor.handler);
    item.number = item_;
    return item;
  }
  EK_DEVICE void load_args(Word resumed, Item& item) const {
    const Continuation* const from = params_.resumed + (resumed - 1);
#pragma unroll
    for (Word i = 0; i < abi::kSlotArgs; i += 4) {
      const Quad quad = load_quad(from->args + i);
      item.args[i] = quad.a;
      item.args[i + 1] = quad.b;
      item.args[i + 2] = quad.c;
      item.args[i + 3] = quad.d;
    }
  }

  /// The same item for every lane of the warp, taken from the lane that holds it.
  EK_DEVICE Item item_of(const Visitor& visitor, Word owner) const {
    Item item = make_item(ring_, __shfl_sync(kAllLanes, visitor.slot, owner),
                          __shfl_sync(kAllLanes, visitor.opcode, owner),
                          __shfl_sync(kAllLanes, visitor.tenant, owner),
                          __shfl_sync(kAllLanes, visitor.priority_word, owner),
                          __shfl_sync(kAllLanes, visitor.handler, owner));
    item.number = __shfl_sync(kAllLanes, item_, owner);
    item.args[0] = __shfl_sync(kAllLanes, words_.b, owner);
    item.args[1] = __shfl_sync(kAllLanes, words_.c, owner);
    item.args[2] = __shfl_sync(kAllLanes, words_.d, owner);
#pragma unroll
    for (Word i = 3; i < abi::kSlotArgs; ++i) item.args[i] = 0;
    const Word resumed = __shfl_sync(kAllLanes, resumed_, owner);
    if (resumed != 0) load_args(resumed, item);
    return item;
  }

  /// Runs the items of scope group of the whole block, one after the other.
  EK_DEVICE void run_groups(const Visitor& visitor, Word& result) {
    __shared__ Word board[10];
    for_each_of_block(visitor, Kind::group, [&](Word owner) {
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
      Item item = make_item(ring_, board[0], board[1], board[2], board[3], board[4]);
      item.number = board[5];
#pragma unroll
      for (Word k = 0; k < abi::kSlotArgs; ++k) item.args[k] = k < 3 ? board[6 + k] : 0;
      if (board[9] != 0) load_args(board[9], item);
      const Word ended = run_group_handler(board[4], item);
      __syncthreads();  // what all threads wrote comes before the owner's release
      if (threadIdx.x == owner) result = after_handler(item, ended);
    });
  }

  /// An item that wants to run again keeps its args.
  EK_DEVICE Word after_handler(const Item& item, Word result) const {
    const auto ending = static_cast<Ending>(result & 0xFF);
    if (ending != Ending::yield && ending != Ending::requeue) return result;
    Word* const to = make_continuation(item.number, item.slot, true);
    const Words words(to, sizeof(Continuation) / sizeof(Word));
#pragma unroll
    for (Word i = 0; i < abi::kSlotArgs; ++i) words.store_relaxed(4 + i, item.args[i]);
    return result;
  }
  /// An item that cannot run now stays as it is.
  EK_DEVICE void put_aside() const {
    Word* const to = make_continuation(item_, slot_, resumed_ != 0);
    if (resumed_ == 0) return;
    const Words from(const_cast<Word*>(params_.resumed[resumed_ - 1].args), abi::kSlotArgs);
    for (Word i = 0; i < abi::kSlotArgs; ++i) {
      Words(to, sizeof(Continuation) / sizeof(Word)).store_relaxed(4 + i, from.load_relaxed(i));
    }
  }
  EK_DEVICE Word* make_continuation(Word item, Word slot, bool has_begun) const {
    const Wide place = WideWord(&shared_.aside).fetch_add_relaxed(1);
    Word* const to = &params_.aside[place].item;
    const Words words(to, sizeof(Continuation) / sizeof(Word));
    words.store_relaxed(0, item);
    words.store_relaxed(1, slot);
    words.store_relaxed(2, has_begun ? 1 : 0);
    return to;
  }

  // ---- how an item ended ----

  EK_DEVICE void settle(const Visitor& visitor, Word result) {
    // The next of the tenant's items comes after this one.
    if (visitor.is_counted) ring_.in_flight(visitor.tenant).add_release(0, 0u - 1);
    switch (static_cast<Ending>(result & 0xFF)) {
      case Ending::requeue:
        ++requeues_;
        [[fallthrough]];
      case Ending::yield:
        item_ = kNoNode;
        return;
      case Ending::done:
        ++done_;
        store_outcome(kItemDone);
        break;
      default:
        poison_outputs(traits_of(visitor.handler));
        ++faulted_;
        store_outcome(result >> 8);
        break;
    }
    go_on();
  }
  EK_DEVICE void store_outcome(Word outcome) const {
    Words(params_.outcomes, params_.item_count).store_relaxed(item_, outcome);
  }

  /// To the next item of the region, or to a region that waited for this one.
  EK_DEVICE void go_on() {
    const Waiters waiters = load_waiters(params_.nodes, item_);
    const bool has_one = (waiters.only & kMany) == 0 && waiters.only < params_.item_count;
    if (has_one && load_place(params_.places, waiters.only) != 0) {
      item_ = waiters.only;
      resumed_ = 0;
      return;
    }
    count_regions(slot_, 0u - 1);
    item_ = kNoNode;
    Word joins = kNoNode;
    release(waiters, joins);
    release_joins(joins);
  }

  /// Counts down everything that waits for a node: the first waiters here, the others wherever a
  /// lane is free.
  EK_DEVICE void release(const Waiters& waiters, Word& joins) {
    if (waiters.only == kNoNode) return;
    if ((waiters.only & kMany) == 0) {
      if (count_down(waiters.only)) pass_on(waiters.only, joins);
      return;
    }
    const Word others = (waiters.only & ~kMany) - 1;
    if (others != 0) push(params_.item_count + waiters.first_chunk + 1, others);
    release_chunk(waiters.first_chunk, joins);
  }
  /// A join passes on that its count has come to zero. Until its turn comes it lies in a list that
  /// goes through the counts, which nobody needs any more.
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
    fence();  // one for all of them
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
  /// Says whether nothing is left that the node waits for.
  EK_DEVICE bool count_down(Word node) const {
    return counts_of(node).fetch_add_acq_rel(0, 0u - 1) == 1;
  }
  EK_DEVICE void pass_on(Word node, Word& joins) {
    if (node < params_.item_count) {
      if (item_ == kNoNode) {
        give(node);  // this lane runs one of them, others the rest
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
    hold(item, slots_of_regions().load_relaxed(item));
  }
  /// Adds to the queue, with everything that was done before.
  EK_DEVICE void push(Word first, Word count) const {
    const Wide place = WideWord(&shared_.tail).fetch_add_relaxed(count);
    const Words cells(params_.released + place, count);
    fence();
    for (Word i = 0; i < count; ++i) cells.store_relaxed(i, first + i + 1);
  }

  /// Adds to the regions a slot has left. How many it had at first is added when one of them is
  /// taken, before or after others have ended: the sum is zero when all of that has happened. The
  /// host looks when the launch is over, so that nothing needs an order.
  EK_DEVICE void count_regions(Word slot, Word count) const {
    const Words left(params_.left, ~0u);
    if (left.fetch_add_relaxed(slot, count) + count != 0) return;
    const Wide place = WideWord(&shared_.finished).fetch_add_relaxed(1);
    store_for_host(params_.finished + place, slot);
  }

  // ---- faults ----

  EK_DEVICE Wide place_of(Word handle) const {
    if (params_.keys == nullptr) return handle;
    Wide at = (Wide{handle} * 0x9E3779B97F4A7C15ull >> 24) & params_.key_mask;
    while (load_key(params_.keys, at) != handle) at = (at + 1) & params_.key_mask;
    return at;
  }
  EK_DEVICE Words poison(Word handle) const {
    return {params_.poisoned_by + place_of(handle), 1};
  }
  EK_DEVICE Word poison_of(Word handle) const {
    return handle == 0 ? 0 : poison(handle).load_relaxed(0);
  }

  EK_DEVICE static bool touches_input(Word traits) {
    return (traits & (kTraitReadsInput | kTraitWritesInput)) != 0;
  }
  /// Whether the item does not depend on others of its opcode through its output.
  EK_DEVICE bool commutes(Word traits) const {
    return (traits & kTraitCommutes) != 0 && !(touches_input(traits) && words_.b == words_.c);
  }

  EK_DEVICE bool is_poisoned(Word traits) const {
    if (params_.is_ordered == 0 || one_word(&shared_.has_faults).load_relaxed(0) == 0) return false;
    if (touches_input(traits) && poison_of(words_.b) != 0) return true;
    if ((traits & (kTraitReadsOutput | kTraitWritesOutput)) == 0) return false;
    const Word by = poison_of(words_.c);
    return by != 0 && !(commutes(traits) && by == words_.a);
  }

  EK_DEVICE void poison_outputs(Word traits) const {
    if (params_.is_ordered == 0) return;
    if ((traits & kTraitWritesInput) != 0) poison_handle(words_.b, kPoisonedForAll);
    if ((traits & kTraitWritesOutput) != 0) {
      poison_handle(words_.c, commutes(traits) ? words_.a : kPoisonedForAll);
    }
    one_word(&shared_.has_faults).store_relaxed(0, 1);
  }
  EK_DEVICE void poison_handle(Word handle, Word by) const {
    if (handle == 0) return;
    const Words word = poison(handle);
    Word before = 0;
    for (;;) {
      const Word found =
          word.exchange_if(0, before, before == 0 || before == by ? by : kPoisonedForAll);
      if (found == before) return;
      before = found;
    }
  }

  // ---- counting ----

  /// Most items of a lane are of one tenant and priority.
  EK_DEVICE void count_claim(Word origin) {
    if (origin != counted_) {
      if (claims_ != 0) add_claims(counted_, claims_);
      counted_ = origin;
      claims_ = 0;
    }
    ++claims_;
  }
  EK_DEVICE void add_claims(Word origin, Word count) const {
    WideWord(shared_.totals.tenant_claims + (origin & 0xFF)).add_relaxed(count);
    WideWord(shared_.totals.priority_claims + (origin >> 8)).add_relaxed(count);
  }
  EK_DEVICE static void add_of_warp(Wide* total, Word count) {
    const Word sum = __reduce_add_sync(kAllLanes, count);
    if (lane_index() == 0 && sum != 0) WideWord(total).add_relaxed(sum);
  }
  EK_DEVICE void flush() const {
    add_of_warp(&shared_.totals.done, done_);
    add_of_warp(&shared_.totals.faulted, faulted_);
    add_of_warp(&shared_.totals.nops, nops_);
    add_of_warp(&shared_.totals.requeues, requeues_);
    // One lane of those with an equal origin adds for all of them.
    const Word peers = __match_any_sync(kAllLanes, counted_);
    const Word sum = __reduce_add_sync(peers, claims_);
    if (sum != 0 && rank_of_lane(peers) == 0) add_claims(counted_, sum);
  }

  const GraphParams& params_;
  GraphShared& shared_;
  Ring ring_;
  Crew crew_;
  bool can_hold_ = false;
  bool is_resting_ = false;  // does not count as working
  Word item_ = kNoNode;      // of this lane: the item that is next
  Word slot_ = 0;            // its slot
  Word resumed_ = 0;         // which continuation has its args, plus one
  Quad words_ = {};          // opcode, handles and param of the item
  Word counted_ = 0;         // whose claims are counted
  Word claims_ = 0;          // counted and not yet added, like the next
  Word done_ = 0;
  Word faulted_ = 0;
  Word nops_ = 0;
  Word requeues_ = 0;
};

/// Runs planned work until nothing of it can run.
extern "C" __global__ void __launch_bounds__(EVERKERNEL_BLOCK_THREADS, EVERKERNEL_BLOCKS_PER_SM)
    everkernel_graph(const __grid_constant__ GraphParams params) {
  const Word warp = threadIdx.x / kWarp;
  const Word crew = kHasGroupHandlers ? blockIdx.x : blockIdx.x * (blockDim.x / kWarp) + warp;
  if (crew < params.crew_count) GraphCrew(params).run();
}

}  // namespace everkernel::device
