// The LLVM modules of handlers. native.cpp turns them into code.
#pragma once

#include <llvm/IR/Module.h>

#include <memory>
#include <string>

#include "everkernel/ir/verifier.hpp"
#include "everkernel/jit/native.hpp"

namespace everkernel::jit {

/// A module with the function `i32 (ptr frame)` of a handler under that symbol, which passes LLVM's
/// own verifier.
std::unique_ptr<llvm::Module> make_module(const ir::VerifiedHandler& handler,
                                          const std::string& symbol, const NativeOptions& options,
                                          llvm::LLVMContext& context);

/// A module with one such function for each handler of a program, for reading: `handler_I` is the
/// one of that index.
std::unique_ptr<llvm::Module> make_module(const ir::VerifiedProgram& program,
                                          const NativeOptions& options, llvm::LLVMContext& context);

}  // namespace everkernel::jit
