#include "everkernel/protocol/words.hpp"

#include <gtest/gtest.h>

#include <set>

#include "support/results.hpp"
#include "support/word_types.hpp"

namespace everkernel::protocol {
namespace {

using test::Bytes;
using test::bytes_of;
using test::code_of;
using test::LineBytes;
using test::Storage;

TEST(Buffer, names_are_those_of_the_wire_format) {
  EXPECT_EQ(buffer_name(Buffer::control), "control");
  EXPECT_EQ(buffer_name(Buffer::ring), "ring");
  EXPECT_EQ(buffer_name(Buffer::debug_log), "debug_log");
  EXPECT_EQ(buffer_name(Buffer::io_queue), "io_queue");
}

TEST(Buffer, whole_units_counts_them_or_says_corrupt) {
  EXPECT_EQ(whole_units(Buffer::ring, 0, 64), 0u);
  EXPECT_EQ(whole_units(Buffer::ring, 128, 64), 2u);
  for (const std::size_t bytes : {1u, 63u, 65u, 127u}) {
    EXPECT_EQ(code_of(whole_units(Buffer::ring, bytes, 64)), Code::corrupt) << bytes;
  }
}

TEST(Buffer, a_target_has_just_the_length_of_its_layout) {
  EXPECT_TRUE(check_target(Buffer::ring, 64, 64));
  EXPECT_EQ(code_of(check_target(Buffer::ring, 63, 64)), Code::invalid_argument);
  EXPECT_EQ(code_of(check_target(Buffer::ring, 65, 64)), Code::invalid_argument);
}

template <class Words>
class WordsTest : public testing::Test {
 protected:
  // Two slots of words 100, 101, …
  WordsTest() {
    for (Word i = 0; i < 32; ++i) test::set_word(storage_.span(), i, 100 + i);
    expected_ = storage_.bytes();
  }
  Words bind() { return *Words::bind(Buffer::ring, storage_.span()); }

  Storage<Words> storage_{128};
  Bytes expected_;
};
TYPED_TEST_SUITE(WordsTest, test::WordTypes, test::WordTypeNames);

TYPED_TEST(WordsTest, loads_and_stores_touch_one_word) {
  auto words = this->bind();
  EXPECT_EQ(words.size(), 32u);
  EXPECT_EQ(words.load_relaxed(0), 100u);
  EXPECT_EQ(words.load_acquire(31), 131u);
  words.store_relaxed(7, 0xDEADBEEF);
  words.store_release(8, 0x01020304);
  test::set_word(this->expected_, 7, 0xDEADBEEF);
  test::set_word(this->expected_, 8, 0x01020304);
  EXPECT_EQ(this->storage_.bytes(), this->expected_);
}

TYPED_TEST(WordsTest, claim_swaps_only_what_it_expects) {
  auto words = this->bind();
  EXPECT_FALSE(words.claim(3, 102, 7));
  EXPECT_EQ(this->storage_.bytes(), this->expected_);
  EXPECT_TRUE(words.claim(3, 103, 7));
  test::set_word(this->expected_, 3, 7);
  EXPECT_EQ(this->storage_.bytes(), this->expected_);
}

TYPED_TEST(WordsTest, store_slot_writes_all_sixteen_words_of_one_slot) {
  auto words = this->bind();
  words.store_slot(
      1, {abi::SlotStatus::published, 2, 3, 4, {5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}});
  for (Word i = 0; i < 16; ++i) test::set_word(this->expected_, 16 + i, 1 + i);
  EXPECT_EQ(this->storage_.bytes(), this->expected_);
}

TYPED_TEST(WordsTest, bind_refuses_broken_words) {
  for (const std::size_t length : {1u, 2u, 3u, 127u}) {
    const auto words = TypeParam::bind(Buffer::control, this->storage_.span().first(length));
    ASSERT_FALSE(words) << length;
    EXPECT_EQ(code_of(words), Code::corrupt);
  }
  EXPECT_EQ(TypeParam::bind(Buffer::control, {})->size(), 0u);
}

TEST(LiveWords, refuses_memory_that_does_not_begin_on_a_line) {
  LineBytes storage(256);
  EXPECT_TRUE(LiveWords::bind(Buffer::ring, storage.span().subspan(64)));
  for (const std::size_t offset : {1u, 4u, 32u, 60u}) {
    const auto words = LiveWords::bind(Buffer::ring, storage.span().subspan(offset, 64));
    ASSERT_FALSE(words) << offset;
    EXPECT_EQ(code_of(words), Code::invalid_argument);
  }
}

TEST(LiveWords, copy_to_gives_the_same_bytes_and_wants_the_same_length) {
  LineBytes storage(128);
  for (Word i = 0; i < 32; ++i) test::set_word(storage.span(), i, 0x01020304u * i);
  const auto words = *LiveWords::bind(Buffer::ring, storage.span());
  Bytes copy(128, std::byte{0xAA});
  ASSERT_TRUE(words.copy_to(copy));
  EXPECT_TRUE(std::ranges::equal(copy, storage.span()));
  for (const std::size_t length : {0u, 124u, 127u, 132u}) {
    Bytes target(length, std::byte{0xAA});
    const Bytes before = target;
    EXPECT_EQ(code_of(words.copy_to(target)), Code::invalid_argument) << length;
    EXPECT_EQ(target, before);
  }
}

}  // namespace
}  // namespace everkernel::protocol
