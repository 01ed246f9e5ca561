// Buckets of times.
#include "everkernel/base/histogram.hpp"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace everkernel {
namespace {

using std::chrono::nanoseconds;

TEST(Histogram, buckets_follow_each_other_and_are_an_eighth_of_their_time_wide) {
  for (std::size_t i = 0; i + 1 < Histogram::kBuckets; ++i) {
    const std::uint64_t begin = Histogram::begin_of(i);
    const std::uint64_t end = Histogram::begin_of(i + 1);
    ASSERT_EQ(Histogram::bucket_of(begin), i);
    ASSERT_EQ(Histogram::bucket_of(end - 1), i);
    ASSERT_GT(end, begin);
    ASSERT_LE(end - begin, std::max<std::uint64_t>(1, begin / Histogram::kSubBuckets)) << begin;
  }
  EXPECT_GT(Histogram::begin_of(Histogram::kBuckets - 1), std::uint64_t{15} * 60 * 1'000'000'000);
}

TEST(Histogram, quantiles_are_within_an_eighth) {
  LiveHistogram live;
  for (int i = 1; i <= 10'000; ++i) live.record(nanoseconds(i * 100));
  const Histogram histogram = live.load();
  EXPECT_EQ(histogram.count(), 10'000u);
  for (const double place : {0.01, 0.5, 0.9, 0.99, 1.0}) {
    const double right = 1'000'000.0 * place;
    EXPECT_NEAR(static_cast<double>(histogram.quantile(place).count()), right, right / 8);
  }
  EXPECT_EQ(histogram.quantile(0), nanoseconds(99)) << "the middle of the first bucket";
}

TEST(Histogram, takes_any_time) {
  LiveHistogram live;
  live.record(nanoseconds(-5));
  live.record(nanoseconds::max());
  Histogram histogram = live.load();
  EXPECT_EQ(histogram.counts.front(), 1u);
  EXPECT_EQ(histogram.counts.back(), 1u);
  histogram.add(histogram);
  EXPECT_EQ(histogram.count(), 4u);
  EXPECT_EQ(Histogram().quantile(0.5), nanoseconds(0));
}

TEST(Histogram, counts_every_time_of_several_threads) {
  LiveHistogram live;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 10'000; ++i) live.record(nanoseconds(i));
      });
    }
  }
  EXPECT_EQ(live.load().count(), 40'000u);
}

}  // namespace
}  // namespace everkernel
