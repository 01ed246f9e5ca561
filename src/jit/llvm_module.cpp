// The LLVM module of a program: one function a handler.
#include "jit/llvm_module.hpp"

#include <fmt/format.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Support/raw_ostream.h>

#include "everkernel/base/assert.hpp"
#include "jit/llvm_handler.hpp"

namespace everkernel::jit {

std::string entry_symbol(std::size_t handler_index) {
  return fmt::format("handler_{}", handler_index);
}

std::unique_ptr<llvm::Module> make_module(const ir::VerifiedProgram& program,
                                          const NativeOptions& options,
                                          llvm::LLVMContext& context) {
  auto module = std::make_unique<llvm::Module>("everkernel", context);
  const auto handlers = program.handlers();
  for (std::size_t i = 0; i < handlers.size(); ++i) {
    LlvmHandlerCodegen(handlers[i], options.memory, *module, entry_symbol(i)).run();
  }
  EVERKERNEL_ASSERT(!llvm::verifyModule(*module, &llvm::errs()));
  return module;
}

}  // namespace everkernel::jit
