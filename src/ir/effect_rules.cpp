// One rule a function: `pure` reads input and param and writes output, `commutes` writes by one
// kind of atomic and does not look at the results.
#include "ir/effect_rules.hpp"

#include <fmt/format.h>

#include <utility>

#include "everkernel/ir/detail/vocabulary_tables.hpp"

namespace everkernel::ir {

// Whether it was refused: an access breaks one promise at a time.
bool EffectRules::refuse_if_pure(Location location, std::string_view what) const {
  if (!handler_.is_pure) return false;
  report_(Rule::not_pure, location, fmt::format("a pure handler {}", what),
          "a pure handler reads input and param and writes output; drop pure if it does more");
  return true;
}

bool EffectRules::refuse_if_commutes(Location location, std::string_view what,
                                     std::string hint) const {
  if (!handler_.commutes) return false;
  report_(Rule::does_not_commute, location, fmt::format("a commutes handler {}", what),
          std::move(hint));
  return true;
}

void EffectRules::note_read(const BufferRef& buffer) {
  effects_.reads_input |= buffer.kind == BufferKind::input;
  effects_.reads_output |= buffer.kind == BufferKind::output;
  effects_.reads_control |= buffer.kind == BufferKind::control;
}

void EffectRules::load(const BufferRef& buffer, Location location) {
  note_read(buffer);
  if (buffer.kind == BufferKind::output) {
    refuse_if_pure(location, "reads output, which it writes") ||
        refuse_if_commutes(location, "reads output: the word depends on the order of items",
                           "read input instead, or drop commutes");
  } else if (buffer.kind != BufferKind::input) {
    refuse_if_pure(location, "reads other buffers than input");
  }
}

bool EffectRules::write(const BufferRef& buffer, Location location) {
  effects_.writes_input |= buffer.kind == BufferKind::input;
  effects_.writes_output |= buffer.kind == BufferKind::output;
  effects_.writes_control |= buffer.kind == BufferKind::control;
  if (buffer.kind == BufferKind::output) return true;
  return !refuse_if_pure(location, "writes other buffers than output");
}

void EffectRules::store(const BufferRef& buffer, Location location, bool is_update) {
  const bool is_refused =
      refuse_if_commutes(location, "writes by one kind of atomic only, not by stores",
                         "use atomic_add or another atomic, or drop commutes");
  if (is_refused || !write(buffer, location)) return;
  if (is_update) load(buffer, location);
}

void EffectRules::atomic(const Expr& expr, bool result_is_used) {
  const AtomicOpInfo& op = info(expr.atomic);
  note_read(expr.buffer);
  if (!write(expr.buffer, expr.location)) return;
  if (!op.is_idempotent && refuse_if_pure(expr.location, fmt::format("uses {}", op.name))) return;
  if (result_is_used) {
    if (refuse_if_pure(expr.location, "uses the result of an atomic")) return;
    if (refuse_if_commutes(expr.location,
                           "uses the result of an atomic: it depends on the order of items",
                           "make the atomic a statement of its own, or drop commutes")) {
      return;
    }
  }
  if (!handler_.commutes) return;
  if (!op.commutes || (commuting_op_ && *commuting_op_ != expr.atomic)) {
    refuse_if_commutes(expr.location,
                       fmt::format("writes by one kind of atomic only, not by {}{}", op.name,
                                   op.commutes ? " as well" : ""),
                       "add, min, max, and, or, xor commute, each with itself");
    return;
  }
  commuting_op_ = expr.atomic;
}

void EffectRules::length(const BufferRef& buffer, Location location) {
  if (buffer.kind == BufferKind::input || buffer.kind == BufferKind::output) return;
  refuse_if_pure(location, "touches other buffers than input and output");
}

void EffectRules::load_arg(const Expr& index, Location location) {
  const bool is_param = index.kind == ExprKind::literal && index.bits == 2;
  if (!is_param) refuse_if_pure(location, "reads args other than param");
}

void EffectRules::store_arg(Location location) {
  if (refuse_if_pure(location, "writes to args")) return;
  refuse_if_commutes(location, "writes by one kind of atomic only, not to args",
                     "keep what is needed in buffers, or drop commutes");
  effects_.writes_args = true;
}

void EffectRules::store_arg_at(const Expr& index) {
  if (index.kind != ExprKind::literal || index.bits < 2) effects_.moves_buffers = true;
}

void EffectRules::builtin(Builtin builtin, Location location) {
  const bool is_of_slot =
      builtin != Builtin::param && builtin != Builtin::lane && builtin != Builtin::lanes;
  if (is_of_slot) refuse_if_pure(location, fmt::format("uses {}", info(builtin).name));
}

void EffectRules::yield(std::string_view word, Location location) {
  effects_.can_yield = true;
  refuse_if_pure(location, fmt::format("uses {}", word));
}

void EffectRules::await(const Stmt& stmt) {
  effects_.can_await = true;
  if (stmt.kind == StmtKind::await_read &&
      refuse_if_commutes(stmt.location, "writes by one kind of atomic only, not by await read",
                         "drop commutes")) {
    return;
  }
  refuse_if_pure(stmt.location, "uses await");
}

void EffectRules::output_call(Function function, Location location) {
  (function == Function::printf ? effects_.prints : effects_.emits) = true;
  refuse_if_pure(location, fmt::format("uses {}", info(function).name));
}

}  // namespace everkernel::ir
