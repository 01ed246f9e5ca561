// Section 1 and 3 of the wire format: the slot. The expected values are those of the specification.
#include "everkernel/abi/slot.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <string_view>

namespace everkernel::abi {
namespace {

TEST(Slot, has_16_words_in_one_cache_line) {
  EXPECT_EQ(kSlotWords, 16u);
  EXPECT_EQ(kSlotBytes, 64u);
  EXPECT_EQ(kSlotArgs, 12u);
  EXPECT_EQ(kSlotFirstArg, 4u);
  EXPECT_EQ(sizeof(Slot), 64u);
  EXPECT_EQ(alignof(Slot), 64u);
}

TEST(Slot, words_lie_where_the_format_says) {
  EXPECT_EQ(offsetof(Slot, status), 0u);
  EXPECT_EQ(offsetof(Slot, opcode), 4u);
  EXPECT_EQ(offsetof(Slot, tenant), 8u);
  EXPECT_EQ(offsetof(Slot, priority), 12u);
  EXPECT_EQ(offsetof(Slot, args), 16u);
}

TEST(WorkItem, is_four_words_in_the_order_of_a_slot) {
  EXPECT_EQ(kWorkItemBytes, 16u);
  EXPECT_EQ(sizeof(WorkItem), 16u);
  EXPECT_EQ(offsetof(WorkItem, op_handle), 0u);
  EXPECT_EQ(offsetof(WorkItem, input_handle), 4u);
  EXPECT_EQ(offsetof(WorkItem, output_handle), 8u);
  EXPECT_EQ(offsetof(WorkItem, param), 12u);
}

TEST(WorkItem, equals_one_with_the_same_four_words) {
  constexpr WorkItem kItem{1, 2, 3, 4};
  EXPECT_TRUE((kItem == WorkItem{1, 2, 3, 4}));
  EXPECT_FALSE((kItem == WorkItem{1, 2, 3, 5}));
}

TEST(Limits, of_rings_and_geometry) {
  EXPECT_EQ(kMaxEncodedSlots, 1'048'576u);
  EXPECT_EQ(kMaxRingSlots, 268'435'455u);
  EXPECT_EQ(kDefaultSlotCount, 256u);
  EXPECT_EQ(kDefaultWorkgroupSize, 256u);
}

struct StatusRow {
  Word value;
  std::string_view name;
  bool known, publishable, claimable, terminal, active, cancellable;
};

// 8 and 9 are not statuses: nothing may be done with a slot that has one.
constexpr StatusRow kStatuses[] = {
    // value, name, known, publishable, claimable, terminal, active, cancellable
    {0, "empty", true, true, false, false, false, false},
    {1, "published", true, false, true, false, true, true},
    {2, "claimed", true, false, false, false, true, false},
    {3, "done", true, true, false, true, false, false},
    {4, "wait_io", true, false, false, false, true, true},
    {5, "yield", true, false, true, false, true, true},
    {6, "requeue", true, false, true, false, true, true},
    {7, "fault", true, false, false, true, false, false},
    {8, "unknown", false, false, false, false, false, false},
    {9, "unknown", false, false, false, false, false, false},
    {0xFFFFFFFF, "unknown", false, false, false, false, false, false},
};

TEST(SlotStatus, allows_what_the_format_says) {
  for (const StatusRow& row : kStatuses) {
    SCOPED_TRACE(row.value);
    const SlotStatus status{row.value};
    EXPECT_EQ(status_name(status), row.name);
    EXPECT_EQ(is_known(status), row.known);
    EXPECT_EQ(is_publishable(status), row.publishable);
    EXPECT_EQ(is_claimable(status), row.claimable);
    EXPECT_EQ(is_terminal(status), row.terminal);
    EXPECT_EQ(is_active(status), row.active);
    EXPECT_EQ(is_cancellable(status), row.cancellable);
  }
  EXPECT_EQ(kSlotStatusCount, 8u);
}

TEST(SlotStatus, numbers_are_those_of_the_format) {
  EXPECT_EQ(SlotStatus::empty, SlotStatus{0});
  EXPECT_EQ(SlotStatus::published, SlotStatus{1});
  EXPECT_EQ(SlotStatus::claimed, SlotStatus{2});
  EXPECT_EQ(SlotStatus::done, SlotStatus{3});
  EXPECT_EQ(SlotStatus::wait_io, SlotStatus{4});
  EXPECT_EQ(SlotStatus::yield, SlotStatus{5});
  EXPECT_EQ(SlotStatus::requeue, SlotStatus{6});
  EXPECT_EQ(SlotStatus::fault, SlotStatus{7});
}

TEST(Priority, numbers_and_names_are_those_of_the_format) {
  EXPECT_EQ(Priority::critical, Priority{0});
  EXPECT_EQ(Priority::high, Priority{1});
  EXPECT_EQ(Priority::normal, Priority{2});
  EXPECT_EQ(Priority::low, Priority{3});
  EXPECT_EQ(Priority::idle, Priority{4});
  EXPECT_EQ(kPriorityCount, 5u);
  EXPECT_STREQ(priority_name(0), "critical");
  EXPECT_STREQ(priority_name(1), "high");
  EXPECT_STREQ(priority_name(2), "normal");
  EXPECT_STREQ(priority_name(3), "low");
  EXPECT_STREQ(priority_name(4), "idle");
  EXPECT_STREQ(priority_name(5), "unknown");
  EXPECT_STREQ(priority_name(0xFFFF), "unknown");
}

TEST(PriorityWord, has_the_fault_code_above_the_priority) {
  EXPECT_EQ(priority_word(0, 0), 0u);
  EXPECT_EQ(priority_word(2, 0), 0x00000002u);
  EXPECT_EQ(priority_word(2, 1), 0x00010002u);
  EXPECT_EQ(priority_word(4, 12), 0x000C0004u);
  EXPECT_EQ(priority_word(4, 0xFFFF), 0xFFFF0004u);
  EXPECT_EQ(priority_word(0xFFFF, 0xFFFF), 0xFFFFFFFFu);
}

TEST(PriorityWord, halves_do_not_touch_each_other) {
  EXPECT_EQ(priority_of(0x000C0004u), 4u);
  EXPECT_EQ(fault_code_of(0x000C0004u), 12u);
  EXPECT_EQ(priority_of(0xFFFF0000u), 0u);
  EXPECT_EQ(fault_code_of(0x0000FFFFu), 0u);
  EXPECT_EQ(priority_of(0xFFFFFFFFu), 0xFFFFu);
  EXPECT_EQ(fault_code_of(0xFFFFFFFFu), 0xFFFFu);
  EXPECT_EQ(priority_word(0x10002u, 0), 2u) << "a priority above 16 bits is no fault";
}

}  // namespace
}  // namespace everkernel::abi
