// LLVM IR of one handler: its expressions. llvm_values.hpp has the operators.
#include "jit/llvm_handler.hpp"
#include "jit/llvm_numbers.hpp"
#include "jit/llvm_values.hpp"

namespace everkernel::jit {

using namespace ir;
using abi::FaultCode;
using llvm::BasicBlock;
using llvm::Value;

Value* LlvmHandlerCodegen::arg_pointer(Value* index) {
  return builder_.CreateInBoundsGEP(
      args_type_, args_, {builder_.getInt64(0), builder_.CreateZExt(index, builder_.getInt64Ty())});
}

// With `cannot_wrap` the value is an index that is known to lie inside its buffer. Its terms and
// factors then do not wrap either, so that LLVM may compute them in 64 bits.
Value* LlvmHandlerCodegen::emit(ExprId id, bool cannot_wrap) {
  const Expr& expr = body_[id];
  llvm::Type* const type = llvm_type(context_, verified_.type(id));
  switch (expr.kind) {
    case ExprKind::literal:
      if (expr.type == Type::f32) {
        return builder_.CreateBitCast(builder_.getInt32(expr.bits), type);
      }
      return llvm::ConstantInt::get(type, expr.bits);
    case ExprKind::name:
      return builder_.CreateLoad(type, locals_[static_cast<std::size_t>(verified_.local(id))]);
    case ExprKind::builtin:
      return emit_given(expr.builtin);
    case ExprKind::arg: {
      Value* const index = emit(expr.operands[0]);
      fault_unless(builder_.CreateICmpULT(index, builder_.getInt32(abi::kSlotArgs)),
                   [&] { return code(FaultCode::index_out_of_range); });
      return builder_.CreateLoad(type, arg_pointer(index));
    }
    case ExprKind::load: {
      const bool is_proven = proven_.loads.contains(id);
      Value* const handle = handle_value(expr.buffer);
      Value* const index = emit(expr.operands[0], is_proven);
      return load_word(expr.buffer.kind,
                       place(expr.buffer.kind, handle, index, memory::Access::read, is_proven));
    }
    case ExprKind::element: {
      Value* const index = emit(expr.operands[0]);
      return builder_.CreateLoad(llvm_type(context_, verified_.type(id)),
                                 element(verified_.local(id), index));
    }
    case ExprKind::length:
      return emit_length(expr);
    case ExprKind::unary:
      return emit_unary(builder_, expr.unary, verified_.type(expr.operands[0]),
                        emit(expr.operands[0]));
    case ExprKind::binary: {
      if (expr.binary == BinaryOp::logical_and || expr.binary == BinaryOp::logical_or) {
        return emit_logical(expr);
      }
      const bool is_sum = expr.binary == BinaryOp::add || expr.binary == BinaryOp::multiply;
      Value* left = emit(expr.operands[0], cannot_wrap && is_sum);
      Value* right = emit(expr.operands[1], cannot_wrap && is_sum);
      if (verified_.type(id) == Type::boolean) hide_one(expr, left, right);
      return emit_binary(builder_, expr.binary, verified_.type(expr.operands[0]), left, right,
                         cannot_wrap);
    }
    case ExprKind::call:
      return emit_function(expr);
    case ExprKind::atomic:
      return emit_atomic(id, expr);
    case ExprKind::bind: {
      Value* const value = emit(expr.operands[0]);
      builder_.CreateStore(value, locals_[static_cast<std::size_t>(verified_.local(id))]);
      return emit(expr.operands[1], cannot_wrap);
    }
    case ExprKind::user_call:
      break;  // no verified handler has one
  }
  return nullptr;
}

Value* LlvmHandlerCodegen::emit_given(Builtin builtin) {
  switch (builtin) {
    case Builtin::opcode:
      return load_frame_word(offsetof(ItemFrame, opcode), "opcode");
    case Builtin::tenant:
      return tenant_;
    case Builtin::priority:
      return load_frame_word(offsetof(ItemFrame, priority), "priority");
    case Builtin::slot:
      return load_frame_word(offsetof(ItemFrame, slot), "slot");
    case Builtin::param:
      return builder_.CreateLoad(builder_.getInt32Ty(), arg_pointer(builder_.getInt32(2)), "param");
    case Builtin::lane:
      return builder_.CreateLoad(builder_.getInt32Ty(), lane_);
    case Builtin::lanes:
      return lanes_;
  }
  return nullptr;
}

Value* LlvmHandlerCodegen::emit_logical(const Expr& expr) {
  const bool is_and = expr.binary == BinaryOp::logical_and;
  Value* const left = emit(expr.operands[0]);
  BasicBlock* const left_end = builder_.GetInsertBlock();
  BasicBlock* const right_start = block("logical");
  BasicBlock* const after = block("logical.end");
  builder_.CreateCondBr(left, is_and ? right_start : after, is_and ? after : right_start);
  builder_.SetInsertPoint(right_start);
  Value* const right = emit(expr.operands[1]);
  BasicBlock* const right_end = builder_.GetInsertBlock();
  builder_.CreateBr(after);
  builder_.SetInsertPoint(after);
  llvm::PHINode* const result = builder_.CreatePHI(builder_.getInt1Ty(), 2);
  result->addIncoming(builder_.getInt1(!is_and), left_end);
  result->addIncoming(right, right_end);
  return result;
}

Value* LlvmHandlerCodegen::emit_function(const Expr& expr) {
  if (expr.function == Function::printf) {
    call_hook("everkernel_print", expr);
    return nullptr;
  }
  if (expr.function == Function::emit) {
    call_hook("everkernel_emit", expr);
    return nullptr;
  }
  Value* values[3] = {};
  for (std::size_t i = 0; i < expr.operand_count; ++i) values[i] = emit(expr.operands[i]);
  if (is_number_function(expr.function)) {
    llvm::CallInst* const call =
        builder_.CreateCall(number_function(module_, expr.function),
                            llvm::ArrayRef<Value*>(values).take_front(expr.operand_count));
    const bool is_inlined = number_calls_++ < kMostInlinedNumberCalls;
    call->addFnAttr(is_inlined ? llvm::Attribute::AlwaysInline : llvm::Attribute::NoInline);
    return call;
  }
  if (expr.function == Function::min || expr.function == Function::max ||
      expr.function == Function::clamp) {
    hide_one(expr, values[0], values[1]);
  }
  // clamp has a second comparison; its left side is computed.
  if (expr.function == Function::clamp && values[2]->getType()->isFloatTy()) {
    values[2] = hidden(builder_, values[2]);
  }
  return emit_call(builder_, expr.function, verified_.type(expr.operands[0]), values[0], values[1],
                   values[2]);
}

// Hides one of two floats that are compared from LLVM's optimiser. Hiding a constant costs nothing
// in a loop; hiding a variable that is carried from turn to turn lengthens every turn.
void LlvmHandlerCodegen::hide_one(const Expr& expr, Value*& left, Value*& right) {
  if (!left->getType()->isFloatTy()) return;
  const auto cost = [&](const Value* value, ExprId id) {
    if (llvm::isa<llvm::Constant>(value)) return 0;
    if (body_[id].kind != ExprKind::name) return 1;
    return verified_.locals[static_cast<std::size_t>(verified_.local(id))].is_variable ? 2 : 1;
  };
  const bool hides_left = cost(left, expr.operands[0]) < cost(right, expr.operands[1]);
  Value*& chosen = hides_left ? left : right;
  chosen = hidden(builder_, chosen);
}

void LlvmHandlerCodegen::call_hook(const char* name, const Expr& expr) {
  Value* values[3];
  for (std::size_t i = 0; i < 3; ++i) values[i] = emit(expr.operands[i]);
  llvm::Type* const i32 = builder_.getInt32Ty();
  auto* const type =
      llvm::FunctionType::get(builder_.getVoidTy(), {builder_.getPtrTy(), i32, i32, i32}, false);
  builder_.CreateCall(module_.getOrInsertFunction(name, type),
                      {frame_, values[0], values[1], values[2]});
}

Value* LlvmHandlerCodegen::emit_length(const Expr& expr) {
  Value* const handle = handle_value(expr.buffer);
  if (expr.buffer.kind == BufferKind::control) return control_words_;
  const ResolvedBuffer buffer = resolved(expr.buffer.kind, handle);
  fault_unless(buffer.is_usable, [&] { return access_code(buffer, 0); });
  return buffer.word_count;
}

Value* LlvmHandlerCodegen::emit_atomic(ExprId id, const Expr& expr) {
  const bool is_proven = proven_.loads.contains(id);
  Value* const handle = handle_value(expr.buffer);
  Value* const index = emit(expr.operands[0], is_proven);
  Value* const value = emit(expr.operands[1]);
  Value* const desired = expr.operand_count > 2 ? emit(expr.operands[2]) : nullptr;
  Value* const pointer =
      place(expr.buffer.kind, handle, index, memory::Access::read_write, is_proven);
  if (!is_shared(expr.buffer.kind)) {
    Value* const before = load_word(expr.buffer.kind, pointer);
    store_word(expr.buffer.kind, emit_plain_atomic(builder_, expr.atomic, before, value, desired),
               pointer);
    return before;
  }
  return emit_shared_atomic(builder_, expr.atomic, pointer, value, desired);
}

}  // namespace everkernel::jit
