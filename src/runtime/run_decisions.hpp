// Decisions of a run that follow from its plan: workers, code, the size of a ticket and of a batch.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "everkernel/backend/backend.hpp"
#include "everkernel/planner/policy.hpp"
#include "everkernel/runtime/run.hpp"
#include "planner/plan.hpp"
#include "runtime/run_memory.hpp"

namespace everkernel {

using planner::OpcodeCount;

/// The facts that the decisions depend on.
struct RunFacts {
  const backend::Capabilities& device;             ///< properties of the device
  const backend::KernelOptions& kernel;            ///< options of the megakernel
  const RunOptions& options;                       ///< options of the call
  const planner::Plan& plan;                       ///< which items wait for which
  std::uint64_t kept_items = 0;                    ///< items that are not dropped
  std::uint64_t resident_bytes = 0;                ///< bytes of all buffers
  std::uint64_t last_requeues = 0;                 ///< items the run before this one requeued
  std::optional<planner::Topology> last_topology;  ///< of the run before this one
  backend::Clock::time_point deadline = {};        ///< of the run
};

/// Entries of the queue of a run: as many as the megakernel has slots, as far as a queue can.
Word queue_entries(const backend::KernelOptions& kernel);
/// The request to the launch policy.
planner::LaunchRequest launch_request(const RunFacts& run);
/// Whether to ask for native code of all opcodes of this run before it starts. If not, a kernel
/// that can interpret asks for the code of a handler whose items turn out to cost much.
bool compiles_code(const RunFacts& run, const planner::LaunchPolicy& policy);
/// Which kernel runs it.
RunKernelKey kernel_key(const RunFacts& run, bool compiles);
/// Most regions that a ticket stands for.
Word regions_per_ticket(const RunFacts& run, const planner::LaunchPolicy& policy);
/// Most tickets that are published together.
Word largest_batch(const RunFacts& run, const planner::LaunchPolicy& policy);

}  // namespace everkernel
