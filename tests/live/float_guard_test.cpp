// The float mode of a thread that runs items for a while.
#include "backend/cpu/float_guard.hpp"

#include <gtest/gtest.h>

#include <cfenv>

namespace everkernel::backend::cpu {
namespace {

// Computed at run time, in the mode of the moment.
double third() {
  volatile double one = 1, three = 3;
  return one / three;
}

TEST(FloatGuard, computes_in_the_default_mode_and_restores_the_one_before) {
  const double nearest = third();
  std::fesetround(FE_UPWARD);
  const double upward = third();
  ASSERT_GT(upward, nearest);
  {
    const FloatGuard guard;
    EXPECT_EQ(third(), nearest);
  }
  EXPECT_EQ(third(), upward);
  std::fesetround(FE_TONEAREST);
}

TEST(FloatGuard, restores_the_flags_of_exceptions_also_in_the_default_mode) {
  std::feclearexcept(FE_ALL_EXCEPT);
  {
    const FloatGuard guard;
    static_cast<void>(third());
  }
  EXPECT_EQ(std::fetestexcept(FE_INEXACT), 0);
  static_cast<void>(third());
  EXPECT_NE(std::fetestexcept(FE_INEXACT), 0);
  { const FloatGuard guard; }
  EXPECT_NE(std::fetestexcept(FE_INEXACT), 0) << "of before the guard";
}

}  // namespace
}  // namespace everkernel::backend::cpu
