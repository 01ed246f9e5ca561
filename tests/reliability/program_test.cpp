// Rows 17 and 22 for the program `everkernel`: the n-th of each system call fails, for every n
// until the command passes. The command ends with one of its exit statuses and a message; if it
// reports failure, no file is changed, and if it reports success, every file is as it should be.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "support/build_paths.hpp"
#include "support/process.hpp"
#include "support/seeds.hpp"
#include "support/temp_dir.hpp"

namespace everkernel::test {
namespace {

using Files = std::map<std::string, std::string>;

Files files_in(const std::filesystem::path& folder) {
  Files found;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    found[entry.path().lexically_relative(folder).string()] = read_text(entry.path());
  }
  return found;
}

void set_variable(const char* name, const std::string& value) {
  value.empty() ? ::unsetenv(name) : ::setenv(name, value.c_str(), 1);
}

// A command in a fresh folder, with one call that fails.
struct Tried {
  Outcome outcome;
  Files before, after;
  bool has_failed_call = false;
};

struct Command {
  std::string name;
  std::vector<std::vector<std::string>> setup;  // commands that run before, without a fault
  std::vector<std::string> args;
  bool is_long = false;  // tried in soaks only
};

void PrintTo(const Command& command, std::ostream* out) {
  *out << command.name;
}

constexpr std::string_view kJob = R"({ "handlers": "handlers.ek",
  "buffers": [{"handle": 1, "zeros": 4}, {"handle": 2, "u32": [1, 2]},
              {"handle": 3, "file": "handlers.ek", "offset": 1, "length": 6}],
  "items": [{"op": 64, "input": 1, "output": 2, "param": 5},
            {"op": 64, "input": 2, "output": 1, "param": 7}],
  "outputs": [1, 3, {"handle": 2, "file": "two.npy"}] })";
constexpr std::string_view kHandlerText = "handler add = 64 { atomic_add(output[0], param); }\n";

Tried try_command(const Command& command, const std::string& fault) {
  const TempDir folder;
  const TempDir notes;
  const std::string log = notes.path() / "failed";
  for (const auto& [name, text] :
       {std::pair{"job.json", kJob}, std::pair{"handlers.ek", kHandlerText}}) {
    const auto bytes = std::as_bytes(std::span(text));
    folder.write(name, Bytes(bytes.begin(), bytes.end()));
  }
  const std::string program = built_path("everkernel");
  for (const auto& args : command.setup) {
    EXPECT_EQ(run({.program = program, .args = args, .folder = folder.path()}).status, 0);
  }
  Tried tried;
  tried.before = files_in(folder.path());
  set_variable("LD_PRELOAD", fault.empty() ? "" : built_path("libfailing_calls.so"));
  set_variable("EVERKERNEL_FAIL", fault);
  set_variable("EVERKERNEL_FAIL_LOG", log);
  tried.outcome = run({.program = program, .args = command.args, .folder = folder.path()});
  set_variable("LD_PRELOAD", "");
  tried.after = files_in(folder.path());
  tried.has_failed_call = std::filesystem::exists(log);
  return tried;
}

// The command did its work, and could not deliver all of its result.
constexpr int kUndelivered = 4;

// A ring whose bytes cannot be written back may have other words in slots that are still free.
Files without_free_slots(Files files) {
  if (!files.contains("ring.bin")) return files;
  constexpr std::size_t kSlotBytes = 64;
  std::string& ring = files.at("ring.bin");
  for (std::size_t at = 0; at + kSlotBytes <= ring.size(); at += kSlotBytes) {
    const bool is_free = ring.compare(at, 4, std::string(4, '\0')) == 0;
    if (is_free) ring.replace(at, kSlotBytes, kSlotBytes, '\0');
  }
  return files;
}

