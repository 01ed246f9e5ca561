// The trusted handlers that the tests of backends run, each with a C++ function and a CUDA text.
#pragma once

#include <string_view>
#include <vector>

#include "everkernel/abi/platform.hpp"
#include "everkernel/ir/trusted.hpp"

namespace everkernel::conformance {

/// Opcodes of trusted_handlers(). None is one of kHandlers'.
enum TrustedOpcode : abi::Word {
  kTrustedStore3 = 21,           ///< control[160..162] ← args[0], args[1], args[2] + args[11]
  kTrustedRaise = 22,            ///< faults with args[0]
  kTrustedYieldOnce = 23,        ///< can yield
  kTrustedEcho = 100,            ///< writes everything it sees to output
  kTrustedMark = 101,            ///< output[slot] += 1
  kTrustedLane = 102,            ///< output from param: lanes, highest lane of 40 turns, turns
  kTrustedWarp = 103,            ///< the same on a warp
  kTrustedGroup = 104,           ///< the same on a group
  kTrustedCountdown = 105,       ///< yields args[3] times
  kTrustedCountdownLater = 106,  ///< requeues args[3] times
  kTrustedPoke = 107,            ///< control[args[3]] ← args[4]
  kTrustedSpin = 108,            ///< control[160] ← 1, then waits for the request to end
  kTrustedTurns = 109,           ///< takes turns until it is asked to end
  kTrustedUndeclared = 110,      ///< yields without having declared it
  kTrustedSay = 111,             ///< printf(args[3], args[4], args[5])
  kTrustedEmitTwice = 112,       ///< emits two hits
  kTrustedReadAndSum = 113,      ///< reads args[5] bytes of file args[3] into input, sums it
  kTrustedScribble = 114,        ///< writes its args without having declared it
  kTrustedClumsy = 115,          ///< fails in three ways, and writes output[0] in between
  kTrustedAdd = 116,             ///< commutes: output[0] += param; faults with param 666
  kTrustedCopy = 117,            ///< pure: output[0] = input[0] + param
  kTrustedByHandle = 118,        ///< may touch everything: buffer(9)[0] = buffer(8)[0] * 3 + param
  kTrustedMove = 119,            ///< output[0] = input[0] * 2 + param; faults with param 666
  kTrustedAtomics = 120,         ///< every atomic on output[0..7]; output[8..15] ← the old values
  kTrustedFar = 0x12345,         ///< output[0] ← opcode
};

/// Verified handlers that run beside them: kMark and kAddParam.
inline constexpr std::string_view kBesideTrusted = R"(
handler mark = 64 { atomic_add(output[slot], 1); }
handler add_param = 77 { atomic_add(output[0], param); }
)";

/// All of them.
const std::vector<ir::TrustedHandler>& trusted_handlers();

}  // namespace everkernel::conformance
