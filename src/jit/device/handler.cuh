// Everything that generated handlers use (jit/cuda_source.hpp), and the constants by which workers
// and generated tables describe a handler. NVRTC compiles the generated text behind this header. No
// header of the CUDA toolkit is needed.
#pragma once

#include "jit/device/accesses.cuh"
#include "jit/device/buffers.cuh"
#include "jit/device/item.cuh"
#include "jit/device/lanes.cuh"
#include "jit/device/numbers.cuh"
#include "jit/device/sinks.cuh"
#include "jit/device/tile.cuh"
#include "jit/device/turns.cuh"
#include "jit/device/types.hpp"
#include "jit/device/values.cuh"
#include "jit/device/words.cuh"

namespace everkernel::device {

/// The index that find_handler() returns for an opcode without a handler.
inline constexpr Word kNoHandler = ~0u;

/// Bits of traits_of(): the properties of a handler that are known before it runs.
inline constexpr Word kTraitWarp = 1u << 0;            // scope warp
inline constexpr Word kTraitGroup = 1u << 1;           // scope group
inline constexpr Word kTraitCanLeave = 1u << 2;        // can yield, requeue or await
inline constexpr Word kTraitWritesArgs = 1u << 3;      // changes the args of its slot
inline constexpr Word kTraitCommutes = 1u << 4;        // items with one output may run in any order
inline constexpr Word kTraitReadsInput = 1u << 5;      // loads or atomics
inline constexpr Word kTraitWritesInput = 1u << 6;     // stores or atomics
inline constexpr Word kTraitReadsOutput = 1u << 7;     // loads or atomics
inline constexpr Word kTraitWritesOutput = 1u << 8;    // stores or atomics
inline constexpr Word kTraitLoops = 1u << 9;           // may run for long
inline constexpr Word kTraitWritesControl = 1u << 10;  // stores or atomics on control words

}  // namespace everkernel::device
