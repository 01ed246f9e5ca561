// How the parser words a mistake, leaves it, and finds the place from which it goes on.
//
// Every skip moves forward, and looking ahead is bounded: any text takes linear time.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "everkernel/ir/detail/vocabulary_tables.hpp"
#include "everkernel/ir/limits.hpp"
#include "ir/foreign_words.hpp"
#include "ir/parser.hpp"

namespace everkernel::ir {
namespace {

constexpr std::array<std::string_view, 13> kStatementWords = {
    "let",      "var",    "if",    "for",     "each",  "while", "break",
    "continue", "return", "yield", "requeue", "fault", "await"};

std::string shown(const Token& token) {
  if (token.kind == TokenKind::end) return "the end of the text";
  constexpr std::size_t kLongest = 40;
  const bool is_long = token.text.size() > kLongest;
  return fmt::format("'{}{}'", token.text.substr(0, kLongest), is_long ? "…" : "");
}

}  // namespace

// ---- tokens ----

void Parser::advance() {
  if (panicking_) return;
  previous_end_ = token_.offset + token_.text.size();
  previous_line_ = token_.location.line;
  if (previous_line_ > 0) {
    const auto length = static_cast<std::uint32_t>(token_.text.size());
    previous_place_ = {token_.location.line, token_.location.column + length};
  }
  token_ = lexer_.next();
  if (token_.kind == TokenKind::wrong && lexer_.mistake().rule == Rule::unclosed_comment) {
    if (!is_lost_) diagnostics_.add(lexer_.mistake());
    is_lost_ = true;
    token_.kind = TokenKind::end;
  }
  if (is_first_on_line()) line_indent_ = token_.location.column;
}

Token Parser::next_token() const {
  Lexer ahead = lexer_;
  return panicking_ ? token_ : ahead.next();
}

// Whether a { follows on this line before a statement ends.
bool Parser::has_brace_ahead() const {
  constexpr int kMostTokens = 64;
  Lexer ahead = lexer_;
  Token token = token_;
  for (int i = 0; i < kMostTokens && token.location.line == token_.location.line; ++i) {
    if (token.kind == TokenKind::end) return false;
    if (token.kind == TokenKind::sign && token.text == "{") return true;
    if (token.kind == TokenKind::sign && (token.text == ";" || token.text == "}")) return false;
    token = ahead.next();
  }
  return false;
}

// Whether a { follows behind this token on its line before a statement ends.
bool Parser::has_brace_behind() const {
  constexpr int kMostTokens = 16;
  Lexer ahead = lexer_;
  Token token = ahead.next();
  for (int i = 0; i < kMostTokens && token.location.line == token_.location.line; ++i) {
    if (token.kind == TokenKind::end || token.text == ";" || token.text == "}") return false;
    if (token.text == "{") return true;
    token = ahead.next();
  }
  return false;
}

// Whether what follows is the head of a loop; its line may end before its range.
bool Parser::has_range_ahead() const {
  constexpr int kMostTokens = 32;
  Lexer ahead = lexer_;
  Token token = token_;
  for (int i = 0; i < kMostTokens && token.text != ";" && token.text != "}"; ++i) {
    if (token.kind == TokenKind::end) return false;
    if (token.text == "{" && token.location.line != token_.location.line) return false;
    if (token.text == "in" || token.text == "..") return true;
    token = ahead.next();
  }
  return false;
}

// ---- mistakes ----

void Parser::panic() {
  if (panicking_) return;
  panicking_ = true;
  stuck_ = token_;
  token_ = {.kind = TokenKind::end, .location = token_.location, .offset = token_.offset};
}

void Parser::resume() {
  if (!panicking_ || is_abandoned_) return;
  panicking_ = false;
  token_ = stuck_;
}

void Parser::wrong(Rule rule, Location location, std::string_view what, std::string hint) {
  if (panicking_) return;
  if (!is_lost_) report_(rule, location, what, std::move(hint));
  panic();
}

// Where something is missing: here, or behind the token before if this one begins another line.
Location Parser::missing_place() const {
  return is_first_on_line() && previous_line_ > 0 ? previous_place_ : token_.location;
}

// Reports and goes on: what is missing is taken as written.
void Parser::tell_unexpected(Rule rule, std::string_view wanted, std::string hint) {
  if (panicking_ || is_lost_ || reported_offset_ == token_.offset) return;
  reported_offset_ = token_.offset;
  if (is_end()) {
    is_close_reported_ = true;  // the text has been cut: its blocks are open, too
    handler_state_.has_lost_blocks = true;
  }
  if (token_.kind == TokenKind::wrong) {
    diagnostics_.add(lexer_.mistake());
    return;
  }
  const bool is_missing = rule != Rule::expected_statement && rule != Rule::expected_declaration;
  report_(rule, is_missing ? missing_place() : token_.location,
          fmt::format("expected {}, found {}", wanted, shown(token_)), std::move(hint));
}

void Parser::unexpected(Rule rule, std::string_view wanted, std::string hint) {
  tell_unexpected(rule, wanted, std::move(hint));
  panic();
}

void Parser::abandon_handler(Rule rule, std::string_view what) {
  wrong(rule, token_.location, what, "split it into several handlers");
  is_abandoned_ = true;
}

// The word of the language that a word was meant for, where none of its words stands. It has been
// reported.
std::optional<std::string_view> Parser::unknown_keyword() {
  if (panicking_ || token_.kind != TokenKind::word || is_reserved_word(token_.text)) return {};
  const bool is_outside = block_depth_ == 0;
  const Token next = next_token();
  if (is_outside && next.kind != TokenKind::word && next.text != "{") return {};
  if (next.text == "(" || next.text == "[" || next.text == "=") return {};
  Suggestion suggestion(token_.text);
  if (is_outside) {
    for (const std::string_view word : {"handler", "payload"}) suggestion.offer(word);
  } else {
    for (const std::string_view word : kStatementWords) suggestion.offer(word);
    suggestion.offer("else");
  }
  std::string_view word = suggestion.best();
  if (word.empty() && !is_outside) word = foreign_word(token_.text);
  const bool is_keyword = is_outside || word == "else" ||
                          std::ranges::find(kStatementWords, word) != kStatementWords.end();
  if (!is_keyword) return {};
  if (word.empty()) return {};
  report_(Rule::unknown_keyword, token_.location,
          fmt::format("{} is not a word of the language", shown(token_)),
          fmt::format("did you mean `{}`?", word));
  return word;
}

// ---- boundaries ----

bool Parser::is_statement_word() const {
  return token_.kind == TokenKind::word &&
         std::ranges::find(kStatementWords, token_.text) != kStatementWords.end();
}

// Whether a handler or the payload begins here.
bool Parser::is_declaration() const {
  if (is_first_on_line() && token_.location.column == 1 && is_definition()) return true;
  if (!is_word("handler") && !is_word("payload")) return false;
  Lexer ahead = lexer_;
  const Token next = ahead.next();
  if (is_word("payload")) return next.text == "{" || next.text == "scope";
  if (next.kind != TokenKind::word || is_reserved_word(next.text)) return false;
  const Token assignment = ahead.next();
  if (assignment.text == "=") return ahead.next().kind == TokenKind::number;
  return is_first_on_line() && assignment.kind == TokenKind::number;
}

// Whether a constant or function begins here; their words have no meaning elsewhere.
bool Parser::is_definition() const {
  if (!is_word("const") && !is_word("fn")) return false;
  const Token next = next_token();
  return next.kind == TokenKind::word || (block_depth_ == 0 && next.kind != TokenKind::end);
}

// Whether this is the else of an if, not just its word.
bool Parser::is_else() const {
  if (!is_word("else")) return false;
  const Token next = next_token();
  return next.text == "if" || next.text == "{";
}

// Whether this } stands inside a statement, which goes on behind it.
bool Parser::is_stray_brace() const {
  if (!is_sign("}")) return false;
  const Token next = next_token();
  return next.location.line == token_.location.line && next.text != "}" && next.text != "else" &&
         next.kind != TokenKind::end;
}

// Behind the statement that is wrong, or at the brace that ends its block.
void Parser::skip_to_statement() {
  while (!is_end() && !is_declaration()) {
    if (is_sign("}")) return;
    if (is_sign("{")) return skip_blocks();
    if (is_sign(";")) return advance();
    if (is_first_on_line() && is_statement_word()) return;
    if (is_word("let") || is_word("var")) handler_state_.has_lost_names = true;
    advance();
  }
}

// A brace inside a statement opens and closes nothing, if the statement goes on behind it.
void Parser::skip_stray_brace() {
  if (is_sign("{") || is_stray_brace()) advance();
}

// The block of a statement that could not be read, and what belongs to it by else. The statements
// inside are read.
void Parser::skip_blocks() {
  block();
  resume();
  while (is_word("else")) {
    advance();
    skip_to_header_end();
    if (!is_sign("{")) return;
    block();
    resume();
  }
}

// To the { of a statement whose head is wrong, or to the end of its line.
void Parser::skip_to_header_end() {
  // A sign inside the head that would end it is left out.
  if ((is_sign("{") || is_sign("}") || is_sign(";")) && has_brace_behind()) advance();
  while (!is_end() && !is_sign("{") && !is_sign("}") && !is_sign(";") && !is_declaration()) {
    if (is_first_on_line() && !has_brace_ahead()) return;
    if (is_statement_word()) handler_state_.has_lost_blocks = true;  // a loop, or its counter
    advance();
  }
}

void Parser::skip_to_declaration() {
  while (!is_end() && !is_word("handler") && !is_word("payload") && !is_definition()) advance();
}

// Behind the block that begins here.
void Parser::skip_braces() {
  std::size_t depth = 0;
  while (!is_end() && !is_declaration()) {
    if (is_sign("{")) ++depth;
    if (is_sign("}")) {
      if (depth == 0) return;
      --depth;
    }
    advance();
    if (depth == 0) return;
  }
}

// A statement that is indented no deeper than the line that opened its block says that the block
// was to end before it.
void Parser::note_indentation(std::size_t opener_indent, std::uint32_t opener_line,
                              bool is_deeper) {
  if (!is_deeper || unclosed_ || !is_first_on_line() || token_.location.line == opener_line) return;
  if (token_.location.column <= opener_indent) unclosed_ = previous_place_;
}

// The current token is the } that closes a block.
void Parser::note_close(std::size_t opener_indent, std::uint32_t opener_line) {
  if (token_.location.line == opener_line) return;
  const std::size_t column = token_.location.column;
  if (is_first_on_line() && column < opener_indent && !unclosed_) unclosed_ = previous_place_;
  if ((!is_first_on_line() || column > opener_indent) && !overclosed_) {
    overclosed_ = token_.location;
  }
}

// The text ends, or a handler begins, inside a block.
void Parser::missing_close(const Block& block) {
  const bool is_else = is_word("else");
  if (!is_else) handler_state_.has_lost_blocks = true;
  if (panicking_ || is_lost_ || is_close_reported_) return;
  if (!is_else) is_close_reported_ = true;
  const bool is_known = unclosed_ && !is_else;
  report_(Rule::expected_brace, is_known ? *unclosed_ : missing_place(),
          is_known ? std::string("expected '}' before the next statement")
                   : fmt::format("expected '}}', found {}", shown(token_)),
          fmt::format("close the block that begins in line {} with }}", block.location.line));
}

// The block of a statement whose head may be wrong.
BlockId Parser::body_of_statement() {
  const bool is_reported = panicking_;
  if (panicking_) {
    resume();
    if (!panicking_) skip_to_header_end();
  }
  return block(is_reported);
}

// A block whose { is missing. Text before a { on the same line is too much; else the statements up
// to the } are the block, and on the line of the mistake, where it may be C's form of a body, up to
// the end of the line.
BlockId Parser::block_without_brace(bool is_reported) {
  if (!is_reported) {
    const std::string hint = is_sign("=")       ? "compare with =="
                             : is_word("and")   ? "write && for and"
                             : is_word("or")    ? "write || for or"
                             : is_word("scope") ? "scope stands before pure and commutes"
                             : is_sign(";")     ? "a body is a block: { }"
                                                : "a body is a block between { and }";
    tell_unexpected(Rule::expected_brace, "'{'", hint);
  }
  Block block{.location = token_.location};
  if (is_sign("}") && has_brace_behind()) advance();
  if (has_brace_ahead()) {
    while (!is_sign("{")) advance();
    return statements_to_brace(std::move(block));
  }
  if (is_end() || is_sign("}") || is_declaration()) return body_.add(std::move(block));
  if (is_first_on_line()) return statements_to_brace(std::move(block));
  handler_state_.has_lost_blocks = true;
  if (is_sign(";")) {
    advance();
    return body_.add(std::move(block));
  }
  const std::uint32_t line = token_.location.line;
  while (!is_end() && !is_sign("}") && token_.location.line == line) {
    const std::size_t before = token_.offset;
    statement();
    if (is_abandoned_) return body_.add(std::move(block));
    if (panicking_) {
      resume();
      skip_to_statement();
    }
    if (token_.offset == before) advance();
  }
  if (is_sign("}") && token_.location.line == line) advance();
  return body_.add(std::move(block));
}

// Text that belongs to no handler.
void Parser::outside_of_handlers() {
  if (overclosed_) {
    if (!is_lost_) {
      report_(Rule::expected_brace, *overclosed_,
              "this '}' ends the handler, but statements follow",
              "remove it, or add the { that it closes");
    }
    overclosed_ = {};
    if (!recovered_.empty()) recovered_.back().has_lost_blocks = true;
  } else {
    tell_unexpected(Rule::expected_declaration, "'handler' or 'payload'",
                    recovered_.empty() ? "a file holds handlers: handler NAME = OPCODE { … }"
                                       : "a handler ends with the } of its block");
    if (!recovered_.empty()) recovered_.back().has_lost_blocks = true;
  }
  advance();
  skip_to_declaration();
}

}  // namespace everkernel::ir
