// exp, log, exp2, log2, sin, cos, tanh and pow of handlers: the one algorithm that the interpreter,
// LLVM code and CUDA text share (decision 0021).
//
// Operands and results are the bits of an f32. In between all arithmetic is that of IEEE f64: sums,
// differences, products and quotients, each rounded to nearest, none of them fused. A result is
// rounded to f32 once, at the end, and the f64 before it is off by less than 2^-43 of itself: f64
// has 29 bits more than f32. There are no branches, no tables and no comparisons of floats, so that
// loops vectorise and no optimiser can err about zeros and NaNs (decisions 0012 and 0013).
//
// `Values` says what numbers are: those of this machine for the interpreter and for CUDA, values of
// the LLVM IR that is being written for native code. It has the types
//   Word, Long  integers of 32 and 64 bits without sign, Real  an f64, Truth  a bool,
// with operators among themselves and with literals on their right, and the functions
//   widened(Word)   the f64 of the bits of an f32      narrowed(Real)  the bits of the nearest f32
//   bits(Real), real(Long)  bits of an f64 and back    low(Long)       the lower word
//   word(unsigned), wide(unsigned long long)  literals  choose(Truth, a, b)  a if true, else b.
#pragma once

#include "everkernel/abi/platform.hpp"

namespace everkernel::ir {

/// The functions, on the numbers that `Values` names.
template <class Values>
class NumberFunctions {
 public:
  using Word = typename Values::Word;    ///< bits of an f32
  using Long = typename Values::Long;    ///< bits of an f64
  using Real = typename Values::Real;    ///< an f64
  using Truth = typename Values::Truth;  ///< a bool

  /// Computes with these values.
  EVERKERNEL_HOST_DEVICE explicit constexpr NumberFunctions(Values values) : v_(values) {}

  /// e to the x.
  EVERKERNEL_HOST_DEVICE Word exp(Word x) const {
    const Exponential e = exponential(v_.widened(limited(x, kExpLimit)));
    return unless_nan(x, v_.narrowed((e.fraction + 1.0) * e.scale));
  }

  /// 2 to the x.
  EVERKERNEL_HOST_DEVICE Word exp2(Word x) const {
    return unless_nan(x, v_.narrowed(power_of_two(v_.widened(limited(x, kExp2Limit)))));
  }

  /// The natural logarithm.
  EVERKERNEL_HOST_DEVICE Word log(Word x) const {
    const Logarithm l = logarithm(v_.widened(x));
    return logarithm_result(x, v_.narrowed(l.exponent * kLn2 + l.of_fraction));
  }

  /// The logarithm to base 2.
  EVERKERNEL_HOST_DEVICE Word log2(Word x) const {
    return logarithm_result(x, v_.narrowed(binary_logarithm(v_.widened(x))));
  }

  /// The sine of x radians; NaN beyond 2^20.
  EVERKERNEL_HOST_DEVICE Word sin(Word x) const { return circular(x, 0, x & kSign); }

  /// The cosine of x radians; NaN beyond 2^20.
  EVERKERNEL_HOST_DEVICE Word cos(Word x) const { return circular(x, 1, v_.word(0)); }

  /// The hyperbolic tangent: t / (t + 2) with t = e^2x - 1.
  EVERKERNEL_HOST_DEVICE Word tanh(Word x) const {
    const Exponential e = exponential(v_.widened(limited(x & kMagnitude, kTanhLimit)) * 2.0);
    const Real t = e.fraction * e.scale + (e.scale - 1.0);
    return unless_nan(x, v_.narrowed(t / (t + 2.0)) | (x & kSign));
  }

