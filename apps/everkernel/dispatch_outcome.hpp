// The outcome of `dispatch`, which dispatch_text.cpp prints as JSON or text.
#pragma once

#include <string>
#include <vector>

#include "everkernel/protocol/control.hpp"
#include "everkernel/protocol/ring.hpp"
#include "everkernel/runtime/dispatch.hpp"

namespace everkernel::cli {

/// Slots that became FAULT in this dispatch with the same fault code and opcode.
struct FaultGroup {
  Word fault_code = 0;
  Word opcode = 0;
  std::uint64_t count = 0;
};

/// Slots that have not ended, with the same status, opcode and reason.
struct RemainingGroup {
  abi::SlotStatus status = {};
  Word opcode = 0;
  std::string why = {};  ///< why they have not ended, in words
  std::uint64_t count = 0;
};

/// A file that the command writes.
struct WrittenFile {
  std::string path = {};
  std::size_t bytes = 0;
};

/// Everything that the report shows.
struct DispatchOutcome {
  std::string backend = {};         ///< `cpu`, `cuda`
  std::string backend_reason = {};  ///< why `auto` chose it; empty if the user named it
  std::string device = {};          ///< the device, for people
  std::string pipeline_id = {};     ///< names the compiled code
  Word worker_count = 0;
  Word slot_count = 0;
  Word workgroup_size = 0;
  backend::Schedule schedule = {};
  DispatchStats stats = {};
  backend::DrainEnd end = {};
  Word debug_dropped = 0;  ///< in this dispatch
  std::vector<FaultGroup> faults = {};
  std::vector<RemainingGroup> remaining = {};
  std::vector<WrittenFile> files = {};
};

/// Groups the slots that are FAULT in `after` and not in `before`, largest group first.
std::vector<FaultGroup> fault_groups(const protocol::RingView& before,
                                     const protocol::RingView& after);
/// Groups the slots that are still active after the dispatch, largest group first.
std::vector<RemainingGroup> remaining_groups(const protocol::ControlView& control,
                                             const protocol::RingView& ring, backend::DrainEnd end);

/// The outcome as one JSON object.
std::string json_text(const DispatchOutcome& outcome);
/// The outcome as tables of at most 100 columns.
std::string human_text(const DispatchOutcome& outcome);

}  // namespace everkernel::cli
