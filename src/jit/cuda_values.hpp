// CUDA C++ of operators and functions: calls of the functions in device/values.cuh, which have the
// meanings of ir/semantics.hpp. Operands are texts without side effects.
#pragma once

#include <string>
#include <string_view>

#include "everkernel/ir/verifier.hpp"

namespace everkernel::jit {

/// The C++ type of a value. Integers of both kinds are words.
std::string_view cuda_type(ir::Type type);

/// The C++ type of a variable, the text that is assigned to it, and its value. Floats are kept as
/// words: the compiler chooses between words correctly (device/values.cuh, `choose`).
std::string_view cuda_variable_type(ir::Type type);
std::string cuda_assigned(ir::Type type, std::string_view value);
std::string cuda_variable(ir::Type type, std::string_view name);

/// The variable of a local.
std::string cuda_local(ir::LocalId local);
/// A literal by its bits.
std::string cuda_literal(ir::Type type, std::uint32_t bits);
/// A unary operator on an operand of `type`.
std::string cuda_unary(ir::UnaryOp op, ir::Type type, std::string_view a);
/// A binary operator on operands of `type` (of the left one for shifts); && and || evaluate both.
std::string cuda_binary(ir::BinaryOp op, ir::Type type, std::string_view a, std::string_view b);
/// A function whose first operand is of `type`; not printf and emit.
std::string cuda_call(ir::Function function, ir::Type type, std::string_view a, std::string_view b,
                      std::string_view c);
/// The member function of AtomicWord for an atomic. Without a result it may be a cheaper one.
std::string_view cuda_atomic(ir::AtomicOp op, bool has_result);
/// The type that applies a commuting atomic in a tile.
std::string_view cuda_combine(ir::AtomicOp op);

}  // namespace everkernel::jit
