// Random words, often at the limits of rules of the wire format.
#pragma once

#include <rapidcheck.h>

#include <cstdint>
#include <vector>

#include "everkernel/abi/platform.hpp"

namespace everkernel::test {

using abi::Word;

/// A power of two, one less or one more.
inline rc::Gen<Word> near_power_of_two() {
  return rc::gen::apply([](Word exponent, Word shift) { return (Word{1} << exponent) + shift - 1; },
                        rc::gen::inRange<Word>(0, 32), rc::gen::inRange<Word>(0, 3));
}

/// Any word, often one at the limit of a rule of the wire format.
inline rc::Gen<Word> edge_word() {
  return rc::gen::oneOf(
      rc::gen::element<Word>(0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 28, 29, 31, 32, 64, 65, 0xFFEF, 0xFFF0,
                             0xFFFC, 0xFFFD, 0xFFFE, 0xFFFF, 0x10000, 0x7FFFFFFF, 0x80000000,
                             0x80000001, 0x80000002, 0xFFFFFFFE, 0xFFFFFFFF),
      near_power_of_two(), rc::gen::arbitrary<Word>());
}

/// 0 … end − 1 mostly, now and then any word.
inline rc::Gen<Word> mostly_below(Word end) {
  return rc::gen::weightedOneOf<Word>({{15, rc::gen::inRange<Word>(0, end)}, {1, edge_word()}});
}

/// A count up to `most`: 0, 1, near a power of two, the maximum, one more, and anything.
inline rc::Gen<Word> count_up_to(Word most) {
  return rc::gen::weightedOneOf<Word>({{2, rc::gen::element<Word>(0, 1, most - 1, most, most + 1)},
                                       {4, near_power_of_two()},
                                       {4, rc::gen::inRange<Word>(0, most + 1)},
                                       {1, edge_word()}});
}

/// A slot status: free ones and unknown ones more often than chance.
inline rc::Gen<Word> slot_status() {
  return rc::gen::weightedOneOf<Word>(
      {{6, rc::gen::element<Word>(0, 3)}, {4, rc::gen::inRange<Word>(0, 9)}, {1, edge_word()}});
}

/// `count` words.
inline rc::Gen<std::vector<Word>> words(std::size_t count) {
  return rc::gen::container<std::vector<Word>>(count, edge_word());
}

}  // namespace everkernel::test
