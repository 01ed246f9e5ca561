// Both edges of every threshold, from every topology that the run before can have had.
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "everkernel/planner/policy.hpp"

namespace everkernel::planner {
namespace {

constexpr auto kEmpty = Topology::empty;
constexpr auto kSparse = Topology::sparse_frontier;
constexpr auto kHybrid = Topology::hybrid_frontier;
constexpr auto kDense = Topology::dense_frontier;
constexpr auto kFused = Topology::fused_dense;
constexpr auto kMemory = Topology::memory_constrained;

// A threshold for one previous topology: the last value below it, and the topologies on either
// side.
struct Edge {
  std::optional<Topology> previous;
  Word below;  // the value one up is the first above
  Topology is_below, is_above;
};

void expect_density_edge(const Edge& edge, LaunchRequest request) {
  SCOPED_TRACE(edge.previous ? std::string(topology_name(*edge.previous)) : "no previous");
  request.previous = edge.previous;
  request.density_bps = edge.below;
  EXPECT_EQ(recommend(request).topology, edge.is_below) << edge.below;
  request.density_bps = edge.below + 1;
  EXPECT_EQ(recommend(request).topology, edge.is_above) << edge.below + 1;
}

TEST(Hysteresis, sparse_is_entered_at_500_and_left_above_750_hybrid_is_left_at_250) {
  constexpr Edge kEdges[] = {
      {{}, 500, kSparse, kHybrid},      {kEmpty, 500, kSparse, kHybrid},
      {kSparse, 750, kSparse, kHybrid}, {kHybrid, 250, kSparse, kHybrid},
      {kDense, 500, kSparse, kHybrid},  {kFused, 500, kSparse, kHybrid},
      {kMemory, 500, kSparse, kHybrid},
  };
  for (const Edge& edge : kEdges) expect_density_edge(edge, {.queue_length = 1});
}

TEST(Hysteresis, dense_is_entered_at_4000_and_left_below_3750_hybrid_is_left_at_4250) {
  constexpr Edge kEdges[] = {
      {{}, 3999, kHybrid, kDense},      {kEmpty, 3999, kHybrid, kDense},
      {kSparse, 3999, kHybrid, kDense}, {kHybrid, 4249, kHybrid, kDense},
      {kDense, 3749, kHybrid, kDense},  {kFused, 3749, kHybrid, kDense},
      {kMemory, 3999, kHybrid, kDense},
  };
  for (const Edge& edge : kEdges) expect_density_edge(edge, {.queue_length = 1});
}

TEST(Hysteresis, fused_dense_is_entered_at_4000_and_left_below_3750) {
  constexpr Edge kEdges[] = {
      {{}, 3999, kHybrid, kFused},      {kEmpty, 3999, kHybrid, kFused},
      {kSparse, 3999, kHybrid, kFused}, {kHybrid, 4249, kHybrid, kFused},
      {kDense, 3749, kHybrid, kDense},  {kDense, 3999, kDense, kFused},
      {kFused, 3749, kHybrid, kFused},  {kMemory, 3999, kHybrid, kFused},
  };
  for (const Edge& edge : kEdges) {
    expect_density_edge(edge, {.queue_length = 1, .hot_opcodes = 8, .graph_edges = 65'536});
  }
}

TEST(Hysteresis, edges_and_promotion_of_fused_dense_are_not_held) {
  LaunchRequest request{
      .queue_length = 1, .hot_opcodes = 8, .graph_edges = 65'535, .previous = kFused};
  EXPECT_EQ(recommend(request).topology, kDense);
  request.graph_edges = 65'536;
  EXPECT_EQ(recommend(request).topology, kFused);
  request.hot_opcodes = 7;
  EXPECT_EQ(recommend(request).topology, kDense);
}

TEST(Hysteresis, memory_pressure_is_entered_at_8500_and_left_below_8250) {
  constexpr Edge kEdges[] = {
      {{}, 8499, kHybrid, kMemory},      {kEmpty, 8499, kHybrid, kMemory},
      {kSparse, 8499, kHybrid, kMemory}, {kHybrid, 8499, kHybrid, kMemory},
      {kDense, 8499, kHybrid, kMemory},  {kFused, 8499, kHybrid, kMemory},
      {kMemory, 8249, kHybrid, kMemory},
  };
  for (const Edge& edge : kEdges) {
    SCOPED_TRACE(edge.previous ? std::string(topology_name(*edge.previous)) : "no previous");
    LaunchRequest request{.queue_length = 1,
                          .density_bps = 1000,
                          .memory_bps = edge.below,
                          .previous = edge.previous};
    EXPECT_EQ(recommend(request).topology, edge.is_below) << edge.below;
    request.memory_bps = edge.below + 1;
    EXPECT_EQ(recommend(request).topology, edge.is_above) << edge.below + 1;
  }
}

TEST(Hysteresis, short_memory_ends_what_is_held) {
  EXPECT_EQ(
      recommend({.queue_length = 1, .density_bps = 700, .memory_bps = 8500, .previous = kSparse})
          .topology,
      kMemory);
  EXPECT_EQ(
      recommend({.queue_length = 1, .density_bps = 3800, .memory_bps = 8500, .previous = kDense})
          .topology,
      kMemory);
}

TEST(Hysteresis, held_memory_pressure_keeps_the_workers_and_hits_of_its_threshold) {
  struct Row {
    Word memory, workers, hits;
  };
  constexpr Row kRows[] = {{8249, 10'000, 6000},
                           {8250, 7500, 3000},
                           {8499, 7500, 3000},
                           {8500, 7500, 3000},
                           {8502, 7497, 3000}};
  for (const Row& row : kRows) {
    SCOPED_TRACE(row.memory);
    const LaunchPolicy policy = recommend({.queue_length = 3000,
                                           .requested_workers = 10'000,
                                           .memory_bps = row.memory,
                                           .previous = kMemory});
    EXPECT_EQ(policy.workers, row.workers);
    EXPECT_EQ(policy.hit_capacity, row.hits);
  }
}

TEST(Hysteresis, held_sparse_takes_no_worker_away) {
  for (const Word density : {500u, 501u, 750u}) {
    SCOPED_TRACE(density);
    const LaunchPolicy policy = recommend({.queue_length = 1,
                                           .requested_workers = 1000,
                                           .density_bps = density,
                                           .previous = kSparse});
    EXPECT_EQ(policy.topology, kSparse);
    EXPECT_EQ(policy.workers, 1000u);
  }
}

TEST(Hysteresis, an_empty_queue_holds_nothing) {
  for (const Topology previous : {kEmpty, kSparse, kHybrid, kDense, kFused, kMemory}) {
    EXPECT_EQ(recommend({.memory_bps = 9000, .previous = previous}).topology, kEmpty);
  }
}

}  // namespace
}  // namespace everkernel::planner
