// Texts with mistakes: how many are found, where, how they are shown, and that the parser goes on
// behind each of them.
#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "everkernel/ir/diagnostic.hpp"
#include "support/ir_corpus.hpp"
#include "support/ir_text.hpp"
#include "support/ir_text_file.hpp"

namespace everkernel::test {
namespace {

std::string shown(std::string_view text, std::size_t most = ir::kMostShown) {
  return ir::render(mistakes_of(text), text, "ops.ek", most);
}

// Line, column and rule of every mistake, in order.
std::vector<std::string> rules_of(std::string_view text) {
  std::vector<std::string> rules;
  const ir::Diagnostics mistakes = mistakes_of(text);
  for (const ir::Diagnostic& mistake : mistakes.kept()) {
    rules.push_back(std::to_string(mistake.location.line) + ":" +
                    std::to_string(mistake.location.column) + " " +
                    std::string(ir::rule_name(mistake.rule)));
  }
  return rules;
}

using Rules = std::vector<std::string>;

TEST(Mistakes, a_file_with_twenty_gives_twenty) {
  const std::string text = read_text("tests/ir/mistakes/twenty.ek");
  const ir::Diagnostics mistakes = mistakes_of(text);
  EXPECT_EQ(mistakes.count(), 20u);
  std::set<ir::Rule> rules;
  std::set<std::uint32_t> lines;
  for (const ir::Diagnostic& mistake : mistakes.kept()) {
    rules.insert(mistake.rule);
    lines.insert(mistake.location.line);
    EXPECT_FALSE(mistake.hint.empty()) << mistake.message;
  }
  EXPECT_EQ(rules.size(), 20u);
  EXPECT_EQ(lines.size(), 20u);
  EXPECT_EQ("error: " + ir::render(mistakes, text, "twenty.ek") + "\n",
            read_text("tests/ir/mistakes/twenty.txt"));
}

TEST(Mistakes, every_rule_has_a_name_of_its_own) {
  std::set<std::string_view> names;
  for (int i = 0; i <= static_cast<int>(ir::Rule::malformed_tree); ++i) {
    const std::string_view name = ir::rule_name(static_cast<ir::Rule>(i));
    EXPECT_TRUE(names.insert(name).second) << name;
    for (const char c : name) EXPECT_TRUE((c >= 'a' && c <= 'z') || c == '-') << name;
  }
  EXPECT_EQ(ir::rule_name(static_cast<ir::Rule>(255)), "unknown");
}

TEST(Mistakes, those_of_the_grammar_do_not_hide_those_of_the_meaning) {
  EXPECT_EQ(rules_of("handler a = 64 {\n  let x = 1 + ;\n  output[0] = 1.5;\n}\n"
                     "handler b = 65 {\n  output[0] = y;\n}\n"),
            (Rules{"2:15 expected-value", "3:15 type-mismatch", "6:15 unknown-name"}));
}

TEST(Mistakes, what_only_follows_from_another_is_none) {
  EXPECT_EQ(rules_of(in_handler("let x = y;\nlet z = x + 1.5;\noutput[z] = -z;\nif z { }")),
            (Rules{"2:9 unknown-name"}));
  EXPECT_EQ(
      rules_of(in_handler("let x = );\noutput[0] = x * 1.5;\nfor i in x .. 3 { output[i] = 1; }")),
      (Rules{"2:9 expected-value"}));
  EXPECT_EQ(rules_of(in_handler("let = 1;\noutput[0] = n;\noutput[1] = n;")),
            (Rules{"2:5 expected-name"}));
  EXPECT_EQ(rules_of(in_handler("output[0] = n + n;\nn = 3;\noutput[1] = n;")),
            (Rules{"2:13 unknown-name"}));
}

TEST(Mistakes, a_missing_brace_is_reported_where_the_indentation_shows_it) {
  EXPECT_EQ(
      rules_of("handler a = 64 {\n  if param == 1 {\n    output[0] = 1;\n\n  output[1] = 2;\n}\n"
               "handler b = 65 {\n  output[0] = 1.5;\n}\n"),
      (Rules{"3:19 expected-brace", "8:15 type-mismatch"}));
  EXPECT_EQ(rules_of("handler a = 64 {\n  if param == 1 {\n    output[0] = 1; }\n  }\n"
                     "  output[1] = 2;\n}\nhandler b = 65 {\n  output[0] = 1.5;\n}\n"),
            (Rules{"3:20 expected-brace", "8:15 type-mismatch"}));
}

TEST(Mistakes, a_comment_without_end_is_the_only_one) {
  EXPECT_EQ(rules_of("handler a = 64 {\n  if param == 1 { /* open\n  }\n}\n"),
            (Rules{"2:19 unclosed-comment"}));
}

TEST(Mistakes, are_shown_with_their_line_and_a_caret) {
  EXPECT_EQ(shown("handler h = 64 {\n  output[0] = 1.5;\n}\n"),
            "ops.ek:2:15: a buffer word is u32, not f32 [type-mismatch]\n"
            "    2 |   output[0] = 1.5;\n"
            "      |               ^\n"
            "hint: bits_u32(x) keeps the bits, u32(x) converts");
}

// The caret below `x` of the shown line, whatever stands before it.
void expect_caret_below(std::string_view before, std::size_t columns) {
  const std::string text = in_handler(std::string(before) + "let a = x;");
  const std::string all = shown(text);
  const std::size_t caret = all.find("^\n");
  ASSERT_NE(caret, std::string::npos) << all;
  const std::size_t bar = all.rfind("| ", caret);
  EXPECT_EQ(caret - bar - 2, columns + 8) << all;
}

TEST(Mistakes, the_caret_stands_below_its_column_as_terminals_show_it) {
  expect_caret_below("", 0);
  expect_caret_below("  ", 2);
  expect_caret_below("\t", 2);                       // a tab is shown as two blanks
  expect_caret_below("/* \xC3\xBC */ ", 8);          // ü: one column, two bytes
  expect_caret_below("/* \xE6\xBC\xA2 */ ", 9);      // a wide character
  expect_caret_below("/* \xF0\x9F\x98\x80 */ ", 9);  // a wide one of four bytes
  expect_caret_below("/* e\xCC\x81 */ ", 8);         // an accent on top of a letter
  expect_caret_below("/* \xFF\xC3 */ ", 9);          // bytes that are no text: ? each
  expect_caret_below("/* \x1B[31m */ ", 12);         // nothing that a terminal obeys
  expect_caret_below("\r", 1);
}

TEST(Mistakes, a_line_that_is_shown_cannot_disturb_a_terminal) {
  std::string text = "handler h = 64 { ";
  for (int byte = 1; byte < 256; ++byte) {
    if (byte != '\n') text += static_cast<char>(byte);
  }
  for (const char c : shown(text + "\xE2\x80\xAE\xC2\x9B }")) {
    EXPECT_TRUE(c == '\n' || static_cast<unsigned char>(c) >= 0x20) << static_cast<int>(c);
    EXPECT_NE(c, '\x7F');
  }
  EXPECT_EQ(shown("handler h = 64 { x \xE2\x80\xAE }").find("\xE2\x80\xAE"), std::string::npos);
}

TEST(Mistakes, a_long_line_is_cut_around_the_caret) {
  const std::string filler = repeated("/* filler */ ", 1000);
  const std::string all = shown(in_handler(filler + "let a = x; " + filler));
  EXPECT_LT(all.size(), 500u);
  EXPECT_NE(all.find("| …"), std::string::npos) << all;
  EXPECT_NE(all.find("let a = x;"), std::string::npos) << all;
  EXPECT_NE(all.find("…\n"), std::string::npos) << all;
  const std::size_t shown_x = all.find("a = x") + 4;
  const std::size_t line = all.rfind('\n', shown_x), caret = all.find("^\n");
  // The … before the line is one column and three bytes.
  EXPECT_EQ(shown_x - line - 2, caret - all.rfind('\n', caret)) << all;
  // Cut in the middle of characters of several bytes.
  for (std::size_t shift = 0; shift < 4; ++shift) {
    const std::string wide = std::string(shift, ' ') + "/*" + repeated("\xE2\x82\xAC", 500) + "*/";
    EXPECT_EQ(shown(in_handler(wide + "let a = x; " + wide)).find('?'), std::string::npos);
  }
}

TEST(Mistakes, at_most_twenty_are_shown) {
  std::string body;
  for (int i = 0; i < 130; ++i) body += "output[0] = u" + std::to_string(i) + ";\n";
  const std::string text = in_handler(body);
  EXPECT_EQ(mistakes_of(text).count(), 130u);
  EXPECT_EQ(mistakes_of(text).kept().size(), ir::Diagnostics::kMostKept);
  const std::string all = shown(text);
  EXPECT_NE(all.find("'u19' is not defined"), std::string::npos);
  EXPECT_EQ(all.find("'u20' is not defined"), std::string::npos);
  EXPECT_TRUE(all.ends_with("\n\nand 110 more")) << all.substr(all.size() - 40);
}

TEST(Mistakes, of_programs_built_from_cpp_name_the_handler) {
  ir::Diagnostics mistakes;
  const ir::Program program{.handlers = {{.name = "h", .opcode = 64}, {.name = "g", .opcode = 3}}};
  ASSERT_FALSE(ir::verify(program, &mistakes).has_value());
  EXPECT_EQ(mistakes.count(), 3u);
  EXPECT_EQ(ir::render(mistakes, "", "program"),
            "program: handler h: node 0 does not exist [malformed-tree]\n\n"
            "error: program: handler g: opcode 3 (0x3) is reserved for the system "
            "[reserved-opcode]\n"
            "hint: choose an opcode in 8..0xffef or 0x10000..0x7fffffff\n\n"
            "error: program: handler g: node 0 does not exist [malformed-tree]");
}

TEST(Mistakes, of_a_letter_or_two_are_recognised) {
  struct Row {
    std::string_view text, hint;
  };
  constexpr Row kRows[] = {
      {"let length = 1; output[0] = lenght;", "did you mean `length`?"},
      {"let length = 1; output[0] = LENGTH;", "did you mean `length`?"},
      {"output[0] = priorty;", "did you mean `priority`?"},
      {"output[0] = mni(1, 2);", "did you mean `min`?"},
      {"output[0] = length(input);", "did you mean `len`?"},
      {"atomic_ad(output[0], 1);", "did you mean `atomic_add`?"},
      {"output[0] = ouput[1];", "did you mean `output`?"},
      {"output[0] = len(inpt);", "did you mean `input`?"},
      {"whlie true { }", "did you mean `while`?"},
      {"retrun;", "did you mean `return`?"},
      {"if true { } esle { }", "did you mean `else`?"},
      {"foreach i in 0 .. 3 { }", "did you mean `each`?"},
      {"let i = 1; output[0] = n;", "declare it before its use with let or var"},
      {"output[0] = quaternion(1);",
       "declare it with fn; docs/handlers.md lists those of the language"},
  };
  for (const Row& row : kRows) {
    const ir::Diagnostics mistakes = mistakes_of(in_handler(row.text));
    ASSERT_EQ(mistakes.count(), 1u) << row.text << "\n" << shown(in_handler(row.text));
    EXPECT_EQ(mistakes.kept()[0].hint, row.hint) << row.text;
  }
  EXPECT_EQ(mistakes_of("handler h = 64 scope wrap { }").kept()[0].hint, "did you mean `warp`?");
  EXPECT_EQ(mistakes_of("handlr h = 64 { }").kept()[0].hint, "did you mean `handler`?");
}

// ---- one mistake gives one error ----

struct Piece {
  std::string_view text;
  std::uint32_t line;
};

// The tokens of a text without comments, each with its line.
std::vector<Piece> pieces_of(std::string_view text) {
  std::vector<Piece> pieces;
  std::uint32_t line = 1;
  for (std::size_t at = 0; at < text.size();) {
    const auto is_word = [&](std::size_t i) {
      return i < text.size() &&
             (std::isalnum(static_cast<unsigned char>(text[i])) != 0 || text[i] == '_' ||
              (text[i] == '.' && text[i + 1] != '.' && text[i - 1] != '.'));
    };
    std::size_t end = at + 1;
    if (is_word(at)) {
      while (is_word(end)) ++end;
    } else {
      constexpr std::string_view kPairs[] = {"..", "==", "!=", "<=", ">=", "&&", "||", "<<", ">>"};
      for (const std::string_view pair : kPairs) {
        if (text.substr(at, 2) == pair) end = at + 2;
      }
    }
    if (text[at] == '\n') ++line;
    if (text[at] != ' ' && text[at] != '\n') pieces.push_back({text.substr(at, end - at), line});
    at = end;
  }
  return pieces;
}

constexpr std::string_view kSound = R"(handler first = 64 scope warp {
  let n = min(len(input), len(output));
  var total = 0;
  for i in 0 .. n {
    let word = input[i];
    if word == 7 && i < 100 {
      total = total + word * 2;
      continue;
    } else if word > 9 {
      break;
    } else {
      output[i] = bits_u32(f32(word) / 2.0);
    }
  }
  each k in 0 .. n {
    atomic_add(output[input[k] & 255], select(k == 0, 1, 2));
  }
  args[3] = total;
  while total != 0 {
    total = total >> 1;
  }
  if args[4] == 1 {
    await read(args[5], 0, args[0], 4096);
  }
  fault 3;
}

handler second = 65 pure {
  output[0] = ~input[0] - param;
}

payload {
  printf(1, opcode, -tenant);
  yield;
}
)";

