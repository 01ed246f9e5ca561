// Random programs on a GPU, up to hundreds of thousands: each run must leave the same memory as the
// interpreter.
//
// Every core generates programs, compiles them, runs them on the device and compares. Seeds and
// time are set as for all random tests (support/seeds.hpp). EVERKERNEL_PROGRAMS=P stops after P
// programs, EVERKERNEL_WORKERS=W sets the number of threads.
//
// Compiling takes nearly all of the time, and needs no GPU. EVERKERNEL_COMPILED_DIR=folder keeps
// compiled batches in a folder. CudaDifferential.batches_are_compiled_ahead fills the folder on
// another machine with the same NVRTC, with batches from EVERKERNEL_SEED on.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <mutex>
#include <thread>

#include "handler_runs.hpp"
#include "random_batch.hpp"
#include "support/seeds.hpp"

namespace everkernel::test {
namespace {

using backend::cuda::CompileRequest;
using Clock = std::chrono::steady_clock;

constexpr double kUsualSeconds = 30;
constexpr std::uint64_t kAllBatches = ~0ull;  // until EVERKERNEL_SECONDS or EVERKERNEL_PROGRAMS
constexpr std::uint64_t kCheckedBatches = 2;
constexpr std::uint64_t kNoLimit = 1'000'000'000;
constexpr int kArchitecture = 90;  // on a machine without a GPU

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Runs a batch and returns the first difference, or an empty text if there is none.
Result<std::string> compare(const GpuAccess& gpu, const Batch& batch, Tally& tally) {
  const auto compile_begins = Clock::now();
  const auto runner = EVERKERNEL_TRY(HandlerRunner::create(gpu, source_of(batch)));
  tally.compile_seconds += seconds_since(compile_begins);
  const auto run_begins = Clock::now();
  const std::vector<RunRequest> requests = requests_of(batch);
  auto results = EVERKERNEL_TRY(runner.run(requests));
  tally.run_seconds += seconds_since(run_begins);
  return first_difference(batch, requests, std::move(results), tally);
}

// State that all threads share.
struct Campaign {
  std::atomic<std::uint64_t> next_seed;
  std::uint64_t program_limit;
  Clock::time_point deadline;
  std::atomic<std::size_t> programs{0};
  std::atomic<bool> has_failed{false};
  std::mutex lock = {};
  Tally tally = {};
  std::string failure = {};
};

void fail_with(Campaign& campaign, std::string text) {
  const std::lock_guard guard(campaign.lock);
  if (!campaign.has_failed.exchange(true)) campaign.failure = std::move(text);
}

void work(const GpuAccess& gpu, Campaign& campaign) {
  const auto current = gpu.context->enter();
  if (!current) return fail_with(campaign, current.error().message);
  Tally tally;
  do {
    const std::uint64_t seed = campaign.next_seed.fetch_add(seed_step());
    const auto batch = batch_of(seed, tally);
    if (!batch) {
      fail_with(campaign, fmt::format("seed {}: {}", seed, batch.error().message));
      break;
    }
    const auto found = compare(gpu, *batch, tally);
    if (!found) {
      fail_with(campaign, fmt::format("seed {}: {}", seed, found.error().message));
    } else if (!found->empty()) {
      fail_with(campaign, *found);
    }
    campaign.programs += batch->program.handlers().size();
  } while (!campaign.has_failed && campaign.programs < campaign.program_limit &&
           Clock::now() < campaign.deadline);
  const std::lock_guard guard(campaign.lock);
  campaign.tally.add(tally);
}

TEST(CudaDifferential, random_programs_agree_bit_for_bit) {
  if (!gpu()) {
    GTEST_SKIP() << "there is no GPU here: " << gpu().error().message << "; " << gpu().error().hint;
  }
  const auto begin = Clock::now();
  const std::uint64_t seed = first_seed();
  const std::size_t workers =
      number_from("EVERKERNEL_WORKERS").value_or(std::max(1u, std::thread::hardware_concurrency()));
  Campaign campaign{.next_seed = seed,
                    .program_limit = number_from("EVERKERNEL_PROGRAMS").value_or(kNoLimit),
                    .deadline = begin + std::chrono::milliseconds(static_cast<std::int64_t>(
                                            seconds_to_run(kUsualSeconds) * 1000))};
  std::printf("EVERKERNEL_SEED=%llu, %zu threads on %s\n", static_cast<unsigned long long>(seed),
              workers, gpu()->facts.name.c_str());
  std::fflush(stdout);
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < workers; ++i) {
      threads.emplace_back([&] { work(*gpu(), campaign); });
    }
  }
  EXPECT_EQ(campaign.failure, "");
  const Tally& tally = campaign.tally;
  const double seconds = seconds_since(begin);
  RecordProperty("programs", static_cast<int>(tally.programs));
  RecordProperty("runs_compared", static_cast<int>(tally.runs - tally.racy));
  std::printf(
      "%zu programs, %zu runs compared with the interpreter in %.1f s, %zu damaged texts tried\n"
      "%zu runs with turns that race, whose results are not known\n"
      "a program took %.1f ms of a core to compile and %.1f ms to run\n",
      tally.programs, tally.runs - tally.racy, seconds, tally.damaged, tally.racy,
      1e3 * tally.compile_seconds / static_cast<double>(tally.programs),
      1e3 * tally.run_seconds / static_cast<double>(tally.programs));
  for (const auto& [name, count] : tally.endings) {
    std::printf(
        "  %5.1f %% %s\n",
        100.0 * static_cast<double>(count) / static_cast<double>(tally.programs * kFramesEach),
        name.c_str());
  }
}

