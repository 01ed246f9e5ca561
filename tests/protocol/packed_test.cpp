#include "everkernel/protocol/packed.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "support/results.hpp"

namespace everkernel::protocol {
namespace {

using test::code_of;

constexpr Word kArgs[] = {101, 102, 103, 104, 105, 106, 107, 108, 109, 110, 111, 112};

// `count` operations, the first with `args` arguments and the others with none.
std::vector<PackedOp> ops_of(std::size_t count, std::size_t args) {
  std::vector<PackedOp> ops(count, {.opcode = 0x11});
  if (count != 0) ops[0].args = std::span(kArgs).first(args);
  return ops;
}

TEST(Pack, matches_the_vector_of_the_wire_format) {
  constexpr Word kFirst[] = {10, 32};
  constexpr Word kSecond[] = {1, 64};
  const PackedOp kOps[] = {{1, kFirst}, {2, kSecond}};
  EXPECT_EQ(pack(kOps), (PackedArgs{0x00010402, 0x00000202, 10, 32, 1, 64, 0, 0, 0, 0, 0, 0}));
}

TEST(Pack, pads_metadata_to_whole_words) {
  constexpr Word kOne[] = {7};
  const PackedOp kOne1[] = {{0xFF, kOne}};
  EXPECT_EQ(pack(kOne1), (PackedArgs{0x00FF0101, 7}));
  const PackedOp kThree[] = {{8, kOne}, {9, {}}, {10, kOne}};
  EXPECT_EQ(pack(kThree), (PackedArgs{0x00080203, 0x010A0109, 7, 7}));
  EXPECT_EQ(pack({}), PackedArgs{});
}

TEST(Pack, holds_the_limits_of_a_slot) {
  struct Row {
    std::size_t ops, args;
    bool fits;
  };
  constexpr Row kRows[] = {
      {0, 0, true},   {1, 0, true},    {1, 11, true},   {1, 12, false},  {2, 10, true},
      {2, 11, false}, {3, 10, true},   {3, 11, false},  {21, 1, true},   {21, 2, false},
      {22, 0, true},  {22, 1, false},  {23, 0, true},   {23, 1, false},  {24, 0, false},
      {25, 0, false}, {255, 0, false}, {256, 0, false}, {257, 0, false}, {65'536, 0, false},
  };
  for (const Row& row : kRows) {
    SCOPED_TRACE(testing::Message() << row.ops << " operations, " << row.args << " arguments");
    const auto packed = pack(ops_of(row.ops, row.args));
    EXPECT_EQ(packed.has_value(), row.fits);
    if (!packed) {
      EXPECT_EQ(code_of(packed), Code::invalid_argument);
    }
  }
}

TEST(Pack, refuses_argument_counts_whose_sum_wraps) {
  // Never read: the lengths alone must be refused.
  const std::span<const Word> huge(kArgs, ~std::size_t{0} / 8);
  const std::vector<PackedOp> ops(8, {.opcode = 1, .args = huge});
  EXPECT_EQ(code_of(pack(ops)), Code::invalid_argument);
}

TEST(Pack, a_builtin_operation_has_all_its_arguments) {
  constexpr Word kArguments[] = {1, 2, 3, 4};
  constexpr std::size_t kLeast[] = {0, 2, 2, 2, 3, 3, 4};  // of opcodes 0 to 6
  for (std::size_t opcode = 0; opcode < std::size(kLeast); ++opcode) {
    for (std::size_t count = 0; count <= 4; ++count) {
      const PackedOp ops[] = {{.opcode = 0},
                              {.opcode = static_cast<std::uint8_t>(opcode),
                               .args = std::span(kArguments).first(count)}};
      EXPECT_EQ(pack(ops).has_value(), count >= kLeast[opcode]) << opcode << " with " << count;
    }
  }
}

TEST(Pack, fills_the_slot_to_its_last_word) {
  const auto packed = pack(ops_of(1, 11));
  ASSERT_TRUE(packed);
  EXPECT_EQ(*packed,
            (PackedArgs{0x00110B01, 101, 102, 103, 104, 105, 106, 107, 108, 109, 110, 111}));
}

TEST(PackedView, reads_operations_and_their_arguments) {
  const auto view = PackedView::parse({0x00010402, 0x00000202, 10, 32, 1, 64});
  ASSERT_TRUE(view);
  ASSERT_EQ(view->op_count(), 2u);
  EXPECT_EQ(view->op(0).opcode, 1);
  EXPECT_EQ(std::vector(view->op(0).args.begin(), view->op(0).args.end()),
            (std::vector<Word>{10, 32}));
  EXPECT_EQ(view->op(1).opcode, 2);
  EXPECT_EQ(std::vector(view->op(1).args.begin(), view->op(1).args.end()),
            (std::vector<Word>{1, 64}));
}

TEST(PackedView, a_copy_stands_on_its_own) {
  std::optional<PackedView> original = *PackedView::parse({0x00110101, 77});
  const PackedView copy = *original;
  original.reset();
  EXPECT_EQ(copy.op(0).args[0], 77u);
}

TEST(PackedView, takes_payloads_by_their_rules) {
  struct Row {
    const char* name;
    PackedArgs args;
    bool is_accepted;
  };
  constexpr Row kRows[] = {
      {"nothing", {}, true},
      {"arguments that no operation reads", {0x00000B00}, true},
      {"eleven argument words", {0x00110B01}, true},
      {"twelve argument words", {0x00110C01}, false},
      {"23 empty operations", {0x00000017}, true},
      {"24 empty operations", {0x00000018}, false},
      {"255 operations", {0x000000FF}, false},
      {"255 argument words", {0x0000FF00}, false},
      {"all ones", {0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF}, false},
      {"an offset equal to the total", {0x02110201}, true},
      {"an offset past the total", {0x03110201}, false},
      {"offsets that run backwards", {0x02010302, 0x00000102}, false},
      {"equal offsets", {0x01010302, 0x00000102}, true},
      {"a middle offset past the total", {0x00010203, 0x02020302}, false},
      {"a batch fence first", {0x00070001}, false},
      {"a batch fence last", {0x00010002, 0x00000007}, false},
      {"opcode 6", {0x00060001}, true},
      {"opcode 255", {0x00FF0001}, true},
      {"words behind the payload", {0x00110101, 1, 0xFFFFFFFF, 0xFFFFFFFF}, true},
  };
  for (const Row& row : kRows) {
    const auto view = PackedView::parse(row.args);
    EXPECT_EQ(view.has_value(), row.is_accepted) << row.name;
    if (!view) {
      EXPECT_EQ(code_of(view), Code::corrupt) << row.name;
    }
  }
}

TEST(PackedViewDeathTest, an_operation_past_the_last_stops_the_program) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  const auto view = PackedView::parse({0x00110001});
  EXPECT_DEATH((void)view->op(1), "index");
}

}  // namespace
}  // namespace everkernel::protocol
