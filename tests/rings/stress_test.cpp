// Many producers on one live session: no item is lost, none runs twice, none is torn.
//
// Every item carries a checksum over its words and its producer. Its handler computes the checksum
// again from the words it sees. If the two agree, the handler adds 1 to a count of the producer and
// two hashes of the item's number to sums of the producer, else it faults. Counts find lost items,
// sums find items that ran twice in place of others, faults find torn items.
//
// EVERKERNEL_ITEMS=N is the number of items to run in all, however long it takes; without it, a row
// also ends when its time is over. EVERKERNEL_SEED=N repeats the mix.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <deque>
#include <string>
#include <thread>
#include <vector>

#include "everkernel/backend/cpu/cpu_backend.hpp"
#include "everkernel/runtime/megakernel.hpp"
#include "support/bytes.hpp"
#include "support/ir_text.hpp"
#include "support/jit_random.hpp"
#include "support/sanitized.hpp"
#include "support/seeds.hpp"

namespace everkernel::test {
namespace {

using Clock = std::chrono::steady_clock;

// Numbers below 32, so that the control words count them.
constexpr Word kFull = 8;    // all twelve args
constexpr Word kItem = 9;    // a work item: three args, the others 0
constexpr Word kInner = 10;  // inside a packed slot: three args

constexpr Word kSumsHandle = 1;
constexpr Word kProducerWords = 16;  // a cache line each: count, first sum, second sum
constexpr Word kAlmostWrapped = 0xFFFFFFFDu;
constexpr std::chrono::seconds kPatience{60};          // a call that takes longer hangs
constexpr std::chrono::milliseconds kTimeOfRow{2500};  // of 24, unless a number of items is asked

// ---- checksums, in C++ and in the language of handlers ----

constexpr Word kBasis = 0x811C9DC5u;
constexpr Word kPrime = 0x01000193u;
constexpr Word first_hash(Word sequence) {
  const Word mixed = sequence * 0x9E3779B1u;
  return mixed ^ (mixed >> 15);
}
constexpr Word second_hash(Word sequence) {
  return (sequence ^ (sequence >> 7)) * 0x85EBCA77u + 1;
}

Word checksum(Word opcode, Word tenant, Word priority, std::span<const Word> args) {
  Word sum = kBasis;
  for (const Word word : {opcode, tenant, priority}) sum = (sum ^ word) * kPrime;
  for (const Word word : args) sum = (sum ^ word) * kPrime;
  return sum;
}

// args[0] is the producer, args[1] the number of the item, `count` words are covered by the
// checksum that follows them.
std::string handler_text(std::string_view name, Word opcode, Word count) {
  std::string text = fmt::format("handler {} = {} {{\n  var sum = {:#x};\n", name, opcode, kBasis);
  for (const auto* const word : {"opcode", "tenant", "priority"}) {
    text += fmt::format("  sum = (sum ^ {}) * {:#x};\n", word, kPrime);
  }
  for (Word i = 0; i < count; ++i) {
    text += fmt::format("  sum = (sum ^ args[{}]) * {:#x};\n", i, kPrime);
  }
  text += fmt::format("  if sum != args[{}] {{ fault {}; }}\n", count, opcode);
  for (Word i = count + 1; i < 12; ++i)
    text += fmt::format("  if args[{}] != 0 {{ fault 1; }}\n", i);
  text += fmt::format(R"(  let at = args[0] * {};
  let number = args[1];
  let mixed = number * 0x9E3779B1;
  atomic_add(buffer({})[at], 1);
  atomic_add(buffer({})[at + 1], mixed ^ (mixed >> 15));
  atomic_add(buffer({})[at + 2], (number ^ (number >> 7)) * 0x85EBCA77 + 1);
}}
)",
                      kProducerWords, kSumsHandle, kSumsHandle, kSumsHandle);
  return text;
}

// ---- producers ----

// One row of the table: how many producers, slots, workers and items.
struct Row {
  Word producers = 1;
  Word slots = 2;
  Word workers = 1;
  std::uint64_t items = 0;
  Clock::duration time = Clock::duration::max();  // after which producers stop
};

