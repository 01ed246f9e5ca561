// The parser's class: recursive descent that goes on after a mistake.
//
// While a mistake is being left (`panicking_`), the current token reads as the end of the text:
// every production ends by itself and reports nothing. The next statement, block or handler begins
// after resume(), which skips to its boundary.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "everkernel/ir/detail/vocabulary_tables.hpp"
#include "everkernel/ir/program.hpp"
#include "ir/lexer.hpp"
#include "ir/recovery.hpp"
#include "ir/reporter.hpp"

namespace everkernel::ir {

/// Parses one text.
class Parser {
 public:
  /// Adds mistakes to `diagnostics`, which must outlive this object, as must the text.
  Parser(std::string_view text, Diagnostics& diagnostics)
      : lexer_(text), diagnostics_(diagnostics), report_(diagnostics) {}

  /// The handlers of the text, without the statements that are wrong.
  Program program();
  /// What could be read of each of them.
  const std::vector<Recovered>& recovered() const { return recovered_; }
  /// What could be read of the constants and functions.
  const Recovered& recovered_definitions() const { return definitions_state_; }

 private:
  // Tokens.
  void advance();
  bool is_sign(std::string_view sign) const {
    return token_.kind == TokenKind::sign && token_.text == sign;
  }
  bool is_word(std::string_view word) const {
    return token_.kind == TokenKind::word && token_.text == word;
  }
  bool is_end() const { return token_.kind == TokenKind::end; }
  bool is_first_on_line() const { return token_.location.line > previous_line_; }
  Token next_token() const;
  bool has_brace_ahead() const;
  bool has_brace_behind() const;
  bool has_range_ahead() const;

  // Mistakes.
  void wrong(Rule rule, Location location, std::string_view what, std::string hint = {});
  void unexpected(Rule rule, std::string_view wanted, std::string hint = {});
  void tell_unexpected(Rule rule, std::string_view wanted, std::string hint = {});
  Location missing_place() const;
  void panic();
  void resume();
  void abandon_handler(Rule rule, std::string_view what);

  // Boundaries.
  bool is_statement_word() const;
  bool is_declaration() const;
  bool is_else() const;
  bool is_stray_brace() const;
  void skip_to_statement();
  void skip_to_header_end();
  void skip_to_declaration();
  void skip_stray_brace();
  void skip_blocks();
  void skip_braces();
  void note_indentation(std::size_t opener_indent, std::uint32_t opener_line, bool is_deeper);
  void note_close(std::size_t opener_indent, std::uint32_t opener_line);

  // Parts of productions.
  void expect(std::string_view sign);
  void end_statement(std::string_view hint = {});
  const BinaryOpInfo* find_compound(const Token& token) const;
  bool expect_assignment(Stmt& stmt, std::string_view hint);
  NameId new_name(std::string_view of_what);
  std::optional<std::string_view> unknown_keyword();
  ExprId unreadable(Location location);
  void check_size();
  ExprId add(const Expr& expr);
  StmtId add(const Stmt& stmt);

  // Grammar.
  void outside_of_handlers();
  bool is_definition() const;
  void constant();
  void function();
  void parameters(UserFunction& function);
  Type type();
  void function_body(UserFunction& function);
  void tell_no_function_of_buffers(const Token& name);
  ExprId user_call(const Token& name);
  Handler handler();
  void handler_name_and_opcode(Handler& handler);
  void attributes(Handler& handler);
  BlockId block(bool is_reported = false);
  BlockId statements_to_brace(Block block, bool is_before_else = false);
  BlockId block_without_brace(bool is_reported);
  BlockId body_of_statement();
  void missing_close(const Block& block);
  std::optional<StmtId> statement();
  std::optional<StmtId> keyword_statement(Stmt stmt);
  std::optional<StmtId> declaration(Stmt stmt);
  std::optional<StmtId> array(Stmt stmt);
  std::optional<StmtId> branch(Stmt stmt);
  std::optional<StmtId> counted_loop(Stmt stmt);
  void loop_range(Stmt& stmt);
  std::optional<StmtId> await(Stmt stmt);
  std::optional<StmtId> assignment_or_call(Stmt stmt);
  std::optional<StmtId> name_statement(Stmt stmt);
  ExprId value();
  ExprId expression(int lowest_precedence = 1);
  ExprId unary();
  ExprId primary();
  ExprId word_expression();
  ExprId name_or_builtin();
  std::optional<Function> called_function() const;
  ExprId call(Function function);
  ExprId atomic(AtomicOp op);
  bool arguments(Expr& expr, std::size_t first, std::size_t count, std::string_view callee);
  void tell_not_a_buffer(const Token& name);
  ExprId index();
  bool is_buffer() const;
  BufferRef buffer();

  Lexer lexer_;
  Diagnostics& diagnostics_;
  Reporter report_;
  Token token_;
  Token stuck_;  // the token at which a mistake was found
  bool panicking_ = false;
  bool is_abandoned_ = false;  // nothing of this handler is read any more
  bool is_lost_ = false;       // nothing of this text can be read any more
  Body body_;
  std::vector<Recovered> recovered_;
  Recovered handler_state_;
  Recovered definitions_state_;
  Program program_;
  std::size_t previous_end_ = 0;                // offset of the end of the token before
  Location previous_place_ = {1, 1};            // the place right behind it
  std::uint32_t previous_line_ = 0;             // the line on which it ends
  std::size_t line_indent_ = 1;                 // column of the first token of this line
  std::optional<Location> unclosed_;            // where the indentation says that a } is missing
  std::optional<Location> overclosed_;          // a } where the indentation says that none belongs
  bool is_close_reported_ = false;              // a missing } was reported in this handler
  bool can_else_follow_ = false;                // the next block is one that an else may follow
  std::optional<std::size_t> reported_offset_;  // of the last token that was unexpected
  std::size_t depth_ = 0;
  std::size_t block_depth_ = 0;
};

}  // namespace everkernel::ir
