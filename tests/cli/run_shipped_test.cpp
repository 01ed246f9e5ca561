// Checks the results of the jobs of examples/jobs against simple computations on the same data.
#include <array>
#include <map>

#include "run_fixture.hpp"
#include "support/build_paths.hpp"

namespace everkernel::test {
namespace {

using Words = std::vector<Word>;

class ShippedJobs : public RunProgram {
 protected:
  static std::filesystem::path folder() { return source_path("examples/jobs"); }

  // Runs a job in examples/jobs.
  Json report(const std::string& name, int status) const {
    const std::string path = folder() / name;
    return object_of(status, everkernel({"run", path, "--lineage", "--json"}));
  }
  // The initial words of each buffer of a job.
  static std::map<Word, Words> words_of_job(const std::string& name) {
    std::map<Word, Words> words;
    const Json job = Json::parse(read_text(folder() / name));
    for (const Json& buffer : job["buffers"]) {
      if (buffer.contains("u32")) words[buffer["handle"]] = buffer["u32"].get<Words>();
    }
    return words;
  }
};

TEST_F(ShippedJobs, histogram) {
  Words counts(16);
  for (const auto& [handle, words] : words_of_job("histogram.json")) {
    for (const Word word : words) ++counts[word & 15];
  }
  const Json run = report("histogram.json", 0);
  EXPECT_EQ(words_in(run, 200), counts);
  const auto most = std::ranges::max_element(counts);
  EXPECT_EQ(words_in(run, 201), (Words{static_cast<Word>(most - counts.begin()), *most}));
  EXPECT_EQ(run["regions"].back()["lineage"], 0b111) << "histogram, merge and peak";
  EXPECT_GT(run["shape"]["regions"], 12) << "chunks do not wait for each other";
}

TEST_F(ShippedJobs, pipeline) {
  std::uint64_t total = 0;
  Words first;
  for (const auto& [handle, words] : words_of_job("pipeline.json")) {
    Words smooth;
    for (std::size_t i = 0; i < words.size(); ++i) {
      const Word before = words[i == 0 ? 0 : i - 1] * 10;
      const Word after = words[i + 1 == words.size() ? i : i + 1] * 10;
      smooth.push_back((before + words[i] * 10 + after) / 3);
      total += smooth.back();
    }
    if (handle == 1) first = smooth;
  }
  const Json run = report("pipeline.json", 0);
  EXPECT_EQ(words_in(run, 21), first);
  EXPECT_EQ(words_in(run, 30), Words{static_cast<Word>(total)});
  EXPECT_EQ(words_in(run, 31), Words{static_cast<Word>(total / 32)});
  EXPECT_EQ(run["shape"]["regions"], 5) << "four lanes of three stages, and the mean";
}

// The positions behind each occurrence of a word in the text.
std::vector<Word> ends_of(const std::string& text, const std::string& word) {
  std::vector<Word> ends;
  for (auto at = text.find(word); at != text.npos; at = text.find(word, at + 1)) {
    ends.push_back(static_cast<Word>(at + word.size() - 1));
  }
  return ends;
}

TEST_F(ShippedJobs, scan) {
  std::string text;
  for (int i = 0; i < 5; ++i) {
    text += read_text(folder() / ("log/" + std::to_string(i) + ".txt"));
  }
  std::map<Word, std::vector<Word>> expected = {{0, ends_of(text, "error")},
                                                {1, ends_of(text, "timeout")}};
  Word digits = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    digits = std::isdigit(static_cast<unsigned char>(text[i])) != 0 ? digits + 1 : 0;
    if (digits == 3) expected[2].push_back(static_cast<Word>(i));
  }
  const Json run = report("scan.json", 0);
  std::map<Word, std::vector<Word>> found;
  for (const Json& hit : run["hits"]) {
    EXPECT_EQ(hit[0].get<Word>() % 3, hit[2].get<Word>()) << "the item's rule";
    found[hit[2]].push_back(hit[1]);
  }
  EXPECT_EQ(found, expected);
  Word total = 0;
  for (const auto& [rule, ends] : expected) {
    EXPECT_EQ(words_in(run, 100 + rule), Words{static_cast<Word>(ends.size())});
    total += static_cast<Word>(ends.size());
  }
  EXPECT_EQ(words_in(run, 110), Words{total});
  EXPECT_EQ(run["regions"].back()["lineage"], 0b1100) << "number and verdict";
}

TEST_F(ShippedJobs, faults) {
  const Json run = report("faults.json", 1);
  EXPECT_EQ(run["items_processed"], 2);
  EXPECT_EQ(run["items_faulted"], 6);
  EXPECT_EQ(run["items_remaining"], 0);
  EXPECT_EQ(run["faults"], Json::parse(R"([
      {"code": 2, "name": "index_out_of_range", "opcode": 66, "handler": "overrun", "items": 1,
       "first_item": 4},
      {"code": 4, "name": "fuel_exhausted", "opcode": 67, "handler": "endless", "items": 1,
       "first_item": 5},
      {"code": 5, "name": "permission_denied", "opcode": 64, "handler": "copy", "items": 1,
       "first_item": 7},
      {"code": 12, "name": "input_faulted", "opcode": 64, "handler": "copy", "items": 2,
       "first_item": 2},
      {"code": 263, "name": "user", "opcode": 65, "handler": "checked_copy", "items": 1,
       "first_item": 1}])"));
  EXPECT_EQ(words_in(run, 2), (Words{1, 2, 300, 4}));
  EXPECT_EQ(words_in(run, 3), (Words{1, 2, 0, 0})) << "what it wrote before the fault stays";
  EXPECT_EQ(words_in(run, 4), (Words{0, 0, 0, 0})) << "what depends on it did not run";
  EXPECT_EQ(words_in(run, 9), (Words{5, 6, 7, 8}));
  EXPECT_EQ(words_in(run, 10), (Words{0, 0, 0, 0})) << "another tenant's buffer";
}

// Options change how a job runs, but not its results.
TEST_F(ShippedJobs, give_the_same_outputs_however_they_run) {
  for (const char* name : {"histogram.json", "pipeline.json", "scan.json", "faults.json"}) {
    const std::string path = folder() / name;
    const int status = everkernel({"run", path}).status;
    const Json plain = object_of(status, everkernel({"run", path, "--json"}));
    for (const Args& more : std::initializer_list<Args>{{"--no-fuse"},
                                                        {"--no-dedupe", "--workers", "1"},
                                                        {"--interpreter"},
                                                        {"--workers", "4", "--no-fuse"}}) {
      Args args = {"run", path, "--json"};
      args.insert(args.end(), more.begin(), more.end());
      const Json other = object_of(status, everkernel(args));
      EXPECT_EQ(other["outputs"], plain["outputs"]) << name << " " << more.front();
      EXPECT_EQ(other["hits"], plain["hits"]) << name << " " << more.front();
      EXPECT_EQ(other["faults"], plain["faults"]) << name << " " << more.front();
    }
  }
}

}  // namespace
}  // namespace everkernel::test
