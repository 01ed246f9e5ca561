// Items that fail, one test for each fault of the wire format: the item gets the fault code of the
// format, the other items finish, and `inspect` shows both.
#include "dispatch_fixture.hpp"

namespace everkernel::test {
namespace {

class DispatchHostile : public DispatchProgram {
 protected:
  // The bad item lies between two good ones, each adding 1 to the first observable.
  void run_with(const SlotWords& bad, const Args& more = {}) {
    dir.write("control.bin", control_of({{5, 0}, {4, 1}, {33, 4}}, 2));
    dir.write("ring.bin", ring_of({add_to(160, 1), bad, add_to(160, 1), {}}));
    report_ = dispatch_json(1, more);
    EXPECT_EQ(report_["end"], "complete");
    EXPECT_EQ(out_words("control.bin")[160], 2u) << "the others finish";
    EXPECT_EQ(out_words("ring.bin")[0], 3u);
    EXPECT_EQ(out_words("ring.bin")[32], 3u);
  }
  void expect_fault(Word code, std::string_view name) {
    EXPECT_EQ(report_["items_done"], 2);
    EXPECT_EQ(report_["items_faulted"], 1);
    EXPECT_EQ(report_["faults"].size(), 1u);
    EXPECT_EQ(report_["faults"][0]["fault_name"], name);
    const Json look = inspect_out();
    EXPECT_EQ(look["control"]["fault_count"], 1);
    EXPECT_EQ(look["slots"][1]["status"], "fault");
    EXPECT_EQ(look["slots"][1]["fault_code"], code);
    EXPECT_EQ(look["slots"][1]["priority"], 2);
    EXPECT_NE(inspect_out_text().find(name), std::string::npos);
  }
  // The slot is unchanged and not counted.
  void expect_untouched(std::string_view note) {
    EXPECT_EQ(report_["items_done"], 2);
    EXPECT_EQ(report_["items_remaining"], 1);
    const auto before = words_of(dir.read("ring.bin"));
    const auto after = out_words("ring.bin");
    EXPECT_TRUE(std::equal(after.begin() + 16, after.begin() + 32, before.begin() + 16));
    EXPECT_EQ(inspect_out()["control"]["fault_count"], 0);
    EXPECT_NE(inspect_out_text().find(note), std::string::npos) << inspect_out_text();
  }

