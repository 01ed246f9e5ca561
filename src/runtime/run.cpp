// A whole work queue: plan it, decide how to run it, feed it through a ring, and report.
#include "everkernel/runtime/run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <mutex>
#include <utility>

#include "base/checked.hpp"
#include "everkernel/planner/lineage.hpp"
#include "everkernel/planner/opcode_ranks.hpp"
#include "everkernel/planner/waves.hpp"
#include "everkernel/runtime/megakernel.hpp"
#include "runtime/run_feed.hpp"
#include "runtime/run_memory.hpp"
#include "runtime/state.hpp"

namespace everkernel {
namespace {

using backend::Clock;
using planner::ExecutionMode;
using planner::Pressure;
using planner::Topology;

// An opcode is hot with this many items, and this share of all.
constexpr std::uint64_t kHotItems = 64;
constexpr std::uint64_t kHotShare = 64;
// Regions in a ticket: of a hybrid graph, and at most of a dense one.
constexpr Word kHybridRegions = 32;
constexpr std::uint64_t kMostRegions = 256;
// What compiling a handler may take, and compiling all of them for a device.
constexpr auto kCompileTime = std::chrono::milliseconds(25);
constexpr auto kDeviceCompileTime = std::chrono::seconds(5);
// Tickets a worker should find, so that none is left with the last of the work.
constexpr std::uint64_t kTicketsPerWorker = 32;

std::uint64_t nanoseconds_since(Clock::time_point begin) {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - begin).count());
}

// Items by opcode, the most frequent first.
struct OpcodeCount {
  Word opcode = 0;
  std::uint64_t items = 0;
};

std::vector<OpcodeCount> count_opcodes(std::span<const abi::WorkItem> items,
                                       std::span<const std::uint8_t> places) {
  planner::OpcodeRanks ranks;
  std::vector<OpcodeCount> sorted;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (places[i] == backend::kDroppedPlace) continue;
    const Word rank = ranks[items[i].op_handle];
    if (rank == sorted.size()) sorted.push_back({.opcode = items[i].op_handle});
    ++sorted[rank].items;
  }
  std::ranges::sort(sorted, [](const OpcodeCount& a, const OpcodeCount& b) {
    return std::pair(b.items, a.opcode) < std::pair(a.items, b.opcode);
  });
  return sorted;
}

// One call of run().
class Run {
 public:
  Run(Megakernel::State& state, RunMemory& memory, std::span<const abi::WorkItem> items,
      const RunConfig& config, Clock::time_point begin, Clock::time_point deadline)
      : state_(state),
        memory_(memory),
        config_(config),
        request_{.items = items,
                 .origins = config.origins,
                 .origin = config.origin,
                 .effects = &memory.effects,
                 .ordered = config.ordered,
                 .dedupe = config.dedupe,
                 .fuse = config.fuse,
                 .deadline = deadline},
        begin_(begin),
        deadline_(deadline) {}

  Result<Report> run() {
    auto prepared = make_plan();
    if (prepared) prepared = decide();
    if (!prepared && prepared.error().code == Code::timeout) return give_up();
    if (!prepared) return Failure(prepared.error());
    if (kept_items() != 0) {
      EVERKERNEL_TRY(feed());
      EVERKERNEL_TRY(table_->refresh_copies());
    }
    settle();
    if (config_.lineage) add_lineage();
    report_.wall_time = Clock::now() - begin_;
    return std::move(report_);
  }

 private:
  // The time was over before anything could run.
  Report give_up() {
    report_.outcomes.assign(request_.items.size(), backend::kItemRemaining);
    report_.items_remaining = request_.items.size();
    report_.wall_time = Clock::now() - begin_;
    report_.queue_plan_ns = static_cast<std::uint64_t>(report_.wall_time.count());
    return std::move(report_);
  }

  // A live ring has a power of two of slots.
  Word ring_slots() const {
    return std::bit_floor(std::max<Word>(2, state_.options.geometry.slot_count));
  }
  std::uint64_t kept_items() const {
    return request_.items.size() - memory_.plan.duplicates.size();
  }

