// Properties of a backend on this machine.
#pragma once

#include <cstdint>
#include <string>

#include "everkernel/abi/platform.hpp"

namespace everkernel::backend {

using abi::Word;

/// Properties of a backend on this machine. `info` shows them, the planner uses them.
struct Capabilities {
  bool supported = false;          ///< whether it can run anything
  Word max_worker_count = 0;       ///< workers it can keep busy at one time
  std::string id = {};             ///< `cpu`, `cuda`
  std::string device = {};         ///< name of the device, for people
  std::string reason = {};         ///< why it is not supported, empty when it is
  std::uint64_t memory_bytes = 0;  ///< memory its buffers may take
  bool native_code = false;        ///< whether handlers are compiled for the device
  bool interpreter = false;        ///< whether handlers can run without being compiled
  bool live = false;               ///< whether it can serve a session
  /// Whether all workers run the regions of one slot of planned work. Elsewhere one worker claims
  /// the slot and runs them.
  bool shares_slot_across_workers = false;

  /// A backend that cannot run here, and why.
  static Capabilities unsupported(std::string reason);
  /// A backend with that many workers; the caller fills in the rest.
  static Capabilities with_workers(Word max_worker_count);
};

}  // namespace everkernel::backend
