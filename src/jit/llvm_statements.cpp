// LLVM IR of one handler: its statements.
#include "jit/llvm_handler.hpp"
#include "jit/llvm_values.hpp"

namespace everkernel::jit {

using namespace ir;
using abi::FaultCode;
using llvm::BasicBlock;
using llvm::Value;

void LlvmHandlerCodegen::emit(BlockId id) {
  for (const StmtId stmt : body_[id].statements) emit(stmt);
}

void LlvmHandlerCodegen::emit(StmtId id) {
  const Stmt& stmt = body_[id];
  switch (stmt.kind) {
    case StmtKind::let_value:
    case StmtKind::let_variable:
    case StmtKind::assign_name: {
      const auto local = static_cast<std::size_t>(verified_.local(id));
      Value* value = emit(stmt.operands[0]);
      if (stmt.compound && stmt.kind == StmtKind::assign_name) {
        llvm::AllocaInst* const variable = locals_[local];
        Value* const before = builder_.CreateLoad(variable->getAllocatedType(), variable);
        value = emit_binary(builder_, *stmt.compound, verified_.locals[local].type, before, value,
                            /*cannot_wrap=*/false);
      }
      builder_.CreateStore(value, locals_[local]);
      return;
    }
    case StmtKind::assign_arg:
      return emit_assign_arg(stmt);
    case StmtKind::store:
      return emit_store(id, stmt);
    case StmtKind::branch:
      return emit_branch(stmt);
    case StmtKind::for_loop:
      return emit_for(id, stmt);
    case StmtKind::each_loop:
      return emit_each(id, stmt);
    case StmtKind::while_loop:
      return emit_while(stmt);
    case StmtKind::break_loop:
      return leave_to(loops_.back().on_break);
    case StmtKind::continue_loop:
      return leave_to(loops_.back().on_continue);
    case StmtKind::finish:
      return end(Ending::done);
    case StmtKind::yield:
      return end(Ending::yield);
    case StmtKind::requeue:
      return end(Ending::requeue);
    case StmtKind::fault: {
      Value* const n = builder_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, emit(stmt.operands[0]),
                                                      builder_.getInt32(abi::kMaxUserFault));
      return fault(builder_.CreateAdd(n, builder_.getInt32(abi::kFirstUserFault)));
    }
    case StmtKind::evaluate:
      emit(stmt.operands[0]);
      return;
    case StmtKind::await_read:
    case StmtKind::await_write:
      return emit_await(stmt);
    case StmtKind::declare_array:
      return emit_array(verified_.local(id));
    case StmtKind::store_element:
      return emit_element_store(verified_.local(id), stmt);
  }
}

void LlvmHandlerCodegen::emit_array(LocalId local) {
  const auto index = static_cast<std::size_t>(local);
  builder_.CreateMemSet(locals_[index], builder_.getInt8(0),
                        std::uint64_t{4} * verified_.locals[index].array_words, llvm::Align(4));
}

// The word of an array, after its check.
Value* LlvmHandlerCodegen::element(LocalId local, Value* index) {
  const auto number = static_cast<std::size_t>(local);
  fault_unless(
      builder_.CreateICmpULT(index, builder_.getInt32(verified_.locals[number].array_words)),
      [&] { return code(FaultCode::index_out_of_range); });
  return builder_.CreateInBoundsGEP(
      locals_[number]->getAllocatedType(), locals_[number],
      {builder_.getInt64(0), builder_.CreateZExt(index, builder_.getInt64Ty())});
}

void LlvmHandlerCodegen::emit_element_store(LocalId local, const Stmt& stmt) {
  const Type type = verified_.locals[static_cast<std::size_t>(local)].type;
  Value* const index = emit(stmt.operands[0]);
  if (!stmt.compound) {
    Value* const word = emit(stmt.operands[1]);
    builder_.CreateStore(word, element(local, index));
    return;
  }
  Value* const place = element(local, index);
  Value* const before = builder_.CreateLoad(llvm_type(context_, type), place);
  Value* const word = emit(stmt.operands[1]);
  builder_.CreateStore(emit_binary(builder_, *stmt.compound, type, before, word, false), place);
}

void LlvmHandlerCodegen::emit_assign_arg(const Stmt& stmt) {
  const auto check = [&](Value* index) {
    fault_unless(builder_.CreateICmpULT(index, builder_.getInt32(abi::kSlotArgs)),
                 [&] { return code(FaultCode::index_out_of_range); });
  };
  Value* const index = emit(stmt.operands[0]);
  if (!stmt.compound) {
    Value* const word = emit(stmt.operands[1]);
    check(index);
    builder_.CreateStore(word, arg_pointer(index));
    return;
  }
  check(index);
  Value* const before = builder_.CreateLoad(builder_.getInt32Ty(), arg_pointer(index));
  Value* const word = emit(stmt.operands[1]);
  builder_.CreateStore(emit_binary(builder_, *stmt.compound, Type::u32, before, word, false),
                       arg_pointer(index));
}

void LlvmHandlerCodegen::emit_store(StmtId id, const Stmt& stmt) {
  const bool is_proven = proven_.stores.contains(id);
  Value* const handle = handle_value(stmt.buffer);
  Value* const index = emit(stmt.operands[0], is_proven);
  if (!stmt.compound) {
    Value* const word = emit(stmt.operands[1]);
    Value* const pointer = place(stmt.buffer.kind, handle, index, memory::Access::write, is_proven);
    return store_word(stmt.buffer.kind, word, pointer);
  }
  Value* const pointer =
      place(stmt.buffer.kind, handle, index, memory::Access::read_write, is_proven);
  Value* const before = load_word(stmt.buffer.kind, pointer);
  Value* const word = emit(stmt.operands[1]);
  store_word(stmt.buffer.kind,
             emit_binary(builder_, *stmt.compound, Type::u32, before, word, false), pointer);
}

void LlvmHandlerCodegen::emit_branch(const Stmt& stmt) {
  Value* const condition = emit(stmt.operands[0]);
  BasicBlock* const then = block("then");
  BasicBlock* const otherwise = block("else");
  BasicBlock* const after = block("endif");
  builder_.CreateCondBr(condition, then, otherwise);
  builder_.SetInsertPoint(then);
  emit(stmt.body);
  builder_.CreateBr(after);
  builder_.SetInsertPoint(otherwise);
  if (stmt.otherwise) emit(*stmt.otherwise);
  builder_.CreateBr(after);
  builder_.SetInsertPoint(after);
}

void LlvmHandlerCodegen::emit_await(const Stmt& stmt) {
  const bool is_write = stmt.kind == StmtKind::await_write;
  constexpr std::size_t kFields[] = {offsetof(IoAsk, source), offsetof(IoAsk, block),
                                     offsetof(IoAsk, destination), offsetof(IoAsk, byte_count)};
  constexpr std::size_t kIo = offsetof(ItemFrame, io);
  builder_.CreateStore(builder_.getInt32(is_write ? 1 : 0),
                       frame_field(kIo + offsetof(IoAsk, is_write), "io.is_write"));
  for (std::size_t i = 0; i < 4; ++i) {
    Value* const value = emit(stmt.operands[i]);
    builder_.CreateStore(value, frame_field(kIo + kFields[i], "io"));
  }
  end(Ending::wait_io);
}

}  // namespace everkernel::jit
