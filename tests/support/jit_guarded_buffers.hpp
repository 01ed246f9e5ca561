// Memory for handlers that ends at an inaccessible page: an access outside a buffer ends the test
// program instead of passing unseen. Sanitizers do not instrument generated code, so these pages
// are its only check.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>

#include "everkernel/abi/platform.hpp"

namespace everkernel::test {

/// Which end of a buffer touches a forbidden page.
enum class Edge : std::uint8_t { end, start };

/// Pages between two forbidden ones; holds one buffer at a time, pressed against one of them.
class GuardedRegion {
 public:
  GuardedRegion() = default;
  GuardedRegion(const GuardedRegion&) = delete;
  GuardedRegion& operator=(const GuardedRegion&) = delete;
  ~GuardedRegion() { unmap(); }

  /// Room for `count` words. The words on the side that touches no forbidden page are watched.
  std::span<abi::Word> place(std::size_t count, Edge edge) {
    if (base_ == nullptr || count + kWatched > capacity_) map(count + kWatched);
    abi::Word* const words = edge == Edge::end ? base_ + (capacity_ - count) : base_;
    placed_ = {words, count};
    watched_ = edge == Edge::end ? std::span(words - kWatched, kWatched)
                                 : std::span(words + count, kWatched);
    std::ranges::fill(watched_, kMark);
    return placed_;
  }
  std::span<abi::Word> words() const { return placed_; }
  /// Whether the watched words are as they were left.
  bool is_intact() const {
    return std::ranges::all_of(watched_, [](abi::Word word) { return word == kMark; });
  }

 private:
  static constexpr std::size_t kWatched = 64;
  static constexpr abi::Word kMark = 0xA5C3F00Du;

  static std::size_t page_bytes() {
    static const auto bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    return bytes;
  }

  void map(std::size_t count) {
    unmap();
    const std::size_t page = page_bytes();
    const std::size_t inner = (count * sizeof(abi::Word) + page - 1) / page * page;
    mapped_bytes_ = inner + 2 * page;
    void* const memory =
        mmap(nullptr, mapped_bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) die("mmap");
    memory_ = static_cast<std::byte*>(memory);
    if (mprotect(memory_ + page, inner, PROT_READ | PROT_WRITE) != 0) die("mprotect");
    base_ = reinterpret_cast<abi::Word*>(memory_ + page);
    capacity_ = inner / sizeof(abi::Word);
  }
  void unmap() {
    if (memory_ != nullptr) munmap(memory_, mapped_bytes_);
    memory_ = nullptr;
  }
  // Without the inaccessible pages the tests would prove nothing.
  [[noreturn]] static void die(const char* what) {
    std::perror(what);
    std::abort();
  }

  std::byte* memory_ = nullptr;
  std::size_t mapped_bytes_ = 0;
  abi::Word* base_ = nullptr;
  std::size_t capacity_ = 0;
  std::span<abi::Word> placed_ = {};
  std::span<abi::Word> watched_ = {};
};

}  // namespace everkernel::test
