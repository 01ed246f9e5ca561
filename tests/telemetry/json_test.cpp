// The JSON of telemetry, parsed by another library and compared with literals.
#include "everkernel/telemetry/json.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "support/wire_bytes.hpp"

namespace everkernel::telemetry {
namespace {

using nlohmann::json;
using nlohmann::literals::operator""_json;

template <class... Values>
json written(const Values&... values) {
  std::string text;
  JsonWriter writer(text);
  write_json(writer, values...);
  return json::parse(text);
}

TEST(TelemetryJson, writes_the_control_snapshot) {
  ControlSnapshot control{.shutdown = true,
                          .done_count = 0xFFFFFFFF,
                          .epoch = 3,
                          .metrics = {{1, 5}, {31, 7}},
                          .priority_fairness = {1, 2, 3, 4, 5},
                          .fault_count = 8,
                          .debug_dropped = 9,
                          .enabled_tenants = 1,
                          .observables = {10, 11}};
  control.tenant_fairness[0] = 6;
  control.tenant_fairness[31] = 7;
  json expected = R"({
    "shutdown": true, "done_count": 4294967295, "epoch": 3, "metrics": [[1, 5], [31, 7]],
    "tenant_fairness": [6, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
                        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7],
    "priority_fairness": [1, 2, 3, 4, 5], "fault_count": 8, "debug_dropped": 9})"_json;
  EXPECT_EQ(written(control, false), expected);
  expected["observables"] = {10, 11};
  EXPECT_EQ(written(control, true), expected);
}

TEST(TelemetryJson, writes_no_observables_as_an_empty_array) {
  EXPECT_EQ(written(ControlSnapshot{}, true).at("observables"), json::array());
  EXPECT_EQ(written(ControlSnapshot{}, false).at("metrics"), json::array());
}

TEST(TelemetryJson, writes_the_occupancy_with_its_sums) {
  EXPECT_EQ(written(RingOccupancy{1, 2, 3, 4, 5, 6, 7, 8, 9}), R"({
    "empty": 1, "published": 2, "claimed": 3, "done": 4, "wait_io": 5, "yield_count": 6,
    "requeue": 7, "fault": 8, "unknown": 9, "total_slots": 45, "queue_depth": 40})"_json);
}

TEST(TelemetryJson, writes_slots_with_status_by_name_and_number) {
  const std::vector<RingSlotSnapshot> slots{
      {.slot_idx = 0,
       .status = RingStatus::wait_io,
       .tenant_id = 1,
       .opcode = 2,
       .priority = 3,
       .fault_code = 0,
       .args_prefix = {4, 5, 6}},
      {.slot_idx = 1, .status = RingStatus{0xFFFFFFFF}, .opcode = 0x80000001, .fault_code = 7},
  };
  EXPECT_EQ(written(std::span(slots)), R"([
    {"slot_idx": 0, "status": "wait_io", "status_raw": 4, "tenant_id": 1, "opcode": 2,
     "priority": 3, "fault_code": 0, "args_prefix": [4, 5, 6]},
    {"slot_idx": 1, "status": "unknown", "status_raw": 4294967295, "tenant_id": 0,
     "opcode": 2147483649, "priority": 0, "fault_code": 7, "args_prefix": [0, 0, 0]}])"_json);
  EXPECT_EQ(written(std::span<const RingSlotSnapshot>()), json::array());
}

TEST(TelemetryJson, writes_windows_with_their_activity) {
  const std::vector<WindowTelemetry> windows{
      {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12},
      {.ticket = 13, .done = 1},
  };
  EXPECT_EQ(written(std::span(windows)), R"([
    {"ticket": 1, "tenant_id": 2, "opcode": 3, "required_slots": 4, "lookahead_slots": 5,
     "published": 6, "claimed": 7, "done": 8, "wait_io": 9, "yield_count": 10, "requeue": 11,
     "fault": 12, "active": true},
    {"ticket": 13, "tenant_id": 0, "opcode": 0, "required_slots": 0, "lookahead_slots": 0,
     "published": 0, "claimed": 0, "done": 1, "wait_io": 0, "yield_count": 0, "requeue": 0,
     "fault": 0, "active": false}])"_json);
}

