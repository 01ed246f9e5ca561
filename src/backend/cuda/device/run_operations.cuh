// Runs the operations that the lanes of a crew have claimed: each on its lane, on all lanes of its
// warp or on all threads of the block, as Visitor::kind says.
#pragma once

#include "backend/cuda/device/builtins.cuh"
#include "backend/cuda/device/crew.cuh"
#include "backend/cuda/device/handlers.cuh"
#include "backend/cuda/device/items.cuh"
#include "backend/cuda/device/submission.cuh"
#include "backend/cuda/device/visitor.cuh"
#include "everkernel/abi/opcode.hpp"
#include "everkernel/abi/slot.hpp"
#include "jit/device/item.cuh"
#include "jit/device/lanes.cuh"
#include "jit/device/types.hpp"

namespace everkernel::device {

using abi::Opcode;

/// Runs an operation on the lane that claimed its slot.
EK_DEVICE Word run_on_lane(const LaunchedSubmission& submission, const Operation& operation) {
  if (operation.handler == kNoHandler) {
    if (is(operation.opcode, Opcode::nop)) return kDone;
    return run_builtin(submission, submission.buffers(), submission.abort(), operation);
  }
  if constexpr (kHasLaneHandlers) {
    Item item = make_item(submission, operation);
    load_args(submission, operation, item.args);
    const Word ended = run_lane_handler(operation.handler, item);
    return after_handler(submission, operation.handler, operation.is_packed != 0, item, ended);
  }
  return kDone;  // not reached: the module has no handler of scope lane
}

/// All lanes of a warp run an operation; its owner completes it. Returns the result on the owner.
EK_DEVICE Word run_by_warp(const LaunchedSubmission& submission, const Operation& operation,
                           bool owns) {
  Item item = make_item(submission, operation);
  // Each lane loads one word, so that the slot is one memory transaction.
  const Word word = load_arg(submission.slot(operation.slot), operation.args, lane_index());
#pragma unroll
  for (Word i = 0; i < abi::kSlotArgs; ++i) item.args[i] = __shfl_sync(kAllLanes, word, i);
  const Word ended = run_warp_handler(operation.handler, item);
  __syncwarp();  // writes of all lanes come before the release of the owner
  if (!owns) return ended;
  return after_handler(submission, operation.handler, operation.is_packed != 0, item, ended);
}

/// All threads of a block run an operation that lies in shared memory; its owner, to which
/// `visitor` and `result` belong, completes it.
EK_DEVICE void run_by_group(const LaunchedSubmission& submission, const Operation& operation,
                            bool owns, const Visitor& visitor, Word& result) {
  __shared__ Word args[abi::kSlotArgs];
  if (threadIdx.x < abi::kSlotArgs) {
    args[threadIdx.x] = load_arg(submission.slot(operation.slot), operation.args, threadIdx.x);
  }
  __syncthreads();
  Item item = make_item(submission, operation);
#pragma unroll
  for (Word k = 0; k < abi::kSlotArgs; ++k) item.args[k] = args[k];
  const Word ended = run_group_handler(operation.handler, item);
  __syncthreads();  // writes of all threads come before the release of the owner
  // From here on `operation` may already be that of the next owner.
  if (owns) result = after_handler(submission, visitor.handler, visitor.begun != 0, item, ended);
}

/// Runs the operations of scope group that threads of the block have claimed, one after the other.
EK_DEVICE void run_groups(const LaunchedSubmission& submission, const Visitor& visitor,
                          Word& result) {
  if constexpr (kHasGroupHandlers) {
    __shared__ Operation board;
    for_each_of_block(visitor.kind == Kind::group, [&](Word owner) {
      const bool owns = threadIdx.x == owner;
      if (owns) board = operation_of(visitor);
      __syncthreads();
      run_by_group(submission, board, owns, visitor, result);
    });
  }
}

/// Runs the operations of all lanes of a crew. All of its lanes call it.
EK_DEVICE void run_operations(const LaunchedSubmission& submission, Visitor& visitor, Word& result,
                              bool& is_fence_open) {
  if (visitor.kind == Kind::lane) result = run_on_lane(submission, operation_of(visitor));
  __syncwarp();
  for_each_of_warp(visitor.kind == Kind::fence, [&](Word owner) {
    const bool owns = lane_index() == owner;
    const FenceLook look =
        run_fence(submission, submission.abort(), __shfl_sync(kAllLanes, visitor.slot, owner),
                  __shfl_sync(kAllLanes, visitor.note, owner), owns);
    if (!owns) return;
    visitor.note = look.checked;
    result = look.result;
    is_fence_open = look.is_open;
  });
  for_each_of_warp(visitor.kind == Kind::copy, [&](Word owner) {
    const Word ended =
        run_copy(submission, submission.abort(), __shfl_sync(kAllLanes, visitor.slot, owner),
                 __shfl_sync(kAllLanes, visitor.tenant, owner));
    if (lane_index() == owner) result = ended;
  });
  if constexpr (kHasWarpHandlers) {
    for_each_of_warp(visitor.kind == Kind::warp, [&](Word owner) {
      const bool owns = lane_index() == owner;
      const Operation operation = operation_of(visitor, owner);
      const Word ended = run_by_warp(submission, operation, owns);
      if (owns) result = ended;
      __syncwarp();
    });
  }
  run_groups(submission, visitor, result);
  visitor.kind = Kind::nothing;
}

}  // namespace everkernel::device
