// Signals: the first ends a run or a dispatch like its time limit, the second ends the process.
#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "run_fixture.hpp"

namespace everkernel::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// On the interpreter an item of `slow` takes about a hundredth of a second, `slower` half a second.
constexpr std::string_view kHandlers =
    "handler inc = 65 { output[0] = output[0] + 1; }\n"
    "handler slow = 68 { for i in 0 .. 2000000 { output[1] = i; } }\n"
    "handler slower = 69 { for i in 0 .. 60000000 { output[1] = i * i + (i >> 3); } }\n";

class Interrupted : public RunProgram {
 protected:
  void SetUp() override { write_text("ops.ek", kHandlers); }

  // An item that adds 1, and then `count` items of `op`.
  void write_job(Word op, int count) const {
    std::string items = R"({"op": 65, "output": 4})";
    for (int i = 0; i < count; ++i) items += fmt::format(R"(, {{"op": {}, "output": 4}})", op);
    write_text("job.json", fmt::format(R"({{"handlers": "ops.ek", "outputs": [4],
        "buffers": [{{"handle": 4, "zeros": 2}}], "items": [{}]}})",
                                       items));
  }

  Command command(Args more) const {
    Args args = {"run", "job.json", "--outputs", "out", "--interpreter"};
    args.insert(args.end(), more.begin(), more.end());
    return {.program = built_path("everkernel"), .args = args, .folder = dir.path()};
  }

  // The program makes the folder when it has taken over the signals and is about to run.
  void wait_for_start() const {
    const auto end = std::chrono::steady_clock::now() + seconds(10);
    while (!has_out() && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(milliseconds(1));
    ASSERT_TRUE(has_out()) << "the run did not begin";
    std::this_thread::sleep_for(milliseconds(50));
  }

  std::vector<std::string> out_names() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(dir.path() / "out")) {
      names.push_back(entry.path().filename());
    }
    std::ranges::sort(names);
    return names;
  }
};

class FirstSignal : public Interrupted, public ::testing::WithParamInterface<int> {};

TEST_P(FirstSignal, ends_a_run_and_what_is_done_is_written) {
  write_job(68, 6000);
  Process process(command({"--json"}));
  wait_for_start();
  const auto begin = std::chrono::steady_clock::now();
  process.send(GetParam());
  const Json report = object_of(1, process.finish());
  // The item that runs may take a second to end; the rest is slack for a busy machine.
  EXPECT_LT(std::chrono::steady_clock::now() - begin, seconds(5));
  EXPECT_EQ(report["interrupted"], true);
  EXPECT_GE(report["items_processed"], 1);
  EXPECT_GT(report["items_remaining"], 0);
  EXPECT_EQ(report["items_processed"].get<int>() + report["items_remaining"].get<int>() +
                report["items_faulted"].get<int>(),
            6001);
  EXPECT_EQ(out_words(4).front(), 1u);
  EXPECT_EQ(out_names(), std::vector<std::string>{"buffer-4.bin"});
}

INSTANTIATE_TEST_SUITE_P(Every, FirstSignal, ::testing::Values(SIGINT, SIGTERM, SIGHUP),
                         [](const auto& test) { return std::string(::sigabbrev_np(test.param)); });

TEST_F(Interrupted, the_text_says_so) {
  write_job(68, 6000);
  Process process(command({}));
  wait_for_start();
  process.send(SIGINT);
  const Outcome outcome = process.finish();
  EXPECT_EQ(outcome.status, 1) << outcome.err;
  EXPECT_NE(outcome.out.find("remain, interrupted"), std::string::npos) << outcome.out;
}

TEST_F(Interrupted, the_second_signal_ends_the_process_at_once) {
  write_job(69, 10);
  Process process(command({}));
  wait_for_start();
  process.send(SIGINT);
  std::this_thread::sleep_for(milliseconds(20));
  process.send(SIGTERM);
  const Outcome outcome = process.finish();
  EXPECT_EQ(outcome.signal, SIGTERM) << outcome.status << outcome.err;
  EXPECT_EQ(outcome.out, "");
}

TEST_F(Interrupted, a_signal_that_was_ignored_stays_ignored) {
  write_job(68, 20);
  Command shell = command({});
  std::string text = "trap '' HUP; exec '" + shell.program + "'";
  for (const std::string& word : shell.args) text += " '" + word + "'";
  shell.program = "/bin/sh";
  shell.args = {"-c", text};
  Process process(shell);
  wait_for_start();
  process.send(SIGHUP);
  EXPECT_EQ(process.finish().status, 0);
}

TEST_F(Interrupted, a_signal_before_the_run_ends_the_process) {
  ASSERT_EQ(::mkfifo((dir.path() / "job.json").c_str(), 0600), 0);  // nothing comes
  Process process(command({}));
  std::this_thread::sleep_for(milliseconds(100));
  process.send(SIGINT);
  EXPECT_EQ(process.finish().signal, SIGINT);
  EXPECT_FALSE(has_out());
}

TEST_F(Interrupted, the_first_signal_ends_a_dispatch) {
  // Native code takes about 50 ms for each slot.
  std::vector<Word> ring;
  for (int i = 0; i < 512; ++i) {
    const auto slot = slot_words({.status = 1, .opcode = 69, .args = {0, 4}});
    ring.insert(ring.end(), slot.begin(), slot.end());
  }
  dir.write("ring.bin", bytes_of(ring));
  dir.write("control.bin", control_of({}));
  dir.write("data.bin", bytes_of({0, 0}));
  Process process(
      {.program = built_path("everkernel"),
       .args = {"dispatch", "--control", "control.bin", "--ring", "ring.bin", "--handlers",
                "ops.ek", "--buffer", "4=data.bin", "--out", "out", "--json"},
       .folder = dir.path()});
  wait_for_start();
  process.send(SIGINT);
  const Json report = object_of(1, process.finish());
  EXPECT_EQ(report["end"], "stopped");
  EXPECT_GT(report["items_remaining"], 0);
  EXPECT_EQ(out_names(), (std::vector<std::string>{"buffer-4.bin", "control.bin", "debug_log.bin",
                                                   "hits.bin", "io_queue.bin", "ring.bin"}));
}

}  // namespace
}  // namespace everkernel::test
