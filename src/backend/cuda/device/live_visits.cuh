// Visits of items that wait (live_waiting.cuh): those that yielded or wait for IO, fences that were
// not ready, and tickets of a stretch whose entry was not there.
#pragma once

#include "backend/cuda/device/live_pulling.cuh"
#include "backend/cuda/device/live_waiting.cuh"
#include "everkernel/abi/queue.hpp"
#include "everkernel/abi/slot.hpp"
#include "jit/device/lanes.cuh"
#include "jit/device/types.hpp"
#include "jit/device/words.cuh"

namespace everkernel::device {

/// Looks between two visits of items that wait while none of them can go on.
inline constexpr Word kMostSkips = 256;
/// Looks between two visits of items that go on and wait again, if that many looks ago or less a
/// look has found other items: a visit takes as long as several looks, in which nobody looks.
inline constexpr Word kSkipsBesideOthers = 16;
inline constexpr Word kBusyLooks = 64;

/// A crew that visits items that wait.
class LiveVisits : protected LivePulling {
 protected:
  using LivePulling::LivePulling;

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
      is_visit_ = true;
      return true;
    }
    skips_ = skips_ < kMostSkips ? 2 * skips_ + 1 : skips_;
    if (lane_index() == 0) bits.set(place);
    __syncwarp();
    item_ = {};
    return false;
  }

  /// Called when the items of the lanes have ended, or wait.
  EK_DEVICE void note_visit(bool waits) {
    if (!is_visit_) return;
    is_visit_ = false;
    const bool is_busy = look_count_ - found_at_ < kBusyLooks;
    if (__any_sync(kAllLanes, waits) && is_busy) skips_ = kSkipsBesideOthers;
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
      leave_looking_for(item_.queue.number);
    }
    if (!is_single_ && !holds_) item_.kind = Kind::nothing;
    acquire_entries();
    __syncwarp();
  }

  Word found_at_ = 0;      // the last one that found items
  bool is_visit_ = false;  // the item waited before
};

}  // namespace everkernel::device
