// Section 2 of the wire format: which tenants may run, and how many items at one time.
#include "conformance/backend_suite.hpp"

namespace everkernel::conformance {
namespace {

// A tenant whose mask lies at `mask_word`, or nowhere.
struct BaseRow {
  Word base, tenant;
  Word mask_word;  // 0 = FAULT (tenant_out_of_range)
};

constexpr BaseRow kBases[] = {
    {3, 0, 3},   {3, 28, 31},  {3, 29, 0},    {3, ~0u, 0},
    {10, 0, 10}, {10, 21, 31}, {10, 22, 0},   {10, 28, 0},
    {0, 0, 0},   {0, 2, 0},    {0, 3, 3},     {0, 28, 28},
    {0, 29, 29}, {0, 31, 31},  {0, 32, 0},    {1, 2, 3},
    {1, 1, 0},   {31, 0, 31},  {31, 1, 0},    {32, 0, 0},
    {159, 0, 0}, {160, 0, 0},  {191, 0, 0},   {192, 0, 0},
    {~0u, 0, 0}, {~0u, 4, 0},  {~0u, ~0u, 0}, {0x80000000u, 0x80000003u, 0},
    {2, 0, 0},
};

// Enables only the tenant whose mask is this word; tenants 29..31 have quotas too.
void enable_word(Job& job, Word mask_word) {
  for (Word word = 3; word < 32; ++word) job.control[word] = word == mask_word ? 1 : 0;
  for (Word word = 32; word < 64; ++word) job.control[word] = 1'000'000;
}

}  // namespace

// --- the mask table ---------------------------------------------------------------------------

TEST_P(Tenants, the_mask_lies_at_base_plus_tenant_inside_the_table) {
  for (const BaseRow& row : kBases) {
    SCOPED_TRACE(testing::Message() << "base " << row.base << " tenant " << row.tenant);
    Job before = job();
    enable_word(before, row.mask_word);
    before.control[2] = row.base;
    before.put(7, {1, 1, row.tenant, 2, 5, 160});
    const Outcome after = run(before);
    ExpectedControl expected(before);
    if (row.mask_word != 0) {
      EXPECT_EQ(after.status(7), 3u);
      expected.done(row.tenant, 1).set(160, 5);
    } else {
      EXPECT_EQ(after.fault_code(7), 3u);
      expected.add(143, 1);  // FAULT_COUNT, no fairness
    }
    expected.expect(after.control);
  }
}

TEST_P(Tenants, a_mask_that_is_zero_leaves_the_slot_as_it_was_and_counts_nothing) {
  Job before = job();
  before.control[3 + 5] = 0;
  Word slot = kNormal;
  for (const Word status : {1u, 5u, 6u}) {
    before.put(slot++, {status, 1, 5, 2, 5, 160, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9});
  }
  const Outcome after = run(before);
  EXPECT_EQ(after.ring, before.ring);
  EXPECT_EQ(after.counts.remaining, 3u);
  EXPECT_EQ(after.counts.end, backend::DrainEnd::complete);
  ExpectedControl(before).expect(after.control);
}

TEST_P(Tenants, the_operator_can_be_disabled_too) {
  Job before = job();
  before.control[3] = 0;
  before.put(7, {1, 0xFFFFFFFF, 0, 2});
  before.put(8, {1, 0, 1, 2});
  const Outcome after = run(before);
  EXPECT_EQ(after.status(7), 1u);
  ExpectedControl(before).done(1, 0).expect(after.control);
}

TEST_P(Tenants, a_disabled_tenant_does_not_hold_up_the_others) {
  Job before = job();
  before.control[3 + 1] = 0;
  for (Word slot = 0; slot < 16; ++slot) before.put(slot, {1, 2, slot % 2, 2, 1, 160});
  const Outcome after = run(before);
  EXPECT_EQ(after.counts.done, 8u);
  EXPECT_EQ(after.counts.remaining, 8u);
  EXPECT_EQ(after.control[160], 8u);
  for (Word slot = 0; slot < 16; ++slot) EXPECT_EQ(after.status(slot), slot % 2 == 0 ? 3u : 1u);
}

// --- quotas -----------------------------------------------------------------------------------

TEST_P(Tenants, a_tenant_without_quota_runs_nothing) {
  Job before = job();
  before.control[32 + 5] = 0;
  before.put(7, {1, 1, 5, 2, 5, 160});
  before.put(8, {5, kCountdown, 5, 2, 0, 0, 0, 2});
  before.put(9, {1, 0, 4, 2});
  const Outcome after = run(before);
  EXPECT_EQ(after.slot(7), before.slot(7));
  EXPECT_EQ(after.slot(8), before.slot(8));
  EXPECT_EQ(after.counts.end, backend::DrainEnd::complete);
  ExpectedControl(before).done(4, 0).expect(after.control);
}

TEST_P(Tenants, no_more_items_of_a_tenant_run_at_one_time_than_its_quota) {
  for (const Word quota : {1u, 2u, 3u}) {
    SCOPED_TRACE(quota);
    const DataBuffer output = buffer(2, 3);
    Job before = job();
    before.control[32 + 7] = quota;
    for (Word slot = 0; slot < 16; ++slot) before.put(slot, {1, kCrowd, 7, 2, 0, 2, 2000});
    const Outcome after = run(before);
    EXPECT_EQ(after.counts.done, 16u);
    EXPECT_EQ(words_of(output)[0], 0u);
    EXPECT_LE(words_of(output)[1], quota);
    EXPECT_EQ(words_of(output)[2], 16u * 2000u);
    EXPECT_EQ(after.control[64 + 7] - before.control[64 + 7], 16u);
  }
}

TEST_P(Tenants, a_quota_is_given_back_by_items_that_yield_and_that_fault) {
  Job before = job();
  before.control[32 + 7] = 1;
  for (Word slot = 0; slot < 16; ++slot) {
    before.put(slot, {1, slot % 2 == 0 ? kCountdown : kRaise, 7, 2, 0, 0, 1, slot});
  }
  const Outcome after = run(before);
  EXPECT_EQ(after.counts.done, 8u);
  EXPECT_EQ(after.counts.faulted, 8u);
}

TEST_P(Tenants, quotas_of_two_tenants_are_kept_apart) {
  const DataBuffer first = buffer(1, 3);
  const DataBuffer second = buffer(2, 3);
  Job before = job();
  before.control[32 + 7] = 1;
  before.control[32 + 8] = 2;
  for (Word slot = 0; slot < 16; ++slot) {
    before.put(slot, {1, kCrowd, 7 + slot % 2, 2, 0, 1 + slot % 2, 2000});
  }
  const Outcome after = run(before);
  EXPECT_EQ(after.counts.done, 16u);
  EXPECT_LE(words_of(first)[1], 1u);
  EXPECT_LE(words_of(second)[1], 2u);
}

// --- changes while it runs --------------------------------------------------------------------

TEST_P(Tenants, the_operator_lets_a_tenant_run_in_the_same_dispatch) {
  for (const Word operator_slot : {0u, 7u, 15u}) {
    SCOPED_TRACE(operator_slot);
    Job before = job();
    before.control[3 + 5] = 0;
    for (Word slot = 0; slot < 16; ++slot) before.put(slot, {1, 2, 5, 2, 1, 160});
    before.put(operator_slot, {1, 1, 0, 2, 1, 3 + 5});
    const Outcome after = run(before);
    EXPECT_EQ(after.counts.done, 16u);
    EXPECT_EQ(after.control[160], 15u);
    EXPECT_EQ(after.control[3 + 5], 1u);
  }
}

TEST_P(Tenants, the_operator_gives_a_quota_in_the_same_dispatch) {
  Job before = job();
  before.control[32 + 5] = 0;
  for (Word slot = 0; slot < 15; ++slot) before.put(slot, {1, 2, 5, 2, 1, 160});
  before.put(15, {1, 1, 0, 2, 2, 32 + 5});
  const Outcome after = run(before);
  EXPECT_EQ(after.counts.done, 16u);
  EXPECT_EQ(after.control[160], 15u);
}

TEST_P(Tenants, an_operator_that_yields_first_still_lets_the_tenant_run) {
  // A handler of the operator's, which may write any control word.
  Job before = job();
  before.control[3 + 5] = 0;
  before.put(0, {1, 2, 5, 2, 1, 160});
  before.put(1, {1, kCountdown, 0, 2, 0, 0, 0, 50});
  before.put(2, {1, 7, 0, 2, 1, 0});
  before.put(3, {1, kPoke, 0, 2, 0, 0, 0, 3 + 5, 1});
  const Outcome after = run(before);
  EXPECT_EQ(after.counts.done, 4u);
}

TEST_P(Tenants, a_mask_table_that_moves_under_the_workers_is_never_read_outside) {
  // A worker that reads TENANT_BASE twice may check one value and use the other. The first items
  // keep all workers busy; then one item moves the table while the others run the rest.
  constexpr Word kSlots = 8192, kMover = 600;
  const Shape shape{.slot_count = kSlots, .workgroup_size = 256};
  Job before = job({.slot_count = kSlots});
  for (Word slot = 0; slot < kSlots; ++slot) {
    before.put(slot, {1, slot < kMover ? kLoop : 0u, slot % 29, 2, 0, 0, 100});
  }
  before.put(kMover, {1, kToggleBase, 0, 2, 0, 0, 100'000});
  const Outcome after = run(kernel(shape), before);
  EXPECT_EQ(after.counts.done + after.counts.faulted, kSlots);
  for (Word slot = 0; slot < kSlots; ++slot) {
    ASSERT_TRUE(after.status(slot) == 3 || after.fault_code(slot) == 3) << slot;
  }
}

TEST_P(Tenants, what_was_left_runs_in_a_later_dispatch) {
  Job before = job();
  before.control[3 + 5] = 0;
  before.put(7, {1, 1, 5, 2, 5, 160});
  before.put(8, {5, kCountdown, 5, 2, 0, 0, 0, 2});
  Job later = run(before);
  later.control[3 + 5] = 1;
  const Outcome after = run(later);
  EXPECT_EQ(after.counts.done, 2u);
  EXPECT_EQ(after.control[160], 5u);
}

}  // namespace everkernel::conformance
