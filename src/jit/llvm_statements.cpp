// LLVM IR of one handler: its statements.
#include "jit/llvm_handler.hpp"

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
      Value* const value = emit(stmt.operands[0]);
      builder_.CreateStore(value, locals_[static_cast<std::size_t>(verified_.local(id))]);
      return;
    }
    case StmtKind::assign_arg: {
      Value* const index = emit(stmt.operands[0]);
      Value* const word = emit(stmt.operands[1]);
      fault_unless(builder_.CreateICmpULT(index, builder_.getInt32(abi::kSlotArgs)),
                   [&] { return code(FaultCode::index_out_of_range); });
      builder_.CreateStore(word, arg_pointer(index));
      return;
    }
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
  }
}

void LlvmHandlerCodegen::emit_store(StmtId id, const Stmt& stmt) {
  const bool is_proven = proven_.stores.contains(id);
  Value* const handle = handle_value(stmt.buffer);
  Value* const index = emit(stmt.operands[0], is_proven);
  Value* const word = emit(stmt.operands[1]);
  Value* const pointer = place(stmt.buffer.kind, handle, index, memory::Access::write, is_proven);
  store_word(stmt.buffer.kind, word, pointer);
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
