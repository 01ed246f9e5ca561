// Blanks, comments, words, numbers and signs. Bytes that are none of them become wrong tokens.
#include "ir/lexer.hpp"

#include <fmt/format.h>

#include <bit>
#include <charconv>
#include <string>
#include <utility>

#include "everkernel/ir/detail/vocabulary_tables.hpp"
#include "ir/unicode.hpp"

namespace everkernel::ir {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool is_hex(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

// Longest first, so that `<<` is not read as two `<`.
constexpr std::string_view kSigns[] = {
    "<<=", ">>=", "->", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "..", "<<", ">>",
    "<=",  ">=",  "==", "!=", "&&", "||", "{",  "}",  "(",  ")",  "[",  "]",  ";",  ":",
    ",",   "=",   "+",  "-",  "*",  "/",  "%",  "<",  ">",  "&",  "^",  "|",  "~",  "!"};

// A literal, shortened for messages.
std::string shown(std::string_view text) {
  constexpr std::size_t kLongest = 40;
  return fmt::format("{}{}", text.substr(0, kLongest), text.size() > kLongest ? "…" : "");
}

// Whether a literal outside the range of f32 is too large, not too small. from_chars does not
// distinguish the two: the position of its first non-zero digit does.
bool is_huge(std::string_view text) {
  const std::size_t e = text.find_first_of("eE");
  const std::string_view digits = text.substr(0, e);
  const std::size_t first = digits.find_first_not_of("0.");
  if (first == std::string_view::npos) return false;
  std::int64_t exponent = 0;
  if (e != std::string_view::npos) {
    const bool is_negative = text[e + 1] == '-';
    const std::size_t start = e + (is_negative || text[e + 1] == '+' ? 2 : 1);
    const auto parsed = std::from_chars(text.data() + start, text.data() + text.size(), exponent);
    if (parsed.ec != std::errc{}) return !is_negative;
    if (is_negative) exponent = -exponent;
  }
  const auto point = static_cast<std::int64_t>(digits.find('.'));
  return point - static_cast<std::int64_t>(first) + exponent > 0;
}

std::string shown(std::string_view text, const Character& character) {
  if (!character.is_valid)
    return fmt::format("byte {:#04x}", static_cast<unsigned>(character.point));
  if (character.is_visible) return fmt::format("'{}'", text.substr(0, character.size_bytes));
  if (character.point < 0x80) {
    return fmt::format("byte {:#04x}", static_cast<unsigned>(character.point));
  }
  return fmt::format("the invisible character U+{:04X}", static_cast<unsigned>(character.point));
}

// What a character of other languages is written as here.
std::string_view remedy(char32_t point) {
  switch (point) {
    case U'"':
    case U'\'':
      return "there is no text in this language: printf and emit take numbers";
    case U'?':
      return "use select(condition, a, b) to choose between two values";
    case U'.':
      return "write fractions like 0.5 and ranges like 0 .. n";
    case U'#':
      return "a comment begins with //";
    default:
      return point < 0x80 ? "remove it" : "use plain ASCII characters outside of comments";
  }
}

}  // namespace

void Lexer::set_mistake(Rule rule, Location location, std::string message, std::string hint) {
  mistake_ = {
      .rule = rule, .location = location, .message = std::move(message), .hint = std::move(hint)};
}

// False at a comment that is not closed; it is read to the end of the text.
bool Lexer::skip_blanks() {
  while (at_ < text_.size()) {
    const char c = peek();
    if (c == '\n') {
      ++line_;
      line_start_ = ++at_;
    } else if (c == ' ' || c == '\t' || c == '\r') {
      ++at_;
    } else if (c == '/' && peek(1) == '/') {
      while (at_ < text_.size() && peek() != '\n') ++at_;
    } else if (c == '/' && peek(1) == '*') {
      const Location start = here();
      const std::size_t end = text_.find("*/", at_ + 2);
      if (end == std::string_view::npos) {
        set_mistake(Rule::unclosed_comment, start, "this comment is not closed",
                    "close it with */");
        at_ = text_.size();
        return false;
      }
      for (; at_ < end + 2; ++at_) {
        if (peek() != '\n') continue;
        ++line_;
        line_start_ = at_ + 1;
      }
    } else {
      break;
    }
  }
  return true;
}

Token Lexer::next() {
  if (!skip_blanks()) {
    return {.kind = TokenKind::wrong, .location = mistake_.location, .offset = at_};
  }
  if (at_ == text_.size()) {
    return Token{.kind = TokenKind::end, .location = here(), .offset = at_};
  }
  if (is_digit(peek())) return number();
  if (is_letter(peek())) return word();
  return sign();
}

Token Lexer::word() {
  Token token{.kind = TokenKind::word, .location = here(), .offset = at_};
  while (is_letter(peek()) || is_digit(peek())) ++at_;
  token.text = text_.substr(token.offset, at_ - token.offset);
  return token;
}

Token Lexer::sign() {
  Token token{.kind = TokenKind::sign, .location = here(), .offset = at_};
  for (const std::string_view candidate : kSigns) {
    if (!text_.substr(at_).starts_with(candidate)) continue;
    token.text = candidate;
    at_ += candidate.size();
    return token;
  }
  return wrong_bytes(token);
}

// Bytes in a row that are no UTF-8 are one token: a file that is no text has one mistake.
Token Lexer::wrong_bytes(Token token) {
  token.kind = TokenKind::wrong;
  const Character first = first_character(text_.substr(at_));
  set_mistake(Rule::unknown_character, token.location,
              fmt::format("{} is not part of the language", shown(text_.substr(at_), first)),
              std::string(first.is_valid ? remedy(first.point)
                                         : "save the file as text, in ASCII or UTF-8"));
  at_ += first.size_bytes;
  while (!first.is_valid && at_ < text_.size() && !first_character(text_.substr(at_)).is_valid) {
    ++at_;
  }
  token.text = text_.substr(token.offset, at_ - token.offset);
  return token;
}

Token Lexer::wrong_number(Token token, Rule rule, std::string message, std::string hint) {
  set_mistake(rule, token.location, std::move(message), std::move(hint));
  token.type = Type::none;
  return token;
}

Token Lexer::number() {
  Token token{.kind = TokenKind::number, .type = Type::u32, .location = here(), .offset = at_};
  const bool is_hexadecimal = peek() == '0' && (peek(1) == 'x' || peek(1) == 'X');
  if (is_hexadecimal) at_ += 2;
  const std::size_t digits = at_;
  while (is_hexadecimal ? is_hex(peek()) : is_digit(peek())) ++at_;
  // A point is a fraction only before a digit: `0..n` is a range.
  if (!is_hexadecimal && peek() == '.' && is_digit(peek(1))) {
    token.type = Type::f32;
    ++at_;
    while (is_digit(peek())) ++at_;
    const std::size_t sign_length = peek(1) == '+' || peek(1) == '-' ? 1 : 0;
    if ((peek() == 'e' || peek() == 'E') && is_digit(peek(1 + sign_length))) {
      at_ += 1 + sign_length;
      while (is_digit(peek())) ++at_;
    }
  }
  const std::string_view text = text_.substr(digits, at_ - digits);
  if (token.type == Type::u32 && peek() == 'i') {
    token.type = Type::i32;
    ++at_;
  }
  token.text = text_.substr(token.offset, at_ - token.offset);
  if (is_letter(peek()) || is_digit(peek()) || text.empty()) {
    const std::string next = is_letter(peek()) || is_digit(peek()) ? std::string(1, peek()) : "";
    const std::string message = fmt::format("'{}{}' is not a number", shown(token.text), next);
    while (is_letter(peek()) || is_digit(peek())) ++at_;
    token.text = text_.substr(token.offset, at_ - token.offset);
    return wrong_number(token, Rule::bad_number, message,
                        "write numbers like 7, 0xff, 7i, 1.5 or 1.0e-3");
  }
  const char* const end = text.data() + text.size();
  if (token.type == Type::f32) {
    float value = 0;
    const auto parsed = std::from_chars(text.data(), end, value);
    // A number that is too small is rounded to zero; one that is too large is an error.
    if (parsed.ec != std::errc{}) value = 0;
    if (parsed.ec != std::errc{} && is_huge(text)) {
      return wrong_number(token, Rule::number_too_large,
                          fmt::format("{} is too large for f32", shown(token.text)),
                          "the largest f32 is 3.4028235e38");
    }
    token.bits = std::bit_cast<std::uint32_t>(value);
    return token;
  }
  const std::uint32_t limit = token.type == Type::i32 ? 0x7FFFFFFFu : 0xFFFFFFFFu;
  const auto parsed = std::from_chars(text.data(), end, token.bits, is_hexadecimal ? 16 : 10);
  if (parsed.ec != std::errc{} || token.bits > limit) {
    return wrong_number(
        token, Rule::number_too_large,
        fmt::format("{} is too large for {}", shown(token.text), type_name(token.type)),
        token.type == Type::i32 ? "the largest i32 is 2147483647i, the minimum i32(0x80000000)"
                                : "the largest u32 is 4294967295");
  }
  return token;
}

}  // namespace everkernel::ir
