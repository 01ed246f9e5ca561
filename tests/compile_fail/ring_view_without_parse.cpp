// Raw bytes become a RingView only through parse, which checks them.
// expect: no matching|cannot convert|no viable|private
#include "everkernel/protocol/ring.hpp"

using namespace everkernel;

abi::Word count(protocol::RingView view) {
  return view.slot_count();
}

abi::Word count_bytes(std::span<const std::byte> bytes) {
#if defined(EVERKERNEL_BAD)
  return count(bytes);
#else
  const auto view = protocol::RingView::parse(bytes);
  return view ? count(*view) : 0;
#endif
}
