// Starts the threads of a kernel's workers and waits for their end.
#include "backend/cpu/worker_threads.hpp"

#include <utility>

namespace everkernel::backend::cpu {
namespace {

// Interval at which wait() looks whether workers have left.
constexpr auto kLeaveLook = std::chrono::microseconds(50);

}  // namespace

WorkerThreads::WorkerThreads(Word count)
    : count_(count), threads_(std::make_unique<Thread[]>(count)) {}

Result<void> WorkerThreads::start(std::function<void(Word)> work) {
  work_ = std::move(work);
  present_.store(count_, std::memory_order_release);
  for (Word i = 0; i < count_; ++i) {
    auto thread = Thread::start([this, i](const std::stop_token&) {
      work_(i);
      present_.fetch_sub(1, std::memory_order_acq_rel);
    });
    if (!thread) {
      present_.fetch_sub(count_ - i, std::memory_order_acq_rel);
      return Failure(thread.error());
    }
    threads_[i] = std::move(*thread);
  }
  return {};
}

bool WorkerThreads::wait(Clock::time_point deadline) const {
  while (are_running() && Clock::now() < deadline) std::this_thread::sleep_for(kLeaveLook);
  return !are_running();
}

void WorkerThreads::join() {
  for (Word i = 0; i < count_; ++i) {
    if (threads_[i].joinable()) threads_[i].join();
  }
}

}  // namespace everkernel::backend::cpu
