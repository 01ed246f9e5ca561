// Builds control buffers and rings word by word, without the library's encoders: decoders must be
// tested against bytes that do not come from the library itself.
#pragma once

#include <array>
#include <initializer_list>
#include <utility>

#include "support/bytes.hpp"

namespace everkernel::test {

/// The sixteen words of a slot: status, opcode, tenant, priority word, arguments.
using SlotWords = std::array<Word, 16>;

/// A ring of these slots.
inline Bytes ring_of(std::span<const SlotWords> slots) {
  Bytes ring(slots.size() * 64);
  if (!slots.empty()) std::memcpy(ring.data(), slots.data(), ring.size());
  return ring;
}
inline Bytes ring_of(std::initializer_list<SlotWords> slots) {
  return ring_of(std::span<const SlotWords>(slots.begin(), slots.size()));
}

/// A control buffer of `words` words, zero but for the mask table at word 3 and these words.
inline Bytes control_of(std::initializer_list<std::pair<std::size_t, Word>> content,
                        std::size_t words = 160) {
  Bytes control(words * 4);
  set_word(control, 2, 3);
  for (const auto& [index, word] : content) set_word(control, index, word);
  return control;
}

}  // namespace everkernel::test
