// main() of property programs: one seed for every property, printed, and taken from EVERKERNEL_SEED
// to replay a run.
#include <gtest/gtest.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>

#include "support/sanitized.hpp"

namespace {

// Prints how to replay, right below the failure.
class ReplayHint : public testing::EmptyTestEventListener {
 public:
  explicit ReplayHint(std::string seed) : seed_(std::move(seed)) {}
  void OnTestEnd(const testing::TestInfo& test) override {
    if (!test.result()->Failed()) return;
    std::cout << "replay: EVERKERNEL_SEED=" << seed_ << " " << program_invocation_name
              << " --gtest_filter=" << test.test_suite_name() << '.' << test.name() << '\n';
  }

 private:
  std::string seed_;
};

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const char* const given = std::getenv("EVERKERNEL_SEED");
  const std::string seed = given != nullptr && *given != '\0' ? given : "1";
  if (seed.find_first_not_of("0123456789") != std::string::npos) {
    std::cerr << "error: EVERKERNEL_SEED=" << seed << " is not a number\n";
    return 2;
  }
  // Our defaults come first, so that options of the caller in RC_PARAMS (more cases, verbose
  // output) override them; the seed is ours.
  const char* const params = std::getenv("RC_PARAMS");
  const std::string all =
      (everkernel::test::kIsSanitized ? std::string("max_success=200 ") : "max_success=1000 ") +
      (params != nullptr ? std::string(params) : "") + " seed=" + seed;
  setenv("RC_PARAMS", all.c_str(), 1);
  std::cout << "EVERKERNEL_SEED=" << seed << '\n' << std::flush;  // also when a property crashes
  testing::UnitTest::GetInstance()->listeners().Append(new ReplayHint(seed));
  return RUN_ALL_TESTS();
}
