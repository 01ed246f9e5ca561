#include "everkernel/protocol/io_queue.hpp"

#include <gtest/gtest.h>

#include "support/results.hpp"
#include "support/word_types.hpp"

namespace everkernel::protocol {
namespace {

using abi::IoOp;
using abi::IoStatus;
using test::Bytes;
using test::bytes_of;
using test::code_of;
using test::Storage;
using test::words_of;

constexpr Word kMaxWord = 0xFFFFFFFFu;

TEST(IoQueueBytes, hold_their_limits) {
  struct Row {
    Word slots;
    std::size_t expected;  // 0: refused
  };
  constexpr Row kRows[] = {{0, 0}, {1, 32}, {63, 2016}, {64, 2048}, {65, 0}, {kMaxWord, 0}};
  for (const Row& row : kRows) {
    const auto bytes = io_queue_bytes(row.slots);
    EXPECT_EQ(bytes.value_or(0), row.expected) << row.slots;
    if (!bytes) {
      EXPECT_EQ(code_of(bytes), Code::invalid_argument);
    }
  }
}

TEST(EncodeIoQueue, clears_its_target) {
  Bytes target(2048, std::byte{0xAA});
  ASSERT_TRUE(encode_io_queue(64, target));
  EXPECT_EQ(target, Bytes(2048));
}

TEST(EncodeIoQueue, leaves_the_target_alone_when_it_refuses) {
  struct Row {
    Word slots;
    std::size_t target_bytes;
  };
  constexpr Row kRows[] = {{0, 0}, {0, 32}, {65, 2080}, {1, 0}, {1, 31}, {1, 33}, {2, 32}};
  for (const Row& row : kRows) {
    Bytes target(row.target_bytes, std::byte{0xAA});
    const Bytes before = target;
    const auto result = encode_io_queue(row.slots, target);
    ASSERT_FALSE(result) << row.slots << " into " << row.target_bytes;
    EXPECT_EQ(code_of(result), Code::invalid_argument);
    EXPECT_EQ(target, before);
  }
}

TEST(IoQueueView, takes_1_to_64_whole_slots) {
  const Bytes queue(65 * 32);
  EXPECT_EQ(IoQueueView::parse(std::span(queue).first(32))->slot_count(), 1u);
  EXPECT_EQ(IoQueueView::parse(std::span(queue).first(2048))->slot_count(), 64u);
  for (const std::size_t length : {0u, 1u, 4u, 31u, 33u, 2047u, 2080u}) {
    const auto view = IoQueueView::parse(std::span(queue).first(length));
    ASSERT_FALSE(view) << length;
    EXPECT_EQ(code_of(view), Code::corrupt);
  }
}

TEST(IoQueueView, reads_every_word_of_a_slot) {
  const Bytes queue =
      bytes_of({0, 0, 0, 0, 0, 0, 0, 0, 2, 101, 102, 0x89ABCDEF, 0x01234567, 105, 0x11, 107});
  const abi::IoSlot slot = IoQueueView::parse(queue)->slot(1);
  EXPECT_EQ(slot.op, IoOp::write);
  EXPECT_EQ(slot.src_handle, 101u);
  EXPECT_EQ(slot.dst_handle, 102u);
  EXPECT_EQ(slot.offset(), 0x0123456789ABCDEFull);
  EXPECT_EQ(slot.byte_count, 105u);
  EXPECT_EQ(slot.status, IoStatus::error);
  EXPECT_EQ(slot.tag, 107u);
}

TEST(IoQueueViewDeathTest, a_slot_past_the_last_stops_the_program) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  const Bytes queue(32);
  const auto view = *IoQueueView::parse(queue);
  EXPECT_DEATH((void)view.slot(1), "slot_index");
}

template <class Words>
class IoQueueWriterTest : public testing::Test {
 protected:
  using Writer = BasicIoQueueWriter<Words>;
};
TYPED_TEST_SUITE(IoQueueWriterTest, test::WordTypes, test::WordTypeNames);

TYPED_TEST(IoQueueWriterTest, a_request_lives_from_empty_to_empty) {
  Storage<TypeParam> queue(32);
  auto writer = TestFixture::Writer::bind(queue.span());
  ASSERT_TRUE(writer);
  EXPECT_EQ(writer->submit({.op = IoOp::read,
                            .src_handle = 5,
                            .dst_handle = 6,
                            .offset = 0x0123456789ABCDEFull,
                            .byte_count = 4096,
                            .tag = 77}),
            0u);
  EXPECT_EQ(queue.bytes(), bytes_of({1, 5, 6, 0x89ABCDEF, 0x01234567, 4096, 1, 77}));
  EXPECT_TRUE(writer->complete(0, 0));
  EXPECT_EQ(queue.bytes(), bytes_of({1, 5, 6, 0x89ABCDEF, 0x01234567, 4096, 0x10, 77}));
  EXPECT_TRUE(writer->release(0));
  EXPECT_EQ(test::word_at(queue.span(), 6), 0u);
  EXPECT_EQ(writer->submit({.op = IoOp::fence, .tag = 78}), 0u);
  EXPECT_EQ(queue.bytes(), bytes_of({3, 0, 0, 0, 0, 0, 1, 78}));
}

TYPED_TEST(IoQueueWriterTest, an_error_number_replaces_the_tag) {
  Storage<TypeParam> queue(bytes_of({1, 5, 6, 0, 0, 0, 1, 77}));
  auto writer = TestFixture::Writer::bind(queue.span());
  EXPECT_TRUE(writer->complete(0, 13));
  EXPECT_EQ(queue.bytes(), bytes_of({1, 5, 6, 0, 0, 0, 0x11, 13}));
  EXPECT_TRUE(writer->release(0));
}

TYPED_TEST(IoQueueWriterTest, submit_takes_the_first_empty_slot_until_none_is_left) {
  constexpr Word kStatuses[] = {1, 0, 3, 0};
  Storage<TypeParam> queue(4 * 32);
  for (std::size_t i = 0; i < 4; ++i) test::set_word(queue.span(), i * 8 + 6, kStatuses[i]);
  auto writer = TestFixture::Writer::bind(queue.span());
  EXPECT_EQ(writer->submit({.tag = 1}), 1u);
  EXPECT_EQ(writer->submit({.tag = 2}), 3u);
  const Bytes full = queue.bytes();
  const auto refused = writer->submit({.tag = 3});
  ASSERT_FALSE(refused);
  EXPECT_EQ(code_of(refused), Code::queue_full);
  EXPECT_EQ(queue.bytes(), full);
}

TYPED_TEST(IoQueueWriterTest, submit_fills_a_queue_of_the_largest_size) {
  Storage<TypeParam> queue(64 * 32);
  auto writer = TestFixture::Writer::bind(queue.span());
  for (Word i = 0; i < 64; ++i) EXPECT_EQ(writer->submit({.tag = i}), i);
  EXPECT_EQ(code_of(writer->submit({})), Code::queue_full);
}

TYPED_TEST(IoQueueWriterTest, submit_refuses_operations_it_does_not_know) {
  Storage<TypeParam> queue(32);
  auto writer = TestFixture::Writer::bind(queue.span());
  for (const Word op : {0u, 4u, kMaxWord}) {
    EXPECT_EQ(code_of(writer->submit({.op = IoOp{op}})), Code::invalid_argument) << op;
  }
  EXPECT_EQ(queue.bytes(), Bytes(32));
}

TYPED_TEST(IoQueueWriterTest, complete_and_release_act_on_their_own_statuses_only) {
  struct Row {
    Word status;
    bool can_complete, can_release;
  };
  constexpr Row kRows[] = {
      {0, false, false},    {1, true, false},         {2, true, false},    {3, false, true},
      {4, false, false},    {0x0F, false, false},     {0x10, false, true}, {0x11, false, true},
      {0x12, false, false}, {kMaxWord, false, false},
  };
  for (const Row& row : kRows) {
    SCOPED_TRACE(row.status);
    const auto expect = [&](bool is_accepted, Word status_after, auto call) {
      Storage<TypeParam> queue(bytes_of({1, 5, 6, 7, 8, 9, row.status, 77}));
      std::vector<Word> expected = words_of(queue.span());
      auto writer = TestFixture::Writer::bind(queue.span());
      const auto result = call(*writer);
      EXPECT_EQ(result.has_value(), is_accepted);
      if (!result) {
        EXPECT_EQ(code_of(result), Code::invalid_argument);
      }
      if (is_accepted) expected[6] = status_after;
      EXPECT_EQ(words_of(queue.span()), expected);
    };
    expect(row.can_complete, 0x10, [](auto& writer) { return writer.complete(0, 0); });
    expect(row.can_release, 0, [](auto& writer) { return writer.release(0); });
  }
}

TYPED_TEST(IoQueueWriterTest, complete_and_release_refuse_a_slot_that_is_not_there) {
  Storage<TypeParam> queue(2 * 32);
  auto writer = TestFixture::Writer::bind(queue.span());
  for (const Word slot : {2u, 0x08000000u, kMaxWord}) {
    EXPECT_EQ(code_of(writer->complete(slot, 0)), Code::invalid_argument) << slot;
    EXPECT_EQ(code_of(writer->release(slot)), Code::invalid_argument) << slot;
  }
}

TYPED_TEST(IoQueueWriterTest, binds_1_to_64_whole_slots_only) {
  Storage<TypeParam> queue(65 * 32);
  EXPECT_TRUE(TestFixture::Writer::bind(queue.span().first(2048)));
  for (const std::size_t length : {0u, 31u, 33u, 2080u}) {
    const auto writer = TestFixture::Writer::bind(queue.span().first(length));
    ASSERT_FALSE(writer) << length;
    EXPECT_EQ(code_of(writer), Code::corrupt);
  }
}

TEST(LiveIoQueueWriter, refuses_memory_that_does_not_begin_on_a_line) {
  test::LineBytes storage(128);
  EXPECT_EQ(code_of(LiveIoQueueWriter::bind(storage.span().subspan(32, 32))),
            Code::invalid_argument);
}

}  // namespace
}  // namespace everkernel::protocol
