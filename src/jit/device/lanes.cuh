// The lanes that run an item: one thread, the threads of a warp, or the threads of a block. A
// handler is a template over one of these three types. All lanes of an item make the same calls.
#pragma once

#include "jit/device/types.hpp"

namespace everkernel::device {

inline constexpr Word kWarpLanes = 32;
inline constexpr Word kAllLanes = 0xFFFFFFFFu;

/// The index of this thread in its warp.
EK_DEVICE Word lane_index() {
  Word lane;
  asm("mov.u32 %0, %%laneid;" : "=r"(lane));
  return lane;
}

/// The lowest lane of the warp in a mask that is not empty.
EK_DEVICE Word lowest_lane(Word lanes) {
  return static_cast<Word>(__ffs(static_cast<int>(lanes)) - 1);
}
/// How many lanes of the warp in the mask come before this one.
EK_DEVICE Word rank_of_lane(Word lanes) {
  return static_cast<Word>(__popc(lanes & ((1u << lane_index()) - 1)));
}

/// The thread that runs an item of `scope lane`.
struct OneLane {
  static constexpr bool kIsOne = true;
  static constexpr bool kHasTile = false;
  static constexpr bool kKeepsOrder = true;
  EK_DEVICE Word index() const { return 0; }
  EK_DEVICE Word count() const { return 1; }
  EK_DEVICE bool leads() const { return true; }
  EK_DEVICE void meet() const {}
  EK_DEVICE void converge() const {}
  EK_DEVICE Word from_leader(Word value) const { return value; }
  EK_DEVICE bool meet_any(bool value) const { return value; }
  EK_DEVICE Word lowest(Word value) const { return value; }
  EK_DEVICE Word total(Word value) const { return value; }
  EK_DEVICE Wide total(Wide value) const { return value; }
};

/// The 32 threads of a warp that run one item of `scope warp` together.
struct WarpLanes {
  static constexpr bool kIsOne = false;
  static constexpr bool kHasTile = false;
  static constexpr bool kKeepsOrder = false;
  EK_DEVICE Word index() const { return lane_index(); }
  EK_DEVICE Word count() const { return kWarpLanes; }
  EK_DEVICE bool leads() const { return index() == 0; }
  /// A barrier of all lanes; accesses of every lane before it are visible to all lanes behind it.
  EK_DEVICE void meet() const { __syncwarp(); }
  /// The lanes of a warp reconverge after a branch that not all of them took.
  EK_DEVICE void converge() const { __syncwarp(); }
  EK_DEVICE Word from_leader(Word value) const { return __shfl_sync(kAllLanes, value, 0); }
  /// A barrier that returns whether `value` is true on any lane.
  EK_DEVICE bool meet_any(bool value) const {
    __syncwarp();
    return __any_sync(kAllLanes, value) != 0;
  }
  // The megakernel needs compute capability 8.0. The plain loops are for `check --emit cuda`, whose
  // text compiles for the default architecture of nvcc too.
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
  EK_DEVICE Word lowest(Word value) const {
    return __reduce_min_sync(kAllLanes, value);
  }
  EK_DEVICE Word total(Word value) const {
    return __reduce_add_sync(kAllLanes, value);
  }
#else
  EK_DEVICE Word lowest(Word value) const {
    for (Word step = 16; step != 0; step /= 2) {
      const Word other = __shfl_xor_sync(kAllLanes, value, step);
      if (other < value) value = other;
    }
    return value;
  }
  EK_DEVICE Word total(Word value) const {
    for (Word step = 16; step != 0; step /= 2) value += __shfl_xor_sync(kAllLanes, value, step);
    return value;
  }
#endif
  EK_DEVICE Wide total(Wide value) const {
    for (Word step = 16; step != 0; step /= 2) value += __shfl_xor_sync(kAllLanes, value, step);
    return value;
  }
};

/// The threads of a block that run one item of `scope group` together. They have a tile (tile.cuh).
struct GroupLanes {
  static constexpr bool kIsOne = false;
  static constexpr bool kHasTile = true;
  static constexpr bool kKeepsOrder = false;
  EK_DEVICE Word index() const { return threadIdx.x; }
  EK_DEVICE Word count() const { return blockDim.x; }
  EK_DEVICE bool leads() const { return threadIdx.x == 0; }
  EK_DEVICE void meet() const { __syncthreads(); }
  EK_DEVICE void converge() const { __syncwarp(); }
  EK_DEVICE bool meet_any(bool value) const {
    __syncwarp();  // ptxas may leave lanes that found `value` in different ways apart
    return __syncthreads_or(value) != 0;
  }
  EK_DEVICE Word from_leader(Word value) const {
    __shared__ Word board;
    __syncthreads();  // all lanes have read the previous value
    if (leads()) board = value;
    __syncthreads();
    return board;
  }
  EK_DEVICE Word lowest(Word value) const {
    __shared__ Word board;
    __syncthreads();
    if (leads()) board = 0xFFFFFFFFu;
    __syncthreads();
    atomicMin_block(&board, value);
    __syncthreads();
    return board;
  }
  EK_DEVICE Word total(Word value) const { return static_cast<Word>(total(Wide{value})); }
  EK_DEVICE Wide total(Wide value) const {
    __shared__ Wide board;
    __syncthreads();
    if (leads()) board = 0;
    __syncthreads();
    atomicAdd_block(&board, value);
    __syncthreads();
    return board;
  }
};

}  // namespace everkernel::device
