// Every constant, formula and threshold of the launch policy, with values typed from the rules.
#include "everkernel/planner/policy.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>

namespace everkernel::planner {
namespace {

constexpr Word kMaxWord = 0xFFFFFFFFu;
constexpr std::uint64_t kMaxLong = 0xFFFFFFFFFFFFFFFFu;

TEST(LaunchPolicy, constants_are_those_of_the_capabilities) {
  EXPECT_EQ(kDefaultWorkers, 64u);
  EXPECT_EQ(kMinWorkgroup, 32u);
  EXPECT_EQ(kDefaultWorkgroup, 64u);
  EXPECT_EQ(kMaxWorkgroup, 1024u);
  EXPECT_EQ(kMaxGroups, 1024u);
  EXPECT_EQ(kMinHitCapacity, 1024u);
  EXPECT_EQ(kHitMultiplier, 2u);
  EXPECT_EQ(kHitMultiplierUnderPressure, 1u);
  EXPECT_EQ(kHitBytes, 16u);
  EXPECT_EQ(kSaturatedWaves, 4u);
  EXPECT_EQ(kHotOpcodes, 8u);
  EXPECT_EQ(kHotWindows, 4u);
  EXPECT_EQ(kJitQueueLength, 4096u);
  EXPECT_EQ(kAgingTurns, 32u);
  EXPECT_EQ(kSparseBps, 500u);
  EXPECT_EQ(kDenseBps, 4000u);
  EXPECT_EQ(kMemoryPressureBps, 8500u);
  EXPECT_EQ(kHysteresisBps, 250u);
  EXPECT_EQ(kFusedDenseEdges, 65'536u);
  EXPECT_EQ(kSparseWorkers, 32u);
  EXPECT_EQ(kShedBps, 2500u);
  EXPECT_EQ(kShedRiseBps, 2500u);
  EXPECT_EQ(kPolicyCacheEntries, 128u);
}

TEST(LaunchPolicy, names_are_in_snake_case) {
  EXPECT_EQ(topology_name(Topology::empty), "empty");
  EXPECT_EQ(topology_name(Topology::sparse_frontier), "sparse_frontier");
  EXPECT_EQ(topology_name(Topology::dense_frontier), "dense_frontier");
  EXPECT_EQ(topology_name(Topology::hybrid_frontier), "hybrid_frontier");
  EXPECT_EQ(topology_name(Topology::fused_dense), "fused_dense");
  EXPECT_EQ(topology_name(Topology::memory_constrained), "memory_constrained");
  EXPECT_EQ(pressure_name(Pressure::empty), "empty");
  EXPECT_EQ(pressure_name(Pressure::light), "light");
  EXPECT_EQ(pressure_name(Pressure::balanced), "balanced");
  EXPECT_EQ(pressure_name(Pressure::saturated), "saturated");
  EXPECT_EQ(execution_name(Execution::automatic), "automatic");
  EXPECT_EQ(execution_name(Execution::interpreter), "interpreter");
  EXPECT_EQ(execution_name(Execution::native), "jit");
  EXPECT_EQ(topology_name(static_cast<Topology>(6)), "unknown");
  EXPECT_EQ(pressure_name(static_cast<Pressure>(4)), "unknown");
  EXPECT_EQ(execution_name(static_cast<Execution>(3)), "unknown");
}

TEST(LaunchPolicy, of_a_plain_run) {
  const LaunchPolicy expected{.topology = Topology::dense_frontier,
                              .pressure = Pressure::balanced,
                              .execution = Execution::interpreter,
                              .workers = 64,
                              .workgroup = 64,
                              .groups = 1,
                              .hit_capacity = 1024,
                              .density_bps = 10'000,
                              .memory_bps = 0,
                              .peak_bytes = 16'384};
  EXPECT_EQ(recommend({.queue_length = 100}), expected);
}

TEST(LaunchPolicy, of_nothing_to_do) {
  const LaunchPolicy expected{.topology = Topology::empty,
                              .pressure = Pressure::empty,
                              .execution = Execution::interpreter,
                              .workers = 0,
                              .workgroup = 64,
                              .groups = 1,
                              .hit_capacity = 1024,
                              .density_bps = 1,
                              .memory_bps = 0,
                              .peak_bytes = 16'384};
  EXPECT_EQ(recommend({}), expected);
}

TEST(LaunchPolicy, of_nothing_to_do_ignores_every_other_sign) {
  const LaunchPolicy policy = recommend({.requested_workers = 100,
                                         .graph_edges = 65'536,
                                         .density_bps = 100,
                                         .memory_bps = 9000,
                                         .requeued_items = 5,
                                         .previous = Topology::memory_constrained});
  EXPECT_EQ(policy.topology, Topology::empty);
  EXPECT_EQ(policy.pressure, Pressure::empty);
  EXPECT_EQ(policy.workers, 0u);
  EXPECT_TRUE(policy.ages);
}

TEST(LaunchPolicy, density_is_the_part_of_the_graph_that_is_queued) {
  struct Row {
    const char* name;
    std::uint64_t queue, nodes;
    std::optional<Word> given;
    Word expected;
  };
  constexpr Row kRows[] = {
      {"half", 50, 100, {}, 5000},
      {"thirds round down", 1, 3, {}, 3333},
      {"all", 100, 100, {}, 10'000},
      {"more queued than nodes", 101, 100, {}, 10'000},
      {"one of ten thousand", 1, 10'000, {}, 1},
      {"at least one", 1, 10'001, {}, 1},
      {"two of ten thousand", 2, 10'000, {}, 2},
      {"just below two", 2, 10'001, {}, 1},
      {"no graph", 7, 0, {}, 10'000},
      {"no graph, no queue", 0, 0, {}, 1},
      {"no queue", 0, 100, {}, 1},
      {"longest queue, largest graph", kMaxLong, kMaxLong, {}, 10'000},
      {"one short of the largest", kMaxLong - 1, kMaxLong, {}, 9999},
      {"one of the largest", 1, kMaxLong, {}, 1},
      {"given", 50, 100, 1234, 1234},
      {"given zero", 50, 100, 0, 0},
      {"given without a graph", 50, 0, 77, 77},
      {"given full", 50, 100, 10'000, 10'000},
      {"given too much", 50, 100, 10'001, 10'000},
      {"given the most", 50, 100, kMaxWord, 10'000},
  };
  for (const Row& row : kRows) {
    SCOPED_TRACE(row.name);
    EXPECT_EQ(
        recommend({.queue_length = row.queue, .graph_nodes = row.nodes, .density_bps = row.given})
            .density_bps,
        row.expected);
  }
}

TEST(LaunchPolicy, memory_pressure_is_the_part_of_the_budget_that_is_resident) {
  struct Row {
    const char* name;
    std::uint64_t resident, budget;
    std::optional<Word> given;
    Word expected;
  };
  constexpr Row kRows[] = {
      {"half", 512, 1024, {}, 5000},
      {"rounds down", 2, 3, {}, 6666},
      {"nothing resident", 0, 1024, {}, 0},
      {"no budget", 1024, 0, {}, 0},
      {"full", 1024, 1024, {}, 10'000},
      {"over the budget", 1025, 1024, {}, 10'000},
      {"most over least", kMaxLong, 1, {}, 10'000},
      {"one short of the largest", kMaxLong - 1, kMaxLong, {}, 9999},
      {"given", 512, 1024, 8123, 8123},
      {"given zero", 512, 1024, 0, 0},
      {"given without a budget", 512, 0, 42, 42},
      {"given too much", 512, 1024, 10'001, 10'000},
      {"given the most", 512, 1024, kMaxWord, 10'000},
  };
  for (const Row& row : kRows) {
    SCOPED_TRACE(row.name);
    EXPECT_EQ(recommend({.queue_length = 1,
                         .memory_bps = row.given,
                         .resident_bytes = row.resident,
                         .budget_bytes = row.budget})
                  .memory_bps,
              row.expected);
  }
}

TEST(LaunchPolicy, hot_opcodes_or_windows_promote) {
  struct Row {
    Word opcodes, windows;
    bool promoted;
  };
  constexpr Row kRows[] = {{0, 0, false}, {7, 3, false},       {8, 0, true},       {9, 0, true},
                           {0, 4, true},  {0, 5, true},        {8, 4, true},       {7, 0, false},
                           {0, 3, false}, {kMaxWord, 0, true}, {0, kMaxWord, true}};
  for (const Row& row : kRows) {
    SCOPED_TRACE(testing::Message() << row.opcodes << " opcodes, " << row.windows << " windows");
    const LaunchPolicy policy =
        recommend({.queue_length = 1, .hot_opcodes = row.opcodes, .hot_windows = row.windows});
    EXPECT_EQ(policy.promoted, row.promoted);
    EXPECT_EQ(policy.execution, row.promoted ? Execution::native : Execution::interpreter);
  }
}

TEST(LaunchPolicy, topology_is_the_first_that_matches) {
  struct Row {
    const char* name;
    Word density, memory;
    std::uint64_t edges;
    Word hot_opcodes;
    Topology expected;
  };
  constexpr auto kSparse = Topology::sparse_frontier;
  constexpr auto kHybrid = Topology::hybrid_frontier;
  constexpr auto kDense = Topology::dense_frontier;
  constexpr auto kFused = Topology::fused_dense;
  constexpr auto kMemory = Topology::memory_constrained;
  constexpr Row kRows[] = {
      {"no density at all", 0, 0, 0, 0, kSparse},
      {"below sparse", 499, 0, 0, 0, kSparse},
      {"at sparse", 500, 0, 0, 0, kSparse},
      {"above sparse", 501, 0, 0, 0, kHybrid},
      {"below dense", 3999, 0, 0, 0, kHybrid},
      {"at dense", 4000, 0, 0, 0, kDense},
      {"above dense", 4001, 0, 0, 0, kDense},
      {"full", 10'000, 0, 0, 0, kDense},
      {"below memory", 10'000, 8499, 0, 0, kDense},
      {"at memory", 10'000, 8500, 0, 0, kMemory},
      {"above memory", 10'000, 8501, 0, 0, kMemory},
      {"memory before sparse", 1, 8500, 0, 0, kMemory},
      {"memory before fused", 10'000, 8500, 65'536, 8, kMemory},
      {"sparse below memory", 500, 8499, 0, 0, kSparse},
      {"sparse before fused", 500, 0, 65'536, 8, kSparse},
      {"promoted with edges, hybrid", 3999, 0, 65'536, 8, kHybrid},
      {"fused at its thresholds", 4000, 0, 65'536, 8, kFused},
      {"fused above", 4001, 0, 65'537, 9, kFused},
      {"one edge short", 4000, 0, 65'535, 8, kDense},
      {"one hot opcode short", 4000, 0, 65'536, 7, kDense},
      {"most edges", 10'000, 0, kMaxLong, kMaxWord, kFused},
  };
  for (const Row& row : kRows) {
    SCOPED_TRACE(row.name);
    EXPECT_EQ(recommend({.queue_length = 1,
                         .hot_opcodes = row.hot_opcodes,
                         .graph_edges = row.edges,
                         .density_bps = row.density,
                         .memory_bps = row.memory})
                  .topology,
              row.expected);
  }
}

TEST(LaunchPolicy, hot_windows_fuse_as_hot_opcodes_do) {
  EXPECT_EQ(recommend({.queue_length = 1, .hot_windows = 4, .graph_edges = 65'536}).topology,
            Topology::fused_dense);
}

TEST(LaunchPolicy, topology_comes_from_lengths_and_bytes_when_nothing_is_given) {
  EXPECT_EQ(recommend({.queue_length = 5, .graph_nodes = 100}).topology, Topology::sparse_frontier);
  EXPECT_EQ(recommend({.queue_length = 6, .graph_nodes = 100}).topology, Topology::hybrid_frontier);
  EXPECT_EQ(recommend({.queue_length = 40, .graph_nodes = 100}).topology, Topology::dense_frontier);
  EXPECT_EQ(recommend({.queue_length = 1, .resident_bytes = 849, .budget_bytes = 1000}).topology,
            Topology::dense_frontier);
  EXPECT_EQ(recommend({.queue_length = 1, .resident_bytes = 850, .budget_bytes = 1000}).topology,
            Topology::memory_constrained);
}

TEST(LaunchPolicy, pressure_compares_the_queue_with_the_lanes) {
  struct Row {
    const char* name;
    std::uint64_t queue;
    Word workers;
    std::uint64_t requeued;
    Pressure expected;
  };
  constexpr Row kRows[] = {
      {"empty", 0, 64, 0, Pressure::empty},
      {"empty with requeues", 0, 64, 1, Pressure::empty},
      {"one item", 1, 64, 0, Pressure::light},
      {"below the lanes", 63, 64, 0, Pressure::light},
      {"at the lanes", 64, 64, 0, Pressure::balanced},
      {"above the lanes", 65, 64, 0, Pressure::balanced},
      {"below four waves", 255, 64, 0, Pressure::balanced},
      {"at four waves", 256, 64, 0, Pressure::saturated},
      {"above four waves", 257, 64, 0, Pressure::saturated},
      {"a requeue", 1, 64, 1, Pressure::saturated},
      {"default workers, light", 63, 0, 0, Pressure::light},
      {"default workers, balanced", 64, 0, 0, Pressure::balanced},
      {"default workers, saturated", 256, 0, 0, Pressure::saturated},
      {"four waves beyond a word", 17'179'869'179, kMaxWord, 0, Pressure::balanced},
      {"at four waves beyond a word", 17'179'869'180, kMaxWord, 0, Pressure::saturated},
      {"longest queue", kMaxLong, kMaxWord, 0, Pressure::saturated},
      {"most requeues", 1, 64, kMaxLong, Pressure::saturated},
  };
  for (const Row& row : kRows) {
    SCOPED_TRACE(row.name);
    EXPECT_EQ(recommend({.queue_length = row.queue,
                         .requested_workers = row.workers,
                         .requeued_items = row.requeued})
                  .pressure,
              row.expected);
  }
}

TEST(LaunchPolicy, lanes_are_the_workers_chosen_not_those_requested) {
  // 100 workers shed to 75: 300 items are four waves.
  EXPECT_EQ(recommend({.queue_length = 300, .requested_workers = 100, .memory_bps = 8500}).pressure,
            Pressure::saturated);
  EXPECT_EQ(recommend({.queue_length = 299, .requested_workers = 100, .memory_bps = 8500}).pressure,
            Pressure::balanced);
  EXPECT_EQ(recommend({.queue_length = 74, .requested_workers = 100, .memory_bps = 8500}).pressure,
            Pressure::light);
}

TEST(LaunchPolicy, workers_are_limited_shed_and_reduced) {
  struct Row {
    const char* name;
    Word requested, possible, density, memory, expected;
  };
  constexpr Row kRows[] = {
      {"default", 0, 0, 10'000, 0, 64},
      {"requested", 100, 0, 10'000, 0, 100},
      {"one possible more", 100, 101, 10'000, 0, 100},
      {"as many as possible", 100, 99, 10'000, 0, 99},
      {"default, fewer possible", 0, 10, 10'000, 0, 10},
      {"default, more possible", 0, 100, 10'000, 0, 64},
      {"most", kMaxWord, kMaxWord, 10'000, 0, kMaxWord},
      {"below memory pressure", 10'000, 0, 10'000, 8499, 10'000},
      {"at memory pressure", 10'000, 0, 10'000, 8500, 7500},
      {"a little above", 10'000, 0, 10'000, 8501, 7499},
      {"the rise rounds down", 10'000, 0, 10'000, 8502, 7497},
      {"half way", 10'000, 0, 10'000, 9250, 6250},
      {"nearly full", 10'000, 0, 10'000, 9999, 5002},
      {"full", 10'000, 0, 10'000, 10'000, 5000},
      {"over the budget", 10'000, 0, 10'000, 12'000, 5000},
      {"workers round down", 1000, 0, 10'000, 8501, 749},
      {"three shed to two", 3, 0, 10'000, 8500, 2},
      {"one stays", 1, 0, 10'000, 8500, 1},
      {"one stays at full", 1, 0, 10'000, 10'000, 1},
      {"limited, then shed", 100, 40, 10'000, 8500, 30},
      {"most at full", kMaxWord, 0, 10'000, 10'000, 2'147'483'647},
      {"above sparse", 1000, 0, 501, 0, 1000},
      {"at sparse", 1000, 0, 500, 0, 1000},
      {"below sparse", 1000, 0, 499, 0, 998},
      {"half of sparse", 1000, 0, 250, 0, 500},
      {"down to 32", 1000, 0, 16, 0, 32},
      {"at least 32", 1000, 0, 15, 0, 32},
      {"one bps", 20'000, 0, 1, 0, 40},
      {"no bps counts as one", 20'000, 0, 0, 0, 40},
      {"two bps", 20'000, 0, 2, 0, 80},
      {"rounds down", 64, 0, 300, 0, 38},
      {"33 become 32", 33, 0, 1, 0, 32},
      {"32 stay", 32, 0, 1, 0, 32},
      {"31 stay", 31, 0, 1, 0, 31},
      {"one stays in a sparse graph", 1, 0, 0, 0, 1},
      {"most in a sparse graph", kMaxWord, 0, 1, 0, 8'589'934},
      {"limited, then reduced", 1000, 100, 250, 0, 50},
      {"shed and reduced", 10'000, 0, 250, 8500, 3750},
      {"shed first, so less than 32 may stay", 40, 0, 1, 8500, 30},
      {"shed above sparse", 10'000, 0, 501, 8500, 7500},
  };
  for (const Row& row : kRows) {
    SCOPED_TRACE(row.name);
    EXPECT_EQ(recommend({.queue_length = 1,
                         .requested_workers = row.requested,
                         .possible_workers = row.possible,
                         .density_bps = row.density,
                         .memory_bps = row.memory})
                  .workers,
              row.expected);
  }
}

TEST(LaunchPolicy, workgroups_stay_between_32_and_1024) {
  struct Row {
    Word requested, expected;
  };
  constexpr Row kRows[] = {{0, 64},      {1, 32},      {31, 32},     {32, 32},        {33, 33},
                           {1023, 1023}, {1024, 1024}, {1025, 1024}, {kMaxWord, 1024}};
  for (const Row& row : kRows) {
    SCOPED_TRACE(row.requested);
    EXPECT_EQ(recommend({.queue_length = 1, .requested_workgroup = row.requested}).workgroup,
              row.expected);
    EXPECT_EQ(recommend({.requested_workgroup = row.requested}).workgroup, row.expected);
  }
}

TEST(LaunchPolicy, groups_cover_the_workers) {
  struct Row {
    Word workers, workgroup, groups;
  };
  constexpr Row kRows[] = {
      {1, 64, 1},
      {63, 64, 1},
      {64, 64, 1},
      {65, 64, 2},
      {128, 64, 2},
      {129, 64, 3},
      {33, 1, 2},
      {65'472, 64, 1023},
      {65'473, 64, 1024},
      {65'536, 64, 1024},
      {65'537, 64, 1024},
      {kMaxWord, 32, 1024},
      {1'048'575, 1024, 1024},
      {1'048'577, 1024, 1024},
      {1'047'552, 1024, 1023},
      {1, 1024, 1},
  };
  for (const Row& row : kRows) {
    SCOPED_TRACE(testing::Message() << row.workers << " workers in groups of " << row.workgroup);
    const LaunchPolicy policy = recommend({.queue_length = 1,
                                           .requested_workers = row.workers,
                                           .requested_workgroup = row.workgroup});
    EXPECT_EQ(policy.groups, row.groups);
    EXPECT_EQ(policy.workers, row.workers);
  }
}

TEST(LaunchPolicy, hit_capacity_is_asked_for_or_expected) {
  struct Row {
    const char* name;
    std::uint64_t queue;
    Word expected_hits, asked, memory, capacity;
  };
  constexpr Row kRows[] = {
      {"nothing queued", 0, 0, 0, 0, 1024},
      {"below the least", 511, 0, 0, 0, 1024},
      {"at the least", 512, 0, 0, 0, 1024},
      {"above the least", 513, 0, 0, 0, 1026},
      {"no hits count as one", 1000, 0, 0, 0, 2000},
      {"one hit", 1000, 1, 0, 0, 2000},
      {"three hits", 1000, 3, 0, 0, 6000},
      {"three hits below memory pressure", 1000, 3, 0, 8499, 6000},
      {"three hits under memory pressure", 1000, 3, 0, 8500, 3000},
      {"below the least under pressure", 1023, 1, 0, 8500, 1024},
      {"above the least under pressure", 1025, 1, 0, 8500, 1025},
      {"asked", 1000, 3, 5, 0, 5},
      {"one asked", 1000, 3, 1, 0, 1},
      {"asked under memory pressure", 1000, 3, 5000, 9000, 5000},
      {"most asked", 1, 0, kMaxWord, 0, kMaxWord},
      {"largest that fits", 2'147'483'647, 1, 0, 0, 4'294'967'294},
      {"first that does not", 2'147'483'648, 1, 0, 0, kMaxWord},
      {"largest under pressure", 4'294'967'295, 1, 0, 8500, kMaxWord},
      {"one less under pressure", 4'294'967'294, 1, 0, 8500, 4'294'967'294},
      {"more than 64 bits", kMaxLong, kMaxWord, 0, 0, kMaxWord},
      {"a product that wraps 64 bits to 0", std::uint64_t{1} << 63, 1, 0, 0, kMaxWord},
  };
  for (const Row& row : kRows) {
    SCOPED_TRACE(row.name);
    EXPECT_EQ(recommend({.queue_length = row.queue,
                         .memory_bps = row.memory,
                         .hit_capacity = row.asked,
                         .expected_hits_per_item = row.expected_hits})
                  .hit_capacity,
              row.capacity);
  }
}

TEST(LaunchPolicy, peak_bytes_are_resident_bytes_and_16_a_hit) {
  struct Row {
    std::uint64_t resident;
    Word hits;
    std::uint64_t expected;
  };
  constexpr Row kRows[] = {
      {0, 0, 16'384},
      {100, 0, 16'484},
      {100, 1, 116},
      {0, kMaxWord, 68'719'476'720},
      {kMaxLong, 1, kMaxLong},
      {kMaxLong - 16, 1, kMaxLong},
      {kMaxLong - 17, 1, kMaxLong - 1},
  };
  for (const Row& row : kRows) {
    SCOPED_TRACE(testing::Message() << row.resident << " bytes, " << row.hits << " hits");
    EXPECT_EQ(
        recommend({.queue_length = 1, .resident_bytes = row.resident, .hit_capacity = row.hits})
            .peak_bytes,
        row.expected);
  }
}

TEST(LaunchPolicy, code_is_specialised_from_4096_items) {
  EXPECT_EQ(recommend({.queue_length = 4095}).execution, Execution::interpreter);
  EXPECT_EQ(recommend({.queue_length = 4096}).execution, Execution::native);
  EXPECT_EQ(recommend({.queue_length = 4097}).execution, Execution::native);
  EXPECT_EQ(recommend({.queue_length = kMaxLong}).execution, Execution::native);
}

TEST(LaunchPolicy, fused_dense_is_specialised_also_when_little_is_queued) {
  const LaunchPolicy policy =
      recommend({.queue_length = 1, .hot_opcodes = 8, .graph_edges = 65'536});
  EXPECT_EQ(policy.topology, Topology::fused_dense);
  EXPECT_EQ(policy.execution, Execution::native);
}

TEST(LaunchPolicy, items_age_when_requeued_or_after_32_turns) {
  struct Row {
    std::uint64_t requeued;
    Word turns;
    bool ages;
  };
  constexpr Row kRows[] = {{0, 0, false},       {0, 31, false}, {0, 32, true}, {0, 33, true},
                           {0, kMaxWord, true}, {1, 0, true},   {1, 32, true}, {kMaxLong, 0, true}};
  for (const Row& row : kRows) {
    SCOPED_TRACE(testing::Message() << row.requeued << " requeued, " << row.turns << " turns");
    EXPECT_EQ(
        recommend(
            {.queue_length = 1, .requeued_items = row.requeued, .longest_wait_turns = row.turns})
            .ages,
        row.ages);
  }
}

TEST(LaunchPolicy, of_the_most_of_everything) {
  const LaunchPolicy expected{.topology = Topology::memory_constrained,
                              .pressure = Pressure::saturated,
                              .execution = Execution::native,
                              .workers = 2'147'483'647,
                              .workgroup = 1024,
                              .groups = 1024,
                              .hit_capacity = kMaxWord,
                              .density_bps = 10'000,
                              .memory_bps = 10'000,
                              .peak_bytes = kMaxLong,
                              .promoted = true,
                              .ages = true};
  EXPECT_EQ(recommend({.queue_length = kMaxLong,
                       .requested_workers = kMaxWord,
                       .possible_workers = kMaxWord,
                       .requested_workgroup = kMaxWord,
                       .hot_opcodes = kMaxWord,
                       .hot_windows = kMaxWord,
                       .graph_nodes = kMaxLong,
                       .graph_edges = kMaxLong,
                       .density_bps = kMaxWord,
                       .memory_bps = kMaxWord,
                       .resident_bytes = kMaxLong,
                       .budget_bytes = kMaxLong,
                       .hit_capacity = kMaxWord,
                       .expected_hits_per_item = kMaxWord,
                       .requeued_items = kMaxLong,
                       .longest_wait_turns = kMaxWord,
                       .previous = static_cast<Topology>(kMaxWord)}),
            expected);
}

}  // namespace
}  // namespace everkernel::planner
