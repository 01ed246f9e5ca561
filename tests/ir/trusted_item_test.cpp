// The item as the C++ function of a trusted handler sees it: words of the slot, buffers and their
// access rights, turns.
#include "everkernel/ir/trusted_item.hpp"

#include <gtest/gtest.h>

#include <numeric>

#include "support/ir_machine.hpp"

namespace everkernel::test {
namespace {

using ir::TrustedBuffer;
using ir::TrustedItem;
using Words = std::vector<Word>;

Outcome run(Machine& machine, ir::TrustedHandler::Function function) {
  return machine.run({.cpu = function});
}

TEST(TrustedItem, has_the_words_of_its_slot) {
  Machine machine;
  machine.frame.opcode = 64;
  machine.frame.tenant = 3;
  machine.frame.priority = 4;
  machine.frame.slot = 99;
  machine.frame.lanes = 32;
  machine.frame.args[2] = 5;
  machine.frame.args[11] = 6;
  EXPECT_EQ(run(machine,
                [](TrustedItem& item) {
                  const Word words[] = {item.opcode(), item.tenant(), item.priority(), item.slot(),
                                        item.lanes(),  item.param(),  item.args()[11]};
                  for (Word i = 0; i < 7; ++i) item.output().store(i, words[i]);
                  return item.done();
                }),
            kDone);
  EXPECT_EQ(Words(machine.output.begin(), machine.output.end()),
            (Words{64, 3, 4, 99, 32, 5, 6, 0}));
}

// ---- buffers ----

struct AccessRow {
  std::string_view name;
  ir::TrustedHandler::Function function;
  Word code;
};

// Buffers of the rows: 3 read only, 4 write only, 5 of tenant 9, 6 without words and read only.
constexpr AccessRow kAccesses[] = {
    {"a load", [](TrustedItem& i) { return i.input().load(3) == 40 ? i.done() : i.fault(0); }, 0},
    {"a load past the end",
     [](TrustedItem& i) { return i.input().load(4) == 0 ? i.done() : i.fault(0); }, 2},
    {"a store past the end", [](TrustedItem& i) { return i.output().store(8, 1), i.done(); }, 2},
    {"an atomic past the end", [](TrustedItem& i) { return i.output().atomic_add(8, 1), i.done(); },
     2},
    {"a handle that is none", [](TrustedItem& i) { return i.buffer(77).load(0), i.done(); }, 9},
    {"handle 0", [](TrustedItem& i) { return i.buffer(0).store(0, 1), i.done(); }, 9},
    {"the length of a handle that is none",
     [](TrustedItem& i) { return i.buffer(77).length() == 0 ? i.done() : i.fault(0); }, 9},
    {"finding a handle that is none", [](TrustedItem& i) { return i.buffer(77), i.done(); }, 0},
    {"a load from read only", [](TrustedItem& i) { return i.buffer(3).load(0), i.done(); }, 0},
    {"a store to read only", [](TrustedItem& i) { return i.buffer(3).store(0, 1), i.done(); }, 5},
    {"a store past the end of read only",
     [](TrustedItem& i) { return i.buffer(3).store(9, 1), i.done(); }, 5},
    {"an atomic on read only", [](TrustedItem& i) { return i.buffer(3).atomic_or(0, 1), i.done(); },
     5},
    {"a load from write only", [](TrustedItem& i) { return i.buffer(4).load(0), i.done(); }, 5},
    {"a store to write only", [](TrustedItem& i) { return i.buffer(4).store(0, 1), i.done(); }, 0},
    {"an atomic on write only",
     [](TrustedItem& i) { return i.buffer(4).atomic_or(0, 1), i.done(); }, 5},
    {"another tenant's", [](TrustedItem& i) { return i.buffer(5).load(0), i.done(); }, 5},
    {"the length of another tenant's",
     [](TrustedItem& i) { return i.buffer(5).length(), i.done(); }, 5},
    {"a store to read only without words",
     [](TrustedItem& i) { return i.buffer(6).store(0, 1), i.done(); }, 5},
    {"a load without words", [](TrustedItem& i) { return i.buffer(6).load(0), i.done(); }, 2},
    {"words to read",
     [](TrustedItem& i) { return i.buffer(3).readable().size() == 2 ? i.done() : i.fault(0); }, 0},
    {"words to write of read only",
     [](TrustedItem& i) { return i.buffer(3).writable().empty() ? i.done() : i.fault(0); }, 5},
    {"words to read of write only",
     [](TrustedItem& i) { return i.buffer(4).readable().empty() ? i.done() : i.fault(0); }, 5},
    {"words to write",
     [](TrustedItem& i) { return i.output().writable().size() == 8 ? i.done() : i.fault(0); }, 0},
    {"words of nothing",
     [](TrustedItem& i) { return i.buffer(77).readable().empty() ? i.done() : i.fault(0); }, 9},
};

TEST(TrustedItem, accesses_have_the_faults_of_handlers) {
  for (const AccessRow& row : kAccesses) {
    Machine machine;
    machine.add({.handle = 3, .word_count = 2, .access = memory::Access::read});
    machine.add({.handle = 4, .word_count = 2, .access = memory::Access::write});
    machine.add({.handle = 5, .word_count = 2, .owner = 9});
    machine.add({.handle = 6, .word_count = 0, .access = memory::Access::read});
    const Outcome expected = row.code == 0 ? kDone : Outcome{Ending::fault, row.code};
    EXPECT_EQ(run(machine, row.function), expected) << row.name;
    EXPECT_EQ(std::accumulate(machine.output.begin(), machine.output.end(), 0u), 0u) << row.name;
  }
}

TEST(TrustedItem, control_words_are_written_as_the_tenant_may) {
  struct Row {
    Word tenant, index, code;
  };
  for (const Row& row : {Row{0, 0, 0}, Row{0, 159, 0}, Row{0, 199, 0}, Row{0, 200, 2},
                         Row{1, 159, 5}, Row{1, 160, 0}, Row{1, 199, 0}, Row{1, 200, 2}}) {
    Machine machine;
    machine.frame.tenant = row.tenant;
    machine.frame.args[3] = row.index;
    const Outcome outcome = run(machine, [](TrustedItem& item) {
      item.control().store(item.args()[3], 7);
      return item.done();
    });
    EXPECT_EQ(outcome.fault_code, row.code) << row.tenant << " " << row.index;
    EXPECT_EQ(std::accumulate(machine.control.begin(), machine.control.end(), 0u),
              row.code == 0 ? 7u : 0u);
  }
}

TEST(TrustedItem, control_words_are_plain_memory_for_the_operator_alone) {
  const auto function = [](TrustedItem& item) {
    return item.control().readable().size() == 200 ? item.control().writable(),
           item.done()                             : item.fault(0);
  };
  Machine machine;
  EXPECT_EQ(run(machine, function), kDone);
  machine.frame.tenant = 1;
  EXPECT_EQ(run(machine, function), faulted(FaultCode::permission_denied));
}

TEST(TrustedItem, of_several_faults_the_lowest_code_counts_and_the_rest_runs) {
  Machine machine;
  EXPECT_EQ(run(machine,
                [](TrustedItem& item) {
                  item.buffer(77).store(0, 1);  // 9
                  item.output().store(99, 1);   // 2
                  item.output().store(0, 7);
                  return item.fault(3);
                }),
            faulted(FaultCode::index_out_of_range));
  EXPECT_EQ(machine.output[0], 7u);
}

TEST(TrustedItem, atomics_give_the_word_before) {
  Machine machine;
  std::iota(machine.output.begin(), machine.output.end(), 12u);
  EXPECT_EQ(run(machine,
                [](TrustedItem& item) {
                  const TrustedBuffer words = item.output();
                  const Word before[] = {words.atomic_add(0, 5),       words.atomic_min(1, 3),
                                         words.atomic_max(2, 99),      words.atomic_and(3, 6),
                                         words.atomic_or(4, 3),        words.atomic_xor(5, 3),
                                         words.atomic_exchange(6, 70), words.atomic_cas(7, 19, 80)};
                  for (Word i = 0; i < 8; ++i) {
                    if (before[i] != 12 + i) return item.fault(i);
                  }
                  if (words.atomic_cas(7, 19, 90) != 80) return item.fault(8);
                  if (words.atomic_min(1, 4) != 3 || words.atomic_max(2, 1) != 99) {
                    return item.fault(9);
                  }
                  return item.done();
                }),
            kDone);
  EXPECT_EQ(Words(machine.output.begin(), machine.output.end()),
            (Words{17, 3, 99, 6, 19, 18, 70, 80}));
}

// ---- turns ----

TEST(TrustedItem, turn_k_belongs_to_lane_k_modulo_lanes) {
  Machine machine;
  machine.frame.lanes = 3;
  EXPECT_EQ(run(machine,
                [](TrustedItem& item) {
                  item.each(7, [&](Word i, Word lane) { item.output().store(i, lane + 1); });
                  return item.done();
                }),
            kDone);
  EXPECT_EQ(Words(machine.output.begin(), machine.output.end()), (Words{1, 2, 3, 1, 2, 3, 1, 0}));
}

TEST(TrustedItem, every_turn_runs_once) {
  for (const Word count : {0u, 1u, 255u, 256u, 257u, 1000u}) {
    Machine machine;
    machine.frame.args[3] = count;
    EXPECT_EQ(run(machine,
                  [](TrustedItem& item) {
                    item.each(item.args()[3], [&](Word i) {
                      item.output().store(0, item.output().load(0) + 1);
                      item.output().store(1, item.output().load(1) + i);
                    });
                    return item.done();
                  }),
              kDone);
    EXPECT_EQ(machine.output[0], count);
    EXPECT_EQ(machine.output[1], count == 0 ? 0 : count * (count - 1) / 2);
  }
}

TEST(TrustedItem, the_token_ends_turns) {
  Machine machine;
  static Word abort_word;
  abort_word = 0;
  machine.frame.abort = &abort_word;
  const auto function = [](TrustedItem& item) {
    item.each(0xFFFFFFFF, [&](Word i) {
      item.output().store(0, i);
      if (i == 1000) abort_word = 1;
    });
    return item.should_stop() ? item.done() : item.fault(0);
  };
  EXPECT_EQ(run(machine, function), faulted(FaultCode::deadline));
  EXPECT_GE(machine.output[0], 1000u);
  EXPECT_LT(machine.output[0], 2000u);
}

TEST(TrustedItem, one_thread_is_all_there_is) {
  Machine machine;
  machine.frame.lanes = 32;
  EXPECT_EQ(run(machine,
                [](TrustedItem& item) {
                  item.meet();
                  const bool is_alone = item.thread() == 0 && item.thread_count() == 1 &&
                                        item.leads() && item.from_leader(5) == 5 &&
                                        item.lowest(6) == 6 && item.total(7) == 7;
                  return is_alone ? item.done() : item.fault(0);
                }),
            kDone);
}

TEST(TrustedItem, what_it_says_goes_where_handlers_say_it) {
  Machine machine;
  const auto function = [](TrustedItem& item) {
    item.print(1, 2, 3);
    item.emit(4, 5, 6);
    return item.done();
  };
  EXPECT_EQ(run(machine, function), kDone);
  EXPECT_EQ(machine.prints, (std::vector<Words>{{1, 2, 3}}));
  EXPECT_EQ(machine.hits, (std::vector<Words>{{4, 5, 6}}));
  machine.frame.hooks = nullptr;
  EXPECT_EQ(run(machine, function), kDone);
}

}  // namespace
}  // namespace everkernel::test
