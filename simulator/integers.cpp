// Operations on words and predicates.
#include <fmt/format.h>
#include <algorithm>

#include "simulator/operations.hpp"

namespace everkernel::simulator {
namespace {

void add3(Lane lane, const Step& step) {
  const std::size_t first = first_source(step);
  u64 sum = 0;
  for (std::size_t i = first; i < first + 3; ++i) {
    const Operand& operand = step.operand(i);
    // Subtraction adds the complement and 1, so that the carry means "no borrow".
    if (operand.is_negative && operand.kind != OperandKind::immediate) {
      sum += u64{~lane.warp.get(operand, lane.number)} + 1;
    } else {
      sum += word(lane, operand);
    }
  }
  for (std::size_t i = first + 3; i < step.count(); ++i)
    sum += truth(lane, step.operand(i)) ? 1u : 0u;
  // With two carries, the first means that the sum overflowed once or more, the second twice.
  if (first > 1) set_truth(lane, step.operand(1), sum >> 32 >= 1);
  if (first > 2) set_truth(lane, step.operand(2), sum >> 32 >= 2);
  set(lane, step.operand(0), static_cast<u32>(sum));
}

void add2(Lane lane, const Step& step) {
  set(lane, step.operand(0), word(lane, step.operand(1)) + word(lane, step.operand(2)));
}

void multiply_add(Lane lane, const Step& step) {
  const u32 product = word(lane, step.operand(1)) * word(lane, step.operand(2));
  const u32 carry = step.count() > 4 && truth(lane, step.operand(4)) ? 1 : 0;
  set(lane, step.operand(0), product + word(lane, step.operand(3)) + carry);
}

u64 product_of(Lane lane, const Step& step, std::size_t first) {
  const u32 a = word(lane, step.operand(first));
  const u32 b = word(lane, step.operand(first + 1));
  if (step.has(kU32)) return u64{a} * b;
  return static_cast<u64>(s64{static_cast<s32>(a)} * static_cast<s32>(b));
}

void multiply_wide(Lane lane, const Step& step) {
  const std::size_t first = first_source(step);
  const u128 carry = step.count() > first + 3 && truth(lane, step.operand(first + 3)) ? 1 : 0;
  const u128 sum =
      u128{product_of(lane, step, first)} + wide(lane, step.operand(first + 2)) + carry;
  if (first == 2 && step.operand(first + 2).is_negative)
    return lane.warp.fail_with("the carry of this form is not known");
  if (first == 2) set_truth(lane, step.operand(1), sum >> 64 != 0);
  set_wide(lane, step.operand(0), static_cast<u64>(sum));
}

void multiply_high(Lane lane, const Step& step) {
  const std::size_t first = first_source(step);
  const u128 sum = u128{product_of(lane, step, first)} + wide(lane, step.operand(first + 2));
  if (first == 2) set_truth(lane, step.operand(1), sum >> 64 != 0);
  set(lane, step.operand(0), static_cast<u32>(sum >> 32));
}

void shift_add(Lane lane, const Step& step) {
  const std::size_t first = first_source(step);
  const bool is_high = step.has(kHi);
  const bool extends = step.has(kSx32);
  const bool is_negative = step.operand(first).is_negative;
  const bool is_inverted = step.operand(first).is_inverted;
  if (is_negative && is_high) return lane.warp.fail_with("this form is not known");
  const u32 low = lane.warp.get(step.operand(first), lane.number);
  const Operand& base = step.operand(first + 1);
  const bool has_upper = is_high && !extends;
  const u32 upper = extends     ? static_cast<u32>(static_cast<s32>(low) >> 31)
                    : has_upper ? word(lane, step.operand(first + 2))
                                : 0;
  const std::size_t at = first + (has_upper ? 3 : 2);
  const u32 count = word(lane, step.operand(at)) & 31;
  const u64 shifted = (u64{upper} << 32 | low) << count;
  const auto part = static_cast<u32>(is_high ? shifted >> 32 : shifted);
  // As in add3: the carry of a subtraction means "no borrow".
  u64 sum = is_negative ? u64{~part} + 1 : is_inverted ? u64{~part} : u64{part};
  if (base.is_negative && base.kind != OperandKind::immediate) {
    sum += u64{~lane.warp.get(base, lane.number)} + 1;
  } else {
    sum += word(lane, base);
  }
  if (step.has(kX)) sum += truth(lane, step.operand(at + 1)) ? 1u : 0u;
  if (first == 2) set_truth(lane, step.operand(1), sum >> 32 != 0);
  set(lane, step.operand(0), static_cast<u32>(sum));
}

void funnel_shift(Lane lane, const Step& step) {
  const bool is_wide = step.has(kU64) || step.has(kS64);
  const u32 given = word(lane, step.operand(2));
  const u32 limit = is_wide ? 64 : 32;
  const u32 count = step.has(kW) ? given & (limit - 1) : std::min(given, limit);
  const u64 both = u64{word(lane, step.operand(3))} << 32 | word(lane, step.operand(1));
  u64 result = 0;
  if (step.has(kL)) {
    result = static_cast<u64>(u128{both} << count);
  } else if (step.has(kS32) || step.has(kS64)) {
    result = static_cast<u64>(s128{static_cast<s64>(both)} >> count);
  } else {
    result = static_cast<u64>(u128{both} >> count);
  }
  set(lane, step.operand(0), static_cast<u32>(step.has(kHi) ? result >> 32 : result));
}

u32 looked_up(u32 table, u32 a, u32 b, u32 c) {
  u32 result = 0;
  for (u32 row = 0; row < 8; ++row) {
    if ((table >> row & 1) == 0) continue;
    result |= ((row & 4) != 0 ? a : ~a) & ((row & 2) != 0 ? b : ~b) & ((row & 1) != 0 ? c : ~c);
  }
  return result;
}

// [P,] R, a, b, c, table, P: the first predicate becomes "the result is not 0, or the last one is
// true".
void logic(Lane lane, const Step& step) {
  const std::size_t at = is_predicate(step.operand(0)) ? 1 : 0;
  if (step.count() != at + 6) return lane.warp.fail_with("this form is not known");
  const u32 result = looked_up(step.operand(at + 4).value, word(lane, step.operand(at + 1)),
                               word(lane, step.operand(at + 2)), word(lane, step.operand(at + 3)));
  if (at == 1) {
    set_truth(lane, step.operand(0), result != 0 || truth(lane, step.operand(at + 5)));
  }
  set(lane, step.operand(at), result);
}

void predicate_logic(Lane lane, const Step& step) {
  const u32 row = (truth(lane, step.operand(2)) ? 4u : 0u) |
                  (truth(lane, step.operand(3)) ? 2u : 0u) |
                  (truth(lane, step.operand(4)) ? 1u : 0u);
  set_truth(lane, step.operand(0), (step.operand(5).value >> row & 1) != 0);
  set_truth(lane, step.operand(1), (step.operand(6).value >> row & 1) != 0);
}

void compare(Lane lane, const Step& step) {
  const u32 a = word(lane, step.operand(2));
  const u32 b = word(lane, step.operand(3));
  bool result = step.has(kU32) ? compares(step.kind, a, b)
                               : compares(step.kind, static_cast<s32>(a), static_cast<s32>(b));
  // Upper words of a 64-bit comparison: if they are equal, the result of the lower words counts.
  if (step.has(kEx)) {
    const bool low = truth(lane, step.operand(5));
    if (a == b) {
      result = low;
    } else if (step.kind == kEq || step.kind == kNe) {
      result = step.kind == kNe;
    }
  }
  set_compared(lane, step, result);
}

void select(Lane lane, const Step& step) {
  const bool is_first = truth(lane, step.operand(3));
  set(lane, step.operand(0), word(lane, step.operand(is_first ? 1 : 2)));
}
void extreme(Lane lane, const Step& step) {
  const u32 a = word(lane, step.operand(1));
  const u32 b = word(lane, step.operand(2));
  const bool is_less = step.has(kU32) ? a < b : static_cast<s32>(a) < static_cast<s32>(b);
  set(lane, step.operand(0), is_less == truth(lane, step.operand(3)) ? a : b);
}

void add_extreme(Lane lane, const Step& step) {
  const u32 a = word(lane, step.operand(1)) + word(lane, step.operand(2));
  const u32 b = word(lane, step.operand(3));
  const bool is_less = step.has(kU32) ? a < b : static_cast<s32>(a) < static_cast<s32>(b);
  set(lane, step.operand(0), is_less == truth(lane, step.operand(4)) ? a : b);
}

void move(Lane lane, const Step& step) {
  set(lane, step.operand(0), word(lane, step.operand(1)));
}
// The compiler loads constants with arithmetic of half floats: RZ * RZ plus two halves.
void move_halves(Lane lane, const Step& step) {
  if (step.operand(1).index != kNoRegister || step.operand(2).index != kNoRegister ||
      step.operand(3).kind != OperandKind::immediate) {
    return lane.warp.fail_with("arithmetic of half floats is not known");
  }
  set(lane, step.operand(0), step.operand(3).value);
}
void magnitude(Lane lane, const Step& step) {
  const u32 value = word(lane, step.operand(1));
  set(lane, step.operand(0), static_cast<s32>(value) < 0 ? 0 - value : value);
}
void count_bits(Lane lane, const Step& step) {
  set(lane, step.operand(0), static_cast<u32>(std::popcount(word(lane, step.operand(1)))));
}
// The index of the highest bit, from below or from above; all ones if no bit is set.
void find_highest(Lane lane, const Step& step) {
  u32 value = word(lane, step.operand(1));
  if (!step.has(kU32) && static_cast<s32>(value) < 0) value = ~value;
  const auto zeros = static_cast<u32>(std::countl_zero(value));
  set(lane, step.operand(0), value == 0 ? ~0u : step.has(kSh) ? zeros : 31 - zeros);
}
void reverse_bits(Lane lane, const Step& step) {
  const u32 value = word(lane, step.operand(1));
  u32 result = 0;
  for (u32 bit = 0; bit < 32; ++bit) result |= (value >> bit & 1) << (31 - bit);
  set(lane, step.operand(0), result);
}
void permute(Lane lane, const Step& step) {
  const u64 both = u64{word(lane, step.operand(3))} << 32 | word(lane, step.operand(1));
  const u32 selection = word(lane, step.operand(2));
  u32 result = 0;
  for (u32 k = 0; k < 4; ++k) {
    const u32 selected = selection >> (4 * k) & 0xF;
    u32 byte = static_cast<u32>(both >> (8 * (selected & 7))) & 0xFF;
    if ((selected & 8) != 0) byte = (byte & 0x80) != 0 ? 0xFF : 0;
    result |= byte << (8 * k);
  }
  set(lane, step.operand(0), result);
}
void extend(Lane lane, const Step& step) {
  const u32 value = word(lane, step.operand(1));
  const u32 given = word(lane, step.operand(2));
  const u32 count = std::min(given, 32u);
  if (count == 0) return set(lane, step.operand(0), 0);
  const u32 up = value << (32 - count);
  set(lane, step.operand(0),
      step.has(kU32) ? up >> (32 - count) : static_cast<u32>(static_cast<s32>(up) >> (32 - count)));
}
Operand predicate_of(const Step& step, u8 index) {
  return {.kind = step.is_uniform ? OperandKind::uniform_predicate : OperandKind::predicate,
          .index = index};
}
void predicates_to_register(Lane lane, const Step& step) {
  const u32 others = word(lane, step.operand(1));
  const u32 mask = word(lane, step.operand(2));
  u32 predicates = 0;
  for (u8 i = 0; i < kTrue; ++i) {
    if (truth(lane, predicate_of(step, i))) predicates |= 1u << i;
  }
  set(lane, step.operand(0), (predicates & mask) | (others & ~mask));
}
void register_to_predicates(Lane lane, const Step& step) {
  const u32 value = word(lane, step.operand(0));
  const u32 mask = word(lane, step.operand(1));
  for (u8 i = 0; i < kTrue; ++i) {
    if ((mask >> i & 1) == 0) continue;
    set_truth(lane, predicate_of(step, i), (value >> i & 1) != 0);
  }
}

constexpr Form kForms[] = {
    {"IADD3", add3, nullptr, "X", 4, 8},
    {"VIADD", add2, nullptr, "", 3, 3},
    {"IMAD", multiply_add, nullptr, "MOV U32 IADD SHL X", 4, 5},
    {"IMAD.WIDE", multiply_wide, nullptr, "U32 X", 4, 6},
    {"IMAD.HI", multiply_high, nullptr, "U32", 4, 5},
    {"LEA", shift_add, nullptr, "HI X SX32", 4, 7},
    {"SHF", funnel_shift, nullptr, "L R U32 S32 U64 S64 HI W", 4, 4},
    {"LOP3", logic, nullptr, "LUT", 6, 7},
    {"PLOP3", predicate_logic, nullptr, "LUT", 7, 7},
    {"ISETP", compare, nullptr, "U32 EX", 5, 6, kComparisonParts},
    {"SEL", select, nullptr, "", 4, 4},
    {"VIMNMX", extreme, nullptr, "U32", 4, 4},
    {"VIADDMNMX", add_extreme, nullptr, "U32", 5, 5},
    {"MOV", move, nullptr, "", 2, 2},
    {"HFMA2", move_halves, nullptr, "MMA", 4, 4},
    {"IABS", magnitude, nullptr, "", 2, 2},
    {"POPC", count_bits, nullptr, "", 2, 2},
    {"FLO", find_highest, nullptr, "U32 SH", 2, 2},
    {"BREV", reverse_bits, nullptr, "", 2, 2},
    {"PRMT", permute, nullptr, "", 4, 4},
    {"SGXT", extend, nullptr, "U32", 3, 3},
    {"P2R", predicates_to_register, nullptr, "", 3, 3},
    {"R2P", register_to_predicates, nullptr, "", 2, 2},
};

}  // namespace

std::span<const Form> integer_forms() {
  return kForms;
}

}  // namespace everkernel::simulator
