// membarrier(2), and full fences on both sides where it is refused.
#include "everkernel/base/detail/fence.hpp"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <mutex>

namespace everkernel::fence {
namespace {

long membarrier(int command) {
  return ::syscall(SYS_membarrier, command, 0, 0);
}

}  // namespace

namespace detail {
std::atomic<bool> is_asymmetric{false};
}  // namespace detail

void prepare() {
  // A child of fork() registers anew: the registration belongs to the process.
  static std::mutex mutex;
  static pid_t registered = 0;
  const std::scoped_lock held(mutex);
  const pid_t self = ::getpid();
  if (registered == self) return;
  registered = self;
  const bool is_possible = membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0 &&
                           membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0;
  detail::is_asymmetric.store(is_possible, std::memory_order_seq_cst);
}

void heavy() {
  full();
  if (detail::is_asymmetric.load(std::memory_order_relaxed)) {
    membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
  }
  full();
}

}  // namespace everkernel::fence
