// Live sessions: publishing, and following tickets.
#include <algorithm>
#include <atomic>
#include <thread>

#include "conformance/session_helpers.hpp"

namespace everkernel::conformance {

// --- publishing -------------------------------------------------------------------------------

TEST_P(Sessions, an_item_runs_and_its_end_is_seen) {
  Session session = start();
  const Ticket ticket = must(session.publish({.opcode = 1, .args = kStore7}));
  EXPECT_TRUE(must(session.wait(ticket, kPatience)).is_done());
  EXPECT_EQ(must(session.observable(0)), 7u);
}

// Long after the last item, looks of a GPU pause, unless the session was started without pauses.
TEST_P(Sessions, an_item_runs_after_a_while_without_work) {
  for (const auto latency : {backend::Latency::normal, backend::Latency::lowest}) {
    Session session = must(kernel().start({.latency = latency}));
    for (Word i = 1; i <= 3; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(4));
      EXPECT_TRUE(must(session.wait(must(session.publish(kAdd)), kPatience)).is_done());
      EXPECT_EQ(must(session.observable(1)), i);
    }
  }
}

TEST_P(Sessions, tickets_count_from_the_first_and_do_not_wrap) {
  Session session = start();
  for (std::uint64_t i = 0; i < 40; ++i) {
    EXPECT_EQ(number(must(session.publish(kNop, {.timeout = kPatience}))), first_ticket() + i);
  }
  must(session.wait_all(kPatience));
}

TEST_P(Sessions, work_items_are_published_together) {
  const DataBuffer output = buffer(2, 1);
  Session session = start();
  std::array<abi::WorkItem, 15> items{};
  for (Word i = 0; i < 15; ++i) items[i] = {kAddParam, 0, 2, i + 1};
  const TicketRange range = must(session.publish_items(items));
  EXPECT_EQ(range.count, 15u);
  EXPECT_EQ(number(range.last()), number(range.first) + 14);
  must(session.wait_all(kPatience));
  EXPECT_EQ(words_of(output), std::vector<Word>{120});
  for (Word i = 0; i < 15; ++i) EXPECT_TRUE(must(session.wait(range[i], kPatience)).is_done());
}

TEST_P(Sessions, packed_operations_are_one_item) {
  Session session = start();
  const PackedOp ops[] = {{.opcode = 1, .args = kStore7}, {.opcode = 2, .args = kAdd1}};
  const Ticket ticket = must(session.publish_packed(ops));
  EXPECT_TRUE(must(session.wait(ticket, kPatience)).is_done());
  EXPECT_EQ(must(session.observable(0)), 7u);
  EXPECT_EQ(must(session.observable(1)), 1u);
  EXPECT_EQ(session.counters().published, 1u);
}

TEST_P(Sessions, a_batch_is_complete_when_its_fence_is) {
  const DataBuffer output = buffer(2, 1);
  Session session = start();
  const std::array<Word, 4> steps{0, 0, 0, 30};
  const std::array<Word, 3> add{0, 2, 5};
  for (const Word lap : {1u, 2u, 3u, 4u, 5u}) {
    const Operation items[] = {{.opcode = kCountdown, .args = steps},
                               {.opcode = kAddParam, .args = add},
                               {.opcode = kAddParam, .args = add}};
    const TicketRange range = must(session.publish_batch(items, 100 + lap, {.timeout = kPatience}));
    EXPECT_EQ(range.count, 4u);
    EXPECT_TRUE(must(session.wait(range.last(), kPatience)).is_done());
    for (Word i = 0; i < 3; ++i) EXPECT_TRUE(must(session.poll(range[i])).has_value());
    EXPECT_EQ(words_of(output)[0], 10 * lap);
    EXPECT_EQ(must(session.observable(0)), 100 + lap);
  }
  SessionSnapshot snapshot;
  must(session.snapshot(snapshot));
  EXPECT_EQ(snapshot.telemetry.control.epoch, counter_start() + 5);
}

TEST_P(Sessions, a_batch_of_nothing_is_a_fence) {
  Session session = start();
  const TicketRange range = must(session.publish_batch({}, 9));
  EXPECT_EQ(range.count, 1u);
  EXPECT_TRUE(must(session.wait(range.last(), kPatience)).is_done());
  EXPECT_EQ(must(session.observable(0)), 9u);
}

