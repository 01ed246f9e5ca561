// Live sessions: replacing the handlers while items run.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <thread>

#include "conformance/session_helpers.hpp"
#include "everkernel/ir/parser.hpp"

namespace everkernel::conformance {
namespace {

// Handler 64 stores which program ran the item: output[param] = number. Handler 65 is only in
// program 1, handler 66 only in the others.
ir::VerifiedProgram program(Word number, std::string_view more = {}) {
  const std::string text = fmt::format(
      "handler who = 64 {{ atomic_add(output[param], {}); }}\n"
      "handler wait = {} {{ if args[3] == 0 {{ return; }} args[3] = args[3] - 1; yield; }}\n{}",
      number, number == 1 ? 65 : 66, more);
  return must(ir::verify(must(ir::parse(text))));
}

// For a compiler on a busy machine.
constexpr std::chrono::nanoseconds kCompilation = 10 * kPatience;

constexpr Word kWho = 64, kWait = 65, kWaitLater = 66;

Operation who(std::array<Word, 3>& args, Word place) {
  args = {0, 2, place};
  return {.opcode = kWho, .args = args};
}

}  // namespace

TEST_P(SessionHandlers, items_run_by_the_handlers_of_the_time_they_were_published) {
  Megakernel megakernel = make(program(1));
  const DataBuffer output = buffer(megakernel, {.handle = 2, .word_count = 64});
  Session session = start(megakernel);
  std::array<Word, 3> args{};
  for (Word number = 1; number <= 3; ++number) {
    if (number != 1) must(session.replace_handlers(program(number), kCompilation));
    for (Word i = 0; i < 8; ++i) {
      must(session.publish(who(args, 8 * number + i), {.timeout = kPatience}));
    }
  }
  must(session.wait_all(kPatience));
  const auto words = words_of(output);
  for (Word i = 8; i < 32; ++i) EXPECT_EQ(words[i], i / 8) << i;
  const Ticket gone = must(session.publish({.opcode = kWait}));
  EXPECT_EQ(must(session.wait(gone, kPatience)).fault_code, 1u);  // unknown_opcode
  SessionSnapshot snapshot;
  must(session.snapshot(snapshot));
  const auto row = std::ranges::find(snapshot.executions, kWho, &backend::OpcodeTotal::opcode);
  ASSERT_NE(row, snapshot.executions.end());
  EXPECT_EQ(row->done, 24u);
  EXPECT_EQ(session.counters().kernel.done, 24u);
}

TEST_P(SessionHandlers, a_program_may_need_other_crews) {
  Megakernel megakernel = make(program(1));
  const DataBuffer output = buffer(megakernel, {.handle = 2, .word_count = 64});
  Session session = start(megakernel);
  std::array<Word, 3> args{};
  for (Word lap = 0; lap < 2; ++lap) {
    const auto grouped = program(2,
                                 "handler all = 70 scope group { each i in 0 .. 16 { "
                                 "output[32 + i] = param; } }");
    must(session.replace_handlers(grouped, kCompilation));
    const std::array<Word, 3> fill{0, 2, 7 + lap};
    const Ticket filled = must(session.publish({.opcode = 70, .args = fill}));
    EXPECT_TRUE(must(session.wait(filled, kPatience)).is_done());
    must(session.publish(who(args, lap)));
    must(session.replace_handlers(program(3), kCompilation));
    must(session.publish(who(args, lap)));
    must(session.wait_all(kPatience));
    const auto words = words_of(output);
    EXPECT_EQ(words[lap], 5u);
    for (Word i = 32; i < 48; ++i) EXPECT_EQ(words[i], 7 + lap) << i;
  }
}

TEST_P(SessionHandlers, says_what_holds_it_up_and_leaves_everything_as_it_was) {
  Megakernel megakernel = make(program(1));
  const DataBuffer output = buffer(megakernel, {.handle = 2, .word_count = 64});
  Session session = start(megakernel);
  must(session.replace_handlers(program(2), kCompilation));  // it is compiled once
  must(session.replace_handlers(program(1), kCompilation));
  std::array<Word, 3> args{};
  const std::array<Word, 4> for_long{0, 0, 0, ~Word{0}};
  const std::array<Word, 2> miss{77, 0};
  const auto expect_refused = [&](std::string_view why) {
    const auto replaced = session.replace_handlers(program(2), short_timeout());
    EXPECT_EQ(test::code_of(replaced), Code::timeout) << why;
    EXPECT_NE(test::message_of(replaced).find(why), std::string::npos)
        << test::message_of(replaced);
    const Ticket ticket = must(session.publish(who(args, 0)));
    EXPECT_TRUE(must(session.wait(ticket, kPatience)).is_done());
  };
  must(session.set_tenant_enabled(TenantId(5), false));
  const Ticket held = must(session.publish(who(args, 1), {.tenant = TenantId(5)}));
  expect_refused("tenant 5, has not ended: its tenant is disabled");
  must(session.set_tenant_enabled(TenantId(5), true));
  EXPECT_TRUE(must(session.wait(held, kPatience)).is_done());
  must(session.set_tenant_quota(TenantId(6), 0));
  const Ticket none = must(session.publish(who(args, 1), {.tenant = TenantId(6)}));
  expect_refused("a quota of 0");
  must(session.set_tenant_quota(TenantId(6), 2));
  EXPECT_TRUE(must(session.wait(none, kPatience)).is_done());
  Queue yields = must(session.open_queue(
      {.tenant = TenantId(7), .capacity = 16, .entries = abi::EntryFormat::full}));
  must(yields.publish({.opcode = kWait, .args = for_long}));
  expect_refused("tenant 7, has not ended: it");
  yields.close(StopMode::cancel);
  Queue waits = must(session.open_queue({.tenant = TenantId(8), .capacity = 16}));
  must(waits.publish({.opcode = 0xFFFD, .args = miss}));
  expect_refused("tenant 8, has not ended: it");
  waits.close(StopMode::cancel);
  EXPECT_EQ(words_of(output)[0], 4u);
  must(session.replace_handlers(program(2), kCompilation));
  must(session.publish(who(args, 0)));
  must(session.wait_all(kPatience));
  EXPECT_EQ(words_of(output)[0], 6u);
}

TEST_P(SessionHandlers, items_that_wait_end_before_it) {
  Megakernel megakernel = make(program(1));
  Session session = start(megakernel);
  const std::array<Word, 4> steps{0, 0, 0, 50};
  std::vector<Ticket> tickets;
  for (int i = 0; i < 5; ++i) {
    tickets.push_back(must(session.publish({.opcode = kWait, .args = steps})));
  }
  must(session.replace_handlers(program(2), kCompilation));
  for (const Ticket ticket : tickets) {
    const auto seen = must(session.poll(ticket));
    ASSERT_TRUE(seen);
    EXPECT_TRUE(seen->is_done());
  }
  const Ticket later = must(session.publish({.opcode = kWaitLater, .args = steps}));
  EXPECT_TRUE(must(session.wait(later, kPatience)).is_done());
}

TEST_P(SessionHandlers, refuses_what_cannot_be) {
  Megakernel megakernel = make(program(1));
  Session session = start(megakernel);
  std::optional<Code> inside;
  must(session.parked(
      [&] { inside = test::code_of(session.replace_handlers(program(2), kCompilation)); },
      kPatience));
  EXPECT_EQ(inside, Code::invalid_argument);
  session.stop(StopMode::cancel);
  EXPECT_EQ(test::code_of(session.replace_handlers(program(2), kCompilation)),
            Code::invalid_argument);
}

namespace {

// How often handlers are replaced in the next test; EVERKERNEL_SWAPS for a longer one.
Word swap_count() {
  const char* const text = std::getenv("EVERKERNEL_SWAPS");
  return text == nullptr ? 4 : static_cast<Word>(std::strtoul(text, nullptr, 10));
}

// Programs come again and again, so that few are compiled.
Word program_after(Word swaps) {
  return 1 + swaps % std::min<Word>(swap_count() + 1, 5);
}

}  // namespace

// Each item says which program ran it. Producers note how many replacements were over before they
// published an item, and how many had begun when it was published.
TEST_P(SessionHandlers, under_floods_no_item_is_lost_doubled_or_run_by_the_wrong_handlers) {
  const Word swaps = swap_count();
  const Word each = 150 * std::max<Word>(swaps, 4);
  Megakernel megakernel = make(program(program_after(0)));
  const DataBuffer output = buffer(megakernel, {.handle = 2, .word_count = 3 * each});
  Session session = start(megakernel);
  std::atomic<Word> begun{0}, over{0}, failures{0};
  std::vector<Word> least(3 * each), most(3 * each);
  const auto produce = [&](Word producer) {
    const bool is_flood = producer == 0;
    Queue queue =
        must(session.open_queue({.tenant = TenantId(producer), .capacity = is_flood ? 512u : 64u}));
    std::vector<abi::WorkItem> items;
    for (Word next = 0; next < each;) {
      items.clear();
      for (; items.size() < (is_flood ? 200 : 5) && next < each; ++next) {
        items.push_back({kWho, 0, 2, producer * each + next});
      }
      const Word before = over;
      failures += Word{!queue.publish_items(items, kPatience)};
      const Word behind = begun;
      for (const abi::WorkItem& item : items) {
        least[item.param] = before;
        most[item.param] = behind;
      }
      while (next / 150 > over + 1) std::this_thread::yield();  // some items for each swap
    }
    failures += Word{!queue.wait_all(kPatience)};
    failures += Word{queue.close(StopMode::drain, kPatience) != 0};
  };
  {
    std::vector<std::jthread> producers;
    for (Word i = 0; i < 3; ++i) producers.emplace_back(produce, i);
    for (Word swap = 1; swap <= swaps; ++swap) {
      begun = swap;
      must(session.replace_handlers(program(program_after(swap)), kCompilation));
      over = swap;
    }
    over = ~Word{0} / 2;
  }
  EXPECT_EQ(failures, 0u);
  const auto words = words_of(output);
  for (Word i = 0; i < 3 * each; ++i) {
    bool is_right = false;
    for (Word swap = std::min(least[i], swaps); swap <= most[i]; ++swap) {
      is_right |= words[i] == program_after(swap);
    }
    ASSERT_TRUE(is_right) << "item " << i << " says " << words[i] << ", published between "
                          << least[i] << " and " << most[i];
  }
  EXPECT_EQ(session.stop(StopMode::drain, kPatience).done, 3 * each);
}

}  // namespace everkernel::conformance
