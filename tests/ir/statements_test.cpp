// The statements `place op= value` and `for … step …`: their meaning in the interpreter, their
// rules and their form in C++. tests/jit compares native code with the interpreter.
#include "everkernel/ir/builder.hpp"
#include "support/ir_machine.hpp"

namespace everkernel::test {
namespace {

// ---- op= ----

TEST(Update, applies_the_operator_to_a_variable_an_argument_and_a_word) {
  Machine machine;
  machine.frame.args[3] = 100;
  machine.control[170] = 6;
  EXPECT_EQ(machine.run("var x = 7; x += 5; x <<= 2; x -= 1; x /= 2; x %= 20; x |= 8; x ^= 1;"
                        "output[0] = x; args[3] *= 3; control[170] &= 3; input[1] >>= 2;"
                        "var s = -7i; s /= 2i; output[1] = u32(s);"
                        "var f = 1.5; f *= 3.0; f -= 0.5; output[2] = bits_u32(f);"
                        "output[3] = args[3]; output[4] = input[1]; output[5] += 9; "
                        "output[5] += 1;"),
            kDone);
  EXPECT_EQ(machine.output[0], (((((7u + 5) << 2) - 1) / 2 % 20) | 8) ^ 1);
  EXPECT_EQ(machine.output[1], 0xFFFFFFFDu);
  EXPECT_EQ(machine.output[2], 0x40800000u);
  EXPECT_EQ(machine.output[3], 300u);
  EXPECT_EQ(machine.output[4], 5u);
  EXPECT_EQ(machine.output[5], 10u);
  EXPECT_EQ(machine.control[170], 2u);
  EXPECT_EQ(machine.frame.args[3], 300u);
}

TEST(Update, evaluates_its_place_once_and_before_its_value) {
  Machine machine;
  // The index counts in output[7]; the value reads what the index has left there.
  EXPECT_EQ(machine.run("output[atomic_add(output[7], 1)] += output[7] * 10;"), kDone);
  EXPECT_EQ(machine.output[0], 10u);
  EXPECT_EQ(machine.output[7], 1u);
  // The word is loaded before the value changes it.
  EXPECT_EQ(machine.run("output[1] = 5; output[1] += atomic_add(output[1], 100);"), kDone);
  EXPECT_EQ(machine.output[1], 5u + 5u);
}

TEST(Update, checks_its_place_before_its_value) {
  constexpr std::string_view kBodies[] = {"input[4] += atomic_add(output[0], 1);",
                                          "args[12] += atomic_add(output[0], 1);",
                                          "control[200] += atomic_add(output[0], 1);"};
  for (const std::string_view body : kBodies) {
    Machine machine;
    EXPECT_EQ(machine.run(body), faulted(FaultCode::index_out_of_range)) << body;
    EXPECT_EQ(machine.output[0], 0u) << body;
  }
  // It needs the right to read and the right to write.
  for (const memory::Access access : {memory::Access::read, memory::Access::write}) {
    Machine machine;
    machine.add({.handle = 9, .word_count = 2, .access = access});
    EXPECT_EQ(machine.run("buffer(9)[0] += atomic_add(output[0], 1);"),
              faulted(FaultCode::permission_denied));
    EXPECT_EQ(machine.output[0], 0u);
  }
  Machine machine;
  EXPECT_EQ(machine.run("buffer(77)[0] += 1;"), faulted(FaultCode::bad_buffer_handle));
}

TEST(Update, takes_the_types_of_its_operator) {
  expect_wrong({
      {"var x = 1; x += @1i;", "'+=' cannot be applied to u32 and i32", ir::Rule::operand_types},
      {"var x = 1.0; x %= @2.0;", "'%=' cannot be applied to f32 and f32", ir::Rule::operand_types},
      {"var x = 1i; x <<= @1i;", "'<<=' cannot be applied to i32 and i32", ir::Rule::operand_types},
      {"var x = true; x &= @true;", "'&=' cannot be applied to bool and bool",
       ir::Rule::operand_types},
      {"output[0] += @1.0;", "'+=' cannot be applied to u32 and f32", ir::Rule::operand_types},
      {"args[3] -= @1i;", "'-=' cannot be applied to u32 and i32", ir::Rule::operand_types},
      {"let x = 1; @x += 1;", "'x' cannot be assigned", ir::Rule::not_assignable},
      {"@x += 1;", "'x' is not defined here", ir::Rule::unknown_name},
      {"var x = 1; each i in 0 .. 1 { @x += 1; }", "read only inside each",
       ir::Rule::read_only_in_each},
  });
  expect_right({"var x = 1i; x <<= 2; x += 1i;", "var x = 1.0; x /= 2.0;",
                "each i in 0 .. 4 { output[i] += i; var x = i; x *= 2; }"});
}

TEST(Update, reads_and_writes) {
  const auto program = check_text(in_handler("output[0] += 1; args[3] |= 1;"));
  ASSERT_TRUE(program.has_value());
  const ir::Effects& effects = program->handlers()[0].effects;
  EXPECT_TRUE(effects.reads_output && effects.writes_output && effects.writes_args);
  EXPECT_FALSE(effects.reads_input || effects.moves_buffers);
  expect_wrong({{"@output[0] += 1;", "a pure handler reads output", ir::Rule::not_pure},
                {"@input[0] += 1;", "writes other buffers than output", ir::Rule::not_pure}},
               "pure ");
  expect_wrong({{"@output[0] += 1;", "not by stores", ir::Rule::does_not_commute}}, "commutes ");
}

TEST(Update, has_ten_operators_and_declares_nothing) {
  for (const std::string_view sign : {"<=", ">=", "==", "!=", "&&=", "||="}) {
    const auto program = check_text(in_handler("var x = 1; x " + std::string(sign) + " 2;"));
    EXPECT_FALSE(program.has_value()) << sign;
  }
  expect_syntax_error(in_handler("let x @+= 1;"), "expected '=', found '+='");
  expect_syntax_error(in_handler("x @++;"), "expected '=', found '+'");
  EXPECT_EQ(mistakes_of(in_handler("var x = 1; x ++;")).kept()[0].hint, "write x += 1;");
}

TEST(Update, is_built_from_cpp) {
  using namespace ir::build;
  HandlerBuilder h({.name = "h", .opcode = 64});
  const Value x = h.var("x", Value(1u));
  h.update(x, ir::BinaryOp::shift_left, 3u);
  h.update(ir::build::output[x], ir::BinaryOp::add, x);
  h.update(args[4u], ir::BinaryOp::bit_xor, 1u);
  h.for_range("i", 0u, 9u, 2u, [&](const Value& i) { h.set(ir::build::output[i], i); });
  const ir::Program program{.handlers = {h.finish()}};
  EXPECT_TRUE(ir::verify(program).has_value());
  const auto parsed =
      ir::parse(in_handler("var x = 1; x <<= 3; output[x] += x; args[4] ^= 1;"
                           "for i in 0 .. 9 step 2 { output[i] = i; }"));
  EXPECT_EQ(ir::print(program), ir::print(*parsed));
}

TEST(Update, of_a_wrong_kind_is_no_tree) {
  for (const auto op : {ir::BinaryOp::less, ir::BinaryOp::logical_or, ir::BinaryOp{200}}) {
    auto program = ir::parse(in_handler("var x = 1; x += 1;"));
    ASSERT_TRUE(program.has_value());
    for (ir::Stmt& stmt : program->handlers[0].body.stmts) {
      if (stmt.compound) stmt.compound = op;
    }
    ir::Diagnostics mistakes;
    EXPECT_FALSE(ir::verify(*program, &mistakes).has_value());
    ASSERT_EQ(mistakes.count(), 1u);
    EXPECT_EQ(mistakes.kept()[0].rule, ir::Rule::malformed_tree);
  }
}

// ---- step ----

// The counters of a loop, which it emits.
std::vector<Word> counters(std::string_view range, std::string_view counter = "i") {
  Machine machine;
  EXPECT_EQ(machine.run("for i in " + std::string(range) + " { emit(" + std::string(counter) +
                        ", 0, 0); }"),
            kDone)
      << range;
  std::vector<Word> values;
  for (const auto& hit : machine.hits) values.push_back(hit[0]);
  return values;
}

using Words = std::vector<Word>;

TEST(Step, ends_before_its_bound) {
  EXPECT_EQ(counters("0 .. 10 step 3"), (Words{0, 3, 6, 9}));
  EXPECT_EQ(counters("0 .. 9 step 3"), (Words{0, 3, 6}));
  EXPECT_EQ(counters("5 .. 6 step 100"), (Words{5}));
  EXPECT_EQ(counters("5 .. 5 step 1"), Words{});
  EXPECT_EQ(counters("6 .. 5 step 1"), Words{});
  EXPECT_EQ(counters("-5i .. 6i step 5i", "u32(i)"), (Words{0xFFFFFFFB, 0, 5}));
}

TEST(Step, does_not_wrap) {
  EXPECT_EQ(counters("4294967290 .. 4294967295 step 4"), (Words{4294967290, 4294967294}));
  EXPECT_EQ(counters("1 .. 4294967295 step 4294967295"), (Words{1}));
  EXPECT_EQ(counters("i32(0x80000000) .. 2147483647i step 2147483647i", "u32(i)"),
            (Words{0x80000000, 0xFFFFFFFF, 0x7FFFFFFE}));
}

TEST(Step, of_nothing_or_less_is_a_fault_also_on_an_empty_range) {
  for (const std::string_view range :
       {"0 .. 10 step 0", "5 .. 5 step param * 0", "0i .. 10i step 0i", "0i .. 10i step -1i",
        "3i .. 0i step i32(0x80000000)"}) {
    Machine machine;
    EXPECT_EQ(machine.run("for i in " + std::string(range) + " { output[0] = 1; }"),
              faulted(FaultCode::index_out_of_range))
        << range;
    EXPECT_EQ(machine.output[0], 0u);
  }
}

TEST(Step, is_evaluated_once_and_after_the_bounds) {
  Machine machine;
  EXPECT_EQ(machine.run("for i in atomic_add(output[0], 1) .. atomic_add(output[0], 5) + 9 "
                        "step atomic_add(output[0], 7) { output[1] += 1; }"),
            kDone);
  EXPECT_EQ(machine.output[0], 13u);
  EXPECT_EQ(machine.output[1], 2u);  // 0 .. 10 step 6
}

TEST(Step, pays_for_its_turns) {
  Machine machine;
  machine.frame.fuel = 4;
  EXPECT_EQ(machine.run("for i in 0 .. 1000 step 300 { }"), kDone);
  EXPECT_EQ(machine.frame.fuel, 0u);
  machine.frame.fuel = 3;
  EXPECT_EQ(machine.run("for i in 0 .. 1000 step 300 { }"), faulted(FaultCode::fuel_exhausted));
}

TEST(Step, has_the_type_of_the_counter) {
  expect_wrong({
      {"for i in 0 .. 9 step @1i { }", "the step is u32, not i32", ir::Rule::type_mismatch},
      {"for i in 0i .. 9i step @1 { }", "the step is i32, not u32", ir::Rule::type_mismatch},
      {"for i in 0 .. 9 step @true { }", "the step is u32, not bool", ir::Rule::type_mismatch},
      {"for i in 0 .. 9 step @i { }", "'i' is not defined here", ir::Rule::unknown_name},
  });
  expect_right({"for i in 0 .. 9 step param { }", "for i in 0i .. 9i step 2i { }",
                "let step = 3; for i in step .. 9 step step { let x = step; }"});
  expect_syntax_error(in_handler("each i in 0 .. 9 @step 2 { }"), "expected '{', found 'step'");
  expect_syntax_error(in_handler("for i in 0 .. 9 step @{ }"), "expected a value, found '{'");
}

}  // namespace
}  // namespace everkernel::test
