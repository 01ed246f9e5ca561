// Section 5 of the wire format: batch fences.
#include "conformance/backend_suite.hpp"

namespace everkernel::conformance {
namespace {

constexpr Word kFence = 7;

}  // namespace

TEST_P(Fences, a_fence_stores_its_tag_and_counts_an_epoch) {
  Job before = job();
  before.put(7, {1, 2, 3, 2, 1, 161});
  before.put(8, {1, kFence, 3, 2, 1, 77});
  const Outcome after = run(before);
  EXPECT_EQ(after.slot(8), (SlotWords{3, kFence, 3, 2, 1, 77}));
  ExpectedControl(before).done(3, 2).done(3, kFence).add(161, 1).set(160, 77).add(128, 1).expect(
      after.control);
}

TEST_P(Fences, a_fence_without_an_observable_keeps_its_tag_to_itself) {
  Job before = job({.observables = 0});
  before.put(8, {1, kFence, 0, 2, 0, 77});
  const Outcome after = run(before);
  EXPECT_EQ(after.status(8), 3u);
  ExpectedControl(before).done(0, kFence).add(128, 1).expect(after.control);
}

TEST_P(Fences, a_fence_reaches_back_to_slot_0_and_no_further) {
  struct Row {
    Word slot, count;
    bool is_bad;
  };
  for (const Row& row : {Row{0, 0, false}, Row{0, 1, true}, Row{0, 0xFFFFFFFF, true},
                         Row{3, 0, false}, Row{3, 3, false}, Row{3, 4, true}, Row{15, 15, false},
                         Row{15, 16, true}, Row{15, 0x80000000, true}, Row{1, 0xFFFFFFFF, true}}) {
    SCOPED_TRACE(testing::Message() << "slot " << row.slot << " count " << row.count);
    Job before = job();
    before.put(row.slot, {1, kFence, 0, 2, row.count, 77});
    const Outcome after = run(before);
    EXPECT_EQ(after.slot(row.slot), (SlotWords{row.is_bad ? 7u : 3u, kFence, 0,
                                               row.is_bad ? 0x00070002u : 2u, row.count, 77}));
    EXPECT_EQ(after.control[128] - before.control[128], row.is_bad ? 0u : 1u);
    EXPECT_EQ(after.control[160], row.is_bad ? 0u : 77u);
  }
}

TEST_P(Fences, a_fence_waits_for_items_that_yield) {
  // Every item notes the epoch of its last run: the fence must not have completed before it.
  const DataBuffer output = buffer(2, 16);
  Job before = job();
  for (Word slot = 0; slot < 9; ++slot) {
    before.put(slot, {1, kEpochAtEnd, slot, 2, 0, 2, 0, 3 * slot});
  }
  before.put(9, {1, kFence, 0, 2, 9, 5});
  const Outcome after = run(before);
  EXPECT_EQ(after.counts.done, 10u);
  EXPECT_EQ(after.control[128], counter_start() + 1);
  EXPECT_EQ(after.control[160], 5u);
  std::vector<Word> expected(16);
  std::fill_n(expected.begin(), 9, counter_start());
  EXPECT_EQ(words_of(output), expected);
}

TEST_P(Fences, a_fence_that_is_put_back_counts_no_fairness) {
  Job before = job();
  before.put(6, {1, kCountdown, 0, 2, 0, 0, 0, 9});
  before.put(7, {1, kFence, 1, 2, 1, 77});
  const Outcome after = run(before);
  ExpectedControl(before)
      .done(0, kCountdown)
      .claims(0, 2, 9)
      .done(1, kFence)
      .add(128, 1)
      .set(160, 77)
      .expect(after.control);
}

TEST_P(Fences, slots_that_ended_or_are_empty_hold_no_fence_up) {
  Job before = job();
  before.put(6, {3, 0, 0, 2});
  before.put(7, {7, 9, 0, 0x00010002});
  before.put(8, {0, 0, 0, 0});
  before.put(9, {1, kFence, 0, 2, 9, 77});
  const Outcome after = run(before);
  EXPECT_EQ(after.status(9), 3u);
  EXPECT_EQ(after.control[128] - before.control[128], 1u);
}

TEST_P(Fences, a_fence_completes_behind_an_item_that_faults) {
  Job before = job();
  before.put(6, {1, 9999, 0, 2});
  before.put(7, {1, kRaise, 0, 2, 0, 0, 4});
  before.put(8, {1, kFence, 0, 2, 2, 77});
  const Outcome after = run(before);
  EXPECT_EQ(after.counts.faulted, 2u);
  EXPECT_EQ(after.status(8), 3u);
  EXPECT_EQ(after.control[160], 77u);
}

TEST_P(Fences, a_fence_behind_a_slot_that_cannot_run_is_left_as_yield) {
  struct Row {
    std::string_view name;
    SlotWords slot;
  };
  const Row rows[] = {{"disabled tenant", {1, 0, 5, 2}},
                      {"tenant without quota", {1, 0, 6, 2}},
                      {"claimed by nobody here", {2, 0, 0, 2}},
                      {"unknown status", {99, 0, 0, 2}},
                      {"waits for IO", {1, 0xFFFD, 0, 2, 3}}};
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    Job before = job();
    before.control[3 + 5] = 0;
    before.control[32 + 6] = 0;
    before.put(6, row.slot);
    before.put(7, {1, 0, 0, 2});
    before.put(8, {1, kFence, 0, 2, 2, 77});
    before.put(9, {1, 0, 0, 2});
    const Outcome after = run(before);
    EXPECT_EQ(after.slot(8), (SlotWords{5, kFence, 0, 2, 2, 77}));
    EXPECT_EQ(after.counts.done, 2u);
    EXPECT_EQ(after.control[128], before.control[128]);
    EXPECT_EQ(after.control[160], 0u);
    EXPECT_EQ(after.counts.end, backend::DrainEnd::complete);
  }
}

