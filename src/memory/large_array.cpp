// Blocks for arrays of millions of values.
#include "everkernel/memory/large_array.hpp"

#include <sys/mman.h>

#include <cstdlib>
#include <new>

namespace everkernel::memory {
namespace {

constexpr std::size_t kLargePage = std::size_t{2} << 20;

std::size_t rounded(std::size_t size_bytes) {
  return (size_bytes + kLargePage - 1) / kLargePage * kLargePage;
}

}  // namespace

std::byte* allocate_block(std::size_t size_bytes) {
  if (size_bytes == 0) return nullptr;
  const bool is_large = size_bytes >= kLargePage;
  void* const block =
      is_large ? std::aligned_alloc(kLargePage, rounded(size_bytes)) : std::malloc(size_bytes);
  if (block == nullptr) throw std::bad_alloc();
  // A hint only: without huge pages everything works, but slower.
  if (is_large) static_cast<void>(::madvise(block, rounded(size_bytes), MADV_HUGEPAGE));
  return static_cast<std::byte*>(block);
}

void free_block(std::byte* block) {
  std::free(block);
}

}  // namespace everkernel::memory
