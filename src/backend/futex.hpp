// Sleeping on a word until somebody changes it: the system call that std::atomic::wait hides, with
// the timeout that it lacks.
#pragma once

#include <atomic>
#include <chrono>
#include <climits>
#include <cstdint>

namespace everkernel::backend::futex {

/// Sleeps while the word is `expected`, at most `timeout`. May come back early for no reason.
void wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected,
          std::chrono::nanoseconds timeout);

/// Wakes up to `count` threads that sleep on the word.
void wake(const std::atomic<std::uint32_t>& word, int count = INT_MAX);

}  // namespace everkernel::backend::futex