  Result<void> make_plan();
  Result<void> check_handlers() const;
  Result<void> decide();
  bool chooses_jit() const;
  RunKernelKey kernel_key(bool is_jit) const;
  planner::LaunchRequest launch_request() const;
  void choose_order();
  Result<void> split();
  Result<void> feed();
  backend::WorkGraph make_graph();
  void note_feed(const FeedStats& stats);
  std::uint64_t count_published(Word end) const;
  void settle();
  void count_faults();
  void take_hits();
  void add_lineage();
  Word regions_per_ticket() const;
  Word largest_batch() const;
  Word ringer_count() const;

  Megakernel::State& state_;
  RunMemory& memory_;
  const RunConfig& config_;
  planner::PlanRequest request_;
  const Clock::time_point begin_;
  const Clock::time_point deadline_;
  std::shared_ptr<TableSnapshot> table_;
  std::uint64_t resident_bytes_ = 0;
  std::vector<OpcodeCount> opcodes_;
  planner::LaunchPolicy policy_;
  RunKernel kernel_;
  std::vector<Word> order_;
  std::vector<Word> waves_;
  std::atomic<std::uint64_t> hit_count_{0};
  Report report_;
};

// ---- planning ----

Result<void> Run::make_plan() {
  const auto begin = Clock::now();
  EVERKERNEL_TRY(planner::plan(request_, memory_.plan));
  opcodes_ = count_opcodes(request_.items, memory_.plan.places);
  EVERKERNEL_TRY(check_handlers());
  table_ = state_.current_table();
  for (const auto& buffer : table_->owners) {
    resident_bytes_ += buffer->options.word_count * abi::kWordBytes;
  }
  report_.queue_plan_ns = nanoseconds_since(begin);
  report_.deduped_items = memory_.plan.duplicates.size();
  report_.shape.regions = memory_.plan.regions;
  report_.shape.edges = memory_.plan.dependencies;
  report_.shape.joins = memory_.plan.joins.size();
  return {};
}

Result<void> Run::check_handlers() const {
  for (const OpcodeCount& count : opcodes_) {
    const auto found = state_.options.find_handler(count.opcode);
    if (!found || !found->effects.can_await) continue;
    return fail(Code::unsupported,
                fmt::format("run: handler {} awaits IO, and a run has no IO service", found->name),
                "publish its items into a session");
  }
  return {};
}

planner::LaunchRequest Run::launch_request() const {
  const planner::Plan& plan = memory_.plan;
  const auto hot = std::ranges::count_if(opcodes_, [&](const OpcodeCount& count) {
    return count.items >= kHotItems && count.items * kHotShare >= kept_items();
  });
  // How much of the ring is ready at one time: what can begin at once, or, if that is more, what a
  // level of the graph has on average.
  const std::uint64_t width = std::max<std::uint64_t>(
      plan.ready_regions, std::min<std::uint64_t>(plan.regions, planner::kLeveledItems) /
                              std::max<std::uint64_t>(1, plan.depth));
  const std::uint64_t most = std::min<std::uint64_t>(ring_slots(), plan.regions);
  const std::uint64_t density =
      most == 0 ? 0 : std::max<std::uint64_t>(1, std::min(width, most) * 10000 / most);
  return {.queue_length = kept_items(),
          .requested_workers = config_.worker_count,
          .possible_workers = config_.worker_count != 0
                                  ? config_.worker_count
                                  : state_.backend->capabilities().max_worker_count,
          .hot_opcodes = static_cast<Word>(hot),
          .hot_windows = config_.hot_windows,
          .graph_nodes = plan.regions,
          .graph_edges = plan.dependencies,
          .density_bps = static_cast<Word>(density),
          .resident_bytes = resident_bytes_,
          .budget_bytes = config_.memory_budget_bytes,
          .hit_capacity = config_.hit_capacity,
          .expected_hits_per_item = config_.expected_hits_per_item,
          .requeued_items = memory_.last_requeues,
          .previous = memory_.last_topology};
}

// Whether to run code that is made for this run; else the kernel that is there serves.
bool Run::chooses_jit() const {
  if (config_.execution == RunExecution::interpreter) return false;
  if (config_.execution == RunExecution::jit) return true;
  const backend::Capabilities& can = state_.backend->capabilities();
  // Where nothing else is there, what the megakernel was compiled for is no reason.
  if (can.interpreter && state_.options.execution == backend::Execution::native) return true;
  if (policy_.execution != ExecutionMode::jit || !can.native_code) return false;
  // Compiling cannot be cut short, so that it must fit into the time that is left.
  Clock::duration needed = kDeviceCompileTime;
  if (can.interpreter) needed = kCompileTime * static_cast<int>(opcodes_.size());
  return deadline_ - Clock::now() > needed;
}

