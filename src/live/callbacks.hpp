// Calls functions of the user when items have ended, on one thread: of a session for all its
// queues, or of a queue of another process.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/thread.hpp"
#include "live/queue_core.hpp"

namespace everkernel::live {

/// A function that is told how an item ended, or that it was cancelled.
using Callback = std::function<void(Ticket, Completion, bool cancelled)>;

/// The callbacks of one session, or of one attached queue. Shared with the thread that calls them:
/// a callback may run longer than the session or queue is held.
class Callbacks : public std::enable_shared_from_this<Callbacks> {
 public:
  Callbacks() = default;
  Callbacks(const Callbacks&) = delete;             ///< queues refer to it
  Callbacks& operator=(const Callbacks&) = delete;  ///< queues refer to it
  /// A callback that outlived its session or queue holds this object last, on its own thread.
  ~Callbacks();

  /// Calls `callback` when the ticket has ended; at once, on the calling thread, after end(). Fails
  /// with `invalid_argument` if the outcome is no longer kept, and with `out_of_memory` or
  /// `unsupported` if the thread cannot be made.
  Result<void> add(std::shared_ptr<QueueCore> queue, Ticket ticket, Callback callback);
  /// Calls what is left, whether its item has ended or not, and waits until every callback has
  /// returned. At the deadline, drops the callbacks that have not begun and lets the one that runs
  /// go on by itself. Gives how many were dropped so far. Inside a callback it does not wait.
  /// Several threads may call it.
  std::uint64_t end(backend::Clock::time_point deadline);
  /// Callbacks that threw an exception.
  std::uint64_t failed() const { return failed_.load(std::memory_order_relaxed); }

 private:
  // Keeps the outcome of its ticket until it is destroyed.
  struct Pending {
    Pending(std::shared_ptr<QueueCore> of, Ticket followed, Callback function)
        : queue(std::move(of)), ticket(followed), call(std::move(function)) {}
    Pending(const Pending&) = delete;
    Pending& operator=(const Pending&) = delete;
    ~Pending() {
      if (is_following) queue->unfollow(ticket.number);
    }

    const std::shared_ptr<QueueCore> queue;
    const Ticket ticket;
    Callback call;
    bool is_following = false;
  };

  Result<void> start_thread();
  void run(const std::stop_token& stop);
  bool call_ready(bool is_last);
  void call(Pending& pending);
  void wait(std::uint32_t prepared);
  bool has_ready();
  void follow(QueueCore& queue);
  void unfollow_idle();

  std::atomic<std::uint32_t> rings_{0};  // changes when an item of a followed queue ended
  std::atomic<std::uint64_t> failed_{0};
  std::mutex mutex_;  // guards everything below
  std::list<Pending>
      pending_;  // a list: the thread, which has no caller for an error, only splices
  std::vector<std::shared_ptr<QueueCore>> followed_;
  bool has_ended_ = false;
  bool has_dropped_ = false;
  std::uint64_t uncalled_ = 0;  // callbacks whose call has not begun
  std::uint64_t dropped_ = 0;
  bool is_running_ = false;  // the thread has not left
  std::condition_variable left_;
  Thread thread_;
};

}  // namespace everkernel::live
