// Names, loops, each, opcodes: the rules that are not about types.
#include "support/ir_text.hpp"

namespace everkernel::test {
namespace {

TEST(VerifierNames, a_name_is_defined_before_its_use) {
  expect_wrong({
      {"let x = @y;", "'y' is not defined here", ir::Rule::unknown_name},
      {"let x = @x;", "'x' is not defined here", ir::Rule::unknown_name},
      {"var x = 1 + @x;", "'x' is not defined here", ir::Rule::unknown_name},
      {"@x = 1;", "'x' is not defined here", ir::Rule::unknown_name},
      {"output[@i] = 1;", "'i' is not defined here", ir::Rule::unknown_name},
      {"let x = @y; let y = 1;", "'y' is not defined here", ir::Rule::unknown_name},
      {"for i in 0 .. @i {}", "'i' is not defined here", ir::Rule::unknown_name},
      {"while @go { let go = true; }", "'go' is not defined here", ir::Rule::unknown_name},
      {"fault @code;", "'code' is not defined here", ir::Rule::unknown_name},
      {"let x = len(buffer(@h));", "'h' is not defined here", ir::Rule::unknown_name},
      {"await read(1, 2, 3, @n);", "'n' is not defined here", ir::Rule::unknown_name},
  });
  expect_right({"let y = 1; let x = y; var z = x + y; z = z;"});
}

TEST(VerifierNames, a_name_ends_with_its_block) {
  expect_wrong({
      {"if true { let x = 1; } let y = @x;", "'x' is not defined here", ir::Rule::unknown_name},
      {"if true { let x = 1; } else { let y = @x; }", "'x' is not defined here",
       ir::Rule::unknown_name},
      {"if true { let x = 1; } else if @x == 1 {}", "'x' is not defined here",
       ir::Rule::unknown_name},
      {"for i in 0 .. 1 {} output[@i] = 1;", "'i' is not defined here", ir::Rule::unknown_name},
      {"each i in 0 .. 1 { let x = i; } output[0] = @x;", "'x' is not defined here",
       ir::Rule::unknown_name},
      {"while true { var x = 1; break; } @x = 2;", "'x' is not defined here",
       ir::Rule::unknown_name},
  });
  expect_right({"let x = 1; if true { let y = x; } for i in 0 .. x { let y = i + x; }"});
}

TEST(VerifierNames, a_name_of_one_handler_means_nothing_in_another) {
  expect_refused("handler a = 64 { let x = 1; }\nhandler b = 65 { let y = @x; }",
                 "'x' is not defined here");
  expect_accepted("handler a = 64 { let x = 1; } handler b = 65 { let x = 1.0; let a = x; }");
}

TEST(VerifierNames, a_name_is_not_declared_again_inside_its_scope) {
  expect_wrong({
      {"let x = 1; @let x = 2;", "'x' is declared already", ir::Rule::repeated_name},
      {"let x = 1; @var x = 2i;", "'x' is declared already", ir::Rule::repeated_name},
      {"var x = 1; if true { @let x = 2; }", "'x' is declared already", ir::Rule::repeated_name},
      {"let i = 1; @for i in 0 .. 1 {}", "'i' is declared already", ir::Rule::repeated_name},
      {"for i in 0 .. 1 { @let i = 2; }", "'i' is declared already", ir::Rule::repeated_name},
      {"for i in 0 .. 1 { @each i in 0 .. 1 {} }", "'i' is declared already",
       ir::Rule::repeated_name},
      {"each i in 0 .. 1 { if true { @var i = 1; } }", "'i' is declared already",
       ir::Rule::repeated_name},
  });
  expect_right({
      "if true { let x = 1; } else { let x = 2i; } let x = 3.0;",
      "for i in 0 .. 1 {} for i in 0i .. 1i {} each i in 0 .. 1 {} let i = true;",
  });
}

TEST(VerifierFaults, a_code_above_the_highest_is_refused) {
  expect_wrong({
      {"fault @65280;", "fault 65280 is above the highest code, 65279", ir::Rule::fault_code_range},
      {"each i in 0 .. 1 { fault @0xffffffff; }", "above the highest code",
       ir::Rule::fault_code_range},
  });
  expect_right({"fault 0;", "fault 65279;", "fault 65279 + 1;", "fault param;"});
}

TEST(VerifierNames, only_a_var_is_assigned) {
  expect_wrong({
      {"let x = 1; @x = 2;", "'x' cannot be assigned", ir::Rule::not_assignable},
      {"for i in 0 .. 1 { @i = 2; }", "'i' cannot be assigned", ir::Rule::not_assignable},
      {"each i in 0 .. 1 { @i = 2; }", "'i' cannot be assigned", ir::Rule::not_assignable},
      {"let x = 1; if true { @x = 1; }", "'x' cannot be assigned", ir::Rule::not_assignable},
  });
  expect_right({"var x = 1; x = 2; if true { x = 3; } for i in 0 .. 1 { x = i; }"});
}

TEST(VerifierLoops, break_and_continue_stand_in_a_loop) {
  expect_wrong({
      {"@break;", "break is outside of every loop", ir::Rule::outside_loop},
      {"@continue;", "continue is outside of every loop", ir::Rule::outside_loop},
      {"if true { @break; }", "break is outside of every loop", ir::Rule::outside_loop},
      {"for i in 0 .. 1 {} @continue;", "continue is outside of every loop",
       ir::Rule::outside_loop},
      {"while true { break; } @break;", "break is outside of every loop", ir::Rule::outside_loop},
  });
  expect_right({
      "for i in 0 .. 1 { if true { break; } else { continue; } }",
      "while true { for i in 0 .. 1 { break; } continue; }",
  });
}

TEST(VerifierLoops, only_calls_stand_alone) {
  // The grammar accepts no other programs; hostile_program_test.cpp has those that only C++ can
  // build.
  expect_right({"min(1, 2); abs(3); u32(4.0); printf(1, 2, 3); atomic_add(output[0], 1);"});
}

TEST(VerifierEach, does_not_lie_inside_another) {
  expect_wrong({
      {"each i in 0 .. 1 { @each j in 0 .. 1 {} }", "an each cannot be inside another",
       ir::Rule::nested_each},
      {"each i in 0 .. 1 { for k in 0 .. 1 { if true { @each j in 0 .. 1 {} } } }",
       "an each cannot be inside another", ir::Rule::nested_each},
  });
  expect_right({
      "each i in 0 .. 1 {} each i in 0 .. 1 {}",
      "for k in 0 .. 2 { each i in 0 .. 1 { for j in 0 .. 1 { while false {} } } }",
  });
}

TEST(VerifierEach, outer_variables_are_read_only_inside) {
  expect_wrong({
      {"var x = 1; each i in 0 .. 1 { @x = 2; }", "'x' is read only inside each",
       ir::Rule::read_only_in_each},
      {"var x = 1; each i in 0 .. 1 { for j in 0 .. 1 { if true { @x = 2; } } }",
       "'x' is read only inside each", ir::Rule::read_only_in_each},
      {"for k in 0 .. 2 { var x = k; each i in 0 .. 1 { @x = 2; } }",
       "'x' is read only inside each", ir::Rule::read_only_in_each},
  });
  expect_right({
      "var x = 1; each i in 0 .. 1 { output[i] = x; } x = 2;",
      "each i in 0 .. 1 { var x = i; x = x + 1; for j in 0 .. 2 { x = x + j; } }",
      "var x = 1; each i in 0 .. 1 {} x = 2; each i in 0 .. 1 { var y = x; y = 3; }",
  });
}

TEST(VerifierEach, args_are_read_only_inside) {
  expect_wrong({
      {"each i in 0 .. 1 { @args[3] = i; }", "args are read only inside each",
       ir::Rule::read_only_in_each},
      {"each i in 0 .. 1 { while true { @args[i] = 1; } }", "args are read only inside each",
       ir::Rule::read_only_in_each},
  });
  expect_right({"args[3] = 1; each i in 0 .. 1 { output[i] = args[3]; } args[3] = 2;"});
}

TEST(VerifierEach, nothing_leaves_it_but_fault) {
  expect_wrong({
      {"each i in 0 .. 1 { @break; }", "break cannot leave an each", ir::Rule::leaves_each},
      {"for k in 0 .. 1 { each i in 0 .. 1 { if true { @break; } } }", "break cannot leave an each",
       ir::Rule::leaves_each},
      {"each i in 0 .. 1 { @return; }", "return cannot leave an each", ir::Rule::leaves_each},
      {"each i in 0 .. 1 { for j in 0 .. 1 { @return; } }", "return cannot leave an each",
       ir::Rule::leaves_each},
      {"each i in 0 .. 1 { @yield; }", "yield cannot leave an each", ir::Rule::leaves_each},
      {"each i in 0 .. 1 { while true { @yield; } }", "yield cannot leave an each",
       ir::Rule::leaves_each},
      {"each i in 0 .. 1 { @requeue; }", "requeue cannot leave an each", ir::Rule::leaves_each},
      {"each i in 0 .. 1 { if true {} else { @requeue; } }", "requeue cannot leave an each",
       ir::Rule::leaves_each},
      {"each i in 0 .. 1 { @await read(1, 2, 3, 4); }", "await cannot leave an each",
       ir::Rule::leaves_each},
      {"each i in 0 .. 1 { if true { @await write(1, 2, 3, 4); } }", "await cannot leave an each",
       ir::Rule::leaves_each},
  });
  expect_right({
      "each i in 0 .. 1 { if i == 0 { continue; } fault 3; }",
      "each i in 0 .. 1 { for j in 0 .. 1 { if j == i { break; } continue; } continue; }",
      "for k in 0 .. 1 { each i in 0 .. 1 {} if k == 1 { break; } } yield;",
  });
}

TEST(VerifierOpcodes, reserved_numbers_are_refused) {
  constexpr std::string_view kReserved[] = {"0",          "1",         "7",      "0xfff0",
                                            "0xfffd",     "0xfffe",    "0xffff", "0x80000000",
                                            "0x80000001", "0xffffffff"};
  for (const std::string_view opcode : kReserved) {
    expect_refused("\n @handler h = " + std::string(opcode) + " {}", "is reserved for the system");
  }
  constexpr std::string_view kFree[] = {"8", "9", "0xffef", "0x10000", "0x10001", "0x7fffffff"};
  for (const std::string_view opcode : kFree) {
    expect_accepted("handler h = " + std::string(opcode) + " {}");
  }
}

TEST(VerifierOpcodes, a_number_has_one_handler) {
  expect_refused("handler a = 64 {}\n@handler b = 64 {}", "another handler has opcode 64");
  expect_refused("handler a = 64 {} handler b = 65 {} @handler c = 0x40 {}",
                 "another handler has opcode 64");
  expect_accepted("handler a = 64 {} handler b = 65 {} payload {}");
}

TEST(VerifierOpcodes, a_handler_has_a_name_of_its_own) {
  expect_refused("handler a = 64 {}\n  @handler a = 65 {}", "another handler has the name 'a'");
  expect_refused("handler a = 64 {} handler b = 65 {} payload {} @handler b = 66 {}",
                 "another handler has the name 'b'");
  expect_accepted("handler a = 64 {} handler A = 65 {} handler a_ = 66 {}");
}

TEST(VerifierOpcodes, a_file_has_one_payload) {
  expect_refused("payload {}\n@payload {}", "at most one payload");
  expect_refused("payload {} handler a = 64 {} @payload scope group {}", "at most one payload");
  expect_accepted("handler a = 64 {} payload {} handler b = 65 {}");
}

TEST(VerifierOpcodes, handlers_are_found_by_number_and_the_payload_apart) {
  const auto program = check_text("handler a = 64 {} payload { yield; } handler b = 65 {}");
  ASSERT_TRUE(program.has_value());
  ASSERT_EQ(program->handlers().size(), 3u);
  ASSERT_NE(program->find(65), nullptr);
  EXPECT_EQ(program->find(65)->handler.name, "b");
  EXPECT_EQ(program->find(0), nullptr);
  EXPECT_EQ(program->find(66), nullptr);
  ASSERT_NE(program->payload(), nullptr);
  EXPECT_TRUE(program->payload()->effects.can_yield);
}

TEST(VerifierRecord, keeps_types_and_variables) {
  const auto program = check_text(
      in_handler("let a = 1.5; var b = i32(2); for i in 0 .. 3 { b = b + 1i; } let c = b == 1i;"));
  ASSERT_TRUE(program.has_value());
  const ir::VerifiedHandler& handler = program->handlers()[0];
  ASSERT_EQ(handler.locals.size(), 4u);
  const auto name = [&](std::size_t i) { return handler.handler.body[handler.locals[i].name]; };
  EXPECT_EQ(name(0), "a");
  EXPECT_EQ(handler.locals[0].type, ir::Type::f32);
  EXPECT_FALSE(handler.locals[0].is_variable);
  EXPECT_EQ(name(1), "b");
  EXPECT_EQ(handler.locals[1].type, ir::Type::i32);
  EXPECT_TRUE(handler.locals[1].is_variable);
  EXPECT_EQ(name(2), "i");
  EXPECT_FALSE(handler.locals[2].is_variable);
  EXPECT_EQ(handler.locals[3].type, ir::Type::boolean);
  for (std::size_t i = 0; i < handler.types.size(); ++i) {
    EXPECT_NE(handler.types[i], ir::Type::none) << "expression " << i;
  }
}

TEST(VerifierRecord, names_of_sibling_blocks_are_variables_of_their_own) {
  const auto program = check_text(in_handler("if true { let x = 1; } else { let x = 1.5; }"));
  ASSERT_TRUE(program.has_value());
  const auto& locals = program->handlers()[0].locals;
  ASSERT_EQ(locals.size(), 2u);
  EXPECT_EQ(locals[0].name, locals[1].name);
  EXPECT_EQ(locals[0].type, ir::Type::u32);
  EXPECT_EQ(locals[1].type, ir::Type::f32);
}

}  // namespace
}  // namespace everkernel::test
