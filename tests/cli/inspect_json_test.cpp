// `everkernel inspect --json`: every field, with literal values.
#include "program.hpp"
#include "support/build_paths.hpp"

namespace everkernel::test {
namespace {

using InspectJson = Program;

std::vector<std::string> keys_of(const Json& object) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.push_back(key);
  return keys;  // sorted: that is how nlohmann::json keeps them
}

using Keys = std::vector<std::string>;

TEST_F(InspectJson, control_has_every_field) {
  dir.write("c.bin", control_of({{0, 5},       // shutdown: any value but 0
                                 {1, 1'000},   // done_count
                                 {64, 10},     // claims of tenant 0
                                 {95, 4},      // and of the last entry
                                 {96, 1},      // executions of NOP
                                 {127, 9},     // and of opcode 31
                                 {128, 3},     // epoch
                                 {136, 7},     // claims of CRITICAL
                                 {140, 8},     // and of IDLE
                                 {143, 2},     // fault_count
                                 {144, 6}}));  // debug_dropped
  EXPECT_EQ(json({"inspect", "--control", "c.bin"}), Json::parse(R"({"control": {
      "shutdown": true, "done_count": 1000, "epoch": 3, "metrics": [[0, 1], [31, 9]],
      "tenant_fairness": [10,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,4],
      "priority_fairness": [7, 0, 0, 0, 8], "fault_count": 2, "debug_dropped": 6}})"));
}

TEST_F(InspectJson, observables_are_there_when_asked_for) {
  dir.write("c.bin", control_of({{160, 11}, {162, 0xFFFFFFFFu}}, 3));
  const Json control = json({"inspect", "--control", "c.bin", "--observables"})["control"];
  EXPECT_EQ(control["shutdown"], false);
  EXPECT_EQ(control["metrics"], Json::array());
  EXPECT_EQ(control["observables"], Json::parse("[11, 0, 4294967295]"));
}

TEST_F(InspectJson, observables_are_an_empty_array_when_there_are_none) {
  dir.write("c.bin", control_of({}));
  EXPECT_EQ(json({"inspect", "--control", "c.bin", "--observables"})["control"]["observables"],
            Json::array());
}

TEST_F(InspectJson, occupancy_counts_every_status) {
  dir.write("r.bin", ring_of({{.status = 0},
                              {.status = 1},
                              {.status = 1},
                              {.status = 2},
                              {.status = 3},
                              {.status = 3},
                              {.status = 3},
                              {.status = 4},
                              {.status = 5},
                              {.status = 6},
                              {.status = 7},
                              {.status = 8},
                              {.status = 0xFFFFFFFFu}}));
  const Json object = json({"inspect", "--ring", "r.bin"});
  EXPECT_EQ(keys_of(object), (Keys{"occupancy", "slots", "windows"}));
  EXPECT_EQ(object["occupancy"], Json::parse(R"({"empty": 1, "published": 2, "claimed": 1,
      "done": 3, "wait_io": 1, "yield_count": 1, "requeue": 1, "fault": 1, "unknown": 2,
      "total_slots": 13, "queue_depth": 9})"));
  EXPECT_EQ(object["windows"], Json::array());
}

TEST_F(InspectJson, slots_have_every_field_also_of_a_fault_and_an_unknown_status) {
  dir.write(
      "r.bin",
      ring_of(
          {{.priority = 0},
           {.status = 7, .opcode = 99, .tenant = 5, .priority = 0x01020001, .args = {1, 2, 3, 4}},
           {.status = 42, .opcode = 0xFFFFFFFFu, .tenant = 77, .priority = 0xFFFF}}));
  EXPECT_EQ(json({"inspect", "--ring", "r.bin"})["slots"], Json::parse(R"([
      {"slot_idx": 0, "status": "empty", "status_raw": 0, "tenant_id": 0, "opcode": 0,
       "priority": 0, "fault_code": 0, "args_prefix": [0, 0, 0]},
      {"slot_idx": 1, "status": "fault", "status_raw": 7, "tenant_id": 5, "opcode": 99,
       "priority": 1, "fault_code": 258, "args_prefix": [1, 2, 3]},
      {"slot_idx": 2, "status": "unknown", "status_raw": 42, "tenant_id": 77,
       "opcode": 4294967295, "priority": 65535, "fault_code": 0, "args_prefix": [0, 0, 0]}])"));
}

TEST_F(InspectJson, every_status_has_its_name) {
  dir.write("r.bin", ring_of({{.status = 0},
                              {.status = 1},
                              {.status = 2},
                              {.status = 3},
                              {.status = 4},
                              {.status = 5},
                              {.status = 6},
                              {.status = 7}}));
  const Json object = json({"inspect", "--ring", "r.bin"});
  std::vector<std::string> names;
  for (const Json& slot : object["slots"]) names.push_back(slot["status"]);
  EXPECT_EQ(names, (std::vector<std::string>{"empty", "published", "claimed", "done", "wait_io",
                                             "yield", "requeue", "fault"}));
}

TEST_F(InspectJson, windows_group_the_slots_of_the_opcodes_that_were_asked_for) {
  dir.write("r.bin", ring_of({{.status = 1, .opcode = 64, .tenant = 1, .args = {9, 0}},
                              {.status = 2, .opcode = 64, .tenant = 1, .args = {9, 1}},
                              {.status = 3, .opcode = 64, .tenant = 2, .args = {5, 0}},
                              {.status = 7, .opcode = 64, .tenant = 2, .args = {5, 2}},
                              {.status = 4, .opcode = 1, .tenant = 3, .args = {5, 1}},
                              {.status = 1, .opcode = 65, .args = {9, 0}}}));
  const Json object = json(
      {"inspect", "--ring", "r.bin", "--window-opcode", "0x40", "--window-opcode", "store_u32"});
  EXPECT_EQ(object["windows"], Json::parse(R"([
      {"ticket": 5, "tenant_id": 3, "opcode": 1, "required_slots": 0, "lookahead_slots": 1,
       "published": 0, "claimed": 0, "done": 0, "wait_io": 1, "yield_count": 0, "requeue": 0,
       "fault": 0, "active": true},
      {"ticket": 5, "tenant_id": 2, "opcode": 64, "required_slots": 1, "lookahead_slots": 0,
       "published": 0, "claimed": 0, "done": 1, "wait_io": 0, "yield_count": 0, "requeue": 0,
       "fault": 1, "active": false},
      {"ticket": 9, "tenant_id": 1, "opcode": 64, "required_slots": 1, "lookahead_slots": 1,
       "published": 1, "claimed": 1, "done": 0, "wait_io": 0, "yield_count": 0, "requeue": 0,
       "fault": 0, "active": true}])"));
}

TEST_F(InspectJson, counters_need_control_and_ring) {
  dir.write("c.bin", control_of({{1, 100}, {64, 30}, {65, 50}, {136, 20}, {138, 60}}));
  dir.write("r.bin", ring_of({{},
                              {},
                              {.status = 3},
                              {.status = 1},
                              {.status = 6},
                              {.status = 7},
                              {.status = 7},
                              {.status = 2}}));
  const Json object = json({"inspect", "--control", "c.bin", "--ring", "r.bin"});
  EXPECT_EQ(keys_of(object), (Keys{"control", "counters", "occupancy", "slots", "windows"}));
  EXPECT_EQ(object["counters"], Json::parse(R"({"total_slots": 8, "queue_depth": 5,
      "gpu_idle_slots": 2, "gpu_idle_ppm": 250000, "frontier_density_bps": 6250,
      "occupancy_proxy_bps": 7500, "drained_slots": 100, "unreclaimed_done_slots": 1,
      "tenant_fairness_total": 80, "tenant_fairness_skew": 20, "priority_fairness_total": 80,
      "requeue_slots": 1, "fault_slots": 2})"));
}

TEST_F(InspectJson, watchdog_suspects_a_stall_when_nothing_completed) {
  dir.write("before.bin", control_of({{1, 7}}));
  dir.write("c.bin", control_of({{1, 7}}));
  dir.write("r.bin", ring_of({{}, {.status = 1}, {.status = 6}, {.status = 7}}));
  const Json object = json(
      {"inspect", "--control", "c.bin", "--ring", "r.bin", "--previous-control", "before.bin"});
  EXPECT_EQ(object["watchdog"], Json::parse(R"({"done_delta": 0, "queue_depth": 3,
      "fault_slots": 1, "requeue_slots": 1, "gpu_idle_ppm": 250000, "suspected_stall": true,
      "blocked_slots": 0, "blocked_tenants": [], "all_blocked": false})"));
}

TEST_F(InspectJson, watchdog_sees_progress_across_the_wrap_of_the_counter) {
  dir.write("before.bin", bytes_of({0, 0xFFFFFFFDu}));  // 8 bytes are enough to compare with
  dir.write("c.bin", control_of({{1, 2}}));
  dir.write("r.bin", ring_of({{.status = 1}}));
  const Json object = json(
      {"inspect", "--control", "c.bin", "--ring", "r.bin", "--previous-control", "before.bin"});
  EXPECT_EQ(object["watchdog"]["done_delta"], 5);
  EXPECT_EQ(object["watchdog"]["suspected_stall"], false);
}

TEST_F(InspectJson, watchdog_suspects_nothing_when_only_a_disabled_tenant_waits) {
  dir.write("c.bin", control_of({}));
  dir.write("r.bin", ring_of({{.status = 1, .tenant = 2}}));
  const Json object =
      json({"inspect", "--control", "c.bin", "--ring", "r.bin", "--previous-control", "c.bin"});
  EXPECT_EQ(object["watchdog"]["queue_depth"], 1);
  EXPECT_EQ(object["watchdog"]["suspected_stall"], false);
}

TEST_F(InspectJson, watchdog_says_that_tenants_block_everything) {
  dir.write("c.bin", control_of({}));
  dir.write("r.bin", ring_of({{.status = 1, .tenant = 2}, {.status = 6, .tenant = 1}}));
  const Args args = {"inspect", "--control",          "c.bin", "--ring",
                     "r.bin",   "--previous-control", "c.bin"};
  const Json watchdog = json(args)["watchdog"];
  EXPECT_EQ(watchdog["blocked_slots"], 2);
  EXPECT_EQ(watchdog["blocked_tenants"], Json::parse("[1, 2]"));
  EXPECT_EQ(watchdog["all_blocked"], true);
  const std::string text = everkernel(args).out;
  EXPECT_NE(text.find("and none can: 2 slots wait for a tenant\n"
                      "  disabled: tenant 2\n  without quota: tenant 1\n"),
            std::string::npos)
      << text;
}

TEST_F(InspectJson, debug_log_has_the_records_that_were_written) {
  dir.write("d.bin", bytes_of({8, 1, 2, 3, 16, 4, 5, 6, 32, 99, 99, 99, 99}));
  EXPECT_EQ(json({"inspect", "--debug-log", "d.bin"}), Json::parse(R"({"debug_log": [
      {"fmt_id": 1, "args": [2, 3, 16]}, {"fmt_id": 4, "args": [5, 6, 32]}]})"));
}

