// Any text gives a program, or an error with a location. A program that verifies prints to a text
// that verifies again and prints unchanged.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <cctype>
#include <string>
#include <vector>

#include "everkernel/ir/detail/vocabulary_tables.hpp"
#include "support/ir_corpus.hpp"
#include "support/ir_machine.hpp"

namespace everkernel::test {
namespace {

// The text cut into words, numbers, signs and blanks; simpler than the lexer, and only for cutting.
std::vector<std::string> pieces_of(std::string_view text) {
  std::vector<std::string> pieces;
  const auto is_word = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_';
  };
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = at + 1;
    if (is_word(text[at])) {
      while (end < text.size() && is_word(text[end])) ++end;
    }
    pieces.emplace_back(text.substr(at, end - at));
    at = end;
  }
  return pieces;
}

bool has_place(std::string_view message) {
  std::size_t at = 0;
  const auto digits = [&] {
    const std::size_t first = at;
    while (at < message.size() && std::isdigit(static_cast<unsigned char>(message[at]))) ++at;
    return at > first && message[first] != '0';
  };
  return digits() && message.substr(at++, 1) == ":" && digits() && message.substr(at, 2) == ": ";
}

void check_mistake(const Error& error) {
  RC_ASSERT(error.code == Code::invalid_argument);
  RC_ASSERT(has_place(error.message));
}

// Whether the text verified.
bool check_any_text(const std::string& text) {
  const auto program = ir::parse(text);
  if (!program) return check_mistake(program.error()), false;
  const std::string first = ir::print(*program);
  const auto verified = ir::verify(*program);
  if (!verified) {
    check_mistake(verified.error());
    return false;
  }
  const auto again = check_text(first);
  RC_ASSERT(again.has_value());
  RC_ASSERT(ir::print(unverified(*again)) == first);
  RC_ASSERT(again->handlers().size() == verified->handlers().size());
  for (std::size_t i = 0; i < again->handlers().size(); ++i) {
    RC_ASSERT(again->handlers()[i].types == verified->handlers()[i].types);
    RC_ASSERT(again->handlers()[i].expr_locals == verified->handlers()[i].expr_locals);
    RC_ASSERT(again->handlers()[i].stmt_locals == verified->handlers()[i].stmt_locals);
  }
  // Both programs must give the same run; a little fuel is enough to show a difference.
  for (std::size_t i = 0; i < again->handlers().size(); ++i) {
    Machine machines[2];
    for (Machine& machine : machines) machine.frame.fuel = 100;
    const Outcome a = machines[0].run(verified->handlers()[i]);
    const Outcome b = machines[1].run(again->handlers()[i]);
    RC_ASSERT(a == b);
    RC_ASSERT(std::ranges::equal(machines[0].output, machines[1].output));
    RC_ASSERT(machines[0].control == machines[1].control);
    RC_ASSERT(machines[0].prints == machines[1].prints);
    RC_ASSERT(machines[0].hits == machines[1].hits);
  }
  return true;
}

RC_GTEST_PROP(HandlerText, any_bytes_are_a_program_or_a_mistake, ()) {
  const auto bytes = *rc::gen::container<std::string>(rc::gen::arbitrary<char>());
  check_any_text(bytes);
  check_any_text("handler h = 64 {" + bytes + "}");
}

// Words of the language in any order.
RC_GTEST_PROP(HandlerText, any_tokens_are_a_program_or_a_mistake, ()) {
  static const std::vector<std::string> kTokens = {
      "let ",  "var ",   "x",        "y",          "= ",     "1",      "2i",     "1.5",
      "true ", "; ",     "{",        "}",          "(",      ")",      "[",      "]",
      ",",     "+",      "-",        "*",          "<",      "==",     "&&",     "!",
      "~",     "if ",    "else ",    "for ",       "each ",  "while ", "in ",    "..",
      "break", "return", "yield",    "fault ",     "args",   "input",  "output", "buffer",
      "len",   "min",    "select",   "atomic_add", "printf", "await ", "read",   "param",
      "lane",  "u32",    "bits_f32", "/*",         "*/",     "//",     "\n"};
  const auto tokens = *rc::gen::container<std::vector<std::string>>(rc::gen::elementOf(kTokens));
  std::string text;
  for (const std::string& token : tokens) text += token;
  check_any_text("handler h = 64 {" + text + "}");
}

