// The launch policy's answers, turned into the numbers a run is fed with.
#include "runtime/run_decisions.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "everkernel/abi/queue.hpp"
#include "planner/opcode_ranks.hpp"

namespace everkernel {
namespace {

using backend::Clock;
using backend::Execution;
using planner::LaunchPolicy;
using planner::Pressure;
using planner::Topology;

// An opcode is hot with this many items, and this share of all.
constexpr std::uint64_t kHotItems = 64;
constexpr std::uint64_t kHotShare = 64;
// Regions in a ticket: of a hybrid graph, and at most of a dense one.
constexpr Word kHybridRegions = 32;
constexpr std::uint64_t kMostRegions = 256;
// Longest expected time to compile a whole kernel for a device.
constexpr auto kDeviceCompileTime = std::chrono::seconds(5);
// Tickets for each worker, so that none runs a last large ticket while the others are idle.
constexpr std::uint64_t kTicketsPerWorker = 32;

}  // namespace

Word queue_entries(const backend::KernelOptions& kernel) {
  return std::bit_floor(
      std::clamp(kernel.geometry.slot_count, abi::kMinQueueCapacity, abi::kMaxQueueCapacity));
}

planner::LaunchRequest launch_request(const RunFacts& run) {
  const planner::Plan& plan = run.plan;
  const auto hot = std::ranges::count_if(run.plan.opcodes, [&](const OpcodeCount& count) {
    return count.items >= kHotItems && count.items * kHotShare >= run.kept_items;
  });
  // Regions that are ready at one time: those that wait for nothing or, if that is more, the
  // average number of regions in a level of the graph.
  const std::uint64_t width = std::max<std::uint64_t>(
      plan.ready_regions, std::min<std::uint64_t>(plan.regions, planner::kLeveledItems) /
                              std::max<std::uint64_t>(1, plan.depth));
  const std::uint64_t most = std::min<std::uint64_t>(queue_entries(run.kernel), plan.regions);
  const std::uint64_t density =
      most == 0 ? 0 : std::max<std::uint64_t>(1, std::min(width, most) * 10000 / most);
  return {.queue_length = run.kept_items,
          .requested_workers = run.options.worker_count,
          .possible_workers = run.options.worker_count != 0 ? run.options.worker_count
                                                            : run.device.max_worker_count,
          .hot_opcodes = static_cast<Word>(hot),
          .hot_windows = run.options.hot_windows,
          .graph_nodes = plan.regions,
          .graph_edges = plan.dependencies,
          .density_bps = static_cast<Word>(density),
          .resident_bytes = run.resident_bytes,
          .budget_bytes = run.options.memory_budget_bytes,
          .hit_capacity = run.options.hit_capacity,
          .expected_hits_per_item = run.options.expected_hits_per_item,
          .requeued_items = run.last_requeues,
          .previous = run.last_topology};
}

bool compiles_code(const RunFacts& run, const LaunchPolicy& policy) {
  if (run.options.execution == Execution::interpreter) return false;
  if (run.options.execution == Execution::native) return true;
  if (!run.device.native_code) return false;
  // Without an interpreter every megakernel is native, so that asking for one says nothing.
  if (run.device.interpreter && run.kernel.execution == Execution::native) return true;
  if (policy.execution != Execution::native) return false;
  // A device without an interpreter can wait for the code of this run, or run the code that it has.
  return run.device.interpreter || run.deadline - Clock::now() > kDeviceCompileTime;
}

RunKernelKey kernel_key(const RunFacts& run, bool compiles) {
  if (!run.device.interpreter) {
    return {.execution = Execution::native, .is_planned = compiles && run.options.ordered};
  }
  Execution execution = run.options.execution;
  if (execution == Execution::automatic && run.kernel.execution == Execution::native) {
    execution = Execution::native;
  }
  const bool is_planned = execution != Execution::interpreter && run.options.ordered;
  return {.execution = execution, .is_planned = is_planned};
}

// If all workers share a ticket, all regions should fit the queue at once. If one worker takes a
// ticket, the topology decides, and every worker should find several tickets.
Word regions_per_ticket(const RunFacts& run, const LaunchPolicy& policy) {
  const std::uint64_t regions = run.plan.regions;
  if (run.device.shares_slot_across_workers) {
    const std::uint64_t capacity = queue_entries(run.kernel);
    const std::uint64_t share = (regions + capacity - 1) / capacity;
    return static_cast<Word>(std::clamp<std::uint64_t>(share, 1, kMostRegions));
  }
  const std::uint64_t share =
      regions / std::max<std::uint64_t>(1, policy.workers * kTicketsPerWorker);
  std::uint64_t most = kMostRegions;
  switch (policy.topology) {
    case Topology::empty:
    case Topology::sparse_frontier:
      return 1;
    case Topology::hybrid_frontier:
    case Topology::memory_constrained:
      most = kHybridRegions;
      break;
    case Topology::dense_frontier:
    case Topology::fused_dense:
      break;
  }
  return static_cast<Word>(std::clamp<std::uint64_t>(share, 1, most));
}

// A light list is published ticket by ticket, which starts it at once; a long one as much as fits
// the queue at a time.
Word largest_batch(const RunFacts& run, const LaunchPolicy& policy) {
  const Word capacity = queue_entries(run.kernel);
  switch (policy.pressure) {
    case Pressure::empty:
    case Pressure::light:
      return 1;
    case Pressure::balanced:
      return std::max<Word>(1, capacity / 8);
    case Pressure::saturated:
      return capacity;
  }
  return 1;
}

}  // namespace everkernel
