// Live sessions: parking the kernel, and a share of the device.
#include <atomic>
#include <stdexcept>
#include <thread>

#include "conformance/session_helpers.hpp"

namespace everkernel::conformance {
namespace {

bool parks(const Configuration& configuration) {
  return configuration.backend->parks;
}

constexpr auto kEmpty = [] {};

}  // namespace

TEST_P(Sessions, parking_calls_its_function_once_and_the_session_goes_on) {
  Session session = start();
  publish_many(session, kAdd, 3);
  const auto here = std::this_thread::get_id();
  for (Word lap = 1; lap <= 3; ++lap) {
    Word calls = 0;
    must(session.parked([&] { calls += Word{std::this_thread::get_id() == here}; }, kPatience));
    EXPECT_EQ(calls, 1u);
    publish_many(session, kAdd, 3);
    must(session.wait_all(kPatience));
    EXPECT_EQ(must(session.observable(1)), 3 + 3 * lap);
  }
  const SessionCounters counters = session.counters();
  EXPECT_EQ(counters.kernel.done, 12u);
  EXPECT_EQ(counters.kernel.launches, parks(GetParam()) ? 4u : 0u);
}

TEST_P(Sessions, what_is_published_while_parked_runs_afterwards) {
  Session session = start();
  Queue queue = must(session.open_queue({.capacity = 16}));
  Ticket ticket, other;
  must(session.parked(
      [&] {
        ticket = must(session.publish(kAdd));
        std::jthread([&] { other = must(queue.publish(kAdd)); }).join();
        if (!parks(GetParam())) return;
        EXPECT_EQ(test::code_of(session.wait(ticket, kMoment)), Code::timeout);
        EXPECT_FALSE(must(queue.poll(other)));
      },
      kPatience));
  EXPECT_TRUE(must(session.wait(ticket, kPatience)).is_done());
  EXPECT_TRUE(must(queue.wait(other, kPatience)).is_done());
}

TEST_P(Sessions, what_waits_goes_on_where_it_was_after_parking) {
  const DataBuffer output = buffer(2, 1);
  Session session = start();
  must(session.set_tenant_enabled(TenantId(5), false));
  const Ticket held = must(session.publish(kAdd, {.tenant = TenantId(5)}));
  const Ticket forever = must(session.publish({.opcode = kYieldForever}, {.tenant = TenantId(6)}));
  const std::array<Word, 2> miss{77, 0};
  const Ticket io = must(session.publish({.opcode = 0xFFFD, .args = miss}));
  const std::array<Word, 4> steps{0, 0, 0, 300};
  const std::array<Word, 3> add{0, 2, 5};
  const Operation items[] = {{.opcode = kCountdown, .args = steps},
                             {.opcode = kCountdownLater, .args = steps},
                             {.opcode = kAddParam, .args = add}};
  const TicketRange batch =
      must(session.publish_batch(items, 7, {.tenant = TenantId(7), .timeout = kPatience}));
  for (int i = 0; i < 4; ++i) must(session.parked(kEmpty, kPatience));
  EXPECT_TRUE(must(session.wait(batch.last(), kPatience)).is_done());
  for (Word i = 0; i < 3; ++i) EXPECT_TRUE(must(session.wait(batch[i], kPatience)).is_done());
  EXPECT_EQ(words_of(output)[0], 5u);
  must(session.parked([&] { must(session.set_tenant_enabled(TenantId(5), true)); }, kPatience));
  EXPECT_TRUE(must(session.wait(held, kPatience)).is_done());
  EXPECT_FALSE(must(session.poll(forever)));
  EXPECT_FALSE(must(session.poll(io)));
  EXPECT_EQ(session.stop(StopMode::cancel).cancelled, 2u);
}

TEST_P(Sessions, every_call_works_while_parked) {
  Session session = start();
  Queue closing = must(session.open_queue({.tenant = TenantId(5), .capacity = 16}));
  must(session.set_tenant_enabled(TenantId(5), false));
  must(closing.publish(kNop));
  std::optional<Queue> opened;
  std::optional<DataBuffer> made;
  Ticket ticket;
  const auto act = [&] {
    EXPECT_EQ(closing.close(StopMode::cancel), 1u);
    opened.emplace(must(session.open_queue({.tenant = TenantId(6), .capacity = 16})));
    must(session.set_tenant_quota(TenantId(6), 2));
    must(session.set_tenant_enabled(TenantId(5), true));
    made.emplace(buffer(2, 1));
    SessionSnapshot snapshot;
    must(session.snapshot(snapshot));
    EXPECT_EQ(snapshot.queues.size(), 1u);
    EXPECT_EQ(must(session.observable(1)), 0u);
    const std::array<Word, 3> add{0, 2, 5};
    ticket = must(opened->publish({.opcode = kAddParam, .args = add}));
  };
  must(session.parked(act, kPatience));
  EXPECT_TRUE(must(opened->wait(ticket, kPatience)).is_done());
  EXPECT_EQ(words_of(*made)[0], 5u);
  EXPECT_EQ(session.counters().kernel.done, 1u);
}

TEST_P(Sessions, an_exception_of_a_parked_function_comes_out) {
  Session session = start();
  const auto act = [] { throw std::runtime_error("of the function"); };
  try {
    static_cast<void>(session.parked(act, kPatience));
    ADD_FAILURE() << "no exception";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "of the function");
  }
  EXPECT_THROW(static_cast<void>(session.parked([] { throw std::bad_alloc(); }, kPatience)),
               std::bad_alloc);
  const Ticket ticket = must(session.publish(kAdd));
  EXPECT_TRUE(must(session.wait(ticket, kPatience)).is_done());
  must(session.parked(kEmpty, kPatience));
}

