// Jobs with bytes changed, dropped, repeated and moved: the program ends with one of its exit
// statuses and, if it fails, prints one error line and one hint line.
#include <iostream>
#include <random>

#include "run_fixture.hpp"
#include "support/sanitized.hpp"
#include "support/seeds.hpp"

namespace everkernel::test {
namespace {

constexpr std::string_view kJob =
    R"({"handlers": "ops.ek",
 "buffers": [{"handle": 1, "u32": [1, 2, 3]}, {"handle": 2, "zeros": 4, "tenant": 0},
             {"handle": 3, "file": "data.bin", "offset": 1, "length": 9},
             {"handle": 4, "i32": [-1, 2], "access": "r"}, {"handle": 5, "f32": [1.5, "nan"]},
             {"handle": 6, "u8": [1, 2, 255]}, {"handle": 7, "base64": "AQIDBA=="},
             {"handle": 8, "file": "data.npy"}],
 "files": [],
 "items": [{"op": 64, "input": 1, "output": 2, "param": 7, "tenant": 0, "priority": 2},
           {"op": "inc", "output": 3}, {"op": "add", "args": [8, 6, 1]}, {"op": 0}],
 "items_file": "items.bin", "ordered": true,
 "outputs": [2, 3, {"handle": 6, "file": "six.npy", "type": "u8"}]})";

constexpr std::string_view kPieces[] = {"{",
                                        "}",
                                        "[",
                                        "]",
                                        ",",
                                        ":",
                                        "\"",
                                        "\\",
                                        "0",
                                        "-",
                                        "1e999",
                                        "4294967295",
                                        "4294967296",
                                        "null",
                                        "true",
                                        "\"op\"",
                                        "\"items\"",
                                        "\"zeros\": 9999999",
                                        "{\"op\": 65, \"output\": 2},",
                                        "\"args\": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12],",
                                        "\"op\": \"add\"",
                                        "\"args\": [-1, 1.5, \"nan\", 4294967296],",
                                        "{\"handle\": 9, \"slice_of\": 1, \"length\": 2},",
                                        "\"count\": 2147483647,",
                                        "\"offset\": 9223372036854775807,",
                                        "\"base64\": \"//==\",",
                                        "\"u8\": [",
                                        "\"f32\": [-0.0, 1e-50, \"inf\", 3.5e38,",
                                        "\"file\": \"items.bin\",",
                                        ".npy",
                                        "-2147483648",
                                        "\xff",
                                        "\\u0000",
                                        "2147483647",
                                        ".",
                                        " ",
                                        "\n"};

std::string mutated(std::mt19937_64& draw) {
  const auto below = [&](std::size_t end) { return static_cast<std::size_t>(draw() % end); };
  std::string job(kJob);
  for (std::size_t change = 0; change < 1 + below(4) && !job.empty(); ++change) {
    const std::size_t at = below(job.size());
    const std::size_t length = 1 + below(12);
    switch (below(5)) {
      case 0:
        job[at] = static_cast<char>(below(256));
        break;
      case 1:
        job.erase(at, length);
        break;
      case 2:
        job.insert(at, kPieces[below(std::size(kPieces))]);
        break;
      case 3:
        job.insert(below(job.size()), job.substr(at, length * 4));
        break;
      default:
        job.resize(at);
    }
  }
  return job;
}

class MutatedJobs : public RunProgram {
 protected:
  void SetUp() override {
    write_text("ops.ek",
               "handler add = 64 pure { for i in 0 .. len(input) { output[i] = input[i] + param; } "
               "}\nhandler inc = 65 { output[0] = output[0] + 1; }\n");
    dir.write("data.bin", bytes_of({7, 8, 9}));
    using std::string_literals::operator""s;
    std::string header = "{'descr': '<i4', 'fortran_order': False, 'shape': (3,)}";
    header.resize(117, ' ');
    write_text("data.npy", "\x93NUMPY\x01\x00\x76\x00"s + header + "\n" + "abcdefghijkl");
  }

  void try_one(std::mt19937_64& draw) const {
    std::vector<Word> words = {64, 1, 2, 5, 65, 0, 3, 0};
    if (draw() % 2 == 0) {
      words.resize(draw() % 16);
      for (Word& word : words) word = static_cast<Word>(draw() % 4 == 0 ? draw() : draw() % 3);
    }
    if (draw() % 4 == 0) {
      words.insert(words.begin(), {0x54494B45u, 0x32534D45u, static_cast<Word>(draw() % 16), 0});
    }
    dir.write("items.bin", bytes_of(words));
    const std::string job = mutated(draw);
    const Outcome outcome = run_job(job, {"--json", "--lineage", "--max-wall-time", "5s"});
    EXPECT_TRUE(outcome.status >= 0 && outcome.status <= 2) << job << "\n" << outcome.err;
    if (outcome.status == 2) {
      expect_refused(outcome, "job.json: ");
      EXPECT_FALSE(has_out()) << job;
    } else {
      EXPECT_TRUE(Json::accept(outcome.out)) << job;
    }
    std::filesystem::remove_all(dir.path() / "out");
    if (HasFailure()) std::cout << "job: " << job << '\n';
  }
};

constexpr std::uint64_t kBatches = kIsSanitized ? 2 : 8;
constexpr int kJobsInBatch = 8;

TEST_F(MutatedJobs, never_crash) {
  run_batches(kBatches, [&](std::uint64_t seed) {
    std::mt19937_64 draw(seed);
    for (int i = 0; i < kJobsInBatch && !HasFailure(); ++i) try_one(draw);
    if (HasFailure()) std::cout << "replay: " << replay_command(seed) << '\n';
    return !HasFailure();
  });
}

}  // namespace
}  // namespace everkernel::test
