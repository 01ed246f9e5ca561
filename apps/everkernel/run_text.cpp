// The report of `run` as text: results, time, the decisions of the planner with their reasons, and
// advice for items that failed.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "backends.hpp"
#include "everkernel/abi/fault.hpp"
#include "everkernel/ir/limits.hpp"
#include "fault_text.hpp"
#include "numbers.hpp"
#include "run_outcome.hpp"
#include "table.hpp"

namespace everkernel::cli {
namespace {

using backend::Execution;
using planner::Pressure;
using planner::Topology;

// Rows of a table; --json prints all of them.
constexpr std::size_t kShownRows = 12;
// Words of an output that the table shows.
constexpr std::size_t kShownWords = 8;
constexpr std::size_t kBarColumns = 24;

std::uint64_t items_of(const RunReport& report) {
  return report.items_processed + report.items_remaining + report.items_faulted;
}

std::string bps_text(Word bps) {
  return percent(bps, 10'000);
}

// --- headline, time, items -----------------------------------------------------------------------

// "3 items done in 1.22 ms", or the counts if not all of them are done.
std::string result_text(const RunReport& report) {
  const std::string items = counted(items_of(report), "item");
  const std::string time = duration_text(report.wall_time);
  if (report.items_faulted == 0 && report.items_remaining == 0) {
    return fmt::format("{} done in {}", items, time);
  }
  std::string text =
      fmt::format("{} in {}: {} processed", items, time, grouped(report.items_processed));
  if (report.items_faulted != 0) text += fmt::format(", {} faulted", grouped(report.items_faulted));
  if (report.items_remaining != 0)
    text += fmt::format(", {} remain", grouped(report.items_remaining));
  return text;
}

std::string headline(const RunOutcome& outcome) {
  const RunReport& report = outcome.report;
  const double seconds = std::chrono::duration<double>(report.wall_time).count();
  const auto ended = static_cast<double>(report.items_processed + report.items_faulted);
  const double rate = seconds > 0 ? ended / seconds : 0;
  std::string text = fmt::format("run  {}: {}, {} items/s\n", outcome.job.path, result_text(report),
                                 grouped(static_cast<std::uint64_t>(rate)));
  if (outcome.backend_reason.empty()) return text + fmt::format("  on {}\n", outcome.backend);
  return text + choice_text(outcome.backend, outcome.backend_reason);
}

std::string time_text(const RunOutcome& outcome) {
  const RunReport& report = outcome.report;
  const auto wall = static_cast<std::uint64_t>(report.wall_time.count());
  Table table = Table::plain({Align::left, Align::right, Align::right, Align::left, Align::left});
  const auto row = [&](const char* name, std::uint64_t time_ns, const char* what) {
    const std::uint64_t shown = std::min(time_ns, wall);
    table.add({name, duration_text(std::chrono::nanoseconds(time_ns)), percent(time_ns, wall),
               bar(shown, wall, kBarColumns), what});
  };
  row("plan", report.queue_plan_ns, "equal items, order, regions, launch policy");
  row("publish", report.queue_publish_ns, "filling the ring, while it drains");
  row("dispatch", report.backend_dispatch_ns, "from the first slot to the last item");
  if (outcome.lineage) row("lineage", report.lineage_ns, "tracing handlers to outputs");
  // Publishing is not added: it happens during dispatch.
  const std::uint64_t known = report.queue_plan_ns + report.backend_dispatch_ns + report.lineage_ns;
  row("the rest", wall - std::min(wall, known), "memory, threads, compiling, reading back");
  return "\ntime\n" + table.text(2);
}

std::string items_text(const RunReport& report) {
  const std::uint64_t all = items_of(report);
  Table table = Table::plain({Align::left, Align::right, Align::right, Align::left});
  const auto row = [&](const char* name, std::uint64_t count, const char* what) {
    table.add({name, grouped(count), percent(count, all), what});
  };
  row("processed", report.items_processed, "ran, or an equal item ran for them");
  row("faulted", report.items_faulted, "ended as FAULT");
  row("remaining", report.items_remaining, "had not ended at the time limit");
  row("deduped", report.deduped_items, "dropped: an equal pure item ran");
  const std::uint64_t run = all - std::min(all, report.deduped_items);
  const double length = report.shape.regions == 0
                            ? 0
                            : static_cast<double>(run) / static_cast<double>(report.shape.regions);
  table.add({"regions", grouped(report.shape.regions), "",
             fmt::format("chains of {:.1f} items on average; {}", length,
                         counted(report.shape.edges, "dependency edge"))});
  return "\nitems\n" + table.text(2);
}

// --- faults --------------------------------------------------------------------------------------

std::string faults_text(const RunOutcome& outcome) {
  const auto& faults = outcome.report.faults;
  if (faults.empty()) return {};
  Table table({{"items", Align::right},
               {"fault"},
               {"handler"},
               {"first item", Align::right},
               {"what to do"}},
              4);
  const std::size_t shown = std::min(faults.size(), kShownRows);
  for (const FaultCount& fault : std::span(faults).first(shown)) {
    table.add({grouped(fault.items), fault_text(fault.code),
               fmt::format("{} ({})", handler_name(outcome.job, fault.opcode), fault.opcode),
               grouped(fault.first_item), fault_advice(fault.code, FaultSource::run)});
  }
  return "\nfaults\n" + table.text(2) + more_line(faults.size() - shown);
}

// --- decisions -----------------------------------------------------------------------------------

std::string topology_text(Topology topology) {
  switch (topology) {
    case Topology::empty:
      return "nothing to do";
    case Topology::sparse_frontier:
      return "few items are ready at one time: fewer workers, one region per ticket";
    case Topology::dense_frontier:
      return "many items are ready at one time: all workers, contiguous ranges";
    case Topology::hybrid_frontier:
      return "neither sparse nor dense: tickets of 32 regions";
    case Topology::fused_dense:
      return "dense and hot: ranges grouped by opcode, specialised code";
    case Topology::memory_constrained:
      return "memory is short: fewer workers, in waves";
  }
  return {};
}

std::string pressure_text(Pressure pressure) {
  switch (pressure) {
    case Pressure::empty:
      return "nothing to do";
    case Pressure::light:
      return "fewer items than lanes: few workers are woken, all published at once";
    case Pressure::balanced:
      return "at least one item per lane: published an eighth of the ring at a time";
    case Pressure::saturated:
      return "four items per lane or more: all workers, ring-sized batches";
  }
  return {};
}

std::string execution_text(Execution execution) {
  switch (execution) {
    case Execution::automatic:  // a request; a report says which of the others ran
      break;
    case Execution::interpreter:
      return "the general kernel, which needs no compiling";
    case Execution::native:
      return "a kernel compiled for the opcodes of this run";
  }
  return {};
}

std::string memory_text(const RunTelemetry& telemetry) {
  const std::string peak = counted(telemetry.estimated_peak_device_bytes, "byte");
  if (telemetry.device_memory_budget_bytes == 0) return peak + " at most at one time, no budget";
  return fmt::format("{} at most at one time, of a budget of {}", peak,
                     grouped(telemetry.device_memory_budget_bytes));
}

std::string decisions_text(const RunReport& report) {
  const RunTelemetry& telemetry = report.telemetry;
  const RunShape& shape = report.shape;
  Table table({{""}, {""}, {""}}, 2);
  table.add({"topology", std::string(planner::topology_name(telemetry.topology)),
             topology_text(telemetry.topology)});
  table.add({"pressure", std::string(planner::pressure_name(telemetry.pressure)),
             pressure_text(telemetry.pressure)});
  table.add({"execution", std::string(backend::execution_name(telemetry.execution_mode)),
             execution_text(telemetry.execution_mode)});
  table.add({"workers", grouped(shape.workers),
             fmt::format("busy {} of their time, slept {}", bps_text(telemetry.occupancy_proxy_bps),
                         counted(shape.worker_sleeps, "time"))});
  table.add(
      {"frontier", bps_text(telemetry.frontier_density_bps), "of the ring ready at one time"});
  table.add({"waves", grouped(shape.waves), memory_text(telemetry)});
  table.add({"slots", grouped(shape.tickets),
             fmt::format("published in {}; the ring has {}",
                         fmt::format("{} {}", grouped(shape.publish_batches),
                                     shape.publish_batches == 1 ? "batch" : "batches"),
                         grouped(shape.ring_slots))});
  const auto cached = [](bool hit) { return hit ? "from the cache" : "new"; };
  table.add({"kernel", cached(telemetry.compiled_pipeline_cache_hit),
             fmt::format("ring memory {}; launch policy: {}, {}",
                         cached(telemetry.resident_input_cache_hit),
                         counted(shape.policy_hits, "cache hit"),
                         fmt::format("{} worked out", grouped(shape.policy_misses)))});
  return "\ndecisions\n" + table.text(2);
}

// --- hits ----------------------------------------------------------------------------------------

std::string hits_text(const RunOutcome& outcome) {
  const RunReport& report = outcome.report;
  if (report.hits.empty() && report.hits_dropped == 0) return {};
  std::string text = fmt::format("\nhits\n  {} kept, {} dropped; there is room for {}\n",
                                 grouped(report.hits.size()), grouped(report.hits_dropped),
                                 grouped(report.telemetry.hit_capacity));
  Table table({{"item", Align::right},
               {"handler"},
               {"a", Align::right},
               {"b", Align::right},
               {"c", Align::right}});
  const std::size_t shown = std::min(report.hits.size(), kShownRows);
  for (const abi::Hit& hit : std::span(report.hits).first(shown)) {
    const bool is_known = hit.item < outcome.job.items.size();
    table.add({grouped(hit.item),
               is_known ? handler_name(outcome.job, outcome.job.items[hit.item].op_handle) : "",
               grouped(hit.a), grouped(hit.b), grouped(hit.c)});
  }
  return text + table.text(2) + more_line(report.hits.size() - shown);
}

// --- outputs -------------------------------------------------------------------------------------

std::string outputs_text(const RunOutcome& outcome) {
  if (outcome.outputs.empty()) return {};
  Table table({{"buffer", Align::right}, {"words", Align::right}, {"begins with"}, {"file"}}, 2);
  const std::size_t shown = std::min(outcome.outputs.size(), kShownRows);
  for (std::size_t i = 0; i < shown; ++i) {
    const RunOutput& output = outcome.outputs[i];
    std::string words;
    for (const Word word :
         std::span(output.words).first(std::min(output.words.size(), kShownWords))) {
      words += fmt::format("{}{}", words.empty() ? "" : " ", word);
    }
    if (output.words.size() > kShownWords) words += " ...";
    table.add({std::to_string(output.handle), grouped(output.words.size()), words,
               i < outcome.files.size() ? outcome.files[i].path : ""});
  }
  return "\noutputs\n" + table.text(2) + more_line(outcome.outputs.size() - shown);
}

}  // namespace

std::string more_line(std::size_t hidden) {
  return hidden == 0 ? ""
                     : fmt::format("  ... and {} more: --json has them all\n", grouped(hidden));
}

std::string handler_name(const Job& job, Word opcode) {
  if (opcode == 0) return "NOP";
  const auto* handler = job.handlers ? job.handlers->find(opcode) : nullptr;
  return handler == nullptr ? "" : handler->handler.name;
}

std::string human_text(const RunOutcome& outcome) {
  return headline(outcome) + time_text(outcome) + items_text(outcome.report) +
         faults_text(outcome) + decisions_text(outcome.report) + hits_text(outcome) +
         lineage_text(outcome) + outputs_text(outcome);
}

}  // namespace everkernel::cli
