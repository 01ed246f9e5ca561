// Section 6 of the wire format: every claimable slot runs, in the order of its schedule, and a
// dispatch ends when nothing can run or at its deadline.
#include <algorithm>
#include <array>
#include <atomic>
#include <thread>

#include "conformance/backend_suite.hpp"

namespace everkernel::conformance {
namespace {

struct GeometryRow {
  Word slot_count, workgroup_size;
};

constexpr GeometryRow kGeometries[] = {{1, 1},   {2, 1},    {2, 2},     {7, 1},      {7, 7},
                                       {256, 1}, {256, 32}, {256, 256}, {1000, 8},   {1000, 1000},
                                       {31, 31}, {33, 11},  {4096, 64}, {5003, 5003}};

}  // namespace

// --- every slot -------------------------------------------------------------------------------

TEST_P(Schedules, every_slot_runs_once_whatever_the_geometry) {
  for (const GeometryRow& row : kGeometries) {
    SCOPED_TRACE(testing::Message() << row.slot_count << " slots by " << row.workgroup_size);
    const auto [slot_count, workgroup_size] = row;
    Job before = job({.slot_count = slot_count, .observables = slot_count});
    for (Word slot = 0; slot < slot_count; ++slot) {
      before.put(slot, {1, 2, slot % 29, 2, slot + 1, 160 + slot});
    }
    auto megakernel = must(Megakernel::create(
        backend(),
        options({.slot_count = slot_count, .workgroup_size = workgroup_size, .handlers = {}})));
    const Outcome after = run(megakernel, before);
    EXPECT_EQ(after.counts.done, slot_count);
    EXPECT_EQ(after.counts.end, backend::DrainEnd::complete);
    for (Word slot = 0; slot < slot_count; ++slot) {
      ASSERT_EQ(after.control[160 + slot], slot + 1) << "slot " << slot;
    }
  }
}

TEST_P(Schedules, sparse_slots_are_found) {
  constexpr Word kSlots = 1000;
  constexpr std::array<Word, 6> kUsed{0, 1, 499, 500, 998, 999};
  const Shape shape{.slot_count = kSlots, .workgroup_size = 8, .handlers = {}};
  Job before = job({.slot_count = kSlots});
  for (const Word slot : kUsed) before.put(slot, {1, 2, 0, 2, 1, 160});
  const Outcome after = run(kernel(shape), before);
  EXPECT_EQ(after.counts.done, kUsed.size());
  EXPECT_EQ(after.control[160], kUsed.size());
}

TEST_P(Schedules, one_that_can_run_is_found_among_many_that_cannot) {
  const Shape shape{.slot_count = 256, .workgroup_size = 256, .handlers = {}};
  Job before = job({.slot_count = 256});
  before.control[3 + 5] = 0;
  for (Word slot = 0; slot < 256; ++slot) before.put(slot, {1, 2, 5, 2, 1, 160});
  before.put(200, {1, 2, 6, 2, 1, 160});
  const Outcome after = run(kernel(shape), before);
  EXPECT_EQ(after.counts.done, 1u);
  EXPECT_EQ(after.counts.remaining, 255u);
  EXPECT_EQ(after.control[160], 1u);
}

TEST_P(Schedules, the_end_is_seen_when_nothing_can_make_progress) {
  // A fence behind a disabled tenant's slot, a wait for IO, a tenant without quota, and a slot that
  // another worker has claimed: nothing can run, so the dispatch must return without a deadline.
  Job before = job();
  before.control[3 + 5] = 0;
  before.control[32 + 6] = 0;
  before.put(0, {1, 0, 5, 2});
  before.put(1, {1, 7, 0, 2, 1, 9});
  before.put(2, {1, 7, 0, 2, 2, 9});
  before.put(3, {1, 0xFFFD, 0, 2, 3});
  before.put(4, {1, 0, 6, 2});
  before.put(5, {2, 0, 0, 2});
  const Outcome after = run(before);
  EXPECT_EQ(after.counts.end, backend::DrainEnd::complete);
  EXPECT_EQ(after.counts.remaining, 6u);
  EXPECT_LT(after.duration, std::chrono::seconds(5));
}

// --- priority ---------------------------------------------------------------------------------

TEST_P(Priorities, a_slots_priority_is_the_partition_it_lies_in) {
  Job before = job();
  constexpr std::array<Word, 6> kOffsets{0, 1, 3, 6, 10, 16};
  std::ranges::copy(kOffsets, before.control.begin() + 129);
  for (Word slot = 0; slot < 16; ++slot) before.put(slot, {1, 0, 0, slot % 5});
  const Outcome after = run(before);
  ExpectedControl(before)
      .done(0, 0, 1, 0)
      .done(0, 0, 2, 1)
      .done(0, 0, 3, 2)
      .done(0, 0, 4, 3)
      .done(0, 0, 6, 4)
      .expect(after.control);
  for (Word slot = 0; slot < 16; ++slot)
    EXPECT_EQ(after.slot(slot), (SlotWords{3, 0, 0, slot % 5}));
}

TEST_P(Priorities, offsets_of_zero_mean_the_default_split) {
  const Shape shape{.slot_count = 256, .workgroup_size = 256, .handlers = {}};
  Job before = job({.slot_count = 256});
  for (Word slot = 0; slot < 256; ++slot) before.put(slot, {1, 0, 0, 2});
  const Outcome after = run(kernel(shape), before);
  // 0, 51, 102, 154, 205, 256
  ExpectedControl(before)
      .done(0, 0, 51, 0)
      .done(0, 0, 51, 1)
      .done(0, 0, 52, 2)
      .done(0, 0, 51, 3)
      .done(0, 0, 51, 4)
      .expect(after.control);
}

TEST_P(Priorities, offsets_that_do_not_rise_from_0_to_the_slot_count_are_refused) {
  using Offsets = std::array<Word, 6>;
  for (const Offsets& offsets :
       {Offsets{1, 3, 6, 10, 13, 16}, Offsets{0, 3, 2, 10, 13, 16}, Offsets{0, 3, 6, 10, 13, 15},
        Offsets{0, 3, 6, 10, 13, 17}, Offsets{0, 0, 0, 0, 0, 1}, Offsets{0, 3, 6, 10, 17, 16},
        Offsets{0, 3, 6, 10, 0xFFFFFFFF, 16}, Offsets{0, 0, 0, 0, 0, 0xFFFFFFFF}}) {
    Job before = job();
    std::ranges::copy(offsets, before.control.begin() + 129);
    before.put(7, {1, 0, 0, 2});
    const Error error = refused(kernel(), before);
    EXPECT_TRUE(error.code == Code::corrupt || error.code == Code::invalid_argument);
    EXPECT_NE(error.message.find("control"), std::string::npos) << error.message;
    const auto names_a_word = [&](Word word) {
      return error.message.find(std::to_string(word)) != std::string::npos;
    };
    EXPECT_TRUE(
        std::ranges::any_of(std::array<Word, 6>{129, 130, 131, 132, 133, 134}, names_a_word))
        << error.message;
  }
}

TEST_P(Priorities, empty_partitions_are_allowed) {
  using Offsets = std::array<Word, 6>;
  for (const Offsets& offsets :
       {Offsets{0, 16, 16, 16, 16, 16}, Offsets{0, 0, 0, 0, 0, 16}, Offsets{0, 0, 8, 8, 16, 16}}) {
    Job before = job();
    std::ranges::copy(offsets, before.control.begin() + 129);
    for (Word slot = 0; slot < 16; ++slot) before.put(slot, {1, 2, 0, 2, 1, 160});
    EXPECT_EQ(run(before).control[160], 16u);
  }
}

// --- order, with one worker -------------------------------------------------------------------

namespace {

// The output of the items of a kTrace ring: the slots in the order they ran.
std::vector<Word> order_in(std::vector<Word> words) {
  const Word length = words.at(0);
  words.erase(words.begin());
  words.resize(length);
  return words;
}

// Lengths of the runs of consecutive slots below `end`, then from `end` up, then below again, …
std::vector<Word> runs_in(const std::vector<Word>& order, Word end) {
  std::vector<Word> runs{0};
  for (const Word slot : order) {
    const bool is_below = slot < end;
    if (is_below != (runs.size() % 2 == 1)) runs.push_back(0);
    ++runs.back();
  }
  return runs;
}

// Offsets that leave HIGH, LOW and IDLE empty: `urgent` CRITICAL slots, then NORMAL ones.
void split(Job& job, Word urgent) {
  const Word end = job.slot_count();
  const std::array<Word, 6> offsets{0, urgent, urgent, end, end, end};
  std::ranges::copy(offsets, job.control.begin() + 129);
}

}  // namespace

TEST_P(RingOrders, direct_and_ticket_go_through_the_ring) {
  const DataBuffer output = buffer(2, 17);
  Job before = job();
  std::vector<Word> expected;
  // The first ticket is TICKET_HEAD: 2^32 - 3 lies in slot 13 of 16.
  const Word first = schedule() == Schedule::ticket && counter_start() != 0 ? 13 : 0;
  for (Word slot = 0; slot < 16; ++slot) {
    before.put(slot, {1, kTrace, slot, 2, 0, 2});
    expected.push_back((first + slot) % 16);
  }
  run(before);
  EXPECT_EQ(order_in(words_of(output)), expected);
}

TEST_P(RingOrders, shutdown_keeps_what_comes_behind_it_from_running) {
  Job before = job();
  before.control[141] = before.control[142] = 0;
  before.put(4, {1, 2, 0, 2, 1, 160});
  before.put(5, {1, 0xFFFFFFFF, 0, 2});
  before.put(6, {1, 2, 0, 2, 1, 160});
  const Outcome after = run(before);
  EXPECT_EQ(after.status(4), 3u);
  EXPECT_EQ(after.status(5), 3u);
  EXPECT_EQ(after.slot(6), before.slot(6));
  EXPECT_EQ(after.counts.remaining, 1u);
}

TEST_P(RingOrders, a_tenant_the_operator_stops_runs_nothing_behind_that) {
  Job before = job();
  before.control[141] = before.control[142] = 0;
  before.put(4, {1, 2, 5, 2, 1, 160});
  before.put(5, {1, 1, 0, 2, 0, 3 + 5});
  before.put(6, {1, 2, 5, 2, 1, 160});
  const Outcome after = run(before);
  EXPECT_EQ(after.control[160], 1u);
  EXPECT_EQ(after.slot(6), before.slot(6));
}

TEST_P(PriorityOrders, urgent_partitions_come_first) {
  const DataBuffer output = buffer(2, 17);
  Job before = job();
  for (Word slot = 0; slot < 16; ++slot) before.put(slot, {1, kTrace, 0, 2, 0, 2});
  run(before);
  std::vector<Word> partitions;
  for (const Word slot : order_in(words_of(output))) {
    partitions.push_back(slot < 3 ? 0 : slot < 6 ? 1 : slot < 10 ? 2 : slot < 13 ? 3 : 4);
  }
  EXPECT_EQ(partitions, (std::vector<Word>{0, 0, 0, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 4, 4, 4}));
}

TEST_P(PriorityOrders, after_16_urgent_claims_another_class_has_its_turn) {
  Megakernel& kernel = BackendTest::kernel({.slot_count = 25, .workgroup_size = 25});
  struct Row {
    Word starvation;         // word 135 at entry
    std::vector<Word> runs;  // claims in a row: urgent, others, urgent, …
  };
  const Row rows[] = {{0, {16, 1, 4, 4}},
                      {15, {1, 1, 16, 1, 3, 3}},
                      {16, {0, 1, 16, 1, 4, 3}},
                      {~0u, {0, 1, 16, 1, 4, 3}}};
  for (const Row& row : rows) {
    SCOPED_TRACE(row.starvation);
    const DataBuffer output = buffer(kernel, {.handle = 2, .word_count = 26});
    Job before = job({.slot_count = 25});
    split(before, 20);
    before.control[135] = row.starvation;
    for (Word slot = 0; slot < 25; ++slot) before.put(slot, {1, kTrace, 0, 2, 0, 2});
    const Outcome after = run(kernel, before);
    EXPECT_EQ(runs_in(order_in(words_of(output)), 20), row.runs);
    EXPECT_EQ(after.control[135], 0u) << "the last claim was not urgent";
  }
}

TEST_P(PriorityOrders, urgent_work_goes_on_when_the_other_classes_have_nothing) {
  Megakernel& kernel = BackendTest::kernel({.slot_count = 25, .workgroup_size = 25});
  Job before = job({.slot_count = 25});
  split(before, 20);
  for (Word slot = 0; slot < 20; ++slot) before.put(slot, {1, 2, 0, 0, 1, 160});
  const Outcome after = run(kernel, before);
  EXPECT_EQ(after.counts.done, 20u);
  EXPECT_EQ(after.control[135], 20u);
}

TEST_P(PriorityOrders, urgent_work_goes_on_when_the_other_classes_are_disabled) {
  Megakernel& kernel = BackendTest::kernel({.slot_count = 25, .workgroup_size = 25});
  Job before = job({.slot_count = 25});
  split(before, 20);
  before.control[3 + 5] = 0;
  for (Word slot = 0; slot < 25; ++slot) before.put(slot, {1, 2, slot < 20 ? 0u : 5u, 0, 1, 160});
  const Outcome after = run(kernel, before);
  EXPECT_EQ(after.counts.done, 20u);
  EXPECT_EQ(after.counts.remaining, 5u);
}

// --- tickets ----------------------------------------------------------------------------------

TEST_P(TicketOrders, tickets_are_taken_from_head_to_tail) {
  struct Row {
    Word head, tail;
    std::vector<Word> order;
  };
  const Row rows[] = {{5, 9, {5, 6, 7, 8}},
                      {14, 18, {14, 15, 0, 1}},
                      {0, 3, {0, 1, 2}},
                      {16, 18, {0, 1}},
                      {0xFFFFFFFE, 2, {14, 15, 0, 1}},
                      {0xFFFFFFFD, 0, {13, 14, 15}},
                      {7, 7, {}}};
  for (const Row& row : rows) {
    SCOPED_TRACE(testing::Message() << row.head << " to " << row.tail);
    const DataBuffer output = buffer(2, 17);
    Job before = job();
    before.control[141] = row.head;
    before.control[142] = row.tail;
    for (Word slot = 0; slot < 16; ++slot) before.put(slot, {1, kTrace, 0, 2, 0, 2});
    const Outcome after = run(before);
    EXPECT_EQ(order_in(words_of(output)), row.order);
    EXPECT_EQ(after.counts.remaining, 16 - row.order.size());
    EXPECT_EQ(after.control[141], row.tail);
    EXPECT_EQ(after.control[142], row.tail);
  }
}

TEST_P(TicketOrders, tickets_of_slots_that_are_not_claimable_are_passed_over) {
  const DataBuffer output = buffer(2, 17);
  Job before = job();
  before.control[141] = before.control[142] = 0;
  for (Word slot = 0; slot < 16; ++slot) before.put(slot, {1, kTrace, 0, 2, 0, 2});
  before.ring[2 * 16] = 0;
  before.ring[3 * 16] = 2;
  before.ring[4 * 16] = 3;
  before.ring[5 * 16] = 7;
  before.ring[6 * 16] = 99;
  run(before);
  EXPECT_EQ(order_in(words_of(output)), (std::vector<Word>{0, 1, 7, 8, 9, 10, 11, 12, 13, 14, 15}));
}

TEST_P(TicketOrders, more_tickets_than_slots_are_refused) {
  for (const WordChange& tickets : {WordChange{0, 17}, WordChange{5, 4}, WordChange{1, 0}}) {
    Job before = job();
    before.control[141] = tickets.index;
    before.control[142] = tickets.word;
    before.put(7, {1, 0, 0, 2});
    const Error error = refused(kernel(), before);
    EXPECT_TRUE(error.code == Code::corrupt || error.code == Code::invalid_argument);
    EXPECT_NE(error.message.find("142"), std::string::npos) << error.message;
  }
}

TEST_P(TicketOrders, a_second_dispatch_of_the_same_bytes_goes_on_with_what_was_left) {
  Job before = job();
  before.control[3 + 5] = 0;
  before.put(2, {1, 2, 0, 2, 1, 160});
  before.put(7, {1, 0xFFFD, 0, 2, 3});
  before.put(8, {1, 2, 5, 2, 1, 160});
  before.put(9, {1, 7, 0, 2, 2, 77});
  Job later = run(before);
  EXPECT_EQ(later.count(3), 1u);
  ASSERT_EQ(later.status(7), 4u);
  later.io_queue[later.slot(7)[15] * 8 + 6] = 0x10;
  later.control[3 + 5] = 1;
  const Outcome after = run(later);
  EXPECT_EQ(after.counts.done, 3u);
  EXPECT_EQ(after.counts.remaining, 0u);
  EXPECT_EQ(after.control[141], after.control[142]);
}

// --- deadlines --------------------------------------------------------------------------------

namespace {

// On a machine that is busy otherwise a dispatch may return late, but not by seconds.
constexpr auto kLatest = std::chrono::seconds(3);
constexpr std::uint64_t kEndlessFuel = std::uint64_t{1} << 60;

}  // namespace

TEST_P(Deadlines, an_item_that_yields_for_ever_is_left_at_the_deadline) {
  Job before = job();
  before.put(0, {1, kYieldForever, 1, 2});
  before.put(7, {1, 2, 1, 2, 1, 160});
  const Outcome after = run(kernel(), before, short_timeout());
  EXPECT_EQ(after.slot(0), (SlotWords{5, kYieldForever, 1, 2}));
  EXPECT_EQ(after.status(7), 3u);
  EXPECT_EQ(after.counts.end, backend::DrainEnd::deadline);
  EXPECT_EQ(after.counts.remaining, 1u);
  EXPECT_GE(after.duration, short_timeout());
  EXPECT_LT(after.duration, kLatest);
}

TEST_P(Deadlines, an_item_that_loops_for_ever_is_a_fault_at_the_deadline) {
  Job before = job();
  before.put(0, {1, kSpin, 1, 2});
  for (Word slot = 1; slot < 16; ++slot) before.put(slot, {1, 2, 1, 2, 1, 160});
  before.put(3, {3, 9, 9, 2});
  before.put(4, {7, 9, 9, 0x00010002});
  Megakernel& endless = kernel({.fuel_per_item = kEndlessFuel});
  // Waits for the native code, which may take longer than the deadline below, and runs nothing.
  Job disabled = before;
  for (Word word = 3; word < 32; ++word) disabled.control[word] = 0;
  EXPECT_EQ(run(endless, disabled, kPatience).counts.done, 0u);
  const Outcome after = run(endless, before, short_timeout());
  EXPECT_EQ(after.slot(0), (SlotWords{7, kSpin, 1, 0x000A0002}));
  EXPECT_EQ(after.counts.end, backend::DrainEnd::deadline);
  EXPECT_EQ(after.counts.faulted, 1u);
  EXPECT_EQ(after.count(1) + after.counts.done, 13u) << "the others ran or are as they were";
  EXPECT_GE(after.duration, short_timeout());
  EXPECT_LT(after.duration, kLatest);
}

TEST_P(Deadlines, a_stop_ends_an_endless_loop_long_before_the_deadline) {
  Job before = job();
  before.put(0, {1, kSpin, 1, 2});
  before.put(7, {1, kYieldForever, 1, 2});
  Megakernel& endless = kernel({.fuel_per_item = kEndlessFuel});
  EXPECT_EQ(run(endless, job(), kPatience).counts.done, 0u);  // waits for the native code
  std::atomic<bool> stop{false};
  const auto begin = std::chrono::steady_clock::now();
  const std::jthread stopper([&] {
    std::this_thread::sleep_for(short_timeout());
    stop.store(true, std::memory_order_relaxed);
  });
  const Outcome after = run(endless, before, kPatience, &stop);
  const auto took = std::chrono::steady_clock::now() - begin;
  EXPECT_EQ(after.counts.end, backend::DrainEnd::stopped);
  EXPECT_EQ(after.slot(0), (SlotWords{7, kSpin, 1, 0x000A0002}));
  EXPECT_EQ(after.counts.remaining, 1u);
  EXPECT_GE(took, short_timeout());
  EXPECT_LT(after.duration, kLatest);
}

TEST_P(Deadlines, a_stop_that_comes_too_late_changes_nothing) {
  Job before = job();
  before.put(0, {1, 2, 1, 2, 1, 160});
  const std::atomic<bool> stop{false};
  const Outcome after = run(kernel(), before, kPatience, &stop);
  EXPECT_EQ(after.counts.end, backend::DrainEnd::complete);
  EXPECT_EQ(after.counts.done, 1u);
}

TEST_P(Deadlines, a_ring_of_endless_loops_comes_back) {
  Job before = job();
  for (Word slot = 0; slot < 16; ++slot) before.put(slot, {1, kSpin, 1, 2});
  const Outcome after = run(kernel({.fuel_per_item = kEndlessFuel}), before, short_timeout());
  EXPECT_EQ(after.counts.end, backend::DrainEnd::deadline);
  EXPECT_GE(after.counts.faulted, 1u);
  EXPECT_LE(after.counts.faulted, worker_count());
  EXPECT_EQ(after.count(1) + after.count(7), 16u);
  EXPECT_LT(after.duration, kLatest);
}

// On a GPU the word that says whether a dispatch has ended also counts every pass of a crew. This
// test is too short for that count to wrap.
TEST_P(Deadlines, many_items_that_yield_for_ever_are_left_at_the_deadline) {
  if (worker_count() == 1) GTEST_SKIP() << "the same as with more: all workers take part";
  constexpr Word kSlots = 4096;
  MegakernelOptions all = options({.slot_count = kSlots});
  all.worker_count = 0;
  Megakernel kernel = must(Megakernel::create(backend(), all));
  Job endless = job({.slot_count = kSlots});
  for (Word slot = 0; slot < kSlots; ++slot) endless.put(slot, {1, kYieldForever, 1, 2});
  const Outcome yielding = run(kernel, endless, std::chrono::seconds(1));
  EXPECT_EQ(yielding.counts.end, backend::DrainEnd::deadline);
  EXPECT_EQ(yielding.counts.remaining, kSlots);
  EXPECT_EQ(yielding.counts.done, 0u);
  Job before = job({.slot_count = kSlots});
  for (Word slot = 0; slot < kSlots; ++slot) before.put(slot, {1, 2, 1, 2, 1, 160});
  EXPECT_EQ(run(kernel, before).counts.done, kSlots);
}

// A single lane of a GPU would take six seconds for this copy.
TEST_P(Deadlines, a_copy_ends_soon_after_the_deadline) {
  if (GetParam().backend->interprets) GTEST_SKIP() << "a processor copies it before any deadline";
  constexpr Word kWords = 32'000'000;
  Job before = job({.observables = kWords + 1});
  before.put(7, {1, 0x80000001, 0, 2, 0x00050301, 161, 160, kWords});
  const Outcome after = run(kernel(), before, short_timeout());
  EXPECT_LT(after.duration, kLatest);
  EXPECT_EQ(after.status(7), 7u);
  EXPECT_EQ(after.fault_code(7), 10u);
  EXPECT_EQ(after.counts.end, backend::DrainEnd::deadline);
}

TEST_P(Deadlines, a_kernel_runs_again_after_a_deadline) {
  Megakernel& kernel = BackendTest::kernel({.fuel_per_item = kEndlessFuel});
  Job endless = job();
  endless.put(0, {1, kSpin, 1, 2});
  run(kernel, endless, short_timeout());
  Job before = job();
  for (Word slot = 0; slot < 16; ++slot) before.put(slot, {1, kLoop, 1, 2, 0, 0, 10});
  const Outcome after = run(kernel, before);
  EXPECT_EQ(after.counts.done, 16u);
  EXPECT_EQ(after.counts.end, backend::DrainEnd::complete);
}

TEST_P(Deadlines, an_endless_item_holds_up_no_other_worker) {
  if (worker_count() == 1) GTEST_SKIP() << "one worker has nobody beside it";
  Job before = job();
  for (Word slot = 0; slot < 16; ++slot) before.put(slot, {1, 2, 1, 2, 1, 160});
  before.put(0, {1, kSpin, 1, 2});
  const Outcome after = run(kernel({.fuel_per_item = kEndlessFuel}), before, 4 * short_timeout());
  EXPECT_EQ(after.slot(0), (SlotWords{7, kSpin, 1, 0x000A0002}));
  EXPECT_EQ(after.counts.done, 15u);
}

TEST_P(Deadlines, a_timeout_that_is_not_positive_is_refused) {
  for (const auto timeout : {std::chrono::nanoseconds(0), std::chrono::nanoseconds(-5)}) {
    const DataBuffer output = buffer(2, 16);
    Job before = job();
    for (Word slot = 0; slot < 16; ++slot) before.put(slot, {1, kMark, 1, 2, 0, 2});
    const Submission submission = before.buffers();
    EXPECT_EQ(test::code_of(kernel().dispatch(
                  {.submissions = std::span(&submission, 1), .timeout = timeout})),
              Code::invalid_argument);
    EXPECT_EQ(words_of(output), std::vector<Word>(16));
  }
}

TEST_P(Deadlines, a_dispatch_has_a_minute_unless_it_says_otherwise) {
  EXPECT_EQ(DispatchOptions{}.timeout, std::chrono::seconds(60));
}

}  // namespace everkernel::conformance
