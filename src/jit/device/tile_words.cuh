// The words of the tile, which lie in the shared memory of a block, and the operations that combine
// values in them. tile.cuh uses them.
#pragma once

#include "jit/device/types.hpp"
#include "jit/device/words.cuh"

namespace everkernel::device {

/// An `each` uses the tile if it has at least this many turns for each word of the output; with
/// fewer turns clearing and adding the tile costs more than it saves.
inline constexpr Word kTileTurnsPerWord = 4;

/// The launch sets the size: the length of the longest output that may use the tile. Shared memory
/// beyond that would be taken from the L1 cache.
extern __shared__ Word tile_words[];

EK_DEVICE Word tile_capacity() {
  Word bytes;
  asm("mov.u32 %0, %%dynamic_smem_size;" : "=r"(bytes));
  return bytes / sizeof(Word);
}
/// The address of the tile in shared memory. All lanes of a warp call it: the result of the shuffle
/// stays in a register, while the compiler would recompute the plain address at every use.
EK_DEVICE Word tile_begin() {
  return __shfl_sync(0xFFFFFFFFu, static_cast<Word>(__cvta_generic_to_shared(tile_words)), 0);
}
EK_DEVICE Word load_tile(Word at) {
  Word value;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(value) : "r"(at) : "memory");
  return value;
}
EK_DEVICE void store_tile(Word at, Word value) {
  asm volatile("st.shared.u32 [%0], %1;" ::"r"(at), "r"(value) : "memory");
}

/// A commuting atomic operation: on a word of the tile, and on the word of memory that it stands
/// for.
#define EK_COMBINE(name, operation, update, identity)                                           \
  struct name {                                                                                 \
    static constexpr Word kIdentity = identity;                                                 \
    static EK_DEVICE void in_tile(Word at, Word value) {                                        \
      asm volatile("red.shared." operation " [%0], %1;" ::"r"(at), "r"(value));                 \
    }                                                                                           \
    static EK_DEVICE void in_memory(const AtomicWord& word, Word value) { word.update(value); } \
  };
EK_COMBINE(CombineAdd, "add.u32", add, 0)
EK_COMBINE(CombineMin, "min.u32", min, ~0u)
EK_COMBINE(CombineMax, "max.u32", max, 0)
EK_COMBINE(CombineAnd, "and.b32", bit_and, ~0u)
EK_COMBINE(CombineOr, "or.b32", bit_or, 0)
EK_COMBINE(CombineXor, "xor.b32", bit_xor, 0)
#undef EK_COMBINE

}  // namespace everkernel::device
