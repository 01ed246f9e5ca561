// `everkernel run`: results, exit statuses and reports of valid jobs.
#include <fmt/format.h>

#include <algorithm>

#include "run_fixture.hpp"
#include "support/build_paths.hpp"

namespace everkernel::test {
namespace {

constexpr std::string_view kHandlers =
    "handler add = 64 pure { for i in 0 .. len(input) { output[i] = input[i] + param; } }\n"
    "handler inc = 65 { output[0] = output[0] + 1; }\n"
    "handler hit = 66 { emit(param, tenant, priority); }\n"
    "handler quit = 67 { fault param; }\n"
    "handler slow = 68 { for i in 0 .. 20000000 { output[0] = i; } }\n"
    "handler copy = 71 pure { output[0] = input[0] + 1; }\n"
    "handler move = 69 { args[0] = 1; output[0] = input[0]; }\n"
    "handler twice = 73 pure { output[0] = input[0] * 2; }\n";

constexpr std::string_view kBuffers =
    R"("handlers": "ops.ek", "buffers": [{"handle": 1, "u32": [1, 2, 3]}, {"handle": 2, "zeros": 3},
        {"handle": 3, "file": "data.bin"}, {"handle": 4, "zeros": 1}, {"handle": 5, "zeros": 1},
        {"handle": 6, "u32": [], "tenant": 28}, {"handle": 2147483647, "zeros": 0}])";

class Run : public RunProgram {
 protected:
  void SetUp() override {
    write_text("ops.ek", kHandlers);
    dir.write("data.bin", bytes_of({7, 8, 9}));
    dir.write("empty.bin", {});
    dir.write("two.bin", bytes_of({65, 0, 4, 0, 64, 4, 5, 100}));
  }
  // A job of these keys behind the usual handlers and buffers.
  static std::string job(std::string_view rest) {
    return fmt::format("{{{}, {}}}", kBuffers, rest);
  }
};

TEST_F(Run, items_run_in_order_and_outputs_are_shown_and_written) {
  const Json report = run_json(0, job(R"("items": [{"op": 64, "input": 1, "output": 2, "param": 10},
      {"op": 64, "input": 2, "output": 3, "param": 100}], "outputs": [3, 2])"));
  EXPECT_EQ(report["outputs"], Json::parse(R"([{"handle": 3, "u32": [111, 112, 113]},
                                               {"handle": 2, "u32": [11, 12, 13]}])"));
  EXPECT_EQ(report["items_processed"], 2);
  EXPECT_EQ(out_words(2), (std::vector<Word>{11, 12, 13}));
  EXPECT_EQ(out_words(3), (std::vector<Word>{111, 112, 113}));
  EXPECT_EQ(report["files"][0], Json::parse(R"({"path": "out/buffer-3.bin", "bytes": 12})"));
  EXPECT_EQ(dir.read("data.bin"), bytes_of({7, 8, 9}));
}

TEST_F(Run, a_time_limit_has_any_unit) {
  for (const char* limit : {"9000000000ns", "9000000us", "9000ms", "9s", "0.5m", "1.5h", "8760h"}) {
    run_json(0, job(R"("items": [{"op": 65, "output": 5}])"), {"--max-wall-time", limit});
  }
  expect_refused(run_job("{}", {"--max-wall-time", "8761h"}), "'8761h' is too long");
}

struct RightCase {
  const char* name;
  const char* job;  // behind the usual handlers and buffers
  int items;
  Word word;  // the first of buffer 5
};

class RightJob : public Run, public ::testing::WithParamInterface<RightCase> {};

TEST_P(RightJob, runs) {
  const Json report = run_json(0, job(std::string(GetParam().job) + R"(, "outputs": [5])"));
  EXPECT_EQ(report["items_processed"], GetParam().items);
  EXPECT_EQ(words_in(report, 5), std::vector<Word>{GetParam().word});
}