// The changed text has one or two mistakes, and the first is on the lines of the tokens around the
// change. A brace may pair with another one than was meant, far away. A change may also leave the
// text right.
void expect_few(const std::string& text, std::uint32_t first_line, std::uint32_t last_line,
                bool is_brace, int& worst) {
  const ir::Diagnostics mistakes = mistakes_of(text);
  if (mistakes.empty()) return;
  worst = std::max(worst, static_cast<int>(mistakes.count()));
  EXPECT_LE(mistakes.count(), 2u) << text << shown(text);
  const std::uint32_t line = mistakes.kept()[0].location.line;
  EXPECT_TRUE(is_brace || (line >= first_line && line <= last_line)) << text << shown(text);
}

std::string_view before(std::string_view text, const Piece& piece) {
  return text.substr(0, static_cast<std::size_t>(piece.text.data() - text.data()));
}
std::string_view behind(std::string_view text, const Piece& piece) {
  return text.substr(before(text, piece).size() + piece.text.size());
}

TEST(MistakesRecovery, a_token_too_few_gives_at_most_two_errors) {
  const std::vector<Piece> pieces = pieces_of(kSound);
  ASSERT_GT(pieces.size(), 180u);
  ASSERT_TRUE(mistakes_of(kSound).empty()) << shown(kSound);
  int worst = 0;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const std::string text =
        std::string(before(kSound, pieces[i])) + std::string(behind(kSound, pieces[i]));
    SCOPED_TRACE("without " + std::string(pieces[i].text) + " in line " +
                 std::to_string(pieces[i].line));
    const std::uint32_t last = i + 1 < pieces.size() ? pieces[i + 1].line : pieces[i].line;
    const bool is_brace = pieces[i].text == "{" || pieces[i].text == "}";
    expect_few(text, i > 0 ? pieces[i - 1].line : 1, last, is_brace, worst);
  }
}

