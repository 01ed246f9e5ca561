// Handlers as CUDA C++: the text that is compiled together with the workers that call them. Making
// it needs no part of the CUDA toolkit.
#pragma once

#include <span>
#include <string>

#include "everkernel/ir/trusted.hpp"
#include "everkernel/ir/verifier.hpp"
#include "everkernel/jit/memory_use.hpp"

namespace everkernel::jit {

/// Assumptions of the generated code.
struct CudaOptions {
  MemoryUse memory = MemoryUse::shared;  ///< whether other items use the buffers
  bool payload = false;  ///< whether the payload runs for every slot; if not, it is left out
  /// Trusted handlers, which have passed ir::check_trusted() for CUDA. Their indices follow those
  /// of the program. Their text is compiled unchanged, and messages about it name the handler.
  std::span<const ir::TrustedHandler> trusted_handlers = {};
};

/// The handlers as CUDA C++, in namespace everkernel::device: `handler_I` for the handler of that
/// index, and `find_handler`, `traits_of`, `run_lane_handler`, `run_warp_handler` and
/// `run_group_handler` over all of them. It compiles behind src/jit/device/handler.cuh, includes
/// src/jit/device/trusted.cuh if there are trusted handlers, and holds no name that the program
/// chose. Equal programs give equal texts.
std::string emit_cuda(const ir::VerifiedProgram& program, const CudaOptions& options);

}  // namespace everkernel::jit
