// The memory of many runs of handlers, as one allocation: the host fills it before the runs and
// reads it after them.
//
// Each range of words that a run may use has guard words on both sides.
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

/// The way that a scope runs in.
constexpr Way way_of(ir::Scope scope) {
  return static_cast<Way>(scope);
}
/// The name of a way.
std::string way_name(Way way);

/// A handler, and the way to run it.
struct Entry {
  std::size_t handler_index = 0;
  Way way = Way::lane;
  friend constexpr bool operator==(const Entry&, const Entry&) = default;
};

/// One run.
struct RunRequest {
  Entry entry = {};
  const FrameSpec* spec = nullptr;
  const RunResult* expected = nullptr;  // sizes the space for printf and emit
};

/// Words that a run may use.
struct WordRange {
  std::size_t first = 0, count = 0;
};

/// Words, with ranges for the runs and guard words between them.
class Image {
 public:
  /// Adds a range between guard words; `alignment` is in words. Returns the index of its first
  /// word.
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
  const std::vector<WordRange>& ranges() const { return ranges_; }
  /// Whether the guard words around the ranges from `first_range` to `last_range` are
  /// unchanged.
  bool is_intact(std::size_t first_range, std::size_t last_range) const;

 private:
  bool is_marked(std::size_t first, std::size_t last) const;
  std::vector<Word> words_;
  std::vector<WordRange> ranges_;
};

/// The positions of one run's parts in the image.
struct Layout {
  std::size_t first_range = 0, last_range = 0;
  std::size_t frame = 0, control = 0, entries = 0, abort = 0, log = 0, hits = 0, emitted = 0,
              scratch = 0, out = 0;
  std::vector<std::size_t> buffers = {};
  Word place_count = 0, log_count = 0, hit_capacity = 0;
};

/// Runs of one kernel. Their frames are contiguous.
struct FrameRow {
  Entry entry = {};
  std::size_t first_frame = 0;         // index of its first word
  std::vector<std::size_t> runs = {};  // indices of requests, in the order of their frames
};

/// The memory of all runs. The requests must outlive it.
class RunImage {
 public:
  explicit RunImage(std::span<const RunRequest> requests);

  /// Fills the words, for device memory that begins at this address.
  void fill(std::uint64_t base);
  std::span<Word> words() { return image_.all(); }
  const std::vector<FrameRow>& rows() const { return rows_; }
  /// The results of the runs, in the order of the requests.
  std::vector<RunResult> collect() const;

 private:
  std::span<const RunRequest> requests_;
  Image image_;
  std::vector<Layout> layouts_;
  std::vector<FrameRow> rows_;
};

}  // namespace everkernel::test
