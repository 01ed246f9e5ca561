// Threads of the library: a thread that cannot be made is an error, and a child of fork() does not
// wait for the threads of its parent.
#pragma once

#include <functional>
#include <stop_token>
#include <thread>

#include "base/process.hpp"
#include "everkernel/base/result.hpp"

namespace everkernel {

/// A thread that is asked to stop and joined when it is destroyed, as std::jthread, except in
/// another process than the one that made it: there it does nothing.
class Thread {
 public:
  /// No thread.
  Thread() = default;
  /// Runs `body` on a new thread. Fails with `out_of_memory` if its stack does not fit, and with
  /// `unsupported` if the system allows no further thread; the message names the limit.
  static Result<Thread> start(std::function<void(std::stop_token)> body);

  Thread(Thread&& other) noexcept = default;   ///< takes over
  Thread& operator=(Thread&& other) noexcept;  ///< ends its own, takes over
  ~Thread();                                   ///< asks it to stop and waits for its end

  /// Whether there is a thread to join.
  bool joinable() const { return thread_.joinable(); }
  /// Asks the thread to stop.
  void request_stop() { thread_.request_stop(); }
  /// Waits for its end.
  void join();
  /// Lets it go on by itself: everything it uses must outlive it.
  void detach() { thread_.detach(); }
  /// Whether it is the calling thread.
  bool is_current() const { return thread_.get_id() == std::this_thread::get_id(); }

 private:
  explicit Thread(std::jthread thread) : thread_(std::move(thread)) {}

  HomeProcess home_;
  std::jthread thread_;
};

}  // namespace everkernel