TEST(MistakesRecovery, a_token_too_many_gives_at_most_two_errors) {
  constexpr std::string_view kExtra[] = {"let", "x",  "7", ";",   "(",       ")",   "[",    "]",
                                         "{",   "}",  ",", "+",   "=",       "==",  "if",   "else",
                                         "in",  "..", "@", "1.5", "handler", "for", "input"};
  const std::vector<Piece> pieces = pieces_of(kSound);
  int worst = 0;
  for (const std::string_view extra : kExtra) {
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      const std::string text = std::string(before(kSound, pieces[i])) + " " + std::string(extra) +
                               " " + std::string(pieces[i].text) +
                               std::string(behind(kSound, pieces[i]));
      SCOPED_TRACE(std::string(extra) + " before " + std::string(pieces[i].text) + " in line " +
                   std::to_string(pieces[i].line));
      const bool is_brace = extra == "{" || extra == "}";
      expect_few(text, i > 0 ? pieces[i - 1].line : 1, pieces[i].line, is_brace, worst);
    }
  }
}

// ---- any bytes ----

// The mistakes of a text, found within seconds: linear work even in a slow build.
void expect_quick(const std::string& text) {
  const auto start = std::chrono::steady_clock::now();
  const ir::Diagnostics mistakes = mistakes_of(text);
  EXPECT_FALSE(mistakes.empty());
  EXPECT_LT(ir::render(mistakes, text, "ops.ek").size(), 20'000u);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5))
      << text.substr(0, 200);
}

TEST(MistakesInGarbage, any_repeated_piece_is_read_in_linear_time) {
  constexpr std::string_view kPieces[] = {"if ",
                                          "if x {",
                                          "{",
                                          "}",
                                          "(",
                                          "let ",
                                          "let x = ",
                                          "x ",
                                          "x;",
                                          "for ",
                                          "handler ",
                                          "handlr x ",
                                          "payload ",
                                          "f(",
                                          "x[",
                                          "a.b ",
                                          "@",
                                          "\xFF",
                                          "\xC3\xBC",
                                          "1e5 ",
                                          "else ",
                                          "while x ",
                                          "min(1,",
                                          "x = y z ",
                                          "lett x = 1 ",
                                          "/*",
                                          "if /* */ ",
                                          "handler h = 64 {",
                                          "handler h = 64 { x = y; } ",
                                          "handler h = 64 { let = } ",
                                          "await ",
                                          "\n",
                                          "x\n",
                                          "return\n"};
  for (const std::string_view piece : kPieces) {
    const std::string many = repeated(piece, 64 * 1024 / piece.size());
    if (piece != "\n") expect_quick(many);
    expect_quick("handler h = 64 {" + many);
    expect_quick("handler h = 64 { if " + many + " }");
  }
}

TEST(MistakesInGarbage, random_bytes_and_random_tokens_are_read) {
  std::mt19937 random(20);
  constexpr std::string_view kTokens[] = {
      "handler", "payload", "h",  "=", "64", "{",  "}",      "let",  "var",   "x", "y",  ";",  "if",
      "else",    "for",     "in", "0", "..", "9",  "output", "[",    "]",     "(", ")",  ",",  "+",
      "min",     "1.5",     "&&", "!", "@",  "7i", "while",  "each", "fault", "a", "\n", "len"};
  for (int round = 0; round < 40; ++round) {
    std::string bytes, tokens;
    for (int i = 0; i < 16 * 1024; ++i) bytes += static_cast<char>(random() & 255);
    for (int i = 0; i < 8 * 1024; ++i) {
      tokens += std::string(kTokens[random() % std::size(kTokens)]) + " ";
    }
    expect_quick(bytes);
    expect_quick(tokens);
    expect_quick("handler h = 64 {" + tokens);
  }
}

TEST(MistakesInGarbage, a_text_that_ends_anywhere_has_few) {
  for (const std::string_view text : kCorpus) {
    for (std::size_t size = 0; size < text.size(); ++size) {
      const std::string cut(text.substr(0, size));
      const ir::Diagnostics mistakes = mistakes_of(cut);
      EXPECT_LE(mistakes.count(), 2u) << cut << "\n" << shown(cut);
    }
  }
}

}  // namespace
}  // namespace everkernel::test
