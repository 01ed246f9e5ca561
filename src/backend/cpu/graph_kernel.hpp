// Worker threads that run planned work.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "backend/cpu/executor.hpp"
#include "backend/cpu/graph_work.hpp"
#include "backend/cpu/tally.hpp"
#include "backend/cpu/worker_threads.hpp"
#include "base/process.hpp"
#include "base/spin.hpp"
#include "everkernel/backend/detail/graph_kernel.hpp"

namespace everkernel::backend::cpu {

/// Runs planned work until it is stopped.
class CpuGraphKernel final : public GraphKernel {
 public:
  /// Starts the workers. Fails as the buffers' writers do, and as Thread::start does.
  static Result<std::unique_ptr<GraphKernel>> start(const GraphLaunch& launch,
                                                    std::shared_ptr<const Executor> executor,
                                                    std::uint64_t fuel_per_item, Word worker_count);
  ~CpuGraphKernel() override;  ///< stops at once

  void stop(Clock::time_point deadline) override;
  LiveCounters flush_counters() override;
  bool is_running() const override { return threads_.are_running(); }
  Result<void> health() const override;

 private:
  struct alignas(64) Seat {
    Tally tally;
    std::atomic<std::uint64_t> sleeps{0};
    std::atomic<std::uint64_t> busy_ns{0};
  };
  class Loop;

  CpuGraphKernel(const GraphLaunch& launch, std::shared_ptr<const Executor> executor,
                 std::uint64_t fuel_per_item, Word worker_count);
  void work(Word seat);

  HomeProcess home_;
  Doorbell& doorbell_;
  std::shared_ptr<const Executor> executor_;
  ItemContext context_;
  const protocol::QueueKernel queue_;
  GraphWork graph_;
  std::unique_ptr<Seat[]> seats_;  // one for each worker
  Word worker_count_;
  SpinLock flush_lock_;
  Word abort_ = 0;
  std::atomic<bool> must_leave_{false};
  std::atomic<bool> is_out_of_memory_{false};       // a worker left because it could not allocate
  alignas(64) std::atomic<abi::LongWord> head_{0};  // the next ticket to take
  WorkerThreads threads_;
};

}  // namespace everkernel::backend::cpu
