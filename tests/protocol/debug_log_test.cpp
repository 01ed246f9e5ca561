#include "everkernel/protocol/debug_log.hpp"

#include <gtest/gtest.h>

#include "support/results.hpp"
#include "support/word_types.hpp"

namespace everkernel::protocol {
namespace {

using abi::DebugRecord;
using test::Bytes;
using test::bytes_of;
using test::code_of;
using test::Storage;
using test::words_of;

constexpr Word kMaxWord = 0xFFFFFFFFu;

TEST(DebugLogBytes, hold_their_limits) {
  struct Row {
    Word records;
    std::size_t expected;  // 0: refused
  };
  constexpr Row kRows[] = {{0, 4},         {1, 20},      {2, 36}, {1'048'576, 16'777'220},
                           {1'048'577, 0}, {kMaxWord, 0}};
  for (const Row& row : kRows) {
    const auto bytes = debug_log_bytes(row.records);
    EXPECT_EQ(bytes.value_or(0), row.expected) << row.records;
    if (!bytes) {
      EXPECT_EQ(code_of(bytes), Code::invalid_argument);
    }
  }
}

TEST(EncodeDebugLog, clears_its_target) {
  Bytes target(36, std::byte{0xAA});
  ASSERT_TRUE(encode_debug_log(2, target));
  EXPECT_EQ(target, Bytes(36));
}

TEST(EncodeDebugLog, leaves_the_target_alone_when_it_refuses) {
  struct Row {
    Word records;
    std::size_t target_bytes;
  };
  constexpr Row kRows[] = {{1'048'577, 20}, {1, 0}, {1, 16}, {1, 19}, {1, 21}, {1, 24}, {0, 0}};
  for (const Row& row : kRows) {
    Bytes target(row.target_bytes, std::byte{0xAA});
    const Bytes before = target;
    const auto result = encode_debug_log(row.records, target);
    ASSERT_FALSE(result) << row.records << " into " << row.target_bytes;
    EXPECT_EQ(code_of(result), Code::invalid_argument);
    EXPECT_EQ(target, before);
  }
}

TEST(DebugLogView, reads_the_records_before_the_cursor) {
  const Bytes log = bytes_of({8, 1, 2, 3, 16, 5, 6, 7, 32, 90, 91, 92, 93});
  const auto view = DebugLogView::parse(log);
  ASSERT_TRUE(view);
  EXPECT_EQ(view->record_capacity(), 3u);
  ASSERT_EQ(view->record_count(), 2u);
  EXPECT_EQ(view->record(0), (DebugRecord{1, {2, 3, 16}}));
  EXPECT_EQ(view->record(1), (DebugRecord{5, {6, 7, 32}}));
}

TEST(DebugLogView, takes_cursors_at_record_borders_inside_the_log) {
  struct Row {
    const char* name;
    std::size_t words;  // of the whole buffer
    Word cursor;
    bool is_accepted;
  };
  constexpr Row kRows[] = {
      {"an empty log without room", 1, 0, true},
      {"a cursor where there is no room", 1, 4, false},
      {"one word in a log without room", 1, 1, false},
      {"room for less than a record", 4, 0, true},
      {"a cursor into less than a record", 4, 3, false},
      {"a cursor past less than a record", 4, 4, false},
      {"empty", 9, 0, true},
      {"inside the first record", 9, 1, false},
      {"last word of the first record", 9, 3, false},
      {"one record", 9, 4, true},
      {"inside the second", 9, 5, false},
      {"full", 9, 8, true},
      {"one word past full", 9, 9, false},
      {"one record past full", 9, 12, false},
      {"full with words left over", 12, 8, true},
      {"a record into the words left over", 12, 12, false},
      {"all ones", 9, kMaxWord, false},
      {"largest multiple of a record", 9, kMaxWord - 3, false},
  };
  for (const Row& row : kRows) {
    Bytes log(row.words * 4);
    test::set_word(log, 0, row.cursor);
    const auto view = DebugLogView::parse(log);
    EXPECT_EQ(view.has_value(), row.is_accepted) << row.name;
    if (view) {
      EXPECT_EQ(view->record_count(), row.cursor / 4) << row.name;
    }
    if (!view) {
      EXPECT_EQ(code_of(view), Code::corrupt) << row.name;
    }
  }
}

TEST(DebugLogView, wants_whole_words_and_a_cursor) {
  const Bytes log(40);
  for (const std::size_t length : {0u, 1u, 3u, 5u, 39u}) {
    const auto view = DebugLogView::parse(std::span(log).first(length));
    ASSERT_FALSE(view) << length;
    EXPECT_EQ(code_of(view), Code::corrupt);
  }
  EXPECT_EQ(DebugLogView::parse(std::span(log).first(4))->record_capacity(), 0u);
}

TEST(DebugLogView, has_no_more_room_than_a_log_may_have) {
  Bytes log(16'777'220 + 16);
  EXPECT_EQ(DebugLogView::parse(log)->record_capacity(), 1'048'576u);
  test::set_word(log, 0, 4 * 1'048'576);
  EXPECT_TRUE(DebugLogView::parse(log));
  test::set_word(log, 0, 4 * 1'048'577);
  EXPECT_FALSE(DebugLogView::parse(log));
}

TEST(DebugLogViewDeathTest, a_record_past_the_cursor_stops_the_program) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  const Bytes log(20);
  const auto view = *DebugLogView::parse(log);
  EXPECT_DEATH((void)view.record(0), "record_count");
}

template <class Words>
class DebugLogWriterTest : public testing::Test {
 protected:
  using Writer = BasicDebugLogWriter<Words>;
};
TYPED_TEST_SUITE(DebugLogWriterTest, test::WordTypes, test::WordTypeNames);

TYPED_TEST(DebugLogWriterTest, appends_until_full_and_never_past_the_capacity) {
  Storage<TypeParam> log(bytes_of({0, 0, 0, 0, 0, 0, 0, 0, 0, 77, 77}));  // two words left over
  auto writer = TestFixture::Writer::bind(log.span());
  ASSERT_TRUE(writer);
  EXPECT_TRUE(writer->append({11, {12, 13, 16}}));
  EXPECT_EQ(log.bytes(), bytes_of({4, 11, 12, 13, 16, 0, 0, 0, 0, 77, 77}));
  EXPECT_TRUE(writer->append({21, {22, 23, 32}}));
  const Bytes full = bytes_of({8, 11, 12, 13, 16, 21, 22, 23, 32, 77, 77});
  EXPECT_EQ(log.bytes(), full);
  EXPECT_FALSE(writer->append({31, {32, 33, 48}}));
  EXPECT_FALSE(writer->append({41, {42, 43, 64}}));
  EXPECT_EQ(log.bytes(), full);
}

TYPED_TEST(DebugLogWriterTest, goes_on_where_the_cursor_stands) {
  Storage<TypeParam> log(bytes_of({4, 1, 2, 3, 4, 0, 0, 0, 0}));
  auto writer = TestFixture::Writer::bind(log.span());
  EXPECT_TRUE(writer->append({5, {6, 7, 8}}));
  EXPECT_EQ(log.bytes(), bytes_of({8, 1, 2, 3, 4, 5, 6, 7, 8}));
}

TYPED_TEST(DebugLogWriterTest, a_cursor_that_makes_no_sense_changes_nothing) {
  for (const Word cursor : {1u, 2u, 3u, 5u, 9u, 12u, kMaxWord, kMaxWord - 3}) {
    Storage<TypeParam> log(bytes_of({cursor, 0, 0, 0, 0, 0, 0, 0, 0}));
    const Bytes before = log.bytes();
    auto writer = TestFixture::Writer::bind(log.span());
    ASSERT_TRUE(writer);
    EXPECT_FALSE(writer->append({1, {2, 3, 4}})) << cursor;
    EXPECT_EQ(log.bytes(), before);
  }
}

TYPED_TEST(DebugLogWriterTest, a_log_without_records_is_always_full) {
  Storage<TypeParam> log(4);
  auto writer = TestFixture::Writer::bind(log.span());
  ASSERT_TRUE(writer);
  EXPECT_FALSE(writer->append({1, {2, 3, 4}}));
  EXPECT_EQ(log.bytes(), Bytes(4));
}

TYPED_TEST(DebugLogWriterTest, binds_whole_words_with_a_cursor_only) {
  Storage<TypeParam> log(40);
  for (const std::size_t length : {0u, 1u, 3u, 39u}) {
    const auto writer = TestFixture::Writer::bind(log.span().first(length));
    ASSERT_FALSE(writer) << length;
    EXPECT_EQ(code_of(writer), Code::corrupt);
  }
}

TEST(LiveDebugLogWriter, refuses_memory_that_does_not_begin_on_a_line) {
  test::LineBytes storage(64);
  EXPECT_EQ(code_of(LiveDebugLogWriter::bind(storage.span().subspan(4))), Code::invalid_argument);
}

}  // namespace
}  // namespace everkernel::protocol
