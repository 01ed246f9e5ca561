// Live sessions: the ways they end.
#include <unistd.h>

#include <atomic>
#include <thread>

#include "conformance/session_helpers.hpp"

namespace everkernel::conformance {

TEST_P(SessionEnds, drain_waits_for_every_item) {
  Session session = start();
  const std::array<Word, 4> steps{0, 0, 0, 200};
  for (int i = 0; i < 8; ++i) must(session.publish({.opcode = kCountdown, .args = steps}));
  must(session.publish({.opcode = 9999}));
  const StopReport report = session.stop(StopMode::drain, kPatience);
  EXPECT_EQ(report.done, 8u);
  EXPECT_EQ(report.faulted, 1u);
  EXPECT_EQ(report.cancelled, 0u);
  const StopReport second = session.stop(StopMode::cancel, kPatience);
  EXPECT_EQ(second.done, 8u);
  EXPECT_EQ(second.faulted, 1u);
  EXPECT_EQ(second.cancelled, 0u);
}

TEST_P(SessionEnds, drain_takes_back_what_cannot_run_at_its_timeout) {
  Session session = start();
  must(session.set_tenant_enabled(TenantId(5), false));
  must(session.publish(kNop));
  for (int i = 0; i < 3; ++i) must(session.publish(kNop, {.tenant = TenantId(5)}));
  const auto begin = std::chrono::steady_clock::now();
  const StopReport report = session.stop(StopMode::drain, kMoment);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kMoment + std::chrono::seconds(5));
  EXPECT_EQ(report.done, 1u);
  EXPECT_EQ(report.cancelled, 3u);
}

TEST_P(SessionEnds, cancel_takes_back_what_has_not_run) {
  Session session = start();
  must(session.set_tenant_enabled(TenantId(5), false));
  const Ticket ran = must(session.publish(kNop));
  must(session.wait(ran, kPatience));
  std::vector<Ticket> held;
  std::atomic<Word> cancelled{0};
  for (int i = 0; i < 4; ++i) {
    held.push_back(must(session.publish(kNop, {.tenant = TenantId(5)})));
    must(session.on_complete(held.back(), [&](Ticket, Completion how, bool was_cancelled) {
      cancelled += Word{was_cancelled && how.fault_code == 0};
    }));
  }
  const StopReport report = session.stop(StopMode::cancel);
  EXPECT_EQ(report.done, 1u);
  EXPECT_EQ(report.faulted, 0u);
  EXPECT_EQ(report.cancelled, 4u);
  EXPECT_TRUE(comes_true([&] { return cancelled == 4; }));
}

// After an odd number of laps, the outcome of a place has not the lap bit of its first ticket.
TEST_P(SessionEnds, cancel_takes_back_nothing_that_ran_laps_ago) {
  for (const Word ran : {16u, 17u, 40u, 48u}) {
    Session session = start();
    Queue queue = must(session.open_queue({.tenant = TenantId(5), .capacity = 16}));
    std::vector<Ticket> tickets;
    for (Word i = 0; i < ran; ++i) tickets.push_back(must(queue.publish(kNop, kPatience)));
    must(queue.wait_all(kPatience));
    must(session.set_tenant_enabled(TenantId(5), false));
    const Ticket held = must(queue.publish(kNop));
    EXPECT_EQ(queue.close(StopMode::cancel), 1u) << ran;
    for (const Ticket ticket : std::span(tickets).last(15)) {
      EXPECT_TRUE(must(queue.wait(ticket, kPatience)).is_done()) << ran;
    }
    EXPECT_EQ(test::code_of(queue.wait(held, kPatience)), Code::invalid_argument);
    EXPECT_EQ(session.stop(StopMode::drain, kPatience).done, ran);
  }
}

TEST_P(SessionEnds, drain_ends_when_a_queue_that_was_given_away_is_empty) {
  Session session = start();
  Queue queue = must(session.open_queue({.capacity = 16}));
  const int descriptor = must(queue.descriptor());
  Queue given = must(attach_queue(descriptor));
  ::close(descriptor);
  for (Word i = 0; i < 40; ++i) must(given.publish(kNop, kPatience));
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(queue.close(StopMode::drain, kPatience), 0u);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kPatience / 2);
  EXPECT_EQ(queue.counters().published, 40u);
}

TEST_P(SessionEnds, after_a_stop_calls_fail_and_do_not_hang) {
  Session session = start();
  must(session.set_tenant_enabled(TenantId(5), false));
  const Ticket held = must(session.publish(kNop, {.tenant = TenantId(5)}));
  session.stop(StopMode::cancel);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_FALSE(session.publish(kNop).has_value());
  EXPECT_FALSE(session.publish(kNop, {.timeout = kPatience}).has_value());
  EXPECT_FALSE(session.wait(held, kPatience).has_value());
  EXPECT_FALSE(session.poll(held).has_value());
  EXPECT_FALSE(session.wait_all(kPatience).has_value()) << "an item was taken back";
  SessionSnapshot snapshot;
  EXPECT_TRUE(session.snapshot(snapshot).has_value());
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kPatience / 2);
}

TEST_P(SessionEnds, a_callback_may_ask_for_another_also_after_the_stop) {
  Session session = start();
  must(session.set_tenant_enabled(TenantId(5), false));
  const Ticket held = must(session.publish(kNop, {.tenant = TenantId(5)}));
  std::atomic<Word> calls{0};
  std::function<void(Ticket, Completion, bool)> again = [&](Ticket ticket, Completion, bool) {
    if (++calls % 3 != 0) must(session.on_complete(ticket, again));
  };
  must(session.on_complete(held, again));
  session.stop(StopMode::cancel);
  EXPECT_TRUE(comes_true([&] { return calls == 3; }));
  must(session.on_complete(held, again));
  EXPECT_TRUE(comes_true([&] { return calls == 6; }));
}

