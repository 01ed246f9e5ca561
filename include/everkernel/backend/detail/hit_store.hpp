// The hits of a run: workers gather them in chunks of their own and hand whole chunks in.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>

#include "everkernel/abi/hit.hpp"
#include "everkernel/memory/large_array.hpp"

namespace everkernel::backend {

using abi::Word;

/// Keeps the first hits of a run in the order of items, however late they arrive; the hits of one
/// item stay in the order in which they are appended. Grows up to its limit. Thread-safe.
///
/// It has room for an eighth more than its limit, so that it seldom has to sort out the hits that
/// are not among the first.
class HitStore {
 public:
  /// Keeps at most `limit` hits in `memory`, which outlives it and begins with `first_room` places.
  HitStore(memory::LargeArray<abi::Hit>& memory, std::uint64_t first_room, std::uint64_t limit)
      : memory_(memory), first_room_(std::min(first_room, limit)), limit_(limit) {}

  /// Appends hits, of one item in their order.
  void append(std::span<const abi::Hit> hits);
  /// Counts hits that never came here.
  void count_dropped(std::uint64_t count);

  /// The memory that keeping `limit` hits takes in the end: its places, if it began with room for
  /// all of them, and the caller's copy of what finish() returns.
  static std::uint64_t peak_bytes(std::uint64_t limit) {
    return (2 * limit + slack_of(limit)) * sizeof(abi::Hit);
  }
  /// Places it begins with; 0 if no hit is expected.
  std::uint64_t first_room() const { return first_room_; }
  /// Most hits that it keeps.
  std::uint64_t limit() const { return limit_; }
  /// The hits that are kept, sorted by item, until the next append. After the last worker has left.
  std::span<const abi::Hit> finish();
  /// Hits that are not kept. After finish().
  std::uint64_t dropped() const { return arrived_ - size_; }

 private:
  void append_piece(std::span<const abi::Hit> hits);
  bool make_room(std::uint64_t count);
  void trim();
  void sort();
  static std::uint64_t slack_of(std::uint64_t limit) { return std::max(limit / 8, kSlackAtLeast); }

  static constexpr std::uint64_t kSlackAtLeast = 256;

  memory::LargeArray<abi::Hit>& memory_;
  const std::uint64_t first_room_;
  std::uint64_t limit_;  // falls only when the system has no memory left
  std::mutex mutex_;     // guards everything below
  std::span<abi::Hit> places_;
  std::uint64_t size_ = 0;
  std::uint64_t sorted_ = 0;  // of these, from the first on
  std::uint64_t arrived_ = 0;
  Word cutoff_ = ~Word{0};  // hits of this item and later ones are not among the first
};

/// Hits that one worker has not handed in yet.
class HitChunk {
 public:
  /// Hands in to `store`; null drops every hit.
  explicit HitChunk(HitStore* store) : store_(store) {}

  /// Appends a hit.
  void append(const abi::Hit& hit) {
    hits_[count_] = hit;
    if (++count_ == hits_.size()) hand_in();
  }
  /// Hands in what there is: before another worker continues the item, and at the end.
  void hand_in() {
    if (store_ != nullptr && count_ != 0) store_->append(std::span(hits_).first(count_));
    count_ = 0;
  }

 private:
  HitStore* store_;
  std::size_t count_ = 0;
  std::array<abi::Hit, 256> hits_;
};

}  // namespace everkernel::backend