INSTANTIATE_TEST_SUITE_P(
    Every, RightJob,
    ::testing::Values(
        RightCase{"no_items", R"("items": [])", 0, 0},
        RightCase{"an_empty_file", R"("items_file": "empty.bin")", 0, 0},
        RightCase{"nop_with_everything",
                  R"("items": [{"priority": 4, "tenant": 28, "param": 4294967295, "output": 6,
                                "input": 2147483647, "op": 0}])",
                  1, 0},
        RightCase{"items_first_then_the_file",
                  R"("items": [{"op": 65, "output": 4}], "items_file": "two.bin")", 3, 102},
        RightCase{"the_file_alone", R"("items_file": "two.bin")", 2, 101},
        RightCase{"unordered", R"("ordered": false, "items": [{"op": 65, "output": 5}])", 1, 1},
        RightCase{"ordered", R"("ordered": true, "items": [{"op": 65, "output": 5},
                                                          {"op": 65, "output": 5}])",
                  2, 2},
        RightCase{"no_files", R"("files": [], "items": [])", 0, 0},
        RightCase{"a_handler_that_finds_its_input", R"("items": [{"op": 69, "output": 5}])", 1, 1},
        RightCase{"origins_that_differ",
                  R"("items": [{"op": 65, "output": 5}, {"op": 65, "output": 5, "tenant": 3},
                               {"op": 65, "output": 5, "priority": 0}], "items_file": "two.bin")",
                  5, 101}),
    [](const auto& test) { return test.param.name; });

TEST_F(Run, a_job_needs_nothing_but_items) {
  EXPECT_EQ(run_json(0, R"({"items": [{"op": 0}, {"op": 0}]})")["items_processed"], 2);
  EXPECT_EQ(run_json(0, "\xEF\xBB\xBF {\"items\"\n:[ ]\t}\n")["items_processed"], 0);
}

TEST_F(Run, many_items_of_both_kinds) {
  constexpr std::size_t kCount = 20'000;
  std::string items;
  for (std::size_t i = 0; i < kCount; ++i) {
    items += fmt::format("{}{{\"op\": 65, \"output\": {}}}", i == 0 ? "" : ",", i % 2 + 4);
  }
  std::vector<Word> words;
  for (std::size_t i = 0; i < kCount; ++i) words.insert(words.end(), {65, 0, 5, 0});
  dir.write("many.bin", bytes_of(words));
  const Json report = run_json(
      0, job("\"items\": [" + items + R"(], "items_file": "many.bin", "outputs": [4, 5])"));
  EXPECT_EQ(report["items_processed"], 2 * kCount);
  EXPECT_EQ(words_in(report, 4), std::vector<Word>{kCount / 2});
  EXPECT_EQ(words_in(report, 5), std::vector<Word>{kCount / 2 + kCount});
}

TEST_F(Run, paths_are_relative_to_the_job) {
  std::filesystem::create_directories(dir.path() / "deep/er");
  std::filesystem::rename(dir.path() / "ops.ek", dir.path() / "deep/ops.ek");
  std::filesystem::rename(dir.path() / "data.bin", dir.path() / "deep/er/data.bin");
  write_text("deep/er/job.json",
             R"({"handlers": "../ops.ek", "buffers": [{"handle": 1, "file": "data.bin"}],
                 "items": [{"op": 65, "output": 1}], "outputs": [1]})");
  const Json report = json({"run", "deep/er/job.json"});
  EXPECT_EQ(words_in(report, 1), (std::vector<Word>{8, 8, 9}));
  EXPECT_FALSE(has_out());
}

TEST_F(Run, tenant_and_priority_reach_the_handler) {
  const Json report = run_json(0, job(R"("items": [{"op": 66, "param": 5},
      {"op": 66, "param": 6, "tenant": 3, "priority": 1}])"));
  EXPECT_EQ(report["hits"], Json::parse("[[0, 5, 0, 2], [1, 6, 3, 1]]"));
}

// --- exit statuses -------------------------------------------------------------------------------

TEST_F(Run, a_fault_is_status_1_and_the_outputs_are_there) {
  const Json report = run_json(1, job(R"("items": [{"op": 67, "param": 42}, {"op": 65, "output": 4},
                                                    {"op": 67, "param": 42}], "outputs": [4])"));
  EXPECT_EQ(report["items_faulted"], 2);
  EXPECT_EQ(report["items_processed"], 1);
  EXPECT_EQ(report["faults"], Json::parse(R"([{"code": 298, "name": "user", "opcode": 67,
                                               "handler": "quit", "items": 2, "first_item": 0}])"));
  EXPECT_EQ(out_words(4), std::vector<Word>{1});
}

