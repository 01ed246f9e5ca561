// The functions of numbers (ir/number_functions.hpp) on a GPU. Calls of them need not be inlined:
// each is 40 to 150 instructions long, and a handler may have thousands.
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

EK_DEVICE float exp_f32(float x) {
  return as_float(Numbers({}).exp(raw_bits(x)));
}
EK_DEVICE float log_f32(float x) {
  return as_float(Numbers({}).log(raw_bits(x)));
}
EK_DEVICE float exp2_f32(float x) {
  return as_float(Numbers({}).exp2(raw_bits(x)));
}
EK_DEVICE float log2_f32(float x) {
  return as_float(Numbers({}).log2(raw_bits(x)));
}
EK_DEVICE float sin_f32(float x) {
  return as_float(Numbers({}).sin(raw_bits(x)));
}
EK_DEVICE float cos_f32(float x) {
  return as_float(Numbers({}).cos(raw_bits(x)));
}
EK_DEVICE float tanh_f32(float x) {
  return as_float(Numbers({}).tanh(raw_bits(x)));
}
EK_DEVICE float pow_f32(float x, float y) {
  return as_float(Numbers({}).pow(raw_bits(x), raw_bits(y)));
}

}  // namespace everkernel::device
