// The productions of the grammar. Blocks and parentheses recurse, with a bound; chains of operators
// are loops. parser_recovery.cpp has what happens after a mistake.
#include "everkernel/ir/parser.hpp"

#include <fmt/format.h>

#include <utility>

#include "everkernel/ir/detail/vocabulary_tables.hpp"
#include "everkernel/ir/limits.hpp"
#include "ir/foreign_words.hpp"
#include "ir/parser.hpp"

namespace everkernel::ir {
namespace {

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

std::string in_quotes(std::string_view name) {
  constexpr std::size_t kLongest = 40;
  return fmt::format("'{}{}'", name.substr(0, kLongest), name.size() > kLongest ? "…" : "");
}

}  // namespace

// ---- parts of productions ----

void Parser::expect(std::string_view sign) {
  if (is_sign(sign)) return advance();
  const Rule rule = sign == "(" || sign == ")"   ? Rule::expected_parenthesis
                    : sign == "[" || sign == "]" ? Rule::expected_bracket
                    : sign == ","                ? Rule::expected_comma
                                                 : Rule::expected_range;
  const std::string_view hint = sign == ")"   ? "close the parenthesis with )"
                                : sign == "(" ? "what is called stands before its values: min(a, b)"
                                : sign == "]" ? "close the index with ]"
                                : sign == "[" ? "name one word by its index: input[0]"
                                : sign == "," ? "separate the values by commas"
                                : sign == ".." ? "write a range as 0 .. n"
                                               : "";
  unexpected(rule, fmt::format("'{}'", sign), std::string(hint));
}

// A missing semicolon loses nothing of the statement before it.
void Parser::end_statement(std::string_view hint) {
  if (panicking_) return;
  if (is_sign(";")) return advance();
  const bool can_go_on =
      is_first_on_line() || (is_sign("}") && !is_stray_brace()) || is_statement_word();
  tell_unexpected(Rule::expected_semicolon, "';'",
                  std::string(hint.empty() ? "a statement ends with ;" : hint));
  if (!can_go_on) panic();
}

// The operator of a token such as +=; null for any other.
const BinaryOpInfo* Parser::find_compound(const Token& token) const {
  if (token.kind != TokenKind::sign || token.text.size() < 2 || !token.text.ends_with('=')) {
    return nullptr;
  }
  for (const BinaryOpInfo& row : kBinaryOps) {
    const bool is_it = can_be_compound(row.op) && row.sign.size() + 1 == token.text.size() &&
                       token.text.starts_with(row.sign);
    if (is_it) return &row;
  }
  return nullptr;
}

// Whether the value follows. A missing = is reported and taken as written where a value follows;
// one token too many before the = is left out.
bool Parser::expect_assignment(Stmt& stmt, std::string_view hint) {
  const bool is_declaration =
      stmt.kind == StmtKind::let_value || stmt.kind == StmtKind::let_variable;
  const BinaryOpInfo* const compound = is_declaration ? nullptr : find_compound(token_);
  if (compound != nullptr) stmt.compound = compound->op;
  if (is_sign("=") || compound != nullptr) {
    advance();
    return true;
  }
  const bool is_value = token_.kind == TokenKind::number || token_.kind == TokenKind::word;
  if (panicking_ || !is_value || is_first_on_line() || is_statement_word()) {
    unexpected(Rule::expected_assignment, "'='", std::string(hint));
    return false;
  }
  tell_unexpected(Rule::expected_assignment, "'='", std::string(hint));
  const Token next = next_token();
  if (next.kind == TokenKind::sign && next.text == "=") {
    handler_state_.has_lost_names = true;  // the token may have been meant as the name
    advance();
    advance();
  }
  return true;
}

// The name that a declaration gives; empty if it cannot be read.
NameId Parser::new_name(std::string_view of_what) {
  if (panicking_) return body_.intern("");
  const bool is_loop_word = is_word("in") && next_token().text != "in" && next_token().text != "=";
  if (token_.kind != TokenKind::word || is_loop_word) {
    handler_state_.has_lost_names = true;
    const bool is_number = token_.kind == TokenKind::number;
    tell_unexpected(Rule::expected_name, fmt::format("the name of {}", of_what),
                    "a name begins with a letter or _");
    if (is_number || token_.kind == TokenKind::wrong) advance();
    const bool is_behind = token_.kind == TokenKind::word && !is_reserved_word(token_.text);
    return is_behind ? new_name(of_what) : body_.intern("");
  }
  const Token name = token_;
  advance();
  if (!is_reserved_word(name.text)) return body_.intern(name.text);
  report_(Rule::reserved_name, name.location,
          fmt::format("'{}' cannot be the name of {}: the language uses it", name.text, of_what),
          "choose another name");
  // A word too many before the name.
  if (token_.kind == TokenKind::word && !is_reserved_word(token_.text)) return new_name(of_what);
  return body_.intern("");
}

ExprId Parser::unreadable(Location location) {
  return body_.add(Expr{.kind = ExprKind::literal, .type = Type::none, .location = location});
}

void Parser::check_size() {
  if (panicking_ || body_.exprs.size() + body_.stmts.size() < kMaxInstructions) return;
  abandon_handler(Rule::too_many_instructions,
                  fmt::format("the handler has more than {} instructions", kMaxInstructions));
}

ExprId Parser::add(const Expr& expr) {
  check_size();
  return panicking_ ? ExprId{} : body_.add(expr);
}

StmtId Parser::add(const Stmt& stmt) {
  check_size();
  return is_abandoned_ ? StmtId{} : body_.add(stmt);
}

// ---- handlers ----

Program Parser::program() {
  advance();
  while (!is_end()) {
    if (is_definition()) {
      handler_state_ = {};
      overclosed_ = {};
      is_word("const") ? constant() : function();
      definitions_state_.has_lost_names |= handler_state_.has_lost_names;
      continue;
    }
    if (const auto word = unknown_keyword()) token_.text = *word;
    if (!is_word("handler") && !is_word("payload")) {
      outside_of_handlers();
      continue;
    }
    handler_state_ = {};
    program_.handlers.push_back(handler());
    recovered_.push_back(handler_state_);
  }
  return std::move(program_);
}

// ---- constants and functions ----

void Parser::constant() {
  Constant constant{.location = token_.location};
  body_ = {};
  advance();
  constant.name = body_[new_name("a constant")];
  body_ = {};
  Stmt declaration{.kind = StmtKind::let_value};
  if (expect_assignment(declaration, "a constant has a value: const N = 64;")) {
    constant.value = value();
  } else {
    constant.value = unreadable(constant.location);
  }
  end_statement();
  if (panicking_) {
    is_abandoned_ = false;
    resume();
    skip_to_statement();
  }
  constant.body = std::move(body_);
  program_.constants.push_back(std::move(constant));
}

void Parser::function() {
  const DepthGuard guard(block_depth_);
  UserFunction function{.location = token_.location};
  const std::size_t start = token_.offset;
  body_ = {};
  advance();
  function.name = body_[new_name("a function")];
  body_ = {};
  parameters(function);
  if (is_sign("->")) {
    advance();
    function.result = type();
  } else {
    unexpected(Rule::expected_type, "'->' and the type of the value",
               "write fn name(x: u32) -> u32 { return x; }");
    function.result = Type::none;
  }
  if (panicking_) {
    function.result = Type::none;
    resume();
    skip_to_header_end();
  }
  function_body(function);
  function.text_bytes = previous_end_ - start;
  function.body = std::move(body_);
  program_.functions.push_back(std::move(function));
}

void Parser::parameters(UserFunction& function) {
  expect("(");
  while (!panicking_ && !is_sign(")")) {
    if (!function.parameters.empty()) expect(",");
    Parameter parameter{.location = token_.location};
    parameter.name = body_[new_name("a parameter")];
    if (is_sign(":")) {
      advance();
    } else {
      unexpected(Rule::expected_type, "':' and a type", "write x: u32");
    }
    parameter.type = type();
    if (!panicking_) function.parameters.push_back(std::move(parameter));
  }
  expect(")");
}

Type Parser::type() {
  constexpr Type kTypes[] = {Type::u32, Type::i32, Type::f32, Type::boolean};
  for (const Type type : kTypes) {
    if (!is_word(type_name(type))) continue;
    advance();
    return type;
  }
  Suggestion suggestion(token_.text);
  for (const Type type : kTypes) suggestion.offer(type_name(type));
  const std::string_view ours =
      token_.kind == TokenKind::word ? foreign_word(token_.text) : std::string_view();
  unexpected(Rule::expected_type, "a type: u32, i32, f32 or bool",
             ours.empty() ? suggestion.hint("name the type of the value")
                          : fmt::format("did you mean `{}`?", ours));
  return Type::none;
}

// Lets and one return, between braces.
void Parser::function_body(UserFunction& function) {
  Block block{.location = token_.location};
  function.value = unreadable(token_.location);
  bool has_value = false;
  const auto recover = [&] {
    if (!panicking_) return;
    is_abandoned_ = false;
    resume();
    skip_to_statement();
  };
  if (!is_sign("{")) {
    unexpected(Rule::expected_brace, "'{'", "a function has a block that ends with return");
    recover();
  } else {
    advance();
    while (!is_sign("}") && !is_end() && !is_declaration() && !is_definition()) {
      const std::size_t before = token_.offset;
      if (is_word("let") && !has_value) {
        if (const auto stmt = declaration({.location = token_.location})) {
          block.statements.push_back(*stmt);
        }
      } else if (is_word("return") && !has_value) {
        has_value = true;
        advance();
        function.value = value();
        end_statement();
      } else {
        unexpected(Rule::expected_statement, has_value ? "'}'" : "'let' or 'return'",
                   "a function consists of lets and one return at its end");
      }
      recover();
      if (token_.offset == before) advance();
    }
    if (!has_value) {
      tell_unexpected(Rule::expected_statement, "'return'",
                      "a function ends with the value that it returns");
    }
    if (is_sign("}")) {
      advance();
    } else {
      missing_close(block);
    }
  }
  body_.root = body_.add(std::move(block));
}

// ---- handlers ----

Handler Parser::handler() {
  Handler handler{.location = token_.location};
  const std::size_t start = token_.offset;
  body_ = {};
  unclosed_ = overclosed_ = {};
  is_close_reported_ = false;
  handler.is_payload = is_word("payload");
  advance();
  if (handler.is_payload) {
    handler.name = "payload";
  } else {
    handler_name_and_opcode(handler);
  }
  attributes(handler);
  const bool is_reported = panicking_;
  if (panicking_) {
    resume();
    skip_to_header_end();
  }
  body_.root = block(is_reported);
  if (is_abandoned_) {
    is_abandoned_ = false;
    resume();
    skip_to_declaration();
    handler_state_.has_lost_blocks = true;
  }
  handler.text_bytes = previous_end_ - start;
  handler.body = std::move(body_);
  return handler;
}

void Parser::handler_name_and_opcode(Handler& handler) {
  const NameId name = new_name("a handler");
  handler.name = body_[name];
  body_ = {};
  handler_state_.has_lost_names = false;  // nothing refers to a handler
  constexpr std::string_view kHint = "declare it as: handler NAME = OPCODE { … }";
  Stmt declaration{.kind = StmtKind::let_value};
  if (!expect_assignment(declaration, kHint)) return;
  if (token_.kind == TokenKind::number && token_.type == Type::u32) {
    handler.opcode = token_.bits;
    handler_state_.has_opcode = true;
    return advance();
  }
  tell_unexpected(Rule::expected_opcode, "the opcode, an unsigned number", std::string(kHint));
  panic();
}

void Parser::attributes(Handler& handler) {
  if (is_word("scope")) {
    advance();
    const bool is_scope = is_word("lane") || is_word("warp") || is_word("group");
    if (!is_scope) {
      Suggestion suggestion(token_.text);
      for (const std::string_view name : {"lane", "warp", "group"}) suggestion.offer(name);
      const bool is_word = token_.kind == TokenKind::word;
      tell_unexpected(Rule::expected_word, "'lane', 'warp' or 'group'",
                      suggestion.hint("the scope says how many lanes run an item"));
      if (is_word) {
        advance();
      } else {
        panic();
      }
    } else {
      handler.scope = is_word("lane") ? Scope::lane : is_word("warp") ? Scope::warp : Scope::group;
      advance();
    }
  }
  while (!handler.is_payload && (is_word("pure") || is_word("commutes"))) {
    bool& flag = is_word("pure") ? handler.is_pure : handler.commutes;
    if (flag) {
      report_(Rule::repeated_promise, token_.location,
              fmt::format("{} is repeated", in_quotes(token_.text)), "write it once");
    }
    flag = true;
    advance();
  }
}

// ---- blocks ----

BlockId Parser::block(bool is_reported) {
  const DepthGuard guard(block_depth_);
  const bool is_before_else = std::exchange(can_else_follow_, false);
  if (panicking_) return body_.add(Block{.location = token_.location});
  if (block_depth_ > kMaxNesting) {
    report_(Rule::too_deep, token_.location,
            fmt::format("blocks are nested more than {} deep", kMaxNesting),
            "split the handler, or join conditions with &&");
    skip_braces();
    handler_state_.has_lost_blocks = true;
    return body_.add(Block{.location = token_.location});
  }
  if (!is_sign("{")) return block_without_brace(is_reported);
  return statements_to_brace({.location = token_.location}, is_before_else);
}

// The current token is the { of the block, or stands where it is missing.
BlockId Parser::statements_to_brace(Block block, bool is_before_else) {
  const std::size_t indent = line_indent_;
  const std::uint32_t line = token_.location.line;
  if (is_sign("{")) advance();
  // Whether the block is indented, so that a lesser indentation means something.
  const bool is_deeper = !is_first_on_line() || token_.location.column > indent;
  while (!is_sign("}")) {
    if (is_end() || is_declaration() || (is_before_else && is_else())) {
      missing_close(block);
      return body_.add(std::move(block));
    }
    note_indentation(indent, line, is_deeper);
    const std::size_t before = token_.offset;
    const auto stmt = statement();
    if (is_abandoned_) return body_.add(std::move(block));
    if (stmt) block.statements.push_back(*stmt);
    if (panicking_) {
      resume();
      if (token_.offset != before) skip_stray_brace();
      skip_to_statement();
    }
    if (token_.offset == before) advance();
  }
  note_close(indent, line);
  advance();
  return body_.add(std::move(block));
}

std::optional<StmtId> Parser::statement() {
  const Stmt stmt{.location = token_.location};
  if (is_word("let") || is_word("var")) return declaration(stmt);
  if (is_word("if")) return branch(stmt);
  if (is_word("for") || is_word("each")) return counted_loop(stmt);
  if (is_word("await")) return await(stmt);
  if (is_statement_word()) return keyword_statement(stmt);
  if (token_.kind == TokenKind::word) return assignment_or_call(stmt);
  unexpected(Rule::expected_statement, "a statement",
             is_sign(";") ? "remove it" : "a statement begins with a word, such as let or output");
  return {};
}

std::optional<StmtId> Parser::keyword_statement(Stmt stmt) {
  const std::string_view word = token_.text;
  advance();
  if (word == "while") {
    stmt.kind = StmtKind::while_loop;
    stmt.operands[0] = value();
    stmt.body = body_of_statement();
    return add(stmt);
  }
  std::string_view hint;
  if (word == "fault") {
    stmt.kind = StmtKind::fault;
    stmt.operands[0] = value();
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
    hint = "return; ends the item and gives no value: store results to a buffer";
  }
  end_statement(hint);
  return add(stmt);
}

std::optional<StmtId> Parser::declaration(Stmt stmt) {
  stmt.kind = is_word("let") ? StmtKind::let_value : StmtKind::let_variable;
  advance();
  if ((is_statement_word() || is_word("else")) && next_token().text != "=") {
    tell_unexpected(Rule::expected_name, "the name of a variable", "remove one of the two words");
    if (is_word("let") || is_word("var")) {
      stmt.kind = StmtKind::let_variable;  // one of the two is var, or it does not matter
      advance();
    } else if (is_statement_word()) {
      return statement();
    } else {
      panic();
      return {};
    }
  }
  stmt.name = new_name("a variable");
  if (is_sign(":") && stmt.kind == StmtKind::let_variable && next_token().text == "[") {
    return array(stmt);
  }
  if (expect_assignment(stmt, "a variable needs a first value: let x = 1;")) {
    stmt.operands[0] = value();
  } else {
    stmt.operands[0] = unreadable(stmt.location);
  }
  end_statement();
  // Not the type of a value that something else may belong to.
  if (panicking_) stmt.operands[0] = unreadable(stmt.location);
  return add(stmt);
}

// The current token is the : behind the name of an array.
std::optional<StmtId> Parser::array(Stmt stmt) {
  constexpr std::string_view kHint = "declare an array as: var name: [u32; 16];";
  stmt.kind = StmtKind::declare_array;
  advance();
  expect("[");
  stmt.element = type();
  if (is_sign(";")) {
    advance();
  } else {
    unexpected(Rule::expected_semicolon, "';' and a length", std::string(kHint));
  }
  const bool is_length = token_.kind == TokenKind::number ||
                         (token_.kind == TokenKind::word && !is_reserved_word(token_.text));
  if (is_length) {
    stmt.operands[0] = value();
  } else {
    unexpected(Rule::array_length, "the length of the array", std::string(kHint));
  }
  expect("]");
  if (panicking_) handler_state_.has_lost_names = true;  // nothing is known of the array
  end_statement();
  if (panicking_) return {};
  return add(stmt);
}

std::optional<StmtId> Parser::branch(Stmt stmt) {
  // `else if` is a block of one statement that does not count as a level of nesting. A row of them
  // is read in a loop, bounded by the number of instructions alone, and linked from its end.
  std::vector<Stmt> row;
  for (;;) {
    stmt.kind = StmtKind::branch;
    advance();
    stmt.operands[0] = value();
    can_else_follow_ = true;
    stmt.body = body_of_statement();
    row.push_back(stmt);
    if (is_sign("{") && next_token().text == "else") {
      tell_unexpected(Rule::expected_statement, "a statement", "remove it");
      advance();
    }
    if (!is_word("else")) break;
    advance();
    if (!is_word("if")) {
      row.back().otherwise = block();
      break;
    }
    stmt = {.location = token_.location};
  }
  StmtId last{};
  for (std::size_t i = row.size(); i-- > 0;) {
    if (i + 1 < row.size()) {
      row[i].otherwise = body_.add(Block{.statements = {last}, .location = row[i + 1].location});
    }
    last = add(row[i]);
  }
  return last;
}

std::optional<StmtId> Parser::counted_loop(Stmt stmt) {
  stmt.kind = is_word("for") ? StmtKind::for_loop : StmtKind::each_loop;
  advance();
  if (!has_range_ahead()) {
    handler_state_.has_lost_names = true;
    unexpected(Rule::expected_name, "the name of a counter",
               "write a loop as: for i in 0 .. n { … }");
    return {};
  }
  stmt.name = new_name("a counter");
  if (is_word("in")) {
    advance();
  } else if (!panicking_) {
    const bool is_instead = is_sign("=") || next_token().text == "in" ||
                            (token_.kind == TokenKind::word && !is_buffer());
    tell_unexpected(Rule::expected_word, "'in'", "write a loop as: for i in 0 .. n { … }");
    // Another word may have been meant as the name.
    handler_state_.has_lost_names |= is_instead && !is_sign("=");
    if (is_instead) advance();
    if (is_word("in")) advance();
  }
  loop_range(stmt);
  stmt.body = body_of_statement();
  return add(stmt);
}

// Bounds and step. `step` is a word of the language only here.
void Parser::loop_range(Stmt& stmt) {
  stmt.operands[0] = value();
  expect("..");
  stmt.operands[1] = value();
  if (!is_word("step")) return;
  if (stmt.kind == StmtKind::each_loop) {
    unexpected(Rule::expected_brace, "'{'", "only a for has a step: multiply the counter");
    return;
  }
  advance();
  stmt.has_step = true;
  stmt.operands[2] = value();
}

std::optional<StmtId> Parser::await(Stmt stmt) {
  advance();
  const bool is_known = is_word("read") || is_word("write");
  stmt.kind = is_word("read") ? StmtKind::await_read : StmtKind::await_write;
  if (!is_known) {
    unexpected(Rule::expected_word, "'read' or 'write'",
               "write await read(source, block, destination, bytes);");
    return {};
  }
  advance();
  expect("(");
  for (int i = 0; i < 4; ++i) {
    if (i > 0) expect(",");
    stmt.operands[i] = value();
  }
  expect(")");
  end_statement();
  if (panicking_) return {};
  return add(stmt);
}

std::optional<StmtId> Parser::assignment_or_call(Stmt stmt) {
  if (is_word("args") || is_buffer()) {
    stmt.kind = is_buffer() ? StmtKind::store : StmtKind::assign_arg;
    if (is_buffer()) {
      stmt.buffer = buffer();
    } else {
      advance();
    }
    stmt.operands[0] = index();
    if (!expect_assignment(stmt, "store a word with: output[i] = value;")) return {};
    stmt.operands[1] = value();
    end_statement();
    return add(stmt);
  }
  if (called_function() || find_atomic(token_.text)) {
    stmt.kind = StmtKind::evaluate;
    stmt.operands[0] = word_expression();
    end_statement();
    if (panicking_ || is_unreadable(body_[stmt.operands[0]])) return {};
    return add(stmt);
  }
  if (!is_reserved_word(token_.text)) return name_statement(stmt);
  const std::string hint =
      is_word("else") ? "else follows the } of an if"
      : find_builtin(token_.text)
          ? fmt::format("{} is given and cannot change: copy it with var", token_.text)
          : "a statement begins with let, var, if, for, each, while, or the place to store to";
  unexpected(Rule::expected_statement, "a statement", hint);
  return {};
}

// A statement that begins with a name: an assignment, or a mistake.
std::optional<StmtId> Parser::name_statement(Stmt stmt) {
  const Token name = token_;
  const Token next = next_token();
  const bool is_assignment =
      (next.kind == TokenKind::sign && next.text == "=") || find_compound(next) != nullptr;
  if (const auto word = is_assignment ? std::nullopt : unknown_keyword()) {
    token_.text = *word;
    if (*word != "else") return statement();
    advance();
    if (is_sign("{")) block();
    return {};
  }
  if (next.kind == TokenKind::sign && next.text == "(") {
    stmt.kind = StmtKind::evaluate;
    stmt.operands[0] = value();
    end_statement();
    return add(stmt);
  }
  advance();
  if (is_sign("[")) {
    stmt.kind = StmtKind::store_element;
    stmt.name = body_.intern(name.text);
    stmt.operands[0] = index();
    if (!expect_assignment(stmt, "store a word with: array[i] = value;")) return {};
    stmt.operands[1] = value();
    end_statement();
    return add(stmt);
  }
  stmt.kind = StmtKind::assign_name;
  stmt.name = body_.intern(name.text);
  if (!is_assignment) {
    const bool is_step = is_sign("+") || is_sign("-");
    unexpected(Rule::expected_assignment, "'='",
               is_step ? fmt::format("write {} {}= 1;", name.text, token_.text)
                       : "assign a variable with: name = value;");
    return {};
  }
  expect_assignment(stmt, "");
  stmt.operands[0] = value();
  end_statement();
  return add(stmt);
}

// ---- expressions ----

const BinaryOpInfo* find_binary(const Token& token) {
  if (token.kind != TokenKind::sign) return nullptr;
  for (const BinaryOpInfo& row : kBinaryOps) {
    if (row.sign == token.text) return &row;
  }
  return nullptr;
}

// An expression that is part of a statement; one that cannot be read is replaced.
ExprId Parser::value() {
  const Location location = token_.location;
  const ExprId id = expression();
  return panicking_ ? unreadable(location) : id;
}

ExprId Parser::expression(int lowest_precedence) {
  const DepthGuard guard(depth_);
  if (depth_ > kMaxParserDepth) {
    wrong(Rule::too_deep, token_.location, "this expression is nested too deeply",
          "name parts of it with let");
  }
  ExprId left = unary();
  while (!panicking_) {
    const BinaryOpInfo* op = find_binary(token_);
    if (op == nullptr || op->precedence < lowest_precedence) break;
    Expr expr{.kind = ExprKind::binary, .operand_count = 2, .binary = op->op};
    expr.location = token_.location;
    advance();
    expr.operands[0] = left;
    expr.operands[1] = expression(op->precedence + 1);
    left = add(expr);
  }
  return left;
}

ExprId Parser::unary() {
  const bool is_unary = is_sign("-") || is_sign("~") || is_sign("!");
  if (!is_unary) return primary();
  const DepthGuard guard(depth_);
  if (depth_ > kMaxParserDepth) {
    wrong(Rule::too_deep, token_.location, "too many signs in a row",
          "two equal signs in a row undo each other");
    return {};
  }
  Expr expr{.kind = ExprKind::unary, .operand_count = 1};
  expr.unary = is_sign("-")   ? UnaryOp::negate
               : is_sign("~") ? UnaryOp::complement
                              : UnaryOp::logical_not;
  expr.location = token_.location;
  advance();
  expr.operands[0] = unary();
  return add(expr);
}

ExprId Parser::primary() {
  if (token_.kind == TokenKind::number) {
    Expr expr{.kind = ExprKind::literal, .type = token_.type};
    if (token_.type == Type::none) diagnostics_.add(lexer_.mistake());
    expr.bits = token_.bits;
    expr.location = token_.location;
    advance();
    return add(expr);
  }
  if (is_sign("(")) {
    advance();
    const ExprId inner = expression();
    expect(")");
    return inner;
  }
  if (token_.kind == TokenKind::word) return word_expression();
  unexpected(Rule::expected_value, "a value",
             "a value is a number, a name, a word such as input[i], or a call such as min(a, b)");
  return {};
}

ExprId Parser::word_expression() {
  if (const auto function = called_function()) return call(*function);
  if (const auto op = find_atomic(token_.text)) return atomic(*op);
  Expr expr{.location = token_.location};
  if (is_word("args")) {
    expr.kind = ExprKind::arg;
    expr.operand_count = 1;
    advance();
    expr.operands[0] = index();
    return add(expr);
  }
  if (is_word("len")) {
    expr.kind = ExprKind::length;
    advance();
    expect("(");
    expr.buffer = buffer();
    expect(")");
    return add(expr);
  }
  if (is_buffer()) {
    expr.kind = ExprKind::load;
    expr.operand_count = 1;
    expr.buffer = buffer();
    expr.operands[0] = index();
    return add(expr);
  }
  return name_or_builtin();
}

ExprId Parser::name_or_builtin() {
  const Token name = token_;
  Expr expr{.location = name.location};
  if (is_word("true") || is_word("false")) {
    expr.kind = ExprKind::literal;
    expr.type = Type::boolean;
    expr.bits = is_word("true") ? 1 : 0;
  } else if (const auto builtin = find_builtin(name.text)) {
    expr.kind = ExprKind::builtin;
    expr.builtin = *builtin;
  } else if (is_reserved_word(name.text)) {
    unexpected(Rule::expected_value, "a value",
               fmt::format("'{}' is a word of the language and has no value", name.text));
    return {};
  } else {
    expr.kind = ExprKind::name;
    expr.name = body_.intern(name.text);
  }
  advance();
  if (is_sign("(") && expr.kind == ExprKind::name) return user_call(name);
  if (is_sign("[") && expr.kind == ExprKind::name) {
    expr.kind = ExprKind::element;
    expr.operands[0] = index();
    return add(expr);
  }
  if (is_sign("[") && expr.kind != ExprKind::literal) {
    tell_not_a_buffer(name);
    index();
    return panicking_ ? ExprId{} : unreadable(name.location);
  }
  return add(expr);
}

// The function that the token names. Some names can be those of variables too, and are a function's
// only before `(`.
std::optional<Function> Parser::called_function() const {
  const auto function = find_function(token_.text);
  if (!function || info(*function).is_reserved) return function;
  const Token next = next_token();
  const bool is_call = next.kind == TokenKind::sign && next.text == "(";
  return is_call ? function : std::nullopt;
}

ExprId Parser::call(Function function) {
  Expr expr{.kind = ExprKind::call, .function = function};
  const Token name = token_;
  expr.location = name.location;
  advance();
  expect("(");
  const auto count = static_cast<std::size_t>(info(function).argument_count);
  expr.operand_count = static_cast<std::uint8_t>(count);
  if (arguments(expr, 0, count, name.text)) return add(expr);
  return panicking_ ? ExprId{} : unreadable(name.location);
}

// The values of a call, up to its closing parenthesis, as operands from `first` on. Returns whether
// there are `count`; if not, that has been reported.
bool Parser::arguments(Expr& expr, std::size_t first, std::size_t count, std::string_view callee) {
  std::size_t found = 0;
  std::optional<Location> extra;  // the comma before the first value too many
  while (!panicking_) {
    if (first + found > 0) {
      if (!is_sign(",")) break;
      if (found == count && !extra) extra = token_.location;
      advance();
    }
    const ExprId id = expression();
    if (found < count) expr.operands[first + found] = id;
    ++found;
  }
  if (!is_sign(")") && found < count) unexpected(Rule::expected_comma, "','");
  if (panicking_) return false;
  if (found != count) {
    report_(Rule::argument_count, extra.value_or(token_.location),
            fmt::format("{} takes {}{} value{}, this call has {}", callee,
                        first > 0 ? "a word and " : "", count, count == 1 ? "" : "s", found),
            found < count ? "add what is missing" : "remove what is too many");
    // The parenthesis that closes the call too early may be the wrong one.
    if (found < count) panic();
  }
  expect(")");
  return !panicking_ && found == count;
}

ExprId Parser::atomic(AtomicOp op) {
  Expr expr{.kind = ExprKind::atomic, .atomic = op};
  const Token name = token_;
  expr.location = name.location;
  advance();
  expect("(");
  expr.buffer = buffer();
  expr.operands[0] = index();
  const auto count = static_cast<std::size_t>(info(op).value_count);
  expr.operand_count = static_cast<std::uint8_t>(1 + count);
  if (arguments(expr, 1, count, name.text)) return add(expr);
  return panicking_ ? ExprId{} : unreadable(name.location);
}

// Only functions of the language take a buffer by its name.
void Parser::tell_no_function_of_buffers(const Token& name) {
  Suggestion suggestion(name.text);
  suggestion.offer("len");
  const std::string_view ours = foreign_word(name.text);
  report_(Rule::unknown_function, name.location,
          fmt::format("{} is not a function", in_quotes(name.text)),
          ours.empty() ? suggestion.hint("len(buffer) is the only function of a buffer")
                       : fmt::format("did you mean `{}`?", ours));
}

// The current token is the parenthesis behind the name of a function of the program.
ExprId Parser::user_call(const Token& name) {
  Expr expr{.kind = ExprKind::user_call, .location = name.location};
  expr.name = body_.intern(name.text);
  advance();
  std::vector<ExprId> arguments;
  if (is_buffer() && next_token().text == ")") {
    tell_no_function_of_buffers(name);
    advance();
    expect(")");
    return panicking_ ? ExprId{} : unreadable(name.location);
  }
  while (!panicking_ && !(arguments.empty() && is_sign(")"))) {
    if (!arguments.empty()) {
      if (!is_sign(",")) break;
      advance();
    }
    arguments.push_back(expression());
  }
  expect(")");
  if (panicking_) return {};
  constexpr std::size_t kMostArguments = 255;
  if (arguments.size() > kMostArguments) {
    report_(Rule::argument_count, name.location,
            fmt::format("this call has {} values, at most {} are allowed", arguments.size(),
                        kMostArguments));
    return unreadable(name.location);
  }
  expr.operand_count = static_cast<std::uint8_t>(arguments.size());
  expr.bits = static_cast<std::uint32_t>(body_.arguments.size());
  body_.arguments.insert(body_.arguments.end(), arguments.begin(), arguments.end());
  return add(expr);
}

void Parser::tell_not_a_buffer(const Token& name) {
  Suggestion suggestion(name.text);
  for (const std::string_view word : {"input", "output", "control", "args"}) suggestion.offer(word);
  report_(
      Rule::not_a_buffer, name.location,
      fmt::format("{} is not a buffer: only buffers and args have an index", in_quotes(name.text)),
      suggestion.hint("buffers are input, output, control and buffer(handle)"));
}

ExprId Parser::index() {
  expect("[");
  const ExprId inner = expression();
  expect("]");
  return inner;
}

bool Parser::is_buffer() const {
  return is_word("input") || is_word("output") || is_word("control") || is_word("buffer");
}

BufferRef Parser::buffer() {
  if (!is_buffer()) {
    Suggestion suggestion(token_.text);
    if (token_.kind == TokenKind::word) {
      for (const std::string_view word : {"input", "output", "control", "buffer"}) {
        suggestion.offer(word);
      }
    }
    unexpected(Rule::expected_buffer, "a buffer: input, output, control or buffer(handle)",
               suggestion.hint("name a buffer here"));
    return {};
  }
  BufferRef ref;
  ref.kind = is_word("input")     ? BufferKind::input
             : is_word("output")  ? BufferKind::output
             : is_word("control") ? BufferKind::control
                                  : BufferKind::handle;
  advance();
  if (ref.kind != BufferKind::handle) return ref;
  expect("(");
  ref.handle = expression();
  expect(")");
  return ref;
}

Result<Program> parse(std::string_view text, std::size_t limit, Diagnostics* diagnostics) {
  Diagnostics found;
  Program program;
  std::vector<Recovered> recovered;
  Recovered definitions;
  if (text.size() > limit) {
    found.add({.rule = Rule::text_too_long,
               .location = {1, 1},
               .message = fmt::format("the text has {} bytes, more than {}", text.size(), limit),
               .hint = "split it into several programs"});
  } else {
    Parser parser(text, found);
    program = parser.program();
    recovered = parser.recovered();
    definitions = parser.recovered_definitions();
  }
  if (found.empty()) return program;
  Failure failure = found.first();
  if (diagnostics != nullptr) {
    verify_recovered(std::move(program), recovered, definitions, found);
    diagnostics->merge(std::move(found));
  }
  return failure;
}

}  // namespace everkernel::ir
