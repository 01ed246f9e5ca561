// What `inspect` has read and decoded, before it becomes JSON (inspect.cpp) or text
// (inspect_text.cpp). The views point into the bytes beside them.
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

/// Everything that was asked for. A part whose file was not given is absent.
struct Inspection {
  std::optional<Input<protocol::ControlView>> control = {};
  std::optional<Input<protocol::RingView>> ring = {};
  std::optional<Input<protocol::DebugLogView>> debug_log = {};
  std::optional<Input<protocol::IoQueueView>> io_queue = {};
  telemetry::RingTelemetry telemetry = {};                   ///< of control and ring
  std::optional<telemetry::WatchdogSnapshot> watchdog = {};  ///< with an earlier control buffer
  bool has_observables = false;                              ///< they were asked for
  bool has_windows = false;                                  ///< they were asked for
};

/// The inspection as tables of at most 100 columns; long ones are cut to 32 rows unless `all`.
std::string human_text(const Inspection& inspection, bool all);

}  // namespace everkernel::cli
