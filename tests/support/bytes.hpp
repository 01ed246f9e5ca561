// Helpers that make and compare buffers in tests.
#pragma once

#include <cstddef>
#include <cstring>
#include <initializer_list>
#include <span>
#include <vector>

#include "everkernel/abi/platform.hpp"

namespace everkernel::test {

using abi::Word;
using Bytes = std::vector<std::byte>;

/// The bytes of these words, little-endian.
inline Bytes bytes_of(std::span<const Word> words) {
  Bytes bytes(words.size() * sizeof(Word));
  if (!words.empty()) std::memcpy(bytes.data(), words.data(), bytes.size());
  return bytes;
}
inline Bytes bytes_of(std::initializer_list<Word> words) {
  return bytes_of(std::span<const Word>(words.begin(), words.size()));
}

/// The words of these bytes; a rest of less than a word is dropped.
inline std::vector<Word> words_of(std::span<const std::byte> bytes) {
  std::vector<Word> words(bytes.size() / sizeof(Word));
  if (!words.empty()) std::memcpy(words.data(), bytes.data(), words.size() * sizeof(Word));
  return words;
}

/// Word `index` of these bytes.
inline Word word_at(std::span<const std::byte> bytes, std::size_t index) {
  Word word;
  std::memcpy(&word, bytes.data() + index * sizeof(Word), sizeof word);
  return word;
}

/// Overwrites word `index` of these bytes.
inline void set_word(std::span<std::byte> bytes, std::size_t index, Word word) {
  std::memcpy(bytes.data() + index * sizeof(Word), &word, sizeof word);
}

/// Zeroed storage that begins on a 64-byte line, as live memory must.
class LineBytes {
 public:
  explicit LineBytes(std::size_t size) : storage_(size + 64), size_(size) {
    const auto address = reinterpret_cast<std::uintptr_t>(storage_.data());
    first_ = (64 - address % 64) % 64;
  }
  std::span<std::byte> span() { return std::span(storage_).subspan(first_, size_); }

 private:
  Bytes storage_;
  std::size_t size_;
  std::size_t first_ = 0;
};

}  // namespace everkernel::test
