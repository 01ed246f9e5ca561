// The words of the handler language: types, operators, functions, and what the text calls them.
//
// Parser, printer, verifier, interpreter and code generators all read these tables; a function or
// an operator is added here and nowhere else by name.
#pragma once

#include <cstdint>
#include <optional>
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

/// The operator's sign.
char unary_sign(UnaryOp op);

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

/// A row of the operator table.
struct BinaryOpInfo {
  BinaryOp op;            ///< the operator
  std::string_view sign;  ///< its text
  int precedence;         ///< higher binds tighter, as in C
};

/// Every binary operator, in the order of the enumeration.
inline constexpr BinaryOpInfo kBinaryOps[] = {
    {BinaryOp::multiply, "*", 10},      {BinaryOp::divide, "/", 10},
    {BinaryOp::remainder, "%", 10},     {BinaryOp::add, "+", 9},
    {BinaryOp::subtract, "-", 9},       {BinaryOp::shift_left, "<<", 8},
    {BinaryOp::shift_right, ">>", 8},   {BinaryOp::less, "<", 7},
    {BinaryOp::less_equal, "<=", 7},    {BinaryOp::greater, ">", 7},
    {BinaryOp::greater_equal, ">=", 7}, {BinaryOp::equal, "==", 6},
    {BinaryOp::not_equal, "!=", 6},     {BinaryOp::bit_and, "&", 5},
    {BinaryOp::bit_xor, "^", 4},        {BinaryOp::bit_or, "|", 3},
    {BinaryOp::logical_and, "&&", 2},   {BinaryOp::logical_or, "||", 1},
};

/// The table row of an operator.
constexpr const BinaryOpInfo& info(BinaryOp op) {
  return kBinaryOps[static_cast<std::size_t>(op)];
}

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
};

/// A row of the function table.
struct FunctionInfo {
  Function function;      ///< the function
  std::string_view name;  ///< its text
  int argument_count;     ///< operands it takes
};

/// Every function, in the order of the enumeration.
inline constexpr FunctionInfo kFunctions[] = {
    {Function::min, "min", 2},           {Function::max, "max", 2},
    {Function::abs, "abs", 1},           {Function::clz, "clz", 1},
    {Function::popcount, "popcount", 1}, {Function::select, "select", 3},
    {Function::sqrt, "sqrt", 1},         {Function::floor, "floor", 1},
    {Function::fma, "fma", 3},           {Function::rotl, "rotl", 2},
    {Function::to_u32, "u32", 1},        {Function::to_i32, "i32", 1},
    {Function::to_f32, "f32", 1},        {Function::bits_u32, "bits_u32", 1},
    {Function::bits_i32, "bits_i32", 1}, {Function::bits_f32, "bits_f32", 1},
    {Function::printf, "printf", 3},     {Function::emit, "emit", 3},
};

/// The table row of a function.
constexpr const FunctionInfo& info(Function function) {
  return kFunctions[static_cast<std::size_t>(function)];
}

/// Atomic operations on a buffer word; each gives the word before.
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

/// A row of the atomics table.
struct AtomicOpInfo {
  AtomicOp op;            ///< the operation
  std::string_view name;  ///< its text
  int value_count;        ///< operands besides the word
  bool commutes;          ///< whether its order against itself cannot be seen
  bool is_idempotent;     ///< whether doing it twice is doing it once
};

/// Every atomic, in the order of the enumeration.
inline constexpr AtomicOpInfo kAtomicOps[] = {
    {AtomicOp::add, "atomic_add", 1, true, false},
    {AtomicOp::min, "atomic_min", 1, true, true},
    {AtomicOp::max, "atomic_max", 1, true, true},
    {AtomicOp::bit_and, "atomic_and", 1, true, true},
    {AtomicOp::bit_or, "atomic_or", 1, true, true},
    {AtomicOp::bit_xor, "atomic_xor", 1, true, false},
    {AtomicOp::exchange, "atomic_exchange", 1, false, false},
    {AtomicOp::cas, "atomic_cas", 2, false, false},
};

/// The table row of an atomic.
constexpr const AtomicOpInfo& info(AtomicOp op) {
  return kAtomicOps[static_cast<std::size_t>(op)];
}

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

/// A row of the table of given values.
struct BuiltinInfo {
  Builtin builtin;        ///< the value
  std::string_view name;  ///< its text
};

/// Every given value, in the order of the enumeration.
inline constexpr BuiltinInfo kBuiltins[] = {
    {Builtin::opcode, "opcode"}, {Builtin::tenant, "tenant"}, {Builtin::priority, "priority"},
    {Builtin::slot, "slot"},     {Builtin::param, "param"},   {Builtin::lane, "lane"},
    {Builtin::lanes, "lanes"},
};

/// The table row of a given value.
constexpr const BuiltinInfo& info(Builtin builtin) {
  return kBuiltins[static_cast<std::size_t>(builtin)];
}

/// Buffers a handler can name.
enum class BufferKind : std::uint8_t {
  input,    ///< buffer(args[0])
  output,   ///< buffer(args[1])
  control,  ///< the control words
  handle,   ///< buffer(expr)
};

/// The buffer as the language spells it.
std::string_view buffer_name(BufferKind kind);

/// Whether the text is a word: letters, digits and _, not a digit first.
bool is_word(std::string_view text);
/// Whether the word has a meaning of its own in the language and cannot name a variable or handler.
bool is_reserved_word(std::string_view word);

/// The function of that name.
std::optional<Function> find_function(std::string_view name);
/// The atomic of that name.
std::optional<AtomicOp> find_atomic(std::string_view name);
/// The given value of that name.
std::optional<Builtin> find_builtin(std::string_view name);

}  // namespace everkernel::ir
