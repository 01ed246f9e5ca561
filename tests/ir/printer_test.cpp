// Text → IR → text: a fixed point after one print, with the same meaning.
#include "everkernel/ir/printer.hpp"

#include <bit>
#include <limits>

#include "everkernel/ir/builder.hpp"
#include "support/ir_corpus.hpp"
#include "support/ir_machine.hpp"

namespace everkernel::test {
namespace {

std::string printed(std::string_view text) {
  const auto program = ir::parse(text);
  return program ? ir::print(*program) : program.error().message;
}

std::string printed_value(std::string_view expression) {
  const std::string text = printed("handler h = 64 { let x = " + std::string(expression) + "; }");
  const std::size_t first = text.find("let x = ");
  const std::size_t last = text.rfind(";\n}");
  if (first == std::string::npos || last == std::string::npos) return text;
  return text.substr(first + 8, last - first - 8);
}

// Compares the records of the verifier, without the places in the text.
void expect_same_verification(const ir::VerifiedProgram& a, const ir::VerifiedProgram& b) {
  ASSERT_EQ(a.handlers().size(), b.handlers().size());
  for (std::size_t i = 0; i < a.handlers().size(); ++i) {
    const ir::VerifiedHandler &x = a.handlers()[i], &y = b.handlers()[i];
    EXPECT_EQ(x.handler.name, y.handler.name);
    EXPECT_EQ(x.handler.opcode, y.handler.opcode);
    EXPECT_EQ(x.handler.scope, y.handler.scope);
    EXPECT_EQ(x.handler.is_pure, y.handler.is_pure);
    EXPECT_EQ(x.handler.commutes, y.handler.commutes);
    EXPECT_EQ(x.handler.is_payload, y.handler.is_payload);
    EXPECT_EQ(x.types, y.types);
    EXPECT_EQ(x.expr_locals, y.expr_locals);
    EXPECT_EQ(x.stmt_locals, y.stmt_locals);
    ASSERT_EQ(x.locals.size(), y.locals.size());
    for (std::size_t j = 0; j < x.locals.size(); ++j) {
      EXPECT_EQ(x.locals[j].name, y.locals[j].name);
      EXPECT_EQ(x.locals[j].type, y.locals[j].type);
      EXPECT_EQ(x.locals[j].is_variable, y.locals[j].is_variable);
    }
    EXPECT_EQ(x.handler.body.names, y.handler.body.names);
    EXPECT_EQ(x.handler.body.exprs.size(), y.handler.body.exprs.size());
    EXPECT_EQ(x.handler.body.stmts.size(), y.handler.body.stmts.size());
    EXPECT_EQ(x.handler.body.blocks.size(), y.handler.body.blocks.size());
  }
}

// Printing the printed text again changes nothing, and the printed text verifies as the first did.
void expect_fixed_point(std::string_view text) {
  SCOPED_TRACE(std::string(text.substr(0, 500)));
  const auto verified = check_text(text);
  ASSERT_TRUE(verified.has_value()) << verified.error().message;
  const std::string once = ir::print(unverified(*verified));
  const auto again = check_text(once);
  ASSERT_TRUE(again.has_value()) << again.error().message << "\n" << once.substr(0, 500);
  EXPECT_EQ(ir::print(unverified(*again)), once);
  expect_same_verification(*verified, *again);
}

TEST(Printer, is_a_fixed_point_on_the_corpus) {
  for (const std::string_view text : kCorpus) expect_fixed_point(text);
}

TEST(Printer, prints_one_form) {
  EXPECT_EQ(printed(R"(
      // A comment is not kept.
      handler  saxpy=0x40 { let a=bits_f32( param ) ; let n = min(len(input),len(output));
      for i in 0..n { output[i]=bits_u32(a*bits_f32(input[i])+(bits_f32(output[i]))); } }
      payload scope group{if true{}else{return;}})"),
            R"(handler saxpy = 64 {
  let a = bits_f32(param);
  let n = min(len(input), len(output));
  for i in 0 .. n {
    output[i] = bits_u32(a * bits_f32(input[i]) + bits_f32(output[i]));
  }
}

payload scope group {
  if true {
  } else {
    return;
  }
}
)");
}

TEST(Printer, prints_declarations) {
  EXPECT_EQ(printed("handler a = 64 scope lane {}"), "handler a = 64 {\n}\n");
  EXPECT_EQ(printed("handler a = 64 scope warp commutes pure {}"),
            "handler a = 64 scope warp pure commutes {\n}\n");
  EXPECT_EQ(printed("payload scope lane {}"), "payload {\n}\n");
  EXPECT_EQ(printed(""), "");
}

TEST(Printer, prints_every_statement) {
  EXPECT_EQ(printed(R"(handler h = 64 {
let a = 1; var b = 2; b = a; args[a] = b; input[1] = 2; buffer(a)[b] = 3; control[160] = 4;
if true { return; } else if false { yield; } else { requeue; }
for i in 0i .. -1i { continue; } each j in a .. b { fault j; } while true { break; }
printf(1, 2, 3); atomic_cas(buffer(1)[2], 3, 4);
await read(1, 2, 3, 4); await write(5, 6, 7, 8); })"),
            R"(handler h = 64 {
  let a = 1;
  var b = 2;
  b = a;
  args[a] = b;
  input[1] = 2;
  buffer(a)[b] = 3;
  control[160] = 4;
  if true {
    return;
  } else if false {
    yield;
  } else {
    requeue;
  }
  for i in 0i .. -1i {
    continue;
  }
  each j in a .. b {
    fault j;
  }
  while true {
    break;
  }
  printf(1, 2, 3);
  atomic_cas(buffer(1)[2], 3, 4);
  await read(1, 2, 3, 4);
  await write(5, 6, 7, 8);
}
)");
}

