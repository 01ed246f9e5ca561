// Every ending of a handler: its code, the words written before it, and that nothing after it runs.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "everkernel/jit/native.hpp"
#include "everkernel/memory/buffer_table.hpp"
#include "skip.hpp"
#include "support/ir_text.hpp"
#include "support/jit_trial.hpp"

namespace everkernel::test {
namespace {

constexpr Word kOutOfRange = 2, kNoFuel = 4, kDenied = 5, kBadHandle = 9, kDeadline = 10;

// input 1 and output 2 (8 words), args[3..6]: read only, write only, of tenant 3, unknown.
FrameSpec base_frame() {
  FrameSpec spec;
  spec.args = {1, 2, 77, 3, 4, 5, 99};
  spec.opcode = 1234;
  spec.tenant = 2;
  spec.priority = 3;
  spec.slot = 12;
  spec.control.assign(170, 5);
  const std::vector<Word> words = {10, 11, 12, 13, 14, 15, 16, 17};
  spec.buffers = {
      {.handle = 1, .words = words},
      {.handle = 2, .words = words},
      {.handle = 3, .words = words, .access = memory::Access::read},
      {.handle = 4, .words = words, .access = memory::Access::write},
      {.handle = 5, .words = words, .owner = 3},
      {.handle = 6, .words = words, .owner = 2},
  };
  return spec;
}

struct Row {
  std::string_view body;
  Word expected;  // fault code, 0 = done
};

// Each row is a handler, all rows one program. A row that does not fault leaves args[11] behind.
void expect_rows(std::span<const Row> rows, const FrameSpec& frame) {
  std::string text;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    text +=
        fmt::format("handler row_{} = {} {{ {} args[11] = 4711; }}\n", i, 1000 + i, rows[i].body);
  }
  const Trial trial = Trial::from_text(text);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (const Edge edge : {Edge::end, Edge::start}) {
      FrameSpec spec = frame;
      spec.control_edge = edge;
      for (BufferSpec& buffer : spec.buffers) buffer.edge = edge;
      const auto compared = trial.run(i, spec);
      const ir::Outcome expected{rows[i].expected == 0 ? ir::Ending::done : ir::Ending::fault,
                                 rows[i].expected};
      EXPECT_EQ(compared.interpreted.outcome.ending, expected.ending) << rows[i].body;
      EXPECT_EQ(compared.interpreted.outcome.fault_code, expected.fault_code) << rows[i].body;
      EXPECT_EQ(compared.interpreted.args[11], rows[i].expected == 0 ? 4711u : 0u) << rows[i].body;
      EXPECT_EQ(compared.difference, "") << rows[i].body;
    }
  }
}

TEST(Faults, an_access_is_checked_for_handle_owner_access_and_index_in_this_order) {
  EVERKERNEL_NEEDS_SUBJECT();
  constexpr Row kRows[] = {
      {"args[7] = input[7];", 0},
      {"args[7] = input[8];", kOutOfRange},
      {"args[7] = output[0xffffffff];", kOutOfRange},
      {"output[7] = 1;", 0},
      {"output[8] = 1;", kOutOfRange},
      {"output[0x40000000] = 1;", kOutOfRange},  // 4 times this is 0 in 32 bits
      {"atomic_add(output[7], 1);", 0},
      {"atomic_add(output[8], 1);", kOutOfRange},
      {"atomic_min(output[8], 1);", kOutOfRange},
      {"atomic_max(output[8], 1);", kOutOfRange},
      {"atomic_and(output[8], 1);", kOutOfRange},
      {"atomic_or(output[8], 1);", kOutOfRange},
      {"atomic_xor(output[8], 1);", kOutOfRange},
      {"atomic_exchange(output[8], 1);", kOutOfRange},
      {"atomic_cas(output[8], 1, 2);", kOutOfRange},
      {"args[7] = buffer(3)[0];", 0},
      {"args[7] = buffer(args[3])[8];", kOutOfRange},
      {"buffer(3)[0] = 1;", kDenied},
      {"buffer(3)[100] = 1;", kDenied},
      {"atomic_or(buffer(args[3])[0], 1);", kDenied},
      {"args[7] = len(buffer(3));", 0},
      {"buffer(4)[0] = 1;", 0},
      {"buffer(4)[8] = 1;", kOutOfRange},
      {"args[7] = buffer(4)[0];", kDenied},
      {"args[7] = buffer(args[4])[9];", kDenied},
      {"atomic_cas(buffer(4)[0], 1, 2);", kDenied},
      {"args[7] = len(buffer(4));", 0},
      {"args[7] = buffer(5)[0];", kDenied},
      {"args[7] = buffer(5)[99];", kDenied},
      {"buffer(5)[0] = 1;", kDenied},
      {"atomic_add(buffer(5)[0], 1);", kDenied},
      {"args[7] = len(buffer(5));", kDenied},
      {"args[7] = buffer(6)[0];", 0},
      {"args[7] = buffer(99)[0];", kBadHandle},
      {"args[7] = buffer(99)[0xffffffff];", kBadHandle},
      {"buffer(args[6])[0] = 1;", kBadHandle},
      {"atomic_xor(buffer(99)[0], 1);", kBadHandle},
      {"args[7] = len(buffer(99));", kBadHandle},
      {"args[7] = len(buffer(0));", kBadHandle},
      {"args[7] = buffer(0)[0];", kBadHandle},
      {"args[7] = buffer(0x80000001)[0];", kBadHandle},
      {"args[7] = buffer(0xffffffff)[0];", kBadHandle},
      {"args[7] = len(input) + len(output) + len(control);", 0},
  };
  expect_rows(kRows, base_frame());
}

