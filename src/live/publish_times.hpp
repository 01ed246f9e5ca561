// When items of a queue were published, for telemetry. A clock costs as much as publishing, so that
// only some items are timed: one in 8 coarsely, from which follows how old the oldest is, and one
// in 64 exactly, whose time to its end goes into a histogram.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

#include "everkernel/backend/detail/live.hpp"
#include "everkernel/base/histogram.hpp"

namespace everkernel::live {

using abi::LongWord;
using abi::Word;

/// The times of one queue. A publisher calls stamp() between reserving tickets and storing their
/// entries; whoever notes tickets calls count(), one thread at a time.
class PublishTimes {
 public:
  /// `queue` knows when sampled items ended; without one, an item counts as ended when it is noted.
  PublishTimes(Word capacity, const backend::LiveQueue* queue)
      : capacity_(capacity),
        queue_(queue),
        coarse_(std::make_unique<std::atomic<std::uint32_t>[]>(coarse_places(capacity))),
        exact_(std::make_unique<std::atomic<std::int64_t>[]>(backend::sample_places(capacity))) {}

  /// Tickets from `first` on are published now.
  void stamp(LongWord first, LongWord count) {
    if (next_stamped(first) < first + count) [[unlikely]]
      stamp_some(first, first + count);
  }
  /// Tickets in [begin, end) are noted now.
  void count(LongWord begin, LongWord end);

  /// At least how long ago a ticket of the last lap was published, to a few milliseconds, if the
  /// times of tickets below `end` tell.
  std::optional<std::chrono::milliseconds> least_age(LongWord ticket, LongWord end) const;
  /// Times from publishing to the end, of one item in 64.
  Histogram histogram() const { return histogram_.load(); }

 private:
  static constexpr LongWord kStampInterval = 8;
  static_assert(backend::kSampleInterval % kStampInterval == 0);
  static constexpr LongWord next_stamped(LongWord ticket) {
    return (ticket + kStampInterval - 1) / kStampInterval * kStampInterval;
  }
  static constexpr std::size_t coarse_places(Word capacity) {
    return capacity < kStampInterval ? 1 : capacity / kStampInterval;
  }
  std::atomic<std::uint32_t>& coarse(LongWord ticket) const {
    const auto stamp = static_cast<std::size_t>(ticket / kStampInterval);
    return coarse_[stamp & (coarse_places(capacity_) - 1)];
  }
  void stamp_some(LongWord first, LongWord end);

  const Word capacity_;
  const backend::LiveQueue* const queue_;
  const std::unique_ptr<std::atomic<std::uint32_t>[]> coarse_;  // milliseconds
  const std::unique_ptr<std::atomic<std::int64_t>[]> exact_;    // nanoseconds
  LiveHistogram histogram_;
};

}  // namespace everkernel::live
