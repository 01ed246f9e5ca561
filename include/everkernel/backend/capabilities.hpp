// What a backend can do, found out by asking the machine.
#pragma once

#include <cstdint>
#include <string>

#include "everkernel/abi/platform.hpp"

namespace everkernel::backend {

using abi::Word;

/// What a backend can do here. `info` shows it, the planner decides by it.
struct Capabilities {
  bool supported = false;          ///< whether it can run anything
  Word max_worker_count = 0;       ///< workers it can keep busy at one time
  std::string id = {};             ///< `cpu`, `cuda`
  std::string device = {};         ///< what it runs on, for people
  std::string reason = {};         ///< why it is not supported, empty when it is
  std::uint64_t memory_bytes = 0;  ///< memory its buffers may take
  bool native_code = false;        ///< whether handlers are compiled for the device
  bool interpreter = false;        ///< whether handlers can run without being compiled
  bool live = false;               ///< whether it can serve a session
  /// Whether the regions of one slot of planned work spread over all workers. Elsewhere a slot is
  /// one worker's.
  bool spreads_portions = false;

  /// A backend that cannot run here, and why.
  static Capabilities unsupported(std::string reason);
  /// A backend with that many workers; the caller fills in the rest.
  static Capabilities with_workers(Word max_worker_count);
};

}  // namespace everkernel::backend
