// One walk over a loop body, which the code generator makes before it decides how to emit the loop.
#include "jit/bounds.hpp"

namespace everkernel::jit {
namespace {

using namespace ir;

class Gatherer {
 public:
  Gatherer(const VerifiedHandler& handler, LoopFacts& facts)
      : handler_(handler), body_(handler.handler.body), facts_(facts) {}

  void walk(BlockId id) {
    for (const StmtId stmt : body_[id].statements) walk(stmt);
  }

 private:
  void walk(StmtId id) {
    const Stmt& stmt = body_[id];
    switch (stmt.kind) {
      case StmtKind::let_value:
        facts_.definitions.emplace(handler_.local(id), stmt.operands[0]);
        facts_.declared.insert(handler_.local(id));
        return walk(stmt.operands[0]);
      case StmtKind::let_variable:
        facts_.declared.insert(handler_.local(id));
        return walk(stmt.operands[0]);
      case StmtKind::assign_name:
        facts_.assigned.insert(handler_.local(id));
        return walk(stmt.operands[0]);
      case StmtKind::store:
        facts_.stores.push_back(id);
        walk(stmt.buffer);
        walk(stmt.operands[0]);
        return walk(stmt.operands[1]);
      case StmtKind::assign_arg:
        walk(stmt.operands[0]);
        return walk(stmt.operands[1]);
      case StmtKind::branch:
        walk(stmt.operands[0]);
        walk(stmt.body);
        if (stmt.otherwise) walk(*stmt.otherwise);
        return;
      case StmtKind::for_loop:
      case StmtKind::each_loop:
      case StmtKind::while_loop:
        facts_.has_inner_loop = true;
        return;
      case StmtKind::fault:
      case StmtKind::evaluate:
        return walk(stmt.operands[0]);
      case StmtKind::await_read:
      case StmtKind::await_write:
        for (const ExprId operand : stmt.operands) walk(operand);
        return;
      case StmtKind::break_loop:
      case StmtKind::continue_loop:
      case StmtKind::finish:
      case StmtKind::yield:
      case StmtKind::requeue:
        return;
    }
  }

  void walk(const BufferRef& buffer) {
    if (buffer.kind == BufferKind::handle) walk(buffer.handle);
  }

  void walk(ExprId id) {
    const Expr& expr = body_[id];
    if (expr.kind == ExprKind::load || expr.kind == ExprKind::atomic) facts_.loads.push_back(id);
    if (expr.kind == ExprKind::load || expr.kind == ExprKind::atomic ||
        expr.kind == ExprKind::length) {
      walk(expr.buffer);
    }
    for (std::size_t i = 0; i < expr.operand_count; ++i) walk(expr.operands[i]);
  }

  const VerifiedHandler& handler_;
  const Body& body_;
  LoopFacts& facts_;
};

}  // namespace

LoopFacts gather_facts(const VerifiedHandler& handler, BlockId body) {
  LoopFacts facts;
  Gatherer(handler, facts).walk(body);
  return facts;
}

}  // namespace everkernel::jit