TEST_P(Sessions, batches_of_every_length_go_round_the_queue) {
  Megakernel& small = kernel({.slot_count = 8, .workgroup_size = 8});
  Session session = start(small);
  Word adds = 0;
  const std::vector<Operation> items(7, kAdd);
  std::uint64_t next = first_ticket(8);
  for (Word lap = 0; lap < 60; ++lap) {
    const Word count = lap % 8;
    const auto range =
        must(session.publish_batch(std::span(items).first(count), lap, {.timeout = kPatience}));
    adds += count;
    EXPECT_EQ(range.count, count + 1);
    EXPECT_EQ(number(range.first), next);
    next += count + 1;
  }
  must(session.wait_all(kPatience));
  EXPECT_EQ(must(session.observable(1)), adds);
}

TEST_P(Sessions, many_laps_run_every_item_once) {
  const DataBuffer output = buffer(2, 1);
  Session session = start();
  std::array<abi::WorkItem, 7> items{};
  std::ranges::fill(items, abi::WorkItem{kAddParam, 0, 2, 1});
  for (int lap = 0; lap < 300; ++lap) {
    must(session.publish_items(items, {.timeout = kPatience}));
  }
  must(session.wait_all(kPatience));
  EXPECT_EQ(words_of(output)[0], 2100u);
  const SessionCounters counters = session.counters();
  EXPECT_EQ(counters.published, 2100u);
  EXPECT_EQ(counters.kernel.done, 2100u);
}

// On a GPU with many crews, each of these floods becomes a stream that several crews share. A
// change of orders comes in the middle of it, and nothing more is published.
TEST_P(Sessions, floods_end_although_masks_quotas_and_queues_change) {
  constexpr Word kItems = 160;
  const DataBuffer output = buffer(2, 1);
  Session session = start();
  Queue queue = must(session.open_queue({.tenant = TenantId(3), .capacity = 256}));
  const std::vector<abi::WorkItem> items(kItems, abi::WorkItem{kAddParam, 0, 2, 1});
  for (Word round = 1; round <= 3; ++round) {
    must(queue.publish_items(items, kPatience));
    must(session.set_tenant_enabled(TenantId(5), round % 2 == 0));
    must(session.set_tenant_quota(TenantId(6), round));
    const Queue another = must(session.open_queue({.capacity = 2}));
    must(queue.wait_all(kPatience));
    EXPECT_EQ(words_of(output)[0], round * kItems);
  }
}

TEST_P(Sessions, several_threads_publish_at_one_time) {
  const DataBuffer output = buffer(2, 1);
  Session session = start();
  std::atomic<Word> failures{0};
  std::vector<std::jthread> producers;
  for (int producer = 0; producer < 4; ++producer) {
    producers.emplace_back([&] {
      const std::array<Word, 3> args{0, 2, 1};
      const std::array<abi::WorkItem, 3> items{
          {{kAddParam, 0, 2, 1}, {kAddParam, 0, 2, 1}, {kAddParam, 0, 2, 1}}};
      const Operation add{.opcode = kAddParam, .args = args};
      for (int lap = 0; lap < 40; ++lap) {
        const PublishOptions options{.timeout = kPatience};
        const auto one = session.publish(add, options);
        if (!one || !session.wait(*one, kPatience)) ++failures;
        if (!session.publish_items(items, options)) ++failures;
        if (!session.publish_batch(std::span(&add, 1), 1, options)) ++failures;
      }
    });
  }
  producers.clear();
  must(session.wait_all(kPatience));
  EXPECT_EQ(failures, 0u);
  EXPECT_EQ(words_of(output)[0], 4u * 40u * 5u);
}

// --- room -------------------------------------------------------------------------------------

TEST_P(Sessions, a_queue_holds_as_many_items_as_its_capacity) {
  for (const Word capacity : {2u, 4u, 16u}) {
    Session session = start(kernel({.slot_count = capacity, .workgroup_size = capacity}));
    EXPECT_EQ(session.capacity(), capacity);
    must(session.set_tenant_enabled(TenantId(5), false));
    for (Word i = 0; i < capacity; ++i) must(session.publish(kNop, {.tenant = TenantId(5)}));
    EXPECT_EQ(test::code_of(session.publish(kNop, {.tenant = TenantId(5)})), Code::queue_full);
    must(session.set_tenant_enabled(TenantId(5), true));
    must(session.wait_all(kPatience));
    must(session.publish(kNop));
  }
}

