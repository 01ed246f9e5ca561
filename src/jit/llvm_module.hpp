// The LLVM module of a program. native.cpp turns it into code.
#pragma once

#include <llvm/IR/Module.h>

#include <memory>

#include "everkernel/ir/verifier.hpp"
#include "everkernel/jit/native.hpp"

namespace everkernel::jit {

/// The symbol of a handler's function.
std::string entry_symbol(std::size_t handler_index);

/// A module with one function `i32 (ptr frame)` a handler, which passes LLVM's own verifier.
std::unique_ptr<llvm::Module> make_module(const ir::VerifiedProgram& program,
                                          const NativeOptions& options, llvm::LLVMContext& context);

}  // namespace everkernel::jit
