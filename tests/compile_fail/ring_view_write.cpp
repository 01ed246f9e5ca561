// A view reads: slots come as copies, and there is no way to store one.
// expect: lvalue|not assignable|no member|has no member
#include "everkernel/protocol/ring.hpp"

using namespace everkernel;

abi::Word change(const protocol::RingView& view) {
#if defined(EVERKERNEL_BAD)
  view.slot(0).opcode = 1;
  return view.slot(0).opcode;
#else
  abi::Slot copy = view.slot(0);
  copy.opcode = 1;
  return copy.opcode;
#endif
}
