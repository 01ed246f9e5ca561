// One run of one item, as the test hands it to code that was compiled with cuda_shim.hpp: the
// fields of ir::ItemFrame, without its headers, which would take longer to compile than the code.
#pragma once

#include "everkernel/abi/slot.hpp"

namespace everkernel::test {

using ShimWord = abi::Word;

/// ir::ItemHooks.
struct ShimHooks {
  void* self;
  void (*print)(void* self, ShimWord fmt, ShimWord a, ShimWord b);
  void (*emit)(void* self, ShimWord a, ShimWord b, ShimWord c);
};

/// ir::ItemFrame.
struct ShimFrame {
  ShimWord args[abi::kSlotArgs];
  ShimWord opcode, tenant, priority, slot, lanes, control_words;
  ShimWord* control;
  const void* entries;
  ShimWord mask;
  unsigned long fuel;
  const ShimWord* abort;
  const ShimHooks* hooks;
  ShimWord io[5];
};

/// How many lanes run a handler.
enum class ShimWay : int { one_lane, many_lanes };

/// The entry of the compiled code: runs a handler and returns its ending and fault code as on the
/// device. Sets `trouble` to a text if lanes that must agree did not.
using ShimRun = ShimWord (*)(ShimWord handler, ShimWay way, ShimFrame* frame, const char** trouble);

}  // namespace everkernel::test
