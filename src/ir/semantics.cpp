// Compiled without contraction (see CMakeLists.txt): only fma fuses.
#include "ir/semantics.hpp"

#include <algorithm>

#include "everkernel/base/assert.hpp"
#include "ir/number_functions.hpp"

namespace everkernel::ir::semantics {
namespace {

/// The numbers of this machine.
struct HostValues {
  using Word = semantics::Word;
  using Long = std::uint64_t;
  using Real = double;
  using Truth = bool;
  static double widened(Word bits) { return static_cast<double>(as_float(bits)); }
  static Word narrowed(double value) { return as_bits(static_cast<float>(value)); }
  static Long bits(double value) { return std::bit_cast<Long>(value); }
  static double real(Long bits) { return std::bit_cast<double>(bits); }
  static Word low(Long bits) { return static_cast<Word>(bits); }
  static Word word(Word literal) { return literal; }
  static Long wide(Long literal) { return literal; }
  template <class T>
  static T choose(bool is_first, T a, T b) {
    return is_first ? a : b;
  }
};
constexpr HostValues kHost;
constexpr NumberFunctions kNumbers(kHost);

Word binary_f32(BinaryOp op, Word a, Word b) {
  const float x = as_float(a), y = as_float(b);
  switch (op) {
    case BinaryOp::multiply:
      return as_bits(x * y);
    case BinaryOp::divide:
      return as_bits(x / y);
    case BinaryOp::add:
      return as_bits(x + y);
    case BinaryOp::subtract:
      return as_bits(x - y);
    case BinaryOp::less:
      return Word{x < y};
    case BinaryOp::less_equal:
      return Word{x <= y};
    case BinaryOp::greater:
      return Word{x > y};
    case BinaryOp::greater_equal:
      return Word{x >= y};
    case BinaryOp::equal:
      return Word{x == y};
    case BinaryOp::not_equal:
      return Word{x != y};
    case BinaryOp::remainder:
    case BinaryOp::shift_left:
    case BinaryOp::shift_right:
    case BinaryOp::bit_and:
    case BinaryOp::bit_xor:
    case BinaryOp::bit_or:
    case BinaryOp::logical_and:
    case BinaryOp::logical_or:
      break;
  }
  EVERKERNEL_ASSERT(false && "the verifier refuses this operator on f32");
  return 0;
}

Word binary_integer(BinaryOp op, bool is_signed, Word a, Word b) {
  const auto less = [is_signed](Word x, Word y) {
    return is_signed ? as_signed(x) < as_signed(y) : x < y;
  };
  switch (op) {
    case BinaryOp::multiply:
      return a * b;
    case BinaryOp::divide:
      return is_signed ? divide_i32(a, b) : divide_u32(a, b);
    case BinaryOp::remainder:
      return is_signed ? remainder_i32(a, b) : remainder_u32(a, b);
    case BinaryOp::add:
      return a + b;
    case BinaryOp::subtract:
      return a - b;
    case BinaryOp::shift_left:
      return shift_left(a, b);
    case BinaryOp::shift_right:
      return is_signed ? shift_right_i32(a, b) : shift_right_u32(a, b);
    case BinaryOp::less:
      return Word{less(a, b)};
    case BinaryOp::less_equal:
      return Word{!less(b, a)};
    case BinaryOp::greater:
      return Word{less(b, a)};
    case BinaryOp::greater_equal:
      return Word{!less(a, b)};
    case BinaryOp::equal:
      return Word{a == b};
    case BinaryOp::not_equal:
      return Word{a != b};
    case BinaryOp::bit_and:
      return a & b;
    case BinaryOp::bit_xor:
      return a ^ b;
    case BinaryOp::bit_or:
      return a | b;
    case BinaryOp::logical_and:
    case BinaryOp::logical_or:
      break;
  }
  EVERKERNEL_ASSERT(false && "&& and || are not evaluated here");
  return 0;
}

Word convert(Function function, Type from, Word a) {
  switch (function) {
    case Function::to_u32:
      return from == Type::f32 ? f32_to_u32(a) : a;
    case Function::to_i32:
      return from == Type::f32 ? f32_to_i32(a) : a;
    case Function::to_f32:
      if (from == Type::f32) return a;
      return as_bits(from == Type::i32 ? static_cast<float>(as_signed(a)) : static_cast<float>(a));
    case Function::bits_u32:
    case Function::bits_i32:
      return from == Type::f32 ? canonical_bits(a) : a;
    default:
      return a;
  }
}

Word least_or_greatest(Function function, Type type, Word a, Word b) {
  const bool is_min = function == Function::min;
  if (type == Type::f32) return is_min ? min_f32(a, b) : max_f32(a, b);
  const bool a_is_less = type == Type::i32 ? as_signed(a) < as_signed(b) : a < b;
  return a_is_less == is_min ? a : b;
}

}  // namespace

Word unary(UnaryOp op, Type type, Word a) {
  switch (op) {
    case UnaryOp::negate:
      return type == Type::f32 ? a ^ 0x80000000u : 0u - a;
    case UnaryOp::complement:
      return ~a;
    case UnaryOp::logical_not:
      return a ^ 1u;
  }
  return 0;
}

Word binary(BinaryOp op, Type type, Word a, Word b) {
  return type == Type::f32 ? binary_f32(op, a, b) : binary_integer(op, type == Type::i32, a, b);
}

Word call(Function function, Type type, Word a, Word b, Word c) {
  switch (function) {
    case Function::min:
    case Function::max:
      return least_or_greatest(function, type, a, b);
    case Function::abs:
      if (type == Type::f32) return a & 0x7FFFFFFFu;
      return type == Type::i32 && as_signed(a) < 0 ? 0u - a : a;
    case Function::clz:
      return static_cast<Word>(std::countl_zero(a));
    case Function::popcount:
      return static_cast<Word>(std::popcount(a));
    case Function::select:
      return a != 0 ? b : c;
    case Function::sqrt:
      return as_bits(std::sqrt(as_float(a)));
    case Function::floor:
      return as_bits(std::floor(as_float(a)));
    case Function::fma:
      return as_bits(std::fma(as_float(a), as_float(b), as_float(c)));
    case Function::rotl:
      return std::rotl(a, static_cast<int>(b & 31));
    case Function::to_u32:
    case Function::to_i32:
    case Function::to_f32:
    case Function::bits_u32:
    case Function::bits_i32:
    case Function::bits_f32:
      return convert(function, type, a);
    case Function::clamp:
      return least_or_greatest(Function::min, type, least_or_greatest(Function::max, type, a, b),
                               c);
    case Function::exp:
      return kNumbers.exp(a);
    case Function::log:
      return kNumbers.log(a);
    case Function::exp2:
      return kNumbers.exp2(a);
    case Function::log2:
      return kNumbers.log2(a);
    case Function::sin:
      return kNumbers.sin(a);
    case Function::cos:
      return kNumbers.cos(a);
    case Function::tanh:
      return kNumbers.tanh(a);
    case Function::pow:
      return kNumbers.pow(a, b);
    case Function::printf:
    case Function::emit:
      break;
  }
  EVERKERNEL_ASSERT(false && "printf and emit have no value");
  return 0;
}

Word atomic(AtomicOp op, Word before, Word value, Word desired) {
  switch (op) {
    case AtomicOp::add:
      return before + value;
    case AtomicOp::min:
      return std::min(before, value);
    case AtomicOp::max:
      return std::max(before, value);
    case AtomicOp::bit_and:
      return before & value;
    case AtomicOp::bit_or:
      return before | value;
    case AtomicOp::bit_xor:
      return before ^ value;
    case AtomicOp::exchange:
      return value;
    case AtomicOp::cas:
      return before == value ? desired : before;
  }
  return before;
}

}  // namespace everkernel::ir::semantics
