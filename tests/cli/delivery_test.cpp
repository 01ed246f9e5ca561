// Results that cannot be written or printed: exit status 4, a message that says what is where, and
// neither the report nor files that were there are lost.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>

#include "run_fixture.hpp"

namespace everkernel::test {
namespace {

class Delivery : public RunProgram {
 protected:
  void SetUp() override {
    write_text("ops.ek", "handler inc = 65 { output[0] = output[0] + 1; }\n");
    write_job(3, 1);
  }

  // A job of buffers 1 ... `count` of `words` words, whose first word it makes 1.
  void write_job(int count, int words) const {
    std::string buffers, items, outputs;
    for (int i = 1; i <= count; ++i) {
      const char* const comma = i == 1 ? "" : ", ";
      buffers += fmt::format(R"({}{{"handle": {}, "zeros": {}}})", comma, i, words);
      items += fmt::format(R"({}{{"op": 65, "output": {}}})", comma, i);
      outputs += fmt::format("{}{}", comma, i);
    }
    write_text("job.json", fmt::format(R"({{"handlers": "ops.ek", "buffers": [{}], "items": [{}],
                               "outputs": [{}]}})",
                                       buffers, items, outputs));
  }

  Command command(Args more) const {
    Args args = {"run", "job.json"};
    args.insert(args.end(), more.begin(), more.end());
    return {.program = built_path("everkernel"), .args = args, .folder = dir.path()};
  }

  // Runs a command whose standard output is a pipe that nobody reads.
  static Outcome run_into_closed_pipe(Command command) {
    int ends[2];
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    ::close(ends[0]);
    command.stdout_descriptor = ends[1];
    Process process(command);
    ::close(ends[1]);
    return process.finish();
  }

  std::vector<std::string> names_in(const char* folder) const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(dir.path() / folder)) {
      names.push_back(entry.path().filename());
    }
    std::ranges::sort(names);
    return names;
  }
};

TEST_F(Delivery, a_closed_pipe_leaves_the_files_and_the_report_beside_them) {
  const Outcome outcome = run_into_closed_pipe(command({"--outputs", "out", "--json"}));
  EXPECT_EQ(outcome.status, 4);
  EXPECT_EQ(outcome.err,
            "error: cannot write to standard output: Broken pipe\n"
            "hint: the items have run: the files are in 'out', the report is in "
            "'out/report.json'\n");
  EXPECT_EQ(names_in("out"), (std::vector<std::string>{"buffer-1.bin", "buffer-2.bin",
                                                       "buffer-3.bin", "report.json"}));
  EXPECT_EQ(out_words(2), std::vector<Word>{1});
  const Json report = Json::parse(read_text(dir.path() / "out/report.json"), nullptr, false);
  EXPECT_EQ(report["items_processed"], 3);
}

TEST_F(Delivery, the_report_replaces_no_file_that_was_there) {
  std::filesystem::create_directory(dir.path() / "out");
  write_text("out/report.json", "mine");
  std::filesystem::create_symlink("nowhere", dir.path() / "out/report-2.json");
  const Outcome outcome = run_into_closed_pipe(command({"--outputs", "out", "--json"}));
  EXPECT_EQ(outcome.status, 4);
  EXPECT_NE(outcome.err.find("the report is in 'out/report-3.json'"), std::string::npos)
      << outcome.err;
  EXPECT_EQ(read_text(dir.path() / "out/report.json"), "mine");
  EXPECT_TRUE(std::filesystem::exists(dir.path() / "out/report-3.json"));
}

TEST_F(Delivery, a_closed_pipe_leaves_no_temporary_file_of_many) {
  write_job(500, 1);
  EXPECT_EQ(run_into_closed_pipe(command({"--outputs", "out"})).status, 4);
  const auto names = names_in("out");
  EXPECT_EQ(names.size(), 501u);
  for (const std::string& name : names) EXPECT_FALSE(name.starts_with(".")) << name;
}

