#include "everkernel/protocol/ring.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include "support/bytes.hpp"
#include "support/results.hpp"

namespace everkernel::protocol {
namespace {

using abi::SlotStatus;
using test::Bytes;
using test::code_of;

TEST(EncodeRing, clears_every_slot) {
  Bytes target(128, std::byte{0xAA});
  ASSERT_TRUE(encode_ring(2, target));
  EXPECT_EQ(target, Bytes(128));
}

TEST(RingBytes, hold_their_limits) {
  struct Row {
    Word slots;
    std::size_t expected;  // 0: refused
  };
  constexpr Row kRows[] = {
      {0, 0},         {1, 64},          {256, 16'384},  {1'048'576, 67'108'864},
      {1'048'577, 0}, {268'435'455, 0}, {0xFFFFFFFF, 0}};
  for (const Row& row : kRows) {
    const auto bytes = ring_bytes(row.slots);
    EXPECT_EQ(bytes.value_or(0), row.expected) << row.slots;
    if (!bytes) {
      EXPECT_EQ(code_of(bytes), Code::invalid_argument);
    }
  }
}

TEST(EncodeRing, leaves_the_target_alone_when_it_refuses) {
  struct Row {
    Word slots;
    std::size_t target_bytes;
  };
  constexpr Row kRows[] = {{0, 0}, {0, 64}, {1, 0}, {1, 63}, {1, 65}, {1, 128}, {1'048'577, 64}};
  for (const Row& row : kRows) {
    SCOPED_TRACE(testing::Message() << row.slots << " slots into " << row.target_bytes);
    Bytes target(row.target_bytes, std::byte{0xAA});
    const Bytes before = target;
    const auto result = encode_ring(row.slots, target);
    ASSERT_FALSE(result);
    EXPECT_EQ(code_of(result), Code::invalid_argument);
    EXPECT_EQ(target, before);
  }
}

TEST(RingView, takes_whole_slots_only) {
  const Bytes ring(256);
  EXPECT_EQ(RingView::parse({})->slot_count(), 0u);
  EXPECT_EQ(RingView::parse(std::span(ring).first(64))->slot_count(), 1u);
  EXPECT_EQ(RingView::parse(ring)->slot_count(), 4u);
  for (const std::size_t length : {1u, 4u, 60u, 63u, 65u, 255u}) {
    const auto view = RingView::parse(std::span(ring).first(length));
    ASSERT_FALSE(view) << length;
    EXPECT_EQ(code_of(view), Code::corrupt);
  }
}

TEST(RingView, takes_the_largest_ring_and_nothing_longer) {
  constexpr std::size_t kLargest = std::size_t{268'435'455} * 64;
  // Address space without memory behind it: parse looks at lengths, never at the slots.
  void* const space =
      mmap(nullptr, kLargest + 64, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(space, MAP_FAILED);
  const std::span ring(static_cast<const std::byte*>(space), kLargest + 64);
  EXPECT_EQ(RingView::parse(ring.first(kLargest))->slot_count(), 268'435'455u);
  const auto view = RingView::parse(ring);
  ASSERT_FALSE(view);
  EXPECT_EQ(code_of(view), Code::corrupt);
  munmap(space, kLargest + 64);
}

TEST(RingView, reads_every_word_of_a_slot) {
  Bytes ring(128);
  for (Word i = 0; i < 16; ++i) test::set_word(ring, 16 + i, 100 + i);
  const abi::Slot slot = RingView::parse(ring)->slot(1);
  EXPECT_EQ(static_cast<Word>(slot.status), 100u);  // an unknown status is kept as found
  EXPECT_EQ(slot.opcode, 101u);
  EXPECT_EQ(slot.tenant, 102u);
  EXPECT_EQ(slot.priority, 103u);
  EXPECT_EQ(std::vector<Word>(std::begin(slot.args), std::end(slot.args)),
            (std::vector<Word>{104, 105, 106, 107, 108, 109, 110, 111, 112, 113, 114, 115}));
}

TEST(RingView, counts_a_status_among_the_first_slots) {
  Bytes ring(5 * 64);
  test::set_word(ring, 0, 3);
  test::set_word(ring, 32, 3);
  test::set_word(ring, 48, 99);
  test::set_word(ring, 64, 3);
  const auto view = *RingView::parse(ring);
  EXPECT_EQ(view.count(SlotStatus::done, 0), 0u);
  EXPECT_EQ(view.count(SlotStatus::done, 1), 1u);
  EXPECT_EQ(view.count(SlotStatus::done, 4), 2u);
  EXPECT_EQ(view.count(SlotStatus::done, 5), 3u);
  EXPECT_EQ(view.count(SlotStatus::empty, 5), 1u);
  EXPECT_EQ(view.count(SlotStatus{99}, 5), 1u);
  EXPECT_EQ(code_of(view.count(SlotStatus::done, 6)), Code::invalid_argument);
  EXPECT_EQ(code_of(view.count(SlotStatus::done, 0xFFFFFFFF)), Code::invalid_argument);
}

TEST(RingViewDeathTest, a_slot_past_the_last_stops_the_program) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  const Bytes ring(64);
  const auto view = *RingView::parse(ring);
  EXPECT_DEATH((void)view.slot(1), "slot_index");
}

TEST(SlotStatus, sorts_into_the_groups_of_the_wire_format) {
  struct Row {
    Word value;
    const char* name;
    bool publishable, claimable, terminal, active, cancellable;
  };
  constexpr Row kRows[] = {
      {0, "empty", true, false, false, false, false},
      {1, "published", false, true, false, true, true},
      {2, "claimed", false, false, false, true, false},
      {3, "done", true, false, true, false, false},
      {4, "wait_io", false, false, false, true, true},
      {5, "yield", false, true, false, true, true},
      {6, "requeue", false, true, false, true, true},
      {7, "fault", false, false, true, false, false},
      {8, "unknown", false, false, false, false, false},
      {0xFFFFFFFF, "unknown", false, false, false, false, false},
  };
  for (const Row& row : kRows) {
    SCOPED_TRACE(row.value);
    const SlotStatus status{row.value};
    EXPECT_STREQ(abi::status_name(status), row.name);
    EXPECT_EQ(abi::is_known(status), row.value < 8);
    EXPECT_EQ(abi::is_publishable(status), row.publishable);
    EXPECT_EQ(abi::is_claimable(status), row.claimable);
    EXPECT_EQ(abi::is_terminal(status), row.terminal);
    EXPECT_EQ(abi::is_active(status), row.active);
    EXPECT_EQ(abi::is_cancellable(status), row.cancellable);
  }
}

}  // namespace
}  // namespace everkernel::protocol
