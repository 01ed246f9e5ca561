// Live sessions: items that run, and the time that one run of an item may take.
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "conformance/session_helpers.hpp"
#include "conformance/trusted_handlers.hpp"

namespace everkernel::conformance {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

constexpr Word kDeadlineFault = 10;
constexpr Shape kEndless{.fuel_per_item = kEndlessFuel};

// Waits until that many items run, and gives them.
std::vector<RunningItem> running(Session& session, std::size_t count) {
  std::vector<RunningItem> items;
  comes_true([&] {
    items = must(session.running());
    return items.size() == count;
  });
  return items;
}

}  // namespace

// --- what runs --------------------------------------------------------------------------------

TEST_P(RunningItems, an_item_that_does_not_end_is_seen_by_name) {
  Session session = start(kernel(kEndless));
  Queue queue = must(session.open_queue({.tenant = TenantId(3), .priority = Priority::high}));
  const auto before = steady_clock::now();
  const Ticket ticket = must(queue.publish({.opcode = kSpin}));
  const auto items = running(session, 1);
  ASSERT_EQ(items.size(), 1u);
  EXPECT_EQ(items[0].ticket, ticket);
  EXPECT_EQ(items[0].tenant, TenantId(3));
  EXPECT_EQ(items[0].priority, Priority::high);
  EXPECT_EQ(items[0].opcode, kSpin);
  EXPECT_EQ(items[0].name, "spin");
  EXPECT_LE(items[0].worker, worker_count());
  EXPECT_EQ(items[0].multiprocessor.has_value(), GetParam().backend->name == "cuda");
  // A busy machine answers late when a GPU's clock is compared with that of the host.
  EXPECT_GE(items[0].since, before - seconds(1));
  EXPECT_LE(items[0].since, steady_clock::now());
  EXPECT_FALSE(items[0].was_told_to_end);
  SessionSnapshot snapshot;
  must(session.snapshot(snapshot));
  ASSERT_EQ(snapshot.running.size(), 1u);
  EXPECT_EQ(snapshot.running[0].ticket, ticket);
  EXPECT_LT(snapshot.running[0].since - items[0].since, seconds(1));
  queue.close(StopMode::cancel, {});
  EXPECT_TRUE(must(session.running()).empty());
}

TEST_P(RunningItems, the_error_of_a_wait_names_the_item) {
  Session session = start(kernel(kEndless));
  const Ticket ticket = must(session.publish({.opcode = kSpin}));
  ASSERT_EQ(running(session, 1).size(), 1u);
  const auto end = session.wait(ticket, milliseconds(100));
  ASSERT_FALSE(end.has_value());
  EXPECT_NE(end.error().message.find("(spin) has run on worker"), std::string::npos)
      << end.error().message;
}

TEST_P(RunningItems, items_that_ended_wait_or_are_short_do_not_run) {
  const DataBuffer output = buffer(kernel(kEndless), {.handle = 2, .word_count = 3});
  Session session = start(kernel(kEndless));
  const PublishOptions five{.tenant = TenantId(5)};
  must(session.publish({.opcode = kYieldForever}, five));
  must(session.publish({.opcode = 0xFFFD, .args = std::array<Word, 2>{77, 0}}, five));  // LOAD_MISS
  const std::array<Word, 3> crowd{0, 2, 50};
  for (Word i = 0; i < 20; ++i) {
    must(session.publish({.opcode = kCrowd, .args = crowd}, {.timeout = kPatience}));
    must(session.publish(kAdd, {.timeout = kPatience}));
  }
  EXPECT_TRUE(comes_true([&] { return words_of(output)[2] == 1000; }));
  EXPECT_TRUE(comes_true([&] {
    const auto items = must(session.running());
    return std::ranges::none_of(items, [](const auto& item) { return item.opcode == kCrowd; });
  }));
  for (const RunningItem& item : must(session.running())) EXPECT_EQ(item.opcode, kYieldForever);
}

TEST_P(RunningItems, a_packed_item_is_one) {
  Session session = start(kernel(kEndless));
  const PackedOp ops[] = {{.opcode = 2, .args = kAdd1}, {.opcode = kSpin}};
  const Ticket ticket = must(session.publish_packed(ops));
  const auto items = running(session, 1);
  ASSERT_EQ(items.size(), 1u);
  EXPECT_EQ(items[0].ticket, ticket);
  EXPECT_EQ(items[0].name, "PACKED_SLOT");
}

