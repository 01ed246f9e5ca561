// `everkernel run` on job.json of the test's folder.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "program.hpp"

namespace everkernel::test {

/// Writes jobs, runs them and reads the files that they write.
class RunProgram : public Program {
 protected:
  void write_text(const std::string& name, std::string_view text) const {
    const auto bytes = std::as_bytes(std::span(text));
    dir.write(name, Bytes(bytes.begin(), bytes.end()));
  }

  /// Runs a job into the folder `out`.
  Outcome run_job(std::string_view job, const Args& more = {}) const {
    write_text("job.json", job);
    Args args = {"run", "job.json", "--outputs", "out"};
    args.insert(args.end(), more.begin(), more.end());
    return everkernel(std::move(args));
  }

  /// Runs a job with --json. The command must end with `status`, print nothing on standard error
  /// and one object on standard output.
  Json run_json(int status, std::string_view job, Args more = {}) const {
    more.push_back("--json");
    return object_of(status, run_job(job, more));
  }

  static Json object_of(int status, const Outcome& outcome) {
    EXPECT_EQ(outcome.status, status) << outcome.err << outcome.out;
    EXPECT_EQ(outcome.err, "");
    Json object = Json::parse(outcome.out, nullptr, false);
    EXPECT_TRUE(object.is_object()) << outcome.out;
    return object;
  }

  bool has_out() const { return std::filesystem::exists(dir.path() / "out"); }

  /// Words of an output that was written.
  std::vector<Word> out_words(Word handle) const {
    return words_of(dir.read("out/buffer-" + std::to_string(handle) + ".bin"));
  }
};

/// The words of an output in a report.
inline std::vector<Word> words_in(const Json& report, Word handle) {
  for (const Json& output : report["outputs"]) {
    if (output["handle"] == handle) return output["u32"].get<std::vector<Word>>();
  }
  ADD_FAILURE() << "the report has no output " << handle;
  return {};
}

}  // namespace everkernel::test
