// `everkernel dispatch` with handlers and their buffers.
#include <bit>
#include <chrono>
#include <string>

#include "dispatch_fixture.hpp"

namespace everkernel::test {
namespace {

constexpr std::string_view kHandlers =
    "handler add = 64 { for i in 0 .. len(input) { output[i] = input[i] + param; } }\n"
    "handler copy = 65 { output[0] = input[0]; }\n"
    "handler countdown = 66 {\n"
    "  if args[3] == 0 { return; }\n"
    "  args[3] = args[3] - 1;\n"
    "  yield;\n"
    "}\n"
    "handler hit = 67 { emit(1, 2, 3); emit(4, 5, 6); }\n"
    "handler load = 68 { if args[3] == 0 { args[3] = 1; await read(9, 2, 1, 8); } }\n"
    "handler quit = 69 { fault 42; }\n"
    "handler forever = 70 { yield; }\n"
    "handler spin = 71 { while true { } }\n"
    "payload { control[160 + slot] = opcode + 1; }\n";

class DispatchHandlers : public DispatchProgram {
 protected:
  void SetUp() override {
    write_text("ops.ek", kHandlers);
    dir.write("control.bin", control_of({}, 4));
    dir.write("x.bin", bytes_of({1, 2, 3}));
    dir.write("y.bin", bytes_of({10, 20, 30}));
  }
  // One item of tenant 0 with these words as args.
  void publish(Word opcode, std::vector<Word> args) {
    dir.write("ring.bin", ring_of({{.status = 1, .opcode = opcode, .args = std::move(args)}}));
  }
};

TEST_F(DispatchHandlers, a_handler_reads_its_input_and_writes_its_output) {
  publish(64, {1, 2, 100});
  const Json report =
      dispatch_json(0, {"--handlers", "ops.ek", "--buffer", "1=x.bin:r", "--buffer", "2=y.bin"});
  EXPECT_EQ(report["items_done"], 1);
  EXPECT_EQ(out_words("buffer-2.bin"), (std::vector<Word>{101, 102, 103}));
  EXPECT_EQ(out_names(), (std::vector<std::string>{"buffer-2.bin", "control.bin", "debug_log.bin",
                                                   "hits.bin", "io_queue.bin", "ring.bin"}));
  EXPECT_EQ(report["files"][5], Json::parse(R"({"path": "out/buffer-2.bin", "bytes": 12})"));
  EXPECT_EQ(dir.read("y.bin"), bytes_of({10, 20, 30}));
}

struct AccessCase {
  const char* name;
  const char* input;   // of handle 1
  const char* output;  // of handle 2
  Word fault_code;
  std::vector<std::string> written;
};

class Access : public DispatchHandlers, public ::testing::WithParamInterface<AccessCase> {};

TEST_P(Access, is_what_the_option_says) {
  publish(65, {1, 2});
  const Word code = GetParam().fault_code;
  const Json report = dispatch_json(
      code == 0 ? 0 : 1,
      {"--handlers", "ops.ek", "--buffer", GetParam().input, "--buffer", GetParam().output});
  EXPECT_EQ(out_words("ring.bin")[3] >> 16, code);
  std::vector<std::string> names = GetParam().written;
  names.insert(names.end(),
               {"control.bin", "debug_log.bin", "hits.bin", "io_queue.bin", "ring.bin"});
  EXPECT_EQ(out_names(), names);
}

INSTANTIATE_TEST_SUITE_P(
    Every, Access,
    ::testing::Values(
        AccessCase{"read_and_write", "1=x.bin:r", "2=y.bin:w", 0, {"buffer-2.bin"}},
        AccessCase{"both", "1=x.bin", "2=y.bin:rw", 0, {"buffer-1.bin", "buffer-2.bin"}},
        AccessCase{"no_write", "1=x.bin:rw", "2=y.bin:r", 5, {"buffer-1.bin"}},
        AccessCase{"no_read", "1=x.bin:w", "2=y.bin", 5, {"buffer-1.bin", "buffer-2.bin"}},
        AccessCase{"no_handle", "7=x.bin", "2=y.bin", 9, {"buffer-2.bin", "buffer-7.bin"}}),
    [](const auto& test) { return test.param.name; });

TEST_F(DispatchHandlers, a_write_only_buffer_starts_with_the_words_of_its_file) {
  publish(65, {1, 2});
  EXPECT_EQ(
      dispatch({"--handlers", "ops.ek", "--buffer", "1=x.bin:r", "--buffer", "2=y.bin:w"}).status,
      0);
  EXPECT_EQ(out_words("buffer-2.bin"), (std::vector<Word>{1, 20, 30}));
}

TEST_F(DispatchHandlers, an_empty_buffer_has_no_words) {
  publish(65, {1, 2});
  dir.write("empty.bin", {});
  const Json report =
      dispatch_json(1, {"--handlers", "ops.ek", "--buffer", "1=x.bin", "--buffer", "2=empty.bin"});
  EXPECT_EQ(report["faults"][0]["fault_name"], "index_out_of_range");
  EXPECT_EQ(dir.read("out/buffer-2.bin"), Bytes());
}

TEST_F(DispatchHandlers, the_highest_handle_and_a_path_with_signs_in_it_are_fine) {
  publish(65, {0x7FFFFFFF, 2});
  dir.write("a=b:c", bytes_of({77}));
  EXPECT_EQ(
      dispatch({"--handlers", "ops.ek", "--buffer", "0x7fffffff=a=b:c", "--buffer", "2=y.bin"})
          .status,
      0);
  EXPECT_EQ(out_words("buffer-2.bin")[0], 77u);
  EXPECT_EQ(dir.read("out/buffer-2147483647.bin"), bytes_of({77}));
}

TEST_F(DispatchHandlers, more_buffers_than_a_table_begins_with) {
  publish(65, {150, 1});
  Args args = {"--handlers", "ops.ek"};
  for (int i = 1; i <= 150; ++i) {
    args.insert(args.end(), {"--buffer", std::to_string(i) + "=x.bin"});
  }
  EXPECT_EQ(dispatch(args).status, 0);
  EXPECT_EQ(out_names().size(), 155u);
}

TEST_F(DispatchHandlers, a_continuation_keeps_its_state_in_its_args) {
  publish(66, {0, 0, 0, 1000});
  EXPECT_EQ(dispatch_json(0, {"--handlers", "ops.ek"})["items_done"], 1);
  EXPECT_EQ(out_words("ring.bin")[4 + 3], 0u);
  EXPECT_EQ(out_words("control.bin")[1], 1u);
}

TEST_F(DispatchHandlers, jit_runs_the_payload_for_every_opcode) {
  dir.write("ring.bin", ring_of({{.status = 1, .opcode = 64},
                                 {.status = 1, .opcode = 1234},
                                 {.status = 1, .opcode = 2, .args = {50, 160}},
                                 {.status = 1, .opcode = 7, .args = {3, 0}}}));
  const Json report = dispatch_json(0, {"--handlers", "ops.ek", "--jit"});
  EXPECT_EQ(report["items_done"], 4);
  const auto control = out_words("control.bin");
  EXPECT_EQ(control[161], 1235u);
  EXPECT_EQ(control[162], 3u);
  EXPECT_EQ(control[128], 1u) << "the fence is no payload";
}

TEST_F(DispatchHandlers, without_jit_the_payload_does_not_run) {
  publish(1234, {});
  EXPECT_EQ(dispatch_json(1, {"--handlers", "ops.ek"})["faults"][0]["fault_code"], 1);
}

TEST_F(DispatchHandlers, hits_are_written_with_their_slot) {
  publish(67, {});
  const auto report = dispatch_json(0, {"--handlers", "ops.ek"});
  EXPECT_EQ(report["hits"], 2);
  EXPECT_EQ(report["hits_dropped"], 0);
  EXPECT_EQ(out_words("hits.bin"), (std::vector<Word>{0, 1, 2, 3, 0, 4, 5, 6}));
}

TEST_F(DispatchHandlers, hits_that_have_no_place_to_go_are_counted) {
  publish(67, {});
  const auto report = dispatch_json(1, {"--handlers", "ops.ek", "--hit-capacity", "1"});
  EXPECT_EQ(report["hits"], 1);
  EXPECT_EQ(report["hits_dropped"], 1);
  EXPECT_EQ(out_words("hits.bin"), (std::vector<Word>{0, 1, 2, 3}));
  const auto text = dispatch({"--handlers", "ops.ek", "--hit-capacity", "1"}).out;
  EXPECT_NE(text.find("1  hits of emit that did not fit"), std::string::npos) << text;
}

TEST_F(DispatchHandlers, io_that_nobody_serves_remains_with_its_request) {
  publish(68, {});
  dir.write("queue.bin", Bytes(64));
  const Json report = dispatch_json(1, {"--handlers", "ops.ek", "--io-queue", "queue.bin"});
  EXPECT_EQ(report["end"], "complete");
  EXPECT_EQ(report["remaining"], Json::parse(R"([{"status": "wait_io", "opcode": 68,
      "why": "waits for IO, which this version does not serve", "count": 1}])"));
  const Json request = inspect_out()["io_queue"][0];
  EXPECT_EQ(request["op_name"], "read");
  EXPECT_EQ(request["status_name"], "published");
  EXPECT_EQ(request["src_handle"], 9);
  EXPECT_EQ(request["dst_handle"], 1);
  EXPECT_EQ(request["offset"], 8192);
  EXPECT_EQ(request["byte_count"], 8);
}

TEST_F(DispatchHandlers, a_fault_of_a_handler_has_its_code) {
  publish(69, {});
  const Json report = dispatch_json(1, {"--handlers", "ops.ek"});
  EXPECT_EQ(report["faults"], Json::parse(R"([{"fault_code": 298, "fault_name": "user",
                                               "opcode": 69, "count": 1}])"));
  EXPECT_NE(inspect_out_text().find("handler fault 42"), std::string::npos);
}

