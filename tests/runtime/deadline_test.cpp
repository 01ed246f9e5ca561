// Deadlines of dispatches, and calls that still run when their objects go.
#include <stdexcept>
#include <thread>

#include "recovery_fixture.hpp"

namespace everkernel::test {
namespace {

using Clock = std::chrono::steady_clock;

constexpr Word kSpin = 66;
constexpr Word kSlow = 67;
constexpr std::string_view kEndlessHandlers = R"(
handler spin = 66 { while true { atomic_add(output[0], 1); } }
handler slow = 67 { for i in 0..20000 { atomic_add(output[0], 1); } }
)";
// Most of the timeout is spent before the items begin: if it began again there, the call would take
// nearly twice as long.
constexpr auto kDelay = milliseconds(700);
constexpr auto kTimeout = milliseconds(800);
constexpr auto kTwice = kDelay + kTimeout - milliseconds(100);

class Deadlines : public OnAFaultyDevice {
 protected:
  void SetUp() override {
    OnAFaultyDevice::SetUp();
    auto program = check_text(kEndlessHandlers);
    ASSERT_TRUE(program);
    auto made = Megakernel::create(device, {.slot_count = kSlots,
                                            .workgroup_size = 1,
                                            .handlers = *program,
                                            .fuel_per_item = std::uint64_t{1} << 60,
                                            .worker_count = 2});
    ASSERT_TRUE(made) << message_of(made);
    *kernel = std::move(*made);
    output.emplace(buffer(1, true));
  }

  Clock::duration time_of_endless_dispatch() {
    fill_ring({{kSpin, 0, 1, 0}});
    const auto begin = Clock::now();
    const auto report = dispatch(host(), {.timeout = kTimeout});
    const auto took = Clock::now() - begin;
    EXPECT_TRUE(report || code_of(report) == Code::timeout) << message_of(report);
    return took;
  }

  std::optional<DataBuffer> output;
};

TEST_F(Deadlines, waiting_for_another_dispatch_and_running_share_one_timeout) {
  const Bytes empty_ring = ring;
  device->inject({.step = FaultStep::launch, .kind = FaultKind::delay, .delay = kDelay});
  std::jthread other([&] {
    const Submission submission = HostBuffers{.control = control, .ring = empty_ring};
    EXPECT_TRUE(dispatch(submission));
  });
  while (device->count(FaultStep::launch) == 0) std::this_thread::yield();
  EXPECT_LT(time_of_endless_dispatch(), kTwice);
}

TEST_F(Deadlines, a_recovery_and_the_second_attempt_share_one_timeout) {
  device->inject({.step = FaultStep::launch, .kind = FaultKind::lose_device});
  device->inject({.step = FaultStep::revive, .kind = FaultKind::delay, .delay = kDelay});
  EXPECT_LT(time_of_endless_dispatch(), kTwice);
}

TEST_F(Deadlines, a_megakernel_that_goes_waits_for_a_dispatch_of_another_thread) {
  device->inject({.step = FaultStep::launch, .kind = FaultKind::delay, .delay = milliseconds(200)});
  const Submission submission = host();
  std::jthread other([&] {
    const auto report = kernel->dispatch({.submissions = {&submission, 1}});
    EXPECT_TRUE(report) << message_of(report);
  });
  const auto begin = Clock::now();
  while (device->count(FaultStep::launch) == 0) std::this_thread::yield();
  Megakernel(std::move(*kernel));
  EXPECT_GE(Clock::now() - begin, milliseconds(150));
}

TEST_F(Deadlines, a_progress_callback_that_throws_ends_the_run_and_reaches_the_caller) {
  const std::vector<abi::WorkItem> items(20000, abi::WorkItem{kSlow, 0, 1, 0});
  const auto begin = Clock::now();
  EXPECT_THROW(
      static_cast<void>(kernel->run(
          items, {.dedupe = false,
                  .worker_count = 2,
                  .execution = backend::Execution::interpreter,
                  .progress = [](const RunProgress&) { throw std::runtime_error("no"); }})),
      std::runtime_error);
  EXPECT_LT(Clock::now() - begin, seconds(5));
  const auto report = kernel->run(std::span(items).first(10), {.dedupe = false});
  ASSERT_TRUE(report) << message_of(report);
  EXPECT_EQ(report->items_processed, 10u);
}

}  // namespace
}  // namespace everkernel::test
