// One switch for each table of the vocabulary.
#include "jit/cuda_values.hpp"

#include <fmt/format.h>

#include "everkernel/base/assert.hpp"
#include "everkernel/ir/detail/vocabulary_tables.hpp"

namespace everkernel::jit {
namespace {

using ir::BinaryOp;
using ir::Function;
using ir::Type;

std::string called(std::string_view function, std::string_view a, std::string_view b) {
  return fmt::format("{}({}, {})", function, a, b);
}

// The name of an operation with its type: min_f32.
std::string typed(std::string_view operation, Type type) {
  return fmt::format("{}_{}", operation, ir::type_name(type));
}

std::string_view arithmetic_name(BinaryOp op) {
  switch (op) {
    case BinaryOp::multiply:
      return "multiply";
    case BinaryOp::divide:
      return "divide";
    case BinaryOp::remainder:
      return "remainder";
    case BinaryOp::add:
      return "add";
    case BinaryOp::subtract:
      return "subtract";
    default:
      EVERKERNEL_ASSERT(false && "not arithmetic");
  }
  return "";
}

// Words compare without a sign; a signed comparison is made of the one there is.
std::string compare_i32(BinaryOp op, std::string_view a, std::string_view b) {
  switch (op) {
    case BinaryOp::less:
      return called("less_i32", a, b);
    case BinaryOp::less_equal:
      return fmt::format("!less_i32({}, {})", b, a);
    case BinaryOp::greater:
      return called("less_i32", b, a);
    case BinaryOp::greater_equal:
      return fmt::format("!less_i32({}, {})", a, b);
    default:
      return fmt::format("{} {} {}", a, info(op).sign, b);
  }
}

std::string convert(Function function, Type from, std::string_view a) {
  switch (function) {
    case Function::to_u32:
      if (from == Type::boolean) return fmt::format("{} ? 1u : 0u", a);
      return from == Type::f32 ? fmt::format("f32_to_u32({})", a) : std::string(a);
    case Function::to_i32:
      return from == Type::f32 ? fmt::format("f32_to_i32({})", a) : std::string(a);
    case Function::to_f32:
      if (from == Type::f32) return std::string(a);
      return fmt::format("{}_to_f32({})", ir::type_name(from), a);
    case Function::bits_u32:
    case Function::bits_i32:
      return from == Type::f32 ? fmt::format("as_bits({})", a) : std::string(a);
    default:
      return from == Type::f32 ? std::string(a) : fmt::format("as_float({})", a);
  }
}

}  // namespace

std::string_view cuda_type(Type type) {
  switch (type) {
    case Type::none:
      return "void";
    case Type::u32:
    case Type::i32:
      return "Word";
    case Type::f32:
      return "float";
    case Type::boolean:
      return "bool";
  }
  return "";
}

std::string_view cuda_variable_type(Type type) {
  return type == Type::f32 ? cuda_type(Type::u32) : cuda_type(type);
}

std::string cuda_assigned(Type type, std::string_view value) {
  if (type == Type::boolean) return std::string(value);
  return type == Type::f32 ? fmt::format("opaque(raw_bits({}))", value)
                           : fmt::format("opaque({})", value);
}

std::string cuda_variable(Type type, std::string_view name) {
  return type == Type::f32 ? fmt::format("as_float({})", name) : std::string(name);
}

std::string cuda_local(ir::LocalId local) {
  return fmt::format("v{}", static_cast<std::uint32_t>(local));
}

std::string cuda_literal(Type type, std::uint32_t bits) {
  if (type == Type::boolean) return bits != 0 ? "true" : "false";
  if (type == Type::f32) return fmt::format("as_float({:#010x}u)", bits);
  return fmt::format("{}u", bits);
}

std::string cuda_unary(ir::UnaryOp op, Type type, std::string_view a) {
  switch (op) {
    case ir::UnaryOp::negate:
      return type == Type::f32 ? fmt::format("negate_f32({})", a) : called("subtract", "0u", a);
    case ir::UnaryOp::complement:
      return fmt::format("~{}", a);
    case ir::UnaryOp::logical_not:
      return fmt::format("!{}", a);
  }
  return "";
}

std::string cuda_binary(BinaryOp op, Type type, std::string_view a, std::string_view b) {
  const bool is_float = type == Type::f32;
  const bool is_signed = type == Type::i32;
  const auto infix = [&](std::string_view sign) { return fmt::format("{} {} {}", a, sign, b); };
  switch (op) {
    case BinaryOp::multiply:
    case BinaryOp::add:
    case BinaryOp::subtract:
      return called(is_float ? typed(arithmetic_name(op), type) : arithmetic_name(op), a, b);
    case BinaryOp::divide:
    case BinaryOp::remainder:
      return called(typed(arithmetic_name(op), type), a, b);
    case BinaryOp::shift_left:
      return called("shift_left", a, b);
    case BinaryOp::shift_right:
      return called(typed("shift_right", type), a, b);
    case BinaryOp::less:
    case BinaryOp::less_equal:
    case BinaryOp::greater:
    case BinaryOp::greater_equal:
      return is_signed ? compare_i32(op, a, b) : infix(info(op).sign);
    case BinaryOp::equal:
    case BinaryOp::not_equal:
    case BinaryOp::bit_and:
    case BinaryOp::bit_xor:
    case BinaryOp::bit_or:
    case BinaryOp::logical_and:
    case BinaryOp::logical_or:
      return infix(info(op).sign);
  }
  return "";
}

std::string cuda_call(Function function, Type type, std::string_view a, std::string_view b,
                      std::string_view c) {
  switch (function) {
    case Function::min:
      return called(typed("min", type), a, b);
    case Function::max:
      return called(typed("max", type), a, b);
    case Function::abs:
      return type == Type::u32 ? std::string(a) : fmt::format("{}({})", typed("abs", type), a);
    case Function::clz:
      return fmt::format("leading_zeros({})", a);
    case Function::popcount:
      return fmt::format("one_bits({})", a);
    case Function::select:
      return fmt::format("choose({}, {}, {})", a, b, c);
    case Function::sqrt:
      return fmt::format("sqrt_f32({})", a);
    case Function::floor:
      return fmt::format("floor_f32({})", a);
    case Function::fma:
      return fmt::format("fma_f32({}, {}, {})", a, b, c);
    case Function::rotl:
      return called("rotate_left", a, b);
    case Function::to_u32:
    case Function::to_i32:
    case Function::to_f32:
    case Function::bits_u32:
    case Function::bits_i32:
    case Function::bits_f32:
      return convert(function, type, a);
    case Function::clamp:
      return called(typed("min", type), called(typed("max", type), a, b), c);
    case Function::exp:
    case Function::log:
    case Function::exp2:
    case Function::log2:
    case Function::sin:
    case Function::cos:
    case Function::tanh:
      return fmt::format("{}({})", typed(info(function).name, type), a);
    case Function::pow:
      return called(typed(info(function).name, type), a, b);
    case Function::printf:
    case Function::emit:
      break;
  }
  EVERKERNEL_ASSERT(false && "printf and emit have no value");
  return "";
}

std::string_view cuda_atomic(ir::AtomicOp op, bool has_result) {
  switch (op) {
    case ir::AtomicOp::add:
      return has_result ? "fetch_add" : "add";
    case ir::AtomicOp::min:
      return has_result ? "fetch_min" : "min";
    case ir::AtomicOp::max:
      return has_result ? "fetch_max" : "max";
    case ir::AtomicOp::bit_and:
      return has_result ? "fetch_and" : "bit_and";
    case ir::AtomicOp::bit_or:
      return has_result ? "fetch_or" : "bit_or";
    case ir::AtomicOp::bit_xor:
      return has_result ? "fetch_xor" : "bit_xor";
    case ir::AtomicOp::exchange:
      return "exchange";
    case ir::AtomicOp::cas:
      return "exchange_if";
  }
  return "";
}

std::string_view cuda_combine(ir::AtomicOp op) {
  switch (op) {
    case ir::AtomicOp::add:
      return "CombineAdd";
    case ir::AtomicOp::min:
      return "CombineMin";
    case ir::AtomicOp::max:
      return "CombineMax";
    case ir::AtomicOp::bit_and:
      return "CombineAnd";
    case ir::AtomicOp::bit_or:
      return "CombineOr";
    case ir::AtomicOp::bit_xor:
      return "CombineXor";
    case ir::AtomicOp::exchange:
    case ir::AtomicOp::cas:
      break;
  }
  EVERKERNEL_ASSERT(false && "does not commute");
  return "";
}

}  // namespace everkernel::jit