TEST_F(Run, what_did_not_run_in_time_remains_and_is_status_1) {
  std::string items;
  for (int i = 0; i < 2000; ++i) {
    items += (i == 0 ? "" : ",") + std::string(R"({"op": 68, "output": 4})");
  }
  const Json report =
      run_json(1, job("\"items\": [" + items + "]"), {"--max-wall-time", "50ms", "--interpreter"});
  EXPECT_GT(report["items_remaining"], 0);
  EXPECT_EQ(report["items_processed"].get<int>() + report["items_remaining"].get<int>() +
                report["items_faulted"].get<int>(),
            2000);
  EXPECT_GE(report["wall_time_ns"], 50'000'000);
  EXPECT_LT(report["wall_time_ns"], 10'000'000'000);
}

TEST_F(Run, an_output_folder_that_cannot_be_made_is_status_2_before_anything_runs) {
  write_text("file", "x");
  write_text("job.json", job(R"("items": [{"op": 65, "output": 4}], "outputs": [4])"));
  expect_refused(everkernel({"run", "job.json", "--outputs", "file"}), "file");
  expect_refused(everkernel({"run", "job.json", "--outputs", "file/below"}), "file");
}

TEST_F(Run, a_budget_in_which_nothing_fits_is_status_2_and_writes_nothing) {
  const Outcome outcome =
      run_job(job(R"("items": [{"op": 64, "input": 1, "output": 2}], "outputs": [2])"),
              {"--memory-budget", "1"});
  expect_refused(outcome, "budget");
  EXPECT_FALSE(has_out());
}

// --- options -------------------------------------------------------------------------------------

TEST_F(Run, equal_items_run_once_unless_asked) {
  const std::string twice = job(R"("items": [{"op": 64, "input": 1, "output": 2},
                                             {"op": 64, "input": 1, "output": 2}])");
  const Json once = run_json(0, twice);
  EXPECT_EQ(once["deduped_items"], 1);
  EXPECT_EQ(once["items_processed"], 2);
  EXPECT_EQ(run_json(0, twice, {"--no-dedupe"})["deduped_items"], 0);
}

TEST_F(Run, chains_are_one_region_unless_asked) {
  const std::string chain = job(R"("items": [{"op": 65, "output": 4}, {"op": 65, "output": 4}])");
  EXPECT_EQ(run_json(0, chain)["shape"]["regions"], 1);
  EXPECT_EQ(run_json(0, chain, {"--no-fuse"})["shape"]["regions"], 2);
}

TEST_F(Run, the_code_is_what_was_asked_for) {
  const std::string one = job(R"("items": [{"op": 65, "output": 4}])");
  EXPECT_EQ(run_json(0, one, {"--interpreter"})["telemetry"]["execution_mode"], "interpreter");
  const Outcome compiled = run_job(one, {"--jit", "--json"});
  if (compiled.status == 3) GTEST_SKIP() << "no native code: " << compiled.err;
  EXPECT_EQ(object_of(0, compiled)["telemetry"]["execution_mode"], "jit");
}

TEST_F(Run, workers_and_hits_are_limited) {
  const Json report =
      run_json(1, job(R"("items": [{"op": 66, "param": 1}, {"op": 66, "param": 2}])"),
               {"--workers", "1", "--hit-capacity", "1"});
  EXPECT_EQ(report["shape"]["workers"], 1);
  EXPECT_EQ(report["telemetry"]["hit_capacity"], 1);
  EXPECT_EQ(report["hits"], Json::parse("[[0, 1, 0, 2]]"));
  EXPECT_EQ(report["hits_dropped"], 1);
}