TEST_P(Sessions, parking_refuses_what_cannot_be) {
  Session session = start();
  Session other = start();
  std::optional<Code> nested;
  must(session.parked(
      [&] {
        nested = test::code_of(session.parked(kEmpty, kPatience));
        must(other.parked(kEmpty, kPatience));
      },
      kPatience));
  EXPECT_EQ(nested, Code::invalid_argument);
  EXPECT_EQ(test::code_of(session.parked(nullptr, kPatience)), Code::invalid_argument);
  session.stop(StopMode::cancel);
  EXPECT_EQ(test::code_of(session.parked(kEmpty, kPatience)), Code::invalid_argument);
  const Ticket shutdown = must(other.publish({.opcode = 0xFFFFFFFF}));
  must(other.wait(shutdown, kPatience));
  EXPECT_TRUE(comes_true(
      [&] { return test::code_of(other.parked(kEmpty, kPatience)) == Code::invalid_argument; }));
}

TEST_P(Sessions, a_session_may_be_stopped_while_parked) {
  Session session = start();
  must(session.set_tenant_enabled(TenantId(5), false));
  must(session.publish(kNop, {.tenant = TenantId(5)}));
  StopReport report;
  must(session.parked([&] { report = session.stop(StopMode::cancel, kPatience); }, kPatience));
  EXPECT_EQ(report.cancelled, 1u);
  EXPECT_FALSE(session.publish(kNop));
}

// Each item holds a crew. When the time is over, those that had gathered take items again.
TEST_P(Sessions, parking_is_called_off_while_an_endless_item_runs) {
  if (!parks(GetParam())) GTEST_SKIP() << "this backend calls the function beside its workers";
  if (worker_count() < 4) GTEST_SKIP() << "four workers are needed";
  Megakernel& endless = kernel({.fuel_per_item = kEndlessFuel});
  const DataBuffer output = buffer(endless, {.handle = 2, .word_count = 4});
  Session session = start(endless);
  Queue stuck = must(session.open_queue({.capacity = 16}));
  const std::array<Word, 3> args{0, 2, ~Word{0}};
  for (Word lap = 0; lap < 3; ++lap) {
    must(stuck.publish({.opcode = kCrowd, .args = args}));
    EXPECT_TRUE(comes_true([&] { return words_of(output)[0] == lap + 1; }));
    bool was_called = false;
    const auto parked = session.parked([&] { was_called = true; }, kMoment);
    EXPECT_EQ(test::code_of(parked), Code::timeout);
    EXPECT_FALSE(was_called);
    const Ticket ticket = must(session.publish(kAdd));
    EXPECT_TRUE(must(session.wait(ticket, kPatience)).is_done()) << lap;
  }
  EXPECT_EQ(stuck.close(StopMode::cancel, kMoment), 0u);
  must(session.parked(kEmpty, kPatience));
  const Ticket ticket = must(session.publish(kAdd));
  EXPECT_TRUE(must(session.wait(ticket, kPatience)).is_done());
  const StopReport report = session.stop(StopMode::drain, kPatience);
  EXPECT_EQ(report.done, 4u);
  EXPECT_EQ(report.faulted, 3u);
}

