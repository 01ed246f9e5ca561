// A Result may not be dropped: it may hold an error.
// expect: unused-result
#include "everkernel/protocol/control.hpp"

using namespace everkernel;

void stop_tenant(protocol::ControlWriter& writer) {
#if defined(EVERKERNEL_BAD)
  writer.set_tenant_enabled(1, false);
#else
  if (!writer.set_tenant_enabled(1, false)) writer.set_shutdown(true);
#endif
}
