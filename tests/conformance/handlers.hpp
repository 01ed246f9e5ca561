// The handlers that the tests of backends run: one program, so that a kernel is compiled once for
// many tests.
#pragma once

#include <string_view>

#include "everkernel/abi/platform.hpp"

namespace everkernel::conformance {

/// Opcodes of kHandlers. Those below 32 are counted in the metrics, those below 256 can be packed.
enum HandlerOpcode : abi::Word {
  kNothing = 8,          ///< does nothing
  kStore3 = 16,          ///< control[160..162] ← args[0], args[1], args[2] + args[11]
  kYieldOnce = 17,       ///< can yield
  kRequeueOnce = 18,     ///< can requeue
  kAwaitOnce = 19,       ///< can await
  kRaiseArg = 20,        ///< faults with args[0]
  kCountdown = 31,       ///< yields args[3] times
  kMark = 64,            ///< output[slot] += 1
  kTrace = 65,           ///< appends its slot to output: [0] is the length
  kCountdownLater = 66,  ///< requeues args[3] times
  kCrowd = 67,           ///< output[0] items run now, output[1] at most; param turns long
  kRaise = 68,           ///< faults with param
  kSpin = 69,            ///< never ends
  kYieldForever = 70,    ///< never ends, but yields
  kEcho = 71,            ///< writes everything it sees to output
  kPoke = 72,            ///< control[args[3]] ← args[4]
  kEpochAtEnd = 73,      ///< yields args[3] times, then output[slot] ← EPOCH
  kSay = 74,             ///< printf(args[3], args[4], args[5])
  kReadAndSum = 75,  ///< reads args[5] bytes of file args[3] at block args[4] into input, sums it
  kSave = 76,        ///< writes args[5] bytes of input to file args[3] at block args[4]
  kAddParam = 77,    ///< output[0] += param
  kToggleBase = 79,  ///< TENANT_BASE ← 2^32 − 1 and back to 3, param times
  kEmitTwice = 80,   ///< emits two hits
  kLoop = 78,        ///< takes param turns
};

/// The text of the handlers.
inline constexpr std::string_view kHandlers = R"(
handler nothing = 8 { }
handler store3 = 16 {
  control[160] = args[0];
  control[161] = args[1];
  control[162] = args[2] + args[11];
}
handler yield_once = 17 { if args[3] == 0 { args[3] = 1; yield; } }
handler requeue_once = 18 { if args[3] == 0 { args[3] = 1; requeue; } }
handler await_once = 19 { if args[3] == 0 { args[3] = 1; await read(1, 0, 2, 4); } }
handler raise_arg = 20 { fault args[0]; }
handler countdown = 31 {
  if args[3] == 0 { return; }
  args[3] = args[3] - 1;
  yield;
}
handler mark = 64 { atomic_add(output[slot], 1); }
handler trace = 65 {
  let at = atomic_add(output[0], 1);
  output[at + 1] = slot;
}
handler countdown_later = 66 {
  if args[3] == 0 { return; }
  args[3] = args[3] - 1;
  requeue;
}
handler crowd = 67 {
  let now = atomic_add(output[0], 1) + 1;
  atomic_max(output[1], now);
  for i in 0 .. param { atomic_add(output[2], 1); }
  atomic_add(output[0], 0xffffffff);
}
handler raise = 68 { fault param; }
handler spin = 69 { while true { } }
handler yield_forever = 70 { yield; }
handler echo = 71 {
  output[0] = opcode;
  output[1] = tenant;
  output[2] = priority;
  output[3] = slot;
  for i in 0 .. 12 { output[4 + i] = args[i]; }
}
handler poke = 72 { control[args[3]] = args[4]; }
handler epoch_at_end = 73 {
  if args[3] != 0 { args[3] = args[3] - 1; yield; }
  output[slot] = control[128];
}
handler say = 74 { printf(args[3], args[4], args[5]); }
handler read_and_sum = 75 {
  if args[6] == 0 {
    args[6] = 1;
    await read(args[3], args[4], args[0], args[5]);
  }
  var sum = 0;
  for i in 0 .. len(input) { sum = sum + input[i]; }
  output[0] = sum;
}
handler save = 76 {
  if args[6] == 0 {
    args[6] = 1;
    await write(args[0], args[4], args[3], args[5]);
  }
}
handler add_param = 77 { atomic_add(output[0], param); }
handler loop = 78 { for i in 0 .. param { } }
handler toggle_base = 79 {
  for i in 0 .. param {
    control[2] = 0xffffffff;
    control[2] = 3;
  }
}
handler emit_twice = 80 {
  emit(1, 2, 3);
  emit(4, 5, 6);
}
)";

}  // namespace everkernel::conformance
