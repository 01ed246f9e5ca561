// Handler text for tests. A mark (@, which the language does not use) stands right before the place
// where a mistake is expected, so that line and column are read off the text and not counted.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "everkernel/ir/parser.hpp"
#include "everkernel/ir/printer.hpp"
#include "everkernel/ir/verifier.hpp"

namespace everkernel::test {

/// Parses and verifies.
inline Result<ir::VerifiedProgram> check_text(std::string_view text) {
  auto program = ir::parse(text);
  if (!program) return Failure(std::move(program).error());
  return ir::verify(*std::move(program));
}

/// Text without its mark, and the `line:column:` the mark stood at; columns count bytes.
struct Unmarked {
  std::string text;
  std::string place;
};

inline Unmarked unmark(std::string_view marked) {
  const std::size_t mark = marked.find('@');
  if (mark == std::string_view::npos) return {std::string(marked), ""};
  std::size_t line = 1, column = 1;
  for (const char c : marked.substr(0, mark)) {
    column = c == '\n' ? 1 : column + 1;
    line += c == '\n' ? 1 : 0;
  }
  std::string text(marked);
  text.erase(mark, 1);
  return {text, std::to_string(line) + ":" + std::to_string(column) + ":"};
}

/// A handler named h with opcode 64 around a body, which begins on line 2.
inline std::string in_handler(std::string_view body, std::string_view attributes = "") {
  std::string text = "handler h = 64 ";
  text.append(attributes).append("{\n").append(body).append("\n}\n");
  return text;
}

/// The error has this place and contains this text.
inline void expect_error(const Error& error, std::string_view place, std::string_view fragment) {
  EXPECT_EQ(error.code, Code::invalid_argument);
  EXPECT_TRUE(error.message.starts_with(std::string(place) + " "))
      << "expected at " << place << ", got " << error.message;
  EXPECT_NE(error.message.find(fragment), std::string::npos)
      << "expected \"" << fragment << "\", got " << error.message;
}

/// Every mistake of a text.
inline ir::Diagnostics mistakes_of(std::string_view text) {
  ir::Diagnostics mistakes;
  auto program = ir::parse(text, ir::kMaxProgramBytes, &mistakes);
  if (program) static_cast<void>(ir::verify(*std::move(program), &mistakes));
  return mistakes;
}

/// One of the mistakes of a text is of this rule and has this place.
inline void expect_rule(std::string_view text, ir::Rule rule, std::string_view place) {
  std::string found;
  const ir::Diagnostics mistakes = mistakes_of(text);
  for (const ir::Diagnostic& mistake : mistakes.kept()) {
    const std::string at =
        std::to_string(mistake.location.line) + ":" + std::to_string(mistake.location.column) + ":";
    if (mistake.rule == rule && at == place) return;
    found += at + " " + std::string(ir::rule_name(mistake.rule)) + "\n";
  }
  ADD_FAILURE() << "expected " << place << " " << ir::rule_name(rule) << ", got\n" << found;
}

/// Text that the parser refuses, at its mark.
inline void expect_syntax_error(std::string_view marked, std::string_view fragment) {
  const Unmarked source = unmark(marked);
  SCOPED_TRACE(source.text.substr(0, 500));
  const auto program = ir::parse(source.text);
  ASSERT_FALSE(program.has_value()) << "it was parsed";
  expect_error(program.error(), source.place, fragment);
}

/// Text that the parser takes and the verifier refuses, at its mark.
inline void expect_refused(std::string_view marked, std::string_view fragment) {
  const Unmarked source = unmark(marked);
  SCOPED_TRACE(source.text.substr(0, 500));
  auto program = ir::parse(source.text);
  ASSERT_TRUE(program.has_value()) << program.error().message;
  const auto verified = ir::verify(*std::move(program));
  ASSERT_FALSE(verified.has_value()) << "it was accepted";
  expect_error(verified.error(), source.place, fragment);
}

/// Text that verifies.
inline void expect_accepted(std::string_view text) {
  SCOPED_TRACE(std::string(text.substr(0, 500)));
  const auto verified = check_text(text);
  EXPECT_TRUE(verified.has_value()) << verified.error().message;
}

/// A body that is refused: marked text, a piece of the message and the rule that is broken there.
struct Wrong {
  std::string_view body, fragment;
  ir::Rule rule;
};

/// Every body is refused by the verifier, at its mark.
inline void expect_wrong(std::initializer_list<Wrong> rows, std::string_view attributes = "") {
  for (const Wrong& row : rows) {
    const std::string marked = in_handler(row.body, attributes);
    expect_refused(marked, row.fragment);
    const Unmarked source = unmark(marked);
    expect_rule(source.text, row.rule, source.place);
  }
}

/// Every text is refused by the parser, at its mark.
inline void expect_syntax_errors(std::span<const Wrong> rows, bool is_body = true) {
  for (const Wrong& row : rows) {
    const std::string marked = is_body ? in_handler(row.body) : std::string(row.body);
    expect_syntax_error(marked, row.fragment);
    const Unmarked source = unmark(marked);
    expect_rule(source.text, row.rule, source.place);
  }
}

/// Every body verifies.
inline void expect_right(std::initializer_list<std::string_view> bodies,
                         std::string_view attributes = "") {
  for (const std::string_view body : bodies) expect_accepted(in_handler(body, attributes));
}

/// `piece` again and again.
inline std::string repeated(std::string_view piece, std::size_t count) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) text.append(piece);
  return text;
}

/// Ends the process with 0 if the text verifies, prints, and verifies again.
[[noreturn]] inline void exit_by_verdict(const std::string& text) {
  auto program = ir::parse(text);
  if (!program) std::_Exit(1);
  const std::string printed = ir::print(*program);
  if (!ir::verify(*std::move(program))) std::_Exit(2);
  std::_Exit(check_text(printed) ? 0 : 3);
}

/// Text of the greatest allowed depth verifies. Runs in a process of its own, since a recursion
/// that needs too much stack ends the process.
inline void expect_accepted_in_a_child(const std::string& text) {
  SCOPED_TRACE(text.substr(0, 200));
  EXPECT_EXIT(exit_by_verdict(text), testing::ExitedWithCode(0), "");
}

/// A verified program as it was before.
inline ir::Program unverified(const ir::VerifiedProgram& verified) {
  return verified.source();
}

}  // namespace everkernel::test
