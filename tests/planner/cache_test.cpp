// The cache of recommendations: its counts, and which entries it keeps and drops.
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "everkernel/planner/policy.hpp"

namespace everkernel::planner {
namespace {

// Asks for queues of first … last items.
void ask(PolicyCache& cache, std::uint64_t first, std::uint64_t last) {
  for (std::uint64_t length = first; length <= last; ++length) {
    (void)cache.recommend({.queue_length = length});
  }
}

// Whether the cache knows a queue of this length. The request itself makes it known.
bool knows(PolicyCache& cache, std::uint64_t length) {
  const std::uint64_t hits = cache.hits();
  (void)cache.recommend({.queue_length = length});
  return cache.hits() == hits + 1;
}

TEST(PolicyCache, is_empty_at_first) {
  const PolicyCache cache;
  EXPECT_EQ(cache.hits(), 0u);
  EXPECT_EQ(cache.misses(), 0u);
  EXPECT_EQ(cache.size(), 0u);
}

TEST(PolicyCache, counts_a_miss_then_hits) {
  PolicyCache cache;
  const LaunchRequest request{.queue_length = 100, .requested_workers = 7};
  const LaunchPolicy first = cache.recommend(request);
  EXPECT_EQ(cache.hits(), 0u);
  EXPECT_EQ(cache.misses(), 1u);
  EXPECT_EQ(cache.recommend(request), first);
  EXPECT_EQ(cache.recommend(request), first);
  EXPECT_EQ(cache.hits(), 2u);
  EXPECT_EQ(cache.misses(), 1u);
  EXPECT_EQ(cache.size(), 1u);
  EXPECT_EQ(first.workers, 7u);
}

TEST(PolicyCache, every_field_of_a_request_counts) {
  const std::vector<LaunchRequest> requests = {
      {},
      {.queue_length = 1},
      {.requested_workers = 1},
      {.possible_workers = 1},
      {.requested_workgroup = 1},
      {.hot_opcodes = 1},
      {.hot_windows = 1},
      {.graph_nodes = 1},
      {.graph_edges = 1},
      {.density_bps = 0},
      {.density_bps = 1},
      {.memory_bps = 0},
      {.memory_bps = 1},
      {.resident_bytes = 1},
      {.budget_bytes = 1},
      {.hit_capacity = 1},
      {.expected_hits_per_item = 1},
      {.requeued_items = 1},
      {.longest_wait_turns = 1},
      {.previous = Topology::empty},
      {.previous = Topology::sparse_frontier},
  };
  for (const LaunchRequest& request : requests) {
    // With a good hash, a comparison that forgets a field goes unnoticed, so it is tested directly.
    EXPECT_EQ(std::count(requests.begin(), requests.end(), request), 1);
  }
  PolicyCache cache;
  for (const LaunchRequest& request : requests) {
    EXPECT_EQ(cache.recommend(request), recommend(request));
  }
  EXPECT_EQ(cache.hits(), 0u);
  EXPECT_EQ(cache.misses(), 21u);
  for (const LaunchRequest& request : requests) {
    EXPECT_EQ(cache.recommend(request), recommend(request));
  }
  EXPECT_EQ(cache.hits(), 21u);
  EXPECT_EQ(cache.misses(), 21u);
}

TEST(PolicyCache, holds_128) {
  PolicyCache cache;
  ask(cache, 1, 128);
  EXPECT_EQ(cache.size(), 128u);
  ask(cache, 1, 128);
  EXPECT_EQ(cache.hits(), 128u);
  EXPECT_EQ(cache.misses(), 128u);
}

TEST(PolicyCache, the_129th_replaces_the_least_recently_used) {
  PolicyCache cache;
  ask(cache, 1, 129);
  EXPECT_EQ(cache.size(), 128u);
  EXPECT_EQ(cache.misses(), 129u);
  ask(cache, 2, 129);
  EXPECT_EQ(cache.hits(), 128u);
  EXPECT_FALSE(knows(cache, 1));
  EXPECT_EQ(cache.size(), 128u);
}

TEST(PolicyCache, a_hit_makes_its_entry_the_most_recent) {
  PolicyCache cache;
  ask(cache, 1, 128);
  ask(cache, 1, 1);
  ask(cache, 3, 3);
  ask(cache, 129, 130);  // evicts 2 and 4
  EXPECT_TRUE(knows(cache, 1));
  EXPECT_TRUE(knows(cache, 3));
  EXPECT_TRUE(knows(cache, 5));
  EXPECT_TRUE(knows(cache, 130));
  EXPECT_FALSE(knows(cache, 2));
}

TEST(PolicyCache, a_second_entry_leaves_in_its_turn) {
  PolicyCache cache;
  ask(cache, 1, 128);
  ask(cache, 1, 1);
  ask(cache, 3, 3);
  ask(cache, 129, 130);
  EXPECT_FALSE(knows(cache, 4));
}

TEST(PolicyCache, moves_with_what_it_knows) {
  PolicyCache cache;
  ask(cache, 1, 128);
  PolicyCache moved = std::move(cache);
  EXPECT_EQ(moved.size(), 128u);
  EXPECT_TRUE(knows(moved, 1));
  ask(moved, 129, 129);
  EXPECT_FALSE(knows(moved, 2));
}

}  // namespace
}  // namespace everkernel::planner