// A program of the corpus with pieces deleted, doubled, swapped or taken from another program.
RC_GTEST_PROP(HandlerText, a_changed_program_is_a_program_or_a_mistake, ()) {
  const auto index = *rc::gen::inRange<std::size_t>(0, std::size(kCorpus));
  std::vector<std::string> pieces = pieces_of(kCorpus[index]);
  const auto changes = *rc::gen::inRange(1, 6);
  for (int change = 0; change < changes && pieces.size() > 1; ++change) {
    const auto at = *rc::gen::inRange<std::size_t>(0, pieces.size());
    const auto other = *rc::gen::inRange<std::size_t>(0, pieces.size());
    switch (*rc::gen::inRange(0, 5)) {
      case 0:
        pieces.erase(pieces.begin() + static_cast<std::ptrdiff_t>(at));
        break;
      case 1: {
        std::string copy = pieces[at];
        pieces.insert(pieces.begin() + static_cast<std::ptrdiff_t>(at), std::move(copy));
        break;
      }
      case 2:
        std::swap(pieces[at], pieces[other]);
        break;
      case 3:
        pieces[at] = pieces[other];
        break;
      default: {
        const auto donor = pieces_of(*rc::gen::elementOf(
            std::vector<std::string_view>(std::begin(kCorpus), std::end(kCorpus))));
        pieces[at] = *rc::gen::elementOf(donor);
      }
    }
  }
  std::string text;
  for (const std::string& piece : pieces) text += piece;
  RC_CLASSIFY(check_any_text(text), "verifies");
}

// ---- expressions that always type, so that every case reaches the printer and the interpreter
// ----

std::string expression(int depth) {
  static const std::vector<std::string> kLeaves = {"0",     "1",          "7",        "4294967295",
                                                   "param", "args[3]",    "input[1]", "output[2]",
                                                   "slot",  "len(input)", "x",        "control[0]"};
  if (depth == 0) return *rc::gen::elementOf(kLeaves);
  static const std::vector<std::string> kForms = {"(A + B)",
                                                  "(A - B)",
                                                  "A * B",
                                                  "A / B",
                                                  "A % B",
                                                  "A << B",
                                                  "A >> B",
                                                  "(A & B)",
                                                  "(A ^ B)",
                                                  "(A | B)",
                                                  "-A",
                                                  "~(A)",
                                                  "A + B",
                                                  "A - B",
                                                  "(A)",
                                                  "min(A, B)",
                                                  "u32(A == B)",
                                                  "u32(A < B && !(B <= A))",
                                                  "u32(i32(A) / i32(B))",
                                                  "bits_u32(f32(A) * bits_f32(B))",
                                                  "select(A != B || A > B, A, B)",
                                                  "rotl(A, B)",
                                                  "clamp(A, B, A)",
                                                  "bits_u32(exp(bits_f32(A)))",
                                                  "bits_u32(pow(f32(A), f32(B)))",
                                                  "buffer(2)[(A) & 7]",
                                                  "atomic_xor(output[B & 7], A)",
                                                  "args[(A) % 12]",
                                                  "u32(i32(A) >> B)",
                                                  "A - (B - A)",
                                                  "clz(A)"};
  const std::string form = *rc::gen::elementOf(kForms);
  std::string text;
  for (const char c : form) {
    if (c == 'A' || c == 'B') {
      text += expression(depth - 1);
    } else {
      text += c;
    }
  }
  return text;
}

RC_GTEST_PROP(HandlerText, a_random_expression_means_the_same_when_printed, ()) {
  const auto depth = *rc::gen::inRange(0, 4);
  const std::string text = "handler h = 64 { let x = 3; output[0] = " + expression(depth) + "; }";
  // Operators in forms without parentheses regroup, and types still fit: everything is u32 but
  // comparisons, which stand in calls.
  RC_ASSERT(check_any_text(text));
}

}  // namespace
}  // namespace everkernel::test
