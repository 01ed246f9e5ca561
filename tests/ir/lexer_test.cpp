// Tokens, seen through the parser: literals and their limits, blanks, comments, columns.
#include <bit>

#include "support/ir_text.hpp"

namespace everkernel::test {
namespace {

// The literal of `let x = LITERAL;`.
Result<ir::Expr> literal(std::string_view text) {
  const auto program = ir::parse(in_handler("let x = " + std::string(text) + ";"));
  if (!program) return Failure(program.error());
  const ir::Body& body = program->handlers.at(0).body;
  EXPECT_EQ(body.exprs.size(), 1u) << text;
  return body.exprs.at(0);
}

TEST(Lexer, reads_integers_up_to_their_limits) {
  struct Row {
    std::string_view text;
    ir::Type type;
    std::uint32_t bits;
  };
  constexpr Row kRows[] = {
      {"0", ir::Type::u32, 0},
      {"7", ir::Type::u32, 7},
      {"007", ir::Type::u32, 7},
      {"4294967295", ir::Type::u32, 0xFFFFFFFF},
      {"0x0", ir::Type::u32, 0},
      {"0xff", ir::Type::u32, 255},
      {"0XaBcDeF01", ir::Type::u32, 0xABCDEF01},
      {"0xffffffff", ir::Type::u32, 0xFFFFFFFF},
      {"0x00000000000000001", ir::Type::u32, 1},
      {"0i", ir::Type::i32, 0},
      {"7i", ir::Type::i32, 7},
      {"2147483647i", ir::Type::i32, 0x7FFFFFFF},
      {"0x7fffffffi", ir::Type::i32, 0x7FFFFFFF},
  };
  for (const Row& row : kRows) {
    const auto expr = literal(row.text);
    ASSERT_TRUE(expr.has_value()) << row.text << ": " << expr.error().message;
    EXPECT_EQ(expr->type, row.type) << row.text;
    EXPECT_EQ(expr->bits, row.bits) << row.text;
  }
}

TEST(Lexer, reads_floats_to_the_nearest_single) {
  struct Row {
    std::string_view text;
    std::uint32_t bits;
  };
  constexpr Row kRows[] = {
      {"0.0", 0x00000000},           {"0.5", 0x3F000000},
      {"1.5", 0x3FC00000},           {"00.50", 0x3F000000},
      {"0.1", 0x3DCCCCCD},           {"16777217.0", 0x4B800000},  // a tie, to even
      {"1.0e3", 0x447A0000},         {"1.0E3", 0x447A0000},
      {"1.0e+3", 0x447A0000},        {"1.25e-1", 0x3E000000},
      {"3.4028235e38", 0x7F7FFFFF},                            // the largest
      {"1.1754944e-38", 0x00800000},                           // the smallest normal one
      {"1.4e-45", 0x00000001},                                 // the smallest
      {"1.0e-45", 0x00000001},       {"0.7e-45", 0x00000000},  // below half of it
      {"1.0e-60", 0x00000000},       {"1.0e-999999999999", 0x00000000},
      {"0.0e999999", 0x00000000},
  };
  for (const Row& row : kRows) {
    const auto expr = literal(row.text);
    ASSERT_TRUE(expr.has_value()) << row.text << ": " << expr.error().message;
    EXPECT_EQ(expr->type, ir::Type::f32) << row.text;
    EXPECT_EQ(expr->bits, row.bits) << row.text;
  }
}

TEST(Lexer, refuses_numbers_past_their_limits) {
  constexpr Wrong kRows[] = {
      {"let x = @4294967296;", "4294967296 is too large for u32", ir::Rule::number_too_large},
      {"let x = @99999999999999999999999;", "too large for u32", ir::Rule::number_too_large},
      {"let x = @0x100000000;", "0x100000000 is too large for u32", ir::Rule::number_too_large},
      {"let x = @2147483648i;", "2147483648i is too large for i32", ir::Rule::number_too_large},
      {"let x = -@2147483648i;", "too large for i32", ir::Rule::number_too_large},
      {"let x = @0x80000000i;", "too large for i32", ir::Rule::number_too_large},
      {"let x = @3.5e38;", "3.5e38 is too large for f32", ir::Rule::number_too_large},
      {"let x = @340282366920938463463374607431768211456.0;", "too large for f32",
       ir::Rule::number_too_large},
      {"let x = @1.0e999999999999;", "too large for f32", ir::Rule::number_too_large},
  };
  expect_syntax_errors(kRows);
}

TEST(Lexer, refuses_what_only_begins_like_a_number) {
  constexpr Wrong kRows[] = {
      {"let x = @0x;", "is not a number", ir::Rule::bad_number},
      {"let x = @0xg;", "is not a number", ir::Rule::bad_number},
      {"let x = @7u;", "'7u' is not a number", ir::Rule::bad_number},
      {"let x = @7ii;", "is not a number", ir::Rule::bad_number},
      {"let x = @1.5i;", "is not a number", ir::Rule::bad_number},
      {"let x = @1.5e;", "is not a number", ir::Rule::bad_number},
      {"let x = @1.5e+;", "is not a number", ir::Rule::bad_number},
      {"let x = @1e5;", "is not a number", ir::Rule::bad_number},
      {"let x = @1.5f;", "is not a number", ir::Rule::bad_number},
      {"let x = @12ab;", "is not a number", ir::Rule::bad_number},
      {"let x = @1_000;", "is not a number", ir::Rule::bad_number},
      {"let x = 1@.;", "'.' is not part of the language", ir::Rule::unknown_character},
      {"let x = @.5;", "'.' is not part of the language", ir::Rule::unknown_character},
  };
  expect_syntax_errors(kRows);
}

TEST(Lexer, a_message_about_a_number_holds_no_foreign_bytes) {
  for (const std::string_view text : {std::string_view("0x"), std::string_view("0x\0", 3),
                                      std::string_view("0x\xFF"), std::string_view("0x\n")}) {
    const auto program = ir::parse("handler h = " + std::string(text));
    ASSERT_FALSE(program.has_value());
    for (const char c : program.error().message) {
      EXPECT_TRUE(c >= 0x20 && c < 0x7F) << "byte " << static_cast<int>(c);
    }
  }
}

TEST(Lexer, a_range_is_not_a_fraction) {
  for (const std::string_view range : {"0..9", "0 .. 9", "0.. 9", "0 ..9", "0..0x9", "0..n"}) {
    const auto program = ir::parse(in_handler("let n = 9; for i in " + std::string(range) + " {}"));
    EXPECT_TRUE(program.has_value()) << range << ": " << program.error().message;
  }
  expect_accepted(in_handler("let x = 0.5 + 1.0;"));
  // Two fractions around a range lex, and fail only because loops count in integers.
  expect_refused(in_handler("for i in @0.5..1.5 {}"), "counts in u32 or i32, not in f32");
  expect_syntax_error(in_handler("for i in 0..@.5 {}"), "'.' is not part of the language");
}

TEST(Lexer, skips_blanks_and_comments) {
  constexpr std::string_view kBodies[] = {
      "// nothing",
      "/* nothing */",
      "/**/",
      "/***/",
      "/* // */",
      "// /* \n",
      "/* a * / b */",
      "/* /* looks nested */",
      "let/**/a/* */=/*\n\n*/1//\n;",
      "\t\r\n let\ta =\r\n 1 ;",
  };
  for (const std::string_view body : kBodies) expect_accepted(in_handler(body));
  EXPECT_TRUE(check_text("handler h = 64 {} // no line end").has_value());
  EXPECT_TRUE(check_text("/* first */ handler h = 64 {} /* last */").has_value());
}

TEST(Lexer, comments_do_not_nest_and_must_end) {
  expect_syntax_error(in_handler("/* /* */ @*/"), "expected a statement, found '*'");
  expect_syntax_error("handler h = 64 {} @/* for ever", "this comment is not closed");
  expect_syntax_error("\n\n  @/*", "this comment is not closed");
  expect_syntax_error("@/*/", "this comment is not closed");
  expect_syntax_error("handler h = 64 {\n  let a = 1; @/* *\n/ }", "this comment is not closed");
}

TEST(Lexer, counts_lines_after_comments_of_several_lines) {
  expect_syntax_error("/* one\n two\n three */ @x", "expected 'handler' or 'payload', found 'x'");
  expect_syntax_error("// one\n// two\r\n@x", "found 'x'");
}

TEST(Lexer, columns_count_bytes) {
  const auto tabs = ir::parse("\t\tx");
  ASSERT_FALSE(tabs.has_value());
  EXPECT_TRUE(tabs.error().message.starts_with("1:3: ")) << tabs.error().message;
  // Two letters of two bytes each inside a comment.
  const auto umlauts = ir::parse("/*\xC3\xBC\xC3\x9F*/x");
  ASSERT_FALSE(umlauts.has_value());
  EXPECT_TRUE(umlauts.error().message.starts_with("1:9: ")) << umlauts.error().message;
  const auto carriage_return = ir::parse("\r\r\n\rx");
  ASSERT_FALSE(carriage_return.has_value());
  EXPECT_TRUE(carriage_return.error().message.starts_with("2:2: "));
}

TEST(Lexer, names_bytes_that_mean_nothing) {
  struct Row {
    std::string_view text, place, fragment;
  };
  constexpr Row kRows[] = {
      {{"\0", 1}, "1:1:", "byte 0x00 is not part of the language"},
      {{"handler h\0 = 64 {}", 19}, "1:10:", "byte 0x00 is not part of the language"},
      {{"//\0\nx", 5}, "2:1:", "found 'x'"},  // a comment may hold any bytes
      {"\xEF\xBB\xBFhandler", "1:1:", "the invisible character U+FEFF is not part"},
      {"handler h\xC3\xBC = 64 {}", "1:10:", "'\xC3\xBC' is not part of the language"},
      {"handler h = 64 { @ }", "1:18:", "'@' is not part of the language"},
      {"handler h = 64 { let a = 'x'; }", "1:26:", "''' is not part of the language"},
      {"handler h = 64 { let a = 1 ? 2 : 3; }", "1:28:", "'?' is not part of the language"},
      {"\x7F", "1:1:", "byte 0x7f is not part of the language"},
      {"\x1B[0m", "1:1:", "byte 0x1b is not part of the language"},
      {"handler h = 64 { a.b = 1; }", "1:19:", "'.' is not part of the language"},
  };
  for (const Row& row : kRows) {
    SCOPED_TRACE(std::string(row.text));
    const auto program = ir::parse(row.text);
    ASSERT_FALSE(program.has_value());
    expect_error(program.error(), row.place, row.fragment);
  }
}

TEST(Lexer, takes_the_longest_sign) {
  // `a<<b` is one shift, `a< <b` is not; `a<=b` is no assignment.
  EXPECT_TRUE(ir::parse(in_handler("let x = a<<b>>c; let y = a<=b; let z = a>=b;")).has_value());
  EXPECT_TRUE(ir::parse(in_handler("let x = a&&b||c&d|e; let y = a==b!=!c;")).has_value());
  expect_syntax_error(in_handler("let x = a< @<b;"), "expected a value, found '<'");
  expect_syntax_error(in_handler("let x = a@= =b;"), "expected ';', found '='");
}

TEST(Lexer, long_tokens_are_shown_cut) {
  const std::string word(100'000, 'a');
  const auto program = ir::parse(word);
  ASSERT_FALSE(program.has_value());
  expect_error(program.error(), "1:1:", "found 'aaaa");
  EXPECT_LT(program.error().message.size(), 200u);
}

TEST(Lexer, long_names_are_names) {
  const std::string name(50'000, 'n');
  expect_accepted("handler " + name + " = 64 { let v = 1; }");
}

TEST(Lexer, a_message_about_a_long_number_is_short) {
  for (const std::string& number : {std::string(100'000, '9'), std::string(100'000, '9') + "x"}) {
    const auto program = ir::parse(in_handler("let x = " + number + ";"));
    ASSERT_FALSE(program.has_value());
    expect_error(program.error(), "2:9:", "99");
    EXPECT_LT(program.error().message.size(), 200u);
  }
}

TEST(Lexer, leading_zeros_of_any_length_are_read) {
  const auto expr = literal(std::string(100'000, '0') + "7");
  ASSERT_TRUE(expr.has_value()) << expr.error().message;
  EXPECT_EQ(expr->bits, 7u);
}

}  // namespace
}  // namespace everkernel::test
