// CUDA C++ of one handler: its expressions, and the checks in front of every access.
#include "jit/cuda_handler.hpp"
#include "jit/cuda_values.hpp"

namespace everkernel::jit {

using namespace ir;
using abi::FaultCode;
using abi::Word;

// ---- buffers ----

void CudaHandlerCodegen::emit_entry_buffers() {
  for (const auto& [handle, buffer] : buffers_.at_entry()) {
    const bool is_arg = handle.kind == EntryHandle::Kind::arg;
    out_.line("{}Buffer {} = {};", is_arg && verified_.effects.writes_args ? "" : "const ", buffer,
              find_buffer(is_arg ? fmt::format("item.args[{}]", handle.value)
                                 : fmt::format("{}u", handle.value)));
  }
}

// Looks buffers up again whose handle is the arg that has been assigned; any arg if it is not
// known.
void CudaHandlerCodegen::emit_moved_buffers(std::optional<Word> arg) {
  for (const auto& [handle, buffer] : buffers_.at_entry()) {
    const bool has_moved =
        handle.kind == EntryHandle::Kind::arg && handle.value == arg.value_or(handle.value);
    if (!has_moved) continue;
    out_.line("{} = {};", buffer, find_buffer(fmt::format("item.args[{}]", handle.value)));
  }
}

std::string CudaHandlerCodegen::find_buffer(std::string_view handle) {
  return fmt::format("find_buffer(item.buffers, {}, item.tenant)", handle);
}

// The variable of a buffer other than control. Evaluates its handle where it is not known.
std::string CudaHandlerCodegen::resolve(const BufferRef& buffer) {
  if (auto known = buffers_.find(buffer)) return *std::move(known);
  const std::string handle = buffer.kind == BufferKind::handle  ? emit(buffer.handle)
                             : buffer.kind == BufferKind::input ? "item.args[0]"
                                                                : "item.args[1]";
  std::string temporary = fresh();
  out_.line("const Buffer {} = {};", temporary, find_buffer(handle));
  return temporary;
}

void CudaHandlerCodegen::check(const std::string& buffer, std::string_view index, Need need) {
  const std::string_view limit = need == Need::read    ? "readable"
                                 : need == Need::write ? "writable"
                                                       : "updatable";
  out_.line("if ({} >= {}.{}) {}", index, buffer, limit,
            fault(fmt::format("access_fault({}, {}u)", buffer, static_cast<Word>(need))));
}

void CudaHandlerCodegen::check_control(std::string_view index, bool writes) {
  const std::string code = named(
      Type::u32, fmt::format("control_fault(item, {}, {})", index, writes ? "true" : "false"));
  out_.line("if ({} != 0) {}", code, fault(code));
}

// ---- expressions ----

std::string CudaHandlerCodegen::emit(ExprId id) {
  const Expr& expr = body_[id];
  switch (expr.kind) {
    case ExprKind::literal:
      return cuda_literal(expr.type, expr.bits);
    case ExprKind::name: {
      const LocalId local = verified_.local(id);
      const bool is_variable = verified_.locals[static_cast<std::size_t>(local)].is_variable;
      return is_variable ? cuda_variable(verified_.type(id), cuda_local(local)) : cuda_local(local);
    }
    case ExprKind::builtin:
      return emit_given(expr.builtin);
    case ExprKind::arg:
      return emit_arg(expr);
    case ExprKind::load:
      return emit_load(id, expr);
    case ExprKind::element: {
      const std::string index = emit(expr.operands[0]);
      const std::string place = element(verified_.local(id), index);
      return named(verified_.type(id), cuda_variable(verified_.type(id), place));
    }
    case ExprKind::length:
      return emit_length(expr);
    case ExprKind::unary: {
      const Expr& operand = body_[expr.operands[0]];
      const bool is_number = operand.kind == ExprKind::literal && operand.type == Type::i32;
      if (is_number &&
          expr.unary == ir::UnaryOp::negate) {  // the language has no negative literals
        return cuda_literal(Type::i32, 0u - operand.bits);
      }
      const std::string a = emit(expr.operands[0]);
      return named(verified_.type(id), cuda_unary(expr.unary, verified_.type(expr.operands[0]), a));
    }
    case ExprKind::binary: {
      const bool is_logical =
          expr.binary == BinaryOp::logical_and || expr.binary == BinaryOp::logical_or;
      if (is_logical && !is_plain(body_, expr.operands[1])) return emit_logical(expr);
      const std::string a = emit(expr.operands[0]);
      const std::string b = emit(expr.operands[1]);
      return named(verified_.type(id),
                   cuda_binary(expr.binary, verified_.type(expr.operands[0]), a, b));
    }
    case ExprKind::call:
      if (expr.function == Function::printf || expr.function == Function::emit) {
        return emit_function(expr);
      }
      return named(verified_.type(id), emit_function(expr));
    case ExprKind::atomic:
      return emit_atomic(expr, /*has_result=*/true);
    case ExprKind::bind: {
      const std::string value = emit(expr.operands[0]);
      out_.line("const {} {} = {};", cuda_type(verified_.type(expr.operands[0])),
                cuda_local(verified_.local(id)), value);
      return emit(expr.operands[1]);
    }
    case ExprKind::user_call:
      break;  // no verified handler has one
  }
  return "";
}

std::string CudaHandlerCodegen::emit_given(Builtin builtin) const {
  switch (builtin) {
    case Builtin::opcode:
      return "item.opcode";
    case Builtin::tenant:
      return "item.tenant";
    case Builtin::priority:
      return "item.priority";
    case Builtin::slot:
      return "item.slot";
    case Builtin::param:
      return "item.args[2]";
    case Builtin::lane:
      return is_in_turn() ? fmt::format("lane_{}", each_.number) : "0u";
    case Builtin::lanes:
      return "item.lanes";
  }
  return "";
}

std::string CudaHandlerCodegen::emit_arg(const Expr& expr) {
  if (const auto index = constant_arg(body_, expr.operands[0])) {
    return fmt::format("item.args[{}]", *index);
  }
  const std::string index = emit(expr.operands[0]);
  out_.line("if ({} >= abi::kSlotArgs) {}", index, fault(FaultCode::index_out_of_range));
  return named(Type::u32, fmt::format("load_arg(item, {})", index));
}

std::string CudaHandlerCodegen::emit_load(ExprId id, const Expr& expr) {
  if (expr.buffer.kind == BufferKind::control) {
    const std::string index = emit(expr.operands[0]);
    check_control(index, /*writes=*/false);
    return named(Type::u32, fmt::format("load_control({}, item, {})", lanes(), index));
  }
  if (const auto ahead = each_.ahead.find(id); each_.is_quick && ahead != each_.ahead.end()) {
    return named(Type::u32, fmt::format("take_{0}(lanes, {1}, at_{2}[q_{3}], ahead_{2}[q_{3}])",
                                        has_shared_buffers_ ? "shared" : "owned",
                                        *buffers_.find(expr.buffer), ahead->second, each_.number));
  }
  const std::string buffer = resolve(expr.buffer);
  const std::string index = emit(expr.operands[0]);
  // The word is fetched before the check, and is 0 where it cannot be loaded: in a chain of loads
  // no load then waits for a branch.
  const std::string word =
      named(Type::u32, fmt::format("fetch_{}({}, {}, {})", has_shared_buffers_ ? "shared" : "owned",
                                   lanes(), buffer, index));
  check(buffer, index, Need::read);
  return word;
}

std::string CudaHandlerCodegen::emit_length(const Expr& expr) {
  if (expr.buffer.kind == BufferKind::control) return "item.control.size()";
  const std::string buffer = resolve(expr.buffer);
  out_.line("if ({0}.fault != 0) {1}", buffer, fault(fmt::format("{}.fault", buffer)));
  return fmt::format("{}.length", buffer);
}

std::string CudaHandlerCodegen::emit_logical(const Expr& expr) {
  const std::string left = emit(expr.operands[0]);
  std::string result = fresh();
  out_.line("bool {} = {};", result, left);
  out_.open("if ({}{}) {{", expr.binary == BinaryOp::logical_and ? "" : "!", result);
  const std::string right = emit(expr.operands[1]);
  out_.line("{} = {};", result, right);
  out_.close();
  return result;
}

std::string CudaHandlerCodegen::emit_function(const Expr& expr) {
  std::string values[3];
  for (std::size_t i = 0; i < expr.operand_count; ++i) values[i] = emit(expr.operands[i]);
  if (expr.function == Function::bits_f32 && is_computed_word(expr.operands[0])) {
    values[0] = fmt::format("hidden({})", values[0]);
  }
  if (expr.function == Function::printf || expr.function == Function::emit) {
    each_.has_effect = true;
    emit_effect(fmt::format("{}(item, {}, {}, {})",
                            expr.function == Function::printf ? "print_record" : "append_hit",
                            values[0], values[1], values[2]));
    return "";
  }
  const std::string text =
      cuda_call(expr.function, verified_.type(expr.operands[0]), values[0], values[1], values[2]);
  if (!is_number_function(expr.function)) return text;
  return number_calls_++ < kMostInlinedNumberCalls ? text : "called_" + text;
}

std::string CudaHandlerCodegen::emit_atomic(const Expr& expr, bool has_result) {
  const bool is_control = expr.buffer.kind == BufferKind::control;
  const std::string buffer = is_control ? "item.control" : resolve(expr.buffer);
  const std::string index = emit(expr.operands[0]);
  std::string values = emit(expr.operands[1]);
  if (expr.operand_count > 2) values += ", " + emit(expr.operands[2]);
  if (each_.is_quick && each_.plan.gathers_updates) {
    out_.line("to_{0}[q_{0}] = {1}, by_{0}[q_{0}] = {2};", each_.number, index, values);
    return "";
  }
  if (is_control) {
    check_control(index, /*writes=*/true);
  } else {
    check(buffer, index, Need::update);
  }
  each_.has_effect = true;
  if (is_in_turn() && each_.has_tile() && expr.buffer.kind == BufferKind::output) {
    out_.line("tile_{}.update({}, {}, {});", each_.number, buffer, index, values);
    return "";
  }
  const std::string call = fmt::format("{}.atomic({}).{}({})", buffer, index,
                                       cuda_atomic(expr.atomic, has_result), values);
  if (!has_result) {
    emit_effect(call);
    return "";
  }
  if (is_in_turn()) return named(Type::u32, call);
  std::string result = fresh();
  out_.line("Word {} = 0;", result);
  out_.line("if (lanes.leads()) {} = {};", result, call);
  out_.line("{0} = lanes.from_leader({0});", result);
  return result;
}

}  // namespace everkernel::jit
