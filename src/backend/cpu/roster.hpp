// The queues and buffers of a live kernel at one moment.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "backend/cpu/live_queue.hpp"
#include "everkernel/backend/backend.hpp"

namespace everkernel::backend::cpu {

/// The queues and buffers at one moment. Workers read it without a lock; a change makes another
/// one, and the old one is freed when no worker can be reading it any more.
struct Roster {
  /// The queues of one tenant at one priority.
  struct Tenant {
    Word tenant = 0;
    std::vector<CpuQueue*> queues = {};
  };
  /// By priority, most urgent first.
  using Levels = std::array<std::vector<Tenant>, abi::kPriorityCount>;

  std::uint64_t version = 0;  ///< differs from that of any other of its kernel
  Levels levels = {};         ///< the queues in the order in which they are served
  std::vector<std::shared_ptr<CpuQueue>> queues = {};  ///< all of them
  memory::BufferTableView buffers = {};                ///< the buffers that handles name
  std::shared_ptr<const void> buffer_owner = {};       ///< keeps them
};

}  // namespace everkernel::backend::cpu
