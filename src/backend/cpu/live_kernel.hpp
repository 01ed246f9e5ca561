// Worker threads that stay on one ring: the live half of the CPU backend.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "backend/cpu/deferred.hpp"
#include "backend/cpu/executor.hpp"
#include "backend/cpu/graph_work.hpp"
#include "backend/cpu/tally.hpp"
#include "backend/cpu/worker.hpp"
#include "base/spin.hpp"
#include "everkernel/backend/detail/live.hpp"

namespace everkernel::backend::cpu {

/// Runs a ring until it is stopped.
class CpuLiveKernel final : public LiveKernel {
 public:
  /// Starts the workers. The executor must outlive the kernel. Fails as the buffers' writers do.
  static Result<std::unique_ptr<LiveKernel>> start(const LiveLaunch& launch,
                                                   std::shared_ptr<const Executor> executor,
                                                   std::uint64_t fuel_per_item, Word worker_count);
  ~CpuLiveKernel() override;  ///< stops at once

  void stop(Clock::time_point deadline) override;
  LiveCounters flush_counters() override;
  Word help() override;
  bool is_running() const override { return present_.load(std::memory_order_acquire) != 0; }
  void look_again() override;
  Result<void> health() const override { return {}; }

 private:
  struct alignas(64) Seat {
    Tally tally;
    std::atomic<std::uint64_t> sleeps{0};
    std::atomic<std::uint64_t> busy_ns{0};
    std::jthread thread;
  };
  class Loop;

  CpuLiveKernel(const LiveLaunch& launch, std::shared_ptr<const Executor> executor,
                std::uint64_t fuel_per_item, Word worker_count);
  void take_over(std::uint64_t first_ticket);
  Word slot_of(std::uint64_t ticket) const { return static_cast<Word>(ticket) & slot_mask_; }

  TicketDesk& desk_;
  CompletionBell& bell_;
  std::shared_ptr<const Executor> executor_;
  RingState ring_;
  Word slot_mask_;
  Word largest_batch_;
  Word long_row_;
  DeferredList deferred_;
  std::unique_ptr<GraphWork> graph_;  // null unless the work is planned
  std::unique_ptr<Seat[]> seats_;     // one for each worker, the last for a host thread that helps
  Word worker_count_;
  Word seat_count_;
  SpinLock helper_lock_;
  std::unique_ptr<Loop> helper_;
  SpinLock flush_lock_;
  Word abort_ = 0;
  std::atomic<bool> must_leave_{false};
  std::atomic<Word> present_;  // workers that have not left
  std::atomic<std::uint32_t> look_requests_{0};
  alignas(64) std::atomic<std::uint64_t> head_;  // the next ticket to claim
};

}  // namespace everkernel::backend::cpu