TEST_P(Sessions, a_full_queue_is_an_error_at_once_or_after_a_wait) {
  Session session = start();
  must(session.set_tenant_enabled(TenantId(5), false));
  const std::vector<abi::WorkItem> items(16, abi::WorkItem{0, 0, 0, 0});
  must(session.publish_items(items, {.tenant = TenantId(5)}));
  const Operation one[] = {kNop};
  const PackedOp packed[] = {{.opcode = 0}};
  const PublishOptions five{.tenant = TenantId(5)};
  EXPECT_EQ(test::code_of(session.publish(kNop, five)), Code::queue_full);
  EXPECT_EQ(test::code_of(session.publish_items(std::span(items).first(1), five)),
            Code::queue_full);
  EXPECT_EQ(test::code_of(session.publish_packed(packed, five)), Code::queue_full);
  EXPECT_EQ(test::code_of(session.publish_batch(one, 1, five)), Code::queue_full);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(test::code_of(session.publish(kNop, {.tenant = TenantId(5), .timeout = kMoment})),
            Code::timeout);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, kMoment);
  EXPECT_EQ(session.counters().published, 16u);
  EXPECT_GE(session.counters().full_waits, 1u);
  must(session.set_tenant_enabled(TenantId(5), true));
  must(session.publish(kNop, {.tenant = TenantId(5), .timeout = kPatience}));
  must(session.wait_all(kPatience));
}

TEST_P(Sessions, a_tenant_that_cannot_run_holds_up_nobody_else) {
  Session session = start();
  must(session.set_tenant_enabled(TenantId(5), false));
  const std::vector<abi::WorkItem> items(16, abi::WorkItem{0, 0, 0, 0});
  const TicketRange blocked = must(session.publish_items(items, {.tenant = TenantId(5)}));
  for (int lap = 0; lap < 100; ++lap) {
    must(session.publish_items(items, {.tenant = TenantId(6), .timeout = kPatience}));
  }
  EXPECT_TRUE(comes_true([&] { return session.counters().kernel.done == 1600; }));
  EXPECT_FALSE(must(session.poll(blocked.first)).has_value());
  must(session.set_tenant_enabled(TenantId(5), true));
  must(session.wait(blocked.last(), kPatience));
}

TEST_P(Sessions, items_that_yield_for_ever_hold_up_nobody_else) {
  Session session = start();
  for (int i = 0; i < 16; ++i)
    must(session.publish({.opcode = kYieldForever}, {.tenant = TenantId(5)}));
  for (int i = 0; i < 100; ++i) {
    const Ticket ticket =
        must(session.publish(kNop, {.tenant = TenantId(6), .timeout = kPatience}));
    EXPECT_TRUE(must(session.wait(ticket, kPatience)).is_done());
  }
}

TEST_P(Sessions, every_priority_of_a_tenant_is_a_queue_of_its_own) {
  Session session = start();
  must(session.set_tenant_enabled(TenantId(5), false));
  const std::vector<abi::WorkItem> items(16, abi::WorkItem{0, 0, 0, 0});
  for (Word priority = 0; priority < 5; ++priority) {
    must(session.publish_items(items, {.tenant = TenantId(5), .priority = Priority{priority}}));
  }
  SessionSnapshot snapshot;
  must(session.snapshot(snapshot));
  ASSERT_EQ(snapshot.queues.size(), 5u);
  for (Word priority = 0; priority < 5; ++priority) {
    EXPECT_EQ(snapshot.queues[priority].tenant, TenantId(5));
    EXPECT_EQ(snapshot.queues[priority].priority, Priority{priority});
    EXPECT_EQ(snapshot.queues[priority].waiting, 16u);
    EXPECT_EQ(snapshot.queues[priority].taken, 0u);
    EXPECT_EQ(snapshot.queues[priority].first_slot, priority * 16u);
  }
  must(session.set_tenant_enabled(TenantId(5), true));
  must(session.wait_all(kPatience));
}

