// Random programs by the hundred thousand on a GPU: each run must leave what the interpreter left.
//
// Every core makes programs, compiles them, runs them on the device and compares. EVERKERNEL_SEED=N
// begins with batch N, EVERKERNEL_SECONDS=S says how long to go on and EVERKERNEL_PROGRAMS=P when
// to stop before that; EVERKERNEL_WORKERS=W is how many threads work. What a batch does follows
// from its seed alone.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "everkernel/ir/parser.hpp"
#include "everkernel/ir/printer.hpp"
#include "handler_runs.hpp"
#include "jit/coverage.hpp"
#include "support/jit_program_generator.hpp"
#include "support/seeds.hpp"

namespace everkernel::test {
namespace {

using Clock = std::chrono::steady_clock;

// As where native code is compared.
constexpr std::size_t kHandlersEach = 24;
constexpr std::size_t kFramesEach = 20;
constexpr double kUsualSeconds = 30;

// A quarter of the batches are damaged texts that verify all the same.
bool is_damaged(std::uint64_t seed) {
  return seed % 4 == 3;
}

// Some batches are for memory that no other item touches, which is true here: every run has its
// own.
jit::MemoryUse memory_of(std::uint64_t seed) {
  return seed % 5 == 4 ? jit::MemoryUse::exclusive : jit::MemoryUse::shared;
}

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

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// The programs of a batch, and the runs that are to be made of them.
struct Batch {
  std::uint64_t seed = 0;
  ir::VerifiedProgram program;
  std::vector<Entry> entries = {};
  std::vector<std::vector<FrameSpec>> specs = {};     // by handler
  std::vector<std::vector<RunResult>> expected = {};  // by handler
};

Result<ir::VerifiedProgram> program_of(Random& random, std::uint64_t seed, std::size_t& damaged) {
  if (is_damaged(seed)) {
    return ir::verify(generate_survivors(random, kHandlersEach, damaged, [](const auto&) {}));
  }
  auto parsed = ir::parse(generate_batch(random, kHandlersEach));
  if (!parsed) return Failure(parsed.error());
  return ir::verify(*std::move(parsed));
}

// What jit/differential_test.cpp makes of the same seed.
Result<Batch> batch_of(std::uint64_t seed, Tally& tally) {
  Random random(is_damaged(seed) ? seed ^ 0x5EED0FDA3A6ED000u : seed);
  auto program = program_of(random, seed, tally.damaged);
  if (!program) return Failure(program.error());
  Batch batch{.seed = seed, .program = *program};
  for (std::size_t i = 0; i < program->handlers().size(); ++i) {
    const ir::VerifiedHandler& handler = program->handlers()[i];
    const Way way = way_of(handler.handler.scope);
    batch.entries.push_back({i, way});
    // Packed slots run any handler on one thread.
    if (way != Way::lane && (seed + i) % 4 == 0) batch.entries.push_back({i, Way::lane});
    batch.specs.emplace_back();
    batch.expected.emplace_back();
    for (std::size_t k = 0; k < kFramesEach; ++k) {
      batch.specs[i].push_back(
          generate_frame(random, handler.handler.scope, handler.handler.opcode));
      batch.expected[i].push_back(interpret_once(handler, batch.specs[i].back()));
      ++tally.endings[ending_name(batch.expected[i].back().outcome)];
    }
  }
  tally.programs += program->handlers().size();
  return batch;
}

std::string report(const Batch& batch, const RunRequest& request, const std::string& found) {
  const auto& handler = batch.program.handlers()[request.entry.handler_index];
  return fmt::format("{}: {}\nreplay with\n  {}\n{}{}", way_name(request.entry.way), found,
                     replay_command(batch.seed), ir::print({.handlers = {handler.handler}}),
                     describe(*request.spec));
}

// The first difference, empty if there is none.
Result<std::string> compare(const GpuAccess& gpu, const Batch& batch, Tally& tally) {
  const auto compile_begins = Clock::now();
  RunnerSource source = runner_source(batch.program, batch.entries, memory_of(batch.seed));
  source.has_wide_fuel = batch.seed % 6 == 5;
  const auto runner = HandlerRunner::create(gpu, source);
  if (!runner) return Failure(runner.error());
  tally.compile_seconds += seconds_since(compile_begins);
  const auto run_begins = Clock::now();
  std::vector<RunRequest> requests;
  for (const Entry& entry : batch.entries) {
    for (std::size_t k = 0; k < kFramesEach; ++k) {
      requests.push_back(
          {entry, &batch.specs[entry.handler_index][k], &batch.expected[entry.handler_index][k]});
    }
  }
  auto results = runner->run(requests);
  if (!results) return Failure(results.error());
  tally.run_seconds += seconds_since(run_begins);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const RunResult& expected = *requests[i].expected;
    const bool is_parallel = requests[i].entry.way != Way::lane;
    ++tally.runs;
    tally.racy += is_parallel && expected.is_racy ? 1 : 0;
    const Run run{
        .is_parallel = is_parallel, .has_two_logs = true, .result = std::move((*results)[i])};
    if (auto found = difference(expected, run); !found.empty()) {
      return report(batch, requests[i], found);
    }
  }
  return std::string();
}

// What all threads share.
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
    const std::uint64_t seed = campaign.next_seed++;
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
                    .program_limit = number_from("EVERKERNEL_PROGRAMS").value_or(1'000'000'000),
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

// Without a GPU, what would run there is at least compiled.
TEST(CudaDifferential, the_kernels_of_a_batch_compile) {
  const auto nvrtc = backend::cuda::Nvrtc::load();
  if (!nvrtc) GTEST_SKIP() << "there is no NVRTC here: " << nvrtc.error().message;
  Tally tally;
  const auto batch = batch_of(1, tally);
  ASSERT_TRUE(batch) << batch.error().message;
  EXPECT_GT(batch->entries.size(), kHandlersEach);
  for (const auto memory : {jit::MemoryUse::shared, jit::MemoryUse::exclusive}) {
    RunnerSource source = runner_source(batch->program, batch->entries, memory);
    source.has_wide_fuel = memory == jit::MemoryUse::exclusive;
    const auto code = compile_runner(*nvrtc, source, 90);
    ASSERT_TRUE(code) << code.error().message;
    EXPECT_EQ(code->log, "");
  }
}

}  // namespace
}  // namespace everkernel::test
