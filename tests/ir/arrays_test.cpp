// Arrays of a handler: their meaning in the interpreter, their rules and their form in C++.
// tests/jit compares native code with the interpreter.
#include "everkernel/ir/builder.hpp"
#include "everkernel/ir/limits.hpp"
#include "support/ir_machine.hpp"

namespace everkernel::test {
namespace {

TEST(Arrays, hold_zeros_then_what_is_stored) {
  Machine machine;
  EXPECT_EQ(machine.run("var a: [u32; 4]; var s: [i32; 2]; var f: [f32; 3];"
                        "output[0] = a[0] + a[3]; a[1] = 7; a[1] *= 3; a[3] = a[1] + 1;"
                        "output[1] = a[3]; s[1] -= 5i; s[1] >>= 1; output[2] = u32(s[1]);"
                        "f[2] = 1.5; f[2] += 2.0; output[3] = bits_u32(f[2] + f[0]);"),
            kDone);
  EXPECT_EQ(machine.output[0], 0u);
  EXPECT_EQ(machine.output[1], 22u);
  EXPECT_EQ(machine.output[2], 0xFFFFFFFDu);
  EXPECT_EQ(machine.output[3], 0x40600000u);
}

TEST(Arrays, are_zero_again_at_each_declaration) {
  Machine machine;
  EXPECT_EQ(machine.run("for i in 0 .. 3 { var a: [u32; 2]; output[i] = a[1]; a[1] = 9; }"
                        "each i in 0 .. 3 { var b: [u32; 2]; b[0] += i; output[3 + i] = b[0]; }"),
            kDone);
  EXPECT_EQ(machine.output[0] + machine.output[1] + machine.output[2], 0u);
  EXPECT_EQ(machine.output[5], 2u);
}

TEST(Arrays, outer_ones_are_read_inside_each) {
  Machine machine;
  EXPECT_EQ(machine.run("var a: [u32; 4]; for i in 0 .. 4 { a[i] = i * i; }"
                        "each i in 0 .. 4 { output[i] = a[i] + 1; }"),
            kDone);
  EXPECT_EQ(machine.output[3], 10u);
}

TEST(Arrays, an_index_outside_is_a_fault) {
  for (const std::string_view body :
       {"output[1] = a[4];", "a[4] = 1;", "a[4] += 1;", "a[param - 1] = 1;",
        "output[0] = b[1 + atomic_add(output[2], 1)];"}) {
    Machine machine;
    EXPECT_EQ(machine.run("var b: [u32; 1]; var a: [u32; 4]; var c: [u32; 4]; output[0] = 5;" +
                          std::string(body) + "output[0] = 6;"),
              faulted(FaultCode::index_out_of_range))
        << body;
    EXPECT_EQ(machine.output[0], 5u) << body;
  }
}

TEST(Arrays, evaluate_index_then_value_then_check) {
  Machine machine;
  EXPECT_EQ(machine.run("var a: [u32; 2]; a[2 + atomic_add(output[0], 1)] = atomic_add(output[1], "
                        "1);"),
            faulted(FaultCode::index_out_of_range));
  EXPECT_EQ(machine.output[0], 1u);
  EXPECT_EQ(machine.output[1], 1u);
  EXPECT_EQ(machine.run("var a: [u32; 2]; a[2 + atomic_add(output[2], 1)] += atomic_add(output[3], "
                        "1);"),
            faulted(FaultCode::index_out_of_range));
  EXPECT_EQ(machine.output[2], 1u);
  EXPECT_EQ(machine.output[3], 0u);
}

TEST(Arrays, follow_their_rules) {
  expect_wrong({
      {"var a: [u32; 4]; output[0] = @a;", "'a' is an array", ir::Rule::array_without_index},
      {"var a: [u32; 4]; @a = 1;", "'a' is an array", ir::Rule::array_without_index},
      {"var a: [u32; 4]; @a += 1;", "'a' is an array", ir::Rule::array_without_index},
      {"let b = 1; output[0] = @b[0];", "'b' is not a buffer or an array", ir::Rule::not_a_buffer},
      {"var b = 1; @b[0] = 2;", "'b' is not a buffer or an array", ir::Rule::not_a_buffer},
      {"output[0] = @c[0];", "'c' is not a buffer or an array", ir::Rule::not_a_buffer},
      {"var a: [u32; 4]; output[0] = a[@1i];", "the index is u32, not i32",
       ir::Rule::type_mismatch},
      {"var a: [i32; 4]; a[0] = @1;", "a word of 'a' is i32, not u32", ir::Rule::type_mismatch},
      {"var a: [f32; 4]; a[0] += @1;", "'+=' cannot be applied to f32 and u32",
       ir::Rule::operand_types},
      {"var a: [f32; 4]; let x = a[0] @+ 1;", "'+' cannot be applied to f32 and u32",
       ir::Rule::operand_types},
      {"@var a: [bool; 4];", "the words of an array are u32, i32 or f32", ir::Rule::type_mismatch},
      {"let n = 4; var a: [u32; @n];", "a number or a constant", ir::Rule::array_length},
      {"var a: [u32; @0];", "1 to 1024 words, not 0", ir::Rule::array_length},
      {"var a: [u32; @1025];", "1 to 1024 words, not 1025", ir::Rule::array_length},
      {"var a: [u32; @1.5];", "the length of an array is u32, not f32", ir::Rule::type_mismatch},
      {"var a: [u32; 1000]; @var b: [u32; 25];", "more than 1024 words",
       ir::Rule::too_many_array_words},
      {"each i in 0 .. 1 { var a: [u32; 60]; @var b: [u32; 5]; }",
       "inside each have more than 64 words", ir::Rule::too_many_array_words},
      {"var a: [u32; 4]; each i in 0 .. 1 { @a[0] = 1; }", "'a' is read only inside each",
       ir::Rule::read_only_in_each},
      {"var a: [u32; 4]; each i in 0 .. 1 { @a[0] += 1; }", "'a' is read only inside each",
       ir::Rule::read_only_in_each},
      {"var a: [u32; 4]; @var a = 1;", "'a' is declared already", ir::Rule::repeated_name},
      {"if true { var a: [u32; 4]; } @a[0] = 1;", "'a' is not a buffer or an array",
       ir::Rule::not_a_buffer},
  });
  expect_right({
      "var a: [u32; 1000]; var b: [f32; 24]; each i in 0 .. 1 { let x = a[i]; }",
      "each i in 0 .. 1 { var a: [u32; 64]; a[i] = 1; }",
      "var a: [u32; 4]; if true { a[1] = a[0]; } for i in 0 .. 4 { a[i] |= i; }",
  });
  expect_right({"var a: [u32; 4]; a[0] = input[0]; output[0] = a[0];"}, "pure ");
  expect_right({"var a: [u32; 4]; a[0] = 1; atomic_add(output[0], a[0]);"}, "commutes ");
  constexpr Wrong kRows[] = {
      {"var a: [u32 @4];", "expected ';' and a length", ir::Rule::expected_semicolon},
      {"var a: [u32; @];", "expected the length of the array", ir::Rule::array_length},
      {"var a: [u32; 4@;", "expected ']', found ';'", ir::Rule::expected_bracket},
      {"let a@: [u32; 4];", "expected '=', found ':'", ir::Rule::expected_assignment},
  };
  expect_syntax_errors(kRows);
}

TEST(Arrays, have_a_constant_as_their_length) {
  const auto verified = check_text("const kWords = 4 * 2;\n" +
                                   in_handler("var a: [u32; kWords]; a[7] = 3; output[0] = a[7];"));
  ASSERT_TRUE(verified.has_value()) << verified.error().message;
  Machine machine;
  EXPECT_EQ(machine.run(verified->handlers()[0]), kDone);
  EXPECT_EQ(machine.output[0], 3u);
  EXPECT_EQ(ir::print(verified->source()),
            "const kWords = 4 * 2;\n\nhandler h = 64 {\n  var a: [u32; kWords];\n  a[7] = 3;\n"
            "  output[0] = a[7];\n}\n");
  EXPECT_FALSE(check_text("const k = 1025;\n" + in_handler("var a: [u32; k];")).has_value());
  EXPECT_FALSE(check_text("const k = 1.5;\n" + in_handler("var a: [u32; k];")).has_value());
}

TEST(Arrays, are_built_from_cpp) {
  using namespace ir::build;
  HandlerBuilder h({.name = "h", .opcode = 64});
  const Array a = h.array("a", ir::Type::u32, 8u);
  h.set(a, 1u, 5u);
  h.update(a, 2u, ir::BinaryOp::add, a[1u]);
  h.set(ir::build::output[0u], a[2u]);
  const ir::Program program{.handlers = {h.finish()}};
  const auto parsed =
      ir::parse(in_handler("var a: [u32; 8]; a[1] = 5; a[2] += a[1]; output[0] = a[2];"));
  EXPECT_EQ(ir::print(program), ir::print(*parsed));
  const auto verified = ir::verify(program);
  ASSERT_TRUE(verified.has_value());
  Machine machine;
  EXPECT_EQ(machine.run(verified->handlers()[0]), kDone);
  EXPECT_EQ(machine.output[0], 5u);
}

}  // namespace
}  // namespace everkernel::test
