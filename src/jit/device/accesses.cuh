// Loads by the lanes of a handler: outside of `each`, all lanes of an item must see one value, so
// that the leader loads for all; inside, words of several turns are loaded together.
#pragma once

#include "jit/device/buffers.cuh"
#include "jit/device/item.cuh"
#include "jit/device/types.hpp"

namespace everkernel::device {

/// fetch_shared() and fetch_owned() of all lanes together. Unless the buffer is constant the leader
/// loads the word for all: lanes that load separately could see different values.
template <class Lanes>
EK_DEVICE Word fetch_shared(const Lanes& lanes, const Buffer& buffer, Word index) {
  if (Lanes::kIsOne || buffer.is_constant) return fetch_shared(buffer, index);
  Word value = 0;
  if (lanes.leads()) value = fetch_shared(buffer, index);
  return lanes.from_leader(value);
}
template <class Lanes>
EK_DEVICE Word fetch_owned(const Lanes& lanes, const Buffer& buffer, Word index) {
  if (Lanes::kIsOne || buffer.is_constant) return fetch_owned(buffer, index);
  Word value = 0;
  if (lanes.leads()) value = fetch_owned(buffer, index);
  return lanes.from_leader(value);
}

template <class Lanes>
EK_DEVICE Word load_control(const Lanes& lanes, const Item& item, Word index) {
  Word value = 0;
  if (lanes.leads()) value = item.control.load_relaxed(index);
  return lanes.from_leader(value);
}

/// Whether all these indices are less than `count`.
EK_DEVICE bool are_inside(Word count, const Word (&at)[kAhead]) {
  bool are = true;
#pragma unroll
  for (Word i = 0; i < kAhead; ++i) are = are && at[i] < count;
  return are;
}

/// Load the words of several turns of an `each`. A single lane runs its turns in order, and a turn
/// may write what a later turn reads: there only constant words are loaded ahead, and take_…()
/// loads the others when their turn comes.
template <class Lanes>
EK_DEVICE void load_ahead_shared(const Lanes&, const Buffer& buffer, const Word (&at)[kAhead],
                                 Word (&words)[kAhead]) {
  if (buffer.is_constant) {
    load_ahead_constant(buffer, at, words);
  } else if (!Lanes::kKeepsOrder) {
    load_ahead_shared(buffer, at, words);
  }
}
template <class Lanes>
EK_DEVICE void load_ahead_owned(const Lanes&, const Buffer& buffer, const Word (&at)[kAhead],
                                Word (&words)[kAhead]) {
  if (buffer.is_constant) {
    load_ahead_constant(buffer, at, words);
  } else if (!Lanes::kKeepsOrder) {
    load_ahead_owned(buffer, at, words);
  }
}
template <class Lanes>
EK_DEVICE Word take_shared(const Lanes&, const Buffer& buffer, Word index, Word ahead) {
  return !Lanes::kKeepsOrder || buffer.is_constant ? ahead : load_shared(buffer, index);
}
template <class Lanes>
EK_DEVICE Word take_owned(const Lanes&, const Buffer& buffer, Word index, Word ahead) {
  return !Lanes::kKeepsOrder || buffer.is_constant ? ahead : load_owned(buffer, index);
}

}  // namespace everkernel::device
