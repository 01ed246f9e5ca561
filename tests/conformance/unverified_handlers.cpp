// Native handlers whose halves are the same text: once compiled here, once as a string.
#include "conformance/unverified_handlers.hpp"

#include "everkernel/ir/unverified_item.hpp"

namespace everkernel::conformance {
namespace {

using abi::Word;
using ir::Effects;
using ir::Scope;

// The names of an item are the same in C++ and in CUDA C++, so that a body can be both.
#define EVERKERNEL_BOTH_HALVES(name, ...)                                                         \
  ir::Outcome name(ir::UnverifiedItem& item) __VA_ARGS__ constexpr std::string_view name##_cuda = \
      "template <class Item> __device__ Word " #name "(Item& item) " #__VA_ARGS__

// A handler of these halves.
#define EVERKERNEL_HANDLER(name_, opcode_, ...)                   \
  {                                                               \
    .name = #name_, .opcode = opcode_, __VA_ARGS__, .cpu = name_, \
    .cuda = std::string(name_##_cuda)                             \
  }

// ---- what they see ----

EVERKERNEL_BOTH_HALVES(native_store3, {
  const auto control = item.control();
  control.store(160, item.args()[0]);
  control.store(161, item.args()[1]);
  control.store(162, item.args()[2] + item.args()[11]);
  return item.done();
});

EVERKERNEL_BOTH_HALVES(native_echo, {
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

EVERKERNEL_BOTH_HALVES(native_mark, {
  item.output().atomic_add(item.slot(), 1);
  return item.done();
});

EVERKERNEL_BOTH_HALVES(native_far, {
  item.output().store(0, item.opcode());
  return item.done();
});

EVERKERNEL_BOTH_HALVES(native_poke, {
  item.control().store(item.args()[3], item.args()[4]);
  return item.done();
});

EVERKERNEL_BOTH_HALVES(native_atomics, {
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

EVERKERNEL_BOTH_HALVES(native_say, {
  item.print(item.args()[3], item.args()[4], item.args()[5]);
  return item.done();
});

EVERKERNEL_BOTH_HALVES(native_emit_twice, {
  if (item.leads()) {
    item.emit(1, 2, 3);
    item.emit(4, 5, 6);
  }
  return item.done();
});

// What lanes do: turns of each(), and what threads have together.
EVERKERNEL_BOTH_HALVES(native_lane, {
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

// ---- how they end ----

EVERKERNEL_BOTH_HALVES(native_raise, { return item.fault(item.args()[0]); });

EVERKERNEL_BOTH_HALVES(native_yield_once, {
  if (item.args()[3] != 0) return item.done();
  item.args()[3] = 1;
  return item.yield();
});

EVERKERNEL_BOTH_HALVES(native_countdown, {
  if (item.args()[3] == 0) return item.done();
  item.args()[3] = item.args()[3] - 1;
  return item.yield();
});

EVERKERNEL_BOTH_HALVES(native_countdown_later, {
  if (item.args()[3] == 0) return item.done();
  item.args()[3] = item.args()[3] - 1;
  return item.requeue();
});

EVERKERNEL_BOTH_HALVES(native_spin, {
  item.control().store(160, 1);
  while (!item.should_stop()) {
  }
  return item.stop();
});

EVERKERNEL_BOTH_HALVES(native_turns, {
  while (item.fault_code() == 0) item.each(1000, [](Word) {});
  return item.done();
});

EVERKERNEL_BOTH_HALVES(native_undeclared, { return item.yield(); });

EVERKERNEL_BOTH_HALVES(native_read_and_sum, {
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

EVERKERNEL_BOTH_HALVES(native_scribble, {
  for (Word i = 0; i < 12; ++i) item.args()[i] = 7;
  return item.done();
});

EVERKERNEL_BOTH_HALVES(native_clumsy, {
  item.buffer(77).store(0, 1);
  item.output().store(0, 7);
  item.output().store(9999, 1);
  return item.fault(3);
});

// ---- what a run orders ----

EVERKERNEL_BOTH_HALVES(native_add, {
  if (item.param() == 666) return item.fault(6);
  item.output().atomic_add(0, item.param());
  return item.done();
});

EVERKERNEL_BOTH_HALVES(native_copy, {
  item.output().store(0, item.input().load(0) + item.param());
  return item.done();
});

EVERKERNEL_BOTH_HALVES(native_by_handle, {
  item.buffer(9).store(0, item.buffer(8).load(0) * 3 + item.param());
  return item.done();
});

EVERKERNEL_BOTH_HALVES(native_move, {
  if (item.param() == 666) return item.fault(6);
  item.output().store(0, item.input().load(0) * 2 + item.param());
  return item.done();
});

// ---- what they declare ----

constexpr Effects kControl{.reads_control = true, .writes_control = true};
constexpr Effects kOutput{.reads_output = true, .writes_output = true};
constexpr Effects kInputToOutput{.reads_input = true, .writes_output = true};
constexpr Effects kComesBack{.writes_args = true, .can_yield = true};
constexpr Effects kWaits{
    .reads_input = true, .writes_output = true, .writes_args = true, .can_await = true};

// The same halves on other lanes.
ir::UnverifiedHandler widened(ir::UnverifiedHandler handler, std::string name, Word opcode,
                              Scope scope) {
  handler.cuda.replace(handler.cuda.find(handler.name), handler.name.size(), name);
  handler.name = std::move(name);
  handler.opcode = opcode;
  handler.scope = scope;
  return handler;
}

std::vector<ir::UnverifiedHandler> make_handlers() {
  const ir::UnverifiedHandler lane =
      EVERKERNEL_HANDLER(native_lane, kNativeLane, .effects = kOutput);
  return {
      EVERKERNEL_HANDLER(native_store3, kNativeStore3, .effects = kControl),
      EVERKERNEL_HANDLER(native_echo, kNativeEcho, .effects = ir::kTouchesEverything),
      EVERKERNEL_HANDLER(native_mark, kNativeMark, .effects = kOutput, .is_short = true),
      EVERKERNEL_HANDLER(native_far, kNativeFar, .effects = ir::kTouchesEverything),
      EVERKERNEL_HANDLER(native_poke, kNativePoke, .effects = kControl),
      EVERKERNEL_HANDLER(native_atomics, kNativeAtomics, .effects = kOutput),
      EVERKERNEL_HANDLER(native_say, kNativeSay, .effects = {.prints = true}),
      EVERKERNEL_HANDLER(native_emit_twice, kNativeEmitTwice, .scope = Scope::warp,
                         .effects = {.emits = true}),
      lane,
      widened(lane, "native_warp", kNativeWarp, Scope::warp),
      widened(lane, "native_group", kNativeGroup, Scope::group),
      EVERKERNEL_HANDLER(native_raise, kNativeRaise, .effects = {}),
      EVERKERNEL_HANDLER(native_yield_once, kNativeYieldOnce, .effects = kComesBack),
      EVERKERNEL_HANDLER(native_countdown, kNativeCountdown, .effects = kComesBack),
      EVERKERNEL_HANDLER(native_countdown_later, kNativeCountdownLater, .scope = Scope::warp,
                         .effects = kComesBack),
      EVERKERNEL_HANDLER(native_spin, kNativeSpin, .effects = kControl),
      EVERKERNEL_HANDLER(native_turns, kNativeTurns, .effects = {}),
      EVERKERNEL_HANDLER(native_undeclared, kNativeUndeclared, .effects = {}),
      EVERKERNEL_HANDLER(native_read_and_sum, kNativeReadAndSum, .effects = kWaits),
      EVERKERNEL_HANDLER(native_scribble, kNativeScribble, .effects = {}),
      EVERKERNEL_HANDLER(native_clumsy, kNativeClumsy, .effects = ir::kTouchesEverything),
      EVERKERNEL_HANDLER(native_add, kNativeAdd, .effects = kOutput, .commutes = true),
      EVERKERNEL_HANDLER(native_copy, kNativeCopy, .effects = kInputToOutput, .is_pure = true),
      EVERKERNEL_HANDLER(native_by_handle, kNativeByHandle, .effects = ir::kTouchesEverything),
      EVERKERNEL_HANDLER(native_move, kNativeMove, .effects = kInputToOutput),
  };
}

}  // namespace

const std::vector<ir::UnverifiedHandler>& unverified_handlers() {
  static const std::vector<ir::UnverifiedHandler> handlers = make_handlers();
  return handlers;
}

}  // namespace everkernel::conformance