// The counts and sums of the items that one producer sent.
struct Sent {
  std::uint64_t units = 0;  // checksums that handlers must find correct
  Word first_sum = 0;
  Word second_sum = 0;
  std::uint64_t slots = 0;
  std::uint64_t full = 0, items = 0, inner = 0, fences = 0;
  std::uint64_t callbacks = 0;
};

class Producer {
 public:
  Producer(Session& session, const Row& row, Word index, std::uint64_t seed)
      : session_(session), row_(row), index_(index), random_(seed) {}

  // Publishes until its share is sent or its time is over; stops at the first failure.
  void run() {
    const std::uint64_t share = row_.items / row_.producers;
    const auto start = Clock::now();
    bool is_late = false;
    while (sent_.slots < share && !is_late && error_.empty()) {
      options_ = {.tenant = TenantId(random_.below(29)),
                  .priority = Priority{random_.below(5)},
                  .timeout = kPatience};
      const Word roll = random_.below(100);
      if (roll < 50) {
        publish_one();
      } else if (roll < 85) {
        publish_items();
      } else if (roll < 93 || row_.slots < 8) {
        publish_packed();
      } else {
        publish_batch();
      }
      if (random_.below(64) != 0) continue;
      look_at_tickets();
      is_late = Clock::now() - start > row_.time;
    }
  }