// On a GPU with many crews, items of a flood lie on the lanes of a few warps.
TEST_P(RunningItems, every_item_that_runs_is_listed_once) {
  Session session = start(kernel(kEndless));
  Queue queue = must(session.open_queue({.capacity = 256}));
  const std::vector<abi::WorkItem> items(160, abi::WorkItem{kSpin, 0, 0, 0});
  const TicketRange range = must(queue.publish_items(items));
  std::vector<RunningItem> seen;
  EXPECT_TRUE(comes_true([&] {
    seen = must(session.running());
    return seen.size() >= std::min(worker_count(), 8u);
  }));
  std::vector<std::uint64_t> tickets;
  for (const RunningItem& item : seen) {
    EXPECT_EQ(item.name, "spin");
    tickets.push_back(number(item.ticket));
  }
  std::ranges::sort(tickets);
  EXPECT_EQ(std::ranges::adjacent_find(tickets), tickets.end()) << "an item runs once";
  ASSERT_FALSE(tickets.empty());
  EXPECT_GE(tickets.front(), number(range.first));
  EXPECT_LE(tickets.back(), number(range.last()));
}

// --- how long an item may run -----------------------------------------------------------------

TEST_P(ItemTimeouts, an_endless_loop_ends_and_everything_else_goes_on) {
  const DataBuffer output = buffer(kernel(kEndless), {.handle = 2, .word_count = 3});
  Session session = start(kernel(kEndless));
  Queue timed = must(session.open_queue({.item_timeout = short_timeout()}));
  Queue other = must(session.open_queue({.tenant = TenantId(4), .capacity = 64}));
  const auto begin = steady_clock::now();
  const Ticket spin = must(timed.publish({.opcode = kSpin}));
  const Ticket behind = must(timed.publish({.opcode = 0}));
  const std::vector<abi::WorkItem> crowd(40, abi::WorkItem{kCrowd, 0, 2, 25});
  const TicketRange range = must(other.publish_items(crowd));
  EXPECT_EQ(must(timed.wait(spin, kPatience)).fault_code, kDeadlineFault);
  EXPECT_GE(steady_clock::now() - begin, short_timeout());
  EXPECT_TRUE(must(timed.wait(behind, kPatience)).is_done());
  for (Word i = 0; i < range.count; ++i) {
    EXPECT_TRUE(must(other.wait(range[i], kPatience)).is_done());
  }
  EXPECT_EQ(words_of(output)[2], 1000u);
  EXPECT_EQ(session.counters().kernel.faulted, 1u);
  EXPECT_TRUE(must(session.running()).empty());
  must(session.wait(must(session.publish(kNop)), kPatience));
}

TEST_P(ItemTimeouts, the_sessions_own_queues_have_one_too) {
  Session session = must(kernel(kEndless).start({.item_timeout = kMoment}));
  const Ticket spin = must(session.publish({.opcode = kSpin}, {.tenant = TenantId(2)}));
  EXPECT_EQ(must(session.wait(spin, kPatience)).fault_code, kDeadlineFault);
  EXPECT_EQ(test::code_of(kernel(kEndless).start({.item_timeout = milliseconds(-1)})),
            Code::invalid_argument);
  EXPECT_EQ(test::code_of(session.open_queue({.item_timeout = milliseconds(-1)})),
            Code::invalid_argument);
}

TEST_P(ItemTimeouts, time_between_two_runs_of_an_item_does_not_count) {
  Session session = start(kernel(kEndless));
  Queue queue = must(session.open_queue({.item_timeout = kMoment}));
  const Ticket forever = must(queue.publish({.opcode = kYieldForever}));
  const Ticket miss = must(queue.publish({.opcode = 0xFFFD, .args = std::array<Word, 2>{77, 0}}));
  std::this_thread::sleep_for(3 * kMoment);
  EXPECT_FALSE(must(queue.poll(forever)).has_value());
  EXPECT_FALSE(must(queue.poll(miss)).has_value());
  EXPECT_EQ(session.counters().kernel.faulted, 0u);
}

