// Section 4 of the wire format: every built-in operation by its effect on every control word, each
// index at its edge, for the operator and for another tenant.
#include <array>

#include "conformance/backend_suite.hpp"

namespace everkernel::conformance {

struct BuiltinRow {
  std::string_view name;
  Word opcode;
  std::vector<Word> args;
  Word fault = 0;                        // 0 = DONE
  std::vector<WordChange> changes = {};  // control words it changes
};

namespace {

// The control buffer of the tables has 192 observables, words 160..351; word 160 + i holds 1000 +
// i.
constexpr Word kObservables = 192;
constexpr Word kLast = 351;

// Handles: a table of the 512 words 5000, 5001, …; a table without read access; a table of tenant
// 5.
constexpr Word kTable = 9, kWriteOnly = 10, kTableOfFive = 11;

constexpr Word kNop = 0, kStore = 1, kAdd = 2, kLoad = 3, kSwap = 4, kCopy = 5, kDfa = 6;

const std::vector<BuiltinRow>& word_rows() {
  static const std::vector<BuiltinRow> rows = {
      {"nop", kNop, {1, 2, 3, 4}},
      // STORE_U32 value, index
      {"store into the first observable", kStore, {7, 160}, 0, {{160, 7}}},
      {"store into the last word", kStore, {7, kLast}, 0, {{kLast, 7}}},
      {"store into a reserved word", kStore, {7, 159}, 0, {{159, 7}}},
      {"store into a mask", kStore, {0xABCDEF01, 31}, 0, {{31, 0xABCDEF01}}},
      {"store one past the last word", kStore, {7, kLast + 1}, 2},
      {"store at 2^32 - 1", kStore, {7, 0xFFFFFFFF}, 2},
      {"store at 2^30, where a byte offset wraps", kStore, {7, 0x40000000}, 2},
      // ATOMIC_ADD addend, index
      {"add", kAdd, {5, 160}, 0, {{160, 1005}}},
      {"add that wraps", kAdd, {0xFFFFFFFF, 161}, 0, {{161, 1000}}},
      {"add to the last word", kAdd, {5, kLast}, 0, {{kLast, 1196}}},
      {"add to a reserved word", kAdd, {5, 150}, 0, {{150, 5}}},
      {"add one past the last word", kAdd, {5, kLast + 1}, 2},
      {"add at 2^32 - 1", kAdd, {5, 0xFFFFFFFF}, 2},
      // LOAD_U32 index, obs
      {"load an observable", kLoad, {161, 3}, 0, {{163, 1001}}},
      {"load a word of the system", kLoad, {2, 0}, 0, {{160, 3}}},
      {"load the last word into the last word but one", kLoad, {kLast, 190}, 0, {{350, 1191}}},
      {"load into the last word", kLoad, {160, 191}, 0, {{kLast, 1000}}},
      {"load one past the last word", kLoad, {kLast + 1, 0}, 2},
      {"load at 2^32 - 1", kLoad, {0xFFFFFFFF, 0}, 2},
      {"load into one past the last word", kLoad, {160, 192}, 2},
      {"load into 160 + 2^32 - 1", kLoad, {160, 0xFFFFFFFF}, 2},
      {"load into 160 + 2^32 - 160, which wraps to SHUTDOWN", kLoad, {160, 0xFFFFFF60}, 2},
      {"load into 160 + 2^32 - 15, which wraps to 145", kLoad, {160, 0xFFFFFFF1}, 2},
  };
  return rows;
}

const std::vector<BuiltinRow>& block_rows() {
  static const std::vector<BuiltinRow> rows = {
      // COMPARE_SWAP index, expected, desired; the value before → 160 + index
      {"swap", kSwap, {160, 1000, 7}, 0, {{160, 7}, {320, 1000}}},
      {"swap that finds another word", kSwap, {160, 999, 7}, 0, {{320, 1000}}},
      {"swap of a reserved word", kSwap, {145, 0, 7}, 0, {{145, 7}, {305, 0}}},
      {"swap whose previous value goes to the last word",
       kSwap,
       {191, 1031, 7},
       0,
       {{191, 7}, {kLast, 1031}}},
      {"swap whose previous value has no word", kSwap, {192, 1032, 7}, 2},
      {"swap of the last word", kSwap, {kLast, 1191, 7}, 2},
      {"swap one past the last word", kSwap, {kLast + 1, 0, 7}, 2},
      {"swap at 2^32 - 1", kSwap, {0xFFFFFFFF, 0, 7}, 2},
      {"swap at 2^32 - 160, whose other index wraps to 0", kSwap, {0xFFFFFF60, 0, 7}, 2},
      // MEMCPY src, dst, words
      {"copy", kCopy, {160, 170, 3}, 0, {{170, 1000}, {171, 1001}, {172, 1002}}},
      {"copy up over itself",
       kCopy,
       {160, 162, 4},
       0,
       {{162, 1000}, {163, 1001}, {164, 1002}, {165, 1003}}},
      {"copy down over itself",
       kCopy,
       {162, 160, 4},
       0,
       {{160, 1002}, {161, 1003}, {162, 1004}, {163, 1005}}},
      {"copy onto itself", kCopy, {160, 160, 4}},
      {"copy of nothing", kCopy, {160, 170, 0}},
      {"copy of the last word", kCopy, {kLast, 160, 1}, 0, {{160, 1191}}},
      {"copy into the last word", kCopy, {160, kLast, 1}, 0, {{kLast, 1000}}},
      {"copy of system words", kCopy, {2, 200, 2}, 0, {{200, 3}, {201, 0xFFFFFFFF}}},
      {"copy into reserved words", kCopy, {160, 150, 2}, 0, {{150, 1000}, {151, 1001}}},
      {"copy that ends past the last word", kCopy, {160, kLast, 2}, 2},
      {"copy that begins past the last word", kCopy, {160, kLast + 1, 1}, 2},
      {"copy from past the last word", kCopy, {kLast, 160, 2}, 2},
      {"copy of 2^32 - 1 words", kCopy, {160, 161, 0xFFFFFFFF}, 2},
      {"copy of 2^30 words, whose bytes wrap", kCopy, {160, 161, 0x40000000}, 2},
      {"copy from 2^32 - 1", kCopy, {0xFFFFFFFF, 160, 2}, 2},
      {"copy to 2^32 - 1", kCopy, {160, 0xFFFFFFFF, 2}, 2},
      // DFA_STEP state, byte, obs, table handle
      {"step", kDfa, {0, 0x41, 3, kTable}, 0, {{163, 5065}}},
      {"step to the last entry", kDfa, {1, 255, 191, kTable}, 0, {{kLast, 5511}}},
      {"step by the low byte alone", kDfa, {0, 0xFFFFFF41, 0, kTable}, 0, {{160, 5065}}},
      {"step past the table", kDfa, {2, 0, 0, kTable}, 2},
      {"step at state 2^24, whose entry wraps to 0", kDfa, {0x01000000, 0, 0, kTable}, 2},
      {"step at state 2^32 - 1", kDfa, {0xFFFFFFFF, 0, 0, kTable}, 2},
      {"step into one past the last word", kDfa, {0, 0, 192, kTable}, 2},
      {"step into 160 + 2^32 - 160, which wraps to SHUTDOWN", kDfa, {0, 0, 0xFFFFFF60, kTable}, 2},
      {"step without a table", kDfa, {0, 0, 0, 0}, 9},
      {"step with a table that is not there", kDfa, {0, 0, 0, 8}, 9},
      {"step with a handle above the highest", kDfa, {0, 0, 0, 0xFFFFFFFF}, 9},
      {"step with a table that may not be read", kDfa, {0, 0, 0, kWriteOnly}, 5},
      {"step with another tenant's table", kDfa, {0, 0, 0, kTableOfFive}, 5},
  };
  return rows;
}

const std::vector<BuiltinRow>& tenant_rows() {
  static const std::vector<BuiltinRow> rows = {
      {"nop", kNop, {}},
      {"store into the first observable", kStore, {7, 160}, 0, {{160, 7}}},
      {"store into the last word", kStore, {7, kLast}, 0, {{kLast, 7}}},
      {"store into word 159", kStore, {7, 159}, 5},
      {"store into SHUTDOWN", kStore, {7, 0}, 5},
      {"store into its own mask", kStore, {7, 3 + 5}, 5},
      {"store into its own quota", kStore, {7, 32 + 5}, 5},
      {"store one past the last word", kStore, {7, kLast + 1}, 2},
      {"add", kAdd, {5, 160}, 0, {{160, 1005}}},
      {"add to word 159", kAdd, {5, 159}, 5},
      {"add to DONE_COUNT", kAdd, {5, 1}, 5},
      {"add one past the last word", kAdd, {5, kLast + 1}, 2},
      {"load a word of the system", kLoad, {2, 0}, 0, {{160, 3}}},
      {"load into 160 + 2^32 - 160", kLoad, {160, 0xFFFFFF60}, 2},
      {"swap", kSwap, {160, 1000, 7}, 0, {{160, 7}, {320, 1000}}},
      {"swap of word 159", kSwap, {159, 0, 7}, 5},
      {"swap whose previous value has no word", kSwap, {192, 1032, 7}, 2},
      {"copy of system words", kCopy, {2, 200, 2}, 0, {{200, 3}, {201, 0xFFFFFFFF}}},
      {"copy into word 159", kCopy, {160, 159, 1}, 5},
      {"copy that begins below word 160", kCopy, {160, 158, 3}, 5},
      {"copy that ends past the last word", kCopy, {160, kLast, 2}, 2},
      {"step", kDfa, {0, 0x41, 3, kTable}, 0, {{163, 5065}}},
      {"step with its own table", kDfa, {0, 0x41, 3, kTableOfFive}, 0, {{163, 5065}}},
      {"step with a table that may not be read", kDfa, {0, 0, 0, kWriteOnly}, 5},
      {"shutdown", 0xFFFFFFFF, {}, 5},
  };
  return rows;
}

SlotWords item(Word opcode, Word tenant, const std::vector<Word>& args) {
  SlotWords words{1, opcode, tenant, 2};
  std::ranges::copy(args, words.begin() + 4);
  return words;
}

class Tables {
 public:
  explicit Tables(Megakernel& kernel) {
    std::vector<Word> words(512);
    for (Word i = 0; i < 512; ++i) words[i] = 5000 + i;
    add(kernel, {.handle = kTable, .word_count = 512, .access = memory::Access::read}, words);
    add(kernel, {.handle = kWriteOnly, .word_count = 512, .access = memory::Access::write}, words);
    add(kernel, {.handle = kTableOfFive, .word_count = 512, .owner = 5}, words);
  }

