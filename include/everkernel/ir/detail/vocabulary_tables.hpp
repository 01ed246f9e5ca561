// How the handler language spells its operators, functions, atomics and given values, and the
// operands of each. For the library itself; programs that use it need none of this.
//
// Parser, printer, verifier, interpreter and code generators read these tables. The lexer has its
// own list of signs: a new operator is added there too.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "everkernel/ir/vocabulary.hpp"

namespace everkernel::ir {

/// The operator's sign.
char unary_sign(UnaryOp op);

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

/// A row of the function table.
struct FunctionInfo {
  Function function;      ///< the function
  std::string_view name;  ///< its text
  int argument_count;     ///< operands it takes
  bool is_reserved;       ///< whether its name cannot be that of a variable or handler
};

/// Every function, in the order of the enumeration.
inline constexpr FunctionInfo kFunctions[] = {
    {Function::min, "min", 2, true},
    {Function::max, "max", 2, true},
    {Function::abs, "abs", 1, true},
    {Function::clz, "clz", 1, true},
    {Function::popcount, "popcount", 1, true},
    {Function::select, "select", 3, true},
    {Function::sqrt, "sqrt", 1, true},
    {Function::floor, "floor", 1, true},
    {Function::fma, "fma", 3, true},
    {Function::rotl, "rotl", 2, true},
    {Function::to_u32, "u32", 1, true},
    {Function::to_i32, "i32", 1, true},
    {Function::to_f32, "f32", 1, true},
    {Function::bits_u32, "bits_u32", 1, true},
    {Function::bits_i32, "bits_i32", 1, true},
    {Function::bits_f32, "bits_f32", 1, true},
    {Function::printf, "printf", 3, true},
    {Function::emit, "emit", 3, true},
    // Names that mean the function only before `(`: older handlers may use them for variables.
    {Function::clamp, "clamp", 3, false},
    {Function::exp, "exp", 1, false},
    {Function::log, "log", 1, false},
    {Function::exp2, "exp2", 1, false},
    {Function::log2, "log2", 1, false},
    {Function::sin, "sin", 1, false},
    {Function::cos, "cos", 1, false},
    {Function::tanh, "tanh", 1, false},
    {Function::pow, "pow", 2, false},
};

/// The table row of a function.
constexpr const FunctionInfo& info(Function function) {
  return kFunctions[static_cast<std::size_t>(function)];
}

/// A row of the atomics table.
struct AtomicOpInfo {
  AtomicOp op;            ///< the operation
  std::string_view name;  ///< its text
  int value_count;        ///< operands besides the word
  bool commutes;          ///< whether several of them give the same word in any order
  bool is_idempotent;     ///< whether doing it twice is the same as doing it once
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

/// The buffer as the language spells it.
std::string_view buffer_name(BufferKind kind);

/// Whether the text is a word: letters, digits and _, not a digit first.
bool is_word(std::string_view text);
/// Whether the language uses the word, so that it cannot name a variable or handler.
bool is_reserved_word(std::string_view word);

/// The function of that name.
std::optional<Function> find_function(std::string_view name);
/// The atomic of that name.
std::optional<AtomicOp> find_atomic(std::string_view name);
/// The given value of that name.
std::optional<Builtin> find_builtin(std::string_view name);

}  // namespace everkernel::ir
