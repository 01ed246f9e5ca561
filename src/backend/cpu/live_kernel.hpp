// Worker threads that take items from queues until they are stopped: the live half of the CPU
// backend. live_worker.cpp is one worker.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <vector>

#include "backend/cpu/item_runner.hpp"
#include "backend/cpu/item_timeouts.hpp"
#include "backend/cpu/live_queue.hpp"
#include "backend/cpu/roster.hpp"
#include "backend/cpu/running_mark.hpp"
#include "backend/cpu/tally.hpp"
#include "backend/cpu/worker_threads.hpp"
#include "base/process.hpp"
#include "base/spin.hpp"
#include "everkernel/backend/detail/live.hpp"

namespace everkernel::backend::cpu {

class LiveWorker;

/// The part of a worker that others read.
struct alignas(64) LiveSeat {
  Tally tally;
  /// Odd while the worker looks at queues or runs items; it reads the roster only then.
  alignas(64) std::atomic<std::uint64_t> turn{0};
  /// The queue from which it takes in this turn; null while it looks.
  std::atomic<CpuQueue*> queue{nullptr};
  std::atomic<std::uint64_t> sleeps{0};
  RunningMark mark;  ///< of the item that it runs, if that may take long
};

/// Takes items from queues until it is stopped.
class CpuLiveKernel final : public LiveKernel {
 public:
  /// Starts the workers. Fails as the buffers' writers do, and as Thread::start does.
  static Result<std::unique_ptr<LiveKernel>> start(const LiveLaunch& launch,
                                                   std::shared_ptr<const Executor> executor,
                                                   std::uint64_t fuel_per_item, Word worker_count);
  ~CpuLiveKernel() override;  ///< stops at once

  Result<void> open(std::shared_ptr<LiveQueue> queue) override;
  std::uint64_t close(LiveQueue& queue, Clock::time_point deadline) override;
  void set_buffers(const memory::BufferTableView& buffers,
                   std::shared_ptr<const void> owner) override;
  std::uint64_t stop(Clock::time_point deadline, LeaveMode mode) override;
  LiveCounters flush_counters() override;
  Word help(LiveQueue& queue, LongWord awaited) override;
  bool is_running() const override { return threads_.are_running(); }
  void look_again() override;
  Result<void> settle(Clock::time_point deadline) override;
  /// Goes on with other handlers, as Kernel::take_over.
  Result<void> replace(std::shared_ptr<const Executor> executor, std::uint64_t fuel_per_item,
                       Clock::time_point deadline);
  void add_executions(std::vector<OpcodeTotal>& totals) const override;
  void copy_waiting(const LiveQueue& queue, std::vector<LiveItem>& items) const override;
  Result<void> copy_running(std::vector<LiveRunning>& items) override;
  Result<void> health() const override { return {}; }

 private:
  friend class LiveWorker;

  /// A roster that was replaced, and the turns in which workers may still read it.
  struct Retired {
    std::unique_ptr<const Roster> roster;
    std::vector<std::uint64_t> turns;
  };

  CpuLiveKernel(const LiveLaunch& launch, std::shared_ptr<const Executor> executor,
                std::uint64_t fuel_per_item, Word worker_count);
  void work(Word seat);
  void wait_aside();
  bool wait_until_aside(Clock::time_point deadline);
  std::vector<OpcodeTotal> executions_so_far() const;
  void refuse_items();
  std::unique_ptr<Roster> copy_roster() const;
  void replace_roster(std::unique_ptr<Roster> roster);
  void free_retired();
  void wait_until_untouched(CpuQueue& queue, Clock::time_point deadline);
  std::uint64_t cancel_waiting(CpuQueue& queue);
  void tell_all_to_end();
  Clock::time_point end_overdue();
  const Roster& roster() const { return *roster_.load(std::memory_order_acquire); }

  HomeProcess home_;
  Doorbell& doorbell_;
  std::shared_ptr<const Executor> executor_;
  ItemContext context_;
  Word worker_count_;
  Word seat_count_;
  std::unique_ptr<LiveSeat[]> seats_;  // one for each worker, the last for a thread that helps
  SpinLock helper_lock_;
  std::unique_ptr<LiveWorker> helper_;
  SpinLock flush_lock_;

  mutable std::mutex roster_mutex_;  // guards changes of the roster, and the next two
  std::unique_ptr<const Roster> current_roster_;
  std::list<Retired> retired_;
  std::atomic<bool> has_retired_{false};
  alignas(64) std::atomic<const Roster*> roster_{nullptr};

  // Workers step aside while the handlers are replaced.
  std::atomic<bool> must_step_aside_{false};
  std::mutex aside_mutex_;  // guards the next one
  Word aside_ = 0;
  std::condition_variable aside_changed_;
  std::vector<OpcodeTotal> earlier_;  // by handlers that were replaced; under the roster's mutex

  std::atomic<bool> must_leave_{false};
  std::atomic<bool> must_cancel_{false};  // items that were taken and have not begun
  std::atomic<std::uint32_t> look_requests_{0};
  std::atomic<std::uint64_t> cancelled_{0};
  // Workers that have found nothing for a while and are not asleep.
  alignas(64) std::atomic<Word> idle_workers_{0};
  alignas(64) WorkerThreads threads_;
  ItemTimeouts timeouts_{[this] { return end_overdue(); }};
};

}  // namespace everkernel::backend::cpu