 private:
  void add(Megakernel& kernel, const DataBufferOptions& options, const std::vector<Word>& words) {
    buffers_.push_back(must(kernel.create_buffer(options)));
    must(buffers_.back().write(0, words));
  }
  std::vector<DataBuffer> buffers_;
};

}  // namespace

// Each row runs between two NOPs, which it must not affect.
void Builtins::expect_rows(Word tenant, const std::vector<BuiltinRow>& rows) {
  const Tables tables(kernel());
  for (const BuiltinRow& row : rows) {
    SCOPED_TRACE(row.name);
    Job before = job({.observables = kObservables});
    for (Word i = 0; i < kObservables; ++i) before.control[160 + i] = 1000 + i;
    before.put(6, {1, 0, 0, 2});
    before.put(7, item(row.opcode, tenant, row.args));
    before.put(8, {1, 0, 0, 2});
    const Outcome after = run(before);
    SlotWords slot = before.slot(7);
    slot[0] = row.fault == 0 ? 3 : 7;
    slot[3] = row.fault << 16 | 2;
    EXPECT_EQ(after.slot(7), slot);
    ExpectedControl expected(before);
    expected.done(0, 0, 2);
    if (row.fault == 0) {
      expected.done(tenant, row.opcode);
    } else {
      expected.faulted(tenant);
    }
    for (const WordChange& change : row.changes) expected.set(change.index, change.word);
    expected.expect(after.control);
  }
}

TEST_P(Builtins, every_operation_of_the_operator_has_its_effect_and_no_other) {
  expect_rows(0, word_rows());
  expect_rows(0, block_rows());
}

TEST_P(Builtins, every_operation_of_another_tenant_has_its_effect_and_no_other) {
  expect_rows(5, tenant_rows());
}

TEST_P(Builtins, without_observables_there_is_nothing_to_load_into) {
  Job before = job({.observables = 0});
  before.put(6, item(kLoad, 0, {2, 0}));
  before.put(7, item(kSwap, 0, {145, 0, 7}));
  before.put(8, item(kStore, 0, {7, 160}));
  before.put(9, item(kStore, 0, {7, 159}));
  const Outcome after = run(before);
  EXPECT_EQ(after.fault_code(6), 2u);
  EXPECT_EQ(after.fault_code(7), 2u);
  EXPECT_EQ(after.fault_code(8), 2u);
  ExpectedControl(before).faulted(0, 3).done(0, 1).set(159, 7).expect(after.control);
}

TEST_P(Builtins, an_opcode_without_a_handler_is_a_fault) {
  constexpr std::array<Word, 14> kUnknown{9,          15,         30,         32,        1000,
                                          0xFFEF,     0xFFF0,     0xFFFC,     0xFFFF,    0x10000,
                                          0x7FFFFFFF, 0x80000000, 0x80000002, 0xFFFFFFFE};
  Job before = job();
  for (Word i = 0; i < kUnknown.size(); ++i) before.put(i, {1, kUnknown[i], 1, 2, 7, 160});
  const Outcome after = run(before);
  for (Word i = 0; i < kUnknown.size(); ++i) EXPECT_EQ(after.fault_code(i), 1u) << kUnknown[i];
  EXPECT_EQ(after.control[160], 0u);
}

TEST_P(Builtins, a_megakernel_without_handlers_knows_the_built_in_operations) {
  Job before = job();
  before.put(7, {1, 1, 0, 2, 7, 160});
  before.put(8, {1, 8, 0, 2});
  before.put(9, {1, 0x80000001, 0, 2, 0x00010502, 0x00000205, 9, 161, 161, 163, 1});
  const Outcome after = run(kernel({.handlers = {}}), before);
  EXPECT_EQ(after.status(7), 3u);
  EXPECT_EQ(after.fault_code(8), 1u);
  EXPECT_EQ(after.status(9), 3u) << "a packed slot: STORE 9 to 161, then MEMCPY of one word";
  EXPECT_EQ(after.control[161], 9u);
  EXPECT_EQ(after.control[163], 9u);
}

TEST_P(Builtins, a_swap_is_won_by_one_item_alone) {
  const Shape shape{.slot_count = 256, .workgroup_size = 256, .handlers = {}};
  Job before = job({.slot_count = 256, .observables = 400});
  for (Word slot = 0; slot < 256; ++slot) before.put(slot, {1, kSwap, 0, 2, 160, 0, slot + 1});
  const Outcome after = run(kernel(shape), before);
  EXPECT_EQ(after.counts.done, 256u);
  EXPECT_NE(after.control[160], 0u);
  EXPECT_TRUE(after.control[320] == 0 || after.control[320] == after.control[160]);
}

TEST_P(Builtins, a_store_to_another_slot_of_the_ring_is_impossible) {
  // No index, however large, reaches the ring behind the control buffer.
  Job before = job();
  for (Word i = 0; i < 16; ++i) before.put(i, {1, kStore, 0, 2, 3, 160 + 32 + i * 16});
  const Outcome after = run(before);
  EXPECT_EQ(after.counts.faulted, 16u);
}

}  // namespace everkernel::conformance
