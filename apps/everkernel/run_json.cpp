// The report of `run` as one JSON object, with the field names of the library's structs. The text
// is written directly, without a tree: a million regions take a hundred megabytes.
#include "everkernel/abi/fault.hpp"
#include "everkernel/base/json_writer.hpp"
#include "run_outcome.hpp"

namespace everkernel::cli {
namespace {

void write_counts(JsonWriter& json, const RunReport& report) {
  json.field("items_processed", report.items_processed);
  json.field("items_remaining", report.items_remaining);
  json.field("items_faulted", report.items_faulted);
  json.field("interrupted", report.is_stopped);
  json.field("wall_time_ns", static_cast<std::uint64_t>(report.wall_time.count()));
  json.field("queue_plan_ns", report.queue_plan_ns);
  json.field("queue_publish_ns", report.queue_publish_ns);
  json.field("backend_dispatch_ns", report.backend_dispatch_ns);
  json.field("lineage_ns", report.lineage_ns);
  json.field("deduped_items", report.deduped_items);
  json.field("published_items", report.published_items);
  json.field("lineage_items", report.lineage_items);
}

void write_times(JsonWriter& json, const RunOutcome& outcome) {
  const auto field = [&](const char* name, std::chrono::nanoseconds time) {
    json.field(name, static_cast<std::uint64_t>(time.count()));
  };
  field("read_job_ns", outcome.times.read_job);
  field("prepare_ns", outcome.times.prepare);
  json.field("code_wait_ns", outcome.report.code_wait_ns);
  field("outputs_ns", outcome.times.outputs);
}

void write_barriers(JsonWriter& json, const RunReport& report) {
  json.key("barriers").begin_array();
  for (const BarrierCount& barrier : report.barriers) {
    json.begin_object().field("opcode", barrier.opcode).field("handler", barrier.name);
    json.field("reason", barrier.reason).field("items", barrier.items).end_object();
  }
  json.end_array().field("barrier_ns", report.barrier_ns);
}

void write_telemetry(JsonWriter& json, const RunTelemetry& telemetry) {
  json.key("telemetry").begin_object();
  json.field("bytes_uploaded", telemetry.bytes_uploaded);
  json.field("bytes_read_back", telemetry.bytes_read_back);
  json.field("bytes_moved", telemetry.bytes_moved);
  json.field("resident_allocations", telemetry.resident_allocations);
  json.field("kernel_launches", telemetry.kernel_launches);
  json.field("sync_points", telemetry.sync_points);
  json.field("occupancy_proxy_bps", telemetry.occupancy_proxy_bps);
  json.field("frontier_density_bps", telemetry.frontier_density_bps);
  json.field("readback_buffers", telemetry.readback_buffers);
  json.field("compiled_pipeline_cache_hit", telemetry.compiled_pipeline_cache_hit);
  json.field("resident_input_cache_hit", telemetry.resident_input_cache_hit);
  json.field("topology", planner::topology_name(telemetry.topology));
  json.field("pressure", planner::pressure_name(telemetry.pressure));
  json.field("execution_mode", backend::execution_name(telemetry.execution_mode));
  json.field("hit_capacity", telemetry.hit_capacity);
  json.field("estimated_peak_device_bytes", telemetry.estimated_peak_device_bytes);
  json.field("device_memory_budget_bytes", telemetry.device_memory_budget_bytes).end_object();
}

void write_shape(JsonWriter& json, const RunShape& shape) {
  json.key("shape").begin_object();
  json.field("regions", shape.regions).field("edges", shape.edges).field("joins", shape.joins);
  json.field("waves", shape.waves).field("tickets", shape.tickets);
  json.field("publish_batches", shape.publish_batches);
  json.field("regions_per_ticket", shape.regions_per_ticket);
  json.field("queue_entries", shape.queue_entries).field("workers", shape.workers);
  json.field("grouped_by_opcode", shape.grouped_by_opcode);
  json.field("worker_sleeps", shape.worker_sleeps);
  json.field("policy_hits", shape.policy_hits).field("policy_misses", shape.policy_misses);
  json.field("compiled_handlers", shape.compiled_handlers).field("compile_ns", shape.compile_ns);
  json.field("items_interpreted", shape.items_interpreted);
  json.field("pipeline_id", shape.pipeline_id).end_object();
}

void write_faults(JsonWriter& json, const RunOutcome& outcome) {
  json.key("faults").begin_array();
  for (const FaultCount& fault : outcome.report.faults) {
    json.begin_object().field("code", fault.code).field("name", abi::fault_name(fault.code));
    json.field("opcode", fault.opcode);
    json.field("handler", handler_name(outcome.job, fault.opcode));
    json.field("items", fault.items).field("first_item", fault.first_item).end_object();
  }
  json.end_array();
}

void write_lineage(JsonWriter& json, const RunReport& report) {
  json.field("region_lineage", std::span<const Word>(report.region_lineage));
  json.key("region_lineage_wide").begin_array();
  const std::size_t words = report.lineage_words();
  for (std::size_t at = 0; words != 0 && at < report.region_lineage_wide.size(); at += words) {
    json.begin_array();
    for (std::size_t i = 0; i < words; ++i) json.value(report.region_lineage_wide[at + i]);
    json.end_array();
  }
  json.end_array().key("regions").begin_array();
  for (std::size_t i = 0; i < report.region_count(); ++i) {
    const RegionView region = report.region(i);
    json.begin_object().field("first_item", region.first_item).field("items", region.items);
    json.field("output", region.output).field("lineage", region.lineage).end_object();
  }
  json.end_array().key("lineage_rules").begin_array();
  for (const LineageRule& rule : report.lineage_rules) {
    json.begin_object().field("bit", rule.bit);
    if (words != 0) json.field("wide_bit", rule.wide_bit);
    json.field("opcode", rule.opcode).field("name", rule.name).end_object();
  }
  json.end_array();
}

void write_hits(JsonWriter& json, const RunReport& report) {
  json.key("hits").begin_array();
  for (const abi::Hit& hit : report.hits) {
    const Word words[] = {hit.item, hit.a, hit.b, hit.c};
    json.value(std::span<const Word>(words));
  }
  json.end_array().field("hits_dropped", report.hits_dropped);
  json.field("hit_limit", report.hit_limit);
}

void write_prints(JsonWriter& json, const RunReport& report) {
  json.key("printf").begin_array();
  for (const PrintRecord& record : report.prints) {
    const Word words[] = {record.item, record.format, record.a, record.b};
    json.value(std::span<const Word>(words));
  }
  json.end_array().field("printf_dropped", report.prints_dropped);
}

}  // namespace

std::string json_text(const RunOutcome& outcome) {
  const auto begin = outcome.times.total();
  std::string out;
  JsonWriter json(out);
  json.begin_object().field("job", outcome.job.path).field("backend", outcome.backend);
  json.field("backend_reason", outcome.backend_reason).field("device", outcome.device);
  write_counts(json, outcome.report);
  write_times(json, outcome);
  write_telemetry(json, outcome.report.telemetry);
  write_shape(json, outcome.report.shape);
  write_faults(json, outcome);
  write_barriers(json, outcome.report);
  write_lineage(json, outcome.report);
  write_hits(json, outcome.report);
  write_prints(json, outcome.report);
  json.key("outputs").begin_array();
  for (const RunOutput& output : outcome.outputs) {
    json.begin_object().field("handle", output.handle);
    json.field("u32", std::span<const Word>(output.words)).end_object();
  }
  json.end_array().key("files").begin_array();
  for (const WrittenFile& file : outcome.files) {
    json.begin_object().field("path", file.path).field("bytes", file.bytes).end_object();
  }
  json.end_array();
  // Last, so that these times include making the text above.
  const auto total = outcome.times.total();
  json.field("report_ns", static_cast<std::uint64_t>((total - begin).count()));
  json.field("total_time_ns", static_cast<std::uint64_t>(total.count())).end_object();
  return out += '\n';
}

}  // namespace everkernel::cli