// Calls `compile` for the source of each batch, until a call fails.
template <class Compile>
void compile_batches(std::uint64_t usual_count, int architecture, std::uint64_t limit,
                     const Compile& compile) {
  std::size_t programs = 0;
  const double seconds = run_batches(usual_count, [&](std::uint64_t seed) {
    Tally tally;
    const auto batch = batch_of(seed, tally);
    EXPECT_TRUE(batch) << batch.error().message;
    if (!batch) return false;
    std::vector<backend::cuda::SourceText> headers;
    const RunnerSource source = source_of(*batch);
    const auto code = compile(request_for(source, architecture, headers));
    EXPECT_TRUE(code) << "seed " << seed << ": " << code.error().message;
    programs += tally.programs;
    return code && programs < limit;
  });
  EXPECT_GT(programs, 0u);
  std::printf("%zu programs in %.1f s\n", programs, seconds);
}

// Compiles for a machine with the architecture EVERKERNEL_ARCHITECTURE (90) and a driver of
// EVERKERNEL_DRIVER_VERSION (13000 is CUDA 13.0), which is a part of the code keys.
TEST(CudaDifferential, batches_are_compiled_ahead) {
  const auto driver_version = number_from("EVERKERNEL_DRIVER_VERSION");
  if (compiled_ahead() == nullptr || !driver_version) {
    GTEST_SKIP() << "nobody asked: EVERKERNEL_COMPILED_DIR and EVERKERNEL_DRIVER_VERSION do";
  }
  const auto nvrtc = backend::cuda::Nvrtc::load();
  ASSERT_TRUE(nvrtc) << nvrtc.error().message;
  const auto architecture =
      static_cast<int>(number_from("EVERKERNEL_ARCHITECTURE").value_or(kArchitecture));
  const auto limit = number_from("EVERKERNEL_PROGRAMS").value_or(kNoLimit);
  compile_batches(kAllBatches, architecture, limit, [&](const CompileRequest& request) {
    return backend::cuda::compile_module(*nvrtc, compiled_ahead(), request,
                                         static_cast<int>(*driver_version));
  });
  EXPECT_EQ(compiled_ahead()->last_problem(), "");
}

// A verified handler that NVRTC refuses is as bad as a difference, and as rare.
TEST(CudaDifferential, random_programs_are_well_formed) {
  const auto nvrtc = backend::cuda::Nvrtc::load();
  if (!nvrtc) GTEST_SKIP() << "there is no NVRTC here: " << nvrtc.error().message;
  compile_batches(kCheckedBatches, kArchitecture, kNoLimit, [&](CompileRequest request) {
    request.only_checks = true;
    return nvrtc->compile(request);
  });
}

// Compiles the batches on a machine without a GPU, where they cannot run.
TEST(CudaDifferential, the_kernels_of_a_batch_compile) {
  const auto nvrtc = backend::cuda::Nvrtc::load();
  if (!nvrtc) GTEST_SKIP() << "there is no NVRTC here: " << nvrtc.error().message;
  Tally tally;
  const auto batch = batch_of(1, tally);
  ASSERT_TRUE(batch) << batch.error().message;
  EXPECT_EQ(batch->entries.size(), kHandlersEach);
  for (const auto memory : {jit::MemoryUse::shared, jit::MemoryUse::exclusive}) {
    RunnerSource source = runner_source(batch->program, batch->entries, memory);
    source.has_wide_fuel = memory == jit::MemoryUse::exclusive;
    const auto code = compile_runner(*nvrtc, source, kArchitecture);
    ASSERT_TRUE(code) << code.error().message;
    EXPECT_EQ(code->log, "");
  }
}

}  // namespace
}  // namespace everkernel::test
