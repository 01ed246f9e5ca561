// Random requests: decisions stay within their limits and do not oscillate, and the cache changes
// no decision.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <deque>
#include <optional>

#include "everkernel/planner/policy.hpp"
#include "property/generators.hpp"

namespace everkernel::planner {
namespace {

std::uint64_t any_long() {
  return *rc::gen::oneOf(
      rc::gen::map(test::edge_word(), [](Word word) { return std::uint64_t{word}; }),
      rc::gen::map(test::edge_word(), [](Word word) { return ~std::uint64_t{word}; }),
      rc::gen::inRange<std::uint64_t>(0, 10'000), rc::gen::arbitrary<std::uint64_t>());
}

// Basis points at both sides of every threshold and band, absent, and anything.
std::optional<Word> any_bps() {
  if (*rc::gen::inRange(0, 4) == 0) return std::nullopt;
  return *rc::gen::oneOf(
      rc::gen::element<Word>(0, 1, 499, 500, 501, 749, 750, 751, 3749, 3750, 3751, 3999, 4000, 4001,
                             8249, 8250, 8251, 8499, 8500, 8501, 9999, 10'000, 10'001),
      rc::gen::inRange<Word>(0, 10'002), test::edge_word());
}

std::optional<Topology> any_previous() {
  const Word topology = *rc::gen::inRange<Word>(0, 7);
  if (topology == 6) return std::nullopt;
  return static_cast<Topology>(topology);
}

LaunchRequest any_request() {
  LaunchRequest request;
  request.queue_length = any_long();
  request.requested_workers = *test::edge_word();
  request.possible_workers = *test::edge_word();
  request.requested_workgroup = *test::edge_word();
  request.hot_opcodes = *test::mostly_below(12);
  request.hot_windows = *test::mostly_below(6);
  request.graph_nodes = any_long();
  request.graph_edges = any_long();
  request.density_bps = any_bps();
  request.memory_bps = any_bps();
  request.resident_bytes = any_long();
  request.budget_bytes = any_long();
  request.hit_capacity = *rc::gen::oneOf(rc::gen::just<Word>(0), test::edge_word());
  request.expected_hits_per_item = *test::edge_word();
  request.requeued_items = *rc::gen::element<std::uint64_t>(0, 0, 1, ~std::uint64_t{0});
  request.longest_wait_turns = *test::edge_word();
  request.previous = any_previous();
  return request;
}

RC_GTEST_PROP(LaunchPolicyProperty, answers_stay_within_their_limits, ()) {
  const LaunchRequest request = any_request();
  const LaunchPolicy policy = recommend(request);
  const bool is_empty = request.queue_length == 0;
  RC_ASSERT(policy.density_bps <= 10'000u);
  RC_ASSERT(policy.density_bps >= 1u || request.density_bps == Word{0});
  RC_ASSERT(policy.memory_bps <= 10'000u);
  RC_ASSERT((policy.topology == Topology::empty) == is_empty);
  RC_ASSERT((policy.pressure == Pressure::empty) == is_empty);
  RC_ASSERT((policy.workers == 0) == is_empty);
  RC_ASSERT(policy.workers <= (request.requested_workers == 0 ? 64 : request.requested_workers));
  RC_ASSERT(request.possible_workers == 0 || policy.workers <= request.possible_workers);
  RC_ASSERT(policy.workgroup >= 32u && policy.workgroup <= 1024u);
  RC_ASSERT(policy.groups >= 1u && policy.groups <= 1024u);
  const std::uint64_t covered = std::uint64_t{policy.groups} * policy.workgroup;
  RC_ASSERT(covered >= policy.workers || policy.groups == 1024u);
  RC_ASSERT(covered < std::uint64_t{policy.workers} + policy.workgroup || policy.groups == 1u);
  const Word asked = request.hit_capacity;
  RC_ASSERT((asked == 0 ? policy.hit_capacity >= 1024 : policy.hit_capacity == asked));
  RC_ASSERT(policy.peak_bytes >= request.resident_bytes);
  RC_ASSERT(policy.peak_bytes >= std::uint64_t{policy.hit_capacity} * 16);
  RC_ASSERT(policy.topology != Topology::fused_dense || policy.execution == Execution::native);
}

RC_GTEST_PROP(LaunchPolicyProperty, the_same_request_keeps_its_topology, ()) {
  LaunchRequest request = any_request();
  const LaunchPolicy first = recommend(request);
  request.previous = first.topology;
  RC_ASSERT(recommend(request) == first);
}

RC_GTEST_PROP(LaunchPolicyProperty, more_memory_pressure_means_no_more_workers, ()) {
  LaunchRequest request = any_request();
  const Word lower = *rc::gen::inRange<Word>(0, 10'001);
  const Word higher = *rc::gen::inRange<Word>(lower, 10'001);
  request.memory_bps = lower;
  const Word workers = recommend(request).workers;
  request.memory_bps = higher;
  RC_ASSERT(recommend(request).workers <= workers);
}

// The model: the requests in the order of their use, longest ago first.
RC_GTEST_PROP(PolicyCacheProperty, answers_as_without_it_and_forgets_the_oldest, ()) {
  PolicyCache cache;
  std::deque<std::uint64_t> known;
  std::uint64_t hits = 0;
  const auto lengths =
      *rc::gen::container<std::vector<std::uint64_t>>(400, rc::gen::inRange<std::uint64_t>(0, 140));
  for (const std::uint64_t length : lengths) {
    const LaunchRequest request{.queue_length = length};
    RC_ASSERT(cache.recommend(request) == recommend(request));
    const auto found = std::find(known.begin(), known.end(), length);
    if (found != known.end()) {
      ++hits;
      known.erase(found);
    }
    known.push_back(length);
    if (known.size() > 128) known.pop_front();
  }
  RC_ASSERT(cache.hits() == hits);
  RC_ASSERT(cache.misses() == 400 - hits);
  RC_ASSERT(cache.size() == known.size());
}

}  // namespace
}  // namespace everkernel::planner