TEST_P(Fences, a_fence_that_cannot_complete_leaves_its_tenants_quota_to_others) {
  // One worker may look at several slots at one time, of which the fence is the first.
  Job before = job();
  before.control[3 + 20] = 0;
  before.control[32 + 5] = 1;
  for (const Word slot : {0u, 1u, 3u}) before.put(slot, {1, 0, 20, 2});  // stay PUBLISHED
  before.put(6, {2, 0, 0, 2});  // claimed by another worker
  before.put(7, {1, kFence, 5, 2, 1, 77});
  before.put(8, {1, 0, 5, 2});
  const Outcome after = run(before);
  EXPECT_EQ(after.status(7), 5u);
  EXPECT_EQ(after.status(8), 3u);
  EXPECT_EQ(after.counts.done, 1u);
  EXPECT_EQ(after.counts.remaining, 5u);
}

TEST_P(Fences, a_fence_that_was_left_completes_in_a_later_dispatch) {
  Job before = job();
  before.control[3 + 5] = 0;
  before.put(6, {1, 2, 5, 2, 1, 161});
  before.put(7, {1, kFence, 0, 2, 1, 77});
  Job later = run(before);
  EXPECT_EQ(later.status(7), 5u);
  later.control[3 + 5] = 1;
  const Outcome after = run(later);
  EXPECT_EQ(after.counts.done, 2u);
  EXPECT_EQ(after.control[160], 77u);
  EXPECT_EQ(after.control[128], counter_start() + 1);
}

TEST_P(Fences, a_fence_of_a_disabled_tenant_is_left_as_it_was) {
  Job before = job();
  before.control[3 + 5] = 0;
  before.put(8, {1, kFence, 5, 2, 0, 77});
  const Outcome after = run(before);
  EXPECT_EQ(after.ring, before.ring);
  ExpectedControl(before).expect(after.control);
}

TEST_P(Fences, fences_inside_a_batch_complete_first) {
  Job before = job();
  before.put(0, {1, kCountdown, 0, 2, 0, 0, 0, 5});
  before.put(1, {1, kFence, 0, 2, 1, 11});
  before.put(2, {1, kCountdown, 0, 2, 0, 0, 0, 2});
  before.put(3, {1, kFence, 0, 2, 3, 22});
  const Outcome after = run(before);
  EXPECT_EQ(after.counts.done, 4u);
  EXPECT_EQ(after.control[128], counter_start() + 2);
  EXPECT_EQ(after.control[160], 22u);
}

TEST_P(Fences, a_ring_of_fences_completes_from_its_first_to_its_last) {
  Job before = job();
  before.put(0, {1, kCountdown, 0, 2, 0, 0, 0, 3});
  for (Word slot = 1; slot < 16; ++slot) before.put(slot, {1, kFence, slot, 2, slot, slot});
  const Outcome after = run(before);
  EXPECT_EQ(after.counts.done, 16u);
  EXPECT_EQ(after.control[128], counter_start() + 15);
  EXPECT_EQ(after.control[160], 15u);
}

TEST_P(Fences, a_fence_of_a_large_batch_sees_every_item) {
  const Shape shape{.slot_count = 1024, .workgroup_size = 256};
  Job before = job({.slot_count = 1024});
  for (Word slot = 0; slot < 1023; ++slot) before.put(slot, {1, 2, slot % 29, 2, 1, 161});
  before.put(500, {1, kCountdown, 0, 2, 0, 0, 0, 20});
  before.put(1023, {1, kFence, 0, 2, 1023, 9});
  const Outcome after = run(kernel(shape), before);
  EXPECT_EQ(after.counts.done, 1024u);
  EXPECT_EQ(after.control[160], 9u);
  EXPECT_EQ(after.control[161], 1022u);
}

}  // namespace everkernel::conformance
