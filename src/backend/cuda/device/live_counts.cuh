// Counts of a live kernel: claims by tenant and priority, ends, executions by opcode. A warp adds
// those of its items to the totals together; nothing waits for these additions.
#pragma once

#include "backend/cuda/device/live_items.cuh"
#include "backend/cuda/live_rows.hpp"
#include "everkernel/abi/opcode.hpp"
#include "jit/device/lanes.cuh"
#include "jit/device/types.hpp"
#include "jit/device/words.cuh"

namespace everkernel::device {

struct LiveCounts {
  const LiveParams& params;

  EK_DEVICE explicit LiveCounts(const LiveParams& live_params) : params(live_params) {}

  /// Adds the items of a warp. All of its lanes call it.
  EK_DEVICE void add(const LiveItem& item, bool is_claim, bool is_done, bool has_faulted) const {
    LiveTotals& totals = params.shared->totals;
    const Word claims = __ballot_sync(kAllLanes, is_claim);
    const Word done = __ballot_sync(kAllLanes, is_done);
    const Word faulted = __ballot_sync(kAllLanes, has_faulted);
    if (lane_index() == 0) {
      if (done != 0) WideWord(&totals.done).add_relaxed(static_cast<Word>(__popc(done)));
      if (faulted != 0) WideWord(&totals.faulted).add_relaxed(static_cast<Word>(__popc(faulted)));
    }
    __syncwarp();
    if (is_claim) {
      const Word origin = item.queue.tenant | item.queue.priority << 8;
      add_peers(claims, origin, [&](Word count) {
        WideWord(totals.tenant_claims + item.queue.tenant).add_relaxed(count);
        WideWord(totals.priority_claims + item.queue.priority).add_relaxed(count);
      });
    }
    __syncwarp();
    if (is_done) {
      add_peers(done, item.opcode, [&](Word count) { add_executions(item.opcode, count); });
    }
    __syncwarp();
  }

  /// Adds one operation of a packed slot that has run, if it is done.
  EK_DEVICE void add_operation(const LiveItem& item) const {
    if (lane_index() == 0 && item.result == kDone) add_executions(item.operation, 1);
    __syncwarp();
  }

 private:
  template <class Add>
  EK_DEVICE static void add_peers(Word lanes, Word key, const Add& add) {
    const Word peers = __match_any_sync(lanes, key);
    if (lane_index() == lowest_lane(peers)) add(static_cast<Word>(__popc(peers)));
  }

  EK_DEVICE void add_executions(Word opcode, Word count) const {
    if (opcode < abi::kControlMetrics.count) {
      WideWord(params.shared->totals.executions + opcode).add_relaxed(count);
      return;
    }
    const Word handler = find_handler(opcode);
    const Word row = handler != kNoHandler ? handler : params.handler_count + large_builtin(opcode);
    WideWord(params.executions + row).add_relaxed(count);
  }
  /// The place of a large built-in operation behind the handlers; the order is that of
  /// backend/cuda/live_kernel.cpp.
  EK_DEVICE static Word large_builtin(Word opcode) {
    if (is(opcode, Opcode::load_miss)) return 0;
    if (is(opcode, Opcode::printf)) return 1;
    return is(opcode, Opcode::packed_slot) ? 2 : 3;
  }
};

}  // namespace everkernel::device
