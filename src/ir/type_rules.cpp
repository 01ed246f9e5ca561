// The rules as tables of cases.
#include "ir/type_rules.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "everkernel/ir/detail/vocabulary_tables.hpp"

namespace everkernel::ir {
namespace {

bool is_number(Type type) {
  return is_integer(type) || type == Type::f32;
}

Type same_number_type(const Reporter& report, const Expr& expr, std::span<const Type> types) {
  const auto fits = [&](Type type) { return type == types[0] && is_number(type); };
  if (std::ranges::all_of(types, fits)) return types[0];
  if (std::ranges::all_of(types, [&](Type type) { return type == types[0]; })) {
    report(Rule::argument_types, expr.location,
           fmt::format("{} takes numbers, not {}", info(expr.function).name, type_name(types[0])),
           types[0] == Type::boolean ? "u32(x) of a bool is 0 or 1" : "");
    return Type::none;
  }
  const auto other = std::ranges::find_if_not(types, [&](Type type) { return type == types[0]; });
  report(Rule::argument_types, expr.location,
         fmt::format("{} takes numbers of one type, not {} and {}", info(expr.function).name,
                     type_name(types[0]), type_name(*other)),
         "there is no implicit conversion: use u32(x), i32(x) or f32(x)");
  return Type::none;
}

Type conversion_type(const Reporter& report, const Expr& expr, Type operand) {
  const Function function = expr.function;
  const Type target = function == Function::to_u32 || function == Function::bits_u32   ? Type::u32
                      : function == Function::to_i32 || function == Function::bits_i32 ? Type::i32
                                                                                       : Type::f32;
  const bool is_bool_to_u32 = function == Function::to_u32 && operand == Type::boolean;
  if (is_number(operand) || is_bool_to_u32) return target;
  report(Rule::argument_types, expr.location,
         fmt::format("{} cannot be applied to {}", info(function).name, type_name(operand)),
         operand == Type::boolean ? "u32(x) of a bool is 0 or 1" : "");
  return Type::none;
}

}  // namespace

bool is_integer(Type type) {
  return type == Type::u32 || type == Type::i32;
}

Type unary_type(const Reporter& report, const Expr& expr, Type operand) {
  if (operand == Type::none) return Type::none;
  const bool fits = expr.unary == UnaryOp::negate       ? is_number(operand)
                    : expr.unary == UnaryOp::complement ? is_integer(operand)
                                                        : operand == Type::boolean;
  if (fits) return operand;
  report(Rule::operand_types, expr.location,
         fmt::format("'{}' cannot be applied to {}", unary_sign(expr.unary), type_name(operand)),
         expr.unary == UnaryOp::logical_not ? "compare instead: x == 0" : "");
  return Type::none;
}

// The type of an operator between two values; `sign` is how the text spells it.
Type operator_type(const Reporter& report, BinaryOp op, const std::string& sign, Location location,
                   Type left, Type right) {
  if (left == Type::none || right == Type::none) return Type::none;
  const auto result = [&](bool fits, Type type, std::string hint) {
    if (fits) return type;
    report(
        Rule::operand_types, location,
        fmt::format("'{}' cannot be applied to {} and {}", sign, type_name(left), type_name(right)),
        std::move(hint));
    return Type::none;
  };
  if (op == BinaryOp::shift_left || op == BinaryOp::shift_right) {
    return result(is_integer(left) && right == Type::u32, left, "an integer is shifted by a u32");
  }
  if (left != right) {
    return result(false, left, "there is no implicit conversion: use u32(x), i32(x) or f32(x)");
  }
  switch (op) {
    case BinaryOp::multiply:
    case BinaryOp::divide:
    case BinaryOp::add:
    case BinaryOp::subtract:
      return result(is_number(left), left, "u32(x) of a bool is 0 or 1");
    case BinaryOp::remainder:
    case BinaryOp::bit_and:
    case BinaryOp::bit_xor:
    case BinaryOp::bit_or:
      return result(is_integer(left), left, "both operands must be integers");
    case BinaryOp::less:
    case BinaryOp::less_equal:
    case BinaryOp::greater:
    case BinaryOp::greater_equal:
      return result(is_number(left), Type::boolean,
                    "join comparisons with &&; compare bools with == and !=");
    case BinaryOp::equal:
    case BinaryOp::not_equal:
      return Type::boolean;
    case BinaryOp::logical_and:
    case BinaryOp::logical_or:
      return result(left == Type::boolean, Type::boolean, "compare first: x != 0");
    case BinaryOp::shift_left:
    case BinaryOp::shift_right:
      break;
  }
  return result(false, left, "");
}

Type binary_type(const Reporter& report, const Expr& expr, Type left, Type right) {
  return operator_type(report, expr.binary, std::string(info(expr.binary).sign), expr.location,
                       left, right);
}

bool fits_compound(const Reporter& report, BinaryOp op, Location location, Type place, Type value) {
  const std::string sign = fmt::format("{}=", info(op).sign);
  return operator_type(report, op, sign, location, place, value) != Type::none;
}

Type call_type(const Reporter& report, const Body& body, const Expr& expr,
               std::span<const Type> types) {
  if (std::ranges::find(types, Type::none) != types.end()) return Type::none;
  const FunctionInfo& function = info(expr.function);
  const auto all = [&](Type wanted) {
    for (std::size_t i = 0; i < types.size(); ++i) {
      if (types[i] == wanted) continue;
      report(
          Rule::argument_types, body[expr.operands[i]].location,
          fmt::format("{} takes {}, not {}", function.name, type_name(wanted), type_name(types[i])),
          "there is no implicit conversion: use u32(x), i32(x), f32(x) or bits_f32(x)");
      return Type::none;
    }
    return wanted;
  };
  switch (expr.function) {
    case Function::min:
    case Function::max:
    case Function::clamp:
    case Function::abs:
      return same_number_type(report, expr, types);
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
      report(Rule::argument_types, expr.location,
             fmt::format("select takes a bool and two values of one type, not {}, {} and {}",
                         type_name(types[0]), type_name(types[1]), type_name(types[2])),
             "write select(condition, value_if_true, value_if_false)");
      return Type::none;
    case Function::to_u32:
    case Function::to_i32:
    case Function::to_f32:
    case Function::bits_u32:
    case Function::bits_i32:
    case Function::bits_f32:
      return conversion_type(report, expr, types[0]);
    case Function::printf:
    case Function::emit:
      all(Type::u32);
      return Type::none;
  }
  return Type::none;
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
