// Handlers as a CUDA C++ file that needs no other file of the project, for people who want to read
// or measure the code that a GPU runs.
#pragma once

#include <string>

#include "everkernel/ir/verifier.hpp"

namespace everkernel::backend::cuda {

/// The handlers as one translation unit: the device code that generated handlers use, the text of
/// jit::emit_cuda() with the payload, if there is one, and the kernel `everkernel_run_item`, which
/// runs one item. `nvcc -ptx` compiles it alone. Equal programs give equal texts.
std::string emit_translation_unit(const ir::VerifiedProgram& program);

}  // namespace everkernel::backend::cuda
