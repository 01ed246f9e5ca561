// The rules as tables of cases.
#include "ir/type_rules.hpp"

#include <fmt/format.h>

#include "everkernel/ir/detail/vocabulary_tables.hpp"
#include "ir/diagnostic.hpp"

namespace everkernel::ir {
namespace {

bool is_number(Type type) {
  return is_integer(type) || type == Type::f32;
}

Result<Type> same_number_type(const Handler& handler, const Expr& expr,
                              std::span<const Type> types) {
  for (const Type type : types) {
    if (type == types[0] && is_number(type)) continue;
    const Type other = type == types[0] ? types.back() : type;
    return mistake(expr.location, handler.name,
                   fmt::format("{} takes numbers of one type, not {} and {}",
                               info(expr.function).name, type_name(types[0]), type_name(other)),
                   "there is no implicit conversion: use u32(x), i32(x) or f32(x)");
  }
  return types[0];
}

Result<Type> conversion_type(const Handler& handler, const Expr& expr, Type operand) {
  const Function function = expr.function;
  const Type target = function == Function::to_u32 || function == Function::bits_u32   ? Type::u32
                      : function == Function::to_i32 || function == Function::bits_i32 ? Type::i32
                                                                                       : Type::f32;
  const bool is_bool_to_u32 = function == Function::to_u32 && operand == Type::boolean;
  if (is_number(operand) || is_bool_to_u32) return target;
  return mistake(expr.location, handler.name,
                 fmt::format("{} cannot be applied to {}", info(function).name, type_name(operand)),
                 operand == Type::boolean ? "u32(x) of a bool is 0 or 1" : "");
}

}  // namespace

bool is_integer(Type type) {
  return type == Type::u32 || type == Type::i32;
}

Result<Type> unary_type(const Handler& handler, const Expr& expr, Type operand) {
  const bool fits = expr.unary == UnaryOp::negate       ? is_number(operand)
                    : expr.unary == UnaryOp::complement ? is_integer(operand)
                                                        : operand == Type::boolean;
  if (fits) return operand;
  return mistake(
      expr.location, handler.name,
      fmt::format("'{}' cannot be applied to {}", unary_sign(expr.unary), type_name(operand)));
}

Result<Type> binary_type(const Handler& handler, const Expr& expr, Type left, Type right) {
  const BinaryOp op = expr.binary;
  const auto refused = [&](std::string hint) {
    return mistake(expr.location, handler.name,
                   fmt::format("'{}' cannot be applied to {} and {}", info(op).sign,
                               type_name(left), type_name(right)),
                   std::move(hint));
  };
  if (op == BinaryOp::shift_left || op == BinaryOp::shift_right) {
    if (is_integer(left) && right == Type::u32) return left;
    return refused("an integer is shifted by a u32");
  }
  if (left != right)
    return refused("there is no implicit conversion: use u32(x), i32(x) or f32(x)");
  switch (op) {
    case BinaryOp::multiply:
    case BinaryOp::divide:
    case BinaryOp::add:
    case BinaryOp::subtract:
      return is_number(left) ? Result<Type>(left) : refused("");
    case BinaryOp::remainder:
    case BinaryOp::bit_and:
    case BinaryOp::bit_xor:
    case BinaryOp::bit_or:
      return is_integer(left) ? Result<Type>(left) : refused("both operands must be integers");
    case BinaryOp::less:
    case BinaryOp::less_equal:
    case BinaryOp::greater:
    case BinaryOp::greater_equal:
      return is_number(left) ? Result<Type>(Type::boolean) : refused("");
    case BinaryOp::equal:
    case BinaryOp::not_equal:
      return Type::boolean;
    case BinaryOp::logical_and:
    case BinaryOp::logical_or:
      return left == Type::boolean ? Result<Type>(Type::boolean) : refused("compare first: x != 0");
    case BinaryOp::shift_left:
    case BinaryOp::shift_right:
      break;
  }
  return refused("");
}

Result<Type> call_type(const Handler& handler, const Expr& expr, std::span<const Type> types) {
  const FunctionInfo& function = info(expr.function);
  const auto all = [&](Type wanted) -> Result<Type> {
    for (std::size_t i = 0; i < types.size(); ++i) {
      if (types[i] == wanted) continue;
      return mistake(
          handler.body[expr.operands[i]].location, handler.name,
          fmt::format("{} takes {}, not {}", function.name, type_name(wanted), type_name(types[i])),
          "there is no implicit conversion: use u32(x), i32(x), f32(x) or bits_f32(x)");
    }
    return wanted;
  };
  switch (expr.function) {
    case Function::min:
    case Function::max:
    case Function::clamp:
    case Function::abs:
      return same_number_type(handler, expr, types);
    case Function::clz:
    case Function::popcount:
    case Function::rotl:
      return all(Type::u32);
    case Function::sqrt:
    case Function::floor:
    case Function::fma:
    case Function::exp:
    case Function::log:
    case Function::exp2:
    case Function::log2:
    case Function::sin:
    case Function::cos:
    case Function::tanh:
    case Function::pow:
      return all(Type::f32);
    case Function::select:
      if (types[0] == Type::boolean && types[1] == types[2]) return types[1];
      return mistake(
          expr.location, handler.name,
          fmt::format("select takes a bool and two values of one type, not {}, {} and {}",
                      type_name(types[0]), type_name(types[1]), type_name(types[2])));
    case Function::to_u32:
    case Function::to_i32:
    case Function::to_f32:
    case Function::bits_u32:
    case Function::bits_i32:
    case Function::bits_f32:
      return conversion_type(handler, expr, types[0]);
    case Function::printf:
    case Function::emit:
      EVERKERNEL_TRY(all(Type::u32));
      return Type::none;
  }
  return mistake(expr.location, handler.name, "the function is unknown");
}

std::string conversion_hint(Type wanted, Type given) {
  switch (wanted) {
    case Type::u32:
      if (given == Type::f32) return "bits_u32(x) keeps the bits, u32(x) converts";
      return given == Type::i32 ? "u32(x) converts" : "";
    case Type::i32:
      return "i32(x) converts; 7i is an i32 literal";
    case Type::f32:
      return "f32(x) converts, bits_f32(x) keeps the bits; 1.5 is an f32 literal";
    case Type::boolean:
      return "compare: x != 0";
    case Type::none:
      break;
  }
  return "";
}

}  // namespace everkernel::ir
