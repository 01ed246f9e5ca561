// Planning rules 1 to 4 by example: which items wait, which are dropped, which run back to back,
// and which opcodes contributed to a result.
#include "run_fixture.hpp"

namespace everkernel::test {
namespace {

using Items = std::vector<abi::WorkItem>;
using Regions = std::vector<std::vector<Word>>;

// ---- 1: hazards ----

struct HazardRow {
  std::string_view name;
  Items items;
  std::uint64_t edges;
};

class Hazards : public testing::TestWithParam<HazardRow> {};

TEST_P(Hazards, has_the_edges_of_the_rules) {
  Runner runner;
  const RunReport report = runner.run(GetParam().items, {.dedupe = false, .fuse = false});
  EXPECT_EQ(report.shape.edges, GetParam().edges);
  EXPECT_EQ(report.items_processed, GetParam().items.size());
}

INSTANTIATE_TEST_SUITE_P(
    rules, Hazards,
    testing::Values(
        HazardRow{"nothing_shared", {{kMove, 1, 2, 0}, {kMove, 3, 4, 0}}, 0},
        HazardRow{"readers_share", {{kMove, 1, 2, 0}, {kMove, 1, 3, 0}, {kPeek, 1, 0, 0}}, 0},
        HazardRow{"read_after_write", {{kMove, 1, 2, 0}, {kMove, 2, 3, 0}}, 1},
        HazardRow{"write_after_read", {{kMove, 1, 2, 0}, {kMove, 3, 1, 0}}, 1},
        HazardRow{"write_after_write", {{kMove, 1, 2, 0}, {kMove, 3, 2, 0}}, 1},
        HazardRow{"both_ways_is_one", {{kMove, 1, 2, 0}, {kMove, 2, 1, 0}}, 1},
        HazardRow{"handle_zero_is_none", {{kSet, 0, 1, 0}, {kSet, 0, 2, 0}, {kPeek, 3, 0, 0}}, 0},
        HazardRow{"untouched_is_none", {{kMove, 1, 2, 0}, {kSet, 2, 3, 0}, {kPeek, 4, 2, 0}}, 0},
        HazardRow{"atomics_read_and_write", {{kLowest, 1, 2, 0}, {kLowest, 3, 2, 0}}, 1},
        HazardRow{"commuters_of_one_opcode", {{kAdd, 0, 2, 1}, {kAdd, 0, 2, 2}}, 0},
        HazardRow{"commuters_of_two_opcodes", {{kAdd, 0, 2, 1}, {kAddFrom, 1, 2, 0}}, 1},
        HazardRow{"commuters_by_input", {{kAddFrom, 1, 2, 0}, {kAddFrom, 2, 3, 0}}, 1},
        HazardRow{"nop", {{kMove, 1, 2, 0}, {kNop, 2, 2, 0}, {kNop, 2, 2, 0}}, 0}),
    [](const auto& row) { return std::string(row.param.name); });

TEST(Planning, the_order_of_the_list_is_the_order_of_effects) {
  for (const Word workers : {1u, 2u, 8u}) {
    Runner runner({.slot_count = 64, .workgroup_size = 1, .worker_count = workers});
    // Slow writers first: an item that does not wait for them reads too early.
    runner.run({{kSlowMove, 1, 2, 5},  // 2 = 1 * 2 + 5 = 7
                {kMove, 2, 3, 0},      // 3 = 14: after the write
                {kSlowMove, 3, 4, 1},  // 4 = 29
                {kSet, 0, 3, 100},     // after the read
                {kSlowMove, 3, 5, 0},  // 5 = 200
                {kSet, 0, 5, 9}},      // after the write
               {.worker_count = workers});
    EXPECT_EQ(runner.word(2), 7u);
    EXPECT_EQ(runner.word(3), 100u);
    EXPECT_EQ(runner.word(4), 29u);
    EXPECT_EQ(runner.word(5), 9u);
  }
}

TEST(Planning, commuters_before_readers_meet_in_one_node) {
  Runner runner;
  Items items;
  for (Word i = 0; i < 100; ++i) items.push_back({kAdd, 0, 1, i});
  for (Word i = 0; i < 100; ++i) items.push_back({kMove, 1, 2 + i % 10, i});
  const RunReport report = runner.run(items);
  EXPECT_GE(report.shape.joins, 1u);
  EXPECT_LE(report.shape.joins, 3u);
  EXPECT_LE(report.shape.edges, 500u);
  EXPECT_EQ(runner.word(2), (1 + 4950) * 2 + 90u);
}

TEST(Planning, readers_before_commuters_meet_in_one_node) {
  Runner runner;
  Items items = {{kSlowMove, 2, 1, 0}};
  for (Word i = 0; i < 100; ++i) items.push_back({kMove, 1, 3 + i % 10, i});
  for (Word i = 0; i < 100; ++i) items.push_back({kAdd, 0, 1, i});
  const RunReport report = runner.run(items);
  EXPECT_LE(report.shape.edges, 600u);
  EXPECT_EQ(runner.word(1), 4u + 4950u);
  EXPECT_EQ(runner.word(3), 8u + 90u);
}

TEST(Planning, commuters_wait_for_every_reader_before_them) {
  Runner runner;
  for (Word slow = 0; slow < 3; ++slow) {
    runner.set_word(1, 5);
    Items items;
    for (Word i = 0; i < 3; ++i) items.push_back({i == slow ? kSlowMove : kMove, 1, 3 + i, 0});
    items.push_back({kAdd, 0, 1, 100});
    items.push_back({kAdd, 0, 1, 100});
    const RunReport report = runner.run(items, {.worker_count = 4});
    EXPECT_EQ(report.shape.edges, 5u);  // three readers to a join, and from there to two
    for (Word i = 0; i < 3; ++i) EXPECT_EQ(runner.word(3 + i), 10u) << "reader " << i;
    EXPECT_EQ(runner.word(1), 205u);
  }
}

TEST(Planning, a_commuter_that_reads_its_output_as_input_waits) {
  Runner runner;
  runner.set_word(1, 1);
  Items items;
  for (int i = 0; i < 16; ++i) items.push_back({kAddFrom, 1, 1, 0});  // doubles
  const RunReport report = runner.run(items, {.fuse = false});
  EXPECT_EQ(runner.word(1), 1u << 16);
  EXPECT_EQ(report.shape.edges, 15u);
}

struct BarrierRow {
  std::string_view name;
  Word opcode;
};

class Barriers : public testing::TestWithParam<BarrierRow> {};

// A slow item before the barrier and items after it, none of which touches a buffer that the
// barrier names.
TEST_P(Barriers, are_ordered_against_everything) {
  for (const Word workers : {1u, 2u, 4u}) {
    Runner runner;
    const Word handle = GetParam().opcode == kByHandle ? 0 : 2;
    const RunReport report = runner.run({{kSlowMove, 1, 8, 3},  // 8 = 5
                                         {kSlowMove, 3, 9, 4},  // 9 = 10
                                         {GetParam().opcode, 0, handle, 0},
                                         {kMove, 9, 10, 1},
                                         {kSet, 0, 8, 77},
                                         {kObserve, 0, 11, 0}},
                                        {.worker_count = workers});
    EXPECT_EQ(report.items_processed, 6u);
    // by_handle: 9 = 5 * 3; the others move their output: 9 = 10 * 3; control leaves it.
    const Word nine = GetParam().opcode == kByHandle ? 15 : GetParam().opcode == kControl ? 10 : 30;
    EXPECT_EQ(runner.word(9), nine);
    EXPECT_EQ(runner.word(10), nine * 2 + 1);
    EXPECT_EQ(runner.word(8), 77u);
  }
}

INSTANTIATE_TEST_SUITE_P(kinds, Barriers,
                         testing::Values(BarrierRow{"buffer_by_handle", kByHandle},
                                         BarrierRow{"control", kControl},
                                         BarrierRow{"args_1", kMoveArg},
                                         BarrierRow{"args_anywhere", kAnyArg}),
                         [](const auto& row) { return std::string(row.param.name); });

TEST(Planning, observables_begin_at_zero_in_every_run) {
  Runner runner;
  for (int i = 0; i < 2; ++i) {
    runner.run(
        {{kObserve, 0, 1, 0}, {kControl, 0, 0, 5}, {kControl, 0, 0, 1}, {kObserve, 0, 2, 0}});
    EXPECT_EQ(runner.word(1), 0u);
    EXPECT_EQ(runner.word(2), 16u);
  }
}

TEST(Planning, without_order_nothing_waits) {
  Runner runner;
  const RunReport report =
      runner.run({{kMove, 1, 2, 0}, {kMove, 2, 3, 0}, {kByHandle, 0, 0, 0}, {kMove, 3, 1, 0}},
                 {.ordered = false, .lineage = true});
  EXPECT_EQ(report.shape.edges, 0u);
  EXPECT_EQ(report.items_processed, 4u);
  EXPECT_EQ(regions_of(report), (Regions{{0}, {1}, {2}, {3}}));
}

// ---- 2: dedupe ----

struct DedupeRow {
  std::string_view name;
  Items items;
  std::uint64_t deduped;
};

class Dedupe : public testing::TestWithParam<DedupeRow> {};

TEST_P(Dedupe, drops_what_the_rule_says) {
  Runner runner;
  EXPECT_EQ(runner.run(GetParam().items).deduped_items, GetParam().deduped);
  EXPECT_EQ(runner.run(GetParam().items, {.dedupe = false}).deduped_items, 0u);
}

INSTANTIATE_TEST_SUITE_P(
    rules, Dedupe,
    testing::Values(
        DedupeRow{"equal_pure_items", {{kCopy, 1, 2, 3}, {kCopy, 1, 2, 3}, {kCopy, 1, 2, 3}}, 2},
        DedupeRow{"over_others", {{kCopy, 1, 2, 3}, {kMove, 1, 4, 0}, {kCopy, 1, 2, 3}}, 1},
        DedupeRow{"over_readers", {{kCopy, 1, 2, 3}, {kMove, 2, 4, 0}, {kCopy, 1, 2, 3}}, 1},
        DedupeRow{"pure_commuters", {{kMax, 1, 2, 0}, {kMax, 1, 2, 0}}, 1},
        DedupeRow{"not_pure", {{kMove, 1, 2, 3}, {kMove, 1, 2, 3}}, 0},
        DedupeRow{"nop", {{kNop, 0, 0, 0}, {kNop, 0, 0, 0}}, 0},
        DedupeRow{"other_param", {{kCopy, 1, 2, 3}, {kCopy, 1, 2, 4}}, 0},
        DedupeRow{"other_input", {{kSet, 1, 2, 3}, {kSet, 3, 2, 3}}, 0},
        DedupeRow{"input_is_output", {{kCopy, 2, 2, 3}, {kCopy, 2, 2, 3}}, 0},
        DedupeRow{
            "input_written_between", {{kCopy, 1, 2, 3}, {kAdd, 0, 1, 1}, {kCopy, 1, 2, 3}}, 0},
        DedupeRow{
            "output_written_between", {{kCopy, 1, 2, 3}, {kSet, 0, 2, 1}, {kCopy, 1, 2, 3}}, 0},
        DedupeRow{"barrier_between", {{kCopy, 1, 2, 3}, {kControl, 0, 0, 1}, {kCopy, 1, 2, 3}}, 0},
        DedupeRow{"the_latest_is_kept",
                  {{kCopy, 1, 2, 3}, {kAdd, 0, 1, 1}, {kCopy, 1, 2, 3}, {kCopy, 1, 2, 3}},
                  1}),
    [](const auto& row) { return std::string(row.param.name); });

TEST(DedupeFate, of_another_tenant_is_another_item) {
  Runner runner;
  const Items items(3, {kCopy, 1, 2, 3});
  const std::vector<Origin> origins = {{.tenant = 1}, {.tenant = 2}, {.tenant = 1, .priority = 4}};
  // The second item writes the same output between the other two.
  EXPECT_EQ(runner.run(items, {.origins = origins}).deduped_items, 0u);
  const std::vector<Origin> pairs = {{.tenant = 1}, {.tenant = 1, .priority = 0}, {.tenant = 2}};
  EXPECT_EQ(runner.run(items, {.origins = pairs}).deduped_items, 1u);
}

TEST(DedupeFate, is_that_of_the_item_that_is_kept) {
  Runner runner;
  const RunReport report = runner.run({{kSet, 0, 2, 666},
                                       {kSet, 0, 2, 666},
                                       {kCopy, 2, 3, 0},
                                       {kCopy, 2, 3, 0},
                                       {kCopy, 1, 4, 0},
                                       {kCopy, 1, 4, 0}});
  EXPECT_EQ(codes_of(report), (std::vector<Word>{262, 262, 12, 12, 0, 0}));
  EXPECT_EQ(report.deduped_items, 3u);
  EXPECT_EQ(report.items_faulted, 4u);
  EXPECT_EQ(report.items_processed, 2u);
  EXPECT_EQ(report.published_items, 3u);
}

// ---- 3: regions ----

struct RegionRow {
  std::string_view name;
  Items items;
  Regions regions;
};

class RegionRules : public testing::TestWithParam<RegionRow> {};

TEST_P(RegionRules, are_chains_of_only_predecessors_and_only_successors) {
  Runner runner;
  const RunReport report = runner.run(GetParam().items, {.lineage = true});
  EXPECT_EQ(regions_of(report), GetParam().regions);
  EXPECT_EQ(report.shape.regions, GetParam().regions.size());
}

INSTANTIATE_TEST_SUITE_P(
    rules, RegionRules,
    testing::Values(
        RegionRow{"a_chain", {{kMove, 1, 2, 0}, {kMove, 2, 3, 0}, {kMove, 3, 4, 0}}, {{0, 1, 2}}},
        RegionRow{"in_place", {{kScale, 0, 2, 0}, {kScale, 0, 2, 0}}, {{0, 1}}},
        RegionRow{"two_chains_interleaved",
                  {{kMove, 1, 2, 0}, {kMove, 5, 6, 0}, {kMove, 2, 3, 0}, {kMove, 6, 7, 0}},
                  {{0, 2}, {1, 3}}},
        RegionRow{
            "a_fan_out", {{kMove, 1, 2, 0}, {kMove, 2, 3, 0}, {kMove, 2, 4, 0}}, {{0}, {1}, {2}}},
        RegionRow{
            "a_fan_in", {{kMove, 1, 2, 0}, {kMove, 1, 3, 0}, {kMove, 2, 3, 0}}, {{0}, {1}, {2}}},
        RegionRow{"one_commuter", {{kAdd, 0, 2, 0}, {kMove, 2, 3, 0}}, {{0, 1}}},
        RegionRow{"two_commuters",
                  {{kAdd, 0, 2, 0}, {kAdd, 0, 2, 0}, {kMove, 2, 3, 0}},
                  {{0}, {1}, {2}}}),
    [](const auto& row) { return std::string(row.param.name); });

TEST(Planning, regions_have_at_most_64_items) {
  Runner runner;
  const Items items(130, {kScale, 0, 2, 1});
  const RunReport report = runner.run(items, {.lineage = true});
  ASSERT_EQ(report.region_count(), 3u);
  EXPECT_EQ(report.region(0).items.size(), 64u);
  EXPECT_EQ(report.region(1).items.size(), 64u);
  EXPECT_EQ(report.region(2).items.size(), 2u);
  EXPECT_EQ(report.region(1).first_item, 64u);
  Word expected = 2;
  for (int i = 0; i < 130; ++i) expected = expected * 3 + 1;
  EXPECT_EQ(runner.word(2), expected);
}

TEST(Planning, without_fusion_every_item_is_a_region) {
  Runner runner;
  const RunReport report =
      runner.run({{kMove, 1, 2, 0}, {kMove, 2, 3, 0}}, {.fuse = false, .lineage = true});
  EXPECT_EQ(regions_of(report), (Regions{{0}, {1}}));
  EXPECT_EQ(runner.word(3), 4u);
}

// ---- 4: lineage ----

constexpr std::string_view kExample = R"(
handler third = 67 { output[0] = input[0] + 1; }
handler first = 71 { output[0] = input[0] + 2; }
handler second = 73 { output[0] = input[0] + 3; }
)";

TEST(Lineage, of_the_example_of_the_rules) {
  Runner runner({.slot_count = 8, .workgroup_size = 1, .worker_count = 2}, kExample);
  const RunReport report =
      runner.run({{71, 1, 2, 0}, {73, 2, 3, 0}, {67, 4, 5, 0}}, {.lineage = true});
  EXPECT_EQ(regions_of(report), (Regions{{0, 1}, {2}}));
  EXPECT_EQ(report.region_lineage, (std::vector<Word>{0x280, 0x8}));
  EXPECT_TRUE(report.region_lineage_wide.empty());
  EXPECT_EQ(report.lineage_words(), 0u);
  EXPECT_EQ(report.region(0).output, 3u);
  EXPECT_EQ(report.region(1).output, 5u);
  EXPECT_EQ(report.lineage_items, 3u);
  ASSERT_EQ(report.lineage_rules.size(), 3u);
  EXPECT_EQ(report.lineage_rules[0].name, "third");
  EXPECT_EQ(report.lineage_rules[1].name, "first");
  EXPECT_EQ(report.lineage_rules[1].bit, 7u);
  EXPECT_EQ(report.lineage_rules[2].opcode, 73u);
}

TEST(Lineage, is_there_only_when_asked_for) {
  Runner runner;
  const RunReport report = runner.run({{kMove, 1, 2, 0}});
  EXPECT_TRUE(report.region_lineage.empty());
  EXPECT_TRUE(report.lineage_rules.empty());
  EXPECT_EQ(report.region_count(), 0u);
  EXPECT_EQ(report.lineage_items, 0u);
}

constexpr Word bit(Word opcode) {
  return 1u << opcode % 32;
}

TEST(Lineage, follows_what_was_read_and_not_what_was_overwritten) {
  Runner runner;
  const RunReport report = runner.run({{kMove, 1, 2, 0},     // 2
                                       {kScale, 0, 3, 0},    // 3
                                       {kAddFrom, 2, 4, 0},  // 4 from 2
                                       {kCopy, 4, 5, 0},     // 5 from 4
                                       {kSet, 0, 3, 0},      // overwrites 3
                                       {kCopy, 6, 2, 0},     // overwrites a buffer that others read
                                       {kNop, 4, 4, 0}},
                                      {.fuse = false, .lineage = true});
  EXPECT_EQ(report.region_lineage,
            (std::vector<Word>{bit(kMove), bit(kScale), bit(kMove) | bit(kAddFrom),
                               bit(kMove) | bit(kAddFrom) | bit(kCopy), bit(kSet), bit(kCopy),
                               bit(kNop)}));
}

TEST(Lineage, of_commuters_is_their_own_and_that_of_readers_is_all_of_theirs) {
  Runner runner;
  const RunReport report =
      runner.run({{kMove, 1, 2, 0}, {kAddFrom, 2, 4, 0}, {kAddFrom, 5, 4, 0}, {kCopy, 4, 6, 0}},
                 {.fuse = false, .lineage = true});
  EXPECT_EQ(report.region_lineage,
            (std::vector<Word>{bit(kMove), bit(kMove) | bit(kAddFrom), bit(kAddFrom),
                               bit(kMove) | bit(kAddFrom) | bit(kCopy)}));
}

TEST(Lineage, of_a_region_is_that_of_all_its_items) {
  Runner runner;
  const RunReport report =
      runner.run({{kMove, 1, 2, 0}, {kSet, 0, 2, 0}, {kCopy, 2, 3, 0}}, {.lineage = true});
  // The second item overwrites the output of the first, but is in one region with it.
  ASSERT_EQ(regions_of(report), (Regions{{0, 1, 2}}));
  EXPECT_EQ(report.region_lineage[0], bit(kMove) | bit(kSet) | bit(kCopy));
}

TEST(Lineage, of_more_than_32_opcodes_has_a_bit_each) {
  std::string text;
  Items items;
  for (Word i = 0; i < 40; ++i) {
    // Every opcode has the same remainder modulo 32 as many others.
    const Word opcode = 100 + i * 32 / 2;
    text += "handler h" + std::to_string(i) + " = " + std::to_string(opcode) +
            " { output[0] = input[0] + output[0]; }\n";
    items.push_back({opcode, 1, 2 + i % 2, 0});
  }
  Runner runner({.slot_count = 8, .workgroup_size = 1, .worker_count = 2}, text);
  const RunReport report = runner.run(items, {.fuse = false, .lineage = true});
  ASSERT_EQ(report.lineage_words(), 1u);
  ASSERT_EQ(report.region_count(), 40u);
  EXPECT_EQ(report.region(0).wide[0], 1u);
  EXPECT_EQ(report.region(38).wide[0], 0x5555555555u);
  EXPECT_EQ(report.region(39).wide[0], 0xAAAAAAAAAAu);
  EXPECT_EQ(report.lineage_rules[39].wide_bit, 39u);
  EXPECT_EQ(report.lineage_rules[39].opcode, items[39].op_handle);
}

TEST(Lineage, leaves_out_what_was_dropped) {
  Runner runner;
  const RunReport report =
      runner.run({{kCopy, 1, 2, 0}, {kCopy, 1, 2, 0}, {kMove, 3, 4, 0}}, {.lineage = true});
  EXPECT_EQ(regions_of(report), (Regions{{0}, {2}}));
  EXPECT_EQ(report.lineage_items, 2u);
}

}  // namespace
}  // namespace everkernel::test
