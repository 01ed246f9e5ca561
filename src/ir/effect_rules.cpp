// One rule a function: `pure` reads input and param and writes output, `commutes` writes by one
// kind of atomic and does not look at the results.
#include "ir/effect_rules.hpp"

#include <fmt/format.h>

#include "everkernel/ir/detail/vocabulary_tables.hpp"
#include "ir/diagnostic.hpp"

namespace everkernel::ir {

Failure EffectRules::wrong(Location location, std::string_view what, std::string hint) const {
  return mistake(location, handler_.name, what, std::move(hint));
}

Result<void> EffectRules::refuse_if_pure(Location location, std::string_view what) const {
  if (!handler_.is_pure) return {};
  return wrong(location, fmt::format("a pure handler {}", what),
               "a pure handler reads input and param and writes output; drop pure if it does more");
}

void EffectRules::note_read(const BufferRef& buffer) {
  effects_.reads_input |= buffer.kind == BufferKind::input;
  effects_.reads_output |= buffer.kind == BufferKind::output;
  effects_.reads_control |= buffer.kind == BufferKind::control;
}

Result<void> EffectRules::load(const BufferRef& buffer, Location location) {
  note_read(buffer);
  if (buffer.kind == BufferKind::output) {
    EVERKERNEL_TRY(refuse_if_pure(location, "reads output, which it writes"));
    if (handler_.commutes) {
      return wrong(location,
                   "a commutes handler reads output: the word depends on the order of items",
                   "read input instead, or drop commutes");
    }
  }
  if (buffer.kind == BufferKind::input) return {};
  return refuse_if_pure(location, "reads other buffers than input");
}

Result<void> EffectRules::write(const BufferRef& buffer, Location location) {
  effects_.writes_input |= buffer.kind == BufferKind::input;
  effects_.writes_output |= buffer.kind == BufferKind::output;
  effects_.writes_control |= buffer.kind == BufferKind::control;
  if (buffer.kind == BufferKind::output) return {};
  return refuse_if_pure(location, "writes other buffers than output");
}

Result<void> EffectRules::store(const BufferRef& buffer, Location location) {
  if (handler_.commutes) {
    return wrong(location, "a commutes handler writes by one kind of atomic only, not by stores",
                 "use atomic_add or another atomic, or drop commutes");
  }
  return write(buffer, location);
}

Result<void> EffectRules::atomic(const Expr& expr, bool result_is_used) {
  const AtomicOpInfo& op = info(expr.atomic);
  EVERKERNEL_TRY(write(expr.buffer, expr.location));
  note_read(expr.buffer);
  if (!op.is_idempotent) {
    EVERKERNEL_TRY(refuse_if_pure(expr.location, fmt::format("uses {}", op.name)));
  }
  if (result_is_used) {
    EVERKERNEL_TRY(refuse_if_pure(expr.location, "uses the result of an atomic"));
  }
  if (!handler_.commutes) return {};
  if (result_is_used) {
    return wrong(
        expr.location,
        "a commutes handler uses the result of an atomic: it depends on the order of items",
        "make the atomic a statement of its own, or drop commutes");
  }
  if (!op.commutes || (commuting_op_ && *commuting_op_ != expr.atomic)) {
    return wrong(expr.location,
                 fmt::format("a commutes handler writes by one kind of atomic only, not by {}{}",
                             op.name, op.commutes ? " as well" : ""),
                 "add, min, max, and, or, xor commute, each with itself");
  }
  commuting_op_ = expr.atomic;
  return {};
}

Result<void> EffectRules::length(const BufferRef& buffer, Location location) {
  if (buffer.kind == BufferKind::input || buffer.kind == BufferKind::output) return {};
  return refuse_if_pure(location, "touches other buffers than input and output");
}

Result<void> EffectRules::load_arg(const Expr& index, Location location) {
  const bool is_param = index.kind == ExprKind::literal && index.bits == 2;
  if (is_param) return {};
  return refuse_if_pure(location, "reads args other than param");
}

Result<void> EffectRules::store_arg(Location location) {
  EVERKERNEL_TRY(refuse_if_pure(location, "writes to args"));
  if (handler_.commutes) {
    return wrong(location, "a commutes handler writes by one kind of atomic only, not to args");
  }
  effects_.writes_args = true;
  return {};
}

void EffectRules::store_arg_at(const Expr& index) {
  if (index.kind != ExprKind::literal || index.bits < 2) effects_.moves_buffers = true;
}

Result<void> EffectRules::builtin(Builtin builtin, Location location) {
  const bool is_of_slot =
      builtin != Builtin::param && builtin != Builtin::lane && builtin != Builtin::lanes;
  if (!is_of_slot) return {};
  return refuse_if_pure(location, fmt::format("uses {}", info(builtin).name));
}

Result<void> EffectRules::yield(std::string_view word, Location location) {
  effects_.can_yield = true;
  return refuse_if_pure(location, fmt::format("uses {}", word));
}

Result<void> EffectRules::await(const Stmt& stmt) {
  effects_.can_await = true;
  if (handler_.commutes && stmt.kind == StmtKind::await_read) {
    return wrong(stmt.location,
                 "a commutes handler writes by one kind of atomic only, not by await read");
  }
  return refuse_if_pure(stmt.location, "uses await");
}

Result<void> EffectRules::output_call(Function function, Location location) {
  (function == Function::printf ? effects_.prints : effects_.emits) = true;
  return refuse_if_pure(location, fmt::format("uses {}", info(function).name));
}

}  // namespace everkernel::ir
