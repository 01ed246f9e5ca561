// Section 1 of the wire format: which statuses a worker takes and leaves, and how it uses the other
// words of a slot.
#include "conformance/backend_suite.hpp"

namespace everkernel::conformance {

TEST_P(Slots, a_published_slot_becomes_done_and_keeps_its_other_words) {
  Job before = job();
  before.put(7, {1, 0, 3, 2, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22});
  const Outcome after = run(before);
  EXPECT_EQ(after.slot(7), (SlotWords{3, 0, 3, 2, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22}));
  EXPECT_EQ(after.counts.end, backend::DrainEnd::complete);
  ExpectedControl(before).done(3, 0).expect(after.control);
}

TEST_P(Slots, an_empty_ring_is_left_as_it_was) {
  const Job before = job();
  const Outcome after = run(before);
  EXPECT_EQ(after.ring, before.ring);
  EXPECT_EQ(after.counts.end, backend::DrainEnd::complete);
  ExpectedControl(before).expect(after.control);
}

TEST_P(Slots, slots_that_are_not_claimable_are_left_alone_byte_for_byte) {
  // Each would store 99 into the first observable; CLAIMED alone still counts as active.
  Job before = job();
  Word slot = 0;
  for (const Word status : {0u, 2u, 3u, 7u, 8u, 9u, 0x10u, 0x11u, 0x101u, 0x80000001u, ~0u}) {
    before.put(slot++, {status, 1, 0, 0xFFFF0002, 99, 160, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5});
  }
  const Outcome after = run(before);
  EXPECT_EQ(after.ring, before.ring);
  EXPECT_EQ(after.counts.remaining, 1u);
  EXPECT_EQ(after.counts.end, backend::DrainEnd::complete);
  ExpectedControl(before).expect(after.control);
}

TEST_P(Slots, published_yield_and_requeue_slots_are_claimed) {
  Job before = job();
  before.put(7, {1, 1, 0, 2, 10, 160});
  before.put(8, {5, 1, 0, 2, 11, 161});
  before.put(9, {6, 1, 0, 2, 12, 162});
  const Outcome after = run(before);
  EXPECT_EQ(after.slot(7), (SlotWords{3, 1, 0, 2, 10, 160}));
  EXPECT_EQ(after.slot(8), (SlotWords{3, 1, 0, 2, 11, 161}));
  EXPECT_EQ(after.slot(9), (SlotWords{3, 1, 0, 2, 12, 162}));
  ExpectedControl(before).done(0, 1, 3).set(160, 10).set(161, 11).set(162, 12).expect(
      after.control);
}

TEST_P(Slots, a_fault_has_its_code_above_the_priority) {
  Job before = job();
  for (const Word priority : {0u, 1u, 2u, 3u, 4u}) {
    before.put(priority, {1, 9999, 0, priority, 1, 2, 3});
  }
  const Outcome after = run(before);
  for (const Word priority : {0u, 1u, 2u, 3u, 4u}) {
    EXPECT_EQ(after.slot(priority), (SlotWords{7, 9999, 0, 0x00010000 | priority, 1, 2, 3}));
  }
  EXPECT_EQ(after.counts.faulted, 5u);
}

TEST_P(Slots, a_priority_outside_the_format_is_counted_for_nobody) {
  Job before = job();
  Word slot = kNormal;
  for (const Word priority : {5u, 31u, 0xFFFFu}) before.put(slot++, {1, 1, 3, priority, 9, 160});
  const Outcome after = run(before);
  EXPECT_EQ(after.counts.done, 3u);
  ExpectedControl expected(before);
  expected.add(1, 3).add(64 + 3, 3).add(96 + 1, 3).set(160, 9);
  // The priority schedule takes the priority of the partition, not that of the slot.
  if (schedule() == Schedule::priority) expected.add(136 + 2, 3);
  expected.expect(after.control);
}

TEST_P(Slots, a_fault_stops_no_other_item) {
  Job before = job();
  for (Word slot = 0; slot < 16; ++slot) {
    before.put(slot, {1, slot % 2 == 0 ? 9999u : 2u, 0, 2, 1, 160});
  }
  const Outcome after = run(before);
  EXPECT_EQ(after.counts.done, 8u);
  EXPECT_EQ(after.counts.faulted, 8u);
  EXPECT_EQ(after.control[160], 8u);
  EXPECT_EQ(after.counts.end, backend::DrainEnd::complete);
}

TEST_P(Slots, args_are_the_memory_of_a_handler_that_yields) {
  Job before = job();
  before.put(7, {1, kCountdown, 4, 2, 1, 2, 3, 5, 6, 7, 8, 9, 10, 11, 12, 13});
  const Outcome after = run(before);
  EXPECT_EQ(after.slot(7),
            (SlotWords{3, kCountdown, 4, 2, 1, 2, 3, 0, 6, 7, 8, 9, 10, 11, 12, 13}));
  ExpectedControl(before).done(4, kCountdown).claims(4, 2, 5).expect(after.control);
}

TEST_P(Slots, args_are_the_memory_of_a_handler_that_requeues) {
  Job before = job();
  before.put(7, {1, kCountdownLater, 4, 2, 1, 2, 3, 3, 6, 7, 8, 9, 10, 11, 12, 13});
  const Outcome after = run(before);
  EXPECT_EQ(after.slot(7),
            (SlotWords{3, kCountdownLater, 4, 2, 1, 2, 3, 0, 6, 7, 8, 9, 10, 11, 12, 13}));
  ExpectedControl(before).done(4, kCountdownLater).claims(4, 2, 3).expect(after.control);
}

TEST_P(Slots, a_full_ring_of_yielding_items_ends) {
  Job before = job();
  for (Word slot = 0; slot < 16; ++slot) {
    before.put(slot, {1, slot % 2 == 0 ? kCountdown : kCountdownLater, 0, 2, 0, 0, 0, slot});
  }
  const Outcome after = run(before);
  EXPECT_EQ(after.counts.done, 16u);
  // 16 items; slot i runs i more times before its last run: 0 + 1 + … + 15.
  EXPECT_EQ(after.control[64] - before.control[64], 16u + 120u);
}

TEST_P(Slots, a_handler_sees_the_words_of_its_slot) {
  const DataBuffer output = buffer(2, 16);
  Job before = job();
  before.put(8, {1, kEcho, 28, 2, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 0xFFFFFFFF});
  const Outcome after = run(before);
  EXPECT_EQ(after.counts.done, 1u);
  EXPECT_EQ(words_of(output),
            (std::vector<Word>{kEcho, 28, 2, 8, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 0xFFFFFFFF}));
}

TEST_P(Slots, an_item_that_waits_for_io_nobody_serves_is_left) {
  // The request of the item is still PUBLISHED, CLAIMED or was never made.
  Job before = job();
  for (Word io_slot = 0; io_slot < 3; ++io_slot) {
    before.put(io_slot, {4, 0xFFFD, 0, 2, 77, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, io_slot});
    before.io_queue[io_slot * 8 + 6] = 2 - io_slot;
  }
  before.put(7, {1, 0, 0, 2});
  const Outcome after = run(before);
  EXPECT_EQ(after.status(7), 3u);
  EXPECT_EQ(after.count(4), 3u);
  EXPECT_EQ(after.io_queue, before.io_queue);
  EXPECT_EQ(after.counts.end, backend::DrainEnd::complete);
}

TEST_P(Slots, an_item_that_waits_for_an_io_slot_that_is_none_harms_nobody) {
  Job before = job();
  Word slot = 0;
  for (const Word io_slot : {4u, 64u, 0x20000000u, ~0u}) {
    before.put(slot++, {4, 0xFFFD, 0, 2, 77, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, io_slot});
  }
  before.put(7, {1, 0, 0, 2});
  const Outcome after = run(before);
  EXPECT_EQ(after.status(7), 3u);
  EXPECT_EQ(after.count(4) + after.count(7), 4u) << "WAIT_IO or FAULT, nothing else fits";
  EXPECT_EQ(after.io_queue, before.io_queue);
}

}  // namespace everkernel::conformance
