// What litmus tests share: how many rounds they try, what they count, and the device.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "gpu.hpp"
#include "litmus_source.hpp"
#include "support/seeds.hpp"

namespace everkernel::test {

using Clock = std::chrono::steady_clock;

inline constexpr double kUsualSeconds = 20;
inline constexpr auto kKernelTimeout = std::chrono::seconds(60);
inline constexpr auto kProgressTimeout = std::chrono::seconds(10);  // of a test with the host

inline std::uint64_t rounds_to_run() {
  return number_from("EVERKERNEL_LITMUS_ROUNDS").value_or(100'000'000);
}
// If a weak order shows a forbidden outcome at all, it does so within few rounds.
inline std::uint64_t control_rounds() {
  return std::min<std::uint64_t>(4'000'000, rounds_to_run());
}

inline double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// ---- outcomes ----

/// The outcome of a test. The side that waits for an answer counts whether it is right.
struct Outcome {
  std::string name = {};
  std::uint64_t rounds = 0;  // expected
  std::uint64_t seen = 0;
  std::uint64_t forbidden = 0;
  std::uint64_t stuck = 0;
  double seconds = 0;

  void add(std::span<const Word> findings) {
    const auto at = [&](Finding finding) { return findings[static_cast<unsigned>(finding)]; };
    seen += at(Finding::seen);
    forbidden += std::uint64_t{at(Finding::stale)} + at(Finding::answer) + at(Finding::twice);
    stuck += at(Finding::stuck);
  }
};

inline void print(const Outcome& outcome) {
  fmt::print("  {:<44} {:>12} rounds {:>10} forbidden {:>6} stuck {:>8.2f} s\n", outcome.name,
             outcome.seen, outcome.forbidden, outcome.stuck, outcome.seconds);
  std::fflush(stdout);
}

inline void record(const std::vector<Outcome>& outcomes) {
  std::uint64_t rounds = 0;
  std::uint64_t forbidden = 0;
  for (const Outcome& outcome : outcomes) {
    rounds += outcome.seen;
    forbidden += outcome.forbidden;
  }
  testing::Test::RecordProperty("rounds", fmt::format("{}", rounds));
  testing::Test::RecordProperty("forbidden", fmt::format("{}", forbidden));
}

inline void expect_sound(const std::vector<Outcome>& outcomes) {
  record(outcomes);
  for (const Outcome& outcome : outcomes) {
    EXPECT_EQ(outcome.forbidden, 0u) << outcome.name;
    EXPECT_EQ(outcome.stuck, 0u) << outcome.name;
    EXPECT_EQ(outcome.seen, outcome.rounds) << outcome.name;
    EXPECT_GT(outcome.seen, 0u) << outcome.name;
  }
}

// A control runs a test with a weaker order, to show that the test can fail. Hardware that is
// stronger than its specification may never show the failure; then the control is skipped.
inline void expect_broken(const std::vector<Outcome>& outcomes) {
  record(outcomes);
  const bool is_broken =
      std::ranges::any_of(outcomes, [](const Outcome& outcome) { return outcome.forbidden != 0; });
  if (!is_broken) {
    GTEST_SKIP() << "no weakened order showed a forbidden outcome here: this says nothing about "
                    "the test";
  }
}

// ---- the device ----

/// Tests of kernels from one text.
template <const backend::cuda::SourceText& kText>
class LitmusOn : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    auto opened = Gpu::open(kText);
    if (opened) {
      gpu_ = std::move(*opened);
    } else {
      is_unsupported_ = opened.error().code == Code::unsupported;
      reason_ = opened.error().message + "; " + opened.error().hint;
    }
  }
  static void TearDownTestSuite() { gpu_.reset(); }

  void SetUp() override {
    if (gpu_ != nullptr) return;
    if (is_unsupported_) GTEST_SKIP() << reason_;
    FAIL() << reason_;
  }

  static const Gpu& gpu() { return *gpu_; }
  static DeviceWords device_words(std::size_t count) { return {gpu().context(), count}; }
  static PinnedWords pinned_words(std::size_t count) { return {gpu().context(), count}; }

  // If the kernel does not end, the process exits at once: freeing memory would block for ever.
  static void wait_for_kernel() {
    try {
      gpu().wait(kKernelTimeout);
    } catch (const std::runtime_error& error) {
      fmt::print(stderr, "the test cannot go on: {}\n", error.what());
      std::fflush(nullptr);
      std::_Exit(3);
    }
  }

  // Passes when a test has made no progress for kProgressTimeout, or its kernel has ended.
  class ProgressTimeout {
   public:
    void note_progress() { last_ = Clock::now(); }
    bool has_passed() const {
      return Clock::now() - last_ > kProgressTimeout || !gpu().is_running();
    }

   private:
    Clock::time_point last_ = Clock::now();
  };

 private:
  static inline std::unique_ptr<Gpu> gpu_;
  static inline bool is_unsupported_ = false;
  static inline std::string reason_;
};

}  // namespace everkernel::test
