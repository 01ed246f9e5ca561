// The state of a running megakernel: plain values decoded from the shared buffers.
//
// decode.hpp fills them, json.hpp writes them out. The formulae are integer and saturate.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "everkernel/abi/control.hpp"
#include "everkernel/abi/slot.hpp"

namespace everkernel::telemetry {

using abi::Word;

/// State of a slot. Values outside the enumeration are kept as found; abi::status_name() calls them
/// unknown.
using RingStatus = abi::SlotStatus;

/// One ring slot.
struct RingSlotSnapshot {
  Word slot_idx = 0;                      ///< index in the ring
  RingStatus status = RingStatus::empty;  ///< as found, also when unknown
  Word tenant_id = 0;                     ///< owner of the item
  Word opcode = 0;                        ///< operation of the item
  Word priority = 0;                      ///< its priority half-word
  Word fault_code = 0;                    ///< fault code of a FAULT slot, else 0
  std::array<Word, 3> args_prefix = {};   ///< its first arguments

  /// Equal in every field.
  friend bool operator==(const RingSlotSnapshot&, const RingSlotSnapshot&) = default;
};

/// All slots of one ticketed window: same arg0 (the ticket) and same opcode.
struct WindowTelemetry {
  Word ticket = 0;           ///< arg0 of its slots
  Word tenant_id = 0;        ///< tenant of its first slot
  Word opcode = 0;           ///< opcode of its slots
  Word required_slots = 0;   ///< slots with arg1 = 0
  Word lookahead_slots = 0;  ///< slots with arg1 = 1
  Word published = 0;        ///< slots that wait for a worker
  Word claimed = 0;          ///< slots a worker runs
  Word done = 0;             ///< slots that are complete
  Word wait_io = 0;          ///< slots that wait for IO
  Word yield_count = 0;      ///< slots that yielded
  Word requeue = 0;          ///< slots that run again later
  Word fault = 0;            ///< slots that faulted

  /// Whether the window still has unfinished work.
  bool is_active() const;

  /// Equal in every field.
  friend bool operator==(const WindowTelemetry&, const WindowTelemetry&) = default;
};

/// Slots by status.
struct RingOccupancy {
  Word empty = 0;        ///< free slots
  Word published = 0;    ///< slots that wait for a worker
  Word claimed = 0;      ///< slots a worker runs
  Word done = 0;         ///< slots that are complete
  Word wait_io = 0;      ///< slots that wait for IO
  Word yield_count = 0;  ///< slots that yielded
  Word requeue = 0;      ///< slots that run again later
  Word fault = 0;        ///< slots that faulted
  Word unknown = 0;      ///< slots whose status is none of these

  /// All slots.
  Word total_slots() const;
  /// Slots that are neither empty nor done.
  Word queue_depth() const;

  /// Equal in every field.
  friend bool operator==(const RingOccupancy&, const RingOccupancy&) = default;
};

/// How often an opcode ran.
struct OpcodeCount {
  Word opcode = 0;  ///< below 32
  Word count = 0;   ///< executions, modulo 2^32

  /// Equal in both fields.
  friend bool operator==(const OpcodeCount&, const OpcodeCount&) = default;
};

/// The control buffer, decoded.
struct ControlSnapshot {
  bool shutdown = false;                  ///< workers were told to stop
  Word done_count = 0;                    ///< slots that reached DONE, modulo 2^32
  Word epoch = 0;                         ///< batch fences completed
  std::vector<OpcodeCount> metrics = {};  ///< opcodes that ran, without zeros
  std::array<Word, abi::kControlTenantFairness.count> tenant_fairness = {};  ///< claims by tenant
  std::array<Word, abi::kControlPriorityFairness.count> priority_fairness = {};  ///< by priority
  Word fault_count = 0;                ///< slots that reached FAULT, modulo 2^32
  Word debug_dropped = 0;              ///< debug records that found the log full
  Word enabled_tenants = 0;            ///< bit t: tenant t may run
  Word tenants_without_quota = 0;      ///< bit t: no slot of tenant t may be claimed
  std::vector<Word> observables = {};  ///< result words, if the request asks for them

  /// Equal in every field.
  friend bool operator==(const ControlSnapshot&, const ControlSnapshot&) = default;
};

/// Performance counters derived from one snapshot. Ratios are parts per million or basis points
/// (1/10,000) of the ring's slots.
struct RuntimeCounters {
  Word total_slots = 0;                       ///< slots of the ring
  Word queue_depth = 0;                       ///< slots neither empty nor done
  Word gpu_idle_slots = 0;                    ///< empty slots
  Word gpu_idle_ppm = 0;                      ///< empty slots, parts per million
  std::uint16_t frontier_density_bps = 0;     ///< queue depth, basis points
  std::uint16_t occupancy_proxy_bps = 0;      ///< slots that are not empty, basis points
  Word drained_slots = 0;                     ///< DONE_COUNT
  Word unreclaimed_done_slots = 0;            ///< DONE slots still in the ring
  std::uint64_t tenant_fairness_total = 0;    ///< claims of all tenants
  Word tenant_fairness_skew = 0;              ///< most minus fewest claims, among tenants with any
  std::uint64_t priority_fairness_total = 0;  ///< claims of all priorities
  Word requeue_slots = 0;                     ///< slots that run again later
  Word fault_slots = 0;                       ///< slots that faulted

  /// Equal in every field.
  friend bool operator==(const RuntimeCounters&, const RuntimeCounters&) = default;
};

/// Progress between two snapshots.
struct WatchdogSnapshot {
  Word done_delta = 0;           ///< slots completed in between, by modular difference
  Word queue_depth = 0;          ///< slots neither empty nor done, now
  Word fault_slots = 0;          ///< faulted slots, now
  Word requeue_slots = 0;        ///< requeued slots, now
  Word gpu_idle_ppm = 0;         ///< empty slots, parts per million, now
  bool suspected_stall = false;  ///< nothing completed although an enabled tenant has work to run
  Word blocked_slots = 0;        ///< slots that wait for a tenant to be enabled or to get a quota
  Word blocked_tenants = 0;      ///< bit t: a slot of tenant t is among them
  bool all_blocked = false;      ///< nothing completed, and every slot that waits is blocked

  /// Equal in every field.
  friend bool operator==(const WatchdogSnapshot&, const WatchdogSnapshot&) = default;
};

/// Everything decoded from a control buffer and a ring at one time.
struct RingTelemetry {
  ControlSnapshot control = {};              ///< the control buffer
  RingOccupancy occupancy = {};              ///< slots by status
  std::vector<RingSlotSnapshot> slots = {};  ///< every slot, in order
  std::vector<WindowTelemetry> windows =
      {};                    ///< windows of the requested opcodes, by ticket, then opcode
  Word runnable_slots = 0;   ///< claimable or CLAIMED slots of enabled tenants
  Word movable_slots = 0;    ///< of those, CLAIMED ones and those of tenants with a quota
  Word blocked_slots = 0;    ///< claimable slots of tenants that are disabled or have no quota
  Word blocked_tenants = 0;  ///< bit t: a slot of tenant t is blocked

  /// Derives the performance counters.
  RuntimeCounters counters() const;
  /// Compares with the DONE_COUNT of an earlier snapshot.
  WatchdogSnapshot watchdog(Word previous_done_count) const;

  /// Equal in every field.
  friend bool operator==(const RingTelemetry&, const RingTelemetry&) = default;
};

}  // namespace everkernel::telemetry
