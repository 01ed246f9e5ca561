// Where waves begin: runs so small that their bytes can be added up by hand.
#include "planner/waves.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "support/results.hpp"

namespace everkernel::planner {
namespace {

using backend::kDroppedPlace;
using test::code_of;
using test::message_of;

constexpr std::uint64_t kMaxLong = 0xFFFFFFFFFFFFFFFFu;
constexpr std::uint8_t kDrop = kDroppedPlace;

// A run with handle h at place h; buffer h has bytes[h] bytes.
struct Planned {
  std::vector<abi::WorkItem> items = {};
  std::vector<std::uint8_t> places = {};
  std::vector<std::uint64_t> bytes = {};
  std::uint64_t budget = 0;
  std::uint64_t fixed = 0;
  std::vector<Word> order = {};
  std::vector<backend::Node> nodes = {};
  std::vector<Word> keys = {};
};

Result<std::vector<Word>> split(const Planned& run) {
  auto waves = EVERKERNEL_TRY(split_waves({.items = run.items,
                                           .places = run.places,
                                           .nodes = run.nodes,
                                           .order = run.order,
                                           .handles = {.keys = run.keys, .count = run.bytes.size()},
                                           .handle_bytes = run.bytes,
                                           .budget_bytes = run.budget,
                                           .fixed_bytes = run.fixed}));
  return std::move(waves.begins);
}

// Four items of their own, 10 bytes in and 10 bytes out each, no buffer shared.
Planned four_apart() {
  return {.items = {{64, 1, 2, 0}, {64, 3, 4, 0}, {64, 5, 6, 0}, {64, 7, 8, 0}},
          .places = {0, 0, 0, 0},
          .bytes = {0, 10, 10, 10, 10, 10, 10, 10, 10}};
}

// Items 0 → 1 → 2 are a region, 3 is another; 2 and 3 wait for nothing together.
Planned chain_and_one() {
  return {.items = {{64, 1, 2, 0}, {64, 2, 3, 0}, {64, 3, 4, 0}, {64, 5, 6, 0}},
          .places = {0, 1, 2, 0},
          .bytes = {0, 10, 10, 10, 10, 10, 10},
          .nodes = {{1}, {2}, {}, {}}};
}

TEST(Waves, fill_up_to_the_budget) {
  struct Row {
    const char* name;
    std::uint64_t budget, fixed;
    std::vector<Word> begins;
  };
  const Row kRows[] = {
      {"no budget", 0, 0, {0}},
      {"no budget, much fixed", 0, kMaxLong, {0}},
      {"all at once", 80, 0, {0}},
      {"a byte short of all", 79, 0, {0, 3}},
      {"three", 60, 0, {0, 3}},
      {"a byte short of three", 59, 0, {0, 2}},
      {"two", 40, 0, {0, 2}},
      {"a byte short of two", 39, 0, {0, 1, 2, 3}},
      {"one", 20, 0, {0, 1, 2, 3}},
      {"fixed bytes count in every wave", 45, 5, {0, 2}},
      {"one fixed byte too many", 45, 6, {0, 1, 2, 3}},
      {"most", kMaxLong, 0, {0}},
  };
  for (const Row& row : kRows) {
    SCOPED_TRACE(row.name);
    Planned run = four_apart();
    run.budget = row.budget;
    run.fixed = row.fixed;
    const auto begins = split(run);
    ASSERT_TRUE(begins);
    EXPECT_EQ(*begins, row.begins);
  }
}

TEST(Waves, without_items_there_are_none) {
  const auto begins = split({.budget = 1, .fixed = 2});
  ASSERT_TRUE(begins);
  EXPECT_TRUE(begins->empty());
}

TEST(Waves, a_buffer_counts_once_a_wave_and_again_in_the_next) {
  Planned run{.items = {{64, 1, 2, 0}, {64, 1, 3, 0}, {64, 1, 1, 0}, {64, 4, 1, 0}, {64, 1, 5, 0}},
              .places = {0, 0, 0, 0, 0},
              .bytes = {0, 100, 10, 10, 10, 10}};
  run.budget = 120;  // 1 2 3 | 1 4 5
  auto begins = split(run);
  ASSERT_TRUE(begins);
  EXPECT_EQ(*begins, (std::vector<Word>{0, 3}));
  run.budget = 110;  // 1 2 | 1 3, 1 | 1 4 | 1 5
  begins = split(run);
  ASSERT_TRUE(begins);
  EXPECT_EQ(*begins, (std::vector<Word>{0, 1, 3, 4}));
}

TEST(Waves, a_region_stays_whole) {
  Planned run = chain_and_one();
  run.budget = 40;
  auto begins = split(run);
  ASSERT_TRUE(begins);
  EXPECT_EQ(*begins, (std::vector<Word>{0, 3}));
  run.budget = 60;
  begins = split(run);
  ASSERT_TRUE(begins);
  EXPECT_EQ(*begins, (std::vector<Word>{0}));
}

TEST(Waves, a_region_ends_where_its_chain_does) {
  // The budget holds one item. Were the region of item 0 any longer, nothing would fit.
  struct Row {
    const char* name;
    std::vector<std::uint8_t> places;
    std::vector<backend::Node> nodes;
    std::vector<Word> begins;
  };
  const Row kRows[] = {
      {"no edges at all", {0, 0, 0}, {}, {0, 1, 2}},
      {"a waiter that begins a region", {0, 0, 0}, {{1}, {}, {}}, {0, 1, 2}},
      {"a join", {0, 0, 0}, {{3}, {}, {}}, {0, 1, 2}},
      {"two waiters", {0, 1, 0}, {{1 | backend::kMany, 0}, {}, {}}, {0, 2}},
      {"a dropped waiter", {0, kDrop, 0}, {{1}, {}, {}}, {0, 2}},
  };
  for (const Row& row : kRows) {
    SCOPED_TRACE(row.name);
    const auto begins = split({.items = {{64, 1, 2, 0}, {64, 3, 4, 0}, {64, 5, 6, 0}},
                               .places = row.places,
                               .bytes = {0, 20, 20, 20, 20, 20, 20},
                               .budget = 40,
                               .nodes = row.nodes});
    ASSERT_TRUE(begins) << message_of(begins);
    EXPECT_EQ(*begins, row.begins);
  }
}

TEST(Waves, begins_are_places_in_the_order) {
  Planned run = chain_and_one();
  run.order = {3, 0};
  run.budget = 40;
  const auto begins = split(run);
  ASSERT_TRUE(begins);
  EXPECT_EQ(*begins, (std::vector<Word>{0, 1}));
}

TEST(Waves, dropped_items_weigh_nothing) {
  Planned run = four_apart();
  run.places = {0, kDrop, kDrop, 0};
  run.budget = 40;
  const auto begins = split(run);
  ASSERT_TRUE(begins);
  EXPECT_EQ(*begins, (std::vector<Word>{0}));
}

TEST(Waves, nop_and_unknown_handles_weigh_nothing) {
  Planned run{.items = {{64, 1, 1, 0}, {0, 2, 2, 0}, {64, 0, 99, 0}, {64, 0, 0xFFFFFFFF, 0}},
              .places = {0, 0, 0, 0},
              .bytes = {1000, 10, 1000},
              .budget = 10};
  const auto begins = split(run);
  ASSERT_TRUE(begins);
  EXPECT_EQ(*begins, (std::vector<Word>{0}));
}

TEST(Waves, handles_are_found_in_a_table) {
  Planned run{.items = {{64, 0x80000000, 7, 0}, {64, 7, 0xABCDEF, 0}, {64, 5, 0, 0}},
              .places = {0, 0, 0},
              .bytes = std::vector<std::uint64_t>(4, 1000),
              .keys = {0, 0, 0, 0}};
  const auto put = [&run](Word handle, std::uint64_t bytes) {
    std::size_t at = backend::HandlePlaces::home(handle, 3);
    while (run.keys[at] != 0) at = (at + 1) & 3;
    run.keys[at] = handle;
    run.bytes[at] = bytes;
  };
  put(0x80000000, 30);
  put(7, 20);
  put(0xABCDEF, 10);
  run.budget = 60;
  auto begins = split(run);
  ASSERT_TRUE(begins);
  EXPECT_EQ(*begins, (std::vector<Word>{0}));
  run.budget = 59;
  begins = split(run);
  ASSERT_TRUE(begins);
  EXPECT_EQ(*begins, (std::vector<Word>{0, 1}));
  put(9, 5);  // full: the search for handle 5 still ends
  begins = split(run);
  ASSERT_TRUE(begins);
  EXPECT_EQ(*begins, (std::vector<Word>{0, 1}));
}

TEST(Waves, what_does_not_fit_alone_is_refused_with_its_numbers) {
  struct Row {
    const char* name;
    Planned run;
    const char* message;
  };
  Planned first = four_apart();
  first.budget = 19;
  Planned last = four_apart();
  last.bytes[8] = 4096;
  last.budget = 100;
  last.fixed = 4;
  Planned fixed = four_apart();
  fixed.budget = 19;
  fixed.fixed = 100;
  Planned inner = chain_and_one();
  inner.bytes[4] = 8182;
  inner.budget = 4096;
  Planned region = chain_and_one();
  region.budget = 39;
  Planned later_region = chain_and_one();
  later_region.order = {3, 0};
  later_region.budget = 39;
  Planned most = four_apart();
  most.bytes[3] = kMaxLong;
  most.budget = kMaxLong - 1;
  const Row kRows[] = {
      {"the first", first, "run: item 0 needs 20 bytes with its buffers, the budget is 19"},
      {"the last", last,
       "run: item 3 needs 4110 bytes with its buffers and room for hits, the budget is 100"},
      {"fixed bytes", fixed,
       "run: item 0 needs 120 bytes with its buffers and room for hits, the budget is 19"},
      {"in a region", inner, "run: item 2 needs 8192 bytes with its buffers, the budget is 4096"},
      {"a region", region,
       "run: the region of item 0 needs 40 bytes with its buffers, the budget is 39"},
      {"a region in a later wave", later_region,
       "run: the region of item 0 needs 40 bytes with its buffers, the budget is 39"},
      {"more bytes than there are", most,
       "run: item 1 needs 18446744073709551615 bytes with its buffers, the budget is "
       "18446744073709551614"},
  };
  for (const Row& row : kRows) {
    SCOPED_TRACE(row.name);
    const auto begins = split(row.run);
    EXPECT_EQ(code_of(begins), Code::invalid_argument);
    EXPECT_EQ(message_of(begins), row.message);
  }
}

TEST(Waves, the_largest_says_how_much_it_needs) {
  const Planned run = four_apart();
  std::vector<std::uint64_t> bytes = run.bytes;
  bytes[3] = 15;
  const auto waves = split_waves({.items = run.items,
                                  .places = run.places,
                                  .handles = {.keys = {}, .count = bytes.size()},
                                  .handle_bytes = bytes,
                                  .budget_bytes = 45,
                                  .fixed_bytes = 7});
  ASSERT_TRUE(waves);
  EXPECT_EQ(waves->begins, (std::vector<Word>{0, 1, 2, 3}));
  EXPECT_EQ(waves->largest_bytes, 32u);
}

TEST(Waves, an_endless_chain_ends_after_64_items) {
  // No plan has these places; a caller that makes them gets a result nevertheless.
  const auto begins = split({.items = {{64, 1, 2, 0}, {64, 3, 4, 0}},
                             .places = {0, 1},
                             .bytes = {0, 10, 10, 10, 10},
                             .budget = 40,
                             .nodes = {{1}, {1}}});
  ASSERT_TRUE(begins);
  EXPECT_EQ(*begins, (std::vector<Word>{0}));
}

}  // namespace
}  // namespace everkernel::planner
