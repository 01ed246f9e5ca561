// Trusted handlers: the mistakes that are refused before they run, and the outcomes of their items.
#include "everkernel/ir/trusted.hpp"

#include <gtest/gtest.h>

#include <stdexcept>

#include "everkernel/ir/trusted_item.hpp"
#include "support/ir_machine.hpp"
#include "support/results.hpp"

namespace everkernel::test {
namespace {

using ir::Effects;
using ir::TrustedCode;
using ir::TrustedHandler;
using ir::TrustedItem;

Outcome do_nothing(TrustedItem& item) {
  return item.done();
}

TrustedHandler good(Word opcode = 64) {
  return {
      .name = "trusted" + std::to_string(opcode), .opcode = opcode, .cpu = do_nothing, .cuda = "c"};
}

Result<void> check(const TrustedHandler& handler, const ir::VerifiedProgram* program = nullptr) {
  return ir::check_trusted(std::span(&handler, 1), program, TrustedCode::cpu);
}

// ---- mistakes ----

struct Mistake {
  std::string_view name;
  void (*make)(TrustedHandler& handler);
};

constexpr Mistake kMistakes[] = {
    {"no name", [](TrustedHandler& h) { h.name = ""; }},
    {"a name with a space", [](TrustedHandler& h) { h.name = "a b"; }},
    {"a name that begins with a digit", [](TrustedHandler& h) { h.name = "1a"; }},
    {"opcode 0", [](TrustedHandler& h) { h.opcode = 0; }},
    {"opcode 7", [](TrustedHandler& h) { h.opcode = 7; }},
    {"opcode 0xFFF0", [](TrustedHandler& h) { h.opcode = 0xFFF0; }},
    {"opcode 0xFFFF", [](TrustedHandler& h) { h.opcode = 0xFFFF; }},
    {"the high bit", [](TrustedHandler& h) { h.opcode = 0x80000000; }},
    {"a scope that is none", [](TrustedHandler& h) { h.scope = ir::Scope{3}; }},
    {"no code",
     [](TrustedHandler& h) {
       h.cpu = nullptr;
       h.cuda.clear();
     }},
    {"pure, and touches everything", [](TrustedHandler& h) { h.is_pure = true; }},
};

TEST(CheckTrusted, mistakes_of_one_handler_are_refused_by_name) {
  for (const Mistake& mistake : kMistakes) {
    SCOPED_TRACE(mistake.name);
    TrustedHandler handler = good();
    mistake.make(handler);
    const auto checked = check(handler);
    ASSERT_EQ(code_of(checked), Code::invalid_argument);
    EXPECT_NE(message_of(checked).find("'" + handler.name + "'"), std::string::npos)
        << message_of(checked);
  }
}

TEST(CheckTrusted, every_free_opcode_may_be_used) {
  for (const Word opcode : {8u, 255u, 0xFFEFu, 0x10000u, 0x7FFFFFFFu}) {
    const TrustedHandler handler = good(opcode);
    EXPECT_TRUE(check(handler)) << opcode;
  }
}

TEST(CheckTrusted, only_the_code_of_the_backend_is_required) {
  TrustedHandler handlers[] = {good(64), good(65)};
  handlers[1].cuda.clear();
  EXPECT_TRUE(ir::check_trusted(handlers, nullptr, TrustedCode::cpu));
  const auto refused = ir::check_trusted(handlers, nullptr, TrustedCode::cuda);
  EXPECT_EQ(code_of(refused), Code::unsupported);
  EXPECT_NE(message_of(refused).find("trusted65"), std::string::npos);
  handlers[1] = good(65);
  handlers[1].cpu = nullptr;
  EXPECT_TRUE(ir::check_trusted(handlers, nullptr, TrustedCode::cuda));
  EXPECT_EQ(code_of(ir::check_trusted(handlers, nullptr, TrustedCode::cpu)), Code::unsupported);
}

TEST(CheckTrusted, a_mistake_is_reported_before_missing_code) {
  TrustedHandler handlers[] = {good(64), good(64)};
  handlers[0].cuda.clear();
  EXPECT_EQ(code_of(ir::check_trusted(handlers, nullptr, TrustedCode::cuda)),
            Code::invalid_argument);
}

TEST(CheckTrusted, opcodes_and_names_are_used_once) {
  const auto program = check_text("handler verified = 70 { } payload { }");
  ASSERT_TRUE(program);
  TrustedHandler handlers[] = {good(64), good(65)};
  EXPECT_TRUE(ir::check_trusted(handlers, &*program, TrustedCode::cpu));
  handlers[1].opcode = 64;
  EXPECT_EQ(code_of(ir::check_trusted(handlers, nullptr, TrustedCode::cpu)),
            Code::invalid_argument);
  handlers[1].opcode = 70;
  EXPECT_TRUE(ir::check_trusted(handlers, nullptr, TrustedCode::cpu));
  EXPECT_EQ(code_of(ir::check_trusted(handlers, &*program, TrustedCode::cpu)),
            Code::invalid_argument);
  handlers[1].opcode = 65;
  handlers[1].name = handlers[0].name;
  EXPECT_EQ(code_of(ir::check_trusted(handlers, nullptr, TrustedCode::cpu)),
            Code::invalid_argument);
  handlers[1].name = "verified";
  EXPECT_EQ(code_of(ir::check_trusted(handlers, &*program, TrustedCode::cpu)),
            Code::invalid_argument);
}

TEST(CheckTrusted, a_payload_has_no_opcode_to_collide_with) {
  auto program = check_text("payload { }");
  ASSERT_TRUE(program);
  TrustedHandler handler = good();
  handler.name = "payload";
  EXPECT_TRUE(check(handler, &*program));
}

struct PureRow {
  std::string_view name;
  Effects effects;
  bool is_allowed;
};

TEST(CheckTrusted, pure_goes_with_input_output_and_nothing_else) {
  constexpr PureRow kRows[] = {
      {"nothing", {}, true},
      {"reads input, writes output", {.reads_input = true, .writes_output = true}, true},
      {"an atomic on output", {.reads_output = true, .writes_output = true}, true},
      {"writes input", {.writes_input = true}, false},
      {"uses handles", {.uses_handles = true}, false},
      {"reads control", {.reads_control = true}, false},
      {"writes control", {.writes_control = true}, false},
      {"moves buffers", {.moves_buffers = true}, false},
      {"writes args", {.writes_args = true}, false},
      {"yields", {.can_yield = true}, false},
      {"awaits", {.can_await = true}, false},
      {"prints", {.prints = true}, false},
      {"emits", {.emits = true}, false},
  };
  for (const PureRow& row : kRows) {
    TrustedHandler handler = good();
    handler.is_pure = true;
    handler.effects = row.effects;
    EXPECT_EQ(check(handler).has_value(), row.is_allowed) << row.name;
  }
}

TEST(CheckTrusted, by_default_a_handler_may_touch_everything_and_does_not_come_back) {
  const Effects effects = TrustedHandler{}.effects;
  EXPECT_TRUE(effects.uses_handles && effects.writes_control && effects.writes_args);
  EXPECT_FALSE(effects.can_yield || effects.can_await);
}

// ---- how items end ----

struct EndRow {
  std::string_view name;
  TrustedHandler::Function function;
  Effects effects;
  Outcome expected;
};

constexpr Effects kYields{.can_yield = true};
constexpr Effects kAwaits{.can_await = true};
constexpr Outcome kUndeclared{Ending::fault, 65533};
constexpr Outcome kThrew{Ending::fault, 65534};

constexpr EndRow kEnds[] = {
    {"done", [](TrustedItem& i) { return i.done(); }, {}, {Ending::done, 0}},
    {"yield", [](TrustedItem& i) { return i.yield(); }, kYields, {Ending::yield, 0}},
    {"requeue", [](TrustedItem& i) { return i.requeue(); }, kYields, {Ending::requeue, 0}},
    {"fault 0", [](TrustedItem& i) { return i.fault(0); }, {}, {Ending::fault, 256}},
    {"fault 7", [](TrustedItem& i) { return i.fault(7); }, {}, {Ending::fault, 263}},
    {"too high a fault", [](TrustedItem& i) { return i.fault(70000); }, {}, {Ending::fault, 65535}},
    {"stop", [](TrustedItem& i) { return i.stop(); }, {}, {Ending::fault, 10}},
    {"await read",
     [](TrustedItem& i) { return i.await_read(1, 2, 3, 4); },
     kAwaits,
     {Ending::wait_io, 0}},
    {"a yield it did not declare", [](TrustedItem& i) { return i.yield(); }, kAwaits, kUndeclared},
    {"a requeue it did not declare", [](TrustedItem& i) { return i.requeue(); }, {}, kUndeclared},
    {"an await it did not declare", [](TrustedItem& i) { return i.await_write(1, 2, 3, 4); },
     kYields, kUndeclared},
    {"no ending",
     [](TrustedItem&) {
       return Outcome{Ending{9}, 0};
     },
     kYields, kUndeclared},
    {"a fault of no code",
     [](TrustedItem&) {
       return Outcome{Ending::fault, 0};
     },
     {},
     kUndeclared},
    {"a fault of 17 bits",
     [](TrustedItem&) {
       return Outcome{Ending::fault, 65536};
     },
     {},
     kUndeclared},
    {"a throw", [](TrustedItem&) -> Outcome { throw std::runtime_error("no"); }, {}, kThrew},
    {"a throw of anything", [](TrustedItem&) -> Outcome { throw 7; }, {}, kThrew},
};

TEST(RunTrusted, every_way_to_end_is_one_that_was_declared) {
  for (const EndRow& row : kEnds) {
    Machine machine;
    EXPECT_EQ(machine.run({.effects = row.effects, .cpu = row.function}), row.expected) << row.name;
  }
}

TEST(RunTrusted, an_await_leaves_its_request) {
  Machine machine;
  const auto write = [](TrustedItem& item) { return item.await_write(5, 6, 7, 8); };
  EXPECT_EQ(machine.run({.effects = kAwaits, .cpu = write}), (Outcome{Ending::wait_io, 0}));
  EXPECT_EQ(machine.frame.io.is_write, 1u);
  EXPECT_EQ(machine.frame.io.source, 5u);
  EXPECT_EQ(machine.frame.io.block, 6u);
  EXPECT_EQ(machine.frame.io.destination, 7u);
  EXPECT_EQ(machine.frame.io.byte_count, 8u);
}

TEST(RunTrusted, args_change_if_that_was_declared) {
  const auto scribble = [](TrustedItem& item) {
    item.args()[5] = 55;
    return item.done();
  };
  Machine machine;
  machine.frame.args[5] = 5;
  EXPECT_EQ(machine.run({.effects = {}, .cpu = scribble}), kDone);
  EXPECT_EQ(machine.frame.args[5], 5u);
  EXPECT_EQ(machine.run({.effects = {.writes_args = true}, .cpu = scribble}), kDone);
  EXPECT_EQ(machine.frame.args[5], 55u);
}

TEST(RunTrusted, what_was_written_before_a_throw_stays) {
  Machine machine;
  const auto write_and_throw = [](TrustedItem& item) -> Outcome {
    item.output().store(0, 7);
    throw std::runtime_error("no");
  };
  EXPECT_EQ(machine.run({.cpu = write_and_throw}), kThrew);
  EXPECT_EQ(machine.output[0], 7u);
}

}  // namespace
}  // namespace everkernel::test
