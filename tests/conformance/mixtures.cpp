// All operations together: a ring large enough to keep every worker busy, whose totals are known.
#include <numeric>
#include <string>

#include "conformance/backend_suite.hpp"

namespace everkernel::conformance {
namespace {

constexpr Word kSlots = 2048, kEach = kSlots / 16;  // sixteen kinds of slots
constexpr Word kCrowded = 10, kDisabled = 20;       // tenants
constexpr Word kRecords = 100;

// The same program with a handler of scope group beside the others: on a GPU its crews are blocks
// of several warps.
constexpr Word kAddTogether = 81;
const std::string kBesideGroups = std::string(kHandlers) + R"(
handler add_together = 81 scope group { each i in 0 .. 1 { atomic_add(output[0], param); } }
)";

SlotWords slot_of_kind(Word slot, bool has_groups) {
  const Word tenant = 11 + slot / 16 % 9;
  switch (slot % 16) {
    case 0:
      return {1, 0, tenant, 2};
    case 1:
      return {1, 2, tenant, 2, 1, 161};
    case 2:
      return {1, kCountdown, tenant, 2, 0, 0, 0, 3};
    case 3:
      return {1, kCountdownLater, tenant, 2, 0, 0, 0, 2};
    case 4:  // ATOMIC_ADD(1, 162), NOP
      return {1, 0x80000001, tenant, 2, 0x00020202, 0x00000200, 1, 162};
    case 5:
      return {1, kRaise, tenant, 2, 0, 0, 7};
    case 6:
      return {1, 9999, tenant, 2};
    case 7:
      return {1, has_groups ? kAddTogether : Word{kAddParam}, tenant, 2, 0, 1, slot};
    case 8:
      return {1, 0xFFFE, tenant, 2, slot, slot + 1, slot + 2};
    case 9:
      return {1, kMark, tenant, 2, 0, 2};
    case 10:
      return {1, kCrowd, kCrowded, 2, 0, 3, 50};
    case 11:
      return {1, 0, kDisabled, 2};
    case 12:
      return {1, 1, tenant, 2, slot, 163 + slot / 16};
    case 13:
      return {1, 3, tenant, 2, 2, 3 + kEach + slot / 16};
    case 14:
      return {1, kEpochAtEnd, tenant, 2, 0, 2, 0, 1};
    default:
      return {1, 7, tenant, 2, 3, 0};
  }
}

Word sum_of_gains(const Job& before, const Job& after, Word first, Word count) {
  Word sum = 0;
  for (Word word = first; word < first + count; ++word) {
    sum += after.control[word] - before.control[word];
  }
  return sum;
}

void expect_log(const Job& before, const Outcome& after) {
  EXPECT_EQ(after.control[144] - before.control[144], kEach - kRecords);
  ASSERT_EQ(after.debug_log[0], kRecords * 4);
  for (Word record = 0; record < kRecords; ++record) {
    const Word* const words = &after.debug_log[1 + record * 4];
    EXPECT_EQ(words[0] % 16, 8u);
    EXPECT_EQ(words[1], words[0] + 1);
    EXPECT_EQ(words[2], words[0] + 2);
    EXPECT_EQ(words[3], words[0] * 16);
  }
}

}  // namespace

TEST_P(Mixtures, every_item_has_its_effect_once) {
  for (const bool has_groups : {false, true}) {
    SCOPED_TRACE(has_groups ? "beside groups" : "without groups");
    Megakernel& kernel =
        BackendTest::kernel({.slot_count = kSlots,
                             .workgroup_size = 256,
                             .handlers = has_groups ? std::string_view(kBesideGroups) : kHandlers});
    const DataBuffer sum = buffer(kernel, {.handle = 1, .word_count = 1});
    const DataBuffer marks = buffer(kernel, {.handle = 2, .word_count = kSlots});
    const DataBuffer crowd = buffer(kernel, {.handle = 3, .word_count = 3});
    Job before = job({.slot_count = kSlots,
                      .observables = 3 + 2 * kEach,
                      .debug_records = kRecords,
                      .io_slots = 1});
    before.control[3 + kDisabled] = 0;
    before.control[32 + kCrowded] = 2;
    for (Word slot = 0; slot < kSlots; ++slot) before.put(slot, slot_of_kind(slot, has_groups));
    const Outcome after = run(kernel, before);

    EXPECT_EQ(after.counts.done, 13u * kEach);
    EXPECT_EQ(after.counts.faulted, 2u * kEach);
    EXPECT_EQ(after.counts.remaining, 1u * kEach);
    EXPECT_EQ(after.counts.end, backend::DrainEnd::complete);
    for (Word slot = 0; slot < kSlots; ++slot) {
      const Word kind = slot % 16;
      ASSERT_EQ(after.status(slot), kind == 5 || kind == 6 ? 7u : kind == 11 ? 1u : 3u) << slot;
    }
    // Fifteen kinds are claimed once; of three, items yield 3, 2 and 1 times.
    EXPECT_EQ(sum_of_gains(before, after, 64, 32), (15u + 6u) * kEach);
    EXPECT_EQ(sum_of_gains(before, after, 136, 5), (15u + 6u) * kEach);
    EXPECT_EQ(after.control[64 + kDisabled], counter_start());
    EXPECT_EQ(after.control[96] - counter_start(), 2u * kEach);  // NOP, also packed
    EXPECT_EQ(after.control[97] - counter_start(), 1u * kEach);
    EXPECT_EQ(after.control[98] - counter_start(), 2u * kEach);  // ATOMIC_ADD, also packed
    EXPECT_EQ(after.control[96 + kCountdown] - counter_start(), 1u * kEach);
    EXPECT_EQ(after.control[128] - counter_start(), 1u * kEach);
    EXPECT_EQ(after.control[161], kEach);
    EXPECT_EQ(after.control[162], kEach);
    for (Word i = 0; i < kEach; ++i) {
      ASSERT_EQ(after.control[163 + i], i * 16 + 12);
      ASSERT_EQ(after.control[163 + kEach + i], 3u) << "TENANT_BASE";
    }
    // 7 + 23 + … : kEach terms, the last of them 16 (kEach − 1) + 7.
    EXPECT_EQ(words_of(sum)[0], 7 * kEach + 16 * (kEach - 1) * kEach / 2);
    for (Word i = 0; i < kEach; ++i) ASSERT_EQ(words_of(marks)[i * 16 + 9], 1u);
    EXPECT_EQ(words_of(crowd)[0], 0u);
    EXPECT_LE(words_of(crowd)[1], 2u);
    EXPECT_EQ(words_of(crowd)[2], 50u * kEach);
    expect_log(before, after);
  }
}

}  // namespace everkernel::conformance