  /// x to the y. As in Annex F of C, except that a NaN always gives NaN.
  EVERKERNEL_HOST_DEVICE Word pow(Word x, Word y) const {
    const Word base = x & kMagnitude;
    const Word exponent = y & kMagnitude;
    const Long of_numbers = v_.bits(binary_logarithm(v_.widened(base)));
    const Long of_finite = v_.choose(base == 0, v_.wide(kLongInfinity | kLongSign), of_numbers);
    const Long bits = v_.choose(base == kInfinity, v_.wide(kLongInfinity), of_finite);
    const Real power = power_of_two(limited_power(v_.widened(y) * v_.real(bits)));
    // x^0 and 1^y are 1, also where y log x is 0 times infinity.
    const Word magnitude =
        v_.choose((exponent == 0) | (base == kOne), v_.word(kOne), v_.narrowed(snapped(power)));
    // An f32 from 2^25 on is an even number.
    const Real number = v_.widened(limited(exponent, kEvenLimit));
    const Truth is_whole = is_whole_number(number);
    const Truth is_odd = is_whole & !is_whole_number(number * 0.5);
    const Word result = magnitude | v_.choose(is_odd, x & kSign, v_.word(0));
    const Truth is_negative_number = (x > kSign) & (base < kInfinity);
    const Truth has_none =
        (is_negative_number & !is_whole) | (base > kInfinity) | (exponent > kInfinity);
    return v_.choose(has_none, v_.word(kNan), result);
  }

 private:
  /// e^x as (1 + fraction) * scale; scale is a power of two.
  struct Exponential {
    Real fraction;
    Real scale;
  };
  /// log x as exponent * log 2 + of_fraction.
  struct Logarithm {
    Real exponent;
    Real of_fraction;
  };

  static constexpr unsigned kSign = 0x80000000u;
  static constexpr unsigned kMagnitude = 0x7FFFFFFFu;
  static constexpr unsigned kInfinity = 0x7F800000u;
  static constexpr unsigned kNan = 0x7FC00000u;
  static constexpr unsigned kOne = 0x3F800000u;
  // From these magnitudes on a result is that of the magnitude itself: 0, 1 or infinity.
  static constexpr unsigned kExpLimit = 0x42D20000u;       // 105
  static constexpr unsigned kExp2Limit = 0x43200000u;      // 160
  static constexpr unsigned kTanhLimit = 0x41200000u;      // 10
  static constexpr unsigned kEvenLimit = 0x4C000000u;      // 2^25
  static constexpr unsigned kCircularLimit = 0x49800000u;  // 2^20

  static constexpr unsigned long long kLongSign = 0x8000000000000000u;
  static constexpr unsigned long long kLongInfinity = 0x7FF0000000000000u;
  static constexpr unsigned long long kLongFraction = 0x000FFFFFFFFFFFFFu;
  static constexpr unsigned long long kRootHalf = 0x3FE6A09E667F3BCDu;  // sqrt(1/2)
  static constexpr unsigned long long kUpToOne = 0x3FF0000000000000u - kRootHalf;
  static constexpr unsigned long long kLongTwoTo52 = 0x4330000000000000u;  // 2^52
  static constexpr unsigned long long kPowerLimit = 0x4069000000000000u;   // 200

  static constexpr double kTwoTo52 = 0x1p52;
  // The sum of this and a number below 2^51 is a whole number: its lowest bits are the number's.
  static constexpr double kWhole = 0x1.8p52;
  static constexpr double kExponentBias = 1023.0;
  static constexpr double kLn2 = 0x1.62e42fefa39efp-1;
  static constexpr double kLn2High = 0x1.62e42fefp-1;  // 33 bits: its product with k is exact
  static constexpr double kLn2Low = 0x1.473de6af278edp-34;
  static constexpr double kLog2E = 0x1.71547652b82fep+0;
  static constexpr double kTwoByPi = 0x1.45f306dc9c883p-1;
  // pi/2 in parts of 33 bits: products with k below 2^20 are exact.
  static constexpr double kHalfPiHigh = 0x1.921fb544p+0;
  static constexpr double kHalfPiMiddle = 0x1.0b4611a6p-34;
  static constexpr double kHalfPiLow = 0x1.3198a2e037073p-69;