TEST(Faults, an_unusable_input_or_output_is_said_where_it_is_used) {
  EVERKERNEL_NEEDS_SUBJECT();
  constexpr Row kBad[] = {
      {"args[11] = 1; args[11] = 0; args[7] = input[0];", kBadHandle},
      {"output[0] = 1;", kBadHandle},
      {"args[7] = len(input);", kBadHandle},
      {"args[7] = len(output);", kBadHandle},
      {"atomic_add(output[0], 1);", kBadHandle},
      {"for i in 0 .. 3 { output[i] = input[i]; }", kBadHandle},
      {"if slot == 0 { output[0] = input[0]; }", 0},
      {"for i in 0 .. 0 { output[i] = input[i]; }", 0},
      {"each i in 0 .. 3 { output[i] = 1; }", kBadHandle},
  };
  constexpr Row kWrongAccess[] = {
      {"args[7] = input[0];", kDenied},  // write only
      {"args[7] = len(input);", 0},
      {"output[0] = 1;", kDenied},  // read only
      {"args[7] = output[0];", 0},
      {"atomic_add(output[0], 1);", kDenied},
      {"atomic_add(input[0], 1);", kDenied},
      {"input[0] = 3;", 0},
      {"for i in 0 .. 3 { args[7] = input[i]; }", kDenied},
      {"for i in 0 .. 3 { output[i] = i; }", kDenied},
      {"for i in 0 .. 3 { atomic_add(output[i], i); }", kDenied},
      {"for i in 0 .. 9 { input[i] = output[i]; }", kOutOfRange},
  };
  constexpr Row kOtherOwner[] = {
      {"args[7] = input[0];", kDenied},
      {"args[7] = len(input);", kDenied},
      {"for i in 0 .. 3 { input[i] = i; }", kDenied},
      {"output[0] = 1;", 0},
  };
  FrameSpec spec = base_frame();
  spec.args[0] = 99;
  spec.args[1] = 0;
  expect_rows(kBad, spec);
  spec.tenant = 0;  // the owner of the entry of zeros behind a handle that names nothing
  expect_rows(kBad, spec);
  spec = base_frame();
  spec.args[0] = 4;
  spec.args[1] = 3;
  expect_rows(kWrongAccess, spec);
  spec.args[0] = 5;
  spec.args[1] = 6;
  expect_rows(kOtherOwner, spec);
}

TEST(Faults, operands_are_evaluated_before_the_place_is_checked) {
  EVERKERNEL_NEEDS_SUBJECT();
  constexpr Row kRows[] = {
      {"buffer(99)[0] = args[12];", kOutOfRange},
      {"args[12] = buffer(99)[0];", kBadHandle},
      {"output[8] = buffer(99)[0];", kBadHandle},
      {"output[args[12]] = buffer(99)[0];", kOutOfRange},
      {"buffer(args[12])[buffer(99)[0]] = 1;", kOutOfRange},
      {"atomic_add(output[8], buffer(99)[0]);", kBadHandle},
      {"atomic_cas(buffer(99)[0], args[12], buffer(5)[0]);", kOutOfRange},
      {"atomic_cas(buffer(99)[0], 1, buffer(5)[0]);", kDenied},
      {"args[7] = buffer(99)[0] + args[12];", kBadHandle},
      {"args[7] = args[12] + buffer(99)[0];", kOutOfRange},
      {"args[7] = select(true, 1, args[12]);", kOutOfRange},
      {"printf(1, args[12], buffer(99)[0]);", kOutOfRange},
      {"emit(1, 2, buffer(99)[0]);", kBadHandle},
      {"fault args[12];", kOutOfRange},
      {"for i in buffer(99)[0] .. args[12] { }", kBadHandle},
      {"for i in 0 .. args[12] { }", kOutOfRange},
      {"each i in 0 .. buffer(5)[0] { }", kDenied},
      {"while args[12] == 0 { }", kOutOfRange},
      {"if buffer(99)[0] == 0 { }", kBadHandle},
      {"await read(1, 2, args[12], buffer(99)[0]);", kOutOfRange},
  };
  expect_rows(kRows, base_frame());
}

