// The search of the buffer table as a function in LLVM IR, one a module.
#pragma once

#include <llvm/IR/Module.h>

namespace everkernel::jit {

/// The function `const BufferEntry* find_buffer(entries, mask, handle)` of a module, which is added
/// on first use. For a handle that names no buffer it returns an entry of zeros.
///
/// The table does not change while an item runs, so that the function is declared to depend on its
/// operands alone: LLVM moves calls out of loops, and makes one call for equal handles.
llvm::Function* find_buffer_function(llvm::Module& module);

}  // namespace everkernel::jit
