// What `dispatch` came to, before it becomes JSON or text (dispatch_text.cpp).
#pragma once

#include <string>
#include <vector>

#include "everkernel/protocol/control.hpp"
#include "everkernel/protocol/ring.hpp"
#include "everkernel/runtime/dispatch.hpp"

namespace everkernel::cli {

/// Slots that became FAULT in this run, alike in code and opcode.
struct FaultGroup {
  Word fault_code = 0;
  Word opcode = 0;
  std::uint64_t count = 0;
};

/// Slots that did not end, alike in all of this.
struct RemainingGroup {
  abi::SlotStatus status = {};
  Word opcode = 0;
  std::string why = {};  ///< what keeps them, in words
  std::uint64_t count = 0;
};

/// A file that will be there when the command is done.
struct WrittenFile {
  std::string path = {};
  std::size_t bytes = 0;
};

/// Everything the report says.
struct DispatchOutcome {
  std::string backend = {};         ///< `cpu`, `cuda`
  std::string backend_reason = {};  ///< what `auto` decided by
  std::string device = {};          ///< what it ran on, for people
  std::string pipeline_id = {};     ///< names the compiled code
  Word worker_count = 0;
  Word slot_count = 0;
  Word workgroup_size = 0;
  backend::Schedule schedule = {};
  DispatchStats stats = {};
  backend::DrainEnd end = {};
  Word debug_dropped = 0;  ///< in this run
  std::vector<FaultGroup> faults = {};
  std::vector<RemainingGroup> remaining = {};
  std::vector<WrittenFile> files = {};
};

/// Groups the slots that are FAULT after the run and were not before it, most frequent first.
std::vector<FaultGroup> fault_groups(const protocol::RingView& before,
                                     const protocol::RingView& after);
/// Groups the slots that are still active, most frequent first. `control` is as the run left it.
std::vector<RemainingGroup> remaining_groups(const protocol::ControlView& control,
                                             const protocol::RingView& ring, backend::DrainEnd end);

/// The outcome as one JSON object.
std::string json_text(const DispatchOutcome& outcome);
/// The outcome as tables of at most 100 columns.
std::string human_text(const DispatchOutcome& outcome);

}  // namespace everkernel::cli
