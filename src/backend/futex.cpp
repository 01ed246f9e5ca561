// The futex system call, in one process and across processes.
#include "backend/futex.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <ctime>

namespace everkernel::backend::futex {
namespace {

// Callers loop, so a longer sleep may end early.
constexpr std::chrono::nanoseconds kLongestSleep = std::chrono::hours(1);

void sleep_on(const void* word, int operation, std::uint32_t expected,
              std::chrono::nanoseconds timeout) {
  const auto bounded = std::clamp(timeout, std::chrono::nanoseconds(0), kLongestSleep);
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(bounded);
  const timespec limit{.tv_sec = static_cast<std::time_t>(seconds.count()),
                       .tv_nsec = static_cast<long>((bounded - seconds).count())};
  ::syscall(SYS_futex, word, operation, expected, &limit, nullptr, 0);
}

}  // namespace

void wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected,
          std::chrono::nanoseconds timeout) {
  sleep_on(&word, FUTEX_WAIT_PRIVATE, expected, timeout);
}

void wake(const std::atomic<std::uint32_t>& word) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

void wait_shared(const std::uint32_t* word, std::uint32_t expected,
                 std::chrono::nanoseconds timeout) {
  sleep_on(word, FUTEX_WAIT, expected, timeout);
}

void wake_shared(const std::uint32_t* word) {
  ::syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace everkernel::backend::futex
