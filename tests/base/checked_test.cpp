#include "base/checked.hpp"

#include <gtest/gtest.h>

namespace everkernel {
namespace {

constexpr std::uint32_t kMax32 = 0xFFFFFFFFu;
constexpr std::uint64_t kMax64 = ~std::uint64_t{0};

TEST(Checked, add_gives_the_sum_up_to_the_largest_value) {
  EXPECT_EQ(checked_add<std::uint32_t>(kMax32 - 1, 1), kMax32);
  EXPECT_EQ(checked_add<std::uint32_t>(kMax32, 1), std::nullopt);
}

TEST(Checked, mul_gives_the_product_up_to_the_largest_value) {
  EXPECT_EQ(checked_mul<std::uint64_t>(1ull << 32, kMax32), 0xFFFFFFFF00000000ull);
  EXPECT_EQ(checked_mul<std::uint64_t>(1ull << 32, 1ull << 32), std::nullopt);
}

TEST(Checked, saturating_add_stops_at_the_largest_value) {
  EXPECT_EQ(saturating_add<std::uint32_t>(kMax32, kMax32), kMax32);
  EXPECT_EQ(saturating_add<std::uint32_t>(40, 2), 42u);
}

TEST(Checked, scaled_ratio_rounds_down_and_never_passes_the_scale) {
  struct Row {
    std::uint64_t part, whole;
    std::uint32_t scale, expected;
  };
  constexpr Row kRows[] = {
      {0, 0, 10'000, 0},          {5, 0, 10'000, 0},
      {1, 3, 10'000, 3333},       {2, 3, 10'000, 6666},
      {3, 3, 10'000, 10'000},     {4, 3, 10'000, 10'000},
      {1, 4, 1'000'000, 250'000}, {kMax64 - 1, kMax64, 10'000, 9999},
      {kMax64, kMax64, 1, 1},     {kMax64 / 2, kMax64, 1'000'000, 499'999},
  };
  for (const Row& row : kRows) {
    EXPECT_EQ(scaled_ratio(row.part, row.whole, row.scale), row.expected)
        << row.part << " of " << row.whole;
  }
}

}  // namespace
}  // namespace everkernel
