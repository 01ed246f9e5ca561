// Ends items at a deadline: one thread that sleeps until then.
#pragma once

#include <condition_variable>
#include <mutex>

#include "base/thread.hpp"
#include "everkernel/abi/platform.hpp"
#include "everkernel/backend/backend.hpp"

namespace everkernel::backend::cpu {

/// Stores 1 into a word at its deadline unless it is disarmed before. Arming needs a system call
/// only if the new deadline is earlier than the time the thread sleeps until.
class DeadlineWatch {
 public:
  DeadlineWatch() = default;                                ///< no thread yet
  DeadlineWatch(const DeadlineWatch&) = delete;             ///< its thread refers to it
  DeadlineWatch& operator=(const DeadlineWatch&) = delete;  ///< its thread refers to it
  ~DeadlineWatch();                                         ///< ends the thread

  /// Stores 1 into `word` at `deadline`. One word at a time. Fails as Thread::start does; then the
  /// word is not written.
  Result<void> arm(Word& word, const Deadline& deadline);
  /// The word is not written after this call.
  void disarm();

 private:
  void run(const std::stop_token& stop);

  std::mutex mutex_;
  std::condition_variable_any changed_;
  Word* word_ = nullptr;
  Deadline deadline_ = {};
  Clock::time_point next_look_ = Clock::time_point::max();
  Thread thread_;
};

}  // namespace everkernel::backend::cpu
