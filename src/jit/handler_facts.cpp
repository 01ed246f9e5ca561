// Walks over verified bodies (ir/walk.hpp) that collect facts for both code generators.
#include "jit/handler_facts.hpp"

#include "everkernel/abi/slot.hpp"
#include "ir/walk.hpp"

namespace everkernel::jit {

using namespace ir;
using abi::Word;

namespace {

bool declares_name(StmtKind kind) {
  return kind == StmtKind::declare_array || kind == StmtKind::let_value ||
         kind == StmtKind::let_variable || kind == StmtKind::for_loop ||
         kind == StmtKind::each_loop;
}

}  // namespace

LoopFacts gather_loop_facts(const VerifiedHandler& handler, BlockId block) {
  const Body& body = handler.handler.body;
  LoopFacts facts;
  const auto add_stmt = [&](StmtId id) {
    const Stmt& stmt = body[id];
    ++facts.instruction_count;
    facts.has_inner_loop |= is_loop(stmt.kind);
    if (stmt.kind == StmtKind::let_value) {
      facts.definitions.emplace(handler.local(id), stmt.operands[0]);
    }
    if (declares_name(stmt.kind)) facts.declared.insert(handler.local(id));
    if (stmt.kind == StmtKind::assign_name) facts.assigned.insert(handler.local(id));
    if (stmt.kind == StmtKind::store) facts.stores.push_back(id);
  };
  const auto add_expr = [&](ExprId id) {
    const Expr& expr = body[id];
    ++facts.instruction_count;
    if (expr.kind == ExprKind::bind) {
      facts.definitions.emplace(handler.local(id), expr.operands[0]);
      facts.declared.insert(handler.local(id));
    }
    facts.uses_lane |= expr.kind == ExprKind::builtin && expr.builtin == Builtin::lane;
    if (expr.kind == ExprKind::load || expr.kind == ExprKind::atomic) facts.accesses.push_back(id);
    if (expr.kind == ExprKind::atomic && expr.buffer.kind == BufferKind::output) {
      facts.output_atomic = expr.atomic;
    }
  };
  for_each_node<VisitOrder::whole_first>(body, block, add_stmt, add_expr);
  return facts;
}

std::optional<Word> constant_arg(const Body& body, ExprId index) {
  const Expr& expr = body[index];
  if (expr.kind != ExprKind::literal || expr.bits >= abi::kSlotArgs) return std::nullopt;
  return expr.bits;
}

bool is_number_function(Function function) {
  switch (function) {
    case Function::exp:
    case Function::log:
    case Function::exp2:
    case Function::log2:
    case Function::sin:
    case Function::cos:
    case Function::tanh:
    case Function::pow:
      return true;
    default:
      return false;
  }
}

bool is_plain(const Body& body, ExprId id) {
  bool is_plain = true;
  for_each_expr(body, id, [&](ExprId part) {
    const Expr& expr = body[part];
    switch (expr.kind) {
      case ExprKind::literal:
      case ExprKind::name:
      case ExprKind::builtin:
      case ExprKind::unary:
      case ExprKind::binary:
        return;
      case ExprKind::call:
        is_plain &= expr.function != Function::printf && expr.function != Function::emit;
        return;
      case ExprKind::arg:
        is_plain &= constant_arg(body, expr.operands[0]).has_value();
        return;
      case ExprKind::load:
      case ExprKind::length:
      case ExprKind::atomic:
      case ExprKind::element:
      case ExprKind::user_call:
      case ExprKind::bind:  // it declares a name
        is_plain = false;
        return;
    }
  });
  return is_plain;
}

}  // namespace everkernel::jit