TEST_F(InspectJson, a_debug_cursor_that_makes_no_sense_is_refused) {
  dir.write("d.bin", bytes_of({8, 1, 2, 3, 16}));
  expect_refused(everkernel({"inspect", "--debug-log", "d.bin", "--json"}),
                 "d.bin: debug_log: word 0 (cursor) is 8");
}

TEST_F(InspectJson, io_queue_leaves_empty_slots_out) {
  dir.write("q.bin", bytes_of({0, 0, 0, 0, 0, 0,    0,    0,   //
                               2, 3, 4, 5, 1, 4096, 0x11, 13,  //
                               9, 1, 2, 0, 0, 0,    0x99, 7}));
  const Json queue = json({"inspect", "--io-queue", "q.bin"})["io_queue"];
  ASSERT_EQ(queue.size(), 2u);
  const Json& failed = queue[0];
  EXPECT_EQ(failed["slot_idx"], 1);
  EXPECT_EQ(failed["op_type"], 2);
  EXPECT_EQ(failed["src_handle"], 3);
  EXPECT_EQ(failed["dst_handle"], 4);
  EXPECT_EQ(failed["offset"], 4'294'967'301u);
  EXPECT_EQ(failed["byte_count"], 4096);
  EXPECT_EQ(failed["status"], 0x11);
  EXPECT_EQ(failed["tag"], 13);
  EXPECT_EQ(queue[1]["slot_idx"], 2);
  EXPECT_EQ(queue[1]["op_type"], 9);
  EXPECT_EQ(queue[1]["status"], 0x99);
}

TEST_F(InspectJson, everything_at_once_has_every_key) {
  dir.write("c.bin", control_of({}));
  dir.write("r.bin", ring_of({{}}));
  dir.write("d.bin", bytes_of({0}));
  dir.write("q.bin", Bytes(32));
  const Json object = json({"inspect", "--control", "c.bin", "--ring", "r.bin", "--debug-log",
                            "d.bin", "--io-queue", "q.bin", "--previous-control", "c.bin"});
  EXPECT_EQ(keys_of(object), (Keys{"control", "counters", "debug_log", "io_queue", "occupancy",
                                   "slots", "watchdog", "windows"}));
}

TEST_F(InspectJson, a_ring_may_come_through_a_pipe) {
  dir.write("r.bin", ring_of({{.status = 1}}));
  const Outcome outcome = run({.program = "/bin/sh",
                               .args = {"-c", "cat r.bin | '" + built_path("everkernel") +
                                                  "' inspect --ring /dev/stdin --json"},
                               .folder = dir.path()});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(Json::parse(outcome.out)["occupancy"]["published"], 1);
}

}  // namespace
}  // namespace everkernel::test
