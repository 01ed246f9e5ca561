// How a run is launched: pure decisions from the size of the queue, hints and limits.
//
// Every decision changes what runs; docs/running-jobs.md says how. Constants and formulae are those
// of the planning rules, all integer, in one place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <string_view>
#include <unordered_map>

#include "everkernel/abi/platform.hpp"
#include "everkernel/backend/execution.hpp"

namespace everkernel::planner {

using abi::Word;
using backend::Execution;

/// How the work is spread over workers.
enum class Topology : Word {
  empty,               ///< nothing to do
  sparse_frontier,     ///< few regions are ready at one time: fewer workers, one region a ticket
  dense_frontier,      ///< all workers, contiguous ranges
  hybrid_frontier,     ///< tickets of 32 regions
  fused_dense,         ///< ranges grouped by opcode, specialised code
  memory_constrained,  ///< fewer workers, waves
};

/// How many items there are for each worker.
enum class Pressure : Word {
  empty,      ///< nothing
  light,      ///< less than an item a worker: few are woken, tickets are published one by one
  balanced,   ///< at least an item a worker
  saturated,  ///< four items a worker, or requeues: queue-sized batches
};

/// The name in snake case.
std::string_view topology_name(Topology topology);
/// The name in snake case.
std::string_view pressure_name(Pressure pressure);

/// Workers if the request names no number.
inline constexpr Word kDefaultWorkers = 64;
/// Smallest planned workgroup.
inline constexpr Word kMinWorkgroup = 32;
/// Workgroup if the request names none.
inline constexpr Word kDefaultWorkgroup = 64;
/// Largest planned workgroup.
inline constexpr Word kMaxWorkgroup = 1024;
/// Most groups.
inline constexpr Word kMaxGroups = 1024;
/// Least room for hits.
inline constexpr Word kMinHitCapacity = 1024;
/// Room for hits an expected hit.
inline constexpr Word kHitMultiplier = 2;
/// Room for hits an expected hit when memory is short.
inline constexpr Word kHitMultiplierUnderPressure = 1;
/// Bytes of a hit.
inline constexpr Word kHitBytes = 16;
/// Items a worker from which a queue saturates.
inline constexpr Word kSaturatedWaves = 4;
/// Hot opcodes that promote a run.
inline constexpr Word kHotOpcodes = 8;
/// Hot windows that promote a run.
inline constexpr Word kHotWindows = 4;
/// Queued items from which code is specialised.
inline constexpr Word kJitQueueLength = 4096;
/// Scheduling turns after which a waiting item ages.
inline constexpr Word kAgingTurns = 32;
/// A graph at or below this density is sparse.
inline constexpr Word kSparseBps = 500;
/// A graph at or above this density is dense.
inline constexpr Word kDenseBps = 4000;
/// Memory at or above this is short.
inline constexpr Word kMemoryPressureBps = 8500;
/// How far past its threshold a topology is held when the run before had it.
///
/// The thresholds above are for entering a topology from none or from one that is not next to them.
/// The topology of the run before is left only beyond them: sparse above 750, hybrid at 250 and at
/// 4250, dense and fused dense below 3750, memory constrained below 8250. A held dense does not
/// become fused before 4000, and a fused one that may not be fused any more is dense. Memory that
/// is short now ends every other topology.
inline constexpr Word kHysteresisBps = 250;
/// Workers that memory pressure at its threshold takes away, of 10,000.
inline constexpr Word kShedBps = 2500;
/// Workers that a full budget takes away beside those; between, it rises with the pressure.
inline constexpr Word kShedRiseBps = 2500;
/// Edges from which a dense graph may be fused.
inline constexpr Word kFusedDenseEdges = 65536;
/// Fewest workers in a sparse graph, where there are that many.
inline constexpr Word kSparseWorkers = 32;
/// Recommendations that are remembered.
inline constexpr std::size_t kPolicyCacheEntries = 128;

/// Facts that are known before a launch. A field that is not known is absent or 0.
struct LaunchRequest {
  std::uint64_t queue_length = 0;         ///< items
  Word requested_workers = 0;             ///< 0 = kDefaultWorkers
  Word possible_workers = 0;              ///< most that the device can keep busy; 0 = not known
  Word requested_workgroup = 0;           ///< 0 = kDefaultWorkgroup
  Word hot_opcodes = 0;                   ///< opcodes that carry much of the work
  Word hot_windows = 0;                   ///< route windows that carry much of the work
  std::uint64_t graph_nodes = 0;          ///< 0 = no graph is known
  std::uint64_t graph_edges = 0;          ///< of that graph
  std::optional<Word> density_bps = {};   ///< of the frontier, when known better than by length
  std::optional<Word> memory_bps = {};    ///< memory pressure, when known better than by bytes
  std::uint64_t resident_bytes = 0;       ///< on the device
  std::uint64_t budget_bytes = 0;         ///< 0 = unbounded
  Word hit_capacity = 0;                  ///< asked for; 0 = by expectation
  Word expected_hits_per_item = 0;        ///< 0 counts as 1
  std::uint64_t requeued_items = 0;       ///< of the previous run
  Word longest_wait_turns = 0;            ///< scheduling turns an item has waited
  std::optional<Topology> previous = {};  ///< topology of the previous run, for hysteresis

