// Items over buffers on a GPU that programs dispatch again and again: a ring that stays there, and
// the saxpy items of cuda_bench and live_rate_bench with the data they work on.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "cuda_peers.hpp"
#include "everkernel/runtime/megakernel.hpp"

namespace everkernel::bench {

/// The program of a text of handlers.
ir::VerifiedProgram program_of(std::string_view handlers);
/// A megakernel of those handlers for rings of that many slots.
MegakernelOptions options_for(std::string_view handlers, Word slots);
/// Control words of one tenant.
std::vector<std::byte> fresh_control();

// ---- rings ----

/// The buffers of numbered_items().
inline constexpr Word kInput = 1;
inline constexpr Word kOutput = 2;
/// Items 0, 1, 2, … of an opcode on two buffers, the number as parameter.
std::vector<abi::WorkItem> numbered_items(Word opcode, Word count);

/// A resident ring of a megakernel, dispatched again and again.
class ResidentRing {
 public:
  /// The ring of those items. `peers` and `kernel` outlive it.
  ResidentRing(const Peers& peers, Megakernel& kernel, std::span<const abi::WorkItem> items);

  /// Makes every slot PUBLISHED again.
  void republish();
  /// Runs every slot.
  void dispatch();
  /// The time of a dispatch of the republished ring.
  double dispatch_ns();

 private:
  const Peers& peers_;
  Megakernel& kernel_;
  Word slots_;
  std::optional<ResidentBuffers> buffers_;
  Workspace workspace_;
};

/// The median time of many calls; `prepare` runs before each and is not timed.
double median_ns(std::size_t calls, const auto& prepare, const auto& call) {
  std::vector<double> times;
  times.reserve(calls);
  for (std::size_t i = 0; i < calls; ++i) {
    prepare();
    times.push_back(host_ns(call));
  }
  std::ranges::nth_element(times, times.begin() + static_cast<std::ptrdiff_t>(calls / 2));
  return times[calls / 2];
}

// ---- data ----

/// Creates a buffer.
DataBuffer make_buffer(Megakernel& kernel, Word handle, std::size_t word_count,
                       memory::Access access = memory::Access::read_write);

/// Calls `visit(first, words)` with the words of an endless pattern, piece by piece.
void for_each_piece(std::size_t word_count, const auto& word_at, const auto& visit) {
  constexpr std::size_t kPiece = std::size_t{1} << 22;
  std::vector<Word> piece;
  for (std::size_t first = 0; first < word_count; first += kPiece) {
    piece.resize(std::min(kPiece, word_count - first));
    for (std::size_t i = 0; i < piece.size(); ++i) piece[i] = word_at(first + i);
    visit(first, std::span<const Word>(piece));
  }
}

/// A word that looks random.
inline Word mixed(std::size_t index, Word salt) {
  Word word = static_cast<Word>(index) * 2654435761u + salt;
  word = (word ^ (word >> 15)) * 2246822519u;
  return word ^ (word >> 13);
}

// ---- saxpy ----

/// Words of one item.
inline constexpr Word kItemWords = 256;
/// Exact in binary; products with it are rounded.
inline constexpr float kFactor = 1.25f;
/// Item i works on words 256 i … 256 i + 255.
inline constexpr std::string_view kSaxpyWarp = R"(
handler saxpy = 64 scope warp {
  let base = param * 256;
  each i in 0 .. 256 {
    output[base + i] = bits_u32(1.25 * bits_f32(input[base + i]) + bits_f32(output[base + i]));
  }
}
)";

/// Floats of 1 up to 2, as words.
inline Word saxpy_x(std::size_t i) {
  return 0x3F800000u | (mixed(i, 1) >> 9);
}
inline Word saxpy_y(std::size_t i) {
  return 0x3F800000u | (mixed(i, 2) >> 9);
}
/// Word i of y after that many runs. Built without fused multiply-add, as handlers are.
Word saxpy_after(std::size_t i, int runs);

/// Writes both inputs.
void fill_saxpy(auto& x, auto& y, std::size_t words) {
  for_each_piece(words, saxpy_x,
                 [&](std::size_t first, auto piece) { must(x.write(first, piece)); });
  for_each_piece(words, saxpy_y,
                 [&](std::size_t first, auto piece) { must(y.write(first, piece)); });
}

/// Fails unless y equals the result of that many runs, bit for bit.
void check_saxpy(const auto& y, std::size_t words, int runs) {
  std::vector<Word> found;
  const auto expected_at = [&](std::size_t i) { return saxpy_after(i, runs); };
  for_each_piece(words, expected_at, [&](std::size_t first, std::span<const Word> expected) {
    found.resize(expected.size());
    must(y.read(first, found));
    expect(std::ranges::equal(found, expected), "saxpy gives what the CPU gives, bit for bit");
  });
}

/// Saxpy items of one scope with their buffers and a resident ring of them. They have run once.
class SaxpyItems {
 public:
  /// Checks that one dispatch gives what the CPU gives.
  SaxpyItems(const Peers& peers, const std::shared_ptr<backend::Backend>& cuda,
             std::string_view handler, Word items);

  /// Words of each buffer.
  static std::size_t words_of(Word items) { return std::size_t{items} * kItemWords; }
  /// The time of a dispatch of all of them.
  double dispatch_ns() { return ring_.dispatch_ns(); }
  /// The megakernel that has the buffers.
  Megakernel& kernel() { return kernel_; }
  /// The words that items change.
  const DataBuffer& y() const { return y_; }

 private:
  Megakernel kernel_;
  DataBuffer x_, y_;
  ResidentRing ring_;
};

}  // namespace everkernel::bench
