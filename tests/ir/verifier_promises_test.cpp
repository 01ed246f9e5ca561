// `pure` and `commutes`: which statements they forbid and which they allow.
#include "support/ir_text.hpp"

namespace everkernel::test {
namespace {

TEST(VerifierPure, reads_input_and_writes_output_by_param) {
  expect_right(
      {
          "each i in 0 .. min(len(input), len(output)) { output[i] = input[i] + param; }",
          "output[0] = args[2]; if input[0] == 0 { return; } fault 3;",
          "var x = 0; for i in 0 .. len(input) { x = x + input[i]; } output[0] = x;",
          "each i in 0 .. lanes { output[i] = lane; }",
          "atomic_min(output[0], 1); atomic_max(output[1], 2);",
          "atomic_and(output[2], 3); atomic_or(output[3], 4);",
          "",
      },
      "pure ");
}

TEST(VerifierPure, does_not_read_output) {
  expect_wrong(
      {{"let x = @output[0];", "a pure handler reads output, which it writes", ir::Rule::not_pure},
       {"output[0] = @output[1] + 1;", "reads output, which it writes", ir::Rule::not_pure},
       {"output[@output[0]] = 1;", "reads output, which it writes", ir::Rule::not_pure}},
      "pure ");
}

TEST(VerifierPure, does_not_touch_other_buffers) {
  expect_wrong(
      {{"let x = @control[0];", "a pure handler reads other buffers than input",
        ir::Rule::not_pure},
       {"let x = @buffer(3)[0];", "reads other buffers than input", ir::Rule::not_pure},
       {"let x = @buffer(param)[0];", "reads other buffers than input", ir::Rule::not_pure},
       {"@input[0] = 1;", "a pure handler writes other buffers than output", ir::Rule::not_pure},
       {"@control[160] = 1;", "writes other buffers than output", ir::Rule::not_pure},
       {"@buffer(3)[0] = 1;", "writes other buffers than output", ir::Rule::not_pure},
       {"let x = @len(control);", "touches other buffers than input and output",
        ir::Rule::not_pure},
       {"let x = @len(buffer(3));", "touches other buffers than input and output",
        ir::Rule::not_pure},
       {"@atomic_max(input[0], 1);", "writes other buffers than output", ir::Rule::not_pure},
       {"@atomic_max(buffer(2)[0], 1);", "writes other buffers than output", ir::Rule::not_pure}},
      "pure ");
}

TEST(VerifierPure, does_not_look_at_its_slot) {
  expect_wrong({{"output[0] = @opcode;", "a pure handler uses opcode", ir::Rule::not_pure},
                {"output[0] = @tenant;", "uses tenant", ir::Rule::not_pure},
                {"output[0] = @priority;", "uses priority", ir::Rule::not_pure},
                {"output[0] = @slot;", "uses slot", ir::Rule::not_pure},
                {"output[0] = @args[0];", "reads args other than param", ir::Rule::not_pure},
                {"output[0] = @args[3];", "reads args other than param", ir::Rule::not_pure},
                {"output[0] = @args[param];", "reads args other than param", ir::Rule::not_pure},
                {"output[0] = @args[1 + 1];", "reads args other than param", ir::Rule::not_pure}},
               "pure ");
}

TEST(VerifierPure, does_not_write_args) {
  expect_wrong({{"@args[2] = 1;", "a pure handler writes to args", ir::Rule::not_pure},
                {"if true { @args[11] = param; }", "writes to args", ir::Rule::not_pure}},
               "pure ");
}

TEST(VerifierPure, uses_only_atomics_that_may_be_repeated) {
  expect_wrong(
      {{"@atomic_add(output[0], 1);", "a pure handler uses atomic_add", ir::Rule::not_pure},
       {"@atomic_xor(output[0], 1);", "uses atomic_xor", ir::Rule::not_pure},
       {"@atomic_exchange(output[0], 1);", "uses atomic_exchange", ir::Rule::not_pure},
       {"@atomic_cas(output[0], 1, 2);", "uses atomic_cas", ir::Rule::not_pure}},
      "pure ");
}

TEST(VerifierPure, does_not_use_the_result_of_an_atomic) {
  expect_wrong(
      {{"let x = @atomic_min(output[0], 1);", "uses the result of an atomic", ir::Rule::not_pure},
       {"output[1] = @atomic_max(output[0], 1);", "uses the result of an atomic",
        ir::Rule::not_pure},
       {"min(@atomic_or(output[0], 1), 2);", "uses the result of an atomic", ir::Rule::not_pure},
       {"atomic_and(output[@atomic_and(output[0], 1)], 1);", "uses the result of an atomic",
        ir::Rule::not_pure},
       {"if @atomic_and(output[0], 1) == 1 {}", "uses the result of an atomic",
        ir::Rule::not_pure}},
      "pure ");
}

TEST(VerifierPure, is_not_seen_outside_its_output) {
  expect_wrong({{"@printf(1, 2, 3);", "a pure handler uses printf", ir::Rule::not_pure},
                {"for i in 0 .. 2 { @printf(i, 2, 3); }", "uses printf", ir::Rule::not_pure},
                {"@emit(1, 2, 3);", "a pure handler uses emit", ir::Rule::not_pure},
                {"if true { @emit(1, 2, 3); }", "uses emit", ir::Rule::not_pure}},
               "pure ");
}

TEST(VerifierPure, ends_in_one_run) {
  expect_wrong({{"@yield;", "a pure handler uses yield", ir::Rule::not_pure},
                {"if true { @yield; }", "uses yield", ir::Rule::not_pure},
                {"@requeue;", "uses requeue", ir::Rule::not_pure},
                {"while true { @requeue; }", "uses requeue", ir::Rule::not_pure},
                {"@await read(1, 2, 3, 4);", "uses await", ir::Rule::not_pure},
                {"if true { @await write(1, 2, 3, 4); }", "uses await", ir::Rule::not_pure}},
               "pure ");
}

TEST(VerifierPure, everything_else_is_allowed_without_the_promise) {
  expect_right({
      "output[0] = output[1] + control[0] + buffer(3)[0] + len(control) + len(buffer(1));",
      "input[0] = opcode + tenant + priority + slot + args[3]; args[3] = 1; printf(1, 2, 3);",
      "output[0] = atomic_add(output[0], 1); emit(1, 2, 3); if true { yield; } requeue;",
  });
}

TEST(VerifierCommutes, writes_by_one_kind_of_atomic) {
  expect_right(
      {
          "each i in 0 .. len(input) { atomic_add(output[input[i] & 255], 1); }",
          "atomic_min(output[0], 1); atomic_min(output[1], 2);",
          "atomic_max(output[0], 1); if true { atomic_max(output[1], 2); }",
          "atomic_and(output[0], 1);",
          "atomic_or(output[0], 1);",
          "atomic_xor(output[len(output) - 1], control[0] + args[3] + slot);",
          "let x = input[0] + len(output); printf(x, 1, 2);",
          "atomic_add(output[0], 1); atomic_add(input[0], 1); atomic_add(buffer(5)[0], 1);",
          "",
      },
      "commutes ");
}

TEST(VerifierCommutes, does_not_mix_kinds) {
  expect_wrong({{"atomic_add(output[0], 1); @atomic_max(output[0], 1);",
                 "one kind of atomic only, not by atomic_max as well", ir::Rule::does_not_commute},
                {"if true { atomic_or(output[0], 1); } else { @atomic_and(output[1], 1); }",
                 "not by atomic_and as well", ir::Rule::does_not_commute},
                {"atomic_add(output[0], 1); @atomic_xor(input[0], 1);", "not by atomic_xor as well",
                 ir::Rule::does_not_commute},
                {"atomic_add(buffer(3)[0], 1); @atomic_min(control[160], 1);",
                 "not by atomic_min as well", ir::Rule::does_not_commute}},
               "commutes ");
}

TEST(VerifierCommutes, uses_only_atomics_whose_order_cannot_be_seen) {
  expect_wrong(
      {{"@atomic_exchange(output[0], 1);", "not by atomic_exchange", ir::Rule::does_not_commute},
       {"@atomic_cas(output[0], 1, 2);", "not by atomic_cas", ir::Rule::does_not_commute},
       {"each i in 0 .. 2 { @atomic_exchange(input[0], 1); }", "not by atomic_exchange",
        ir::Rule::does_not_commute}},
      "commutes ");
}

TEST(VerifierCommutes, does_not_use_the_result) {
  expect_wrong({{"let x = @atomic_add(output[0], 1);", "uses the result of an atomic",
                 ir::Rule::does_not_commute},
                {"atomic_add(output[@atomic_add(input[0], 1)], 1);", "uses the result of an atomic",
                 ir::Rule::does_not_commute},
                {"abs(@atomic_add(output[0], 1));", "uses the result of an atomic",
                 ir::Rule::does_not_commute}},
               "commutes ");
}

TEST(VerifierCommutes, does_not_store) {
  expect_wrong(
      {{"@output[0] = 1;", "one kind of atomic only, not by stores", ir::Rule::does_not_commute},
       {"@input[0] = 1;", "not by stores", ir::Rule::does_not_commute},
       {"@control[160] = 1;", "not by stores", ir::Rule::does_not_commute},
       {"atomic_add(output[0], 1); @buffer(3)[0] = 1;", "not by stores",
        ir::Rule::does_not_commute},
       {"@args[3] = 1;", "not to args", ir::Rule::does_not_commute},
       {"atomic_add(output[0], 1); @args[0] = 1;", "not to args", ir::Rule::does_not_commute}},
      "commutes ");
}

TEST(VerifierCommutes, does_not_read_output) {
  expect_wrong(
      {{"let x = @output[0];", "a commutes handler reads output", ir::Rule::does_not_commute},
       {"atomic_add(output[@output[0]], 1);", "a commutes handler reads output",
        ir::Rule::does_not_commute},
       {"atomic_add(output[0], @output[1]);", "a commutes handler reads output",
        ir::Rule::does_not_commute}},
      "commutes ");
}

// A read request writes its destination buffer, and that is no atomic.
TEST(VerifierCommutes, does_not_ask_for_reads) {
  expect_wrong(
      {{"@await read(1, 0, args[1], 4096);", "a commutes handler", ir::Rule::does_not_commute},
       {"atomic_add(output[0], 1); if true { @await read(1, 2, 3, 4); }", "a commutes handler",
        ir::Rule::does_not_commute}},
      "commutes ");
}

TEST(VerifierPromises, both_together_leave_what_both_allow) {
  expect_right({"atomic_max(output[0], input[0]); atomic_max(output[1], param);"},
               "pure commutes ");
  expect_wrong(
      {{"@atomic_add(output[0], 1);", "a pure handler uses atomic_add", ir::Rule::not_pure},
       {"atomic_min(output[0], 1); @atomic_max(output[0], 1);", "not by atomic_max as well",
        ir::Rule::does_not_commute},
       {"@output[0] = 1;", "not by stores", ir::Rule::does_not_commute}},
      "commutes pure ");
}

}  // namespace
}  // namespace everkernel::test
