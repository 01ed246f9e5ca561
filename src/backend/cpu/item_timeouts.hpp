// The thread that ends items which run longer than their queue allows.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>

#include "base/thread.hpp"
#include "everkernel/backend/backend.hpp"

namespace everkernel::backend::cpu {

/// Looks again and again. There is no thread before the first call of begin(), and it wakes up only
/// when `look` has asked for it.
class ItemTimeouts {
 public:
  /// `look` ends items and says when to look again: Clock::time_point::max() is never.
  explicit ItemTimeouts(std::function<Clock::time_point()> look) : look_(std::move(look)) {}
  ItemTimeouts(const ItemTimeouts&) = delete;             ///< its thread refers to it
  ItemTimeouts& operator=(const ItemTimeouts&) = delete;  ///< its thread refers to it
  ~ItemTimeouts() { stop(); }                             ///< ends the thread

  /// Looks soon, and from then on as `look` says. Fails as Thread::start does.
  Result<void> begin();
  /// Ends the thread.
  void stop();

 private:
  void run(const std::stop_token& stop);

  const std::function<Clock::time_point()> look_;
  std::mutex mutex_;  // guards the rest
  std::condition_variable_any changed_;
  bool must_look_ = false;
  Thread thread_;
};

}  // namespace everkernel::backend::cpu
