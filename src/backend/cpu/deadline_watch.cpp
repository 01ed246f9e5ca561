// The thread that ends items at a deadline.
#include "backend/cpu/deadline_watch.hpp"

#include <atomic>

namespace everkernel::backend::cpu {

DeadlineWatch::~DeadlineWatch() {
  thread_.request_stop();
}

Result<void> DeadlineWatch::arm(Word& word, const Deadline& deadline) {
  if (deadline.next_look() == Clock::time_point::max()) return {};
  const std::scoped_lock held(mutex_);
  if (!thread_.joinable()) {
    thread_ = EVERKERNEL_TRY(Thread::start([this](const std::stop_token& stop) { run(stop); }));
  }
  word_ = &word;
  deadline_ = deadline;
  if (deadline_.next_look() < next_look_) changed_.notify_one();
  return {};
}

void DeadlineWatch::disarm() {
  const std::scoped_lock held(mutex_);
  word_ = nullptr;
  deadline_ = {};
}

void DeadlineWatch::run(const std::stop_token& stop) {
  std::unique_lock held(mutex_);
  while (!stop.stop_requested()) {
    if (word_ != nullptr && deadline_.has_passed()) {
      std::atomic_ref(*word_).store(1, std::memory_order_relaxed);
      word_ = nullptr;
      deadline_ = {};
    }
    // After disarm() the thread keeps sleeping until the old look, so disarming wakes nothing.
    next_look_ = deadline_.next_look();
    const auto is_earlier = [this] { return deadline_.next_look() < next_look_; };
    if (next_look_ == Clock::time_point::max()) {
      changed_.wait(held, stop, is_earlier);
    } else {
      changed_.wait_until(held, stop, next_look_, is_earlier);
    }
  }
}

}  // namespace everkernel::backend::cpu
