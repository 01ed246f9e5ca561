// `everkernel dispatch` on control.bin and ring.bin of the test's folder, into its folder `out`.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "program.hpp"

namespace everkernel::test {

/// Runs dispatches and reads the files that they write.
class DispatchProgram : public Program {
 protected:
  void write_text(const std::string& name, std::string_view text) const {
    const auto bytes = std::as_bytes(std::span(text));
    dir.write(name, Bytes(bytes.begin(), bytes.end()));
  }

  Outcome dispatch(const Args& more = {}) const {
    Args args = {"dispatch", "--control", "control.bin", "--ring", "ring.bin", "--out", "out"};
    args.insert(args.end(), more.begin(), more.end());
    return everkernel(std::move(args));
  }

  /// Dispatches with --json. The command must end with `status`, print nothing on standard error
  /// and one object on standard output.
  Json dispatch_json(int status, Args more = {}) const {
    more.push_back("--json");
    const Outcome outcome = dispatch(more);
    EXPECT_EQ(outcome.status, status) << outcome.err << outcome.out;
    EXPECT_EQ(outcome.err, "");
    Json object = Json::parse(outcome.out, nullptr, false);
    EXPECT_TRUE(object.is_object()) << outcome.out;
    return object;
  }

  /// Expects a dispatch to fail with status 2 and this error, and to create no folder.
  void expect_dispatch_refused(const Args& more, std::string_view part) const {
    expect_refused(dispatch(more), part);
    EXPECT_FALSE(std::filesystem::exists(dir.path() / "out"));
  }

  /// Words of a file of the output folder.
  std::vector<Word> out_words(const std::string& name) const {
    return words_of(dir.read("out/" + name));
  }

  /// The JSON of `inspect` for the output folder.
  Json inspect_out() const {
    return json({"inspect", "--control", "out/control.bin", "--ring", "out/ring.bin", "--debug-log",
                 "out/debug_log.bin", "--io-queue", "out/io_queue.bin", "--observables"});
  }
  std::string inspect_out_text() const {
    return everkernel({"inspect", "--control", "out/control.bin", "--ring", "out/ring.bin"}).out;
  }

  std::vector<std::string> out_names() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(dir.path() / "out")) {
      names.push_back(entry.path().filename().string());
    }
    std::ranges::sort(names);
    return names;
  }
};

/// control[index] += addend, as tenant 0.
inline SlotWords add_to(Word index, Word addend) {
  return {.status = 1, .opcode = 2, .args = {addend, index}};
}

}  // namespace everkernel::test
