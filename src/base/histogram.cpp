// Counts and quantiles of histograms; everkernel/base/histogram.hpp has the buckets.
#include "everkernel/base/histogram.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace everkernel {

static_assert(Histogram::bucket_of(7) == 7 && Histogram::bucket_of(8) == 8);
static_assert(Histogram::bucket_of(16) == 16 && Histogram::begin_of(16) == 16);
static_assert(Histogram::bucket_of(~std::uint64_t{0}) == Histogram::kBuckets - 1);

std::uint64_t Histogram::count() const {
  return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
}

std::chrono::nanoseconds Histogram::quantile(double place) const {
  const std::uint64_t all = count();
  if (all == 0) return {};
  const double wanted = std::ceil(std::clamp(place, 0.0, 1.0) * static_cast<double>(all));
  std::uint64_t seen = 0;
  std::size_t bucket = 0;
  for (; bucket + 1 < kBuckets; ++bucket) {
    seen += counts[bucket];
    if (seen != 0 && static_cast<double>(seen) >= wanted) break;
  }
  const std::uint64_t begin = begin_of(bucket);
  const std::uint64_t end = bucket + 1 < kBuckets ? begin_of(bucket + 1) : begin + 1;
  return std::chrono::nanoseconds(static_cast<std::int64_t>(begin + (end - begin - 1) / 2));
}

void Histogram::add(const Histogram& other) {
  for (std::size_t i = 0; i < kBuckets; ++i) counts[i] += other.counts[i];
}

Histogram LiveHistogram::load() const {
  Histogram histogram;
  for (std::size_t i = 0; i < Histogram::kBuckets; ++i) {
    histogram.counts[i] = counts_[i].load(std::memory_order_relaxed);
  }
  return histogram;
}

}  // namespace everkernel
