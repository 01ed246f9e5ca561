// One look at queues. A look is one load of the entries that come next in up to 32 queues; the
// words that decide whether they may run are loaded beside it, because a load from the host takes
// several times as long.
#pragma once

#include "backend/cuda/device/live_duty.cuh"
#include "backend/cuda/device/live_memory.cuh"
#include "backend/cuda/device/live_streams.cuh"
#include "backend/cuda/live_rows.hpp"
#include "everkernel/abi/control.hpp"
#include "everkernel/abi/queue.hpp"
#include "jit/device/lanes.cuh"
#include "jit/device/types.hpp"
#include "jit/device/words.cuh"

namespace everkernel::device {

/// Least entries of a window that count as a row of many when all of them are there.
inline constexpr Word kLongRow = 8;
/// Looks without a stretch after which a queue no longer counts as one that streams.
inline constexpr Word kStreamingLooks = 64;
/// From this quota on, short items that the looking crews run themselves are not counted: they hold
/// no worker, and there are never more of them at one time.
inline constexpr Word kLargeQuota = kWarpLanes * abi::kPriorityCount;

/// What a look has seen.
struct LiveLook {
  const LiveOrders* orders;
  Word shutdown;
  Word tenant_base;
  // Of this lane: the record of the place, and of its queue the tenant's mask and quota, the shares
  // of the quota that are held, and the items that wait. A portion is not looked at for its quota.
  Word ended, mask, quota, held, waiting;
  bool is_portion;
  Quad quads[abi::kFullQuads];
  // Of a queue that streams, on its first lane: how far it is filled, by the producer's word; its
  // claim, and what is left of the stretch whose row comes next.
  Wide filled, claim;
  Word left;
  // Once it has ended.
  Word stretch;     // tickets of this lane's queue that may become a stretch; 0: none
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
    share_lanes(window_.is_full && width_ >= abi::kFullQuads);
    limit_ = limits_ != nullptr && index < count
                 ? WideWord(limits_ + first_queue_ + index).load_relaxed()
                 : ~Wide{0};
    has_full_windows_ = __any_sync(kAllLanes, lanes_each_ != 1) != 0;
    whole_windows_ = window_.row != nullptr ? load_field(&window_.row->whole_windows) : 0;
    is_counting_windows_ = __any_sync(kAllLanes, reach_ < kLongRow) != 0;
    streaming_ = 0;
    is_on_board_ = false;
    has_express_ = serves_one_level() && params_.slots_per_crew != 1 && kPayload == kNoHandler;
    note_tenants(tenant_base_);
  }

  /// Says whether four lanes load an entry of this lane's queue together.
  EK_DEVICE void share_lanes(bool is_shared) {
    static_assert(abi::kFullQuads == 4);
    lanes_shift_ = is_shared ? 2 : 0;
    lanes_each_ = 1u << lanes_shift_;
    reach_ = width_ >> lanes_shift_;
    behind_ = (lane_index() & (width_ - 1)) >> lanes_shift_;
  }

  /// Begins to look at the next entries of all queues of this round, or of that many tickets in a
  /// row of one queue. All loads are under way together.
  EK_DEVICE void begin_look(LiveLook& look, Word row_length = 0) const {
    const Words control = runner_.control();
    look.ended = look.mask = look.quota = look.held = look.waiting = 0;
    look.filled = look.claim = look.left = look.stretch = 0;
    look.is_portion = row_length != 0;
    look.orders = load_pointer(&shared_.orders);
    look.shutdown = is_shut_down();
    look.tenant_base = control.load_relaxed(abi::kControlTenantBase.first);
    if (window_.row != nullptr) {
      const Word place = abi::place_of(head_ + behind_, window_.capacity);
      look.ended = load_ended(window_.ended, place);
      look.waiting = load_field(&window_.row->waiting_count);
      look.mask = control.load_relaxed_if(is_known_, Wide{tenant_base_} + window_.tenant);
      look.quota = control.load_relaxed(abi::kControlTenantQuotas.first + window_.tenant);
      look.held = load_field(&shared_.in_flight[window_.tenant]);
      if (streaming_ != 0 && lane_index() == first_lane()) {
        const Stretches stretches{window_.row};
        look.filled = load_filled(window_.entries);
        look.claim = stretches.load_claim();
        look.left = stretches.load_left(stretch_number_ + 1);
      }
      if (row_length == 0 || !window_.is_full) load_entry(place, look.quads);
    } else {
      look.quads[0] = {};
    }
    __syncwarp();
    if (row_length != 0 && window_.is_full) load_full_row(head_, row_length, look.quads);
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
    if (limits_ != nullptr) look.found &= __ballot_sync(kAllLanes, head_ + behind_ < limit_);
    if (has_full_windows_) look.found = whole_entries(look.found);
    if (__any_sync(kAllLanes, streaming_ != 0)) end_look_at_streams(look);
    if (has_moved) {
      note_tenants(__shfl_sync(kAllLanes, look.tenant_base, 0));
      look.found = 0;  // the masks of a table that was moved are looked at next time
    }
    return needs_care;
  }

