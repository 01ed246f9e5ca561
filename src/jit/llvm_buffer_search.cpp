// The same search as memory::BufferTableView::find(), in LLVM IR.
#include "jit/llvm_buffer_search.hpp"

#include <llvm/IR/IRBuilder.h>

#include "everkernel/memory/buffer_table.hpp"

namespace everkernel::jit {

using llvm::BasicBlock;
using llvm::Value;

namespace {

// An entry of zeros, for handles that name no buffer: its handle and its length are 0.
llvm::GlobalVariable* no_buffer(llvm::Module& module) {
  if (llvm::GlobalVariable* const made = module.getNamedGlobal("no_buffer")) return made;
  auto* const type = llvm::ArrayType::get(llvm::Type::getInt64Ty(module.getContext()),
                                          sizeof(memory::BufferEntry) / 8);
  auto* const zeros =
      new llvm::GlobalVariable(module, type, true, llvm::GlobalValue::InternalLinkage,
                               llvm::Constant::getNullValue(type), "no_buffer");
  zeros->setAlignment(llvm::Align(alignof(memory::BufferEntry)));
  return zeros;
}

}  // namespace

llvm::Function* find_buffer_function(llvm::Module& module) {
  if (llvm::Function* const made = module.getFunction("find_buffer")) return made;
  llvm::LLVMContext& context = module.getContext();
  llvm::Type* const i32 = llvm::Type::getInt32Ty(context);
  llvm::Type* const pointer = llvm::PointerType::getUnqual(context);
  auto* const type = llvm::FunctionType::get(pointer, {pointer, i32, i32}, false);
  auto* const find =
      llvm::Function::Create(type, llvm::Function::InternalLinkage, "find_buffer", module);
  find->setDoesNotThrow();
  find->setDoesNotAccessMemory();
  find->addFnAttr(llvm::Attribute::NoInline);
  find->addFnAttr(llvm::Attribute::WillReturn);
  find->addFnAttr(llvm::Attribute::Speculatable);
  find->addRetAttr(llvm::Attribute::NonNull);
  find->addRetAttr(llvm::Attribute::NoUndef);
  find->addRetAttr(
      llvm::Attribute::getWithDereferenceableBytes(context, sizeof(memory::BufferEntry)));
  llvm::IRBuilder<> build(BasicBlock::Create(context, "entry", find));
  Value* const entries = find->getArg(0);
  Value* const mask = find->getArg(1);
  Value* const handle = find->getArg(2);
  BasicBlock* const entry = build.GetInsertBlock();
  BasicBlock* const probe = BasicBlock::Create(context, "probe", find);
  BasicBlock* const miss = BasicBlock::Create(context, "miss", find);
  BasicBlock* const hit = BasicBlock::Create(context, "hit", find);
  BasicBlock* const next = BasicBlock::Create(context, "next", find);
  BasicBlock* const none = BasicBlock::Create(context, "none", find);
  Value* const mixed =
      build.CreateLShr(build.CreateMul(handle, build.getInt32(0x9E3779B1u)), build.getInt32(7));
  Value* const home = build.CreateAnd(mixed, mask);
  Value* const is_nothing =
      build.CreateOr(build.CreateIsNull(entries), build.CreateICmpEQ(handle, build.getInt32(0)));
  build.CreateCondBr(is_nothing, none, probe);
  build.SetInsertPoint(probe);
  llvm::PHINode* const at = build.CreatePHI(i32, 2);
  at->addIncoming(home, entry);
  Value* const offset = build.CreateMul(build.CreateZExt(at, build.getInt64Ty()),
                                        build.getInt64(sizeof(memory::BufferEntry)));
  Value* const place = build.CreateInBoundsGEP(build.getInt8Ty(), entries, offset);
  Value* const found =
      build.CreateLoad(i32, build.CreateConstInBoundsGEP1_64(
                                build.getInt8Ty(), place, offsetof(memory::BufferEntry, handle)));
  build.CreateCondBr(build.CreateICmpEQ(found, handle), hit, miss);
  build.SetInsertPoint(miss);
  build.CreateCondBr(build.CreateICmpEQ(found, build.getInt32(0)), none, next);
  build.SetInsertPoint(next);
  at->addIncoming(build.CreateAnd(build.CreateAdd(at, build.getInt32(1)), mask), next);
  build.CreateBr(probe);
  build.SetInsertPoint(hit);
  build.CreateRet(place);
  build.SetInsertPoint(none);
  build.CreateRet(no_buffer(module));
  return find;
}

}  // namespace everkernel::jit