  // Checks that every ticket the producer kept is done. Called after all items have ended.
  void finish() {
    while (!kept_.empty()) {
      const auto polled = session_.poll(kept_.front());
      if (!polled) return fail("poll", polled.error());
      if (!polled->has_value() || !(*polled)->is_done()) return fail("a ticket is not done");
      kept_.pop_front();
    }
    // Callbacks run on a thread of the session and may come late.
    const auto end = Clock::now() + kPatience;
    while (called_back_.load() != sent_.callbacks) {
      if (Clock::now() > end) return fail("callbacks are missing");
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  const Sent& sent() const { return sent_; }
  const std::string& error() const { return error_; }

 private:
  void fail(std::string_view text) {
    if (error_.empty()) error_ = fmt::format("producer {}: {}", index_, text);
  }
  void fail(std::string_view call, const Error& error) {
    fail(fmt::format("{}: {}", call, error.message));
  }

  // Counts one more checksum that a handler will check, and returns its number.
  Word next_number() {
    const auto number = static_cast<Word>(sent_.units++);
    sent_.first_sum += first_hash(number);
    sent_.second_sum += second_hash(number);
    return number;
  }

  std::array<Word, 12> full_args() {
    std::array<Word, 12> args = {index_, next_number()};
    // Every word differs from the same word of any other item, so that a mix of two items has a
    // wrong checksum.
    for (std::size_t i = 2; i < 11; ++i) args[i] = random_.word();
    args[11] =
        checksum(kFull, options_.tenant.number, Word(options_.priority), std::span(args).first(11));
    ++sent_.full;
    return args;
  }

  std::array<Word, 3> small_args(Word opcode) {
    std::array<Word, 3> args = {index_, next_number()};
    args[2] =
        checksum(opcode, options_.tenant.number, Word(options_.priority), std::span(args).first(2));
    return args;
  }

  void keep(Ticket ticket) {
    if (random_.below(32) != 0) return;
    kept_.push_back(ticket);
    if (random_.below(64) != 0) return;
    ++sent_.callbacks;
    const auto asked = session_.on_complete(ticket, [this](Ticket, Completion end, bool cancelled) {
      if (end.is_done() && !cancelled) called_back_.fetch_add(1);
    });
    if (!asked) fail("on_complete", asked.error());
  }

  void publish_one() {
    const auto args = full_args();
    const auto ticket = session_.publish({.opcode = kFull, .args = args}, options_);
    if (!ticket) return fail("publish", ticket.error());
    ++sent_.slots;
    keep(*ticket);
  }

  void publish_items() {
    items_.clear();
    const Word most = std::min<Word>(session_.capacity(), 24);
    for (Word left = random_.between(1, most); left > 0; --left) {
      const auto args = small_args(kItem);
      items_.push_back({kItem, args[0], args[1], args[2]});
    }
    const auto tickets = session_.publish_items(items_, options_);
    if (!tickets) return fail("publish_items", tickets.error());
    if (tickets->count != items_.size()) return fail("publish_items gave other tickets");
    sent_.items += items_.size();
    sent_.slots += items_.size();
    keep(tickets->last());
  }

  void publish_packed() {
    std::array<std::array<Word, 3>, 3> args = {};
    std::array<protocol::PackedOp, 3> ops = {};
    const Word count = random_.between(1, 3);
    for (Word i = 0; i < count; ++i) {
      args[i] = small_args(kInner);
      ops[i] = {.opcode = kInner, .args = args[i]};
    }
    const auto ticket = session_.publish_packed(std::span(ops).first(count), options_);
    if (!ticket) return fail("publish_packed", ticket.error());
    sent_.inner += count;
    ++sent_.slots;
    keep(*ticket);
  }

  void publish_batch() {
    std::array<std::array<Word, 12>, 6> args = {};
    std::array<protocol::Operation, 6> batch = {};
    const Word count = random_.between(1, std::min<Word>(row_.slots / 2 - 1, 6));
    for (Word i = 0; i < count; ++i) {
      args[i] = full_args();
      batch[i] = {.opcode = kFull, .args = args[i]};
    }
    const auto tickets =
        session_.publish_batch(std::span(batch).first(count), random_.word(), options_);
    if (!tickets) return fail("publish_batch", tickets.error());
    if (tickets->count != count + 1) return fail("publish_batch gave other tickets");
    sent_.slots += count + 1;
    ++sent_.fences;
    keep(tickets->last());
  }

  // Waits for one of the kept tickets, or polls one.
  void look_at_tickets() {
    if (kept_.empty()) return;
    if (random_.below(16) == 0) {
      const auto end = session_.wait(kept_.front(), kPatience);
      if (!end) return fail("wait", end.error());
      if (!end->is_done()) return fail(fmt::format("fault {}", end->fault_code));
      kept_.pop_front();
    } else {
      const auto end = session_.poll(kept_.front());
      if (!end) return fail("poll", end.error());
      if (!end->has_value()) return;
      if (!(*end)->is_done()) return fail(fmt::format("fault {}", (*end)->fault_code));
      kept_.pop_front();
    }
    while (kept_.size() > 100'000) kept_.pop_front();
  }

  Session& session_;
  const Row& row_;
  Word index_;
  Random random_;
  PublishOptions options_ = {};
  Sent sent_ = {};
  std::string error_ = {};
  std::deque<Ticket> kept_ = {};
  std::vector<abi::WorkItem> items_ = {};
  std::atomic<std::uint64_t> called_back_{0};
};

// ---- one row of the table ----

// A control buffer whose counters and tickets are about to wrap.
Bytes wrapping_control() {
  std::vector<Word> words(160 + 8);
  words[2] = 3;
  for (Word i = 3; i < 32; ++i) words[i] = 1;
  for (Word i = 32; i < 64; ++i) words[i] = 1'000'000;
  for (Word i = 64; i < 129; ++i) words[i] = kAlmostWrapped;
  for (Word i = 136; i < 145; ++i) words[i] = kAlmostWrapped;
  words[1] = kAlmostWrapped;
  return bytes_of(words);
}

void expect_counters(Session& session, const Sent& all, Word wire_start) {
  const SessionCounters counters = session.counters();
  const backend::LiveCounters& kernel = counters.kernel;
  EXPECT_EQ(counters.published, all.slots);
  EXPECT_EQ(counters.noted, counters.published);
  EXPECT_EQ(counters.forgotten_faults, 0u);
  EXPECT_EQ(kernel.done, counters.published);
  EXPECT_EQ(kernel.faulted, 0u);
  EXPECT_EQ(kernel.executions[0], 0u);
  EXPECT_EQ(kernel.executions[7], all.fences);
  EXPECT_EQ(kernel.executions[kFull], all.full);
  EXPECT_EQ(kernel.executions[kItem], all.items);
  EXPECT_EQ(kernel.executions[kInner], all.inner);
  std::uint64_t tenants = 0, priorities = 0;
  for (const std::uint64_t claims : kernel.tenant_claims) tenants += claims;
  for (const std::uint64_t claims : kernel.priority_claims) priorities += claims;
  // A fence that a worker puts back is claimed again, and counted once.
  EXPECT_EQ(tenants, counters.published);
  EXPECT_EQ(priorities, counters.published);

  SessionSnapshot look;
  ASSERT_TRUE(session.snapshot(look));
  const telemetry::ControlSnapshot& control = look.telemetry.control;
  EXPECT_EQ(control.done_count, static_cast<Word>(wire_start + counters.published));
  EXPECT_EQ(control.fault_count, wire_start);
  EXPECT_EQ(control.epoch, static_cast<Word>(wire_start + all.fences));
}

void expect_sums(const DataBuffer& sums, const std::vector<std::unique_ptr<Producer>>& producers) {
  for (std::size_t i = 0; i < producers.size(); ++i) {
    std::array<Word, 3> found = {};
    ASSERT_TRUE(sums.read(i * kProducerWords, found));
    const Sent& sent = producers[i]->sent();
    EXPECT_EQ(found[0], static_cast<Word>(sent.units)) << "items lost or doubled, producer " << i;
    EXPECT_EQ(found[1], sent.first_sum) << "other items than were sent, producer " << i;
    EXPECT_EQ(found[2], sent.second_sum) << "other items than were sent, producer " << i;
  }
}

struct Outcome {
  std::uint64_t items = 0;
  double seconds = 0;
};

Outcome run_row(const Row& row, std::uint64_t seed) {
  const auto program = check_text(handler_text("full", kFull, 11) + handler_text("item", kItem, 2) +
                                  handler_text("inner", kInner, 2));
  EXPECT_TRUE(program) << program.error().message;
  auto kernel = Megakernel::create(backend::cpu::make_backend(), {.slot_count = row.slots,
                                                                  .workgroup_size = 1,
                                                                  .handlers = *program,
                                                                  .worker_count = row.workers});
  EXPECT_TRUE(kernel) << kernel.error().message;
  auto sums = kernel->create_buffer(
      {.handle = kSumsHandle, .word_count = std::size_t{row.producers} * kProducerWords});
  EXPECT_TRUE(sums) << sums.error().message;
  // In half of the rows every counter wraps.
  const Bytes control = wrapping_control();
  const bool wraps = row.workers == 2;
  // Tickets pass 2^32 in the rows in which counters wrap, and begin at a lap's edge in the others.
  SessionOptions options{.capacity = row.slots, .first_ticket = 2 * std::uint64_t{row.slots}};
  if (wraps) {
    options.control = control;
    options.first_ticket = (std::uint64_t{1} << 32) - options.first_ticket;
  }
  auto session = kernel->start(options);
  EXPECT_TRUE(session) << session.error().message;

  std::vector<std::unique_ptr<Producer>> producers;
  for (Word i = 0; i < row.producers; ++i) {
    producers.push_back(std::make_unique<Producer>(*session, row, i, seed + i));
  }
  const auto start = Clock::now();
  std::vector<std::thread> threads;
  for (const auto& producer : producers) threads.emplace_back([&producer] { producer->run(); });
  for (std::thread& thread : threads) thread.join();
  const auto waited = session->wait_all(kPatience);
  EXPECT_TRUE(waited) << waited.error().message;
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();

  const StopReport stopped = session->stop(StopMode::drain, kPatience);
  Sent all;
  for (const auto& producer : producers) {
    producer->finish();
    EXPECT_EQ(producer->error(), "");
    const Sent& sent = producer->sent();
    all.slots += sent.slots;
    all.full += sent.full;
    all.items += sent.items;
    all.inner += sent.inner;
    all.fences += sent.fences;
  }
  expect_counters(*session, all, wraps ? kAlmostWrapped : 0);
  expect_sums(*sums, producers);
  EXPECT_EQ(stopped.done, session->counters().published);
  EXPECT_EQ(stopped.faulted + stopped.cancelled, 0u);
  return {.items = all.slots, .seconds = seconds};
}

std::uint64_t items_to_run() {
  return number_from("EVERKERNEL_ITEMS").value_or(kIsSanitized ? 200'000 : 5'000'000);
}

TEST(Stress, no_item_is_lost_doubled_or_torn) {
  const std::uint64_t seed = first_seed();
  const std::uint64_t total = items_to_run();
  const bool is_asked = number_from("EVERKERNEL_ITEMS").value_or(0) != 0;
  std::printf("EVERKERNEL_SEED=%llu\nEVERKERNEL_ITEMS=%llu\n",
              static_cast<unsigned long long>(seed), static_cast<unsigned long long>(total));
  std::printf("producers  slots  workers       items  M items/s\n");
  // In a queue of two places producer and worker take turns at every item. Most of the items go to
  // large queues.
  struct Size {
    Word slots;
    double share;
  };
  for (const Size size : {Size{2, 0.0025}, Size{8, 0.025}, Size{64, 0.25}, Size{1024, 0.7225}}) {
    for (const Word producers : {1u, 2u, 4u}) {
      for (const Word workers : {1u, 2u}) {
        const auto items = static_cast<std::uint64_t>(static_cast<double>(total) * size.share / 6);
        const Row row = {.producers = producers,
                         .slots = size.slots,
                         .workers = workers,
                         .items = items,
                         .time = is_asked ? Clock::duration::max() : kTimeOfRow};
        const Outcome outcome = run_row(row, seed);
        std::printf("%9u  %5u  %7u  %10llu  %9.3f\n", producers, size.slots, workers,
                    static_cast<unsigned long long>(outcome.items),
                    static_cast<double>(outcome.items) / outcome.seconds / 1e6);
        std::fflush(stdout);
        if (HasFailure()) {
          std::printf("replay with EVERKERNEL_SEED=%llu EVERKERNEL_ITEMS=%llu\n",
                      static_cast<unsigned long long>(seed),
                      static_cast<unsigned long long>(total));
          return;
        }
      }
    }
  }
}

// A sleeping publisher is woken when there is room: four long items end, which makes room for a
// batch that needs more than half of the queue.
TEST(Stress, a_publisher_finds_room_as_soon_as_there_is_some) {
  const auto program = check_text(
      "handler busy = 64 { var x = param; for i in 0 .. args[0] { x = rotl(x, 5) ^ i; } "
      "args[1] = x; }");
  ASSERT_TRUE(program) << program.error().message;
  auto kernel = Megakernel::create(
      backend::cpu::make_backend(),
      {.slot_count = 8, .workgroup_size = 1, .handlers = *program, .worker_count = 1});
  ASSERT_TRUE(kernel) << kernel.error().message;
  auto session = kernel->start({.capacity = 8});
  ASSERT_TRUE(session) << session.error().message;
  const std::array<Word, 1> turns = {1'000'000};
  const std::array<protocol::Operation, 4> batch = {};
  int quick_rounds = 0;
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < 4; ++i) {
      const auto ticket = session->publish({.opcode = 64, .args = turns});
      ASSERT_TRUE(ticket) << ticket.error().message;
    }
    const auto tickets =
        session->publish_batch(batch, 1, {.timeout = std::chrono::milliseconds(100)});
    quick_rounds += tickets ? 1 : 0;
    ASSERT_TRUE(session->wait_all(kPatience));
  }
  // The items take milliseconds. A machine that is busy otherwise may be late, but not every time.
  EXPECT_GE(quick_rounds, 5);
}

}  // namespace
}  // namespace everkernel::test
