// Queues that a program opens: publishing, results, order, closing.
#include "everkernel/live/queue.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <thread>

#include "everkernel/abi/fault.hpp"
#include "live/queue_core.hpp"
#include "queue_fixture.hpp"

namespace everkernel::test {
namespace {

TEST_F(Queues, an_item_answers_with_three_words) {
  for (const EntryFormat format : {EntryFormat::compact, EntryFormat::full}) {
    Queue queue = open({.capacity = 8, .entries = format, .results = true});
    for (Word i = 0; i < 50; ++i) {
      const std::array<Word, 2> args{i, 100};
      const auto ticket = queue.publish({.opcode = kAnswer, .args = args}, kPatience);
      ASSERT_TRUE(ticket) << message_of(ticket);
      const auto ended = queue.wait(*ticket, kPatience);
      ASSERT_TRUE(ended) << message_of(ended);
      EXPECT_EQ(ended->results, (std::array<Word, 3>{i + 100, i, 7}));
    }
  }
}

TEST_F(Queues, results_are_kept_while_later_items_are_published) {
  Queue queue = open({.capacity = 4, .results = true});
  std::vector<Ticket> tickets;
  for (Word i = 0; i < 8; ++i) {
    const std::array<Word, 2> args{i, 0};
    tickets.push_back(*queue.publish({.opcode = kAnswer, .args = args}, kPatience));
  }
  ASSERT_TRUE(queue.wait_all(kPatience));
  for (Word i = 4; i < 8; ++i) EXPECT_EQ(queue.wait(tickets[i], kPatience)->results[0], i);
  EXPECT_EQ(code_of(queue.wait(tickets[0], kPatience)), Code::invalid_argument);
}

TEST_F(Queues, what_does_not_fit_a_compact_entry_is_refused) {
  Queue queue = open();
  const std::array<Word, 4> four{};
  EXPECT_EQ(code_of(queue.publish({.opcode = kAnswer, .args = four})), Code::invalid_argument);
  const protocol::PackedOp ops[] = {{.opcode = 0}};
  EXPECT_EQ(code_of(queue.publish_packed(ops)), Code::invalid_argument);
  EXPECT_EQ(code_of(queue.publish({.opcode = 0xFFFFFFFF})), Code::invalid_argument);
  const abi::WorkItem shutdown{0xFFFFFFFF, 0, 0, 0};
  EXPECT_EQ(code_of(queue.publish_items({&shutdown, 1})), Code::invalid_argument);
  EXPECT_EQ(queue.counters().published, 0u);
  Queue full = open({.entries = EntryFormat::full});
  EXPECT_TRUE(full.publish_packed(ops));
  EXPECT_TRUE(full.publish({.opcode = kAnswer, .args = four}));
  EXPECT_TRUE(full.wait_all(kPatience));
}

TEST_F(Queues, options_that_cannot_be_are_refused) {
  EXPECT_EQ(code_of(session->open_queue({.tenant = TenantId(29)})), Code::invalid_argument);
  EXPECT_EQ(code_of(session->open_queue({.priority = Priority{5}})), Code::invalid_argument);
  EXPECT_EQ(code_of(session->open_queue({.capacity = 12})), Code::invalid_argument);
  EXPECT_EQ(code_of(session->open_queue({.capacity = 8, .first_ticket = 8})),
            Code::invalid_argument);
}

TEST_F(Queues, a_session_has_at_most_1024) {
  std::vector<Queue> queues;
  for (int i = 0; i < 1024; ++i) queues.push_back(open({.capacity = 2}));
  EXPECT_EQ(code_of(session->open_queue({})), Code::invalid_argument);
  const auto ticket = queues[777].publish({});
  ASSERT_TRUE(ticket);
  EXPECT_TRUE(queues[777].wait(*ticket, kPatience));
  queues.pop_back();
  EXPECT_TRUE(session->open_queue({}));
}

TEST_F(Queues, tickets_belong_to_their_queue) {
  Queue first = open(), second = open();
  const Ticket ticket = *first.publish({});
  ASSERT_TRUE(second.publish({}));
  EXPECT_EQ(code_of(second.wait(ticket, kPatience)), Code::invalid_argument);
  EXPECT_EQ(code_of(second.poll(ticket)), Code::invalid_argument);
  EXPECT_TRUE(session->wait(ticket, kPatience)) << "its session knows it too";
}

// A fence counts tickets of its own queue, over the edge of a lap.
TEST_F(Queues, a_fence_waits_for_the_tickets_before_it) {
  DataBuffer sum = *kernel->create_buffer({.handle = 1, .word_count = 1});
  for (const EntryFormat format : {EntryFormat::compact, EntryFormat::full}) {
    Queue queue = open({.capacity = 8, .entries = format});
    const std::array<Word, 3> args{0, 1, 1};
    const std::array<Operation, 5> items = {Operation{kAdd, args}, Operation{kAdd, args},
                                            Operation{kAdd, args}, Operation{kAdd, args},
                                            Operation{kAdd, args}};
    std::array<Word, 1> before{};
    ASSERT_TRUE(sum.read(0, before));
    for (Word lap = 1; lap <= 40; ++lap) {
      const auto range = queue.publish_batch(items, lap, kPatience);
      ASSERT_TRUE(range) << message_of(range);
      ASSERT_TRUE(queue.wait(range->last(), kPatience));
      std::array<Word, 1> now{};
      ASSERT_TRUE(sum.read(0, now));
      ASSERT_EQ(now[0], before[0] + 5 * lap);
    }
    const std::array<Word, 2> too_many{241, 0};  // 240 tickets precede it
    const Ticket fence = *queue.publish({.opcode = 7, .args = too_many});
    EXPECT_EQ(queue.wait(fence, kPatience)->fault_code,
              static_cast<Word>(abi::FaultCode::bad_fence));
  }
}

TEST_F(Queues, more_items_than_rooms_wait_and_the_queue_goes_on_when_they_end) {
  Queue queue = open({.tenant = TenantId(3), .capacity = 4096});
  // The table of waiting items has 1,024 rooms: the items behind them are not taken.
  const std::vector<abi::WorkItem> items(2000, abi::WorkItem{kForever, 0, 0, 0});
  ASSERT_TRUE(queue.publish_items(items));
  Queue other = open({.tenant = TenantId(4)});
  for (int i = 0; i < 100; ++i) {
    const auto ticket = other.publish({}, kPatience);
    ASSERT_TRUE(other.wait(*ticket, kPatience));
  }
  EXPECT_EQ(queue.close(StopMode::cancel, milliseconds(100)), 2000u);
}

TEST_F(Queues, closing_drains_or_cancels) {
  Queue drained = open();
  const std::vector<abi::WorkItem> items(1000, abi::WorkItem{});
  ASSERT_TRUE(drained.publish_items(items));
  EXPECT_EQ(drained.close(StopMode::drain, kPatience), 0u);
  EXPECT_EQ(code_of(drained.publish({})), Code::invalid_argument);
  EXPECT_EQ(drained.close(StopMode::cancel), 0u) << "a second time";

  ASSERT_TRUE(session->set_tenant_enabled(TenantId(5), false));
  Queue held = open({.tenant = TenantId(5)});
  const TicketRange range = *held.publish_items(std::span(items).first(10));
  EXPECT_EQ(held.close(StopMode::drain, milliseconds(10)), 10u);
  EXPECT_EQ(code_of(held.wait(range.first, kPatience)), Code::invalid_argument);
  EXPECT_EQ(code_of(held.wait_all(kPatience)), Code::invalid_argument);
  EXPECT_TRUE(session->wait_all(kPatience)) << "a closed queue is not the session's any more";
}

TEST_F(Queues, closing_ends_an_endless_item_at_its_deadline_and_no_other) {
  Queue endless = open({.tenant = TenantId(1)});
  const Ticket spin = *endless.publish({.opcode = kSpin});
  std::this_thread::sleep_for(milliseconds(20));
  Queue other = open({.tenant = TenantId(2)});
  const Ticket quick = *other.publish({});
  const auto begin = std::chrono::steady_clock::now();
  endless.close(StopMode::cancel, milliseconds(30));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, seconds(10));
  EXPECT_EQ(endless.wait(spin, kPatience)->fault_code, static_cast<Word>(abi::FaultCode::deadline));
  EXPECT_TRUE(other.wait(quick, kPatience)->is_done());
}

// A worker that runs an endless item of another queue does not hold up the close of this one.
TEST_F(Queues, closing_does_not_wait_for_items_of_other_queues) {
  Queue endless = open({.tenant = TenantId(1)});
  ASSERT_TRUE(endless.publish({.opcode = kSpin}));
  std::this_thread::sleep_for(milliseconds(20));
  for (int i = 0; i < 10; ++i) {
    Queue queue = open({.tenant = TenantId(2)});
    const auto ticket = queue.publish({});
    ASSERT_TRUE(queue.wait(*ticket, kPatience));
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ(queue.close(StopMode::drain, kPatience), 0u);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, seconds(5));
  }
}

