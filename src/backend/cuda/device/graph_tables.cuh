// Loads of the tables of planned work (backend/cuda/graph_rows.hpp), which are constant while a
// launch runs. graph_kernel.cuh uses them.
#pragma once

#include "backend/cuda/graph_rows.hpp"
#include "everkernel/abi/slot.hpp"
#include "jit/device/types.hpp"
#include "jit/device/words.cuh"

namespace everkernel::device {

/// The tenant of an item in the lowest byte, its priority above it.
EK_DEVICE Word load_origin(const unsigned short* origins, Word item) {
  unsigned short origin;
  asm volatile("ld.global.nc.u16 %0, [%1]; // ek:row"
               : "=h"(origin)
               : "l"(__cvta_generic_to_global(origins + item)));
  return origin;
}
/// The handle at a place of the table of handles.
EK_DEVICE Word load_key(const Word* keys, Wide place) {
  Word key;
  asm volatile("ld.global.nc.u32 %0, [%1]; // ek:row"
               : "=r"(key)
               : "l"(__cvta_generic_to_global(keys + place)));
  return key;
}
/// The words of an item: opcode, input handle, output handle, param.
EK_DEVICE Quad load_item(const abi::WorkItem* items, Word item) {
  Quad words;
  asm volatile("ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4]; // ek:row"
               : "=r"(words.a), "=r"(words.b), "=r"(words.c), "=r"(words.d)
               : "l"(__cvta_generic_to_global(items + item)));
  return words;
}

/// The waiters of an item or join.
EK_DEVICE Waiters load_waiters(const Waiters* nodes, Word node) {
  Waiters waiters;
  asm volatile("ld.global.nc.v2.u32 {%0, %1}, [%2]; // ek:row"
               : "=r"(waiters.only), "=r"(waiters.first_chunk)
               : "l"(__cvta_generic_to_global(nodes + node)));
  return waiters;
}
/// The waiters of a chunk.
EK_DEVICE void load_chunk(const Word* chunks, Word chunk, Word (&waiters)[kChunkWaiters]) {
  const Word* const from = chunks + Wide{chunk} * kChunkWaiters;
#pragma unroll
  for (Word i = 0; i < kChunkWaiters; i += 4) {
    asm volatile("ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4]; // ek:row"
                 : "=r"(waiters[i]), "=r"(waiters[i + 1]), "=r"(waiters[i + 2]),
                   "=r"(waiters[i + 3])
                 : "l"(__cvta_generic_to_global(from + i)));
  }
}

/// A fresh region. The row lies in host memory; the host wrote it before the launch.
EK_DEVICE Quad load_from_host(const FreshRegion* row) {
  Quad words;
  asm volatile("ld.relaxed.sys.global.v4.u32 {%0, %1, %2, %3}, [%4]; // ek:row"
               : "=r"(words.a), "=r"(words.b), "=r"(words.c), "=r"(words.d)
               : "l"(__cvta_generic_to_global(row)));
  return words;
}

}  // namespace everkernel::device