TEST_P(ItemTimeouts, a_packed_item_keeps_what_it_did_before) {
  Session session = start(kernel(kEndless));
  Queue queue = must(session.open_queue(
      {.entries = abi::EntryFormat::full, .results = true, .item_timeout = kMoment}));
  const PackedOp ops[] = {
      {.opcode = 2, .args = kAdd1}, {.opcode = kSpin}, {.opcode = 2, .args = kAdd1}};
  EXPECT_EQ(must(queue.wait(must(queue.publish_packed(ops)), kPatience)).fault_code,
            kDeadlineFault);
  EXPECT_EQ(must(session.observable(1)), 1u);
}

TEST_P(ItemTimeouts, a_queue_of_another_process_keeps_to_that_of_its_opener) {
  Session session = start(kernel(kEndless));
  Queue queue = must(session.open_queue({.item_timeout = kMoment}));
  const int descriptor = must(queue.descriptor());
  Queue given = must(attach_queue(descriptor));
  ::close(descriptor);
  const Ticket spin = must(given.publish({.opcode = kSpin}));
  EXPECT_EQ(must(given.wait(spin, kPatience)).fault_code, kDeadlineFault);
  EXPECT_TRUE(must(given.wait(must(given.publish(kNop)), kPatience)).is_done());
}

TEST_P(ItemTimeouts, queues_and_sessions_are_drained_by_them) {
  const auto begin = steady_clock::now();
  Session session = start(kernel(kEndless));
  Queue closed = must(session.open_queue({.item_timeout = kMoment}));
  Queue stopped = must(session.open_queue({.tenant = TenantId(1), .item_timeout = kMoment}));
  for (int i = 0; i < 3; ++i) {
    must(closed.publish({.opcode = kSpin}));
    must(stopped.publish({.opcode = kSpin}));
  }
  EXPECT_EQ(closed.close(StopMode::drain, kPatience), 0u);
  const StopReport report = session.stop(StopMode::drain, kPatience);
  EXPECT_EQ(report.faulted, 6u);
  EXPECT_EQ(report.cancelled, 0u);
  EXPECT_LT(steady_clock::now() - begin, kPatience / 2);
}

TEST_P(ItemTimeouts, closing_does_not_wait_longer_for_an_item_than_its_queue) {
  Session session = start(kernel(kEndless));
  Queue queue = must(session.open_queue({.item_timeout = short_timeout()}));
  must(queue.publish({.opcode = kSpin}));
  ASSERT_EQ(running(session, 1).size(), 1u);
  const auto begin = steady_clock::now();
  EXPECT_EQ(queue.close(StopMode::cancel, kPatience), 0u);
  EXPECT_LT(steady_clock::now() - begin, kPatience / 2);
  EXPECT_EQ(session.counters().kernel.faulted, 1u);
}

TEST_P(ItemTimeouts, a_trusted_handler_is_asked_to_end) {
  Session session = start(kernel(kWithTrusted));
  Queue queue = must(session.open_queue({.item_timeout = kMoment}));
  const Ticket spin = must(queue.publish({.opcode = kTrustedSpin}));
  EXPECT_FALSE(must(queue.wait(spin, kPatience)).is_done());
  EXPECT_TRUE(must(queue.wait(must(queue.publish(kNop)), kPatience)).is_done());
}

// On a GPU, a handler of scope group makes every crew a block.
TEST_P(ItemTimeouts, items_of_every_scope_end) {
  Megakernel& wide = kernel({.handlers = R"(
    handler warp_spin = 70 scope warp { while true { } }
    handler group_spin = 71 scope group { while true { } }
    handler group_add = 72 scope group { each i in 0 .. 1 { atomic_add(output[0], 1); } })",
                             .fuel_per_item = kEndlessFuel});
  const DataBuffer output = buffer(wide, {.handle = 2, .word_count = 1});
  Session session = start(wide);
  Queue timed = must(session.open_queue({.item_timeout = kMoment}));
  Queue other = must(session.open_queue({.tenant = TenantId(4)}));
  for (int lap = 0; lap < 2; ++lap) {
    const Ticket warp = must(timed.publish({.opcode = 70}));
    const Ticket group = must(timed.publish({.opcode = 71}));
    const std::vector<abi::WorkItem> adds(20, abi::WorkItem{72, 0, 2, 0});
    must(other.publish_items(adds));
    must(other.wait_all(kPatience));
    EXPECT_EQ(must(timed.wait(warp, kPatience)).fault_code, kDeadlineFault);
    EXPECT_EQ(must(timed.wait(group, kPatience)).fault_code, kDeadlineFault);
  }
  EXPECT_EQ(words_of(output)[0], 40u);
}

