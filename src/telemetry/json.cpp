// The JSON of every telemetry type; keys are the field names.
#include "everkernel/telemetry/json.hpp"

#include <initializer_list>
#include <utility>

namespace everkernel::telemetry {
namespace {

using Field = std::pair<std::string_view, std::uint64_t>;

void write_fields(JsonWriter& json, std::initializer_list<Field> fields) {
  for (const auto& [name, number] : fields) json.field(name, number);
}

}  // namespace

void write_json(JsonWriter& json, const ControlSnapshot& control, bool with_observables) {
  json.begin_object().field("shutdown", control.shutdown);
  write_fields(json, {{"done_count", control.done_count}, {"epoch", control.epoch}});
  json.key("metrics").begin_array();
  for (const OpcodeCount& row : control.metrics) {
    json.begin_array().value(row.opcode).value(row.count).end_array();
  }
  json.end_array();
  json.field("tenant_fairness", std::span<const Word>(control.tenant_fairness));
  json.field("priority_fairness", std::span<const Word>(control.priority_fairness));
  write_fields(json,
               {{"fault_count", control.fault_count}, {"debug_dropped", control.debug_dropped}});
  if (with_observables) json.field("observables", std::span<const Word>(control.observables));
  json.end_object();
}

void write_json(JsonWriter& json, const RingOccupancy& occupancy) {
  json.begin_object();
  write_fields(json, {{"empty", occupancy.empty},
                      {"published", occupancy.published},
                      {"claimed", occupancy.claimed},
                      {"done", occupancy.done},
                      {"wait_io", occupancy.wait_io},
                      {"yield_count", occupancy.yield_count},
                      {"requeue", occupancy.requeue},
                      {"fault", occupancy.fault},
                      {"unknown", occupancy.unknown},
                      {"total_slots", occupancy.total_slots()},
                      {"queue_depth", occupancy.queue_depth()}});
  json.end_object();
}

void write_json(JsonWriter& json, std::span<const RingSlotSnapshot> slots) {
  json.begin_array();
  for (const RingSlotSnapshot& slot : slots) {
    json.begin_object().field("slot_idx", slot.slot_idx);
    json.field("status", abi::status_name(slot.status));
    write_fields(json, {{"status_raw", static_cast<Word>(slot.status)},
                        {"tenant_id", slot.tenant_id},
                        {"opcode", slot.opcode},
                        {"priority", slot.priority},
                        {"fault_code", slot.fault_code}});
    json.field("args_prefix", std::span<const Word>(slot.args_prefix)).end_object();
  }
  json.end_array();
}

void write_json(JsonWriter& json, std::span<const WindowTelemetry> windows) {
  json.begin_array();
  for (const WindowTelemetry& window : windows) {
    json.begin_object();
    write_fields(json, {{"ticket", window.ticket},
                        {"tenant_id", window.tenant_id},
                        {"opcode", window.opcode},
                        {"required_slots", window.required_slots},
                        {"lookahead_slots", window.lookahead_slots},
                        {"published", window.published},
                        {"claimed", window.claimed},
                        {"done", window.done},
                        {"wait_io", window.wait_io},
                        {"yield_count", window.yield_count},
                        {"requeue", window.requeue},
                        {"fault", window.fault}});
    json.field("active", window.is_active()).end_object();
  }
  json.end_array();
}

void write_json(JsonWriter& json, const RuntimeCounters& counters) {
  json.begin_object();
  write_fields(json, {{"total_slots", counters.total_slots},
                      {"queue_depth", counters.queue_depth},
                      {"gpu_idle_slots", counters.gpu_idle_slots},
                      {"gpu_idle_ppm", counters.gpu_idle_ppm},
                      {"frontier_density_bps", counters.frontier_density_bps},
                      {"occupancy_proxy_bps", counters.occupancy_proxy_bps},
                      {"drained_slots", counters.drained_slots},
                      {"unreclaimed_done_slots", counters.unreclaimed_done_slots},
                      {"tenant_fairness_total", counters.tenant_fairness_total},
                      {"tenant_fairness_skew", counters.tenant_fairness_skew},
                      {"priority_fairness_total", counters.priority_fairness_total},
                      {"requeue_slots", counters.requeue_slots},
                      {"fault_slots", counters.fault_slots}});
  json.end_object();
}

void write_json(JsonWriter& json, const WatchdogSnapshot& watchdog) {
  json.begin_object();
  write_fields(json, {{"done_delta", watchdog.done_delta},
                      {"queue_depth", watchdog.queue_depth},
                      {"fault_slots", watchdog.fault_slots},
                      {"requeue_slots", watchdog.requeue_slots},
                      {"gpu_idle_ppm", watchdog.gpu_idle_ppm}});
  json.field("suspected_stall", watchdog.suspected_stall);
  json.field("blocked_slots", watchdog.blocked_slots).key("blocked_tenants").begin_array();
  for (Word tenant = 0; tenant < 32; ++tenant) {
    if ((watchdog.blocked_tenants >> tenant & 1) != 0) json.value(tenant);
  }
  json.end_array().field("all_blocked", watchdog.all_blocked).end_object();
}

void write_json(JsonWriter& json, const RuntimeEvidence& evidence) {
  json.begin_object();
  write_fields(json, {{"schema_version", evidence.schema_version},
                      {"resident_device_bytes", evidence.resident_device_bytes},
                      {"host_copy_bytes", evidence.host_copy_bytes},
                      {"host_copy_avoided_bytes", evidence.host_copy_avoided_bytes},
                      {"host_copy_avoidance_bps", evidence.host_copy_avoidance_bps()},
                      {"control_decode_ns", evidence.control_decode_ns},
                      {"ring_decode_ns", evidence.ring_decode_ns}});
  json.key("ring_occupancy");
  write_json(json, evidence.ring_occupancy);
  json.key("missing_metric_families").begin_array();
  for (const auto family : evidence.missing_metric_families()) {
    json.value(metric_family_name(family));
  }
  json.end_array().end_object();
}

void write_json(JsonWriter& json, const protocol::DebugLogView& log) {
  json.begin_array();
  for (Word i = 0; i < log.record_count(); ++i) {
    const abi::DebugRecord record = log.record(i);
    json.begin_object().field("fmt_id", record.fmt_id);
    json.field("args", std::span<const Word>(record.args)).end_object();
  }
  json.end_array();
}

void write_json(JsonWriter& json, const protocol::IoQueueView& queue) {
  json.begin_array();
  for (Word i = 0; i < queue.slot_count(); ++i) {
    const abi::IoSlot slot = queue.slot(i);
    if (slot.status == abi::IoStatus::empty) continue;
    json.begin_object();
    write_fields(json, {{"slot_idx", i},
                        {"op_type", static_cast<Word>(slot.op)},
                        {"src_handle", slot.src_handle},
                        {"dst_handle", slot.dst_handle},
                        {"offset", slot.offset()},
                        {"byte_count", slot.byte_count},
                        {"status", static_cast<Word>(slot.status)},
                        {"tag", slot.tag}});
    json.field("op_name", abi::io_op_name(slot.op));
    json.field("status_name", abi::io_status_name(slot.status)).end_object();
  }
  json.end_array();
}

}  // namespace everkernel::telemetry
