// Anonymous shared memory (memfd) for several buffers, each of which begins on a page.
//
// A ring in shared memory survives the process that works on it: a process without a GPU can keep
// the memory while the process with the GPU is replaced. A child of fork() does not inherit the
// mapping: it would write into the ring of its parent.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/descriptor.hpp"
#include "base/process.hpp"
#include "everkernel/base/result.hpp"

namespace everkernel::memory {

/// Who can write the memory.
enum class Writers {
  everyone,      ///< whoever has the descriptor
  this_mapping,  ///< only the process that made it: other mappings of the descriptor are read-only
};

/// What a mapping of another process's memory is for.
enum class Mapped {
  read,        ///< only reading
  read_write,  ///< both
};

/// Owns a memfd and its mapping. Move-only. In another process than the one that made it, only
/// file_descriptor() works, and the destructor does nothing.
class SharedMemory {
 public:
  /// Zeroed memory with a part of each length, in that order, each beginning on a page. Fails with
  /// `io` or `out_of_memory`.
  static Result<SharedMemory> create(std::span<const std::size_t> part_bytes,
                                     Writers writers = Writers::everyone);

  /// Maps memory that another process made, as one part. Fails with `corrupt` unless it is sealed
  /// against shrinking, without which an access could raise SIGBUS, and has at least that length;
  /// with `io` and `out_of_memory`.
  static Result<SharedMemory> attach(Descriptor file, Mapped access, std::size_t least_bytes);

  SharedMemory(SharedMemory&& other) noexcept;             ///< takes over the memory
  SharedMemory& operator=(SharedMemory&& other) noexcept;  ///< frees its own, takes over
  ~SharedMemory();                                         ///< unmaps and closes

  /// The bytes of a part; `index` is below the number of parts.
  std::span<std::byte> part(std::size_t index) const { return parts_[index]; }
  /// The file descriptor, which another process can map. Owned by this object.
  int file_descriptor() const { return descriptor_; }
  /// Length of all parts and the padding between them.
  std::size_t size_bytes() const { return mapping_.size(); }

 private:
  SharedMemory(int descriptor, std::span<std::byte> mapping)
      : descriptor_(descriptor), mapping_(mapping) {}
  void drop() noexcept;

  HomeProcess home_;
  int descriptor_ = -1;
  std::span<std::byte> mapping_;
  std::vector<std::span<std::byte>> parts_;
};

}  // namespace everkernel::memory
