// A kernel that runs planned work. The host feeds it through a queue whose entries are portions of
// the plan.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "everkernel/backend/backend.hpp"
#include "everkernel/backend/detail/graph.hpp"
#include "everkernel/backend/live_counters.hpp"
#include "everkernel/base/result.hpp"
#include "everkernel/protocol/queue.hpp"

namespace everkernel::backend {

class Doorbell;

/// The memory and objects that a kernel of planned work uses. All of them outlive the kernel.
struct GraphLaunch {
  std::span<std::byte> control = {};             ///< on a 64-byte line
  std::span<std::byte> debug_log = {};           ///< on a 64-byte line
  std::span<std::byte> io_queue = {};            ///< on a 64-byte line
  memory::BufferTableView buffers = {};          ///< the buffers that handles name
  const protocol::QueueKernel* queue = nullptr;  ///< portions of the plan, from ticket 0 on
  Doorbell* doorbell = nullptr;                  ///< where workers sleep
  Word worker_count = 0;                         ///< 0 = all workers of the kernel
  const WorkGraph* graph = nullptr;              ///< the plan
};

/// A kernel that runs planned work until it is stopped.
class GraphKernel {
 public:
  virtual ~GraphKernel();  ///< stops at once

  /// Each worker finishes the item it holds and leaves; returns when all have left. At the
  /// deadline, items that still run are ended as FAULT (deadline) at their next turn of a loop. May
  /// be called again.
  virtual void stop(Clock::time_point deadline) = 0;
  /// Adds the counts of the workers so far to the control words, and returns the totals since the
  /// start. Includes every item whose end the caller has seen.
  virtual LiveCounters flush_counters() = 0;
  /// Whether workers are still running. They leave at stop(), and when SHUTDOWN is set.
  virtual bool is_running() const = 0;
  /// Fails with `device_lost` when the device went away under the kernel.
  virtual Result<void> health() const = 0;
};

}  // namespace everkernel::backend
