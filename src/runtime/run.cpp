// A whole work queue: plan it, decide how to run it, feed it through a queue, and report.
#include "everkernel/runtime/run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "everkernel/memory/available.hpp"
#include "everkernel/runtime/megakernel.hpp"
#include "planner/opcode_ranks.hpp"
#include "planner/waves.hpp"
#include "runtime/elapsed.hpp"
#include "runtime/out_of_memory.hpp"
#include "runtime/run_check.hpp"
#include "runtime/run_decisions.hpp"
#include "runtime/run_feed.hpp"
#include "runtime/run_memory.hpp"
#include "runtime/run_report.hpp"
#include "runtime/state.hpp"

namespace everkernel {
namespace {

using backend::Clock;
using backend::Execution;
using planner::Topology;

// Room for hits that the next run finds; a run that needed more gives it back.
constexpr std::size_t kKeptHitRoom = std::size_t{1} << 20;

// One call of run().
class Run {
 public:
  Run(Megakernel::State& state, RunMemory& memory, std::span<const abi::WorkItem> items,
      const RunOptions& options, Clock::time_point begin, const backend::Deadline& deadline)
      : state_(state),
        memory_(memory),
        options_(options),
        request_{.items = items,
                 .origins = options.origins,
                 .origin = options.origin,
                 .effects = &memory.effects,
                 .ordered = options.ordered,
                 .dedupe = options.dedupe,
                 .fuse = options.fuse,
                 .deadline = deadline},
        begin_(begin),
        deadline_(deadline) {}

  Result<RunReport> run() {
    auto prepared = make_plan();
    if (prepared) prepared = decide();
    if (!prepared && prepared.error().code == Code::timeout) return report_nothing_ran();
    if (!prepared) return Failure(prepared.error());
    if (deadline_.has_passed()) return report_nothing_ran();
    if (kept_items() != 0) {
      EVERKERNEL_TRY(feed());
      EVERKERNEL_TRY(table_->refresh_copies());
    }
    report_code(count_code(), report_);
    report_outcomes(request_, memory_.plan, report_);
    take_hits();
    report_.is_stopped = report_.items_remaining != 0 && deadline_.is_stop_requested();
    report_readback(report_);
    if (options_.lineage) report_lineage(request_, memory_.plan, state_.options, report_);
    report_.wall_time = Clock::now() - begin_;
    return std::move(report_);
  }

 private:
  // The deadline passed before anything could run.
  RunReport report_nothing_ran() {
    report_.outcomes.assign(request_.items.size(), backend::kItemRemaining);
    report_.items_remaining = request_.items.size();
    report_.is_stopped = deadline_.is_stop_requested();
    report_.wall_time = Clock::now() - begin_;
    // All of it but the wait for code, which has a number of its own.
    const auto wall_ns = static_cast<std::uint64_t>(report_.wall_time.count());
    report_.queue_plan_ns = wall_ns - std::min(wall_ns, report_.code_wait_ns);
    return std::move(report_);
  }

  std::uint64_t kept_items() const {
    return request_.items.size() - memory_.plan.duplicates.size();
  }
  RunFacts facts() const {
    return {.device = state_.backend->capabilities(),
            .kernel = state_.options,
            .options = options_,
            .plan = memory_.plan,
            .kept_items = kept_items(),
            .resident_bytes = resident_bytes_,
            .last_requeues = memory_.last_requeues,
            .last_topology = memory_.last_topology,
            .deadline = deadline_.time};
  }

  Result<void> make_plan();
  void find_barriers();
  Result<void> check_handlers() const;
  Result<void> decide();
  Result<void> choose_kernel();
  void choose_order();
  Result<void> split();
  std::vector<std::uint64_t> bytes_of_handles() const;
  Result<void> feed();
  backend::WorkGraph make_graph();
  std::uint64_t count_published(Word end) const;
  CodeUse count_code() const;
  std::uint64_t count_handled() const;
  bool emits() const;
  std::uint64_t hit_limit() const;
  void take_hits();

