// Calls that run() refuses, its end at the timeout (planning rule 6), and its report on items.
#include <atomic>
#include <thread>

#include "run_fixture.hpp"
#include "support/sanitized.hpp"

namespace everkernel::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;
using Clock = std::chrono::steady_clock;
using Items = std::vector<abi::WorkItem>;

bool contains(const std::string& text, std::string_view piece) {
  return text.find(piece) != std::string::npos;
}

// ---- refused calls ----

TEST(RunArguments, an_unknown_opcode_names_the_item) {
  Runner runner;
  const auto report = runner.kernel->run(Items{{kMove, 1, 2, 0}, {kNop, 0, 0, 0}, {999, 1, 2, 0}});
  EXPECT_EQ(code_of(report), Code::invalid_argument);
  EXPECT_TRUE(contains(message_of(report), "item 2")) << message_of(report);
  EXPECT_TRUE(contains(message_of(report), "999")) << message_of(report);
  EXPECT_EQ(runner.word(2), 2u) << "something ran";
}

TEST(RunArguments, built_in_opcodes_other_than_nop_are_refused) {
  Runner runner;
  for (const Word opcode : {1u, 2u, 7u, 0xFFFDu, 0xFFFEu, 0x80000001u, 0xFFFFFFFFu}) {
    EXPECT_EQ(code_of(runner.kernel->run(Items{{opcode, 1, 2, 0}})), Code::invalid_argument)
        << opcode;
  }
}

TEST(RunArguments, a_megakernel_without_handlers_runs_nops) {
  auto kernel = Megakernel::create(backend_under_test(),
                                   {.slot_count = 8, .workgroup_size = 1, .worker_count = 2});
  ASSERT_TRUE(kernel);
  const auto report = kernel->run(Items(20, {kNop, 0, 0, 0}));
  ASSERT_TRUE(report) << message_of(report);
  EXPECT_EQ(report->items_processed, 20u);
  EXPECT_EQ(code_of(kernel->run(Items{{kMove, 1, 2, 0}})), Code::invalid_argument);
}

TEST(RunArguments, tenants_end_at_28) {
  Runner runner;
  const Items items(3, {kSet, 0, 2, 0});
  EXPECT_TRUE(runner.kernel->run(items, {.origin = {.tenant = 28}}));
  EXPECT_EQ(code_of(runner.kernel->run(items, {.origin = {.tenant = 29}})), Code::invalid_argument);
  const std::vector<Origin> origins = {{}, {.tenant = 29}, {}};
  const auto report = runner.kernel->run(items, {.origins = origins});
  EXPECT_EQ(code_of(report), Code::invalid_argument);
  EXPECT_TRUE(contains(message_of(report), "item 1")) << message_of(report);
}

TEST(RunArguments, priorities_end_at_4) {
  Runner runner;
  const Items items(3, {kSet, 0, 2, 0});
  EXPECT_TRUE(runner.kernel->run(items, {.origin = {.priority = 4}}));
  EXPECT_EQ(code_of(runner.kernel->run(items, {.origin = {.priority = 5}})),
            Code::invalid_argument);
  const std::vector<Origin> origins = {{}, {}, {.priority = 5}};
  const auto report = runner.kernel->run(items, {.origins = origins});
  EXPECT_EQ(code_of(report), Code::invalid_argument);
  EXPECT_TRUE(contains(message_of(report), "item 2")) << message_of(report);
}

TEST(RunArguments, origins_are_one_an_item) {
  Runner runner;
  const Items items(3, {kSet, 0, 2, 0});
  for (const std::size_t count : {1u, 2u, 4u}) {
    const std::vector<Origin> origins(count);
    EXPECT_EQ(code_of(runner.kernel->run(items, {.origins = origins})), Code::invalid_argument)
        << count;
  }
}

