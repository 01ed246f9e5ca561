// Blanks, comments, words, numbers and signs. Any bytes give tokens, or an error with its location.
#include "ir/lexer.hpp"

#include <bit>
#include <charconv>
#include <string>

#include "everkernel/ir/detail/vocabulary_tables.hpp"
#include "ir/diagnostic.hpp"

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
constexpr std::string_view kSigns[] = {"..", "<<", ">>", "<=", ">=", "==", "!=", "&&", "||", "{",
                                       "}",  "(",  ")",  "[",  "]",  ";",  ",",  "=",  "+",  "-",
                                       "*",  "/",  "%",  "<",  ">",  "&",  "^",  "|",  "~",  "!"};

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

std::string shown(char c) {
  const auto code = static_cast<unsigned char>(c);
  if (code >= 0x20 && code < 0x7F) return fmt::format("'{}'", c);
  return fmt::format("byte {:#04x}", code);
}

}  // namespace

Result<void> Lexer::skip_blanks() {
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
        return mistake(start, {}, "this comment is not closed", "close it with */");
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
  return {};
}

Result<Token> Lexer::next() {
  EVERKERNEL_TRY(skip_blanks());
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

Result<Token> Lexer::sign() {
  Token token{.kind = TokenKind::sign, .location = here(), .offset = at_};
  for (const std::string_view candidate : kSigns) {
    if (!text_.substr(at_).starts_with(candidate)) continue;
    token.text = candidate;
    at_ += candidate.size();
    return token;
  }
  return mistake(token.location, {}, fmt::format("{} is not part of the language", shown(peek())));
}

Result<Token> Lexer::number() {
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
    const bool is_word = is_letter(peek()) || is_digit(peek());
    return mistake(token.location, {},
                   fmt::format("'{}{}' is not a number", shown(token.text),
                               is_word ? std::string(1, peek()) : std::string()),
                   "write numbers like 7, 0xff, 7i or 1.5");
  }
  const char* const end = text.data() + text.size();
  if (token.type == Type::f32) {
    float value = 0;
    const auto parsed = std::from_chars(text.data(), end, value);
    // A number that is too small is rounded to zero; one that is too large is an error.
    if (parsed.ec != std::errc{}) value = 0;
    if (parsed.ec != std::errc{} && is_huge(text)) {
      return mistake(token.location, {}, fmt::format("{} is too large for f32", shown(token.text)));
    }
    token.bits = std::bit_cast<std::uint32_t>(value);
    return token;
  }
  const std::uint32_t limit = token.type == Type::i32 ? 0x7FFFFFFFu : 0xFFFFFFFFu;
  const auto parsed = std::from_chars(text.data(), end, token.bits, is_hexadecimal ? 16 : 10);
  if (parsed.ec != std::errc{} || token.bits > limit) {
    return mistake(token.location, {},
                   fmt::format("{} is too large for {}", shown(token.text), type_name(token.type)),
                   token.type == Type::i32 ? "the i32 minimum is i32(0x80000000)" : "");
  }
  return token;
}

}  // namespace everkernel::ir