// A device compiles for a second, so that all runs of a megakernel there share their code.
RunKernelKey Run::kernel_key(bool is_jit) const {
  RunKernelKey key{.is_jit = is_jit, .is_planned = config_.ordered};
  if (!is_jit || !state_.backend->capabilities().interpreter) return key;
  for (const OpcodeCount& count : opcodes_) key.opcodes.push_back(count.opcode);
  return key;
}

Result<void> Run::decide() {
  auto begin = Clock::now();
  policy_ = memory_.policies.recommend(launch_request());
  memory_.last_topology = policy_.topology;
  const backend::Capabilities& can = state_.backend->capabilities();
  // Workers there are lanes that cost nothing while they have nothing to do.
  if (can.spreads_portions && config_.worker_count == 0 && policy_.workers != 0) {
    policy_.workers = can.max_worker_count;
  }
  const bool has_handlers =
      std::ranges::any_of(opcodes_, [](const OpcodeCount& count) { return count.opcode != 0; });
  const bool is_jit = has_handlers && chooses_jit();
  const bool is_compiled = is_jit || (has_handlers && !can.interpreter);
  policy_.execution = is_compiled ? ExecutionMode::jit : ExecutionMode::interpreter;
  report_.queue_plan_ns += nanoseconds_since(begin);
  auto kernel = find_kernel(state_, memory_, kernel_key(is_jit));
  if (!kernel) return Failure(kernel.error());
  kernel_ = std::move(*kernel);
  begin = Clock::now();  // compiling is no planning
  choose_order();
  auto is_split = split();
  if (!is_split && request_.fuse) {
    // Items that fit one by one may be too much as a region.
    request_.fuse = false;
    EVERKERNEL_TRY(planner::plan(request_, memory_.plan));
    report_.shape.regions = memory_.plan.regions;
    choose_order();
    is_split = split();
  }
  if (!is_split) return is_split;
  report_.queue_plan_ns += nanoseconds_since(begin);
  report_.telemetry.compiled_pipeline_cache_hit = kernel_.was_compiled;
  report_.telemetry.frontier_density_bps = policy_.density_bps;
  report_.telemetry.topology = policy_.topology;
  report_.telemetry.pressure = policy_.pressure;
  report_.telemetry.execution_mode = policy_.execution;
  report_.telemetry.hit_capacity = policy_.hit_capacity;
  report_.telemetry.estimated_peak_device_bytes = policy_.peak_bytes;
  report_.telemetry.device_memory_budget_bytes = config_.memory_budget_bytes;
  report_.shape.pipeline_id = kernel_.kernel->pipeline_id();
  report_.shape.policy_hits = memory_.policies.hits();
  report_.shape.policy_misses = memory_.policies.misses();
  report_.shape.waves = waves_.size();
  report_.shape.workers = policy_.workers;
  return {};
}

void Run::choose_order() {
  const bool is_sorted = policy_.execution == ExecutionMode::jit && opcodes_.size() > 1 &&
                         policy_.topology != Topology::sparse_frontier;
  if (memory_.plan.has_priorities) {
    order_ = planner::order_by_priority(request_, memory_.plan, regions_per_ticket());
  } else if (is_sorted) {
    order_ = planner::order_by_opcode(request_, memory_.plan);
    report_.shape.grouped_by_opcode = true;
  }
}

