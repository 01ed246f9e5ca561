// Sessions on a device: one kernel that stays and takes items from queues (device/live_kernel.cuh),
// and the host's half of it.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "backend/cuda/context.hpp"
#include "backend/cuda/crew_grid.hpp"
#include "backend/cuda/cuda_memory.hpp"
#include "backend/cuda/live_marks.hpp"
#include "backend/cuda/live_orders.hpp"
#include "backend/cuda/live_queues.hpp"
#include "backend/cuda/live_rows.hpp"
#include "backend/cuda/mirrored_words.hpp"
#include "backend/cuda/module.hpp"
#include "base/thread.hpp"
#include "everkernel/backend/detail/live.hpp"

namespace everkernel::backend::cuda {

// The code, and how it is launched.
struct LiveCode {
  std::shared_ptr<Context> context = {};
  std::shared_ptr<const Module> module = {};
  CrewKernel crew = {};
  Word group_lanes = 0;             // of handlers of scope group
  Word worker_count = 0;            // crews
  Word sm_count = 0;                // multiprocessors over which they are laid
  std::uint64_t fuel_per_item = 0;  // turns of loops
  std::vector<Word> opcodes = {};   // of the handlers, by index
};

// Crews of a session, of which each is a worker: a few warps on each multiprocessor, or a block on
// every second one, so that other kernels have room beside them. `limit` 0 is no limit, and
// `sm_count` 0 is every multiprocessor.
Word live_worker_count(const Context& context, const CrewKernel& kernel, Word limit, Word sm_count);

// Of that many crews, those that one tenant may hold if its quota is not set. Other tenants find as
// many as serve one priority each, of every priority, or if there are none of those one.
Word largest_live_share(const CrewKernel& kernel, Word crew_count);

class CudaLiveKernel final : public LiveKernel {
 public:
  // Fails as the driver does, and with `unsupported` on a processor that cannot store 16 bytes as
  // one.
  static Result<std::unique_ptr<LiveKernel>> start(LiveCode code, const LiveLaunch& launch);
  ~CudaLiveKernel() override;

  Result<void> open(std::shared_ptr<LiveQueue> queue) override;
  std::uint64_t close(LiveQueue& queue, Clock::time_point deadline) override;
  void set_buffers(const memory::BufferTableView& buffers,
                   std::shared_ptr<const void> owner) override;
  std::uint64_t stop(Clock::time_point deadline, LeaveMode mode) override;
  LiveCounters flush_counters() override;
  Word help(LiveQueue&, LongWord) override { return 0; }
  bool is_running() const override { return is_running_.load(std::memory_order_acquire); }
  void look_again() override;
  void add_executions(std::vector<OpcodeTotal>& totals) const override;
  void copy_waiting(const LiveQueue& queue, std::vector<LiveItem>& items) const override;
  Result<void> copy_running(std::vector<LiveRunning>& items) override;
  Result<void> health() const override;
  void refresh_control(std::size_t word) override;
  void mirror() override;
  void expect_sleeper() override;
  Result<void> parked(const std::function<void()>& act, Clock::time_point deadline) override;
  Result<void> settle(Clock::time_point deadline) override;
  // Goes on with other code, as Kernel::take_over. `load` gives the code while the kernel is away,
  // for crews on that many multiprocessors: loading code may wait for the device.
  Result<void> replace(const std::function<Result<LiveCode>(Word sm_count)>& load,
                       Clock::time_point deadline);

 private:
  // What crews work by, and what these orders keep alive.
  struct Orders {
    Word epoch = 0;
    OrderPlace place = {};
    std::shared_ptr<const Memory> table = {};
    std::shared_ptr<const void> table_owner = {};
  };

  CudaLiveKernel(LiveCode code, const LiveLaunch& launch, Stream stream,
                 protocol::LiveWords control, protocol::LiveWords debug_log,
                 protocol::LiveWords io_queue);
  Result<void> prepare();
  Result<void> adopt(LiveCode code);
  void add_executions(std::vector<OpcodeTotal>& totals, bool with_small) const;
  device::LiveParams make_params() const;
  Result<void> launch();

  Result<void> begin_parking(Clock::time_point deadline);
  Result<void> park(Clock::time_point deadline);
  Result<bool> wait_gathered(Clock::time_point deadline);
  Result<bool> call_off();
  Result<void> tell_to(device::Leaving leaving);
  Result<void> unpark();
  void end_parking();
  void free_what_waits();

  Result<void> give_orders();
  Result<void> give_order_to_leave();
  static Result<std::vector<device::Wide>> read_seats(const Memory& seats);
  bool has_limits() const;
  Result<void> wait_acknowledged(Clock::time_point deadline, Word closed_queue);
  void free_retired();
  std::shared_ptr<DeviceQueue> take_queue(const LiveQueue& queue);
  std::uint64_t cancel_taken(DeviceQueue& queue) const;
  Result<void> wait_for_runs(Clock::time_point deadline, Word closed_queue);
  Result<void> compare_clocks();
  const DeviceQueue* find_queue(Word number) const;
  void add_running(const LiveMarks::Run& run, std::vector<LiveRunning>& items) const;
  Clock::duration look_interval() const;
  Result<void> end_overdue();
  void end_kernel(Clock::time_point deadline);

  Result<void> sync();
  Result<void> sync_counts();
  void add_counts(const LiveCounters& now);
  void keep(const std::stop_token& stop);
  bool has_ended();
  void note_given_heads() const;
  bool has_sleepers() const;
  void wake_sleepers();
  void note_end();
  void note(Result<void> result) const;

  Context& context() const { return *context_; }

  const HomeProcess home_;
  const std::shared_ptr<Context> context_;
  const Latency latency_;
  Stream stream_;
  const protocol::LiveWords debug_log_;
  std::unique_ptr<Memory> shared_;
  std::unique_ptr<Memory> device_log_;
  std::shared_ptr<OrderPlaces> places_;
  std::unique_ptr<LiveMarks> marks_;

  mutable std::mutex lock_;  // guards everything below
  LiveCode code_;
  std::shared_ptr<Memory> seats_;
  std::unique_ptr<Memory> executions_;
  std::vector<OpcodeTotal> earlier_;  // executions by code that was replaced
  MirroredWords control_;
  MirroredWords io_queue_;
  std::vector<std::shared_ptr<DeviceQueue>> queues_;
  std::vector<std::shared_ptr<DeviceQueue>> closing_;  // items of them may still run
  Word queues_made_ = 0;
  Word table_mask_ = 0;
  device::Leaving leaving_ = device::Leaving::stay;  // what orders ask of crews
  bool is_parking_ = false;  // a thread parks the kernel, has parked it or launches it
  bool is_away_ = true;      // the kernel is not launched, or has left to be parked
  Word settled_epoch_ = 0;   // orders to gather up to this one are over
  std::condition_variable parking_over_;
  Orders present_;
  std::list<Orders> retired_;  // crews may still have them
  LiveCounters totals_;        // as they were last read
  bool has_stopped_ = false;
  mutable std::optional<Error> failure_;

  mutable std::mutex failure_lock_;
  std::atomic<bool> is_running_{false};
  std::mutex keeper_lock_;  // guards the next one
  std::condition_variable_any keeper_wake_;
  bool expects_sleeper_ = false;
  Clock::time_point next_parking_ = {};  // the keeper's own
  Clock::duration parking_patience_;     // of the next one
  Thread keeper_;
};

}  // namespace everkernel::backend::cuda