TEST(Printer, keeps_only_the_parentheses_that_are_needed) {
  struct Row {
    std::string_view text, expected;
  };
  constexpr Row kRows[] = {
      {"(a)", "a"},
      {"((a + b)) + c", "a + b + c"},
      {"a + (b + c)", "a + (b + c)"},
      {"(a - b) - c", "a - b - c"},
      {"a - (b - c)", "a - (b - c)"},
      {"a * (b + c)", "a * (b + c)"},
      {"(a * b) + c", "a * b + c"},
      {"a + (b * c)", "a + b * c"},
      {"(a + b) << (c - d)", "a + b << c - d"},
      {"a << (b << c)", "a << (b << c)"},
      {"(a < b) == (c < d)", "a < b == c < d"},
      {"a < (b == c)", "a < (b == c)"},
      {"(a & b) == c", "(a & b) == c"},
      {"a & (b == c)", "a & b == c"},
      {"(a | b) ^ (c & d)", "(a | b) ^ c & d"},
      {"(a || b) && c", "(a || b) && c"},
      {"a || (b && c)", "a || b && c"},
      {"a && (b && c)", "a && (b && c)"},
      {"-(a)", "-a"},
      {"-(-a)", "--a"},
      {"-(a + b)", "-(a + b)"},
      {"(-a) + b", "-a + b"},
      {"a - (-b)", "a - -b"},
      {"!(a == b)", "!(a == b)"},
      {"!(!(a))", "!!a"},
      {"-(args[(0)])", "-args[0]"},
      {"-(min((a), (b + c)))", "-min(a, b + c)"},
      {"input[(a + b)]", "input[a + b]"},
      {"buffer((a))[((b))]", "buffer(a)[b]"},
      {"atomic_add(buffer((a))[(b)], (c))", "atomic_add(buffer(a)[b], c)"},
  };
  for (const Row& row : kRows) {
    EXPECT_EQ(printed_value(row.text), row.expected) << row.text;
    EXPECT_EQ(printed_value(row.expected), row.expected) << row.expected;
  }
}