TEST_F(Run, hits_that_are_dropped_are_status_1_with_the_number_and_what_to_do) {
  const Outcome outcome =
      run_job(job(R"("items": [{"op": 66}, {"op": 66}, {"op": 66}])"), {"--hit-capacity", "1"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_NE(outcome.out.find("1 kept, 2 dropped: there was room for 1, and the first are kept\n"
                             "  to keep more, raise --hit-capacity or omit it\n"),
            std::string::npos)
      << outcome.out;
}

TEST_F(Run, keeps_300000_hits_without_being_asked) {
  write_text("many.ek", "handler many = 66 { for i in 0 .. 1000 { emit(i, param, 0); } }");
  std::string items;
  for (int i = 0; i < 300; ++i) items += fmt::format("{}{{\"op\": 66}}", i == 0 ? "" : ",");
  const Json report =
      run_json(0, fmt::format(R"({{"handlers": "many.ek", "items": [{}]}})", items));
  EXPECT_EQ(report["hits"].size(), 300'000u);
  EXPECT_EQ(report["hits"].back(), Json::parse("[299, 999, 0, 0]"));
  EXPECT_EQ(report["hits_dropped"], 0);
}

TEST_F(Run, printf_is_in_the_report) {
  write_text("say.ek", "handler say = 66 { printf(7, param, 9); }");
  const std::string text =
      R"({"handlers": "say.ek", "items": [{"op": 0}, {"op": 66, "param": 8}]})";
  const Json report = run_json(0, text);
  EXPECT_EQ(report["printf"], Json::parse("[[1, 7, 8, 9]]"));
  EXPECT_EQ(report["printf_dropped"], 0);
  EXPECT_NE(run_job(text).out.find("\nprintf\n  1 kept, 0 dropped\n"), std::string::npos);
}

TEST_F(Run, all_of_the_time_is_accounted_for) {
  std::string items;
  for (int i = 0; i < 50'000; ++i) {
    items += fmt::format("{}{{\"op\": 64, \"input\": 1, \"output\": 2}}", i == 0 ? "" : ",");
  }
  const std::string text = job(fmt::format(R"("items": [{}], "outputs": [2])", items));
  // Between the parts the program only moves on. A busy machine may stop it there for a while, but
  // not in each of several runs.
  std::uint64_t least_unknown = ~std::uint64_t{0};
  for (int i = 0; i < 5; ++i) {
    const Json report = run_json(0, text);
    std::uint64_t known = 0;
    for (const char* part :
         {"read_job_ns", "prepare_ns", "wall_time_ns", "outputs_ns", "report_ns"}) {
      known += report[part].get<std::uint64_t>();
    }
    const auto total = report["total_time_ns"].get<std::uint64_t>();
    EXPECT_LE(known, total);
    least_unknown = std::min(least_unknown, total - known);
    EXPECT_GT(report["read_job_ns"], 1'000'000) << "parsing 50,000 items takes longer";
    EXPECT_LE(report["code_wait_ns"], report["wall_time_ns"]);
  }
  EXPECT_LT(least_unknown, 5'000'000u);
}

TEST_F(Run, a_rate_below_one_is_written_as_a_person_would) {
  const Outcome nothing =
      run_job(job(R"("items": [{"op": 65, "output": 4}])"), {"--max-wall-time", "1ns"});
  EXPECT_EQ(nothing.status, 1);
  EXPECT_NE(nothing.out.find(", no item ended\n"), std::string::npos) << nothing.out;
}

TEST_F(Run, a_barrier_is_named_with_its_cost) {
  const std::string text =
      job(R"("items": [{"op": 65, "output": 4}, {"op": 69, "input": 1, "output": 2},
                       {"op": 69, "input": 1, "output": 2}, {"op": 65, "output": 5}])");
  const Json report = run_json(0, text);
  ASSERT_EQ(report["barriers"].size(), 1u);
  EXPECT_EQ(report["barriers"][0]["handler"], "move");
  EXPECT_EQ(report["barriers"][0]["opcode"], 69);
  EXPECT_EQ(report["barriers"][0]["items"], 2);
  EXPECT_GT(report["barrier_ns"], 0);
  EXPECT_LE(report["barrier_ns"], report["backend_dispatch_ns"]);
  const std::string out = run_job(text).out;
  EXPECT_NE(out.find("\nbarriers\n  2 items waited for all items before"), std::string::npos)
      << out;
  EXPECT_NE(out.find("move (69)"), std::string::npos) << out;
  const Json none = run_json(0, job(R"("items": [{"op": 65, "output": 4}])"));
  EXPECT_TRUE(none["barriers"].empty());
  EXPECT_EQ(none["barrier_ns"], 0);
}

TEST_F(Run, a_budget_is_reported) {
  const Json report = run_json(0, job(R"("items": [{"op": 64, "input": 1, "output": 2}])"),
                               {"--memory-budget", "64MiB"});
  EXPECT_EQ(report["telemetry"]["device_memory_budget_bytes"], 64 << 20);
}

// The example of the planning rules.
TEST_F(Run, lineage_names_what_contributed) {
  write_text("three.ek",
             "handler a = 71 { output[0] = input[0]; }\nhandler b = 73 { output[0] = input[0]; }\n"
             "handler c = 67 { output[0] = input[0]; }\n");
  const std::string_view three =
      R"({"handlers": "three.ek", "buffers": [{"handle": 1, "zeros": 1}, {"handle": 2, "zeros": 1},
          {"handle": 3, "zeros": 1}, {"handle": 4, "zeros": 1}, {"handle": 5, "zeros": 1}],
          "items": [{"op": 71, "input": 1, "output": 2}, {"op": 73, "input": 2, "output": 3},
                    {"op": 67, "input": 4, "output": 5}], "outputs": [2, 3, 5]})";
  const Json report = run_json(0, three, {"--lineage"});
  EXPECT_EQ(report["region_lineage"], Json::parse("[640, 8]"));
  EXPECT_EQ(report["region_lineage_wide"], Json::array());
  EXPECT_EQ(report["lineage_items"], 3);
  EXPECT_EQ(report["regions"],
            Json::parse(R"([{"first_item": 0, "items": [0, 1], "output": 3, "lineage": 640},
                            {"first_item": 2, "items": [2], "output": 5, "lineage": 8}])"));
  EXPECT_EQ(report["lineage_rules"], Json::parse(R"([{"bit": 3, "opcode": 67, "name": "c"},
                            {"bit": 7, "opcode": 71, "name": "a"},
                            {"bit": 9, "opcode": 73, "name": "b"}])"));
  const std::string text = run_job(three, {"--lineage"}).out;
  EXPECT_NE(text.find("\n       2  a\n"), std::string::npos) << text;
  EXPECT_NE(text.find("\n       3  a, b\n"), std::string::npos) << text;
  EXPECT_NE(text.find("\n       5  c\n"), std::string::npos) << text;
}

