// Waits of a session end at their deadlines, whatever another process writes into its memory and
// whatever its callbacks do.
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <latch>
#include <stdexcept>
#include <thread>

#include "everkernel/abi/control.hpp"
#include "everkernel/abi/slot.hpp"
#include "recovery_fixture.hpp"

namespace everkernel::test {
namespace {

using Clock = std::chrono::steady_clock;

// Deadlines are missed by milliseconds; the limits of these tests allow for a machine that is busy.
constexpr auto kSlack = seconds(5);

// The memory of a session, as another process maps it.
class Intruder {
 public:
  explicit Intruder(const Session& session) {
    size_ = static_cast<std::size_t>(::lseek(session.memory_descriptor(), 0, SEEK_END));
    memory_ = static_cast<Word*>(
        ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED, session.memory_descriptor(), 0));
    EXPECT_NE(memory_, MAP_FAILED);
  }
  Intruder(const Intruder&) = delete;
  Intruder& operator=(const Intruder&) = delete;
  ~Intruder() { ::munmap(memory_, size_); }

  void set_shutdown(Word value) { store(abi::kControlShutdown.first, value); }

 private:
  void store(std::size_t word, Word value) { std::atomic_ref(memory_[word]).store(value); }

  Word* memory_ = nullptr;
  std::size_t size_ = 0;
};

class SessionWaits : public OnAFaultyDevice {
 protected:
  Session start() {
    auto made = kernel->start();
    EXPECT_TRUE(made) << message_of(made);
    return std::move(*made);
  }
  static Ticket publish(Session& session, Word tenant = 0) {
    const auto ticket = session.publish({}, {.tenant = TenantId(tenant)});
    EXPECT_TRUE(ticket) << message_of(ticket);
    return *ticket;
  }
};

TEST_F(SessionWaits, publishing_after_a_shutdown_that_was_taken_back_is_refused) {
  Session session = start();
  Intruder intruder(session);
  intruder.set_shutdown(1);
  const auto begin = Clock::now();
  // A publish wakes a worker, which sees SHUTDOWN. Until the workers have left, it may succeed.
  while (code_of(session.publish({})) != Code::invalid_argument) {
    ASSERT_LT(Clock::now() - begin, kSlack);
    std::this_thread::sleep_for(milliseconds(1));
  }
  intruder.set_shutdown(0);
  EXPECT_EQ(code_of(session.publish({})), Code::invalid_argument);
  EXPECT_EQ(code_of(session.publish({}, {.timeout = milliseconds(20)})), Code::invalid_argument);
  EXPECT_EQ(code_of(session.publish_batch({}, 1)), Code::invalid_argument);
  EXPECT_LT(Clock::now() - begin, kSlack);
}

TEST_F(SessionWaits, a_callback_that_throws_is_counted_and_the_session_goes_on) {
  Session session = start();
  std::atomic<int> calls{0};
  for (int i = 0; i < 3; ++i) {
    const Ticket ticket = publish(session);
    ASSERT_TRUE(session.on_complete(ticket, [&](Ticket, Completion, bool) {
      ++calls;
      throw std::runtime_error("a callback failed");
    }));
  }
  const Ticket last = publish(session);
  ASSERT_TRUE(session.on_complete(last, [&](Ticket, Completion, bool) { ++calls; }));
  EXPECT_EQ(session.stop(StopMode::drain, seconds(10)).done, 4u);
  EXPECT_EQ(calls, 4);
  EXPECT_TRUE(session.on_complete(last, [&](Ticket, Completion, bool) { throw 1; }));
  EXPECT_EQ(session.counters().failed_callbacks, 4u);
}

TEST_F(SessionWaits, a_callback_that_does_not_return_holds_up_a_stop_until_the_deadline) {
  const auto release = std::make_shared<std::latch>(1);
  const auto entered = std::make_shared<std::latch>(1);
  const auto later_calls = std::make_shared<std::atomic<int>>(0);
  {
    Session session = start();
    const Ticket ticket = publish(session);
    ASSERT_TRUE(session.on_complete(ticket, [=](Ticket, Completion, bool) {
      entered->count_down();
      release->wait();
    }));
    entered->wait();
    for (int i = 0; i < 3; ++i) {
      ASSERT_TRUE(
          session.on_complete(publish(session), [=](Ticket, Completion, bool) { ++*later_calls; }));
    }
    const auto begin = Clock::now();
    const StopReport report = session.stop(StopMode::drain, milliseconds(10));
    EXPECT_LT(Clock::now() - begin, kSlack);
    EXPECT_EQ(report.callbacks_dropped, 3u);
  }
  release->count_down();
  std::this_thread::sleep_for(milliseconds(20));
  EXPECT_EQ(*later_calls, 0) << "dropped callbacks are not called later";
}

TEST_F(SessionWaits, a_callback_may_stop_the_session) {
  Session session = start();
  std::atomic<std::uint64_t> done{0};
  const Ticket ticket = publish(session);
  ASSERT_TRUE(session.on_complete(ticket, [&](Ticket, Completion, bool) {
    done = session.stop(StopMode::drain, seconds(10)).done;
  }));
  const auto begin = Clock::now();
  while (done == 0 && Clock::now() - begin < kSlack) std::this_thread::sleep_for(milliseconds(1));
  EXPECT_EQ(done, 1u);
}

// The outer stop waits for the callback, and the callback's stop for the outer one.
TEST_F(SessionWaits, a_callback_may_stop_the_session_while_another_thread_stops_it) {
  Session session = start();
  std::latch entered(1);
  std::atomic<std::uint64_t> done{0};
  ASSERT_TRUE(session.on_complete(publish(session), [&](Ticket, Completion, bool) {
    entered.count_down();
    std::this_thread::sleep_for(milliseconds(50));
    done = session.stop(StopMode::drain, seconds(60)).done;
  }));
  entered.wait();
  const auto begin = Clock::now();
  EXPECT_EQ(session.stop(StopMode::drain, seconds(60)).done, 1u);
  EXPECT_LT(Clock::now() - begin, kSlack);
  EXPECT_EQ(done, 1u);
}

TEST_F(SessionWaits, a_stop_that_has_to_end_earlier_ends_a_drain) {
  Session session = start();
  ASSERT_TRUE(session.set_tenant_enabled(TenantId(3), false));
  publish(session, 3);
  std::jthread drains([&] { EXPECT_EQ(session.stop(StopMode::drain, seconds(60)).cancelled, 1u); });
  std::this_thread::sleep_for(milliseconds(50));
  const auto begin = Clock::now();
  EXPECT_EQ(session.stop(StopMode::cancel, milliseconds(10)).cancelled, 1u);
  drains.join();
  EXPECT_LT(Clock::now() - begin, kSlack);
}

TEST_F(SessionWaits, a_stop_ends_a_recovery_that_waits_for_code) {
  Session session = start();
  ASSERT_TRUE(session.set_tenant_enabled(TenantId(3), false));
  publish(session, 3);
  device->lose_device();
  device->inject({.step = FaultStep::compile, .kind = FaultKind::delay, .delay = seconds(60)});
  std::jthread recovers(
      [&] { EXPECT_EQ(code_of(session.recover(seconds(60))), Code::invalid_argument); });
  std::this_thread::sleep_for(milliseconds(50));
  const auto begin = Clock::now();
  EXPECT_EQ(session.stop(StopMode::cancel, milliseconds(10)).cancelled, 1u);
  recovers.join();
  EXPECT_LT(Clock::now() - begin, kSlack);
}

// Nothing can interrupt a driver that brings its device back.
TEST_F(SessionWaits, a_stop_does_not_wait_for_a_recovery_that_cannot_be_interrupted) {
  constexpr auto kRecovery = seconds(4);
  Session session = start();
  ASSERT_TRUE(session.set_tenant_enabled(TenantId(3), false));
  publish(session, 3);
  device->lose_device();
  device->inject({.step = FaultStep::revive, .kind = FaultKind::delay, .delay = kRecovery});
  const auto begin = Clock::now();
  std::jthread recovers(
      [&] { EXPECT_EQ(code_of(session.recover(seconds(60))), Code::invalid_argument); });
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_EQ(session.stop(StopMode::cancel, milliseconds(10)).cancelled, 0u);
  EXPECT_LT(Clock::now() - begin, kRecovery);
  recovers.join();
  EXPECT_EQ(code_of(session.publish({}, {.timeout = milliseconds(1)})), Code::invalid_argument);
  EXPECT_EQ(session.stop(StopMode::cancel, milliseconds(10)).cancelled, 1u);
}

TEST_F(SessionWaits, a_ticket_of_another_session_is_refused) {
  Session first = start();
  Session second = start();
  const Ticket ticket = publish(first);
  publish(second);
  EXPECT_TRUE(first.wait(ticket, seconds(5)));
  EXPECT_EQ(code_of(second.wait(ticket, seconds(5))), Code::invalid_argument);
  EXPECT_EQ(code_of(second.poll(ticket)), Code::invalid_argument);
  EXPECT_EQ(code_of(second.on_complete(ticket, [](Ticket, Completion, bool) {})),
            Code::invalid_argument);
}

TEST_F(SessionWaits, a_buffer_made_after_the_start_is_seen_by_later_items) {
  Session session = start();
  DataBuffer late = buffer(1, false);
  const std::array<Word, 3> args{1, 1, 0};
  const auto ticket = session.publish({kCount, args});
  ASSERT_TRUE(ticket);
  const auto ended = session.wait(*ticket, seconds(5));
  ASSERT_TRUE(ended) << message_of(ended);
  EXPECT_TRUE(ended->is_done());
  EXPECT_NE(first_word(late), 0u);
}

// A callback that stops the session while another thread does: neither waits for the other.
TEST_F(SessionWaits, a_callback_may_stop_the_session_beside_another_thread) {
  Session session = start();
  std::latch is_in_callback(1);
  const Ticket ticket = publish(session);
  ASSERT_TRUE(session.on_complete(ticket, [&](Ticket, Completion, bool) {
    is_in_callback.count_down();
    std::this_thread::sleep_for(milliseconds(50));
    EXPECT_EQ(session.stop(StopMode::drain, seconds(30)).done, 1u);
  }));
  is_in_callback.wait();
  const auto begin = Clock::now();
  EXPECT_EQ(session.stop(StopMode::drain, seconds(30)).callbacks_dropped, 0u);
  EXPECT_LT(Clock::now() - begin, kSlack);
}

}  // namespace
}  // namespace everkernel::test
