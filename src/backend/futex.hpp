// Sleeping on a word until another thread changes it: the system call behind std::atomic::wait,
// with the timeout that wait() lacks.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace everkernel::backend::futex {

/// Sleeps while the word is `expected`, at most `timeout`. May come back early for no reason.
void wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected,
          std::chrono::nanoseconds timeout);

/// Wakes every thread that sleeps on the word.
void wake(const std::atomic<std::uint32_t>& word);

/// As wait(), on a word of memory that several processes map.
void wait_shared(const std::uint32_t* word, std::uint32_t expected,
                 std::chrono::nanoseconds timeout);

/// A word of this process and a word that several processes map, and the values with which a thread
/// sleeps on them.
struct Pair {
  const std::atomic<std::uint32_t>* own = nullptr;
  std::uint32_t own_expected = 0;
  const std::uint32_t* shared = nullptr;
  std::uint32_t shared_expected = 0;
};
/// Sleeps while both words are as expected. On a system that cannot sleep on two words, at most a
/// millisecond.
void wait_on_both(const Pair& words, std::chrono::nanoseconds timeout);

/// Wakes every thread of every process that sleeps on the word.
void wake_shared(const std::uint32_t* word);

}  // namespace everkernel::backend::futex