  Megakernel::State& state_;
  RunMemory& memory_;
  const RunOptions& options_;
  planner::PlanRequest request_;
  const Clock::time_point begin_;
  const backend::Deadline deadline_;
  std::shared_ptr<TableSnapshot> table_;
  std::uint64_t resident_bytes_ = 0;
  std::vector<Word> barriers_;  // opcodes of barriers, if the run is ordered
  planner::LaunchPolicy policy_;
  RunKernelKey kernel_key_;
  RunKernel kernel_;
  std::vector<Word> order_;
  std::vector<Word> waves_;
  std::uint64_t buffer_bytes_ = 0;  // of the largest wave, without hits
  std::optional<backend::HitStore> hits_;
  std::optional<backend::HitStore> prints_;
  RunReport report_;
};

// ---- planning ----

Result<void> Run::make_plan() {
  const auto begin = Clock::now();
  EVERKERNEL_TRY(planner::plan(request_, memory_.plan));
  EVERKERNEL_TRY(check_handlers());
  table_ = state_.current_table();
  for (const auto& buffer : table_->owners) {
    resident_bytes_ += buffer->options.word_count * abi::kWordBytes;
  }
  report_.queue_plan_ns = nanoseconds_since(begin);
  report_plan(memory_.plan, report_);
  find_barriers();
  return {};
}

void Run::find_barriers() {
  if (!options_.ordered) return;
  for (const OpcodeCount& count : memory_.plan.opcodes) {
    if ((memory_.effects.find(count.opcode) & planner::kBarrier) == 0) continue;
    barriers_.push_back(count.opcode);
    report_barrier(*state_.options.find_handler(count.opcode), count.items, report_);
  }
}

Result<void> Run::check_handlers() const {
  for (const OpcodeCount& count : memory_.plan.opcodes) {
    const auto found = state_.options.find_handler(count.opcode);
    if (!found || !found->effects.can_await) continue;
    return fail(Code::unsupported,
                fmt::format("run: handler {} awaits IO, and a run has no IO service", found->name),
                "publish its items into a session");
  }
  return {};
}

// ---- deciding ----

Result<void> Run::decide() {
  EVERKERNEL_TRY(choose_kernel());
  const auto begin = Clock::now();
  choose_order();
  auto is_split = split();
  if (!is_split && request_.fuse) {
    // Items that fit the memory budget one by one may exceed it as a region.
    request_.fuse = false;
    EVERKERNEL_TRY(planner::plan(request_, memory_.plan));
    report_plan(memory_.plan, report_);
    choose_order();
    is_split = split();
  }
  if (!is_split) return is_split;
  report_.queue_plan_ns += nanoseconds_since(begin);
  report_policy(policy_, report_);
  report_.telemetry.device_memory_budget_bytes = options_.memory_budget_bytes;
  report_.shape.pipeline_id = kernel_.kernel->pipeline_id();
  report_.shape.policy_hits = memory_.policies.hits();
  report_.shape.policy_misses = memory_.policies.misses();
  report_.shape.waves = waves_.size();
  return {};
}

// Asks the launch policy, then finds the code. Compiling does not count as planning.
Result<void> Run::choose_kernel() {
  const auto begin = Clock::now();
  policy_ = memory_.policies.recommend(launch_request(facts()));
  memory_.last_topology = policy_.topology;
  const RunFacts run = facts();
  // Workers that share a ticket are lanes of a GPU, which cost nothing while they are idle.
  if (run.device.shares_slot_across_workers && options_.worker_count == 0 && policy_.workers != 0) {
    policy_.workers = run.device.max_worker_count;
  }
  const bool has_handlers = std::ranges::any_of(
      memory_.plan.opcodes, [](const OpcodeCount& count) { return count.opcode != 0; });
  const bool compiles = has_handlers && compiles_code(run, policy_);
  const bool is_native = compiles || (has_handlers && !run.device.interpreter);
  policy_.execution = is_native ? Execution::native : Execution::interpreter;
  report_.queue_plan_ns += nanoseconds_since(begin);
  kernel_key_ = kernel_key(run, compiles);
  const auto code_begin = Clock::now();
  kernel_ = EVERKERNEL_TRY(find_kernel(state_, memory_, kernel_key_));
  Result<void> prepared;
  if (is_native || !run.device.interpreter) {
    std::vector<Word> opcodes;
    for (const OpcodeCount& count : memory_.plan.opcodes) opcodes.push_back(count.opcode);
    prepared = kernel_.kernel->prepare({.opcodes = opcodes, .deadline = deadline_});
  }
  report_.code_wait_ns = nanoseconds_since(code_begin);
  return prepared;
}

void Run::choose_order() {
  const bool is_sorted = policy_.execution == Execution::native &&
                         memory_.plan.opcodes.size() > 1 &&
                         policy_.topology != Topology::sparse_frontier;
  if (memory_.plan.has_priorities) {
    order_ =
        planner::order_by_priority(request_, memory_.plan, regions_per_ticket(facts(), policy_));
  } else if (is_sorted) {
    order_ = planner::order_by_opcode(request_, memory_.plan);
    report_.shape.grouped_by_opcode = true;
  }
}

// Splits the order into waves that fit the memory budget.
Result<void> Run::split() {
  const planner::Plan& plan = memory_.plan;
  const std::vector<std::uint64_t> handle_bytes = bytes_of_handles();
  const std::uint64_t hit_bytes =
      emits() ? std::uint64_t{policy_.hit_capacity} * planner::kHitBytes : 0;
  auto waves = EVERKERNEL_TRY(planner::split_waves({.items = request_.items,
                                                    .places = plan.places,
                                                    .nodes = plan.nodes,
                                                    .order = order_,
                                                    .handles = plan.handles,
                                                    .handle_bytes = handle_bytes,
                                                    .budget_bytes = options_.memory_budget_bytes,
                                                    .fixed_bytes = hit_bytes}));
  waves_ = std::move(waves.begins);
  if (waves.largest_bytes != 0) {
    policy_.peak_bytes = waves.largest_bytes;
    buffer_bytes_ = waves.largest_bytes - hit_bytes;
  }
  return {};
}

bool Run::emits() const {
  return std::ranges::any_of(memory_.plan.opcodes, [this](const OpcodeCount& count) {
    const auto found = state_.options.find_handler(count.opcode);
    return found && found->effects.emits;
  });
}

// Most hits to keep: those asked for, or those that the buffers leave room for.
std::uint64_t Run::hit_limit() const {
  if (options_.hit_capacity != 0) return options_.hit_capacity;
  if (!emits()) return policy_.hit_capacity;
  std::uint64_t bytes = options_.memory_budget_bytes;
  if (bytes != 0) {
    bytes -= std::min(bytes, buffer_bytes_);
  } else {
    // The hits come to the host in the end, whose control group may allow less than the device has.
    const std::uint64_t host_bytes = memory::available().bytes;
    bytes = std::min(state_.backend->capabilities().memory_bytes, host_bytes) / kHitMemoryShare;
  }
  return std::max<std::uint64_t>(bytes / planner::kHitBytes, policy_.hit_capacity);
}

// Bytes of every handle's buffer, by place; empty without a budget, where no wave needs them.
std::vector<std::uint64_t> Run::bytes_of_handles() const {
  if (options_.memory_budget_bytes == 0) return {};
  const backend::HandlePlaces& handles = memory_.plan.handles;
  std::vector<std::uint64_t> bytes(handles.count);
  for (std::size_t place = 0; place < bytes.size(); ++place) {
    const Word handle = handles.keys.empty() ? static_cast<Word>(place) : handles.keys[place];
    const memory::BufferEntry* const entry = table_->table.view().find(handle);
    if (entry != nullptr) bytes[place] = std::uint64_t{entry->word_count} * abi::kWordBytes;
  }
  return bytes;
}

// ---- running ----

backend::WorkGraph Run::make_graph() {
  planner::Plan& plan = memory_.plan;
  const bool has_waiters = plan.dependencies != 0;
  // A region that waits also waits for its own claim.
  for (std::size_t i = 0; has_waiters && i < plan.places.size(); ++i) {
    if (plan.places[i] == 0 && plan.waiting_for[i] != 0) ++plan.waiting_for[i];
  }
  report_.outcomes.assign(request_.items.size(), backend::kItemRemaining);
  const auto poisoned_by = memory_.poisoned_by.take(plan.handles.count);
  std::ranges::fill(poisoned_by, 0);
  hits_.emplace(memory_.hits, emits() ? policy_.hit_capacity : 0, hit_limit());
  prints_.emplace(memory_.prints, 0, kMaxRunPrints);
  return {.items = request_.items,
          .origins = request_.origins,
          .origin = request_.origin,
          .ordered = request_.ordered,
          .ages = policy_.ages,
          .has_waiters = has_waiters,
          .places = plan.places,
          .nodes = plan.nodes,
          .joins = plan.joins,
          .edges = plan.edges,
          .waiting_for = plan.waiting_for,
          .join_waiting_for = plan.join_waiting_for,
          .ticket_of = plan.arrays.links.take(request_.items.size()),
          .order = order_,
          .outcomes = report_.outcomes,
          .handles = plan.handles,
          .poisoned_by = poisoned_by,
          .barriers = barriers_,
          .hits = &*hits_,
          .prints = &*prints_};
}

Result<void> Run::feed() {
  const Word allocations = memory_.allocations();
  backend::WorkGraph graph = make_graph();
  const RunFacts run = facts();
  const Word capacity = queue_entries(state_.options);
  const auto feed = EVERKERNEL_TRY(
      RunFeed::create(memory_, graph,
                      {.capacity = capacity,
                       .worker_count = policy_.workers,
                       .regions_per_ticket = regions_per_ticket(run, policy_),
                       .largest_batch = largest_batch(run, policy_),
                       .tenant_quotas = options_.tenant_quotas,
                       .deadline = deadline_,
                       .item_count = kept_items(),
                       .progress = options_.progress ? &options_.progress : nullptr}));
  const auto order_end = static_cast<Word>(order_.empty() ? request_.items.size() : order_.size());
  const FeedStats stats =
      EVERKERNEL_TRY(feed->run(*kernel_.kernel, table_->table.view(), waves_, order_end));
  memory_.last_requeues = stats.counters.requeues;
  report_feed(stats, policy_.workers, report_);
  report_.telemetry.resident_allocations = memory_.allocations() - allocations;
  report_.telemetry.resident_input_cache_hit = report_.telemetry.resident_allocations == 0;
  report_.shape.queue_entries = capacity;
  report_.published_items =
      stats.published_end == order_end ? kept_items() : count_published(stats.published_end);
  return {};
}

// Items of the regions that were published before the deadline.
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

CodeUse Run::count_code() const {
  const backend::CodeCounts now = kernel_.kernel->code_counts();
  const backend::CodeCounts& before = kernel_.counts_before;
  CodeUse use{.compiled_handlers = now.compiled - before.compiled,
              .compile_ns = now.compile_ns - before.compile_ns,
              .items_handled = count_handled()};
  switch (kernel_key_.execution) {
    case Execution::interpreter:
      use.items_interpreted = use.items_handled;
      break;
    case Execution::automatic:
      use.items_interpreted = state_.backend->capabilities().native_code
                                  ? now.items_interpreted - before.items_interpreted
                                  : use.items_handled;
      break;
    case Execution::native:
      break;
  }
  return use;
}

// Items that handlers of the program ran to their end.
std::uint64_t Run::count_handled() const {
  const ir::VerifiedProgram* const program = state_.options.find_program();
  if (program == nullptr) return 0;
  const auto is_handled = [&](Word opcode) { return program->find(opcode) != nullptr; };
  std::uint64_t count = 0;
  for (const OpcodeCount& opcode : memory_.plan.opcodes) {
    if (is_handled(opcode.opcode)) count += opcode.items;
  }
  if (report_.items_processed == kept_items()) return count;
  // Some items faulted or remain: those that ran are counted one by one.
  planner::OpcodeRanks ranks;
  std::vector<bool> handled_ranks;
  for (const OpcodeCount& opcode : memory_.plan.opcodes) {
    static_cast<void>(ranks[opcode.opcode]);
    handled_ranks.push_back(is_handled(opcode.opcode));
  }
  count = 0;
  for (std::size_t i = 0; i < report_.outcomes.size(); ++i) {
    const Word outcome = report_.outcomes[i];
    const bool has_run = outcome != backend::kItemRemaining &&
                         outcome != static_cast<Word>(abi::FaultCode::input_faulted) &&
                         memory_.plan.places[i] != backend::kDroppedPlace;
    if (has_run && handled_ranks[ranks[request_.items[i].op_handle]]) ++count;
  }
  return count;
}

void Run::take_hits() {
  if (!hits_) return;  // nothing ran
  report_hits(*hits_, *prints_, report_);
  if (memory_.hits.capacity() > kKeptHitRoom) memory_.hits.release();
}

}  // namespace

Result<RunReport> Megakernel::run(std::span<const abi::WorkItem> items, const RunOptions& options) {
  const auto begin = Clock::now();
  const auto state = state_;  // this object may be destroyed before the call returns
  EVERKERNEL_TRY(state->home.check("megakernel"));
  EVERKERNEL_TRY(check_run(*state, items.size(), options));
  const backend::Deadline deadline(backend::deadline_after(options.timeout), options.stop);
  const auto held = EVERKERNEL_TRY(state->lock_launches("run", deadline));
  return or_out_of_memory("run", [&]() -> Result<RunReport> {
    if (state->run_memory == nullptr) {
      state->run_memory = std::make_shared<RunMemory>(state->options);
    }
    return Run(*state, *state->run_memory, items, options, begin, deadline).run();
  });
}

}  // namespace everkernel
