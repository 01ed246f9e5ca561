// The hits and records that a run delivers: which are kept, in which order, and how many are
// dropped.
#include <algorithm>
#include <random>

#include "everkernel/backend/detail/hit_store.hpp"
#include "everkernel/memory/available.hpp"
#include "run_fixture.hpp"

namespace everkernel::test {
namespace {

using Items = std::vector<abi::WorkItem>;
using Hits = std::vector<abi::Hit>;

Hits as_vector(std::span<const abi::Hit> hits) {
  return {hits.begin(), hits.end()};
}

// The hits of `count` items of kEmit with this parameter.
Hits hits_of(Word count, Word param) {
  Hits hits;
  for (Word item = 0; item < count; ++item) {
    for (Word i = 0; i < param; ++i) hits.push_back({item, i, param, 7});
  }
  return hits;
}

// ---- the store ----

TEST(HitStore, keeps_the_first_hits_by_item_however_late_they_come) {
  for (const std::uint64_t limit : {1u, 2u, 255u, 256u, 257u, 1000u, 5999u, 6000u, 9000u}) {
    SCOPED_TRACE(limit);
    Hits all;
    for (Word item = 0; item < 2000; ++item) {
      for (Word i = 0; i < 1 + item % 5; ++i) all.push_back({item, i, item, 3});
    }
    // Items in any order; the hits of one item one after the other.
    std::vector<Word> order(2000);
    for (Word i = 0; i < order.size(); ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), std::mt19937(static_cast<unsigned>(limit)));
    memory::LargeArray<abi::Hit> memory;
    backend::HitStore store(memory, 16, limit);
    {
      backend::HitChunk chunk(&store);
      for (const Word item : order) {
        for (Word i = 0; i < 1 + item % 5; ++i) chunk.append({item, i, item, 3});
      }
      chunk.hand_in();
    }
    const Hits kept = as_vector(store.finish());
    const std::size_t expected = std::min<std::size_t>(limit, all.size());
    EXPECT_EQ(kept, Hits(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(expected)));
    EXPECT_EQ(store.dropped(), all.size() - expected);
    EXPECT_LE(memory.capacity(), limit + std::max<std::uint64_t>(limit / 8, 256));
  }
}

TEST(HitStore, counts_hits_that_never_came) {
  memory::LargeArray<abi::Hit> memory;
  backend::HitStore store(memory, 0, 10);
  store.append(Hits{{1, 0, 0, 0}});
  store.count_dropped(5);
  EXPECT_EQ(store.finish().size(), 1u);
  EXPECT_EQ(store.dropped(), 5u);
}

// ---- runs ----

TEST(Hits, come_sorted_by_item_and_in_the_order_of_the_item) {
  Runner runner;
  const RunReport report = runner.run({{kEmit, 0, 0, 2}, {kNop, 0, 0, 0}, {kEmit, 0, 0, 3}});
  const Hits expected = {{0, 0, 2, 7}, {0, 1, 2, 7}, {2, 0, 3, 7}, {2, 1, 3, 7}, {2, 2, 3, 7}};
  EXPECT_EQ(report.hits, expected);
  EXPECT_EQ(report.hits_dropped, 0u);
  EXPECT_EQ(report.telemetry.hit_capacity, planner::kMinHitCapacity);
}

TEST(Hits, without_a_capacity_are_all_kept) {
  Runner runner;
  const RunReport report = runner.run(Items(300, {kEmit, 0, 0, 1000}));
  EXPECT_EQ(report.telemetry.hit_capacity, planner::kMinHitCapacity) << "the first size";
  EXPECT_EQ(report.hits, hits_of(300, 1000));
  EXPECT_EQ(report.hits_dropped, 0u);
  EXPECT_GE(report.telemetry.estimated_peak_device_bytes, 16 * 300'000u);
}

TEST(Hits, over_the_capacity_are_counted_as_dropped) {
  Runner runner;
  const RunReport report = runner.run(Items(10, {kEmit, 0, 0, 3}), {.hit_capacity = 7});
  EXPECT_EQ(report.telemetry.hit_capacity, 7u);
  EXPECT_EQ(report.hit_limit, 7u);
  EXPECT_EQ(report.hits.size(), 7u);
  EXPECT_EQ(report.hits_dropped, 23u);
  EXPECT_TRUE(std::ranges::is_sorted(report.hits, {}, &abi::Hit::item));
  // The next run chooses its own room for hits.
  const RunReport next = runner.run(Items(10, {kEmit, 0, 0, 3}));
  EXPECT_EQ(next.hits.size(), 30u);
  EXPECT_EQ(next.hits_dropped, 0u);
}

TEST(Hits, over_the_capacity_are_those_of_the_last_items_whatever_the_timing) {
  if (is_on_cuda()) GTEST_SKIP() << "on a device the hits that come first are kept";
  Runner runner({.slot_count = 64, .workgroup_size = 1, .worker_count = 8}, R"(
    handler late = 64 {
      var x = 0;
      for i in 0 .. (7919 * param) % 3000 { x = rotl(x, 3) ^ i; }
      if x == 0xdeadbeef { fault 1; }
      emit(param, 1, 7); emit(param, 2, 7);
    })");
  Items items;
  Hits expected;
  for (Word i = 0; i < 1500; ++i) {
    items.push_back({64, 0, 0, i});
    expected.insert(expected.end(), {{i, i, 1, 7}, {i, i, 2, 7}});
  }
  for (const Word capacity : {1u, 99u, 601u}) {
    for (int i = 0; i < 5; ++i) {
      const RunReport report = runner.run(items, {.worker_count = 8, .hit_capacity = capacity});
      EXPECT_EQ(report.hits, Hits(expected.begin(), expected.begin() + capacity));
      EXPECT_EQ(report.hits_dropped, 3000 - capacity);
    }
  }
}

TEST(Hits, of_an_item_that_yields_stay_in_order) {
  Runner runner({.slot_count = 64, .workgroup_size = 1, .worker_count = 4}, R"(
    handler again = 64 {
      emit(args[3], param, 7);
      if args[3] < 5 { args[3] = args[3] + 1; yield; }
    })");
  Hits expected;
  Items items;
  for (Word item = 0; item < 200; ++item) {
    items.push_back({64, 0, 0, item});
    for (Word turn = 0; turn < 6; ++turn) expected.push_back({item, turn, item, 7});
  }
  EXPECT_EQ(runner.run(items, {.worker_count = 4}).hits, expected);
}

TEST(Hits, grow_up_to_the_memory_budget) {
  Runner runner;
  const Items items(100, {kEmit, 0, 0, 100});
  const RunReport report = runner.run(items, {.worker_count = 4, .memory_budget_bytes = 16 * 4000});
  EXPECT_EQ(report.hit_limit, 4000u) << "its items have no buffers";
  EXPECT_EQ(report.hits.size(), 4000u);
  EXPECT_EQ(report.hits_dropped, 6000u);
  if (is_on_cuda()) return;
  const Hits all = hits_of(100, 100);
  EXPECT_EQ(report.hits, Hits(all.begin(), all.begin() + 4000));
}

TEST(Hits, without_a_budget_take_an_eighth_of_the_memory_that_is_left) {
  Runner runner;
  memory::set_limit(std::uint64_t{64} << 20);
  const RunReport report = runner.run(Items(2, {kEmit, 0, 0, 3}));
  memory::set_limit(0);
  EXPECT_GE(report.hit_limit, planner::kMinHitCapacity);
  EXPECT_LE(report.hit_limit, (std::uint64_t{64} << 20) / kHitMemoryShare / planner::kHitBytes);
}

// ---- printf ----

TEST(Printf, of_a_run_is_delivered_with_its_item) {
  Runner runner({.slot_count = 64, .workgroup_size = 1, .worker_count = 4},
                "handler say = 64 { printf(param, input[0], 9); if param == 2 { printf(5, 6, 7); } "
                "}");
  const RunReport report = runner.run({{64, 3, 0, 1}, {kNop, 0, 0, 0}, {64, 4, 0, 2}});
  const std::vector<PrintRecord> expected = {{0, 1, 3, 9}, {2, 2, 4, 9}, {2, 5, 6, 7}};
  EXPECT_EQ(report.prints, expected);
  EXPECT_EQ(report.prints_dropped, 0u);
  EXPECT_TRUE(runner.run({{kNop, 0, 0, 0}}).prints.empty());
}

TEST(Printf, over_the_bound_is_counted_as_dropped) {
  Runner runner({.slot_count = 64, .workgroup_size = 1, .worker_count = 4},
                "handler say = 64 { for i in 0 .. 1000 { printf(param, i, 0); } }");
  Items items;
  for (Word i = 0; i < 70; ++i) items.push_back({64, 0, 0, i});
  const RunReport report = runner.run(items);
  EXPECT_EQ(report.prints.size() + report.prints_dropped, 70'000u);
  if (is_on_cuda()) return;
  ASSERT_EQ(report.prints.size(), kMaxRunPrints);
  for (Word i = 0; i < report.prints.size(); ++i) {
    ASSERT_EQ(report.prints[i], (PrintRecord{i / 1000, i / 1000, i % 1000, 0}));
  }
}

}  // namespace
}  // namespace everkernel::test