TEST_F(Queues, a_queue_may_outlive_its_session) {
  Queue queue = open();
  const Ticket ticket = *queue.publish({});
  ASSERT_TRUE(queue.wait(ticket, kPatience));
  session.reset();
  kernel.reset();
  EXPECT_EQ(code_of(queue.publish({})), Code::invalid_argument);
  EXPECT_TRUE(queue.wait(ticket, kPatience)->is_done());
  EXPECT_EQ(code_of(queue.on_complete(ticket, [](Ticket, Completion, bool) {})),
            Code::invalid_argument);
}

TEST_F(Queues, callbacks_are_called_for_items_of_several_queues) {
  std::vector<Queue> queues;
  for (Word i = 0; i < 5; ++i) queues.push_back(open({.tenant = TenantId(i)}));
  std::atomic<int> calls{0};
  for (int i = 0; i < 100; ++i) {
    Queue& queue = queues[static_cast<std::size_t>(i % 5)];
    const Ticket ticket = *queue.publish({}, kPatience);
    ASSERT_TRUE(
        queue.on_complete(ticket, [&, ticket](Ticket ended, Completion how, bool cancelled) {
          calls += ended.number == ticket.number && how.is_done() && !cancelled ? 1 : 0;
        }));
  }
  session->stop(StopMode::drain, kPatience);
  EXPECT_EQ(calls, 100);
}

