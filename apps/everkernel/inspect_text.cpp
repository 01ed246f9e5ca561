// The text of `inspect`: one block for each buffer, then the values derived from several.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <iterator>

#include "everkernel/abi/opcode.hpp"
#include "inspection.hpp"
#include "numbers.hpp"
#include "slot_text.hpp"
#include "table.hpp"

namespace everkernel::cli {
namespace {

using abi::SlotStatus;
using telemetry::RingTelemetry;

// Rows of a long table that are shown without --all.
constexpr std::size_t kShownRows = 32;
constexpr std::size_t kBarWidth = 40;
constexpr std::size_t kObservablesInRow = 8;

std::size_t shown_rows(std::size_t count, bool all) {
  return all ? count : std::min(count, kShownRows);
}

std::string more_line(std::size_t hidden) {
  if (hidden == 0) return {};
  return fmt::format("  ... and {} more: --all shows them\n", grouped(hidden));
}

std::string range_text(std::uint64_t first, std::uint64_t last) {
  return first == last ? fmt::format("{}", first) : fmt::format("{}..{}", first, last);
}

// --- control ---------------------------------------------------------------------------------

std::string executions_text(const telemetry::ControlSnapshot& control) {
  if (control.metrics.empty()) return "\n  no executions of opcodes 0..31\n";
  Table table({{"opcode", Align::right}, {"name"}, {"executions", Align::right}});
  for (const telemetry::OpcodeCount& row : control.metrics) {
    const abi::OpcodeInfo* info = abi::find_opcode(row.opcode);
    table.add({std::to_string(row.opcode), info != nullptr ? info->name : "(handler)",
               grouped(row.count)});
  }
  return "\n" + table.text(2);
}

// Tenants that are enabled or have claims; adjacent tenants with equal values share a row.
std::string tenants_text(const protocol::ControlView& view,
                         const telemetry::ControlSnapshot& control) {
  struct Row {
    Word first = 0;
    Word last = 0;
    bool enabled = false;
    Word quota = 0;
    Word claims = 0;
  };
  std::vector<Row> rows;
  for (Word tenant = 0; tenant < control.tenant_fairness.size(); ++tenant) {
    const Row row{tenant, tenant, view.tenant_enabled(tenant), view.tenant_quota(tenant),
                  control.tenant_fairness[tenant]};
    if (!row.enabled && row.claims == 0) continue;
    Row* const before = rows.empty() ? nullptr : &rows.back();
    if (before != nullptr && before->last + 1 == tenant && before->enabled == row.enabled &&
        before->quota == row.quota && before->claims == row.claims) {
      before->last = tenant;
    } else {
      rows.push_back(row);
    }
  }
  if (rows.empty()) return "\n  no tenant is enabled or has claims\n";
  Table table(
      {{"tenant", Align::right}, {"state"}, {"quota", Align::right}, {"claims", Align::right}});
  for (const Row& row : rows) {
    const bool is_range = row.first != row.last;
    table.add({range_text(row.first, row.last), row.enabled ? "enabled" : "disabled",
               grouped(row.quota), grouped(row.claims) + (is_range ? " each" : "")});
  }
  return "\n" + table.text(2);
}

std::string priorities_text(const protocol::ControlView& view,
                            const telemetry::ControlSnapshot& control) {
  const auto offsets = view.priority_offsets();
  const bool has_offsets = std::ranges::any_of(offsets, [](Word offset) { return offset != 0; });
  Table table({{"priority"}, {"claims", Align::right}, {"ring slots"}});
  for (Word priority = 0; priority < abi::kPriorityCount; ++priority) {
    const Word first = offsets[priority];
    const Word end = offsets[priority + 1];
    const std::string slots = first < end ? range_text(first, end - 1) : std::string("none");
    table.add({abi::priority_name(priority), grouped(control.priority_fairness[priority]),
               has_offsets ? slots : std::string()});
  }
  return "\n" + table.text(2);
}

std::string observables_text(const std::vector<Word>& observables, bool all) {
  if (observables.empty()) return "\n  no observables\n";
  const std::size_t rows = (observables.size() + kObservablesInRow - 1) / kObservablesInRow;
  Table table({{"observable", Align::right}, {"values"}}, 1);
  for (std::size_t i = 0; i < shown_rows(rows, all); ++i) {
    const std::size_t first = i * kObservablesInRow;
    const std::size_t count = std::min(kObservablesInRow, observables.size() - first);
    table.add({range_text(first, first + count - 1),
               fmt::format("{}", fmt::join(std::span(observables).subspan(first, count), " "))});
  }
  const std::size_t shown = std::min(shown_rows(rows, all) * kObservablesInRow, observables.size());
  return "\n" + table.text(2) + more_line(observables.size() - shown);
}

std::string control_text(const Inspection& inspection, bool all) {
  const auto& input = *inspection.control;
  const telemetry::ControlSnapshot& control = inspection.telemetry.control;
  Table facts = Table::plain({Align::left, Align::right, Align::left});
  facts.add({"done", grouped(control.done_count), "slots that completed"});
  facts.add({"faults", grouped(control.fault_count), "slots that ended as fault"});
  facts.add({"epoch", grouped(control.epoch), "batch fences that completed"});
  facts.add({"dropped", grouped(control.debug_dropped), "debug records that found the log full"});
  facts.add({"shutdown", control.shutdown ? "yes" : "no",
             control.shutdown ? "workers stop and run nothing more" : ""});
  std::string text =
      fmt::format("control  {}  {}, {}\n{}", input.path, counted(input.bytes.size(), "byte"),
                  counted(input.view.observable_count(), "observable"), facts.text(2));
  text += executions_text(control);
  text += tenants_text(input.view, control);
  text += priorities_text(input.view, control);
  if (inspection.has_observables) text += observables_text(control.observables, all);
  return text;
}

// --- ring ------------------------------------------------------------------------------------

std::string occupancy_text(const telemetry::RingOccupancy& occupancy) {
  const Word total = occupancy.total_slots();
  Table table = Table::plain({Align::left, Align::right, Align::right, Align::left});
  const auto add = [&](std::string name, Word count) {
    table.add(
        {std::move(name), grouped(count), percent(count, total), bar(count, total, kBarWidth)});
  };
  add("empty", occupancy.empty);
  add("published", occupancy.published);
  add("claimed", occupancy.claimed);
  add("done", occupancy.done);
  add("wait_io", occupancy.wait_io);
  add("yield", occupancy.yield_count);
  add("requeue", occupancy.requeue);
  add("fault", occupancy.fault);
  if (occupancy.unknown != 0) add("unknown", occupancy.unknown);
  return table.text(2);
}

// The order in which slots get a row if not all fit: faults, then unfinished slots, then the rest.
int importance(SlotStatus status) {
  if (status == SlotStatus::fault || !abi::is_known(status)) return 0;
  return status == SlotStatus::done ? 2 : 1;
}

// Indices of the slots to show, in rising order.
std::vector<Word> chosen_slots(const std::vector<telemetry::RingSlotSnapshot>& slots, bool all) {
  std::vector<Word> chosen;
  for (const auto& slot : slots) {
    if (slot.status != SlotStatus::empty) chosen.push_back(slot.slot_idx);
  }
  if (all || chosen.size() <= kShownRows) return chosen;
  std::ranges::stable_sort(chosen, {}, [&](Word i) { return importance(slots[i].status); });
  chosen.resize(kShownRows);
  std::ranges::sort(chosen);
  return chosen;
}

std::string priority_text(Word priority) {
  return priority < abi::kPriorityCount ? abi::priority_name(priority) : std::to_string(priority);
}

std::string slots_text(const Inspection& inspection, bool all) {
  const protocol::RingView& ring = inspection.ring->view;
  const auto chosen = chosen_slots(inspection.telemetry.slots, all);
  const std::size_t used = ring.slot_count() - inspection.telemetry.occupancy.empty;
  if (used == 0) return "\n  every slot is empty\n";
  SlotExplainer explainer(inspection.control ? &inspection.control->view : nullptr);
  Table table({{"slot", Align::right},
               {"status"},
               {"tenant", Align::right},
               {"priority"},
               {"opcode"},
               {"args"},
               {"note"}},
              5);
  auto next = chosen.begin();
  for (Word i = 0; i < ring.slot_count() && next != chosen.end(); ++i) {
    const abi::Slot slot = ring.slot(i);
    std::string note = explainer.explain(slot);
    if (i != *next) continue;
    ++next;
    table.add({std::to_string(i), abi::status_name(slot.status), std::to_string(slot.tenant),
               priority_text(abi::priority_of(slot.priority)), opcode_text(slot.opcode),
               args_text(slot), std::move(note)});
  }
  std::string text = "\n" + table.text(2);
  if (chosen.size() == used) return text;
  return text + fmt::format(
                    "  ... and {} more (faults and unfinished slots come first): --all shows "
                    "them\n",
                    grouped(used - chosen.size()));
}

std::string window_slots_text(const telemetry::WindowTelemetry& window) {
  std::string text;
  const auto add = [&](Word count, std::string_view name) {
    if (count == 0) return;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", grouped(count), name);
  };
  add(window.published, "published");
  add(window.claimed, "claimed");
  add(window.done, "done");
  add(window.wait_io, "wait_io");
  add(window.yield_count, "yield");
  add(window.requeue, "requeue");
  add(window.fault, "fault");
  return text;
}

std::string windows_text(const std::vector<telemetry::WindowTelemetry>& windows, bool all) {
  if (windows.empty()) return "\nwindows  no slot has one of these opcodes\n";
  Table table({{"ticket", Align::right},
               {"opcode"},
               {"tenant", Align::right},
               {"required", Align::right},
               {"lookahead", Align::right},
               {"active"},
               {"slots"}},
              6);
  const std::size_t shown = shown_rows(windows.size(), all);
  for (const auto& window : std::span(windows).first(shown)) {
    table.add({std::to_string(window.ticket), opcode_text(window.opcode),
               std::to_string(window.tenant_id), grouped(window.required_slots),
               grouped(window.lookahead_slots), window.is_active() ? "yes" : "no",
               window_slots_text(window)});
  }
  return fmt::format("\nwindows  {}\n{}{}", grouped(windows.size()), table.text(2),
                     more_line(windows.size() - shown));
}

std::string ring_text(const Inspection& inspection, bool all) {
  const auto& input = *inspection.ring;
  const telemetry::RingOccupancy& occupancy = inspection.telemetry.occupancy;
  std::string text = fmt::format("ring  {}  {}, {} in the queue (neither empty nor done)\n{}",
                                 input.path, counted(occupancy.total_slots(), "slot"),
                                 grouped(occupancy.queue_depth()), occupancy_text(occupancy));
  text += slots_text(inspection, all);
  if (inspection.has_windows) text += windows_text(inspection.telemetry.windows, all);
  return text;
}

// --- control and ring ------------------------------------------------------------------------

std::string counters_text(const RingTelemetry& telemetry) {
  const telemetry::RuntimeCounters counters = telemetry.counters();
  const auto share = [&](Word part) { return percent(part, counters.total_slots); };
  Table table = Table::plain({Align::left, Align::right, Align::right, Align::left});
  table.add({"queue depth", grouped(counters.queue_depth), share(counters.queue_depth),
             "of the slots are neither empty nor done"});
  table.add({"idle slots", grouped(counters.gpu_idle_slots), share(counters.gpu_idle_slots),
             "of the slots are empty"});
  table.add({"in use", grouped(counters.total_slots - counters.gpu_idle_slots),
             share(counters.total_slots - counters.gpu_idle_slots), "of the slots are not empty"});
  table.add({"drained", grouped(counters.drained_slots), "",
             fmt::format("completed so far, {} of them still in the ring",
                         grouped(counters.unreclaimed_done_slots))});
  table.add({"tenant claims", grouped(counters.tenant_fairness_total), "",
             fmt::format("skew {}: most minus fewest among tenants with any",
                         grouped(counters.tenant_fairness_skew))});
  table.add({"priority claims", grouped(counters.priority_fairness_total), "", ""});
  return "counters\n" + table.text(2);
}

// Why none of the slots in the queue can run.
std::string blocked_text(const RingTelemetry& telemetry) {
  const telemetry::RingOccupancy& occupancy = telemetry.occupancy;
  const Word other = occupancy.queue_depth() - occupancy.wait_io - occupancy.fault -
                     occupancy.unknown - telemetry.runnable_slots;
  std::vector<std::string> parts;
  if (occupancy.wait_io != 0)
    parts.push_back(counted(occupancy.wait_io, "slot") + " waiting for IO");
  if (occupancy.fault != 0) parts.push_back(counted(occupancy.fault, "slot") + " in fault");
  if (other != 0) parts.push_back(counted(other, "slot") + " of disabled tenants");
  if (occupancy.unknown != 0) {
    parts.push_back(counted(occupancy.unknown, "slot") + " with an unknown status");
  }
  return fmt::format("{}", fmt::join(parts, "\n  "));
}

// A line of tenants; empty if there are none.
std::string tenants_text(const char* what, Word tenants) {
  constexpr std::size_t kShownTenants = 16;
  std::vector<Word> ids;
  for (Word tenant = 0; tenant < 32; ++tenant) {
    if ((tenants >> tenant & 1) != 0) ids.push_back(tenant);
  }
  if (ids.empty()) return {};
  const auto shown = std::span(ids).first(std::min(ids.size(), kShownTenants));
  std::string text =
      fmt::format("  {}: tenant{} {}", what, ids.size() == 1 ? "" : "s", fmt::join(shown, ", "));
  if (ids.size() > shown.size()) text += fmt::format(" and {} more", ids.size() - shown.size());
  return text + "\n";
}

// A line for each of the first slots that a worker has claimed; empty if there are none.
std::string claimed_text(const RingTelemetry& telemetry) {
  constexpr Word kShownSlots = 4;
  std::string text;
  Word count = 0;
  for (const telemetry::RingSlotSnapshot& slot : telemetry.slots) {
    if (slot.status != telemetry::RingStatus::claimed || ++count > kShownSlots) continue;
    text += fmt::format("  a worker runs slot {}: opcode {} of tenant {}\n", slot.slot_idx,
                        opcode_text(slot.opcode), slot.tenant_id);
  }
  if (count > kShownSlots) text += fmt::format("  and {} more\n", count - kShownSlots);
  return text;
}

std::string watchdog_text(const RingTelemetry& telemetry,
                          const telemetry::WatchdogSnapshot& watchdog) {
  const std::string completed =
      counted(watchdog.done_delta, "slot") + " completed since --previous-control";
  if (watchdog.all_blocked) {
    const Word enabled = telemetry.control.enabled_tenants;
    return fmt::format("watchdog\n  blocked: {}, and none can: {} for a tenant\n{}{}", completed,
                       counted(watchdog.blocked_slots, "slot") +
                           (watchdog.blocked_slots == 1 ? " waits" : " wait"),
                       tenants_text("disabled", watchdog.blocked_tenants & ~enabled),
                       tenants_text("without quota", watchdog.blocked_tenants & enabled));
  }
  if (watchdog.suspected_stall) {
    return fmt::format("watchdog\n  stall suspected: {}, {} can run{}\n{}", completed,
                       grouped(telemetry.runnable_slots),
                       telemetry.control.shutdown ? ", but shutdown is set" : "",
                       claimed_text(telemetry));
  }
  if (watchdog.done_delta != 0) {
    return fmt::format("watchdog\n  no stall: {}, {} in the queue\n", completed,
                       grouped(watchdog.queue_depth));
  }
  if (watchdog.queue_depth == 0) {
    return fmt::format("watchdog\n  no stall: {}, and the queue is empty\n", completed);
  }
  return fmt::format("watchdog\n  no stall: {}, but none can run:\n  {}\n", completed,
                     blocked_text(telemetry));
}

// --- debug log and IO queue --------------------------------------------------------------------

std::string debug_log_text(const Input<protocol::DebugLogView>& input, bool all) {
  const Word count = input.view.record_count();
  std::string text = fmt::format("debug log  {}  {} of {}\n", input.path, grouped(count),
                                 counted(input.view.record_capacity(), "record"));
  Table table({{"record", Align::right},
               {"fmt", Align::right},
               {"a", Align::right},
               {"b", Align::right},
               {"slot", Align::right}});
  const auto shown = static_cast<Word>(shown_rows(count, all));
  for (Word i = 0; i < shown; ++i) {
    const abi::DebugRecord record = input.view.record(i);
    table.add({std::to_string(i), std::to_string(record.fmt_id), std::to_string(record.args[0]),
               std::to_string(record.args[1]), std::to_string(record.args[2] / abi::kSlotWords)});
  }
  return count == 0 ? text : text + table.text(2) + more_line(count - shown);
}

// The name of an enumerator, or the number of a value without a name.
template <class Enum>
std::string name_or_number(std::string_view name, Enum value) {
  return name == "unknown" ? std::to_string(static_cast<Word>(value)) : std::string(name);
}

std::string io_queue_text(const Input<protocol::IoQueueView>& input) {
  Table table({{"slot", Align::right},
               {"op"},
               {"source", Align::right},
               {"target", Align::right},
               {"offset", Align::right},
               {"bytes", Align::right},
               {"status"},
               {"tag", Align::right},
               {"note"}},
              8);
  Word requests = 0;
  for (Word i = 0; i < input.view.slot_count(); ++i) {
    const abi::IoSlot slot = input.view.slot(i);
    if (slot.status == abi::IoStatus::empty) continue;
    ++requests;
    std::string note;
    if (slot.status == abi::IoStatus::error) note = std::strerror(static_cast<int>(slot.tag));
    table.add({std::to_string(i), name_or_number(abi::io_op_name(slot.op), slot.op),
               std::to_string(slot.src_handle), std::to_string(slot.dst_handle),
               std::to_string(slot.offset()),
               slot.byte_count == 0 ? "all" : std::to_string(slot.byte_count),
               name_or_number(abi::io_status_name(slot.status), slot.status),
               std::to_string(slot.tag), std::move(note)});
  }
  std::string text =
      fmt::format("IO queue  {}  {} in {}\n", input.path, counted(requests, "request"),
                  counted(input.view.slot_count(), "slot"));
  return requests == 0 ? text : text + table.text(2);
}

}  // namespace

std::string human_text(const Inspection& inspection, bool all) {
  std::vector<std::string> blocks;
  if (inspection.control) blocks.push_back(control_text(inspection, all));
  if (inspection.ring) blocks.push_back(ring_text(inspection, all));
  if (inspection.control && inspection.ring) blocks.push_back(counters_text(inspection.telemetry));
  if (inspection.watchdog) {
    blocks.push_back(watchdog_text(inspection.telemetry, *inspection.watchdog));
  }
  if (inspection.debug_log) blocks.push_back(debug_log_text(*inspection.debug_log, all));
  if (inspection.io_queue) blocks.push_back(io_queue_text(*inspection.io_queue));
  return fmt::format("{}", fmt::join(blocks, "\n"));
}

}  // namespace everkernel::cli
