// Section 7 of the wire format: several operations in one slot.
#include <string>

#include "conformance/backend_suite.hpp"

namespace everkernel::conformance {
namespace {

constexpr Word kPacked = 0x80000001;

struct PackedRow {
  std::string_view name;
  std::vector<Word> args;
  Word fault = 0;                           // 0 = DONE
  std::vector<WordChange> changes = {};     // control words it changes
  std::vector<WordChange> executions = {};  // opcode, how many
};

// Word 0 of a payload: number of operations, argument words of all of them, and the first
// operation's opcode and offset.
constexpr Word head(Word count, Word total, Word opcode, Word offset) {
  return count | total << 8 | opcode << 16 | offset << 24;
}

// A further word: two operations' opcodes and offsets.
constexpr Word more(Word opcode, Word offset, Word next_opcode = 0, Word next_offset = 0) {
  return opcode | offset << 8 | next_opcode << 16 | next_offset << 24;
}

const std::vector<PackedRow>& good_rows() {
  static const std::vector<PackedRow> rows = {
      {"the example of the format",
       {0x00010402, 0x00000202, 10, 180, 1, 181},
       0,
       {{180, 10}, {181, 1}},
       {{1, 1}, {2, 1}}},
      {"nothing", {0}},
      {"nothing, with arguments nobody reads", {0x00000B00, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}},
      {"23 operations without arguments", {0x00000017}, 0, {}, {{0, 23}}},
      {"one operation with 11 arguments",
       {head(1, 11, 1, 0), 7, 160, 1, 2, 3, 4, 5, 6, 7, 8, 9},
       0,
       {{160, 7}},
       {{1, 1}}},
      {"arguments that begin behind words nobody reads",
       {head(1, 3, 1, 1), 99, 7, 160},
       0,
       {{160, 7}},
       {{1, 1}}},
      {"7 adds, of which the last alone has arguments",
       {head(7, 8, 2, 6), more(2, 6, 2, 6), more(2, 6, 2, 6), more(2, 6, 2, 6), 0, 0, 0, 0, 0, 0, 5,
        165},
       0,
       {{165, 5}},
       {{2, 7}}},
      {"in order",
       {head(3, 6, 1, 0), more(1, 2, 1, 4), 7, 160, 8, 160, 9, 160},
       0,
       {{160, 9}},
       {{1, 3}}},
      {"a load whose second argument is missing", {head(1, 1, 3, 0), 2}, 0, {{160, 3}}, {{3, 1}}},
      {"an add without arguments, to SHUTDOWN", {head(1, 0, 2, 0)}, 0, {}, {{2, 1}}},
      {"a swap", {head(1, 3, 4, 0), 160, 0, 7}, 0, {{160, 7}}, {{4, 1}}},
      {"a copy", {head(1, 3, 5, 0), 2, 170, 1}, 0, {{170, 3}}, {{5, 1}}},
      {"a step", {head(1, 4, 6, 0), 0, 1, 5, 9}, 0, {{165, 5001}}, {{6, 1}}},
      {"a handler that sees its own words, and zeros",
       {head(1, 2, kStore3, 0), 10, 32},
       0,
       {{160, 10}, {161, 32}, {162, 0}},
       {{kStore3, 1}}},
      {"a handler behind another operation",
       {head(2, 4, 1, 0), more(kStore3, 2), 5, 165, 10, 32},
       0,
       {{160, 10}, {161, 32}, {162, 0}, {165, 5}},
       {{1, 1}, {kStore3, 1}}},
      {"a handler with 11 words of its own",
       {head(1, 11, kStore3, 0), 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11},
       0,
       {{160, 1}, {161, 2}, {162, 3}},
       {{kStore3, 1}}},
  };
  return rows;
}

// Payloads that break a rule are refused before any operation runs: each begins with a store of 7
// into the first observable, which must not happen.
const std::vector<PackedRow>& bad_rows() {
  static const std::vector<PackedRow> rows = {
      {"24 operations", {head(24, 2, 1, 0), 0, 0, 0, 0, 0, 0, 0, 0, 0, 7, 160}, 6},
      {"255 operations", {head(255, 2, 1, 0), 7, 160}, 6},
      {"12 argument words", {head(1, 12, 1, 0), 7, 160}, 6},
      {"255 argument words", {head(1, 255, 1, 0), 7, 160}, 6},
      {"23 operations and an argument word", {head(23, 1, 1, 0), 7, 160}, 6},
      {"an offset past the end", {head(2, 2, 1, 0), more(0, 3), 7, 160}, 6},
      {"a first offset past the end", {head(1, 2, 1, 3), 7, 160}, 6},
      {"offsets that fall", {head(3, 2, 1, 0), more(0, 2, 0, 1), 7, 160}, 6},
      {"an offset of 255", {head(2, 2, 1, 0), more(0, 255), 7, 160}, 6},
      {"a fence", {head(2, 2, 1, 0), more(7, 2), 7, 160}, 6},
      {"a handler that can yield", {head(2, 2, 1, 0), more(kYieldOnce, 2), 7, 160}, 6},
      {"a handler that can requeue", {head(2, 2, 1, 0), more(kRequeueOnce, 2), 7, 160}, 6},
      {"a handler that can await", {head(2, 2, 1, 0), more(kAwaitOnce, 2), 7, 160}, 6},
  };
  return rows;
}

// An operation that faults ends the slot; those before it have taken effect and count.
const std::vector<PackedRow>& faulting_rows() {
  static const std::vector<PackedRow> rows = {
      {"an index past the end",
       {head(3, 6, 1, 0), more(1, 2, 1, 4), 7, 160, 8, 9999, 9, 161},
       2,
       {{160, 7}},
       {{1, 1}}},
      {"an opcode without a handler",
       {head(3, 4, 1, 0), more(200, 2, 1, 2), 7, 160, 9, 161},
       1,
       {{160, 7}},
       {{1, 1}}},
      {"a handler that faults",
       {head(3, 5, 1, 0), more(kRaiseArg, 2, 1, 3), 7, 160, 5, 9, 161},
       261,
       {{160, 7}},
       {{1, 1}}},
      {"the first of all", {head(2, 4, 1, 0), more(1, 2), 7, 9999, 8, 160}, 2},
      {"a handle that is none",
       {head(2, 6, 1, 0), more(6, 2), 7, 160, 0, 0, 0, 77},
       9,
       {{160, 7}},
       {{1, 1}}},
  };
  return rows;
}

SlotWords packed_item(Word tenant, const std::vector<Word>& args) {
  SlotWords words{1, kPacked, tenant, 2};
  std::ranges::copy(args, words.begin() + 4);
  return words;
}

}  // namespace

void PackedSlots::expect_row(const SlotWords& slot, Word fault,
                             const std::vector<WordChange>& changes,
                             const std::vector<WordChange>& executions) {
  Job before = job({.observables = 192});
  before.put(6, {1, 0, 0, 2});
  before.put(7, slot);
  before.put(8, {1, 0, 0, 2});
  const Outcome after = run(before);
  SlotWords expected_slot = slot;
  expected_slot[0] = fault == 0 ? 3 : 7;
  expected_slot[3] = fault << 16 | 2;
  EXPECT_EQ(after.slot(7), expected_slot);
  ExpectedControl expected(before);
  expected.done(0, 0, 2);
  if (fault == 0) {
    expected.done(slot[2], kPacked);
  } else {
    expected.faulted(slot[2]);
  }
  for (const WordChange& change : changes) expected.set(change.index, change.word);
  for (const WordChange& execution : executions) expected.add(96 + execution.index, execution.word);
  expected.expect(after.control);
}

TEST_P(PackedSlots, all_operations_run_in_order) {
  std::vector<Word> table(256);
  table[1] = 5001;
  const DataBuffer buffer = BackendTest::buffer(kernel(), {.handle = 9, .word_count = 256}, table);
  for (const PackedRow& row : good_rows()) {
    SCOPED_TRACE(row.name);
    expect_row(packed_item(0, row.args), row.fault, row.changes, row.executions);
  }
}

TEST_P(PackedSlots, a_bad_payload_is_a_fault_before_any_operation_runs) {
  for (const PackedRow& row : bad_rows()) {
    SCOPED_TRACE(row.name);
    expect_row(packed_item(0, row.args), row.fault, row.changes, row.executions);
  }
}

TEST_P(PackedSlots, an_operation_that_faults_ends_the_slot_and_keeps_what_was_done) {
  for (const PackedRow& row : faulting_rows()) {
    SCOPED_TRACE(row.name);
    expect_row(packed_item(0, row.args), row.fault, row.changes, row.executions);
  }
}

TEST_P(PackedSlots, inner_operations_have_the_rights_of_their_tenant) {
  expect_row(packed_item(5, {head(2, 4, 1, 0), more(1, 2), 7, 160, 8, 159}), 5, {{160, 7}},
             {{1, 1}});
}

TEST_P(PackedSlots, the_example_of_the_format_changes_a_quota_and_a_counter) {
  // Two operations (1, [10, 32]) and (2, [1, 64]) → 0x00010402, 0x00000202, 10, 32, 1, 64. They
  // write the operator's quota and its claims, to which the three items of this ring add as well.
  Job before = job();
  before.put(7, {1, kPacked, 0, 2, 0x00010402, 0x00000202, 10, 32, 1, 64});
  const Outcome after = run(before);
  ExpectedControl(before)
      .done(0, kPacked)
      .set(32, 10)
      .add(64, 1)
      .add(97, 1)
      .add(98, 1)
      .expect(after.control);
}

TEST_P(PackedSlots, a_ring_of_packed_slots_runs_every_operation) {
  Job before = job();
  for (Word slot = 0; slot < 16; ++slot) {
    before.put(slot,
               {1, kPacked, slot, 2, head(5, 2, 2, 0), more(0, 2, 0, 2), more(0, 2, 0, 2), 1, 160});
  }
  const Outcome after = run(before);
  EXPECT_EQ(after.counts.done, 16u);
  EXPECT_EQ(after.control[160], 16u);
  EXPECT_EQ(after.control[96] - before.control[96], 64u);
  EXPECT_EQ(after.control[98] - before.control[98], 16u);
}

// Operations of every scope, each of which uses the result of the one before. On a GPU a handler of
// scope group makes every crew a block; without such a handler a crew is a warp.
constexpr Word kByLane = 24, kByWarp = 25, kByOther = 26, kFaultsByWarp = 27;
constexpr std::string_view kSteps = R"(
handler by_lane = 24 { control[args[1]] = control[args[1]] * 3 + args[0]; }
handler by_warp = 25 scope warp {
  control[args[1]] = control[args[1]] * 5 + args[0];
  each i in 0 .. 70 { atomic_add(control[args[1]], i); }
}
handler faults_by_warp = 27 scope warp { control[args[1]] = control[args[1]] + 1; fault args[0]; }
)";
constexpr std::string_view kOther = R"(
  control[args[1]] = control[args[1]] * 7 + args[0];
  each i in 0 .. 300 { atomic_add(control[args[1]], 2); }
  args[0] = 99;
}
)";
std::string steps_with(std::string_view scope) {
  return std::string(kSteps) + "handler by_other = 26 scope " + std::string(scope) + " {" +
         std::string(kOther);
}

