// The memory of many runs of handlers: put together on the host, and read when the runs are over.
//
// The frames of many runs lie in one piece of memory; each region of it has watched words on both
// sides.
#pragma once

#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "support/jit_trial.hpp"

namespace everkernel::test {

/// How many threads run an item.
enum class Way : std::uint8_t { lane, warp, group };
inline constexpr Way kAllWays[] = {Way::lane, Way::warp, Way::group};

/// The way of a scope.
constexpr Way way_of(ir::Scope scope) {
  return static_cast<Way>(scope);
}
/// In words.
std::string way_name(Way way);

/// A handler that is to be run in a way.
struct Entry {
  std::size_t handler_index = 0;
  Way way = Way::lane;
  friend constexpr bool operator==(const Entry&, const Entry&) = default;
};

/// One run.
struct RunRequest {
  Entry entry = {};
  const FrameSpec* spec = nullptr;
  const RunResult* expected = nullptr;  // says how much room printf and emit need
};

/// Words that a run may use.
struct WordRange {
  std::size_t first = 0, count = 0;
};

/// Words with regions among them.
class Image {
 public:
  /// Room for words between watched ones; `alignment` in words. Returns the index of the first.
  std::size_t place(std::size_t count, std::size_t alignment = 1);
  std::size_t place(std::span<const Word> words);
  void finish();
  template <class T>
  void put(std::size_t first, const T& value) {
    std::memcpy(&words_[first], &value, sizeof value);
  }
  template <class T>
  T get(std::size_t first) const {
    T value;
    std::memcpy(static_cast<void*>(&value), &words_[first], sizeof value);
    return value;
  }
  std::vector<Word> words(std::size_t first, std::size_t count) const;
  std::size_t size() const { return words_.size(); }
  std::span<Word> all() { return words_; }
  const std::vector<WordRange>& regions() const { return regions_; }
  /// Whether nothing was written between the regions from `first_region` to `last_region` and the
  /// ones beside them.
  bool is_intact(std::size_t first_region, std::size_t last_region) const;

 private:
  bool is_marked(std::size_t first, std::size_t last) const;
  std::vector<Word> words_;
  std::vector<WordRange> regions_;
};

/// Where the parts of one run lie in the image.
struct Layout {
  std::size_t first_region = 0, last_region = 0;
  std::size_t frame = 0, control = 0, entries = 0, abort = 0, log = 0, hits = 0, emitted = 0,
              scratch = 0, out = 0;
  std::vector<std::size_t> buffers = {};
  Word place_count = 0, log_count = 0, hit_capacity = 0;
};

/// Runs of one kernel, whose frames lie side by side.
struct FrameRow {
  Entry entry = {};
  std::size_t first_frame = 0;         // its word
  std::vector<std::size_t> runs = {};  // requests, in the order of their frames
};

/// The memory of some runs. The requests outlive it.
class RunImage {
 public:
  explicit RunImage(std::span<const RunRequest> requests);

  /// Fills everything in for memory that begins at this address.
  void fill(std::uint64_t base);
  std::span<Word> words() { return image_.all(); }
  const std::vector<FrameRow>& rows() const { return rows_; }
  /// What the runs left, in the order of the requests.
  std::vector<RunResult> collect() const;

 private:
  std::span<const RunRequest> requests_;
  Image image_;
  std::vector<Layout> layouts_;
  std::vector<FrameRow> rows_;
};

}  // namespace everkernel::test