  // ---- polynomials ----

  // c0 + c2 x + c4 x^2 + ...
  EVERKERNEL_HOST_DEVICE static Real every_second(Real x, double c0, double, double c2) {
    return x * c2 + c0;
  }
  EVERKERNEL_HOST_DEVICE static Real every_second(Real x, double c0, double, double c2, double) {
    return x * c2 + c0;
  }
  template <class... Rest>
  EVERKERNEL_HOST_DEVICE static Real every_second(Real x, double c0, double, Rest... rest) {
    return every_second(x, rest...) * x + c0;
  }
  // c0 + c1 x + c2 x^2 + ... The even and the odd terms do not wait for each other.
  template <class... Rest>
  EVERKERNEL_HOST_DEVICE static Real polynomial(Real x, double c0, Rest... rest) {
    const Real square = x * x;
    return every_second(square, rest...) * x + every_second(square, c0, rest...);
  }

  // ---- parts of f32 ----

  // x, or the limit with its sign if it lies beyond. A NaN becomes the limit too.
  EVERKERNEL_HOST_DEVICE Word limited(Word x, unsigned limit) const {
    return v_.choose((x & kMagnitude) > limit, (x & kSign) | limit, x);
  }
  EVERKERNEL_HOST_DEVICE Word unless_nan(Word x, Word result) const {
    return v_.choose((x & kMagnitude) > kInfinity, v_.word(kNan), result);
  }

  // ---- exponentials ----

  EVERKERNEL_HOST_DEVICE Real limited_power(Real x) const {
    const Long bits = v_.bits(x);
    const Long sign = bits & kLongSign;
    return v_.choose((bits ^ sign) > kPowerLimit, v_.real(sign | kPowerLimit), x);
  }
  // The nearest whole number, for magnitudes below 2^51.
  EVERKERNEL_HOST_DEVICE static Real nearest(Real x) { return x + kWhole - kWhole; }
  // For numbers from 0 to 2^52.
  EVERKERNEL_HOST_DEVICE Truth is_whole_number(Real x) const {
    return v_.bits(x + kTwoTo52 - kTwoTo52) == v_.bits(x);
  }
  // Rounded to 44 bits behind the first. The exact result of, say, 4099^2 lies in the middle
  // between two f32; this puts what was computed of it there too, so that it becomes the even one.
  EVERKERNEL_HOST_DEVICE Real snapped(Real x) const {
    constexpr unsigned long long kRest = 0xFF;
    return v_.real((v_.bits(x) + (kRest + 1) / 2) & ~kRest);
  }
  // 2^k for whole k from -1022 to 1023: k + 1023 becomes the exponent of an f64.
  EVERKERNEL_HOST_DEVICE Real scale_of(Real k) const {
    return v_.real(v_.bits(k + (kWhole + kExponentBias)) << 52);
  }
  // e^r - 1 for |r| <= log(2)/2: r + r^2 q(r). q is off by 2^-54.8 / (|r| + 1/8) at most.
  EVERKERNEL_HOST_DEVICE static Real fraction_of(Real r) {
    const Real q = polynomial(r, 0x1.0000000000002p-1, 0x1.555555555555ap-3, 0x1.5555555553175p-5,
                              0x1.111111110efb8p-7, 0x1.6c16c17bad2a7p-10, 0x1.a01a01b2fe290p-13,
                              0x1.a019afcd05d96p-16, 0x1.71ddf00b65a0bp-19, 0x1.289a6dc91b73bp-22,
                              0x1.af6da5226f50cp-26);
    return r * r * q + r;
  }
  // For |x| up to 150: x = k log 2 + r.
  EVERKERNEL_HOST_DEVICE Exponential exponential(Real x) const {
    const Real k = nearest(x * kLog2E);
    return {fraction_of(x - k * kLn2High - k * kLn2Low), scale_of(k)};
  }
  // 2^x for |x| up to 200: x - k is exact.
  EVERKERNEL_HOST_DEVICE Real power_of_two(Real x) const {
    const Real k = nearest(x);
    return (fraction_of((x - k) * kLn2) + 1.0) * scale_of(k);
  }

