// Wraps every object a backend makes, so that each step can fail separately.
#include "everkernel/backend/testing/faulty_backend.hpp"

#include <algorithm>
#include <array>
#include <mutex>
#include <thread>
#include <vector>

#include "everkernel/backend/detail/graph_kernel.hpp"
#include "everkernel/backend/detail/live.hpp"

namespace everkernel::backend {
namespace {

// When the device is lost, items that run longer than this become FAULT.
constexpr auto kLongestItem = std::chrono::seconds(1);

Failure lost() {
  return fail(Code::device_lost, "device: lost (injected)", "recover, then try again");
}

// A kernel whose device can be lost while it runs.
class Cuttable {
 public:
  virtual ~Cuttable() = default;
  // Ends the kernel as if its device were gone. `claimed` items that were not taken look as if they
  // had been.
  virtual void cut(Word claimed) = 0;
};

void wait(const Deadline& deadline) {
  while (!deadline.has_passed()) std::this_thread::sleep_until(deadline.next_look());
}

// State that the wrapper shares with every object it made.
struct Device {
  std::mutex mutex;
  std::vector<InjectedFault> faults;
  std::array<std::uint64_t, kFaultStepCount> counts{};
  std::uint64_t generation = 0;  // losses so far
  bool is_lost = false;
  std::vector<Cuttable*> running;

  // Counts a step and applies the injected fault; a delay ends at the deadline. Says whether the
  // bytes read are to be garbled.
  Result<bool> step(FaultStep step, const Deadline& deadline = {});
  bool is_alive(std::uint64_t made_in) {
    const std::scoped_lock held(mutex);
    return !is_lost && made_in == generation;
  }
  void lose(Word claimed);
};

// Registers a kernel that runs, for as long as it lives.
class Registration {
 public:
  Registration(std::shared_ptr<Device> device, Cuttable* kernel)
      : device_(std::move(device)), kernel_(kernel) {
    const std::scoped_lock held(device_->mutex);
    device_->running.push_back(kernel_);
  }
  Registration(const Registration&) = delete;
  Registration& operator=(const Registration&) = delete;
  ~Registration() {
    const std::scoped_lock held(device_->mutex);
    std::erase(device_->running, kernel_);
  }

 private:
  std::shared_ptr<Device> device_;
  Cuttable* kernel_;
};

class FaultyLive final : public LiveKernel, public Cuttable {
 public:
  FaultyLive(std::shared_ptr<Device> device, std::unique_ptr<LiveKernel> inner)
      : inner_(std::move(inner)), registration_(std::move(device), this) {}

  Result<void> open(std::shared_ptr<LiveQueue> queue) override {
    {
      const std::scoped_lock held(stop_mutex_);
      queues_.push_back(queue);
    }
    return inner_->open(std::move(queue));
  }
  std::uint64_t close(LiveQueue& queue, Clock::time_point deadline) override {
    const std::scoped_lock held(stop_mutex_);
    std::erase_if(queues_, [&](const auto& known) { return known.get() == &queue; });
    return inner_->close(queue, deadline);
  }
  void set_buffers(const memory::BufferTableView& buffers,
                   std::shared_ptr<const void> owner) override {
    inner_->set_buffers(buffers, std::move(owner));
  }
  std::uint64_t stop(Clock::time_point deadline, LeaveMode mode) override {
    const std::scoped_lock held(stop_mutex_);
    return inner_->stop(deadline, mode);
  }
  LiveCounters flush_counters() override { return inner_->flush_counters(); }
  Word help(LiveQueue& queue, LongWord awaited) override { return inner_->help(queue, awaited); }
  void refresh_control(std::size_t word) override { inner_->refresh_control(word); }
  void mirror() override { inner_->mirror(); }
  void expect_sleeper() override { inner_->expect_sleeper(); }
  Result<void> parked(const std::function<void()>& act, Clock::time_point deadline) override {
    return inner_->parked(act, deadline);
  }
  Result<void> settle(Clock::time_point deadline) override { return inner_->settle(deadline); }
  LiveKernel& inner() const { return *inner_; }
  bool is_running() const override { return inner_->is_running(); }
  void look_again() override { inner_->look_again(); }
  void add_executions(std::vector<OpcodeTotal>& totals) const override {
    inner_->add_executions(totals);
  }
  void copy_waiting(const LiveQueue& queue, std::vector<LiveItem>& items) const override {
    inner_->copy_waiting(queue, items);
  }
  Result<void> copy_running(std::vector<LiveRunning>& items) override {
    if (is_cut_.load(std::memory_order_acquire)) return lost();
    return inner_->copy_running(items);
  }
  Result<void> health() const override {
    if (is_cut_.load(std::memory_order_acquire)) return lost();
    return inner_->health();
  }