TEST_P(Sessions, a_publisher_that_waits_goes_on_when_there_is_room) {
  Session session = start();
  must(session.set_tenant_enabled(TenantId(5), false));
  const std::vector<abi::WorkItem> items(16, abi::WorkItem{0, 0, 0, 0});
  must(session.publish_items(items, {.tenant = TenantId(5)}));
  std::atomic<bool> is_published{false};
  std::jthread publisher([&] {
    is_published = session.publish(kNop, {.tenant = TenantId(5), .timeout = kPatience}).has_value();
  });
  std::this_thread::sleep_for(kMoment);
  EXPECT_FALSE(is_published);
  must(session.set_tenant_enabled(TenantId(5), true));
  publisher.join();
  EXPECT_TRUE(is_published);
}

// --- refused calls ----------------------------------------------------------------------------

TEST_P(Sessions, what_cannot_be_published_is_refused_and_changes_nothing) {
  Session session = start();
  const std::vector<Word> args(13);
  const std::vector<abi::WorkItem> items(17, abi::WorkItem{0, 0, 0, 0});
  const std::vector<abi::WorkItem> reserved{{0, 0, 0, 0}, {0xFFF0, 0, 0, 0}};
  const std::vector<Operation> batch(16, kNop);
  const Operation bad_batch[] = {kNop, {.opcode = 0x80000000}};
  const Operation long_batch[] = {kNop, {.opcode = 0, .args = args}};
  const std::vector<PackedOp> ops(24, PackedOp{.opcode = 0});
  const PackedOp long_op[] = {{.opcode = 1, .args = std::span(args).first(12)}};
  const auto refused = Code::invalid_argument;
  EXPECT_EQ(test::code_of(session.publish({.opcode = 0, .args = args})), refused);
  EXPECT_EQ(test::code_of(session.publish({.opcode = 0xFFF0})), refused);
  EXPECT_EQ(test::code_of(session.publish({.opcode = 0x80000000})), refused);
  EXPECT_EQ(test::code_of(session.publish(kNop, {.tenant = TenantId(29)})), refused);
  EXPECT_EQ(test::code_of(session.publish(kNop, {.tenant = TenantId(~0u)})), refused);
  EXPECT_EQ(test::code_of(session.publish(kNop, {.priority = Priority{5}})), refused);
  EXPECT_EQ(test::code_of(session.publish_items(items)), refused);
  EXPECT_EQ(test::code_of(session.publish_items(reserved)), refused);
  EXPECT_EQ(
      test::code_of(session.publish_items(std::span(items).first(2), {.tenant = TenantId(29)})),
      refused);
  EXPECT_EQ(
      test::code_of(session.publish_items(std::span(items).first(2), {.priority = Priority{5}})),
      refused);
  EXPECT_EQ(test::code_of(session.publish_batch(batch, 1)), refused);
  EXPECT_EQ(test::code_of(session.publish_batch(bad_batch, 1)), refused);
  EXPECT_EQ(test::code_of(session.publish_batch(long_batch, 1)), refused);
  EXPECT_EQ(
      test::code_of(session.publish_batch(std::span(batch).first(1), 1, {.tenant = TenantId(29)})),
      refused);
  EXPECT_EQ(test::code_of(session.publish_packed(ops)), refused);
  EXPECT_EQ(test::code_of(session.publish_packed(long_op)), refused);
  EXPECT_EQ(
      test::code_of(session.publish_packed(std::span(ops).first(1), {.tenant = TenantId(29)})),
      refused);
  EXPECT_EQ(session.counters().published, 0u);
  EXPECT_EQ(number(must(session.publish(kNop))), first_ticket());
  must(session.wait_all(kPatience));
  EXPECT_EQ(session.counters().kernel.done, 1u);
}

TEST_P(Sessions, tickets_that_were_never_given_out_are_refused) {
  Session session = start();
  const Ticket last = must(session.publish(kNop));
  must(session.wait(last, kPatience));
  const auto ticket_at = [&](std::uint64_t place) { return Ticket{place, last.queue}; };
  std::vector<Ticket> unknown{ticket_at(number(last) + 1), ticket_at(number(last) + (1ull << 32)),
                              ticket_at(~0ull)};
  if (first_ticket() != 0) unknown.push_back(ticket_at(first_ticket() - 1));
  for (const Ticket ticket : unknown) {
    SCOPED_TRACE(number(ticket));
    EXPECT_EQ(test::code_of(session.wait(ticket, kPatience)), Code::invalid_argument);
    EXPECT_EQ(test::code_of(session.poll(ticket)), Code::invalid_argument);
    EXPECT_EQ(test::code_of(session.on_complete(ticket, [](Ticket, Completion, bool) {})),
              Code::invalid_argument);
  }
}

