// The types that operators and functions take and give. There are no implicit conversions.
//
// The functions fail with `invalid_argument` at the location of the expression; operands must have
// been checked before.
#pragma once

#include <span>
#include <string>

#include "everkernel/base/result.hpp"
#include "everkernel/ir/program.hpp"

namespace everkernel::ir {

/// Whether values of a type are u32 or i32.
bool is_integer(Type type);

/// The type of a unary expression of the handler.
Result<Type> unary_type(const Handler& handler, const Expr& expr, Type operand);
/// The type of a binary expression of the handler.
Result<Type> binary_type(const Handler& handler, const Expr& expr, Type left, Type right);
/// The type of a call in the handler, whose operands have these types; `none` if it gives no value.
Result<Type> call_type(const Handler& handler, const Expr& expr, std::span<const Type> operands);

/// A hint for an expression that is of type `given` where `wanted` is needed; may be empty.
std::string conversion_hint(Type wanted, Type given);

}  // namespace everkernel::ir
