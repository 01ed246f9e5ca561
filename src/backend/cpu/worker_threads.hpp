// The threads of a kernel that stays.
#pragma once

#include <atomic>
#include <functional>
#include <memory>

#include "base/thread.hpp"
#include "everkernel/backend/backend.hpp"

namespace everkernel::backend::cpu {

/// One thread for each worker. They leave when the function that they run returns, so whoever owns
/// this object makes it return and then calls join().
class WorkerThreads {
 public:
  /// Room for that many.
  explicit WorkerThreads(Word count);

  /// Runs `work` on every thread, with the number of the worker. All workers or none, because
  /// reports count on all of them: if a thread cannot be made, the caller ends those that run.
  /// Fails as Thread::start does.
  Result<void> start(std::function<void(Word)> work);
  /// Whether any worker has not left.
  bool are_running() const { return present_.load(std::memory_order_acquire) != 0; }
  /// Waits until all have left or the deadline has passed; says whether all have left.
  bool wait(Clock::time_point deadline) const;
  /// Waits until all have left.
  void join();

 private:
  const Word count_;
  std::unique_ptr<Thread[]> threads_;
  std::function<void(Word)> work_;
  std::atomic<Word> present_{0};  // workers that have not left
};

}  // namespace everkernel::backend::cpu
