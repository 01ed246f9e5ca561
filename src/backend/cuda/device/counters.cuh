// Counts of a warp: slots done and faulted, claims by tenant, priority and opcode. A warp collects
// them in registers and adds them to the control words at the end of a pass.
#pragma once

#include "backend/cuda/device/crew.cuh"
#include "backend/cuda/device/submission.cuh"
#include "backend/cuda/device/visitor.cuh"
#include "everkernel/abi/control.hpp"
#include "everkernel/abi/slot.hpp"
#include "jit/device/lanes.cuh"
#include "jit/device/types.hpp"
#include "jit/device/words.cuh"

namespace everkernel::device {

/// Counts that a warp has not yet added to the control words. Equal on all lanes, except `taken`,
/// which only the leader of the crew counts. Most slots of a ring have one tenant, priority and
/// opcode, so that the claims of one such combination are kept in registers.
struct Tally {
  Word done = 0, faulted = 0, claimed_at_entry = 0, moved = 0;
  Word taken = 0;   // fresh slots that the leader took
  Word key = 0;     // tenant, priority and opcode of `claims`
  Word claims = 0;  // slots claimed and done, with that key
};

inline constexpr Word kNoMetric = abi::kControlMetrics.count;  // opcodes that are not counted
inline constexpr Word kNoPriority = abi::kPriorityCount;       // priorities that are not counted

EK_DEVICE Word tally_key(Word tenant, Word priority, Word opcode) {
  const Word counted_priority = priority < kNoPriority ? priority : kNoPriority;
  const Word metric = opcode < kNoMetric ? opcode : kNoMetric;
  return tenant | counted_priority << 8 | metric << 16;
}

EK_DEVICE void add_claims(const Words& control, Word key, Word count) {
  const Word priority = key >> 8 & 0xFF;
  control.add_relaxed(abi::kControlTenantFairness.first + (key & 0xFF), count);
  if (priority != kNoPriority) {
    control.add_relaxed(abi::kControlPriorityFairness.first + priority, count);
  }
}
EK_DEVICE void add_executions(const Words& control, Word key, Word count) {
  const Word metric = key >> 16;
  if (metric != kNoMetric) control.add_relaxed(abi::kControlMetrics.first + metric, count);
}

EK_DEVICE void flush_claims(const Words& control, Tally& tally) {
  if (tally.claims != 0 && lane_index() == 0) {
    add_claims(control, tally.key, tally.claims);
    add_executions(control, tally.key, tally.claims);
  }
  tally.claims = 0;
}

/// Adds the counts of a warp. Its slots have their new status already, stored with release.
__device__ __noinline__ void add_counts(SubmissionView submission, Tally tally) {
  submission.assume_place();
  flush_claims(submission.control(), tally);
  __syncwarp();
  if (lane_index() != 0) return;
  Shared& shared = *submission.row.shared;
  if (tally.done != 0) {
    submission.control().add_release(abi::kControlDoneCount.first, tally.done);
    WideWord(&shared.done).add_relaxed(tally.done);
  }
  if (tally.faulted != 0) {
    submission.control().add_release(abi::kControlFaultCount.first, tally.faulted);
    WideWord(&shared.faulted).add_relaxed(tally.faulted);
  }
  if (tally.claimed_at_entry != 0) {
    WideWord(&shared.claimed_at_entry).add_relaxed(tally.claimed_at_entry);
  }
  if (tally.moved != 0) WideWord(&shared.moved).add_relaxed(tally.moved);
  if (tally.taken != 0) one_word(&shared.taken).add_relaxed(0, tally.taken);
}

/// The number of lanes of `mask` with an equal key; `leads` is true on one of them.
EK_DEVICE Word peers_of(Word mask, Word key, bool& leads) {
  const Word peers = __match_any_sync(mask, key);
  leads = lane_index() == lowest_lane(peers);
  return static_cast<Word>(__popc(peers));
}

/// Adds the claims of lanes with different keys, and the executions of those that are done.
__device__ __noinline__ void count_apart(Words control, Word key, Word claimed, Word done) {
  const Word lane = 1u << lane_index();
  bool leads = false;
  if ((claimed & lane) != 0) {
    const Word peers = peers_of(claimed, key, leads);
    if (leads) add_claims(control, key, peers);
  }
  if ((done & lane) != 0) {
    const Word peers = peers_of(done, key, leads);
    if (leads) add_executions(control, key, peers);
  }
  __syncwarp();
}

/// Counts the visits of a warp. All of its lanes call it.
EK_DEVICE void count(const LaunchedSubmission& submission, const Visitor& visitor, Word priority,
                     Tally& tally) {
  const Word claimed = __ballot_sync(kAllLanes, visitor.has_claimed);
  const Word done = __ballot_sync(kAllLanes, visitor.is_done);
  const Word faulted = __ballot_sync(kAllLanes, visitor.is_faulted);
  const bool has_moved = visitor.visit == Visit::ended || visitor.visit == Visit::deferred;
  tally.done += __popc(done);
  tally.faulted += __popc(faulted);
  tally.claimed_at_entry += __popc(__ballot_sync(kAllLanes, visitor.was_claimed));
  tally.moved += __popc(__ballot_sync(kAllLanes, has_moved));
  // A slot that is done without a claim has waited for IO. No metric counts it, and its tenant is
  // not used here: only a claim checks that the tenant is in range.
  if (claimed == 0) return;
  const Word key = tally_key(visitor.tenant, priority, visitor.opcode);
  if (claimed == done) {
    const Word first = __shfl_sync(kAllLanes, key, lowest_lane(claimed));
    const bool is_alike = __all_sync(kAllLanes, !visitor.has_claimed || key == first) != 0;
    if (is_alike) {
      if (tally.key != first) flush_claims(submission.control(), tally);
      tally.key = first;
      tally.claims += __popc(claimed);
      return;
    }
  }
  count_apart(submission.control(), key, claimed, claimed & done);
}

}  // namespace everkernel::device
