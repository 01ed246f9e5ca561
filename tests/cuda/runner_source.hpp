// The CUDA source of kernels that run generated handlers, and its compiler. Needs no GPU.
#pragma once

#include <span>
#include <string>

#include "backend/cuda/nvrtc.hpp"
#include "everkernel/jit/memory_use.hpp"
#include "run_image.hpp"

namespace everkernel::test {

/// A source that has a kernel for each entry.
struct RunnerSource {
  std::string handlers = {};
  std::string kernels = {};
  bool has_wide_fuel = false;  // as kernels have that give their items more than 32 bits of it
};
RunnerSource runner_source(const ir::VerifiedProgram& program, std::span<const Entry> entries,
                           jit::MemoryUse memory);
/// The kernel of an entry.
std::string kernel_name(const Entry& entry);

/// What the compiler is asked for; `headers` holds what it refers to.
backend::cuda::CompileRequest request_for(const RunnerSource& source, int architecture,
                                          std::vector<backend::cuda::SourceText>& headers);
/// Compiles it for an architecture; the bytes are for the driver.
Result<backend::cuda::CompiledCode> compile_runner(const backend::cuda::Nvrtc& nvrtc,
                                                   const RunnerSource& source, int architecture);

}  // namespace everkernel::test
