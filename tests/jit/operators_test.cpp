// Every operator, function and conversion: native code equals the interpreter on all tuples of edge
// operands, and both give the results of the rows that define the language.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <span>
#include <string>
#include <vector>

#include "skip.hpp"
#include "support/jit_trial.hpp"

namespace everkernel::test {
namespace {

// The words of the operands: an edge value of one type is an ordinary value of the others, so one
// list serves all types.
constexpr Word kEdgeWords[] = {
    0u,          1u,          2u,          3u,          7u,          31u,         32u,
    33u,         255u,        0x7FFFFFFEu, 0x7FFFFFFFu, 0x80000000u, 0x80000001u, 0xFFFFFFFEu,
    0xFFFFFFFFu, 0x00FFFFFFu, 0x01000000u, 0x01000001u,  // 16777217 has no f32
    0x3F800000u, 0xBF800000u,                            // ±1
    0x3F000000u, 0xBF000000u, 0x3FC00000u,               // ±0.5, 1.5
    0x40200000u, 0xC0200000u,                            // ±2.5
    0x4B7FFFFFu,                                         // 16777215
    0x4B000001u,                                         // 8388609
    0x4AFFFFFFu,                                         // 8388607.5
    0x4F000000u, 0x4EFFFFFFu, 0xCF000000u, 0xCF000001u,  // 2^31, just below, −2^31, beyond
    0x4F800000u, 0x4F7FFFFFu, 0xCF800000u,               // 2^32, just below, −2^32
    0x3EAAAAABu, 0x40490FDBu, 0xC2F6E979u,               // 1/3, π, −123.456
    0x00000001u, 0x807FFFFFu, 0x00800000u, 0x80800000u,  // denormals, the smallest normals
    0x7F7FFFFFu, 0xFF7FFFFFu, 0x7F800000u, 0xFF800000u,  // the largest, infinities
    0x7FC00000u, 0xFFC00000u, 0x7FC12345u,               // quiet NaNs
    0x7F800001u, 0xFFA00000u,                            // signalling NaNs
    0x34000000u, 0x33800000u,                            // 2^−23, 2^−24
};
// Fewer, for operators with three operands.
constexpr Word kFewWords[] = {
    0u,          1u,          0x80000000u, 0x3F800000u, 0xBF800000u, 0x3F800001u,
    0x7F800000u, 0xFF800000u, 0x7FC00000u, 0x7F800001u, 0x007FFFFFu, 0x7F7FFFFFu,
    0x3EAAAAABu, 0x4B800001u, 0x00800000u, 0xFFFFFFFFu, 0x33800000u, 0xC0490FDBu,
};

// In the expressions: x, y, z are the words as u32; p, q, r as i32; f, g, h as f32; s, t, v as
// bool.
constexpr std::string_view kExpressions[] = {
    // u32
    "x * y",
    "x / y",
    "x % y",
    "x + y",
    "x - y",
    "x << y",
    "x >> y",
    "x & y",
    "x ^ y",
    "x | y",
    "u32(x < y)",
    "u32(x <= y)",
    "u32(x > y)",
    "u32(x >= y)",
    "u32(x == y)",
    "u32(x != y)",
    "-x",
    "~x",
    // i32
    "u32(p * q)",
    "u32(p / q)",
    "u32(p % q)",
    "u32(p + q)",
    "u32(p - q)",
    "u32(p << y)",
    "u32(p >> y)",
    "u32(p & q)",
    "u32(p ^ q)",
    "u32(p | q)",
    "u32(p < q)",
    "u32(p <= q)",
    "u32(p > q)",
    "u32(p >= q)",
    "u32(p == q)",
    "u32(p != q)",
    "u32(-p)",
    "u32(~p)",
    // f32
    "bits_u32(f * g)",
    "bits_u32(f / g)",
    "bits_u32(f + g)",
    "bits_u32(f - g)",
    "u32(f < g)",
    "u32(f <= g)",
    "u32(f > g)",
    "u32(f >= g)",
    "u32(f == g)",
    "u32(f != g)",
    "bits_u32(-f)",
    // bool
    "u32(s == t)",
    "u32(s != t)",
    "u32(s && t)",
    "u32(s || t)",
    "u32(!s)",
    // functions
    "min(x, y)",
    "max(x, y)",
    "abs(x)",
    "u32(min(p, q))",
    "u32(max(p, q))",
    "u32(abs(p))",
    "bits_u32(min(f, g))",
    "bits_u32(max(f, g))",
    "bits_u32(abs(f))",
    "clz(x)",
    "popcount(x)",
    "rotl(x, y)",
    "bits_u32(sqrt(f))",
    "bits_u32(floor(f))",
    "bits_u32(exp(f))",
    "bits_u32(log(f))",
    "bits_u32(exp2(f))",
    "bits_u32(log2(f))",
    "bits_u32(sin(f))",
    "bits_u32(cos(f))",
    "bits_u32(tanh(f))",
    "bits_u32(pow(f, g))",
    // conversions
    "u32(x)",
    "u32(p)",
    "u32(f)",
    "u32(s)",
    "u32(i32(x))",
    "u32(i32(p))",
    "u32(i32(f))",
    "bits_u32(f32(x))",
    "bits_u32(f32(p))",
    "bits_u32(f32(f))",
    "bits_u32(x)",
    "bits_u32(p)",
    "bits_u32(f)",
    "u32(bits_i32(x))",
    "u32(bits_i32(p))",
    "u32(bits_i32(f))",
    "bits_u32(bits_f32(x))",
    "bits_u32(bits_f32(p))",
    "bits_u32(bits_f32(f))",
};
constexpr std::string_view kTernaryExpressions[] = {
    "bits_u32(fma(f, g, h))", "bits_u32(f * g + h)",         "select(s, y, z)",
    "u32(select(s, q, r))",   "bits_u32(select(s, g, h))",   "u32(select(s, t, v))",
    "bits_u32(f - g * h)",    "bits_u32(max(min(f, g), h))", "clamp(x, y, z)",
    "u32(clamp(p, q, r))",    "bits_u32(clamp(f, g, h))",
};

constexpr std::string_view kPair =
    "let p = i32(x); let q = i32(y); let f = bits_f32(x); let g = bits_f32(y); "
    "let s = (x & 1) != 0; let t = (y & 1) != 0; ";
constexpr std::string_view kThird = "let r = i32(z); let h = bits_f32(z); let v = (z & 1) != 0; ";

// One handler a statement. The operands lie one array behind the other, so that the loop
// vectorises where memory is exclusive and stays scalar where it is shared: both are checked.
std::string handler_text(std::size_t index, std::string_view statement, std::size_t operands) {
  const std::string third =
      operands == 3 ? fmt::format("let z = input[i + n + n]; {}", kThird) : "";
  return fmt::format(
      "handler op_{} = {} {{ let n = len(output); for i in 0 .. n {{ let x = input[i]; "
      "let y = input[i + n]; {} {} {} }} }}\n",
      index, 1000 + index, kPair, third, statement);
}

FrameSpec frame_of(const std::vector<Word>& input, std::size_t output_words) {
  FrameSpec spec;
  spec.args[0] = 1;
  spec.args[1] = 2;
  spec.fuel = 100'000;
  spec.buffers.push_back({.handle = 1, .words = input, .access = memory::Access::read});
  spec.buffers.push_back({.handle = 2,
                          .words = std::vector<Word>(output_words, 0xDEADBEEFu),
                          .access = memory::Access::write});
  return spec;
}

// Statements store to `output[i]`.
void expect_statements_agree(std::span<const std::string> statements,
                             const std::vector<Word>& input, std::size_t operands) {
  std::string text;
  for (std::size_t i = 0; i < statements.size(); ++i) {
    text += handler_text(i, statements[i], operands);
  }
  const Trial trial = Trial::from_text(text);
  const std::size_t count = input.size() / operands;
  for (const Edge edge : {Edge::end, Edge::start}) {
    FrameSpec spec = frame_of(input, count);
    for (BufferSpec& buffer : spec.buffers) buffer.edge = edge;
    for (std::size_t i = 0; i < statements.size(); ++i) {
      const auto compared = trial.run(i, spec);
      EXPECT_EQ(compared.interpreted.outcome, ir::Outcome{}) << statements[i];
      EXPECT_EQ(compared.difference, "") << statements[i];
    }
  }
}
template <class Expressions>
void expect_all_agree(const Expressions& expressions, const std::vector<Word>& input,
                      std::size_t operands) {
  std::vector<std::string> statements;
  for (const std::string_view expression : expressions) {
    statements.push_back(fmt::format("output[i] = {};", expression));
  }
  expect_statements_agree(statements, input, operands);
}

// The operands of each position one after the other.
std::vector<Word> every_pair() {
  std::vector<Word> first, second;
  for (const Word x : kEdgeWords) {
    for (const Word y : kEdgeWords) {
      first.push_back(x);
      second.push_back(y);
    }
  }
  first.insert(first.end(), second.begin(), second.end());
  return first;
}
std::vector<Word> every_triple() {
  std::vector<Word> operands[3];
  for (const Word x : kFewWords) {
    for (const Word y : kFewWords) {
      for (const Word z : kFewWords) {
        operands[0].push_back(x);
        operands[1].push_back(y);
        operands[2].push_back(z);
      }
    }
  }
  std::vector<Word> input;
  for (const auto& column : operands) input.insert(input.end(), column.begin(), column.end());
  return input;
}

TEST(Operators, native_code_agrees_on_every_pair_of_edge_operands) {
  EVERKERNEL_NEEDS_SUBJECT();
  expect_all_agree(kExpressions, every_pair(), 2);
}

TEST(Operators, native_code_agrees_on_every_triple_of_edge_operands) {
  EVERKERNEL_NEEDS_SUBJECT();
  expect_all_agree(kTernaryExpressions, every_triple(), 3);
}

// Of a handler with many calls, only some become part of its code.
TEST(Operators, native_code_agrees_on_many_functions_of_numbers) {
  EVERKERNEL_NEEDS_SUBJECT();
  std::string sum = "h";
  for (int i = 0; i < 3; ++i) {
    for (const std::string_view function : {"exp", "log", "exp2", "log2", "sin", "cos", "tanh"}) {
      sum = fmt::format("fma({}(f * {}.5), g, {})", function, i, sum);
    }
    sum = fmt::format("pow(f, {}) + {}", i == 0 ? "g" : "h", sum);
  }
  expect_all_agree(std::vector<std::string>{fmt::format("bits_u32({})", sum)}, every_triple(), 3);
}

// Compilers recognise a minimum, an extreme of three numbers and a magnitude in many spellings and
// use one instruction for each. They have compiled some of them wrongly where a negation comes
// before.
std::string lesser(std::string_view a, std::string_view b) {
  return fmt::format("select({0} < {1}, {0}, {1})", a, b);
}
std::string greater(std::string_view a, std::string_view b) {
  return fmt::format("select({0} > {1}, {0}, {1})", a, b);
}

// Extremes of three numbers, the first of which is a sum.
std::vector<std::string> extremes_of(std::span<const std::string_view> sums, std::string_view b,
                                     std::string_view c) {
  std::vector<std::string> expressions;
  for (const std::string_view sum : sums) {
    for (const auto extreme : {lesser, greater}) {
      expressions.push_back(extreme(extreme(sum, b), c));
      expressions.push_back(extreme(extreme(b, sum), c));
      expressions.push_back(extreme(extreme(b, c), sum));
    }
    expressions.push_back(greater(lesser(sum, b), c));
  }
  return expressions;
}

TEST(Operators, native_code_agrees_on_signed_extremes_of_three) {
  EVERKERNEL_NEEDS_SUBJECT();
  constexpr std::string_view kSums[] = {"(-p)", "(p * -1i)", "(1i - p)"};
  std::vector<std::string> expressions = extremes_of(kSums, "q", "r");
  for (std::string& expression : expressions) expression = fmt::format("u32({})", expression);
  expect_all_agree(expressions, every_triple(), 3);
}

TEST(Operators, native_code_agrees_on_unsigned_extremes_of_three) {
  EVERKERNEL_NEEDS_SUBJECT();
  constexpr std::string_view kSums[] = {"(x * 0xffffffff)", "(1 - x)"};
  expect_all_agree(extremes_of(kSums, "y", "z"), every_triple(), 3);
}

TEST(Operators, native_code_agrees_on_magnitudes) {
  EVERKERNEL_NEEDS_SUBJECT();
  std::vector<std::string> expressions;
  for (const std::string_view magnitude :
       {"abs(p)", "select(p < 0i, -p, p)", "select(p < 0i, p * -1i, p)",
        "select(p < 0i, ~p + 1i, p)", "((p + (p >> 31)) ^ (p >> 31))",
        "(p * select(p < 0i, -1i, 1i))"}) {
    expressions.push_back(fmt::format("u32(min({}, 0i))", magnitude));
    expressions.push_back(fmt::format("u32({} < 0i)", magnitude));
    expressions.push_back(fmt::format("u32({})", lesser(magnitude, "q")));
  }
  expect_all_agree(expressions, every_pair(), 2);
}

// Compilers have lost the sign of a zero in choices like these.
TEST(Operators, native_code_agrees_on_choices_of_floats) {
  EVERKERNEL_NEEDS_SUBJECT();
  std::vector<std::string> statements;
  for (const std::string_view choice :
       {"select(f < 0.0, f, 0.0)", "select(f > -0.0, f, -0.0)", "select(f < g, f, g)",
        "select(f >= g, f, g)", "select(!(f < g), f, g)", "select(s, -0.0, 1.0)",
        "select(s, f, -0.0)", "min(f, -0.0)", "max(-0.0, f)", "min(f, 0.0)", "max(0.0, f)"}) {
    statements.push_back(fmt::format("output[i] = bits_u32({});", choice));
  }
  for (const std::string_view branches :
       {"var v = -0.0; if s { v = 1.0; }", "var v = 1.0; if s { v = -0.0; }",
        "var v = f; if g < v { v = g; }", "var v = -f; if v < 0.0 { v = 0.0; } if t { v = g; }",
        "var v = 0.0; if s { if t { v = -0.0; } else { v = f; } }",
        "var v = g; while v < f { v = f; }"}) {
    statements.push_back(fmt::format("{} output[i] = bits_u32(v);", branches));
  }
  statements.push_back("if f < g { output[i] = bits_u32(f); } else { output[i] = bits_u32(g); }");
  statements.push_back("if s { output[i] = bits_u32(-0.0); } else { output[i] = bits_u32(1.0); }");
  expect_statements_agree(statements, every_pair(), 2);
}

// LLVM 19 miscompiles magnitudes next to zero: it reduces min(abs(f), 0.0) to `f > 0.0`.
TEST(Operators, native_code_agrees_on_magnitudes_next_to_zero) {
  EVERKERNEL_NEEDS_SUBJECT();
  std::vector<std::string> statements;
  for (const std::string_view magnitude :
       {"abs(f)", "(-abs(f))", "abs(-f)", "bits_f32(bits_u32(f) & 0x7fffffff)",
        "select(f <= 0.0, 0.0 - f, f)", "select(f < 0.0, -f, f)", "max(f, -f)"}) {
    for (const std::string_view zero : {"0.0", "(-0.0)"}) {
      for (const std::string_view value :
           {"min({1}, {0})", "max({0}, {1})", "select({0} > {1}, {1}, {0})",
            "select(f == {1}, {1}, select({0} > {1}, {1}, {0}))",
            "select(f > {1}, {1}, select({0} > {1}, {0}, {1}))",
            "select({0} < {1} || {0} != {0}, {1}, select({0} > {1}, {1}, {0}))"}) {
        const std::string filled = fmt::format(fmt::runtime(value), magnitude, zero);
        statements.push_back(fmt::format("output[i] = bits_u32({});", filled));
      }
      statements.push_back(fmt::format(
          "var v = {0}; if v > {1} {{ v = {1}; }} if f >= {1} {{ v = {1}; }} if !(f == f) {{ v = "
          "{1}; }} output[i] = bits_u32(v);",
          magnitude, zero));
    }
  }
  expect_statements_agree(statements, every_pair(), 2);
}

// Division, shifts and float arithmetic by a constant are other instructions than by a variable.
TEST(Operators, native_code_agrees_when_one_operand_is_a_constant) {
  EVERKERNEL_NEEDS_SUBJECT();
  constexpr std::string_view kConstants[] = {"0",          "1",          "2",         "3",  "7",
                                             "8",          "10",         "31",        "32", "33",
                                             "0x7fffffff", "0x80000000", "0xffffffff"};
  constexpr std::string_view kFloats[] = {"0.0",
                                          "(-0.0)",
                                          "1.0",
                                          "(-1.0)",
                                          "2.0",
                                          "3.0",
                                          "0.1",
                                          "bits_f32(0x7fc00000)",
                                          "bits_f32(0x7f800000)",
                                          "bits_f32(1)",
                                          "2147483648.0"};
  constexpr std::string_view kSigns[] = {"*", "/", "%", "+", "-", "<<", ">>", "&"};
  constexpr std::string_view kFloatSigns[] = {"*", "/", "+", "-"};
  std::string text;
  std::size_t index = 0;
  const auto add = [&](const std::vector<std::string>& values) {
    std::string stores;
    for (std::size_t k = 0; k < values.size(); ++k) {
      stores += fmt::format("output[i * {} + {}] = {}; ", values.size(), k, values[k]);
    }
    text += fmt::format(
        "handler op_{} = {} {{ for i in 0 .. len(input) {{ let x = input[i]; let p = i32(x); "
        "let f = bits_f32(x); {} }} }}\n",
        index, 1000 + index, stores);
    ++index;
  };
  for (const std::string_view constant : kConstants) {
    std::vector<std::string> right, left;
    for (const std::string_view sign : kSigns) {
      const bool is_shift = sign == "<<" || sign == ">>";
      right.push_back(fmt::format("x {} {}", sign, constant));
      left.push_back(fmt::format("{} {} x", constant, sign));
      right.push_back(is_shift ? fmt::format("u32(p {} {})", sign, constant)
                               : fmt::format("u32(p {} i32({}))", sign, constant));
      left.push_back(fmt::format("u32(i32({}) {} {})", constant, sign, is_shift ? "x" : "p"));
    }
    add(right);
    add(left);
  }
  for (const std::string_view constant : kFloats) {
    std::vector<std::string> values;
    for (const std::string_view sign : kFloatSigns) {
      values.push_back(fmt::format("bits_u32(f {} {})", sign, constant));
      values.push_back(fmt::format("bits_u32({} {} f)", constant, sign));
    }
    for (const std::string_view name : {"min", "max"}) {
      values.push_back(fmt::format("bits_u32({}(f, {}))", name, constant));
      values.push_back(fmt::format("bits_u32({}({}, f))", name, constant));
    }
    add(values);
  }
  const Trial trial = Trial::from_text(text);
  const std::vector<Word> input(std::begin(kEdgeWords), std::end(kEdgeWords));
  for (std::size_t i = 0; i < index; ++i) {
    const std::size_t width = i < 2 * std::size(kConstants) ? 16 : 12;
    const auto compared = trial.run(i, frame_of(input, input.size() * width));
    EXPECT_EQ(compared.interpreted.outcome, ir::Outcome{});
    EXPECT_EQ(compared.difference, "") << "handler op_" << i;
  }
}

// The rows that define the language, typed by hand from the specification and IEEE 754.
struct Row {
  std::string_view expression;
  Word x, y, z;
  Word expected;
};
constexpr Word kNan = 0x7FC00000u;
constexpr Word kMinimum = 0x80000000u;
constexpr Word kMinusOne = 0xFFFFFFFFu;
constexpr Word kInfinity = 0x7F800000u;
constexpr Word kMinusInfinity = 0xFF800000u;
constexpr Row kRows[] = {
    // Integers wrap.
    {"x + y", kMinusOne, 2, 0, 1},
    {"x - y", 0, 1, 0, kMinusOne},
    {"x * y", 0x10000u, 0x10001u, 0, 0x10000u},
    {"-x", 1, 0, 0, kMinusOne},
    {"u32(p + q)", 0x7FFFFFFFu, 1, 0, kMinimum},
    {"u32(p * q)", kMinimum, kMinusOne, 0, kMinimum},
    {"u32(-p)", kMinimum, 0, 0, kMinimum},
    {"u32(~p)", 0, 0, 0, kMinusOne},
    // Division.
    {"x / y", 7, 0, 0, 7},
    {"x % y", 7, 0, 0, 0},
    {"x / y", kMinusOne, 2, 0, 0x7FFFFFFFu},
    {"x % y", 7, 4, 0, 3},
    {"u32(p / q)", kMinimum, kMinusOne, 0, kMinimum},
    {"u32(p % q)", kMinimum, kMinusOne, 0, 0},
    {"u32(p / q)", kMinimum, 0, 0, kMinimum},
    {"u32(p % q)", kMinusOne, 0, 0, 0},
    {"u32(p / q)", 0xFFFFFFF9u, 2, 0, 0xFFFFFFFDu},  // −7 / 2 is −3
    {"u32(p % q)", 0xFFFFFFF9u, 2, 0, kMinusOne},    // −7 % 2 is −1
    {"u32(p % q)", 7, 0xFFFFFFFEu, 0, 1},
    // Shift counts are taken modulo 32.
    {"x << y", 1, 31, 0, kMinimum},
    {"x << y", 1, 32, 0, 1},
    {"x << y", 1, 33, 0, 2},
    {"x << y", 5, 0xFFFFFFE0u, 0, 5},
    {"x >> y", kMinimum, 32, 0, kMinimum},
    {"x >> y", kMinimum, 63, 0, 1},
    {"u32(p >> y)", kMinimum, 31, 0, kMinusOne},
    {"u32(p >> y)", kMinimum, 32, 0, kMinimum},
    {"u32(p >> y)", kMinimum, 33, 0, 0xC0000000u},
    {"u32(p << y)", kMinusOne, 36, 0, 0xFFFFFFF0u},
    // Signed and unsigned order.
    {"u32(x < y)", kMinimum, 1, 0, 0},
    {"u32(p < q)", kMinimum, 1, 0, 1},
    {"min(x, y)", kMinimum, 1, 0, 1},
    {"u32(min(p, q))", kMinimum, 1, 0, kMinimum},
    {"u32(max(p, q))", kMinimum, kMinusOne, 0, kMinusOne},
    // Functions on integers.
    {"clz(x)", 0, 0, 0, 32},
    {"clz(x)", 1, 0, 0, 31},
    {"clz(x)", kMinimum, 0, 0, 0},
    {"popcount(x)", kMinusOne, 0, 0, 32},
    {"popcount(x)", 0, 0, 0, 0},
    {"rotl(x, y)", 0x80000001u, 1, 0, 3},
    {"rotl(x, y)", 0x80000001u, 32, 0, 0x80000001u},
    {"rotl(x, y)", 0x80000001u, 33, 0, 3},
    {"rotl(x, y)", 0x12345678u, 0, 0, 0x12345678u},
    {"u32(abs(p))", kMinimum, 0, 0, kMinimum},
    {"u32(abs(p))", kMinusOne, 0, 0, 1},
    {"abs(x)", kMinimum, 0, 0, kMinimum},
    {"select(s, y, z)", 1, 10, 20, 10},
    {"select(s, y, z)", 0, 10, 20, 20},
    // f32 to integer truncates and saturates, NaN gives 0.
    {"u32(f)", 0x3F7FFFFFu, 0, 0, 0},            // just below 1
    {"u32(f)", 0x40200000u, 0, 0, 2},            // 2.5
    {"u32(f)", 0xBF800000u, 0, 0, 0},            // −1
    {"u32(f)", 0x4F000000u, 0, 0, kMinimum},     // 2^31
    {"u32(f)", 0x4F7FFFFFu, 0, 0, 0xFFFFFF00u},  // just below 2^32
    {"u32(f)", 0x4F800000u, 0, 0, kMinusOne},    // 2^32
    {"u32(f)", 0x7F800000u, 0, 0, kMinusOne},
    {"u32(f)", 0xFF800000u, 0, 0, 0},
    {"u32(f)", kNan, 0, 0, 0},
    {"u32(i32(f))", 0xC0200000u, 0, 0, 0xFFFFFFFEu},  // −2.5
    {"u32(i32(f))", 0x4EFFFFFFu, 0, 0, 0x7FFFFF80u},
    {"u32(i32(f))", 0x4F000000u, 0, 0, 0x7FFFFFFFu},
    {"u32(i32(f))", 0xCF000000u, 0, 0, kMinimum},
    {"u32(i32(f))", 0xCF000001u, 0, 0, kMinimum},
    {"u32(i32(f))", 0xFF800000u, 0, 0, kMinimum},
    {"u32(i32(f))", 0xFFC00000u, 0, 0, 0},
    {"u32(i32(f))", 0x7F800001u, 0, 0, 0},
    // Integer to f32 rounds to nearest even.
    {"bits_u32(f32(x))", 16777217u, 0, 0, 0x4B800000u},
    {"bits_u32(f32(x))", 16777219u, 0, 0, 0x4B800002u},
    {"bits_u32(f32(x))", kMinusOne, 0, 0, 0x4F800000u},
    {"bits_u32(f32(p))", kMinusOne, 0, 0, 0xBF800000u},
    {"bits_u32(f32(p))", kMinimum, 0, 0, 0xCF000000u},
    {"u32(s)", 1, 0, 0, 1},
    {"u32(s)", 2, 0, 0, 0},
    // Bits are kept, but a NaN is always the same one.
    {"u32(i32(x))", kMinusOne, 0, 0, kMinusOne},
    {"bits_u32(f)", kMinimum, 0, 0, kMinimum},
    {"bits_u32(f)", 0x00000001u, 0, 0, 1},
    {"bits_u32(f)", 0x7F800001u, 0, 0, kNan},
    {"bits_u32(f)", 0xFFC12345u, 0, 0, kNan},
    {"u32(bits_i32(f))", kMinusOne, 0, 0, kNan},
    {"bits_u32(f32(f))", 0xFFC00000u, 0, 0, kNan},
    {"bits_u32(-f)", kNan, 0, 0, kNan},
    {"bits_u32(abs(f))", 0xFFC00001u, 0, 0, kNan},
    {"bits_u32(f - g)", 0x7F800000u, 0x7F800000u, 0, kNan},
    {"bits_u32(f / g)", 0, 0, 0, kNan},
    {"bits_u32(f * g)", 0x7F800000u, 0, 0, kNan},
    // IEEE 754: signed zeros, infinities, denormals, rounding.
    {"bits_u32(f / g)", 0x3F800000u, kMinimum, 0, 0xFF800000u},
    {"bits_u32(f + g)", kMinimum, kMinimum, 0, kMinimum},
    {"bits_u32(f + g)", kMinimum, 0, 0, 0},
    {"bits_u32(f - g)", 0, 0, 0, 0},
    {"bits_u32(-f)", 0, 0, 0, kMinimum},
    {"bits_u32(f * g)", 0x00800000u, 0x3F000000u, 0, 0x00400000u},  // a denormal is kept
    {"bits_u32(f + g)", 0x00000001u, 0x00000001u, 0, 2},
    {"bits_u32(f / g)", 0x00000001u, 0x40000000u, 0, 0},  // a tie goes to even
    {"bits_u32(f / g)", 0x00000003u, 0x40000000u, 0, 2},
    {"bits_u32(f + g)", 0x3F800000u, 0x33800000u, 0, 0x3F800000u},  // 1 + 2^−24: to even
    {"bits_u32(f + g)", 0x3F800001u, 0x33800000u, 0, 0x3F800002u},
    {"bits_u32(f * g)", 0x7F7FFFFFu, 0x40000000u, 0, 0x7F800000u},
    {"bits_u32(f / g)", 0x3F800000u, 0x40400000u, 0, 0x3EAAAAABu},  // 1 / 3
    {"bits_u32(abs(f))", kMinimum, 0, 0, 0},
    // Comparisons with NaN are false, != is true.
    {"u32(f < g)", kNan, 0, 0, 0},
    {"u32(f <= g)", kNan, kNan, 0, 0},
    {"u32(f > g)", 0, kNan, 0, 0},
    {"u32(f >= g)", kNan, 0, 0, 0},
    {"u32(f == g)", kNan, kNan, 0, 0},
    {"u32(f != g)", kNan, kNan, 0, 1},
    {"u32(f != g)", 0x7F800001u, 0, 0, 1},
    {"u32(!(f < g))", kNan, 0, 0, 1},
    {"u32(f == g)", 0, kMinimum, 0, 1},
    {"u32(f < g)", kMinimum, 0, 0, 0},
    // min and max return the other operand of a NaN and order −0 below +0.
    {"bits_u32(min(f, g))", kMinimum, 0, 0, kMinimum},
    {"bits_u32(min(f, g))", 0, kMinimum, 0, kMinimum},
    {"bits_u32(max(f, g))", kMinimum, 0, 0, 0},
    {"bits_u32(max(f, g))", 0, kMinimum, 0, 0},
    {"bits_u32(min(f, g))", kNan, 0x3F800000u, 0, 0x3F800000u},
    {"bits_u32(min(f, g))", 0x3F800000u, 0xFFC00001u, 0, 0x3F800000u},
    {"bits_u32(max(f, g))", 0x7F800001u, 0xFF800000u, 0, 0xFF800000u},
    {"bits_u32(max(f, g))", 0xFF800000u, 0x7F800001u, 0, 0xFF800000u},
    {"bits_u32(max(f, g))", kNan, 0xFFC00000u, 0, kNan},
    {"bits_u32(min(f, g))", 0x3F800000u, 0x3F800001u, 0, 0x3F800000u},
    // Only fma fuses: (1 + 2^−23)² − (1 + 2^−22) is 2^−46, which a rounded product has lost.
    {"bits_u32(fma(f, g, h))", 0x3F800001u, 0x3F800001u, 0xBF800002u, 0x28800000u},
    {"bits_u32(f * g + h)", 0x3F800001u, 0x3F800001u, 0xBF800002u, 0},
    {"bits_u32(fma(f, g, h))", 0x7F800000u, 0, 0x3F800000u, kNan},
    {"bits_u32(fma(f, g, h))", 0x3F800000u, kMinimum, kMinimum, kMinimum},
    {"bits_u32(fma(f, g, h))", 0x7F7FFFFFu, 0x40000000u, 0xFF7FFFFFu, 0x7F7FFFFFu},
    // sqrt and floor.
    {"bits_u32(sqrt(f))", 0x40800000u, 0, 0, 0x40000000u},
    {"bits_u32(sqrt(f))", 0x40000000u, 0, 0, 0x3FB504F3u},
    {"bits_u32(sqrt(f))", kMinimum, 0, 0, kMinimum},
    {"bits_u32(sqrt(f))", 0xBF800000u, 0, 0, kNan},
    {"bits_u32(sqrt(f))", 0x7F800000u, 0, 0, 0x7F800000u},
    {"bits_u32(sqrt(f))", 0x00000001u, 0, 0, 0x1A3504F3u},   // of a denormal: 2^−74.5
    {"bits_u32(floor(f))", 0x3FC00000u, 0, 0, 0x3F800000u},  // 1.5
    {"bits_u32(floor(f))", 0xBF000000u, 0, 0, 0xBF800000u},  // −0.5
    {"bits_u32(floor(f))", kMinimum, 0, 0, kMinimum},
    {"bits_u32(floor(f))", 0x80000001u, 0, 0, 0xBF800000u},
    {"bits_u32(floor(f))", 0x4AFFFFFFu, 0, 0, 0x4AFFFFFEu},
    {"bits_u32(floor(f))", 0xFF800000u, 0, 0, 0xFF800000u},
    {"bits_u32(floor(f))", 0x7F800001u, 0, 0, kNan},
    // clamp is min(max(x, low), high).
    {"clamp(x, y, z)", 5, 7, 9, 7},
    {"clamp(x, y, z)", kMinusOne, 7, 9, 9},
    {"clamp(x, y, z)", 8, 7, 9, 8},
    {"clamp(x, y, z)", 8, 9, 7, 7},
    {"u32(clamp(p, q, r))", kMinusOne, kMinimum, 0, kMinusOne},
    {"u32(clamp(p, q, r))", kMinusOne, 0, 9, 0},
    {"bits_u32(clamp(f, g, h))", 0x40000000u, kMinimum, 0x3F800000u, 0x3F800000u},
    {"bits_u32(clamp(f, g, h))", kMinimum, 0, 0x3F800000u, 0},
    {"bits_u32(clamp(f, g, h))", kNan, 0x3F800000u, 0x40000000u, 0x3F800000u},
    {"bits_u32(clamp(f, g, h))", kNan, kNan, 0x40000000u, 0x40000000u},
    {"bits_u32(clamp(f, g, h))", 0x3F800000u, kNan, kNan, 0x3F800000u},
    // exp and exp2: exact where they can be, denormals, overflow.
    {"bits_u32(exp(f))", 0x3F800000u, 0, 0, 0x402DF854u},
    {"bits_u32(exp(f))", kMinimum, 0, 0, 0x3F800000u},
    {"bits_u32(exp(f))", 0x42B17217u, 0, 0, 0x7F7FFF84u},
    {"bits_u32(exp(f))", 0x42B17218u, 0, 0, kInfinity},
    {"bits_u32(exp(f))", 0xC2CFF1B4u, 0, 0, 1},
    {"bits_u32(exp(f))", 0xC2CFF1B5u, 0, 0, 0},
    {"bits_u32(exp(f))", kInfinity, 0, 0, kInfinity},
    {"bits_u32(exp(f))", kMinusInfinity, 0, 0, 0},
    {"bits_u32(exp(f))", 0xFF800001u, 0, 0, kNan},
    {"bits_u32(exp2(f))", 0x40A00000u, 0, 0, 0x42000000u},
    {"bits_u32(exp2(f))", 0x3F000000u, 0, 0, 0x3FB504F3u},
    {"bits_u32(exp2(f))", 0x42FE0000u, 0, 0, 0x7F000000u},
    {"bits_u32(exp2(f))", 0x43000000u, 0, 0, kInfinity},
    {"bits_u32(exp2(f))", 0xC3150000u, 0, 0, 1},
    {"bits_u32(exp2(f))", 0xC3160000u, 0, 0, 0},  // 2^-150: a tie goes to even
    {"bits_u32(exp2(f))", 0xC315FFFFu, 0, 0, 1},
    {"bits_u32(exp2(f))", kMinusInfinity, 0, 0, 0},
    {"bits_u32(exp2(f))", kNan, 0, 0, kNan},
    // log and log2: of 0, of negative numbers, of denormals.
    {"bits_u32(log(f))", 0x40000000u, 0, 0, 0x3F317218u},
    {"bits_u32(log(f))", 0x3F800000u, 0, 0, 0},
    {"bits_u32(log(f))", 0, 0, 0, kMinusInfinity},
    {"bits_u32(log(f))", kMinimum, 0, 0, kMinusInfinity},
    {"bits_u32(log(f))", 0x80000001u, 0, 0, kNan},
    {"bits_u32(log(f))", kMinusInfinity, 0, 0, kNan},
    {"bits_u32(log(f))", kInfinity, 0, 0, kInfinity},
    {"bits_u32(log(f))", 1, 0, 0, 0xC2CE8ED0u},  // -103.2789
    {"bits_u32(log2(f))", 0x41000000u, 0, 0, 0x40400000u},
    {"bits_u32(log2(f))", 1, 0, 0, 0xC3150000u},
    {"bits_u32(log2(f))", 0x3F800000u, 0, 0, 0},
    {"bits_u32(log2(f))", 0, 0, 0, kMinusInfinity},
    {"bits_u32(log2(f))", 0xBF800000u, 0, 0, kNan},
    {"bits_u32(log2(f))", 0xFFFFFFFFu, 0, 0, kNan},
    // sin and cos: NaN beyond 2^20.
    {"bits_u32(sin(f))", 0x3F800000u, 0, 0, 0x3F576AA4u},
    {"bits_u32(sin(f))", kMinimum, 0, 0, kMinimum},
    {"bits_u32(sin(f))", 0x80000001u, 0, 0, 0x80000001u},
    {"bits_u32(sin(f))", 0x40490FDBu, 0, 0, 0xB3BBBD2Eu},  // of the f32 next to pi
    {"bits_u32(sin(f))", 0x49800000u, 0, 0, 0x3EA93666u},
    {"bits_u32(sin(f))", 0xC9800001u, 0, 0, kNan},
    {"bits_u32(sin(f))", kInfinity, 0, 0, kNan},
    {"bits_u32(cos(f))", 0x3F800000u, 0, 0, 0x3F0A5140u},
    {"bits_u32(cos(f))", kMinimum, 0, 0, 0x3F800000u},
    {"bits_u32(cos(f))", 0xC0490FDBu, 0, 0, 0xBF800000u},
    {"bits_u32(cos(f))", 0x49800001u, 0, 0, kNan},
    {"bits_u32(cos(f))", kMinusInfinity, 0, 0, kNan},
    {"bits_u32(tanh(f))", 0x3F800000u, 0, 0, 0x3F42F7D6u},
    {"bits_u32(tanh(f))", 0x80000001u, 0, 0, 0x80000001u},
    {"bits_u32(tanh(f))", kMinusInfinity, 0, 0, 0xBF800000u},
    {"bits_u32(tanh(f))", 0x7F7FFFFFu, 0, 0, 0x3F800000u},
    {"bits_u32(tanh(f))", 0x7F800001u, 0, 0, kNan},
    // pow: every case of Annex F.9.4.4 of C, but NaN for every NaN.
    {"bits_u32(pow(f, g))", 0x40400000u, 0x40000000u, 0, 0x41100000u},  // 3^2
    {"bits_u32(pow(f, g))", 0x40000000u, 0x3F000000u, 0, 0x3FB504F3u},
    {"bits_u32(pow(f, g))", 0xC0000000u, 0x40400000u, 0, 0xC1000000u},  // (-2)^3
    {"bits_u32(pow(f, g))", 0xC0000000u, 0x40800000u, 0, 0x41800000u},  // (-2)^4
    {"bits_u32(pow(f, g))", 0xC0000000u, 0xC0400000u, 0, 0xBE000000u},  // (-2)^-3
    {"bits_u32(pow(f, g))", 0xC0000000u, 0x3F000000u, 0, kNan},
    {"bits_u32(pow(f, g))", 0xBF800000u, 0x3F000000u, 0, kNan},
    {"bits_u32(pow(f, g))", 0xC0000000u, 0x4B7FFFFFu, 0, kMinusInfinity},  // odd: 2^24 - 1
    {"bits_u32(pow(f, g))", 0xC0000000u, 0x4B800000u, 0, kInfinity},
    {"bits_u32(pow(f, g))", 0xBF800000u, 0x4AFFFFFFu, 0, kNan},  // not whole
    {"bits_u32(pow(f, g))", 0xBF800000u, 0x7F7FFFFFu, 0, 0x3F800000u},
    {"bits_u32(pow(f, g))", 0, 0xC0400000u, 0, kInfinity},
    {"bits_u32(pow(f, g))", kMinimum, 0xC0400000u, 0, kMinusInfinity},
    {"bits_u32(pow(f, g))", kMinimum, 0xC0000000u, 0, kInfinity},
    {"bits_u32(pow(f, g))", kMinimum, 0xBF000000u, 0, kInfinity},
    {"bits_u32(pow(f, g))", kMinimum, kMinusInfinity, 0, kInfinity},
    {"bits_u32(pow(f, g))", 0, 0x80000001u, 0, kInfinity},
    {"bits_u32(pow(f, g))", kMinimum, 0x40400000u, 0, kMinimum},
    {"bits_u32(pow(f, g))", kMinimum, 0x40000000u, 0, 0},
    {"bits_u32(pow(f, g))", 0, 1, 0, 0},
    {"bits_u32(pow(f, g))", 0xBF800000u, kInfinity, 0, 0x3F800000u},
    {"bits_u32(pow(f, g))", 0xBF800000u, kMinusInfinity, 0, 0x3F800000u},
    {"bits_u32(pow(f, g))", 0x3F800000u, kInfinity, 0, 0x3F800000u},
    {"bits_u32(pow(f, g))", 0xC2C80000u, kMinimum, 0, 0x3F800000u},
    {"bits_u32(pow(f, g))", 0, 0, 0, 0x3F800000u},
    {"bits_u32(pow(f, g))", kMinusInfinity, 0, 0, 0x3F800000u},
    {"bits_u32(pow(f, g))", 0x3F000000u, kMinusInfinity, 0, kInfinity},
    {"bits_u32(pow(f, g))", 0xC0000000u, kMinusInfinity, 0, 0},
    {"bits_u32(pow(f, g))", 0xBF7FFFFFu, kInfinity, 0, 0},
    {"bits_u32(pow(f, g))", 0x3F800001u, kInfinity, 0, kInfinity},
    {"bits_u32(pow(f, g))", kMinusInfinity, 0xC0400000u, 0, kMinimum},
    {"bits_u32(pow(f, g))", kMinusInfinity, 0xC0000000u, 0, 0},
    {"bits_u32(pow(f, g))", kMinusInfinity, 0x40400000u, 0, kMinusInfinity},
    {"bits_u32(pow(f, g))", kMinusInfinity, 0x3F000000u, 0, kInfinity},
    {"bits_u32(pow(f, g))", kInfinity, 0x80000001u, 0, 0},
    {"bits_u32(pow(f, g))", kInfinity, 1, 0, kInfinity},
    {"bits_u32(pow(f, g))", 0x3F800000u, kNan, 0, kNan},
    {"bits_u32(pow(f, g))", kNan, 0, 0, kNan},
    {"bits_u32(pow(f, g))", 0xFFC00001u, 0x7F800001u, 0, kNan},
    {"bits_u32(pow(f, g))", 1, 0x3F000000u, 0, 0x1A3504F3u},  // of a denormal
    {"bits_u32(pow(f, g))", 0x40000000u, 0xC3150000u, 0, 1},
    {"bits_u32(pow(f, g))", 0x7F7FFFFFu, 0x40000000u, 0, kInfinity},
    {"bits_u32(pow(f, g))", 0x3F7FFFFFu, 0x7F7FFFFFu, 0, 0},
    // bool.
    {"u32(s && t)", 1, 1, 0, 1},
    {"u32(s && t)", 1, 0, 0, 0},
    {"u32(s || t)", 0, 1, 0, 1},
    {"u32(s == t)", 0, 0, 0, 1},
    {"u32(s != t)", 1, 0, 0, 1},
    {"u32(!s)", 0, 0, 0, 1},
};

// `source` gives the text of operand `name` in row `row`: a constant, which the compilers fold, or
// a word of the input, which they cannot know.
template <class Source>
std::string rows_text(std::size_t first, std::size_t count, std::size_t index, Source source) {
  std::string text = fmt::format("handler rows_{} = {} {{\n", index, 1000 + index);
  for (std::size_t i = first; i < first + count; ++i) {
    text += fmt::format(
        "if true {{ let x = {}; let y = {}; let z = {}; {} {} output[{}] = {}; }}\n", source(i, 0),
        source(i, 1), source(i, 2), kPair, kThird, i, kRows[i].expression);
  }
  return text + "}\n";
}

constexpr std::size_t kRowsEach = 20;  // twelve names each: a handler has at most 256

template <class Source>
void expect_rows(Source source) {
  std::string text;
  std::size_t handlers = 0;
  for (std::size_t first = 0; first < std::size(kRows); first += kRowsEach, ++handlers) {
    text += rows_text(first, std::min(kRowsEach, std::size(kRows) - first), handlers, source);
  }
  const Trial trial = Trial::from_text(text);
  std::vector<Word> input;
  for (const Row& row : kRows) input.insert(input.end(), {row.x, row.y, row.z});
  for (std::size_t i = 0; i < handlers; ++i) {
    const auto compared = trial.run(i, frame_of(input, std::size(kRows)));
    ASSERT_EQ(compared.interpreted.outcome, ir::Outcome{});
    EXPECT_EQ(compared.difference, "");
    const std::size_t end = std::min((i + 1) * kRowsEach, std::size(kRows));
    for (std::size_t k = i * kRowsEach; k < end; ++k) {
      const Row& row = kRows[k];
      EXPECT_EQ(compared.interpreted.buffers[1][k], row.expected)
          << row.expression << fmt::format(" of {:#x}, {:#x}, {:#x}", row.x, row.y, row.z);
    }
  }
}

TEST(Operators, the_defining_rows_hold_for_operands_from_memory) {
  EVERKERNEL_NEEDS_SUBJECT();
  expect_rows([](std::size_t row, int operand) {
    return fmt::format("input[{}]", row * 3 + static_cast<std::size_t>(operand));
  });
}

TEST(Operators, the_defining_rows_hold_for_constants) {
  EVERKERNEL_NEEDS_SUBJECT();
  expect_rows([](std::size_t row, int operand) {
    const Word words[] = {kRows[row].x, kRows[row].y, kRows[row].z};
    return fmt::format("{}", words[operand]);
  });
}

// A fault on the right side shows whether it was evaluated.
TEST(Operators, and_and_or_evaluate_the_right_side_only_when_it_matters) {
  EVERKERNEL_NEEDS_SUBJECT();
  constexpr std::string_view kOutside = "input[99] == 0";
  struct Short {
    std::string_view condition;
    bool faults;
  };
  constexpr Short kShorts[] = {{"param == 1 && {}", false},
                               {"param == 0 && {}", true},
                               {"param == 0 || {}", false},
                               {"param == 1 || {}", true},
                               {"select(param == 0, true, {})", true},
                               {"select(param == 1, {}, false)", true}};
  std::string text;
  for (std::size_t i = 0; i < std::size(kShorts); ++i) {
    text += fmt::format("handler h_{} = {} {{ if {} {{ args[5] = 1; }} args[6] = 7; }}\n", i,
                        1000 + i, fmt::format(fmt::runtime(kShorts[i].condition), kOutside));
  }
  const Trial trial = Trial::from_text(text);
  for (std::size_t i = 0; i < std::size(kShorts); ++i) {
    const auto compared = trial.run(i, frame_of({1, 2, 3}, 3));
    EXPECT_EQ(compared.difference, "") << kShorts[i].condition;
    EXPECT_EQ(compared.interpreted.outcome.fault_code, kShorts[i].faults ? 2u : 0u)
        << kShorts[i].condition;
    EXPECT_EQ(compared.interpreted.args[6], kShorts[i].faults ? 0u : 7u);
  }
}

}  // namespace
}  // namespace everkernel::test
