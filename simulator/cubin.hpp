// Reads a cubin: the ELF file with machine code for a GPU that NVRTC and nvcc produce.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "everkernel/base/result.hpp"

namespace everkernel::simulator {

/// A parameter's place in the parameter block of its kernel.
struct Parameter {
  std::uint32_t offset = 0;
  std::uint32_t size = 0;
};

/// A kernel.
struct Kernel {
  std::string name = {};
  std::vector<std::byte> code = {};        // relocated
  std::vector<Parameter> parameters = {};  // in the order of the declaration
  std::vector<std::byte> constants = {};   // bank 0 without the values that a launch sets
  std::vector<std::byte> tables = {};      // bank 2: branch targets of switch statements
  std::uint32_t parameter_offset = 0;      // of the first parameter, in bank 0
  std::uint32_t shared_bytes = 0;          // static: without dynamic and reserved shared memory
  std::uint32_t local_bytes = 0;           // for one thread
  std::uint32_t register_count = 0;
  std::uint32_t max_threads = 1024;  // in a block, by the kernel's launch bounds
};

/// A loaded module. It owns the host memory in which the module's global variables lie.
class Cubin {
 public:
  /// Fails on a section or relocation that is not known, and on any offset outside of its section.
  static Result<Cubin> load(std::span<const std::byte> file);

  const std::map<std::string, Kernel, std::less<>>& kernels() const { return kernels_; }
  /// Bank 3 has `__constant__` variables, bank 4 addresses.
  std::span<const std::byte> constants(std::size_t bank) const;
  /// Global variables, at the addresses that the relocated code uses.
  std::span<std::byte> globals() const { return {globals_.get(), global_bytes_}; }

 private:
  std::map<std::string, Kernel, std::less<>> kernels_ = {};
  std::map<std::size_t, std::vector<std::byte>> constants_ = {};
  std::unique_ptr<std::byte[]> globals_ = {};
  std::size_t global_bytes_ = 0;
};

}  // namespace everkernel::simulator
