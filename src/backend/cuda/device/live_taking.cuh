// Taking: which of the entries that a look has found become the items of the lanes. The crew that
// looks takes short items for itself. Before it takes a long one it gives the lock away, so that no
// item waits for someone to hand it on, and no long item stops the looking.
#pragma once

#include "backend/cuda/device/live_express.cuh"
#include "backend/cuda/device/live_items.cuh"
#include "backend/cuda/device/live_streams.cuh"
#include "backend/cuda/device/live_waiting.cuh"
#include "backend/cuda/live_rows.hpp"
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

/// A crew that takes items.
class LiveTaking : protected LiveExpress {
 protected:
  using LiveExpress::LiveExpress;

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

  /// Puts queues whose stretches have portions left on the board: what the orders before these put
  /// there is not found any more.
  EK_DEVICE void offer_stretches() {
    if (!has_streams_ || offered_ == epoch_) return;
    const Word count = end_queue_ - first_queue_;
    for (Word i = lane_index(); i < count; i += kWarpLanes) {
      const Word place = first_queue_ + i;
      if (!Stretches{load_pointer(queues_ + place)}.has_more()) continue;
      // Without room on the board, the crew that looks pulls the portions itself.
      StreamBoard{shared_.board}.put(place, epoch_);
    }
    __syncwarp();
    offered_ = epoch_;
    if (lane_index() == 0) one_word(&shared_.looking[level_].offered).store_relaxed(0, epoch_);
    __syncwarp();
  }

  /// Makes stretches of what is filled in queues of which a look has found many entries, and takes
  /// them out of what was found.
  EK_DEVICE void open_stretches(LiveLook& look) {
    if (!__any_sync(kAllLanes, look.stretch != 0)) return;
    Word count = 0;
    if (look.stretch != 0 && lane_index() == first_lane()) {
      is_on_board_ = is_on_board_ || put_on_board();
      if (is_on_board_) count = look.stretch;
      if (count != 0) Stretches{window_.row}.open(++stretch_number_, head_, count);
    }
    __syncwarp();
    count = __shfl_sync(kAllLanes, count, first_lane());
    stretch_number_ = __shfl_sync(kAllLanes, stretch_number_, first_lane());
    if (count != 0) {
      stretch_count_ = count;
      head_ += count;
      if (lane_index() == first_lane()) WideWord(&window_.row->head).store_relaxed(head_);
    }
    __syncwarp();
    look.found &= ~__ballot_sync(kAllLanes, count != 0);
    quiet_since_ = look_count_;
  }
  EK_DEVICE bool put_on_board() const {
    return StreamBoard{shared_.board}.put(queue_place_, epoch_);
  }

  /// Takes items that a look has found; returns whether there are any to run.
  EK_DEVICE bool take(LiveLook& look) {
    if (!has_express_ && is_counting_windows_) count_windows(look.found);
    open_stretches(look);
    look.found &= ~begin_to_stream(look);  // the next look says how much there is
    if (look.found == 0) return false;
    gather(look);
    const bool is_of_level = is_level_in_turn(look.found);
    const bool is_there = is_of_level && behind_ < row_length(look.found);
    read_entry(window_, head_ + behind_, look.quads);
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
    const bool may =
        window_.priority >= kFirstPatient || rank_of_lane(takers) >> lanes_shift_ < most;
    return __ballot_sync(kAllLanes, takes && may);
  }

  /// Makes the item of an entry, on every lane: an item that was made on some lanes alone would be
  /// copied, word by word, at each place where these meet the others.
  EK_DEVICE void read_entry(const LiveQueue& queue, Wide ticket,
                            const Quad (&quads)[abi::kFullQuads]) {
    LiveItem item;
    item.queue = queue;
    item.ticket = ticket;
    item.is_known_tenant = is_known_;
    const Quad head = quads[0];
    bool is_sound = true;
    item.opcode = queue.is_full ? head.b : head.a & ~abi::kLapMask;
    if (!queue.is_full) {
      item.args[0] = head.b;
      item.args[1] = head.c;
      item.args[2] = head.d;
    } else {
      is_sound = (head.a & ~abi::kLapMask) == static_cast<Word>(SlotStatus::published) &&
                 (head.d & ~abi::kFullPriorityMask) == 0;
#pragma unroll
      for (Word i = 1; i < abi::kFullQuads; ++i) {
        const Word top = head.d >> (abi::kDisplacedBits + i - 1) << 31;
        item.args[4 * i - 4] = (quads[i].a & ~abi::kLapMask) | top;
        item.args[4 * i - 3] = quads[i].b;
        item.args[4 * i - 2] = quads[i].c;
        item.args[4 * i - 1] = quads[i].d;
      }
    }
    item.operation = item.opcode;
    if (!is_sound) item.result = fault_of(FaultCode::bad_entry);
    if (!is_known_) item.result = fault_of(FaultCode::tenant_out_of_range);
    const bool is_packed = is(item.opcode, Opcode::packed_slot);
    if (item.result == kDone) {
      if (is_packed) {
        item.is_short = false;
      } else {
        classify(item, false);
      }
    }
    item_ = item;
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
    keep_windows();
    leave_looking_for(__shfl_sync(kAllLanes, item_.queue.number, owner));
  }

  /// Marks the items that were taken, if one of them may take long.
  EK_DEVICE void mark_items() const {
    if (!is_single_ && !__any_sync(kAllLanes, holds_ && !item_.is_short)) return;
    const Word holders = __ballot_sync(kAllLanes, holds_);
    const Word first = lowest_lane(holders);
    // Tickets of a take are those of its lanes, or, of full entries, follow each other.
    const Word tickets =
        lanes_each_ == 1 ? holders >> first : ~0u >> (kWarpLanes - __popc(holders));
    marker().begin(__shfl_sync(kAllLanes, item_.queue.number, first),
                   __shfl_sync(kAllLanes, item_.ticket, first), tickets,
                   __shfl_sync(kAllLanes, item_.opcode, first));
  }

  // The items of the lanes.
  LiveItem item_;
  bool holds_ = false;
  bool is_single_ = false;  // the item is on all lanes
  bool is_long_ = false;
  bool takes_shorts_ = false;
};

}  // namespace everkernel::device
