// Runs the program under test in a fresh folder, and makes the buffers for it.
//
// Buffers are made word by word, so that the program is not tested against its own encoder.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "support/build_paths.hpp"
#include "support/bytes.hpp"
#include "support/process.hpp"
#include "support/temp_dir.hpp"

namespace everkernel::test {

using Json = nlohmann::json;
using Args = std::vector<std::string>;

/// The path of a driver that does not exist, and the program's reason for it.
inline constexpr char kNoDriver[] = "/nowhere/libcuda.so";
inline constexpr char kNoDriverReason[] =
    "EVERKERNEL_LIBCUDA: /nowhere/libcuda.so: cannot open shared object file: No such file or "
    "directory; name an existing library, or unset the variable";

/// Runs `everkernel` in a fresh folder, as on a machine without a GPU.
class Program : public ::testing::Test {
 protected:
  Program() { ::setenv("EVERKERNEL_LIBCUDA", kNoDriver, 1); }

  Outcome everkernel(Args args) const {
    return run(
        {.program = built_path("everkernel"), .args = std::move(args), .folder = dir.path()});
  }

  /// Runs it with --json. It must succeed, print nothing on standard error and one object on
  /// standard output.
  Json json(Args args) const {
    args.push_back("--json");
    const Outcome outcome = everkernel(std::move(args));
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_EQ(outcome.err, "");
    Json object = Json::parse(outcome.out, nullptr, false);
    EXPECT_TRUE(object.is_object()) << outcome.out;
    return object;
  }

  TempDir dir;
};

/// Expects status 2, nothing on standard output, an `error:` line that contains `part`, and after
/// it at most a line of the input with a caret, and a `hint:` line.
inline void expect_refused(const Outcome& outcome, std::string_view part) {
  EXPECT_EQ(outcome.status, 2);
  EXPECT_EQ(outcome.out, "");
  const std::string& err = outcome.err;
  const auto end_of_line = err.find('\n');
  ASSERT_NE(end_of_line, std::string::npos) << err;
  EXPECT_TRUE(err.starts_with("error: ")) << err;
  EXPECT_NE(err.substr(0, end_of_line).find(part), std::string::npos) << err;
  std::string rest = err.substr(end_of_line + 1);
  const auto end_of_caret = rest.find(" ^\n");
  if (rest.starts_with("  ") && end_of_caret != std::string::npos) {
    EXPECT_EQ(std::count(rest.begin(), rest.begin() + static_cast<long>(end_of_caret), '\n'), 1);
    rest.erase(0, end_of_caret + 3);
  }
  if (rest.empty()) return;
  EXPECT_TRUE(rest.starts_with("hint: ")) << err;
  EXPECT_EQ(rest.find('\n'), rest.size() - 1) << err;
}

/// The words of a slot; arguments that are not given are 0.
struct SlotWords {
  Word status = 0;
  Word opcode = 0;
  Word tenant = 0;
  Word priority = 2;  // the fault code in the upper half
  std::vector<Word> args = {};
};

inline std::vector<Word> slot_words(const SlotWords& slot) {
  std::vector<Word> words = {slot.status, slot.opcode, slot.tenant, slot.priority};
  words.insert(words.end(), slot.args.begin(), slot.args.end());
  words.resize(16);
  return words;
}

/// A ring of these slots.
inline Bytes ring_of(std::initializer_list<SlotWords> slots) {
  std::vector<Word> words;
  for (const SlotWords& slot : slots) {
    const auto line = slot_words(slot);
    words.insert(words.end(), line.begin(), line.end());
  }
  return bytes_of(words);
}

/// A control buffer of 160 words and these observables: tenants 0 and 1 may run, 1 without quota.
inline Bytes control_of(std::initializer_list<std::pair<std::size_t, Word>> words,
                        std::size_t observables = 0) {
  std::vector<Word> control(160 + observables);
  control.at(2) = 3;
  control.at(3) = control.at(4) = 0xFFFFFFFFu;
  control.at(32) = 1'000'000;
  for (const auto& [index, word] : words) control.at(index) = word;
  return bytes_of(control);
}

}  // namespace everkernel::test
