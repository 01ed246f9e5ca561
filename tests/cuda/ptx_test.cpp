// Random programs as PTX on the CPU: what NVRTC made of them must leave what the interpreter left.
//
// Needs NVRTC and no GPU. What the second half of the compiler makes of the PTX, only a GPU shows.
// EVERKERNEL_SEED=N begins with batch N, EVERKERNEL_SECONDS=S says how long to go on.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>

#include "needs_nvrtc.hpp"
#include "random_batch.hpp"
#include "support/ptx_machine.hpp"
#include "support/seeds.hpp"

namespace everkernel::test {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kUsualSeconds = 20;
// One that no NVRTC knows: it gives PTX for compute capability 9.0, and takes no time for the
// second half.
constexpr int kArchitecture = 91;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// ---- random programs ----

// The memory that a run may use.
std::vector<ptx::Region> regions_of(const RunImage& image, std::size_t run, std::uint64_t base) {
  const auto region = [&](const WordRange& words, bool is_writable) {
    return ptx::Region{.first = base + words.first * sizeof(Word),
                       .size = words.count * sizeof(Word),
                       .is_writable = is_writable};
  };
  std::vector<ptx::Region> regions = {region(image.frame_of(run), false)};
  for (const WordRange& words : image.regions_of(run)) regions.push_back(region(words, true));
  return regions;
}

// The first difference, empty if there is none.
Result<std::string> run_on_machine(const PtxModule& module, const Batch& batch, Tally& tally,
                                   std::uint64_t& instructions) {
  const std::vector<RunRequest> requests = requests_of(batch);
  RunImage image(requests);
  const auto base = reinterpret_cast<std::uint64_t>(image.words().data());
  image.fill(base);
  for (const FrameRow& row : image.rows()) {
    const std::string kernel = kernel_name(row.entry);
    const std::uint64_t frames = base + row.first_frame * sizeof(Word);
    for (std::size_t k = 0; k < row.runs.size(); ++k) {
      const auto executed = module.run({.entry = kernel,
                                        .params = {&frames, 1},
                                        .block = static_cast<std::uint32_t>(k),
                                        .regions = regions_of(image, row.runs[k], base)});
      if (!executed) return report(batch, requests[row.runs[k]], executed.error().message);
      instructions += *executed;
    }
  }
  return first_difference(batch, requests, image.collect(), tally);
}

Result<std::string> compare(const backend::cuda::Nvrtc& nvrtc, const Batch& batch, Tally& tally,
                            std::uint64_t& instructions) {
  const auto compile_begins = Clock::now();
  std::vector<backend::cuda::SourceText> headers;
  const RunnerSource source = source_of(batch, Ways::one_lane);
  auto request = request_for(source, kArchitecture, headers);
  request.keeps_ptx = true;
  const auto code = nvrtc.compile(request);
  if (!code) return Failure(code.error());
  tally.compile_seconds += seconds_since(compile_begins);
  const auto run_begins = Clock::now();
  const auto module = PtxModule::parse(code->ptx);
  if (!module) return Failure(module.error());
  auto found = run_on_machine(*module, batch, tally, instructions);
  tally.run_seconds += seconds_since(run_begins);
  return found;
}

TEST(CudaPtx, random_programs_agree_bit_for_bit) {
  EVERKERNEL_NEEDS_NVRTC(nvrtc);
  Tally tally;
  std::uint64_t instructions = 0;
  const double seconds = run_batches(seconds_to_run(kUsualSeconds), [&](std::uint64_t seed) {
    const auto batch = batch_of(seed, tally, Ways::one_lane);
    EXPECT_TRUE(batch) << "seed " << seed << ": " << batch.error().message;
    if (!batch) return false;
    const auto found = compare(*nvrtc, *batch, tally, instructions);
    EXPECT_TRUE(found) << "seed " << seed << ": " << found.error().message;
    EXPECT_EQ(found.value_or(""), "");
    return !testing::Test::HasFailure();
  });
  RecordProperty("programs", static_cast<int>(tally.programs));
  RecordProperty("runs_compared", static_cast<int>(tally.runs));
  const auto programs = static_cast<double>(tally.programs);
  std::printf(
      "%zu programs, %zu runs compared with the interpreter in %.1f s, %.1f programs a second\n"
      "a program took %.1f ms to compile and %.1f ms to run, in %.0f instructions\n",
      tally.programs, tally.runs, seconds, programs / seconds,
      1e3 * tally.compile_seconds / programs, 1e3 * tally.run_seconds / programs,
      static_cast<double>(instructions) / programs);
}

}  // namespace
}  // namespace everkernel::test
