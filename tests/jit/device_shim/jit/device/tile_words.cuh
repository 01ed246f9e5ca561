// Replaces src/jit/device/tile_words.cuh on the host: the tile is a plain array.
#pragma once

#include "jit/device/types.hpp"
#include "jit/device/words.cuh"

namespace everkernel::device {

inline constexpr Word kTileTurnsPerWord = 1;  // less than on the device: short loops test it too
inline Word tile_words[1024];
inline Word tile_capacity() {
  return sizeof tile_words / sizeof(Word);
}
inline Word tile_begin() {
  return 0;
}
inline Word load_tile(Word at) {
  return tile_words[at / sizeof(Word)];
}
inline void store_tile(Word at, Word value) {
  tile_words[at / sizeof(Word)] = value;
}
#define EK_COMBINE(name, update, identity)                                            \
  struct name {                                                                       \
    static constexpr Word kIdentity = identity;                                       \
    static void in_tile(Word at, Word value) {                                        \
      AtomicWord(tile_words + at / sizeof(Word)).update(value);                       \
    }                                                                                 \
    static void in_memory(const AtomicWord& word, Word value) { word.update(value); } \
  };
EK_COMBINE(CombineAdd, add, 0)
EK_COMBINE(CombineMin, min, ~0u)
EK_COMBINE(CombineMax, max, 0)
EK_COMBINE(CombineAnd, bit_and, ~0u)
EK_COMBINE(CombineOr, bit_or, 0)
EK_COMBINE(CombineXor, bit_xor, 0)
#undef EK_COMBINE

}  // namespace everkernel::device
