// Seeds and lengths of random tests.
//
// A test run has a fixed first seed and a fixed number of batches, so that every run does the same.
// A soak sets EVERKERNEL_SEED=N, which begins with batch N, and EVERKERNEL_SECONDS=S, which goes on
// for S seconds (0: one batch). EVERKERNEL_SEED_STEP=K goes from batch N to batch N + K, so that
// processes can share the batches. A batch follows from its seed alone; EVERKERNEL_TRIALS=N stops
// after the first N rings or jobs of each batch. With EVERKERNEL_SOAK=1, tests leave nothing out to
// save time.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>

namespace everkernel::test {

/// A number from the environment.
inline std::optional<std::uint64_t> number_from(const char* name) {
  const char* const text = std::getenv(name);
  if (text == nullptr || *text == '\0') return std::nullopt;
  return std::strtoull(text, nullptr, 0);
}

/// Whether EVERKERNEL_SOAK is set: tests then try everything, however long it takes.
inline bool is_soak() {
  return std::getenv("EVERKERNEL_SOAK") != nullptr;
}

/// The seed that EVERKERNEL_SEED names, else 1.
inline std::uint64_t first_seed() {
  return number_from("EVERKERNEL_SEED").value_or(1);
}

/// The step from one seed to the next.
inline std::uint64_t seed_step() {
  return number_from("EVERKERNEL_SEED_STEP").value_or(1);
}

/// The seconds that EVERKERNEL_SECONDS names, else `usual`: for tests on GPUs, whose speeds differ
/// so much that a number of batches does not bound the time.
inline double seconds_to_run(double usual) {
  if (const auto given = number_from("EVERKERNEL_SECONDS")) return static_cast<double>(*given);
  return usual;
}

/// How many rings or jobs a batch has: EVERKERNEL_TRIALS if set, else `usual`.
inline std::uint64_t trials_to_run(std::uint64_t usual) {
  return number_from("EVERKERNEL_TRIALS").value_or(usual);
}

/// The command that runs one batch of the running test again.
inline std::string replay_command(std::uint64_t seed) {
  std::array<char, 4096> path{};
  const ssize_t length = readlink("/proc/self/exe", path.data(), path.size() - 1);
  const auto* const test = testing::UnitTest::GetInstance()->current_test_info();
  std::string choices;
  for (const char* name : {"EVERKERNEL_BACKEND", "EVERKERNEL_LIBCUDA", "EVERKERNEL_SUBJECT"}) {
    if (const char* value = std::getenv(name)) choices += fmt::format("{}={} ", name, value);
  }
  return fmt::format("{}EVERKERNEL_SEED={} EVERKERNEL_SECONDS=0 {} --gtest_filter={}.{}", choices,
                     seed, length > 0 ? path.data() : "this_test", test->test_suite_name(),
                     test->name());
}

/// Calls run_batch(seed) with rising seeds until it returns false: `usual_count` times, or for as
/// long as EVERKERNEL_SECONDS says and at least once. Returns the seconds it took.
template <class RunBatch>
double run_batches(std::uint64_t usual_count, RunBatch run_batch) {
  std::uint64_t seed = first_seed();
  std::printf("EVERKERNEL_SEED=%llu\n", static_cast<unsigned long long>(seed));
  std::fflush(stdout);
  const auto start = std::chrono::steady_clock::now();
  const auto elapsed = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  const auto seconds = number_from("EVERKERNEL_SECONDS");
  for (std::uint64_t done = 1; run_batch(seed); ++done, seed += seed_step()) {
    if (seconds ? elapsed() >= static_cast<double>(*seconds) : done >= usual_count) break;
  }
  return elapsed();
}

}  // namespace everkernel::test
