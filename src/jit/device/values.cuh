// The operators and functions of handlers on values, with the results that ir/semantics.hpp states.
// Integers of both kinds are words. No operation is contracted, flushed to zero or undefined.
//
// Without __CUDACC__ the same functions compile as C++ of the host: tests run them there.
#pragma once

#include "jit/device/types.hpp"

namespace everkernel::device {

EK_DEVICE float as_float(Word bits) {
  return __uint_as_float(bits);
}
EK_DEVICE Word raw_bits(float value) {
  return __float_as_uint(value);
}
/// The bits of a float; every NaN has the same bits.
EK_DEVICE Word as_bits(float value) {
  return value != value ? 0x7FC00000u : raw_bits(value);
}
EK_DEVICE int as_signed(Word bits) {
  return static_cast<int>(bits);
}

/// The same value, hidden from NVVM. Loop counters and variables that change in loops pass through
/// it: NVRTC 13.0 has compiled an index `i & 3` with a counter i to `i + 4`. The asm is a move:
/// NVRTC has dropped an empty asm with the value as both operands.
EK_DEVICE Word opaque(Word value) {
#if defined(__CUDACC__)
  Word same;
  asm("mov.b32 %0, %1;" : "=r"(same) : "r"(value));
  return same;
#else
  return value;
#endif
}
EK_DEVICE Wide opaque(Wide value) {
#if defined(__CUDACC__)
  Wide same;
  asm("mov.b64 %0, %1;" : "=l"(same) : "l"(value));
  return same;
#else
  return value;
#endif
}

/// The same value, hidden from NVVM and from ptxas. Bits that become a float pass through it: where
/// a loop limits the range of the bits, ptxas 13.0 has applied that range to the float.
#if defined(__CUDACC__)
__constant__ Word hidden_zero;  // never written, but the compiler cannot know that
#endif
EK_DEVICE Word hidden(Word value) {
#if defined(__CUDACC__)
  return value ^ hidden_zero;
#else
  return value;
#endif
}

/// `a` if `is_first`, else `b`. The choice is hidden from NVVM, which else makes min, max and abs
/// instructions of a comparison with a choice and loses the sign of a zero. Floats are chosen as
/// words: ptxas 13.0 has turned a chosen -0 into +0.
EK_DEVICE Word choose(bool is_first, Word a, Word b) {
#if defined(__CUDACC__)
  Word chosen;
  asm("{ .reg .pred is_first;\nsetp.ne.u32 is_first, %3, 0;\nselp.b32 %0, %1, %2, is_first;\n}"
      : "=r"(chosen)
      : "r"(a), "r"(b), "r"(is_first ? 1u : 0u));
  return chosen;
#else
  return is_first ? a : b;
#endif
}
EK_DEVICE float choose(bool is_first, float a, float b) {
  return as_float(choose(is_first, raw_bits(a), raw_bits(b)));
}
EK_DEVICE bool choose(bool is_first, bool a, bool b) {
  return is_first ? a : b;
}

// ptxas 13.0 miscompiles three instructions that NVVM makes of signed arithmetic. It takes the
// result of `abs.s32` to be positive: `min(abs(x), 0)` of the least integer has been 0. And it
// loses a negation before two `min.s32` or `max.s32`. backend/cuda/module.cpp looks for the three
// in the PTX and compiles such code once more with EVERKERNEL_OPAQUE_ARITHMETIC, which hides
// negations and comparisons from NVVM. subtract() adds a zero that NVVM does not know: most
// handlers then have none of the three and are compiled once.
#if defined(EVERKERNEL_OPAQUE_ARITHMETIC)
EK_DEVICE Word add(Word a, Word b) {
  return opaque(opaque(a) + b);
}
EK_DEVICE Word subtract(Word a, Word b) {
  return opaque(opaque(a) - b);
}
EK_DEVICE Word multiply(Word a, Word b) {
  return opaque(opaque(a) * b);
}
#else
EK_DEVICE Word add(Word a, Word b) {
  return a + b;
}
EK_DEVICE Word subtract(Word a, Word b) {
  return a + (opaque(0u) - b);
}
EK_DEVICE Word multiply(Word a, Word b) {
  return a * b;
}
#endif
EK_DEVICE Word divide_u32(Word a, Word b) {
  return b == 0 ? a : a / b;
}
EK_DEVICE Word remainder_u32(Word a, Word b) {
  return b == 0 ? 0 : a % b;
}
EK_DEVICE Word divide_i32(Word a, Word b) {
  if (b == 0) return a;
  if (b == 0xFFFFFFFFu) return subtract(0, a);  // the least integer stays as it is
  return static_cast<Word>(as_signed(a) / as_signed(b));
}
EK_DEVICE Word remainder_i32(Word a, Word b) {
  if (b == 0 || b == 0xFFFFFFFFu) return 0;
  return static_cast<Word>(as_signed(a) % as_signed(b));
}
EK_DEVICE Word shift_left(Word a, Word count) {
  return a << (count & 31);
}
EK_DEVICE Word shift_right_u32(Word a, Word count) {
  return a >> (count & 31);
}
EK_DEVICE Word shift_right_i32(Word a, Word count) {
  return static_cast<Word>(as_signed(a) >> (count & 31));
}
EK_DEVICE Word rotate_left(Word a, Word count) {
  return (a << (count & 31)) | (a >> ((32 - (count & 31)) & 31));
}
EK_DEVICE bool less_i32(Word a, Word b) {
#if defined(EVERKERNEL_OPAQUE_ARITHMETIC)
  return opaque(as_signed(a) < as_signed(b) ? 1u : 0u) != 0;
#else
  return as_signed(a) < as_signed(b);
#endif
}
// Min and max choose one of two words by a mask. ptxas 13.0 merges a min or max instruction, or a
// comparison with a choice, with an addition before it, and has compiled `min(1 - x, y)` to
// `min(x - 1, y)`.
#if defined(__CUDACC__)
#define EK_CHOOSE(name, comparison)                          \
  EK_DEVICE Word name(Word a, Word b) {                      \
    Word chosen;                                             \
    asm("{ .reg .b32 mask, both;\nset." comparison           \
        " mask, %1, %2;\n"                                   \
        "xor.b32 both, %1, %2;\nand.b32 both, both, mask;\n" \
        "xor.b32 %0, both, %2;\n}"                           \
        : "=r"(chosen)                                       \
        : "r"(a), "r"(b));                                   \
    return chosen;                                           \
  }
EK_CHOOSE(min_u32, "lt.u32.u32")
EK_CHOOSE(max_u32, "ge.u32.u32")
EK_CHOOSE(min_i32, "lt.u32.s32")
EK_CHOOSE(max_i32, "ge.u32.s32")
#undef EK_CHOOSE
#else
EK_DEVICE Word min_u32(Word a, Word b) {
  return a < b ? a : b;
}
EK_DEVICE Word max_u32(Word a, Word b) {
  return a < b ? b : a;
}
EK_DEVICE Word min_i32(Word a, Word b) {
  return less_i32(a, b) ? a : b;
}
EK_DEVICE Word max_i32(Word a, Word b) {
  return less_i32(a, b) ? b : a;
}
#endif
EK_DEVICE Word abs_i32(Word a) {
  return choose(as_signed(a) < 0, subtract(0, a), a);
}
EK_DEVICE Word leading_zeros(Word a) {
  return static_cast<Word>(__clz(as_signed(a)));
}
EK_DEVICE Word one_bits(Word a) {
  return static_cast<Word>(__popc(a));
}

EK_DEVICE float add_f32(float a, float b) {
  return __fadd_rn(a, b);
}
EK_DEVICE float subtract_f32(float a, float b) {
  return __fsub_rn(a, b);
}
EK_DEVICE float multiply_f32(float a, float b) {
  return __fmul_rn(a, b);
}
EK_DEVICE float divide_f32(float a, float b) {
  return __fdiv_rn(a, b);
}
EK_DEVICE float fma_f32(float a, float b, float c) {
  return __fmaf_rn(a, b, c);
}
EK_DEVICE float sqrt_f32(float a) {
  return __fsqrt_rn(a);
}
EK_DEVICE float floor_f32(float a) {
  return floorf(a);
}
EK_DEVICE float negate_f32(float a) {
  return as_float(raw_bits(a) ^ 0x80000000u);
}
EK_DEVICE float abs_f32(float a) {
  return as_float(raw_bits(a) & 0x7FFFFFFFu);
}
/// The lesser operand. If one is NaN, the other; -0 is less than +0.
EK_DEVICE float min_f32(float a, float b) {
  const bool is_first = a < b || b != b || (a == b && as_signed(raw_bits(a)) < 0);
  return choose(is_first && a == a, a, b);
}
/// The greater operand. If one is NaN, the other; -0 is less than +0.
EK_DEVICE float max_f32(float a, float b) {
  const bool is_first = a > b || b != b || (a == b && as_signed(raw_bits(a)) >= 0);
  return choose(is_first && a == a, a, b);
}

/// Truncates and saturates; NaN gives 0.
EK_DEVICE Word f32_to_u32(float value) {
  if (!(value > 0.0f)) return 0;
  return value < 4294967296.0f ? __float2uint_rz(value) : 0xFFFFFFFFu;
}
/// Truncates and saturates; NaN gives 0.
EK_DEVICE Word f32_to_i32(float value) {
  if (value != value) return 0;
  if (value >= 2147483648.0f) return 0x7FFFFFFFu;
  return value < -2147483648.0f ? 0x80000000u : static_cast<Word>(__float2int_rz(value));
}
EK_DEVICE float u32_to_f32(Word value) {
  return __uint2float_rn(value);
}
EK_DEVICE float i32_to_f32(Word value) {
  return __int2float_rn(as_signed(value));
}

/// The number of turns of a loop from `first` to below `last`.
EK_DEVICE Word turns_u32(Word first, Word last) {
  return first < last ? last - first : 0;
}
EK_DEVICE Word turns_i32(Word first, Word last) {
  return less_i32(first, last) ? last - first : 0;
}

/// The fault code of the statement `fault n`.
EK_DEVICE Word user_fault(Word n) {
  return abi::kFirstUserFault + min_u32(n, abi::kMaxUserFault);
}

}  // namespace everkernel::device
