// Batches of random programs with frames, what the interpreter makes of them, and how the runs of
// compiled code compare. What a batch does follows from its seed alone.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "everkernel/jit/memory_use.hpp"
#include "run_image.hpp"
#include "runner_source.hpp"

namespace everkernel::test {

/// As where native code is compared.
inline constexpr std::size_t kHandlersEach = 24;
inline constexpr std::size_t kFramesEach = 20;

/// What was done.
struct Tally {
  std::size_t programs = 0, runs = 0, racy = 0, damaged = 0;
  std::map<std::string, std::size_t> endings = {};
  double compile_seconds = 0, run_seconds = 0;  // of all threads

  void add(const Tally& other) {
    programs += other.programs;
    runs += other.runs;
    racy += other.racy;
    damaged += other.damaged;
    compile_seconds += other.compile_seconds;
    run_seconds += other.run_seconds;
    for (const auto& [name, count] : other.endings) endings[name] += count;
  }
};

/// The programs of a batch, and the runs that are to be made of them.
struct Batch {
  std::uint64_t seed = 0;
  ir::VerifiedProgram program;
  std::vector<Entry> entries = {};
  std::vector<std::vector<FrameSpec>> specs = {};     // by handler
  std::vector<std::vector<RunResult>> expected = {};  // by handler
};

/// What jit/differential_test.cpp makes of the same seed.
Result<Batch> batch_of(std::uint64_t seed, Tally& tally);
/// Its kernels.
RunnerSource source_of(const Batch& batch);
/// Its runs.
std::vector<RunRequest> requests_of(const Batch& batch);
/// What is to be said of a run where something was found.
std::string report(const Batch& batch, const RunRequest& request, const std::string& found);
/// The first difference in what the runs left, empty if there is none.
std::string first_difference(const Batch& batch, std::span<const RunRequest> requests,
                             std::vector<RunResult> results, Tally& tally);

}  // namespace everkernel::test