TEST(Faults, args_have_twelve_words) {
  EVERKERNEL_NEEDS_SUBJECT();
  constexpr Row kRows[] = {
      {"args[7] = args[11];", 0},
      {"args[7] = args[12];", kOutOfRange},
      {"args[7] = args[slot - 1];", 0},
      {"args[7] = args[slot];", kOutOfRange},
      {"args[slot] = 1;", kOutOfRange},
      {"args[0xffffffff] = 1;", kOutOfRange},
      {"args[0] = 99; args[7] = input[0];", kBadHandle},
      {"args[slot - 12] = 99; args[7] = input[0];", kBadHandle},
      {"args[1] = 3; output[0] = 1;", kDenied},
      {"args[0] = 99; args[7] = output[0];", 0},
  };
  expect_rows(kRows, base_frame());
}

TEST(Faults, control_words_below_160_belong_to_tenant_0) {
  EVERKERNEL_NEEDS_SUBJECT();
  constexpr Row kTenant[] = {
      {"args[7] = control[0];", 0},
      {"args[7] = control[169];", 0},
      {"args[7] = control[170];", kOutOfRange},
      {"control[160] = 1;", 0},
      {"control[169] = 1;", 0},
      {"control[170] = 1;", kOutOfRange},
      {"control[159] = 1;", kDenied},
      {"control[0] = 1;", kDenied},
      {"atomic_add(control[160], 1);", 0},
      {"atomic_add(control[159], 1);", kDenied},
      {"atomic_cas(control[170], 1, 2);", kOutOfRange},
      {"for i in 150 .. 170 { control[i] = i; }", kDenied},
      {"for i in 160 .. 171 { control[i] = i; }", kOutOfRange},
      {"for i in 0 .. 171 { args[7] = control[i]; }", kOutOfRange},
  };
  constexpr Row kOperator[] = {
      {"control[0] = 1;", 0},
      {"control[159] = 1;", 0},
      {"atomic_exchange(control[100], 1);", 0},
      {"control[170] = 1;", kOutOfRange},
      {"for i in 0 .. 170 { atomic_add(control[i], i); }", 0},
  };
  constexpr Row kShort[] = {
      {"args[7] = control[99];", 0},      {"args[7] = control[100];", kOutOfRange},
      {"control[150] = 1;", kOutOfRange}, {"control[50] = 1;", kDenied},
      {"control[160] = 1;", kOutOfRange},
  };
  FrameSpec spec = base_frame();
  expect_rows(kTenant, spec);
  spec.tenant = 0;
  expect_rows(kOperator, spec);
  spec = base_frame();
  spec.control.resize(100);
  expect_rows(kShort, spec);
}

TEST(Faults, fault_n_is_256_plus_n_and_stops_at_the_highest_code) {
  EVERKERNEL_NEEDS_SUBJECT();
  constexpr Row kRows[] = {
      {"fault 0;", 256},
      {"fault 5;", 261},
      {"fault 65279;", 65535},
      {"fault 65279 + 1;", 65535},
      {"fault ~0;", 65535},
      {"fault param;", 256 + 77},
      {"fault 0 - param;", 65535},
      {"for i in 0 .. 9 { if i == 4 { fault i; } }", 260},
      {"while true { fault 1; }", 257},
  };
  expect_rows(kRows, base_frame());
}