  /// Queues that stream: while portions are left to pull, nothing else of the queue is taken, and
  /// then the next stretch may be opened at once.
  EK_DEVICE void end_look_at_streams(LiveLook& look) {
    bool must_wait = false;
    if (streaming_ != 0 && lane_index() == first_lane()) {
      const Word count = has_small_quota(look) ? 0 : filled_behind_head(look.filled);
      const bool is_many = count >= kLeastStretch && row_length(look.found) == reach_;
      must_wait = Stretches::leaves_some(look.claim, stretch_count_) || (is_many && look.left != 0);
      if (is_many && !must_wait) look.stretch = count;
      streaming_ = must_wait || is_many ? kStreamingLooks : streaming_ - 1;
    }
    __syncwarp();
    const Word first = first_lane();
    streaming_ = __shfl_sync(kAllLanes, streaming_, first);
    look.stretch = __shfl_sync(kAllLanes, look.stretch, first);
    must_wait = __shfl_sync(kAllLanes, Word{must_wait}, first) != 0;
    look.found &= ~__ballot_sync(kAllLanes, must_wait);
  }

  /// Whether the entry, or the part of it, that this lane has loaded is there and may be taken.
  EK_DEVICE bool is_entry_there(const LiveLook& look, Word lap) const {
    const bool is_free = window_.row != nullptr && is_ended(look.ended, lap ^ 1);
    // Without a share of the quota the item could not be taken, and would hold up the others.
    const bool has_share = look.held < look.quota || look.quota >= params_.crew_count;
    const bool may_run = (look.mask != 0 || !is_known_) && (has_share || look.is_portion);
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

  /// Loads the full entries of up to 32 tickets in a row, one for each lane. Each load of the warp
  /// covers eight whole entries, so that the bus carries whole lines.
  EK_DEVICE void load_full_row(Wide first, Word count, Quad (&quads)[abi::kFullQuads]) const {
    constexpr Word kEach = kWarpLanes / abi::kFullQuads;  // entries of one load
    const Word quad = lane_index() % abi::kFullQuads;
    Quad parts[abi::kFullQuads] = {};
#pragma unroll
    for (Word i = 0; i < abi::kFullQuads; ++i) {
      const Word behind = i * kEach + lane_index() / abi::kFullQuads;
      const Word place = abi::place_of(first + behind, window_.capacity);
      if (behind < count) {
        parts[i] = load_entry_quad(window_.entries + Wide{place} * abi::kSlotWords + 4 * quad);
      }
    }
    __syncwarp();
#pragma unroll
    for (Word q = 0; q < abi::kFullQuads; ++q) {
      const Word from = lane_index() % kEach * abi::kFullQuads + q;
#pragma unroll
      for (Word i = 0; i < abi::kFullQuads; ++i) {
        const Quad part = shuffle(parts[i], from);
        if (lane_index() / kEach == i) quads[q] = part;
      }
    }
  }
  EK_DEVICE static Quad shuffle(const Quad& quad, Word from) {
    return {__shfl_sync(kAllLanes, quad.a, from), __shfl_sync(kAllLanes, quad.b, from),
            __shfl_sync(kAllLanes, quad.c, from), __shfl_sync(kAllLanes, quad.d, from)};
  }

  /// Gives each of the lanes that loaded an entry together all of its quads.
  EK_DEVICE void gather(LiveLook& look) const {
    if (!has_full_windows_) return;
    const Word first = lane_index() & ~(abi::kFullQuads - 1);
    const Quad mine = look.quads[0];
#pragma unroll
    for (Word i = 0; i < abi::kFullQuads; ++i) {
      const Word from = lanes_each_ != 1 ? first + i : lane_index();
      const Quad quad = shuffle(mine, from);
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
    const Word end = (clear == 0 ? kWarpLanes : lowest_lane(clear)) >> lanes_shift_;
    return end < reach_ ? end : reach_;
  }

  /// Tickets from the head on up to `filled`, any number of the producer, at most a whole lap. The
  /// head may have passed it: entries are taken as soon as they are there, and `filled` is raised
  /// behind many of them.
  EK_DEVICE Word filled_behind_head(Wide filled) const {
    if (limits_ != nullptr && limit_ < filled) filled = limit_;
    const auto there = static_cast<long long>(filled - head_);
    if (there <= 0) return 0;
    return there < static_cast<long long>(window_.capacity) ? static_cast<Word>(there)
                                                            : window_.capacity;
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

  /// What a portion has above a small quota would be given back, and visited item by item.
  EK_DEVICE bool has_small_quota(const LiveLook& look) const {
    return look.quota < params_.crew_count && look.quota < kLargeQuota;
  }

  /// Looks from now on how far a queue is filled, if a look has found so much in it that there may
  /// be a stretch: a whole window, and if windows are narrow several in a row. Returns the lanes of
  /// such queues.
  EK_DEVICE Word begin_to_stream(const LiveLook& look) {
    if (__popc(look.found) < static_cast<int>(kLongRow) && !is_counting_windows_) return 0;
    const bool is_row = reach_ >= kLongRow || whole_windows_ >= kLongRow / reach_;
    const bool begins = has_streams_ && streaming_ == 0 && row_length(look.found) == reach_ &&
                        is_row && !has_small_quota(look);
    if (begins) {
      const Stretches stretches{window_.row};
      stretch_number_ = static_cast<Word>(stretches.load_claim() >> 32);
      stretch_count_ = stretches.load_count(stretch_number_);
      streaming_ = kStreamingLooks;
    }
    return __ballot_sync(kAllLanes, begins);
  }

  EK_DEVICE void count_windows(Word found) {
    const bool is_whole = reach_ < kLongRow && row_length(found) == reach_;
    whole_windows_ = is_whole ? whole_windows_ + 1 : 0;
  }
  /// The crew that looks next goes on counting: in a flood of long items each crew looks once.
  EK_DEVICE void keep_windows() const {
    if (!is_counting_windows_ || window_.row == nullptr || lane_index() != first_lane()) return;
    one_word(&window_.row->whole_windows).store_relaxed(0, whole_windows_);
  }

  const bool has_streams_;
  Word rounds_ = 1, round_ = 0;
  Word queue_place_ = 0;           // of this lane's queue, in the orders
  Word width_ = 1;                 // lanes of this lane's queue
  Word lanes_each_ = 1;            // lanes that load one entry, a quad each
  Word lanes_shift_ = 0;           // its logarithm: a division takes as long as twenty instructions
  bool has_full_windows_ = false;  // some queue's entries are loaded by several lanes
  bool has_express_ = false;       // run_express() may be used
  bool is_counting_windows_ = false;
  Word whole_windows_ = 0;  // narrow windows of this lane's queue in a row that were whole
  // Of this lane's queue: looks for which it still counts as one that streams, and its last
  // stretch.
  Word streaming_ = 0, stretch_number_ = 0, stretch_count_ = 0;
  bool is_on_board_ = false;
  Word reach_ = 1;   // entries in the window of the queue
  Word behind_ = 0;  // entries of the queue that come before this lane's
  LiveQueue window_;
  Wide head_ = 0;
  Wide limit_ = ~Wide{0};  // of this lane's queue, if orders have limits
  Word tenant_base_ = abi::kControlTenantMasks.first;
  bool is_known_ = true;  // the tenant of this lane's queue is in the table
  Word look_count_ = 0;   // looks of this crew
  Word quiet_since_ = 0;  // the last one at which this crew cared for streams
  Word idle_looks_ = 0;
  Word skips_ = 0, skipped_ = 0;  // looks between two visits of items that wait
};

}  // namespace everkernel::device
