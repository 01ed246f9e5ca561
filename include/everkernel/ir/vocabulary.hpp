// The types, operators, functions and buffers of the handler language. detail/vocabulary_tables.hpp
// has their spelling.
#pragma once

#include <cstdint>
#include <string_view>

namespace everkernel::ir {

/// Type of a value. Buffers and args hold u32 words.
enum class Type : std::uint8_t {
  none,     ///< no value: printf, emit
  u32,      ///< unsigned, wraps
  i32,      ///< signed, wraps
  f32,      ///< IEEE 754 single
  boolean,  ///< true or false
};

/// The type as the language spells it.
std::string_view type_name(Type type);

/// How many lanes run one item.
enum class Scope : std::uint8_t {
  lane,   ///< one
  warp,   ///< 32
  group,  ///< a whole workgroup
};

/// The scope as the language spells it.
std::string_view scope_name(Scope scope);

/// Operators with one operand.
enum class UnaryOp : std::uint8_t {
  negate,       ///< -x
  complement,   ///< ~x
  logical_not,  ///< !x
};

/// Operators with two operands.
enum class BinaryOp : std::uint8_t {
  multiply,       ///< product: *
  divide,         ///< quotient: /
  remainder,      ///< remainder: %
  add,            ///< sum: +
  subtract,       ///< difference: -
  shift_left,     ///< shifted left: <<
  shift_right,    ///< shifted right: >>
  less,           ///< is less: <
  less_equal,     ///< is less or equal: <=
  greater,        ///< is greater: >
  greater_equal,  ///< is greater or equal: >=
  equal,          ///< is equal: ==
  not_equal,      ///< is not equal: !=
  bit_and,        ///< bits of both: &
  bit_xor,        ///< bits of just one: ^
  bit_or,         ///< bits of either: |
  logical_and,    ///< &&, evaluates the right side only after true
  logical_or,     ///< ||, evaluates the right side only after false
};

/// Functions that are called by name.
enum class Function : std::uint8_t {
  min,       ///< the lesser
  max,       ///< the greater
  abs,       ///< without its sign
  clz,       ///< leading zero bits
  popcount,  ///< one bits
  select,    ///< the second operand if the first is true, else the third; evaluates all
  sqrt,      ///< square root
  floor,     ///< largest whole number not above
  fma,       ///< a × b + c, rounded once
  rotl,      ///< rotate left
  to_u32,    ///< convert the value to u32
  to_i32,    ///< convert the value to i32
  to_f32,    ///< convert the value to f32
  bits_u32,  ///< the bits as u32; any NaN is 0x7fc00000
  bits_i32,  ///< the bits as i32; any NaN is 0x7fc00000
  bits_f32,  ///< the bits as f32
  printf,    ///< append a debug record
  emit,      ///< append a hit
  clamp,     ///< the first operand, raised to the second, then lowered to the third
  exp,       ///< e to the x
  log,       ///< natural logarithm
  exp2,      ///< 2 to the x
  log2,      ///< logarithm to base 2
  sin,       ///< sine of radians
  cos,       ///< cosine of radians
  tanh,      ///< hyperbolic tangent
  pow,       ///< x to the y
};

/// Atomic operations on a buffer word; the value of each is the word before.
enum class AtomicOp : std::uint8_t {
  add,       ///< word += v
  min,       ///< word = min(word, v)
  max,       ///< word = max(word, v)
  bit_and,   ///< word &= v
  bit_or,    ///< word |= v
  bit_xor,   ///< word ^= v
  exchange,  ///< word = v
  cas,       ///< word = desired if it is expected
};

/// Values a handler is given by name. All are u32.
enum class Builtin : std::uint8_t {
  opcode,    ///< of the slot
  tenant,    ///< of the slot
  priority,  ///< of the slot
  slot,      ///< its index
  param,     ///< args[2]
  lane,      ///< of this turn, 0 outside `each`
  lanes,     ///< of the scope
};

/// Buffers a handler can name.
enum class BufferKind : std::uint8_t {
  input,    ///< buffer(args[0])
  output,   ///< buffer(args[1])
  control,  ///< the control words
  handle,   ///< buffer(expr)
};

}  // namespace everkernel::ir