// Every second time there is no time to gather: some crews wait for the others when it is called
// off.
TEST_P(Sessions, floods_lose_nothing_while_the_session_is_parked_again_and_again) {
  constexpr Word kItems = 400, kTimes = 12;
  const DataBuffer output = buffer(2, 1);
  Session session = start();
  std::atomic<Word> failures{0};
  {
    std::vector<std::jthread> producers;
    for (Word producer = 0; producer < 2; ++producer) {
      producers.emplace_back([&, producer] {
        Queue queue = must(session.open_queue({.tenant = TenantId(producer), .capacity = 256}));
        const std::vector<abi::WorkItem> items(producer == 0 ? 200 : 7,
                                               abi::WorkItem{kAddParam, 0, 2, 1});
        for (Word left = kItems; left != 0;) {
          const auto count = std::min<std::size_t>(left, items.size());
          failures += Word{!queue.publish_items(std::span(items).first(count), kPatience)};
          left -= static_cast<Word>(count);
        }
        failures += Word{!queue.wait_all(kPatience)};
        failures += Word{queue.close(StopMode::drain, kPatience) != 0};
      });
    }
    for (Word i = 0; i < kTimes; ++i) {
      must(session.parked(kEmpty, kPatience));
      const auto soon = session.parked(kEmpty, std::chrono::microseconds(10 * i));
      failures += Word{!soon && soon.error().code != Code::timeout};
    }
  }
  EXPECT_EQ(failures, 0u);
  EXPECT_EQ(words_of(output)[0], 2 * kItems);
  EXPECT_EQ(session.stop(StopMode::drain, kPatience).done, 2 * kItems);
}

// What closed queues leave behind is freed while the kernel is away. The session sees to it.
TEST_P(Sessions, closing_many_queues_parks_the_session_for_a_moment) {
  constexpr int kQueues = 80;
  Session session = start();
  for (int i = 0; i < kQueues; ++i) {
    Queue queue = must(session.open_queue({.capacity = 16}));
    must(queue.publish(kAdd));
    EXPECT_EQ(queue.close(StopMode::drain, kPatience), 0u);
  }
  if (parks(GetParam())) {
    EXPECT_TRUE(comes_true([&] { return session.counters().kernel.launches >= 2; }));
  }
  const Ticket ticket = must(session.publish(kAdd));
  EXPECT_TRUE(must(session.wait(ticket, kPatience)).is_done());
  EXPECT_EQ(session.stop(StopMode::drain, kPatience).done, kQueues + 1u);
}

TEST_P(Sessions, two_threads_park_one_after_the_other) {
  Session session = start();
  std::atomic<int> inside{0}, most{0}, failures{0};
  {
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < 2; ++thread) {
      threads.emplace_back([&] {
        for (int i = 0; i < 5; ++i) {
          const auto act = [&] {
            const int now = ++inside;
            if (now > most) most = now;
            std::this_thread::yield();
            --inside;
          };
          failures += session.parked(act, kPatience) ? 0 : 1;
        }
      });
    }
  }
  EXPECT_EQ(failures, 0);
  if (parks(GetParam())) {
    EXPECT_EQ(most, 1);
  }
  const Ticket ticket = must(session.publish(kAdd));
  EXPECT_TRUE(must(session.wait(ticket, kPatience)).is_done());
}

TEST_P(Sessions, a_session_takes_a_share_of_the_device) {
  auto started = kernel().start({.multiprocessors = 1});
  if (!parks(GetParam())) {
    EXPECT_EQ(test::code_of(started), Code::unsupported);
    return;
  }
  ASSERT_TRUE(started) << test::message_of(started);
  const Ticket ticket = must(started->publish(kAdd));
  EXPECT_TRUE(must(started->wait(ticket, kPatience)).is_done());
  EXPECT_EQ(test::code_of(kernel().start({.multiprocessors = 100'000})), Code::invalid_argument);
}

}  // namespace everkernel::conformance
