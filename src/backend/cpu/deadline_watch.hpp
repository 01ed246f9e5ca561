// Ends items at a deadline: one thread that sleeps until the earliest.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

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

  /// Stores 1 into `word` at `deadline`. One word at a time.
  void arm(Word& word, Clock::time_point deadline);
  /// The word is not written after this call.
  void disarm();

 private:
  void run(const std::stop_token& stop);

  std::mutex mutex_;
  std::condition_variable_any changed_;
  Word* word_ = nullptr;
  Clock::time_point deadline_ = Clock::time_point::max();
  Clock::time_point next_look_ = Clock::time_point::max();
  std::jthread thread_;
};

}  // namespace everkernel::backend::cpu
