// `each` on the reference interpreter: turns, lanes, and turns that fault.
#include "support/ir_machine.hpp"

namespace everkernel::test {
namespace {

using Words = std::vector<Word>;

Words words_of(std::span<const Word> span) {
  return {span.begin(), span.end()};
}

TEST(Each, turn_k_runs_on_lane_k_modulo_lanes) {
  Machine machine;
  machine.frame.lanes = 3;
  EXPECT_EQ(
      machine.run("each i in 10 .. 17 { output[i - 10] = lane + 1; } output[7] = lane + lanes;",
                  "scope group "),
      kDone);
  EXPECT_EQ(words_of(machine.output), (Words{1, 2, 3, 1, 2, 3, 1, 3}));
}

TEST(Each, counts_lanes_from_its_first_turn_whatever_the_counter) {
  Machine machine;
  machine.frame.lanes = 32;
  EXPECT_EQ(machine.run("each i in -2i .. 2i { output[u32(i + 2i)] = lane; }", "scope warp "),
            kDone);
  EXPECT_EQ(words_of(machine.output.first(4)), (Words{0, 1, 2, 3}));
}

TEST(Each, one_lane_runs_every_turn) {
  Machine machine;
  EXPECT_EQ(machine.run("each i in 0 .. 4 { output[i] = lane + lanes; }"), kDone);
  EXPECT_EQ(words_of(machine.output.first(4)), (Words{1, 1, 1, 1}));
}

TEST(Each, reads_outer_variables_and_args) {
  Machine machine;
  machine.frame.args[3] = 100;
  EXPECT_EQ(machine.run("var x = 1; x = 7; each i in 0 .. 3 { output[i] = x + args[3] + i; }"),
            kDone);
  EXPECT_EQ(words_of(machine.output.first(3)), (Words{107, 108, 109}));
}

TEST(Each, continue_ends_its_own_turn) {
  Machine machine;
  EXPECT_EQ(machine.run("each i in 0 .. 4 { if i == 1 { continue; } output[i] = 1; }"), kDone);
  EXPECT_EQ(words_of(machine.output.first(4)), (Words{1, 0, 1, 1}));
}

TEST(Each, the_lowest_faulting_turn_gives_the_code_and_the_others_run) {
  Machine machine;
  EXPECT_EQ(machine.run(R"(
      output[6] = 1;
      each i in 0 .. 6 {
        if i == 2 { fault 20; }
        if i == 4 { let x = input[99]; }
        if i == 5 { output[i] = 9; fault 50; }
        output[i] = i + 1;
      }
      output[7] = 1;)"),
            (Outcome{Ending::fault, 256 + 20}));
  EXPECT_EQ(words_of(machine.output), (Words{1, 2, 0, 4, 0, 9, 1, 0}));
}

TEST(Each, the_code_may_be_the_systems) {
  Machine machine;
  EXPECT_EQ(machine.run("each i in 0 .. 4 { if i > 0 { output[8 + i] = 1; } fault 1; }"),
            (Outcome{Ending::fault, 257}));
  EXPECT_EQ(machine.run("each i in 0 .. 4 { if i == 3 { fault 1; } output[8] = 1; }"),
            faulted(FaultCode::index_out_of_range));
}

TEST(Each, a_fault_in_a_later_each_finds_the_first_one_done) {
  Machine machine;
  EXPECT_EQ(machine.run(R"(each i in 0 .. 2 { output[i] = 1; }
                           each i in 0 .. 2 { output[2 + i] = 1; fault i; }
                           each i in 0 .. 2 { output[4 + i] = 1; })"),
            (Outcome{Ending::fault, 256}));
  EXPECT_EQ(words_of(machine.output.first(6)), (Words{1, 1, 1, 1, 0, 0}));
}

TEST(Each, faults_in_the_bounds_run_no_turn) {
  Machine machine;
  EXPECT_EQ(machine.run("each i in 0 .. input[4] { output[0] = 1; }"),
            faulted(FaultCode::index_out_of_range));
  EXPECT_EQ(machine.output[0], 0u);
}

TEST(Each, stands_in_loops_and_lane_is_zero_between) {
  Machine machine;
  machine.frame.lanes = 4;
  EXPECT_EQ(machine.run(R"(for k in 0 .. 2 { each i in 0 .. 4 { atomic_add(output[i], lane); }
                                            output[4 + k] = lane; })",
                        "scope warp "),
            kDone);
  EXPECT_EQ(words_of(machine.output.first(6)), (Words{0, 2, 4, 6, 0, 0}));
}

}  // namespace
}  // namespace everkernel::test