  // Workers finish the items they hold. Then published items are made to look taken, as if a worker
  // had died with them.
  void cut(Word claimed) override {
    // Set before the workers leave: a kernel without workers that is not lost counts as stopped.
    if (is_cut_.exchange(true, std::memory_order_acq_rel)) return;
    const std::scoped_lock held(stop_mutex_);
    inner_->stop(deadline_after(kLongestItem), LeaveMode::hand_over);
    for (const auto& queue : queues_) {
      LongWord head = queue->head.load(std::memory_order_acquire);
      for (; claimed > 0 && queue->words.peek(head); --claimed) ++head;
      queue->head.store(head, std::memory_order_release);
      queue->notify();
    }
  }

 private:
  std::unique_ptr<LiveKernel> inner_;
  std::mutex stop_mutex_;  // stop() waits for a running cut; guards the next
  std::vector<std::shared_ptr<LiveQueue>> queues_;
  std::atomic<bool> is_cut_{false};
  Registration registration_;  // last: a cut uses everything above
};

class FaultyGraph final : public GraphKernel, public Cuttable {
 public:
  FaultyGraph(std::shared_ptr<Device> device, std::unique_ptr<GraphKernel> inner)
      : inner_(std::move(inner)), registration_(std::move(device), this) {}

  void stop(Clock::time_point deadline) override {
    const std::scoped_lock held(stop_mutex_);
    inner_->stop(deadline);
  }
  LiveCounters flush_counters() override { return inner_->flush_counters(); }
  bool is_running() const override { return inner_->is_running(); }
  Result<void> health() const override {
    if (is_cut_.load(std::memory_order_acquire)) return lost();
    return inner_->health();
  }

  void cut(Word) override {
    if (is_cut_.exchange(true, std::memory_order_acq_rel)) return;
    const std::scoped_lock held(stop_mutex_);
    inner_->stop(deadline_after(kLongestItem));
  }

 private:
  std::unique_ptr<GraphKernel> inner_;
  std::mutex stop_mutex_;  // stop() waits for a running cut
  std::atomic<bool> is_cut_{false};
  Registration registration_;  // last: a cut uses everything above
};

Result<bool> Device::step(FaultStep step, const Deadline& deadline) {
  InjectedFault fault;
  {
    const std::scoped_lock held(mutex);
    ++counts[static_cast<std::size_t>(step)];
    if (is_lost && step != FaultStep::revive) return lost();
    const auto found = std::ranges::find(faults, step, &InjectedFault::step);
    if (found == faults.end()) return false;
    if (found->skip > 0) {
      --found->skip;
      return false;
    }
    fault = *found;
    if (--found->times == 0) faults.erase(found);
  }
  switch (fault.kind) {
    case FaultKind::fail:
      return fail(fault.code, "device: failed (injected)");
    case FaultKind::delay:
      wait(Deadline(std::min(deadline_after(fault.delay), deadline.time), deadline.stop));
      return false;
    case FaultKind::lose_device:
      lose(0);
      return lost();
    case FaultKind::garble:
      return true;
  }
  return false;
}

void Device::lose(Word claimed) {
  const std::scoped_lock held(mutex);
  if (is_lost) return;
  is_lost = true;
  ++generation;
  for (Cuttable* kernel : running) kernel->cut(claimed);
}

class FaultyMemory final : public Memory {
 public:
  FaultyMemory(std::shared_ptr<Device> device, std::uint64_t generation,
               std::unique_ptr<Memory> inner)
      : device_(std::move(device)), generation_(generation), inner_(std::move(inner)) {}

  std::size_t size_bytes() const override { return inner_->size_bytes(); }
  Word* device_address() const override { return inner_->device_address(); }
  Result<void> write(std::size_t offset_bytes, std::span<const std::byte> bytes) override {
    EVERKERNEL_TRY(device_->step(FaultStep::write));
    if (!device_->is_alive(generation_)) return lost();
    return inner_->write(offset_bytes, bytes);
  }
  Result<void> read(std::size_t offset_bytes, std::span<std::byte> bytes) const override {
    const bool is_garbled = EVERKERNEL_TRY(device_->step(FaultStep::read));
    if (!device_->is_alive(generation_)) return lost();
    EVERKERNEL_TRY(inner_->read(offset_bytes, bytes));
    if (is_garbled) std::ranges::fill(bytes, std::byte{0xFF});
    return {};
  }
  Memory* inner() const { return inner_.get(); }

 private:
  std::shared_ptr<Device> device_;
  std::uint64_t generation_;
  std::unique_ptr<Memory> inner_;
};

class FaultyKernel final : public Kernel {
 public:
  FaultyKernel(std::shared_ptr<Device> device, std::uint64_t generation,
               std::unique_ptr<Kernel> inner)
      : device_(std::move(device)), generation_(generation), inner_(std::move(inner)) {}

