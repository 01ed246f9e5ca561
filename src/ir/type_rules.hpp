// The types that operators and functions take and give. There are no implicit conversions.
//
// The functions report at the location of the expression and then return `none`, also, silently, if
// an operand is `none`: what follows from a mistake is no mistake. Operands must have been checked
// before.
#pragma once

#include <span>
#include <string>

#include "everkernel/ir/program.hpp"
#include "ir/reporter.hpp"

namespace everkernel::ir {

/// Whether values of a type are u32 or i32.
bool is_integer(Type type);

/// The type of a unary expression.
Type unary_type(const Reporter& report, const Expr& expr, Type operand);
/// The type of a binary expression.
Type binary_type(const Reporter& report, const Expr& expr, Type left, Type right);
/// Whether a place of type `place` can be assigned with `op=` a value of type `value`, which stands
/// at that location; reports if not. False also if one of the types is `none`.
bool fits_compound(const Reporter& report, BinaryOp op, Location location, Type place, Type value);
/// The type of a call in a body, whose operands have these types; `none` also if it gives no value.
Type call_type(const Reporter& report, const Body& body, const Expr& expr,
               std::span<const Type> operands);

/// A hint for an expression that is of type `given` where `wanted` is needed; may be empty.
std::string conversion_hint(Type wanted, Type given);

}  // namespace everkernel::ir