TEST(TelemetryJson, writes_the_counters) {
  const RuntimeCounters counters{1, 2, 3, 4, 5, 6, 7, 8, 0x900000000, 10, 11, 12, 13};
  EXPECT_EQ(written(counters), R"({
    "total_slots": 1, "queue_depth": 2, "gpu_idle_slots": 3, "gpu_idle_ppm": 4,
    "frontier_density_bps": 5, "occupancy_proxy_bps": 6, "drained_slots": 7,
    "unreclaimed_done_slots": 8, "tenant_fairness_total": 38654705664, "tenant_fairness_skew": 10,
    "priority_fairness_total": 11, "requeue_slots": 12, "fault_slots": 13})"_json);
}

TEST(TelemetryJson, writes_the_watchdog) {
  EXPECT_EQ(written(WatchdogSnapshot{1, 2, 3, 4, 5, true, 6, 0x80000005u, true}), R"({
    "done_delta": 1, "queue_depth": 2, "fault_slots": 3, "requeue_slots": 4, "gpu_idle_ppm": 5,
    "suspected_stall": true, "blocked_slots": 6, "blocked_tenants": [0, 2, 31],
    "all_blocked": true})"_json);
}

TEST(TelemetryJson, writes_the_evidence) {
  const RuntimeEvidence evidence{.resident_device_bytes = 0xFFFFFFFFFFFFFFFF,
                                 .host_copy_bytes = 1024,
                                 .host_copy_avoided_bytes = 3072,
                                 .ring_occupancy = {1, 2, 3, 4, 5, 6, 7, 8, 9},
                                 .control_decode_ns = 11,
                                 .ring_decode_ns = 13,
                                 .coverage = {.ring = true, .copy = true}};
  EXPECT_EQ(written(evidence), R"({
    "schema_version": 1, "resident_device_bytes": 18446744073709551615, "host_copy_bytes": 1024,
    "host_copy_avoided_bytes": 3072, "host_copy_avoidance_bps": 7500, "control_decode_ns": 11,
    "ring_decode_ns": 13,
    "ring_occupancy": {"empty": 1, "published": 2, "claimed": 3, "done": 4, "wait_io": 5,
      "yield_count": 6, "requeue": 7, "fault": 8, "unknown": 9, "total_slots": 45,
      "queue_depth": 40},
    "missing_metric_families": ["control", "residency"]})"_json);
}

TEST(TelemetryJson, writes_the_debug_log) {
  const test::Bytes log = test::bytes_of({8, 1, 2, 3, 16, 5, 6, 7, 0xFFFFFFF0, 90, 91, 92, 93});
  EXPECT_EQ(
      written(*protocol::DebugLogView::parse(log)),
      R"([{"fmt_id": 1, "args": [2, 3, 16]}, {"fmt_id": 5, "args": [6, 7, 4294967280]}])"_json);
  EXPECT_EQ(written(*protocol::DebugLogView::parse(test::bytes_of({0}))), json::array());
}

// cli.md names eight keys; the two names beside them are ours.
TEST(TelemetryJson, writes_the_io_queue_without_its_empty_slots) {
  const test::Bytes queue = test::bytes_of({1, 2, 3, 4, 5, 6,  0,    8,   //
                                            2, 7, 8, 9, 1, 10, 0x11, 13,  //
                                            9, 0, 0, 0, 0, 0,  4,    0});
  EXPECT_EQ(written(*protocol::IoQueueView::parse(queue)), R"([
    {"slot_idx": 1, "op_type": 2, "src_handle": 7, "dst_handle": 8, "offset": 4294967305,
     "byte_count": 10, "status": 17, "tag": 13, "op_name": "write", "status_name": "error"},
    {"slot_idx": 2, "op_type": 9, "src_handle": 0, "dst_handle": 0, "offset": 0,
     "byte_count": 0, "status": 4, "tag": 0, "op_name": "unknown", "status_name": "unknown"}
    ])"_json);
}

}  // namespace
}  // namespace everkernel::telemetry