TEST_F(Delivery, without_a_folder_the_report_goes_to_standard_error) {
  const Outcome outcome = run_into_closed_pipe(command({}));
  EXPECT_EQ(outcome.status, 4);
  EXPECT_TRUE(
      outcome.err.starts_with("error: cannot write to standard output: Broken pipe\n"
                              "hint: the items have run: no files were asked for, the "
                              "report is below\n"
                              "run  job.json: 3 items done"))
      << outcome.err;
}

TEST_F(Delivery, a_full_device_as_standard_output_is_status_4_and_the_files_are_there) {
  Command full = command({"--outputs", "out"});
  full.stdout_path = "/dev/full";
  const Outcome outcome = run(full);
  EXPECT_EQ(outcome.status, 4);
  EXPECT_NE(outcome.err.find("'out/report.txt'"), std::string::npos) << outcome.err;
  EXPECT_EQ(out_words(3), std::vector<Word>{1});
}

TEST_F(Delivery, a_dispatch_into_a_closed_pipe_leaves_its_files) {
  dir.write("ring.bin", ring_of({{.status = 1, .opcode = 0}}));
  dir.write("control.bin", control_of({}));
  const Outcome outcome = run_into_closed_pipe(
      {.program = built_path("everkernel"),
       .args = {"dispatch", "--control", "control.bin", "--ring", "ring.bin", "--out", "out"},
       .folder = dir.path()});
  EXPECT_EQ(outcome.status, 4);
  EXPECT_EQ(names_in("out"), (std::vector<std::string>{"control.bin", "debug_log.bin", "hits.bin",
                                                       "io_queue.bin", "report.txt", "ring.bin"}));
}

// A file may have 200 KiB, an output has 320. The limit for the size of a file stands for a disk
// without room: write() fails in the middle.
TEST_F(Delivery, a_disk_without_room_changes_no_file_and_the_report_is_printed) {
  write_job(3, 80'000);
  std::filesystem::create_directory(dir.path() / "out");
  dir.write("out/buffer-1.bin", bytes_of({7}));
  const Outcome outcome = run({.program = "/bin/sh",
                               .args = {"-c", "ulimit -f 400; exec '" + built_path("everkernel") +
                                                  "' run job.json --outputs out"},
                               .folder = dir.path()});
  EXPECT_EQ(outcome.status, 4);
  EXPECT_EQ(outcome.err,
            "error: cannot write 'out/buffer-1.bin': File too large\n"
            "hint: the items have run: the report is on standard output, no file in 'out' was "
            "changed\n");
  EXPECT_TRUE(outcome.out.starts_with("run  job.json: 3 items done")) << outcome.out;
  EXPECT_EQ(names_in("out"), std::vector<std::string>{"buffer-1.bin"});
  EXPECT_EQ(dir.read("out/buffer-1.bin"), bytes_of({7}));
}

// A file system of 256 KiB, in a mount namespace that ends with the shell: the first output fits,
// the second does not.
TEST_F(Delivery, a_full_file_system_changes_no_file_and_keeps_no_temporary_one) {
  write_job(3, 40'000);
  std::filesystem::create_directory(dir.path() / "out");
  const auto in_namespace = [&](const std::string& text) {
    return run({.program = "/bin/sh",
                .args = {"-c", "unshare -m sh -c \"mount -t tmpfs -o size=256k none out && " +
                                   text + "\""},
                .folder = dir.path()});
  };
  if (in_namespace("true").status != 0) GTEST_SKIP() << "no file system can be mounted here";
  const Outcome outcome = in_namespace("echo old > out/buffer-1.bin; '" + built_path("everkernel") +
                                       "' run job.json --outputs out > report.txt; echo \\$?; "
                                       "ls -A out; cat out/buffer-1.bin");
  EXPECT_NE(outcome.err.find("cannot write 'out/buffer-2.bin': No space left on device"),
            std::string::npos)
      << outcome.err;
  EXPECT_EQ(outcome.out, "4\nbuffer-1.bin\nold\n");
}

}  // namespace
}  // namespace everkernel::test
