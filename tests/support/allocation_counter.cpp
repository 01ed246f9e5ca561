// Replaces every form of operator new and delete with ones that count. They forward to malloc and
// free, so that sanitizers keep seeing every block. In a file of its own: a compiler that inlines
// both warns that free() does not match new.
#include "support/allocation_counter.hpp"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<std::size_t> allocation_counter{0};
std::atomic<std::size_t> largest_size{0};

void count(std::size_t size) noexcept {
  allocation_counter.fetch_add(1, std::memory_order_relaxed);
  std::size_t largest = largest_size.load(std::memory_order_relaxed);
  while (largest < size &&
         !largest_size.compare_exchange_weak(largest, size, std::memory_order_relaxed)) {
  }
}

void* allocate(std::size_t size) noexcept {
  count(size);
  return std::malloc(size == 0 ? 1 : size);
}

void* allocate(std::size_t size, std::align_val_t alignment) noexcept {
  count(size);
  void* block = nullptr;
  const auto boundary = std::max(static_cast<std::size_t>(alignment), sizeof(void*));
  return posix_memalign(&block, boundary, size == 0 ? 1 : size) == 0 ? block : nullptr;
}

void* or_throw(void* block) {
  if (block == nullptr) throw std::bad_alloc();
  return block;
}

}  // namespace

std::size_t everkernel::test::allocation_count() {
  return allocation_counter.load(std::memory_order_relaxed);
}

std::size_t everkernel::test::largest_allocation() {
  return largest_size.load(std::memory_order_relaxed);
}

void everkernel::test::reset_largest_allocation() {
  largest_size.store(0, std::memory_order_relaxed);
}

void* operator new(std::size_t n) {
  return or_throw(allocate(n));
}
void* operator new[](std::size_t n) {
  return or_throw(allocate(n));
}
void* operator new(std::size_t n, std::align_val_t a) {
  return or_throw(allocate(n, a));
}
void* operator new[](std::size_t n, std::align_val_t a) {
  return or_throw(allocate(n, a));
}
void* operator new(std::size_t n, const std::nothrow_t&) noexcept {
  return allocate(n);
}
void* operator new[](std::size_t n, const std::nothrow_t&) noexcept {
  return allocate(n);
}
void* operator new(std::size_t n, std::align_val_t a, const std::nothrow_t&) noexcept {
  return allocate(n, a);
}
void* operator new[](std::size_t n, std::align_val_t a, const std::nothrow_t&) noexcept {
  return allocate(n, a);
}
void operator delete(void* p) noexcept {
  std::free(p);
}
void operator delete[](void* p) noexcept {
  std::free(p);
}
void operator delete(void* p, std::size_t) noexcept {
  std::free(p);
}
void operator delete[](void* p, std::size_t) noexcept {
  std::free(p);
}
void operator delete(void* p, std::align_val_t) noexcept {
  std::free(p);
}
void operator delete[](void* p, std::align_val_t) noexcept {
  std::free(p);
}
void operator delete(void* p, std::size_t, std::align_val_t) noexcept {
  std::free(p);
}
void operator delete[](void* p, std::size_t, std::align_val_t) noexcept {
  std::free(p);
}
void operator delete(void* p, const std::nothrow_t&) noexcept {
  std::free(p);
}
void operator delete[](void* p, const std::nothrow_t&) noexcept {
  std::free(p);
}
void operator delete(void* p, std::align_val_t, const std::nothrow_t&) noexcept {
  std::free(p);
}
void operator delete[](void* p, std::align_val_t, const std::nothrow_t&) noexcept {
  std::free(p);
}
