// `everkernel dispatch`: the files and the report of successful dispatches.
#include <sstream>

#include "dispatch_fixture.hpp"

namespace everkernel::test {
namespace {

using Dispatch = DispatchProgram;

TEST_F(Dispatch, runs_what_the_other_commands_made) {
  ASSERT_EQ(everkernel({"encode", "control", "--tenants", "2", "--observable-slots", "4", "-o",
                        "control.bin"})
                .status,
            0);
  ASSERT_EQ(everkernel({"encode", "ring", "--slots", "8", "-o", "ring.bin"}).status, 0);
  ASSERT_EQ(everkernel({"encode", "debug-log", "--records", "2", "-o", "log.bin"}).status, 0);
  const auto publish = [&](const Args& more) {
    Args args = {"publish", "--ring", "ring.bin"};
    args.insert(args.end(), more.begin(), more.end());
    EXPECT_EQ(everkernel(args).status, 0);
  };
  publish({"--slot", "0", "--tenant", "0", "--opcode", "STORE_U32", "--arg", "7", "--arg", "161"});
  publish({"--slot", "1", "--tenant", "1", "--packed", "STORE_U32:10,162", "--packed",
           "ATOMIC_ADD:32,162", "--packed", "NOP"});
  publish({"--slot", "2", "--tenant", "1", "--opcode", "PRINTF", "--arg", "3", "--arg", "4",
           "--arg", "0"});
  dir.write("items.bin", bytes_of({2, 5, 163, 0, 2, 6, 163, 0}));
  publish({"--slot", "3", "--tenant", "0", "--batch", "items.bin", "--tag", "99"});

  const Outcome outcome = dispatch({"--debug-log", "log.bin"});
  EXPECT_EQ(outcome.status, 0) << outcome.err << outcome.out;
  const Json look = inspect_out();
  EXPECT_EQ(look["control"]["done_count"], 6);
  EXPECT_EQ(look["control"]["fault_count"], 0);
  EXPECT_EQ(look["control"]["epoch"], 1);
  EXPECT_EQ(look["control"]["observables"], Json::parse("[99, 7, 42, 11]"));
  EXPECT_EQ(look["control"]["metrics"], Json::parse("[[0, 1], [1, 2], [2, 3], [7, 1]]"));
  EXPECT_EQ(look["occupancy"]["done"], 6);
  EXPECT_EQ(look["occupancy"]["queue_depth"], 0);
  EXPECT_EQ(look["debug_log"], Json::parse(R"([{"fmt_id": 3, "args": [4, 0, 32]}])"));
}

TEST_F(Dispatch, writes_the_bytes_that_the_wire_format_says) {
  dir.write("control.bin", control_of({}, 2));
  dir.write("ring.bin", ring_of({{.status = 1, .opcode = 1, .args = {7, 160}},
                                 add_to(161, 5),
                                 {},
                                 {.status = 3, .opcode = 9}}));
  EXPECT_EQ(dispatch().status, 0);
  EXPECT_EQ(dir.read("out/control.bin"), control_of({{1, 2},    // done
                                                     {64, 2},   // claims of tenant 0
                                                     {97, 1},   // STORE_U32
                                                     {98, 1},   // ATOMIC_ADD
                                                     {138, 2},  // claims of NORMAL
                                                     {160, 7},
                                                     {161, 5}},
                                                    2));
  EXPECT_EQ(dir.read("out/ring.bin"), ring_of({{.status = 3, .opcode = 1, .args = {7, 160}},
                                               {.status = 3, .opcode = 2, .args = {5, 161}},
                                               {},
                                               {.status = 3, .opcode = 9}}));
  EXPECT_EQ(out_names(), (std::vector<std::string>{"control.bin", "debug_log.bin", "hits.bin",
                                                   "io_queue.bin", "ring.bin"}));
}

TEST_F(Dispatch, leaves_the_files_it_was_given_as_they_were) {
  const Bytes control = control_of({}, 1);
  const Bytes ring = ring_of({add_to(160, 1)});
  dir.write("control.bin", control);
  dir.write("ring.bin", ring);
  EXPECT_EQ(dispatch().status, 0);
  EXPECT_EQ(dir.read("control.bin"), control);
  EXPECT_EQ(dir.read("ring.bin"), ring);
}

TEST_F(Dispatch, buffers_come_back_with_the_lengths_they_had) {
  dir.write("control.bin", control_of({}, 5));
  dir.write("ring.bin", Bytes(64 * 3));
  dir.write("log.bin", Bytes(4 + 16 * 3));
  dir.write("queue.bin", Bytes(32 * 7));
  EXPECT_EQ(dispatch({"--debug-log", "log.bin", "--io-queue", "queue.bin"}).status, 0);
  EXPECT_EQ(dir.read("out/control.bin").size(), 660u);
  EXPECT_EQ(dir.read("out/ring.bin").size(), 192u);
  EXPECT_EQ(dir.read("out/debug_log.bin").size(), 52u);
  EXPECT_EQ(dir.read("out/io_queue.bin").size(), 224u);
}

TEST_F(Dispatch, json_has_every_field) {
  dir.write("control.bin", control_of({}, 1));
  dir.write("ring.bin", ring_of({add_to(160, 1), {.status = 1, .opcode = 99}, {}, {}}));
  Json report = dispatch_json(1, {"--backend", "cpu", "--workers", "1"});
  EXPECT_EQ(report["backend"], "cpu");
  EXPECT_EQ(report["backend_reason"], "");
  EXPECT_NE(report["device"], "");
  EXPECT_TRUE(report["pipeline_id"].get<std::string>().starts_with("cpu-direct-4x4"));
  EXPECT_EQ(report["worker_count"], 1);
  EXPECT_EQ(report["slot_count"], 4);
  EXPECT_EQ(report["workgroup_size"], 4);
  EXPECT_EQ(report["schedule"], "direct");
  EXPECT_EQ(report["end"], "complete");
  EXPECT_EQ(report["items_done"], 1);
  EXPECT_EQ(report["items_faulted"], 1);
  EXPECT_EQ(report["items_remaining"], 0);
  EXPECT_GT(report["latency_ns"], 0);
  EXPECT_GE(report["input_bytes"], 644 + 256);
  EXPECT_GE(report["output_bytes"], 644 + 256);
  EXPECT_GE(report["readback_bytes"], 644 + 256);
  EXPECT_EQ(report["bytes_moved"],
            report["input_bytes"].get<int>() + report["readback_bytes"].get<int>());
  EXPECT_EQ(report["kernel_launches"], 1);
  EXPECT_EQ(report["recovered_after_device_loss"], false);
  EXPECT_EQ(report["debug_dropped"], 0);
  EXPECT_EQ(report["remaining"], Json::array());
  EXPECT_EQ(report["hits_dropped"], 0);
  EXPECT_EQ(report["faults"], Json::parse(R"([{"fault_code": 1, "fault_name": "unknown_opcode",
                                               "opcode": 99, "count": 1}])"));
  EXPECT_EQ(report["files"][0], Json::parse(R"({"path": "out/control.bin", "bytes": 644})"));
  EXPECT_EQ(report["files"].size(), 5u);
  for (const char* key : {"device_allocation_bytes", "device_allocation_events", "output_buffers",
                          "resident_resource_rows", "resident_resource_handles", "sync_points",
                          "output_bytes_per_second", "readback_bytes_per_second",
                          "bytes_moved_per_second", "device_allocation_bytes_per_second"}) {
    EXPECT_TRUE(report[key].is_number_unsigned()) << key;
  }
}

TEST_F(Dispatch, auto_says_what_it_chose_and_why) {
  dir.write("control.bin", control_of({}));
  dir.write("ring.bin", Bytes(64));
  const Json report = dispatch_json(0);
  EXPECT_EQ(report["backend"], "cpu");
  EXPECT_EQ(report["backend_reason"], kNoDriverReason);
  const std::string text = dispatch().out;
  EXPECT_NE(text.find("\n  auto chose cpu:  EVERKERNEL_LIBCUDA: /nowhere/libcuda.so: cannot open "),
            std::string::npos)
      << text;
  EXPECT_EQ(dispatch({"--backend", "cpu"}).out.find("auto"), std::string::npos);
}

TEST_F(Dispatch, text_says_how_items_ended_and_what_to_do) {
  dir.write("control.bin", control_of({}, 1));
  dir.write("ring.bin", ring_of({add_to(160, 1),
                                 {.status = 1, .opcode = 99},
                                 {.status = 1, .opcode = 99},
                                 {.status = 1, .opcode = 9, .tenant = 7},
                                 {.status = 1, .opcode = 7, .args = {1, 1}},
                                 {.status = 1, .opcode = 0xFFFE, .args = {1}}}));
  const Outcome outcome = dispatch({"--workers", "2"});
  EXPECT_EQ(outcome.status, 1) << outcome.err;
  for (const std::string_view part :
       {"dispatch  cpu, 2 workers  6 slots, direct schedule\n",
        "  done       2  items that completed\n", "  faulted    2  items that ended as fault\n",
        "  remaining  2  items that have not ended\n",
        "  dropped    1  debug records that did not fit",
        "  every slot that could run has run after ",
        "    2  unknown_opcode (1)  99      no handler has this opcode: give a file that has one "
        "with",
        "published  9            tenant disabled\n", "yield      BATCH_FENCE  waits for slot 3\n",
        "  out/control.bin    644 bytes\n"}) {
    EXPECT_NE(outcome.out.find(part), std::string::npos) << part << "\nin:\n" << outcome.out;
  }
  std::istringstream lines(outcome.out);
  for (std::string line; std::getline(lines, line);) {
    EXPECT_LE(line.size(), 100u) << line;
    EXPECT_FALSE(line.ends_with(' ')) << "'" << line << "'";
  }
}

TEST_F(Dispatch, faults_of_an_earlier_run_are_not_this_runs) {
  dir.write("control.bin", control_of({}));
  dir.write("ring.bin", ring_of({{.status = 7, .opcode = 99, .priority = 0x00010002}}));
  const Json report = dispatch_json(0);
  EXPECT_EQ(report["items_faulted"], 0);
  EXPECT_EQ(report["faults"], Json::array());
  EXPECT_EQ(dir.read("out/ring.bin"), dir.read("ring.bin"));
}

TEST_F(Dispatch, an_output_folder_goes_in_again) {
  dir.write("control.bin", control_of({}, 1));
  dir.write("ring.bin", ring_of({add_to(160, 5)}));
  EXPECT_EQ(dispatch().status, 0);
  EXPECT_EQ(everkernel({"publish", "--ring", "out/ring.bin", "--slot", "0", "--tenant", "0",
                        "--opcode", "ATOMIC_ADD", "--arg", "2", "--arg", "160"})
                .status,
            0);
  EXPECT_EQ(everkernel({"dispatch", "--control", "out/control.bin", "--ring", "out/ring.bin",
                        "--out", "out"})
                .status,
            0);
  EXPECT_EQ(out_words("control.bin")[1], 2u);
  EXPECT_EQ(out_words("control.bin")[160], 7u);
  EXPECT_EQ(out_names().size(), 5u);
}

TEST_F(Dispatch, the_folder_is_made_with_those_around_it_and_keeps_other_files) {
  dir.write("control.bin", control_of({}));
  dir.write("ring.bin", Bytes(64));
  std::filesystem::create_directory(dir.path() / "a");
  const Args args = {"dispatch", "--control", "control.bin", "--ring",
                     "ring.bin", "--out",     "a/b/c/"};
  EXPECT_EQ(everkernel(args).status, 0);
  dir.write("a/b/c/notes", bytes_of({1}));
  EXPECT_EQ(everkernel(args).status, 0);
  EXPECT_EQ(dir.read("a/b/c/ring.bin"), Bytes(64));
  EXPECT_EQ(dir.read("a/b/c/notes"), bytes_of({1}));
}

struct WorkgroupCase {
  Word slots;
  Word size;
};

class DefaultWorkgroup : public DispatchProgram,
                         public ::testing::WithParamInterface<WorkgroupCase> {};

TEST_P(DefaultWorkgroup, is_the_largest_power_of_two_up_to_256_that_divides) {
  dir.write("control.bin", control_of({}));
  dir.write("ring.bin", Bytes(std::size_t{GetParam().slots} * 64));
  EXPECT_EQ(dispatch_json(0)["workgroup_size"], GetParam().size);
}

INSTANTIATE_TEST_SUITE_P(Every, DefaultWorkgroup,
                         ::testing::Values(WorkgroupCase{1, 1}, WorkgroupCase{7, 1},
                                           WorkgroupCase{12, 4}, WorkgroupCase{96, 32},
                                           WorkgroupCase{256, 256}, WorkgroupCase{1000, 8},
                                           WorkgroupCase{1024, 256}));

TEST_F(Dispatch, any_divisor_is_a_workgroup_size) {
  dir.write("control.bin", control_of({}));
  dir.write("ring.bin", Bytes(64 * 30));
  EXPECT_EQ(dispatch_json(0, {"--workgroup-size", "15"})["workgroup_size"], 15);
}

class EverySchedule : public DispatchProgram, public ::testing::WithParamInterface<const char*> {};

TEST_P(EverySchedule, runs_every_slot_of_an_enabled_tenant) {
  dir.write("control.bin", control_of({{34, 0}}, 1));
  std::vector<Word> words;
  for (Word i = 0; i < 100; ++i) {
    auto slot = add_to(160, i);
    if (i == 50) slot.tenant = 5;
    const auto line = slot_words(slot);
    words.insert(words.end(), line.begin(), line.end());
  }
  dir.write("ring.bin", bytes_of(words));
  const Json report = dispatch_json(1, {"--schedule", GetParam()});
  EXPECT_EQ(report["schedule"], GetParam());
  EXPECT_EQ(report["items_done"], 99);
  EXPECT_EQ(report["items_remaining"], 1);
  EXPECT_EQ(out_words("control.bin")[160], 99u * 50 - 50);
  EXPECT_EQ(out_words("ring.bin")[50 * 16], 1u);
}

INSTANTIATE_TEST_SUITE_P(Of, EverySchedule, ::testing::Values("direct", "priority", "ticket"));

TEST_F(Dispatch, counters_wrap) {
  dir.write("control.bin", control_of({{1, 0xFFFFFFFFu}, {64, 0xFFFFFFFFu}}, 1));
  dir.write("ring.bin", ring_of({add_to(160, 1), add_to(160, 1)}));
  EXPECT_EQ(dispatch_json(0)["items_done"], 2);
  EXPECT_EQ(out_words("control.bin")[1], 1u);
  EXPECT_EQ(out_words("control.bin")[64], 1u);
}

TEST_F(Dispatch, shutdown_at_entry_runs_nothing) {
  dir.write("control.bin", control_of({{0, 1}}, 1));
  dir.write("ring.bin", ring_of({add_to(160, 1)}));
  const Json report = dispatch_json(1);
  EXPECT_EQ(report["end"], "shutdown");
  EXPECT_EQ(report["items_remaining"], 1);
  EXPECT_EQ(report["remaining"][0]["why"], "shutdown is set");
  EXPECT_EQ(dir.read("out/ring.bin"), dir.read("ring.bin"));
  EXPECT_EQ(dir.read("out/control.bin"), dir.read("control.bin"));
}

}  // namespace
}  // namespace everkernel::test
