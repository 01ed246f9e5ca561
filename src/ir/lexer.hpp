// Splits handler text into tokens, each with its location.
#pragma once

#include <cstdint>
#include <string_view>

#include "everkernel/ir/diagnostic.hpp"
#include "everkernel/ir/program.hpp"

namespace everkernel::ir {

/// The kinds of tokens. `wrong` stands for bytes that are none.
enum class TokenKind : std::uint8_t { end, word, number, sign, wrong };

/// One token. Its text is a piece of the source.
struct Token {
  TokenKind kind = TokenKind::end;
  std::string_view text = {};
  Type type = Type::none;  // of a number; none for one that is wrong
  std::uint32_t bits = 0;  // of a number
  Location location = {};
  std::size_t offset = 0;  // bytes before it
};

/// Reads one token after the other. Any bytes give tokens.
class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}
  /// The next token; `end` on every call after the last one.
  Token next();
  /// What is wrong with the last token: of kind `wrong`, or a number without a type.
  const Diagnostic& mistake() const { return mistake_; }

 private:
  bool skip_blanks();
  Token number();
  Token word();
  Token sign();
  Token wrong_number(Token token, Rule rule, std::string message, std::string hint = {});
  Token wrong_bytes(Token token);
  void set_mistake(Rule rule, Location location, std::string message, std::string hint);
  Location here() const { return {line_, static_cast<std::uint32_t>(at_ - line_start_ + 1)}; }
  char peek(std::size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::size_t line_start_ = 0;
  std::uint32_t line_ = 1;
  Diagnostic mistake_;
};

}  // namespace everkernel::ir
