// Checks docs/running-jobs.md: writes its files, runs its commands, and compares their output with
// the text, except for times. `...` in the text stands for any lines.
#include <array>
#include <regex>
#include <sstream>

#include "everkernel/backend/cpu/cpu_backend.hpp"
#include "everkernel/ir/parser.hpp"
#include "everkernel/ir/verifier.hpp"
#include "everkernel/runtime/megakernel.hpp"
#include "run_fixture.hpp"
#include "support/build_paths.hpp"

namespace everkernel::test {
namespace {

using Lines = std::vector<std::string>;

Lines lines_of(const std::string& text) {
  Lines lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

struct Snippet {
  std::string fence = {};  // text after the back-ticks
  Lines lines = {};

  std::string text() const {
    std::string all;
    for (const std::string& line : lines) all += line + "\n";
    return all;
  }
};

std::vector<Snippet> manual() {
  std::vector<Snippet> snippets;
  bool is_inside = false;
  for (const std::string& line : lines_of(read_text(source_path("docs/running-jobs.md")))) {
    if (line.starts_with("```")) {
      is_inside = !is_inside;
      if (is_inside) snippets.push_back({.fence = line.substr(3)});
    } else if (is_inside) {
      snippets.back().lines.push_back(line);
    }
  }
  return snippets;
}

// The line without parts that differ between runs: times, rates, shares, bars and spaces.
std::string lasting(std::string line) {
  static const std::regex kTime(R"([0-9][0-9.,]* (ns|us|ms|s|%|items/s)( |,|:|$))");
  static const std::regex kBar("#+");
  static const std::regex kSpaces(" +");
  line = std::regex_replace(line, kTime, "T$2");
  line = std::regex_replace(line, kBar, "");
  return std::regex_replace(line, kSpaces, " ");
}

Lines lasting(const Lines& lines) {
  Lines kept;
  for (const std::string& line : lines) {
    if (!line.empty()) kept.push_back(lasting(line));
  }
  return kept;
}

// Whether the lines match those of the text. `...` matches as few lines as possible.
bool matches(std::span<const std::string> shown, std::span<const std::string> lines) {
  if (shown.empty()) return lines.empty();
  if (shown.front() == "...") {
    for (std::size_t skipped = 0; skipped <= lines.size(); ++skipped) {
      if (matches(shown.subspan(1), lines.subspan(skipped))) return true;
    }
    return false;
  }
  return !lines.empty() && shown.front() == lines.front() &&
         matches(shown.subspan(1), lines.subspan(1));
}

class RunManual : public RunProgram {
 protected:
  // Runs `$ everkernel …`; `$ echo $?` gives the status of the one before.
  std::string output_of(const std::string& command) {
    if (command == "$ echo $?") return std::to_string(status_) + "\n";
    std::istringstream words(command);
    Args args;
    for (std::string word; words >> word;) args.push_back(word);
    EXPECT_EQ(args.at(1), "everkernel") << command;
    args.erase(args.begin(), args.begin() + 2);
    // `< FILE` is the shell's.
    const bool has_input = args.size() > 2 && args[args.size() - 2] == "<";
    const Outcome outcome =
        has_input ? run({.program = "/bin/sh",
                         .args = {"-c", built_path("everkernel") + command.substr(12)},
                         .folder = dir.path()})
                  : everkernel(args);
    status_ = outcome.status;
    return outcome.out + outcome.err;
  }

  void check_session(const Snippet& session) {
    for (std::size_t at = 0; at < session.lines.size();) {
      const std::string& command = session.lines[at++];
      ASSERT_TRUE(command.starts_with("$ ")) << command;
      Lines shown;
      while (at < session.lines.size() && !session.lines[at].starts_with("$ ")) {
        shown.push_back(session.lines[at++]);
      }
      const std::string output = output_of(command);
      EXPECT_TRUE(matches(lasting(shown), lasting(lines_of(output)))) << command << "\n" << output;
    }
  }

 private:
  int status_ = 0;
};

TEST_F(RunManual, every_command_prints_what_is_shown) {
  std::filesystem::create_directory_symlink(source_path("examples"), dir.path() / "examples");
  int sessions = 0;
  for (const Snippet& snippet : manual()) {
    if (snippet.fence.starts_with("file ")) write_text(snippet.fence.substr(5), snippet.text());
    if (snippet.fence != "console") continue;
    check_session(snippet);
    ++sessions;
  }
  EXPECT_GE(sessions, 7);
}

TEST_F(RunManual, the_matcher_finds_what_differs) {
  const Lines lines = {"a", "b", "c"};
  EXPECT_TRUE(matches(Lines{"a", "...", "c"}, lines));
  EXPECT_TRUE(matches(Lines{"...", "b", "..."}, lines));
  EXPECT_FALSE(matches(Lines{"a", "c"}, lines));
  EXPECT_FALSE(matches(Lines{"...", "b"}, lines));
  EXPECT_EQ(lasting(" plan  3.1 us  4.0 %  ##  x"), lasting(" plan  17 s  1.0 %  #  x"));
  EXPECT_NE(lasting("4 items done in 3 us"), lasting("5 items done in 3 us"));
}

// The lines of this file between the marks, without their indentation.
std::string marked_region() {
  std::string region;
  bool is_inside = false;
  for (const std::string& line :
       lines_of(read_text(source_path("tests/cli/run_manual_test.cpp")))) {
    const bool is_mark = line == "  // [manual]" || line == "  // [/manual]";
    if (is_mark) {
      is_inside = line == "  // [manual]";
    } else if (is_inside) {
      region += (line.size() > 2 ? line.substr(2) : "") + "\n";
    }
  }
  return region;
}

TEST_F(RunManual, the_cpp_snippet_runs) {
  auto program = ir::parse(manual().front().text());
  ASSERT_TRUE(program);
  const auto verified = ir::verify(std::move(*program));
  ASSERT_TRUE(verified);
  const ir::VerifiedProgram& handlers = *verified;
  // [manual]
  auto kernel = Megakernel::create(backend::cpu::make_backend(), {.handlers = handlers}).value();
  auto input = kernel.create_buffer({.handle = 1, .word_count = 3}).value();
  auto output = kernel.create_buffer({.handle = 2, .word_count = 3}).value();
  const std::array<Word, 3> words{1, 2, 3};
  if (!input.write(0, words)) return;

  const std::array items{abi::WorkItem{64, 1, 2, 10}};  // opcode, input, output, param
  const RunReport report = kernel.run(items, {.lineage = true}).value();

  std::array<Word, 3> results{};
  if (!output.read(0, results)) return;
  // [/manual]
  EXPECT_EQ(results, (std::array<Word, 3>{10, 20, 30}));
  EXPECT_EQ(report.items_processed, 1u);
  std::string shown;
  for (const Snippet& snippet : manual()) {
    if (snippet.fence == "cpp") shown += snippet.text();
  }
  EXPECT_EQ(shown, marked_region());
}

}  // namespace
}  // namespace everkernel::test
