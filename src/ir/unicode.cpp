// UTF-8, and the blocks that terminals draw wide, on top of another character, or not at all.
#include "ir/unicode.hpp"

#include <algorithm>
#include <utility>

namespace everkernel::ir {
namespace {

using Range = std::pair<char32_t, char32_t>;

constexpr Range kControls[] = {{0x00, 0x1F},     {0x7F, 0x9F},     {0xAD, 0xAD},
                               {0x200B, 0x200F}, {0x2028, 0x202E}, {0x2060, 0x206F},
                               {0xD800, 0xDFFF}, {0xFEFF, 0xFEFF}, {0xE0000, 0x10FFFF}};
constexpr Range kCombining[] = {{0x300, 0x36F}, {0x20D0, 0x20FF}, {0xFE00, 0xFE0F}};
constexpr Range kWide[] = {{0x1100, 0x115F},   {0x2E80, 0xA4CF},  {0xAC00, 0xD7A3},
                           {0xF900, 0xFAFF},   {0xFE30, 0xFE6F},  {0xFF00, 0xFF60},
                           {0x1F300, 0x1FAFF}, {0x20000, 0x3FFFD}};

template <std::size_t kCount>
bool is_in(char32_t point, const Range (&ranges)[kCount]) {
  return std::ranges::any_of(ranges, [point](const Range& range) {
    return point >= range.first && point <= range.second;
  });
}

}  // namespace

Character first_character(std::string_view text) {
  const auto byte = [text](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  const std::size_t size = lead < 0x80   ? 1
                           : lead < 0xC2 ? 0
                           : lead < 0xE0 ? 2
                           : lead < 0xF0 ? 3
                           : lead < 0xF5 ? 4
                                         : 0;
  if (size == 0 || size > text.size()) return {.point = lead};
  constexpr unsigned char kLeadBits[] = {0, 0x7F, 0x1F, 0x0F, 0x07};
  char32_t point = lead & kLeadBits[size];
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {.point = lead};
    point = point << 6 | (byte(i) & 0x3Fu);
  }
  const bool is_overlong = (size == 3 && point < 0x800) || (size == 4 && point < 0x10000);
  if (is_overlong || point > 0x10FFFF) return {.point = lead};
  return {.point = point,
          .size_bytes = size,
          .is_valid = true,
          .is_visible = !is_in(point, kControls),
          .width = is_in(point, kCombining) ? std::size_t{0}
                   : is_in(point, kWide)    ? 2u
                                            : 1u};
}

}  // namespace everkernel::ir
