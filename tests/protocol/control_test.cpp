#include "everkernel/protocol/control.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "support/results.hpp"
#include "support/word_types.hpp"

namespace everkernel::protocol {
namespace {

using test::Bytes;
using test::bytes_of;
using test::code_of;
using test::Storage;
using test::words_of;

constexpr Word kMaxWord = 0xFFFFFFFFu;

// Every word holds 1000 + its index, so that a test finds an accessor that reads a wrong word.
Bytes numbered_control(std::size_t words) {
  std::vector<Word> content(words);
  std::iota(content.begin(), content.end(), 1000u);
  return bytes_of(content);
}

TEST(EncodeControl, matches_the_vector_of_the_wire_format) {
  std::vector<Word> expected(168, 0);
  expected[0] = 1;
  expected[2] = 3;
  expected[3] = expected[4] = expected[5] = expected[6] = 0xFFFFFFFF;
  expected[32] = expected[33] = expected[34] = expected[35] = 1'000'000;

  const ControlLayout layout{.shutdown = true, .tenant_count = 4, .observable_slots = 8};
  ASSERT_EQ(control_bytes(layout), 672u);
  Bytes target(672, std::byte{0xAA});  // stale content must be overwritten
  ASSERT_TRUE(encode_control(layout, target));
  EXPECT_EQ(words_of(target), expected);
}

TEST(EncodeControl, words_are_little_endian) {
  Bytes target(640);
  ASSERT_TRUE(encode_control({.shutdown = true, .tenant_count = 1}, target));
  const unsigned char start[] = {1, 0, 0,   0,   0,   0,   0, 0, 3, 0,
                                 0, 0, 255, 255, 255, 255, 0, 0, 0, 0};
  EXPECT_EQ(std::memcmp(target.data(), start, sizeof start), 0);
  const unsigned char quota[] = {0x40, 0x42, 0x0F, 0x00};  // 1,000,000
  EXPECT_EQ(std::memcmp(target.data() + 128, quota, sizeof quota), 0);
}

TEST(EncodeControl, fills_the_whole_tenant_table_and_stops_before_the_quotas) {
  Bytes target(640);
  ASSERT_TRUE(encode_control({.tenant_count = 29}, target));
  std::vector<Word> expected(160, 0);
  expected[2] = 3;
  std::fill_n(&expected[3], 29, 0xFFFFFFFF);
  std::fill_n(&expected[32], 29, 1'000'000u);
  EXPECT_EQ(words_of(target), expected);
}

TEST(ControlBytes, hold_their_limits) {
  struct Row {
    Word tenants, observables;
    std::size_t expected;  // 0: refused
  };
  constexpr Row kRows[] = {
      {0, 0, 640},
      {1, 0, 640},
      {29, 0, 640},
      {30, 0, 0},
      {kMaxWord, 0, 0},
      {1, 1, 644},
      {1, 1'048'576, 4'194'944},
      {1, 1'048'577, 0},
      {1, kMaxWord, 0},
  };
  for (const Row& row : kRows) {
    SCOPED_TRACE(testing::Message() << row.tenants << " tenants, " << row.observables);
    const auto bytes =
        control_bytes({.tenant_count = row.tenants, .observable_slots = row.observables});
    EXPECT_EQ(bytes.value_or(0), row.expected);
    if (!bytes) {
      EXPECT_EQ(code_of(bytes), Code::invalid_argument);
    }
  }
}

TEST(EncodeControl, writes_the_largest_buffer_whole) {
  Bytes target(4'194'944, std::byte{0xAA});
  ASSERT_TRUE(encode_control({.observable_slots = 1'048'576}, target));
  EXPECT_EQ(test::word_at(target, 160 + 1'048'575), 0u);
}

TEST(EncodeControl, leaves_the_target_alone_when_it_refuses) {
  struct Row {
    ControlLayout layout;
    std::size_t target_bytes;
  };
  const Row kRows[] = {
      {{.tenant_count = 30}, 640},
      {{.observable_slots = 1'048'577}, 640},
      {{}, 639},
      {{}, 641},
      {{}, 644},
      {{}, 0},
      {{.observable_slots = 1}, 640},
  };
  for (const Row& row : kRows) {
    SCOPED_TRACE(row.target_bytes);
    Bytes target(row.target_bytes, std::byte{0xAA});
    const Bytes before = target;
    const auto result = encode_control(row.layout, target);
    ASSERT_FALSE(result);
    EXPECT_EQ(code_of(result), Code::invalid_argument);
    EXPECT_EQ(target, before);
  }
}

TEST(PriorityOffsets, give_a_fifth_each_and_the_remainder_to_normal) {
  struct Row {
    Word slots;
    std::array<Word, 6> expected;
  };
  constexpr Row kRows[] = {
      {0, {0, 0, 0, 0, 0, 0}},
      {1, {0, 0, 0, 1, 1, 1}},
      {4, {0, 0, 0, 4, 4, 4}},
      {5, {0, 1, 2, 3, 4, 5}},
      {7, {0, 1, 2, 5, 6, 7}},
      {256, {0, 51, 102, 154, 205, 256}},
      {1024, {0, 204, 408, 616, 820, 1024}},
      {268'435'455, {0, 53'687'091, 107'374'182, 161'061'273, 214'748'364, 268'435'455}},
      {kMaxWord, {0, 858'993'459, 1'717'986'918, 2'576'980'377, 3'435'973'836, kMaxWord}},
  };
  for (const Row& row : kRows) EXPECT_EQ(default_priority_offsets(row.slots), row.expected);
}

// A reader of the first bytes of a control buffer, its minimum and the value in numbered_control.
struct PrefixReader {
  const char* name;
  std::size_t minimum_bytes;
  Result<Word> (*read)(std::span<const std::byte>);
  Word expected;
};

constexpr PrefixReader kPrefixReaders[] = {
    {"done_count", 8, read_done_count, 1001},
    {"epoch", 516, read_epoch, 1128},
    {"metrics", 512,
     [](std::span<const std::byte> control) -> Result<Word> {
       const auto metrics = read_metrics(control);
       if (!metrics) return Failure(metrics.error());
       return metrics->back();
     },
     1127},
    {"the whole buffer", 640,
     [](std::span<const std::byte> control) -> Result<Word> {
       const auto view = ControlView::parse(control);
       if (!view) return Failure(view.error());
       return view->debug_dropped();
     },
     1144},
};

TEST(ControlReaders, accept_their_minimum_and_anything_longer) {
  for (const PrefixReader& reader : kPrefixReaders) {
    SCOPED_TRACE(reader.name);
    const Bytes control = numbered_control(200);
    EXPECT_EQ(reader.read(std::span(control).first(reader.minimum_bytes)), reader.expected);
    EXPECT_EQ(reader.read(std::span(control).first(reader.minimum_bytes + 4)), reader.expected);
    EXPECT_EQ(reader.read(control), reader.expected);
  }
}

TEST(ControlReaders, refuse_one_byte_or_one_word_less_and_broken_words) {
  for (const PrefixReader& reader : kPrefixReaders) {
    const Bytes control = numbered_control(200);
    for (const std::size_t length : {reader.minimum_bytes - 1, reader.minimum_bytes - 4,
                                     std::size_t{0}, reader.minimum_bytes + 1}) {
      SCOPED_TRACE(testing::Message() << reader.name << " of " << length << " bytes");
      const auto result = reader.read(std::span(control).first(length));
      ASSERT_FALSE(result);
      EXPECT_EQ(code_of(result), Code::corrupt);
    }
  }
}

TEST(ControlReaders, metrics_are_words_96_to_127) {
  const auto metrics = read_metrics(numbered_control(128));
  ASSERT_TRUE(metrics);
  std::array<Word, 32> expected;
  std::iota(expected.begin(), expected.end(), 1096u);
  EXPECT_EQ(*metrics, expected);
}

TEST(ControlView, reads_each_field_from_its_word) {
  const Bytes control = numbered_control(162);
  const auto view = ControlView::parse(control);
  ASSERT_TRUE(view);
  struct Row {
    const char* name;
    Word found, expected;
  };
  const Row kRows[] = {
      {"done_count", view->done_count(), 1001},
      {"first quota", view->tenant_quota(0), 1032},
      {"last quota", view->tenant_quota(31), 1063},
      {"first fairness", view->tenant_fairness(0), 1064},
      {"last fairness", view->tenant_fairness(31), 1095},
      {"first metric", view->metric(0), 1096},
      {"last metric", view->metric(31), 1127},
      {"epoch", view->epoch(), 1128},
      {"critical fairness", view->priority_fairness(0), 1136},
      {"idle fairness", view->priority_fairness(4), 1140},
      {"fault_count", view->fault_count(), 1143},
      {"debug_dropped", view->debug_dropped(), 1144},
      {"observables", view->observable_count(), 2},
  };
  for (const Row& row : kRows) EXPECT_EQ(row.found, row.expected) << row.name;
  EXPECT_EQ(view->priority_offsets(), (std::array<Word, 6>{1129, 1130, 1131, 1132, 1133, 1134}));
  EXPECT_TRUE(view->shutdown());
}

TEST(ControlView, any_nonzero_word_means_shutdown) {
  Bytes control(640);
  EXPECT_FALSE(ControlView::parse(control)->shutdown());
  test::set_word(control, 0, 0x80000000u);
  EXPECT_TRUE(ControlView::parse(control)->shutdown());
}

TEST(ControlView, reads_observables_up_to_the_last) {
  const Bytes control = numbered_control(162);
  const auto view = ControlView::parse(control);
  EXPECT_EQ(view->observable(0), 1160u);
  EXPECT_EQ(view->observable(1), 1161u);
  for (const Word index :
       {2u, kMaxWord - 159, kMaxWord}) {  // the second wraps to word 0 in 32 bits
    const auto observable = view->observable(index);
    ASSERT_FALSE(observable) << index;
    EXPECT_EQ(code_of(observable), Code::invalid_argument);
  }
}

TEST(ControlView, has_no_observables_at_its_minimum) {
  const Bytes control(640);
  EXPECT_EQ(ControlView::parse(control)->observable_count(), 0u);
  EXPECT_FALSE(ControlView::parse(control)->observable(0));
}

TEST(ControlView, a_tenant_is_enabled_by_a_mask_inside_the_table_only) {
  struct Row {
    const char* name;
    Word base, tenant, mask_word;  // the one mask that is set
    bool expected;
  };
  constexpr Row kRows[] = {
      {"first tenant", 3, 0, 3, true},
      {"last tenant", 3, 28, 31, true},
      {"its mask is zero", 3, 1, 3, false},
      {"tenant 29 would read a quota", 3, 29, 32, false},
      {"tenant of the largest number", 3, kMaxWord, 3, false},
      {"a base of 0 shifts the ids", 0, 3, 3, true},
      {"a base of 0 has no mask for tenant 0", 0, 0, 0, false},
      {"a base of 0 has no mask for tenant 2", 0, 2, 2, false},
      {"a base of 0 gives tenant 31 the last mask", 0, 31, 31, true},
      {"base behind the table", 32, 0, 32, false},
      {"last word of the table as base", 31, 0, 31, true},
      {"one past it", 31, 1, 32, false},
      {"a sum that wraps in 32 bits", kMaxWord, 4, 3, false},
  };
  for (const Row& row : kRows) {
    Bytes control(640);
    test::set_word(control, row.mask_word, 1);
    test::set_word(control, 2, row.base);
    EXPECT_EQ(ControlView::parse(control)->tenant_enabled(row.tenant), row.expected) << row.name;
  }
}

TEST(ControlViewDeathTest, an_index_outside_a_table_stops_the_program) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  const Bytes control(640);
  const auto view = ControlView::parse(control);
  EXPECT_DEATH((void)view->metric(32), "index");
  EXPECT_DEATH((void)view->priority_fairness(5), "index");
}

template <class Words>
class ControlWriterTest : public testing::Test {
 protected:
  using Writer = BasicControlWriter<Words>;
  Storage<Words> storage_{numbered_control(162)};
  std::vector<Word> expected_ = words_of(storage_.span());
};
TYPED_TEST_SUITE(ControlWriterTest, test::WordTypes, test::WordTypeNames);

TYPED_TEST(ControlWriterTest, sets_and_clears_shutdown) {
  auto writer = TestFixture::Writer::bind(this->storage_.span());
  ASSERT_TRUE(writer);
  writer->set_shutdown(true);
  this->expected_[0] = 1;
  EXPECT_EQ(words_of(this->storage_.span()), this->expected_);
  writer->set_shutdown(false);
  this->expected_[0] = 0;
  EXPECT_EQ(words_of(this->storage_.span()), this->expected_);
}

TYPED_TEST(ControlWriterTest, changes_the_mask_and_quota_of_the_first_and_last_tenant) {
  auto writer = TestFixture::Writer::bind(this->storage_.span());
  ASSERT_TRUE(writer);
  EXPECT_TRUE(writer->set_tenant_enabled(0, false));
  EXPECT_TRUE(writer->set_tenant_enabled(28, true));
  EXPECT_TRUE(writer->set_tenant_quota(0, 0));
  EXPECT_TRUE(writer->set_tenant_quota(28, kMaxWord));
  this->expected_[3] = 0;
  this->expected_[31] = 0xFFFFFFFF;
  this->expected_[32] = 0;
  this->expected_[60] = kMaxWord;
  EXPECT_EQ(words_of(this->storage_.span()), this->expected_);
}

TYPED_TEST(ControlWriterTest, refuses_tenants_without_an_entry) {
  auto writer = TestFixture::Writer::bind(this->storage_.span());
  ASSERT_TRUE(writer);
  for (const Word tenant : {29u, 31u, 32u, kMaxWord}) {
    SCOPED_TRACE(tenant);
    EXPECT_EQ(code_of(writer->set_tenant_enabled(tenant, true)), Code::invalid_argument);
    EXPECT_EQ(code_of(writer->set_tenant_quota(tenant, 5)), Code::invalid_argument);
  }
  EXPECT_EQ(words_of(this->storage_.span()), this->expected_);
}

TYPED_TEST(ControlWriterTest, splits_a_ring_among_the_priorities) {
  auto writer = TestFixture::Writer::bind(this->storage_.span());
  ASSERT_TRUE(writer);
  ASSERT_TRUE(writer->set_priority_offsets(256));
  constexpr Word kOffsets[] = {0, 51, 102, 154, 205, 256};
  std::ranges::copy(kOffsets, &this->expected_[129]);
  EXPECT_EQ(words_of(this->storage_.span()), this->expected_);
}

TYPED_TEST(ControlWriterTest, refuses_to_split_a_ring_that_cannot_be) {
  auto writer = TestFixture::Writer::bind(this->storage_.span());
  ASSERT_TRUE(writer);
  EXPECT_TRUE(writer->set_priority_offsets(1));
  EXPECT_TRUE(writer->set_priority_offsets(268'435'455));
  const Bytes before = this->storage_.bytes();
  for (const Word slots : {0u, 268'435'456u, kMaxWord}) {
    EXPECT_EQ(code_of(writer->set_priority_offsets(slots)), Code::invalid_argument) << slots;
  }
  EXPECT_EQ(this->storage_.bytes(), before);
}

TYPED_TEST(ControlWriterTest, binds_whole_buffers_only) {
  const auto control = this->storage_.span();
  EXPECT_TRUE(TestFixture::Writer::bind(control.first(640)));
  for (const std::size_t length : {0u, 636u, 639u, 641u}) {
    const auto writer = TestFixture::Writer::bind(control.first(length));
    ASSERT_FALSE(writer) << length;
    EXPECT_EQ(code_of(writer), Code::corrupt);
  }
}

}  // namespace
}  // namespace everkernel::protocol
