// The express way: NOPs, built-in operations on control words and short handlers are run in the
// registers of the look that has found them.
#pragma once

#include "backend/cuda/device/builtins.cuh"
#include "backend/cuda/device/live_window.cuh"
#include "everkernel/abi/opcode.hpp"
#include "everkernel/abi/queue.hpp"
#include "everkernel/abi/slot.hpp"
#include "jit/device/lanes.cuh"
#include "jit/device/types.hpp"

namespace everkernel::device {

/// A crew that runs the commonest items by the way.
class LiveExpress : protected LiveWindow {
 protected:
  using LiveWindow::LiveWindow;

  /// Runs the items that a look has found at once, if the first one of every queue is a NOP, a
  /// built-in operation on control words or a short handler that no quota counts: between the load
  /// of an entry and the store of its outcome, every instruction counts. Queues of which a stretch
  /// is about to be opened are left out. Returns whether it ran any.
  EK_DEVICE bool run_express(const LiveLook& look) {
    if (!has_express_) return false;
    const Quad head = look.quads[0];
    Word opcode = head.a & ~abi::kLapMask;
    Quad args{head.b, head.c, head.d, 0};
    bool is_sound = owns_entry();
    if (__any_sync(kAllLanes, window_.is_full)) {
      Quad second = look.quads[1];
      if (has_full_windows_) {
        const Quad next{
            __shfl_down_sync(kAllLanes, head.a, 1), __shfl_down_sync(kAllLanes, head.b, 1),
            __shfl_down_sync(kAllLanes, head.c, 1), __shfl_down_sync(kAllLanes, head.d, 1)};
        if (lanes_each_ != 1) second = next;
      }
      if (window_.is_full) {
        is_sound = is_sound && opcode == static_cast<Word>(SlotStatus::published) &&
                   (head.d & ~abi::kFullPriorityMask) == 0;
        opcode = head.b;
        args = {(second.a & ~abi::kLapMask) | head.d >> abi::kDisplacedBits << 31, second.b,
                second.c, second.d};
      }
    }
    if (is_counting_windows_) count_windows(look.found);
    const Word found = look.found & ~__ballot_sync(kAllLanes, look.stretch != 0);
    const bool is_builtin = opcode <= static_cast<Word>(Opcode::compare_swap);
    // A built-in operation leaves its last arguments as results, which were not gathered here.
    if (is_builtin && window_.is_full && window_.has_results) is_sound = false;
    Word handler = kNoHandler;
    if constexpr (kHasShortHandlers) {
      if (!is_builtin) handler = find_short_handler(opcode);
    }
    const bool is_express = is_sound && is_known_ && !has_small_quota(look) &&
                            (is_builtin || handler != kNoHandler) &&
                            (found >> lane_index() & 1) != 0;
    Word row = __ballot_sync(kAllLanes, is_express);
    const Word heads = __ballot_sync(kAllLanes, behind_ == 0 && owns_entry());
    if ((found & heads & ~row) != 0 || (row & heads) == 0) return false;
    if (has_full_windows_) row = all_lanes_of(row);
    const Word count = row_length(row);
    const bool takes = owns_entry() && behind_ < count;
    const Wide ticket = head_ + behind_;
    const bool has_effect = takes && opcode != static_cast<Word>(Opcode::nop);
    Word result = kDone;
    Quad results = {};
    if (has_effect && is_builtin) {
      result = run_plain_builtin({runner_.control(), window_.tenant}, {}, {}, opcode, args);
    }
    __syncwarp();
    if (kHasShortHandlers && __any_sync(kAllLanes, takes && !is_builtin)) {
      Word all_args[abi::kSlotArgs] = {args.a, args.b, args.c, args.d};
      if (__any_sync(kAllLanes, window_.is_full)) load_last_args(look, all_args);
      acquire_entries();  // what the items refer to is read behind it
      if (takes && !is_builtin) {
        result = runner_.run_short(window_, ticket, handler, opcode, all_args, results);
      }
      __syncwarp();
    }
    if (__any_sync(kAllLanes, has_effect)) fence();
    if (takes) end_ticket(window_, ticket, result, results.a, results.b, results.c);
    head_ += count;
    if (count != 0 && lane_index() == first_lane()) {
      WideWord(&window_.row->head).store_relaxed(head_);
    }
    counts_.add({window_.tenant, window_.priority, opcode}, takes, takes && result == kDone,
                takes && result != kDone);
    idle_looks_ = 0;
    return true;
  }

 private:
  /// The arguments of full entries behind the first four.
  EK_DEVICE void load_last_args(const LiveLook& look, Word (&args)[abi::kSlotArgs]) const {
    const Quad head = look.quads[0];
#pragma unroll
    for (Word i = 2; i < abi::kFullQuads; ++i) {
      Quad quad = look.quads[i];
      if (has_full_windows_) {
        const Quad other = shuffle(head, (lane_index() + i) % kWarpLanes);
        if (lanes_each_ != 1) quad = other;
      }
      if (!window_.is_full) continue;
      const Word top = head.d >> (abi::kDisplacedBits + i - 1) << 31;
      args[4 * i - 4] = (quad.a & ~abi::kLapMask) | top;
      args[4 * i - 3] = quad.b;
      args[4 * i - 2] = quad.c;
      args[4 * i - 1] = quad.d;
    }
  }
};

}  // namespace everkernel::device
