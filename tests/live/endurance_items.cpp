#include "live/endurance_items.hpp"

#include <algorithm>
#include <bit>
#include <span>
#include <vector>

namespace everkernel::test {
namespace {

constexpr Word kOdd1 = 2654435761u;
constexpr Word kOdd2 = 2246822519u;
constexpr Word kArgs = 12;
constexpr std::size_t kMostBatch = 1024;

// Arguments of item n: argument 2 is n itself, which chooses the words of the sums.
constexpr Word arg_of(Word seed, Word n, Word index) {
  if (index == 2) return n;
  const Word word = (seed + n * 4 + index * 0x9E3779B9u) * kOdd1;
  return word ^ (word >> 15);
}

// The hashes of fold.
constexpr Word first_hash(Word a, Word b, Word n) {
  const Word hash = (a ^ std::rotl(b, 11)) * kOdd1 + n;
  return (hash ^ (hash >> 15)) * kOdd2;
}
constexpr Word second_hash(Word a, Word b, Word n) {
  const Word hash = (b ^ std::rotl(a, 7)) * kOdd2 + n * kOdd1;
  return (hash ^ (hash >> 13)) * kOdd1;
}

constexpr Word seed_of(Word producer) {
  return producer * kOdd2;
}

// One word of all arguments but the first three, by which fold_wide changes the first.
constexpr Word rest_of(const std::array<Word, kArgs>& args) {
  Word rest = 0;
  for (Word i = 3; i < kArgs; ++i) rest = rest * kOdd2 + args[i];
  return rest ^ (rest >> 16);
}

void add(Sums& sums, Word a, Word b, Word n) {
  const Word at = n % kSumWords;
  sums.words[at] += first_hash(a, b, n);
  sums.words[kSumWords + at] += second_hash(a, b, n);
}

std::string publish_narrow(Queue& queue, Word seed, std::uint64_t items, Sums& expected) {
  std::vector<abi::WorkItem> batch(
      std::min(kMostBatch, std::max<std::size_t>(queue.capacity() / 4, 1)));
  for (std::uint64_t sent = 0; sent < items;) {
    const auto count = static_cast<Word>(std::min<std::uint64_t>(batch.size(), items - sent));
    const auto first = static_cast<Word>(sent);
    for (Word i = 0; i < count; ++i) {
      const Word n = first + i, a = arg_of(seed, n, 0), b = arg_of(seed, n, 1);
      batch[i] = {kFold, a, b, n};
      add(expected, a, b, n);
    }
    const auto published = queue.publish_items(std::span(batch).first(count), kEndurancePatience);
    if (!published) return published.error().message;
    sent += count;
  }
  return "";
}

std::string publish_wide(Queue& queue, Word seed, std::uint64_t items, Sums& expected) {
  std::array<Word, kArgs> args{};
  for (std::uint64_t sent = 0; sent < items; ++sent) {
    const auto n = static_cast<Word>(sent);
    for (Word i = 0; i < kArgs; ++i) args[i] = arg_of(seed, n, i);
    add(expected, args[0] ^ rest_of(args), args[1], n);
    const auto published = queue.publish({.opcode = kFoldWide, .args = args}, kEndurancePatience);
    if (!published) return published.error().message;
  }
  return "";
}

}  // namespace

const char* const kEnduranceHandlers = R"(
handler fold = 64 {
  let a = args[0];
  let b = args[1];
  let n = args[2];
  let x = (a ^ rotl(b, 11)) * 2654435761 + n;
  let y = (b ^ rotl(a, 7)) * 2246822519 + n * 2654435761;
  atomic_add(buffer(1)[n & 1023], (x ^ (x >> 15)) * 2246822519);
  atomic_add(buffer(1)[1024 + (n & 1023)], (y ^ (y >> 13)) * 2654435761);
}
handler fold_wide = 65 {
  let k = 2246822519;
  let r3 = (args[3] * k + args[4]) * k + args[5];
  let r6 = ((r3 * k + args[6]) * k + args[7]) * k + args[8];
  let rest = ((r6 * k + args[9]) * k + args[10]) * k + args[11];
  let a = args[0] ^ rest ^ (rest >> 16);
  let b = args[1];
  let n = args[2];
  let x = (a ^ rotl(b, 11)) * 2654435761 + n;
  let y = (b ^ rotl(a, 7)) * 2246822519 + n * 2654435761;
  atomic_add(buffer(1)[n & 1023], (x ^ (x >> 15)) * 2246822519);
  atomic_add(buffer(1)[1024 + (n & 1023)], (y ^ (y >> 13)) * 2654435761);
}
)";

abi::WorkItem endurance_item(Word producer, Word n) {
  const Word seed = seed_of(producer);
  return {kFold, arg_of(seed, n, 0), arg_of(seed, n, 1), n};
}

std::string publish_share(Queue& queue, const Share& share, Sums& expected) {
  const Word seed = seed_of(share.producer);
  const std::string problem = share.is_wide ? publish_wide(queue, seed, share.items, expected)
                                            : publish_narrow(queue, seed, share.items, expected);
  if (!problem.empty()) return problem;
  const auto ended = queue.wait_all(kEndurancePatience);
  return ended ? "" : ended.error().message;
}

}  // namespace everkernel::test
