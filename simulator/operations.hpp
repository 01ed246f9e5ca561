// Shared by the files that implement instructions: access to operands, and the type of their
// tables.
//
// Each group of instructions has a file that ends with a table of Forms. A name, a modifier or an
// operand count that no table lists is refused, because the device might do something else.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <span>
#include <string_view>

#include "simulator/warp.hpp"

namespace everkernel::simulator {

using u8 = std::uint8_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using s32 = std::int32_t;
using s64 = std::int64_t;
__extension__ typedef unsigned __int128 u128;
__extension__ typedef __int128 s128;

// ---- forms ----

/// A part of an instruction's name that selects a variant: it sets a field of the Step.
struct Part {
  std::string_view name;
  u8 value;
  u8 Step::*field;
};

/// The implementation of all instructions whose names begin with `name`.
struct Form {
  std::string_view name = {};
  LaneFunction lane_function = nullptr;
  WarpFunction warp_function = nullptr;
  std::string_view modifiers = {};  // that may follow the name, separated by blanks
  std::size_t least = 0, most = 0;  // number of operands
  std::span<const Part> parts = {};
};

std::span<const Form> integer_forms();
std::span<const Form> float_forms();
std::span<const Form> memory_forms();
std::span<const Form> lane_forms();

// ---- operands ----

inline constexpr u32 kNan = 0x7FFFFFFFu;  // the NaN that arithmetic produces

inline bool is_predicate(const Operand& operand) {
  return operand.kind == OperandKind::predicate || operand.kind == OperandKind::uniform_predicate;
}

inline u32 word(Lane lane, const Operand& operand) {
  u32 value = lane.warp.get(operand, lane.number);
  if (operand.kind == OperandKind::immediate) return value;
  if (operand.is_magnitude) value = static_cast<s32>(value) < 0 ? 0 - value : value;
  if (operand.is_inverted) value = ~value;
  return operand.is_negative ? 0 - value : value;
}
inline u64 wide(Lane lane, const Operand& operand) {
  const u64 value = lane.warp.get_wide(operand, lane.number);
  if (operand.is_inverted) return ~value;
  return operand.is_negative ? 0 - value : value;
}
inline bool truth(Lane lane, const Operand& operand) {
  return lane.warp.get_predicate(operand, lane.number);
}
inline void set(Lane lane, const Operand& operand, u32 value) {
  lane.warp.set(operand, lane.number, value);
}
inline void set_wide(Lane lane, const Operand& operand, u64 value) {
  lane.warp.set_wide(operand, lane.number, value);
}
inline void set_truth(Lane lane, const Operand& operand, bool value) {
  lane.warp.set_predicate(operand, lane.number, value);
}

inline u32 flushed(u32 bits) {
  return (bits & 0x7F800000u) == 0 ? bits & 0x80000000u : bits;
}
inline u32 float_bits(Lane lane, const Step& step, const Operand& operand) {
  u32 bits = lane.warp.get(operand, lane.number);
  if (operand.kind != OperandKind::immediate) {
    if (operand.is_magnitude) bits &= 0x7FFFFFFFu;
    if (operand.is_negative) bits ^= 0x80000000u;
  }
  return step.has(kFtz) ? flushed(bits) : bits;
}
inline float number(Lane lane, const Step& step, std::size_t i) {
  return std::bit_cast<float>(float_bits(lane, step, step.operand(i)));
}
inline void set_number(Lane lane, const Step& step, float value) {
  u32 bits = std::isnan(value) ? kNan : std::bit_cast<u32>(value);
  if (step.has(kFtz)) bits = flushed(bits);
  set(lane, step.operand(0), bits);
}

// The index of the first source: optional destination predicates precede it.
inline std::size_t first_source(const Step& step) {
  std::size_t i = 1;
  while (i < step.count() && is_predicate(step.operand(i))) ++i;
  return i;
}

// ---- comparisons ----

enum Compare : u8 {
  kF,
  kLt,
  kEq,
  kLe,
  kGt,
  kNe,
  kGe,
  kNum,
  kIsNan,
  kLtu,
  kEqu,
  kLeu,
  kGtu,
  kNeu,
  kGeu,
  kT
};
enum Join : u8 { kAnd, kOr, kXor };

inline bool joined(u8 join, bool a, bool b) {
  return join == kAnd ? a && b : join == kOr ? a || b : a != b;
}

template <class T>
bool compares(u8 comparison, T a, T b) {
  switch (comparison) {
    case kLt:
      return a < b;
    case kEq:
      return a == b;
    case kLe:
      return a <= b;
    case kGt:
      return a > b;
    case kNe:
      return a != b;
    case kGe:
      return a >= b;
    default:
      return comparison == kT;
  }
}

inline void set_compared(Lane lane, const Step& step, bool result) {
  const bool other = truth(lane, step.operand(4));
  set_truth(lane, step.operand(0), joined(step.other_kind, result, other));
  set_truth(lane, step.operand(1), joined(step.other_kind, !result, other));
}

inline constexpr Part kComparisonParts[] = {{"AND", kAnd, &Step::other_kind},
                                            {"OR", kOr, &Step::other_kind},
                                            {"XOR", kXor, &Step::other_kind},
                                            {"F", kF, &Step::kind},
                                            {"LT", kLt, &Step::kind},
                                            {"EQ", kEq, &Step::kind},
                                            {"LE", kLe, &Step::kind},
                                            {"GT", kGt, &Step::kind},
                                            {"NE", kNe, &Step::kind},
                                            {"GE", kGe, &Step::kind},
                                            {"NUM", kNum, &Step::kind},
                                            {"NAN", kIsNan, &Step::kind},
                                            {"LTU", kLtu, &Step::kind},
                                            {"EQU", kEqu, &Step::kind},
                                            {"LEU", kLeu, &Step::kind},
                                            {"GTU", kGtu, &Step::kind},
                                            {"NEU", kNeu, &Step::kind},
                                            {"GEU", kGeu, &Step::kind},
                                            {"T", kT, &Step::kind}};

// ---- updates ----

enum AtomicKind : u8 {
  kAtomicAdd,
  kAtomicMin,
  kAtomicMax,
  kAtomicAnd,
  kAtomicOr,
  kAtomicXor,
  kAtomicExchange,
  kAtomicIncrement,
  kAtomicDecrement
};

template <class T>
T updated(const Step& step, T before, T value) {
  using Signed = std::make_signed_t<T>;
  const bool is_less = step.has(kS32) || step.has(kS64)
                           ? static_cast<Signed>(before) < static_cast<Signed>(value)
                           : before < value;
  switch (step.kind) {
    case kAtomicAdd:
      return before + value;
    case kAtomicMin:
      return is_less ? before : value;
    case kAtomicMax:
      return is_less ? value : before;
    case kAtomicAnd:
      return before & value;
    case kAtomicOr:
      return before | value;
    case kAtomicXor:
      return before ^ value;
    case kAtomicIncrement:
      return before >= value ? 0 : before + 1;
    case kAtomicDecrement:
      return before == 0 || before > value ? value : before - 1;
    default:
      return value;
  }
}

}  // namespace everkernel::simulator
