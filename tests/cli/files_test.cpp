// Files that are missing, of the wrong kind, truncated or not writable: exit status 2, an error
// with the path, and no new file.
#include <sys/stat.h>
#include <unistd.h>

#include "program.hpp"
#include "support/build_paths.hpp"

namespace everkernel::test {
namespace {

using Files = Program;

struct InputCase {
  const char* name;
  Args args;         // FILE is the bad input
  std::size_t size;  // of a truncated input
};

class Input : public Program, public ::testing::WithParamInterface<InputCase> {
 protected:
  // Every other input of the command is valid.
  void SetUp() override {
    dir.write("ring.bin", Bytes(128));
    dir.write("control.bin", control_of({}));
  }
  Outcome with(const std::string& file) const {
    Args args = GetParam().args;
    std::ranges::replace(args, std::string("FILE"), file);
    return everkernel(args);
  }
};

TEST_P(Input, missing_is_named) {
  expect_refused(with("none.bin"), "'none.bin': No such file or directory");
}

TEST_P(Input, a_folder_is_named) {
  std::filesystem::create_directory(dir.path() / "folder");
  expect_refused(with("folder"), "'folder': Is a directory");
}

TEST_P(Input, cut_short_is_named) {
  dir.write("short.bin", Bytes(GetParam().size));
  expect_refused(with("short.bin"), "short.bin");
}

INSTANTIATE_TEST_SUITE_P(
    Every, Input,
    ::testing::Values(
        InputCase{"control", {"inspect", "--control", "FILE"}, 636},
        InputCase{"control_odd", {"inspect", "--control", "FILE"}, 641},
        InputCase{"control_empty", {"inspect", "--control", "FILE"}, 0},
        InputCase{"ring", {"inspect", "--ring", "FILE"}, 63},
        InputCase{"debug_log", {"inspect", "--debug-log", "FILE"}, 5},
        InputCase{"debug_log_empty", {"inspect", "--debug-log", "FILE"}, 0},
        InputCase{"io_queue", {"inspect", "--io-queue", "FILE"}, 31},
        InputCase{"io_queue_empty", {"inspect", "--io-queue", "FILE"}, 0},
        InputCase{"previous_control",
                  {"inspect", "--control", "control.bin", "--ring", "ring.bin",
                   "--previous-control", "FILE"},
                  4},
        InputCase{"items", {"encode", "ring", "--slots", "1", "--items", "FILE", "-o", "x"}, 15},
        InputCase{"publish_ring",
                  {"publish", "--ring", "FILE", "--slot", "0", "--tenant", "0", "--opcode", "9"},
                  65},
        InputCase{
            "batch",
            {"publish", "--ring", "ring.bin", "--slot", "0", "--tenant", "0", "--batch", "FILE"},
            1}),
    [](const auto& test) { return test.param.name; });

TEST_F(Files, a_read_that_fails_is_an_error) {
  // Address 0 of a process is not mapped, so its memory cannot be read from there.
  expect_refused(everkernel({"inspect", "--ring", "/proc/self/mem"}),
                 "cannot read '/proc/self/mem': Input/output error");
}

TEST_F(Files, a_longer_ring_is_named_with_what_is_left_over) {
  dir.write("ring.bin", Bytes(130));
  EXPECT_EQ(everkernel({"inspect", "--ring", "ring.bin"}).err,
            "error: ring.bin: ring: 130 bytes are not whole slots of 64 bytes: 2 bytes of slot 2 "
            "are there\n"
            "hint: the buffer is truncated, or the bytes are of another kind\n");
}

TEST_F(Files, an_empty_ring_has_no_slots_to_publish_into) {
  dir.write("ring.bin", {});
  EXPECT_EQ(json({"inspect", "--ring", "ring.bin"})["occupancy"]["total_slots"], 0);
  expect_refused(everkernel({"publish", "--ring", "ring.bin", "--slot", "0", "--tenant", "0",
                             "--opcode", "9"}),
                 "slot 0 does not exist");
}

TEST_F(Files, a_pipe_is_not_published_into) {
  ASSERT_EQ(::mkfifo((dir.path() / "pipe").c_str(), 0600), 0);
  expect_refused(
      everkernel({"publish", "--ring", "pipe", "--slot", "0", "--tenant", "0", "--opcode", "9"}),
      "'pipe': it is not a regular file");
}

TEST_F(Files, publish_does_not_make_a_ring) {
  EXPECT_EQ(
      everkernel({"publish", "--ring", "ring.bin", "--slot", "0", "--tenant", "0", "--opcode", "9"})
          .err,
      "error: cannot change 'ring.bin': No such file or directory\n"
      "hint: make a ring first: everkernel encode ring --slots N -o FILE\n");
  EXPECT_TRUE(dir.names().empty());
}

struct OutputCase {
  const char* name;
  const char* path;
  const char* part;
};

class Output : public Program, public ::testing::WithParamInterface<OutputCase> {};

TEST_P(Output, that_cannot_be_written_is_named) {
  std::filesystem::create_directory(dir.path() / "folder");
  dir.write("file", {});
  expect_refused(everkernel({"encode", "ring", "--slots", "1", "-o", GetParam().path}),
                 GetParam().part);
  EXPECT_EQ(dir.names(), (std::vector<std::string>{"file", "folder"}));
  EXPECT_EQ(dir.read("file"), Bytes());
  EXPECT_TRUE(std::filesystem::is_empty(dir.path() / "folder"));
}

INSTANTIATE_TEST_SUITE_P(
    Every, Output,
    ::testing::Values(OutputCase{"folder", "folder", "'folder': Is a directory"},
                      OutputCase{"in_no_folder", "none/x", "'none/x': No such file"},
                      OutputCase{"no_name", "none/", "'none/': No such file"},
                      OutputCase{"in_a_file", "file/x", "'file/x': Not a directory"},
                      OutputCase{"full_device", "/dev/full", "'/dev/full': No space left"}),
    [](const auto& test) { return test.param.name; });

TEST_F(Files, a_device_takes_the_bytes_and_stays_a_device) {
  std::filesystem::create_symlink("/dev/null", dir.path() / "null");
  const Outcome outcome = everkernel({"encode", "ring", "--slots", "1", "-o", "null"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "wrote null: ring, 1 slot, 0 items, 64 bytes\n");
  EXPECT_TRUE(std::filesystem::is_character_file(dir.path() / "null"));
}

// Runs the program as an unprivileged user: root could read and write every file.
class Permissions : public Program {
 protected:
  void SetUp() override {
    // Other users may enter the folder and create files, but not change read-only files.
    std::filesystem::permissions(dir.path(), std::filesystem::perms::all);
    if (as_nobody({"--version"}).status != 0) GTEST_SKIP() << "no other user can run the program";
  }
  Outcome as_nobody(Args args) const {
    if (::geteuid() != 0) return everkernel(std::move(args));
    args.insert(args.begin(),
                {"--reuid=65534", "--regid=65534", "--clear-groups", built_path("everkernel")});
    return run({.program = "/usr/bin/setpriv", .args = std::move(args), .folder = dir.path()});
  }
  void write_with_mode(const char* name, const Bytes& bytes, unsigned mode) const {
    dir.write(name, bytes);
    std::filesystem::permissions(dir.path() / name, std::filesystem::perms{mode});
  }
};

TEST_F(Permissions, an_unreadable_input_is_named) {
  write_with_mode("ring.bin", Bytes(64), 0);
  expect_refused(as_nobody({"inspect", "--ring", "ring.bin"}), "'ring.bin': Permission denied");
}

TEST_F(Permissions, a_read_only_ring_is_inspected_but_not_published_into) {
  write_with_mode("ring.bin", Bytes(64), 0444);
  EXPECT_EQ(as_nobody({"inspect", "--ring", "ring.bin"}).status, 0);
  expect_refused(
      as_nobody({"publish", "--ring", "ring.bin", "--slot", "0", "--tenant", "0", "--opcode", "9"}),
      "cannot change 'ring.bin': Permission denied");
  EXPECT_EQ(dir.read("ring.bin"), Bytes(64));
}

TEST_F(Permissions, a_read_only_file_is_not_replaced_although_the_folder_would_allow_it) {
  write_with_mode("ring.bin", bytes_of({1, 2, 3}), 0444);
  expect_refused(as_nobody({"encode", "ring", "--slots", "1", "-o", "ring.bin"}),
                 "cannot write 'ring.bin': Permission denied");
  EXPECT_EQ(dir.read("ring.bin"), bytes_of({1, 2, 3}));
}

TEST_F(Permissions, a_read_only_folder_takes_no_file) {
  std::filesystem::permissions(dir.path(), std::filesystem::perms{0555});
  expect_refused(as_nobody({"encode", "ring", "--slots", "1", "-o", "ring.bin"}),
                 "cannot write 'ring.bin': Permission denied");
  EXPECT_TRUE(dir.names().empty());
  std::filesystem::permissions(dir.path(), std::filesystem::perms::all);
}

// A sanitizer needs more address space than the limit of this test leaves.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && !defined(__clang__)
TEST_F(Files, too_little_memory_is_status_2_and_leaves_nothing) {
  const auto run_with = [&](int kilobytes, const std::string& args) {
    const std::string command = "ulimit -v " + std::to_string(kilobytes) + " && exec '" +
                                built_path("everkernel") + "' " + args;
    return run({.program = "/bin/sh", .args = {"-c", command}, .folder = dir.path()});
  };
  // The memory that the program needs to start depends on the libraries of this build; the ring
  // takes 64 MB.
  constexpr int kStep = 20'000;
  int enough = kStep;
  while (enough < 1'000'000 && run_with(enough, "--version").status != 0) enough += kStep;
  const Outcome outcome = run_with(enough + kStep, "encode ring --slots 1048576 -o ring.bin");
  expect_refused(outcome, "'ring.bin': needs 67108864 bytes of memory, but 0 are available");
  EXPECT_TRUE(dir.names().empty());
}
#endif

struct StreamCase {
  const char* name;
  Args args;
};

class FullOutput : public Program, public ::testing::WithParamInterface<StreamCase> {
 protected:
  // Standard output cannot be written: status 4, and no file was made or changed.
  void expect_nothing_done(Command command) {
    dir.write("ring.bin", Bytes(128));
    command.program = built_path("everkernel");
    command.args = GetParam().args;
    command.folder = dir.path();
    const Outcome outcome = run(command);
    EXPECT_EQ(outcome.status, 4);
    EXPECT_TRUE(outcome.err.starts_with("error: cannot write to standard output: ")) << outcome.err;
    EXPECT_EQ(dir.names(), (std::vector<std::string>{"ring.bin"}));
    EXPECT_EQ(dir.read("ring.bin"), Bytes(128));
  }
};

TEST_P(FullOutput, is_an_error_before_anything_is_written) {
  expect_nothing_done({.stdout_path = "/dev/full"});
}

TEST_P(FullOutput, closed_is_an_error_too) {
  expect_nothing_done({.stdout_closed = true});
}

INSTANTIATE_TEST_SUITE_P(
    Every, FullOutput,
    ::testing::Values(StreamCase{"help", {"--help"}}, StreamCase{"version", {"--version"}},
                      StreamCase{"info", {"info"}},
                      StreamCase{"inspect", {"inspect", "--ring", "ring.bin"}},
                      StreamCase{"inspect_json", {"inspect", "--ring", "ring.bin", "--json"}},
                      StreamCase{"encode", {"encode", "ring", "--slots", "1", "-o", "x.bin"}},
                      StreamCase{"publish",
                                 {"publish", "--ring", "ring.bin", "--slot", "0", "--tenant", "0",
                                  "--opcode", "9"}}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace everkernel::test
