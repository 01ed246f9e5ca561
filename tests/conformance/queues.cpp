// Section 8 of the wire format: debug records, and IO requests that the caller serves between two
// dispatches.
#include <algorithm>

#include "conformance/backend_suite.hpp"

namespace everkernel::conformance {
namespace {

constexpr Word kLoadMiss = 0xFFFD, kPrintf = 0xFFFE;
constexpr Word kWaitIo = 4, kRequeue = 6;
constexpr Word kIoPublished = 1, kIoDone = 3, kIoOk = 0x10, kIoError = 0x11;

// The records of a log in a fixed order, because workers append in any order.
std::vector<std::vector<Word>> records_in(const std::vector<Word>& log) {
  std::vector<std::vector<Word>> records;
  for (Word word = 1; word < 1 + log.at(0); word += 4) {
    records.push_back({log.at(word), log.at(word + 1), log.at(word + 2), log.at(word + 3)});
  }
  std::ranges::sort(records);
  return records;
}

}  // namespace

// --- debug log --------------------------------------------------------------------------------

TEST_P(DebugLogs, printf_appends_a_record_with_the_slots_word_offset) {
  Job before = job();
  before.put(6, {1, kPrintf, 0, 2, 100, 1, 2});
  before.put(8, {1, kPrintf, 28, 2, 200, 3, 4});
  before.put(9, {1, kSay, 5, 2, 0, 0, 0, 300, 5, 6});
  const Outcome after = run(before);
  EXPECT_EQ(after.debug_log.at(0), 12u);
  EXPECT_EQ(records_in(after.debug_log),
            (std::vector<std::vector<Word>>{
                {100, 1, 2, 6 * 16}, {200, 3, 4, 8 * 16}, {300, 5, 6, 9 * 16}}));
  EXPECT_EQ(std::count(after.debug_log.begin() + 13, after.debug_log.end(), 0u), 20);
  ExpectedControl(before).done(0, kPrintf).done(28, kPrintf).done(5, kSay).expect(after.control);
}

TEST_P(DebugLogs, records_go_behind_those_that_are_there) {
  Job before = job();
  const std::vector<Word> there{8, 1, 1, 1, 1, 2, 2, 2, 2};
  std::ranges::copy(there, before.debug_log.begin());
  before.put(7, {1, kPrintf, 0, 2, 100, 1, 2});
  const Outcome after = run(before);
  EXPECT_EQ(after.debug_log.at(0), 12u);
  EXPECT_TRUE(std::equal(there.begin() + 1, there.end(), after.debug_log.begin() + 1));
  EXPECT_EQ((std::vector<Word>(after.debug_log.begin() + 9, after.debug_log.begin() + 13)),
            (std::vector<Word>{100, 1, 2, 7 * 16}));
}

TEST_P(DebugLogs, records_that_find_no_room_are_counted) {
  struct Row {
    Word words, room;  // of the log, cursor included; records it has room for
  };
  for (const Row& row : {Row{1, 0}, Row{4, 0}, Row{5, 1}, Row{7, 1}, Row{9, 2}, Row{65, 16}}) {
    SCOPED_TRACE(row.words);
    Job before = job();
    before.debug_log.assign(row.words, 0xEE);
    before.debug_log[0] = 0;
    for (Word slot = 0; slot < 16; ++slot) before.put(slot, {1, kPrintf, 0, 2, slot, 1, 2});
    const Outcome after = run(before);
    EXPECT_EQ(after.counts.done, 16u);
    EXPECT_EQ(after.debug_log.at(0), row.room * 4) << "the cursor stays inside";
    EXPECT_EQ(after.control[144] - before.control[144], 16 - row.room);
    for (const auto& record : records_in(after.debug_log)) {
      EXPECT_EQ(record, (std::vector<Word>{record[0], 1, 2, record[0] * 16}));
    }
    EXPECT_EQ(std::count(after.debug_log.begin(), after.debug_log.end(), 0xEEu),
              row.words - 1 - row.room * 4);
  }
}

TEST_P(DebugLogs, a_full_log_stays_as_it_is) {
  Job before = job({.debug_records = 2});
  before.debug_log = {8, 1, 2, 3, 4, 5, 6, 7, 8};
  before.put(7, {1, kSay, 0, 2, 0, 0, 0, 300, 5, 6});
  const Outcome after = run(before);
  EXPECT_EQ(after.debug_log, before.debug_log);
  ExpectedControl(before).done(0, kSay).add(144, 1).expect(after.control);
}

TEST_P(DebugLogs, without_a_log_every_record_is_dropped_and_counted) {
  Job before = job();
  before.debug_log.clear();
  before.put(7, {1, kPrintf, 0, 2, 100, 1, 2});
  before.put(8, {1, kSay, 0, 2, 0, 0, 0, 300, 5, 6});
  ExpectedControl(before).done(0, kPrintf).done(0, kSay).add(144, 2).expect(run(before).control);
}

TEST_P(DebugLogs, a_handler_that_yields_prints_in_every_run) {
  constexpr std::string_view kText =
      "handler h = 64 { printf(args[3], slot, 0); if args[3] == 0 { return; }"
      " args[3] = args[3] - 1; yield; }";
  Job before = job();
  before.put(7, {1, 64, 0, 2, 0, 0, 0, 2});
  const Outcome after = run(kernel({.handlers = kText}), before);
  EXPECT_EQ(records_in(after.debug_log),
            (std::vector<std::vector<Word>>{{0, 7, 0, 112}, {1, 7, 0, 112}, {2, 7, 0, 112}}));
}

// --- LOAD_MISS --------------------------------------------------------------------------------

TEST_P(IoRequests, a_load_miss_publishes_a_read_and_waits) {
  Job before = job();
  before.put(7, {1, kLoadMiss, 3, 2, 77, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 99});
  const Outcome after = run(before);
  const Word io_slot = after.slot(7)[15];
  ASSERT_LT(io_slot, 4u);
  EXPECT_EQ(after.slot(7),
            (SlotWords{kWaitIo, kLoadMiss, 3, 2, 77, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, io_slot}));
  // READ, source, destination, offset low and high, byte count, status, tag
  EXPECT_EQ(after.io_slot(io_slot), (std::vector<Word>{1, 77, 77, 0, 0, 0, kIoPublished, 77}));
  EXPECT_EQ(after.counts.end, backend::DrainEnd::complete);
  EXPECT_EQ(after.counts.remaining, 1u);
  ExpectedControl(before).claims(3, 2).expect(after.control);
}

TEST_P(IoRequests, a_prefetch_is_done_at_once) {
  Job before = job();
  before.put(7, {1, kLoadMiss, 3, 2, 77, 1});
  const Outcome after = run(before);
  EXPECT_EQ(after.status(7), 3u);
  Word published = 0;
  for (Word io_slot = 0; io_slot < 4; ++io_slot) {
    published +=
        Word{after.io_slot(io_slot) == std::vector<Word>{1, 77, 77, 0, 0, 0, kIoPublished, 77}};
  }
  EXPECT_EQ(published, 1u);
  ExpectedControl(before).done(3, kLoadMiss).expect(after.control);
}

TEST_P(IoRequests, every_miss_has_an_io_slot_of_its_own) {
  Job before = job({.io_slots = 64});
  for (Word slot = 0; slot < 16; ++slot) before.put(slot, {1, kLoadMiss, 0, 2, 100 + slot});
  const Outcome after = run(before);
  EXPECT_EQ(after.count(kWaitIo), 16u);
  for (Word slot = 0; slot < 16; ++slot) {
    ASSERT_LT(after.slot(slot)[15], 64u);
    EXPECT_EQ(after.io_slot(after.slot(slot)[15])[7], 100 + slot);
  }
}

TEST_P(IoRequests, a_miss_that_finds_no_io_slot_is_requeued_and_the_dispatch_ends) {
  Job before = job({.io_slots = 1});
  for (Word slot = 6; slot < 9; ++slot) before.put(slot, {1, kLoadMiss, 0, 2, 100 + slot});
  const Outcome after = run(before);
  EXPECT_EQ(after.count(kWaitIo), 1u);
  EXPECT_EQ(after.count(kRequeue), 2u);
  EXPECT_EQ(after.counts.end, backend::DrainEnd::complete);
  EXPECT_EQ(after.counts.remaining, 3u);
  EXPECT_LT(after.duration, std::chrono::seconds(5));
}

TEST_P(IoRequests, io_slots_of_others_are_left_alone) {
  Job before = job({.io_slots = 3});
  before.io_queue = {2, 1, 2, 3, 4, 5, kIoPublished, 6, 1, 1, 2, 3, 4, 5, 2, 6,
                     1, 1, 2, 3, 4, 5, kIoOk,        6};
  before.put(7, {1, kLoadMiss, 0, 2, 77});
  const Outcome after = run(before);
  EXPECT_EQ(after.slot(7), (SlotWords{kRequeue, kLoadMiss, 0, 2, 77}));
  EXPECT_EQ(after.io_queue, before.io_queue);
}

TEST_P(IoRequests, an_answer_ends_the_miss_in_the_next_dispatch_and_frees_the_io_slot) {
  struct Row {
    Word answer, status, fault;
  };
  for (const Row& row : {Row{kIoOk, 3, 0}, Row{kIoDone, 3, 0}, Row{kIoError, 7, 8}}) {
    SCOPED_TRACE(row.answer);
    Job before = job();
    before.put(7, {1, kLoadMiss, 3, 2, 77});
    Job served = run(before);
    const Word io_slot = served.slot(7)[15];
    ASSERT_LT(io_slot, 4u);
    served.io_queue[io_slot * 8 + 6] = row.answer;
    served.io_queue[io_slot * 8 + 7] = 5;  // the errno of an ERROR
    const Outcome after = run(served);
    EXPECT_EQ(after.status(7), row.status);
    EXPECT_EQ(after.slot(7)[3], row.fault << 16 | 2);
    EXPECT_EQ(after.io_slot(io_slot)[6], 0u);
    EXPECT_EQ(after.counts.remaining, 0u);
  }
}

TEST_P(IoRequests, an_io_slot_that_is_freed_serves_the_next_miss) {
  Job before = job({.io_slots = 1});
  for (Word slot = 6; slot < 9; ++slot) before.put(slot, {1, kLoadMiss, 0, 2, 100 + slot});
  Job state = before;
  for (const Word done : {0u, 1u, 2u}) {
    const Outcome after = run(state);
    EXPECT_EQ(after.count(3), done);
    EXPECT_EQ(after.count(kWaitIo), 1u);
    EXPECT_EQ(after.count(kRequeue), 2 - done);
    EXPECT_EQ(after.io_slot(0)[6], kIoPublished);
    state = after;
    state.io_queue[6] = kIoOk;
  }
  EXPECT_EQ(run(state).count(3), 3u);
}

TEST_P(IoRequests, a_fence_behind_a_miss_completes_when_it_was_served) {
  Job before = job();
  before.put(6, {1, kLoadMiss, 3, 2, 77});
  before.put(7, {1, 7, 0, 2, 1, 9});
  Job served = run(before);
  EXPECT_EQ(served.status(7), 5u);
  served.io_queue[served.slot(6)[15] * 8 + 6] = kIoOk;
  const Outcome after = run(served);
  EXPECT_EQ(after.counts.done, 2u);
  EXPECT_EQ(after.control[160], 9u);
}

TEST_P(IoRequests, an_answer_for_a_disabled_tenant_waits_with_it) {
  Job before = job();
  before.put(7, {1, kReadAndSum, 3, 2, 1, 2, 0, 55, 0, 4});
  Job served = run(before);
  served.io_queue[served.slot(7)[15] * 8 + 6] = kIoOk;
  served.control[3 + 3] = 0;
  const Outcome after = run(served);
  EXPECT_TRUE(after.status(7) == kWaitIo || after.status(7) == kRequeue);
  EXPECT_EQ(after.control[64 + 3], served.control[64 + 3]);
}

// --- await ------------------------------------------------------------------------------------

TEST_P(IoRequests, an_await_read_is_served_between_two_dispatches) {
  DataBuffer input = buffer(1, 3);
  const DataBuffer output = buffer(2, 1);
  Job before = job();
  // file 55, block 0x100001 = byte 0x100001000, 12 bytes
  before.put(7, {1, kReadAndSum, 3, 2, 1, 2, 0, 55, 0x100001, 12});
  const Outcome waiting = run(before);
  const Word io_slot = waiting.slot(7)[15];
  ASSERT_LT(io_slot, 4u);
  EXPECT_EQ(waiting.slot(7), (SlotWords{kWaitIo, kReadAndSum, 3, 2, 1, 2, 0, 55, 0x100001, 12, 1, 0,
                                        0, 0, 0, io_slot}));
  std::vector<Word> request = waiting.io_slot(io_slot);
  request.pop_back();  // the item that asks chooses the tag
  EXPECT_EQ(request, (std::vector<Word>{1, 55, 1, 0x1000, 0x1, 12, kIoPublished}));
  EXPECT_EQ(words_of(output), std::vector<Word>{0});

  must(input.write(0, std::array<Word, 3>{10, 20, 30}));
  Job served = waiting;
  served.io_queue[io_slot * 8 + 6] = kIoOk;
  const Outcome after = run(served);
  EXPECT_EQ(after.status(7), 3u);
  EXPECT_EQ(words_of(output), std::vector<Word>{60});
  EXPECT_EQ(after.io_slot(io_slot)[6], 0u);
  ExpectedControl(served).done(3, kReadAndSum).expect(after.control);
}

TEST_P(IoRequests, an_await_write_asks_the_other_way_round) {
  Job before = job();
  before.put(7, {1, kSave, 3, 2, 1, 2, 0, 55, 2, 12});
  const Outcome waiting = run(before);
  const Word io_slot = waiting.slot(7)[15];
  ASSERT_LT(io_slot, 4u);
  std::vector<Word> request = waiting.io_slot(io_slot);
  request.pop_back();
  EXPECT_EQ(request, (std::vector<Word>{2, 1, 55, 0x2000, 0, 12, kIoPublished}));
  Job served = waiting;
  served.io_queue[io_slot * 8 + 6] = kIoDone;
  EXPECT_EQ(run(served).status(7), 3u);
}

TEST_P(IoRequests, an_await_that_fails_is_a_fault) {
  Job before = job();
  before.put(7, {1, kSave, 3, 2, 1, 2, 0, 55, 2, 12});
  Job served = run(before);
  const Word io_slot = served.slot(7)[15];
  ASSERT_LT(io_slot, 4u);
  served.io_queue[io_slot * 8 + 6] = kIoError;
  const Outcome after = run(served);
  EXPECT_EQ(after.fault_code(7), 8u);
  EXPECT_EQ(after.io_slot(io_slot)[6], 0u);
}

TEST_P(IoRequests, an_await_that_finds_no_io_slot_runs_again_from_the_top) {
  // The args of the item say that it has asked for IO, but no request was made: it must be made
  // now.
  Job before = job({.io_slots = 1});
  before.io_queue[6] = kIoPublished;
  before.put(7, {1, kSave, 3, 2, 1, 2, 0, 55, 2, 12});
  const Outcome waiting = run(before);
  EXPECT_EQ(waiting.status(7), kRequeue);
  EXPECT_EQ(waiting.counts.end, backend::DrainEnd::complete);
  Job freed = waiting;
  freed.io_queue[6] = 0;
  const Outcome after = run(freed);
  EXPECT_EQ(after.status(7), kWaitIo);
  EXPECT_EQ(after.io_slot(0)[6], kIoPublished);
}

// --- lengths ----------------------------------------------------------------------------------

TEST_P(IoRequests, queues_of_1_and_of_64_slots_come_back_whole) {
  for (const Word io_slots : {1u, 2u, 63u, 64u}) {
    SCOPED_TRACE(io_slots);
    Job before = job({.io_slots = io_slots});
    for (Word word = 0; word < io_slots * 8; ++word) before.io_queue[word] = word | 0x100;
    before.put(7, {1, 0, 0, 2});
    EXPECT_EQ(run(before).io_queue, before.io_queue);
  }
}

TEST_P(IoRequests, without_a_queue_there_is_one_of_one_slot) {
  Job before = job();
  before.io_queue.clear();
  before.put(6, {1, kLoadMiss, 0, 2, 77});
  before.put(7, {1, kLoadMiss, 0, 2, 78});
  const Submission submission = before.buffers();
  const auto report =
      must(kernel().dispatch({.submissions = std::span(&submission, 1), .timeout = kPatience}));
  const auto ring = test::words_of(report.submissions[0].ring);
  EXPECT_EQ(ring[6 * 16] + ring[7 * 16], kWaitIo + kRequeue);
}

}  // namespace everkernel::conformance
