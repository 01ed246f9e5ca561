// The report of a drain: the crew that ends it writes the LaunchResult for the host and clears the
// shared words for the next launch.
#pragma once

#include "backend/cuda/device/requeue.cuh"
#include "backend/cuda/device/schedule.cuh"
#include "backend/cuda/device/submission.cuh"
#include "backend/cuda/launch_rows.hpp"
#include "everkernel/abi/control.hpp"
#include "everkernel/abi/slot.hpp"
#include "jit/device/lanes.cuh"
#include "jit/device/types.hpp"
#include "jit/device/words.cuh"

namespace everkernel::device {

using abi::SlotStatus;

/// A ring of up to this many slots is surveyed by one thread at the end of a drain; a larger ring
/// by a launch of its own (survey_kernel.cuh).
inline constexpr Word kSmallRing = 4096;

/// Counts the active slots and lowers `ended` to the position of the first ticket that is active.
EK_DEVICE Word survey(const SubmissionView& submission, Word first_ticket, Word& ended) {
  Word active = 0;
  const Word slots = submission.row.slot_count;
#pragma unroll 4
  for (Word position = 0; position < slots; ++position) {
    const Word slot = (first_ticket % slots + position) % slots;
    if (!abi::is_active(SlotStatus{submission.slot(slot).load_relaxed(0)})) continue;
    ++active;
    if (position < ended) ended = position;
  }
  return active;
}

/// How a drain ended, as far as the crew that ended it knows.
struct End {
  bool is_settled;   // no slot can run any more
  bool is_refused;   // nothing ran, because control words are not valid
  bool was_stopped;  // by SHUTDOWN or the abort word
};

/// Reports the active slots after a stop, and for the ticket schedule stores HEAD and TAIL.
EK_DEVICE void report_rest(const SubmissionView& submission, const End& end) {
  if (submission.row.list != nullptr || end.is_refused) return;
  if (!kByTicket && !end.was_stopped) return;
  Shared& shared = *submission.row.shared;
  LaunchResult& out = *submission.row.result;
  const Word first = one_word(&shared.first_ticket).load_relaxed(0);
  const Word count = kByTicket ? static_cast<Word>(WideWord(shared.fresh_end).load_relaxed()) : 0;
  const bool has_begun = WideWord(shared.fresh).load_relaxed() != 0;
  const bool has_ended = end.is_settled && queue_length(submission.row) == 0 &&
                         WideWord(&shared.claimed_at_entry).load_relaxed() == 0;
  Word ended = count;
  bool knows_ended = kByTicket && has_ended;
  const bool is_whole = has_ended && count == submission.row.slot_count;
  if (submission.row.slot_count <= kSmallRing && (kByTicket ? !is_whole : !end.is_settled)) {
    store_for_host(&out.active, survey(submission, first, ended));
    store_for_host(&out.is_surveyed, 1);
    knows_ended = kByTicket;
  }
  if (!kByTicket) return;
  store_for_host(&out.first_ticket, first);
  store_for_host(&out.ticket_count, count);
  store_for_host(&out.has_begun, has_begun);
  store_for_host(&out.has_moved_head, knows_ended);
  if (!knows_ended || !has_begun) return;
  submission.control().store_relaxed(abi::kControlTicketTail.first, first + count);
  submission.control().store_relaxed(abi::kControlTicketHead.first, first + ended);
}

/// Writes the result for the host and clears the shared words of the next launch. The lanes of one
/// warp call it and copy one word each.
__device__ __noinline__ void report(SubmissionView submission, Words abort_word, End end) {
  submission.assume_place();
  __syncwarp();  // memory that the leader has acquired is visible to all lanes
  Shared& shared = *submission.row.shared;
  LaunchResult& out = *submission.row.result;
  constexpr Word kQueues = abi::kPriorityCount;
  const Word lane = lane_index();
  const Wide* from = nullptr;
  Wide* to = nullptr;
  if (lane < 4) {
    from = &shared.done + lane;
    to = &out.done + lane;
  } else if (lane < 4 + kQueues) {
    from = shared.head + (lane - 4);
    to = out.head + (lane - 4);
  } else if (lane < 4 + 2 * kQueues) {
    from = shared.tail + (lane - 4 - kQueues);
    to = out.tail + (lane - 4 - kQueues);
  } else if (lane == 31) {
    from = submission.row.emitted;
    to = &out.hits;
  }
  const Wide value = from != nullptr ? WideWord(from).load_relaxed() : 0;
  if (to != nullptr) WideWord(to).store_for_host(value);
  const bool is_tail = lane >= 4 + kQueues && lane < 4 + 2 * kQueues;
  const Wide lap = is_tail ? (value >> __popc(submission.row.cell_mask)) + 1 : 0;
  const Word laps = __reduce_max_sync(kAllLanes, static_cast<Word>(lap));
#pragma unroll 1
  for (Word i = lane; i < sizeof(Shared) / sizeof(Wide); i += kWarpLanes) {
    WideWord(reinterpret_cast<Wide*>(submission.row.next_shared) + i).store_relaxed(0);
  }
  if (lane != 0) return;
  const Word shutdown = submission.control().load_relaxed(abi::kControlShutdown.first);
  const Word abort = abort_word.load_relaxed(0);
  if ((shutdown | abort) != 0) {  // other crews may have taken slots without visiting them
    end.is_settled = false;
    end.was_stopped = true;
  }
  const Word dropped = one_word(&shared.hits_dropped).load_relaxed(0);
  store_for_host(&out.laps, laps);
  store_for_host(&out.is_refused, end.is_refused);
  store_for_host(&out.is_settled, end.is_settled);
  store_for_host(&out.is_shut_down, shutdown != 0);
  store_for_host(&out.is_aborted, abort != 0);
  WideWord(&out.hits_dropped).store_for_host(dropped);
  store_for_host(&out.is_surveyed, 0);
  report_rest(submission, end);
}

}  // namespace everkernel::device
