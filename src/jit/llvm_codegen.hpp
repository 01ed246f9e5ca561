// Verified handlers to LLVM IR. native.cpp turns the IR into code.
#pragma once

#include <llvm/IR/Module.h>

#include <memory>

#include "everkernel/ir/verifier.hpp"
#include "everkernel/jit/native.hpp"

namespace everkernel::jit {

/// The symbol of a handler's function.
std::string entry_symbol(std::size_t handler_index);

/// Makes a module with one function `i32 (ptr frame)` a handler. It passes LLVM's own verifier.
std::unique_ptr<llvm::Module> generate(const ir::VerifiedProgram& program,
                                       const NativeOptions& options, llvm::LLVMContext& context);

}  // namespace everkernel::jit