TEST_F(Run, more_than_32_opcodes_have_a_bit_each) {
  std::string handlers;
  std::string items;
  for (int i = 0; i < 40; ++i) {
    handlers += fmt::format("handler h{} = {} {{ output[0] = output[0] + 1; }}\n", i, 100 + i);
    items += fmt::format("{}{{\"op\": {}, \"output\": 4}}", i == 0 ? "" : ",", 100 + i);
  }
  write_text("ops.ek", handlers);
  const Json report = run_json(0, job("\"items\": [" + items + "]"), {"--lineage"});
  EXPECT_EQ(report["region_lineage_wide"], Json::parse("[[1099511627775]]"));
  EXPECT_EQ(report["lineage_rules"][39],
            Json::parse(R"({"bit": 11, "wide_bit": 39, "opcode": 139, "name": "h39"})"));
}

// --- the report ----------------------------------------------------------------------------------

std::vector<std::string> keys_of(const Json& object) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.push_back(key);
  return keys;
}

// Typed by hand: the report's fields, sorted.
TEST_F(Run, the_report_has_every_field) {
  const Json report = run_json(0, job(R"("items": [{"op": 65, "output": 4}])"), {"--lineage"});
  EXPECT_EQ(keys_of(report), (std::vector<std::string>{"backend",
                                                       "backend_dispatch_ns",
                                                       "backend_reason",
                                                       "barrier_ns",
                                                       "barriers",
                                                       "code_wait_ns",
                                                       "deduped_items",
                                                       "device",
                                                       "faults",
                                                       "files",
                                                       "hit_limit",
                                                       "hits",
                                                       "hits_dropped",
                                                       "interrupted",
                                                       "items_faulted",
                                                       "items_processed",
                                                       "items_remaining",
                                                       "job",
                                                       "lineage_items",
                                                       "lineage_ns",
                                                       "lineage_rules",
                                                       "outputs",
                                                       "outputs_ns",
                                                       "prepare_ns",
                                                       "printf",
                                                       "printf_dropped",
                                                       "published_items",
                                                       "queue_plan_ns",
                                                       "queue_publish_ns",
                                                       "read_job_ns",
                                                       "region_lineage",
                                                       "region_lineage_wide",
                                                       "regions",
                                                       "report_ns",
                                                       "shape",
                                                       "telemetry",
                                                       "total_time_ns",
                                                       "wall_time_ns"}));
  EXPECT_EQ(keys_of(report["telemetry"]),
            (std::vector<std::string>{
                "bytes_moved", "bytes_read_back", "bytes_uploaded", "compiled_pipeline_cache_hit",
                "device_memory_budget_bytes", "estimated_peak_device_bytes", "execution_mode",
                "frontier_density_bps", "hit_capacity", "kernel_launches", "occupancy_proxy_bps",
                "pressure", "readback_buffers", "resident_allocations", "resident_input_cache_hit",
                "sync_points", "topology"}));
  EXPECT_EQ(keys_of(report["shape"]),
            (std::vector<std::string>{
                "compile_ns", "compiled_handlers", "edges", "grouped_by_opcode",
                "items_interpreted", "joins", "pipeline_id", "policy_hits", "policy_misses",
                "publish_batches", "queue_entries", "regions", "regions_per_ticket", "tickets",
                "waves", "worker_sleeps", "workers"}));
}

