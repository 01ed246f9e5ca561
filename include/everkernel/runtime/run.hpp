// A whole work queue in one call: planned, published, run and reported.
//
// The result is that of running the items one after the other in list order. Megakernel::run
// (megakernel.hpp) does it; docs/running-jobs.md shows it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "everkernel/abi/hit.hpp"
#include "everkernel/abi/slot.hpp"
#include "everkernel/backend/execution.hpp"
#include "everkernel/backend/item.hpp"
#include "everkernel/planner/policy.hpp"

namespace everkernel {

using abi::Word;
using backend::Origin;

/// Timeout of a run that names none.
inline constexpr std::chrono::nanoseconds kDefaultRunTimeout = std::chrono::hours(1);
/// When the timeout of a run is over or it is stopped, items that are running have this long to
/// finish; then they become FAULT (deadline).
inline constexpr std::chrono::nanoseconds kRunStopTimeout = std::chrono::seconds(1);
/// Without a capacity and a memory budget, the hits of a run may take one part in so many of the
/// memory of the device.
inline constexpr std::uint64_t kHitMemoryShare = 8;
/// Records of printf that a run keeps.
inline constexpr std::uint64_t kMaxRunPrints = std::uint64_t{1} << 16;
/// Most items of a run.
inline constexpr std::size_t kMaxRunItems = std::size_t{1} << 30;

/// How far a run is.
struct RunProgress {
  std::uint64_t items_ended = 0;  ///< processed or faulted so far
  std::uint64_t item_count = 0;   ///< items that are run, without those that were dropped
};

/// How to run.
struct RunOptions {
  /// Tenant and priority of each item; one for each item, or empty: then `origin` is that of all.
  std::span<const Origin> origins = {};
  Origin origin = {};    ///< of every item when `origins` is empty
  bool ordered = true;   ///< whether items that share buffers keep their order
  bool dedupe = true;    ///< whether equal pure items run once
  bool fuse = true;      ///< whether chains of items run back to back
  bool lineage = false;  ///< whether the report says which opcodes contributed to each region
  std::chrono::nanoseconds timeout =
      kDefaultRunTimeout;  ///< after which the run returns, complete or not
  /// Once it is true, the run ends as at its timeout. A signal handler may set it. Null = never.
  const std::atomic<bool>* stop = nullptr;
  Word worker_count = 0;  ///< 0 = the launch policy decides
  backend::Execution execution =
      backend::Execution::automatic;  ///< `automatic`: the launch policy decides
  /// Hits to keep; 0 = as many as fit the memory budget or, without one, kHitMemoryShare.
  Word hit_capacity = 0;
  Word expected_hits_per_item = 0;           ///< a hint for the launch policy
  Word hot_windows = 0;                      ///< a hint for the launch policy
  std::uint64_t memory_budget_bytes = 0;     ///< 0 = unbounded
  std::span<const Word> tenant_quotas = {};  ///< items of tenant t at one time; empty = no limit
  /// Called at most every 100 ms, on the calling thread. If it throws, the run ends as at its
  /// timeout, and then the exception reaches the caller of run().
  std::function<void(const RunProgress&)> progress = {};
};

/// Costs and decisions of the launch.
struct RunTelemetry {
  std::uint64_t bytes_uploaded = 0;          ///< written for the kernel: control words, slots
  std::uint64_t bytes_read_back = 0;         ///< read from words that the kernel wrote
  std::uint64_t bytes_moved = 0;             ///< both
  Word resident_allocations = 0;             ///< memory allocated for this run
  Word kernel_launches = 0;                  ///< kernels started
  Word sync_points = 0;                      ///< times the host waited for the kernel
  Word occupancy_proxy_bps = 0;              ///< time workers were busy, of the time they had
  Word frontier_density_bps = 0;             ///< regions ready at one time, of the queue
  Word readback_buffers = 0;                 ///< buffers read back
  bool compiled_pipeline_cache_hit = false;  ///< nothing was compiled for this run
  bool resident_input_cache_hit = false;     ///< the memory of the run was there before
  planner::Topology topology = {};           ///< how work was spread
  planner::Pressure pressure = {};           ///< how much there was
  /// Which code ran: `native` if any item ran as native code (RunShape::items_interpreted says
  /// how many did not), else `interpreter`.
  backend::Execution execution_mode = {};
  Word hit_capacity = 0;  ///< asked for, or the first size of a buffer that grows
  std::uint64_t estimated_peak_device_bytes = 0;  ///< resident and hits, of the largest wave
  std::uint64_t device_memory_budget_bytes = 0;   ///< 0 = unbounded
};

/// Sizes of the plan, for tuning and for tests of decisions.
struct RunShape {
  std::uint64_t regions = 0;            ///< chains of items that ran back to back
  std::uint64_t edges = 0;              ///< dependencies between items
  std::uint64_t joins = 0;              ///< nodes that stand for many dependencies
  std::uint64_t waves = 0;              ///< parts the run was split into
  std::uint64_t tickets = 0;            ///< published, one for each portion of regions
  std::uint64_t publish_batches = 0;    ///< times tickets were published together
  Word regions_per_ticket = 0;          ///< most regions of one ticket
  Word queue_entries = 0;               ///< tickets that fit the queue of the run
  Word workers = 0;                     ///< threads that ran
  bool grouped_by_opcode = false;       ///< whether independent items were sorted by opcode
  std::uint64_t worker_sleeps = 0;      ///< times a worker went to sleep
  std::uint64_t policy_hits = 0;        ///< recommendations of this megakernel from its cache
  std::uint64_t policy_misses = 0;      ///< recommendations that were worked out
  std::string pipeline_id = {};         ///< names the code that ran
  std::uint64_t compiled_handlers = 0;  ///< compiled during the run; a device compiles all at once
  std::uint64_t compile_ns = 0;  ///< time that compiling or loading code took, also beside items
  std::uint64_t items_interpreted = 0;  ///< items that ended on the interpreter
};

/// Items that became FAULT, by code and opcode.
struct FaultCount {
  Word code = 0;                 ///< fault code
  Word opcode = 0;               ///< of the items
  std::uint64_t items = 0;       ///< how many
  std::uint64_t first_item = 0;  ///< the first of them in the list
};

/// A handler that can touch any buffer. Its items wait for all items before them, and all items
/// behind them wait for them.
struct BarrierCount {
  Word opcode = 0;          ///< of the handler
  std::string name = {};    ///< of the handler
  std::string reason = {};  ///< what makes it a barrier
  std::uint64_t items = 0;  ///< of this run, without those that were dropped
};

/// What one printf(format, a, b) of a handler said.
struct PrintRecord {
  Word item = 0;    ///< the item that ran it
  Word format = 0;  ///< its first value, which a program gives a meaning
  Word a = 0;       ///< its second value
  Word b = 0;       ///< its third value

