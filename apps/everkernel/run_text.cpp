// The report of `run` as text: results, time, the decisions of the planner with their reasons, and
// advice for items that failed.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "backends.hpp"
#include "everkernel/abi/fault.hpp"
#include "everkernel/base/duration_text.hpp"
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
std::string result_text(const RunReport& report, std::chrono::nanoseconds total) {
  const std::string items = counted(items_of(report), "item");
  const std::string time = duration_text(total);
  if (report.items_faulted == 0 && report.items_remaining == 0) {
    return fmt::format("{} done in {}", items, time);
  }
  std::string text =
      fmt::format("{} in {}: {} processed", items, time, grouped(report.items_processed));
  if (report.items_faulted != 0) text += fmt::format(", {} faulted", grouped(report.items_faulted));
  if (report.items_remaining != 0)
    text += fmt::format(", {} remain", grouped(report.items_remaining));
  if (report.is_stopped) text += ", interrupted";
  return text;
}

// The times are those of the whole command, up to this report.
std::string headline(const RunOutcome& outcome, std::chrono::nanoseconds total) {
  const RunReport& report = outcome.report;
  const std::uint64_t ended = report.items_processed + report.items_faulted;
  std::string text = fmt::format("run  {}: {}, {}\n", outcome.job.path, result_text(report, total),
                                 rate_text(ended, total, "item"));
  if (outcome.backend_reason.empty()) return text + fmt::format("  on {}\n", outcome.backend);
  return text + choice_text(outcome.backend, outcome.backend_reason);
}

std::string time_text(const RunOutcome& outcome, std::chrono::nanoseconds total) {
  const RunReport& report = outcome.report;
  const CommandTimes& times = outcome.times;
  const auto whole = static_cast<std::uint64_t>(total.count());
  std::uint64_t known = 0;
  Table table = Table::plain({Align::left, Align::right, Align::right, Align::left, Align::left});
  const auto row = [&](const char* name, std::uint64_t time_ns, const char* what) {
    const std::uint64_t shown = std::min(time_ns, whole);
    table.add({name, duration_text(std::chrono::nanoseconds(time_ns)), percent(time_ns, whole),
               bar(shown, whole, kBarColumns), what});
    known += time_ns;
  };
  row("read", static_cast<std::uint64_t>(times.read_job.count()), "the job and its files");
  row("prepare", static_cast<std::uint64_t>(times.prepare.count()), "backend, kernel, buffers");
  row("plan", report.queue_plan_ns, "equal items, order, regions, launch policy");
  row("code", report.code_wait_ns, "wait for code that is compiled or loaded");
  row("publish", report.queue_publish_ns, "filling the queue, while it drains");
  known -= report.queue_publish_ns;  // it happens during dispatch
  row("dispatch", report.backend_dispatch_ns, "from the first ticket to the last item");
  if (outcome.lineage) row("lineage", report.lineage_ns, "tracing handlers to outputs");
  row("outputs", static_cast<std::uint64_t>(times.outputs.count()), "read back, write files");
  row("the rest", whole - std::min(whole, known), "memory, threads, hits");
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
  row("remaining", report.items_remaining,
      report.is_stopped ? "had not ended at the signal" : "had not ended at the time limit");
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

// --- barriers ------------------------------------------------------------------------------------

std::string barriers_text(const RunReport& report) {
  if (report.barriers.empty()) return {};
  Table table({{"handler"}, {"items", Align::right}, {"why it is a barrier"}}, 2);
  std::uint64_t items = 0;
  for (const BarrierCount& barrier : report.barriers) items += barrier.items;
  const std::size_t shown = std::min(report.barriers.size(), kShownRows);
  for (const BarrierCount& barrier : std::span(report.barriers).first(shown)) {
    table.add({fmt::format("{} ({})", barrier.name, barrier.opcode), grouped(barrier.items),
               barrier.reason});
  }
  std::string text = fmt::format(
      "\nbarriers\n  {} waited for all items before, and all items behind waited for {}.\n",
      counted(items, "item"), items == 1 ? "it" : "them");
  if (report.barrier_ns != 0) {
    text += fmt::format(
        "  Meanwhile one worker ran and the others had nothing to do: {}, {} of dispatch.\n",
        duration_text(std::chrono::nanoseconds(report.barrier_ns)),
        percent(report.barrier_ns, report.backend_dispatch_ns));
  }
  return text + table.text(2) + more_line(report.barriers.size() - shown);
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
      return "at least one item per lane: published an eighth of the queue at a time";
    case Pressure::saturated:
      return "four items per lane or more: all workers, queue-sized batches";
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
      {"frontier", bps_text(telemetry.frontier_density_bps), "of the queue ready at one time"});
  table.add({"waves", grouped(shape.waves), memory_text(telemetry)});
  table.add({"tickets", grouped(shape.tickets),
             fmt::format("published in {}; the queue has room for {}",
                         fmt::format("{} {}", grouped(shape.publish_batches),
                                     shape.publish_batches == 1 ? "batch" : "batches"),
                         grouped(shape.queue_entries))});
  const auto cached = [](bool hit) { return hit ? "from the cache" : "new"; };
  table.add({"kernel", cached(telemetry.compiled_pipeline_cache_hit),
             fmt::format("queue memory {}; launch policy: {}, {}",
                         cached(telemetry.resident_input_cache_hit),
                         counted(shape.policy_hits, "cache hit"),
                         fmt::format("{} worked out", grouped(shape.policy_misses)))});
  return "\ndecisions\n" + table.text(2);
}

