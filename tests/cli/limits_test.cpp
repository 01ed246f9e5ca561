// Inputs that would fill the memory or make the program wait for ever: refused at once, with what
// is needed, what is available and the option that changes it.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <memory>

#include "run_fixture.hpp"

namespace everkernel::test {
namespace {

namespace fs = std::filesystem;

// A control group with 512 MiB of memory, of version 1 or 2; its processes end in the test.
class MemoryGroup {
 public:
  MemoryGroup() {
    for (const bool is_first : {true, false}) {
      path_ = fs::path(is_first ? "/sys/fs/cgroup/memory" : "/sys/fs/cgroup") /
              fmt::format("everkernel-test-{}", ::getpid());
      std::error_code error;
      if (!fs::create_directory(path_, error)) continue;
      limit_file_ = is_first ? "memory.limit_in_bytes" : "memory.max";
      std::ofstream(path_ / limit_file_) << (512 << 20) << std::flush;
      std::ifstream limit(path_ / limit_file_);
      std::uint64_t bytes = 0;
      if (limit >> bytes && bytes == 512u << 20) return;
      ::rmdir(path_.c_str());
    }
    path_.clear();
  }
  MemoryGroup(const MemoryGroup&) = delete;
  MemoryGroup& operator=(const MemoryGroup&) = delete;
  ~MemoryGroup() {
    // The kernel needs a moment to notice that the last process has gone.
    for (int i = 0; !path_.empty() && ::rmdir(path_.c_str()) != 0 && i < 100; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
  bool is_made() const { return !path_.empty(); }
  fs::path path() const { return path_; }
  const std::string& limit_file() const { return limit_file_; }

 private:
  fs::path path_;
  std::string limit_file_;
};

class Limits : public RunProgram {
 protected:
  void SetUp() override {
    write_text("ops.ek", "handler inc = 65 { output[0] = output[0] + 1; }\n");
    dir.write("ring.bin", ring_of({{.status = 1, .opcode = 0}}));
    dir.write("control.bin", control_of({}));
  }
  void write_job(std::string_view buffer, std::string_view more = "") const {
    write_text("job.json", fmt::format(R"({{"handlers": "ops.ek", "buffers": [{{"handle": 1, {}}}],
                                           "items": [{{"op": 65, "output": 1}}]{}}})",
                                       buffer, more));
  }
  // A file of that length that takes no room on the disk.
  void write_sparse(const char* name, std::uint64_t bytes) const {
    dir.write(name, {});
    fs::resize_file(dir.path() / name, bytes);
  }
};

class InGroup : public Limits {
 protected:
  void SetUp() override {
    Limits::SetUp();
    group_ = std::make_unique<MemoryGroup>();
    if (!group_->is_made()) GTEST_SKIP() << "no control group can be made here";
  }
  Outcome in_group(const std::string& args) const {
    return run({.program = "/bin/sh",
                .args = {"-c", fmt::format("echo $$ > '{}' && exec '{}' {}",
                                           (group_->path() / "cgroup.procs").native(),
                                           built_path("everkernel"), args)},
                .folder = dir.path()});
  }
  // Refused because of the limit of the group, with the option in the hint.
  void expect_too_much(const std::string& args) const {
    const Outcome outcome = in_group(args);
    EXPECT_EQ(outcome.status, 2) << outcome.err;
    EXPECT_NE(outcome.err.find(group_->limit_file()), std::string::npos) << outcome.err;
    EXPECT_NE(outcome.err.find("--memory-limit"), std::string::npos) << outcome.err;
  }
  std::unique_ptr<MemoryGroup> group_;
};

TEST_F(InGroup, zeros_beyond_the_memory_of_the_container_are_refused) {
  write_job(R"("zeros": 600000000)");
  expect_too_much("run job.json --outputs out");
  EXPECT_FALSE(has_out());
}

TEST_F(InGroup, a_buffer_file_beyond_the_memory_of_the_container_is_refused) {
  write_sparse("data.bin", std::uint64_t{2} << 30);
  write_job(R"("file": "data.bin")");
  expect_too_much("run job.json");
}

TEST_F(InGroup, items_beyond_the_memory_of_the_container_are_refused) {
  write_sparse("items.bin", std::uint64_t{2} << 30);
  write_job(R"("zeros": 1)", R"(, "items_file": "items.bin")");
  expect_too_much("run job.json");
}

TEST_F(InGroup, hits_beyond_the_memory_of_the_container_are_refused) {
  write_job(R"("zeros": 1)");
  expect_too_much("run job.json --hit-capacity 100000000");
  expect_too_much("run job.json --hit-capacity 20000000");  // 320 MB, kept twice in the end
  expect_too_much(
      "dispatch --control control.bin --ring ring.bin --out out --hit-capacity 100000000");
  EXPECT_FALSE(has_out());
}

TEST_F(InGroup, buffer_files_beyond_the_memory_of_the_container_are_refused) {
  write_sparse("big.bin", std::uint64_t{2} << 30);
  expect_too_much("inspect --ring big.bin");
  expect_too_much("publish --ring big.bin --slot 0 --tenant 0 --opcode 1");
  expect_too_much("dispatch --control control.bin --ring big.bin --out out");
  expect_too_much("dispatch --control control.bin --ring ring.bin --buffer 1=big.bin --out out");
  EXPECT_FALSE(has_out());
}

TEST_F(InGroup, a_job_that_fits_runs) {
  write_job(R"("zeros": 10000000)");
  EXPECT_EQ(in_group("run job.json").status, 0);
}

TEST_F(Limits, the_option_limits_the_memory) {
  write_job(R"("zeros": 32000000)");
  const Outcome outcome = run_job(read_text(dir.path() / "job.json"), {"--memory-limit", "100MiB"});
  expect_refused(outcome, "buffers[0].zeros: with this one the buffers take 128,000,000 bytes");
  EXPECT_NE(outcome.err.find("the given limit of 104857600 bytes"), std::string::npos)
      << outcome.err;
  expect_refused(everkernel({"inspect", "--ring", "ring.bin", "--memory-limit", "0"}),
                 "nothing fits in 0 bytes");
}

TEST_F(Limits, handlers_have_a_limit_that_an_option_raises) {
  write_text("long.ek", "handler inc = 65 { output[0] = 1; }\n" +
                            std::string((std::size_t{64} << 20) - 35, ' '));
  const Outcome outcome = everkernel({"check", "long.ek"});
  expect_refused(outcome, "'long.ek': it is longer than 67,108,864 bytes");
  EXPECT_NE(outcome.err.find("--handlers-limit"), std::string::npos);
  const Outcome taken = everkernel({"check", "long.ek", "--handlers-limit", "65MiB"});
  EXPECT_EQ(taken.status, 0) << taken.err;
}

TEST_F(Limits, a_job_text_without_end_is_refused) {
  const std::string endless = "head -c 1000 job.json; yes | tr -d '\\n'";
  write_text("job.json", R"({"handlers": ")");
  const Outcome outcome =
      run({.program = "/bin/sh",
           .args = {"-c", fmt::format("({}) | '{}' run /dev/stdin --memory-limit 300MiB", endless,
                                      built_path("everkernel"))},
           .folder = dir.path()});
  expect_refused(outcome, "more than 1,048,576 bytes hold no value");
}

TEST_F(Limits, base64_without_end_is_refused) {
  const Outcome outcome =
      run({.program = "/bin/sh",
           .args = {"-c", fmt::format("(printf '{{\"buffers\": [{{\"base64\": \"'; "
                                      "yes AAAA | tr -d '\\n') | '{}' run - --memory-limit 100MiB",
                                      built_path("everkernel"))},
           .folder = dir.path()});
  expect_refused(outcome, "error: standard input: the text in base64: needs");
  EXPECT_NE(outcome.err.find("--memory-limit"), std::string::npos) << outcome.err;
}

// Each list of a job may fill the memory.
TEST_F(Limits, lists_of_a_job_without_end_are_refused) {
  const std::vector<std::pair<const char*, const char*>> lists = {
      {"outputs", "1,"},
      {"outputs", R"({\"handle\": 1, \"file\": \"abc\"},)"},
      {"items", R"({\"op\": \"x\", \"args\": [1,2,3,4,5,6,7,8,9,10,11,12]},)"},
      {"buffers", R"({\"handle\": 1, \"slice_of\": 1, \"length\": 1, \"count\": 7},)"},
      {"buffers", R"({\"handle\": 1, \"f32\": [0.5,-1,1e9,7,8,9,10,11,12,13,14,15,16,1,1,1]},)"},
      {"items", R"({\"op\": 65, \"tenant\": 1},)"},
      {"buffers", R"({\"handle\": 1, \"u32\": [1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]},)"}};
  for (const auto& [list, entry] : lists) {
    const Outcome outcome =
        run({.program = "/bin/sh",
             .args = {"-c", fmt::format("(printf '{{\"{}\": ['; yes \"{}\") | '{}' run /dev/stdin "
                                        "--memory-limit 100MiB",
                                        list, entry, built_path("everkernel"))},
             .folder = dir.path()});
    EXPECT_EQ(outcome.status, 2) << list << ": " << outcome.err;
    EXPECT_NE(outcome.err.find("--memory-limit"), std::string::npos) << list << ": " << outcome.err;
  }
}

TEST_F(Limits, an_endless_device_is_refused) {
  write_job(R"("file": "/dev/zero")");
  const std::vector<Args> commands = {
      {"run", "job.json"},
      {"run", "/dev/zero"},
      {"check", "/dev/zero"},
      {"inspect", "--ring", "/dev/zero"},
      {"encode", "ring", "--slots", "1", "--items", "/dev/zero", "-o", "x"}};
  for (const Args& args : commands) {
    expect_refused(everkernel(args), "cannot read '/dev/zero': it is a device");
  }
}

// Every kind of input as a pipe that nobody writes to. All programs wait at the same time.
TEST_F(Limits, a_pipe_without_a_writer_is_refused_after_seconds) {
  ASSERT_EQ(::mkfifo((dir.path() / "pipe").c_str(), 0600), 0);
  const auto write = [&](const std::string& name, const std::string& text) {
    write_text(name, text);
  };
  write("handlers.json", R"({"handlers": "pipe", "items": []})");
  write("items.json", R"({"items_file": "pipe"})");
  write("buffer.json", R"({"buffers": [{"handle": 1, "file": "pipe"}], "items": []})");
  const Args dispatch = {"dispatch", "--control", "control.bin", "--ring",
                         "ring.bin", "--out",     "out"};
  const auto with = [](Args args, const Args& more) {
    args.insert(args.end(), more.begin(), more.end());
    return args;
  };
  const std::vector<Args> commands = {
      {"run", "pipe"},
      {"run", "handlers.json"},
      {"run", "items.json"},
      {"run", "buffer.json"},
      {"check", "pipe"},
      {"inspect", "--control", "pipe"},
      {"inspect", "--debug-log", "pipe"},
      {"encode", "ring", "--slots", "1", "--items", "pipe", "-o", "x"},
      {"publish", "--ring", "ring.bin", "--slot", "0", "--tenant", "0", "--batch", "pipe"},
      with(dispatch, {"--buffer", "1=pipe"}),
      with(dispatch, {"--handlers", "pipe"}),
      with(dispatch, {"--io-queue", "pipe"})};
  std::vector<std::unique_ptr<Process>> processes;
  for (const Args& args : commands) {
    processes.push_back(std::make_unique<Process>(
        Command{.program = built_path("everkernel"), .args = args, .folder = dir.path()}));
  }
  for (std::size_t i = 0; i < commands.size(); ++i) {
    SCOPED_TRACE(commands[i][0] + " " + commands[i][1]);
    expect_refused(processes[i]->finish(), "pipe': no program writes to it");
  }
}

TEST_F(Limits, a_pipe_is_read_to_its_end_even_if_its_writer_is_slow) {
  write_job(R"("zeros": 1)");
  const Outcome outcome =
      run({.program = "/bin/bash",
           .args = {"-c", "'" + built_path("everkernel") +
                              "' inspect --json --ring <(head -c 32 ring.bin; sleep 0.2; "
                              "tail -c +33 ring.bin)"},
           .folder = dir.path()});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(Json::parse(outcome.out)["occupancy"]["total_slots"], 1);
}

TEST_F(Limits, an_output_pipe_without_a_reader_is_refused) {
  ASSERT_EQ(::mkfifo((dir.path() / "pipe").c_str(), 0600), 0);
  expect_refused(everkernel({"encode", "ring", "--slots", "1", "-o", "pipe"}),
                 "cannot write 'pipe'");
}

TEST_F(Limits, a_lock_that_another_process_holds_is_waited_for_with_a_deadline) {
  const Args publish = {"publish", "--ring",   "ring.bin", "--slot",         "0",   "--tenant",
                        "0",       "--opcode", "0",        "--lock-timeout", "50ms"};
  dir.write("ring.bin", Bytes(64));
  const int holder = ::open((dir.path() / "ring.bin").c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_EQ(::flock(holder, LOCK_EX), 0);
  expect_refused(everkernel(publish), "'ring.bin': another process held its lock for 50 ms");
  EXPECT_EQ(dir.read("ring.bin"), Bytes(64));
  ::close(holder);
  EXPECT_EQ(everkernel(publish).status, 0);
}

// The columns between two rewrites of the line.
TEST_F(Limits, the_progress_bar_fits_the_terminal) {
  if (!fs::exists("/usr/bin/script")) GTEST_SKIP() << "there is no script(1)";
  write_text("ops.ek", "handler slow = 65 { for i in 0 .. 2000000 { output[0] = i; } }\n");
  std::string items = R"({"op": 65, "output": 1})";
  for (int i = 0; i < 5000; ++i) items += R"(, {"op": 65, "output": 1})";
  write_text("job.json", fmt::format(R"({{"handlers": "ops.ek", "items": [{}],
      "buffers": [{{"handle": 1, "zeros": 1}}]}})",
                                     items));
  for (const int columns : {40, 12}) {
    const std::string command = fmt::format(
        "stty cols {}; {} run job.json --interpreter --max-wall-time 400ms > report.txt", columns,
        built_path("everkernel"));
    const Outcome outcome = run({.program = "/usr/bin/script",
                                 .args = {"-qec", command, "/dev/null"},
                                 .folder = dir.path()});
    EXPECT_NE(outcome.out.find(" %"), std::string::npos) << outcome.out;
    constexpr std::string_view kClear = "\r\x1b[K";
    for (std::size_t at = outcome.out.find(kClear); at != std::string::npos;) {
      const std::size_t begin = at + kClear.size();
      at = outcome.out.find(kClear, begin);
      EXPECT_LT(outcome.out.substr(begin, at - begin).size(), static_cast<std::size_t>(columns));
    }
  }
}

}  // namespace
}  // namespace everkernel::test
