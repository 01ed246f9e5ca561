// Fuel: the last turn that runs and the fuel left, for every amount near the limit.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "skip.hpp"
#include "support/jit_trial.hpp"

namespace everkernel::test {
namespace {

FrameSpec base_frame(std::uint64_t fuel) {
  FrameSpec spec;
  spec.args = {1, 2};
  spec.fuel = fuel;
  spec.lanes = 4;
  spec.buffers = {{.handle = 1, .words = std::vector<Word>(16, 3)},
                  {.handle = 2, .words = std::vector<Word>(16, 0)}};
  return spec;
}

struct Row {
  std::string_view body;
  std::uint64_t cost;  // fuel it needs to be DONE
};

// Turns are counted by hand: one for each turn of for and while; an each pays its turns, then
// shares.
constexpr Row kRows[] = {
    {"for i in 0 .. 10 { }", 10},
    {"for i in 0 .. 10 { output[0] = output[0] + 1; }", 10},
    {"for i in 0 .. 0 { }", 0},
    {"for i in 7 .. 3 { }", 0},
    {"for i in -3i .. 3i { output[0] = output[0] + 1; }", 6},
    {"var n = 0; while n < 12 { n = n + 1; output[0] = n; }", 12},
    {"while false { }", 0},
    {"for i in 0 .. 4 { for k in 0 .. 3 { output[k] = i; } }", 4 + 12},
    {"for i in 0 .. 4 { for k in 0 .. i { output[k] = i; } }", 4 + 6},
    {"for i in 0 .. 3 { var n = 0; while n < 2 { n = n + 1; output[n] = i; } }", 3 + 6},
    {"for i in 0 .. 10 { if i == 4 { break; } output[i] = 1; }", 5},
    {"for i in 0 .. 10 { output[i] = 1; if i == 0 { break; } }", 1},
    {"for i in 0 .. 10 { output[i] = 1; if i == 9 { break; } }", 10},
    {"for i in 0 .. 10 { if i % 2 == 0 { continue; } output[i] = 1; }", 10},
    {"for i in 0 .. 5 { for k in 0 .. 9 { if k == i { break; } output[k] = i; } }", 5 + 15},
    {"for i in 0 .. 5 { for k in 0 .. 3 { if k == 1 { continue; } output[k] = i; } }", 20},
    {"for i in 0 .. 5 { for k in 0 .. 3 { output[k] = i; } if i == 2 { break; } }", 3 + 9},
    {"var n = 0; while true { n = n + 1; if n == 6 { break; } output[n] = 1; }", 6},
    {"var n = 0; while n < 6 { n = n + 1; if n > 2 { continue; } output[n] = 1; }", 6},
    {"for i in 0 .. 10 { if i == 3 { return; } output[i] = 1; }", 4},
    {"for i in 0 .. 3 { for k in 0 .. 10 { if k + i == 4 { return; } output[k] = 1; } }", 1 + 5},
    {"var n = 0; while true { n = n + 1; if n == 6 { return; } output[n] = 1; }", 6},
    {"each i in 0 .. 8 { output[i] = 1; }", 8},
    {"each i in 3 .. 3 { output[i] = 1; }", 0},
    {"each i in 0 .. 8 { if i % 2 == 0 { continue; } output[i] = 1; }", 8},
    // The share of a turn is the fuel left divided by 4, rounded down; each turn needs 3.
    {"each i in 0 .. 4 { for k in 0 .. 3 { output[i * 3 + k] = i; } }", 4 + 12},
    // Turn 3 needs 3, so 4 × 3 must be left, though less is spent.
    {"each i in 0 .. 4 { for k in 0 .. i { output[i * 3 + k] = i; } }", 4 + 12},
    {"each i in 0 .. 4 { for k in 0 .. 9 { if k == i { break; } output[k] = i; } }", 4 + 16},
    {"each i in 0 .. 2 { for k in 0 .. 2 { for m in 0 .. 2 { output[m] = i; } } }", 2 + 12},
    {"for j in 0 .. 2 { each i in 0 .. 3 { output[i] = j; } }", 2 + 6},
    {"each i in 0 .. 3 { output[i] = 1; } for i in 0 .. 3 { output[i] = 2; }", 6},
    {"each i in 0 .. 3 { for k in 0 .. i { output[k] = i; } } for i in 0 .. 5 { output[i] = 7; }",
     // 3 turns of the each, whose shares need 3 × 2 left and spend 3; the for needs 5 more: 3 +
     // max(6, 3 + 5).
     3 + 8},
};

TEST(Fuel, exactly_what_a_loop_costs_is_enough_and_the_rest_is_left) {
  EVERKERNEL_NEEDS_SUBJECT();
  std::string text;
  for (std::size_t i = 0; i < std::size(kRows); ++i) {
    text += fmt::format("handler h_{} = {} {{ {} }}\n", i, 1000 + i, kRows[i].body);
  }
  const Trial trial = Trial::from_text(text);
  for (std::size_t i = 0; i < std::size(kRows); ++i) {
    const Row& row = kRows[i];
    for (std::uint64_t fuel = 0; fuel < row.cost + 4; ++fuel) {
      const auto compared = trial.run(i, base_frame(fuel));
      EXPECT_EQ(compared.difference, "") << row.body << " with fuel " << fuel;
      const bool is_enough = fuel >= row.cost;
      EXPECT_EQ(compared.interpreted.outcome.fault_code, is_enough ? 0u : 4u)
          << row.body << " with fuel " << fuel;
    }
  }
}

// The same across the turns that native code pays for at one time.
TEST(Fuel, the_limit_holds_across_chunks_of_turns) {
  EVERKERNEL_NEEDS_SUBJECT();
  const Trial trial = Trial::from_text(
      "handler plain = 1000 { for i in 0 .. param { output[i & 15] = i; } }\n"
      "handler broken = 1001 { for i in 0 .. param { output[i & 15] = i; "
      "if i == args[3] { break; } } output[0] = 99; }\n"
      "handler left = 1002 { for i in 0 .. param { output[i & 15] = i; "
      "if i == args[3] { yield; } } output[0] = 99; }\n"
      "handler parallel = 1003 { each i in 0 .. param { atomic_add(output[i & 15], i); } "
      "output[0] = 99; }\n"
      "handler nested = 1004 { for k in 0 .. 3 { for i in 0 .. param { output[i & 15] = i; "
      "if i == args[3] { break; } } } }\n"
      "handler waits = 1005 { for i in 0 .. param { output[i & 15] = i; "
      "if i == args[3] { await read(i, 0, 0, 0); } } }\n"
      "handler asks = 1006 { for i in 0 .. param { if i == args[3] { requeue; } } }\n");
  constexpr Word kTurns[] = {1, 4095, 4096, 4097, 8192, 8200};
  for (std::size_t handler = 0; handler < trial.program().handlers().size(); ++handler) {
    for (const Word turns : kTurns) {
      for (const Word stop : {0u, 4094u, 4095u, 4096u, 8191u, 8192u, 9000u}) {
        for (const std::uint64_t fuel :
             {std::uint64_t{turns} - 1, std::uint64_t{turns}, std::uint64_t{turns} + 1,
              std::uint64_t{4095}, std::uint64_t{4096}, std::uint64_t{30'000}}) {
          FrameSpec spec = base_frame(fuel);
          spec.args[2] = turns;
          spec.args[3] = stop;
          const auto compared = trial.run(handler, spec);
          ASSERT_EQ(compared.difference, "") << "handler " << handler << ", turns " << turns
                                             << ", stop " << stop << ", fuel " << fuel;
        }
      }
    }
  }
}

TEST(Fuel, a_range_near_the_top_of_u32_is_left_by_fuel_alone) {
  EVERKERNEL_NEEDS_SUBJECT();
  const Trial trial = Trial::from_text(
      "handler all = 1000 { for i in 0 .. 0xffffffff { output[i & 15] = i; } }\n"
      "handler top = 1001 { for i in 0xffffe000 .. 0xffffffff { output[i & 15] = i; } }\n"
      "handler whole = 1002 { for i in i32(0x80000000) .. 0x7fffffffi { "
      "output[u32(i) & 15] = u32(i); } }\n"
      "handler parallel = 1003 { each i in 0 .. 0xffffffff { output[i & 15] = i; } }\n"
      "handler few = 1004 { each i in 0xfffffff0 .. 0xffffffff { output[i & 15] = i; } }\n");
  for (std::size_t handler = 0; handler < trial.program().handlers().size(); ++handler) {
    for (const std::uint64_t fuel : {0u, 1u, 14u, 15u, 4096u, 8190u, 8191u, 8192u, 12'289u}) {
      const auto compared = trial.run(handler, base_frame(fuel));
      EXPECT_EQ(compared.difference, "") << "handler " << handler << ", fuel " << fuel;
    }
  }
}

}  // namespace
}  // namespace everkernel::test
