// The functions of numbers (ir/number_functions.hpp) on a GPU.
#pragma once

#include "ir/number_functions.hpp"
#include "jit/device/types.hpp"
#include "jit/device/values.cuh"

namespace everkernel::device {

/// An f64 whose operations are rounded one by one, whatever the options of the compiler.
struct Double {
  double value;  ///< the number
};
EK_DEVICE Double operator+(Double a, Double b) {
  return {__dadd_rn(a.value, b.value)};
}
EK_DEVICE Double operator-(Double a, Double b) {
  return {__dsub_rn(a.value, b.value)};
}
EK_DEVICE Double operator*(Double a, Double b) {
  return {__dmul_rn(a.value, b.value)};
}
EK_DEVICE Double operator/(Double a, Double b) {
  return {__ddiv_rn(a.value, b.value)};
}
EK_DEVICE Double operator+(Double a, double b) {
  return a + Double{b};
}
EK_DEVICE Double operator-(Double a, double b) {
  return a - Double{b};
}
EK_DEVICE Double operator*(Double a, double b) {
  return a * Double{b};
}

/// The numbers of ir/number_functions.hpp.
struct DeviceValues {
  using Word = device::Word;
  using Long = Wide;
  using Real = Double;
  using Truth = bool;

  EK_DEVICE static Double widened(Word bits) {
    return {static_cast<double>(as_float(hidden(bits)))};
  }
  EK_DEVICE static Word narrowed(Double number) {
    return raw_bits(__double2float_rn(number.value));
  }
  EK_DEVICE static Wide bits(Double number) {
    return static_cast<Wide>(__double_as_longlong(number.value));
  }
  EK_DEVICE static Double real(Wide bits) {
    return {__longlong_as_double(static_cast<long long>(bits))};
  }
  EK_DEVICE static Word low(Wide bits) { return static_cast<Word>(bits); }
  EK_DEVICE static Word word(Word literal) { return literal; }
  EK_DEVICE static Wide wide(Wide literal) { return literal; }
  EK_DEVICE static Word choose(bool is_first, Word a, Word b) {
    return device::choose(is_first, a, b);
  }
  EK_DEVICE static Wide choose(bool is_first, Wide a, Wide b) {
    const Word low_word = choose(is_first, static_cast<Word>(a), static_cast<Word>(b));
    const Word high = choose(is_first, static_cast<Word>(a >> 32), static_cast<Word>(b >> 32));
    return static_cast<Wide>(high) << 32 | low_word;
  }
  EK_DEVICE static Double choose(bool is_first, Double a, Double b) {
    return real(choose(is_first, bits(a), bits(b)));
  }
};

/// The functions of numbers.
using Numbers = ir::NumberFunctions<DeviceValues>;

// Each function twice: the first kind becomes part of its caller, the second does not. Handlers
// with many calls use the second kind: inlined calls take up to 50 ms each to compile.
#define EK_NUMBER_FUNCTION(name)                               \
  EK_DEVICE float name##_f32(float x) {                        \
    return as_float(Numbers({}).name(raw_bits(x)));            \
  }                                                            \
  __device__ __noinline__ float called_##name##_f32(float x) { \
    return name##_f32(x);                                      \
  }
EK_NUMBER_FUNCTION(exp)
EK_NUMBER_FUNCTION(log)
EK_NUMBER_FUNCTION(exp2)
EK_NUMBER_FUNCTION(log2)
EK_NUMBER_FUNCTION(sin)
EK_NUMBER_FUNCTION(cos)
EK_NUMBER_FUNCTION(tanh)
#undef EK_NUMBER_FUNCTION
EK_DEVICE float pow_f32(float x, float y) {
  return as_float(Numbers({}).pow(raw_bits(x), raw_bits(y)));
}
__device__ __noinline__ float called_pow_f32(float x, float y) {
  return pow_f32(x, y);
}

}  // namespace everkernel::device
