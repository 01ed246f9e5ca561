// The state of a session. Each call of Session forwards to a function of it.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/process.hpp"
#include "everkernel/backend/detail/live.hpp"
#include "everkernel/protocol/words.hpp"
#include "everkernel/runtime/session.hpp"
#include "live/callbacks.hpp"
#include "live/host.hpp"
#include "live/queue_core.hpp"
#include "memory/shared_memory.hpp"
#include "runtime/session_snapshot.hpp"
#include "runtime/state.hpp"

namespace everkernel {

class Session::State final : public live::Host, public std::enable_shared_from_this<State> {
 public:
  /// Parts of the shared memory.
  enum Part : std::size_t { kControl, kDebugLog, kIoQueue };

  State(std::shared_ptr<Megakernel::State> megakernel, memory::SharedMemory shared_memory,
        const SessionOptions& options, std::shared_ptr<backend::Doorbell> doorbell);
  Result<void> launch();

  Result<void> check_home() const { return home_.check("session"); }
  bool is_here() const { return home_.is_here(); }
  Word capacity() const { return capacity_; }
  int memory_descriptor() const { return shared_memory_.file_descriptor(); }

  // ---- queues ----
  Result<std::shared_ptr<live::QueueCore>> open(const QueueOptions& options,
                                                std::uint8_t own_index);
  Result<live::QueueCore*> own_queue(const PublishOptions& options);
  /// The same without opening it; null if it is not there, or cannot be.
  live::QueueCore* find_own_queue(const PublishOptions& options) const {
    const Word tenant = options.tenant.number;
    const Word priority = static_cast<Word>(options.priority);
    if (tenant > abi::kMaxTenant || priority >= abi::kPriorityCount) return nullptr;
    return own_queues_[own_index(tenant, priority)].load(std::memory_order_acquire);
  }
  live::QueueCore* own_queue_of(Ticket ticket) const;
  Result<std::shared_ptr<live::QueueCore>> queue_of(Ticket ticket);
  Result<void> wait_all(std::chrono::nanoseconds timeout);
  void set_buffers(std::shared_ptr<TableSnapshot> table);

  // ---- of live::Host ----
  Word help(backend::LiveQueue& queue, backend::LongWord awaited) override;
  void expect_sleeper() override;
  std::string running_text(const backend::LiveQueue& queue) override;
  Result<void> check_running() const override;
  std::uint64_t take_away(live::QueueCore& queue, backend::Clock::time_point deadline) override;
  Result<void> call_back(std::shared_ptr<live::QueueCore> queue, Ticket ticket,
                         live::Callback callback) override;

  // ---- looking ----
  SessionCounters counters();
  Result<std::vector<RunningItem>> running();
  Result<void> snapshot(SessionSnapshot& target, std::span<const Word> window_opcodes);
  Result<Word> observable(Word index) const;
  void copy_debug_log(std::vector<std::byte>& target) const;
  Result<void> set_tenant_enabled(TenantId tenant, bool enabled);
  Result<void> set_tenant_quota(TenantId tenant, Word quota);

  // ---- parking ----
  Result<void> parked(const std::function<void()>& act, std::chrono::nanoseconds timeout);

  // ---- other handlers ----
  Result<void> replace_handlers(const ir::VerifiedProgram& program,
                                std::chrono::nanoseconds timeout);

  // ---- ending ----
  StopReport stop(StopMode mode, std::chrono::nanoseconds timeout,
                  std::chrono::nanoseconds callback_timeout);
  Result<void> recover(std::chrono::nanoseconds timeout);

 private:
  struct RunningKernel {
    std::shared_ptr<backend::Kernel> kernel;  // outlives `live`
    std::unique_ptr<backend::LiveKernel> live;
  };

  static std::uint8_t own_index(Word tenant, Word priority) {
    return static_cast<std::uint8_t>(tenant * abi::kPriorityCount + priority);
  }
  backend::LiveKernel* live() const { return live_.load(std::memory_order_acquire); }
  Result<live::QueueCore*> open_own_queue(Word tenant, Word priority);
  void for_each_queue(const auto& visit);
  std::unique_lock<LaunchGate> lock_to_stop(StopMode mode, backend::Clock::time_point deadline);
  StopReport stop_kernel(StopMode mode, backend::Clock::time_point deadline);
  StopReport counts_so_far();
  Result<void> check_not_stopping() const;
  Result<std::shared_ptr<backend::Kernel>> kernel_to_start();
  Result<void> swap(const std::shared_ptr<backend::Kernel>& kernel,
                    const backend::Deadline& deadline);
  void set_limits(bool are_set);
  Result<void> wait_until_ended(const backend::Deadline& deadline);
  std::optional<Error> what_holds_up();
  void end_taken();
  bool may_run_twice(const abi::Slot& slot) const;
  static void add(backend::LiveCounters& sum, const backend::LiveCounters& more);
  std::uint64_t table_bytes();

  HomeProcess home_;
  std::shared_ptr<Megakernel::State> megakernel_;
  memory::SharedMemory shared_memory_;
  protocol::LiveWords control_;
  const Word capacity_;
  const std::uint64_t first_ticket_;
  const Word multiprocessors_;
  const std::chrono::nanoseconds item_timeout_;  // of queues of the session's own
  const backend::Latency latency_;
  const std::shared_ptr<backend::Doorbell> doorbell_;
  const std::shared_ptr<live::Callbacks> callbacks_ = std::make_shared<live::Callbacks>();

  std::mutex own_mutex_;  // opening a queue of the session's own; locked before the kernel's
  std::array<std::atomic<live::QueueCore*>, abi::kTenantCount * abi::kPriorityCount> own_queues_{};

  std::atomic<bool> is_open_{false};
  std::atomic<bool> is_stopping_{false};
  std::atomic<bool> was_cancelled_{false};  // stop() cancelled items

  LaunchGate stop_gate_;                 // one stop or recovery at a time; not while callbacks end
  std::atomic<bool> must_hurry_{false};  // a stop waits: the holder of the gate is to give it back
  std::optional<StopReport> stopped_;
  std::uint64_t generation_ = 0;
  LaunchGate replace_gate_;  // one replacement of the handlers at a time; before stop_gate_
  std::optional<backend::KernelOptions> replaced_;  // with other handlers than the megakernel's

  std::mutex kernel_mutex_;  // guards everything below but live_, and the change of live_
  std::vector<std::shared_ptr<live::QueueCore>> queues_;
  QueueCounters closed_;     // of queues that were closed
  bool has_limits_ = false;  // queues that are opened are not taken from yet
  std::shared_ptr<TableSnapshot> table_;
  std::vector<RunningKernel> kernels_;  // lost kernels stay: other threads may still use them
  backend::LiveCounters earlier_;       // counts of kernels that were lost
  std::atomic<backend::LiveKernel*> live_{nullptr};  // the last of kernels_

  std::mutex snapshot_mutex_;
  std::vector<std::shared_ptr<live::QueueCore>> seen_queues_;  // of the last snapshot
  SnapshotTaker snapshot_;
};

}  // namespace everkernel
