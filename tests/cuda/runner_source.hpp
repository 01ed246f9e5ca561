// Generates and compiles the CUDA source of kernels that run generated handlers. Needs no GPU.
#pragma once

#include <span>
#include <string>

#include "backend/cuda/nvrtc.hpp"
#include "everkernel/jit/memory_use.hpp"
#include "run_image.hpp"

namespace everkernel::test {

/// A source with a kernel for each entry.
struct RunnerSource {
  std::string handlers = {};
  std::string kernels = {};
  bool has_wide_fuel = false;  // count fuel in 64 bits instead of 32
};
RunnerSource runner_source(const ir::VerifiedProgram& program, std::span<const Entry> entries,
                           jit::MemoryUse memory);
/// The kernel of an entry.
std::string kernel_name(const Entry& entry);

/// The request to the compiler. It refers to `headers`, which this function fills.
backend::cuda::CompileRequest request_for(const RunnerSource& source, int architecture,
                                          std::vector<backend::cuda::SourceText>& headers);
/// Compiles for an architecture, to bytes that the driver can load.
Result<backend::cuda::CompiledCode> compile_runner(const backend::cuda::Nvrtc& nvrtc,
                                                   const RunnerSource& source, int architecture);

}  // namespace everkernel::test