  /// Equal in every field.
  friend bool operator==(const LaunchRequest&, const LaunchRequest&) = default;
};

/// The decisions for a launch.
struct LaunchPolicy {
  Topology topology = Topology::empty;           ///< how work is spread
  Pressure pressure = Pressure::empty;           ///< how much work there is
  Execution execution = Execution::interpreter;  ///< never automatic
  Word workers = 0;                              ///< how many run
  Word workgroup = kDefaultWorkgroup;            ///< lanes of a group
  Word groups = 0;                               ///< that cover the workers, 1..1024
  Word hit_capacity = 0;                         ///< size of the hit buffer
  Word density_bps = 0;                          ///< of the frontier, at most 10,000
  Word memory_bps = 0;                           ///< memory pressure, at most 10,000
  std::uint64_t peak_bytes = 0;                  ///< resident and hits
  bool promoted = false;                         ///< hot opcodes or windows
  bool ages = false;                             ///< waiting items rise one level

  /// Equal in every field.
  friend bool operator==(const LaunchPolicy&, const LaunchPolicy&) = default;
};

/// Computes the policy of a request. Every request has an answer; a value that does not fit its
/// field becomes the largest value of the field. Where the planning rules are silent:
/// - Density that is not given is at least 1, also of an empty queue; without a known graph it is
///   10,000 when there is work. Density and pressure over 10,000 (a budget that is exceeded) count
///   as 10,000; a given density of 0 stays 0.
/// - An empty queue has no workers, any other at least one. Work that is short of memory and sparse
///   sheds first and is reduced then. In the band where memory_constrained is only held, workers
///   and hits are those of its threshold; in the band where sparse is held, no worker is taken
///   away.
/// - More workers than 1024 groups cover stay in `workers`; only `groups` is limited.
LaunchPolicy recommend(const LaunchRequest& request);

/// Recommendations by request, least recently used forgotten first. One thread at a time.
class PolicyCache {
 public:
  /// An empty cache.
  PolicyCache() = default;
  PolicyCache(const PolicyCache&) = delete;             ///< the index points into the list
  PolicyCache& operator=(const PolicyCache&) = delete;  ///< the index points into the list
  /// Takes over the entries of the other; iterators to them stay valid.
  PolicyCache(PolicyCache&&) = default;
  /// Takes over the entries of the other; iterators to them stay valid.
  PolicyCache& operator=(PolicyCache&&) = default;

  /// The answer of recommend(), from the cache if the request is in it.
  LaunchPolicy recommend(const LaunchRequest& request);
  /// Requests that were answered from the cache.
  std::uint64_t hits() const { return hits_; }
  /// Requests that were computed.
  std::uint64_t misses() const { return misses_; }
  /// Recommendations remembered now.
  std::size_t size() const { return index_.size(); }

 private:
  struct Entry {
    LaunchRequest request;
    LaunchPolicy policy;
  };
  struct Hash {
    std::size_t operator()(const LaunchRequest& request) const;
  };
  std::list<Entry> entries_;  // most recently used first
  std::unordered_map<LaunchRequest, std::list<Entry>::iterator, Hash> index_;
  std::uint64_t hits_ = 0;
  std::uint64_t misses_ = 0;
};

}  // namespace everkernel::planner
