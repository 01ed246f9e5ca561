// Trusted handlers whose C++ function and CUDA text come from one source: a macro compiles the
// source and keeps it as a string.
#include "conformance/trusted_handlers.hpp"

#include "everkernel/ir/trusted_item.hpp"

namespace everkernel::conformance {
namespace {

using abi::Word;
using ir::Effects;
using ir::Scope;

// The names of an item are the same in C++ and in CUDA C++, so that a body can be both.
#define EVERKERNEL_CPP_AND_CUDA(name, ...)                                                     \
  ir::Outcome name(ir::TrustedItem& item) __VA_ARGS__ constexpr std::string_view name##_cuda = \
      "template <class Item> __device__ Word " #name "(Item& item) " #__VA_ARGS__

// A handler of this function and text.
#define EVERKERNEL_HANDLER(name_, opcode_, ...)                   \
  {                                                               \
    .name = #name_, .opcode = opcode_, __VA_ARGS__, .cpu = name_, \
    .cuda = std::string(name_##_cuda)                             \
  }

// ---- the values they see ----

EVERKERNEL_CPP_AND_CUDA(trusted_store3, {
  const auto control = item.control();
  control.store(160, item.args()[0]);
  control.store(161, item.args()[1]);
  control.store(162, item.args()[2] + item.args()[11]);
  return item.done();
});

EVERKERNEL_CPP_AND_CUDA(trusted_echo, {
  const auto output = item.output();
  output.store(0, item.opcode());
  output.store(1, item.tenant());
  output.store(2, item.priority());
  output.store(3, item.slot());
  for (Word i = 0; i < 12; ++i) output.store(4 + i, item.args()[i]);
  output.store(16, item.input().length());
  output.store(17, item.control().length());
  output.store(18, item.should_stop() ? 1 : 0);
  return item.done();
});

EVERKERNEL_CPP_AND_CUDA(trusted_mark, {
  item.output().atomic_add(item.slot(), 1);
  return item.done();
});

EVERKERNEL_CPP_AND_CUDA(trusted_far, {
  item.output().store(0, item.opcode());
  return item.done();
});

EVERKERNEL_CPP_AND_CUDA(trusted_poke, {
  item.control().store(item.args()[3], item.args()[4]);
  return item.done();
});

EVERKERNEL_CPP_AND_CUDA(trusted_atomics, {
  const auto output = item.output();
  output.store(8, output.atomic_add(0, 5));
  output.store(9, output.atomic_min(1, 3));
  output.store(10, output.atomic_max(2, 99));
  output.store(11, output.atomic_and(3, 6));
  output.store(12, output.atomic_or(4, 3));
  output.store(13, output.atomic_xor(5, 3));
  output.store(14, output.atomic_exchange(6, 70));
  output.store(15, output.atomic_cas(7, 19, 80));
  return item.done();
});

EVERKERNEL_CPP_AND_CUDA(trusted_say, {
  item.print(item.args()[3], item.args()[4], item.args()[5]);
  return item.done();
});

EVERKERNEL_CPP_AND_CUDA(trusted_emit_twice, {
  if (item.leads()) {
    item.emit(1, 2, 3);
    item.emit(4, 5, 6);
  }
  return item.done();
});

// Operations of lanes: turns of each(), and sums over all threads.
EVERKERNEL_CPP_AND_CUDA(trusted_lane, {
  const auto output = item.output();
  const Word at = item.param();
  Word turns = 0;
  item.each(40, [&](Word i, Word lane) {
    output.atomic_max(at + 1, lane);
    turns += i < 40 ? 1 : 0;
  });
  turns = item.total(turns);
  if (item.leads()) {
    output.store(at, item.lanes());
    output.store(at + 2, turns);
  }
  return item.done();
});

// ---- their outcomes ----

EVERKERNEL_CPP_AND_CUDA(trusted_raise, { return item.fault(item.args()[0]); });

EVERKERNEL_CPP_AND_CUDA(trusted_yield_once, {
  if (item.args()[3] != 0) return item.done();
  item.args()[3] = 1;
  return item.yield();
});

EVERKERNEL_CPP_AND_CUDA(trusted_countdown, {
  if (item.args()[3] == 0) return item.done();
  item.args()[3] = item.args()[3] - 1;
  return item.yield();
});

EVERKERNEL_CPP_AND_CUDA(trusted_countdown_later, {
  if (item.args()[3] == 0) return item.done();
  item.args()[3] = item.args()[3] - 1;
  return item.requeue();
});

EVERKERNEL_CPP_AND_CUDA(trusted_spin, {
  item.control().store(160, 1);
  while (!item.should_stop()) {
  }
  return item.stop();
});

EVERKERNEL_CPP_AND_CUDA(trusted_turns, {
  while (item.fault_code() == 0) item.each(1000, [](Word) {});
  return item.done();
});

EVERKERNEL_CPP_AND_CUDA(trusted_undeclared, { return item.yield(); });

EVERKERNEL_CPP_AND_CUDA(trusted_read_and_sum, {
  if (item.args()[6] == 0) {
    item.args()[6] = 1;
    return item.await_read(item.args()[3], item.args()[4], item.args()[0], item.args()[5]);
  }
  const auto input = item.input();
  Word sum = 0;
  for (Word i = 0; i < input.length(); ++i) sum += input.load(i);
  item.output().store(0, sum);
  return item.done();
});

EVERKERNEL_CPP_AND_CUDA(trusted_scribble, {
  for (Word i = 0; i < 12; ++i) item.args()[i] = 7;
  return item.done();
});

EVERKERNEL_CPP_AND_CUDA(trusted_clumsy, {
  item.buffer(77).store(0, 1);
  item.output().store(0, 7);
  item.output().store(9999, 1);
  return item.fault(3);
});

// ---- the order in a run ----

EVERKERNEL_CPP_AND_CUDA(trusted_add, {
  if (item.param() == 666) return item.fault(6);
  item.output().atomic_add(0, item.param());
  return item.done();
});

EVERKERNEL_CPP_AND_CUDA(trusted_copy, {
  item.output().store(0, item.input().load(0) + item.param());
  return item.done();
});

EVERKERNEL_CPP_AND_CUDA(trusted_by_handle, {
  item.buffer(9).store(0, item.buffer(8).load(0) * 3 + item.param());
  return item.done();
});

EVERKERNEL_CPP_AND_CUDA(trusted_move, {
  if (item.param() == 666) return item.fault(6);
  item.output().store(0, item.input().load(0) * 2 + item.param());
  return item.done();
});

// ---- their declarations ----

constexpr Effects kControl{.reads_control = true, .writes_control = true};
constexpr Effects kOutput{.reads_output = true, .writes_output = true};
constexpr Effects kInputToOutput{.reads_input = true, .writes_output = true};
constexpr Effects kComesBack{.writes_args = true, .can_yield = true};
constexpr Effects kWaits{
    .reads_input = true, .writes_output = true, .writes_args = true, .can_await = true};

// The same code under another name, on the lanes of another scope.
ir::TrustedHandler widened(ir::TrustedHandler handler, std::string name, Word opcode, Scope scope) {
  handler.cuda.replace(handler.cuda.find(handler.name), handler.name.size(), name);
  handler.name = std::move(name);
  handler.opcode = opcode;
  handler.scope = scope;
  return handler;
}

std::vector<ir::TrustedHandler> make_handlers() {
  const ir::TrustedHandler lane =
      EVERKERNEL_HANDLER(trusted_lane, kTrustedLane, .effects = kOutput);
  return {
      EVERKERNEL_HANDLER(trusted_store3, kTrustedStore3, .effects = kControl),
      EVERKERNEL_HANDLER(trusted_echo, kTrustedEcho, .effects = ir::kTouchesEverything),
      EVERKERNEL_HANDLER(trusted_mark, kTrustedMark, .effects = kOutput, .is_short = true),
      EVERKERNEL_HANDLER(trusted_far, kTrustedFar, .effects = ir::kTouchesEverything),
      EVERKERNEL_HANDLER(trusted_poke, kTrustedPoke, .effects = kControl),
      EVERKERNEL_HANDLER(trusted_atomics, kTrustedAtomics, .effects = kOutput),
      EVERKERNEL_HANDLER(trusted_say, kTrustedSay, .effects = {.prints = true}),
      EVERKERNEL_HANDLER(trusted_emit_twice, kTrustedEmitTwice, .scope = Scope::warp,
                         .effects = {.emits = true}),
      lane,
      widened(lane, "trusted_warp", kTrustedWarp, Scope::warp),
      widened(lane, "trusted_group", kTrustedGroup, Scope::group),
      EVERKERNEL_HANDLER(trusted_raise, kTrustedRaise, .effects = {}),
      EVERKERNEL_HANDLER(trusted_yield_once, kTrustedYieldOnce, .effects = kComesBack),
      EVERKERNEL_HANDLER(trusted_countdown, kTrustedCountdown, .effects = kComesBack),
      EVERKERNEL_HANDLER(trusted_countdown_later, kTrustedCountdownLater, .scope = Scope::warp,
                         .effects = kComesBack),
      EVERKERNEL_HANDLER(trusted_spin, kTrustedSpin, .effects = kControl),
      EVERKERNEL_HANDLER(trusted_turns, kTrustedTurns, .effects = {}),
      EVERKERNEL_HANDLER(trusted_undeclared, kTrustedUndeclared, .effects = {}),
      EVERKERNEL_HANDLER(trusted_read_and_sum, kTrustedReadAndSum, .effects = kWaits),
      EVERKERNEL_HANDLER(trusted_scribble, kTrustedScribble, .effects = {}),
      EVERKERNEL_HANDLER(trusted_clumsy, kTrustedClumsy, .effects = ir::kTouchesEverything),
      EVERKERNEL_HANDLER(trusted_add, kTrustedAdd, .effects = kOutput, .commutes = true),
      EVERKERNEL_HANDLER(trusted_copy, kTrustedCopy, .effects = kInputToOutput, .is_pure = true),
      EVERKERNEL_HANDLER(trusted_by_handle, kTrustedByHandle, .effects = ir::kTouchesEverything),
      EVERKERNEL_HANDLER(trusted_move, kTrustedMove, .effects = kInputToOutput),
  };
}

}  // namespace

const std::vector<ir::TrustedHandler>& trusted_handlers() {
  static const std::vector<ir::TrustedHandler> handlers = make_handlers();
  return handlers;
}

}  // namespace everkernel::conformance
