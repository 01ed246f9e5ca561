// The grammar: the nodes of each production, and the location of each mistake.
#include "everkernel/ir/detail/vocabulary_tables.hpp"
#include "everkernel/ir/limits.hpp"
#include "support/ir_text.hpp"

namespace everkernel::test {
namespace {

using ir::ExprKind;
using ir::StmtKind;

// An expression as a list in prefix form, written without the printer.
std::string tree(const ir::Body& body, ir::ExprId id) {
  const ir::Expr& expr = body[id];
  const auto with = [&](std::string head, std::size_t count) {
    std::string text = "(" + std::move(head);
    for (std::size_t i = 0; i < count; ++i) text += " " + tree(body, expr.operands[i]);
    return text + ")";
  };
  const auto buffer = [&] {
    std::string name(ir::buffer_name(expr.buffer.kind));
    if (expr.buffer.kind != ir::BufferKind::handle) return name;
    return "(" + name + " " + tree(body, expr.buffer.handle) + ")";
  };
  switch (expr.kind) {
    case ExprKind::literal:
      return std::to_string(expr.bits);
    case ExprKind::name:
      return body[expr.name];
    case ExprKind::builtin:
      return std::string(ir::info(expr.builtin).name);
    case ExprKind::arg:
      return with("args", 1);
    case ExprKind::load:
      return with("load " + buffer(), 1);
    case ExprKind::length:
      return "(len " + buffer() + ")";
    case ExprKind::unary:
      return with(std::string(1, ir::unary_sign(expr.unary)), 1);
    case ExprKind::binary:
      return with(std::string(ir::info(expr.binary).sign), 2);
    case ExprKind::call:
      return with(std::string(ir::info(expr.function).name), expr.operand_count);
    case ExprKind::user_call: {
      std::string text = "(" + body[expr.name];
      for (std::size_t i = 0; i < expr.operand_count; ++i) {
        text += " " + tree(body, body.arguments[expr.bits + i]);
      }
      return text + ")";
    }
    case ExprKind::element:
      return with("element " + body[expr.name], 1);
    case ExprKind::bind:
      break;
    case ExprKind::atomic:
      return with(std::string(ir::info(expr.atomic).name) + " " + buffer(), expr.operand_count);
  }
  return "?";
}

std::string tree_of(std::string_view expression) {
  const auto program = ir::parse(in_handler("let x = " + std::string(expression) + ";"));
  if (!program) return program.error().message;
  const ir::Body& body = program->handlers.at(0).body;
  return tree(body, body[body[body.root].statements.at(0)].operands[0]);
}

TEST(Parser, binds_operators_as_c_does) {
  struct Row {
    std::string_view text, expected;
  };
  constexpr Row kRows[] = {
      {"a + b * c", "(+ a (* b c))"},
      {"a * b + c", "(+ (* a b) c)"},
      {"a - b / c % d", "(- a (% (/ b c) d))"},
      {"a << b + c", "(<< a (+ b c))"},
      {"a + b << c", "(<< (+ a b) c)"},
      {"a < b << c", "(< a (<< b c))"},
      {"a << b >= c", "(>= (<< a b) c)"},
      {"a == b < c", "(== a (< b c))"},
      {"a > b != c", "(!= (> a b) c)"},
      {"a & b == c", "(& a (== b c))"},
      {"a ^ b & c", "(^ a (& b c))"},
      {"a | b ^ c", "(| a (^ b c))"},
      {"a && b | c", "(&& a (| b c))"},
      {"a || b && c", "(|| a (&& b c))"},
      {"a && b || c", "(|| (&& a b) c)"},
      {"a | b & c ^ d", "(| a (^ (& b c) d))"},
      {"a || b && c | d ^ e & f == g < h << i + j * k",
       "(|| a (&& b (| c (^ d (& e (== f (< g (<< h (+ i (* j k))))))))))"},
      {"a * b + c << d < e == f & g ^ h | i && j || k",
       "(|| (&& (| (^ (& (== (< (<< (+ (* a b) c) d) e) f) g) h) i) j) k)"},
  };
  for (const Row& row : kRows) EXPECT_EQ(tree_of(row.text), row.expected) << row.text;
}

TEST(Parser, operators_of_one_strength_group_to_the_left) {
  struct Row {
    std::string_view text, expected;
  };
  constexpr Row kRows[] = {
      {"a - b - c", "(- (- a b) c)"},
      {"a - b + c", "(+ (- a b) c)"},
      {"a / b * c % d", "(% (* (/ a b) c) d)"},
      {"a << b >> c", "(>> (<< a b) c)"},
      {"a < b <= c > d", "(> (<= (< a b) c) d)"},
      {"a == b != c", "(!= (== a b) c)"},
      {"a & b & c", "(& (& a b) c)"},
      {"a ^ b ^ c", "(^ (^ a b) c)"},
      {"a | b | c", "(| (| a b) c)"},
      {"a && b && c", "(&& (&& a b) c)"},
      {"a || b || c", "(|| (|| a b) c)"},
  };
  for (const Row& row : kRows) EXPECT_EQ(tree_of(row.text), row.expected) << row.text;
}

TEST(Parser, signs_bind_tightest_and_parentheses_decide) {
  struct Row {
    std::string_view text, expected;
  };
  constexpr Row kRows[] = {
      {"-a * b", "(* (- a) b)"},
      {"-a - -b", "(- (- a) (- b))"},
      {"!a && !b", "(&& (! a) (! b))"},
      {"~-!a", "(~ (- (! a)))"},
      {"--a", "(- (- a))"},
      {"-(a + b)", "(- (+ a b))"},
      {"(a)", "a"},
      {"((a + b)) * (c)", "(* (+ a b) c)"},
      {"a - (b - c)", "(- a (- b c))"},
      {"-args[1]", "(- (args 1))"},
      {"-7i", "(- 7)"},
  };
  for (const Row& row : kRows) EXPECT_EQ(tree_of(row.text), row.expected) << row.text;
}

TEST(Parser, reads_every_kind_of_value) {
  struct Row {
    std::string_view text, expected;
  };
  constexpr Row kRows[] = {
      {"7", "7"},
      {"true", "1"},
      {"false", "0"},
      {"name_1", "name_1"},
      {"_", "_"},
      {"opcode + tenant + priority + slot", "(+ (+ (+ opcode tenant) priority) slot)"},
      {"param + lane + lanes", "(+ (+ param lane) lanes)"},
      {"args[a + 1]", "(args (+ a 1))"},
      {"input[0] + output[1] + control[2]",
       "(+ (+ (load input 0) (load output 1)) (load control 2))"},
      {"buffer(a + 1)[b]", "(load (buffer (+ a 1)) b)"},
      {"buffer(input[0])[buffer(1)[2]]", "(load (buffer (load input 0)) (load (buffer 1) 2))"},
      {"len(input) + len(output) + len(control)", "(+ (+ (len input) (len output)) (len control))"},
      {"len(buffer(3))", "(len (buffer 3))"},
      {"min(a, max(b, c))", "(min a (max b c))"},
      {"abs(a) + clz(b) + popcount(c)", "(+ (+ (abs a) (clz b)) (popcount c))"},
      {"select(a, b, c)", "(select a b c)"},
      {"sqrt(a) + floor(b) + fma(a, b, c)", "(+ (+ (sqrt a) (floor b)) (fma a b c))"},
      {"rotl(a, b)", "(rotl a b)"},
      {"clamp(a, b, c) + exp(a) + log(b)", "(+ (+ (clamp a b c) (exp a)) (log b))"},
      {"exp2(a) + log2(b) + sin(a) + cos(b)", "(+ (+ (+ (exp2 a) (log2 b)) (sin a)) (cos b))"},
      {"tanh(a) + pow(a, b)", "(+ (tanh a) (pow a b))"},
      {"exp + exp (log) + pow", "(+ (+ exp (exp log)) pow)"},
      {"u32(a) + i32(b) + f32(c)", "(+ (+ (u32 a) (i32 b)) (f32 c))"},
      {"bits_u32(a) + bits_i32(b) + bits_f32(c)", "(+ (+ (bits_u32 a) (bits_i32 b)) (bits_f32 c))"},
      {"printf(1, 2, 3)", "(printf 1 2 3)"},
      {"emit(1, 2, 3)", "(emit 1 2 3)"},
      {"atomic_add(input[0], 1)", "(atomic_add input 0 1)"},
      {"atomic_min(output[0], 1)", "(atomic_min output 0 1)"},
      {"atomic_max(control[0], 1)", "(atomic_max control 0 1)"},
      {"atomic_and(buffer(5)[0], 1)", "(atomic_and (buffer 5) 0 1)"},
      {"atomic_or(input[a + b], c)", "(atomic_or input (+ a b) c)"},
      {"atomic_xor(input[0], 1)", "(atomic_xor input 0 1)"},
      {"atomic_exchange(input[0], 1)", "(atomic_exchange input 0 1)"},
      {"atomic_cas(input[0], 1, 2)", "(atomic_cas input 0 1 2)"},
      {"f() + g(a) * h(a, b + c, d, f(e))", "(+ (f) (* (g a) (h a (+ b c) d (f e))))"},
  };
  for (const Row& row : kRows) EXPECT_EQ(tree_of(row.text), row.expected) << row.text;
}

TEST(Parser, reads_every_kind_of_statement) {
  struct Row {
    std::string_view text;
    StmtKind kind;
  };
  constexpr Row kRows[] = {
      {"let a = 1;", StmtKind::let_value},
      {"a += 1;", StmtKind::assign_name},
      {"args[1] <<= 1;", StmtKind::assign_arg},
      {"output[1] |= 1;", StmtKind::store},
      {"for i in 0 .. 1 step 2 {}", StmtKind::for_loop},
      {"var a = 1;", StmtKind::let_variable},
      {"a = 1;", StmtKind::assign_name},
      {"args[1] = 1;", StmtKind::assign_arg},
      {"input[1] = 1;", StmtKind::store},
      {"output[1] = 1;", StmtKind::store},
      {"control[1] = 1;", StmtKind::store},
      {"buffer(1)[1] = 1;", StmtKind::store},
      {"if a {}", StmtKind::branch},
      {"if a {} else {}", StmtKind::branch},
      {"if a {} else if b {} else {}", StmtKind::branch},
      {"for i in 0 .. 1 {}", StmtKind::for_loop},
      {"each i in 0 .. 1 {}", StmtKind::each_loop},
      {"while a {}", StmtKind::while_loop},
      {"break;", StmtKind::break_loop},
      {"var a: [f32; 16];", StmtKind::declare_array},
      {"a[1] = 2;", StmtKind::store_element},
      {"a[1] -= 2;", StmtKind::store_element},
      {"continue;", StmtKind::continue_loop},
      {"return;", StmtKind::finish},
      {"yield;", StmtKind::yield},
      {"requeue;", StmtKind::requeue},
      {"fault 1;", StmtKind::fault},
      {"printf(1, 2, 3);", StmtKind::evaluate},
      {"atomic_add(output[0], 1);", StmtKind::evaluate},
      {"await read(1, 2, 3, 4);", StmtKind::await_read},
      {"await write(1, 2, 3, 4);", StmtKind::await_write},
  };
  for (const Row& row : kRows) {
    const auto program = ir::parse(in_handler(row.text));
    ASSERT_TRUE(program.has_value()) << row.text << ": " << program.error().message;
    const ir::Body& body = program->handlers.at(0).body;
    ASSERT_EQ(body[body.root].statements.size(), 1u) << row.text;
    const ir::Stmt& stmt = body[body[body.root].statements[0]];
    EXPECT_EQ(stmt.kind, row.kind) << row.text;
    EXPECT_EQ(stmt.location.line, 2u);
    EXPECT_EQ(stmt.location.column, 1u);
  }
}

TEST(Parser, reads_declarations_of_handlers) {
  const auto program = ir::parse(
      "handler a = 64 {}\nhandler b = 0x41 scope warp {}\n handler c = 66 scope group pure {}"
      "handler d = 67 commutes pure {} handler e = 68 scope lane pure commutes {} payload {}");
  ASSERT_TRUE(program.has_value()) << program.error().message;
  ASSERT_EQ(program->handlers.size(), 6u);
  const auto& handlers = program->handlers;
  EXPECT_EQ(handlers[0].name, "a");
  EXPECT_EQ(handlers[0].opcode, 64u);
  EXPECT_EQ(handlers[0].scope, ir::Scope::lane);
  EXPECT_FALSE(handlers[0].is_pure || handlers[0].commutes || handlers[0].is_payload);
  EXPECT_EQ(handlers[0].text_bytes, 17u);
  EXPECT_EQ(handlers[1].opcode, 65u);
  EXPECT_EQ(handlers[1].scope, ir::Scope::warp);
  EXPECT_EQ(handlers[1].location.line, 2u);
  EXPECT_EQ(handlers[2].scope, ir::Scope::group);
  EXPECT_TRUE(handlers[2].is_pure && !handlers[2].commutes);
  EXPECT_EQ(handlers[2].location.line, 3u);
  EXPECT_EQ(handlers[2].location.column, 2u);
  EXPECT_TRUE(handlers[3].is_pure && handlers[3].commutes);
  EXPECT_TRUE(handlers[4].is_pure && handlers[4].commutes);
  EXPECT_TRUE(handlers[5].is_payload);
  EXPECT_EQ(handlers[5].name, "payload");
}

TEST(Parser, reads_the_scope_of_a_payload) {
  const auto program = ir::parse("payload scope group {}");
  ASSERT_TRUE(program.has_value());
  EXPECT_EQ(program->handlers.at(0).scope, ir::Scope::group);
}

TEST(Parser, an_empty_file_is_an_empty_program) {
  for (const std::string_view text : {"", " ", "\n\n", "// nothing", "/* nothing */\n"}) {
    const auto program = ir::parse(text);
    ASSERT_TRUE(program.has_value()) << program.error().message;
    EXPECT_TRUE(program->handlers.empty());
    const auto verified = ir::verify(*program);
    ASSERT_TRUE(verified.has_value());
    EXPECT_EQ(verified->payload(), nullptr);
    EXPECT_EQ(verified->find(64), nullptr);
  }
}

TEST(Parser, names_the_place_of_a_mistake_in_a_declaration) {
  constexpr Wrong kRows[] = {
      {"@x", "expected 'handler' or 'payload', found 'x'", ir::Rule::expected_declaration},
      {"@7", "expected 'handler' or 'payload', found '7'", ir::Rule::expected_declaration},
      {"@{", "expected 'handler' or 'payload'", ir::Rule::expected_declaration},
      {"handler a = 64 {} @}", "expected 'handler' or 'payload', found '}'",
       ir::Rule::expected_declaration},
      {"handler@", "expected the name of a handler, found the end of the text",
       ir::Rule::expected_name},
      {"handler @7 = 64 {}", "expected the name of a handler, found '7'", ir::Rule::expected_name},
      {"handler @= 64 {}", "expected the name of a handler, found '='", ir::Rule::expected_name},
      {"handler a @64 {}", "expected '=', found '64'", ir::Rule::expected_assignment},
      {"handler a @== 64 {}", "expected '=', found '=='", ir::Rule::expected_assignment},
      {"handler a = @b {}", "the opcode, an unsigned number, found 'b'", ir::Rule::expected_opcode},
      {"handler a = @64i {}", "the opcode, an unsigned number", ir::Rule::expected_opcode},
      {"handler a = @64.0 {}", "the opcode, an unsigned number", ir::Rule::expected_opcode},
      {"handler a = @-64 {}", "the opcode, an unsigned number", ir::Rule::expected_opcode},
      {"handler a = 64 @+ 1 {}", "expected '{', found '+'", ir::Rule::expected_brace},
      {"handler a = 64 scope @block {}", "expected 'lane', 'warp' or 'group', found 'block'",
       ir::Rule::expected_word},
      {"handler a = 64 scope @{}", "expected 'lane', 'warp' or 'group'", ir::Rule::expected_word},
      {"handler a = 64 pure @scope warp {}", "expected '{', found 'scope'",
       ir::Rule::expected_brace},
      {"handler a = 64 scope warp @scope warp {}", "expected '{', found 'scope'",
       ir::Rule::expected_brace},
      {"handler a = 64 @atomic {}", "expected '{', found 'atomic'", ir::Rule::expected_brace},
      {"handler a = 64@", "expected '{', found the end of the text", ir::Rule::expected_brace},
      {"handler a = 64 {@", "expected '}', found the end of the text", ir::Rule::expected_brace},
      {"handler a = 64 { if true { }@", "expected '}', found the end of the text",
       ir::Rule::expected_brace},
      {"handler a = 64 { @handler b = 65 {}", "expected '}', found 'handler'",
       ir::Rule::expected_brace},
      {"payload @a {}", "expected '{', found 'a'", ir::Rule::expected_brace},
      {"payload @= 64 {}", "expected '{', found '='", ir::Rule::expected_brace},
      {"payload @pure {}", "expected '{', found 'pure'", ir::Rule::expected_brace},
      {"payload scope warp @commutes {}", "expected '{', found 'commutes'",
       ir::Rule::expected_brace},
  };
  expect_syntax_errors(kRows, /*is_body=*/false);
}

TEST(Parser, refuses_a_promise_made_twice) {
  expect_syntax_error("handler a = 64 pure @pure {}", "'pure' is repeated");
  expect_syntax_error("handler a = 64 commutes pure @commutes {}", "'commutes' is repeated");
}

TEST(Parser, names_the_place_of_a_mistake_in_a_statement) {
  constexpr Wrong kRows[] = {
      {"@7;", "expected a statement, found '7'", ir::Rule::expected_statement},
      {"@;", "expected a statement, found ';'", ir::Rule::expected_statement},
      {"@{ }", "expected a statement, found '{'", ir::Rule::expected_statement},
      {"@(a) = 1;", "expected a statement, found '('", ir::Rule::expected_statement},
      {"@else {}", "expected a statement, found 'else'", ir::Rule::expected_statement},
      {"@param = 1;", "expected a statement, found 'param'", ir::Rule::expected_statement},
      {"@lane = 1;", "expected a statement, found 'lane'", ir::Rule::expected_statement},
      {"@len(input);", "expected a statement, found 'len'", ir::Rule::expected_statement},
      {"@true;", "expected a statement, found 'true'", ir::Rule::expected_statement},
      {"let @= 1;", "expected the name of a variable, found '='", ir::Rule::expected_name},
      {"let a @1;", "expected '=', found '1'", ir::Rule::expected_assignment},
      {"let a @: u32 = 1;", "expected '=', found ':'", ir::Rule::expected_assignment},
      {"let a @? u32 = 1;", "'?' is not part of the language", ir::Rule::unknown_character},
      {"let a = @;", "expected a value, found ';'", ir::Rule::expected_value},
      {"let a = 1@\n}", "expected ';', found '}'", ir::Rule::expected_semicolon},
      {"var a = @= 1;", "expected a value, found '='", ir::Rule::expected_value},
      {"a @+ 1;", "expected '=', found '+'", ir::Rule::expected_assignment},
      {"a@;", "expected '=', found ';'", ir::Rule::expected_assignment},
      {"a = 1 @2;", "expected ';', found '2'", ir::Rule::expected_semicolon},
      {"args @= 1;", "expected '[', found '='", ir::Rule::expected_bracket},
      {"args[1 @= 1;", "expected ']', found '='", ir::Rule::expected_bracket},
      {"args[1] @;", "expected '=', found ';'", ir::Rule::expected_assignment},
      {"args[@] = 1;", "expected a value, found ']'", ir::Rule::expected_value},
      {"output @= 1;", "expected '[', found '='", ir::Rule::expected_bracket},
      {"output[1] @+ 1;", "expected '=', found '+'", ir::Rule::expected_assignment},
      {"buffer @[1] = 1;", "expected '(', found '['", ir::Rule::expected_parenthesis},
      {"buffer(1 @[1] = 1;", "expected ')', found '['", ir::Rule::expected_parenthesis},
      {"buffer(1) @= 1;", "expected '[', found '='", ir::Rule::expected_bracket},
      {"if @{ }", "expected a value, found '{'", ir::Rule::expected_value},
      {"if true @return;", "expected '{', found 'return'", ir::Rule::expected_brace},
      {"if true {} else @return;", "expected '{', found 'return'", ir::Rule::expected_brace},
      {"if true {} else if @{}", "expected a value, found '{'", ir::Rule::expected_value},
      {"for @0 .. 1 {}", "expected the name of a counter, found '0'", ir::Rule::expected_name},
      {"for i @= 0 .. 1 {}", "expected 'in', found '='", ir::Rule::expected_word},
      {"for i in 0 @{}", "expected '..', found '{'", ir::Rule::expected_range},
      {"for i in 0 .. @{}", "expected a value, found '{'", ir::Rule::expected_value},
      {"for i in 0 .. 1 @;", "expected '{', found ';'", ir::Rule::expected_brace},
      {"each i @of 0 .. 1 {}", "expected 'in', found 'of'", ir::Rule::expected_word},
      {"while @{}", "expected a value, found '{'", ir::Rule::expected_value},
      {"while true @;", "expected '{', found ';'", ir::Rule::expected_brace},
      {"break @1;", "expected ';', found '1'", ir::Rule::expected_semicolon},
      {"continue @}", "expected ';', found '}'", ir::Rule::expected_semicolon},
      {"return @1;", "expected ';', found '1'", ir::Rule::expected_semicolon},
      {"yield @yield;", "expected ';', found 'yield'", ir::Rule::expected_semicolon},
      {"requeue @(1);", "expected ';', found '('", ir::Rule::expected_semicolon},
      {"fault @;", "expected a value, found ';'", ir::Rule::expected_value},
      {"fault 1 @2;", "expected ';', found '2'", ir::Rule::expected_semicolon},
      {"await @(1, 2, 3, 4);", "expected 'read' or 'write', found '('", ir::Rule::expected_word},
      {"await @load(1, 2, 3, 4);", "expected 'read' or 'write', found 'load'",
       ir::Rule::expected_word},
      {"await read @1, 2, 3, 4;", "expected '(', found '1'", ir::Rule::expected_parenthesis},
      {"await read(1, 2, 3@);", "expected ',', found ')'", ir::Rule::expected_comma},
      {"await write(1, 2, 3, 4@, 5);", "expected ')', found ','", ir::Rule::expected_parenthesis},
      {"await write(1, 2, 3, 4) @}", "expected ';', found '}'", ir::Rule::expected_semicolon},
      {"min(1, 2) @+ 3;", "expected ';', found '+'", ir::Rule::expected_semicolon},
      {"printf(1, 2, 3) @= 4;", "expected ';', found '='", ir::Rule::expected_semicolon},
  };
  expect_syntax_errors(kRows);
}

TEST(Parser, names_the_place_of_a_mistake_in_an_expression) {
  constexpr Wrong kRows[] = {
      {"let x = 1 + @;", "expected a value, found ';'", ir::Rule::expected_value},
      {"let x = @* 1;", "expected a value, found '*'", ir::Rule::expected_value},
      {"let x = @+1;", "expected a value, found '+'", ir::Rule::expected_value},
      {"let x = 1 @! 2;", "expected ';', found '!'", ir::Rule::expected_semicolon},
      {"let x = (1 @;", "expected ')', found ';'", ir::Rule::expected_parenthesis},
      {"let x = (@);", "expected a value, found ')'", ir::Rule::expected_value},
      {"let x = 1@);", "expected ';', found ')'", ir::Rule::expected_semicolon},
      {"let x = @if;", "expected a value, found 'if'", ir::Rule::expected_value},
      {"let x = @scope;", "expected a value, found 'scope'", ir::Rule::expected_value},
      {"let x = a @b;", "expected ';', found 'b'", ir::Rule::expected_semicolon},
      {"let x = args@;", "expected '[', found ';'", ir::Rule::expected_bracket},
      {"let x = args[1@;", "expected ']', found ';'", ir::Rule::expected_bracket},
      {"let x = input@;", "expected '[', found ';'", ir::Rule::expected_bracket},
      {"let x = input[@];", "expected a value, found ']'", ir::Rule::expected_value},
      {"let x = buffer(@)[0];", "expected a value, found ')'", ir::Rule::expected_value},
      {"let x = len @input;", "expected '(', found 'input'", ir::Rule::expected_parenthesis},
      {"let x = len(@args);", "expected a buffer", ir::Rule::expected_buffer},
      {"let x = len(@a);", "expected a buffer", ir::Rule::expected_buffer},
      {"let x = len(input@[0]);", "expected ')', found '['", ir::Rule::expected_parenthesis},
      {"let x = min@;", "expected '(', found ';'", ir::Rule::expected_parenthesis},
      {"let x = min(1@);", "min takes 2 values, this call has 1", ir::Rule::argument_count},
      {"let x = min(1, 2@, 3);", "min takes 2 values, this call has 3", ir::Rule::argument_count},
      {"let x = abs(@);", "expected a value, found ')'", ir::Rule::expected_value},
      {"let x = abs(1@, 2);", "abs takes 1 value, this call has 2", ir::Rule::argument_count},
      {"let x = select(true, 1@);", "select takes 3 values, this call has 2",
       ir::Rule::argument_count},
      {"let x = printf(1, 2@);", "printf takes 3 values, this call has 2",
       ir::Rule::argument_count},
      {"let x = printf(@\"a\", 1, 2);", "'\"' is not part of the language",
       ir::Rule::unknown_character},
      {"let x = f(1@;", "expected ')', found ';'", ir::Rule::expected_parenthesis},
      {"let x = atomic_add(@a, 1);", "expected a buffer", ir::Rule::expected_buffer},
      {"let x = atomic_add(@args[0], 1);", "expected a buffer", ir::Rule::expected_buffer},
      {"let x = atomic_add(input@, 1);", "expected '[', found ','", ir::Rule::expected_bracket},
      {"let x = atomic_add(input[0]@);", "takes a word and 1 value, this call has 0",
       ir::Rule::argument_count},
      {"let x = atomic_add(input[0], 1@, 2);", "takes a word and 1 value, this call has 2",
       ir::Rule::argument_count},
      {"let x = atomic_cas(input[0], 1@);", "takes a word and 2 values, this call has 1",
       ir::Rule::argument_count},
      {"let x = @opcode[0];", "'opcode' is not a buffer", ir::Rule::not_a_buffer},
  };
  expect_syntax_errors(kRows);
}

TEST(Parser, words_of_the_language_cannot_be_names) {
  constexpr std::string_view kWords[] = {
      "handler",    "payload",    "scope",      "lane",
      "warp",       "group",      "pure",       "commutes",
      "let",        "var",        "if",         "else",
      "for",        "each",       "in",         "while",
      "break",      "continue",   "return",     "yield",
      "requeue",    "fault",      "await",      "read",
      "write",      "args",       "input",      "output",
      "control",    "buffer",     "len",        "true",
      "false",      "min",        "max",        "abs",
      "clz",        "popcount",   "select",     "sqrt",
      "floor",      "fma",        "rotl",       "u32",
      "i32",        "f32",        "bits_u32",   "bits_i32",
      "bits_f32",   "printf",     "emit",       "opcode",
      "tenant",     "priority",   "slot",       "param",
      "lanes",      "atomic_add", "atomic_min", "atomic_max",
      "atomic_and", "atomic_or",  "atomic_xor", "atomic_exchange",
      "atomic_cas",
  };
  for (const std::string_view word : kWords) {
    const std::string name(word);
    const std::string fragment = "'" + name + "' cannot be the name of ";
    expect_syntax_error("handler @" + name + " = 64 {}", fragment + "a handler");
    expect_syntax_error(in_handler("let @" + name + " = 1;"), fragment + "a variable");
    expect_syntax_error(in_handler("var @" + name + " = 1;"), fragment + "a variable");
    expect_syntax_error(in_handler("for @" + name + " in 0 .. 1 {}"), fragment + "a counter");
    expect_syntax_error(in_handler("each @" + name + " in 0 .. 1 {}"), fragment + "a counter");
  }
}

TEST(Parser, names_of_newer_functions_mean_them_only_before_a_parenthesis) {
  for (const std::string name :
       {"clamp", "exp", "log", "exp2", "log2", "sin", "cos", "tanh", "pow"}) {
    expect_accepted("handler " + name + " = 64 { var " + name + " = 1; " + name + " = " + name +
                    " * (" + name + "); for i in " + name + " .. 2 { output[" + name +
                    "] = i; } }");
  }
  expect_accepted("handler h = 64 { for exp in 0 .. 2 { let log = exp(f32(exp)); exp2(log); } }");
  expect_syntax_error(in_handler("clamp(1, 2@);"), "clamp takes 3 values, this call has 2");
}

TEST(Parser, words_that_only_contain_a_word_of_the_language_are_names) {
  expect_accepted(
      "handler handlers = 64 { let lett = 1; let If = 2; let args2 = 3; let _in = 4; }");
  expect_accepted("handler atomic = 64 { let bool = true; let u64 = 2; let i = 3; let e = 4; }");
}

TEST(Parser, follows_parentheses_and_signs_to_a_bound) {
  const auto nested = [](std::size_t depth) {
    return in_handler("let x = " + std::string(depth, '(') + "1" + std::string(depth, ')') + ";");
  };
  EXPECT_TRUE(ir::parse(nested(ir::kMaxParserDepth - 1)).has_value());
  for (const std::size_t depth :
       {ir::kMaxParserDepth, 2 * ir::kMaxParserDepth, std::size_t{1'000'000}}) {
    const auto program = ir::parse(nested(depth));
    ASSERT_FALSE(program.has_value());
    expect_error(program.error(), "2:265:", "nested too deeply");
  }
  for (const char sign : {'-', '~', '!'}) {
    const auto signs = ir::parse(in_handler("let x = " + std::string(1'000'000, sign) + "1;"));
    ASSERT_FALSE(signs.has_value());
    expect_error(signs.error(), "2:264:", "too many signs in a row");
  }
}

TEST(Parser, follows_indices_and_calls_to_a_bound) {
  constexpr std::string_view kPieces[] = {
      "args[", "input[", "buffer(", "abs(", "min(1, ", "atomic_add(input[", "1 + (", "len(buffer("};
  for (const std::string_view piece : kPieces) {
    const auto program = ir::parse(in_handler("let x = " + repeated(piece, 100'000)));
    ASSERT_FALSE(program.has_value());
    EXPECT_NE(program.error().message.find("nested too deeply"), std::string::npos)
        << program.error().message;
  }
}

TEST(Parser, chains_of_operators_are_not_nesting) {
  expect_accepted(in_handler("let x = 1" + repeated(" + 1", 400) + ";"));
  expect_accepted(in_handler("let x = 1" + repeated(" << 1 + 2 * 3", 100) + ";"));
}

TEST(ParserDeathTest, the_longest_chains_of_operators_are_walked_on_an_ordinary_stack) {
  expect_accepted_in_a_child(in_handler("let x = 1" + repeated(" + 1", 2046) + ";"));
  expect_accepted_in_a_child(in_handler("let x = 1" + repeated(" << 1 + 2 * 3", 500) + ";"));
}

TEST(Parser, blocks_nest_to_a_bound) {
  const auto nested = [](std::size_t depth) {
    return "handler h = 64 " + repeated("{if true ", depth) + "{}" + repeated("}", depth);
  };
  expect_accepted(nested(15));
  const auto program = ir::parse(nested(16));
  ASSERT_FALSE(program.has_value());
  expect_error(program.error(), "1:160:", "more than 16 deep");
  EXPECT_FALSE(ir::parse(nested(100'000)).has_value());
}

TEST(Parser, an_instruction_too_many_stops_it_early) {
  // 65,536 statements: it must not go on reading them all.
  const auto program = ir::parse(in_handler(repeated("return;", 65'536)));
  ASSERT_FALSE(program.has_value());
  expect_error(program.error(), "2:28680:", "more than 4096 instructions");
}

TEST(Parser, the_bound_on_instructions_is_a_handlers_own) {
  const std::string body = "{" + repeated("return;", 4096) + "}";
  expect_accepted("handler a = 64 " + body + " handler b = 65 " + body);
}

TEST(Parser, reports_the_first_mistake_only) {
  expect_syntax_error("handler a = 64 { let x = @; let y = ; } handler", "expected a value");
}

}  // namespace
}  // namespace everkernel::test
