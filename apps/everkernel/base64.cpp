// Four characters are three bytes. Twelve bytes, three words, are decoded at a time, so that no
// group of characters lies in two steps.
#include "base64.hpp"

#include <fmt/format.h>

#include <array>
#include <cstdint>

#include "numbers.hpp"

namespace everkernel::cli {
namespace {

using abi::Word;

constexpr std::uint8_t kInvalid = 0xFF;
constexpr const char* kHint =
    "use the alphabet A-Z, a-z, 0-9, + and /, padding with =, and no line breaks";

constexpr std::array<std::uint8_t, 256> make_values() {
  std::array<std::uint8_t, 256> values = {};
  for (auto& value : values) value = kInvalid;
  constexpr std::string_view kAlphabet =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (std::size_t i = 0; i < kAlphabet.size(); ++i) {
    values[static_cast<unsigned char>(kAlphabet[i])] = static_cast<std::uint8_t>(i);
  }
  return values;
}
constexpr std::array<std::uint8_t, 256> kValues = make_values();

std::uint8_t value_of(char c) {
  return kValues[static_cast<unsigned char>(c)];
}

// Appends bytes to words.
class Packer {
 public:
  explicit Packer(std::size_t bytes) { words_.reserve((bytes + 3) / 4); }
  void add(std::uint32_t byte) {
    if (count_ % 4 == 0) words_.push_back(0);
    words_.back() |= (byte & 0xFF) << count_++ % 4 * 8;
  }
  // Three words at once; only when the bytes so far are whole words.
  void add_words(Word a, Word b, Word c) {
    words_.insert(words_.end(), {a, b, c});
    count_ += 3 * sizeof(Word);
  }
  std::vector<Word> take() { return std::move(words_); }

 private:
  std::vector<Word> words_ = {};
  std::size_t count_ = 0;
};

// The three bytes of four characters, the first in the lowest bits; `bad` collects invalid ones.
std::uint32_t group_at(const char* text, std::uint8_t& bad) {
  const std::uint8_t a = value_of(text[0]), b = value_of(text[1]);
  const std::uint8_t c = value_of(text[2]), d = value_of(text[3]);
  bad = static_cast<std::uint8_t>(bad | a | b | c | d);
  const std::uint32_t bits =
      std::uint32_t{a} << 18 | std::uint32_t{b} << 12 | std::uint32_t{c} << 6 | std::uint32_t{d};
  return (bits >> 16 & 0xFF) | (bits & 0xFF00) | (bits & 0xFF) << 16;
}

std::size_t padding_of(std::string_view text) {
  if (text.ends_with("==")) return 2;
  return text.ends_with('=') ? 1 : 0;
}

Failure bad_character(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size() && value_of(text[at]) != kInvalid) ++at;
  return fail(Code::invalid_argument,
              fmt::format("character {} is {}, which is not base64", grouped(at),
                          in_quotes(text.substr(at, 1))),
              kHint);
}

}  // namespace

std::size_t base64_bytes(std::string_view text) {
  return text.size() / 4 * 3 - (text.size() < 4 ? 0 : padding_of(text));
}

Result<std::vector<Word>> decode_base64(std::string_view text) {
  if (text.size() % 4 != 0) {
    return fail(Code::invalid_argument,
                fmt::format("{} are not groups of four", counted(text.size(), "character")), kHint);
  }
  Packer packer(base64_bytes(text));
  const std::string_view digits = text.substr(0, text.size() - padding_of(text));
  const std::size_t whole = digits.size() / 4 * 4;
  std::uint8_t bad = 0;
  std::size_t at = 0;
  for (; at + 16 <= whole; at += 16) {
    const std::uint32_t a = group_at(&text[at], bad), b = group_at(&text[at + 4], bad);
    const std::uint32_t c = group_at(&text[at + 8], bad), d = group_at(&text[at + 12], bad);
    packer.add_words(a | b << 24, b >> 8 | c << 16, c >> 16 | d << 8);
  }
  for (; at < whole; at += 4) {
    const std::uint32_t group = group_at(&text[at], bad);
    for (const int shift : {0, 8, 16}) packer.add(group >> shift);
  }
  if (digits.size() != whole) {
    const char last[] = {digits[whole], digits[whole + 1],
                         digits.size() - whole == 3 ? digits[whole + 2] : 'A', 'A'};
    const std::uint32_t group = group_at(last, bad);
    packer.add(group);
    if (digits.size() - whole == 3) packer.add(group >> 8);
  }
  // Values have six bits: a seventh comes from an invalid character.
  if ((bad & 0xC0) != 0) return bad_character(digits);
  return packer.take();
}

}  // namespace everkernel::cli
