// Large arrays of plain values: uninitialised, reused between uses, on huge pages if available.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <type_traits>

#include "everkernel/abi/platform.hpp"

namespace everkernel::memory {

/// Allocates a block of bytes. Blocks of megabytes lie on huge pages if the system has any: random
/// accesses to a graph of millions of nodes would otherwise miss the TLB about as often as the
/// cache.
std::byte* allocate_block(std::size_t size_bytes);
/// Frees a block.
void free_block(std::byte* block);

/// An array of uninitialised values. Not copyable; throws std::bad_alloc.
template <class T>
requires std::is_trivially_copyable_v<T>
class LargeArray {
 public:
  LargeArray() = default;                             ///< empty
  LargeArray(const LargeArray&) = delete;             ///< owns a block
  LargeArray& operator=(const LargeArray&) = delete;  ///< owns a block
  ~LargeArray() { free_block(block_); }               ///< frees the block

  /// Room for `count` values; their content is unspecified.
  std::span<T> take(std::size_t count) {
    if (count > capacity_) reallocate(count, 0);
    return {data(), count};
  }
  /// Room for `count` values; the first `kept` keep their content.
  std::span<T> grow(std::size_t count, std::size_t kept) {
    if (count > capacity_) reallocate(count, kept);
    return {data(), count};
  }
  /// Gives the memory back; spans of it become invalid.
  void release() {
    free_block(block_);
    block_ = nullptr;
    capacity_ = 0;
  }
  /// Number of values that fit without an allocation.
  std::size_t capacity() const { return capacity_; }
  /// Number of allocations so far.
  abi::Word allocations() const { return allocations_; }

 private:
  T* data() { return reinterpret_cast<T*>(block_); }

  void reallocate(std::size_t count, std::size_t kept) {
    std::byte* const fresh = allocate_block(count * sizeof(T));
    if (kept != 0) std::memcpy(fresh, block_, kept * sizeof(T));
    free_block(block_);
    block_ = fresh;
    capacity_ = count;
    ++allocations_;
  }

  std::byte* block_ = nullptr;
  std::size_t capacity_ = 0;
  abi::Word allocations_ = 0;
};

}  // namespace everkernel::memory
