// Runs machine code for a GPU on the CPU: warps of 32 lanes that part and meet as the code says, on
// memory of the host, every access checked.
//
// It knows what NVRTC makes of this project's kernels for compute capability 9.0, and refuses all
// else by the instruction. Lanes that parted go on together only where the code makes them meet.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "everkernel/base/result.hpp"
#include "simulator/cubin.hpp"

namespace everkernel::simulator {

/// Says whether bytes of global memory may be read, or written.
using MayAccess = std::function<bool(std::uint64_t address, std::size_t size, bool writes)>;

/// A launch.
struct Launch {
  std::uint32_t block_count = 1;
  std::uint32_t thread_count = 1;              // of a block
  std::uint32_t shared_bytes = 0;              // beside what the kernel has
  std::span<const std::byte> parameters = {};  // as they lie in bank 0
  std::uint64_t instruction_limit = 10'000'000'000;
  std::uint64_t seed = 1;  // of turns, and of what nobody has written yet
};

/// A kernel that has been read.
class Program;

/// Reads every instruction of a kernel. Fails with the first that is not known.
Result<std::shared_ptr<const Program>> read_program(const Kernel& kernel);

/// A launch that is under way: all of its blocks at one time, a few instructions of each in turn.
class Grid {
 public:
  Grid(std::shared_ptr<const Program> program, const Cubin& cubin, const Launch& launch,
       MayAccess may_access);
  ~Grid();
  Grid(const Grid&) = delete;
  Grid& operator=(const Grid&) = delete;

  /// Runs on for about that many instructions of a warp; says whether the launch is over. Fails
  /// with the instruction where something happened that must not.
  Result<bool> run(std::uint64_t instruction_count);
  std::uint64_t instructions() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace everkernel::simulator