TEST(Printer, prints_literals_in_one_form) {
  struct Row {
    std::string_view text, expected;
  };
  constexpr Row kRows[] = {
      {"007", "7"},
      {"0xFf", "255"},
      {"0xffffffff", "4294967295"},
      {"7i", "7i"},
      {"0x10i", "16i"},
      {"2147483647i", "2147483647i"},
      {"-7i", "-7i"},
      {"true", "true"},
      {"false", "false"},
      {"1.0", "1.0"},
      {"1.50", "1.5"},
      {"0.0", "0.0"},
      {"0.1", "0.1"},
      {"100.0", "100.0"},
      {"-1.5", "-1.5"},
      {"16777217.0", "16777216.0"},
  };
  for (const Row& row : kRows) EXPECT_EQ(printed_value(row.text), row.expected) << row.text;
}

TEST(Printer, an_else_that_holds_one_if_reads_as_else_if) {
  const std::string text = printed("handler h = 64 { if true {} else { if false {} else {} } }");
  EXPECT_NE(text.find("} else if false {"), std::string::npos) << text;
  EXPECT_EQ(printed(text), text);
  const std::string two = printed("handler h = 64 { if true {} else { if false {} return; } }");
  EXPECT_EQ(two.find("else if"), std::string::npos) << two;
  const std::string loop = printed("handler h = 64 { if true {} else { while true {} } }");
  EXPECT_EQ(loop.find("else if"), std::string::npos) << loop;
}

TEST(Printer, the_deepest_text_prints_to_text_that_parses) {
  // Each form as deep as the parser follows it.
  const std::string parens = repeated("1 + (", 127) + "1" + repeated(")", 127);
  expect_fixed_point(in_handler("let x = " + parens + ";"));
  expect_fixed_point(in_handler("let x = " + std::string(254, '-') + "1;"));
  expect_fixed_point(
      in_handler("let x = " + repeated("args[", 200) + "0" + repeated("]", 200) + ";"));
  expect_fixed_point("handler h = 64 {" + repeated("if true {", 15) + repeated("}", 16));
  expect_fixed_point("handler h = 64 {" + repeated("if true {} else {", 15) + repeated("}", 16));
}

// Braces around the last case of a row that is just short enough are dropped in print: the row that
// is longer by one must still parse.
TEST(PrinterDeathTest, a_row_of_cases_that_grows_in_print_still_parses) {
  for (const std::size_t cases : {200u, 253u, 254u, 255u, 256u, 257u}) {
    const std::string row =
        in_handler("if true {}" + repeated(" else if true {}", cases) + " else { if true {} }");
    if (ir::parse(row)) expect_accepted_in_a_child(row);
  }
}

// A literal that C++ made, put where it is evaluated.
struct Evaluated {
  std::string text;
  Word bits = 0;
};

Evaluated evaluated(const ir::build::Value& value, const ir::build::Value& as_word) {
  using namespace ir::build;
  HandlerBuilder h({.name = "h", .opcode = 64});
  h.let("x", value);
  h.set(ir::build::output[0u], as_word);
  const ir::Program program{.handlers = {h.finish()}};
  const std::string text = ir::print(program);
  const auto verified = check_text(text);
  EXPECT_TRUE(verified.has_value()) << text << verified.error().message;
  if (!verified) return {text, 0};
  EXPECT_EQ(ir::print(unverified(*verified)), text);
  Machine machine;
  EXPECT_EQ(machine.run(verified->handlers()[0]), kDone);
  return {text, machine.output[0]};
}

TEST(Printer, signed_literals_made_from_cpp_keep_their_bits) {
  using namespace ir::build;
  constexpr std::int32_t kMinimum = std::numeric_limits<std::int32_t>::min();
  for (const std::int32_t number :
       {0, 1, -1, 7, -7, kMinimum, kMinimum + 1, std::numeric_limits<std::int32_t>::max()}) {
    const Value value(number);
    EXPECT_EQ(evaluated(value, u32(value)).bits, static_cast<Word>(number)) << number;
    // Beside operators, where a sign could be read as another operator or bind wrongly.
    EXPECT_EQ(evaluated(value, u32(Value(5) - value)).bits, 5u - static_cast<Word>(number));
    EXPECT_EQ(evaluated(value, u32(-value)).bits, 0u - static_cast<Word>(number));
    EXPECT_EQ(evaluated(value, u32(~value)).bits, ~static_cast<Word>(number));
    EXPECT_EQ(evaluated(value, u32(value * Value(3))).bits, static_cast<Word>(number) * 3u);
  }
}

