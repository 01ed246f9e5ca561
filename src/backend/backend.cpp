// Names and defaults of the backend interface.
#include "everkernel/backend/backend.hpp"

#include <utility>

#include "everkernel/backend/live.hpp"

namespace everkernel::backend {

Capabilities Capabilities::unsupported(std::string reason) {
  Capabilities none;
  none.reason = std::move(reason);
  return none;
}

Capabilities Capabilities::with_workers(Word max_worker_count) {
  Capabilities capabilities;
  capabilities.supported = true;
  capabilities.max_worker_count = max_worker_count;
  return capabilities;
}

std::string_view schedule_name(Schedule schedule) {
  switch (schedule) {
    case Schedule::direct:
      return "direct";
    case Schedule::priority:
      return "priority";
    case Schedule::ticket:
      return "ticket";
  }
  return "unknown";
}

std::string_view drain_end_name(DrainEnd end) {
  switch (end) {
    case DrainEnd::complete:
      return "complete";
    case DrainEnd::shutdown:
      return "shutdown";
    case DrainEnd::deadline:
      return "deadline";
  }
  return "unknown";
}

Memory::~Memory() = default;
Kernel::~Kernel() = default;
Backend::~Backend() = default;
LiveKernel::~LiveKernel() = default;

}  // namespace everkernel::backend
