// Recursive descent over the grammar of the handler language. Blocks and parentheses recurse, with
// a bound; chains of operators are loops.
#include "everkernel/ir/parser.hpp"

#include <fmt/format.h>

#include "everkernel/ir/detail/vocabulary_tables.hpp"
#include "everkernel/ir/limits.hpp"
#include "ir/diagnostic.hpp"
#include "ir/lexer.hpp"

namespace everkernel::ir {
namespace {

std::string shown(const Token& token) {
  if (token.kind == TokenKind::end) return "the end of the text";
  constexpr std::size_t kLongest = 40;
  const bool is_long = token.text.size() > kLongest;
  return fmt::format("'{}{}'", token.text.substr(0, kLongest), is_long ? "…" : "");
}

class Parser {
 public:
  explicit Parser(std::string_view text) : lexer_(text) {}
  Result<Program> program();

 private:
  // Tokens.
  Result<void> advance();
  bool is_sign(std::string_view sign) const {
    return token_.kind == TokenKind::sign && token_.text == sign;
  }
  bool is_word(std::string_view word) const {
    return token_.kind == TokenKind::word && token_.text == word;
  }
  Result<void> expect(std::string_view sign);
  Result<void> expect_word(std::string_view word);
  Result<std::string_view> new_name(std::string_view of_what);
  Failure unexpected(std::string_view wanted) const {
    return mistake(token_.location, {},
                   fmt::format("expected {}, found {}", wanted, shown(token_)));
  }

  // Nodes.
  Result<void> check_size() const;
  Result<ExprId> add(const Expr& expr);
  Result<StmtId> add(const Stmt& stmt);

  // Grammar.
  Result<Handler> handler();
  Result<void> attributes(Handler& handler);
  Result<BlockId> block();
  Result<StmtId> statement();
  Result<StmtId> keyword_statement(Stmt stmt);
  Result<StmtId> declaration(Stmt stmt);
  Result<StmtId> branch(Stmt stmt);
  Result<StmtId> counted_loop(Stmt stmt);
  Result<StmtId> await(Stmt stmt);
  Result<StmtId> assignment_or_call(Stmt stmt);
  Result<StmtId> finish_assignment(Stmt stmt, int value_operand);
  Result<ExprId> expression(int lowest_precedence = 1);
  Result<ExprId> unary();
  Result<ExprId> primary();
  Result<ExprId> word_expression();
  std::optional<Function> called_function() const;
  Result<ExprId> call(Function function);
  Result<ExprId> atomic(AtomicOp op);
  Result<ExprId> index();
  bool is_buffer() const;
  Result<BufferRef> buffer();

  Lexer lexer_;
  Token token_;
  Body body_;
  std::size_t previous_end_ = 0;  // offset of the end of the token before
  std::size_t depth_ = 0;
  std::size_t block_depth_ = 0;
};

// Counts the levels of recursion. Every recursive rule of the grammar makes one.
class DepthGuard {
 public:
  explicit DepthGuard(std::size_t& depth) : depth_(depth) { ++depth_; }
  DepthGuard(const DepthGuard&) = delete;
  DepthGuard& operator=(const DepthGuard&) = delete;
  ~DepthGuard() { --depth_; }

