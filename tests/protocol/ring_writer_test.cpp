#include "everkernel/protocol/ring_writer.hpp"

#include <gtest/gtest.h>

#include <string>

#include "support/results.hpp"
#include "support/word_types.hpp"

namespace everkernel::protocol {
namespace {

using abi::WorkItem;
using test::Bytes;
using test::bytes_of;
using test::code_of;
using test::Storage;
using test::words_of;

constexpr Word kMaxWord = 0xFFFFFFFFu;
constexpr Word kAnyArgs[1000] = {};

// Numbers that occur nowhere else in a message, so that they identify the rule of an error.
constexpr Word kFarSlot = 4242;
constexpr Word kBadTenant = 1029;
constexpr Word kBadPriority = 2005;
constexpr Word kBadOpcode = 0x8000BEEF;
constexpr Word kBadStatus = 99099;
constexpr std::size_t kManyArgs = 813;

// The arguments that rules check; each publish function uses those that it has.
struct Attempt {
  Word slot = 1;
  Word tenant = 3;
  Word priority = 1;
  Word opcode = 40;
  std::size_t args = 2;
  std::size_t ops = 1;
  Word status = 0;  // of slot 1
};

// One rule: how to break it, and the words that its error must contain.
struct Rule {
  const char* marker;
  Code code;
  void (*break_it)(Attempt&);
};

constexpr Rule kSlotRule{"4242", Code::invalid_argument, [](Attempt& a) { a.slot = kFarSlot; }};
constexpr Rule kArgsRule{"813", Code::invalid_argument, [](Attempt& a) { a.args = kManyArgs; }};
constexpr Rule kTenantRule{"1029", Code::invalid_argument,
                           [](Attempt& a) { a.tenant = kBadTenant; }};
constexpr Rule kPriorityRule{"2005", Code::invalid_argument,
                             [](Attempt& a) { a.priority = kBadPriority; }};
constexpr Rule kOpcodeRule{"2147532527", Code::invalid_argument,
                           [](Attempt& a) { a.opcode = kBadOpcode; }};
constexpr Rule kPackingRule{"424 packed", Code::invalid_argument, [](Attempt& a) { a.ops = 424; }};
constexpr Rule kStatusRule{"99099", Code::queue_full, [](Attempt& a) { a.status = kBadStatus; }};

// Breaks every rule alone and every two together: the error is that of the first one, and the ring
// stays as it was. `publish` takes a bound writer and an attempt and gives the error, if any.
template <class Words, class Publish>
void expect_first_broken_rule_is_reported(std::span<const Rule> rules, Publish publish) {
  for (std::size_t first = 0; first < rules.size(); ++first) {
    for (std::size_t second = first; second < rules.size(); ++second) {
      SCOPED_TRACE(std::string(rules[first].marker) + " and " + rules[second].marker);
      Attempt attempt;
      rules[second].break_it(attempt);
      rules[first].break_it(attempt);
      Storage<Words> ring(Bytes(4 * 64, std::byte{0}));
      test::set_word(ring.span(), 16, attempt.status);
      const Bytes before = ring.bytes();
      auto writer = BasicRingWriter<Words>::bind(ring.span());
      ASSERT_TRUE(writer);

      const std::optional<Error> error = publish(*writer, attempt);
      ASSERT_TRUE(error);
      EXPECT_EQ(error->code, rules[first].code);
      EXPECT_NE(error->message.find(rules[first].marker), std::string::npos) << error->message;
      EXPECT_EQ(ring.bytes(), before);
    }
  }
}

template <class Result>
std::optional<Error> error_of(const Result& result) {
  return result ? std::nullopt : std::optional(result.error());
}

template <class Words>
class RingWriterTest : public testing::Test {
 protected:
  using Writer = BasicRingWriter<Words>;

