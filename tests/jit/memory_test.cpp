// Accesses to words: aliasing buffers, atomics, args, and the words of the slot.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "skip.hpp"
#include "support/jit_trial.hpp"

namespace everkernel::test {
namespace {

// Loops that LLVM vectorises if it may. When their buffers overlap, the results depend on the order
// of the turns.
constexpr std::string_view kOverlapping[] = {
    "for i in 0 .. n { output[i] = input[i] + 1; }",
    "for i in 0 .. n - 1 { output[i + 1] = input[i] + 1; }",
    "for i in 0 .. n - 1 { output[i] = input[i + 1] + 1; }",
    "for i in 0 .. n - 8 { output[i + 8] = input[i] * 3; }",
    "for i in 0 .. n - 3 { output[i + 3] = input[i] ^ input[i + 1]; }",
    "for i in 0 .. n / 2 { output[i * 2] = input[i]; }",
    "for i in 0 .. n / 2 { output[i] = input[i * 2 + 1]; }",
    "for i in 0 .. n { output[n - 1 - i] = input[i]; }",
    "for i in 0 .. n { output[i] = output[i] + input[i & 3]; }",
    "var sum = 0; for i in 0 .. n { sum = sum + input[i]; output[i] = sum; }",
    "for i in 0 .. n { output[0] = output[0] + input[i]; }",
    "for i in 0 .. n { atomic_add(output[i & 3], input[i]); }",
    "for i in 0 .. n { output[i] = bits_u32(sqrt(abs(bits_f32(input[i])))); }",
    "each i in 0 .. n { output[i] = input[i] * 5 + output[i]; }",
    "for i in 0 .. n { input[i] = output[i]; output[i] = 7; }",
    "let k = input[0]; for i in 0 .. n { output[i] = k + input[0]; }",
};

TEST(Memory, overlapping_buffers_are_read_and_written_in_order) {
  EVERKERNEL_NEEDS_SUBJECT();
  std::string text;
  for (std::size_t i = 0; i < std::size(kOverlapping); ++i) {
    text += fmt::format("handler h_{} = {} {{ let n = min(len(input), len(output)); {} }}\n", i,
                        1000 + i, kOverlapping[i]);
  }
  const Trial trial = Trial::from_text(text);
  for (const std::size_t words : {16u, 100u, 1000u, 5000u}) {
    for (const std::size_t shift : {0u, 1u, 2u, 3u, 4u, 7u, 8u, 15u, 16u}) {
      for (const bool is_swapped : {false, true}) {
        FrameSpec spec;
        spec.args[0] = is_swapped ? 2 : 1;
        spec.args[1] = is_swapped ? 1 : 2;
        BufferSpec whole{.handle = 1, .words = std::vector<Word>(words)};
        for (std::size_t i = 0; i < words; ++i) whole.words[i] = static_cast<Word>(i * 7 + 1);
        spec.buffers = {whole,
                        {.handle = 2,
                         .words = std::vector<Word>(words - shift),
                         .alias_of = 0,
                         .alias_first = shift}};
        for (std::size_t i = 0; i < std::size(kOverlapping); ++i) {
          const auto compared = trial.run(i, spec);
          EXPECT_EQ(compared.difference, "")
              << kOverlapping[i] << "\nwords " << words << ", shift " << shift
              << (is_swapped ? ", output first" : ", input first");
        }
      }
    }
  }
}

TEST(Memory, one_buffer_as_input_and_output_is_one_buffer) {
  EVERKERNEL_NEEDS_SUBJECT();
  const Trial trial = Trial::from_text(
      "handler h = 1000 { for i in 0 .. len(input) - 1 { output[i + 1] = input[i] + 1; } }");
  FrameSpec spec;
  spec.args = {1, 1};
  spec.buffers = {{.handle = 1, .words = {5, 0, 0, 0, 0, 0, 0, 0, 0, 0}}};
  const auto compared = trial.run(0, spec);
  EXPECT_EQ(compared.difference, "");
  EXPECT_EQ(compared.interpreted.buffers[0],
            std::vector<Word>({5, 6, 7, 8, 9, 10, 11, 12, 13, 14}));
}

TEST(Memory, atomics_give_the_word_before_and_leave_the_word_after) {
  EVERKERNEL_NEEDS_SUBJECT();
  struct Row {
    std::string_view call;
    Word before, after;
  };
  constexpr Row kRows[] = {
      {"atomic_add({}, 2)", 0xFFFFFFFFu, 1},
      {"atomic_min({}, 0x80000000)", 0xFFFFFFFFu, 0x80000000u},
      {"atomic_min({}, 9)", 3, 3},
      {"atomic_max({}, 0x80000000)", 1, 0x80000000u},  // unsigned
      {"atomic_max({}, 1)", 0xFFFFFFFFu, 0xFFFFFFFFu},
      {"atomic_and({}, 6)", 3, 2},
      {"atomic_or({}, 6)", 3, 7},
      {"atomic_xor({}, 6)", 3, 5},
      {"atomic_exchange({}, 6)", 3, 6},
      {"atomic_cas({}, 3, 8)", 3, 8},
      {"atomic_cas({}, 4, 8)", 3, 3},
  };
  constexpr std::string_view kPlaces[] = {"output[0]", "input[0]", "control[160]",
                                          "buffer(args[1])[0]"};
  std::string text;
  std::size_t count = 0;
  for (const Row& row : kRows) {
    for (const std::string_view place : kPlaces) {
      const std::string call = fmt::format(fmt::runtime(row.call), place);
      text += fmt::format("handler h_{} = {} {{ args[7] = {}; }}\n", count, 1000 + count, call);
      ++count;
    }
  }
  const Trial trial = Trial::from_text(text);
  for (std::size_t i = 0; i < count; ++i) {
    const Row& row = kRows[i / std::size(kPlaces)];
    FrameSpec spec;
    spec.args = {1, 2};
    spec.tenant = 4;
    spec.control.assign(161, row.before);
    spec.buffers = {{.handle = 1, .words = {row.before}}, {.handle = 2, .words = {row.before}}};
    const auto compared = trial.run(i, spec);
    EXPECT_EQ(compared.difference, "") << row.call;
    EXPECT_EQ(compared.interpreted.args[7], row.before) << row.call;
    const auto& result = compared.interpreted;
    const Word found[] = {result.buffers[1][0], result.buffers[0][0], result.control[160],
                          result.buffers[1][0]};
    EXPECT_EQ(found[i % std::size(kPlaces)], row.after) << row.call;
  }
}

TEST(Memory, an_item_sees_its_slot_its_args_and_its_lanes) {
  EVERKERNEL_NEEDS_SUBJECT();
  const Trial trial = Trial::from_text(
      "handler h = 1000 scope warp { output[0] = opcode; output[1] = tenant; "
      "output[2] = priority; output[3] = slot; output[4] = param; output[5] = lane; "
      "output[6] = lanes; output[7] = args[9]; output[8] = len(control); "
      "each i in 0 .. 70 { output[10 + i] = lane; } output[9] = lane; }\n"
      "payload { output[0] = opcode; args[2] = 5; output[1] = param; args[1] = 1; "
      "output[0] = 6; }");
  FrameSpec spec;
  spec.args = {1, 2, 3, 0, 0, 0, 0, 0, 0, 44};
  spec.opcode = 1000;
  spec.tenant = 28;
  spec.priority = 2;
  spec.slot = 4095;
  spec.lanes = 32;
  spec.control.assign(170, 0);
  spec.buffers = {{.handle = 1, .words = {0}}, {.handle = 2, .words = std::vector<Word>(80)}};
  const auto compared = trial.run(0, spec);
  EXPECT_EQ(compared.difference, "");
  const std::vector<Word>& output = compared.interpreted.buffers[1];
  EXPECT_EQ(std::vector<Word>(output.begin(), output.begin() + 10),
            std::vector<Word>({1000, 28, 2, 4095, 3, 0, 32, 44, 170, 0}));
  EXPECT_EQ(output[10], 0u);
  EXPECT_EQ(output[41], 31u);
  EXPECT_EQ(output[42], 0u);
  EXPECT_EQ(output[79], 5u);
  const auto fused = trial.run(1, spec);
  EXPECT_EQ(fused.difference, "");
  EXPECT_EQ(fused.interpreted.buffers[1][0], 1000u);
  EXPECT_EQ(fused.interpreted.buffers[1][1], 5u);
  EXPECT_EQ(fused.interpreted.buffers[0][0], 6u);  // output moved with args[1]
}

TEST(Memory, printf_and_emit_reach_the_hooks_in_order_and_may_have_none) {
  EVERKERNEL_NEEDS_SUBJECT();
  const Trial trial = Trial::from_text(
      "handler h = 1000 { for i in 0 .. 3 { printf(i, i + 1, 2); if i == 1 { emit(7, i, 9); } } }");
  FrameSpec spec;
  const auto compared = trial.run(0, spec);
  EXPECT_EQ(compared.difference, "");
  const std::vector<HookCall> calls = {{0, 0, 1, 2}, {0, 1, 2, 2}, {1, 7, 1, 9}, {0, 2, 3, 2}};
  EXPECT_EQ(compared.interpreted.calls, calls);
  spec.has_hooks = false;
  EXPECT_EQ(trial.run(0, spec).difference, "");
}

TEST(Memory, a_frame_without_buffers_faults_and_touches_nothing) {
  EVERKERNEL_NEEDS_SUBJECT();
  const Trial trial = Trial::from_text(
      "handler h = 1000 { output[0] = 1; }\nhandler k = 1001 { args[3] = control[0]; }\n"
      "handler m = 1002 { for i in 0 .. 9 { args[3] = input[i]; } }\n"
      "handler n = 1003 { control[160] = 1; }\n");
  const Word codes[] = {9, 2, 9, 2};
  for (std::size_t i = 0; i < std::size(codes); ++i) {
    const auto compared = trial.run(i, {});
    EXPECT_EQ(compared.difference, "");
    EXPECT_EQ(compared.interpreted.outcome.fault_code, codes[i]);
  }
}

}  // namespace
}  // namespace everkernel::test
