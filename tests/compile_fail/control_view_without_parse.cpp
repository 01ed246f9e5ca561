// Raw bytes become a ControlView only through parse, which checks them.
// expect: is private within|a private constructor
#include "everkernel/protocol/control.hpp"

using namespace everkernel;

bool is_stopped(std::span<const std::byte> bytes) {
#if defined(EVERKERNEL_BAD)
  return protocol::ControlView(bytes).shutdown();
#else
  const auto view = protocol::ControlView::parse(bytes);
  return view && view->shutdown();
#endif
}
