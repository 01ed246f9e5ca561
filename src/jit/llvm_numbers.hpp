// LLVM IR of the functions of numbers: exp, log, exp2, log2, sin, cos, tanh, pow.
#pragma once

#include <llvm/IR/Module.h>

#include "everkernel/ir/vocabulary.hpp"

namespace everkernel::jit {

/// The module's function from f32 to f32 that computes a function of numbers, made when it is first
/// asked for.
llvm::Function* number_function(llvm::Module& module, ir::Function function);

}  // namespace everkernel::jit