TEST(Printer, unsigned_and_bool_literals_made_from_cpp_keep_their_bits) {
  using namespace ir::build;
  for (const Word number : {0u, 1u, 0x7FFFFFFFu, 0x80000000u, 0xFFFFFFFFu}) {
    EXPECT_EQ(evaluated(Value(number), Value(number)).bits, number);
  }
  EXPECT_EQ(evaluated(Value(true), u32(Value(true))).bits, 1u);
  EXPECT_EQ(evaluated(Value(false), u32(Value(false))).bits, 0u);
}

TEST(Printer, float_literals_made_from_cpp_keep_their_bits) {
  using namespace ir::build;
  constexpr Word kBits[] = {
      0x00000000, 0x80000000,                          // ±0
      0x3F800000, 0xBF800000, 0x3DCCCCCD,              // ±1, 0.1
      0x7F7FFFFF, 0xFF7FFFFF,                          // the largest
      0x00800000, 0x00000001, 0x80000001, 0x007FFFFF,  // around the smallest
      0x7F800000, 0xFF800000,                          // ±infinity
      0x4B800000, 0x4B7FFFFF, 0x5F000000, 0x60AD78EC,  // large ones, 1e20
      0x501502F9, 0x5A0E1BCA, 0x5A0E1BC9, 0x322BCC77, 0x38D1B717, 0x3727C5AC,
  };
  for (const Word bits : kBits) {
    const Value value(std::bit_cast<float>(bits));
    EXPECT_EQ(evaluated(value, bits_u32(value)).bits, bits) << std::hex << bits;
    EXPECT_EQ(evaluated(value, bits_u32(-value)).bits, bits ^ 0x80000000u) << std::hex << bits;
  }
  for (const Word nan : {0x7FC00000u, 0xFFC00000u, 0x7F800001u, 0xFFFFFFFFu}) {
    const Value value(std::bit_cast<float>(nan));
    EXPECT_EQ(evaluated(value, bits_u32(value)).bits, 0x7FC00000u) << std::hex << nan;
  }
}

// A program that verifies must also verify when printed: a negative literal is one node when made
// in C++ and two when parsed.
TEST(Printer, literals_made_from_cpp_count_the_same_when_printed) {
  using namespace ir::build;
  for (const int count : {1365, 2048}) {
    HandlerBuilder h({.name = "h", .opcode = 64});
    const Value x = h.var("x", Value(-1));
    for (int i = 1; i < count; ++i) h.set(x, Value(-1));
    const ir::Program program{.handlers = {h.finish()}};
    EXPECT_EQ(ir::verify(program).has_value(), check_text(ir::print(program)).has_value()) << count;
  }
}

// Likewise for depth: the parser follows parentheses to a bound.
TEST(Printer, expressions_made_from_cpp_print_to_text_that_parses_if_they_verify) {
  using namespace ir::build;
  const auto is_consistent = [](const Value& value) {
    HandlerBuilder h({.name = "h", .opcode = 64});
    h.set(ir::build::output[0u], value);
    const ir::Program program{.handlers = {h.finish()}};
    return ir::verify(program).has_value() == check_text(ir::print(program)).has_value();
  };
  for (const int depth : {100, 126, 127, 128, 129, 254, 255, 256, 257}) {
    Value right(1u), left(1u), looser(1u), sign(1u), call(1u), index(1u), handle(1u), word(1u);
    Value negative(-1);
    for (int i = 0; i < depth; ++i) {
      right = Value(1u) + right;
      left = left + Value(1u);
      looser = (looser + Value(1u)) * Value(2u);
      sign = -(sign + Value(1u));
      call = min(Value(1u), call);
      index = input[index];
      handle = buffer(handle)[0u];
      word = atomic(ir::AtomicOp::add, ir::build::output[0u], {word});
      negative = -negative;
    }
    for (const Value& value :
         {right, left, looser, sign, call, index, handle, word, u32(negative)}) {
      EXPECT_TRUE(is_consistent(value)) << depth;
    }
  }
}

}  // namespace
}  // namespace everkernel::test
