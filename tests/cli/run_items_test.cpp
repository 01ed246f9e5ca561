// Items of a job: handlers by name, args, files of records of any length; jobs on standard input.
#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include "run_fixture.hpp"
#include "support/build_paths.hpp"

namespace everkernel::test {
namespace {

using Words = std::vector<Word>;

constexpr std::string_view kHead =
    R"({"handlers": "ops.ek", "buffers": [{"handle": 1, "u32": [5]}, {"handle": 2, "zeros": 1},
        {"handle": 3, "u32": [9], "access": "r"}], "outputs": [2], )";

class Items : public RunProgram {
 protected:
  void SetUp() override {
    write_text("ops.ek",
               "handler add = 64 { output[0] = output[0] * 10 + input[0] + param; }\n"
               "handler set = 65 { buffer(args[2])[0] = args[0] + args[1]; }\n"
               "handler fail_here = 66 { fault 1; }\n");
  }
  // The first word of buffer 2 after a job with these items.
  Word result(std::string_view rest, int status = 0) const {
    return words_in(run_json(status, fmt::format("{}{}}}", kHead, rest)), 2).at(0);
  }
};

TEST_F(Items, name_their_handler) {
  EXPECT_EQ(result(R"("items": [{"op": "add", "input": 1, "output": 2},
                                {"op": 64, "input": 1, "output": 2, "param": 1},
                                {"output": 2, "op": "add", "input": 3},
                                {"op": "add", "input": 3, "output": 2}, {"op": 0}])"),
            5699u);
}

TEST_F(Items, may_name_handlers_before_the_file_of_handlers) {
  const Json report = run_json(0, R"({"items": [{"op": "add", "input": 1, "output": 1}],
      "buffers": [{"handle": 1, "u32": [5]}], "outputs": [1], "handlers": "ops.ek"})");
  EXPECT_EQ(words_in(report, 1), Words{55});
}

TEST_F(Items, reports_show_the_handler_of_a_name) {
  const Json report =
      run_json(1, fmt::format("{}{}}}", kHead, R"("items": [{"op": "fail_here"}])"));
  EXPECT_EQ(report["faults"][0]["opcode"], 66);
  EXPECT_EQ(report["faults"][0]["handler"], "fail_here");
}

TEST_F(Items, have_args_instead_of_input_output_and_param) {
  EXPECT_EQ(result(R"("items": [{"op": "add", "args": [1, 2, 7]},
                                {"op": "add", "args": [3, 2], "tenant": 0, "priority": 1}])"),
            129u);
  // Args that the handler does not use as buffers are any numbers.
  EXPECT_EQ(result(R"("items": [{"op": "set", "args": [4000000000, 99, 2]}])"), 4000000099u);
  EXPECT_EQ(result(R"("items": [{"op": 0, "args": []}, {"op": "add", "args": [1, 2]}])"), 5u);
}

TEST_F(Items, args_of_zeros_at_the_end_are_as_good_as_none) {
  EXPECT_EQ(result(R"("items": [{"op": "add", "args": [1, 2, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0]}])"),
            12u);
}

// A file of records: EKITEMS2, the words of a record and 0; then the records.
Bytes records(Word words, Words rest) {
  Words all = {0x54494B45u, 0x32534D45u, words, 0};
  all.insert(all.end(), rest.begin(), rest.end());
  return bytes_of(all);
}

TEST_F(Items, come_from_records_of_any_length) {
  dir.write("ops.bin", records(1, {0, 0, 0}));
  EXPECT_EQ(result(R"("items_file": "ops.bin")"), 0u);
  dir.write("three.bin", records(3, {64, 1, 2, 64, 3, 2}));
  EXPECT_EQ(result(R"("items_file": "three.bin")"), 59u);
  dir.write("four.bin", records(4, {64, 1, 2, 7, 64, 3, 2, 0}));
  EXPECT_EQ(result(R"("items_file": "four.bin")"), 129u);
  dir.write("all.bin", records(13, {64, 1, 2, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(result(R"("items": [{"op": "add", "input": 3, "output": 2}], "items_file": "all.bin")"),
            102u);
  dir.write("none.bin", records(13, {}));
  EXPECT_EQ(result(R"("items_file": "none.bin")"), 0u);
}

// --- standard input ------------------------------------------------------------------------------

constexpr const char* kJob =
    R"({"handlers": "ops.ek", "buffers": [{"handle": 1, "u32": [5]}],
        "items": [{"op": "add", "input": 1, "output": 1}], "outputs": [1]})";

TEST_F(Items, a_job_comes_from_a_pipe_or_a_file_on_standard_input) {
  std::filesystem::create_directories(dir.path() / "jobs");
  write_text("jobs/job.json", kJob);
  const std::string program = built_path("everkernel");
  for (const char* form :
       {"cat jobs/job.json | '{}' run - --json", "'{}' run - --json < jobs/job.json",
        "(head -c 20 jobs/job.json; sleep 0.1; tail -c +21 jobs/job.json) | "
        "'{}' run - --json"}) {
    const Json report = object_of(0, run({.program = "/bin/sh",
                                          .args = {"-c", fmt::format(fmt::runtime(form), program)},
                                          .folder = dir.path()}));
    EXPECT_EQ(words_in(report, 1), Words{55}) << "paths are relative to the working directory";
    EXPECT_EQ(report["job"], "standard input");
  }
}

TEST_F(Items, errors_name_standard_input) {
  const auto shell = [&](const std::string& line) {
    return run({.program = "/bin/sh",
                .args = {"-c", fmt::format(fmt::runtime(line), built_path("everkernel"))},
                .folder = dir.path()});
  };
  expect_refused(shell(R"(echo '{{"items": [7]}}' | '{}' run -)"),
                 "error: standard input: items[0]: 7 is not an object");
  expect_refused(shell("'{}' run - < /dev/zero"), "cannot read 'standard input': it is a device");
  expect_refused(shell("'{}' run - <&-"), "cannot read 'standard input'");
}

TEST_F(Items, a_job_comes_from_a_socket_on_standard_input) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  const std::string_view job = kJob;
  ASSERT_EQ(::write(ends[0], job.data(), job.size()), static_cast<ssize_t>(job.size()));
  ::close(ends[0]);
  const Outcome outcome =
      run({.program = "/bin/bash",  // takes descriptors of three digits
           .args = {"-c", fmt::format("exec '{}' run - --json <&{}", built_path("everkernel"),
                                      kFirstInherited)},
           .folder = dir.path(),
           .inherited = {ends[1]}});
  ::close(ends[1]);
  EXPECT_EQ(words_in(object_of(0, outcome), 1), Words{55});
}

}  // namespace
}  // namespace everkernel::test
