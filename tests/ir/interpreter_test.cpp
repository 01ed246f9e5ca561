// Statements on the reference interpreter: order, endings, faults and access rights.
#include "everkernel/ir/interpreter.hpp"

#include <fmt/format.h>

#include <chrono>

#include "support/ir_machine.hpp"

namespace everkernel::test {
namespace {

using Words = std::vector<Word>;

Words words_of(std::span<const Word> span) {
  return {span.begin(), span.end()};
}

TEST(Interpreter, runs_saxpy) {
  Machine machine;
  machine.frame.args[2] = 0x40000000;  // 2.0
  const auto input = machine.add({.handle = 5, .word_count = 2});
  input[0] = 0x3F800000, input[1] = 0x40400000;  // 1.0, 3.0
  machine.output[1] = 0x3F000000;                // 0.5
  machine.frame.args[0] = 5;
  EXPECT_EQ(machine.run(R"(let a = bits_f32(param); let n = min(len(input), len(output));
      for i in 0 .. n { output[i] = bits_u32(a * bits_f32(input[i]) + bits_f32(output[i])); })"),
            kDone);
  EXPECT_EQ(machine.output[0], 0x40000000u);  // 2.0
  EXPECT_EQ(machine.output[1], 0x40D00000u);  // 6.5
  EXPECT_EQ(machine.output[2], 0u);
}

TEST(Interpreter, gives_the_item_its_values) {
  Machine machine;
  machine.frame.opcode = 64;
  machine.frame.tenant = 3;
  machine.frame.priority = 2;
  machine.frame.slot = 17;
  machine.frame.lanes = 32;
  machine.frame.args[2] = 5;
  machine.frame.args[11] = 6;
  EXPECT_EQ(machine.run(R"(output[0] = opcode; output[1] = tenant; output[2] = priority;
      output[3] = slot; output[4] = param; output[5] = args[11]; output[6] = lanes;
      output[7] = lane + len(input) + len(output) * 16 + len(buffer(2)) * 256 +
        len(control) * 65536;)"),
            kDone);
  EXPECT_EQ(words_of(machine.output),
            (Words{64, 3, 2, 17, 5, 6, 32, 4 + 8 * 16 + 8 * 256 + 200 * 65536}));
}

TEST(Interpreter, runs_the_branch_that_is_taken) {
  for (const Word param : {0u, 1u, 2u, 3u}) {
    Machine machine;
    machine.frame.args[2] = param;
    machine.run(R"(if param == 0 { output[0] = 10; } else if param == 1 { output[0] = 11; }
                   else if param == 2 { output[0] = 12; } else { output[0] = 13; })");
    EXPECT_EQ(machine.output[0], 10 + param);
  }
}

TEST(Interpreter, counts_loops) {
  struct Row {
    std::string_view range;
    Word turns, sum;
  };
  constexpr Row kRows[] = {
      {"0 .. 4", 4, 6},
      {"4 .. 4", 0, 0},
      {"5 .. 4", 0, 0},
      {"4294967290 .. 4294967295", 5, 0u - 20u},
      {"-2i .. 3i", 5, 0},
      {"3i .. -2i", 0, 0},
      {"i32(0x80000000) .. i32(0x80000002)", 2, 1},
      {"-1i .. 0i", 1, 0xFFFFFFFF},
  };
  for (const Row& row : kRows) {
    for (const std::string_view loop : {"for", "each"}) {
      Machine machine;
      const std::string body = std::string(loop) + " i in " + std::string(row.range) +
                               " { atomic_add(output[0], 1); atomic_add(output[1], u32(i)); }";
      EXPECT_EQ(machine.run(body), kDone);
      EXPECT_EQ(machine.output[0], row.turns) << body;
      EXPECT_EQ(machine.output[1], row.sum) << body;
    }
  }
}

TEST(Interpreter, evaluates_bounds_once) {
  Machine machine;
  EXPECT_EQ(machine.run(R"(var n = 3;
      for i in atomic_add(output[1], 1) .. n + atomic_add(output[2], 1) {
        n = 100; output[0] = output[0] + 1; })"),
            kDone);
  EXPECT_EQ(words_of(machine.output.first(3)), (Words{3, 1, 1}));
}

TEST(Interpreter, break_and_continue_act_on_the_innermost_loop) {
  Machine machine;
  EXPECT_EQ(machine.run(R"(
      for i in 0 .. 3 {
        for j in 0 .. 10 { if j == 2 { break; } output[0] = output[0] + 1; }
        var k = 0;
        while true { k = k + 1; if k < 5 { continue; } break; }
        output[1] = output[1] + k;
        if i == 1 { continue; }
        output[2] = output[2] + 1;
      })"),
            kDone);
  EXPECT_EQ(words_of(machine.output.first(3)), (Words{6, 15, 2}));
}

TEST(Interpreter, a_variable_declared_in_a_loop_begins_anew) {
  Machine machine;
  EXPECT_EQ(machine.run("for i in 0 .. 3 { var x = 0; x = x + 1; output[i] = x; }"), kDone);
  EXPECT_EQ(words_of(machine.output.first(3)), (Words{1, 1, 1}));
}

TEST(Interpreter, return_ends_the_item_from_any_depth) {
  Machine machine;
  EXPECT_EQ(machine.run(R"(output[0] = 1;
      for i in 0 .. 9 { while true { if i == 2 { return; } break; } output[1] = i; }
      output[2] = 1;)"),
            kDone);
  EXPECT_EQ(words_of(machine.output.first(3)), (Words{1, 1, 0}));
}

// ---- order of evaluation ----

// atomic_add(output[0], 1) gives 0, then 1, then 2: an operand that shows when it was evaluated.
TEST(Interpreter, evaluates_from_left_to_right) {
  struct Row {
    std::string_view expression;
    Word expected;
  };
  constexpr Row kRows[] = {
      {"atomic_add(output[0], 1) * 100 + atomic_add(output[0], 1) * 10 + atomic_add(output[0], 1)",
       12},
      {"atomic_add(output[0], 1) - atomic_add(output[0], 1)", 0xFFFFFFFF},
      {"min(atomic_add(output[0], 1) + 5, atomic_add(output[0], 1))", 1},
      {"select(atomic_add(output[0], 1) == 0, atomic_add(output[0], 1), atomic_add(output[0], 1))",
       1},
      {"select(atomic_add(output[0], 1) == 1, atomic_add(output[0], 1), atomic_add(output[0], 1))",
       2},
      {"buffer(atomic_add(output[0], 1) + 1)[atomic_add(output[0], 1)]", 20},
      {"atomic_add(buffer(atomic_add(output[0], 1) + 1)[atomic_add(output[0], 1)], "
       "atomic_add(output[0], 1))",
       20},
  };
  for (const Row& row : kRows) {
    Machine machine;
    EXPECT_EQ(machine.run("output[7] = " + std::string(row.expression) + ";"), kDone);
    EXPECT_EQ(machine.output[7], row.expected) << row.expression;
  }
}

TEST(Interpreter, evaluates_the_place_then_the_value_then_checks) {
  Machine machine;
  EXPECT_EQ(machine.run(R"(buffer(atomic_add(output[0], 1) + 2)[atomic_add(output[0], 1) + 3] =
                             atomic_add(output[0], 1) + 40;)"),
            kDone);
  EXPECT_EQ(machine.output[4], 42u);  // handle 0 + 2, index 1 + 3, value 2 + 40
  // The value is evaluated although the place is bad, and its own fault comes first.
  Machine bad_place;
  EXPECT_EQ(bad_place.run("buffer(77)[0] = atomic_add(output[0], 1);"),
            faulted(FaultCode::bad_buffer_handle));
  EXPECT_EQ(bad_place.output[0], 1u);
  Machine both_bad;
  EXPECT_EQ(both_bad.run("buffer(77)[0] = input[4];"), faulted(FaultCode::index_out_of_range));
  Machine bad_index;
  EXPECT_EQ(bad_index.run("output[8] = buffer(77)[0];"), faulted(FaultCode::bad_buffer_handle));
  Machine bad_arg;
  EXPECT_EQ(bad_arg.run("args[12] = buffer(77)[0];"), faulted(FaultCode::bad_buffer_handle));
  Machine bad_atomic;
  EXPECT_EQ(bad_atomic.run("atomic_add(buffer(77)[0], input[4]);"),
            faulted(FaultCode::index_out_of_range));
  Machine bad_cas;
  EXPECT_EQ(bad_cas.run("atomic_cas(output[8], 1, atomic_add(output[0], 1));"),
            faulted(FaultCode::index_out_of_range));
  EXPECT_EQ(bad_cas.output[0], 1u);
}

TEST(Interpreter, the_index_is_evaluated_although_the_handle_is_bad) {
  Machine machine;
  EXPECT_EQ(machine.run("let x = buffer(77)[atomic_add(output[0], 1)];"),
            faulted(FaultCode::bad_buffer_handle));
  EXPECT_EQ(machine.output[0], 1u);
}

TEST(Interpreter, and_and_or_leave_the_right_side_alone) {
  struct Row {
    std::string_view expression;
    Word expected, evaluations;
  };
  constexpr Row kRows[] = {
      {"false && atomic_add(output[0], 1) == 0", 0, 0},
      {"true && atomic_add(output[0], 1) == 0", 1, 1},
      {"true && atomic_add(output[0], 1) == 9", 0, 1},
      {"true || atomic_add(output[0], 1) == 0", 1, 0},
      {"false || atomic_add(output[0], 1) == 0", 1, 1},
      {"false || atomic_add(output[0], 1) == 9", 0, 1},
      {"false && input[99] == 0", 0, 0},
      {"true || buffer(77)[0] == 0", 1, 0},
  };
  for (const Row& row : kRows) {
    Machine machine;
    EXPECT_EQ(machine.run("output[7] = u32(" + std::string(row.expression) + ");"), kDone);
    EXPECT_EQ(machine.output[7], row.expected) << row.expression;
    EXPECT_EQ(machine.output[0], row.evaluations) << row.expression;
  }
}

TEST(Interpreter, select_evaluates_what_it_does_not_take) {
  Machine machine;
  EXPECT_EQ(machine.run("let x = select(true, 1, atomic_add(output[0], 1));"), kDone);
  EXPECT_EQ(machine.output[0], 1u);
  Machine faulting;
  EXPECT_EQ(faulting.run("let x = select(true, 1, input[4]);"),
            faulted(FaultCode::index_out_of_range));
}

// ---- endings ----

TEST(Interpreter, yield_and_requeue_keep_the_args_as_they_are) {
  Machine machine;
  EXPECT_EQ(machine.run("args[3] = args[3] + 7; yield; args[3] = 0;"), (Outcome{Ending::yield, 0}));
  EXPECT_EQ(machine.frame.args[3], 7u);
  EXPECT_EQ(machine.run("for i in 0 .. 5 { if i == 2 { requeue; } args[4] = i; }"),
            (Outcome{Ending::requeue, 0}));
  EXPECT_EQ(machine.frame.args[4], 1u);
}

TEST(Interpreter, a_countdown_runs_once_a_claim) {
  Machine machine;
  machine.frame.args[3] = 2;
  constexpr std::string_view kCountdown =
      "if args[3] == 0 { return; } args[3] = args[3] - 1; yield;";
  EXPECT_EQ(machine.run(kCountdown).ending, Ending::yield);
  EXPECT_EQ(machine.run(kCountdown).ending, Ending::yield);
  EXPECT_EQ(machine.run(kCountdown), kDone);
}

TEST(Interpreter, args_that_move_buffers_move_them_at_once) {
  Machine machine;
  EXPECT_EQ(
      machine.run("output[0] = input[0]; args[0] = args[1]; output[1] = input[0] + len(input);"),
      kDone);
  EXPECT_EQ(words_of(machine.output.first(2)), (Words{10, 18}));
}

TEST(Interpreter, await_leaves_a_request) {
  Machine machine;
  machine.frame.args[3] = 9;
  EXPECT_EQ(machine.run("args[4] = 1; await read(args[3], 2, 3, 4096); output[0] = 1;"),
            (Outcome{Ending::wait_io, 0}));
  EXPECT_EQ(machine.output[0], 0u);
  EXPECT_EQ(machine.frame.args[4], 1u);
  EXPECT_EQ(machine.frame.io.is_write, 0u);
  EXPECT_EQ(machine.frame.io.source, 9u);
  EXPECT_EQ(machine.frame.io.block, 2u);
  EXPECT_EQ(machine.frame.io.destination, 3u);
  EXPECT_EQ(machine.frame.io.byte_count, 4096u);
  EXPECT_EQ(machine.run("await write(0xffffffff, 0xffffffff, 0, 0);"),
            (Outcome{Ending::wait_io, 0}));
  EXPECT_EQ(machine.frame.io.is_write, 1u);
  EXPECT_EQ(machine.frame.io.block, 0xFFFFFFFFu);
}

TEST(Interpreter, an_await_whose_operand_faults_is_a_fault) {
  Machine machine;
  EXPECT_EQ(machine.run("await read(1, 2, input[4], 4);"), faulted(FaultCode::index_out_of_range));
}

TEST(Interpreter, fault_stops_with_a_code_of_the_handlers_own) {
  struct Row {
    std::string_view number;
    Word code;
  };
  constexpr Row kRows[] = {
      {"0", 256},       {"1", 257},           {"65278", 65534},
      {"65279", 65535}, {"65279 + 1", 65535}, {"~0", 65535},
  };
  for (const Row& row : kRows) {
    Machine machine;
    EXPECT_EQ(machine.run("output[0] = 1; fault " + std::string(row.number) + "; output[1] = 1;"),
              (Outcome{Ending::fault, row.code}));
    EXPECT_EQ(words_of(machine.output.first(2)), (Words{1, 0}));
  }
}

// ---- hooks ----

TEST(Interpreter, printf_and_emit_go_to_the_hooks) {
  Machine machine;
  EXPECT_EQ(
      machine.run("printf(1, 2, 3); for i in 0 .. 2 { emit(i, i + 1, i + 2); } printf(4, 5, 6);"),
      kDone);
  EXPECT_EQ(machine.prints, (std::vector<Words>{{1, 2, 3}, {4, 5, 6}}));
  EXPECT_EQ(machine.hits, (std::vector<Words>{{0, 1, 2}, {1, 2, 3}}));
}

TEST(Interpreter, printf_and_emit_do_nothing_without_hooks) {
  Machine machine;
  machine.frame.hooks = nullptr;
  EXPECT_EQ(machine.run("printf(1, 2, 3); emit(1, 2, 3); output[0] = 1;"), kDone);
  const ir::ItemHooks empty;
  machine.frame.hooks = &empty;
  EXPECT_EQ(machine.run("printf(1, 2, 3); emit(1, 2, 3); output[0] = 2;"), kDone);
  EXPECT_EQ(machine.output[0], 2u);
}

// ---- faults ----

TEST(Interpreter, an_index_outside_stops_it_there) {
  struct Row {
    std::string_view statement;
    FaultCode code;
  };
  constexpr Row kRows[] = {
      {"let x = input[4];", FaultCode::index_out_of_range},
      {"let x = input[0xffffffff];", FaultCode::index_out_of_range},
      {"output[8] = 1;", FaultCode::index_out_of_range},
      {"output[0xffffffff] = 1;", FaultCode::index_out_of_range},
      {"atomic_add(output[8], 1);", FaultCode::index_out_of_range},
      {"let x = args[12];", FaultCode::index_out_of_range},
      {"args[12] = 1;", FaultCode::index_out_of_range},
      {"args[0xffffffff] = 1;", FaultCode::index_out_of_range},
      {"let x = control[200];", FaultCode::index_out_of_range},
      {"control[200] = 1;", FaultCode::index_out_of_range},
      {"let x = buffer(0)[0];", FaultCode::bad_buffer_handle},
      {"let x = buffer(77)[0];", FaultCode::bad_buffer_handle},
      {"buffer(77)[0] = 1;", FaultCode::bad_buffer_handle},
      {"atomic_add(buffer(0xffffffff)[0], 1);", FaultCode::bad_buffer_handle},
      {"let x = len(buffer(0));", FaultCode::bad_buffer_handle},
      {"let x = len(buffer(77));", FaultCode::bad_buffer_handle},
      {"args[0] = 77; let x = input[0];", FaultCode::bad_buffer_handle},
      {"args[1] = 0; let x = len(output);", FaultCode::bad_buffer_handle},
  };
  for (const Row& row : kRows) {
    Machine machine;
    const std::string body = "output[0] = 5; " + std::string(row.statement) + " output[1] = 6;";
    EXPECT_EQ(machine.run(body), faulted(row.code)) << row.statement;
    EXPECT_EQ(words_of(machine.output.first(2)), (Words{5, 0})) << row.statement;
  }
}

TEST(Interpreter, the_last_word_is_inside) {
  Machine machine;
  EXPECT_EQ(machine.run("output[7] = input[3] + control[199] + args[11]; args[11] = 3;"), kDone);
  EXPECT_EQ(machine.output[7], 40u);
}

TEST(Interpreter, an_empty_buffer_has_a_length_and_no_words) {
  Machine machine;
  machine.add({.handle = 9, .word_count = 0});
  EXPECT_EQ(machine.run("output[0] = len(buffer(9)) + 1;"), kDone);
  EXPECT_EQ(machine.output[0], 1u);
  EXPECT_EQ(machine.run("let x = buffer(9)[0];"), faulted(FaultCode::index_out_of_range));
}

TEST(Interpreter, runs_without_buffers_and_control) {
  const auto verified = check_text(in_handler("args[3] = len(control) + 1;"));
  ir::ItemFrame frame;
  EXPECT_EQ(ir::interpret(verified->handlers()[0], frame), kDone);
  EXPECT_EQ(frame.args[3], 1u);
  const auto load = check_text(in_handler("let x = input[0];"));
  EXPECT_EQ(ir::interpret(load->handlers()[0], frame), faulted(FaultCode::bad_buffer_handle));
  const auto control = check_text(in_handler("let x = control[0];"));
  EXPECT_EQ(ir::interpret(control->handlers()[0], frame), faulted(FaultCode::index_out_of_range));
}

// ---- permissions ----

TEST(Interpreter, control_is_read_by_all_and_written_below_160_by_tenant_0_alone) {
  struct Row {
    Word tenant;
    std::string_view statement;
    Outcome expected;
  };
  const Outcome denied = faulted(FaultCode::permission_denied);
  const Row kRows[] = {
      {0, "control[0] = 1;", kDone},
      {0, "control[159] = 1;", kDone},
      {0, "atomic_add(control[159], 1);", kDone},
      {1, "let x = control[0] + control[159] + control[160];", kDone},
      {1, "control[0] = 1;", denied},
      {1, "control[159] = 1;", denied},
      {1, "control[160] = 1;", kDone},
      {1, "control[199] = 1;", kDone},
      {1, "control[200] = 1;", faulted(FaultCode::index_out_of_range)},
      {1, "atomic_add(control[159], 1);", denied},
      {1, "atomic_add(control[160], 1);", kDone},
      {28, "atomic_cas(control[0], 5, 5);", denied},
      {28, "control[160] = control[0];", kDone},
  };
  for (const Row& row : kRows) {
    Machine machine;
    machine.frame.tenant = row.tenant;
    const Words before = machine.control;
    EXPECT_EQ(machine.run(row.statement), row.expected) << row.tenant << ": " << row.statement;
    if (row.expected == kDone) continue;
    EXPECT_EQ(machine.control, before) << row.statement;
  }
}

TEST(Interpreter, a_short_control_buffer_has_no_words_past_its_end) {
  Machine machine;
  machine.frame.control_words = 100;
  machine.frame.tenant = 1;
  EXPECT_EQ(machine.run("control[100] = 1;"), faulted(FaultCode::index_out_of_range));
  EXPECT_EQ(machine.run("control[99] = 1;"), faulted(FaultCode::permission_denied));
}

TEST(Interpreter, a_buffer_is_used_as_its_access_allows) {
  struct Row {
    memory::Access access;
    std::string_view statement;
    bool is_allowed;
  };
  using memory::Access;
  constexpr Row kRows[] = {
      {Access::read, "let x = buffer(9)[0];", true},
      {Access::read, "buffer(9)[0] = 1;", false},
      {Access::read, "atomic_add(buffer(9)[0], 1);", false},
      {Access::read, "let x = len(buffer(9));", true},
      {Access::write, "let x = buffer(9)[0];", false},
      {Access::write, "buffer(9)[0] = 1;", true},
      {Access::write, "atomic_max(buffer(9)[0], 1);", false},
      {Access::write, "let x = len(buffer(9));", true},
      {Access::read_write, "let x = buffer(9)[0];", true},
      {Access::read_write, "buffer(9)[0] = 1;", true},
      {Access::read_write, "atomic_cas(buffer(9)[0], 1, 2);", true},
  };
  for (const Row& row : kRows) {
    Machine machine;
    const auto words = machine.add({.handle = 9, .word_count = 1, .access = row.access});
    EXPECT_EQ(machine.run(row.statement),
              row.is_allowed ? kDone : faulted(FaultCode::permission_denied))
        << row.statement;
    if (row.is_allowed) continue;
    EXPECT_EQ(words[0], 0u);
  }
}

TEST(Interpreter, a_buffer_serves_its_owner_or_everyone) {
  for (const Word tenant : {0u, 1u, 2u}) {
    Machine machine;
    machine.add({.handle = 9, .word_count = 1, .owner = 1});
    machine.add({.handle = 10, .word_count = 1});
    machine.frame.tenant = tenant;
    const Outcome expected = tenant == 1 ? kDone : faulted(FaultCode::permission_denied);
    EXPECT_EQ(machine.run("let x = buffer(9)[0];"), expected) << tenant;
    EXPECT_EQ(machine.run("buffer(9)[0] = 1;"), expected) << tenant;
    EXPECT_EQ(machine.run("let x = len(buffer(9));"), expected) << tenant;
    EXPECT_EQ(machine.run("let x = buffer(10)[0] + len(buffer(10));"), kDone) << tenant;
  }
}

TEST(Interpreter, a_bad_handle_comes_before_permission_and_permission_before_the_index) {
  Machine machine;
  machine.add({.handle = 9, .word_count = 1, .access = memory::Access::read});
  machine.add({.handle = 10, .word_count = 1, .owner = 1});
  EXPECT_EQ(machine.run("buffer(77)[5] = 1;"), faulted(FaultCode::bad_buffer_handle));
  EXPECT_EQ(machine.run("buffer(9)[5] = 1;"), faulted(FaultCode::permission_denied));
  EXPECT_EQ(machine.run("let x = buffer(10)[5];"), faulted(FaultCode::permission_denied));
  EXPECT_EQ(machine.run("let x = buffer(9)[5];"), faulted(FaultCode::index_out_of_range));
}

// ---- abort ----

TEST(Interpreter, loops_end_when_the_abort_word_is_set) {
  const Word set = 1, clear = 0;
  for (const std::string_view loop :
       {"while true { output[0] = 1; }", "for i in 0 .. 5 { output[0] = 1; }",
        "each i in 0 .. 5 { output[0] = 1; }"}) {
    Machine machine;
    machine.frame.abort = &set;
    EXPECT_EQ(machine.run(loop), faulted(FaultCode::deadline)) << loop;
    EXPECT_EQ(machine.output[0], 0u) << loop;
  }
  Machine machine;
  machine.frame.abort = &clear;
  EXPECT_EQ(machine.run("for i in 0 .. 5 { output[0] = i; }"), kDone);
  machine.frame.abort = &set;
  EXPECT_EQ(machine.run("output[0] = 9; for i in 0 .. 0 {}"), kDone);
}

TEST(Interpreter, an_abort_set_from_inside_ends_the_loop_at_its_next_turn) {
  Machine machine;
  machine.frame.abort = machine.output.data() + 7;
  EXPECT_EQ(machine.run("for i in 0 .. 100 { output[0] = i; if i == 3 { output[7] = 1; } }"),
            faulted(FaultCode::deadline));
  EXPECT_EQ(machine.output[0], 3u);
}

// The promise is 100 ms. Visiting the turns that are left takes more than 4 s.
TEST(Interpreter, an_abort_ends_an_each_without_a_visit_to_the_turns_that_are_left) {
  for (const std::string_view body :
       {"if i == 3 { output[7] = 1; }", "if i == 3 { output[7] = 1; } while output[7] == 1 { }",
        "if i == 3 { output[7] = 1; } fault 9;"}) {
    Machine machine;
    machine.frame.abort = machine.output.data() + 7;
    const auto start = std::chrono::steady_clock::now();
    const Outcome outcome = machine.run(fmt::format("each i in 0 .. 0x400000 {{ {} }}", body));
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(1)) << body;
    const bool has_faults = body.ends_with("fault 9;");
    EXPECT_EQ(outcome, has_faults ? faulted(FaultCode{256 + 9}) : faulted(FaultCode::deadline));
  }
}

TEST(Interpreter, the_lowest_turn_that_faulted_before_an_abort_gives_the_code) {
  Machine machine;
  machine.frame.abort = machine.output.data() + 7;
  EXPECT_EQ(machine.run("each i in 0 .. 100 { if i == 2 { fault 5; } if i == 4 { fault 6; } "
                        "if i == 9 { output[7] = 1; } }"),
            faulted(FaultCode{256 + 5}));
}

}  // namespace
}  // namespace everkernel::test
