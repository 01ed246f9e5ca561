// Random sessions: every item must end as the model of its handler says, once, and leave nothing
// else behind.
//
// Handlers, items and the acts of every thread of a batch follow from its seed alone; when they
// happen is the machine's affair, so a failure may need several runs of the command that it prints.
// support/seeds.hpp has the variables that choose seeds and length.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "everkernel/abi/fault.hpp"
#include "everkernel/ir/parser.hpp"
#include "everkernel/jit/native.hpp"
#include "session_trial.hpp"
#include "support/backend_under_test.hpp"
#include "support/sanitized.hpp"
#include "support/seeds.hpp"

namespace everkernel::test {
namespace {

constexpr std::uint64_t kBatches = kIsSanitized ? 5 : 25;
constexpr std::uint64_t kSessionsEach = 4;  // of a batch: they share a kernel

struct Kernel {
  SessionProgram program = {};
  Word worker_count = 1;
  backend::Execution execution = backend::Execution::interpreter;
};

Kernel random_kernel(Random& random) {
  Kernel kernel{.program = generate_session_program(random)};
  kernel.worker_count = random.chance(30) ? 1 : random.between(2, 8);
  // Enough crews for streams, and enough for priorities that have crews of their own.
  const bool is_wide = is_on_cuda() && random.chance(40);
  if (is_wide) kernel.worker_count = random.between(32, 64);
  const bool is_native = jit::has_native_code() && random.chance(15);
  kernel.execution = is_native ? backend::Execution::native : usual_execution();
  kernel.program.is_native = kernel.execution == backend::Execution::native;
  return kernel;
}

Result<Megakernel> make(const Kernel& kernel) {
  auto program = EVERKERNEL_TRY(ir::parse(kernel.program.text));
  return Megakernel::create(backend_under_test(),
                            {.handlers = EVERKERNEL_TRY(ir::verify(std::move(program))),
                             .execution = kernel.execution,
                             .fuel_per_item = kernel.program.fuel,
                             .worker_count = kernel.worker_count});
}

std::string describe(const Kernel& kernel, const SessionPlan& plan) {
  const char* const ends[] = {"quiet", "stopped", "dropped"};
  return fmt::format("{} workers, {}, {} producers, {} queues, {} items, ends {}, {}",
                     kernel.worker_count, backend::execution_name(kernel.execution),
                     plan.producers.size(), plan.queues.size(), plan.items.size(),
                     ends[static_cast<std::size_t>(plan.end)],
                     plan.end_mode == StopMode::drain ? "drain" : "cancel");
}

// False after the first difference.
bool run_batch(std::uint64_t seed, SessionTally& tally) {
  Random random(seed);
  const Kernel kernel = random_kernel(random);
  auto made = make(kernel);
  if (!made) {
    ADD_FAILURE() << made.error().message << "\n" << kernel.program.text;
    return false;
  }
  const std::string replay = replay_command(seed);
  const std::uint64_t sessions = trials_to_run(kSessionsEach);
  for (std::uint64_t i = 0; i < sessions; ++i) {
    const SessionPlan plan = generate_session(random, kernel.program, kernel.worker_count);
    const std::string difference = run_session(*made, kernel.program, plan, replay, tally);
    if (difference.empty()) continue;
    ADD_FAILURE() << "session " << i << " of seed " << seed << ": " << describe(kernel, plan)
                  << "\n"
                  << difference << "\nreplay with\n  " << replay << "\nhandlers:\n"
                  << kernel.program.text;
    return false;
  }
  return true;
}

TEST(RandomSessions, end_every_item_as_the_model_says) {
  if (!backend_under_test()->capabilities().live) {
    GTEST_SKIP() << "no backend to test: this one has no live sessions";
  }
  SessionTally tally;
  const double elapsed =
      run_batches(kBatches, [&](std::uint64_t seed) { return run_batch(seed, tally); });
  std::printf(
      "%zu sessions with %zu items in %.1f s: %zu done, %zu faulted (%zu aborted), %zu cancelled "
      "(%zu had begun), %zu forgotten; %zu callbacks, %zu holds, %zu refused calls, %zu queues "
      "given away, %zu to children\n",
      tally.sessions, tally.items, elapsed, tally.done, tally.faulted, tally.aborted,
      tally.cancelled, tally.begun_and_cancelled, tally.forgotten, tally.callbacks, tally.holds,
      tally.refused, tally.given, tally.children);
}

// ---- the generator ----

// What a plan holds, by name.
std::map<std::string, std::size_t> features_of(const SessionProgram& program,
                                               const SessionPlan& plan) {
  std::map<std::string, std::size_t> counts;
  const auto add = [&](const char* name, auto kind) {
    ++counts[fmt::format("{} {}", name, static_cast<Word>(kind))];
  };
  add("end", plan.end);
  for (const QueuePlan& queue : plan.queues) add("queue", queue.kind);
  for (const MeddlerAction& action : plan.meddler) add("meddling", action.kind);
  for (const auto& calls : plan.producers) {
    for (const Publication& call : calls) {
      add("way", call.way);
      add("follow", call.follow);
    }
  }
  for (const PlannedItem& item : plan.items) {
    const ItemModel model = model_item(program, plan.buffers, item, {});
    add("code", std::min<Word>(model.fault_code, abi::kFirstUserFault));
    if (!model.rests.empty()) ++counts["rests"];
    if (model.is_look) ++counts["looks"];
    if (model.is_fence) ++counts["fences"];
    if (item.inner.size() > 1) ++counts["packed"];
    if (!model.observables.empty()) ++counts["observables"];
  }
  return counts;
}

TEST(SessionGenerator, draws_everything_that_a_session_can_do) {
  constexpr std::uint64_t kSessions = 400;
  std::map<std::string, std::size_t> sessions;
  for (std::uint64_t seed = 1; seed <= kSessions; ++seed) {
    Random random(seed);
    const SessionProgram program = generate_session_program(random);
    const SessionPlan plan = generate_session(random, program, 4);
    for (const auto& [name, count] : features_of(program, plan)) ++sessions[name];
  }
  std::vector<std::string> names = {"rests", "looks", "fences", "packed", "observables"};
  const auto add = [&](const char* name, Word count) {
    for (Word i = 0; i < count; ++i) names.push_back(fmt::format("{} {}", name, i));
  };
  add("end", 3);
  add("queue", kIsSanitized ? 3 : 4);
  add("meddling", 10);
  add("way", 4);
  add("follow", 7);
  for (const Word code : {0u, 1u, 2u, 4u, 5u, 6u, 9u, 256u})
    names.push_back(fmt::format("code {}", code));
  for (const std::string& name : names) {
    EXPECT_GE(sessions[name], kSessions / 100) << name << ", of " << kSessions << " sessions";
  }
}

}  // namespace
}  // namespace everkernel::test
