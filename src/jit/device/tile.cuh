// The tile: shared memory in which a group combines its atomic updates of the output, so that each
// word of the output is updated in global memory once. Generated `each` loops use it.
#pragma once

#include "jit/device/buffers.cuh"
#include "jit/device/tile_words.cuh"
#include "jit/device/types.hpp"

namespace everkernel::device {

/// Whether two buffers have no word in common.
EK_DEVICE bool is_apart(const Buffer& a, const Buffer& b) {
  return a.words + a.length <= b.words || b.words + b.length <= a.words;
}

/// The output of an `each` whose turns access it by one kind of atomic update only. A group
/// combines the updates in its tile if there are enough turns (kTileTurnsPerWord) and no other
/// access of the loop reaches the output; otherwise every update goes to global memory.
template <class Lanes, class Combine>
class Tile {
 public:
  /// Clears the tile. All lanes call it and then meet, before the first turn.
  EK_DEVICE Tile(const Lanes& lanes, const Buffer& output, Word turns, bool is_alone)
      : begin_(Lanes::kHasTile ? tile_begin() : 0),
        count_(Lanes::kHasTile && is_alone && output.updatable <= tile_capacity() &&
                       turns / kTileTurnsPerWord >= output.updatable
                   ? output.updatable
                   : 0) {
    for (Word i = lanes.index(); i < count_; i += lanes.count()) {
      store_tile(at(i), Combine::kIdentity);
    }
  }
  EK_DEVICE void update(const Buffer& output, Word index, Word value) const {
    if (Lanes::kHasTile && count_ != 0) {
      Combine::in_tile(at(index), value);
    } else {
      Combine::in_memory(output.atomic(index), value);
    }
  }
  EK_DEVICE void update(const Buffer& output, const Word (&to)[kAhead],
                        const Word (&by)[kAhead]) const {
    if (Lanes::kHasTile && count_ != 0) {
#pragma unroll
      for (Word i = 0; i < kAhead; ++i) Combine::in_tile(at(to[i]), by[i]);
    } else {
#pragma unroll
      for (Word i = 0; i < kAhead; ++i) Combine::in_memory(output.atomic(to[i]), by[i]);
    }
  }
  /// Adds the tile to the output. All lanes call it behind the last turn and then meet.
  EK_DEVICE void flush(const Lanes& lanes, const Buffer& output) const {
    if (count_ == 0) return;
    lanes.meet();
    for (Word i = lanes.index(); i < count_; i += lanes.count()) {
      const Word value = load_tile(at(i));
      if (value != Combine::kIdentity) Combine::in_memory(output.atomic(i), value);
    }
  }

 private:
  EK_DEVICE Word at(Word index) const {
    return begin_ + index * sizeof(Word);
  }

  Word begin_;  // address of the tile in shared memory
  Word count_;  // words of the tile in use; 0 if updates go to global memory
};

}  // namespace everkernel::device
