// The totals of a session over a recovery, on a backend that counts launches and bytes.
#include "everkernel/backend/detail/graph_kernel.hpp"
#include "everkernel/backend/detail/live.hpp"
#include "recovery_fixture.hpp"

namespace everkernel::test {
namespace {

// A live kernel that says it was launched twice and copied 100 bytes.
class CountingLive final : public backend::LiveKernel {
 public:
  explicit CountingLive(std::unique_ptr<LiveKernel> inner) : inner_(std::move(inner)) {}
  Result<void> open(std::shared_ptr<backend::LiveQueue> queue) override {
    return inner_->open(std::move(queue));
  }
  std::uint64_t close(backend::LiveQueue& queue, backend::Clock::time_point deadline) override {
    return inner_->close(queue, deadline);
  }
  void set_buffers(const memory::BufferTableView& buffers,
                   std::shared_ptr<const void> owner) override {
    inner_->set_buffers(buffers, std::move(owner));
  }
  std::uint64_t stop(backend::Clock::time_point deadline, backend::LeaveMode mode) override {
    return inner_->stop(deadline, mode);
  }
  Word help(backend::LiveQueue& queue, backend::LongWord awaited) override {
    return inner_->help(queue, awaited);
  }
  void add_executions(std::vector<backend::OpcodeTotal>&) const override {}
  void copy_waiting(const backend::LiveQueue& queue,
                    std::vector<backend::LiveItem>& items) const override {
    inner_->copy_waiting(queue, items);
  }
  Result<void> copy_running(std::vector<backend::LiveRunning>& items) override {
    return inner_->copy_running(items);
  }
  backend::LiveCounters flush_counters() override {
    backend::LiveCounters counters = inner_->flush_counters();
    counters.launches = 2;
    counters.bytes_uploaded = 100;
    return counters;
  }
  bool is_running() const override { return inner_->is_running(); }
  void look_again() override { inner_->look_again(); }
  Result<void> settle(backend::Clock::time_point deadline) override {
    return inner_->settle(deadline);
  }
  Result<void> health() const override { return inner_->health(); }

 private:
  std::unique_ptr<LiveKernel> inner_;
};

class CountingKernel final : public backend::Kernel {
 public:
  explicit CountingKernel(std::unique_ptr<Kernel> inner) : inner_(std::move(inner)) {}
  std::string_view pipeline_id() const override { return inner_->pipeline_id(); }
  Word worker_count() const override { return inner_->worker_count(); }
  Result<void> health() const override { return inner_->health(); }
  Result<backend::LaunchStats> launch(const backend::Launch& launch) override {
    return inner_->launch(launch);
  }
  Result<std::unique_ptr<backend::LiveKernel>> start(const backend::LiveLaunch& launch) override {
    auto live = EVERKERNEL_TRY(inner_->start(launch));
    return std::unique_ptr<backend::LiveKernel>(std::make_unique<CountingLive>(std::move(live)));
  }
  Result<std::unique_ptr<backend::GraphKernel>> start_graph(
      const backend::GraphLaunch& launch) override {
    return inner_->start_graph(launch);
  }

 private:
  std::unique_ptr<Kernel> inner_;
};

class CountingBackend final : public backend::Backend {
 public:
  explicit CountingBackend(std::shared_ptr<Backend> inner) : inner_(std::move(inner)) {}
  const backend::Capabilities& capabilities() const override { return inner_->capabilities(); }
  Result<std::unique_ptr<backend::Kernel>> compile(const backend::KernelOptions& options) override {
    auto kernel = EVERKERNEL_TRY(inner_->compile(options));
    return std::unique_ptr<backend::Kernel>(std::make_unique<CountingKernel>(std::move(kernel)));
  }
  Result<std::unique_ptr<backend::Memory>> allocate(std::size_t size_bytes) override {
    return inner_->allocate(size_bytes);
  }
  Result<void> revive() override { return inner_->revive(); }

 private:
  std::shared_ptr<Backend> inner_;
};

TEST(SessionTotals, launches_and_bytes_of_a_lost_kernel_are_kept) {
  const auto device = backend::FaultyBackend::wrap(backend::cpu::make_backend());
  auto kernel = Megakernel::create(std::make_shared<CountingBackend>(device),
                                   {.slot_count = kSlots, .workgroup_size = 1, .worker_count = 1});
  ASSERT_TRUE(kernel) << message_of(kernel);
  auto session = kernel->start();
  ASSERT_TRUE(session) << message_of(session);
  for (int loss = 0; loss < 2; ++loss) {
    device->lose_device();
    const auto recovered = session->recover();
    ASSERT_TRUE(recovered) << message_of(recovered);
  }
  const backend::LiveCounters totals = session->counters().kernel;
  EXPECT_EQ(totals.launches, 6u);
  EXPECT_EQ(totals.bytes_uploaded, 300u);
}

}  // namespace
}  // namespace everkernel::test