// How many regions a slot stands for. Where all workers share them, all regions should fit the
// ring. Where a slot is one worker's, the topology decides, and every worker should find several.
Word Run::regions_per_ticket() const {
  const std::uint64_t regions = memory_.plan.regions;
  if (state_.backend->capabilities().spreads_portions) {
    const std::uint64_t capacity = ring_slots() - 1;
    const std::uint64_t share = (regions + capacity - 1) / capacity;
    return static_cast<Word>(std::clamp<std::uint64_t>(share, 1, kMostRegions));
  }
  const std::uint64_t share =
      regions / std::max<std::uint64_t>(1, policy_.workers * kTicketsPerWorker);
  std::uint64_t most = kMostRegions;
  switch (policy_.topology) {
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

// Light work is published slot by slot, as soon as there is one; much work a ring at a time.
Word Run::largest_batch() const {
  const Word capacity = ring_slots() - 1;
  switch (policy_.pressure) {
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

// Who rings when slots have ended: workers, or the one that serves the ring for all of them.
Word Run::ringer_count() const {
  return state_.backend->capabilities().spreads_portions ? 1 : policy_.workers + 1;
}

Result<void> Run::split() {
  const bool emits = std::ranges::any_of(opcodes_, [&](const OpcodeCount& count) {
    const auto found = state_.options.find_handler(count.opcode);
    return found && found->effects.emits;
  });
  const planner::Plan& plan = memory_.plan;
  std::vector<std::uint64_t> handle_bytes;
  if (config_.memory_budget_bytes != 0) {
    handle_bytes.resize(plan.handles.count);
    for (std::size_t place = 0; place < handle_bytes.size(); ++place) {
      const Word handle =
          plan.handles.keys.empty() ? static_cast<Word>(place) : plan.handles.keys[place];
      const memory::BufferEntry* const entry = table_->table.view().find(handle);
      if (entry != nullptr)
        handle_bytes[place] = std::uint64_t{entry->word_count} * abi::kWordBytes;
    }
  }
  auto waves = planner::split_waves(
      {.items = request_.items,
       .places = plan.places,
       .nodes = plan.nodes,
       .order = order_,
       .handles = plan.handles,
       .handle_bytes = handle_bytes,
       .budget_bytes = config_.memory_budget_bytes,
       .fixed_bytes = emits ? std::uint64_t{policy_.hit_capacity} * planner::kHitBytes : 0});
  if (!waves) return Failure(waves.error());
  waves_ = std::move(waves->begins);
  if (waves->largest_bytes != 0) policy_.peak_bytes = waves->largest_bytes;
  return {};
}

// ---- running ----

backend::WorkGraph Run::make_graph() {
  planner::Plan& plan = memory_.plan;
  // A region that waits also waits for its own claim.
  for (std::size_t i = 0; i < plan.places.size(); ++i) {
    if (plan.places[i] == 0 && plan.waiting_for[i] != 0) ++plan.waiting_for[i];
  }
  report_.outcomes.assign(request_.items.size(), backend::kItemRemaining);
  const auto spoilers = memory_.spoilers.take(plan.handles.count);
  std::ranges::fill(spoilers, 0);
  return {.items = request_.items,
          .origins = request_.origins,
          .origin = request_.origin,
          .ordered = request_.ordered,
          .ages = policy_.ages,
          .places = plan.places,
          .nodes = plan.nodes,
          .joins = plan.joins,
          .edges = plan.edges,
          .waiting_for = plan.waiting_for,
          .join_waiting_for = plan.join_waiting_for,
          .slot_of = plan.arrays.links.take(request_.items.size()),
          .order = order_,
          .outcomes = report_.outcomes,
          .handles = plan.handles,
          .spoilers = spoilers,
          .hits = {memory_.hits.take(policy_.hit_capacity), &hit_count_}};
}

Result<void> Run::feed() {
  const Word allocations = memory_.allocations();
  backend::WorkGraph graph = make_graph();
  auto feed = RunFeed::create(memory_, graph,
                              {.slot_count = ring_slots(),
                               .worker_count = policy_.workers,
                               .ringer_count = ringer_count(),
                               .regions_per_ticket = regions_per_ticket(),
                               .largest_batch = largest_batch(),
                               .tenant_quotas = config_.tenant_quotas,
                               .deadline = deadline_,
                               .item_count = kept_items(),
                               .progress = config_.progress ? &config_.progress : nullptr});
  if (!feed) return Failure(feed.error());
  const auto order_end = static_cast<Word>(order_.empty() ? request_.items.size() : order_.size());
  const auto stats = (*feed)->run(*kernel_.kernel, table_->table.view(), waves_, order_end);
  if (!stats) return Failure(stats.error());
  report_.telemetry.resident_allocations = memory_.allocations() - allocations;
  report_.telemetry.resident_input_cache_hit = report_.telemetry.resident_allocations == 0;
  report_.published_items =
      stats->published_end == order_end ? kept_items() : count_published(stats->published_end);
  note_feed(*stats);
  return {};
}

void Run::note_feed(const FeedStats& stats) {
  memory_.last_requeues = stats.counters.requeues;
  report_.queue_publish_ns = stats.publish_ns;
  report_.backend_dispatch_ns = stats.dispatch_ns;
  report_.items_processed = stats.counters.done;
  report_.items_faulted = stats.counters.faulted;
  report_.telemetry.bytes_uploaded = stats.bytes_uploaded;
  report_.telemetry.bytes_uploaded += stats.counters.bytes_uploaded;
  const auto launches = static_cast<Word>(stats.counters.launches);
  report_.telemetry.kernel_launches = std::max<Word>(1, launches);
  report_.telemetry.sync_points = stats.sync_points + launches;
  const std::uint64_t had = stats.dispatch_ns * policy_.workers;
  report_.telemetry.occupancy_proxy_bps = scaled_ratio(stats.counters.busy_ns, had, 10000);
  report_.shape.tickets = stats.tickets;
  report_.shape.publish_batches = stats.batches;
  report_.shape.regions_per_ticket = stats.most_regions;
  report_.shape.ring_slots = ring_slots();
  report_.shape.worker_sleeps = stats.counters.sleeps;
}

// Items of the regions that were published before the time was over.
std::uint64_t Run::count_published(Word end) const {
  const planner::Plan& plan = memory_.plan;
  std::uint64_t count = 0;
  for (Word place = 0; place < end; ++place) {
    Word item = order_.empty() ? place : order_[place];
    if (plan.places[item] != 0) continue;
    for (; item != backend::kNoNode; item = plan.next_of(item)) ++count;
  }
  return count;
}

// ---- reporting ----

void Run::settle() {
  for (const planner::Duplicate& duplicate : memory_.plan.duplicates) {
    const Word outcome = report_.outcomes[duplicate.kept];
    report_.outcomes[duplicate.item] = outcome;
    if (outcome == backend::kItemDone) {
      ++report_.items_processed;
    } else if (outcome != backend::kItemRemaining) {
      ++report_.items_faulted;
    }
  }
  report_.items_remaining = request_.items.size() - report_.items_processed - report_.items_faulted;
  if (report_.items_faulted != 0) count_faults();
  take_hits();
  RunTelemetry& telemetry = report_.telemetry;
  telemetry.bytes_read_back =
      report_.outcomes.size() * sizeof(Word) + report_.hits.size() * sizeof(abi::Hit);
  telemetry.readback_buffers =
      (report_.outcomes.empty() ? 0u : 1u) + (report_.hits.empty() ? 0u : 1u);
  telemetry.bytes_moved = telemetry.bytes_uploaded + telemetry.bytes_read_back;
}

void Run::count_faults() {
  for (std::size_t i = 0; i < report_.outcomes.size(); ++i) {
    if (report_.end_of(i) != ItemEnd::faulted) continue;
    const Word code = report_.outcomes[i];
    const Word opcode = request_.items[i].op_handle;
    const auto at = std::ranges::lower_bound(
        report_.faults, std::pair(code, opcode), {},
        [](const FaultCount& count) { return std::pair(count.code, count.opcode); });
    if (at != report_.faults.end() && at->code == code && at->opcode == opcode) {
      ++at->items;
    } else {
      report_.faults.insert(at, {.code = code, .opcode = opcode, .items = 1, .first_item = i});
    }
  }
}

void Run::take_hits() {
  const std::uint64_t emitted = hit_count_.load(std::memory_order_acquire);
  const auto hits = memory_.hits.take(std::min<std::uint64_t>(emitted, policy_.hit_capacity));
  report_.hits.assign(hits.begin(), hits.end());
  report_.hits_dropped = emitted - hits.size();
  // One item's hits were emitted one after the other: a stable sort keeps their order.
  std::ranges::stable_sort(report_.hits, {}, &abi::Hit::item);
}

void Run::add_lineage() {
  const auto begin = Clock::now();
  planner::Lineage lineage = planner::trace(request_, memory_.plan);
  for (Word rank = 0; rank < lineage.opcodes.size(); ++rank) {
    const Word opcode = lineage.opcodes[rank];
    const auto found = state_.options.find_handler(opcode);
    report_.lineage_rules.push_back({.bit = opcode % 32,
                                     .wide_bit = rank,
                                     .opcode = opcode,
                                     .name = std::string(found ? found->name : "NOP")});
  }
  report_.region_lineage = std::move(lineage.bits);
  report_.region_lineage_wide = std::move(lineage.wide);
  report_.region_begins = std::move(lineage.region_begins);
  report_.region_items = std::move(lineage.region_items);
  report_.region_outputs = std::move(lineage.region_outputs);
  report_.lineage_items = lineage.items;
  report_.lineage_ns = nanoseconds_since(begin);
}

// A tenant that may run nothing would keep its items until the time is over.
Result<void> check_quotas(std::size_t item_count, const RunConfig& config) {
  if (config.tenant_quotas.size() > abi::kTenantCount) {
    return fail(Code::invalid_argument,
                fmt::format("run: {} quotas for {} tenants", config.tenant_quotas.size(),
                            abi::kTenantCount));
  }
  if (std::ranges::find(config.tenant_quotas, 0u) == config.tenant_quotas.end()) return {};
  for (std::size_t i = 0; i < item_count; ++i) {
    const Word tenant = i < config.origins.size() ? config.origins[i].tenant : config.origin.tenant;
    if (tenant >= config.tenant_quotas.size() || config.tenant_quotas[tenant] != 0) continue;
    return fail(Code::invalid_argument,
                fmt::format("run: item {}: its tenant {} has a quota of 0", i, tenant),
                "give the tenant a quota, or leave its items out");
  }
  return {};
}

Result<void> check_config(const Megakernel::State& state, std::size_t item_count,
                          const RunConfig& config) {
  if (config.max_wall_time <= std::chrono::nanoseconds(0)) {
    return fail(Code::invalid_argument,
                fmt::format("run: max_wall_time is {} ns", config.max_wall_time.count()),
                "give it some time");
  }
  if (item_count > kMaxRunItems) {
    return fail(Code::invalid_argument,
                fmt::format("run: {} items are more than {}", item_count, kMaxRunItems),
                "split the list");
  }
  EVERKERNEL_TRY(check_quotas(item_count, config));
  if (config.execution == RunExecution::interpreter && !state.backend->capabilities().interpreter) {
    return fail(Code::unsupported, "run: this backend has no interpreter",
                "leave the choice to the launch policy, or use the CPU backend");
  }
  if (state.options.payload) {
    return fail(Code::invalid_argument, "run: the megakernel runs a payload for every slot",
                "make one without a payload");
  }
  return {};
}

}  // namespace

Result<Report> Megakernel::run(std::span<const abi::WorkItem> items, const RunConfig& config) {
  const auto begin = Clock::now();
  EVERKERNEL_TRY(check_config(*state_, items.size(), config));
  const auto deadline = backend::deadline_after(config.max_wall_time);
  if (!state_->launch_mutex.try_lock_until(deadline)) {
    return fail(Code::timeout, "run: the megakernel was busy all the time",
                "give it more time, or make a megakernel of your own");
  }
  const std::unique_lock held(state_->launch_mutex, std::adopt_lock);
  if (state_->run_memory == nullptr) {
    state_->run_memory = std::make_shared<RunMemory>(state_->options);
  }
  return Run(*state_, *state_->run_memory, items, config, begin, deadline).run();
}

RegionView Report::region(std::size_t index) const {
  const Word first = region_begins[index];
  const Word end = region_begins[index + 1];
  const std::size_t words = lineage_words();
  return {.first_item = region_items[first],
          .items = std::span(region_items).subspan(first, end - first),
          .output = region_outputs[index],
          .lineage = region_lineage[index],
          .wide = std::span(region_lineage_wide).subspan(index * words, words)};
}

std::size_t Report::lineage_words() const {
  return region_lineage.empty() ? 0 : region_lineage_wide.size() / region_lineage.size();
}

ItemEnd Report::end_of(std::size_t item) const {
  if (outcomes[item] == backend::kItemDone) return ItemEnd::processed;
  return outcomes[item] == backend::kItemRemaining ? ItemEnd::remaining : ItemEnd::faulted;
}

Word Report::fault_code(std::size_t item) const {
  return end_of(item) == ItemEnd::faulted ? outcomes[item] : 0;
}

}  // namespace everkernel
