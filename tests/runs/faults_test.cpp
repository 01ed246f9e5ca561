// Planning rule 8 by example: which items a fault poisons, and which it does not.
#include "run_fixture.hpp"

namespace everkernel::test {
namespace {

using Items = std::vector<abi::WorkItem>;

constexpr Word kOwn = 262;      // fault 6
constexpr Word kPoisoned = 12;  // input_faulted
constexpr Word kNoBuffer = 9;   // bad_buffer_handle
constexpr Word kForbidden = 5;  // permission_denied

struct FaultRow {
  std::string_view name;
  Items items;
  std::vector<Word> codes;
};

class FaultRules : public testing::TestWithParam<FaultRow> {};

TEST_P(FaultRules, decide_who_runs) {
  for (const bool fuse : {true, false}) {
    for (const Word workers : {1u, 4u}) {
      Runner runner;
      const RunReport report =
          runner.run(GetParam().items, {.dedupe = false, .fuse = fuse, .worker_count = workers});
      EXPECT_EQ(codes_of(report), GetParam().codes) << "fuse " << fuse << ", " << workers;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    rules, FaultRules,
    testing::Values(
        FaultRow{"alone", {{kMove, 1, 2, 666}, {kMove, 3, 4, 0}}, {kOwn, 0}},
        FaultRow{"read_after_write", {{kMove, 1, 2, 666}, {kMove, 2, 3, 0}}, {kOwn, kPoisoned}},
        FaultRow{"write_after_write", {{kMove, 1, 2, 666}, {kSet, 0, 2, 0}}, {kOwn, kPoisoned}},
        FaultRow{"write_after_read", {{kMove, 1, 2, 666}, {kSet, 0, 1, 0}}, {kOwn, 0}},
        FaultRow{"transitively",
                 {{kMove, 1, 2, 666}, {kMove, 2, 3, 0}, {kMove, 3, 4, 0}, {kMove, 4, 5, 0}},
                 {kOwn, kPoisoned, kPoisoned, kPoisoned}},
        FaultRow{"past_an_overwriter",
                 {{kMove, 1, 2, 666}, {kSet, 0, 2, 0}, {kMove, 2, 3, 0}},
                 {kOwn, kPoisoned, kPoisoned}},
        FaultRow{"a_reader_does_not_poison",
                 {{kPeek, 99, 0, 0}, {kSet, 0, 1, 0}, {kMove, 1, 2, 0}},
                 {kNoBuffer, 0, 0}},
        FaultRow{"an_untouched_handle_does_not_poison",
                 {{kMove, 1, 2, 666}, {kSet, 2, 3, 0}, {kPeek, 4, 2, 0}},
                 {kOwn, 0, 0}},
        FaultRow{"handle_zero_does_not_poison",
                 {{kSet, 0, 0, 1}, {kSet, 0, 0, 2}, {kPeek, 0, 0, 0}},
                 {kNoBuffer, kNoBuffer, kNoBuffer}},
        FaultRow{"an_unknown_handle_poisons",
                 {{kSet, 0, 99, 1}, {kSet, 0, 99, 2}},
                 {kNoBuffer, kPoisoned}},
        FaultRow{"before_it_all_is_well",
                 {{kMove, 1, 2, 0}, {kMove, 2, 3, 666}, {kMove, 2, 4, 0}},
                 {0, kOwn, 0}},
        FaultRow{"not_through_a_barrier_alone",
                 {{kMove, 1, 2, 666}, {kByHandle, 0, 0, 0}, {kMove, 9, 3, 0}},
                 {kOwn, 0, 0}},
        FaultRow{"through_a_barrier_to_the_same_handle",
                 {{kMove, 1, 2, 666}, {kByHandle, 0, 0, 0}, {kMove, 2, 3, 0}},
                 {kOwn, 0, kPoisoned}},
        FaultRow{"a_barrier_by_name",
                 {{kMove, 1, 2, 666}, {kMoveArg, 0, 2, 0}, {kMove, 9, 3, 0}, {kPeek, 2, 0, 0}},
                 {kOwn, kPoisoned, 0, kPoisoned}},
        FaultRow{
            "commuters_go_on", {{kAdd, 0, 2, 1}, {kAdd, 0, 2, 666}, {kAdd, 0, 2, 3}}, {0, kOwn, 0}},
        FaultRow{"readers_of_a_group_do_not",
                 {{kAdd, 0, 2, 666}, {kAdd, 0, 2, 3}, {kMove, 2, 3, 0}},
                 {kOwn, 0, kPoisoned}},
        FaultRow{"commuters_of_another_opcode_do_not",
                 {{kAdd, 0, 2, 666}, {kAddFrom, 1, 2, 0}, {kAdd, 0, 2, 1}},
                 {kOwn, kPoisoned, kPoisoned}},
        FaultRow{"two_opcodes_poison_for_both",
                 {{kAdd, 0, 2, 666}, {kAddFrom, 1, 2, 0}, {kAddFrom, 1, 2, 0}},
                 {kOwn, kPoisoned, kPoisoned}},
        FaultRow{"a_later_group_of_the_opcode_goes_on",
                 {{kAdd, 0, 2, 666}, {kPeek, 2, 0, 0}, {kAdd, 0, 2, 1}, {kMove, 2, 3, 0}},
                 {kOwn, kPoisoned, 0, kPoisoned}},
        FaultRow{"a_poisoned_commuter_poisons_its_readers",
                 {{kMove, 1, 3, 666}, {kAddFrom, 3, 2, 0}, {kAddFrom, 1, 2, 0}, {kPeek, 2, 0, 0}},
                 {kOwn, kPoisoned, 0, kPoisoned}}),
    [](const auto& row) { return std::string(row.param.name); });

TEST(Faults, leave_what_was_written_before_and_nothing_of_the_poisoned) {
  Runner runner;
  runner.run({{kSet, 0, 2, 50}, {kMove, 2, 3, 0}, {kScale, 0, 2, 666}, {kMove, 2, 3, 0}});
  EXPECT_EQ(runner.word(2), 50u);
  EXPECT_EQ(runner.word(3), 100u);
}

TEST(Faults, without_order_stay_alone) {
  Runner runner;
  const RunReport report =
      runner.run({{kMove, 1, 2, 666}, {kMove, 2, 3, 0}, {kSet, 0, 2, 1}}, {.ordered = false});
  EXPECT_EQ(codes_of(report), (std::vector<Word>{kOwn, 0, 0}));
}

TEST(Faults, are_counted_by_code_and_opcode) {
  Runner runner;
  const RunReport report = runner.run({{kScale, 0, 5, 666},
                                       {kMove, 1, 2, 666},
                                       {kMove, 2, 3, 0},
                                       {kScale, 0, 2, 0},
                                       {kMove, 3, 4, 0},
                                       {kMove, 1, 6, 666}},
                                      {.dedupe = false});
  ASSERT_EQ(report.faults.size(), 4u);
  const auto row = [&](std::size_t i) {
    const FaultCount& count = report.faults[i];
    return std::array<std::uint64_t, 4>{count.code, count.opcode, count.items, count.first_item};
  };
  EXPECT_EQ(row(0), (std::array<std::uint64_t, 4>{kPoisoned, kScale, 1, 3}));
  EXPECT_EQ(row(1), (std::array<std::uint64_t, 4>{kPoisoned, kMove, 2, 2}));
  EXPECT_EQ(row(2), (std::array<std::uint64_t, 4>{kOwn, kScale, 1, 0}));
  EXPECT_EQ(row(3), (std::array<std::uint64_t, 4>{kOwn, kMove, 2, 1}));
}

TEST(Faults, come_from_access_and_owners) {
  Runner runner;
  runner.add_buffer({.handle = 30, .word_count = 4, .access = memory::Access::read});
  runner.add_buffer({.handle = 31, .word_count = 4, .owner = 3});
  const Items items = {{kSet, 0, 30, 1}, {kPeek, 31, 0, 0}, {kSet, 0, 31, 5}};
  const std::vector<Origin> origins = {{.tenant = 1}, {.tenant = 2}, {.tenant = 3}};
  const RunReport report = runner.run(items, {.origins = origins});
  EXPECT_EQ(codes_of(report), (std::vector<Word>{kForbidden, kForbidden, 0}));
  EXPECT_EQ(runner.word(31), 5u);
}

TEST(Faults, of_fuel_end_one_item) {
  Runner runner({.slot_count = 8, .workgroup_size = 1, .fuel_per_item = 1000, .worker_count = 2});
  const RunReport report =
      runner.run({{kWork, 0, 2, 100}, {kWork, 0, 3, 5000}, {kWork, 0, 4, 1000}});
  EXPECT_EQ(codes_of(report), (std::vector<Word>{0, 4, 0}));
  EXPECT_EQ(runner.word(3), 3u);
  EXPECT_EQ(runner.word(4), 5u);
}

}  // namespace
}  // namespace everkernel::test
