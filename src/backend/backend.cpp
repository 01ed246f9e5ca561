// Names and defaults of the backend interface.
#include "everkernel/backend/backend.hpp"

#include <algorithm>
#include <utility>

#include "everkernel/backend/detail/graph_kernel.hpp"

namespace everkernel::backend {

std::optional<ir::HandlerTraits> KernelOptions::find_handler(Word opcode) const {
  const ir::VerifiedHandler* const verified = program ? program->find(opcode) : nullptr;
  if (verified != nullptr) return ir::traits_of(*verified);
  const auto found = std::ranges::find(trusted_handlers, opcode, &ir::TrustedHandler::opcode);
  if (found == trusted_handlers.end()) return std::nullopt;
  return ir::traits_of(*found);
}

Result<void> Kernel::take_over(LiveKernel&, Clock::time_point) {
  return fail(Code::unsupported, "backend: its sessions cannot replace their handlers");
}

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

std::string_view execution_name(Execution execution) {
  switch (execution) {
    case Execution::automatic:
      return "automatic";
    case Execution::interpreter:
      return "interpreter";
    case Execution::native:
      return "jit";
  }
  return "unknown";
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
    case DrainEnd::stopped:
      return "stopped";
  }
  return "unknown";
}

Memory::~Memory() = default;
Kernel::~Kernel() = default;
Backend::~Backend() = default;
GraphKernel::~GraphKernel() = default;

}  // namespace everkernel::backend
