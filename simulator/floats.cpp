// Operations on floats.
#include <algorithm>
#include <cfenv>

#include "simulator/operations.hpp"

namespace everkernel::simulator {
namespace {

void select_float(Lane lane, const Step& step) {
  const bool is_first = truth(lane, step.operand(3));
  set(lane, step.operand(0), float_bits(lane, step, step.operand(is_first ? 1 : 2)));
}

// Calls `function` in the instruction's rounding mode.
template <class Function>
auto rounded(const Step& step, const Function& function) {
  if (step.kind == 0) return function();
  std::fesetround(step.kind == 1 ? FE_DOWNWARD : step.kind == 2 ? FE_UPWARD : FE_TOWARDZERO);
  const volatile auto result = function();
  std::fesetround(FE_TONEAREST);
  return +result;
}

void float_add(Lane lane, const Step& step) {
  const volatile float a = number(lane, step, 1), b = number(lane, step, 2);
  set_number(lane, step, rounded(step, [&] { return a + b; }));
}
void float_multiply(Lane lane, const Step& step) {
  const volatile float a = number(lane, step, 1), b = number(lane, step, 2);
  set_number(lane, step, rounded(step, [&] { return a * b; }));
}
void float_multiply_add(Lane lane, const Step& step) {
  const float a = number(lane, step, 1), b = number(lane, step, 2), c = number(lane, step, 3);
  set_number(lane, step, rounded(step, [&] { return std::fmaf(a, b, c); }));
}

template <class T>
bool is_true(const Step& step, T a, T b) {
  const bool is_unordered = std::isnan(a) || std::isnan(b);
  bool result = false;
  if (step.kind == kNum) {
    result = !is_unordered;
  } else if (step.kind == kIsNan) {
    result = is_unordered;
  } else if (step.kind > kIsNan && step.kind < kT) {
    result = is_unordered || compares<T>(static_cast<u8>(step.kind - kLtu + kLt), a, b);
  } else {
    result = !is_unordered && compares<T>(step.kind, a, b);
  }
  return result;
}
void float_compare(Lane lane, const Step& step) {
  set_compared(lane, step, is_true(step, number(lane, step, 2), number(lane, step, 3)));
}
void float_truth(Lane lane, const Step& step) {
  const bool result = is_true(step, number(lane, step, 1), number(lane, step, 2));
  const bool is_one = joined(step.other_kind, result, truth(lane, step.operand(3)));
  set_number(lane, step, is_one ? 1.0f : 0.0f);
}

// The result is NaN only if both operands are; -0 is below +0.
void float_extreme(Lane lane, const Step& step) {
  const float a = number(lane, step, 1), b = number(lane, step, 2);
  const bool wants_least = truth(lane, step.operand(3));
  if (std::isnan(a) || std::isnan(b)) return set_number(lane, step, std::isnan(a) ? b : a);
  const bool is_below = a == b ? std::signbit(a) : a < b;
  set_number(lane, step, is_below == wants_least ? a : b);
}

u32 exponent_of(float value) {
  return std::bit_cast<u32>(value) >> 23 & 0xFF;
}
// Whether a division needs the slow path. The device's exact condition is not known; this one takes
// the slow path more often, with the same result.
void check_division(Lane lane, const Step& step) {
  const auto a = static_cast<s32>(exponent_of(number(lane, step, 1)));
  const auto b = static_cast<s32>(exponent_of(number(lane, step, 2)));
  const bool is_easy = a > 30 && a < 250 && b > 5 && b < 250 && a - b > -120 && a - b < 120;
  set_truth(lane, step.operand(0), !is_easy);
}

// Correctly rounded. The device's approximations are off by at most one unit in the last place,
// from tables that are not published; code for division works with those and with the exact value,
// but not with any value that is off by one.
void reciprocal(Lane lane, const Step& step) {
  const u32 from = flushed(float_bits(lane, step, step.operand(1)));
  const float result = 1.0f / std::bit_cast<float>(from);
  set(lane, step.operand(0), std::isnan(result) ? kNan : flushed(std::bit_cast<u32>(result)));
}
void reciprocal_root(Lane lane, const Step& step) {
  const u32 from = flushed(float_bits(lane, step, step.operand(1)));
  const auto root = std::sqrt(static_cast<double>(std::bit_cast<float>(from)));
  const auto result = static_cast<float>(1.0 / root);
  set(lane, step.operand(0), std::isnan(result) ? kNan : std::bit_cast<u32>(result));
}

// ---- f64 ----

double as_double(Lane lane, const Step& step, std::size_t i) {
  const Operand& operand = step.operand(i);
  if (operand.kind == OperandKind::immediate) {
    return std::bit_cast<double>(u64{operand.value} << 32);
  }
  constexpr u64 kSign = u64{1} << 63;
  u64 bits = lane.warp.get_wide(operand, lane.number);
  if (operand.is_magnitude) bits &= ~kSign;
  if (operand.is_negative) bits ^= kSign;
  return std::bit_cast<double>(bits);
}
// Which NaN arithmetic makes is not known.
void set_double(Lane lane, const Step& step, double value) {
  const u64 bits = std::bit_cast<u64>(value);
  constexpr u64 kSomeNan = u64{0x7FF8'0000} << 32 | kUnknown;
  set_wide(lane, step.operand(0), std::isnan(value) ? kSomeNan : bits);
}

void double_add(Lane lane, const Step& step) {
  const volatile double a = as_double(lane, step, 1), b = as_double(lane, step, 2);
  set_double(lane, step, rounded(step, [&] { return a + b; }));
}
void double_multiply(Lane lane, const Step& step) {
  const volatile double a = as_double(lane, step, 1), b = as_double(lane, step, 2);
  set_double(lane, step, rounded(step, [&] { return a * b; }));
}
void double_multiply_add(Lane lane, const Step& step) {
  const double a = as_double(lane, step, 1), b = as_double(lane, step, 2);
  const double c = as_double(lane, step, 3);
  set_double(lane, step, rounded(step, [&] { return std::fma(a, b, c); }));
}
void double_compare(Lane lane, const Step& step) {
  set_compared(lane, step, is_true(step, as_double(lane, step, 2), as_double(lane, step, 3)));
}
void widen_float(Lane lane, const Step& step) {
  set_double(lane, step, static_cast<double>(number(lane, step, 1)));
}
void narrow_double(Lane lane, const Step& step) {
  const volatile double value = as_double(lane, step, 1);
  set_number(lane, step, rounded(step, [&] { return static_cast<float>(value); }));
}

// The upper word of the reciprocal of a number by its upper word. Rounded correctly, as
// reciprocal().
void wide_reciprocal(Lane lane, const Step& step) {
  constexpr u32 kExponent = 0x7FF0'0000u, kSign = 0x8000'0000u;
  const auto flushed_word = [](u32 high) { return (high & kExponent) == 0 ? high & kSign : high; };
  const u32 from = flushed_word(float_bits(lane, step, step.operand(1)));
  const double result = 1.0 / std::bit_cast<double>(u64{from} << 32);
  if (std::isnan(result)) return set(lane, step.operand(0), 0x7FF8'0000u);
  const u64 to_nearest = std::bit_cast<u64>(result) + (u64{1} << 31);
  set(lane, step.operand(0), flushed_word(static_cast<u32>(to_nearest >> 32)));
}

// ---- conversions ----

void to_float(Lane lane, const Step& step) {
  if (step.has(kU64)) {
    const volatile u64 value = wide(lane, step.operand(1));
    return set_number(lane, step, rounded(step, [&] { return static_cast<float>(value); }));
  }
  const u32 bits = step.has(kU8) ? 0xFFu : step.has(kU16) ? 0xFFFFu : ~0u;
  const u32 value = word(lane, step.operand(1)) & bits;
  const bool is_signed = !step.has(kU32) && bits == ~0u;
  const volatile s64 integer = is_signed ? s64{static_cast<s32>(value)} : s64{value};
  set_number(lane, step, rounded(step, [&] { return static_cast<float>(integer); }));
}
float whole(const Step& step, float value) {
  switch (step.kind) {
    case 1:
      return std::floor(value);
    case 2:
      return std::ceil(value);
    case 3:
      return std::trunc(value);
    default:
      return std::nearbyint(value);
  }
}
// Saturates. With NTZ, NaN gives 0; a 64-bit conversion without it gives the top bit.
void to_integer(Lane lane, const Step& step) {
  const float value = number(lane, step, 1);
  if (step.has(kU64) == step.has(kNtz))
    return lane.warp.fail_with("the result for NaN is not known");
  if (step.has(kU64)) {
    constexpr float kEnd = 18446744073709551616.0f;
    const float result = whole(step, value);
    return set_wide(lane, step.operand(0),
                    std::isnan(result) ? u64{1} << 63
                    : result >= kEnd   ? ~u64{0}
                    : result <= 0.0f   ? 0
                                       : static_cast<u64>(result));
  }
  if (std::isnan(value)) return set(lane, step.operand(0), 0);
  const double rounded_value = static_cast<double>(whole(step, value));
  const double low = step.has(kU32) ? 0.0 : -2147483648.0;
  const double high = step.has(kU32) ? 4294967295.0 : 2147483647.0;
  const double clamped = std::clamp(rounded_value, low, high);
  set(lane, step.operand(0), static_cast<u32>(static_cast<s64>(clamped)));
}
void round_float(Lane lane, const Step& step) {
  set_number(lane, step, whole(step, number(lane, step, 1)));
}

// Rounding modes: of results, and to whole numbers.
constexpr Part kRoundings[] = {
    {"RM", 1, &Step::kind}, {"RP", 2, &Step::kind}, {"RZ", 3, &Step::kind}};
constexpr Part kWholes[] = {
    {"FLOOR", 1, &Step::kind}, {"CEIL", 2, &Step::kind}, {"TRUNC", 3, &Step::kind}};

constexpr Form kForms[] = {
    {"FSEL", select_float, nullptr, "FTZ", 4, 4},
    {"FADD", float_add, nullptr, "FTZ", 3, 3, kRoundings},
    {"FMUL", float_multiply, nullptr, "FTZ", 3, 3, kRoundings},
    {"FFMA", float_multiply_add, nullptr, "FTZ", 4, 4, kRoundings},
    {"FSETP", float_compare, nullptr, "FTZ", 5, 5, kComparisonParts},
    {"FSET.BF", float_truth, nullptr, "FTZ", 4, 4, kComparisonParts},
    {"FMNMX", float_extreme, nullptr, "FTZ", 4, 4},
    {"FCHK", check_division, nullptr, "", 3, 3},
    {"MUFU.RCP", reciprocal, nullptr, "", 2, 2},
    {"MUFU.RSQ", reciprocal_root, nullptr, "", 2, 2},
    {"MUFU.RCP64H", wide_reciprocal, nullptr, "", 2, 2},
    {"DADD", double_add, nullptr, "", 3, 3, kRoundings},
    {"DMUL", double_multiply, nullptr, "", 3, 3, kRoundings},
    {"DFMA", double_multiply_add, nullptr, "", 4, 4, kRoundings},
    {"DSETP", double_compare, nullptr, "", 5, 5, kComparisonParts},
    {"F2F.F64.F32", widen_float, nullptr, "", 2, 2},
    {"F2F.F32.F64", narrow_double, nullptr, "", 2, 2, kRoundings},
    {"I2F", to_float, nullptr, "U8 U16 U32 U64", 2, 2, kRoundings},
    {"I2FP", to_float, nullptr, "F32 U32 S32", 2, 2, kRoundings},
    {"F2I", to_integer, nullptr, "U32 U64 FTZ NTZ", 2, 2, kWholes},
    {"FRND", round_float, nullptr, "FTZ", 2, 2, kWholes},
};

}  // namespace

std::span<const Form> float_forms() {
  return kForms;
}

}  // namespace everkernel::simulator
