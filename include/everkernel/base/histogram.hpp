// Times in buckets whose width grows with the time: eight buckets to each power of two, so that a
// bucket is an eighth of its time wide, from a nanosecond to a quarter of an hour.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace everkernel {

/// How many times fell into each bucket.
struct Histogram {
  static constexpr std::size_t kSubBuckets = 8;  ///< of each power of two
  static constexpr std::size_t kPowers = 37;     ///< of two, above the first kSubBuckets
  static constexpr std::size_t kBuckets = (kPowers + 1) * kSubBuckets;  ///< in all

  std::array<std::uint64_t, kBuckets> counts = {};  ///< the last also counts every longer time

  /// The bucket of a time.
  static constexpr std::size_t bucket_of(std::uint64_t time_ns) {
    if (time_ns < kSubBuckets) return static_cast<std::size_t>(time_ns);
    const auto power = static_cast<std::size_t>(std::bit_width(time_ns)) - 4;
    if (power >= kPowers) return kBuckets - 1;
    return (power + 1) * kSubBuckets + ((time_ns >> power) - kSubBuckets);
  }
  /// The shortest time of a bucket.
  static constexpr std::uint64_t begin_of(std::size_t bucket) {
    if (bucket < kSubBuckets) return bucket;
    const std::size_t power = bucket / kSubBuckets - 1;
    return (kSubBuckets + bucket % kSubBuckets) << power;
  }

  /// How many times there are.
  std::uint64_t count() const;
  /// The middle of the bucket that the time at this place of all, 0 … 1, lies in; 0 without any.
  std::chrono::nanoseconds quantile(double place) const;
  /// Adds the times of another.
  void add(const Histogram& other);
};

/// A histogram that any thread adds to without a lock.
class LiveHistogram {
 public:
  /// Counts a time as often as that; a negative one as 0.
  void record(std::chrono::nanoseconds time, std::uint64_t times = 1) {
    const auto time_ns = static_cast<std::uint64_t>(time.count() < 0 ? 0 : time.count());
    counts_[Histogram::bucket_of(time_ns)].fetch_add(times, std::memory_order_relaxed);
  }
  /// The counts as they stand.
  Histogram load() const;

 private:
  std::array<std::atomic<std::uint64_t>, Histogram::kBuckets> counts_{};
};

}  // namespace everkernel
