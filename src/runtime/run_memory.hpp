// State that the runs of one megakernel reuse: memory, compiled kernels, recommendations.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "everkernel/backend/backend.hpp"
#include "everkernel/backend/detail/live.hpp"
#include "everkernel/memory/large_array.hpp"
#include "everkernel/planner/policy.hpp"
#include "memory/shared_memory.hpp"
#include "planner/effects.hpp"
#include "planner/plan.hpp"
#include "runtime/state.hpp"

namespace everkernel {

/// Which code a kernel of a run has.
struct RunKernelKey {
  backend::Execution execution = {};  ///< how its handlers run
  bool is_planned = false;            ///< whether native code relies on the order of the plan

  /// Equal in every field.
  friend bool operator==(const RunKernelKey&, const RunKernelKey&) = default;
};

/// Memory and caches that runs reuse. Accessed only under the launch mutex.
struct RunMemory {
  /// For the handlers of a megakernel.
  explicit RunMemory(const backend::KernelOptions& options)
      : effects(options.find_program(), options.trusted_handlers) {}

  planner::EffectTable effects;                       ///< effects of opcodes
  planner::Plan plan;                                 ///< of the last run
  planner::PolicyCache policies;                      ///< recommendations
  std::optional<planner::Topology> last_topology;     ///< for hysteresis
  std::uint64_t last_requeues = 0;                    ///< of the last run
  std::optional<memory::SharedMemory> shared_memory;  ///< queue and control words
  std::shared_ptr<backend::Doorbell> doorbell;        ///< where workers sleep
  memory::LargeArray<Word> left;                      ///< one for each entry of the queue
  memory::LargeArray<Word> poisoned_by;               ///< one for each handle
  memory::LargeArray<abi::Hit> hits;                  ///< room for hits
  memory::LargeArray<abi::Hit> prints;                ///< room for records of printf

  /// A compiled kernel.
  struct Entry {
    RunKernelKey key;                         ///< which code it has
    std::shared_ptr<backend::Kernel> kernel;  ///< the code
    std::uint64_t generation = 0;             ///< recoveries it has seen
  };
  std::vector<Entry> kernels;  ///< one for each key that was needed

  /// Allocations for runs so far.
  Word allocations() const {
    return shared_memory_allocations + left.allocations() + poisoned_by.allocations() +
           hits.allocations() + prints.allocations();
  }
  Word shared_memory_allocations = 0;  ///< times `shared_memory` was created
};

/// The kernel of a run.
struct RunKernel {
  std::shared_ptr<backend::Kernel> kernel;  ///< the kernel
  backend::CodeCounts counts_before;        ///< its counts before this run
};

/// Finds or creates the kernel of a run. Fails as Backend::compile does.
Result<RunKernel> find_kernel(Megakernel::State& state, RunMemory& memory, const RunKernelKey& key);

}  // namespace everkernel
