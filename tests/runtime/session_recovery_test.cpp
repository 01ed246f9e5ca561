// Sessions on a device that is lost: published items survive.
#include <random>
#include <thread>

#include "recovery_fixture.hpp"

namespace everkernel::test {
namespace {

class SessionRecovery : public OnAFaultyDevice {
 protected:
  Session start() {
    auto made = kernel->start();
    EXPECT_TRUE(made) << message_of(made);
    return std::move(*made);
  }

  // An item of tenant 3, which may not run yet.
  static Ticket publish_held(Session& session, Word opcode, Word param) {
    const std::array<Word, 3> args{1, 1 + (opcode == kFill ? 1u : 0u), param};
    const auto ticket = session.publish({opcode, args}, {.tenant = TenantId(3)});
    EXPECT_TRUE(ticket) << message_of(ticket);
    return *ticket;
  }
};

TEST_F(SessionRecovery, every_call_says_that_the_device_is_lost) {
  Session session = start();
  ASSERT_TRUE(session.set_tenant_enabled(TenantId(3), false));
  const Ticket held = publish_held(session, kCount, 0);
  device->lose_device();
  EXPECT_EQ(code_of(session.wait(held, seconds(5))), Code::device_lost);
  EXPECT_EQ(code_of(session.poll(held)), Code::device_lost);
  EXPECT_EQ(code_of(session.publish({})), Code::device_lost);
  EXPECT_EQ(code_of(session.wait_all(seconds(5))), Code::device_lost);
}

TEST_F(SessionRecovery, handlers_that_were_replaced_stay) {
  DataBuffer in = buffer(1, true);
  DataBuffer out = buffer(2, true);
  Session session = start();
  const auto other = check_text(
      "handler count = 64 { atomic_add(output[0], 5); }\nhandler fill = 65 { output[0] = param; }");
  ASSERT_TRUE(other);
  const auto replaced = session.replace_handlers(*other);
  ASSERT_TRUE(replaced) << message_of(replaced);
  ASSERT_TRUE(session.set_tenant_enabled(TenantId(3), false));
  const Ticket fill = publish_held(session, kFill, 9);
  device->lose_device(1);  // a worker held it, and it is not pure any more
  ASSERT_TRUE(session.recover());
  const Ticket count = publish_held(session, kCount, 0);
  ASSERT_TRUE(session.set_tenant_enabled(TenantId(3), true));
  const auto maybe = session.wait(fill, seconds(5));
  ASSERT_TRUE(maybe) << message_of(maybe);
  EXPECT_EQ(maybe->fault_code, static_cast<Word>(abi::FaultCode::maybe_executed));
  EXPECT_TRUE(session.wait(count, seconds(5)));
  EXPECT_EQ(first_word(in), 5u);
}

TEST_F(SessionRecovery, handlers_stay_when_they_cannot_be_replaced) {
  DataBuffer in = buffer(1, true);
  Session session = start();
  const auto other = check_text("handler count = 64 { atomic_add(output[0], 5); }");
  ASSERT_TRUE(other);
  device->inject({.step = FaultStep::start, .kind = FaultKind::fail, .code = Code::io});
  EXPECT_EQ(code_of(session.replace_handlers(*other)), Code::io);
  const Ticket before = publish_held(session, kCount, 0);
  EXPECT_TRUE(session.wait(before, seconds(5)));
  EXPECT_EQ(first_word(in), 1u);
  device->lose_device();
  EXPECT_EQ(code_of(session.replace_handlers(*other)), Code::device_lost);
}

TEST_F(SessionRecovery, claimed_items_run_again_only_when_they_are_pure) {
  DataBuffer in = buffer(1, true);
  DataBuffer out = buffer(2, true);
  Session session = start();
  ASSERT_TRUE(session.set_tenant_enabled(TenantId(3), false));
  const Ticket impure = publish_held(session, kCount, 0);
  const Ticket pure = publish_held(session, kFill, 9);
  device->lose_device(2);  // workers held both items
  ASSERT_TRUE(session.recover());
  ASSERT_TRUE(session.set_tenant_enabled(TenantId(3), true));
  const auto maybe = session.wait(impure, seconds(5));
  ASSERT_TRUE(maybe) << message_of(maybe);
  EXPECT_EQ(maybe->fault_code, static_cast<Word>(abi::FaultCode::maybe_executed));
  const auto again = session.wait(pure, seconds(5));
  ASSERT_TRUE(again) << message_of(again);
  EXPECT_TRUE(again->is_done());
  EXPECT_EQ(first_word(in), 0u);
  EXPECT_EQ(first_word(out), 9u);
  const SessionCounters counters = session.counters();
  EXPECT_EQ(counters.kernel.faulted, 1u);
  EXPECT_EQ(counters.kernel.done, 1u);
}

TEST_F(SessionRecovery, items_nobody_had_claimed_run_after_the_recovery) {
  DataBuffer out = buffer(1, true);
  Session session = start();
  ASSERT_TRUE(session.set_tenant_enabled(TenantId(3), false));
  for (int i = 0; i < 4; ++i) publish_held(session, kCount, 0);
  device->lose_device();
  ASSERT_TRUE(session.recover());
  ASSERT_TRUE(session.set_tenant_enabled(TenantId(3), true));
  ASSERT_TRUE(session.wait_all(seconds(5)));
  EXPECT_EQ(first_word(out), 4u);
}

TEST_F(SessionRecovery, a_buffer_without_a_host_copy_stops_the_recovery_until_it_is_filled) {
  DataBuffer out = buffer(1, false);
  Session session = start();
  device->lose_device();
  EXPECT_EQ(code_of(session.recover()), Code::device_lost);
  const Word ten = 10;
  ASSERT_TRUE(out.write(0, {&ten, 1}));
  ASSERT_TRUE(session.recover());
  const std::array<Word, 3> args{1, 1, 0};
  const auto ticket = session.publish({kCount, args});
  ASSERT_TRUE(ticket);
  ASSERT_TRUE(session.wait(*ticket, seconds(5)));
  EXPECT_EQ(first_word(out), 11u);
}

TEST_F(SessionRecovery, recovering_a_healthy_session_does_nothing) {
  Session session = start();
  ASSERT_TRUE(session.recover());
  EXPECT_EQ(device->count(FaultStep::compile), 1u);
}

TEST_F(SessionRecovery, a_lost_session_stops_and_takes_back_what_is_left) {
  Session session = start();
  ASSERT_TRUE(session.set_tenant_enabled(TenantId(3), false));
  publish_held(session, kCount, 0);
  device->lose_device();
  const StopReport report = session.stop(StopMode::drain, milliseconds(50));
  EXPECT_EQ(report.cancelled, 1u);
}

// A device that is lost again and again under load: every item ends once, and every item that is
// DONE ran once.
TEST_F(SessionRecovery, no_item_is_lost_or_doubled_over_fifty_losses) {
  Session session = start();
  std::mt19937 random(7);
  std::uint64_t done = 0;
  std::uint64_t faulted = 0;
  // The first observable counts the runs: it lies in memory that outlives the device.
  const std::array<Word, 2> args{1, abi::kControlFirstObservable};
  constexpr auto kAdd = static_cast<Word>(abi::Opcode::atomic_add);
  for (int loss = 0; loss < 50; ++loss) {
    std::vector<Ticket> tickets;
    std::jthread killer([&, delay = random() % 60] {
      std::this_thread::sleep_for(std::chrono::microseconds(delay));
      device->lose_device(static_cast<Word>(loss % 3));
    });
    for (int i = 0; i < 2000; ++i) {
      const auto ticket = session.publish({kAdd, args}, {.timeout = seconds(5)});
      if (!ticket) {
        ASSERT_EQ(code_of(ticket), Code::device_lost) << message_of(ticket);
        break;
      }
      tickets.push_back(*ticket);
    }
    killer.join();
    ASSERT_TRUE(session.recover());
    for (const Ticket ticket : tickets) {
      const auto ended = session.wait(ticket, seconds(5));
      ASSERT_TRUE(ended) << message_of(ended);
      ++(ended->is_done() ? done : faulted);
    }
  }
  EXPECT_EQ(session.observable(0).value_or(0), done);
  const SessionCounters counters = session.counters();
  EXPECT_EQ(counters.kernel.done, done);
  EXPECT_EQ(counters.kernel.faulted, faulted);
}

}  // namespace
}  // namespace everkernel::test
