// Constants and functions of a program: their values, their rules, their order and their limits.
#include "ir/definitions.hpp"
#include "everkernel/ir/builder.hpp"
#include "everkernel/ir/limits.hpp"
#include "support/ir_machine.hpp"

namespace everkernel::test {
namespace {

// A handler h with that body behind these definitions.
std::string with(std::string_view definitions, std::string_view body) {
  return std::string(definitions) + "\n" + in_handler(body);
}

Outcome run(Machine& machine, const std::string& text) {
  const auto verified = check_text(text);
  EXPECT_TRUE(verified.has_value()) << text << verified.error().message;
  return verified ? machine.run(verified->handlers()[0]) : faulted(FaultCode::deadline);
}

void expect_mistake(std::string_view marked, std::string_view fragment, ir::Rule rule) {
  const Unmarked source = unmark(marked);
  SCOPED_TRACE(source.text);
  const ir::Diagnostics mistakes = mistakes_of(source.text);
  ASSERT_EQ(mistakes.count(), 1u) << ir::render(mistakes, source.text, "ops.ek");
  EXPECT_NE(mistakes.kept()[0].message.find(fragment), std::string::npos)
      << mistakes.kept()[0].message;
  expect_rule(source.text, rule, source.place);
}

TEST(Constants, have_the_value_and_type_of_their_expression) {
  Machine machine;
  EXPECT_EQ(
      run(machine, with("const kLast = kSize - 1; const kSize = 4 * 16; const kLow = -3i;"
                        "const kHalf = 1.0 / 2.0; const kSmall = kSize < 100 && true;"
                        "const kMost = max(kSize, 7) << 2;",
                        "output[0] = kLast; output[1] = u32(kLow); "
                        "output[2] = bits_u32(kHalf); output[3] = u32(kSmall);"
                        "output[4] = kMost; for i in 0 .. kSize step kSize { output[5] += 1; }"
                        "if kLow < 0i { output[6] = min(kLast, kSize); }")),
      kDone);
  EXPECT_EQ(machine.output[0], 63u);
  EXPECT_EQ(machine.output[1], 0xFFFFFFFDu);
  EXPECT_EQ(machine.output[2], 0x3F000000u);
  EXPECT_EQ(machine.output[3], 1u);
  EXPECT_EQ(machine.output[4], 256u);
  EXPECT_EQ(machine.output[5], 1u);
  EXPECT_EQ(machine.output[6], 63u);
}

TEST(Constants, are_made_of_literals_and_constants) {
  expect_mistake("const a = @param;\nhandler h = 64 { }", "literals and other constants",
                 ir::Rule::not_in_function);
  expect_mistake("const a = @input[0];\n", "literals and other constants",
                 ir::Rule::not_in_function);
  expect_mistake("fn f() -> u32 { return 1; }\nconst a = @f();\n", "literals and other constants",
                 ir::Rule::not_in_function);
  expect_mistake("const a = @b;", "'b' is not defined here", ir::Rule::unknown_name);
  expect_mistake("const a = 1 @+ 1i;", "'+' cannot be applied", ir::Rule::operand_types);
}

TEST(Constants, that_need_themselves_are_recursion_that_names_the_cycle) {
  expect_mistake("@const a = a + 1;", "recursion: a needs a", ir::Rule::recursion);
  expect_mistake("const x = b;\n@const b = c + 1;\nconst c = d; const d = b;",
                 "recursion: b needs c needs d needs b", ir::Rule::recursion);
}

TEST(Constants, cannot_be_assigned_or_declared_again) {
  expect_mistake(with("const k = 1;", "@k = 2;"), "'k' is a constant", ir::Rule::not_assignable);
  expect_mistake(with("const k = 1;", "@let k = 2;"), "constant or function of this file",
                 ir::Rule::repeated_name);
  expect_mistake(with("fn f() -> u32 { return 1; }", "for i in 0 .. 1 { @let f = 2; }"),
                 "constant or function of this file", ir::Rule::repeated_name);
  expect_mistake("const k = 1;\n@const k = 2;", "'k' is declared already", ir::Rule::repeated_name);
  expect_mistake("const h = 1;\n@handler h = 64 { }", "'h' is declared already",
                 ir::Rule::repeated_name);
  expect_mistake("const @min = 1;", "'min' cannot be the name of a constant",
                 ir::Rule::reserved_name);
  expect_mistake("@fn exp(x: f32) -> f32 { return x; }", "'exp' cannot be a name",
                 ir::Rule::reserved_name);
}

TEST(Constants, with_a_mistake_are_of_no_type_and_silent) {
  const ir::Diagnostics mistakes =
      mistakes_of(with("const k = 1 + 1.5;", "output[0] = k + 1.5; let x = k; output[1] = x;"));
  EXPECT_EQ(mistakes.count(), 1u);
}

TEST(Functions, give_their_value) {
  Machine machine;
  EXPECT_EQ(
      run(machine,
          with("fn square(x: f32) -> f32 { return x * x; }\n"
               "fn length(x: f32, y: f32) -> f32 { let s = square(x) + square(y); return sqrt(s); "
               "}\n"
               "fn pick(c: bool, a: i32, b: i32) -> i32 { return select(c, a, b); }\n"
               "fn seven() -> u32 { return k; } const k = 7;\n",
               "output[0] = bits_u32(length(3.0, 4.0)); output[1] = u32(pick(param == 0, -1i, 2i));"
               "output[2] = seven() + seven(); let x = square(square(2.0)); output[3] = u32(x);"
               "each i in 0 .. 2 { output[4 + i] = u32(square(f32(i + 2))); }")),
      kDone);
  EXPECT_EQ(machine.output[0], 0x40A00000u);
  EXPECT_EQ(machine.output[1], 0xFFFFFFFFu);
  EXPECT_EQ(machine.output[2], 14u);
  EXPECT_EQ(machine.output[3], 16u);
  EXPECT_EQ(machine.output[4], 4u);
  EXPECT_EQ(machine.output[5], 9u);
}

TEST(Functions, evaluate_their_arguments_once_in_order_and_only_when_called) {
  Machine machine;
  EXPECT_EQ(
      run(machine, with("fn third(a: u32, b: u32, c: u32) -> u32 { return c + c * 0 + a * 0; }"
                        "fn yes(x: u32) -> bool { return true; }",
                        "output[1] = third(atomic_add(output[0], 1), "
                        "atomic_exchange(output[0], output[0] * 10), output[0]);"
                        "if output[1] == 99 && yes(atomic_add(output[2], 1)) { }"
                        "third(1, 2, atomic_add(output[3], 1));")),
      kDone);
  EXPECT_EQ(machine.output[0], 10u);
  EXPECT_EQ(machine.output[1], 10u);
  EXPECT_EQ(machine.output[2], 0u);
  EXPECT_EQ(machine.output[3], 1u);
}

TEST(Functions, have_names_of_their_own) {
  Machine machine;
  // The handler, both functions and their lets use the same names.
  EXPECT_EQ(
      run(machine, with("fn f(x: u32) -> u32 { let y = x + 1; return y * 2; }\n"
                        "fn g(x: u32, y: u32) -> u32 { let z = f(y) + f(x); return z + x; }",
                        "let x = 1; let y = 2; var z = 3; z = g(f(x), g(y, z)); output[0] = z;"
                        "output[1] = x + y;")),
      kDone);
  // f(1) = 4; g(2, 3) = f(3) + f(2) + 2 = 16; g(4, 16) = f(16) + f(4) + 4 = 48.
  EXPECT_EQ(machine.output[0], 48u);
  EXPECT_EQ(machine.output[1], 3u);
}

TEST(Functions, see_no_item) {
  for (const std::string_view value :
       {"@param", "@lane", "@args[1]", "@input[0]", "@len(input)", "@atomic_add(output[0], 1)",
        "@buffer(x)[0]", "@opcode", "@control[160]"}) {
    expect_mistake("fn f(x: u32) -> u32 { return " + std::string(value) + "; }",
                   "a function sees only its parameters", ir::Rule::not_in_function);
  }
  expect_mistake("fn f(x: u32) -> u32 { let y = x + @slot; return y; }",
                 "a function sees only its parameters", ir::Rule::not_in_function);
  expect_mistake("fn f(x: u32) -> u32 { @var y = 1; return x; }", "expected 'let' or 'return'",
                 ir::Rule::expected_statement);
  expect_mistake("fn f(x: u32) -> u32 { @if x == 1 { } return x; }", "expected 'let' or 'return'",
                 ir::Rule::expected_statement);
  expect_mistake("fn f(x: u32) -> u32 { let y = x; @}", "expected 'return', found '}'",
                 ir::Rule::expected_statement);
  expect_mistake("fn f(x: u32) -> u32 { return x; @let y = 1; }", "expected '}', found 'let'",
                 ir::Rule::expected_statement);
}

TEST(Functions, are_typed) {
  expect_mistake("fn f(x: u32) -> f32 { return @x; }", "what f returns is f32, not u32",
                 ir::Rule::type_mismatch);
  expect_mistake(with("fn f(x: u32) -> u32 { return x; }", "output[0] = f(@1.5);"),
                 "'x' of f is u32, not f32", ir::Rule::type_mismatch);
  expect_mistake(with("fn f(x: u32) -> f32 { return 1.0; }", "output[0] = @f(1);"),
                 "a buffer word is u32, not f32", ir::Rule::type_mismatch);
  expect_mistake(with("fn f(x: u32) -> u32 { return x; }", "output[0] = @f();"),
                 "f takes 1 value, this call has 0", ir::Rule::argument_count);
  expect_mistake(with("fn f() -> u32 { return 1; }", "output[0] = @f(1, 2);"),
                 "f takes 0 values, this call has 2", ir::Rule::argument_count);
  expect_mistake(with("fn norm(x: f32) -> f32 { return x; }", "output[0] = @nrom(1.0);"),
                 "'nrom' is not a function", ir::Rule::unknown_function);
  expect_mistake("fn f(x: @u23) -> u32 { return 1; }", "expected a type: u32, i32, f32 or bool",
                 ir::Rule::expected_type);
  expect_mistake("fn f(x@) -> u32 { return 1; }", "expected ':' and a type, found ')'",
                 ir::Rule::expected_type);
  expect_mistake("fn f(x: u32) @{ return 1; }", "expected '->' and the type of the value",
                 ir::Rule::expected_type);
  expect_mistake("fn f(x: u32, @x: u32) -> u32 { return x; }", "'x' is declared already",
                 ir::Rule::repeated_name);
  expect_mistake(with("fn f() -> u32 { return 1; }", "let x = @f;"), "'f' is not defined here",
                 ir::Rule::unknown_name);
}

TEST(Functions, that_call_themselves_are_recursion_that_names_the_cycle) {
  expect_mistake("@fn f(x: u32) -> u32 { return f(x); }", "recursion: f needs f",
                 ir::Rule::recursion);
  expect_mistake(
      "fn a() -> u32 { return b(); }\n@fn b() -> u32 { return c(); }\n"
      "fn c() -> u32 { return d() + e(); }\nfn d() -> u32 { return b(); }\n"
      "fn e() -> u32 { return 1; }\nhandler h = 64 { output[0] = a(); }",
      "recursion: b needs c needs d needs b", ir::Rule::recursion);
}

TEST(Functions, count_after_they_are_inlined) {
  // Each function calls the one before twice: 2^n.
  const auto doubled = [](int count) {
    std::string text = "fn g0(x: u32) -> u32 { return x + 1; }\n";
    for (int i = 1; i <= count; ++i) {
      const std::string call = "g" + std::to_string(i - 1);
      text += "fn g" + std::to_string(i) + "(x: u32) -> u32 { return " + call + "(" + call +
              "(x)); }\n";
    }
    return text + in_handler("output[0] = g" + std::to_string(count) + "(0);");
  };
  Machine machine;
  EXPECT_EQ(run(machine, doubled(6)), kDone);
  EXPECT_EQ(machine.output[0], 64u);
  for (const int count : {12, 40, 2000}) {
    const auto refused = check_text(doubled(count));
    ASSERT_FALSE(refused.has_value()) << count;
    EXPECT_TRUE(refused.error().message.find("more than 256 variables") != std::string::npos ||
                refused.error().message.find("instructions, at most 4096") != std::string::npos)
        << refused.error().message;
  }
}

TEST(Functions, in_a_chain_of_any_length_end) {
  std::string text = "fn g0() -> u32 { return 1; }\n";
  for (int i = 1; i <= 5000; ++i) {
    text += "fn g" + std::to_string(i) + "() -> u32 { return g" + std::to_string(i - 1) + "(); }\n";
  }
  EXPECT_FALSE(check_text(text + in_handler("output[0] = g5000();")).has_value());
  EXPECT_TRUE(check_text(text + in_handler("output[0] = g200();")).has_value());
}

TEST(Definitions, are_printed_and_built_from_cpp) {
  using namespace ir::build;
  FunctionBuilder twice("twice", ir::Type::u32);
  const Value x = twice.parameter("x", ir::Type::u32);
  const Value y = twice.let("y", x + constant("kOne"));
  ir::Program built;
  built.functions.push_back(twice.finish(y + x));
  built.constants.push_back(make_constant("kOne", Value(1u)));
  HandlerBuilder h({.name = "h", .opcode = 64});
  h.set(ir::build::output[0u], call("twice", {constant("kOne")}));
  built.handlers.push_back(h.finish());
  const std::string text =
      "const kOne = 1;\n\nfn twice(x: u32) -> u32 {\n  let y = x + kOne;\n  return y + x;\n}\n\n"
      "handler h = 64 {\n  output[0] = twice(kOne);\n}\n";
  EXPECT_EQ(ir::print(built), text);
  const auto verified = ir::verify(built);
  ASSERT_TRUE(verified.has_value()) << verified.error().message;
  EXPECT_EQ(ir::print(verified->source()), text);
  EXPECT_EQ(ir::print(*ir::parse(text)), text);
  Machine machine;
  EXPECT_EQ(machine.run(verified->handlers()[0]), kDone);
  EXPECT_EQ(machine.output[0], 3u);
}

TEST(Definitions, are_no_words_of_the_language) {
  expect_accepted(in_handler("let fn = 1; let const = 2; let step = fn + const;"));
  expect_accepted("handler fn = 64 { } handler const = 65 { } handler step = 66 { }");
}

TEST(Definitions, broken_ones_hide_no_mistakes_of_handlers) {
  const std::string text =
      "const a = ;\nfn f(x: u32 -> u32 { return x; }\nfn g() -> u32 { return 1.5; }\n" +
      in_handler("output[0] = a + f(1);\noutput[1] = g() + 1.5;\noutput[2] = 2.5;");
  std::string rules;
  const ir::Diagnostics mistakes = mistakes_of(text);
  for (const ir::Diagnostic& mistake : mistakes.kept()) {
    rules += std::to_string(mistake.location.line) + " " +
             std::string(ir::rule_name(mistake.rule)) + "\n";
  }
  EXPECT_EQ(rules,
            "1 expected-value\n2 expected-comma\n3 type-mismatch\n6 operand-types\n"
            "7 type-mismatch\n");
}

TEST(Definitions, order_puts_each_behind_what_it_needs) {
  const ir::ReferenceOrder order = ir::order_of({{1, 2}, {2}, {}, {4}, {5}, {4}, {3, 0}});
  EXPECT_EQ(order.sorted, (std::vector<std::size_t>{2, 1, 0}));
  ASSERT_EQ(order.cycles.size(), 1u);
  EXPECT_EQ(order.cycles[0], (std::vector<std::size_t>{4, 5}));
}

// Only an if has an else: what a tree says of one elsewhere may even lead back to its own block.
TEST(Lowering, does_not_follow_an_else_of_other_statements) {
  auto program = ir::parse(with("const k = 2;", "var x = k; while x < 3 { x += 1; } yield;"));
  ASSERT_TRUE(program.has_value());
  ir::Body& body = program->handlers[0].body;
  for (ir::Stmt& stmt : body.stmts) stmt.otherwise = body.root;
  const auto verified = ir::verify(*program);
  ASSERT_TRUE(verified.has_value()) << verified.error().message;
  for (const ir::Stmt& stmt : verified->handlers()[0].handler.body.stmts) {
    EXPECT_FALSE(stmt.otherwise.has_value());
  }
}

}  // namespace
}  // namespace everkernel::test
