// Seeds and time of random tests. EVERKERNEL_SEED=N begins with batch N and EVERKERNEL_SEED_STEP=S
// goes on with batch N + S, so that processes can share the batches; EVERKERNEL_SECONDS=S says how
// long to run; 0 is one batch. What a batch does follows from its seed alone; EVERKERNEL_TRIALS=N
// has the first N rings or jobs of each, where every one takes long.
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
#include <random>
#include <string>

namespace everkernel::test {

/// A number from the environment.
inline std::optional<std::uint64_t> number_from(const char* name) {
  const char* const text = std::getenv(name);
  if (text == nullptr || *text == '\0') return std::nullopt;
  return std::strtoull(text, nullptr, 0);
}

/// The seed that was asked for, else any.
inline std::uint64_t first_seed() {
  if (const auto given = number_from("EVERKERNEL_SEED")) return *given;
  std::random_device device;
  return device() & 0x7FFFFFFFu;  // short enough to type
}

/// From one seed to the next.
inline std::uint64_t seed_step() {
  return number_from("EVERKERNEL_SEED_STEP").value_or(1);
}

/// How long to run: as asked, else as usual.
inline double seconds_to_run(double usual) {
  if (const auto given = number_from("EVERKERNEL_SECONDS")) return static_cast<double>(*given);
  return usual;
}

/// How many rings or jobs of a batch: as asked, else as usual.
inline std::uint64_t trials_to_run(std::uint64_t usual) {
  return number_from("EVERKERNEL_TRIALS").value_or(usual);
}

/// The command that runs one batch of the running test again.
inline std::string replay_command(std::uint64_t seed) {
  std::array<char, 4096> path{};
  const ssize_t length = readlink("/proc/self/exe", path.data(), path.size() - 1);
  const auto* const test = testing::UnitTest::GetInstance()->current_test_info();
  const char* const backend = std::getenv("EVERKERNEL_BACKEND");
  return fmt::format("{}{}{}EVERKERNEL_SEED={} EVERKERNEL_SECONDS=0 {} --gtest_filter={}.{}",
                     backend == nullptr ? "" : "EVERKERNEL_BACKEND=",
                     backend == nullptr ? "" : backend, backend == nullptr ? "" : " ", seed,
                     length > 0 ? path.data() : "this_test", test->test_suite_name(), test->name());
}

/// Calls run_batch(seed) with rising seeds, once at least, until the time is over or it says false.
/// Returns the seconds it took.
template <class RunBatch>
double run_batches(double seconds, RunBatch run_batch) {
  std::uint64_t seed = first_seed();
  std::printf("EVERKERNEL_SEED=%llu\n", static_cast<unsigned long long>(seed));
  std::fflush(stdout);
  const auto start = std::chrono::steady_clock::now();
  const auto elapsed = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  while (run_batch(seed) && elapsed() < seconds) seed += seed_step();
  return elapsed();
}

}  // namespace everkernel::test
