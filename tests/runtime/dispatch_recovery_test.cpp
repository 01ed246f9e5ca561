// Dispatches on a device that fails, delays or is lost.
#include "recovery_fixture.hpp"

namespace everkernel::test {
namespace {

using backend::InjectedFault;

class DispatchRecovery : public OnAFaultyDevice {};

TEST_F(DispatchRecovery, a_lost_device_is_recovered_and_the_dispatch_run_again) {
  fill_ring({{0, 0, 0, 0}, {0, 0, 0, 0}});
  device->inject({.step = FaultStep::launch, .kind = FaultKind::lose_device});
  const auto report = dispatch(host());
  ASSERT_TRUE(report) << message_of(report);
  EXPECT_TRUE(report->stats.recovered_after_device_loss);
  EXPECT_EQ(report->stats.items_done, 2u);
  EXPECT_EQ(device->count(FaultStep::compile), 2u);
  EXPECT_EQ(device->count(FaultStep::revive), 1u);
}

// The device may go away at any step of a dispatch: the second attempt gives the same bytes.
class LossAtEveryStep : public OnAFaultyDevice,
                        public testing::WithParamInterface<std::pair<FaultStep, Word>> {};

TEST_P(LossAtEveryStep, gives_the_bytes_of_a_dispatch_without_a_loss) {
  fill_ring({{0, 0, 0, 0}, {kFill, 0, 1, 7}});
  DataBuffer data = buffer(1, true);
  const auto expected = dispatch(host());
  ASSERT_TRUE(expected);
  const auto [step, skip] = GetParam();
  device->inject({.step = step, .skip = skip, .kind = FaultKind::lose_device});
  const auto report = dispatch(host());
  ASSERT_TRUE(report) << message_of(report);
  EXPECT_TRUE(report->stats.recovered_after_device_loss);
  EXPECT_TRUE(std::ranges::equal(report->submissions[0].ring, expected->submissions[0].ring));
  EXPECT_TRUE(std::ranges::equal(report->submissions[0].control, expected->submissions[0].control));
  EXPECT_EQ(first_word(data), 7u);
}

INSTANTIATE_TEST_SUITE_P(
    Steps, LossAtEveryStep,
    testing::Values(std::pair{FaultStep::allocate, Word{0}},
                    std::pair{FaultStep::allocate, Word{3}}, std::pair{FaultStep::write, Word{0}},
                    std::pair{FaultStep::write, Word{3}}, std::pair{FaultStep::launch, Word{0}},
                    std::pair{FaultStep::after_launch, Word{0}},
                    std::pair{FaultStep::read, Word{0}}, std::pair{FaultStep::read, Word{3}}));

TEST_F(DispatchRecovery, without_recovery_the_loss_is_reported) {
  device->inject({.step = FaultStep::launch, .kind = FaultKind::lose_device});
  EXPECT_EQ(code_of(dispatch(host(), {.recovery = Recovery::none})), Code::device_lost);
  EXPECT_EQ(device->count(FaultStep::revive), 0u);
  EXPECT_TRUE(dispatch(host())) << "the next dispatch recovers";
}

TEST_F(DispatchRecovery, a_second_loss_is_reported) {
  device->inject({.step = FaultStep::launch, .times = 2, .kind = FaultKind::lose_device});
  EXPECT_EQ(code_of(dispatch(host())), Code::device_lost);
}

TEST_F(DispatchRecovery, a_device_that_stays_away_is_reported) {
  device->inject({.step = FaultStep::launch, .kind = FaultKind::lose_device});
  device->inject({.step = FaultStep::revive, .kind = FaultKind::fail, .code = Code::device_lost});
  EXPECT_EQ(code_of(dispatch(host())), Code::device_lost);
}

TEST_F(DispatchRecovery, other_failures_are_not_retried) {
  for (const Code code : {Code::out_of_memory, Code::io, Code::unsupported}) {
    device->inject({.step = FaultStep::launch, .kind = FaultKind::fail, .code = code});
    EXPECT_EQ(code_of(dispatch(host())), code);
  }
  EXPECT_EQ(device->count(FaultStep::revive), 0u);
}

TEST_F(DispatchRecovery, buffers_with_a_host_copy_keep_what_earlier_dispatches_wrote) {
  DataBuffer data = buffer(1, true);
  fill_ring({{kCount, 0, 1, 0}});
  ASSERT_TRUE(dispatch(host()));
  device->inject({.step = FaultStep::launch, .kind = FaultKind::lose_device});
  ASSERT_TRUE(dispatch(host()));
  EXPECT_EQ(first_word(data), 2u);
}

TEST_F(DispatchRecovery, the_work_of_a_lost_dispatch_counts_once) {
  DataBuffer data = buffer(1, true);
  fill_ring({{kCount, 0, 1, 0}});
  device->inject({.step = FaultStep::after_launch, .kind = FaultKind::lose_device});
  ASSERT_TRUE(dispatch(host()));
  EXPECT_EQ(first_word(data), 1u);
}

TEST_F(DispatchRecovery, a_buffer_without_a_host_copy_is_named_as_lost) {
  DataBuffer data = buffer(1, false);
  const Word seven = 7;
  ASSERT_TRUE(data.write(0, {&seven, 1}));
  device->inject({.step = FaultStep::launch, .kind = FaultKind::lose_device});
  const auto report = dispatch(host());
  EXPECT_EQ(code_of(report), Code::device_lost);
  EXPECT_NE(message_of(report).find("1 buffers without a host copy"), std::string::npos);
  EXPECT_EQ(first_word(data), 0u);
  EXPECT_TRUE(dispatch(host())) << "the device is back";
}

TEST_F(DispatchRecovery, resident_buffers_are_restored_from_their_host_copies) {
  fill_ring({{0, 0, 0, 0}, {0, 0, 0, 0}});
  auto resident =
      kernel->make_resident({.control = control, .ring = ring}, {.keep_host_copy = true});
  ASSERT_TRUE(resident);
  device->inject({.step = FaultStep::launch, .kind = FaultKind::lose_device});
  const auto report = dispatch(&*resident);
  ASSERT_TRUE(report) << message_of(report);
  EXPECT_EQ(report->stats.items_done, 2u);
}

TEST_F(DispatchRecovery, recover_says_what_it_restored_and_what_it_could_not) {
  DataBuffer kept = buffer(1, true);
  DataBuffer lost = buffer(2, false);
  device->lose_device();
  const auto decision = kernel->recover();
  ASSERT_TRUE(decision);
  EXPECT_TRUE(decision->recompiled);
  EXPECT_EQ(decision->buffers_restored, 1u);
  EXPECT_EQ(decision->buffers_lost, 1u);
}

TEST_F(DispatchRecovery, a_readback_that_breaks_the_format_is_an_error_and_the_last_report_stays) {
  fill_ring({{0, 0, 0, 0}});
  Workspace workspace;
  const auto first = dispatch(host(), {.workspace = &workspace});
  ASSERT_TRUE(first);
  const Bytes ring_before(first->submissions[0].ring.begin(), first->submissions[0].ring.end());
  // The third buffer that comes back is the debug log: a cursor of all ones lies past its end.
  device->inject({.step = FaultStep::read, .skip = 2, .kind = FaultKind::garble});
  EXPECT_EQ(code_of(dispatch(host(), {.workspace = &workspace})), Code::corrupt);
  EXPECT_TRUE(std::ranges::equal(first->submissions[0].ring, ring_before));
}

TEST_F(DispatchRecovery, a_slow_device_is_only_slow) {
  device->inject({.step = FaultStep::launch, .kind = FaultKind::delay, .delay = milliseconds(30)});
  const auto report = dispatch(host());
  ASSERT_TRUE(report);
  EXPECT_GE(report->stats.latency_ns, 30'000'000u);
}

TEST_F(DispatchRecovery, a_recovery_waits_for_the_code_until_the_deadline_of_its_call) {
  fill_ring({{0, 0, 0, 0}});
  const InjectedFault slow{
      .step = FaultStep::compile, .kind = FaultKind::delay, .delay = seconds(60)};
  const auto expect_short = [](const auto& call) {
    const auto begin = std::chrono::steady_clock::now();
    call();
    EXPECT_LT(std::chrono::steady_clock::now() - begin, seconds(5));
  };
  device->inject({.step = FaultStep::launch, .kind = FaultKind::lose_device});
  device->inject(slow);
  expect_short([&] { static_cast<void>(dispatch(host(), {.timeout = milliseconds(100)})); });
  device->lose_device();
  device->inject(slow);
  expect_short([&] { EXPECT_TRUE(kernel->recover(milliseconds(100))); });
  EXPECT_TRUE(dispatch(host()));
}

TEST_F(DispatchRecovery, a_kernel_that_does_not_compile_is_no_megakernel) {
  device->inject({.step = FaultStep::compile, .kind = FaultKind::fail, .code = Code::unsupported});
  EXPECT_EQ(code_of(Megakernel::create(device, {})), Code::unsupported);
}

TEST_F(DispatchRecovery, memory_that_is_not_there_leaves_nothing_behind) {
  device->inject(
      {.step = FaultStep::allocate, .kind = FaultKind::fail, .code = Code::out_of_memory});
  EXPECT_EQ(code_of(kernel->create_buffer({.handle = 1, .word_count = 4})), Code::out_of_memory);
  EXPECT_TRUE(kernel->create_buffer({.handle = 1, .word_count = 4})) << "the handle is still free";
  device->inject({.step = FaultStep::allocate,
                  .skip = 2,
                  .kind = FaultKind::fail,
                  .code = Code::out_of_memory});
  EXPECT_EQ(code_of(kernel->make_resident({.control = control, .ring = ring})),
            Code::out_of_memory);
}

}  // namespace
}  // namespace everkernel::test
