// CUDA C++ of one handler: its function and its statements.
#include "everkernel/abi/slot.hpp"
#include "jit/cuda_handler.hpp"
#include "jit/cuda_values.hpp"

namespace everkernel::jit {

using namespace ir;
using abi::FaultCode;
using abi::Word;

std::string CudaHandlerCodegen::run() {
  out_.line("template <class Lanes>");
  out_.open("EK_DEVICE Word body_{}(const Lanes& lanes, Item& item, Fuel& fuel) {{", index_);
  emit_entry_buffers();
  emit(body_.root);
  out_.line("return outcome(Ending::done);");
  out_.close();
  // Always inlined: the fields of an item behind a pointer would not be kept in registers.
  out_.line("template <class Lanes>");
  out_.open("EK_DEVICE Word handler_{}(const Lanes& lanes, Item& item) {{", index_);
  out_.line("Fuel fuel = item.fuel;");
  out_.line("const Word result = body_{}(lanes, item, fuel);", index_);
  out_.line("item.fuel = fuel;");
  out_.line("return result;");
  out_.close();
  return out_.take();
}

std::string CudaHandlerCodegen::named(Type type, const std::string& value) {
  std::string temporary = fresh();
  out_.line("const {} {} = {};", cuda_type(type), temporary, value);
  return temporary;
}

// A statement that ends the item, or inside each the turn, with a fault. A quick turn that has
// changed nothing yet is run again by the careful ones, which find the fault code.
std::string CudaHandlerCodegen::fault(std::string_view code) {
  if (!is_in_turn()) return fmt::format("return fault_outcome({});", code);
  if (each_.is_quick && !each_.has_effect) {
    quick_is_left_ = true;
    if (each_.plan.gathers_updates) return fmt::format("goto careful_{};", each_.number);
    return fmt::format("{{ u_{0} = q_{0}; goto careful_{0}; }}", each_.number);
  }
  turn_is_left_ = true;
  return fmt::format("{{ bad_{}.note(turn_{}, {}); goto {}; }}", each_.number, each_.number, code,
                     turn_end());
}

// ---- statements ----

void CudaHandlerCodegen::emit(BlockId id) {
  for (const StmtId stmt : body_[id].statements) emit(stmt);
}

void CudaHandlerCodegen::emit(StmtId id) {
  const Stmt& stmt = body_[id];
  switch (stmt.kind) {
    case StmtKind::let_value:
    case StmtKind::let_variable:
      return emit_let(id, stmt);
    case StmtKind::assign_name: {
      const LocalId local = verified_.local(id);
      const Type type = verified_.locals[static_cast<std::size_t>(local)].type;
      std::string value = emit(stmt.operands[0]);
      if (stmt.compound) {
        const std::string before = named(type, cuda_variable(type, cuda_local(local)));
        value = named(type, cuda_binary(*stmt.compound, type, before, value));
      }
      each_.has_effect |= !each_.plan.facts.declared.contains(local);
      return out_.line("{} = {};", cuda_local(local), cuda_assigned(type, value));
    }
    case StmtKind::assign_arg:
      return emit_assign_arg(stmt);
    case StmtKind::store:
      return emit_store(stmt);
    case StmtKind::branch:
      return emit_branch(stmt);
    case StmtKind::for_loop:
      return emit_for(id, stmt);
    case StmtKind::each_loop:
      return emit_each(id, stmt);
    case StmtKind::while_loop:
      return emit_while(stmt);
    case StmtKind::break_loop:
      return emit_break();
    case StmtKind::continue_loop:
      return emit_continue();
    case StmtKind::finish:
      return emit_end("done");
    case StmtKind::yield:
      return emit_end("yield");
    case StmtKind::requeue:
      return emit_end("requeue");
    case StmtKind::fault: {
      const std::string n = emit(stmt.operands[0]);
      return out_.line("{}", fault(fmt::format("user_fault({})", n)));
    }
    case StmtKind::evaluate: {
      const Expr& expr = body_[stmt.operands[0]];
      if (expr.kind == ExprKind::atomic) {
        emit_atomic(expr, /*has_result=*/false);
      } else {
        emit(stmt.operands[0]);
      }
      return;
    }
    case StmtKind::await_read:
    case StmtKind::await_write:
      return emit_await(stmt);
    case StmtKind::declare_array:
      return emit_array(verified_.local(id));
    case StmtKind::store_element:
      return emit_element_store(verified_.local(id), stmt);
  }
}

// Outside each every lane has its copy and runs the same statements on it.
void CudaHandlerCodegen::emit_array(LocalId local) {
  const Local& array = verified_.locals[static_cast<std::size_t>(local)];
  out_.line("{} {}[{}u];", cuda_variable_type(array.type), cuda_local(local), array.array_words);
  out_.line("for (Word i = 0; i < {}u; ++i) {}[i] = 0;", array.array_words, cuda_local(local));
}

// The word of an array, after its check.
std::string CudaHandlerCodegen::element(LocalId local, const std::string& index) {
  const Local& array = verified_.locals[static_cast<std::size_t>(local)];
  out_.line("if ({} >= {}u) {}", index, array.array_words, fault(FaultCode::index_out_of_range));
  return fmt::format("{}[{}]", cuda_local(local), index);
}

void CudaHandlerCodegen::emit_element_store(LocalId local, const Stmt& stmt) {
  const Type type = verified_.locals[static_cast<std::size_t>(local)].type;
  const std::string index = emit(stmt.operands[0]);
  if (!stmt.compound) {
    const std::string value = emit(stmt.operands[1]);
    const std::string place = element(local, index);
    return out_.line("{} = {};", place, cuda_assigned(type, value));
  }
  const std::string place = element(local, index);
  const std::string before = named(type, cuda_variable(type, place));
  const std::string value = emit(stmt.operands[1]);
  const std::string word = named(type, cuda_binary(*stmt.compound, type, before, value));
  out_.line("{} = {};", place, cuda_assigned(type, word));
}

void CudaHandlerCodegen::emit_let(StmtId id, const Stmt& stmt) {
  const LocalId local = verified_.local(id);
  const std::string value = emit(stmt.operands[0]);
  const Type type = verified_.type(stmt.operands[0]);
  const bool is_let = stmt.kind == StmtKind::let_value;
  if (is_let) {
    out_.line("const {} {} = {};", cuda_type(type), cuda_local(local), value);
  } else {
    out_.line("{} {} = {};", cuda_variable_type(type), cuda_local(local),
              cuda_assigned(type, value));
  }
  if (is_let && buffers_.is_handle(local)) {
    out_.line("const Buffer {}_buffer = {};", cuda_local(local), find_buffer(cuda_local(local)));
  }
}

// The other lanes wait for the leader: ptxas 13.0 lets them run ahead, past the next statement of
// the leader alone, and still treats them as converged with it.
void CudaHandlerCodegen::emit_effect(const std::string& effect) {
  if (is_in_turn()) return out_.line("{};", effect);
  out_.line("if (lanes.leads()) {};", effect);
  out_.line("lanes.converge();");
}

void CudaHandlerCodegen::emit_assign_arg(const Stmt& stmt) {
  each_.has_effect = true;
  if (stmt.compound) return emit_update_arg(stmt);
  if (const auto index = constant_arg(body_, stmt.operands[0])) {
    const std::string value = emit(stmt.operands[1]);
    out_.line("item.args[{}] = opaque({});", *index, value);
    return emit_moved_buffers(index);
  }
  const std::string index = emit(stmt.operands[0]);
  const std::string value = emit(stmt.operands[1]);
  out_.line("if ({} >= abi::kSlotArgs) {}", index, fault(FaultCode::index_out_of_range));
  out_.line("store_arg(item, {}, opaque({}));", index, value);
  emit_moved_buffers(std::nullopt);
}

void CudaHandlerCodegen::emit_update_arg(const Stmt& stmt) {
  const auto constant = constant_arg(body_, stmt.operands[0]);
  const std::string index = constant ? fmt::format("{}u", *constant) : emit(stmt.operands[0]);
  if (!constant) {
    out_.line("if ({} >= abi::kSlotArgs) {}", index, fault(FaultCode::index_out_of_range));
  }
  const std::string before = named(Type::u32, constant ? fmt::format("item.args[{}]", *constant)
                                                       : fmt::format("load_arg(item, {})", index));
  const std::string value = emit(stmt.operands[1]);
  const std::string word = named(Type::u32, cuda_binary(*stmt.compound, Type::u32, before, value));
  if (constant) {
    out_.line("item.args[{}] = opaque({});", *constant, word);
  } else {
    out_.line("store_arg(item, {}, opaque({}));", index, word);
  }
  emit_moved_buffers(constant);
}

// `buffer[index] op= value`: the check and the load come before the value.
void CudaHandlerCodegen::emit_update(const Stmt& stmt) {
  const bool is_control = stmt.buffer.kind == BufferKind::control;
  const std::string_view sharing = has_shared_buffers_ ? "shared" : "owned";
  const std::string buffer = is_control ? "" : resolve(stmt.buffer);
  const std::string index = emit(stmt.operands[0]);
  if (is_control) {
    check_control(index, /*writes=*/true);
  } else {
    check(buffer, index, Need::update);
  }
  const std::string before = named(
      Type::u32, is_control ? fmt::format("load_control({}, item, {})", lanes(), index)
                            : fmt::format("fetch_{}({}, {}, {})", sharing, lanes(), buffer, index));
  const std::string value = emit(stmt.operands[1]);
  const std::string word = named(Type::u32, cuda_binary(*stmt.compound, Type::u32, before, value));
  each_.has_effect = true;
  emit_effect(is_control ? fmt::format("item.control.store_relaxed({}, {})", index, word)
                         : fmt::format("store_{}({}, {}, {})", sharing, buffer, index, word));
}

void CudaHandlerCodegen::emit_store(const Stmt& stmt) {
  if (stmt.compound) return emit_update(stmt);
  if (stmt.buffer.kind == BufferKind::control) {
    const std::string index = emit(stmt.operands[0]);
    const std::string value = emit(stmt.operands[1]);
    check_control(index, /*writes=*/true);
    each_.has_effect = true;
    return emit_effect(fmt::format("item.control.store_relaxed({}, {})", index, value));
  }
  const std::string buffer = resolve(stmt.buffer);
  const std::string index = emit(stmt.operands[0]);
  const std::string value = emit(stmt.operands[1]);
  check(buffer, index, Need::write);
  each_.has_effect = true;
  emit_effect(fmt::format("{}({}, {}, {})", has_shared_buffers_ ? "store_shared" : "store_owned",
                          buffer, index, value));
}

void CudaHandlerCodegen::emit_branch(const Stmt& stmt) {
  const std::string condition = emit(stmt.operands[0]);
  out_.open("if ({}) {{", condition);
  emit(stmt.body);
  if (stmt.otherwise) {
    out_.open_else();
    emit(*stmt.otherwise);
  }
  out_.close();
}

// Gives back the fuel of turns that were paid for and do not run, because the loop is left. After a
// fault the fuel is not used any more.
void CudaHandlerCodegen::emit_refund() {
  if (loops_.empty() || !loops_.back().pays_ahead) return;
  out_.line("{0} += some_{1} - 1 - k_{1};", fuel(), loops_.back().number);
}

void CudaHandlerCodegen::emit_end(std::string_view ending) {
  emit_refund();
  out_.line("return outcome(Ending::{});", ending);
}

void CudaHandlerCodegen::emit_break() {
  if (!loops_.back().pays_ahead) return out_.line("break;");
  emit_refund();
  loop_is_broken_ = true;
  out_.line("goto broken_{};", loops_.back().number);
}

void CudaHandlerCodegen::emit_continue() {
  if (loops_.back().kind != StmtKind::each_loop) return out_.line("continue;");
  turn_is_left_ = true;
  out_.line("goto {};", turn_end());
}

void CudaHandlerCodegen::emit_await(const Stmt& stmt) {
  constexpr std::string_view kFields[] = {"source", "block", "destination", "byte_count"};
  out_.line("item.io.is_write = {}u;", stmt.kind == StmtKind::await_write ? 1 : 0);
  for (std::size_t i = 0; i < 4; ++i) {
    const std::string value = emit(stmt.operands[i]);
    out_.line("item.io.{} = {};", kFields[i], value);
  }
  emit_end("wait_io");
}

}  // namespace everkernel::jit
