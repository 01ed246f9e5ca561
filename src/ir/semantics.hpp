// The results of operators and functions on 32-bit values: one simple function each. The
// interpreter calls them; the tests compare their tables with these functions and with native code.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "everkernel/abi/platform.hpp"
#include "everkernel/ir/vocabulary.hpp"

namespace everkernel::ir::semantics {

using abi::Word;

/// The result of bits_u32 and bits_i32 for every NaN.
inline constexpr Word kCanonicalNan = 0x7FC00000u;

inline float as_float(Word bits) {
  return std::bit_cast<float>(bits);
}
inline Word as_bits(float value) {
  return std::bit_cast<Word>(value);
}
inline std::int32_t as_signed(Word bits) {
  return static_cast<std::int32_t>(bits);
}

inline Word divide_u32(Word a, Word b) {
  return b == 0 ? a : a / b;
}
inline Word remainder_u32(Word a, Word b) {
  return b == 0 ? 0 : a % b;
}

inline Word divide_i32(Word a, Word b) {
  if (b == 0) return a;
  if (b == 0xFFFFFFFFu) return 0u - a;  // the minimum stays the minimum
  return static_cast<Word>(as_signed(a) / as_signed(b));
}
inline Word remainder_i32(Word a, Word b) {
  if (b == 0 || b == 0xFFFFFFFFu) return 0;
  return static_cast<Word>(as_signed(a) % as_signed(b));
}

inline Word shift_left(Word a, Word count) {
  return a << (count & 31);
}
inline Word shift_right_u32(Word a, Word count) {
  return a >> (count & 31);
}
inline Word shift_right_i32(Word a, Word count) {
  return static_cast<Word>(as_signed(a) >> (count & 31));
}

/// The lesser; the other operand if one is NaN; −0 is below +0.
inline Word min_f32(Word a, Word b) {
  const float x = as_float(a), y = as_float(b);
  if (std::isnan(x)) return b;
  if (std::isnan(y)) return a;
  if (x == y) return std::signbit(x) ? a : b;
  return x < y ? a : b;
}
/// The greater; the other operand if one is NaN; −0 is below +0.
inline Word max_f32(Word a, Word b) {
  const float x = as_float(a), y = as_float(b);
  if (std::isnan(x)) return b;
  if (std::isnan(y)) return a;
  if (x == y) return std::signbit(x) ? b : a;
  return x > y ? a : b;
}

/// Truncates and saturates; NaN gives 0.
inline Word f32_to_u32(Word bits) {
  const float value = as_float(bits);
  if (!(value > 0.0f)) return 0;
  if (value >= 4294967296.0f) return 0xFFFFFFFFu;
  return static_cast<Word>(value);
}
/// Truncates and saturates; NaN gives 0.
inline Word f32_to_i32(Word bits) {
  const float value = as_float(bits);
  if (std::isnan(value)) return 0;
  if (value >= 2147483648.0f) return 0x7FFFFFFFu;
  if (value < -2147483648.0f) return 0x80000000u;
  return static_cast<Word>(static_cast<std::int32_t>(value));
}

inline Word canonical_bits(Word bits) {
  return std::isnan(as_float(bits)) ? kCanonicalNan : bits;
}

/// The value of a unary operator on an operand of `type`.
Word unary(UnaryOp op, Type type, Word a);
/// The value of a binary operator on operands of `type` (of the left one for shifts). Not for &&
/// and
/// ||, which do not always evaluate both sides.
Word binary(BinaryOp op, Type type, Word a, Word b);
/// The value of a function whose first operand is of `type` (select: whose second is).
Word call(Function function, Type type, Word a, Word b, Word c);
/// The new word of an atomic; for cas, `value` is the expected word.
Word atomic(AtomicOp op, Word before, Word value, Word desired);

}  // namespace everkernel::ir::semantics
