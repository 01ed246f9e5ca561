// The report of a run, part by part, and the questions a caller may ask of it.
#include "runtime/run_report.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "base/checked.hpp"
#include "planner/lineage.hpp"
#include "runtime/elapsed.hpp"

namespace everkernel {
namespace {

using backend::Clock;

void count_faults(std::span<const abi::WorkItem> items, RunReport& report) {
  for (std::size_t i = 0; i < report.outcomes.size(); ++i) {
    if (report.end_of(i) != ItemEnd::faulted) continue;
    const Word code = report.outcomes[i];
    const Word opcode = items[i].op_handle;
    const auto at = std::ranges::lower_bound(
        report.faults, std::pair(code, opcode), {},
        [](const FaultCount& count) { return std::pair(count.code, count.opcode); });
    if (at != report.faults.end() && at->code == code && at->opcode == opcode) {
      ++at->items;
    } else {
      report.faults.insert(at, {.code = code, .opcode = opcode, .items = 1, .first_item = i});
    }
  }
}

}  // namespace

void report_plan(const planner::Plan& plan, RunReport& report) {
  report.deduped_items = plan.duplicates.size();
  report.shape.regions = plan.regions;
  report.shape.edges = plan.dependencies;
  report.shape.joins = plan.joins.size();
}

void report_barrier(const ir::HandlerTraits& handler, std::uint64_t items, RunReport& report) {
  const ir::Effects& effects = handler.effects;
  const char* reason = "moves its buffers: stores to args[0] or args[1], or at a variable index";
  if (effects.uses_handles) {
    reason = "uses buffer(h)";
  } else if (effects.writes_control) {
    reason = "writes control words";
  }
  report.barriers.push_back({.opcode = handler.opcode,
                             .name = std::string(handler.name),
                             .reason = reason,
                             .items = items});
}

void report_policy(const planner::LaunchPolicy& policy, RunReport& report) {
  report.telemetry.frontier_density_bps = policy.density_bps;
  report.telemetry.topology = policy.topology;
  report.telemetry.pressure = policy.pressure;
  report.telemetry.hit_capacity = policy.hit_capacity;
  report.telemetry.estimated_peak_device_bytes = policy.peak_bytes;
  report.shape.workers = policy.workers;
}

void report_feed(const FeedStats& stats, Word worker_count, RunReport& report) {
  report.queue_publish_ns = stats.publish_ns;
  report.backend_dispatch_ns = stats.dispatch_ns;
  report.items_processed = stats.counters.done;
  report.items_faulted = stats.counters.faulted;
  report.barrier_ns = stats.counters.barrier_ns;
  report.telemetry.bytes_uploaded = stats.bytes_uploaded;
  report.telemetry.bytes_uploaded += stats.counters.bytes_uploaded;
  const auto launches = static_cast<Word>(stats.counters.launches);
  report.telemetry.kernel_launches = std::max<Word>(1, launches);
  report.telemetry.sync_points = stats.sync_points + launches;
  const std::uint64_t had = stats.dispatch_ns * worker_count;
  report.telemetry.occupancy_proxy_bps = scaled_ratio(stats.counters.busy_ns, had, 10000);
  report.shape.tickets = stats.tickets;
  report.shape.publish_batches = stats.batches;
  report.shape.regions_per_ticket = stats.most_regions;
  report.shape.worker_sleeps = stats.counters.sleeps;
}

void report_code(const CodeUse& use, RunReport& report) {
  const bool is_native = use.items_interpreted < use.items_handled;
  report.telemetry.execution_mode =
      is_native ? backend::Execution::native : backend::Execution::interpreter;
  report.telemetry.compiled_pipeline_cache_hit = use.compiled_handlers == 0;
  report.shape.compiled_handlers = use.compiled_handlers;
  report.shape.compile_ns = use.compile_ns;
  report.shape.items_interpreted = use.items_interpreted;
}

void report_outcomes(const planner::PlanRequest& request, const planner::Plan& plan,
                     RunReport& report) {
  for (const planner::Duplicate& duplicate : plan.duplicates) {
    const Word outcome = report.outcomes[duplicate.kept];
    report.outcomes[duplicate.item] = outcome;
    if (outcome == backend::kItemDone) {
      ++report.items_processed;
    } else if (outcome != backend::kItemRemaining) {
      ++report.items_faulted;
    }
  }
  report.items_remaining = request.items.size() - report.items_processed - report.items_faulted;
  if (report.items_faulted != 0) count_faults(request.items, report);
}

void report_hits(backend::HitStore& hits, backend::HitStore& prints, RunReport& report) {
  const auto kept = hits.finish();
  report.hits.assign(kept.begin(), kept.end());
  report.hits_dropped = hits.dropped();
  report.hit_limit = hits.limit();
  for (const abi::Hit& record : prints.finish()) {
    report.prints.push_back({record.item, record.a, record.b, record.c});
  }
  report.prints_dropped = prints.dropped();
  // The estimate counts the first size of the buffer, which may have grown.
  const std::uint64_t first = report.telemetry.hit_capacity;
  const std::uint64_t grown = std::max<std::uint64_t>(kept.size(), first) - first;
  report.telemetry.estimated_peak_device_bytes += grown * planner::kHitBytes;
}

void report_readback(RunReport& report) {
  RunTelemetry& telemetry = report.telemetry;
  telemetry.bytes_read_back = report.outcomes.size() * sizeof(Word) +
                              report.hits.size() * sizeof(abi::Hit) +
                              report.prints.size() * sizeof(PrintRecord);
  telemetry.readback_buffers = (report.outcomes.empty() ? 0u : 1u) +
                               (report.hits.empty() ? 0u : 1u) + (report.prints.empty() ? 0u : 1u);
  telemetry.bytes_moved = telemetry.bytes_uploaded + telemetry.bytes_read_back;
}

void report_lineage(const planner::PlanRequest& request, const planner::Plan& plan,
                    const backend::KernelOptions& kernel, RunReport& report) {
  const auto begin = Clock::now();
  planner::Lineage lineage = planner::trace(request, plan);
  for (Word rank = 0; rank < lineage.opcodes.size(); ++rank) {
    const Word opcode = lineage.opcodes[rank];
    const auto found = kernel.find_handler(opcode);
    report.lineage_rules.push_back({.bit = opcode % 32,
                                    .wide_bit = rank,
                                    .opcode = opcode,
                                    .name = std::string(found ? found->name : "NOP")});
  }
  report.region_lineage = std::move(lineage.bits);
  report.region_lineage_wide = std::move(lineage.wide);
  report.region_begins = std::move(lineage.region_begins);
  report.region_items = std::move(lineage.region_items);
  report.region_outputs = std::move(lineage.region_outputs);
  report.lineage_items = lineage.items;
  report.lineage_ns = nanoseconds_since(begin);
}

RegionView RunReport::region(std::size_t index) const {
  const Word first = region_begins[index];
  const Word end = region_begins[index + 1];
  const std::size_t words = lineage_words();
  return {.first_item = region_items[first],
          .items = std::span(region_items).subspan(first, end - first),
          .output = region_outputs[index],
          .lineage = region_lineage[index],
          .wide = std::span(region_lineage_wide).subspan(index * words, words)};
}

std::size_t RunReport::lineage_words() const {
  return region_lineage.empty() ? 0 : region_lineage_wide.size() / region_lineage.size();
}

ItemEnd RunReport::end_of(std::size_t item) const {
  if (outcomes[item] == backend::kItemDone) return ItemEnd::processed;
  return outcomes[item] == backend::kItemRemaining ? ItemEnd::remaining : ItemEnd::faulted;
}

Word RunReport::fault_code(std::size_t item) const {
  return end_of(item) == ItemEnd::faulted ? outcomes[item] : 0;
}

}  // namespace everkernel