TEST_F(DispatchHandlers, a_program_of_a_thousand_handlers_is_not_compiled_before_it_runs) {
  std::string text;
  for (int i = 0; i < 1000; ++i) {
    text += "handler h" + std::to_string(i) + " = " + std::to_string(64 + i) +
            " { for k in 0 .. len(output) { output[k] = output[k] * 3 + input[k]; } }\n";
  }
  write_text("many.ek", text);
  publish(64 + 999, {1, 2});
  const auto begin = std::chrono::steady_clock::now();
  const Json report = dispatch_json(0, {"--handlers", "many.ek", "--deadline", "100ms", "--buffer",
                                        "1=x.bin:r", "--buffer", "2=y.bin"});
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
  EXPECT_EQ(report["items_done"], 1);
  // 0.1 s on two quiet cores, of which the deadline is all; compiling takes 20 s.
  EXPECT_LT(taken.count(), 1.5);
}

TEST_F(DispatchHandlers, a_deadline_leaves_what_is_not_done) {
  dir.write("ring.bin", ring_of({{.status = 1, .opcode = 70}, add_to(160, 1)}));
  const Json report = dispatch_json(1, {"--handlers", "ops.ek", "--deadline", "50ms"});
  EXPECT_EQ(report["end"], "deadline");
  EXPECT_EQ(report["items_done"], 1);
  EXPECT_EQ(report["items_remaining"], 1);
  EXPECT_EQ(report["remaining"][0]["why"], "had not ended at the deadline");
  EXPECT_GE(report["latency_ns"], 50'000'000);
}

TEST_F(DispatchHandlers, an_item_that_runs_at_the_deadline_is_a_fault_and_the_others_remain) {
  std::vector<Word> words;
  for (int i = 0; i < 256; ++i) {
    const auto slot = slot_words({.status = 1, .opcode = 71});
    words.insert(words.end(), slot.begin(), slot.end());
  }
  dir.write("ring.bin", bytes_of(words));
  const Json report =
      dispatch_json(1, {"--handlers", "ops.ek", "--deadline", "0.02s", "--workers", "1"});
  EXPECT_EQ(report["end"], "deadline");
  EXPECT_GT(report["items_remaining"], 0);
  EXPECT_EQ(report["items_faulted"].get<int>() + report["items_remaining"].get<int>(), 256);
  EXPECT_EQ(report["faults"].back()["fault_name"], "deadline");
}

}  // namespace
}  // namespace everkernel::test
