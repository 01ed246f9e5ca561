// Analysis of the body of one `each`. Emits nothing: cuda_each.cpp does.
#include "jit/cuda_each_plan.hpp"

#include <fmt/format.h>

#include <span>

#include "ir/walk.hpp"

namespace everkernel::jit {

using namespace ir;

namespace {

/// Turns of at most this many instructions are run several in a row, with the words that they begin
/// with fetched for all of them at once. Longer turns would need too many registers.
constexpr std::size_t kMaxAheadInstructions = 64;
/// Loads of a turn whose words are fetched ahead.
constexpr std::size_t kMaxAheadLoads = 4;

/// Whether a statement gives a name a value and does nothing else.
bool is_computation(StmtKind kind) {
  return kind == StmtKind::let_value || kind == StmtKind::let_variable ||
         kind == StmtKind::assign_name;
}

class EachPlanner {
 public:
  EachPlanner(const VerifiedHandler& handler, StmtId id, const KnownBuffers& buffers)
      : handler_(handler),
        body_(handler.handler.body),
        each_(body_[id]),
        buffers_(buffers),
        plan_{.counter = handler.local(id), .facts = gather_loop_facts(handler, each_.body)} {}

  EachPlan run() {
    plan_.tile_condition = tile_condition();
    plan_.gathers_updates = plan_.tile_condition && ends_with_its_update();
    find_ahead_loads();
    return std::move(plan_);
  }

 private:
  std::optional<std::string> tile_condition() const;
  bool ends_with_its_update() const;
  void find_ahead_loads();
  bool can_load_ahead(const Expr& load) const;
  std::optional<std::string> buffer_before_turns(const BufferRef& buffer) const;

  const VerifiedHandler& handler_;
  const Body& body_;
  const Stmt& each_;
  const KnownBuffers& buffers_;
  EachPlan plan_;
};

// The updates of output may wait if they commute, and if no buffer that the turns read overlaps
// output.
std::optional<std::string> EachPlanner::tile_condition() const {
  const Handler& handler = handler_.handler;
  const auto output = buffers_.find({.kind = BufferKind::output});
  const bool can_wait =
      handler.commutes && handler.scope != Scope::lane && plan_.facts.output_atomic && output;
  if (!can_wait) return std::nullopt;
  std::set<std::string> conditions;
  for (const ExprId id : plan_.facts.accesses) {
    const Expr& load = body_[id];
    if (load.kind != ExprKind::load || load.buffer.kind == BufferKind::control) continue;
    const auto known = buffer_before_turns(load.buffer);
    if (!known) return std::nullopt;
    conditions.insert(fmt::format("is_apart({}, {})", *known, *output));
  }
  return conditions.empty() ? "true" : fmt::format("{}", fmt::join(conditions, " && "));
}

bool EachPlanner::ends_with_its_update() const {
  const auto& statements = body_[each_.body].statements;
  const auto computes = [&](ExprId root) {
    bool is_pure = true;
    for_each_expr(body_, root,
                  [&](ExprId part) { is_pure &= body_[part].kind != ExprKind::atomic; });
    return is_pure;
  };
  for (const StmtId id : std::span(statements).first(statements.size() - 1)) {
    const Stmt& inner = body_[id];
    const bool goes_on =
        is_computation(inner.kind) && plan_.facts.declared.contains(handler_.local(id));
    if (!goes_on || !computes(inner.operands[0])) return false;
  }
  const Stmt& last = body_[statements.back()];
  if (last.kind != StmtKind::evaluate) return false;
  const Expr& update = body_[last.operands[0]];
  return update.kind == ExprKind::atomic && update.buffer.kind == BufferKind::output &&
         computes(update.operands[0]) && computes(update.operands[1]);
}

// Finds loads that every turn makes before it changes anything, at an index that follows from its
// number. Turns are independent, so that a load may come before the turns in front of it; fetching
// several words at once takes as long as fetching one.
void EachPlanner::find_ahead_loads() {
  if (plan_.facts.has_inner_loop || plan_.facts.instruction_count > kMaxAheadInstructions) return;
  bool has_effect = false;
  const auto scan = [&](ExprId root) {
    for_each_expr(body_, root, [&](ExprId part) {
      has_effect |= body_[part].kind == ExprKind::atomic;
      const bool is_load = body_[part].kind == ExprKind::load;
      if (!is_load || has_effect || plan_.ahead_loads.size() >= kMaxAheadLoads) return;
      if (can_load_ahead(body_[part])) plan_.ahead_loads.push_back(part);
    });
  };
  for (const StmtId inner_id : body_[each_.body].statements) {
    const Stmt& inner = body_[inner_id];
    const bool is_store = inner.kind == StmtKind::store;
    if (is_store && inner.buffer.kind == BufferKind::handle) scan(inner.buffer.handle);
    for (std::size_t i = 0; i < operand_count(inner); ++i) scan(inner.operands[i]);
    if (!is_computation(inner.kind) || has_effect) return;
  }
}

bool EachPlanner::can_load_ahead(const Expr& load) const {
  if (!buffer_before_turns(load.buffer) || !is_plain(body_, load.operands[0])) return false;
  bool is_known = true;
  for_each_expr(body_, load.operands[0], [&](ExprId part) {
    const Expr& expr = body_[part];
    const bool is_lane = expr.kind == ExprKind::builtin && expr.builtin == Builtin::lane;
    const bool is_inside =
        expr.kind == ExprKind::name && plan_.facts.declared.contains(handler_.local(part));
    is_known &= !is_lane && !is_inside;
  });
  return is_known;
}

// The variable of a buffer that is looked up before the turns: its handle is not declared in them.
std::optional<std::string> EachPlanner::buffer_before_turns(const BufferRef& buffer) const {
  if (buffer.kind == BufferKind::handle && body_[buffer.handle].kind == ExprKind::name) {
    const LocalId local = handler_.local(buffer.handle);
    if (local == plan_.counter || plan_.facts.declared.contains(local)) return std::nullopt;
  }
  return buffers_.find(buffer);
}

}  // namespace

EachPlan plan_each(const VerifiedHandler& handler, StmtId each, const KnownBuffers& buffers) {
  return EachPlanner(handler, each, buffers).run();
}

}  // namespace everkernel::jit