TEST_F(Run, enumerations_are_in_snake_case) {
  const Json empty = run_json(0, job(R"("items": [])"))["telemetry"];
  EXPECT_EQ(empty["topology"], "empty");
  EXPECT_EQ(empty["pressure"], "empty");
  EXPECT_EQ(empty["execution_mode"], "interpreter");
}

TEST_F(Run, the_text_says_what_happened_in_at_most_100_columns) {
  const Outcome outcome =
      run_job(job(R"("items": [{"op": 64, "input": 1, "output": 2}, {"op": 67, "param": 9},
                    {"op": 66, "param": 77}], "outputs": [2])"),
              {"--lineage"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(outcome.err, "");
  for (const char* part :
       {"run  job.json: 3 items in ", ": 2 processed, 1 faulted, ", " items/s\n", "\ntime\n",
        "\nitems\n", "\nfaults\n", "handler fault 9 (265)", "quit (67)", "\ndecisions\n",
        "  topology   ", "\nhits\n  1 kept, 0 dropped", "\nlineage\n", "  add ", "\noutputs\n",
        "1 2 3        out/buffer-2.bin"}) {
    EXPECT_NE(outcome.out.find(part), std::string::npos) << part << "\n" << outcome.out;
  }
  std::istringstream lines(outcome.out);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100u) << line;
}

// On a terminal the progress bar is shown during the run and cleared afterwards.
TEST_F(Run, progress_goes_to_a_terminal_and_is_cleared) {
  if (!std::filesystem::exists("/usr/bin/script")) GTEST_SKIP() << "there is no script(1)";
  std::string items;
  for (int i = 0; i < 40; ++i) {
    items += (i == 0 ? "" : ",") + std::string(R"({"op": 68, "output": 4})");
  }
  write_text("job.json", job("\"items\": [" + items + "]"));
  const std::string command =
      built_path("everkernel") + " run job.json --interpreter --max-wall-time 700ms > report.txt";
  const Outcome outcome = run(
      {.program = "/usr/bin/script", .args = {"-qec", command, "/dev/null"}, .folder = dir.path()});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_NE(outcome.out.find(" of 40 items"), std::string::npos) << outcome.out;
  EXPECT_TRUE(outcome.out.ends_with("\r\x1b[K")) << outcome.out;
  EXPECT_EQ(read_text(dir.path() / "report.txt").find('\x1b'), std::string::npos);
}

}  // namespace
}  // namespace everkernel::test
