// The buffers that `inspect` has read and decoded; inspect.cpp prints them as JSON,
// inspect_text.cpp as text.
#pragma once

#include <optional>
#include <string>

#include "everkernel/protocol/control.hpp"
#include "everkernel/protocol/debug_log.hpp"
#include "everkernel/protocol/io_queue.hpp"
#include "everkernel/protocol/ring.hpp"
#include "everkernel/telemetry/snapshot.hpp"
#include "input.hpp"

namespace everkernel::cli {

/// The decoded buffers. Without its file, a part is absent.
struct Inspection {
  std::optional<Input<protocol::ControlView>> control = {};
  std::optional<Input<protocol::RingView>> ring = {};
  std::optional<Input<protocol::DebugLogView>> debug_log = {};
  std::optional<Input<protocol::IoQueueView>> io_queue = {};
  telemetry::RingTelemetry telemetry = {};                   ///< decoded from control and ring
  std::optional<telemetry::WatchdogSnapshot> watchdog = {};  ///< with an earlier control buffer
  bool has_observables = false;                              ///< --observables was given
  bool has_windows = false;                                  ///< --window-opcode was given
};

/// The inspection as tables of at most 100 columns. Without `all`, a table has at most 32 rows.
std::string human_text(const Inspection& inspection, bool all);

}  // namespace everkernel::cli
