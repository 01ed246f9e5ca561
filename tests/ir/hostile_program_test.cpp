// Malformed programs that no parser could make: verify() refuses each, ends, and reads nothing
// outside of it.
#include <cstdlib>
#include <functional>

#include "support/ir_text.hpp"

namespace everkernel::test {
namespace {

using namespace ir;

constexpr auto kNowhere = 0xFFFFFFFFu;

Expr u32_literal(std::uint32_t bits) {
  return {.kind = ExprKind::literal, .bits = bits};
}
Expr bool_literal() {
  return {.kind = ExprKind::literal, .type = Type::boolean, .bits = 1};
}

// A handler of one statement, which may refer to nodes that `fill` put into the body.
Handler of_one(const std::function<Stmt(Body&)>& fill) {
  Handler handler{.name = "h", .opcode = 64};
  const Stmt stmt = fill(handler.body);
  const StmtId id = handler.body.add(stmt);
  handler.body.root = handler.body.add(Block{.statements = {id}});
  return handler;
}

// `let x = EXPR`.
Handler of_value(const std::function<Expr(Body&)>& fill) {
  return of_one([&](Body& body) {
    const Expr expr = fill(body);
    const ExprId id = body.add(expr);
    return Stmt{.kind = StmtKind::let_value, .name = body.intern("x"), .operands = {id}};
  });
}

void expect_refused_program(Program program, std::string_view fragment) {
  const auto verified = verify(std::move(program));
  ASSERT_FALSE(verified.has_value()) << "it was accepted; expected: " << fragment;
  EXPECT_EQ(verified.error().code, Code::invalid_argument);
  EXPECT_NE(verified.error().message.find(fragment), std::string::npos) << verified.error().message;
}

void expect_refused_handler(Handler handler, std::string_view fragment) {
  expect_refused_program({.handlers = {std::move(handler)}}, fragment);
}

TEST(HostileProgram, the_sound_versions_are_accepted) {
  EXPECT_TRUE(verify({.handlers = {of_value([](Body&) { return u32_literal(1); })}}).has_value());
  EXPECT_TRUE(verify({.handlers = {of_one([](Body&) { return Stmt{}; })}}).has_value());
}

TEST(HostileProgram, a_body_without_blocks_is_refused) {
  expect_refused_handler({.name = "h", .opcode = 64}, "node 0 does not exist");
}

TEST(HostileProgram, a_root_outside_is_refused) {
  Handler handler = of_one([](Body&) { return Stmt{}; });
  handler.body.root = BlockId{1};
  expect_refused_handler(handler, "node 1 does not exist");
  handler.body.root = BlockId{kNowhere};
  expect_refused_handler(handler, "does not exist");
}

TEST(HostileProgram, a_statement_outside_is_refused) {
  Handler handler = of_one([](Body&) { return Stmt{}; });
  handler.body.blocks[0].statements[0] = StmtId{1};
  expect_refused_handler(handler, "node 1 does not exist");
  handler.body.blocks[0].statements[0] = StmtId{kNowhere};
  expect_refused_handler(handler, "does not exist");
}

TEST(HostileProgram, every_operand_of_a_statement_outside_is_refused) {
  struct Row {
    StmtKind kind;
    int operands;
    Type type;
  };
  constexpr Row kRows[] = {
      {StmtKind::let_value, 1, Type::u32},  {StmtKind::let_variable, 1, Type::u32},
      {StmtKind::assign_arg, 2, Type::u32}, {StmtKind::store, 2, Type::u32},
      {StmtKind::branch, 1, Type::boolean}, {StmtKind::for_loop, 2, Type::u32},
      {StmtKind::each_loop, 2, Type::u32},  {StmtKind::while_loop, 1, Type::boolean},
      {StmtKind::fault, 1, Type::u32},      {StmtKind::evaluate, 1, Type::u32},
      {StmtKind::await_read, 4, Type::u32}, {StmtKind::await_write, 4, Type::u32},
  };
  for (const Row& row : kRows) {
    for (int broken = 0; broken < row.operands; ++broken) {
      SCOPED_TRACE("kind " + std::to_string(static_cast<int>(row.kind)));
      Handler handler = of_one([&](Body& body) {
        Stmt stmt{.kind = row.kind, .name = body.intern("x")};
        for (int i = 0; i < row.operands; ++i) {
          stmt.operands[i] = i == broken ? ExprId{kNowhere} : body.add(Expr{.type = row.type});
        }
        stmt.body = body.add(Block{});
        return stmt;
      });
      expect_refused_handler(handler, "does not exist");
    }
  }
}

TEST(HostileProgram, every_block_of_a_statement_outside_is_refused) {
  for (const StmtKind kind :
       {StmtKind::branch, StmtKind::for_loop, StmtKind::each_loop, StmtKind::while_loop}) {
    const bool counts = kind == StmtKind::for_loop || kind == StmtKind::each_loop;
    expect_refused_handler(of_one([&](Body& body) {
                             const Expr operand = counts ? u32_literal(0) : bool_literal();
                             return Stmt{.kind = kind,
                                         .name = body.intern("x"),
                                         .operands = {body.add(operand), body.add(operand)},
                                         .body = BlockId{kNowhere}};
                           }),
                           "does not exist");
  }
  expect_refused_handler(of_one([](Body& body) {
                           return Stmt{.kind = StmtKind::branch,
                                       .operands = {body.add(bool_literal())},
                                       .body = body.add(Block{}),
                                       .otherwise = BlockId{kNowhere}};
                         }),
                         "does not exist");
}

TEST(HostileProgram, an_else_whose_only_statement_is_outside_is_refused) {
  expect_refused_handler(of_one([](Body& body) {
                           return Stmt{
                               .kind = StmtKind::branch,
                               .operands = {body.add(bool_literal())},
                               .body = body.add(Block{}),
                               .otherwise = body.add(Block{.statements = {StmtId{kNowhere}}})};
                         }),
                         "does not exist");
}

TEST(HostileProgram, names_outside_are_refused) {
  expect_refused_handler(of_one([](Body& body) {
                           return Stmt{.kind = StmtKind::let_value,
                                       .name = NameId{kNowhere},
                                       .operands = {body.add(u32_literal(1))}};
                         }),
                         "a name does not exist");
  expect_refused_handler(of_one([](Body& body) {
                           return Stmt{.kind = StmtKind::assign_name,
                                       .name = NameId{7},
                                       .operands = {body.add(u32_literal(1))}};
                         }),
                         "a name does not exist");
  expect_refused_handler(
      of_value([](Body&) { return Expr{.kind = ExprKind::name, .name = NameId{kNowhere}}; }),
      "a name does not exist");
  expect_refused_handler(of_one([](Body& body) {
                           return Stmt{
                               .kind = StmtKind::for_loop,
                               .name = NameId{kNowhere},
                               .operands = {body.add(u32_literal(0)), body.add(u32_literal(0))},
                               .body = body.add(Block{})};
                         }),
                         "a name does not exist");
}

TEST(HostileProgram, operands_of_expressions_outside_are_refused) {
  const ExprId nowhere{kNowhere};
  const Expr kRows[] = {
      {.kind = ExprKind::arg, .operand_count = 1, .operands = {nowhere}},
      {.kind = ExprKind::load, .operand_count = 1, .operands = {nowhere}},
      {.kind = ExprKind::load,
       .operand_count = 1,
       .buffer = {BufferKind::handle, nowhere},
       .operands = {nowhere}},
      {.kind = ExprKind::length, .buffer = {BufferKind::handle, nowhere}},
      {.kind = ExprKind::unary, .operand_count = 1, .operands = {nowhere}},
      {.kind = ExprKind::binary, .operand_count = 2, .operands = {nowhere, nowhere}},
      {.kind = ExprKind::call, .operand_count = 2, .operands = {nowhere, nowhere}},
      {.kind = ExprKind::atomic, .operand_count = 2, .operands = {nowhere, nowhere}},
  };
  for (const Expr& expr : kRows) {
    SCOPED_TRACE("kind " + std::to_string(static_cast<int>(expr.kind)));
    expect_refused_handler(of_value([&](Body&) { return expr; }), "does not exist");
  }
  // The second operand, after a sound first one.
  for (const ExprKind kind : {ExprKind::binary, ExprKind::call, ExprKind::atomic}) {
    expect_refused_handler(of_value([&](Body& body) {
                             return Expr{.kind = kind,
                                         .operand_count = 2,
                                         .operands = {body.add(u32_literal(1)), nowhere}};
                           }),
                           "does not exist");
  }
}

TEST(HostileProgram, a_node_with_two_parents_is_refused) {
  expect_refused_handler(
      of_value([](Body& body) {
        const ExprId one = body.add(u32_literal(1));
        return Expr{.kind = ExprKind::binary, .operand_count = 2, .operands = {one, one}};
      }),
      "has two parents");
  expect_refused_handler(of_one([](Body& body) {
                           const ExprId one = body.add(u32_literal(1));
                           return Stmt{.kind = StmtKind::assign_arg, .operands = {one, one}};
                         }),
                         "has two parents");
  Handler statement_twice = of_one([](Body&) { return Stmt{}; });
  statement_twice.body.blocks[0].statements.push_back(StmtId{0});
  expect_refused_handler(statement_twice, "node 0 has two parents");
  expect_refused_handler(of_one([](Body& body) {
                           const BlockId block = body.add(Block{});
                           return Stmt{.kind = StmtKind::branch,
                                       .operands = {body.add(bool_literal())},
                                       .body = block,
                                       .otherwise = block};
                         }),
                         "has two parents");
  expect_refused_handler(of_value([](Body& body) {
                           const ExprId one = body.add(u32_literal(1));
                           return Expr{.kind = ExprKind::load,
                                       .operand_count = 1,
                                       .buffer = {BufferKind::handle, one},
                                       .operands = {one}};
                         }),
                         "has two parents");
}

TEST(HostileProgram, cycles_are_refused) {
  // An expression that is its own operand.
  expect_refused_handler(of_value([](Body& body) {
                           const ExprId self{static_cast<std::uint32_t>(body.exprs.size())};
                           return Expr{
                               .kind = ExprKind::unary, .operand_count = 1, .operands = {self}};
                         }),
                         "has two parents");
  // Two expressions that are operands of each other.
  expect_refused_handler(
      of_value([](Body& body) {
        body.add(Expr{.kind = ExprKind::unary, .operand_count = 1, .operands = {ExprId{1}}});
        return Expr{.kind = ExprKind::unary, .operand_count = 1, .operands = {ExprId{0}}};
      }),
      "has two parents");
  // A statement whose body is the block it stands in.
  Handler loop = of_one([](Body& body) {
    return Stmt{
        .kind = StmtKind::while_loop, .operands = {body.add(bool_literal())}, .body = BlockId{0}};
  });
  expect_refused_handler(loop, "has two parents");
  // An else that is the block it stands in, which looks like an `else if`.
  Handler chain = of_one([](Body& body) {
    const BlockId then = body.add(Block{});
    return Stmt{.kind = StmtKind::branch,
                .operands = {body.add(bool_literal())},
                .body = then,
                .otherwise = BlockId{1}};
  });
  expect_refused_handler(chain, "has two parents");
}

TEST(HostileProgram, literals_without_a_value_of_their_type_are_refused) {
  expect_refused_handler(of_value([](Body&) { return Expr{.type = Type::none}; }),
                         "no value of its type");
  expect_refused_handler(of_value([](Body&) { return Expr{.type = Type::boolean, .bits = 2}; }),
                         "no value of its type");
  expect_refused_handler(of_value([](Body&) { return Expr{.type = Type{77}}; }), "");
}

TEST(HostileProgram, wrong_operand_counts_are_refused) {
  const auto call_of = [](Function function, std::uint8_t count) {
    return of_value([=](Body& body) {
      Expr expr{.kind = ExprKind::call, .operand_count = count, .function = function};
      for (auto& operand : expr.operands) operand = body.add(u32_literal(1));
      return expr;
    });
  };
  expect_refused_handler(call_of(Function::min, 0), "min takes 2 values");
  expect_refused_handler(call_of(Function::min, 3), "min takes 2 values");
  expect_refused_handler(call_of(Function::min, 255), "min takes 2 values");
  expect_refused_handler(call_of(Function::emit, 4), "emit takes 3 values");
}

// The counts of operands that calls and atomics have are read by everything behind the verifier.
// For other kinds the count follows from the kind, and the field may hold anything.
TEST(HostileProgram, atomics_with_wrong_operand_counts_are_refused) {
  for (const int count : {0, 1, 3, 4, 255}) {
    expect_refused_handler(of_value([&](Body& body) {
                             Expr expr{.kind = ExprKind::atomic};
                             expr.operand_count = static_cast<std::uint8_t>(count);
                             for (auto& operand : expr.operands) operand = body.add(u32_literal(1));
                             return expr;
                           }),
                           "atomic_add takes a word and 1 values");
  }
}

TEST(HostileProgram, a_handler_without_text_is_as_long_as_its_printed_text) {
  const auto with_name = [](std::size_t size_bytes) {
    Handler handler = of_value([&](Body& body) {
      body.names = {std::string(size_bytes, 'x')};
      return u32_literal(1);
    });
    handler.body.stmts[0].name = NameId{0};
    return handler;
  };
  EXPECT_TRUE(verify({.handlers = {with_name(65'000)}}).has_value());
  expect_refused_handler(with_name(65'530), "bytes of text, at most 65536");
  expect_refused_handler(with_name(1'000'000), "1000000 bytes of text, at most 65536");
  Handler long_name = of_one([](Body&) { return Stmt{}; });
  long_name.name.assign(1'000'000, 'h');
  expect_refused_handler(long_name, "1000000 bytes of text");
}

// Each of these literals prints as a call with a literal inside, which are two instructions.
TEST(HostileProgram, literals_that_print_as_calls_count_twice) {
  const auto of_literals = [](std::uint32_t count) {
    Handler handler{.name = "h", .opcode = 64};
    Block block;
    for (std::uint32_t i = 0; i < count; ++i) {
      const ExprId literal = handler.body.add(Expr{.type = Type::f32, .bits = 0xFFC00000});
      const ExprId bits = handler.body.add(Expr{.kind = ExprKind::call,
                                                .operand_count = 1,
                                                .function = Function::bits_u32,
                                                .operands = {literal}});
      block.statements.push_back(
          handler.body.add(Stmt{.kind = StmtKind::evaluate, .operands = {bits}}));
    }
    handler.body.root = handler.body.add(std::move(block));
    return handler;
  };
  EXPECT_TRUE(verify({.handlers = {of_literals(1024)}}).has_value());
  expect_refused_handler(of_literals(1025), "the handler has 4100 instructions");
}

TEST(HostileProgram, more_blocks_or_names_than_instructions_are_refused) {
  Handler names = of_one([](Body&) { return Stmt{}; });
  for (int i = 0; i < 5000; ++i) names.body.names.push_back("n" + std::to_string(i));
  expect_refused_handler(names, "more blocks or names than instructions");
  Handler blocks = of_one([](Body&) { return Stmt{}; });
  blocks.body.blocks.resize(5000);
  expect_refused_handler(blocks, "more blocks or names than instructions");
}

TEST(HostileProgram, two_payloads_are_refused_whatever_their_names) {
  Handler first = of_one([](Body&) { return Stmt{}; });
  first.is_payload = true;
  Handler second = first;
  first.name = "a";
  second.name = "b";
  expect_refused_program({.handlers = {first, second}}, "payload");
}

TEST(HostileProgram, a_name_that_stands_twice_in_the_table_is_one_name) {
  Handler handler = of_one([](Body& body) {
    body.names = {"x", "x"};
    return Stmt{
        .kind = StmtKind::let_value, .name = NameId{0}, .operands = {body.add(u32_literal(1))}};
  });
  const ExprId value = handler.body.add(u32_literal(2));
  const StmtId again =
      handler.body.add(Stmt{.kind = StmtKind::let_value, .name = NameId{1}, .operands = {value}});
  handler.body.blocks[0].statements.push_back(again);
  expect_refused_handler(handler, "");
}

// Enumerators that do not exist. In a process of its own: reading a table by them may end it.
[[noreturn]] void exit_by_verdict(const Handler& handler) {
  const bool is_accepted = verify(Program{.handlers = {handler}}).has_value();
  std::_Exit(is_accepted ? 1 : 0);
}

void expect_refused_in_a_child(const char* what, const Handler& handler) {
  EXPECT_EXIT(exit_by_verdict(handler), testing::ExitedWithCode(0), "") << what;
}

TEST(HostileProgramDeathTest, enumerators_that_do_not_exist_are_refused) {
  const auto binary_of = [](auto change) {
    return of_value([&](Body& body) {
      Expr expr{.kind = ExprKind::binary,
                .operand_count = 2,
                .operands = {body.add(u32_literal(1)), body.add(u32_literal(1))}};
      change(expr);
      return expr;
    });
  };
  const auto value_of = [](Expr expr) { return of_value([&](Body&) { return expr; }); };
  const auto unary_of_bool = of_value([](Body& body) {
    return Expr{.kind = ExprKind::unary,
                .operand_count = 1,
                .unary = UnaryOp{99},
                .operands = {body.add(bool_literal())}};
  });
  expect_refused_in_a_child("expression kind", value_of({.kind = ExprKind{99}}));
  expect_refused_in_a_child("statement kind",
                            of_one([](Body&) { return Stmt{.kind = StmtKind{99}}; }));
  expect_refused_in_a_child("binary operator",
                            binary_of([](Expr& expr) { expr.binary = BinaryOp{200}; }));
  expect_refused_in_a_child("unary operator", unary_of_bool);
  expect_refused_in_a_child("function", binary_of([](Expr& expr) {
                              expr.kind = ExprKind::call;
                              expr.function = Function{200};
                            }));
  expect_refused_in_a_child("atomic", binary_of([](Expr& expr) {
                              expr.kind = ExprKind::atomic;
                              expr.atomic = AtomicOp{200};
                            }));
  expect_refused_in_a_child("given value",
                            value_of({.kind = ExprKind::builtin, .builtin = Builtin{200}}));
  expect_refused_in_a_child("buffer",
                            value_of({.kind = ExprKind::length, .buffer = {BufferKind{200}, {}}}));
  Handler scope = of_one([](Body&) { return Stmt{}; });
  scope.scope = Scope{200};
  expect_refused_in_a_child("scope", scope);
}

}  // namespace
}  // namespace everkernel::test
