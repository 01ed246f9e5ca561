// Counts of planned work: a lane collects them in registers and adds them to the totals of the run
// when its crew leaves.
#pragma once

#include "backend/cuda/device/crew.cuh"
#include "backend/cuda/graph_rows.hpp"
#include "jit/device/lanes.cuh"
#include "jit/device/types.hpp"
#include "jit/device/words.cuh"

namespace everkernel::device {

/// Counts of one lane that are not yet in the totals. Most items of a lane have one origin (tenant
/// and priority), so that the claims of one origin are kept.
struct GraphCounts {
  Word origin = 0;  // the origin of `claims`
  Word claims = 0;
  Word done = 0;
  Word faulted = 0;
  Word nops = 0;
  Word requeues = 0;

  EK_DEVICE void add_claim(GraphTotals& totals, Word item_origin) {
    if (item_origin != origin) {
      if (claims != 0) add_claims(totals, origin, claims);
      origin = item_origin;
      claims = 0;
    }
    ++claims;
  }
  /// Adds all counts to the totals. All lanes of a warp call it.
  EK_DEVICE void add_to(GraphTotals& totals) const {
    add_of_warp(&totals.done, done);
    add_of_warp(&totals.faulted, faulted);
    add_of_warp(&totals.nops, nops);
    add_of_warp(&totals.requeues, requeues);
    // One of the lanes with an equal origin adds for all of them.
    const Word peers = __match_any_sync(kAllLanes, origin);
    const Word sum = __reduce_add_sync(peers, claims);
    if (sum != 0 && rank_of_lane(peers) == 0) add_claims(totals, origin, sum);
  }

 private:
  EK_DEVICE static void add_claims(GraphTotals& totals, Word origin, Word count) {
    WideWord(totals.tenant_claims + (origin & 0xFF)).add_relaxed(count);
    WideWord(totals.priority_claims + (origin >> 8)).add_relaxed(count);
  }
  EK_DEVICE static void add_of_warp(Wide* total, Word count) {
    const Word sum = __reduce_add_sync(kAllLanes, count);
    if (lane_index() == 0 && sum != 0) WideWord(total).add_relaxed(sum);
  }
};

}  // namespace everkernel::device
