// Lengths of time as text.
#include "everkernel/base/duration_text.hpp"

#include <gtest/gtest.h>

namespace everkernel {
namespace {

using std::chrono::nanoseconds;

TEST(DurationText, is_in_the_unit_that_a_person_would_choose) {
  struct Row {
    nanoseconds time;
    const char* text;
  };
  constexpr Row kRows[] = {
      {nanoseconds(0), "0 ns"},
      {nanoseconds(1), "1 ns"},
      {nanoseconds(999), "999 ns"},
      {nanoseconds(1000), "1 us"},
      {nanoseconds(1220), "1.22 us"},
      {nanoseconds(37'700), "37.7 us"},
      {nanoseconds(616'400), "616 us"},
      {std::chrono::milliseconds(1500), "1.50 s"},
      {nanoseconds(30'000'000'000), "30 s"},
      {std::chrono::seconds(119), "119 s"},
      {std::chrono::seconds(125), "2 min 5 s"},
      {std::chrono::minutes(119), "119 min 0 s"},
      {std::chrono::hours(3) + std::chrono::minutes(10), "3 h 10 min"},
      {nanoseconds(-5), "-5 ns"},
  };
  for (const Row& row : kRows) EXPECT_EQ(duration_text(row.time), row.text);
}

}  // namespace
}  // namespace everkernel
