// One look at queues. A look is one load of the entries that come next in up to 32 queues; the
// words that decide whether they may run are loaded beside it, because a load from the host takes
// several times as long.
#pragma once

#include "backend/cuda/device/live_duty.cuh"
#include "backend/cuda/device/live_memory.cuh"
#include "backend/cuda/live_rows.hpp"
#include "everkernel/abi/control.hpp"
#include "everkernel/abi/queue.hpp"
#include "jit/device/lanes.cuh"
#include "jit/device/types.hpp"
#include "jit/device/words.cuh"

namespace everkernel::device {

/// Least entries of a window that count as a row of many when all of them are there.
inline constexpr Word kLongRow = 8;

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

/// The entries that a crew looks at: those that come next in up to 32 queues.
class LiveWindow : protected LiveDuty {
 protected:
  EK_DEVICE explicit LiveWindow(const LiveParams& params)
      : LiveDuty(params), has_streams_(params.slots_per_crew != 1) {}

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

  const bool has_streams_;
  Word rounds_ = 1, round_ = 0;
  Word queue_place_ = 0;           // of this lane's queue, in the orders
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
  Word idle_looks_ = 0, quiet_looks_ = 0;
  Word skips_ = 0, skipped_ = 0;  // looks between two visits of items that wait
};

}  // namespace everkernel::device