TEST(Faults, the_abort_word_ends_an_item_at_its_next_turn) {
  EVERKERNEL_NEEDS_SUBJECT();
  constexpr Row kRows[] = {
      {"output[0] = 1;", 0},
      {"for i in 0 .. 0 { }", 0},
      {"while false { }", 0},
      {"each i in 5 .. 5 { }", 0},
      {"for i in 0 .. 3 { output[i] = 1; }", kDeadline},
      {"while true { output[0] = 1; }", kDeadline},
      {"each i in 0 .. 3 { output[i] = 1; }", kDeadline},
      {"each i in 0 .. 3 { for k in 0 .. 2 { output[i] = 1; } }", kDeadline},
      {"for i in 0 .. 3 { for k in 0 .. 2 { output[i] = 1; } }", kDeadline},
      {"for i in 0 .. args[12] { }", kOutOfRange},
  };
  FrameSpec spec = base_frame();
  spec.abort = Abort::set;
  expect_rows(kRows, spec);
  spec.fuel = 0;  // the abort word is looked at first
  expect_rows(kRows, spec);
}

// Runs native code whose abort word is word 7 of its output. It has so many turns that a visit to
// all of them takes seconds.
void expect_quick_abort(std::string_view turn, Word expected) {
  const std::string text =
      fmt::format("handler h = 1000 {{ each i in 0 .. param {{ {} }} }}", turn);
  const auto program = check_text(text);
  ASSERT_TRUE(program) << program.error().message;
  for (const auto memory : {jit::MemoryUse::shared, jit::MemoryUse::planned}) {
    const auto native = jit::NativeProgram::compile(*program, {.memory = memory});
    ASSERT_TRUE(native) << native.error().message;
    memory::BufferTable table;
    const auto buffer = table.create({.handle = 2, .word_count = 8});
    ASSERT_TRUE(buffer);
    ir::ItemFrame frame;
    frame.args[1] = 2;
    frame.args[2] = 0xFFFFFFF0u;
    frame.fuel = std::uint64_t{1} << 40;
    frame.buffers = table.view();
    frame.abort = buffer->words().data() + 7;
    const auto start = std::chrono::steady_clock::now();
    EXPECT_EQ(native->run(0, frame).fault_code, expected) << turn;
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(1)) << turn;
  }
}

TEST(Faults, an_abort_ends_a_native_each_without_a_visit_to_the_turns_that_are_left) {
  EVERKERNEL_NEEDS_NATIVE_CODE();
  expect_quick_abort("if i == 3 { output[7] = 1; }", kDeadline);
  expect_quick_abort("if i == 3 { output[7] = 1; } for k in 0 .. 2 { output[k] = 1; }", kDeadline);
  expect_quick_abort("if i == 3 { output[7] = 1; } while output[7] == 1 { }", kDeadline);
}

TEST(Faults, the_lowest_turn_that_faulted_before_an_abort_gives_the_code_of_native_code) {
  EVERKERNEL_NEEDS_NATIVE_CODE();
  expect_quick_abort("if i == 3 { output[7] = 1; } fault 9;", 256 + 9);
  expect_quick_abort("for k in 0 .. 2 { output[k] = 1; } if i == 3 { output[7] = 1; } fault i;",
                     256);
}

TEST(Faults, a_clear_or_absent_abort_word_ends_nothing) {
  EVERKERNEL_NEEDS_SUBJECT();
  constexpr Row kRows[] = {{"for i in 0 .. 8 { output[i] = 1; }", 0},
                           {"each i in 0 .. 8 { for k in 0 .. 2 { output[i] = 1; } }", 0},
                           {"while true { }", kNoFuel}};
  FrameSpec spec = base_frame();
  expect_rows(kRows, spec);
  spec.abort = Abort::absent;
  expect_rows(kRows, spec);
}

TEST(Faults, what_was_written_before_a_fault_stays) {
  EVERKERNEL_NEEDS_SUBJECT();
  const Trial trial = Trial::from_text(
      "handler h = 1000 { output[0] = 1; args[7] = 9; control[160] = 3; printf(1, 2, 3); "
      "emit(4, 5, 6); output[8] = 2; output[1] = 2; args[8] = 9; printf(7, 8, 9); }");
  const auto compared = trial.run(0, base_frame());
  EXPECT_EQ(compared.difference, "");
  EXPECT_EQ(compared.interpreted.outcome.fault_code, kOutOfRange);
  EXPECT_EQ(compared.interpreted.buffers[1][0], 1u);
  EXPECT_EQ(compared.interpreted.buffers[1][1], 11u);
  EXPECT_EQ(compared.interpreted.args[7], 9u);
  EXPECT_EQ(compared.interpreted.args[8], 0u);
  EXPECT_EQ(compared.interpreted.control[160], 3u);
  const std::vector<HookCall> calls = {{0, 1, 2, 3}, {1, 4, 5, 6}};
  EXPECT_EQ(compared.interpreted.calls, calls);
}

