// Signal handlers, which only set a flag and give the signals back to the system.
#include "interrupt.hpp"

#include <cerrno>

namespace everkernel::cli {
namespace {

std::atomic<bool> is_interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler may touch no lock");

}  // namespace

void ignore_write_signals() {
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, SIG_IGN);
}

// Any of the signals may come second, so all of them get their default action back.
void Interrupt::handle(int) {
  const int saved = errno;
  is_interrupted.store(true, std::memory_order_relaxed);
  for (const int number : kSignals) {
    struct sigaction now {};
    if (::sigaction(number, nullptr, &now) == 0 && now.sa_handler == SIG_IGN) continue;
    ::signal(number, SIG_DFL);
  }
  errno = saved;
}

Interrupt::Interrupt() {
  is_interrupted.store(false, std::memory_order_relaxed);
  struct sigaction action {};
  action.sa_handler = handle;
  // While one signal is handled the others wait: they find their default action.
  for (const int number : kSignals) sigaddset(&action.sa_mask, number);
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    ::sigaction(kSignals[i], nullptr, &before_[i]);
    if (before_[i].sa_handler != SIG_IGN) ::sigaction(kSignals[i], &action, nullptr);
  }
}

Interrupt::~Interrupt() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    ::sigaction(kSignals[i], &before_[i], nullptr);
  }
}

const std::atomic<bool>& Interrupt::flag() const {
  return is_interrupted;
}

}  // namespace everkernel::cli
