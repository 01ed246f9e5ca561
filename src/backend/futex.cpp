// The futex system call, in one process and across processes.
#include "backend/futex.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <ctime>

namespace everkernel::backend::futex {
namespace {

// Callers loop, so a longer sleep may end early.
constexpr std::chrono::nanoseconds kLongestSleep = std::chrono::hours(1);

// A thread that can sleep on one word only looks at the other after this time.
[[maybe_unused]] constexpr std::chrono::nanoseconds kLookInterval = std::chrono::milliseconds(1);

timespec timespec_of(std::chrono::nanoseconds time) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(time);
  return {.tv_sec = static_cast<std::time_t>(seconds.count()),
          .tv_nsec = static_cast<long>((time - seconds).count())};
}

std::chrono::nanoseconds bounded(std::chrono::nanoseconds timeout) {
  return std::clamp(timeout, std::chrono::nanoseconds(0), kLongestSleep);
}

void sleep_on(const void* word, int operation, std::uint32_t expected,
              std::chrono::nanoseconds timeout) {
  const timespec limit = timespec_of(bounded(timeout));
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

void wait_on_both(const Pair& words, std::chrono::nanoseconds timeout) {
#if defined(SYS_futex_waitv)  // Linux 5.16
  const auto address = [](const void* word) { return reinterpret_cast<std::uintptr_t>(word); };
  futex_waitv both[2] = {};
  both[0].val = words.own_expected;
  both[0].uaddr = address(words.own);
  both[0].flags = FUTEX_32 | FUTEX_PRIVATE_FLAG;
  both[1].val = words.shared_expected;
  both[1].uaddr = address(words.shared);
  both[1].flags = FUTEX_32;
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  const timespec limit = timespec_of(now + bounded(timeout));
  const long result = ::syscall(SYS_futex_waitv, both, 2, 0, &limit, CLOCK_MONOTONIC);
  if (result >= 0 || errno == EAGAIN || errno == ETIMEDOUT || errno == EINTR) return;
#endif
  if (words.own->load(std::memory_order_relaxed) != words.own_expected) return;
  wait_shared(words.shared, words.shared_expected, std::min(timeout, kLookInterval));
}

void wake_shared(const std::uint32_t* word) {
  ::syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace everkernel::backend::futex
