// Planning rule 5 by example: every decision of the launch policy changes how the job runs.
#include <algorithm>

#include "run_fixture.hpp"

namespace everkernel::test {
namespace {

using Items = std::vector<abi::WorkItem>;
using backend::Execution;
using planner::Pressure;
using planner::Topology;

#define EVERKERNEL_NEEDS_NATIVE_CODE() \
  if (!backend_under_test()->capabilities().native_code) GTEST_SKIP() << "there is no native code"
// A device has no interpreter: it runs compiled code for every queue.
#define EVERKERNEL_NEEDS_INTERPRETER() \
  if (!backend_under_test()->capabilities().interpreter) GTEST_SKIP() << "there is no interpreter"

// ---- pressure ----

TEST(Pressure, light_work_is_published_slot_by_slot) {
  Runner runner;
  const RunReport report =
      runner.run({{kMove, 1, 2, 0}, {kMove, 3, 4, 0}, {kMove, 5, 6, 0}}, {.worker_count = 8});
  EXPECT_EQ(report.telemetry.pressure, Pressure::light);
  EXPECT_EQ(report.shape.tickets, 3u);
  EXPECT_EQ(report.shape.publish_batches, 3u);
}

TEST(Pressure, workers_that_light_work_leaves_over_sleep) {
  if (is_on_cuda()) GTEST_SKIP() << "one thread serves the ring of a device, and runs nothing";
  Runner runner;
  std::uint64_t most = 0;
  // A machine that is busy otherwise may start the workers late, but not by seconds.
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (most < 3 && std::chrono::steady_clock::now() < end) {
    const RunReport report = runner.run({{kWork, 0, 1, 1'000'000}}, {.worker_count = 6});
    EXPECT_EQ(report.telemetry.pressure, Pressure::light);
    most = std::max(most, report.shape.worker_sleeps);
  }
  EXPECT_GE(most, 3u);
}

TEST(Pressure, balanced_work_is_published_in_small_batches) {
  Runner runner;
  const RunReport report = runner.run(Items(20, {kAdd, 0, 2, 1}), {.worker_count = 8});
  EXPECT_EQ(report.telemetry.pressure, Pressure::balanced);
  EXPECT_LT(report.shape.publish_batches, report.shape.tickets);
  EXPECT_GT(report.shape.publish_batches, 1u);
}

TEST(Pressure, saturated_work_is_published_in_rings) {
  Runner runner;
  const RunReport report = runner.run(Items(60, {kAdd, 0, 2, 1}), {.worker_count = 2});
  EXPECT_EQ(report.telemetry.pressure, Pressure::saturated);
  EXPECT_EQ(report.shape.queue_entries, 64u);
  EXPECT_EQ(report.shape.publish_batches, 1u);
}

TEST(Pressure, requeues_saturate_the_next_run) {
  Runner runner({.slot_count = 64, .workgroup_size = 1, .worker_count = 4},
                "handler again = 64 { if args[3] == 0 { args[3] = 1; requeue; } }");
  const Items items = {{64, 0, 0, 0}};
  EXPECT_EQ(runner.run(items, {.worker_count = 4}).telemetry.pressure, Pressure::light);
  EXPECT_EQ(runner.run(items, {.worker_count = 4}).telemetry.pressure, Pressure::saturated);
}

// ---- topology ----

TEST(Topology, of_a_chain_is_sparse_with_one_region_a_ticket_and_fewer_workers) {
  Runner runner({.slot_count = 256, .workgroup_size = 1, .worker_count = 64});
  const RunReport report =
      runner.run(Items(500, {kScale, 0, 2, 0}), {.fuse = false, .worker_count = 64});
  EXPECT_EQ(report.telemetry.topology, Topology::sparse_frontier);
  // The workers of a device share a slot: all 500 regions are in the ring at one time.
  EXPECT_EQ(report.shape.regions_per_ticket, is_on_cuda() ? 2u : 1u);
  EXPECT_EQ(report.shape.workers, 32u);
  EXPECT_LE(report.telemetry.frontier_density_bps, 500u);
}

TEST(Topology, of_independent_items_is_dense_with_ranges_and_all_workers) {
  Runner runner;
  const RunReport wide = runner.run(Items(1000, {kAdd, 0, 2, 0}), {.worker_count = 64});
  EXPECT_EQ(wide.telemetry.topology, Topology::dense_frontier);
  EXPECT_EQ(wide.shape.workers, 64u);
  const RunReport long_ranges = runner.run(Items(3000, {kAdd, 0, 2, 0}), {.worker_count = 1});
  EXPECT_EQ(long_ranges.telemetry.topology, Topology::dense_frontier);
  EXPECT_GT(long_ranges.shape.regions_per_ticket, 32u);
  EXPECT_EQ(long_ranges.telemetry.frontier_density_bps, 10'000u);
}

TEST(Topology, of_some_that_can_run_is_hybrid_with_tickets_of_32) {
  Runner runner({.slot_count = 1024, .workgroup_size = 1, .worker_count = 1});
  Items items;
  // Sixteen chains and 84 items that wait for nothing fill a tenth of the ring.
  for (Word i = 0; i < 1600; ++i) items.push_back({kScale, 0, 1 + i % 16, 0});
  for (Word i = 0; i < 84; ++i) items.push_back({kPeek, 20, 0, i});
  const RunReport report = runner.run(items, {.fuse = false, .worker_count = 1});
  EXPECT_EQ(report.telemetry.topology, Topology::hybrid_frontier);
  EXPECT_EQ(report.shape.regions_per_ticket, is_on_cuda() ? 2u : 32u);
}

TEST(Topology, of_hot_dense_graphs_is_fused_and_grouped_by_opcode) {
  EVERKERNEL_NEEDS_NATIVE_CODE();
  Runner runner;
  Items items(planner::kFusedDenseEdges, {kAdd, 0, 2, 1});
  items.push_back({kMove, 2, 3, 0});
  const RunReport report = runner.run(items, {.worker_count = 2, .hot_windows = 4});
  EXPECT_EQ(report.telemetry.topology, Topology::fused_dense);
  EXPECT_EQ(report.telemetry.execution_mode, Execution::native);
  EXPECT_TRUE(report.shape.grouped_by_opcode);
  EXPECT_GT(report.shape.regions_per_ticket, 32u);
  EXPECT_EQ(runner.word(3), 2 * (2 + planner::kFusedDenseEdges));
}

TEST(Topology, of_little_memory_has_fewer_workers_and_waves) {
  Runner runner;
  Items items;
  for (Word i = 1; i < 20; i += 2) items.push_back({kMove, i, i + 1, 5});
  const RunReport all = runner.run(items, {.worker_count = 8});
  EXPECT_EQ(all.shape.waves, 1u);
  EXPECT_EQ(all.shape.workers, 8u);
  // The budget holds two items at one time, each with two buffers of 16 bytes.
  const RunReport some = runner.run(items, {.worker_count = 8, .memory_budget_bytes = 64});
  EXPECT_EQ(some.telemetry.topology, Topology::memory_constrained);
  EXPECT_EQ(some.shape.workers, 4u);
  EXPECT_EQ(some.shape.waves, 5u);
  EXPECT_EQ(some.telemetry.device_memory_budget_bytes, 64u);
  EXPECT_EQ(some.items_processed, 10u);
  for (Word i = 1; i < 20; i += 2) EXPECT_EQ(runner.word(i + 1), i * 2 + 5);
}

TEST(Topology, is_remembered_and_answers_come_from_the_cache) {
  Runner runner;
  const Items items(50, {kAdd, 0, 2, 0});
  runner.run(items);
  runner.run(items);
  const RunReport report = runner.run(items);
  EXPECT_GE(report.shape.policy_hits, 1u);
  EXPECT_EQ(report.shape.policy_hits + report.shape.policy_misses, 3u);
}

// ---- execution mode ----

TEST(ExecutionModes, a_short_queue_runs_without_compiling) {
  Runner runner;
  const RunReport report = runner.run(Items(100, {kAdd, 0, 2, 0}));
  EXPECT_EQ(report.telemetry.execution_mode,
            is_on_cuda() ? Execution::native : Execution::interpreter);
  if (is_on_cuda()) {
    EXPECT_EQ(report.shape.pipeline_id, runner.kernel->pipeline_id());
  } else {
    EXPECT_EQ(report.shape.items_interpreted, 100u);
    EXPECT_EQ(report.shape.compiled_handlers, 0u);
  }
  EXPECT_TRUE(report.telemetry.compiled_pipeline_cache_hit);
  EXPECT_FALSE(report.shape.grouped_by_opcode);
}

TEST(ExecutionModes, a_long_queue_runs_code_of_its_opcodes_grouped_by_opcode) {
  EVERKERNEL_NEEDS_NATIVE_CODE();
  EVERKERNEL_NEEDS_INTERPRETER();
  Runner runner;
  Items items;
  for (Word i = 0; i < 2048; ++i) {
    items.push_back({kAdd, 0, 2, 1});
    items.push_back({kPeek, 3, 0, 0});
  }
  const RunReport report = runner.run(items, {.worker_count = 2});
  EXPECT_EQ(report.telemetry.execution_mode, Execution::native);
  EXPECT_NE(report.shape.pipeline_id, runner.kernel->pipeline_id());
  EXPECT_TRUE(report.shape.grouped_by_opcode);
  EXPECT_FALSE(report.telemetry.compiled_pipeline_cache_hit);
  EXPECT_EQ(runner.word(2), 2u + 2048u);
  // A handler may be compiled when the run is over: then the next run finds it new.
  RunReport again = runner.run(items, {.worker_count = 2});
  for (int i = 0; i < 100 && again.shape.compiled_handlers != 0; ++i) {
    again = runner.run(items, {.worker_count = 2});
  }
  EXPECT_TRUE(again.telemetry.compiled_pipeline_cache_hit);
  EXPECT_EQ(again.shape.pipeline_id, report.shape.pipeline_id);
  EXPECT_EQ(again.shape.compiled_handlers, 0u);
}

TEST(ExecutionModes, a_queue_that_is_too_short_to_compile_for_runs_the_code_that_is_there) {
  EVERKERNEL_NEEDS_NATIVE_CODE();
  EVERKERNEL_NEEDS_INTERPRETER();
  Runner runner;
  // Below the threshold, and with too few items to cost the interpreter much.
  EXPECT_EQ(runner.run(Items(4095, {kNop, 0, 0, 0})).telemetry.execution_mode,
            Execution::interpreter);
  const Items items(20, {kAdd, 0, 2, 1});
  EXPECT_EQ(runner.run(items).telemetry.execution_mode, Execution::interpreter);
  runner.run(Items(4096, {kAdd, 0, 2, 1}), {.execution = Execution::automatic});
  const RunReport again = runner.run(items);
  EXPECT_EQ(again.telemetry.execution_mode, Execution::native);
  EXPECT_EQ(again.shape.items_interpreted, 0u);
}

TEST(ExecutionModes, a_device_compiles_once_for_all_long_queues) {
  if (!is_on_cuda()) GTEST_SKIP() << "a CPU compiles the opcodes of a queue";
  Runner runner;
  const RunReport cold = runner.run(Items(100, {kAdd, 0, 2, 0}));
  EXPECT_EQ(cold.shape.pipeline_id, runner.kernel->pipeline_id());
  EXPECT_TRUE(cold.telemetry.compiled_pipeline_cache_hit);
  const RunReport adds = runner.run(Items(4096, {kAdd, 0, 2, 1}));
  EXPECT_NE(adds.shape.pipeline_id, runner.kernel->pipeline_id());
  const RunReport looks = runner.run(Items(4096, {kPeek, 3, 0, 0}), {.dedupe = false});
  EXPECT_EQ(looks.shape.pipeline_id, adds.shape.pipeline_id);
  EXPECT_TRUE(looks.telemetry.compiled_pipeline_cache_hit);
  EXPECT_EQ(runner.word(2), 2u + 4096u);
  // Unordered items share buffers and need code for shared memory, which the existing kernel has.
  const RunReport unordered = runner.run(Items(4096, {kAdd, 0, 2, 1}), {.ordered = false});
  EXPECT_EQ(unordered.shape.pipeline_id, runner.kernel->pipeline_id());
  // The timeout is too short for compiling, and the existing kernel can run the items.
  Runner other({.slot_count = 64, .workgroup_size = 1, .fuel_per_item = 12345});
  const RunReport late =
      other.run(Items(4096, {kAdd, 0, 2, 1}), {.timeout = std::chrono::seconds(1)});
  EXPECT_EQ(late.shape.pipeline_id, other.kernel->pipeline_id());
  EXPECT_EQ(late.items_processed, 4096u);
}

TEST(ExecutionModes, a_device_has_no_interpreter) {
  if (!is_on_cuda()) GTEST_SKIP() << "a CPU has one";
  Runner runner;
  const auto report =
      runner.kernel->run(Items{{kMove, 1, 2, 0}}, {.execution = backend::Execution::interpreter});
  EXPECT_EQ(code_of(report), Code::unsupported);
  EXPECT_EQ(runner.word(2), 2u) << "something ran";
}

TEST(ExecutionModes, hot_windows_promote_a_short_queue) {
  EVERKERNEL_NEEDS_NATIVE_CODE();
  EVERKERNEL_NEEDS_INTERPRETER();
  Runner runner;
  const Items items(10, {kAdd, 0, 2, 1});
  EXPECT_EQ(runner.run(items, {.hot_windows = 3}).telemetry.execution_mode, Execution::interpreter);
  EXPECT_EQ(runner.run(items, {.hot_windows = 4}).telemetry.execution_mode, Execution::native);
  EXPECT_EQ(runner.word(2), 22u);
}

TEST(ExecutionModes, what_is_asked_for_is_used) {
  EVERKERNEL_NEEDS_NATIVE_CODE();
  EVERKERNEL_NEEDS_INTERPRETER();
  Runner runner;
  const RunReport native =
      runner.run({{kMove, 1, 2, 0}}, {.execution = backend::Execution::native});
  EXPECT_EQ(native.telemetry.execution_mode, Execution::native);
  EXPECT_EQ(runner.word(2), 2u);
  const RunReport interpreted =
      runner.run(Items(5000, {kAdd, 0, 2, 1}), {.execution = backend::Execution::interpreter});
  EXPECT_EQ(interpreted.telemetry.execution_mode, Execution::interpreter);
  EXPECT_EQ(interpreted.shape.pipeline_id, runner.kernel->pipeline_id());
  EXPECT_NE(interpreted.shape.pipeline_id, native.shape.pipeline_id);
}

// ---- hit capacity ----

TEST(Hits, have_twice_the_room_that_is_expected) {
  Runner runner;
  const Items items(1000, {kEmit, 0, 0, 1});
  EXPECT_EQ(runner.run(items).telemetry.hit_capacity, 2000u);
  const RunReport report = runner.run(items, {.expected_hits_per_item = 3});
  EXPECT_EQ(report.telemetry.hit_capacity, 6000u);
  EXPECT_EQ(report.telemetry.estimated_peak_device_bytes, 20 * 16 + 16 * 6000u);
}

// ---- budget ----

TEST(Budget, that_holds_no_item_is_an_error_with_both_numbers) {
  Runner runner;
  const auto report =
      runner.kernel->run(Items{{kSet, 0, 1, 0}, {kMove, 1, 2, 0}}, {.memory_budget_bytes = 20});
  EXPECT_EQ(code_of(report), Code::invalid_argument);
  EXPECT_NE(message_of(report).find("item 1"), std::string::npos) << message_of(report);
  EXPECT_NE(message_of(report).find("32"), std::string::npos) << message_of(report);
  EXPECT_NE(message_of(report).find("20"), std::string::npos) << message_of(report);
  EXPECT_EQ(runner.word(1), 1u) << "something ran";
}

TEST(Budget, splits_in_waves_that_keep_the_order) {
  for (const bool has_priorities : {false, true}) {
    Runner runner;
    Items items;
    std::vector<Origin> origins;
    Word expected = 1;
    for (Word i = 1; i < 20; ++i) {
      items.push_back({kMove, i, i + 1, i});
      items.push_back({kAdd, 0, i, 1});
      origins.insert(origins.end(),
                     {{.priority = 3}, {.priority = static_cast<std::uint8_t>(i % 5)}});
      expected = expected * 2 + i;
    }
    RunOptions options = {.worker_count = 3, .memory_budget_bytes = 50};
    if (has_priorities) options.origins = origins;
    const RunReport report = runner.run(items, options);
    EXPECT_GE(report.shape.waves, 7u);
    EXPECT_EQ(runner.word(20), expected);
    EXPECT_EQ(report.items_processed, items.size());
  }
}

// ---- priority ----

TEST(Priority, urgent_items_run_first_where_nothing_says_otherwise) {
  // Unordered items may share a counter, which shows the order in which they ran.
  Runner runner({.slot_count = 64, .workgroup_size = 1, .worker_count = 1},
                "handler stamp = 64 { output[0] = atomic_add(input[0], 1); }");
  runner.set_word(20, 0);
  Items items;
  std::vector<Origin> origins;
  for (Word i = 1; i <= 15; ++i) {
    items.push_back({64, 20, i, 0});
    origins.push_back({.priority = static_cast<std::uint8_t>(i % 5)});
  }
  runner.run(items, {.origins = origins, .ordered = false, .worker_count = 1});
  for (Word i = 1; i <= 15; ++i) {
    EXPECT_EQ(runner.word(i) / 3, i % 5) << "item " << i << " of priority " << i % 5;
  }
}

}  // namespace
}  // namespace everkernel::test
