// The id of the calling process, in a page that the kernel clears in a child.
#include "base/process.hpp"

#include <fmt/format.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

namespace everkernel {
namespace {

// For kernels that cannot clear a page in a child: cleared by a handler of fork() instead.
std::atomic<int> fallback_word{0};

// A page of its own, which is all zeros in a child, however the child was made.
std::atomic<int>* map_page() {
  const auto page_bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  void* const page =
      ::mmap(nullptr, page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return nullptr;
  if (::madvise(page, page_bytes, MADV_WIPEONFORK) == 0)
    return static_cast<std::atomic<int>*>(page);
  ::munmap(page, page_bytes);
  return nullptr;
}

std::atomic<int>* make_word() {
  if (std::atomic<int>* const word = map_page()) return word;
  ::pthread_atfork(nullptr, nullptr, [] { fallback_word.store(0, std::memory_order_relaxed); });
  return &fallback_word;
}

// The word of this program, holding the id of the calling process.
const std::atomic<int>* process_word() {
  static std::atomic<int>* const word = make_word();
  if (word->load(std::memory_order_relaxed) == 0) {
    word->store(static_cast<int>(::getpid()), std::memory_order_relaxed);
  }
  return word;
}

struct Abandoned {
  std::shared_ptr<void> object;
  Abandoned* next;
};
// Reachable, so that a leak checker does not report what is kept on purpose.
std::atomic<Abandoned*> abandoned{nullptr};

}  // namespace

HomeProcess::HomeProcess() : word_(process_word()), id_(word_->load(std::memory_order_relaxed)) {}

Failure HomeProcess::refuse(std::string_view what) const {
  return fail(Code::unsupported,
              fmt::format("{}: process {} made it, this is process {}", what, id_, ::getpid()),
              "make it again after fork(), in the process that uses it");
}

void abandon(std::shared_ptr<void> object) {
  auto* const entry = new Abandoned{std::move(object), abandoned.load(std::memory_order_relaxed)};
  while (!abandoned.compare_exchange_weak(entry->next, entry, std::memory_order_release,
                                          std::memory_order_relaxed)) {
  }
}

}  // namespace everkernel
