// The report of `dispatch`: how the items ended, advice for faults, and the written files.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "backends.hpp"
#include "dispatch_outcome.hpp"
#include "everkernel/abi/fault.hpp"
#include "everkernel/base/duration_text.hpp"
#include "everkernel/base/json_writer.hpp"
#include "everkernel/ir/limits.hpp"
#include "fault_text.hpp"
#include "numbers.hpp"
#include "slot_text.hpp"
#include "table.hpp"

namespace everkernel::cli {
namespace {

using abi::SlotStatus;
using backend::DrainEnd;

// Rows of a table; `inspect` shows all slots.
constexpr std::size_t kShownRows = 16;

// Why a slot that the explainer finds nothing wrong with has not ended.
std::string open_reason(SlotStatus status, DrainEnd end) {
  if (status == SlotStatus::wait_io) return "waits for IO, which this version does not serve";
  if (status == SlotStatus::claimed) return "was claimed before this run";
  switch (end) {
    case DrainEnd::deadline:
      return "had not ended at the deadline";
    case DrainEnd::stopped:
      return "had not ended when the dispatch was interrupted";
    case DrainEnd::shutdown:
      return "shutdown is set";
    case DrainEnd::complete:
      break;
  }
  return "yields or requeues without progress";
}

std::string end_text(DrainEnd end) {
  switch (end) {
    case DrainEnd::complete:
      return "every slot that could run has run";
    case DrainEnd::shutdown:
      return "shutdown was set";
    case DrainEnd::deadline:
      return "the deadline was reached";
    case DrainEnd::stopped:
      return "it was interrupted";
  }
  return "";
}

// The groups, largest first; groups of one size keep the order of the map.
template <class Group, class Key>
std::vector<Group> by_count(const std::map<Key, Group>& groups) {
  std::vector<Group> rows;
  for (const auto& [key, group] : groups) rows.push_back(group);
  std::ranges::stable_sort(rows, std::ranges::greater{}, &Group::count);
  return rows;
}

std::string more_line(std::size_t hidden) {
  if (hidden == 0) return {};
  return fmt::format("  ... and {} more: everkernel inspect shows every slot\n", grouped(hidden));
}

std::string faults_text(const std::vector<FaultGroup>& faults) {
  if (faults.empty()) return {};
  Table table({{"count", Align::right}, {"fault"}, {"opcode"}, {"what to do"}}, 3);
  const std::size_t shown = std::min(faults.size(), kShownRows);
  for (const FaultGroup& group : std::span(faults).first(shown)) {
    table.add({grouped(group.count), fault_text(group.fault_code), opcode_text(group.opcode),
               fault_advice(group.fault_code, FaultSource::dispatch)});
  }
  return "\nfaults\n" + table.text(2) + more_line(faults.size() - shown);
}

std::string remaining_text(const std::vector<RemainingGroup>& remaining) {
  if (remaining.empty()) return {};
  Table table({{"count", Align::right}, {"status"}, {"opcode"}, {"why"}}, 3);
  const std::size_t shown = std::min(remaining.size(), kShownRows);
  for (const RemainingGroup& group : std::span(remaining).first(shown)) {
    table.add({grouped(group.count), abi::status_name(group.status), opcode_text(group.opcode),
               group.why});
  }
  return "\nremaining\n" + table.text(2) + more_line(remaining.size() - shown);
}

void write_stats(JsonWriter& json, const DispatchStats& stats) {
  json.field("items_done", stats.items_done).field("items_faulted", stats.items_faulted);
  json.field("items_remaining", stats.items_remaining).field("latency_ns", stats.latency_ns);
  json.field("input_bytes", stats.input_bytes).field("output_bytes", stats.output_bytes);
  json.field("readback_bytes", stats.readback_bytes).field("bytes_moved", stats.bytes_moved);
  json.field("device_allocation_bytes", stats.device_allocation_bytes);
  json.field("device_allocation_events", stats.device_allocation_events);
  json.field("output_buffers", stats.output_buffers);
  json.field("resident_resource_rows", stats.resident_resource_rows);
  json.field("resident_resource_handles", stats.resident_resource_handles);
  json.field("kernel_launches", stats.kernel_launches).field("sync_points", stats.sync_points);
  json.field("hits", stats.hits).field("hits_dropped", stats.hits_dropped);
  json.field("recovered_after_device_loss", stats.recovered_after_device_loss);
  json.field("output_bytes_per_second", stats.output_bytes_per_second());
  json.field("readback_bytes_per_second", stats.readback_bytes_per_second());
  json.field("bytes_moved_per_second", stats.bytes_moved_per_second());
  json.field("device_allocation_bytes_per_second", stats.device_allocation_bytes_per_second());
}

}  // namespace

std::vector<FaultGroup> fault_groups(const protocol::RingView& before,
                                     const protocol::RingView& after) {
  std::map<std::pair<Word, Word>, FaultGroup> groups;
  for (Word i = 0; i < after.slot_count(); ++i) {
    const abi::Slot slot = after.slot(i);
    if (slot.status != SlotStatus::fault || before.slot(i).status == SlotStatus::fault) continue;
    const Word code = abi::fault_code_of(slot.priority);
    FaultGroup& group = groups[{code, slot.opcode}];
    group.fault_code = code;
    group.opcode = slot.opcode;
    ++group.count;
  }
  return by_count(groups);
}

std::vector<RemainingGroup> remaining_groups(const protocol::ControlView& control,
                                             const protocol::RingView& ring, DrainEnd end) {
  std::map<std::tuple<SlotStatus, Word, std::string>, RemainingGroup> groups;
  SlotExplainer explainer(&control);
  for (Word i = 0; i < ring.slot_count(); ++i) {
    const abi::Slot slot = ring.slot(i);
    std::string why = explainer.explain(slot);
    if (!abi::is_active(slot.status)) continue;
    // The reason of a WAIT_IO slot contains the index of its IO slot, which would split the group.
    if (why.empty() || slot.status == SlotStatus::wait_io) why = open_reason(slot.status, end);
    RemainingGroup& group = groups[{slot.status, slot.opcode, why}];
    group.status = slot.status;
    group.opcode = slot.opcode;
    group.why = std::move(why);
    ++group.count;
  }
  return by_count(groups);
}

std::string json_text(const DispatchOutcome& outcome) {
  std::string out;
  JsonWriter json(out);
  json.begin_object().field("backend", outcome.backend);
  json.field("backend_reason", outcome.backend_reason).field("device", outcome.device);
  json.field("pipeline_id", outcome.pipeline_id);
  json.field("worker_count", outcome.worker_count).field("slot_count", outcome.slot_count);
  json.field("workgroup_size", outcome.workgroup_size);
  json.field("schedule", backend::schedule_name(outcome.schedule));
  json.field("end", backend::drain_end_name(outcome.end));
  write_stats(json, outcome.stats);
  json.field("debug_dropped", outcome.debug_dropped).key("faults").begin_array();
  for (const FaultGroup& group : outcome.faults) {
    json.begin_object().field("fault_code", group.fault_code);
    json.field("fault_name", abi::fault_name(group.fault_code));
    json.field("opcode", group.opcode).field("count", group.count).end_object();
  }
  json.end_array().key("remaining").begin_array();
  for (const RemainingGroup& group : outcome.remaining) {
    json.begin_object().field("status", abi::status_name(group.status));
    json.field("opcode", group.opcode).field("why", group.why);
    json.field("count", group.count).end_object();
  }
  json.end_array().key("files").begin_array();
  for (const WrittenFile& file : outcome.files) {
    json.begin_object().field("path", file.path).field("bytes", file.bytes).end_object();
  }
  json.end_array().end_object();
  return out += '\n';
}

std::string human_text(const DispatchOutcome& outcome) {
  Table facts = Table::plain({Align::left, Align::right, Align::left});
  facts.add({"done", grouped(outcome.stats.items_done), "items that completed"});
  facts.add({"faulted", grouped(outcome.stats.items_faulted), "items that ended as fault"});
  facts.add({"remaining", grouped(outcome.stats.items_remaining), "items that have not ended"});
  if (outcome.debug_dropped != 0) {
    facts.add({"dropped", grouped(outcome.debug_dropped),
               "debug records that did not fit: give a larger --debug-log"});
  }
  if (outcome.stats.hits != 0) {
    facts.add({"hits", grouped(outcome.stats.hits), "of emit, in hits.bin"});
  }
  if (outcome.stats.hits_dropped != 0) {
    facts.add({"dropped", grouped(outcome.stats.hits_dropped),
               "hits of emit that did not fit: raise --hit-capacity"});
  }
  std::string text =
      fmt::format("dispatch  {}, {}  {}, {} schedule\n", outcome.backend,
                  counted(outcome.worker_count, "worker"), counted(outcome.slot_count, "slot"),
                  backend::schedule_name(outcome.schedule));
  if (!outcome.backend_reason.empty()) {
    text += choice_text(outcome.backend, outcome.backend_reason);
  }
  text += facts.text(2);
  text += fmt::format("  {} after {}\n", end_text(outcome.end),
                      duration_text(std::chrono::nanoseconds(outcome.stats.latency_ns)));
  text += faults_text(outcome.faults) + remaining_text(outcome.remaining);
  Table files = Table::plain({Align::left, Align::right});
  for (const WrittenFile& file : outcome.files) {
    files.add({file.path, counted(file.bytes, "byte")});
  }
  return text + "\nfiles\n" + files.text(2);
}

}  // namespace everkernel::cli
