// How large a handler may be: each limit from both sides.
#include "everkernel/ir/limits.hpp"
#include "support/ir_text.hpp"
#include "support/results.hpp"

namespace everkernel::test {
namespace {

TEST(VerifierLimits, takes_4096_instructions) {
  // A return is one instruction, `let x = 1;` two, `x = x + 1;` four.
  expect_accepted(in_handler(repeated("return;", 4096)));
  expect_accepted(in_handler("var x = 1; return; return;" + repeated("x = x + 1;", 1023)));
  expect_syntax_error(in_handler(repeated("return;", 4096) + "return;@return;"),
                      "more than 4096 instructions");
  expect_syntax_error(
      in_handler("var x = 1; return; return;" + repeated("x = x + 1;", 1023) + "return;@return;"),
      "more than 4096 instructions");
}

TEST(VerifierLimits, counts_instructions_of_built_programs_too) {
  ir::Handler handler{.name = "h", .opcode = 64};
  ir::Block root;
  for (int i = 0; i < 4096; ++i) root.statements.push_back(handler.body.add(ir::Stmt{}));
  handler.body.root = handler.body.add(root);
  EXPECT_TRUE(ir::verify({.handlers = {handler}}).has_value());
  root.statements.push_back(handler.body.add(ir::Stmt{}));
  handler.body.root = handler.body.add(root);
  const auto refused = ir::verify({.handlers = {handler}});
  ASSERT_FALSE(refused.has_value());
  expect_error(refused.error(), "handler h:", "has 4097 instructions, at most 4096");
}

TEST(VerifierLimits, takes_64_kib_of_text_a_handler) {
  const auto sized = [](std::size_t bytes) {
    const std::string_view head = "handler h = 64 {", tail = "}";
    return std::string(head) + std::string(bytes - head.size() - tail.size(), ' ') +
           std::string(tail);
  };
  expect_accepted(sized(65'536));
  expect_refused("@" + sized(65'537), "65537 bytes of text");
  expect_refused("\n @" + sized(1'000'000), "1000000 bytes of text");
  // Blanks and comments around handlers do not count, and each handler has its own limit.
  expect_accepted(std::string(100'000, ' ') + sized(65'536) + std::string(100'000, '\n'));
  expect_accepted("handler g = 65 {}" + sized(65'536));
}

TEST(VerifierLimits, takes_256_variables) {
  std::string body;
  for (int i = 0; i < 256; ++i)
    body += "let v" + std::to_string(i) + " = " + std::to_string(i) + ";";
  expect_accepted(in_handler(body));
  expect_refused(in_handler(body + "@let w = 1;"), "more than 256 variables");
  expect_refused(in_handler(body + "@for i in 0 .. 1 {}"), "more than 256 variables");
  expect_refused(in_handler(body + "if true { @var w = 1; }"), "more than 256 variables");
}

TEST(VerifierLimits, counts_variables_of_blocks_that_ended) {
  expect_accepted(in_handler(repeated("for i in 0 .. 1 {}", 256)));
  expect_refused(in_handler(repeated("for i in 0 .. 1 {}", 256) + "@each i in 0 .. 1 {}"),
                 "more than 256 variables");
}

// Text with `depth` blocks inside each other, the body of the handler included.
std::string nested(std::string_view head, std::size_t depth) {
  return "handler h = 64 {" + repeated(head, depth - 1) + repeated("}", depth);
}

TEST(VerifierLimits, takes_16_levels_of_blocks) {
  constexpr std::string_view kHeads[] = {"if true {", "while true {", "if true {} else {"};
  for (const std::string_view head : kHeads) {
    expect_accepted(nested(head, 16));
    const auto refused = check_text(nested(head, 17));
    ASSERT_FALSE(refused.has_value()) << head;
    EXPECT_NE(refused.error().message.find("more than 16 deep"), std::string::npos);
  }
}

TEST(VerifierLimits, built_blocks_nest_as_deep_as_written_ones) {
  const auto built = [](std::size_t depth) {
    ir::Handler handler{.name = "h", .opcode = 64};
    ir::BlockId inner = handler.body.add(ir::Block{});
    for (std::size_t i = 1; i < depth; ++i) {
      const auto condition =
          handler.body.add(ir::Expr{.kind = ir::ExprKind::literal, .type = ir::Type::boolean});
      const auto loop = handler.body.add(
          ir::Stmt{.kind = ir::StmtKind::while_loop, .operands = {condition}, .body = inner});
      inner = handler.body.add(ir::Block{.statements = {loop}});
    }
    handler.body.root = inner;
    return ir::verify({.handlers = {handler}});
  };
  EXPECT_TRUE(built(16).has_value());
  for (const std::size_t depth : {17u, 2000u}) {
    const auto refused = built(depth);
    ASSERT_FALSE(refused.has_value());
    expect_error(refused.error(), "handler h:", "more than 16 deep");
  }
}

TEST(VerifierLimits, an_else_if_is_no_level) {
  const std::string chain = "if param == 0 {}" + repeated(" else if param == 1 {}", 200);
  expect_accepted(in_handler(chain + " else {}"));
  // At the deepest level the chain still fits, because its operands are not nested any deeper.
  expect_accepted("handler h = 64 {" + repeated("if true {", 14) + chain + repeated("}", 15));
  expect_syntax_error("handler h = 64 {" + repeated("if true {", 14) +
                          "if true {} else if true { if true @{} }" + repeated("}", 15),
                      "more than 16 deep");
}

// Nothing in the language bounds a row of cases but the number of instructions.
TEST(VerifierLimitsDeathTest, a_row_of_cases_is_as_long_as_its_instructions_allow) {
  expect_accepted_in_a_child(in_handler("if true {}" + repeated(" else if true {}", 300)));
  expect_accepted_in_a_child(in_handler("if true {}" + repeated(" else if true {}", 2047)));
}

TEST(Limits, a_program_has_at_most_16384_handlers) {
  std::string text;
  for (std::size_t i = 0; i < ir::kMaxHandlers; ++i) {
    text += "handler h" + std::to_string(i) + " = " + std::to_string(64 + i) + " {}\n";
  }
  EXPECT_TRUE(check_text(text));
  const auto refused = check_text(text + "handler last = 60000 {}\n");
  EXPECT_EQ(message_of(refused), "16385:1: the program has 16385 handlers, more than 16384");
}

TEST(Limits, the_text_of_a_program_has_at_most_64_mib_unless_the_caller_says_otherwise) {
  std::string text(ir::kMaxProgramBytes, ' ');
  EXPECT_TRUE(check_text(text));
  text += ' ';
  EXPECT_EQ(message_of(check_text(text)), "1:1: the text has 67108865 bytes, more than 67108864");
  EXPECT_TRUE(ir::parse(text, text.size()));
  EXPECT_FALSE(ir::parse(" ", 0));
}

}  // namespace
}  // namespace everkernel::test
