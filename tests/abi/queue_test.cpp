// Sections 7 and 8 of the wire format: packed slots, the debug log and the IO queue.
#include <gtest/gtest.h>

#include <cstddef>
#include <string_view>

#include "everkernel/abi/debug_log.hpp"
#include "everkernel/abi/io_queue.hpp"
#include "everkernel/abi/packed.hpp"

namespace everkernel::abi {
namespace {

TEST(Packed, metadata_is_two_bytes_and_two_an_operation_in_whole_words) {
  EXPECT_EQ(packed_metadata_words(0), 1u);
  EXPECT_EQ(packed_metadata_words(1), 1u);
  EXPECT_EQ(packed_metadata_words(2), 2u);
  EXPECT_EQ(packed_metadata_words(3), 2u);
  EXPECT_EQ(packed_metadata_words(4), 3u);
  EXPECT_EQ(packed_metadata_words(23), 12u);
  EXPECT_EQ(packed_metadata_words(24), 13u);
  EXPECT_EQ(kMaxPackedOps, 23u);
}

TEST(Packed, bytes_are_little_endian_inside_words) {
  // The example of the specification: (1,[10,32]) and (2,[1,64]).
  constexpr Word kArgs[] = {0x00010402, 0x00000202, 10, 32, 1, 64};
  EXPECT_EQ(packed_byte(kArgs, 0), 2u) << "operations";
  EXPECT_EQ(packed_byte(kArgs, 1), 4u) << "argument words";
  EXPECT_EQ(packed_byte(kArgs, 2), 1u) << "first opcode";
  EXPECT_EQ(packed_byte(kArgs, 3), 0u) << "its first argument";
  EXPECT_EQ(packed_byte(kArgs, 4), 2u) << "second opcode";
  EXPECT_EQ(packed_byte(kArgs, 5), 2u) << "its first argument";
  EXPECT_EQ(packed_byte(kArgs, 7), 0u) << "padding";
  EXPECT_EQ(packed_byte(kArgs, 8), 10u);
}

TEST(DebugLog, is_a_cursor_and_records_of_four_words) {
  EXPECT_EQ(kDebugCursor, 0u);
  EXPECT_EQ(kDebugFirstRecord, 1u);
  EXPECT_EQ(kDebugRecordWords, 4u);
  EXPECT_EQ(kMaxDebugRecords, 1'048'576u);
  EXPECT_EQ(sizeof(DebugRecord), 16u);
  EXPECT_EQ(offsetof(DebugRecord, fmt_id), 0u);
  EXPECT_EQ(offsetof(DebugRecord, args), 4u);
}

TEST(DebugLog, records_are_equal_in_all_four_words) {
  constexpr DebugRecord kRecord{1, {2, 3, 16}};
  EXPECT_TRUE((kRecord == DebugRecord{1, {2, 3, 16}}));
  EXPECT_FALSE((kRecord == DebugRecord{1, {2, 3, 32}}));
}

TEST(IoSlot, has_eight_words_where_the_format_says) {
  EXPECT_EQ(kIoSlotWords, 8u);
  EXPECT_EQ(kIoSlotBytes, 32u);
  EXPECT_EQ(sizeof(IoSlot), 32u);
  EXPECT_EQ(offsetof(IoSlot, op), 0u);
  EXPECT_EQ(offsetof(IoSlot, src_handle), 4u);
  EXPECT_EQ(offsetof(IoSlot, dst_handle), 8u);
  EXPECT_EQ(offsetof(IoSlot, offset_low), 12u);
  EXPECT_EQ(offsetof(IoSlot, offset_high), 16u);
  EXPECT_EQ(offsetof(IoSlot, byte_count), 20u);
  EXPECT_EQ(offsetof(IoSlot, status), 24u);
  EXPECT_EQ(offsetof(IoSlot, tag), 28u);
  EXPECT_EQ(kIoStatusWord, 6u);
  EXPECT_EQ(kIoTagWord, 7u);
  EXPECT_EQ(kMaxIoSlots, 64u);
  EXPECT_EQ(kIoSlotArg, 11u);
}

TEST(IoSlot, offset_has_its_high_half_behind_the_low_one) {
  constexpr IoSlot kSlot{IoOp::read, 1, 2, 0x89ABCDEF, 0x01234567, 0, IoStatus::empty, 0};
  EXPECT_EQ(kSlot.offset(), 0x0123456789ABCDEFull);
}

TEST(IoOp, numbers_and_names_are_those_of_the_format) {
  EXPECT_EQ(IoOp::read, IoOp{1});
  EXPECT_EQ(IoOp::write, IoOp{2});
  EXPECT_EQ(IoOp::fence, IoOp{3});
  EXPECT_STREQ(io_op_name(IoOp{0}), "unknown");
  EXPECT_STREQ(io_op_name(IoOp{1}), "read");
  EXPECT_STREQ(io_op_name(IoOp{2}), "write");
  EXPECT_STREQ(io_op_name(IoOp{3}), "fence");
  EXPECT_STREQ(io_op_name(IoOp{4}), "unknown");
}

struct IoStatusRow {
  IoStatus status;
  Word number;
  std::string_view name;
  bool complete;
};

constexpr IoStatusRow kIoStatuses[] = {
    {IoStatus::empty, 0, "empty", false},     {IoStatus::published, 1, "published", false},
    {IoStatus::claimed, 2, "claimed", false}, {IoStatus::done, 3, "done", true},
    {IoStatus{4}, 4, "unknown", false},       {IoStatus{0x0F}, 0x0F, "unknown", false},
    {IoStatus::ok, 0x10, "ok", true},         {IoStatus::error, 0x11, "error", true},
    {IoStatus{0x12}, 0x12, "unknown", false},
};

TEST(IoStatus, numbers_names_and_completion_are_those_of_the_format) {
  for (const IoStatusRow& row : kIoStatuses) {
    SCOPED_TRACE(row.number);
    EXPECT_EQ(static_cast<Word>(row.status), row.number);
    EXPECT_EQ(io_status_name(row.status), row.name);
    EXPECT_EQ(is_complete(row.status), row.complete);
  }
}

TEST(Word, is_four_bytes) {
  EXPECT_EQ(kWordBytes, 4u);
  EXPECT_EQ(sizeof(Word), 4u);
  EXPECT_EQ((WordRange{3, 29}.end()), 32u);
}

}  // namespace
}  // namespace everkernel::abi
