// LLVM IR of one handler: buffers, control words, and the checks in front of every access.
#include "everkernel/abi/control.hpp"
#include "jit/llvm_buffer_search.hpp"
#include "jit/llvm_handler.hpp"

namespace everkernel::jit {

using namespace ir;
using abi::FaultCode;
using llvm::BasicBlock;
using llvm::Value;

Value* LlvmHandlerCodegen::handle_value(const BufferRef& buffer) {
  switch (buffer.kind) {
    case BufferKind::input:
      return builder_.CreateLoad(builder_.getInt32Ty(), args_);
    case BufferKind::output:
      return builder_.CreateLoad(builder_.getInt32Ty(), arg_pointer(builder_.getInt32(1)));
    case BufferKind::handle:
      return emit(buffer.handle);
    case BufferKind::control:
      break;
  }
  return nullptr;
}

LlvmHandlerCodegen::ResolvedBuffer LlvmHandlerCodegen::resolve(Value* handle) {
  llvm::Type* const i32 = builder_.getInt32Ty();
  llvm::Type* const pointer = builder_.getPtrTy();
  Value* const entry =
      builder_.CreateCall(find_buffer_function(module_), {table_entries_, table_mask_, handle});
  const auto field = [&](llvm::Type* type, std::size_t offset) {
    auto* const load = builder_.CreateLoad(
        type, builder_.CreateConstInBoundsGEP1_64(builder_.getInt8Ty(), entry, offset));
    load->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(context_, {}));
    return load;
  };
  ResolvedBuffer buffer{.entry = entry};
  buffer.words = field(pointer, offsetof(memory::BufferEntry, words));
  buffer.word_count = field(i32, offsetof(memory::BufferEntry, word_count));
  Value* const access = field(i32, offsetof(memory::BufferEntry, access));
  Value* const owner = field(i32, offsetof(memory::BufferEntry, owner));
  Value* const is_owner =
      builder_.CreateOr(builder_.CreateICmpEQ(owner, tenant_),
                        builder_.CreateICmpEQ(owner, builder_.getInt32(memory::kEveryTenant)));
  Value* const found = field(i32, offsetof(memory::BufferEntry, handle));
  buffer.is_usable =
      builder_.CreateAnd(is_owner, builder_.CreateICmpNE(found, builder_.getInt32(0)));
  const auto allowed = [&](memory::Access needed) {
    Value* const bits = builder_.getInt32(static_cast<Word>(needed));
    Value* const has_access = builder_.CreateICmpEQ(builder_.CreateAnd(access, bits), bits);
    return builder_.CreateSelect(builder_.CreateAnd(is_owner, has_access), buffer.word_count,
                                 builder_.getInt32(0));
  };
  buffer.readable = allowed(memory::Access::read);
  buffer.writable = allowed(memory::Access::write);
  buffer.updatable = allowed(memory::Access::read_write);
  return buffer;
}

LlvmHandlerCodegen::ResolvedBuffer LlvmHandlerCodegen::resolved(BufferKind kind, Value* handle) {
  if (is_fixed(kind)) return kind == BufferKind::input ? *input_ : *output_;
  return resolve(handle);
}

// The fault code of an access that found no word. The call runs only on that path.
Value* LlvmHandlerCodegen::access_code(const ResolvedBuffer& buffer, Word needed) {
  llvm::Type* const i32 = builder_.getInt32Ty();
  auto* const type = llvm::FunctionType::get(i32, {builder_.getPtrTy(), i32, i32}, false);
  const auto helper = module_.getOrInsertFunction("everkernel_access_code", type);
  return builder_.CreateCall(helper, {buffer.entry, tenant_, builder_.getInt32(needed)});
}

Value* LlvmHandlerCodegen::place(BufferKind kind, Value* handle, Value* index,
                                 memory::Access access, bool is_proven) {
  if (kind == BufferKind::control) return control_place(index, access, is_proven);
  const ResolvedBuffer buffer = resolved(kind, handle);
  if (!is_proven) {
    Value* const limit = access == memory::Access::read    ? buffer.readable
                         : access == memory::Access::write ? buffer.writable
                                                           : buffer.updatable;
    fault_unless(builder_.CreateICmpULT(index, limit),
                 [&] { return access_code(buffer, static_cast<Word>(access)); });
  }
  return builder_.CreateInBoundsGEP(builder_.getInt32Ty(), buffer.words,
                                    builder_.CreateZExt(index, builder_.getInt64Ty()));
}

Value* LlvmHandlerCodegen::control_place(Value* index, memory::Access access, bool is_proven) {
  if (!is_proven) {
    fault_unless(builder_.CreateICmpULT(index, control_words_),
                 [&] { return code(FaultCode::index_out_of_range); });
  }
  if (access != memory::Access::read) {
    Value* const is_open =
        builder_.CreateICmpUGE(index, builder_.getInt32(abi::kControlFirstObservable));
    Value* const is_operator = builder_.CreateICmpEQ(tenant_, builder_.getInt32(0));
    fault_unless(builder_.CreateOr(is_open, is_operator),
                 [&] { return code(FaultCode::permission_denied); });
  }
  return builder_.CreateInBoundsGEP(builder_.getInt32Ty(), control_,
                                    builder_.CreateZExt(index, builder_.getInt64Ty()));
}

Value* LlvmHandlerCodegen::load_word(BufferKind kind, Value* pointer) {
  auto* const load = builder_.CreateAlignedLoad(builder_.getInt32Ty(), pointer, llvm::Align(4));
  if (is_shared(kind)) load->setAtomic(llvm::AtomicOrdering::Monotonic);
  return load;
}

void LlvmHandlerCodegen::store_word(BufferKind kind, Value* word, Value* pointer) {
  auto* const store = builder_.CreateAlignedStore(word, pointer, llvm::Align(4));
  if (is_shared(kind)) store->setAtomic(llvm::AtomicOrdering::Monotonic);
}

}  // namespace everkernel::jit
