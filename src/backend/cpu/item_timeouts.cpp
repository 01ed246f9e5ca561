// Sleeps between looks.
#include "backend/cpu/item_timeouts.hpp"

#include <utility>

namespace everkernel::backend::cpu {

Result<void> ItemTimeouts::begin() {
  const std::scoped_lock held(mutex_);
  if (!thread_.joinable()) {
    thread_ = EVERKERNEL_TRY(Thread::start([this](const std::stop_token& stop) { run(stop); }));
  }
  must_look_ = true;
  changed_.notify_one();
  return {};
}

void ItemTimeouts::stop() {
  Thread ended;
  {
    const std::scoped_lock held(mutex_);
    ended = std::exchange(thread_, {});
  }
  ended.request_stop();
  if (ended.joinable()) ended.join();
}

void ItemTimeouts::run(const std::stop_token& stop) {
  std::unique_lock held(mutex_);
  while (!stop.stop_requested()) {
    must_look_ = false;
    held.unlock();
    const Clock::time_point next = look_();
    held.lock();
    const auto is_asked = [this] { return must_look_; };
    if (next == Clock::time_point::max()) {
      changed_.wait(held, stop, is_asked);
    } else {
      changed_.wait_until(held, stop, next, is_asked);
    }
  }
}

}  // namespace everkernel::backend::cpu
