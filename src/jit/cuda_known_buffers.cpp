// One walk over a handler for its buffers; cuda_expressions.cpp emits the lookups.
#include "jit/cuda_known_buffers.hpp"

#include <fmt/format.h>

#include "ir/walk.hpp"
#include "jit/cuda_values.hpp"
#include "jit/handler_facts.hpp"

namespace everkernel::jit {

using namespace ir;
using abi::Word;

namespace {

/// Buffers that are looked up at the entry. Further ones are looked up at each use: every one at
/// the entry costs time and registers even where the handler does not use it.
constexpr std::size_t kMaxBuffersAtEntry = 8;

}  // namespace

KnownBuffers::KnownBuffers(const VerifiedHandler& handler)
    : handler_(handler), body_(handler.handler.body) {
  for_each_node(
      body_, body_.root,
      [&](StmtId id) {
        if (body_[id].kind == StmtKind::store) add(body_[id].buffer);
      },
      [&](ExprId id) {
        if (has_buffer(body_[id].kind)) add(body_[id].buffer);
      });
}

void KnownBuffers::add(const BufferRef& buffer) {
  if (buffer.kind == BufferKind::handle && body_[buffer.handle].kind == ExprKind::name) {
    const LocalId local = handler_.local(buffer.handle);
    const bool is_variable = handler_.locals[static_cast<std::size_t>(local)].is_variable;
    if (!is_variable) handle_locals_.insert(local);
  }
  const auto handle = entry_handle(buffer);
  if (!handle || at_entry_.size() >= kMaxBuffersAtEntry) return;
  at_entry_.emplace(*handle, fmt::format("b{}", at_entry_.size()));
}

// The handle of a buffer, if it is known at the entry.
std::optional<EntryHandle> KnownBuffers::entry_handle(const BufferRef& buffer) const {
  switch (buffer.kind) {
    case BufferKind::input:
      return EntryHandle{EntryHandle::Kind::arg, 0};
    case BufferKind::output:
      return EntryHandle{EntryHandle::Kind::arg, 1};
    case BufferKind::control:
      return std::nullopt;
    case BufferKind::handle:
      break;
  }
  const Expr& expr = body_[buffer.handle];
  if (expr.kind == ExprKind::literal) return EntryHandle{EntryHandle::Kind::literal, expr.bits};
  if (expr.kind == ExprKind::builtin && expr.builtin == Builtin::param) {
    return EntryHandle{EntryHandle::Kind::arg, 2};
  }
  if (expr.kind != ExprKind::arg) return std::nullopt;
  const auto index = constant_arg(body_, expr.operands[0]);
  if (!index) return std::nullopt;
  return EntryHandle{EntryHandle::Kind::arg, *index};
}

std::optional<std::string> KnownBuffers::find(const BufferRef& buffer) const {
  if (buffer.kind == BufferKind::handle && body_[buffer.handle].kind == ExprKind::name &&
      is_handle(handler_.local(buffer.handle))) {
    return fmt::format("{}_buffer", cuda_local(handler_.local(buffer.handle)));
  }
  const auto handle = entry_handle(buffer);
  if (!handle) return std::nullopt;
  const auto found = at_entry_.find(*handle);
  if (found == at_entry_.end()) return std::nullopt;
  return found->second;
}

}  // namespace everkernel::jit