  Json report_;
};

TEST_F(DispatchHostile, a_disabled_tenant_stays_as_it_was) {
  run_with({.status = 1, .opcode = 2, .tenant = 2, .args = {9, 160}});
  expect_untouched("tenant disabled");
  EXPECT_EQ(inspect_out()["control"]["tenant_fairness"][2], 0);
}

TEST_F(DispatchHostile, a_tenant_without_quota_stays_as_it_was) {
  dir.write("control.bin", control_of({{4, 1}, {33, 0}}, 1));
  dir.write("ring.bin", ring_of({add_to(160, 1), {.status = 1, .opcode = 0, .tenant = 1}}));
  const Json report = dispatch_json(1);
  EXPECT_EQ(report["items_done"], 1);
  EXPECT_EQ(report["remaining"][0]["why"], "tenant has no quota");
}

TEST_F(DispatchHostile, a_tenant_outside_the_table_is_a_fault) {
  run_with({.status = 1, .opcode = 2, .tenant = 29, .args = {9, 160}});
  expect_fault(3, "tenant_out_of_range");
}

TEST_F(DispatchHostile, an_unknown_opcode_is_a_fault) {
  run_with({.status = 1, .opcode = 99});
  expect_fault(1, "unknown_opcode");
}

TEST_F(DispatchHostile, a_bad_index_is_a_fault_and_writes_nothing) {
  run_with({.status = 1, .opcode = 1, .args = {9, 162}});
  expect_fault(2, "index_out_of_range");
}

TEST_F(DispatchHostile, a_copy_that_leaves_the_buffer_is_a_fault_and_writes_nothing) {
  run_with({.status = 1, .opcode = 5, .args = {0, 161, 2}});
  expect_fault(2, "index_out_of_range");
  EXPECT_EQ(out_words("control.bin")[161], 0u);
}

TEST_F(DispatchHostile, a_word_of_the_system_is_denied_to_tenants) {
  run_with({.status = 1, .opcode = 1, .tenant = 1, .args = {1, 0}});
  expect_fault(5, "permission_denied");
  EXPECT_EQ(out_words("control.bin")[0], 0u);
}

TEST_F(DispatchHostile, a_bad_packed_payload_is_a_fault_before_any_of_it_runs) {
  // Two inner operations; the arguments of the second begin behind the end of the payload.
  run_with({.status = 1, .opcode = 0x80000001u, .args = {0x00020202, 0x00000902, 77, 161}});
  expect_fault(6, "bad_packed_payload");
  EXPECT_EQ(out_words("control.bin")[161], 0u);
}

TEST_F(DispatchHostile, a_fence_that_reaches_before_the_ring_is_a_fault) {
  run_with({.status = 1, .opcode = 7, .args = {2, 5}});
  expect_fault(7, "bad_fence");
  EXPECT_EQ(out_words("control.bin")[128], 0u);
}

TEST_F(DispatchHostile, a_fence_behind_a_stuck_item_waits) {
  dir.write("control.bin", control_of({}, 1));
  dir.write("ring.bin", ring_of({{.status = 1, .opcode = 0, .tenant = 9},
                                 {.status = 1, .opcode = 7, .args = {1, 5}},
                                 add_to(160, 1)}));
  const Json report = dispatch_json(1);
  EXPECT_EQ(report["end"], "complete");
  EXPECT_EQ(report["items_done"], 1);
  EXPECT_EQ(report["items_remaining"], 2);
  EXPECT_EQ(out_words("ring.bin")[16], 5u);
  EXPECT_NE(inspect_out_text().find("waits for slot 0"), std::string::npos);
}

TEST_F(DispatchHostile, a_fence_behind_a_fault_completes) {
  dir.write("control.bin", control_of({}, 1));
  dir.write("ring.bin",
            ring_of({{.status = 1, .opcode = 99}, {.status = 1, .opcode = 7, .args = {1, 5}}}));
  EXPECT_EQ(dispatch_json(1)["items_done"], 1);
  EXPECT_EQ(out_words("control.bin")[128], 1u);
  EXPECT_EQ(out_words("control.bin")[160], 5u);
}

TEST_F(DispatchHostile, a_buffer_handle_that_names_nothing_is_a_fault) {
  run_with({.status = 1, .opcode = 6, .args = {0, 0, 1, 77}});
  expect_fault(9, "bad_buffer_handle");
}

TEST_F(DispatchHostile, an_endless_handler_runs_out_of_fuel) {
  write_text("ops.ek", "handler spin = 64 { while true { } }\n");
  run_with({.status = 1, .opcode = 64}, {"--handlers", "ops.ek"});
  expect_fault(4, "fuel_exhausted");
}

TEST_F(DispatchHostile, a_full_log_drops_records_and_counts_them) {
  dir.write("control.bin", control_of({}, 1));
  dir.write("log.bin", Bytes(4 + 16));
  dir.write("ring.bin", ring_of({{.status = 1, .opcode = 0xFFFE, .args = {1, 2, 3}},
                                 {.status = 1, .opcode = 0xFFFE, .args = {1, 2, 3}},
                                 {.status = 1, .opcode = 0xFFFE, .args = {1, 2, 3}},
                                 add_to(160, 1)}));
  const Json report = dispatch_json(0, {"--debug-log", "log.bin"});
  EXPECT_EQ(report["items_done"], 4);
  EXPECT_EQ(report["debug_dropped"], 2);
  const Json look = inspect_out();
  EXPECT_EQ(look["debug_log"].size(), 1u);
  EXPECT_EQ(look["control"]["debug_dropped"], 2);
  EXPECT_EQ(out_words("debug_log.bin")[0], 4u);
}

TEST_F(DispatchHostile, without_a_log_every_record_is_dropped_and_counted) {
  dir.write("control.bin", control_of({{144, 5}}));
  dir.write("ring.bin", ring_of({{.status = 1, .opcode = 0xFFFE, .args = {1, 2, 3}}}));
  EXPECT_EQ(dispatch_json(0)["debug_dropped"], 1);
  EXPECT_EQ(out_words("control.bin")[144], 6u);
}

TEST_F(DispatchHostile, a_full_ring_refuses_until_a_dispatch_has_drained_it) {
  dir.write("control.bin", control_of({}, 1));
  dir.write("ring.bin", ring_of({add_to(160, 1), add_to(160, 1)}));
  const auto publish_into = [&](const char* ring) {
    return everkernel({"publish", "--ring", ring, "--slot", "1", "--tenant", "0", "--opcode", "0"});
  };
  expect_refused(publish_into("ring.bin"), "slot 1 is in use");
  EXPECT_EQ(dispatch().status, 0);
  EXPECT_EQ(publish_into("out/ring.bin").status, 0);
}

TEST_F(DispatchHostile, slots_that_are_claimed_or_unknown_at_entry_are_left_alone) {
  dir.write("control.bin", control_of({}, 1));
  dir.write("ring.bin", ring_of({{.status = 2, .opcode = 2, .args = {5, 160}},
                                 {.status = 77, .opcode = 2, .args = {5, 160}},
                                 add_to(160, 1)}));
  const Json report = dispatch_json(1);
  EXPECT_EQ(report["items_done"], 1);
  EXPECT_EQ(report["items_remaining"], 1);
  EXPECT_EQ(report["remaining"][0]["why"], "was claimed before this run");
  EXPECT_EQ(out_words("ring.bin")[0], 2u);
  EXPECT_EQ(out_words("ring.bin")[16], 77u);
  EXPECT_EQ(out_words("control.bin")[160], 1u);
}

TEST_F(DispatchHostile, more_io_than_the_queue_has_slots_remains) {
  dir.write("control.bin", control_of({}));
  dir.write("ring.bin", ring_of({{.status = 1, .opcode = 0xFFFD, .args = {3, 0}},
                                 {.status = 1, .opcode = 0xFFFD, .args = {4, 0}},
                                 {.status = 1, .opcode = 0}}));
  const Json report = dispatch_json(1);
  EXPECT_EQ(report["end"], "complete");
  EXPECT_EQ(report["items_done"], 1);
  EXPECT_EQ(report["items_remaining"], 2);
  EXPECT_EQ(inspect_out()["io_queue"].size(), 1u);
  EXPECT_EQ(inspect_out()["occupancy"]["wait_io"], 1);
  EXPECT_EQ(inspect_out()["occupancy"]["requeue"], 1);
}

TEST_F(DispatchHostile, any_bytes_run_to_an_end) {
  // A ring of noise in which every slot can be claimed, beside a control buffer of noise.
  std::vector<Word> ring(16 * 64), control(200);
  Word seed = 12345;
  const auto next = [&seed] { return seed = seed * 1664525u + 1013904223u; };
  for (Word& word : ring) word = next();
  for (Word i = 0; i < 64; ++i) {
    ring[i * 16] = i % 9;
    ring[i * 16 + 1] = i % 8;   // built in
    ring[i * 16 + 2] = i % 32;  // three of them outside the table
  }
  for (Word& word : control) word = next();
  control[0] = 0;
  control[2] = 3;
  for (std::size_t i = 129; i < 135; ++i) control[i] = 0;
  dir.write("ring.bin", bytes_of(ring));
  dir.write("control.bin", bytes_of(control));
  const Json report = dispatch_json(1, {"--deadline", "10s"});
  EXPECT_EQ(report["end"], "complete");
  EXPECT_EQ(
      everkernel({"inspect", "--control", "out/control.bin", "--ring", "out/ring.bin"}).status, 0);
}

TEST_F(DispatchHostile, prefetches_that_nobody_serves_do_not_keep_a_dispatch_alive) {
  dir.write("control.bin", control_of({}));
  dir.write("ring.bin", ring_of({{.status = 1, .opcode = 0xFFFD, .args = {3, 1}},
                                 {.status = 1, .opcode = 0xFFFD, .args = {4, 1}}}));
  EXPECT_EQ(dispatch_json(1, {"--deadline", "20s"})["end"], "complete");
}

}  // namespace
}  // namespace everkernel::test
