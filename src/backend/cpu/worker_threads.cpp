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
  Word started = 0;
  // Also when there is no memory for a thread: whoever waits for those that run must not wait for
  // the others.
  struct Rest {
    ~Rest() { present.fetch_sub(count - started, std::memory_order_acq_rel); }
    std::atomic<Word>& present;
    const Word count;
    const Word& started;
  } const rest{present_, count_, started};
  for (; started < count_; ++started) {
    threads_[started] = EVERKERNEL_TRY(Thread::start([this, i = started](const std::stop_token&) {
      work_(i);
      present_.fetch_sub(1, std::memory_order_acq_rel);
    }));
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