// A publisher that saw the queue open may reserve a ticket after the queue was finished.
TEST(QueueCore, waiting_for_all_does_not_pass_over_a_ticket_that_came_too_late) {
  const auto bell = backend::Doorbell::create();
  ASSERT_TRUE(bell) << message_of(bell);
  const auto core = *live::QueueCore::create({}, *bell, {.capacity = 8}, live::QueueCore::kNotOwn);
  EXPECT_TRUE(core->wait_all(kPatience)) << "there is nothing to wait for";
  EXPECT_EQ(core->finish(), 0u);
  core->live()->words.set_state(abi::QueueState::open);  // as the publisher saw it
  const auto late = core->publish({}, {});
  ASSERT_TRUE(late) << message_of(late);
  EXPECT_EQ(code_of(core->wait(*late, kPatience)), Code::invalid_argument);
  EXPECT_EQ(code_of(core->wait_all(kPatience)), Code::invalid_argument);
}

// Many items are checked together: each opcode among others of every kind, at every place.
TEST(QueueCore, a_batch_is_refused_as_its_items_would_be) {
  const auto bell = backend::Doorbell::create();
  ASSERT_TRUE(bell) << message_of(bell);
  for (const EntryFormat entries : {EntryFormat::compact, EntryFormat::full}) {
    const auto core = *live::QueueCore::create({}, *bell, {.capacity = 4096, .entries = entries},
                                               live::QueueCore::kNotOwn);
    std::uint64_t published = 0;
    for (const Word others : {0u, 2u, 8u, 64u, 0xFFEFu, 0x10000u, 0x7FFFFFFFu}) {
      for (const Word opcode :
           {0u, 1u, 4u, 5u, 6u, 7u, 8u, 14u, 0xFFEFu, 0xFFF0u, 0xFFFDu, 0xFFFEu, 0xFFFFu, 0x10000u,
            0x7FFFFFFFu, 0x80000000u, 0x80000001u, 0xFFFFFFFEu, 0xFFFFFFFFu}) {
        for (const std::size_t place : {0u, 1u, 4u, 5u}) {
          std::vector<abi::WorkItem> items(6, {others, 0, 0, 0});
          items[place].op_handle = opcode;
          const bool has_form = entries == EntryFormat::full || abi::fits_compact(opcode);
          const bool is_right = has_form && protocol::check_items(items, {}).has_value();
          const auto range = core->publish_items(items, {});
          EXPECT_EQ(range.has_value(), is_right) << others << " " << opcode << " " << place;
          published += is_right ? items.size() : 0;
          EXPECT_EQ(core->counters().published, published) << "all or nothing";
        }
      }
    }
  }
}