// --- hits and printf -----------------------------------------------------------------------------

// A row for each, whatever their columns are called.
std::string records_text(const RunOutcome& outcome, std::vector<Column> columns,
                         std::span<const std::array<Word, 4>> records, std::size_t all) {
  Table table(std::move(columns));
  for (const auto& [item, first, second, third] : records) {
    const bool is_known = item < outcome.job.items.size();
    table.add({grouped(item), is_known ? handler_name(outcome.job, outcome.job.items.op(item)) : "",
               grouped(first), grouped(second), grouped(third)});
  }
  return table.text(2) + more_line(all - records.size());
}

// Why hits were dropped and what to do; the end of a line.
std::string dropped_hits_text(const RunOutcome& outcome) {
  const RunReport& report = outcome.report;
  if (report.hits_dropped == 0) return "\n";
  const bool was_asked = report.hit_limit == report.telemetry.hit_capacity;
  const bool may_vary = outcome.backend != "cpu";  // hits come from a device as items end
  if (report.hits.size() < report.hit_limit) {
    // The room on a device grows between launches only.
    return fmt::format(
        ": one launch emitted more than there was room for; another run may keep others\n"
        "  to keep all, give --hit-capacity {}\n",
        report.hits.size() + report.hits_dropped);
  }
  return fmt::format(": there was room for {}{}\n  {}\n", grouped(report.hit_limit),
                     may_vary ? "; another run may keep others" : ", and the first are kept",
                     was_asked ? "to keep more, raise --hit-capacity or omit it"
                               : "to keep more, raise --memory-budget or split the job");
}

std::string hits_text(const RunOutcome& outcome) {
  const RunReport& report = outcome.report;
  if (report.hits.empty() && report.hits_dropped == 0) return {};
  std::vector<std::array<Word, 4>> rows;
  for (const abi::Hit& hit : std::span(report.hits).first(std::min(report.hits.size(), kShownRows)))
    rows.push_back({hit.item, hit.a, hit.b, hit.c});
  return fmt::format("\nhits\n  {} kept, {} dropped", grouped(report.hits.size()),
                     grouped(report.hits_dropped)) +
         dropped_hits_text(outcome) +
         records_text(outcome,
                      {{"item", Align::right},
                       {"handler"},
                       {"a", Align::right},
                       {"b", Align::right},
                       {"c", Align::right}},
                      rows, report.hits.size());
}

std::string prints_text(const RunOutcome& outcome) {
  const RunReport& report = outcome.report;
  if (report.prints.empty() && report.prints_dropped == 0) return {};
  std::vector<std::array<Word, 4>> rows;
  for (const PrintRecord& record :
       std::span(report.prints).first(std::min(report.prints.size(), kShownRows)))
    rows.push_back({record.item, record.format, record.a, record.b});
  return fmt::format("\nprintf\n  {} kept, {} dropped\n", grouped(report.prints.size()),
                     grouped(report.prints_dropped)) +
         records_text(outcome,
                      {{"item", Align::right},
                       {"handler"},
                       {"format", Align::right},
                       {"a", Align::right},
                       {"b", Align::right}},
                      rows, report.prints.size());
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
    table.add({std::to_string(output.handle), grouped(output.words.size()), words, output.file});
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
  const auto total = outcome.times.total();
  return headline(outcome, total) + time_text(outcome, total) + items_text(outcome.report) +
         faults_text(outcome) + barriers_text(outcome.report) + decisions_text(outcome.report) +
         hits_text(outcome) + prints_text(outcome) + lineage_text(outcome) + outputs_text(outcome);
}

}  // namespace everkernel::cli
