// Crews: the threads that take slots or regions together. A crew is a warp, or a whole block if a
// handler of the module has `scope group`.
#pragma once

#include "backend/cuda/device/handlers.cuh"
#include "jit/device/lanes.cuh"
#include "jit/device/types.hpp"

namespace everkernel::device {

/// The index of this thread's crew in the grid.
EK_DEVICE Word crew_index() {
  const Word warp = threadIdx.x / kWarpLanes;
  return kHasGroupHandlers ? blockIdx.x : blockIdx.x * (blockDim.x / kWarpLanes) + warp;
}

/// The lanes of a crew and their collective operations.
///
/// Code that only the leader runs must be followed by an operation of all lanes of its warp, such
/// as a shuffle or __syncwarp(): ptxas 13.0 merges two leader-only blocks that follow each other,
/// and the other lanes then miss the operations between them.
struct Crew {
  Word lane = kHasGroupHandlers ? threadIdx.x : threadIdx.x % kWarpLanes;
  Word slots = 1;  // slots that the crew visits together, at most one a lane

  EK_DEVICE bool leads() const { return lane == 0; }
  EK_DEVICE Wide from_leader(Wide value) const {
    if constexpr (kHasGroupHandlers) {
      __shared__ Wide board;
      __syncwarp();  // see any()
      __syncthreads();
      if (leads()) board = value;
      __syncthreads();
      return board;
    } else {
      return __shfl_sync(kAllLanes, value, 0);
    }
  }
  EK_DEVICE bool any(bool value) const {
    if constexpr (kHasGroupHandlers) {
      // Lanes may have found `value` in different ways: ptxas leaves them apart up to the barrier,
      // which all lanes of a warp have to reach together.
      __syncwarp();
      return __syncthreads_or(value) != 0;
    } else {
      return __any_sync(kAllLanes, value) != 0;
    }
  }
};

/// Calls `run(owner)` on all lanes of the warp for every lane whose `is_owner` is true.
template <class Run>
EK_DEVICE void for_each_of_warp(bool is_owner, const Run& run) {
  for (Word left = __ballot_sync(kAllLanes, is_owner); left != 0; left &= left - 1) {
    run(lowest_lane(left));
  }
}

/// Calls `run(owner)` on all threads of the block for every thread whose `is_owner` is true.
template <class Run>
EK_DEVICE void for_each_of_block(bool is_owner, const Run& run) {
  __shared__ Word owners[EVERKERNEL_BLOCK_THREADS];
  __shared__ Word count;
  __syncthreads();
  if (threadIdx.x == 0) count = 0;
  __syncthreads();
  if (is_owner) owners[atomicAdd_block(&count, 1u)] = threadIdx.x;
  __syncthreads();
  const Word items = count;
  for (Word i = 0; i < items; ++i) run(owners[i]);
}

}  // namespace everkernel::device