TEST_P(SessionEnds, a_stop_wakes_those_who_wait) {
  Session session = start();
  must(session.set_tenant_enabled(TenantId(5), false));
  const std::vector<abi::WorkItem> items(16, abi::WorkItem{0, 0, 0, 0});
  const TicketRange range = must(session.publish_items(items, {.tenant = TenantId(5)}));
  std::atomic<Word> failed{0};
  std::vector<std::jthread> threads;
  threads.emplace_back([&] { failed += Word{!session.wait(range.first, kPatience)}; });
  threads.emplace_back([&] { failed += Word{!session.wait_all(kPatience)}; });
  threads.emplace_back([&] {
    failed += Word{!session.publish(kNop, {.tenant = TenantId(5), .timeout = kPatience})};
  });
  std::this_thread::sleep_for(kMoment);
  const auto begin = std::chrono::steady_clock::now();
  session.stop(StopMode::cancel);
  threads.clear();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kPatience / 2);
  EXPECT_EQ(failed, 3u);
}

TEST_P(SessionEnds, destruction_takes_back_what_has_not_run) {
  const DataBuffer output = buffer(2, 1);
  for (int lap = 0; lap < 5; ++lap) {
    Session session = start();
    must(session.set_tenant_enabled(TenantId(5), false));
    const std::array<Word, 3> args{0, 2, 1};
    for (int i = 0; i < 4; ++i) {
      must(session.publish(kNop, {.tenant = TenantId(5)}));
      must(session.publish({.opcode = kYieldForever}));
      must(session.publish({.opcode = kAddParam, .args = args}));
    }
  }
  EXPECT_LE(words_of(output)[0], 20u);
}

TEST_P(SessionEnds, an_endless_loop_does_not_hold_up_the_end) {
  std::chrono::steady_clock::time_point begin;
  {
    Session session = start(kernel({.fuel_per_item = kEndlessFuel}));
    begin = std::chrono::steady_clock::now();
    const Ticket ticket = must(session.publish({.opcode = kSpin}));
    EXPECT_EQ(test::code_of(session.wait(ticket, kMoment)), Code::timeout);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kPatience / 2);
}

TEST_P(SessionEnds, an_endless_loop_is_given_up_when_the_time_to_stop_is_over) {
  for (const StopMode mode : {StopMode::drain, StopMode::cancel}) {
    Session session = start(kernel({.fuel_per_item = kEndlessFuel}));
    const Ticket ticket = must(session.publish({.opcode = kSpin}));
    EXPECT_EQ(test::code_of(session.wait(ticket, kMoment)), Code::timeout);
    const auto begin = std::chrono::steady_clock::now();
    const StopReport report = session.stop(mode, kMoment);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, kPatience / 2);
    EXPECT_EQ(report.faulted, 1u);
    EXPECT_EQ(must(session.wait(ticket, kPatience)).fault_code, 10u);
  }
}

TEST_P(SessionEnds, a_shutdown_item_ends_the_session) {
  Session session = start();
  must(session.set_tenant_enabled(TenantId(5), false));
  const Ticket held = must(session.publish(kNop, {.tenant = TenantId(5)}));
  const Ticket shutdown = must(session.publish({.opcode = 0xFFFFFFFF}));
  EXPECT_TRUE(must(session.wait(shutdown, kPatience)).is_done());
  const auto begin = std::chrono::steady_clock::now();
  std::this_thread::sleep_for(kMoment);  // workers leave after SHUTDOWN
  EXPECT_FALSE(session.publish(kNop).has_value());
  EXPECT_FALSE(session.publish(kNop, {.timeout = kPatience}).has_value());
  EXPECT_FALSE(session.wait(held, kPatience).has_value());
  const StopReport report = session.stop(StopMode::drain, kPatience);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kPatience / 2);
  EXPECT_EQ(report.faulted, 0u);
  EXPECT_EQ(report.done, 1u);
  EXPECT_EQ(report.cancelled, 1u);
}

TEST_P(SessionEnds, a_load_miss_waits_until_it_is_cancelled) {
  Session session = start();
  const Ticket miss = must(session.publish({.opcode = 0xFFFD, .args = std::array<Word, 2>{77, 0}}));
  EXPECT_EQ(test::code_of(session.wait(miss, kMoment)), Code::timeout);
  SessionSnapshot snapshot;
  const auto end = std::chrono::steady_clock::now() + kPatience;
  do {  // while a worker looks whether the item can go on, it is not WAIT_IO
    must(session.snapshot(snapshot));
  } while (snapshot.telemetry.occupancy.wait_io == 0 && std::chrono::steady_clock::now() < end);
  EXPECT_EQ(snapshot.telemetry.occupancy.wait_io, 1u);
  const StopReport report = session.stop(StopMode::cancel);
  EXPECT_EQ(report.done, 0u);
  EXPECT_EQ(report.cancelled, 1u);
}

TEST_P(SessionEnds, a_session_that_never_published_stops) {
  Session session = start();
  const StopReport report = session.stop(StopMode::drain, kPatience);
  EXPECT_EQ(report.done + report.faulted + report.cancelled, 0u);
  Session unused = start();
}

TEST_P(SessionEnds, sessions_of_one_megakernel_follow_each_other) {
  for (int lap = 0; lap < 5; ++lap) {
    Session session = start();
    publish_many(session, kAdd, 20);
    EXPECT_EQ(session.stop(StopMode::drain, kPatience).done, 20u);
  }
}

}  // namespace everkernel::conformance
