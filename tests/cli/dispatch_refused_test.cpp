// Dispatches that fail: exit status and error, and no file is written.
#include <sys/stat.h>

#include "dispatch_fixture.hpp"
#include "support/build_paths.hpp"

namespace everkernel::test {
namespace {

class DispatchRefused : public DispatchProgram {
 protected:
  void SetUp() override {
    dir.write("control.bin", control_of({}, 1));
    dir.write("ring.bin", ring_of({add_to(160, 1), {}, {}, {}}));
    dir.write("x.bin", bytes_of({1, 2, 3}));
    dir.write("odd.bin", Bytes(7));
    write_text("ops.ek", "handler h = 64 { output[0] = 1; }\n");
    write_text("bad.ek", "handler h = 64 {\n  output[0] = 1.5;\n}\n");
  }
};

struct RefusedCase {
  const char* name;
  Args args;
  const char* part;
};

class RefusedDispatch : public DispatchRefused,
                        public ::testing::WithParamInterface<RefusedCase> {};

TEST_P(RefusedDispatch, leaves_nothing) {
  const auto before = dir.names();
  expect_dispatch_refused(GetParam().args, GetParam().part);
  EXPECT_EQ(dir.names(), before);
}

INSTANTIATE_TEST_SUITE_P(
    Usage, RefusedDispatch,
    ::testing::Values(
        RefusedCase{"file", {"--file", "9=x.bin:r"}, "--file: this version has no IO service"},
        RefusedCase{"jit_alone", {"--jit"}, "--jit needs --handlers"},
        RefusedCase{
            "no_payload", {"--jit", "--handlers", "ops.ek"}, "--jit: 'ops.ek' has no payload"},
        RefusedCase{"schedule", {"--schedule", "random"}, "--schedule: 'random' is not a choice"},
        RefusedCase{"schedule_twice",
                    {"--schedule", "direct", "--schedule", "ticket"},
                    "--schedule was given 2 times"},
        RefusedCase{"backend", {"--backend", "vulkan"}, "--backend: 'vulkan' is not a choice"},
        RefusedCase{"workgroup_3", {"--workgroup-size", "3"}, "3"},
        RefusedCase{"workgroup_0", {"--workgroup-size", "0"}, "0"},
        RefusedCase{"workgroup_8", {"--workgroup-size", "8"}, "8"},
        RefusedCase{"workers", {"--workers", "100000"}, "100000"},
        RefusedCase{"second_ring", {"--ring", "ring.bin"}, "--ring was given 2 times"},
        RefusedCase{"word", {"now"}, "does not take 'now'"}),
    [](const auto& test) { return test.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Deadline, RefusedDispatch,
    ::testing::Values(
        RefusedCase{"empty", {"--deadline", ""}, "--deadline: '' is not a time"},
        RefusedCase{"none", {"--deadline", "0s"}, "timeout is 0 ns, it must be positive"},
        RefusedCase{"no_unit", {"--deadline", "5"}, "--deadline: '5' is not a time"},
        RefusedCase{"no_number", {"--deadline", "s"}, "--deadline: 's' is not a time"},
        RefusedCase{"days", {"--deadline", "1d"}, "--deadline: '1d' is not a time"},
        RefusedCase{"minus", {"--deadline", "-1s"}, "--deadline: '-1s' is not a time"},
        RefusedCase{"plus", {"--deadline", "+1s"}, "--deadline: '+1s' is not a time"},
        RefusedCase{"space", {"--deadline", "1 s"}, "--deadline: '1 s' is not a time"},
        RefusedCase{"endless", {"--deadline", "infs"}, "--deadline: 'infs' is not a time"},
        RefusedCase{"no_digits", {"--deadline", ".5s"}, "--deadline: '.5s' is not a time"},
        RefusedCase{"exponent", {"--deadline", "1e3s"}, "--deadline: '1e3s' is not a time"},
        RefusedCase{"huge", {"--deadline", "99999999999999999999m"}, "is too long"},
        RefusedCase{"long", {"--deadline", "525601m"}, "is too long"}),
    [](const auto& test) { return test.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Buffer, RefusedDispatch,
    ::testing::Values(
        RefusedCase{"no_file", {"--buffer", "1"}, "--buffer: '1' names no file"},
        RefusedCase{"empty", {"--buffer", ""}, "--buffer: '' names no file"},
        RefusedCase{"only_access", {"--buffer", "1=:r"}, "--buffer: '1=:r' names no file"},
        RefusedCase{"no_handle", {"--buffer", "=x.bin"}, "--buffer: '' is not a number"},
        RefusedCase{"handle", {"--buffer", "x=x.bin"}, "--buffer: 'x' is not a number"},
        RefusedCase{"handle_0", {"--buffer", "0=x.bin"}, "--buffer: 0 is not a handle"},
        RefusedCase{"high_handle",
                    {"--buffer", "2147483648=x.bin"},
                    "--buffer: 2147483648 is not a handle"},
        RefusedCase{"missing", {"--buffer", "1=none.bin"}, "cannot read 'none.bin'"},
        RefusedCase{"access", {"--buffer", "1=x.bin:x"}, "cannot read 'x.bin:x'"},
        RefusedCase{"odd", {"--buffer", "1=odd.bin"}, "'odd.bin': 7 bytes are not whole words"},
        RefusedCase{"twice", {"--buffer", "1=x.bin", "--buffer", "1=x.bin:r"}, "handle 1"}),
    [](const auto& test) { return test.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Handlers, RefusedDispatch,
    ::testing::Values(RefusedCase{"missing", {"--handlers", "none.ek"}, "cannot read 'none.ek'"},
                      RefusedCase{"mistake",
                                  {"--handlers", "bad.ek"},
                                  "bad.ek:2:15: a buffer word is u32, not f32"}),
    [](const auto& test) { return test.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Input, RefusedDispatch,
    ::testing::Values(
        RefusedCase{"log_missing", {"--debug-log", "none.bin"}, "cannot read 'none.bin'"},
        RefusedCase{"log_odd", {"--debug-log", "odd.bin"}, "odd.bin: debug_log"},
        RefusedCase{"queue_odd", {"--io-queue", "odd.bin"}, "odd.bin: io_queue"}),
    [](const auto& test) { return test.param.name; });

TEST_F(DispatchRefused, without_its_files_says_what_is_needed) {
  expect_refused(everkernel({"dispatch", "--ring", "ring.bin", "--out", "out"}), "--control");
  expect_refused(everkernel({"dispatch", "--control", "control.bin", "--out", "out"}), "--ring");
  expect_refused(everkernel({"dispatch", "--control", "control.bin", "--ring", "ring.bin"}),
                 "--out");
}

TEST_F(DispatchRefused, a_control_buffer_that_is_too_short_is_named) {
  dir.write("control.bin", Bytes(636));
  expect_dispatch_refused({}, "control.bin: control: word 159");
}

TEST_F(DispatchRefused, a_ring_that_is_not_whole_slots_is_named) {
  dir.write("ring.bin", Bytes(65));
  expect_dispatch_refused({}, "ring.bin: ring: 65 bytes");
}

TEST_F(DispatchRefused, a_ring_without_slots_is_named) {
  dir.write("ring.bin", {});
  expect_dispatch_refused({}, "ring.bin: the ring has no slots");
}

TEST_F(DispatchRefused, priority_offsets_that_do_not_rise_to_the_slot_count_are_refused) {
  dir.write("control.bin", control_of({{130, 9}}, 1));
  expect_dispatch_refused({"--schedule", "priority"}, "priority");
  EXPECT_EQ(dispatch({"--schedule", "direct"}).status, 0);
}

TEST_F(DispatchRefused, cuda_is_status_3_with_the_reason) {
  const Outcome outcome = dispatch({"--backend", "cuda"});
  EXPECT_EQ(outcome.status, 3);
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(outcome.err, std::string("error: --backend cuda: ") + kNoDriverReason +
                             "\nhint: use --backend cpu, which runs on every machine\n");
  EXPECT_FALSE(std::filesystem::exists(dir.path() / "out"));
}

TEST_F(DispatchRefused, an_unknown_access_hints_at_the_known_ones) {
  EXPECT_NE(dispatch({"--buffer", "1=x.bin:x"})
                .err.find("hint: only :r, :w and :rw may follow the file name"),
            std::string::npos);
}

struct FolderCase {
  const char* name;
  const char* out;
  const char* part;
};

class OutputFolder : public DispatchRefused, public ::testing::WithParamInterface<FolderCase> {};

TEST_P(OutputFolder, that_cannot_be_written_is_named_and_stays) {
  std::filesystem::create_directories(dir.path() / "folder/ring.bin");
  const auto before = dir.names();
  expect_refused(everkernel({"dispatch", "--control", "control.bin", "--ring", "ring.bin", "--out",
                             GetParam().out}),
                 GetParam().part);
  EXPECT_EQ(dir.names(), before);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir.path() / "folder"), {}), 1);
}

INSTANTIATE_TEST_SUITE_P(
    Every, OutputFolder,
    ::testing::Values(FolderCase{"a_file", "x.bin", "'x.bin': Not a directory"},
                      FolderCase{"in_a_file", "x.bin/out", "'x.bin/out': Not a directory"},
                      FolderCase{"empty", "", "--out: the path is empty"},
                      FolderCase{"taken_name", "folder", "'folder/ring.bin': Is a directory"}),
    [](const auto& test) { return test.param.name; });

TEST_F(DispatchRefused, a_device_in_the_folder_is_not_written) {
  std::filesystem::create_directory(dir.path() / "out");
  std::filesystem::create_symlink("/dev/null", dir.path() / "out/ring.bin");
  expect_refused(dispatch(), "'out/ring.bin': it is not a regular file");
  EXPECT_EQ(out_names(), (std::vector<std::string>{"ring.bin"}));
}

}  // namespace
}  // namespace everkernel::test
