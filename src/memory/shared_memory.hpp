// Anonymous shared memory (memfd) that several buffers lie in, each on lines of its own.
//
// A ring in such memory outlives whoever works on it: a process without a GPU can hold it while the
// one with the GPU is replaced.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "everkernel/base/result.hpp"

namespace everkernel::memory {

/// Owns a memfd and its mapping. Move-only.
class SharedMemory {
 public:
  /// Zeroed memory with a part of each length, in that order, each beginning on a page. Fails with
  /// `io` or `out_of_memory`.
  static Result<SharedMemory> create(std::span<const std::size_t> part_bytes);

  SharedMemory(SharedMemory&& other) noexcept;             ///< takes over
  SharedMemory& operator=(SharedMemory&& other) noexcept;  ///< drops its own, takes over
  ~SharedMemory();                                         ///< unmaps and closes

  /// The bytes of a part; `index` is below the number of parts.
  std::span<std::byte> part(std::size_t index) const { return parts_[index]; }
  /// The file descriptor, for another process to map. Stays owned here.
  int file_descriptor() const { return descriptor_; }
  /// Length of all parts and the padding between them.
  std::size_t size_bytes() const { return mapping_.size(); }

 private:
  SharedMemory(int descriptor, std::span<std::byte> mapping)
      : descriptor_(descriptor), mapping_(mapping) {}
  void drop() noexcept;

  int descriptor_ = -1;
  std::span<std::byte> mapping_;
  std::vector<std::span<std::byte>> parts_;
};

}  // namespace everkernel::memory