TEST_P(Sessions, a_session_that_cannot_be_is_refused) {
  for (const Word capacity : {0u, 1u, 3u, 12u, 1000u, 1u << 21}) {
    EXPECT_EQ(test::code_of(kernel().start({.capacity = capacity})), Code::invalid_argument)
        << capacity;
  }
  EXPECT_EQ(test::code_of(kernel().start({.capacity = 16, .first_ticket = 16})),
            Code::invalid_argument);
  auto control = session_control();
  control.resize(159);
  EXPECT_FALSE(kernel().start({.control = std::as_bytes(std::span(control))}).has_value());
  EXPECT_EQ(test::code_of(kernel().start({.tenant_count = 30})), Code::invalid_argument);
  EXPECT_EQ(test::code_of(kernel().start({.observable_slots = 1'048'577})), Code::invalid_argument);
  EXPECT_EQ(test::code_of(kernel().start({.debug_records = 1'048'577})), Code::invalid_argument);
  EXPECT_EQ(test::code_of(kernel().start({.io_slots = 0})), Code::invalid_argument);
  EXPECT_EQ(test::code_of(kernel().start({.io_slots = 65})), Code::invalid_argument);
}

// --- following tickets ------------------------------------------------------------------------

TEST_P(Sessions, wait_and_poll_see_an_item_that_is_on_its_way) {
  Session session = start();
  must(session.set_tenant_enabled(TenantId(5), false));
  const Ticket ticket = must(session.publish(kNop, {.tenant = TenantId(5)}));
  EXPECT_FALSE(must(session.poll(ticket)).has_value());
  EXPECT_EQ(test::code_of(session.wait(ticket, kMoment)), Code::timeout);
  EXPECT_EQ(test::code_of(session.wait(ticket, std::chrono::nanoseconds(0))), Code::timeout);
  EXPECT_EQ(test::code_of(session.wait_all(kMoment)), Code::timeout);
  must(session.set_tenant_enabled(TenantId(5), true));
  EXPECT_TRUE(must(session.wait(ticket, kPatience)).is_done());
  EXPECT_TRUE(must(session.poll(ticket))->is_done());
}

TEST_P(Sessions, what_an_item_wrote_is_there_when_its_end_is_seen) {
  const DataBuffer output = buffer(2, 1);
  Session session = start();
  const std::array<Word, 3> args{0, 2, 1};
  for (Word i = 1; i <= 200; ++i) {
    const Ticket ticket = must(session.publish({.opcode = kAddParam, .args = args}));
    if (i % 2 == 0) {
      must(session.wait(ticket, kPatience));
    } else {
      EXPECT_TRUE(comes_true([&] { return must(session.poll(ticket)).has_value(); }));
    }
    ASSERT_EQ(words_of(output)[0], i);
  }
}

TEST_P(Sessions, faults_are_reported_by_ticket_also_when_the_slot_serves_others) {
  Session session = start();
  const std::array<Word, 3> args{0, 0, 5};
  const Ticket fault = must(session.publish({.opcode = kRaise, .args = args}));
  const Ticket unknown = must(session.publish({.opcode = 9999}));
  const Ticket fence = must(session.publish({.opcode = 7, .args = std::array<Word, 2>{16, 0}}));
  const Ticket good = must(session.publish(kNop));
  publish_many(session, kNop, 50);
  must(session.wait_all(kPatience));
  for (int look = 0; look < 2; ++look) {
    EXPECT_EQ(must(session.poll(fault))->fault_code, 261u);
    EXPECT_EQ(must(session.wait(fault, kPatience)).fault_code, 261u);
    EXPECT_EQ(must(session.wait(unknown, kPatience)).fault_code, 1u);
    EXPECT_EQ(must(session.wait(fence, kPatience)).fault_code, 7u);
    EXPECT_TRUE(must(session.wait(good, kPatience)).is_done());
  }
  EXPECT_EQ(session.counters().kernel.faulted, 3u);
  EXPECT_EQ(session.counters().kernel.done, 51u);
}

