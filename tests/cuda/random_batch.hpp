// Batches of random programs with their frames, the results of the interpreter, and the comparison
// with runs of compiled code. A batch depends on its seed alone.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "everkernel/jit/memory_use.hpp"
#include "run_image.hpp"
#include "runner_source.hpp"

namespace everkernel::test {

/// The same numbers as in the differential test of the CPU's native code.
inline constexpr std::size_t kHandlersEach = 24;
inline constexpr std::size_t kFramesEach = 20;

/// Counts of a campaign.
struct Tally {
  std::size_t programs = 0, runs = 0, racy = 0, damaged = 0;
  std::map<std::string, std::size_t> endings = {};
  double compile_seconds = 0, run_seconds = 0;  // summed over all threads

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

/// The programs of a batch, and their runs.
struct Batch {
  std::uint64_t seed = 0;
  ir::VerifiedProgram program;
  std::vector<Entry> entries = {};
  std::vector<std::vector<FrameSpec>> specs = {};     // by handler
  std::vector<std::vector<RunResult>> expected = {};  // by handler
};

/// The batch of a seed, the same as in jit/differential_test.cpp.
Result<Batch> batch_of(std::uint64_t seed, Tally& tally);
/// The source of the batch's kernels.
RunnerSource source_of(const Batch& batch);
/// The runs of the batch.
std::vector<RunRequest> requests_of(const Batch& batch);
/// Describes a run with a finding, for the test's message.
std::string report(const Batch& batch, const RunRequest& request, const std::string& found);
/// The first difference between the results and the interpreter's; empty if there is none.
std::string first_difference(const Batch& batch, std::span<const RunRequest> requests,
                             std::vector<RunResult> results, Tally& tally);

}  // namespace everkernel::test
