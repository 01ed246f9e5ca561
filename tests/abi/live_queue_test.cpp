// The format of live queues. The expected words are typed from the specification.
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstring>

#include "everkernel/abi/queue.hpp"

namespace everkernel::abi {
namespace {

using Words = std::array<Word, 16>;

Words words_of(const FullEntry& entry) {
  Words words;
  std::memcpy(words.data(), &entry, sizeof entry);
  return words;
}

FullEntry entry_of(const Words& words) {
  FullEntry entry;
  std::memcpy(&entry, words.data(), sizeof entry);
  return entry;
}

TEST(LiveQueue, first_lap_has_bit_1_and_laps_alternate) {
  EXPECT_EQ(lap_bit(0, 4), 1u);
  EXPECT_EQ(lap_bit(3, 4), 1u);
  EXPECT_EQ(lap_bit(4, 4), 0u);
  EXPECT_EQ(lap_bit(7, 4), 0u);
  EXPECT_EQ(lap_bit(8, 4), 1u);
  EXPECT_EQ(lap_bit((LongWord{1} << 32) - 1, 4), 0u);
  EXPECT_EQ(lap_bit(LongWord{1} << 32, 4), 1u);
  EXPECT_EQ(lap_bit((LongWord{1} << 63) + 4, 4), 0u);
  EXPECT_EQ(lap_bit(1 << 20, 1 << 20), 0u);
  EXPECT_EQ(place_of(13, 4), 1u);
  EXPECT_EQ(place_of((LongWord{1} << 40) + 5, 1 << 20), 5u);
}

TEST(LiveQueue, capacities_are_powers_of_two_and_first_tickets_begin_an_even_lap) {
  for (const Word good : {2u, 4u, 1024u, 1u << 20}) EXPECT_TRUE(is_queue_capacity(good)) << good;
  for (const Word bad : {0u, 1u, 3u, 6u, 1023u, 1u << 21, ~0u}) {
    EXPECT_FALSE(is_queue_capacity(bad)) << bad;
  }
  EXPECT_TRUE(is_first_ticket(0, 8));
  EXPECT_TRUE(is_first_ticket(16, 8));
  EXPECT_FALSE(is_first_ticket(8, 8));
  EXPECT_FALSE(is_first_ticket(17, 8));
}

TEST(LiveQueue, a_compact_entry_is_the_item_with_the_lap_bit_on_top_of_its_opcode) {
  const Quad even = compact_entry({0x12345, 0xFFFFFFFF, 0x80000000, 7}, 1);
  EXPECT_EQ(even.words[0], 0x80012345u);
  EXPECT_EQ(even.words[1], 0xFFFFFFFFu);
  EXPECT_EQ(even.words[2], 0x80000000u);
  EXPECT_EQ(even.words[3], 7u);
  EXPECT_EQ(compact_entry({0x12345, 0, 0, 0}, 0).words[0], 0x00012345u);
  EXPECT_EQ(item_of(even), (WorkItem{0x12345, 0xFFFFFFFF, 0x80000000, 7}));
  EXPECT_TRUE(is_of_lap(even, 1));
  EXPECT_FALSE(is_of_lap(even, 0));
  EXPECT_TRUE(fits_compact(0x7FFFFFFF));
  EXPECT_FALSE(fits_compact(0x80000001));
}

// Word 0 is PUBLISHED with the lap bit; the top bits of the words 4, 8 and 12 are the bits 16, 17
// and 18 of word 3.
TEST(LiveQueue, a_full_entry_carries_the_lap_bit_in_every_quad) {
  const Slot slot{SlotStatus::done,
                  0x80000001,
                  28,
                  priority_word(4, 77),
                  {0x80000005, 1, 2, 0x80000003, 0x00000006, 5, 6, 7, 0xFFFFFFFF, 9, 10, 11}};
  const Words odd = words_of(full_entry(slot, 0));
  EXPECT_EQ(odd, (Words{1, 0x80000001, 28, 0x00050004, 5, 1, 2, 0x80000003, 6, 5, 6, 7, 0x7FFFFFFF,
                        9, 10, 11}));
  const Words even = words_of(full_entry(slot, 1));
  EXPECT_EQ(even, (Words{0x80000001, 0x80000001, 28, 0x00050004, 0x80000005, 1, 2, 0x80000003,
                         0x80000006, 5, 6, 7, 0xFFFFFFFF, 9, 10, 11}));
  for (const Word lap : {0u, 1u}) {
    const FullEntry entry = full_entry(slot, lap);
    EXPECT_TRUE(is_valid(entry, lap));
    EXPECT_FALSE(is_valid(entry, 1 - lap));
    const Slot back = slot_of(entry);
    EXPECT_EQ(back.status, SlotStatus::published);
    EXPECT_EQ(back.opcode, slot.opcode);
    EXPECT_EQ(back.tenant, 28u);
    EXPECT_EQ(back.priority, 4u);
    for (Word i = 0; i < kSlotArgs; ++i) EXPECT_EQ(back.args[i], slot.args[i]) << i;
  }
}

TEST(LiveQueue, a_full_entry_is_refused_for_every_bit_that_is_fixed) {
  const Words good = words_of(full_entry(Slot{SlotStatus::published, 64, 1, 2, {}}, 1));
  ASSERT_TRUE(is_valid(entry_of(good), 1));
  for (Word word = 0; word < 16; ++word) {
    for (Word bit = 0; bit < 32; ++bit) {
      Words changed = good;
      changed[word] ^= Word{1} << bit;
      const bool is_fixed = word == 0 || (word % 4 == 0 && bit == 31) || (word == 3 && bit >= 19);
      EXPECT_EQ(is_valid(entry_of(changed), 1), !is_fixed) << "word " << word << ", bit " << bit;
    }
  }
}

TEST(LiveQueue, zeroed_memory_holds_no_valid_entry_and_no_outcome_of_the_first_lap) {
  EXPECT_FALSE(is_of_lap(Quad{}, lap_bit(0, 8)));
  EXPECT_FALSE(is_valid(FullEntry{}, lap_bit(0, 8)));
  EXPECT_EQ(outcome_of(0, lap_bit(0, 8)), OutcomeCode::none);
  EXPECT_EQ(outcome_of_completion(0, lap_bit(0, 8)), OutcomeCode::none);
}

TEST(LiveQueue, outcomes_carry_the_lap_bit) {
  EXPECT_EQ(outcome_byte(OutcomeCode::done, 1), 0x81);
  EXPECT_EQ(outcome_byte(OutcomeCode::fault, 1), 0x82);
  EXPECT_EQ(outcome_byte(OutcomeCode::cancelled, 0), 0x03);
  EXPECT_EQ(outcome_of(0x81, 1), OutcomeCode::done);
  EXPECT_EQ(outcome_of(0x81, 0), OutcomeCode::none);
  EXPECT_EQ(outcome_of(0x02, 0), OutcomeCode::fault);
  EXPECT_EQ(fault_word(0x1FFFF, 1), 0x8001FFFFu);
  EXPECT_EQ(fault_word(7, 0), 7u);
  constexpr Word kResults[] = {1, 2, 0xFFFFFFFF};
  const Quad done = completion(OutcomeCode::fault, 300, 1, kResults);
  EXPECT_EQ(done.words[0], 0x80000000u | 300u << 8 | 2u);
  EXPECT_EQ(done.words[1], 1u);
  EXPECT_EQ(done.words[2], 2u);
  EXPECT_EQ(done.words[3], 0xFFFFFFFFu);
  EXPECT_EQ(outcome_of_completion(done.words[0], 1), OutcomeCode::fault);
  EXPECT_EQ(outcome_of_completion(done.words[0], 0), OutcomeCode::none);
  EXPECT_EQ(fault_code_of_completion(done.words[0]), 300u);
}

TEST(LiveQueue, lines_and_parts_lie_where_the_format_says) {
  EXPECT_EQ(sizeof(ProducerLine), 64u);
  EXPECT_EQ(offsetof(ProducerLine, tail), 0u);
  EXPECT_EQ(offsetof(ProducerLine, filled), 8u);
  EXPECT_EQ(offsetof(ProducerLine, waiting), 16u);
  EXPECT_EQ(offsetof(KernelLine, state), 0u);
  EXPECT_EQ(offsetof(KernelLine, wake), 4u);
  const QueueHeader bytes = queue_header(EntryFormat::compact, 1024, false, 4096);
  EXPECT_EQ(bytes.magic, 0x31514B45u);
  char name[4];
  std::memcpy(name, &bytes.magic, 4);
  EXPECT_EQ(std::string_view(name, 4), "EKQ1");
  EXPECT_EQ(bytes.version, 1u);
  EXPECT_EQ(bytes.entry_bytes, 16u);
  EXPECT_EQ(bytes.capacity, 1024u);
  EXPECT_EQ(bytes.first_ticket, 4096u);
  EXPECT_EQ(bytes.outcome_bytes, 1u);
  EXPECT_EQ(bytes.producer_bytes, 64u + 1024 * 16);
  EXPECT_EQ(bytes.entries_offset, 64u);
  EXPECT_EQ(bytes.kernel_line_offset, 128u);
  EXPECT_EQ(bytes.taken_line_offset, 192u);
  EXPECT_EQ(bytes.outcomes_offset, 256u);
  EXPECT_EQ(bytes.faults_offset, 256u + 1024);
  EXPECT_EQ(bytes.kernel_bytes, 256u + 1024 + 4096);
  const QueueHeader results = queue_header(EntryFormat::full, 2, true, 0);
  EXPECT_EQ(results.outcome_bytes, 16u);
  EXPECT_EQ(results.faults_offset, 0u);
  EXPECT_EQ(results.kernel_bytes, 256u + 64);
  EXPECT_TRUE(are_equal(bytes, bytes));
  EXPECT_FALSE(are_equal(bytes, results));
}

}  // namespace
}  // namespace everkernel::abi