  /// Equal in every field.
  friend bool operator==(const PrintRecord&, const PrintRecord&) = default;
};

/// The meaning of one bit of a lineage.
struct LineageRule {
  Word bit = 0;           ///< in region_lineage
  Word wide_bit = 0;      ///< in region_lineage_wide, where there is one
  Word opcode = 0;        ///< that sets it
  std::string name = {};  ///< of its handler; `NOP` for opcode 0
};

/// Items that ran back to back.
struct RegionView {
  Word first_item = 0;                       ///< place in the list
  std::span<const Word> items = {};          ///< places in the list, ascending
  Word output = 0;                           ///< handle of its last item's output
  Word lineage = 0;                          ///< bit `opcode mod 32` of every contributor
  std::span<const std::uint64_t> wide = {};  ///< a bit an opcode; empty up to 32 opcodes
};

/// How one item ended.
enum class ItemEnd {
  remaining,  ///< it has not run
  processed,  ///< it ran, or an equal item ran for it
  faulted,    ///< it is FAULT
};

/// The result of a run. items_processed + items_remaining + items_faulted = items given.
struct RunReport {
  std::uint64_t items_processed = 0;        ///< items that ran, or that an equal one ran for
  std::uint64_t items_remaining = 0;        ///< items that did not run in time
  std::uint64_t items_faulted = 0;          ///< items that are FAULT
  bool is_stopped = false;                  ///< whether `stop` was set while items remained
  std::chrono::nanoseconds wall_time = {};  ///< from call to return
  std::uint64_t queue_plan_ns = 0;          ///< dedupe, hazards, regions, launch policy
  std::uint64_t queue_publish_ns = 0;       ///< writing slots
  std::uint64_t backend_dispatch_ns = 0;    ///< from the first slot to the end of the last item
  std::uint64_t code_wait_ns = 0;           ///< waiting for code that is compiled or loaded
  std::uint64_t lineage_ns = 0;             ///< working out lineage
  std::uint64_t deduped_items = 0;          ///< items dropped because an equal one ran
  std::uint64_t published_items = 0;        ///< items of the slots that were published
  std::uint64_t lineage_items = 0;          ///< items included in lineage
  RunTelemetry telemetry = {};              ///< cost and decisions
  RunShape shape = {};                      ///< sizes of the plan
  std::vector<FaultCount> faults = {};      ///< sorted by code, then opcode
  std::vector<BarrierCount> barriers = {};  ///< the most items first; empty if unordered
  std::uint64_t barrier_ns = 0;             ///< barriers ran, and nothing else could; 0 on a device
  /// Sorted by item; of one item in order. If hits were dropped, these are the first in that order;
  /// on a device that has too little room in one launch, they are those that came first.
  std::vector<abi::Hit> hits = {};
  std::uint64_t hits_dropped = 0;         ///< hits that there was no room for
  std::uint64_t hit_limit = 0;            ///< most hits that this run could keep
  std::vector<PrintRecord> prints = {};   ///< of printf; sorted and chosen as hits are
  std::uint64_t prints_dropped = 0;       ///< records over kMaxRunPrints, or over a device's log
  std::vector<Word> region_lineage = {};  ///< one a region, in order of first items
  std::vector<std::uint64_t> region_lineage_wide = {};  ///< lineage_words() a region
  std::vector<LineageRule> lineage_rules = {};          ///< sorted by opcode
  std::vector<Word> region_begins = {};   ///< with lineage: where regions begin in region_items
  std::vector<Word> region_items = {};    ///< with lineage: places in the list
  std::vector<Word> region_outputs = {};  ///< with lineage: a handle a region
  std::vector<Word> outcomes = {};        ///< an item: backend::kItemRemaining, kItemDone, or code

  /// Regions that region() knows: 0 without lineage.
  std::size_t region_count() const { return region_outputs.size(); }
  /// A region; `index` is below region_count().
  RegionView region(std::size_t index) const;
  /// 64-bit words of a wide lineage, 0 up to 32 opcodes.
  std::size_t lineage_words() const;
  /// How an item ended.
  ItemEnd end_of(std::size_t item) const;
  /// Why an item is FAULT, 0 if it is not.
  Word fault_code(std::size_t item) const;
};

}  // namespace everkernel