TEST(RunArguments, no_time_is_an_error) {
  Runner runner;
  const Items items(3, {kSet, 0, 2, 0});
  EXPECT_EQ(code_of(runner.kernel->run(items, {.timeout = nanoseconds(0)})),
            Code::invalid_argument);
  EXPECT_EQ(code_of(runner.kernel->run(items, {.timeout = nanoseconds(-1)})),
            Code::invalid_argument);
  EXPECT_EQ(code_of(runner.kernel->run({}, {.timeout = nanoseconds(0)})), Code::invalid_argument);
  EXPECT_EQ(runner.word(2), 2u) << "something ran";
}

// ---- small jobs ----

TEST(Run, of_nothing_is_empty) {
  Runner runner;
  const RunReport report = runner.run({}, {.lineage = true});
  EXPECT_EQ(report.items_processed + report.items_faulted + report.items_remaining, 0u);
  EXPECT_EQ(report.shape.regions, 0u);
  EXPECT_EQ(report.region_count(), 0u);
  EXPECT_EQ(report.telemetry.topology, planner::Topology::empty);
  EXPECT_EQ(report.telemetry.pressure, planner::Pressure::empty);
}

TEST(Run, of_one_item_runs_it) {
  for (const Word slots : {2u, 8u, 1024u}) {
    Runner runner({.slot_count = slots, .workgroup_size = 2, .worker_count = 2});
    const RunReport report = runner.run({{kMove, 1, 2, 5}});
    EXPECT_EQ(report.items_processed, 1u);
    EXPECT_EQ(report.published_items, 1u);
    EXPECT_EQ(report.shape.tickets, 1u);
    EXPECT_EQ(runner.word(2), 7u);
    EXPECT_GT(report.wall_time, nanoseconds(0));
  }
}

TEST(Run, tells_handlers_whose_item_it_is) {
  Runner runner;
  const Items items = {{kWho, 0, 1, 0}, {kWho, 0, 2, 0}, {kWho, 0, 3, 0}};
  const std::vector<Origin> origins = {
      {.tenant = 5, .priority = 0}, {.tenant = 28, .priority = 4}, {.tenant = 0, .priority = 2}};
  runner.run(items, {.origins = origins});
  EXPECT_EQ(runner.word(1), 5u);
  EXPECT_EQ(runner.word(1, 1), 0u);
  EXPECT_EQ(runner.word(2), 28u);
  EXPECT_EQ(runner.word(2, 1), 4u);
  EXPECT_EQ(runner.word(3), 0u);
  EXPECT_EQ(runner.word(3, 1), 2u);
  runner.run({{kWho, 0, 4, 0}}, {.origin = {.tenant = 9, .priority = 3}});
  EXPECT_EQ(runner.word(4), 9u);
  EXPECT_EQ(runner.word(4, 1), 3u);
}

TEST(Run, calls_progress_on_the_calling_thread) {
  Runner runner;
  std::vector<RunProgress> calls;
  bool is_here = true;
  RunOptions options;
  options.progress = [&, caller = std::this_thread::get_id()](const RunProgress& progress) {
    is_here = is_here && std::this_thread::get_id() == caller;
    calls.push_back(progress);
  };
  Items items(3000, {kWork, 0, 2, 500});
  items.push_back({kSet, 0, 3, 1});
  items.push_back({kSet, 0, 3, 1});
  runner.run(items, options);
  ASSERT_FALSE(calls.empty());
  EXPECT_TRUE(is_here);
  for (std::size_t i = 0; i < calls.size(); ++i) {
    EXPECT_EQ(calls[i].item_count, 3001u);
    EXPECT_LE(calls[i].items_ended, 3001u);
    EXPECT_GE(calls[i].items_ended, i > 0 ? calls[i - 1].items_ended : 0);
  }
}

