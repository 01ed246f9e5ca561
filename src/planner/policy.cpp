// The launch policy: thresholds, formulae, hysteresis, and a small cache of answers.
#include "everkernel/planner/policy.hpp"

#include <algorithm>
#include <limits>

#include "base/checked.hpp"

namespace everkernel::planner {
namespace {

constexpr Word kFullBps = 10'000;
__extension__ using Wide = unsigned __int128;

// value × part / whole rounded down, for part <= whole: never more than the value.
Word scaled(Word value, Word part, Word whole) {
  return static_cast<Word>(std::uint64_t{value} * part / whole);
}

Word density_of(const LaunchRequest& request) {
  if (request.density_bps) return std::min(*request.density_bps, kFullBps);
  const std::uint64_t nodes = request.graph_nodes;
  if (nodes == 0) return request.queue_length > 0 ? kFullBps : 1;
  return std::max<Word>(scaled_ratio(std::min(request.queue_length, nodes), nodes, kFullBps), 1);
}

Word memory_of(const LaunchRequest& request) {
  if (request.memory_bps) return std::min(*request.memory_bps, kFullBps);
  return scaled_ratio(request.resident_bytes, request.budget_bytes, kFullBps);
}

// Each threshold next to the previous topology moves by the hysteresis, in favour of that topology.
Topology topology_of(const LaunchRequest& request, const LaunchPolicy& policy) {
  const auto held_by = [&request](Topology topology) {
    return request.previous == topology ? kHysteresisBps : 0;
  };
  const Word hybrid = held_by(Topology::hybrid_frontier);
  const Word fused = held_by(Topology::fused_dense);
  if (request.queue_length == 0) return Topology::empty;
  if (policy.memory_bps >= kMemoryPressureBps - held_by(Topology::memory_constrained)) {
    return Topology::memory_constrained;
  }
  if (policy.density_bps <= kSparseBps + held_by(Topology::sparse_frontier) - hybrid) {
    return Topology::sparse_frontier;
  }
  const Word dense = kDenseBps + hybrid - held_by(Topology::dense_frontier) - fused;
  if (policy.density_bps < dense) return Topology::hybrid_frontier;
  const bool may_fuse = request.graph_edges >= kFusedDenseEdges && policy.promoted;
  const bool is_fused = may_fuse && policy.density_bps >= kDenseBps - fused;
  return is_fused ? Topology::fused_dense : Topology::dense_frontier;
}

Word workers_of(const LaunchRequest& request, const LaunchPolicy& policy) {
  if (policy.topology == Topology::empty) return 0;
  Word workers = request.requested_workers == 0 ? kDefaultWorkers : request.requested_workers;
  if (request.possible_workers > 0) workers = std::min(workers, request.possible_workers);
  if (policy.topology == Topology::memory_constrained) {
    // If hysteresis holds the topology below the threshold, the threshold counts as the pressure.
    const Word over = std::max(policy.memory_bps, kMemoryPressureBps) - kMemoryPressureBps;
    const Word shed = kShedBps + scaled(kShedRiseBps, over, kFullBps - kMemoryPressureBps);
    workers = std::max<Word>(scaled(workers, kFullBps - shed, kFullBps), 1);
  }
  if (policy.density_bps <= kSparseBps) {
    const Word reduced = scaled(workers, std::max<Word>(policy.density_bps, 1), kSparseBps);
    workers = std::max(reduced, std::min(workers, kSparseWorkers));
  }
  return workers;
}

Word groups_of(const LaunchPolicy& policy) {
  const Word whole = policy.workers / policy.workgroup;
  const Word part = policy.workers % policy.workgroup == 0 ? 0 : 1;
  return std::clamp<Word>(whole + part, 1, kMaxGroups);
}

Pressure pressure_of(const LaunchRequest& request, Word lanes) {
  if (request.queue_length == 0) return Pressure::empty;
  const std::uint64_t saturated = std::uint64_t{lanes} * kSaturatedWaves;
  if (request.requeued_items > 0 || request.queue_length >= saturated) return Pressure::saturated;
  return request.queue_length >= lanes ? Pressure::balanced : Pressure::light;
}

Word hit_capacity_of(const LaunchRequest& request, Topology topology) {
  if (request.hit_capacity > 0) return request.hit_capacity;
  const bool is_short = topology == Topology::memory_constrained;
  // 64 + 32 + 2 bits at most.
  const Wide hits = Wide{request.queue_length} * std::max<Word>(request.expected_hits_per_item, 1) *
                    (is_short ? kHitMultiplierUnderPressure : kHitMultiplier);
  const Wide capacity = std::max<Wide>(hits, kMinHitCapacity);
  return static_cast<Word>(std::min<Wide>(capacity, std::numeric_limits<Word>::max()));
}

}  // namespace

std::string_view topology_name(Topology topology) {
  switch (topology) {
    case Topology::empty:
      return "empty";
    case Topology::sparse_frontier:
      return "sparse_frontier";
    case Topology::dense_frontier:
      return "dense_frontier";
    case Topology::hybrid_frontier:
      return "hybrid_frontier";
    case Topology::fused_dense:
      return "fused_dense";
    case Topology::memory_constrained:
      return "memory_constrained";
  }
  return "unknown";
}

std::string_view pressure_name(Pressure pressure) {
  switch (pressure) {
    case Pressure::empty:
      return "empty";
    case Pressure::light:
      return "light";
    case Pressure::balanced:
      return "balanced";
    case Pressure::saturated:
      return "saturated";
  }
  return "unknown";
}

LaunchPolicy recommend(const LaunchRequest& request) {
  LaunchPolicy policy;
  policy.density_bps = density_of(request);
  policy.memory_bps = memory_of(request);
  policy.promoted = request.hot_opcodes >= kHotOpcodes || request.hot_windows >= kHotWindows;
  policy.topology = topology_of(request, policy);
  policy.workers = workers_of(request, policy);
  policy.pressure = pressure_of(request, policy.workers);
  // fused_dense requires a promotion, so its code is compiled too.
  const bool compiles = policy.promoted || request.queue_length >= kJitQueueLength;
  policy.execution = compiles ? Execution::native : Execution::interpreter;
  const Word lanes =
      request.requested_workgroup == 0 ? kDefaultWorkgroup : request.requested_workgroup;
  policy.workgroup = std::clamp(lanes, kMinWorkgroup, kMaxWorkgroup);
  policy.groups = groups_of(policy);
  policy.hit_capacity = hit_capacity_of(request, policy.topology);
  policy.peak_bytes =
      saturating_add(request.resident_bytes, std::uint64_t{policy.hit_capacity} * kHitBytes);
  policy.ages = request.requeued_items > 0 || request.longest_wait_turns >= kAgingTurns;
  return policy;
}

LaunchPolicy PolicyCache::recommend(const LaunchRequest& request) {
  if (const auto found = index_.find(request); found != index_.end()) {
    ++hits_;
    entries_.splice(entries_.begin(), entries_, found->second);
    return found->second->policy;
  }
  ++misses_;
  if (entries_.size() == kPolicyCacheEntries) {
    index_.erase(entries_.back().request);
    entries_.pop_back();
  }
  entries_.push_front({.request = request, .policy = planner::recommend(request)});
  index_.emplace(request, entries_.begin());
  return entries_.front().policy;
}

std::size_t PolicyCache::Hash::operator()(const LaunchRequest& request) const {
  std::uint64_t hash = 0;
  // An odd factor and a shift spread every field over all bits before the next field is mixed in.
  const auto mix = [&hash](std::uint64_t value) {
    hash = (hash ^ value) * 0x9E3779B97F4A7C15u;
    hash ^= hash >> 29;
  };
  // An optional field counts from 1, so that an absent one differs from 0.
  const auto mix_optional = [&mix](const auto& value) {
    mix(value ? std::uint64_t{static_cast<Word>(*value)} + 1 : 0);
  };
  mix(request.queue_length);
  mix(request.requested_workers);
  mix(request.possible_workers);
  mix(request.requested_workgroup);
  mix(request.hot_opcodes);
  mix(request.hot_windows);
  mix(request.graph_nodes);
  mix(request.graph_edges);
  mix_optional(request.density_bps);
  mix_optional(request.memory_bps);
  mix(request.resident_bytes);
  mix(request.budget_bytes);
  mix(request.hit_capacity);
  mix(request.expected_hits_per_item);
  mix(request.requeued_items);
  mix(request.longest_wait_turns);
  mix_optional(request.previous);
  return static_cast<std::size_t>(hash);
}

}  // namespace everkernel::planner
