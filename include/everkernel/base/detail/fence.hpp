// Orders a store before a later load on two threads, at the cost of one of them.
//
// Two threads that each store one word and then load the other's need a full fence on both sides,
// or both may miss the other's store. Where one side is every item and the other a thread about to
// sleep, the frequent side calls light(), which costs nothing, and the rare side heavy(), a system
// call (membarrier) that makes every running thread of the process pass a fence.
#pragma once

#include <atomic>

namespace everkernel::fence {

namespace detail {
/// Whether heavy() works without the help of light(); false where the system call is refused.
extern std::atomic<bool> is_asymmetric;
}  // namespace detail

/// Registers the process for the system call. Called by whoever relies on heavy(), before; further
/// calls cost nothing.
void prepare();

/// Orders every earlier store of this thread before every later load.
inline void full() {
#if defined(__x86_64__)
  // Faster than MFENCE, and no fence in the eyes of ThreadSanitizer, which does not model any.
  __asm__ volatile("lock; orl $0, -8(%%rsp)" : : : "memory", "cc");
#else
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

/// Between the store and the load of the frequent side.
inline void light() {
  if (detail::is_asymmetric.load(std::memory_order_relaxed)) [[likely]] {
    std::atomic_signal_fence(std::memory_order_seq_cst);
  } else {
    full();
  }
}

/// Between the store and the load of the rare side.
void heavy();

}  // namespace everkernel::fence