// Results are kept for a lap only, and a callback may come later.
TEST_F(Queues, a_callback_gets_the_results_however_many_later_items_have_ended) {
  Queue queue = open({.capacity = 4, .results = true});
  std::atomic<bool> is_released{false};
  const Ticket first = *queue.publish({}, kPatience);
  ASSERT_TRUE(queue.on_complete(first, [&](Ticket, Completion, bool) {
    while (!is_released) std::this_thread::yield();
  }));
  const std::array<Word, 2> args{30, 12};
  const Ticket followed = *queue.publish({kAnswer, args}, kPatience);
  std::atomic<Word> calls{0}, found{0};
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(queue.on_complete(followed, [&](Ticket, Completion how, bool cancelled) {
      found += cancelled ? 0 : how.results[0];
      ++calls;
    }));
  }
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(queue.publish({}, kPatience));
  ASSERT_TRUE(queue.wait_all(kPatience));
  EXPECT_EQ(
      code_of(queue.on_complete({first.number + 2, first.queue}, [](Ticket, Completion, bool) {})),
      Code::invalid_argument)
      << "its outcome is no longer kept";
  is_released = true;
  session->stop(StopMode::drain, kPatience);
  EXPECT_EQ(calls, 2u);
  EXPECT_EQ(found, 84u);
  EXPECT_EQ(code_of(queue.wait(followed, kPatience)), Code::invalid_argument);
}

TEST_F(Queues, they_come_and_go_beside_items_of_others) {
  Queue steady = open({.tenant = TenantId(1)});
  std::atomic<bool> is_over{false};
  std::atomic<int> failures{0};
  std::jthread publisher([&] {
    while (!is_over) {
      const auto ticket = steady.publish({}, kPatience);
      if (!ticket || !steady.wait(*ticket, kPatience)) ++failures;
    }
  });
  for (Word i = 0; i < 100; ++i) {
    Queue queue = open({.tenant = TenantId(2 + i % 20), .priority = Priority{i % 5}});
    const std::vector<abi::WorkItem> items(64, abi::WorkItem{});
    ASSERT_TRUE(queue.publish_items(items));
    if (i % 2 == 0) {
      ASSERT_TRUE(queue.wait_all(kPatience));
    }
  }
  is_over = true;
  publisher.join();
  EXPECT_EQ(failures, 0);
}

}  // namespace
}  // namespace everkernel::test
