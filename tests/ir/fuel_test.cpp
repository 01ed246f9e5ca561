// Fuel, to the turn: how much each kind of loop charges, and when.
#include "support/ir_machine.hpp"

namespace everkernel::test {
namespace {

struct Spent {
  Outcome outcome;
  std::uint64_t fuel_left;
  std::vector<Word> output;
};

Spent run_with(std::uint64_t fuel, std::string_view body) {
  Machine machine;
  machine.frame.fuel = fuel;
  const Outcome outcome = machine.run(body);
  return {outcome, machine.frame.fuel, {machine.output.begin(), machine.output.end()}};
}

const Outcome kOutOfFuel = faulted(FaultCode::fuel_exhausted);

// The body ends with just this much fuel, all of it spent, and faults with one less.
void expect_costs(std::uint64_t cost, std::string_view body) {
  const Spent enough = run_with(cost, body);
  EXPECT_EQ(enough.outcome, kDone) << body;
  EXPECT_EQ(enough.fuel_left, 0u) << body;
  EXPECT_EQ(run_with(cost + 7, body).fuel_left, 7u) << body;
  if (cost == 0) return;
  EXPECT_EQ(run_with(cost - 1, body).outcome, kOutOfFuel) << body;
}

TEST(Fuel, a_turn_of_for_or_while_costs_one) {
  expect_costs(0, "output[0] = 1; if true { printf(1, 2, 3); } else {}");
  expect_costs(0, "for i in 0 .. 0 {} while false {} each i in 5 .. 3 {}");
  expect_costs(5, "for i in 0 .. 5 { output[0] = i; }");
  expect_costs(5, "for i in -2i .. 3i {}");
  expect_costs(4, "var i = 0; while i < 4 { i = i + 1; }");
  expect_costs(3 + 3 * 2, "for i in 0 .. 3 { for j in 0 .. 2 {} }");
  expect_costs(2 + 3, "for i in 0 .. 2 {} for i in 0 .. 3 {}");
}

TEST(Fuel, turns_cut_short_cost_as_much) {
  expect_costs(3, "for i in 0 .. 9 { if i == 2 { break; } }");
  expect_costs(4, "for i in 0 .. 4 { continue; }");
  expect_costs(1, "while true { break; }");
  expect_costs(1, "while true { return; }");
}

TEST(Fuel, the_turn_that_has_none_does_not_begin) {
  const Spent run = run_with(4, "for i in 0 .. 5 { output[i] = 1; } output[7] = 1;");
  EXPECT_EQ(run.outcome, kOutOfFuel);
  EXPECT_EQ(run.output, (std::vector<Word>{1, 1, 1, 1, 0, 0, 0, 0}));
}

TEST(Fuel, an_endless_loop_ends) {
  EXPECT_EQ(run_with(100'000, "while true {}").outcome, kOutOfFuel);
  const Spent run = run_with(1000, "while true { atomic_add(output[0], 1); }");
  EXPECT_EQ(run.output[0], 1000u);
}

TEST(Fuel, the_condition_of_a_while_is_evaluated_before_it_is_charged) {
  const Spent run = run_with(2, "while atomic_add(output[0], 1) < 9 {}");
  EXPECT_EQ(run.outcome, kOutOfFuel);
  EXPECT_EQ(run.output[0], 3u);
}

TEST(Fuel, an_each_is_charged_for_all_its_turns_before_the_first) {
  expect_costs(4, "each i in 0 .. 4 { output[i] = 1; }");
  const Spent run = run_with(3, "output[7] = 1; each i in 0 .. 4 { output[i] = 1; }");
  EXPECT_EQ(run.outcome, kOutOfFuel);
  EXPECT_EQ(run.output, (std::vector<Word>{0, 0, 0, 0, 0, 0, 0, 1}));
  EXPECT_EQ(run_with(1000, "each i in 0 .. 4294967295 { output[0] = 1; }").outcome, kOutOfFuel);
}

// Turn i of each of these has an inner loop of i turns.
constexpr std::string_view kStairs =
    "each i in 0 .. 4 { for j in 0 .. i {} output[i] = 1; } output[7] = 1;";

TEST(Fuel, a_turn_may_spend_an_equal_share_of_what_is_left) {
  // 4 for the turns and 3 for each: turn 3 just fits.
  const Spent enough = run_with(4 + 4 * 3, kStairs);
  EXPECT_EQ(enough.outcome, kDone);
  // Turn 3 alone has too little, though the others leave enough: 11 / 4 is 2.
  const Spent short_share = run_with(4 + 11, kStairs);
  EXPECT_EQ(short_share.outcome, kOutOfFuel);
  EXPECT_EQ(short_share.output, (std::vector<Word>{1, 1, 1, 0, 0, 0, 0, 0}));
  // Nothing left to share: only turn 0 needs nothing.
  EXPECT_EQ(run_with(4 + 3, kStairs).output, (std::vector<Word>{1, 0, 0, 0, 0, 0, 0, 0}));
}

TEST(Fuel, the_item_is_charged_what_the_turns_spent) {
  EXPECT_EQ(run_with(100, kStairs).fuel_left, 100u - 4 - (0 + 1 + 2 + 3));
  EXPECT_EQ(run_with(4 + 4 * 3, kStairs).fuel_left, 12u - 6);
  // The loop behind the each may spend the fuel that the each has left.
  const std::string behind = std::string(kStairs) + " while true { atomic_add(output[6], 1); }";
  EXPECT_EQ(run_with(100, behind).output[6], 90u);
}

TEST(Fuel, turns_that_fault_are_charged_too_and_cost_no_other_turn) {
  // Every odd turn loops for ever and spends its share; the even ones still run.
  const Spent run = run_with(4 + 40, "each i in 0 .. 4 { while i % 2 == 1 {} output[i] = 1; }");
  EXPECT_EQ(run.outcome, kOutOfFuel);
  EXPECT_EQ(run.output, (std::vector<Word>{1, 0, 1, 0, 0, 0, 0, 0}));
  EXPECT_EQ(run.fuel_left, 20u);
}

TEST(Fuel, a_fault_of_a_lower_turn_comes_before_spent_fuel) {
  EXPECT_EQ(run_with(4 + 4, "each i in 0 .. 4 { if i == 1 { fault 9; } while i == 3 {} }").outcome,
            (Outcome{Ending::fault, 256 + 9}));
}

TEST(Fuel, an_each_in_a_loop_is_charged_every_time) {
  expect_costs(3 + 3 * 5, "for k in 0 .. 3 { each i in 0 .. 5 {} }");
}

TEST(Fuel, is_two_to_the_26_by_default) {
  EXPECT_EQ(ir::ItemFrame{}.fuel, 67'108'864u);
}

}  // namespace
}  // namespace everkernel::test
