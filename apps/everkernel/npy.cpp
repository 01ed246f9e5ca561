// A header is a Python dictionary of three keys: {'descr': '<u4', 'fortran_order': False,
// 'shape': (2, 3)}. A small parser takes exactly that, whatever the order of the keys.
#include "npy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>

#include "numbers.hpp"

namespace everkernel::cli {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
// Magic, version and the length of the dictionary: of version 1 in 2 bytes, later in 4.
constexpr std::size_t kFixedBytes1 = 10;
constexpr std::size_t kFixedBytes2 = 12;
constexpr std::size_t kAlignment = 64;
constexpr std::uint64_t kMaxDataBytes = std::uint64_t{1} << 62;
// Bytes of a header that a message shows at most.
constexpr std::size_t kShownBytes = 40;

constexpr const char* kConvert = "in Python: numpy.save(\"FILE.npy\", array.astype(\"<u4\"))";

Failure corrupt(std::string message) {
  return fail(Code::corrupt, std::move(message), "numpy.save() writes .npy files");
}

unsigned byte_at(std::span<const std::byte> bytes, std::size_t index) {
  return std::to_integer<unsigned>(bytes[index]);
}

std::size_t fixed_bytes(unsigned major) {
  return major == 1 ? kFixedBytes1 : kFixedBytes2;
}

// The text of the dictionary, taken piece by piece.
class Dictionary {
 public:
  explicit Dictionary(std::string_view text) : text_(text) {}

  Result<NpyHeader> read();

 private:
  void skip_spaces() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }
  bool take(char sign) {
    skip_spaces();
    if (at_ == text_.size() || text_[at_] != sign) return false;
    ++at_;
    return true;
  }
  bool take_word(std::string_view word) {
    skip_spaces();
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }
  Failure unexpected(std::string_view wanted) const {
    return corrupt(fmt::format(
        "its header has {} where {} should be",
        at_ == text_.size() ? "its end" : in_quotes(text_.substr(at_, kShownBytes)), wanted));
  }
  Result<std::string_view> take_text();
  Result<void> take_entry(std::string_view key);
  Result<void> take_descr();
  Result<void> take_order();
  Result<void> take_shape();

  std::string_view text_;
  std::size_t at_ = 0;
  NpyHeader header_ = {};
  bool has_descr_ = false;
  bool has_order_ = false;
  bool has_shape_ = false;
};

Result<std::string_view> Dictionary::take_text() {
  skip_spaces();
  const char quote = at_ < text_.size() ? text_[at_] : '\0';
  if (quote != '\'' && quote != '"') return unexpected("a text in quotes");
  const std::size_t end = text_.find(quote, at_ + 1);
  if (end == text_.npos) return unexpected("a text in quotes");
  const std::string_view text = text_.substr(at_ + 1, end - at_ - 1);
  at_ = end + 1;
  return text;
}

Result<void> Dictionary::take_descr() {
  skip_spaces();
  if (at_ < text_.size() && text_[at_] == '[') {
    return fail(Code::invalid_argument, "its elements are records of several fields",
                "save each field as an array of its own");
  }
  const std::string_view descr = EVERKERNEL_TRY(take_text());
  // One byte has no order, so that any sign may stand before it.
  if (descr == "u1" || descr == "<u1" || descr == ">u1" || descr == "=u1") {
    header_.element = Element::u8;
    return {};
  }
  const auto row = std::ranges::find(kElements, descr, &ElementInfo::descr);
  if (row != kElements.end()) {
    header_.element = static_cast<Element>(row - kElements.begin());
    return {};
  }
  if (descr.starts_with('>')) {
    return fail(Code::invalid_argument,
                fmt::format("its elements are big-endian ({})", in_quotes(descr)), kConvert);
  }
  return fail(Code::invalid_argument,
              fmt::format("its elements are of type {}, not u1, i4, u4 or f4",
                          in_quotes(descr.substr(0, kShownBytes))),
              kConvert);
}

Result<void> Dictionary::take_order() {
  if (take_word("False")) return {};
  if (!take_word("True")) return unexpected("True or False");
  return fail(Code::invalid_argument, "it is in Fortran order, column by column",
              "in Python: numpy.save(\"FILE.npy\", numpy.ascontiguousarray(array))");
}

