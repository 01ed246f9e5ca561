// `everkernel bench` with scripts in place of benchmarks: only the command itself is tested.
#include "program.hpp"
#include "support/build_paths.hpp"

namespace everkernel::test {
namespace {

class Bench : public Program {
 protected:
  // The program looks for benchmarks in its own folder, so it is copied to a fresh one.
  void SetUp() override {
    std::filesystem::create_directory(dir.path() / "bin");
    std::filesystem::copy_file(built_path("everkernel"), dir.path() / "bin/everkernel");
  }
  void add_script(const std::string& name, const std::string& text) const {
    const auto path = dir.path() / "bin" / name;
    std::ofstream(path) << "#!/bin/sh\n" << text;
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  }
  // Prints its options and writes a result as a benchmark does.
  void add_benchmark(const std::string& name) const {
    add_script(name + "_bench",
               "echo " + name +
                   " \"$@\" | sed 's/=.*json/=FILE/'\n"
                   "for arg; do case $arg in --json=*) file=${arg#--json=};; esac; done\n"
                   "echo '{\"suite\":\"" +
                   name +
                   "\",\"commit\":\"abc\",\"cpu\":\"EPYC\",\"threads\":2,"
                   "\"results\":[{\"question\":\"q\",\"median_ns\":1.5}]}' > \"$file\"\n");
  }
  Outcome bench(Args args) const {
    args.insert(args.begin(), "bench");
    return run({.program = (dir.path() / "bin/everkernel").string(),
                .args = std::move(args),
                .folder = dir.path()});
  }
};

TEST_F(Bench, lists_the_programs_beside_it) {
  add_benchmark("session");
  add_benchmark("protocol");
  add_script("other", "");
  dir.write("bin/notes_bench", {});  // not a program
  EXPECT_EQ(bench({"--list"}).out, "protocol\nsession\n");
  EXPECT_EQ(bench({"--list", "--json"}).out, "{\"benchmarks\":[\"protocol\",\"session\"]}\n");
}

TEST_F(Bench, runs_all_of_them_and_passes_on_what_they_say) {
  add_benchmark("session");
  add_benchmark("protocol");
  const Outcome outcome = bench({"--smoke"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.out,
            "# protocol\nprotocol --json=FILE --smoke\n"
            "# session\nsession --json=FILE --smoke\n");
  EXPECT_EQ(dir.names(), (std::vector<std::string>{"bin"}));
}

TEST_F(Bench, runs_those_that_are_named_with_or_without_their_ending) {
  for (const char* name : {"handlers", "protocol", "session"}) add_benchmark(name);
  EXPECT_EQ(bench({"session_bench", "handlers"}).out,
            "# session\nsession --json=FILE\n# handlers\nhandlers --json=FILE\n");
}

TEST_F(Bench, json_says_machine_and_commit_once) {
  add_benchmark("session");
  add_benchmark("protocol");
  const Outcome outcome = bench({"--json"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  EXPECT_EQ(Json::parse(outcome.out, nullptr, false), Json::parse(R"({
    "machine": {"cpu": "EPYC", "threads": 2}, "commit": "abc", "benchmarks": {
      "protocol": {"suite": "protocol", "results": [{"question": "q", "median_ns": 1.5}]},
      "session": {"suite": "session", "results": [{"question": "q", "median_ns": 1.5}]}}})"));
}

TEST_F(Bench, without_benchmarks_is_status_3) {
  const Outcome outcome = bench({});
  EXPECT_EQ(outcome.status, 3);
  EXPECT_EQ(outcome.out, "");
  EXPECT_TRUE(outcome.err.starts_with("error: there are no benchmarks in '")) << outcome.err;
  EXPECT_EQ(bench({"--list"}).status, 3);
}

TEST_F(Bench, an_unknown_name_hints_at_those_there_are) {
  add_benchmark("session");
  const Outcome outcome = bench({"frob"});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_EQ(outcome.err,
            "error: there is no benchmark 'frob'\n"
            "hint: benchmarks: session\n");
}

TEST_F(Bench, a_benchmark_that_fails_is_status_3) {
  add_script("broken_bench", "exit 7\n");
  const Outcome outcome = bench({"--json"});
  EXPECT_EQ(outcome.status, 3);
  EXPECT_EQ(outcome.out, "");
  EXPECT_NE(outcome.err.find("broken_bench' failed: exit status 7\n"), std::string::npos)
      << outcome.err;
}

TEST_F(Bench, a_benchmark_that_writes_no_json_is_status_3) {
  add_script("mute_bench", "for arg; do echo '[1' > \"${arg#--json=}\"; done\n");
  const Outcome outcome = bench({"--json"});
  EXPECT_EQ(outcome.status, 3);
  EXPECT_NE(outcome.err.find("mute_bench' wrote no JSON object\n"), std::string::npos)
      << outcome.err;
}

}  // namespace
}  // namespace everkernel::test
