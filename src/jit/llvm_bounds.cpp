// Which index checks of an innermost loop can be made once for a chunk of turns.
//
// For every access in the loop whose buffer is known before it, an upper bound of the index is
// computed that holds for all turns of the chunk. If every bound lies inside its buffer, the chunk
// runs without those checks; otherwise it runs with them, and faults at the turn that it should.
#include "jit/llvm_handler.hpp"

namespace everkernel::jit {

using namespace ir;
using abi::FaultCode;
using llvm::BasicBlock;
using llvm::Value;

// A condition that is true at run time if every access whose index has a bound stays inside its
// buffer for the whole chunk; null if no index has a bound. Adds those accesses to `proven`.
Value* LlvmHandlerCodegen::chunk_is_safe(const Stmt& stmt, const Chunk& chunk,
                                         ProvenAccesses& proven) {
  // A signed counter may be negative and is then huge as an index: it has no useful bound.
  if (verified_.type(stmt.operands[0]) != Type::u32) return nullptr;
  definition_bounds_.clear();
  Value* is_safe = nullptr;
  const auto require = [&](ExprId index, Value* limit) {
    Value* const bound = upper_bound(index, chunk);
    if (bound == nullptr) return false;
    Value* const fits =
        builder_.CreateICmpULT(bound, builder_.CreateZExt(limit, builder_.getInt64Ty()));
    is_safe = is_safe == nullptr ? fits : builder_.CreateAnd(is_safe, fits);
    return true;
  };
  for (const ExprId id : chunk.facts.accesses) {
    const Expr& expr = body_[id];
    const bool is_control = expr.buffer.kind == BufferKind::control && expr.kind == ExprKind::load;
    if (!is_fixed(expr.buffer.kind) && !is_control) continue;
    Value* limit = control_words_;
    if (!is_control) {
      const ResolvedBuffer buffer = resolved(expr.buffer.kind, nullptr);
      limit = expr.kind == ExprKind::load ? buffer.readable : buffer.updatable;
    }
    if (require(expr.operands[0], limit)) proven.loads.insert(id);
  }
  for (const StmtId id : chunk.facts.stores) {
    const Stmt& store = body_[id];
    if (!is_fixed(store.buffer.kind)) continue;
    const ResolvedBuffer buffer = resolved(store.buffer.kind, nullptr);
    Value* const limit = store.compound ? buffer.updatable : buffer.writable;
    if (require(store.operands[0], limit)) proven.stores.insert(id);
  }
  return is_safe;
}

// A 64-bit upper bound of the u32 expression in all turns of the chunk; null if none is known. Sums
// and products of bounds saturate. An expression that wraps in 32 bits only gets smaller, so that
// the bound still holds.
Value* LlvmHandlerCodegen::upper_bound(ExprId id, const Chunk& chunk) {
  llvm::Type* const i64 = builder_.getInt64Ty();
  if (verified_.type(id) != Type::u32) return nullptr;
  const Expr& expr = body_[id];
  const auto bound = [&](ExprId operand) { return upper_bound(operand, chunk); };
  switch (expr.kind) {
    case ExprKind::literal:
      return builder_.getInt64(expr.bits);
    case ExprKind::name: {
      const LocalId local = verified_.local(id);
      if (local == chunk.counter) return builder_.CreateZExt(chunk.last_counter, i64);
      if (chunk.facts.assigned.contains(local)) return nullptr;
      const auto definition = chunk.facts.definitions.find(local);
      if (definition != chunk.facts.definitions.end()) {
        const auto known = definition_bounds_.find(local);
        if (known != definition_bounds_.end()) return known->second;
        return definition_bounds_[local] = bound(definition->second);
      }
      if (chunk.facts.declared.contains(local)) return nullptr;
      return builder_.CreateZExt(
          builder_.CreateLoad(builder_.getInt32Ty(), locals_[static_cast<std::size_t>(local)]),
          i64);
    }
    case ExprKind::builtin:
      if (expr.builtin == Builtin::param && verified_.effects.writes_args) return nullptr;
      if (expr.builtin == Builtin::lane) return builder_.CreateZExt(lanes_, i64);
      return builder_.CreateZExt(emit_given(expr.builtin), i64);
    case ExprKind::binary:
      return upper_bound_binary(expr, chunk);
    case ExprKind::call: {
      if (expr.function == Function::select) {
        Value* const b = bound(expr.operands[1]);
        Value* const c = bound(expr.operands[2]);
        if (b == nullptr || c == nullptr) return nullptr;
        return builder_.CreateBinaryIntrinsic(llvm::Intrinsic::umax, b, c);
      }
      if (expr.function != Function::min) return nullptr;
      Value* const a = bound(expr.operands[0]);
      Value* const b = bound(expr.operands[1]);
      if (a == nullptr || b == nullptr) return a == nullptr ? b : a;
      return builder_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, a, b);
    }
    case ExprKind::arg:
    case ExprKind::load:
    case ExprKind::length:
    case ExprKind::unary:
    case ExprKind::atomic:
    case ExprKind::element:
    case ExprKind::user_call:
      return nullptr;
    case ExprKind::bind:
      return bound(expr.operands[1]);
  }
  return nullptr;
}

Value* LlvmHandlerCodegen::upper_bound_binary(const Expr& expr, const Chunk& chunk) {
  Value* const a = upper_bound(expr.operands[0], chunk);
  Value* const b = upper_bound(expr.operands[1], chunk);
  const auto constant = [&](ExprId id) -> std::optional<Word> {
    if (body_[id].kind != ExprKind::literal) return std::nullopt;
    return body_[id].bits;
  };
  switch (expr.binary) {
    case BinaryOp::add:
      if (a == nullptr || b == nullptr) return nullptr;
      return builder_.CreateBinaryIntrinsic(llvm::Intrinsic::uadd_sat, a, b);
    case BinaryOp::multiply: {
      // Two factors below 2^32 cannot overflow; for larger bounds the result is unbounded.
      if (a == nullptr || b == nullptr) return nullptr;
      Value* const limit = builder_.getInt64(0xFFFFFFFFu);
      Value* const is_small =
          builder_.CreateAnd(builder_.CreateICmpULE(a, limit), builder_.CreateICmpULE(b, limit));
      return builder_.CreateSelect(is_small, builder_.CreateMul(a, b),
                                   builder_.getInt64(~std::uint64_t{0}));
    }
    case BinaryOp::bit_and:
    case BinaryOp::remainder:  // x % y is at most x, and at most y; x % 0 is 0
      if (a == nullptr || b == nullptr) return a == nullptr ? b : a;
      return builder_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, a, b);
    case BinaryOp::divide:
      return a;  // x / 0 is x
    case BinaryOp::shift_right: {
      const auto count = constant(expr.operands[1]);
      if (a == nullptr || !count) return a;
      return builder_.CreateLShr(a, builder_.getInt64(*count & 31));
    }
    default:
      return nullptr;
  }
}

}  // namespace everkernel::jit