Result<void> Dictionary::take_shape() {
  if (!take('(')) return unexpected("the shape in parentheses");
  header_.count = 1;
  bool is_empty = false;
  while (!take(')')) {
    skip_spaces();
    std::uint64_t length = 0;
    const char* const begin = text_.data() + at_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), length);
    if (error == std::errc::invalid_argument) return unexpected("a length");
    // Lengths are multiplied even behind one that is 0, so that an absurd one is always found.
    if (error != std::errc{} || length > kMaxDataBytes ||
        (length != 0 && header_.count > kMaxDataBytes / sizeof(std::uint32_t) / length)) {
      return fail(Code::corrupt, "its header names more elements than any file can hold",
                  "the header does not tell the truth: save the array again");
    }
    at_ += static_cast<std::size_t>(end - begin);
    is_empty = is_empty || length == 0;
    if (length != 0) header_.count *= length;
    if (take(',')) continue;
    if (!take(')')) return unexpected("a comma or )");
    break;
  }
  if (is_empty) header_.count = 0;
  return {};
}

Result<void> Dictionary::take_entry(std::string_view key) {
  const auto once = [&](bool& has) { return !std::exchange(has, true); };
  if (key == "descr" && once(has_descr_)) return take_descr();
  if (key == "fortran_order" && once(has_order_)) return take_order();
  if (key == "shape" && once(has_shape_)) return take_shape();
  return corrupt(fmt::format("its header has the key {}, which is unknown or given twice",
                             in_quotes(key.substr(0, kShownBytes))));
}

Result<NpyHeader> Dictionary::read() {
  if (!take('{')) return unexpected("{");
  while (!take('}')) {
    const std::string_view key = EVERKERNEL_TRY(take_text());
    if (!take(':')) return unexpected("a colon");
    EVERKERNEL_TRY(take_entry(key));
    if (take(',')) continue;
    if (!take('}')) return unexpected("a comma or }");
    break;
  }
  skip_spaces();
  if (at_ != text_.size()) return unexpected("its end");
  if (!has_descr_ || !has_order_ || !has_shape_) {
    return corrupt("its header lacks one of the keys descr, fortran_order and shape");
  }
  return header_;
}

}  // namespace

Result<std::size_t> npy_header_bytes(std::span<const std::byte> prefix) {
  const auto magic = std::as_bytes(std::span(kMagic));
  if (prefix.size() < kNpyPrefixBytes || !std::ranges::equal(prefix.first(magic.size()), magic)) {
    return corrupt("it does not begin as a .npy file does");
  }
  const unsigned major = byte_at(prefix, magic.size());
  if (major < 1 || major > 3) {
    return corrupt(fmt::format("version {} of the format is unknown", major));
  }
  std::size_t length = byte_at(prefix, 8) | byte_at(prefix, 9) << 8;
  if (major != 1) length |= std::size_t{byte_at(prefix, 10)} << 16;
  if (major != 1) length |= std::size_t{byte_at(prefix, 11)} << 24;
  length += fixed_bytes(major);
  if (length > kMaxNpyHeaderBytes || length < kNpyPrefixBytes) {
    return corrupt(fmt::format("its header has {}", counted(length, "byte")));
  }
  return length;
}

Result<NpyHeader> parse_npy_header(std::span<const std::byte> bytes) {
  const std::size_t length = EVERKERNEL_TRY(npy_header_bytes(bytes));
  if (bytes.size() != length) return corrupt("its header is not complete");
  const auto text = bytes.subspan(fixed_bytes(byte_at(bytes, kMagic.size())));
  return Dictionary({reinterpret_cast<const char*>(text.data()), text.size()}).read();
}

std::string npy_header(const NpyHeader& header) {
  std::string dictionary =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({},), }}",
                  info_of(header.element).descr, header.count);
  const std::size_t used = kFixedBytes1 + dictionary.size() + 1;
  dictionary.append((kAlignment - used % kAlignment) % kAlignment, ' ');
  dictionary += '\n';
  std::string text(kMagic);
  text += {'\x01', '\x00', static_cast<char>(dictionary.size() & 0xFF),
           static_cast<char>(dictionary.size() >> 8)};
  return text + dictionary;
}

}  // namespace everkernel::cli
