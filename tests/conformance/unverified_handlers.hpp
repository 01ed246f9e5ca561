// The native handlers that the tests of backends run, with both halves.
#pragma once

#include <string_view>
#include <vector>

#include "everkernel/abi/platform.hpp"
#include "everkernel/ir/unverified.hpp"

namespace everkernel::conformance {

/// Opcodes of unverified_handlers(). None is one of kHandlers'.
enum UnverifiedOpcode : abi::Word {
  kNativeStore3 = 21,           ///< control[160..162] ← args[0], args[1], args[2] + args[11]
  kNativeRaise = 22,            ///< faults with args[0]
  kNativeYieldOnce = 23,        ///< can yield
  kNativeEcho = 100,            ///< writes everything it sees to output
  kNativeMark = 101,            ///< output[slot] += 1
  kNativeLane = 102,            ///< output from param: lanes, highest lane of 40 turns, turns
  kNativeWarp = 103,            ///< the same on a warp
  kNativeGroup = 104,           ///< the same on a group
  kNativeCountdown = 105,       ///< yields args[3] times
  kNativeCountdownLater = 106,  ///< requeues args[3] times
  kNativePoke = 107,            ///< control[args[3]] ← args[4]
  kNativeSpin = 108,            ///< control[160] ← 1, then it waits to be told to end
  kNativeTurns = 109,           ///< takes turns until it is told to end
  kNativeUndeclared = 110,      ///< yields and has not declared it
  kNativeSay = 111,             ///< printf(args[3], args[4], args[5])
  kNativeEmitTwice = 112,       ///< emits two hits
  kNativeReadAndSum = 113,      ///< reads args[5] bytes of file args[3] into input, sums it
  kNativeScribble = 114,        ///< writes its args and has not declared it
  kNativeClumsy = 115,          ///< fails in three ways, and writes output[0] between
  kNativeAdd = 116,             ///< commutes: output[0] += param; faults with param 666
  kNativeCopy = 117,            ///< pure: output[0] = input[0] + param
  kNativeByHandle = 118,        ///< may touch everything: buffer(9)[0] = buffer(8)[0] * 3 + param
  kNativeMove = 119,            ///< output[0] = input[0] * 2 + param; faults with param 666
  kNativeAtomics = 120,         ///< every atomic on output[0..7]; output[8..15] ← what was before
  kNativeFar = 0x12345,         ///< output[0] ← opcode
};

/// Verified handlers that run beside them: kMark and kAddParam.
inline constexpr std::string_view kBesideNative = R"(
handler mark = 64 { atomic_add(output[slot], 1); }
handler add_param = 77 { atomic_add(output[0], param); }
)";

/// All of them.
const std::vector<ir::UnverifiedHandler>& unverified_handlers();

}  // namespace everkernel::conformance