TEST_P(Sessions, a_callback_is_called_once_when_its_item_ends) {
  Session session = start();
  must(session.set_tenant_enabled(TenantId(5), false));
  const std::array<Word, 3> args{0, 0, 5};
  const Ticket late = must(session.publish(kNop, {.tenant = TenantId(5)}));
  const Ticket fault =
      must(session.publish({.opcode = kRaise, .args = args}, {.tenant = TenantId(5)}));
  const Ticket early = must(session.publish(kNop));
  must(session.wait(early, kPatience));
  std::atomic<Word> calls{0}, codes{0}, cancelled{0}, wrong{0};
  for (const Ticket ticket : {late, fault, early}) {
    must(session.on_complete(ticket, [&, ticket](Ticket of, Completion how, bool was_cancelled) {
      wrong += Word{of != ticket};
      codes += how.fault_code;
      cancelled += Word{was_cancelled};
      ++calls;
    }));
  }
  EXPECT_TRUE(comes_true([&] { return calls == 1; })) << "the item that had ended";
  must(session.set_tenant_enabled(TenantId(5), true));
  EXPECT_TRUE(comes_true([&] { return calls == 3; }));
  must(session.wait_all(kPatience));
  std::this_thread::sleep_for(kMoment);
  EXPECT_EQ(calls, 3u);
  EXPECT_EQ(codes, 261u);
  EXPECT_EQ(cancelled, 0u);
  EXPECT_EQ(wrong, 0u);
}

TEST_P(Sessions, a_callback_may_publish) {
  Session session = start();
  std::atomic<Word> rounds{0};
  std::function<void(Ticket, Completion, bool)> next = [&](Ticket, Completion, bool was_cancelled) {
    if (was_cancelled || ++rounds >= 20) return;
    const auto ticket = session.publish(kAdd, {.timeout = kPatience});
    if (ticket) (void)session.on_complete(*ticket, next);
  };
  must(session.on_complete(must(session.publish(kAdd)), next));
  EXPECT_TRUE(comes_true([&] { return rounds == 20; }));
  EXPECT_EQ(must(session.observable(1)), 20u);
}

// --- handlers ---------------------------------------------------------------------------------

TEST_P(Sessions, items_that_yield_let_others_run) {
  Session session = start();
  const std::array<Word, 4> endless{};
  const std::array<Word, 4> steps{0, 0, 0, 100};
  const Ticket forever = must(session.publish({.opcode = kYieldForever, .args = endless}));
  const Ticket countdown = must(session.publish({.opcode = kCountdown, .args = steps}));
  const Ticket later = must(session.publish({.opcode = kCountdownLater, .args = steps}));
  const Ticket nop = must(session.publish(kNop));
  for (const Ticket ticket : {nop, countdown, later}) {
    EXPECT_TRUE(must(session.wait(ticket, kPatience)).is_done());
  }
  EXPECT_FALSE(must(session.poll(forever)).has_value());
}

TEST_P(Sessions, items_that_yield_go_on_beside_a_flood) {
  const DataBuffer output = buffer(2, 1);
  Session session = start();
  std::atomic<bool> is_over{false};
  std::jthread flood([&] {
    const std::array<abi::WorkItem, 4> items{
        {{kAddParam, 0, 2, 1}, {kAddParam, 0, 2, 1}, {kAddParam, 0, 2, 1}, {kAddParam, 0, 2, 1}}};
    while (!is_over) {
      if (!session.publish_items(items, {.tenant = TenantId(6), .timeout = kPatience})) return;
    }
  });
  const std::array<Word, 4> steps{0, 0, 0, 30};
  const Ticket ticket =
      must(session.publish({.opcode = kCountdown, .args = steps}, {.tenant = TenantId(5)}));
  EXPECT_TRUE(session.wait(ticket, kPatience).has_value());
  is_over = true;
  flood.join();
  must(session.wait_all(kPatience));
}

TEST_P(Sessions, an_endless_item_holds_up_no_other_worker) {
  if (worker_count() == 1) GTEST_SKIP() << "one worker has nobody beside it";
  Session session = start(kernel({.fuel_per_item = kEndlessFuel}));
  publish_many(session, kNop, 500);  // workers have adapted to short items
  must(session.wait_all(kPatience));
  std::array<abi::WorkItem, 12> items{};
  items[0] = {kSpin, 0, 0, 0};
  const TicketRange range = must(session.publish_items(items));
  for (Word i = 1; i < 12; ++i) {
    ASSERT_TRUE(session.wait(range[i], std::chrono::seconds(3)).has_value()) << "item " << i;
  }
  EXPECT_FALSE(must(session.poll(range.first)).has_value());
}