TEST(Run, keeps_items_of_a_tenant_within_its_quota) {
  // Word 0 counts the items that run now, word 1 the most that ran at one time.
  Runner runner({.slot_count = 64, .workgroup_size = 1, .worker_count = 4}, R"(
handler meet = 64 commutes { atomic_add(output[0], 1); }
handler busy = 65 {
  let others = atomic_add(buffer(1)[0], 1);
  atomic_max(buffer(1)[1], others + 1);
  var x = 0;
  for i in 0 .. 3000 { x = rotl(x, 3) ^ i; }
  if x == 1 { fault 1; }
  atomic_add(buffer(1)[0], 0xffffffff);
}
)");
  for (const Word quota : {1u, 2u}) {
    const std::vector<Word> zeros(4);
    ASSERT_TRUE(runner.buffers.at(1).write(0, zeros));
    const std::vector<Word> quotas(abi::kTenantCount, quota);
    const RunReport report = runner.run(
        Items(200, {65, 0, 0, 0}),
        {.origin = {.tenant = 3}, .ordered = false, .worker_count = 4, .tenant_quotas = quotas});
    EXPECT_EQ(report.items_processed, 200u);
    EXPECT_EQ(runner.word(1), 0u);
    EXPECT_LE(runner.word(1, 1), quota);
  }
}

TEST(Run, gives_continuations_their_args_and_runs_them_to_the_end) {
  Runner runner({.slot_count = 2, .workgroup_size = 1, .worker_count = 2}, R"(
handler count = 64 {
  output[0] = output[0] * 10 + args[3];
  if args[3] < param { args[3] = args[3] + 1; if args[3] % 2 == 0 { requeue; } yield; }
}
handler after = 65 { output[0] = input[0] + 1; }
)");
  for (Word handle = 1; handle <= 4; ++handle) runner.set_word(handle, 0);
  const RunReport report =
      runner.run({{64, 0, 1, 4}, {65, 1, 2, 0}, {64, 0, 3, 2}, {64, 0, 3, 1}, {64, 0, 4, 0}});
  EXPECT_EQ(report.items_processed, 5u);
  EXPECT_EQ(runner.word(1), 1234u);
  EXPECT_EQ(runner.word(2), 1235u);
  EXPECT_EQ(runner.word(3), 1201u);
  EXPECT_EQ(runner.word(4), 0u);
}

// ---- time ----

struct TimeRow {
  std::string_view name;
  bool is_chain;
  Word slots;
  bool fuse;
};

class RunTime : public testing::TestWithParam<TimeRow> {};

