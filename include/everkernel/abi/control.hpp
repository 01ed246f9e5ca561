// The control buffer: flags the host sets, counters the workers keep, then observable result words.
//
// The tables are listed once, in kControlTables, and asserted to tile the fixed part without a
// gap or an overlap. protocol/control.hpp encodes and reads them.
#pragma once

#include "everkernel/abi/platform.hpp"
#include "everkernel/abi/slot.hpp"

namespace everkernel::abi {

/// Word: non-zero makes workers finish the slot they hold and stop.
inline constexpr WordRange kControlShutdown{0, 1};
/// Word: slots that reached DONE, wraps at 2^32.
inline constexpr WordRange kControlDoneCount{1, 1};
/// Word: index of the tenant mask table.
inline constexpr WordRange kControlTenantBase{2, 1};
/// Words: one mask for each tenant; non-zero = its slots may run.
inline constexpr WordRange kControlTenantMasks{3, 29};
/// Words: for each tenant, most of its slots that may be claimed at one time; 0 = none runs.
inline constexpr WordRange kControlTenantQuotas{32, 32};
/// Words: claims of each tenant, cumulative.
inline constexpr WordRange kControlTenantFairness{64, 32};
/// Words: executions of opcodes 0..31.
inline constexpr WordRange kControlMetrics{96, 32};
/// Word: batch fences completed.
inline constexpr WordRange kControlEpoch{128, 1};
/// Words: first slot of each priority, then the end.
inline constexpr WordRange kControlPriorityOffsets{129, 6};
/// Word: claims of urgent slots since the last claim of another priority.
inline constexpr WordRange kControlStarvation{135, 1};
/// Words: claims of each priority, cumulative.
inline constexpr WordRange kControlPriorityFairness{136, 5};
/// Word: next ticket a worker takes.
inline constexpr WordRange kControlTicketHead{141, 1};
/// Word: tickets the host has published.
inline constexpr WordRange kControlTicketTail{142, 1};
/// Word: slots that reached FAULT.
inline constexpr WordRange kControlFaultCount{143, 1};
/// Word: debug records that found the log full.
inline constexpr WordRange kControlDebugDropped{144, 1};
/// Words: zero, for later versions.
inline constexpr WordRange kControlReserved{145, 15};

/// Words in the fixed part; observables follow.
inline constexpr Word kControlWords = 160;
/// Word index of the first observable.
inline constexpr Word kControlFirstObservable = kControlWords;

/// Tenants a ring can have; their ids are 0 … kTenantCount − 1.
inline constexpr Word kTenantCount = kControlTenantMasks.count;
/// Highest tenant id.
inline constexpr Word kMaxTenant = kTenantCount - 1;
/// Mask of a tenant that may run, as the encoder writes it.
inline constexpr Word kTenantEnabled = 0xFFFFFFFFu;
/// Quota the encoder gives a tenant.
inline constexpr Word kDefaultTenantQuota = 1'000'000;
/// Most observables a control buffer may have.
inline constexpr Word kMaxObservables = 1'048'576;

/// A named table of the control buffer; many have one word only.
struct ControlTable {
  const char* name;  ///< as in error messages
  WordRange words;   ///< where it lies
};

/// Every table of the fixed part, in order.
inline constexpr ControlTable kControlTables[] = {
    {"shutdown", kControlShutdown},
    {"done_count", kControlDoneCount},
    {"tenant_base", kControlTenantBase},
    {"tenant_masks", kControlTenantMasks},
    {"tenant_quotas", kControlTenantQuotas},
    {"tenant_fairness", kControlTenantFairness},
    {"metrics", kControlMetrics},
    {"epoch", kControlEpoch},
    {"priority_offsets", kControlPriorityOffsets},
    {"starvation", kControlStarvation},
    {"priority_fairness", kControlPriorityFairness},
    {"ticket_head", kControlTicketHead},
    {"ticket_tail", kControlTicketTail},
    {"fault_count", kControlFaultCount},
    {"debug_dropped", kControlDebugDropped},
    {"reserved", kControlReserved},
};

/// Whether each table begins where the one before it ends, from word 0 to kControlWords.
EVERKERNEL_HOST_DEVICE constexpr bool control_tables_tile() {
  Word next = 0;
  for (const ControlTable& table : kControlTables) {
    if (table.words.first != next || table.words.count == 0) return false;
    next = table.words.end();
  }
  return next == kControlWords;
}

static_assert(control_tables_tile());
static_assert(kControlPriorityOffsets.count == kPriorityCount + 1);
static_assert(kControlPriorityFairness.count == kPriorityCount);
static_assert(kControlTenantQuotas.count >= kTenantCount &&
              kControlTenantFairness.count >= kTenantCount);

}  // namespace everkernel::abi
