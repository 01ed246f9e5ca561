// Runs machine code for a GPU on the CPU, on host memory, and checks every access.
//
// It knows the instructions that NVRTC generates for this project's kernels (compute capability
// 9.0) and refuses a kernel that has any other. Lanes of a warp that have diverged run together
// again only where the code synchronises them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "everkernel/base/result.hpp"
#include "simulator/cubin.hpp"

namespace everkernel::simulator {

/// Whether these bytes of global memory may be read, or written.
using MayAccess = std::function<bool(std::uint64_t address, std::size_t size, bool writes)>;

/// A launch.
struct Launch {
  std::uint32_t block_count = 1;
  std::uint32_t thread_count = 1;              // of a block
  std::uint32_t sm_count = 1;                  // multiprocessors, among which blocks are spread
  std::uint32_t shared_bytes = 0;              // in addition to the kernel's static shared memory
  std::span<const std::byte> parameters = {};  // laid out as in constant bank 0
  std::uint64_t instruction_limit = 10'000'000'000;
  std::uint64_t seed = 1;  // of lengths of turns and contents of unwritten registers
};

/// A kernel with all instructions decoded.
class Program;

/// Decodes every instruction of a kernel. Fails with the first one that is not known.
Result<std::shared_ptr<const Program>> read_program(const Kernel& kernel);

/// A launch in progress: all of its blocks are resident and run a few instructions each in turn.
class Grid {
 public:
  Grid(std::shared_ptr<const Program> program, const Cubin& cubin, const Launch& launch,
       MayAccess may_access);
  ~Grid();
  Grid(const Grid&) = delete;
  Grid& operator=(const Grid&) = delete;

  /// Runs about `instruction_count` more instructions, each counted once for a warp, and fewer if
  /// `is_disturbed` becomes true; returns whether the launch is over. Fails with the instruction
  /// that broke a rule.
  Result<bool> run(std::uint64_t instruction_count,
                   const std::atomic<bool>* is_disturbed = nullptr);
  std::uint64_t instructions() const;
  /// How often it wrote to global memory.
  std::uint64_t write_count() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace everkernel::simulator
