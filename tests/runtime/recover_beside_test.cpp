// Megakernel::recover() beside sessions, dispatches and runs that use the buffers.
#include <atomic>
#include <thread>

#include "recovery_fixture.hpp"

namespace everkernel::test {
namespace {

using Clock = std::chrono::steady_clock;

class RecoverBeside : public OnAFaultyDevice {
 protected:
  static constexpr std::array<Word, 3> kCountArgs{1, 1, 0};

  static void count_once(Session& session) {
    const auto ticket = session.publish({kCount, kCountArgs}, {.timeout = seconds(5)});
    ASSERT_TRUE(ticket) << message_of(ticket);
    const auto ended = session.wait(*ticket, seconds(5));
    ASSERT_TRUE(ended) << message_of(ended);
    EXPECT_TRUE(ended->is_done());
  }
};

TEST_F(RecoverBeside, a_device_that_is_not_lost_is_left_alone) {
  DataBuffer data = buffer(1, false);
  const Word seven = 7;
  ASSERT_TRUE(data.write(0, {&seven, 1}));
  const auto decision = kernel->recover();
  ASSERT_TRUE(decision) << message_of(decision);
  EXPECT_FALSE(decision->recompiled);
  EXPECT_EQ(decision->buffers_restored + decision->buffers_lost, 0u);
  EXPECT_EQ(first_word(data), 7u);
  EXPECT_EQ(device->count(FaultStep::compile), 1u);
}

TEST_F(RecoverBeside, a_session_on_a_healthy_device_keeps_its_buffers) {
  DataBuffer data = buffer(1, false);
  auto session = kernel->start();
  ASSERT_TRUE(session);
  for (Word round = 1; round <= 20; ++round) {
    ASSERT_TRUE(kernel->recover());
    count_once(*session);
    EXPECT_EQ(first_word(data), round);
  }
}

// The session's workers may still use the memory that a recovery replaces: it stays until they end.
TEST_F(RecoverBeside, a_lost_session_keeps_its_memory_until_it_recovers) {
  DataBuffer data = buffer(1, true);
  auto session = kernel->start();
  ASSERT_TRUE(session);
  count_once(*session);
  device->lose_device();
  const auto decision = kernel->recover();
  ASSERT_TRUE(decision) << message_of(decision);
  EXPECT_TRUE(decision->recompiled);
  SessionSnapshot snapshot;
  EXPECT_TRUE(session->snapshot(snapshot));
  ASSERT_TRUE(session->recover());
  count_once(*session);
  EXPECT_EQ(first_word(data), 1u) << "the copy was made before the session wrote";
  EXPECT_EQ(session->counters().kernel.done, 2u);
}

// A device that answers `device_lost` although it works: the dispatch is repeated, and the session
// beside it goes on.
TEST_F(RecoverBeside, a_false_alarm_of_a_dispatch_does_not_touch_the_session) {
  DataBuffer data = buffer(1, false);
  auto session = kernel->start();
  ASSERT_TRUE(session);
  count_once(*session);
  device->inject({.step = FaultStep::launch, .kind = FaultKind::fail, .code = Code::device_lost});
  fill_ring({{kCount, 0, 1, 0}});
  const auto report = dispatch(host());
  ASSERT_TRUE(report) << message_of(report);
  count_once(*session);
  EXPECT_EQ(first_word(data), 3u);
}

TEST_F(RecoverBeside, recover_waits_no_longer_than_its_timeout) {
  device->inject({.step = FaultStep::launch, .kind = FaultKind::delay, .delay = seconds(1)});
  std::jthread other([&] { EXPECT_TRUE(dispatch(host())); });
  while (device->count(FaultStep::launch) == 0) std::this_thread::yield();
  const auto begin = Clock::now();
  EXPECT_EQ(code_of(kernel->recover(milliseconds(20))), Code::timeout);
  EXPECT_LT(Clock::now() - begin, milliseconds(800)) << "the dispatch takes a second";
}

TEST_F(RecoverBeside, a_recovery_that_fails_half_way_changes_nothing) {
  DataBuffer first = buffer(1, true);
  DataBuffer second = buffer(2, true);
  const Word seven = 7;
  ASSERT_TRUE(first.write(0, {&seven, 1}));
  device->lose_device();
  device->inject({.step = FaultStep::allocate,
                  .skip = 1,
                  .kind = FaultKind::fail,
                  .code = Code::out_of_memory});
  EXPECT_EQ(code_of(kernel->recover()), Code::out_of_memory);
  const auto decision = kernel->recover();
  ASSERT_TRUE(decision) << message_of(decision);
  EXPECT_TRUE(decision->recompiled);
  EXPECT_EQ(decision->buffers_restored, 2u);
  fill_ring({{kCount, 0, 1, 0}});
  ASSERT_TRUE(dispatch(host()));
  EXPECT_EQ(first_word(first), 8u);
}

// Threads that look at a session while it is recovered again and again.
TEST_F(RecoverBeside, counters_and_snapshots_may_be_taken_while_a_session_recovers) {
  DataBuffer data = buffer(1, true);
  auto session = kernel->start();
  ASSERT_TRUE(session);
  std::atomic<bool> is_over{false};
  std::jthread watcher([&] {
    SessionSnapshot snapshot;
    std::uint64_t seen = 0;
    while (!is_over) {
      const SessionCounters counters = session->counters();
      EXPECT_GE(counters.kernel.done, seen) << "a total never goes back";
      seen = counters.kernel.done;
      EXPECT_TRUE(session->snapshot(snapshot));
    }
  });
  for (int round = 0; round < 20; ++round) {
    count_once(*session);
    device->lose_device();
    ASSERT_TRUE(session->recover());
  }
  is_over = true;
  watcher.join();
  EXPECT_EQ(session->counters().kernel.done, 20u);
}

TEST_F(RecoverBeside, recover_and_dispatches_of_other_threads_take_turns) {
  DataBuffer data = buffer(1, true);
  fill_ring({{kCount, 0, 1, 0}});
  std::atomic<bool> is_over{false};
  std::jthread other([&] {
    while (!is_over) EXPECT_TRUE(kernel->recover());
  });
  for (int round = 0; round < 50; ++round) {
    if (round % 5 == 4) device->lose_device();
    ASSERT_TRUE(dispatch(host()));
  }
  is_over = true;
  other.join();
  EXPECT_EQ(first_word(data), 50u);
}

}  // namespace
}  // namespace everkernel::test
