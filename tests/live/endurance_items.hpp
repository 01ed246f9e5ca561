// The items of the endurance test: what producers publish, and what the items leave behind.
//
// An item adds two hashes of all its arguments to sums. An item that is lost, runs twice, or has
// words of another item changes both sums by numbers that look random, so that errors do not cancel
// each other. The sums are spread over many words: neighbours in a queue add to neighbouring words.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <string>

#include "everkernel/live/queue.hpp"

namespace everkernel::test {

/// Words of each of the two sums.
inline constexpr Word kSumWords = 1024;
/// Opcodes and buffer of kEnduranceHandlers.
inline constexpr Word kFold = 64;
inline constexpr Word kFoldWide = 65;
inline constexpr Word kSumBuffer = 1;
/// fold has three arguments, fold_wide twelve.
extern const char* const kEnduranceHandlers;

/// Longest time without room in a queue, and until the last item ends.
inline constexpr auto kEndurancePatience = std::chrono::seconds(60);

/// Both sums, modulo 2^32.
struct Sums {
  std::array<Word, 2 * kSumWords> words = {};

  void add(const Sums& other) {
    for (std::size_t i = 0; i < words.size(); ++i) words[i] += other.words[i];
  }
};

/// What one producer publishes.
struct Share {
  Word producer = 0;  // no two have the same items
  std::uint64_t items = 0;
  bool is_wide = false;  // items have twelve arguments
};

/// Item n of a producer with three arguments.
abi::WorkItem endurance_item(Word producer, Word n);

/// Publishes a share, waits until all of it has ended, and gives what its items add. An empty text,
/// or what went wrong.
std::string publish_share(Queue& queue, const Share& share, Sums& expected);

}  // namespace everkernel::test
