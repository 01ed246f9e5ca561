#include <gtest/gtest.h>

#include <set>

#include "everkernel/base/result.hpp"
#include "everkernel/base/version.hpp"

namespace everkernel {
namespace {

TEST(Error, fail_keeps_all_four_parts) {
  const Result<int> result = fail(Code::io, "cannot open x", "check the path", 2);
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code, Code::io);
  EXPECT_EQ(result.error().message, "cannot open x");
  EXPECT_EQ(result.error().hint, "check the path");
  EXPECT_EQ(result.error().native, 2);
}

TEST(Error, every_code_has_a_name_of_its_own) {
  std::set<std::string_view> names;
  for (int code = 0; code <= static_cast<int>(Code::out_of_memory); ++code) {
    names.insert(code_name(static_cast<Code>(code)));
  }
  EXPECT_EQ(names.size(), 8u);
  EXPECT_EQ(names.count("unknown"), 0u);
}

Result<int> half(int number) {
  if (number % 2 != 0) return fail(Code::invalid_argument, "odd");
  return number / 2;
}

Result<int> quarter(int number) {
  EVERKERNEL_TRY(half(number));
  return half(number / 2);
}

TEST(Error, try_returns_the_first_error_and_passes_values_by) {
  EXPECT_EQ(quarter(12), 3);
  EXPECT_EQ(quarter(3).error().message, "odd");
}

TEST(Version, has_three_numbers) {
  EXPECT_EQ(std::count(version().begin(), version().end(), '.'), 2);
}

}  // namespace
}  // namespace everkernel