  // A ring whose slots are stale: every word but the status is 0xAAAAAAAA.
  static Bytes stale_ring(std::span<const Word> statuses) {
    Bytes ring(statuses.size() * 64, std::byte{0xAA});
    for (std::size_t i = 0; i < statuses.size(); ++i) test::set_word(ring, i * 16, statuses[i]);
    return ring;
  }
};
TYPED_TEST_SUITE(RingWriterTest, test::WordTypes, test::WordTypeNames);

// --- one slot ---------------------------------------------------------------------------------

TYPED_TEST(RingWriterTest, publish_matches_the_vector_of_the_wire_format) {
  Storage<TypeParam> ring(4 * 64);
  auto writer = TestFixture::Writer::bind(ring.span());
  ASSERT_TRUE(writer);
  EXPECT_EQ(writer->slot_count(), 4u);
  constexpr Word kArgs[] = {5, 7, 11};
  ASSERT_TRUE(writer->publish({.slot_index = 1, .tenant = 9, .opcode = 2, .args = kArgs}));

  std::vector<Word> expected(64, 0);
  constexpr Word kSlot[] = {1, 2, 9, 2, 5, 7, 11, 0, 0, 0, 0, 0, 0, 0, 0, 0};
  std::ranges::copy(kSlot, &expected[16]);
  EXPECT_EQ(words_of(ring.span()), expected);
}

TYPED_TEST(RingWriterTest, publish_overwrites_every_stale_word) {
  constexpr Word kStatuses[] = {3};
  Storage<TypeParam> ring(TestFixture::stale_ring(kStatuses));
  auto writer = TestFixture::Writer::bind(ring.span());
  constexpr Word kArgs[] = {0xFFFFFFFF};
  ASSERT_TRUE(writer->publish({.tenant = 28, .priority = 4, .opcode = 0x7FFFFFFF, .args = kArgs}));
  EXPECT_EQ(ring.bytes(),
            bytes_of({1, 0x7FFFFFFF, 28, 4, 0xFFFFFFFF, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}));
}

TYPED_TEST(RingWriterTest, publish_takes_none_to_twelve_arguments) {
  constexpr Word kArgs[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13};
  struct Row {
    std::size_t count;
    bool is_accepted;
  };
  constexpr Row kRows[] = {{0, true},  {1, true},   {11, true},
                           {12, true}, {13, false}, {1000, false}};
  for (const Row& row : kRows) {
    SCOPED_TRACE(row.count);
    Storage<TypeParam> ring(64);
    auto writer = TestFixture::Writer::bind(ring.span());
    const std::span<const Word> args =
        row.count <= 13 ? std::span(kArgs).first(row.count) : std::span(kAnyArgs).first(row.count);
    const auto result = writer->publish({.opcode = 8, .args = args});
    EXPECT_EQ(result.has_value(), row.is_accepted);
    if (!result) {
      EXPECT_EQ(code_of(result), Code::invalid_argument);
    }
    std::vector<Word> expected(16, 0);
    if (row.is_accepted) {
      expected = {1, 8, 0, 2};
      expected.insert(expected.end(), args.begin(), args.end());
      expected.resize(16, 0);
    }
    EXPECT_EQ(words_of(ring.span()), expected);
  }
}

TYPED_TEST(RingWriterTest, publish_holds_the_limits_of_slot_tenant_and_priority) {
  struct Row {
    const char* name;
    SlotRequest request;
    bool is_accepted;
  };
  constexpr Row kRows[] = {
      {"first slot", {.slot_index = 0}, true},
      {"last slot", {.slot_index = 3}, true},
      {"one past it", {.slot_index = 4}, false},
      {"far past it", {.slot_index = kMaxWord}, false},
      {"an index whose byte offset wraps in 32 bits", {.slot_index = 0x04000000}, false},
      {"tenant 0", {.tenant = 0}, true},
      {"tenant 28", {.tenant = 28}, true},
      {"tenant 29", {.tenant = 29}, false},
      {"largest tenant", {.tenant = kMaxWord}, false},
      {"critical", {.priority = 0}, true},
      {"idle", {.priority = 4}, true},
      {"priority 5", {.priority = 5}, false},
      {"a priority that is fine in its low half", {.priority = 0x00010002}, false},
      {"largest priority", {.priority = kMaxWord}, false},
  };
  for (const Row& row : kRows) {
    SCOPED_TRACE(row.name);
    Storage<TypeParam> ring(4 * 64);
    auto writer = TestFixture::Writer::bind(ring.span());
    const auto result = writer->publish(row.request);
    EXPECT_EQ(result.has_value(), row.is_accepted);
    if (!result) {
      EXPECT_EQ(code_of(result), Code::invalid_argument);
      EXPECT_EQ(ring.bytes(), Bytes(4 * 64));
    }
  }
}

// Every edge between the opcodes a host may publish and those it may not.
struct OpcodeRow {
  Word opcode;
  bool is_publishable;
};
constexpr OpcodeRow kOpcodeRows[] = {
    {0, true},          {7, true},           {8, true},           {0xFFEF, true},
    {0xFFF0, false},    {0xFFFC, false},     {0xFFFD, true},      {0xFFFE, true},
    {0xFFFF, false},    {0x10000, true},     {0x7FFFFFFF, true},  {0x80000000, false},
    {0x80000001, true}, {0x80000002, false}, {0xFFFFFFFE, false}, {0xFFFFFFFF, true},
};

constexpr Word kDfaStep = 6;
constexpr Word kPackedSlot = 0x80000001;

TYPED_TEST(RingWriterTest, every_call_takes_the_publishable_opcodes_only) {
  for (const OpcodeRow& row : kOpcodeRows) {
    SCOPED_TRACE(testing::Message() << std::hex << row.opcode);
    Storage<TypeParam> ring(4 * 64);
    auto writer = TestFixture::Writer::bind(ring.span());
    const WorkItem item{row.opcode, 1, 2, 3};
    constexpr Word kEnough[] = {1, 2, 3, 4};
    const Operation batch_item{.opcode = row.opcode, .args = kEnough};
    EXPECT_EQ(writer->publish({.opcode = row.opcode, .args = kEnough}).has_value(),
              row.is_publishable);
    const bool is_item = row.is_publishable && row.opcode != kDfaStep;  // which takes 4 arguments
    EXPECT_EQ(writer->publish_items({.first_slot = 1, .items = {&item, 1}}).has_value(), is_item);
    EXPECT_EQ(writer->publish_batch({.first_slot = 2, .operations = {&batch_item, 1}}).has_value(),
              row.is_publishable);
    if (!row.is_publishable) {
      EXPECT_EQ(ring.bytes(), Bytes(4 * 64));
    }
    Bytes fresh(64);
    EXPECT_EQ(encode_items({.items = {&item, 1}}, fresh).has_value(), is_item);
  }
}

// Arguments that each operation must have at least: all that a built-in operation reads.
struct ArgumentRow {
  Word opcode;
  std::size_t least;
};
constexpr ArgumentRow kArgumentRows[] = {
    {0, 0}, {1, 2}, {2, 2},      {3, 2},      {4, 3},      {5, 3},          {6, 4},
    {7, 2}, {8, 0}, {0xFFEF, 0}, {0xFFFD, 2}, {0xFFFE, 3}, {0x80000001, 0}, {0xFFFFFFFF, 0},
};

TYPED_TEST(RingWriterTest, a_builtin_operation_has_all_its_arguments) {
  constexpr Word kArgs[12] = {};
  for (const ArgumentRow& row : kArgumentRows) {
    for (std::size_t count = 0; count <= 12; ++count) {
      SCOPED_TRACE(testing::Message() << row.opcode << " with " << count << " arguments");
      Storage<TypeParam> ring(4 * 64);
      auto writer = TestFixture::Writer::bind(ring.span());
      const Operation operation{.opcode = row.opcode, .args = std::span(kArgs).first(count)};
      const bool is_accepted = count >= row.least;
      const auto published = writer->publish({.opcode = row.opcode, .args = operation.args});
      EXPECT_EQ(published.has_value(), is_accepted);
      EXPECT_EQ(is_publishable(operation, {}), is_accepted && row.opcode != kPackedSlot);
      const auto batch = writer->publish_batch({.first_slot = 1, .operations = {&operation, 1}});
      EXPECT_EQ(batch.has_value(), is_accepted);
      if (is_accepted) continue;
      EXPECT_EQ(published.error().code, Code::invalid_argument);
      EXPECT_FALSE(published.error().hint.empty());
      EXPECT_EQ(ring.bytes(), Bytes(4 * 64));
    }
  }
}

TYPED_TEST(RingWriterTest, a_fence_inside_a_packed_slot_is_refused) {
  Storage<TypeParam> ring(64);
  auto writer = TestFixture::Writer::bind(ring.span());
  constexpr Word kFence[] = {1, 99};
  const PackedOp ops[] = {{.opcode = 0}, {.opcode = 7, .args = kFence}};
  const auto published = writer->publish_packed({.ops = ops});
  ASSERT_FALSE(published);
  EXPECT_EQ(published.error().code, Code::invalid_argument);
  EXPECT_EQ(published.error().message, "ring: packed operation 1 is a BATCH_FENCE");
  EXPECT_EQ(published.error().hint,
            "publish the fence in a slot of its own, behind the packed slot");
  EXPECT_EQ(ring.bytes(), Bytes(64));
}

TYPED_TEST(RingWriterTest, a_work_item_has_too_few_arguments_for_some_operations) {
  Storage<TypeParam> ring(2 * 64);
  auto writer = TestFixture::Writer::bind(ring.span());
  const WorkItem items[] = {{0, 0, 0, 0}, {kDfaStep, 1, 2, 3}};
  const auto published = writer->publish_items({.items = items});
  ASSERT_FALSE(published);
  EXPECT_EQ(published.error().code, Code::invalid_argument);
  EXPECT_EQ(published.error().message, "ring: DFA_STEP takes 4 arguments, not 3 (item 1)");
  EXPECT_EQ(ring.bytes(), Bytes(2 * 64));
}

// A payload that was packed by hand would become FAULT when it runs.
TYPED_TEST(RingWriterTest, a_bad_packed_payload_is_refused_by_every_call) {
  constexpr Word kFenceInside[] = {0x00070201, 1, 99};  // one operation: BATCH_FENCE (1, 99)
  constexpr Word kTooLong[] = {0x00010C01};             // 1 + 12 words
  for (const std::span<const Word> payload :
       {std::span<const Word>(kFenceInside), std::span<const Word>(kTooLong)}) {
    Storage<TypeParam> ring(4 * 64);
    auto writer = TestFixture::Writer::bind(ring.span());
    const Operation operation{.opcode = kPackedSlot, .args = payload};
    EXPECT_EQ(code_of(writer->publish({.opcode = kPackedSlot, .args = payload})),
              Code::invalid_argument);
    EXPECT_EQ(code_of(writer->publish_batch({.operations = {&operation, 1}})),
              Code::invalid_argument);
    const WorkItem item{kPackedSlot, payload[0], 1, 99};
    EXPECT_EQ(code_of(writer->publish_items({.items = {&item, 1}})), Code::invalid_argument);
    EXPECT_EQ(ring.bytes(), Bytes(4 * 64));
  }
}

// Which calls of the host accept a slot with which status.
struct StatusRow {
  Word status;
  bool can_publish, can_reset, can_cancel;
};
constexpr StatusRow kStatusRows[] = {
    {0, true, false, false},   {1, false, false, true},         {2, false, false, false},
    {3, true, false, false},   {4, false, false, true},         {5, false, false, true},
    {6, false, false, true},   {7, false, true, false},         {8, false, false, false},
    {99, false, false, false}, {kMaxWord, false, false, false},
};

TYPED_TEST(RingWriterTest, every_call_publishes_into_empty_and_done_slots_only) {
  constexpr WorkItem kItems[] = {{8, 1, 2, 3}, {9, 4, 5, 6}};
  constexpr Operation kBatch[] = {{.opcode = 8}};
  constexpr PackedOp kOps[] = {{.opcode = 8}};
  for (const StatusRow& row : kStatusRows) {
    SCOPED_TRACE(row.status);
    const Word statuses[] = {0, row.status};
    const auto expect = [&](auto publish) {
      Storage<TypeParam> ring(TestFixture::stale_ring(statuses));
      auto writer = TestFixture::Writer::bind(ring.span());
      const Bytes before = ring.bytes();
      const auto result = publish(*writer);
      EXPECT_EQ(result.has_value(), row.can_publish);
      if (!result) {
        EXPECT_EQ(code_of(result), Code::queue_full);
        EXPECT_EQ(ring.bytes(), before);
      }
    };
    expect([](auto& w) { return w.publish({.slot_index = 1}); });
    expect([&](auto& w) { return w.publish_packed({.slot_index = 1, .ops = kOps}); });
    // The slot in use is the last of the window: those before it must not be written either.
    expect([&](auto& w) { return w.publish_items({.items = kItems}); });
    expect([&](auto& w) { return w.publish_batch({.operations = kBatch}); });
  }
}

TYPED_TEST(RingWriterTest, publish_reports_the_first_broken_rule) {
  constexpr Rule kRules[] = {kSlotRule,     kArgsRule,   kTenantRule,
                             kPriorityRule, kOpcodeRule, kStatusRule};
  expect_first_broken_rule_is_reported<TypeParam>(kRules, [](auto& writer, const Attempt& a) {
    return error_of(writer.publish({.slot_index = a.slot,
                                    .tenant = a.tenant,
                                    .priority = a.priority,
                                    .opcode = a.opcode,
                                    .args = std::span(kAnyArgs).first(a.args)}));
  });
}

// --- work items -------------------------------------------------------------------------------

TYPED_TEST(RingWriterTest, publish_items_fills_consecutive_slots) {
  constexpr Word kStatuses[] = {7, 0, 3, 2};  // slots outside the window may be in use
  Storage<TypeParam> ring(TestFixture::stale_ring(kStatuses));
  auto writer = TestFixture::Writer::bind(ring.span());
  std::vector<Word> expected = words_of(ring.span());
  constexpr WorkItem kItems[] = {{40, 1, 2, 3}, {0x10000, 4, 5, 6}};
  EXPECT_EQ(writer->publish_items({.first_slot = 1, .tenant = 28, .items = kItems}), 2u);
  constexpr Word kSlots[] = {1, 40,      28, 2, 1, 2, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0,
                             1, 0x10000, 28, 2, 4, 5, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0};
  std::ranges::copy(kSlots, &expected[16]);
  EXPECT_EQ(words_of(ring.span()), expected);
}

TYPED_TEST(RingWriterTest, publish_items_holds_the_limits_of_its_window) {
  static constexpr WorkItem kItems[5] = {};
  struct Row {
    Word first;
    std::size_t count;
    bool is_accepted;
  };
  constexpr Row kRows[] = {
      {0, 0, true},         {0, 1, true},
      {0, 4, true},         {0, 5, false},
      {3, 1, true},         {3, 2, false},
      {4, 0, true},         {4, 1, false},
      {5, 0, false},        {kMaxWord, 0, false},
      {kMaxWord, 1, false}, {kMaxWord, 4, false},  // a sum that wraps in 32 bits
  };
  for (const Row& row : kRows) {
    SCOPED_TRACE(testing::Message() << row.count << " from " << row.first);
    Storage<TypeParam> ring(4 * 64);
    auto writer = TestFixture::Writer::bind(ring.span());
    const auto result = writer->publish_items(
        {.first_slot = row.first, .items = std::span(kItems).first(row.count)});
    EXPECT_EQ(result.has_value(), row.is_accepted);
    if (result) {
      EXPECT_EQ(*result, row.count);
    }
    if (!result) {
      EXPECT_EQ(code_of(result), Code::invalid_argument);
      EXPECT_EQ(ring.bytes(), Bytes(4 * 64));
    }
  }
}

TYPED_TEST(RingWriterTest, publish_items_reports_the_first_broken_rule) {
  // The wire format has no place for the priority in this row; ours stands behind the tenant.
  constexpr Rule kRules[] = {kTenantRule, kPriorityRule, kOpcodeRule, kSlotRule, kStatusRule};
  expect_first_broken_rule_is_reported<TypeParam>(kRules, [](auto& writer, const Attempt& a) {
    const WorkItem items[] = {{8, 0, 0, 0}, {a.opcode, 0, 0, 0}};
    return error_of(writer.publish_items(
        {.first_slot = a.slot, .tenant = a.tenant, .priority = a.priority, .items = items}));
  });
}

// --- fresh ring -------------------------------------------------------------------------------

TEST(EncodeItems, clears_the_ring_around_the_window) {
  Bytes ring(4 * 64, std::byte{0xAA});  // statuses in use do not matter: the ring is encoded again
  constexpr WorkItem kItems[] = {{40, 1, 2, 3}, {41, 4, 5, 6}};
  ASSERT_TRUE(encode_items({.first_slot = 1, .tenant = 5, .priority = 0, .items = kItems}, ring));
  std::vector<Word> expected(64, 0);
  constexpr Word kSlots[] = {1, 40, 5, 0, 1, 2, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0,
                             1, 41, 5, 0, 4, 5, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0};
  std::ranges::copy(kSlots, &expected[16]);
  EXPECT_EQ(words_of(ring), expected);
}

TEST(EncodeItems, refuses_what_does_not_fit_and_leaves_the_target_alone) {
  static constexpr WorkItem kItems[3] = {};
  struct Row {
    const char* name;
    ItemWindow window;
    std::size_t ring_bytes;
    Code code;
  };
  const Row kRows[] = {
      {"more items than slots", {.items = kItems}, 128, Code::invalid_argument},
      {"a window past the end", {.first_slot = 1, .items = kItems}, 192, Code::invalid_argument},
      {"a window that wraps",
       {.first_slot = kMaxWord, .items = kItems},
       192,
       Code::invalid_argument},
      {"no slots", {}, 0, Code::invalid_argument},
      {"broken slots", {}, 100, Code::corrupt},
      {"a tenant too high", {.tenant = 29}, 64, Code::invalid_argument},
      {"a priority too high", {.priority = 5}, 64, Code::invalid_argument},
  };
  for (const Row& row : kRows) {
    SCOPED_TRACE(row.name);
    Bytes ring(row.ring_bytes, std::byte{0xAA});
    const Bytes before = ring;
    const auto result = encode_items(row.window, ring);
    ASSERT_FALSE(result);
    EXPECT_EQ(code_of(result), row.code);
    EXPECT_EQ(ring, before);
  }
}

// Count, then opcodes, then the slot limit. The ring is one slot longer than an encoder makes.
TEST(EncodeItems, reports_the_first_broken_rule) {
  constexpr Word kTooManySlots = 1'048'577;
  Bytes ring(std::size_t{kTooManySlots} * 64);
  constexpr WorkItem kGood[] = {{8, 0, 0, 0}};
  constexpr WorkItem kBad[] = {{8, 0, 0, 0}, {kBadOpcode, 0, 0, 0}};
  struct Row {
    ItemWindow window;
    const char* marker;
  };
  const Row kRows[] = {
      {{.first_slot = 1'048'576, .items = kBad}, "2 slots from slot 1048576"},
      {{.items = kBad}, "2147532527"},
      {{.tenant = kBadTenant, .items = kGood}, "1048577 slots"},
      {{.priority = kBadPriority, .items = kGood}, "1048577 slots"},
  };
  for (const Row& row : kRows) {
    const auto result = encode_items(row.window, ring);
    ASSERT_FALSE(result) << row.marker;
    EXPECT_EQ(code_of(result), Code::invalid_argument);
    EXPECT_NE(result.error().message.find(row.marker), std::string::npos) << result.error().message;
    EXPECT_EQ(test::word_at(ring, 0), 0u);
  }
  // One slot less is the largest ring an encoder makes.
  EXPECT_TRUE(
      encode_items({.first_slot = 1'048'575, .items = kGood}, std::span(ring).first(67'108'864)));
  EXPECT_EQ(test::word_at(ring, std::size_t{1'048'575} * 16), 1u);
}

// --- packed -----------------------------------------------------------------------------------

TYPED_TEST(RingWriterTest, publish_packed_matches_the_vector_of_the_wire_format) {
  constexpr Word kStatuses[] = {3};
  Storage<TypeParam> ring(TestFixture::stale_ring(kStatuses));
  auto writer = TestFixture::Writer::bind(ring.span());
  constexpr Word kFirst[] = {10, 32};
  constexpr Word kSecond[] = {1, 64};
  const PackedOp kOps[] = {{1, kFirst}, {2, kSecond}};
  ASSERT_TRUE(writer->publish_packed({.tenant = 4, .priority = 3, .ops = kOps}));
  EXPECT_EQ(ring.bytes(), bytes_of({1, 0x80000001, 4, 3, 0x00010402, 0x00000202, 10, 32, 1, 64, 0,
                                    0, 0, 0, 0, 0}));
}

TYPED_TEST(RingWriterTest, publish_packed_reports_the_first_broken_rule) {
  constexpr Rule kRules[] = {kPackingRule, kSlotRule, kTenantRule, kPriorityRule, kStatusRule};
  expect_first_broken_rule_is_reported<TypeParam>(kRules, [](auto& writer, const Attempt& a) {
    const std::vector<PackedOp> ops(a.ops);
    return error_of(writer.publish_packed(
        {.slot_index = a.slot, .tenant = a.tenant, .priority = a.priority, .ops = ops}));
  });
}

// --- batch ------------------------------------------------------------------------------------

TYPED_TEST(RingWriterTest, publish_batch_matches_the_vector_of_the_wire_format) {
  Storage<TypeParam> ring(8 * 64);
  auto writer = TestFixture::Writer::bind(ring.span());
  constexpr Word kArgs[] = {10, 32};
  const Operation kItems[] = {{1, kArgs}, {0, {}}};
  EXPECT_EQ(writer->publish_batch({.tenant = 6, .tag = 99, .operations = kItems}), 3u);
  std::vector<Word> expected(128, 0);
  constexpr Word kSlots[] = {1, 1, 6, 2, 10, 32, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
                             1, 0, 6, 2, 0,  0,  0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
                             1, 7, 6, 2, 2,  99, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
  std::ranges::copy(kSlots, expected.begin());
  EXPECT_EQ(words_of(ring.span()), expected);
}

TYPED_TEST(RingWriterTest, publish_batch_without_items_is_a_fence_alone) {
  Storage<TypeParam> ring(64);
  auto writer = TestFixture::Writer::bind(ring.span());
  EXPECT_EQ(writer->publish_batch({.priority = 0, .tag = kMaxWord}), 1u);
  EXPECT_EQ(ring.bytes(), bytes_of({1, 7, 0, 0, 0, kMaxWord, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}));
}

TYPED_TEST(RingWriterTest, publish_batch_needs_room_for_its_fence) {
  static constexpr Operation kItems[4] = {};
  struct Row {
    Word first;
    std::size_t count;
    bool is_accepted;
  };
  constexpr Row kRows[] = {
      {0, 3, true},  {0, 4, false}, {1, 2, true},         {1, 3, false},        {3, 0, true},
      {3, 1, false}, {4, 0, false}, {kMaxWord, 0, false}, {kMaxWord, 4, false},
  };
  for (const Row& row : kRows) {
    SCOPED_TRACE(testing::Message() << row.count << " from " << row.first);
    Storage<TypeParam> ring(4 * 64);
    auto writer = TestFixture::Writer::bind(ring.span());
    const auto result = writer->publish_batch(
        {.first_slot = row.first, .operations = std::span(kItems).first(row.count)});
    EXPECT_EQ(result.has_value(), row.is_accepted);
    if (!result) {
      EXPECT_EQ(code_of(result), Code::invalid_argument);
      EXPECT_EQ(ring.bytes(), Bytes(4 * 64));
    }
  }
}

TYPED_TEST(RingWriterTest, publish_batch_finds_the_fence_slot_in_use) {
  constexpr Word kStatuses[] = {0, 2};
  Storage<TypeParam> ring(TestFixture::stale_ring(kStatuses));
  auto writer = TestFixture::Writer::bind(ring.span());
  const Bytes before = ring.bytes();
  constexpr Operation kItems[1] = {};
  EXPECT_EQ(code_of(writer->publish_batch({.operations = kItems})), Code::queue_full);
  EXPECT_EQ(ring.bytes(), before);
}

TYPED_TEST(RingWriterTest, publish_batch_reports_the_first_broken_rule) {
  constexpr Rule kRules[] = {kTenantRule, kPriorityRule, kSlotRule,
                             kArgsRule,   kOpcodeRule,   kStatusRule};
  expect_first_broken_rule_is_reported<TypeParam>(kRules, [](auto& writer, const Attempt& a) {
    const Operation items[] = {{a.opcode, std::span(kAnyArgs).first(a.args)}};
    return error_of(writer.publish_batch(
        {.first_slot = a.slot, .tenant = a.tenant, .priority = a.priority, .operations = items}));
  });
}

TYPED_TEST(RingWriterTest, publish_batch_checks_item_after_item) {
  Storage<TypeParam> ring(4 * 64);
  auto writer = TestFixture::Writer::bind(ring.span());
  const Operation kItems[] = {{.opcode = kBadOpcode}, {8, std::span(kAnyArgs).first(kManyArgs)}};
  const auto result = writer->publish_batch({.operations = kItems});
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().message.find("2147532527"), std::string::npos);
}

// --- reset and cancel -------------------------------------------------------------------------

TYPED_TEST(RingWriterTest, reset_frees_a_faulted_slot_and_its_code) {
  Storage<TypeParam> ring(
      bytes_of({7, 8, 9, 0x00020003, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22}));
  auto writer = TestFixture::Writer::bind(ring.span());
  ASSERT_TRUE(writer->reset(0));
  EXPECT_EQ(ring.bytes(), bytes_of({0, 8, 9, 3, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22}));
  EXPECT_TRUE(writer->publish({.opcode = 8}));
}

TYPED_TEST(RingWriterTest, reset_and_cancel_act_on_their_own_statuses_only) {
  for (const StatusRow& row : kStatusRows) {
    SCOPED_TRACE(row.status);
    const auto expect = [&](bool is_accepted, auto call) {
      const Word statuses[] = {3, row.status};
      Storage<TypeParam> ring(TestFixture::stale_ring(statuses));
      test::set_word(ring.span(), 19, 4);
      std::vector<Word> expected = words_of(ring.span());
      auto writer = TestFixture::Writer::bind(ring.span());
      const auto result = call(*writer);
      EXPECT_EQ(result.has_value(), is_accepted);
      if (!result) {
        EXPECT_EQ(code_of(result), Code::invalid_argument);
      }
      if (is_accepted) expected[16] = 0;
      EXPECT_EQ(words_of(ring.span()), expected);
    };
    expect(row.can_reset, [](auto& writer) { return writer.reset(1); });
    expect(row.can_cancel, [](auto& writer) { return writer.cancel(1); });
  }
}

TYPED_TEST(RingWriterTest, reset_and_cancel_refuse_a_slot_that_is_not_there) {
  Storage<TypeParam> ring(2 * 64);
  auto writer = TestFixture::Writer::bind(ring.span());
  for (const Word slot : {2u, kMaxWord}) {
    EXPECT_EQ(code_of(writer->reset(slot)), Code::invalid_argument) << slot;
    EXPECT_EQ(code_of(writer->cancel(slot)), Code::invalid_argument) << slot;
  }
}

// --- binding ----------------------------------------------------------------------------------

TYPED_TEST(RingWriterTest, binds_whole_slots_only) {
  Storage<TypeParam> ring(2 * 64);
  EXPECT_EQ(TestFixture::Writer::bind(ring.span())->slot_count(), 2u);
  for (const std::size_t length : {1u, 4u, 63u, 65u, 127u}) {
    const auto writer = TestFixture::Writer::bind(ring.span().first(length));
    ASSERT_FALSE(writer) << length;
    EXPECT_EQ(code_of(writer), Code::corrupt);
  }
}

TYPED_TEST(RingWriterTest, a_ring_without_slots_binds_and_takes_nothing) {
  auto writer = TestFixture::Writer::bind({});
  ASSERT_TRUE(writer);
  EXPECT_EQ(code_of(writer->publish({})), Code::invalid_argument);
  EXPECT_EQ(writer->publish_items({}), 0u);
  EXPECT_EQ(code_of(writer->publish_batch({})), Code::invalid_argument);
}

TEST(LiveRingWriter, refuses_memory_that_does_not_begin_on_a_line) {
  test::LineBytes storage(256);
  const auto writer = LiveRingWriter::bind(storage.span().subspan(4, 64));
  ASSERT_FALSE(writer);
  EXPECT_EQ(code_of(writer), Code::invalid_argument);
}

}  // namespace
}  // namespace everkernel::protocol
