// The thread that ends items at a deadline.
#include "backend/cpu/deadline_watch.hpp"

#include <atomic>

namespace everkernel::backend::cpu {

DeadlineWatch::~DeadlineWatch() {
  thread_.request_stop();
}

void DeadlineWatch::arm(Word& word, Clock::time_point deadline) {
  if (deadline == Clock::time_point::max()) return;
  const std::scoped_lock held(mutex_);
  word_ = &word;
  deadline_ = deadline;
  if (!thread_.joinable()) {
    thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
  }
  if (deadline < next_look_) changed_.notify_one();
}

void DeadlineWatch::disarm() {
  const std::scoped_lock held(mutex_);
  word_ = nullptr;
  deadline_ = Clock::time_point::max();
}

void DeadlineWatch::run(const std::stop_token& stop) {
  std::unique_lock held(mutex_);
  while (!stop.stop_requested()) {
    if (word_ != nullptr && Clock::now() >= deadline_) {
      std::atomic_ref(*word_).store(1, std::memory_order_relaxed);
      word_ = nullptr;
      deadline_ = Clock::time_point::max();
    }
    // After disarm() the thread keeps sleeping until the old deadline, so disarming wakes nothing.
    next_look_ = deadline_;
    const auto is_earlier = [this] { return deadline_ < next_look_; };
    if (next_look_ == Clock::time_point::max()) {
      changed_.wait(held, stop, is_earlier);
    } else {
      changed_.wait_until(held, stop, next_look_, is_earlier);
    }
  }
}

}  // namespace everkernel::backend::cpu
