// A memfd, sealed against resizing and mapped once.
#include "memory/shared_memory.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/checked.hpp"

namespace everkernel::memory {
namespace {

constexpr std::size_t kPageBytes = 4096;

Failure refused(std::string_view call, std::size_t size_bytes, int number) {
  const Code code = number == ENOMEM ? Code::out_of_memory : Code::io;
  return fail(
      code,
      fmt::format("shared memory: {} of {} bytes: {}", call, size_bytes, std::strerror(number)),
      "use a smaller ring, or raise the memory limits of this process", number);
}

Result<std::size_t> page_rounded_sum(std::span<const std::size_t> part_bytes) {
  std::size_t total = 0;
  for (const std::size_t bytes : part_bytes) {
    const auto padded = checked_add(bytes, kPageBytes - 1);
    const auto sum = checked_add(total, padded.value_or(0) / kPageBytes * kPageBytes);
    if (!padded || !sum)
      return fail(Code::out_of_memory, "shared memory: the sum of the part lengths overflows");
    total = *sum;
  }
  return total == 0 ? kPageBytes : total;
}

}  // namespace

Result<SharedMemory> SharedMemory::create(std::span<const std::size_t> part_bytes) {
  const std::size_t total = EVERKERNEL_TRY(page_rounded_sum(part_bytes));
  const int descriptor = ::memfd_create("everkernel", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (descriptor < 0) return refused("memfd_create", total, errno);
  SharedMemory memory(descriptor, {});
  if (::ftruncate(descriptor, static_cast<off_t>(total)) != 0) {
    return refused("ftruncate", total, errno);
  }
  // Sealed: if another process shortened the memory, an access to the ring would raise SIGBUS.
  if (::fcntl(descriptor, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return refused("sealing", total, errno);
  }
  void* const address = ::mmap(nullptr, total, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (address == MAP_FAILED) return refused("mmap", total, errno);
  memory.mapping_ = {static_cast<std::byte*>(address), total};
  std::size_t first = 0;
  for (const std::size_t bytes : part_bytes) {
    memory.parts_.push_back(memory.mapping_.subspan(first, bytes));
    first += (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
  }
  return memory;
}

SharedMemory::SharedMemory(SharedMemory&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      mapping_(std::exchange(other.mapping_, {})),
      parts_(std::move(other.parts_)) {}

SharedMemory& SharedMemory::operator=(SharedMemory&& other) noexcept {
  if (this == &other) return *this;
  drop();
  descriptor_ = std::exchange(other.descriptor_, -1);
  mapping_ = std::exchange(other.mapping_, {});
  parts_ = std::move(other.parts_);
  return *this;
}

SharedMemory::~SharedMemory() {
  drop();
}

void SharedMemory::drop() noexcept {
  if (!mapping_.empty()) ::munmap(mapping_.data(), mapping_.size());
  if (descriptor_ >= 0) ::close(descriptor_);
  mapping_ = {};
  descriptor_ = -1;
}

}  // namespace everkernel::memory
