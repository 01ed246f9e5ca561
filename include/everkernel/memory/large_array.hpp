// Plain values in bulk: not cleared, reused from use to use, on large pages where they help.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <type_traits>

#include "everkernel/abi/platform.hpp"

namespace everkernel::memory {

/// Bytes of a block. Blocks of megabytes lie on large pages if the system has any: walking a graph
/// of millions of nodes at random otherwise waits for page tables as often as for data.
std::byte* allocate_block(std::size_t size_bytes);
/// Gives a block back.
void free_block(std::byte* block);

/// An array of values that nobody constructs. Move-only; throws std::bad_alloc.
template <class T>
requires std::is_trivially_copyable_v<T>
class LargeArray {
 public:
  LargeArray() = default;                             ///< empty
  LargeArray(const LargeArray&) = delete;             ///< owns a block
  LargeArray& operator=(const LargeArray&) = delete;  ///< owns a block
  ~LargeArray() { free_block(block_); }               ///< gives it back

  /// Room for `count` values, whatever they are now.
  std::span<T> take(std::size_t count) {
    if (count > capacity_) reallocate(count, 0);
    return {data(), count};
  }
  /// Room for `count` values, of which the first `kept` stay.
  std::span<T> grow(std::size_t count, std::size_t kept) {
    if (count > capacity_) reallocate(count, kept);
    return {data(), count};
  }
  /// Values there is room for.
  std::size_t capacity() const { return capacity_; }
  /// Times it had to grow.
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
