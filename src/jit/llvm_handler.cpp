// LLVM IR of one handler: its function, the frame it reads, and the ways it ends.
#include "jit/llvm_handler.hpp"

#include <llvm/IR/MDBuilder.h>

#include "jit/llvm_values.hpp"

namespace everkernel::jit {

using namespace ir;
using abi::FaultCode;
using llvm::BasicBlock;
using llvm::Value;

namespace {

/// Whether other items may use the buffers of an item while it runs. A plan runs items of one
/// handler that commutes on one output at the same time; it orders all others.
bool shares_buffers(const Handler& handler, MemoryUse memory) {
  switch (memory) {
    case MemoryUse::shared:
      return true;
    case MemoryUse::exclusive:
      return false;
    case MemoryUse::planned:
      return handler.commutes;
  }
  return true;
}

}  // namespace

LlvmHandlerCodegen::LlvmHandlerCodegen(const VerifiedHandler& verified, MemoryUse memory,
                                       llvm::Module& module, const std::string& symbol)
    : verified_(verified),
      body_(verified.handler.body),
      has_shared_buffers_(shares_buffers(verified.handler, memory)),
      module_(module),
      context_(module.getContext()),
      builder_(context_) {
  llvm::Type* const pointer = llvm::PointerType::getUnqual(context_);
  auto* const type = llvm::FunctionType::get(builder_.getInt32Ty(), {pointer}, false);
  function_ = llvm::Function::Create(type, llvm::Function::ExternalLinkage, symbol, module_);
  function_->setDoesNotThrow();
  entry_ = block("entry");
}

void LlvmHandlerCodegen::run() {
  emit_prologue();
  emit(body_.root);
  end(Ending::done);
  builder_.CreateUnreachable();
  emit_exits();
}

// ---- frame ----

Value* LlvmHandlerCodegen::frame_field(std::size_t offset, const char* name) {
  return builder_.CreateConstInBoundsGEP1_64(builder_.getInt8Ty(), frame_, offset, name);
}

Value* LlvmHandlerCodegen::load_frame_word(std::size_t offset, const char* name) {
  return builder_.CreateLoad(builder_.getInt32Ty(), frame_field(offset, name), name);
}

llvm::AllocaInst* LlvmHandlerCodegen::slot(llvm::Type* type, const char* name) {
  llvm::IRBuilder<> at_entry(entry_, entry_->begin());
  return at_entry.CreateAlloca(type, nullptr, name);
}

void LlvmHandlerCodegen::emit_prologue() {
  builder_.SetInsertPoint(entry_);
  llvm::Type* const i32 = builder_.getInt32Ty();
  llvm::Type* const pointer = builder_.getPtrTy();
  frame_ = function_->getArg(0);
  ending_ = slot(i32, "ending");
  code_ = slot(i32, "code");
  fuel_ = slot(builder_.getInt64Ty(), "fuel");
  lane_ = slot(i32, "lane");
  args_type_ = llvm::ArrayType::get(i32, abi::kSlotArgs);
  args_ = slot(args_type_, "args");
  for (const Local& local : verified_.locals) {
    llvm::Type* const type = llvm_type(context_, local.type);
    if (local.array_words > 0) {
      locals_.push_back(
          slot(llvm::ArrayType::get(type, local.array_words), body_[local.name].c_str()));
      continue;
    }
    locals_.push_back(slot(type, body_[local.name].c_str()));
    builder_.CreateStore(llvm::Constant::getNullValue(type), locals_.back());
  }
  builder_.CreateMemCpy(args_, llvm::Align(4), frame_field(offsetof(ItemFrame, args), "frame.args"),
                        llvm::Align(8), sizeof(ItemFrame::args));
  builder_.CreateStore(builder_.getInt32(0), lane_);
  builder_.CreateStore(builder_.getInt32(0), code_);
  builder_.CreateStore(builder_.CreateLoad(builder_.getInt64Ty(),
                                           frame_field(offsetof(ItemFrame, fuel), "frame.fuel")),
                       fuel_);
  tenant_ = load_frame_word(offsetof(ItemFrame, tenant), "tenant");
  lanes_ = builder_.CreateBinaryIntrinsic(llvm::Intrinsic::umax, builder_.getInt32(1),
                                          load_frame_word(offsetof(ItemFrame, lanes), "lanes"));
  control_words_ = load_frame_word(offsetof(ItemFrame, control_words), "control_words");
  control_ = builder_.CreateLoad(pointer, frame_field(offsetof(ItemFrame, control), "f.control"));
  constexpr std::size_t kTable = offsetof(ItemFrame, buffers);
  table_entries_ = builder_.CreateLoad(pointer, frame_field(kTable, "f.entries"), "entries");
  table_mask_ = load_frame_word(kTable + offsetof(memory::BufferTableView, mask), "mask");
  // Without an abort word, loops poll a constant zero: they then need no branch for it.
  auto* const zero = new llvm::GlobalVariable(module_, i32, true, llvm::GlobalValue::PrivateLinkage,
                                              builder_.getInt32(0), "never");
  Value* const asked =
      builder_.CreateLoad(pointer, frame_field(offsetof(ItemFrame, abort), "f.abort"));
  abort_ = builder_.CreateSelect(builder_.CreateIsNull(asked), zero, asked, "abort");
  finish_block_ = block("finish");
  fault_block_ = block("fault");
  // input and output are looked up once if their handles cannot change. A bad handle faults where
  // the buffer is used, not here.
  if (is_fixed(BufferKind::input)) input_ = resolve(builder_.CreateLoad(i32, args_));
  if (is_fixed(BufferKind::output)) {
    output_ = resolve(builder_.CreateLoad(i32, arg_pointer(builder_.getInt32(1))));
  }
}

void LlvmHandlerCodegen::emit_exits() {
  builder_.SetInsertPoint(fault_block_);
  Value* const fault_code = builder_.CreateLoad(builder_.getInt32Ty(), code_);
  Value* const packed_fault = builder_.CreateOr(
      builder_.CreateShl(fault_code, 8), builder_.getInt32(static_cast<Word>(Ending::fault)));
  builder_.CreateStore(packed_fault, ending_);
  builder_.CreateBr(finish_block_);

  builder_.SetInsertPoint(finish_block_);
  if (verified_.effects.writes_args) {
    builder_.CreateMemCpy(frame_field(offsetof(ItemFrame, args), "frame.args"), llvm::Align(8),
                          args_, llvm::Align(4), sizeof(ItemFrame::args));
  }
  builder_.CreateStore(builder_.CreateLoad(builder_.getInt64Ty(), fuel_),
                       frame_field(offsetof(ItemFrame, fuel), "frame.fuel"));
  builder_.CreateRet(builder_.CreateLoad(builder_.getInt32Ty(), ending_));
}

// ---- endings ----

void LlvmHandlerCodegen::end(Ending ending) {
  if (!loops_.empty() && loops_.back().paid_turns != nullptr) give_back_fuel(loops_.back());
  builder_.CreateStore(builder_.getInt32(static_cast<Word>(ending)), ending_);
  leave_to(finish_block_);
}

void LlvmHandlerCodegen::leave_to(BasicBlock* target) {
  builder_.CreateBr(target);
  builder_.SetInsertPoint(block("unreachable"));  // statements behind it never run
}

void LlvmHandlerCodegen::fault(Value* fault_code) {
  builder_.CreateStore(fault_code, code_);
  leave_to(fault_block_);
}

void LlvmHandlerCodegen::branch_likely(Value* condition, BasicBlock* likely, BasicBlock* unlikely) {
  llvm::MDBuilder metadata(context_);
  builder_.CreateCondBr(condition, likely, unlikely, metadata.createBranchWeights(1 << 20, 1));
}

void LlvmHandlerCodegen::fault_unless(Value* condition, const std::function<Value*()>& fault_code) {
  BasicBlock* const passed = block("ok");
  BasicBlock* const failed = block("bad");
  branch_likely(condition, passed, failed);
  builder_.SetInsertPoint(failed);
  builder_.CreateStore(fault_code(), code_);
  builder_.CreateBr(fault_block_);
  builder_.SetInsertPoint(passed);
}

}  // namespace everkernel::jit