  std::string_view pipeline_id() const override { return inner_->pipeline_id(); }
  Word worker_count() const override { return inner_->worker_count(); }
  Word largest_share(Word multiprocessors) const override {
    return inner_->largest_share(multiprocessors);
  }
  Result<void> health() const override {
    if (!device_->is_alive(generation_)) return lost();
    return inner_->health();
  }
  CodeCounts code_counts() const override { return inner_->code_counts(); }
  Result<void> prepare(const CodeRequest& request) override { return inner_->prepare(request); }

  Result<LaunchStats> launch(const Launch& launch) override {
    EVERKERNEL_TRY(device_->step(FaultStep::launch));
    if (!device_->is_alive(generation_)) return lost();
    Launch unwrapped = launch;
    rows_.clear();
    for (const DeviceBuffers& row : launch.submissions) {
      rows_.push_back({.control = inner_of(row.control),
                       .ring = inner_of(row.ring),
                       .debug_log = inner_of(row.debug_log),
                       .io_queue = inner_of(row.io_queue)});
    }
    unwrapped.submissions = rows_;
    auto stats = inner_->launch(unwrapped);
    EVERKERNEL_TRY(device_->step(FaultStep::after_launch));
    return stats;
  }

  Result<std::unique_ptr<LiveKernel>> start(const LiveLaunch& launch) override {
    EVERKERNEL_TRY(device_->step(FaultStep::start));
    if (!device_->is_alive(generation_)) return lost();
    auto live = EVERKERNEL_TRY(inner_->start(launch));
    return std::unique_ptr<LiveKernel>(std::make_unique<FaultyLive>(device_, std::move(live)));
  }

  Result<void> take_over(LiveKernel& live, Clock::time_point deadline) override {
    EVERKERNEL_TRY(device_->step(FaultStep::start));
    if (!device_->is_alive(generation_)) return lost();
    return inner_->take_over(static_cast<FaultyLive&>(live).inner(), deadline);
  }

  Result<std::unique_ptr<GraphKernel>> start_graph(const GraphLaunch& launch) override {
    EVERKERNEL_TRY(device_->step(FaultStep::start));
    if (!device_->is_alive(generation_)) return lost();
    auto graph = EVERKERNEL_TRY(inner_->start_graph(launch));
    return std::unique_ptr<GraphKernel>(std::make_unique<FaultyGraph>(device_, std::move(graph)));
  }

 private:
  static Memory* inner_of(Memory* memory) { return static_cast<FaultyMemory*>(memory)->inner(); }

  std::shared_ptr<Device> device_;
  std::uint64_t generation_;
  std::unique_ptr<Kernel> inner_;
  std::vector<DeviceBuffers> rows_;
};

class WrappingBackend final : public FaultyBackend {
 public:
  explicit WrappingBackend(std::shared_ptr<Backend> inner) : inner_(std::move(inner)) {}

  const Capabilities& capabilities() const override { return inner_->capabilities(); }

  Result<std::unique_ptr<Kernel>> compile(const KernelOptions& options) override {
    EVERKERNEL_TRY(device_->step(FaultStep::compile, options.compile_deadline));
    auto kernel = EVERKERNEL_TRY(inner_->compile(options));
    return std::unique_ptr<Kernel>(
        std::make_unique<FaultyKernel>(device_, generation(), std::move(kernel)));
  }

  Result<std::unique_ptr<Memory>> allocate(std::size_t size_bytes) override {
    EVERKERNEL_TRY(device_->step(FaultStep::allocate));
    auto memory = EVERKERNEL_TRY(inner_->allocate(size_bytes));
    return std::unique_ptr<Memory>(
        std::make_unique<FaultyMemory>(device_, generation(), std::move(memory)));
  }

  Result<void> revive() override {
    EVERKERNEL_TRY(device_->step(FaultStep::revive));
    EVERKERNEL_TRY(inner_->revive());
    const std::scoped_lock held(device_->mutex);
    device_->is_lost = false;
    return {};
  }

  void inject(const InjectedFault& fault) override {
    const std::scoped_lock held(device_->mutex);
    device_->faults.push_back(fault);
  }
  void lose_device(Word claimed) override { device_->lose(claimed); }
  std::uint64_t count(FaultStep step) const override {
    const std::scoped_lock held(device_->mutex);
    return device_->counts[static_cast<std::size_t>(step)];
  }

 private:
  std::uint64_t generation() const {
    const std::scoped_lock held(device_->mutex);
    return device_->generation;
  }

  std::shared_ptr<Backend> inner_;
  std::shared_ptr<Device> device_ = std::make_shared<Device>();
};

}  // namespace

std::shared_ptr<FaultyBackend> FaultyBackend::wrap(std::shared_ptr<Backend> inner) {
  return std::make_shared<WrappingBackend>(std::move(inner));
}

}  // namespace everkernel::backend