void check(const Tried& tried, const Tried& expected, int number, bool can_speak,
           bool can_restore) {
  const Outcome& outcome = tried.outcome;
  EXPECT_GE(outcome.status, 0) << outcome.err;
  EXPECT_LE(outcome.status, kUndelivered) << outcome.err;
  if (outcome.status == expected.outcome.status) {
    EXPECT_EQ(tried.after, expected.after) << "success, but other files";
    return;
  }
  EXPECT_NE(number, EINTR) << "an interrupted call is made again: " << outcome.err;
  EXPECT_NE(number, 0) << "a short transfer is continued: " << outcome.err;
  EXPECT_TRUE(!can_speak || outcome.err.find("error: ") != std::string::npos) << outcome.err;
  if (outcome.status != kUndelivered) {
    const auto seen = [&](const Files& files) {
      return can_restore ? files : without_free_slots(files);
    };
    EXPECT_EQ(seen(tried.after), seen(tried.before))
        << "failure, but files have changed: " << outcome.err;
    return;
  }
  // A command with several results may have delivered the first ones, each of them whole. It keeps
  // a report that could not be printed in a file.
  for (const auto& [name, text] : tried.after) {
    if (name == "out/report.txt") continue;
    const bool is_old = tried.before.contains(name) && tried.before.at(name) == text;
    const bool is_new = expected.after.contains(name) && expected.after.at(name) == text;
    EXPECT_TRUE(is_old || is_new) << name << " is torn: " << outcome.err;
  }
  for (const auto& [name, text] : tried.before) EXPECT_TRUE(tried.after.contains(name)) << name;
}

bool can_be_interrupted(std::string_view call) {
  return call == "open" || call == "read" || call == "write" || call == "pwrite" || call == "flock";
}

class ProgramCalls : public testing::TestWithParam<Command> {};

TEST_P(ProgramCalls, that_fail_end_in_a_message_and_change_no_file) {
  ::setenv("EVERKERNEL_LIBCUDA", "/nowhere/libcuda.so", 1);
  const Command& command = GetParam();
  if (command.is_long && !is_soak()) GTEST_SKIP() << "takes 20 seconds: set EVERKERNEL_SOAK=1";
  const Tried expected = try_command(command, "");
  ASSERT_EQ(expected.outcome.status, 0) << expected.outcome.err;
  const std::vector<int> numbers =
      is_soak() ? std::vector{ENOSPC, EIO, EMFILE, ENOMEM, EINTR, 0} : std::vector{EIO, EINTR, 0};
  std::size_t faults = 0;
  for (const char* const call : {"open", "read", "write", "pwrite", "close", "fstat", "stat",
                                 "mkdir", "rename", "flock", "memfd_create", "ftruncate"}) {
    for (const int number : numbers) {
      for (const int for_ever : {0, 1}) {
        // What is interrupted or short for ever is left to soaks.
        if (for_ever != 0 && number != EIO && !is_soak()) continue;
        if (number == EINTR && !can_be_interrupted(call)) continue;
        const bool can_speak = for_ever == 0 || std::string_view(call) != "write";
        for (std::size_t skip = 0; skip < 200; ++skip) {
          SCOPED_TRACE(fmt::format("call {} of {} fails with {}{}", skip + 1, call, number,
                                   for_ever != 0 ? ", and all later ones" : ""));
          const Tried tried =
              try_command(command, fmt::format("{}:{}:{}:{}", call, skip, number, for_ever));
          if (!tried.has_failed_call) break;
          ++faults;
          check(tried, expected, number, can_speak, for_ever == 0);
          if (HasFailure()) return;
        }
      }
    }
  }
  std::printf("%zu faults\n", faults);
  EXPECT_GT(faults, 0u);
}

const std::vector<std::string> kMakeRing = {"encode", "ring", "--slots", "16", "-o", "ring.bin"};

INSTANTIATE_TEST_SUITE_P(
    commands, ProgramCalls,
    testing::Values(Command{"run", {}, {"run", "job.json", "--outputs", "out", "--backend", "cpu"}},
                    Command{"encode", {}, {"encode", "ring", "--slots", "16", "-o", "ring.bin"}},
                    Command{"inspect", {kMakeRing}, {"inspect", "--ring", "ring.bin"}},
                    Command{"publish",
                            {kMakeRing},
                            {"publish", "--ring", "ring.bin", "--slot", "1", "--tenant", "0",
                             "--opcode", "64"}},
                    Command{
                        "dispatch",
                        {kMakeRing, {"encode", "control", "--tenants", "1", "-o", "control.bin"}},
                        {"dispatch", "--control", "control.bin", "--ring", "ring.bin", "--out",
                         "out", "--backend", "cpu"},
                        true},
                    Command{"check", {}, {"check", "handlers.ek"}}),
    [](const auto& row) { return row.param.name; });

}  // namespace
}  // namespace everkernel::test
