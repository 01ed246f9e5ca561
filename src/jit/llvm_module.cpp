// The LLVM modules of handlers: one function a handler.
#include "jit/llvm_module.hpp"

#include <fmt/format.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Support/raw_ostream.h>

#include "everkernel/base/assert.hpp"
#include "jit/llvm_handler.hpp"

namespace everkernel::jit {

std::unique_ptr<llvm::Module> make_module(const ir::VerifiedHandler& handler,
                                          const std::string& symbol, const NativeOptions& options,
                                          llvm::LLVMContext& context) {
  auto module = std::make_unique<llvm::Module>("everkernel", context);
  LlvmHandlerCodegen(handler, options.memory, *module, symbol).run();
  EVERKERNEL_ASSERT(!llvm::verifyModule(*module, &llvm::errs()));
  return module;
}

std::unique_ptr<llvm::Module> make_module(const ir::VerifiedProgram& program,
                                          const NativeOptions& options,
                                          llvm::LLVMContext& context) {
  auto module = std::make_unique<llvm::Module>("everkernel", context);
  const auto handlers = program.handlers();
  for (std::size_t i = 0; i < handlers.size(); ++i) {
    const std::string symbol = fmt::format("handler_{}", i);
    LlvmHandlerCodegen(handlers[i], options.memory, *module, symbol).run();
  }
  EVERKERNEL_ASSERT(!llvm::verifyModule(*module, &llvm::errs()));
  return module;
}

}  // namespace everkernel::jit
