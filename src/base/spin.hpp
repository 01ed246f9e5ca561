// Short waits for another thread: a pause instruction and a spin lock.
#pragma once

#include <atomic>
#include <thread>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace everkernel {

/// Tells the core that this is a spin loop: waits a few cycles and saves power.
inline void spin_pause() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  __asm__("yield");
#endif
}

/// A lock for critical sections of a few instructions: spins, then yields to other threads, of
/// which one may hold the lock. Works with std::scoped_lock.
class SpinLock {
 public:
  /// Takes the lock; waits until it is free.
  void lock() {
    for (int spins = 0; !try_lock();) {
      while (is_held_.load(std::memory_order_relaxed)) {
        if (++spins < kSpinsBeforeYield) {
          spin_pause();
        } else {
          std::this_thread::yield();
        }
      }
    }
  }
  /// Takes the lock if it is free.
  bool try_lock() { return !is_held_.exchange(true, std::memory_order_acquire); }
  /// Releases the lock.
  void unlock() { is_held_.store(false, std::memory_order_release); }

 private:
  static constexpr int kSpinsBeforeYield = 64;
  std::atomic<bool> is_held_{false};
};

}  // namespace everkernel
