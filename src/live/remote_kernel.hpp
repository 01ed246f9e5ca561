// The kernel of a queue as its client in another process sees it: it can be rung for, waited for,
// and found to be gone.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>

#include "base/descriptor.hpp"
#include "everkernel/backend/detail/live.hpp"
#include "everkernel/protocol/queue.hpp"
#include "live/handover.hpp"
#include "memory/shared_memory.hpp"

namespace everkernel::live {

/// The client's end of everything but the queue's own files.
class RemoteKernel {
 public:
  /// Takes the armed page, the bell and the pidfd out of `handover`. Fails with `corrupt` and `io`.
  static Result<std::unique_ptr<RemoteKernel>> create(Handover& handover);

  /// Rings for the workers of that process.
  const std::shared_ptr<backend::Bell>& bell() const { return bell_; }
  /// Fails with `device_lost` once the process that ran the kernel is gone, or its kernel was lost,
  /// and with `invalid_argument` once the queue is closed.
  Result<void> check_running(const protocol::QueueProducer& words) const;
  /// Whether nothing will end any more: the queue is closed, or the process that ran the kernel is
  /// gone. Look for outcomes behind it.
  bool has_ended(const protocol::QueueProducer& words) const {
    return words.state() == abi::QueueState::closed || is_process_gone();
  }
  /// Sleeps until something ended in the queue, or until the deadline. Looks once more before.
  void sleep(const protocol::QueueProducer& words, const std::function<bool()>& is_met,
             backend::Clock::time_point deadline);
  /// The same, and until `rings` is no longer `prepared`.
  void sleep_beside(const std::atomic<std::uint32_t>& rings, std::uint32_t prepared,
                    const protocol::QueueProducer& words, const std::function<bool()>& is_met,
                    std::chrono::nanoseconds timeout);

 private:
  RemoteKernel(std::shared_ptr<backend::Bell> bell, Descriptor process)
      : bell_(std::move(bell)), process_(std::move(process)) {}
  bool is_process_gone() const;
  void sleep_with(const protocol::QueueProducer& words, const std::function<bool()>& is_met,
                  const auto& wait);
  void count_sleeper(const protocol::QueueProducer& words, int change);

  const std::shared_ptr<backend::Bell> bell_;
  const Descriptor process_;
  std::mutex mutex_;  // the waiting word says whether any thread sleeps
  int sleepers_ = 0;
};

}  // namespace everkernel::live