 private:
  std::size_t& depth_;
};

Result<void> Parser::advance() {
  previous_end_ = token_.offset + token_.text.size();
  token_ = EVERKERNEL_TRY(lexer_.next());
  return {};
}

Result<void> Parser::expect(std::string_view sign) {
  if (!is_sign(sign)) return unexpected(fmt::format("'{}'", sign));
  return advance();
}

Result<void> Parser::expect_word(std::string_view word) {
  if (!is_word(word)) return unexpected(fmt::format("'{}'", word));
  return advance();
}

Result<std::string_view> Parser::new_name(std::string_view of_what) {
  if (token_.kind != TokenKind::word) return unexpected(fmt::format("the name of {}", of_what));
  if (is_reserved_word(token_.text)) {
    return mistake(
        token_.location, {},
        fmt::format("{} cannot be the name of {}: the language uses it", shown(token_), of_what),
        "choose another name");
  }
  const std::string_view name = token_.text;
  EVERKERNEL_TRY(advance());
  return name;
}

Result<void> Parser::check_size() const {
  if (body_.exprs.size() + body_.stmts.size() < kMaxInstructions) return {};
  return mistake(token_.location, {},
                 fmt::format("the handler has more than {} instructions", kMaxInstructions),
                 "split it into several handlers");
}

Result<ExprId> Parser::add(const Expr& expr) {
  EVERKERNEL_TRY(check_size());
  return body_.add(expr);
}

Result<StmtId> Parser::add(const Stmt& stmt) {
  EVERKERNEL_TRY(check_size());
  return body_.add(stmt);
}

Result<Program> Parser::program() {
  EVERKERNEL_TRY(advance());
  Program program;
  while (token_.kind != TokenKind::end) {
    program.handlers.push_back(EVERKERNEL_TRY(handler()));
  }
  return program;
}

Result<Handler> Parser::handler() {
  Handler handler{.location = token_.location};
  const std::size_t start = token_.offset;
  handler.is_payload = is_word("payload");
  if (handler.is_payload) {
    handler.name = "payload";
    EVERKERNEL_TRY(advance());
  } else {
    if (!is_word("handler")) return unexpected("'handler' or 'payload'");
    EVERKERNEL_TRY(advance());
    handler.name = EVERKERNEL_TRY(new_name("a handler"));
    EVERKERNEL_TRY(expect("="));
    if (token_.kind != TokenKind::number || token_.type != Type::u32) {
      return unexpected("the opcode, an unsigned number");
    }
    handler.opcode = token_.bits;
    EVERKERNEL_TRY(advance());
  }
  EVERKERNEL_TRY(attributes(handler));
  body_ = {};
  body_.root = EVERKERNEL_TRY(block());
  handler.text_bytes = previous_end_ - start;
  handler.body = std::move(body_);
  return handler;
}

Result<void> Parser::attributes(Handler& handler) {
  if (is_word("scope")) {
    EVERKERNEL_TRY(advance());
    if (is_word("lane")) {
      handler.scope = Scope::lane;
    } else if (is_word("warp")) {
      handler.scope = Scope::warp;
    } else if (is_word("group")) {
      handler.scope = Scope::group;
    } else {
      return unexpected("'lane', 'warp' or 'group'");
    }
    EVERKERNEL_TRY(advance());
  }
  while (!handler.is_payload && (is_word("pure") || is_word("commutes"))) {
    bool& flag = is_word("pure") ? handler.is_pure : handler.commutes;
    if (flag) return mistake(token_.location, {}, fmt::format("{} is repeated", shown(token_)));
    flag = true;
    EVERKERNEL_TRY(advance());
  }
  return {};
}

Result<BlockId> Parser::block() {
  const DepthGuard guard(block_depth_);
  if (block_depth_ > kMaxNesting) {
    return mistake(token_.location, {},
                   fmt::format("blocks are nested more than {} deep", kMaxNesting),
                   "split the handler, or join conditions with &&");
  }
  Block block{.location = token_.location};
  EVERKERNEL_TRY(expect("{"));
  while (!is_sign("}")) {
    if (token_.kind == TokenKind::end) return unexpected("'}'");
    block.statements.push_back(EVERKERNEL_TRY(statement()));
  }
  EVERKERNEL_TRY(advance());
  return body_.add(std::move(block));
}

Result<StmtId> Parser::statement() {
  const Stmt stmt{.location = token_.location};
  if (token_.kind != TokenKind::word) return unexpected("a statement");
  if (is_word("let") || is_word("var")) return declaration(stmt);
  if (is_word("if")) return branch(stmt);
  if (is_word("for") || is_word("each")) return counted_loop(stmt);
  if (is_word("await")) return await(stmt);
  if (is_word("while") || is_word("fault") || is_word("break") || is_word("continue") ||
      is_word("return") || is_word("yield") || is_word("requeue")) {
    return keyword_statement(stmt);
  }
  return assignment_or_call(stmt);
}

Result<StmtId> Parser::keyword_statement(Stmt stmt) {
  const std::string_view word = token_.text;
  EVERKERNEL_TRY(advance());
  if (word == "while") {
    stmt.kind = StmtKind::while_loop;
    stmt.operands[0] = EVERKERNEL_TRY(expression());
    stmt.body = EVERKERNEL_TRY(block());
    return add(stmt);
  }
  if (word == "fault") {
    stmt.kind = StmtKind::fault;
    stmt.operands[0] = EVERKERNEL_TRY(expression());
  } else if (word == "break") {
    stmt.kind = StmtKind::break_loop;
  } else if (word == "continue") {
    stmt.kind = StmtKind::continue_loop;
  } else if (word == "yield") {
    stmt.kind = StmtKind::yield;
  } else if (word == "requeue") {
    stmt.kind = StmtKind::requeue;
  } else {
    stmt.kind = StmtKind::finish;
  }
  EVERKERNEL_TRY(expect(";"));
  return add(stmt);
}

Result<StmtId> Parser::declaration(Stmt stmt) {
  stmt.kind = is_word("let") ? StmtKind::let_value : StmtKind::let_variable;
  EVERKERNEL_TRY(advance());
  stmt.name = body_.intern(EVERKERNEL_TRY(new_name("a variable")));
  EVERKERNEL_TRY(expect("="));
  return finish_assignment(stmt, 0);
}

Result<StmtId> Parser::finish_assignment(Stmt stmt, int value_operand) {
  stmt.operands[value_operand] = EVERKERNEL_TRY(expression());
  EVERKERNEL_TRY(expect(";"));
  return add(stmt);
}

Result<StmtId> Parser::branch(Stmt stmt) {
  // `else if` is a block of one statement that does not count as a level of nesting. A row of them
  // is read in a loop, bounded by the number of instructions alone, and linked from its end.
  std::vector<Stmt> row;
  for (;;) {
    stmt.kind = StmtKind::branch;
    EVERKERNEL_TRY(advance());
    stmt.operands[0] = EVERKERNEL_TRY(expression());
    stmt.body = EVERKERNEL_TRY(block());
    row.push_back(stmt);
    if (!is_word("else")) break;
    EVERKERNEL_TRY(advance());
    if (!is_word("if")) {
      row.back().otherwise = EVERKERNEL_TRY(block());
      break;
    }
    stmt = {.location = token_.location};
  }
  StmtId last{};
  for (std::size_t i = row.size(); i-- > 0;) {
    if (i + 1 < row.size()) {
      row[i].otherwise = body_.add(Block{.statements = {last}, .location = row[i + 1].location});
    }
    last = EVERKERNEL_TRY(add(row[i]));
  }
  return last;
}

Result<StmtId> Parser::counted_loop(Stmt stmt) {
  stmt.kind = is_word("for") ? StmtKind::for_loop : StmtKind::each_loop;
  EVERKERNEL_TRY(advance());
  stmt.name = body_.intern(EVERKERNEL_TRY(new_name("a counter")));
  EVERKERNEL_TRY(expect_word("in"));
  stmt.operands[0] = EVERKERNEL_TRY(expression());
  EVERKERNEL_TRY(expect(".."));
  stmt.operands[1] = EVERKERNEL_TRY(expression());
  stmt.body = EVERKERNEL_TRY(block());
  return add(stmt);
}

Result<StmtId> Parser::await(Stmt stmt) {
  EVERKERNEL_TRY(advance());
  if (!is_word("read") && !is_word("write")) return unexpected("'read' or 'write'");
  stmt.kind = is_word("read") ? StmtKind::await_read : StmtKind::await_write;
  EVERKERNEL_TRY(advance());
  EVERKERNEL_TRY(expect("("));
  for (int i = 0; i < 4; ++i) {
    if (i > 0) EVERKERNEL_TRY(expect(","));
    stmt.operands[i] = EVERKERNEL_TRY(expression());
  }
  EVERKERNEL_TRY(expect(")"));
  EVERKERNEL_TRY(expect(";"));
  return add(stmt);
}

Result<StmtId> Parser::assignment_or_call(Stmt stmt) {
  if (is_word("args")) {
    stmt.kind = StmtKind::assign_arg;
    EVERKERNEL_TRY(advance());
    stmt.operands[0] = EVERKERNEL_TRY(index());
    EVERKERNEL_TRY(expect("="));
    return finish_assignment(stmt, 1);
  }
  if (is_buffer()) {
    stmt.kind = StmtKind::store;
    stmt.buffer = EVERKERNEL_TRY(buffer());
    stmt.operands[0] = EVERKERNEL_TRY(index());
    EVERKERNEL_TRY(expect("="));
    return finish_assignment(stmt, 1);
  }
  if (called_function() || find_atomic(token_.text)) {
    stmt.kind = StmtKind::evaluate;
    stmt.operands[0] = EVERKERNEL_TRY(word_expression());
    EVERKERNEL_TRY(expect(";"));
    return add(stmt);
  }
  if (is_reserved_word(token_.text)) return unexpected("a statement");
  stmt.kind = StmtKind::assign_name;
  stmt.name = body_.intern(token_.text);
  EVERKERNEL_TRY(advance());
  EVERKERNEL_TRY(expect("="));
  return finish_assignment(stmt, 0);
}

const BinaryOpInfo* find_binary(const Token& token) {
  if (token.kind != TokenKind::sign) return nullptr;
  for (const BinaryOpInfo& row : kBinaryOps) {
    if (row.sign == token.text) return &row;
  }
  return nullptr;
}

Result<ExprId> Parser::expression(int lowest_precedence) {
  const DepthGuard guard(depth_);
  if (depth_ > kMaxParserDepth) {
    return mistake(token_.location, {}, "this expression is nested too deeply",
                   "name parts of it with let");
  }
  ExprId left = EVERKERNEL_TRY(unary());
  for (;;) {
    const BinaryOpInfo* op = find_binary(token_);
    if (op == nullptr || op->precedence < lowest_precedence) return left;
    Expr expr{.kind = ExprKind::binary, .operand_count = 2, .binary = op->op};
    expr.location = token_.location;
    EVERKERNEL_TRY(advance());
    expr.operands[0] = left;
    expr.operands[1] = EVERKERNEL_TRY(expression(op->precedence + 1));
    left = EVERKERNEL_TRY(add(expr));
  }
}

Result<ExprId> Parser::unary() {
  const bool is_unary = is_sign("-") || is_sign("~") || is_sign("!");
  if (!is_unary) return primary();
  const DepthGuard guard(depth_);
  if (depth_ > kMaxParserDepth) return mistake(token_.location, {}, "too many signs in a row");
  Expr expr{.kind = ExprKind::unary, .operand_count = 1};
  expr.unary = is_sign("-")   ? UnaryOp::negate
               : is_sign("~") ? UnaryOp::complement
                              : UnaryOp::logical_not;
  expr.location = token_.location;
  EVERKERNEL_TRY(advance());
  expr.operands[0] = EVERKERNEL_TRY(unary());
  return add(expr);
}

Result<ExprId> Parser::primary() {
  if (token_.kind == TokenKind::number) {
    Expr expr{.kind = ExprKind::literal, .type = token_.type};
    expr.bits = token_.bits;
    expr.location = token_.location;
    EVERKERNEL_TRY(advance());
    return add(expr);
  }
  if (is_sign("(")) {
    EVERKERNEL_TRY(advance());
    const ExprId inner = EVERKERNEL_TRY(expression());
    EVERKERNEL_TRY(expect(")"));
    return inner;
  }
  if (token_.kind == TokenKind::word) return word_expression();
  return unexpected("a value");
}

Result<ExprId> Parser::word_expression() {
  if (const auto function = called_function()) return call(*function);
  if (const auto op = find_atomic(token_.text)) return atomic(*op);
  Expr expr{.location = token_.location};
  if (is_word("true") || is_word("false")) {
    expr.kind = ExprKind::literal;
    expr.type = Type::boolean;
    expr.bits = is_word("true") ? 1 : 0;
  } else if (const auto builtin = find_builtin(token_.text)) {
    expr.kind = ExprKind::builtin;
    expr.builtin = *builtin;
  } else if (is_word("args")) {
    expr.kind = ExprKind::arg;
    expr.operand_count = 1;
    EVERKERNEL_TRY(advance());
    expr.operands[0] = EVERKERNEL_TRY(index());
    return add(expr);
  } else if (is_word("len")) {
    expr.kind = ExprKind::length;
    EVERKERNEL_TRY(advance());
    EVERKERNEL_TRY(expect("("));
    expr.buffer = EVERKERNEL_TRY(buffer());
    EVERKERNEL_TRY(expect(")"));
    return add(expr);
  } else if (is_buffer()) {
    expr.kind = ExprKind::load;
    expr.operand_count = 1;
    expr.buffer = EVERKERNEL_TRY(buffer());
    expr.operands[0] = EVERKERNEL_TRY(index());
    return add(expr);
  } else if (is_reserved_word(token_.text)) {
    return unexpected("a value");
  } else {
    expr.kind = ExprKind::name;
    expr.name = body_.intern(token_.text);
  }
  EVERKERNEL_TRY(advance());
  return add(expr);
}

// The function that the token names. Some names can be those of variables too, and are a function's
// only before `(`.
std::optional<Function> Parser::called_function() const {
  const auto function = find_function(token_.text);
  if (!function || info(*function).is_reserved) return function;
  Lexer ahead = lexer_;
  const auto next = ahead.next();
  const bool is_call = next && next->kind == TokenKind::sign && next->text == "(";
  return is_call ? function : std::nullopt;
}

Result<ExprId> Parser::call(Function function) {
  Expr expr{.kind = ExprKind::call, .function = function};
  expr.location = token_.location;
  EVERKERNEL_TRY(advance());
  EVERKERNEL_TRY(expect("("));
  expr.operand_count = static_cast<std::uint8_t>(info(function).argument_count);
  for (std::size_t i = 0; i < expr.operand_count; ++i) {
    if (i > 0) EVERKERNEL_TRY(expect(","));
    expr.operands[i] = EVERKERNEL_TRY(expression());
  }
  EVERKERNEL_TRY(expect(")"));
  return add(expr);
}

Result<ExprId> Parser::atomic(AtomicOp op) {
  Expr expr{.kind = ExprKind::atomic, .atomic = op};
  expr.location = token_.location;
  EVERKERNEL_TRY(advance());
  EVERKERNEL_TRY(expect("("));
  expr.buffer = EVERKERNEL_TRY(buffer());
  expr.operands[0] = EVERKERNEL_TRY(index());
  expr.operand_count = static_cast<std::uint8_t>(1 + info(op).value_count);
  for (std::size_t i = 1; i < expr.operand_count; ++i) {
    EVERKERNEL_TRY(expect(","));
    expr.operands[i] = EVERKERNEL_TRY(expression());
  }
  EVERKERNEL_TRY(expect(")"));
  return add(expr);
}

Result<ExprId> Parser::index() {
  EVERKERNEL_TRY(expect("["));
  const ExprId inner = EVERKERNEL_TRY(expression());
  EVERKERNEL_TRY(expect("]"));
  return inner;
}

bool Parser::is_buffer() const {
  return is_word("input") || is_word("output") || is_word("control") || is_word("buffer");
}

Result<BufferRef> Parser::buffer() {
  if (!is_buffer()) return unexpected("a buffer: input, output, control or buffer(handle)");
  BufferRef ref;
  ref.kind = is_word("input")     ? BufferKind::input
             : is_word("output")  ? BufferKind::output
             : is_word("control") ? BufferKind::control
                                  : BufferKind::handle;
  EVERKERNEL_TRY(advance());
  if (ref.kind != BufferKind::handle) return ref;
  EVERKERNEL_TRY(expect("("));
  ref.handle = EVERKERNEL_TRY(expression());
  EVERKERNEL_TRY(expect(")"));
  return ref;
}

}  // namespace

Result<Program> parse(std::string_view text, std::size_t limit) {
  if (text.size() > limit) {
    return fail(Code::invalid_argument,
                fmt::format("1:1: the text has {} bytes, more than {}", text.size(), limit),
                "split it into several programs");
  }
  return Parser(text).program();
}

}  // namespace everkernel::ir