// Every item adds 1 to one of 16 words; items of one word touch no other.
TEST_P(RunTime, ends_in_time_and_outputs_are_those_of_what_ran) {
  Runner runner({.slot_count = GetParam().slots, .workgroup_size = 1, .worker_count = 2});
  Items items;
  for (Word i = 0; i < 20'000; ++i) {
    items.push_back({kWork, 0, 1 + (GetParam().is_chain ? 0 : i % 16), 20'000});
  }
  const auto start = Clock::now();
  const RunReport report =
      runner.run(items, {.fuse = GetParam().fuse, .timeout = milliseconds(50), .worker_count = 2});
  const auto took = Clock::now() - start;
  EXPECT_GE(took, milliseconds(50));
  if (kIsSanitized) {
    std::printf("a sanitizer is slow: no upper bound\n");
  } else {
    EXPECT_LT(took, milliseconds(100));
  }
  EXPECT_GT(report.items_remaining, 0u);
  EXPECT_EQ(report.items_faulted, 0u);
  std::uint64_t processed = 0;
  std::vector<Word> expected(17);
  for (Word i = 0; i < items.size(); ++i) {
    const bool is_done = report.end_of(i) == ItemEnd::processed;
    EXPECT_EQ(report.fault_code(i), 0u);
    expected[items[i].output_handle] += is_done ? 1u : 0u;
    processed += is_done ? 1u : 0u;
  }
  EXPECT_EQ(processed, report.items_processed);
  for (Word handle = 1; handle <= 16; ++handle) {
    EXPECT_EQ(runner.word(handle), handle + expected[handle]) << "buffer " << handle;
  }
}

INSTANTIATE_TEST_SUITE_P(shapes, RunTime,
                         testing::Values(TimeRow{"one_chain", true, 64, true},
                                         TimeRow{"one_chain_unfused", true, 64, false},
                                         TimeRow{"sixteen_chains", false, 64, true},
                                         TimeRow{"sixteen_chains_small_ring", false, 2, false}),
                         [](const auto& row) { return std::string(row.param.name); });

TEST(RunTime, a_stop_ends_it_like_its_timeout) {
  Runner runner;
  std::atomic<bool> stop{false};
  const std::jthread stopper([&] {
    std::this_thread::sleep_for(milliseconds(50));
    stop.store(true, std::memory_order_relaxed);
  });
  const auto start = Clock::now();
  const Items items(1'000'000, {kWork, 0, 1, 20'000});
  const RunReport report = runner.run(items, {.timeout = seconds(60), .stop = &stop});
  EXPECT_LT(Clock::now() - start, kRunStopTimeout + seconds(5));
  EXPECT_TRUE(report.is_stopped);
  EXPECT_GT(report.items_remaining, 0u);
  EXPECT_EQ(report.items_faulted, 0u);
  EXPECT_EQ(runner.word(1), 1 + report.items_processed);
  // The megakernel can still run jobs, and a flag that is not set stops nothing.
  stop.store(false, std::memory_order_relaxed);
  const RunReport later = runner.run({{kNop, 0, 0, 0}}, {.stop = &stop});
  EXPECT_EQ(later.items_processed, 1u);
  EXPECT_FALSE(later.is_stopped);
}

TEST(RunTime, an_item_that_does_not_end_is_given_up_after_a_stop) {
  Runner runner({.slot_count = 8,
                 .workgroup_size = 1,
                 .fuel_per_item = std::uint64_t{1} << 60,
                 .worker_count = 2},
                "handler forever = 64 { while true { } }");
  const std::atomic<bool> stop{true};
  const auto start = Clock::now();
  const RunReport report = runner.run({{64, 0, 0, 0}}, {.timeout = seconds(60), .stop = &stop});
  EXPECT_EQ(report.items_processed, 0u);
  EXPECT_LT(Clock::now() - start, kRunStopTimeout + seconds(5));
}

TEST(RunTime, what_remains_was_not_before_what_ran) {
  Runner runner;
  const RunReport report =
      runner.run(Items(20'000, {kWork, 0, 1, 20'000}), {.timeout = milliseconds(30)});
  bool has_ended = true;
  for (std::size_t i = 0; i < report.outcomes.size(); ++i) {
    const bool is_done = report.end_of(i) == ItemEnd::processed;
    EXPECT_TRUE(has_ended || !is_done) << "item " << i << " ran, one before it did not";
    has_ended = has_ended && is_done;
  }
}

TEST(RunTime, an_item_dropped_for_one_that_remains_remains) {
  Runner runner;
  Items items(20'000, {kWork, 0, 1, 20'000});
  items.push_back({kCopy, 1, 2, 0});
  items.push_back({kCopy, 1, 2, 0});
  const RunReport report = runner.run(items, {.timeout = milliseconds(20)});
  EXPECT_EQ(report.deduped_items, 1u);
  EXPECT_EQ(report.end_of(20'000), ItemEnd::remaining);
  EXPECT_EQ(report.end_of(20'001), ItemEnd::remaining);
}

TEST(RunTime, an_item_that_does_not_end_is_given_up) {
  Runner runner({.slot_count = 8,
                 .workgroup_size = 1,
                 .fuel_per_item = std::uint64_t{1} << 60,
                 .worker_count = 2},
                "handler forever = 64 { while true { } }");
  const auto start = Clock::now();
  const RunReport report = runner.run({{64, 0, 0, 0}}, {.timeout = milliseconds(20)});
  EXPECT_EQ(codes_of(report), (std::vector<Word>{10}));
  EXPECT_LT(Clock::now() - start, milliseconds(20) + kRunStopTimeout + seconds(5));
  // The megakernel can still run jobs.
  EXPECT_EQ(runner.run({{kNop, 0, 0, 0}}).items_processed, 1u);
}

TEST(RunTime, an_item_that_shuts_the_kernel_down_ends_the_run) {
  Runner runner({.slot_count = 8, .workgroup_size = 1, .worker_count = 2},
                "handler off = 64 { control[0] = 1; }");
  const auto start = Clock::now();
  const RunReport report = runner.run({{kNop, 0, 0, 0}, {64, 0, 0, 0}, {kNop, 0, 0, 0}});
  EXPECT_LT(Clock::now() - start, seconds(10));
  EXPECT_EQ(report.items_processed, 2u);
  EXPECT_EQ(report.items_remaining, 1u);
}

TEST(RunTime, items_that_yield_forever_remain) {
  Runner runner({.slot_count = 8, .workgroup_size = 1, .worker_count = 2},
                "handler again = 64 { args[3] = args[3] + 1; yield; }\n"
                "handler later = 65 { args[3] = args[3] + 1; requeue; }\n");
  const RunReport report =
      runner.run({{64, 0, 0, 0}, {65, 0, 0, 0}, {kNop, 0, 0, 0}}, {.timeout = milliseconds(30)});
  EXPECT_EQ(report.items_processed, 1u);
  EXPECT_EQ(report.items_remaining, 2u);
}

// ---- many laps of a small ring ----

// A slot may be handed back and hold another portion while the worker that claimed it still uses
// it, because another worker ran the regions that it waited for.
TEST(Run, goes_on_when_slots_are_handed_back_by_others) {
  Runner runner({.slot_count = 4, .workgroup_size = 1, .worker_count = 8});
  Items items;
  for (Word i = 0; i < 3000; ++i) items.push_back({kScale, 0, 1 + i % 3, i % 100});
  for (int round = 0; round < 12; ++round) {
    const RunReport report =
        runner.run(items, {.fuse = false, .timeout = seconds(10), .worker_count = 8});
    ASSERT_EQ(report.items_processed, items.size()) << "round " << round;
  }
}

// ---- a second time ----

TEST(Run, of_the_same_shape_finds_its_memory_again) {
  Runner runner;
  const Items items(500, {kAdd, 0, 2, 1});
  const RunReport first = runner.run(items);
  EXPECT_FALSE(first.telemetry.resident_input_cache_hit);
  EXPECT_GT(first.telemetry.resident_allocations, 0u);
  const RunReport second = runner.run(items);
  EXPECT_TRUE(second.telemetry.resident_input_cache_hit);
  EXPECT_EQ(second.telemetry.resident_allocations, 0u);
  EXPECT_TRUE(second.telemetry.compiled_pipeline_cache_hit);
  EXPECT_EQ(runner.word(2), 1002u);
}

TEST(Run, and_dispatch_and_session_take_turns) {
  if (!backend_under_test()->capabilities().live) GTEST_SKIP() << "it serves no sessions";
  Runner runner;
  runner.run({{kAdd, 0, 2, 5}});
  {
    auto session = runner.kernel->start();
    ASSERT_TRUE(session) << message_of(session);
    ASSERT_TRUE(session->publish_items(Items{{kAdd, 0, 2, 7}}));
    ASSERT_TRUE(session->wait_all(seconds(10)));
  }
  runner.run({{kAdd, 0, 2, 9}});
  EXPECT_EQ(runner.word(2), 23u);
}

TEST(Run, finds_buffers_that_were_made_or_dropped_between) {
  Runner runner;
  runner.run({{kSet, 0, 2, 5}});
  runner.add_buffer({.handle = 50, .word_count = 4});
  runner.run({{kSet, 0, 50, 6}});
  EXPECT_EQ(runner.word(50), 6u);
  runner.buffers.erase(50);
  EXPECT_EQ(codes_of(runner.run({{kSet, 0, 50, 6}})), (std::vector<Word>{9}));
}

}  // namespace
}  // namespace everkernel::test