  // ---- logarithms ----

  // Of x = 2^exponent m with m from sqrt(1/2) to sqrt(2): log m = 2 atanh(s) with s = (m - 1) /
  // (m + 1), as s (2 + z p(z)) with z = s^2. The series is off by 2^-59. Of other values than
  // positive numbers the result is arbitrary.
  EVERKERNEL_HOST_DEVICE Logarithm logarithm(Real x) const {
    const Long raised = v_.bits(x) + kUpToOne;
    const Real exponent = v_.real((raised >> 52) | kLongTwoTo52) - (kTwoTo52 + kExponentBias);
    const Real f = v_.real((raised & kLongFraction) + kRootHalf) - 1.0;
    const Real s = f / (f + 2.0);
    const Real z = s * s;
    const Real p = polynomial(z, 0x1.5555555555589p-1, 0x1.9999999982316p-2, 0x1.2492494033ff7p-2,
                              0x1.c71c5346545e9p-3, 0x1.74660471b0734p-3, 0x1.39a71f179904ap-3,
                              0x1.2ed307fb67e4fp-3);
    return {exponent, s * (z * p + 2.0)};
  }
  EVERKERNEL_HOST_DEVICE Real binary_logarithm(Real x) const {
    const Logarithm l = logarithm(x);
    return l.of_fraction * kLog2E + l.exponent;
  }
  EVERKERNEL_HOST_DEVICE Word logarithm_result(Word x, Word result) const {
    const Word of_numbers = v_.choose(x == kInfinity, v_.word(kInfinity), result);
    const Word of_positive = v_.choose(x > kInfinity, v_.word(kNan), of_numbers);
    return v_.choose((x & kMagnitude) == 0, v_.word(kInfinity | kSign), of_positive);
  }

  // ---- sine and cosine ----

  // sin(|x| + quarters pi/2), with the sign flipped if `sign` says so. |x| = k pi/2 + r with |r| up
  // to pi/4; sine and cosine of r are polynomials that are off by 2^-57 and 2^-54 of the result.
  EVERKERNEL_HOST_DEVICE Word circular(Word x, unsigned quarters, Word sign) const {
    const Word magnitude = x & kMagnitude;
    const Real value = v_.widened(limited(magnitude, kCircularLimit));
    const Real k = nearest(value * kTwoByPi);
    const Real r = value - k * kHalfPiHigh - k * kHalfPiMiddle - k * kHalfPiLow;
    const Real z = r * r;
    const Real sine =
        polynomial(z, -0x1.555555555554dp-3, 0x1.111111110fd30p-7, -0x1.a01a019c8ec65p-13,
                   0x1.71de35d587587p-19, -0x1.ae5ea76297a7fp-26, 0x1.5da411a99514dp-33) *
            (z * r) +
        r;
    const Real cosine =
        polynomial(z, 0x1.5555555555554p-5, -0x1.6c16c16c16380p-10, 0x1.a01a019e5f78fp-16,
                   -0x1.27e4f93205279p-22, 0x1.1eeaac155c0ddp-29, -0x1.900dd0dceedcfp-37) *
            (z * z) +
        (z * -0.5 + 1.0);
    const Word quadrant = v_.low(v_.bits(k + kWhole)) + quarters;
    const Word result = v_.narrowed(v_.choose((quadrant & 1) == 0, sine, cosine));
    return v_.choose(magnitude > kCircularLimit, v_.word(kNan),
                     result ^ (((quadrant & 2) << 30) ^ sign));
  }

  Values v_;
};

}  // namespace everkernel::ir
