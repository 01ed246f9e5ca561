// A memfd, sealed against resizing and mapped once.
#include "memory/shared_memory.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
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

Result<SharedMemory> SharedMemory::create(std::span<const std::size_t> part_bytes,
                                          Writers writers) {
  const std::size_t total = EVERKERNEL_TRY(page_rounded_sum(part_bytes));
  const int descriptor = ::memfd_create("everkernel", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (descriptor < 0) return refused("memfd_create", total, errno);
  SharedMemory memory(descriptor, {});
  while (::ftruncate(descriptor, static_cast<off_t>(total)) != 0) {
    if (errno != EINTR) return refused("ftruncate", total, errno);
  }
  void* const address = ::mmap(nullptr, total, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (address == MAP_FAILED) return refused("mmap", total, errno);
  memory.mapping_ = {static_cast<std::byte*>(address), total};
  // Sealed: if another process shortened the memory, an access to it would raise SIGBUS. The seal
  // against writing leaves the mapping that is there writable.
  int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  if (writers == Writers::this_mapping) seals |= F_SEAL_FUTURE_WRITE;
  if (::fcntl(descriptor, F_ADD_SEALS, seals) != 0) return refused("sealing", total, errno);
  if (::madvise(address, total, MADV_DONTFORK) != 0) return refused("madvise", total, errno);
  std::size_t first = 0;
  for (const std::size_t bytes : part_bytes) {
    memory.parts_.push_back(memory.mapping_.subspan(first, bytes));
    first += (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
  }
  return memory;
}

Result<SharedMemory> SharedMemory::attach(Descriptor file, Mapped access, std::size_t least_bytes) {
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return refused("fstat", least_bytes, errno);
  const int seals = ::fcntl(file.get(), F_GET_SEALS);
  if (seals < 0 && errno != EINVAL) return refused("fcntl", least_bytes, errno);
  const bool is_sealed = seals >= 0 && (seals & F_SEAL_SHRINK) != 0;
  const auto total = static_cast<std::size_t>(status.st_size);
  if (!S_ISREG(status.st_mode) || !is_sealed || total < least_bytes) {
    return fail(Code::corrupt,
                fmt::format("shared memory: a file of {} bytes that is {}sealed, not sealed memory "
                            "of at least {} bytes",
                            total, is_sealed ? "" : "not ", least_bytes),
                "use a descriptor that Queue::descriptor() gave");
  }
  const int protection = access == Mapped::read ? PROT_READ : PROT_READ | PROT_WRITE;
  void* const address = ::mmap(nullptr, total, protection, MAP_SHARED, file.get(), 0);
  if (address == MAP_FAILED) return refused("mmap", total, errno);
  SharedMemory memory(file.release(), {static_cast<std::byte*>(address), total});
  if (::madvise(address, total, MADV_DONTFORK) != 0) return refused("madvise", total, errno);
  memory.parts_.push_back(memory.mapping_);
  return memory;
}

SharedMemory::SharedMemory(SharedMemory&& other) noexcept
    : home_(other.home_),
      descriptor_(std::exchange(other.descriptor_, -1)),
      mapping_(std::exchange(other.mapping_, {})),
      parts_(std::move(other.parts_)) {}

SharedMemory& SharedMemory::operator=(SharedMemory&& other) noexcept {
  if (this == &other) return *this;
  drop();
  home_ = other.home_;
  descriptor_ = std::exchange(other.descriptor_, -1);
  mapping_ = std::exchange(other.mapping_, {});
  parts_ = std::move(other.parts_);
  return *this;
}

SharedMemory::~SharedMemory() {
  drop();
}

void SharedMemory::drop() noexcept {
  // In a child, other memory may lie at this address, and other files may have this number.
  if (!home_.is_here()) return;
  if (!mapping_.empty()) ::munmap(mapping_.data(), mapping_.size());
  if (descriptor_ >= 0) ::close(descriptor_);
  mapping_ = {};
  descriptor_ = -1;
}

}  // namespace everkernel::memory