TEST(Faults, a_turn_of_each_that_faults_ends_alone_and_the_lowest_gives_the_code) {
  EVERKERNEL_NEEDS_SUBJECT();
  struct EachRow {
    std::string_view body;
    Word code;
    std::vector<Word> output;
  };
  const std::vector<EachRow> rows = {
      {"each i in 0 .. 8 { if i == 5 { fault 5; } if i == 3 { fault 3; } output[i] = i; }",
       259,
       {0, 1, 2, 13, 4, 15, 6, 7}},
      {"each i in 0 .. 10 { output[i] = i; }", kOutOfRange, {0, 1, 2, 3, 4, 5, 6, 7}},
      {"each i in 0 .. 8 { output[i ^ 8 * u32(i == 2)] = i; if i == 1 { fault 7; } }",
       263,
       {0, 1, 12, 3, 4, 5, 6, 7}},
      {"each i in 0 .. 4 { for k in 0 .. 3 { output[i * 3 + k] = i; } }",
       kOutOfRange,
       {0, 0, 0, 1, 1, 1, 2, 2}},
      {"each i in 0 .. 8 { if i < 4 { continue; } output[i] = buffer(90 + i)[0]; }",
       kBadHandle,
       {10, 11, 12, 13, 14, 15, 16, 17}},
      {"each i in 0 .. 2 { while i == 0 { output[0] = output[0] + 1; } output[1 + i] = 1; }",
       kNoFuel,
       {14, 11, 1, 13, 14, 15, 16, 17}},
  };
  std::string text;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    text += fmt::format("handler h_{} = {} {{ {} args[11] = 1; output[0] = 99; }}\n", i, 1000 + i,
                        rows[i].body);
  }
  const Trial trial = Trial::from_text(text);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    FrameSpec spec = base_frame();
    if (rows[i].code == kNoFuel) spec.fuel = 10;  // two turns, 4 for each: output[0] is 10 + 4
    const auto compared = trial.run(i, spec);
    EXPECT_EQ(compared.difference, "") << rows[i].body;
    EXPECT_EQ(compared.interpreted.outcome.fault_code, rows[i].code) << rows[i].body;
    EXPECT_EQ(compared.interpreted.buffers[1], rows[i].output) << rows[i].body;
    EXPECT_EQ(compared.interpreted.args[11], 0u) << rows[i].body;
  }
}

TEST(Endings, each_way_to_end_a_run_is_told_apart) {
  EVERKERNEL_NEEDS_SUBJECT();
  struct EndRow {
    std::string_view body;
    ir::Ending ending;
  };
  constexpr EndRow kRows[] = {
      {"", ir::Ending::done},
      {"return;", ir::Ending::done},
      {"yield;", ir::Ending::yield},
      {"requeue;", ir::Ending::requeue},
      {"await read(args[3], param + 1, 4, 4096);", ir::Ending::wait_io},
      {"await write(9, 8, 7, 6);", ir::Ending::wait_io},
      {"for i in 0 .. 100 { if i == 50 { yield; } }", ir::Ending::yield},
      {"while true { for i in 0 .. 10 { if i == 5 { requeue; } } }", ir::Ending::requeue},
      {"if param == 77 { return; yield; } else { requeue; } fault 1;", ir::Ending::done},
  };
  std::string text;
  for (std::size_t i = 0; i < std::size(kRows); ++i) {
    text += fmt::format("handler h_{} = {} {{ args[7] = 6; {} }}\n", i, 1000 + i, kRows[i].body);
  }
  const Trial trial = Trial::from_text(text);
  for (std::size_t i = 0; i < std::size(kRows); ++i) {
    const auto compared = trial.run(i, base_frame());
    EXPECT_EQ(compared.difference, "") << kRows[i].body;
    EXPECT_EQ(compared.interpreted.outcome, (ir::Outcome{kRows[i].ending, 0})) << kRows[i].body;
    EXPECT_EQ(compared.interpreted.args[7], 6u);
  }
  const ir::IoAsk read = trial.run(4, base_frame()).interpreted.io;
  EXPECT_EQ(std::vector<Word>(
                {read.is_write, read.source, read.block, read.destination, read.byte_count}),
            std::vector<Word>({0, 3, 78, 4, 4096}));
  EXPECT_EQ(trial.run(5, base_frame()).interpreted.io.is_write, 1u);
}

}  // namespace
}  // namespace everkernel::test
