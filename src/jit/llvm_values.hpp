// LLVM IR of operators and functions, with the meanings of ir/semantics.hpp.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include "everkernel/ir/vocabulary.hpp"

namespace everkernel::jit {

/// The LLVM type of a value.
llvm::Type* llvm_type(llvm::LLVMContext& context, ir::Type type);

/// The same float, hidden from LLVM's optimiser, which miscompiles comparisons of magnitudes with
/// zero (decision 0013). Callers hide one operand of every comparison, `min` and `max` of floats.
llvm::Value* hidden(llvm::IRBuilder<>& builder, llvm::Value* value);

/// A unary operator on an operand of `type`.
llvm::Value* emit_unary(llvm::IRBuilder<>& builder, ir::UnaryOp op, ir::Type type, llvm::Value* a);
/// A binary operator on operands of `type` (of the left one for shifts); not && and ||. With
/// `cannot_wrap`, unsigned sums and products are known to fit.
llvm::Value* emit_binary(llvm::IRBuilder<>& builder, ir::BinaryOp op, ir::Type type, llvm::Value* a,
                         llvm::Value* b, bool cannot_wrap);
/// A function whose first operand is of `type`; not printf and emit, and not the functions that
/// number_function() makes.
llvm::Value* emit_call(llvm::IRBuilder<>& builder, ir::Function function, ir::Type type,
                       llvm::Value* a, llvm::Value* b, llvm::Value* c);
/// The new word of an atomic on a word that no other item uses at the same time.
llvm::Value* emit_plain_atomic(llvm::IRBuilder<>& builder, ir::AtomicOp op, llvm::Value* before,
                               llvm::Value* value, llvm::Value* desired);
/// An atomic on a word that other items may use at the same time; its value is the word before.
llvm::Value* emit_shared_atomic(llvm::IRBuilder<>& builder, ir::AtomicOp op, llvm::Value* pointer,
                                llvm::Value* value, llvm::Value* desired);

}  // namespace everkernel::jit
