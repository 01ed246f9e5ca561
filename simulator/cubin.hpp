// A module of machine code for a GPU: an ELF file, as NVRTC and nvcc make it.
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

/// Where a parameter lies among the parameters of a kernel.
struct Parameter {
  std::uint32_t offset = 0;
  std::uint32_t size = 0;
};

/// A kernel.
struct Kernel {
  std::string name = {};
  std::vector<std::byte> code = {};        // with all addresses filled in
  std::vector<Parameter> parameters = {};  // in their order
  std::vector<std::byte> constants = {};   // bank 0 at first: everything but what a launch knows
  std::vector<std::byte> tables = {};      // bank 2: where to go on, by a number
  std::uint32_t parameter_offset = 0;      // of the first, in bank 0
  std::uint32_t shared_bytes = 0;          // without what a launch adds and the system keeps
  std::uint32_t local_bytes = 0;           // of a thread
  std::uint32_t register_count = 0;
  std::uint32_t max_threads = 1024;  // of a block, as far as the kernel says it
};

/// A module that is loaded: its global variables lie in memory of the host that it owns.
class Cubin {
 public:
  /// Fails with what is not understood: a section, a relocation, a word that lies outside.
  static Result<Cubin> load(std::span<const std::byte> file);

  const std::map<std::string, Kernel, std::less<>>& kernels() const { return kernels_; }
  /// Bank 3 is what `__constant__` names, bank 4 has addresses.
  std::span<const std::byte> constants(std::size_t bank) const;
  /// Global variables, at the addresses that the code has for them.
  std::span<std::byte> globals() const { return {globals_.get(), global_bytes_}; }

 private:
  std::map<std::string, Kernel, std::less<>> kernels_ = {};
  std::map<std::size_t, std::vector<std::byte>> constants_ = {};
  std::unique_ptr<std::byte[]> globals_ = {};
  std::size_t global_bytes_ = 0;
};

}  // namespace everkernel::simulator
