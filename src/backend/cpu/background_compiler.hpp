// The thread that compiles handlers while the interpreter runs them.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>

#include "base/thread.hpp"
#include "everkernel/backend/backend.hpp"

namespace everkernel::backend::cpu {

class HandlerCode;

/// Compiles handlers one after the other on a thread of its own. Thread-safe.
///
/// A request names a handler of a HandlerCode, which queues each handler once, so that the queue is
/// no longer than the programs of its kernels. A kernel that is destroyed takes its requests along.
class BackgroundCompiler {
 public:
  BackgroundCompiler() = default;                                     ///< no thread yet
  BackgroundCompiler(const BackgroundCompiler&) = delete;             ///< its thread refers to it
  BackgroundCompiler& operator=(const BackgroundCompiler&) = delete;  ///< its thread refers to it
  ~BackgroundCompiler();  ///< cancels what is under way and ends the thread

  /// Queues a handler behind all others. Fails as Thread::start does if there is no thread yet.
  Result<void> add(const std::shared_ptr<HandlerCode>& code, Word handler);
  /// Moves handlers that are still queued to the front, because a caller waits for them. Without
  /// memory the order stays as it is.
  void move_to_front(const HandlerCode& code, std::span<const Word> handlers) noexcept;

 private:
  struct Request {
    std::weak_ptr<HandlerCode> code;
    const HandlerCode* owner = nullptr;  // of `code`, for comparison only
    Word handler = 0;
  };

  void run(const std::stop_token& stop);

  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<Request> queue_;
  HandlerCode* compiling_ = nullptr;  // whose handler is compiled at the moment
  Thread thread_;                     // last, so that it ends before what it uses
};

}  // namespace everkernel::backend::cpu