// Items that are taken together run side by side on a GPU: what ends one must not end the others.
TEST_P(ItemTimeouts, an_endless_item_in_a_flood_is_the_only_fault) {
  const DataBuffer output = buffer(kernel(kEndless), {.handle = 2, .word_count = 3});
  Session session = start(kernel(kEndless));
  Queue queue = must(session.open_queue({.capacity = 256, .item_timeout = short_timeout()}));
  std::vector<abi::WorkItem> items(160, abi::WorkItem{kCrowd, 0, 2, 10});
  items[37] = {kSpin, 0, 0, 0};
  const TicketRange range = must(queue.publish_items(items));
  must(queue.wait_all(kPatience));
  for (Word i = 0; i < range.count; ++i) {
    EXPECT_EQ(must(queue.wait(range[i], kPatience)).fault_code, i == 37 ? kDeadlineFault : 0u) << i;
  }
  EXPECT_EQ(words_of(output)[2], 1590u);
}

// The items take between half and twice their time: whoever ends an item that has just ended must
// not hurt the one that the worker runs by then.
TEST_P(ItemTimeouts, items_that_end_at_their_deadline_hurt_no_others) {
  const bool is_thorough = worker_count() == 4 && GetParam().execution == Execution::native;
  const Word count = is_thorough ? 10'000 : 200;
  const auto timeout = microseconds(GetParam().backend->name == "cuda" ? 1000 : 200);
  Megakernel& endless = kernel(kEndless);
  const DataBuffer output = buffer(endless, {.handle = 2, .word_count = 3});
  Session session = start(endless);
  const auto time_of = [&](Word turns) {
    auto least = steady_clock::duration::max();  // without the times off the core
    for (int i = 0; i < 5; ++i) {
      const std::array<Word, 3> args{0, 0, turns};
      const auto begin = steady_clock::now();
      must(session.wait(must(session.publish({.opcode = kLoop, .args = args})), kPatience));
      least = std::min(least, steady_clock::now() - begin);
    }
    return least;
  };
  time_of(1);  // the code is there from here on
  const auto way = time_of(1);
  Word turns = 1000;
  while (turns < 1u << 30 && time_of(turns) < way + timeout) turns += turns / 4;
  Queue timed = must(session.open_queue({.capacity = 1024, .item_timeout = timeout}));
  Queue other = must(session.open_queue({.tenant = TenantId(4), .capacity = 1024}));
  Word faults = 0, ends = 0, adds = 0;
  for (Word first = 0; first < count; first += 200) {
    std::vector<abi::WorkItem> near(200), crowd(50);
    for (Word i = 0; i < 200; ++i) near[i] = {kLoop, 0, 0, turns / 2 + turns / 134 * i};
    std::ranges::fill(crowd, abi::WorkItem{kCrowd, 0, 2, 300});
    const TicketRange range = must(timed.publish_items(near, kPatience));
    const TicketRange others = must(other.publish_items(crowd, kPatience));
    for (Word i = 0; i < range.count; ++i) {
      const Word code = must(timed.wait(range[i], kPatience)).fault_code;
      EXPECT_TRUE(code == 0 || code == kDeadlineFault) << code;
      faults += Word{code != 0};
      ++ends;
    }
    for (Word i = 0; i < others.count; ++i) {
      EXPECT_TRUE(must(other.wait(others[i], kPatience)).is_done());
    }
    adds += 50 * 300;
  }
  EXPECT_EQ(ends, count);
  EXPECT_EQ(words_of(output)[2], adds);
  const StopReport report = session.stop(StopMode::drain, kPatience);
  EXPECT_EQ(report.faulted, faults);
  if (is_thorough) {
    EXPECT_GT(faults, 0u);
  }
}

}  // namespace everkernel::conformance
