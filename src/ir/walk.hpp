// Walks over the statements and expressions of a verified body, for analyses that need every node.
#pragma once

#include "everkernel/ir/program.hpp"

namespace everkernel::ir {

/// Whether an expression is visited before or after its operands.
enum class VisitOrder : std::uint8_t {
  parts_first,  ///< the order of evaluation
  whole_first,  ///< an expression, then its operands
};

/// Whether expressions of this kind name a buffer.
constexpr bool has_buffer(ExprKind kind) {
  return kind == ExprKind::load || kind == ExprKind::atomic || kind == ExprKind::length;
}

/// Number of operands of an expression. It follows from the kind: the field of the same name is
/// checked for calls and atomics only, and may hold any number elsewhere.
constexpr std::size_t operand_count(const Expr& expr) {
  switch (expr.kind) {
    case ExprKind::literal:
    case ExprKind::name:
    case ExprKind::builtin:
    case ExprKind::length:
    case ExprKind::user_call:  // no verified handler has one
      return 0;
    case ExprKind::arg:
    case ExprKind::load:
    case ExprKind::unary:
    case ExprKind::element:
      return 1;
    case ExprKind::binary:
    case ExprKind::bind:
      return 2;
    case ExprKind::call:
    case ExprKind::atomic:
      return expr.operand_count;
  }
  return 0;
}

/// Number of expressions that a statement itself evaluates, blocks inside it apart.
constexpr std::size_t operand_count(const Stmt& stmt) {
  switch (stmt.kind) {
    case StmtKind::let_value:
    case StmtKind::let_variable:
    case StmtKind::assign_name:
    case StmtKind::branch:
    case StmtKind::while_loop:
    case StmtKind::fault:
    case StmtKind::evaluate:
    case StmtKind::declare_array:
      return 1;
    case StmtKind::assign_arg:
    case StmtKind::store:
    case StmtKind::store_element:
    case StmtKind::each_loop:
      return 2;
    case StmtKind::for_loop:
      return stmt.has_step ? 3 : 2;
    case StmtKind::await_read:
    case StmtKind::await_write:
      return 4;
    case StmtKind::break_loop:
    case StmtKind::continue_loop:
    case StmtKind::finish:
    case StmtKind::yield:
    case StmtKind::requeue:
      return 0;
  }
  return 0;
}

/// Calls `visit` with the id of an expression and of every expression below it.
template <VisitOrder kOrder = VisitOrder::parts_first, class Visit>
void for_each_expr(const Body& body, ExprId id, const Visit& visit) {
  const Expr& expr = body[id];
  if constexpr (kOrder == VisitOrder::whole_first) visit(id);
  if (has_buffer(expr.kind) && expr.buffer.kind == BufferKind::handle) {
    for_each_expr<kOrder>(body, expr.buffer.handle, visit);
  }
  for (std::size_t i = 0; i < operand_count(expr); ++i) {
    for_each_expr<kOrder>(body, expr.operands[i], visit);
  }
  if constexpr (kOrder == VisitOrder::parts_first) visit(id);
}

/// Calls `visit_stmt` with the id of each statement of a block and of the blocks inside it, then
/// `visit_expr` with the ids of the expressions that the statement evaluates.
template <VisitOrder kOrder = VisitOrder::parts_first, class VisitStmt, class VisitExpr>
void for_each_node(const Body& body, BlockId id, const VisitStmt& visit_stmt,
                   const VisitExpr& visit_expr) {
  for (const StmtId stmt_id : body[id].statements) {
    const Stmt& stmt = body[stmt_id];
    visit_stmt(stmt_id);
    if (stmt.kind == StmtKind::store && stmt.buffer.kind == BufferKind::handle) {
      for_each_expr<kOrder>(body, stmt.buffer.handle, visit_expr);
    }
    for (std::size_t i = 0; i < operand_count(stmt); ++i) {
      for_each_expr<kOrder>(body, stmt.operands[i], visit_expr);
    }
    if (is_loop(stmt.kind) || stmt.kind == StmtKind::branch) {
      for_each_node<kOrder>(body, stmt.body, visit_stmt, visit_expr);
    }
    if (stmt.kind == StmtKind::branch && stmt.otherwise) {
      for_each_node<kOrder>(body, *stmt.otherwise, visit_stmt, visit_expr);
    }
  }
}

}  // namespace everkernel::ir