TEST_P(Sessions, an_item_without_fuel_is_a_fault) {
  Session session = start(kernel({.fuel_per_item = 1000}));
  const Ticket ticket = must(session.publish({.opcode = kSpin}));
  EXPECT_EQ(must(session.wait(ticket, kPatience)).fault_code, 4u);
}

TEST_P(Sessions, a_buffer_that_is_given_up_is_not_found_any_more) {
  std::optional<DataBuffer> output = buffer(2, 1);
  Session session = start();
  const std::array<Word, 3> args{0, 2, 1};
  const Operation add{.opcode = kAddParam, .args = args};
  EXPECT_TRUE(must(session.wait(must(session.publish(add)), kPatience)).is_done());
  output.reset();
  EXPECT_EQ(must(session.wait(must(session.publish(add)), kPatience)).fault_code, 9u);
}

TEST_P(Sessions, a_buffer_that_is_made_while_it_runs_is_found) {
  Session session = start();
  const std::array<Word, 3> args{0, 2, 1};
  const Operation add{.opcode = kAddParam, .args = args};
  EXPECT_EQ(must(session.wait(must(session.publish(add)), kPatience)).fault_code, 9u);
  for (int lap = 0; lap < 20; ++lap) {
    const DataBuffer output = buffer(2, 1);
    EXPECT_TRUE(must(session.wait(must(session.publish(add)), kPatience)).is_done());
    EXPECT_EQ(words_of(output)[0], 1u);
  }
}

TEST_P(Sessions, buffers_come_and_go_beside_items_that_use_them) {
  Session session = start();
  std::atomic<bool> is_over{false};
  std::jthread publisher([&] {
    const std::array<abi::WorkItem, 4> items{
        {{kAddParam, 0, 2, 1}, {kAddParam, 0, 3, 1}, {kAddParam, 0, 2, 1}, {kAddParam, 0, 3, 1}}};
    while (!is_over) {
      if (!session.publish_items(items, {.timeout = kPatience})) return;
    }
  });
  for (int lap = 0; lap < 200; ++lap) {
    const DataBuffer first = buffer(2, 100);
    const DataBuffer second = buffer(3, 1);
  }
  is_over = true;
  publisher.join();
  must(session.wait_all(kPatience));
  const SessionCounters counters = session.counters();
  EXPECT_EQ(counters.kernel.done + counters.kernel.faulted, counters.published);
}

TEST_P(Sessions, a_buffer_is_written_and_read_beside_the_kernel) {
  DataBuffer output = buffer(2, 1);
  Session session = start();
  const std::array<Word, 3> args{0, 2, 1};
  for (Word lap = 0; lap < 20; ++lap) {
    must(output.write(0, std::array<Word, 1>{lap * 1000}));
    must(session.wait(must(session.publish({.opcode = kAddParam, .args = args})), kPatience));
    EXPECT_EQ(words_of(output)[0], lap * 1000 + 1);
  }
}

TEST_P(Sessions, a_dispatch_runs_beside_a_session) {
  Session session = start();
  must(session.publish({.opcode = kYieldForever}));
  Job before = job();
  for (Word slot = 0; slot < 16; ++slot) before.put(slot, {1, 2, 0, 2, 1, 160});
  EXPECT_EQ(run(before).control[160], 16u);
  must(session.wait(must(session.publish(kAdd)), kPatience));
  EXPECT_EQ(must(session.observable(1)), 1u);
}

TEST_P(Sessions, a_session_outlives_its_megakernel) {
  std::optional<Megakernel> megakernel = must(Megakernel::create(backend(), options()));
  Session session = start(*megakernel);
  megakernel.reset();
  publish_many(session, kAdd, 30);
  must(session.wait_all(kPatience));
  EXPECT_EQ(must(session.observable(1)), 30u);
}

TEST_P(Sessions, a_session_may_be_moved) {
  Session first = start();
  const Ticket ticket = must(first.publish(kAdd));
  Session second = std::move(first);
  must(second.wait(ticket, kPatience));
  Session third = start();
  must(third.publish(kAdd));
  third = std::move(second);
  EXPECT_EQ(must(third.observable(1)), 1u);
}

}  // namespace everkernel::conformance