Word step(Word word, Word opcode, Word arg) {
  switch (opcode) {
    case kByLane:
      return word * 3 + arg;
    case kByWarp:
      return word * 5 + arg + 69 * 70 / 2;
    case kByOther:
      return word * 7 + arg + 600;
    default:
      return word + 1;
  }
}

TEST_P(PackedSlots, operations_of_every_scope_run_in_order) {
  constexpr Word kSlots = 256;
  constexpr Word kOrders[][4] = {{kByLane, kByWarp, kByOther, kByLane},
                                 {kByOther, kByOther, kByLane, kByWarp},
                                 {kByWarp, kByLane, kByWarp, kByOther},
                                 {kByWarp, kFaultsByWarp, kByOther, kByLane},
                                 {kByOther, kByLane, kByWarp, kFaultsByWarp}};
  static const std::string beside_groups = steps_with("group"), without = steps_with("warp");
  Job before = job({.slot_count = kSlots, .observables = kSlots});
  std::vector<Word> expected(kSlots), counts(4);
  for (Word slot = 0; slot < kSlots; ++slot) {
    if (slot % 6 == 5) {  // beside slots that are not packed
      before.put(slot, {1, kByWarp, 0, 2, slot, 160 + slot});
      expected[slot] = step(0, kByWarp, slot);
      ++counts[kByWarp - kByLane];
      continue;
    }
    const auto& order = kOrders[slot % 6];
    before.put(slot, {1, kPacked, 0, 2, head(4, 8, order[0], 0), more(order[1], 2, order[2], 4),
                      more(order[3], 6), slot, 160 + slot, 5, 160 + slot, slot + 1, 160 + slot, 9,
                      160 + slot});
    const Word args[] = {slot, 5, slot + 1, 9};
    for (Word i = 0; i < 4; ++i) {
      expected[slot] = step(expected[slot], order[i], args[i]);
      if (order[i] == kFaultsByWarp) break;
      ++counts[order[i] - kByLane];
    }
  }
  for (const std::string_view handlers : {beside_groups, without}) {
    SCOPED_TRACE(handlers == without ? "warps" : "groups");
    const Outcome after =
        run(kernel({.slot_count = kSlots, .workgroup_size = 256, .handlers = handlers}), before);
    for (Word slot = 0; slot < kSlots; ++slot) {
      SCOPED_TRACE(slot);
      const bool faults = slot % 6 == 3 || slot % 6 == 4;
      SlotWords words = before.slot(slot);
      words[0] = faults ? 7 : 3;
      words[3] = faults ? Word{256 + (slot % 6 == 3 ? 5u : 9u)} << 16 | 2 : 2;
      EXPECT_EQ(after.slot(slot), words);
      EXPECT_EQ(after.control[160 + slot], expected[slot]);
    }
    for (Word i = 0; i < counts.size(); ++i) {
      EXPECT_EQ(after.control[96 + kByLane + i] - before.control[96 + kByLane + i], counts[i]) << i;
    }
  }
}

}  // namespace everkernel::conformance
