// What a queue needs of the process that runs its kernel.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "everkernel/backend/detail/live.hpp"
#include "everkernel/live/queue.hpp"

namespace everkernel::live {

class QueueCore;

/// The session of a queue: its kernel, its doorbell and its callbacks.
class Host {
 public:
  virtual ~Host() = default;

  /// As backend::LiveKernel::help.
  virtual Word help(backend::LiveQueue& queue, backend::LongWord awaited) = 0;
  /// Called by a thread that is about to sleep until an item ends.
  virtual void expect_sleeper() = 0;
  /// Names the item of a queue that has run longest, for the text of an error; empty if none runs
  /// that may take long.
  virtual std::string running_text(const backend::LiveQueue& queue) = 0;
  /// Fails if nothing will run any more: `device_lost`, or `invalid_argument` once it has stopped.
  virtual Result<void> check_running() const = 0;
  /// Takes the queue from the kernel and from the session; gives the items cancelled by that.
  virtual std::uint64_t take_away(QueueCore& queue, backend::Clock::time_point deadline) = 0;
  /// Calls back when the item has ended.
  virtual Result<void> call_back(std::shared_ptr<QueueCore> queue, Ticket ticket,
                                 std::function<void(Ticket, Completion, bool)> callback) = 0;
};

}  // namespace everkernel::live
