// The formulae of counters and watchdog: integer, saturating, modular where counters wrap.
#include "everkernel/telemetry/snapshot.hpp"

#include <algorithm>
#include <span>

#include "base/checked.hpp"

namespace everkernel::telemetry {
namespace {

constexpr std::uint32_t kPpm = 1'000'000;
constexpr std::uint32_t kBps = 10'000;

std::uint64_t sum(std::span<const Word> counts) {
  std::uint64_t total = 0;
  for (const Word count : counts) total += count;
  return total;
}

Word skew(std::span<const Word> counts) {
  Word least = ~Word{0};
  Word most = 0;
  for (const Word count : counts) {
    if (count == 0) continue;
    least = std::min(least, count);
    most = std::max(most, count);
  }
  return most == 0 ? 0 : most - least;
}

Word saturating_sum(std::initializer_list<Word> counts) {
  Word total = 0;
  for (const Word count : counts) total = saturating_add(total, count);
  return total;
}

}  // namespace

bool WindowTelemetry::is_active() const {
  return published > 0 || claimed > 0 || wait_io > 0 || yield_count > 0 || requeue > 0;
}

Word RingOccupancy::total_slots() const {
  return saturating_sum({empty, done, queue_depth()});
}

Word RingOccupancy::queue_depth() const {
  return saturating_sum({published, claimed, wait_io, yield_count, requeue, fault, unknown});
}

RuntimeCounters RingTelemetry::counters() const {
  const Word total = occupancy.total_slots();
  const Word depth = occupancy.queue_depth();
  return {
      .total_slots = total,
      .queue_depth = depth,
      .gpu_idle_slots = occupancy.empty,
      .gpu_idle_ppm = scaled_ratio(occupancy.empty, total, kPpm),
      .frontier_density_bps = static_cast<std::uint16_t>(scaled_ratio(depth, total, kBps)),
      .occupancy_proxy_bps =
          static_cast<std::uint16_t>(scaled_ratio(total - occupancy.empty, total, kBps)),
      .drained_slots = control.done_count,
      .unreclaimed_done_slots = occupancy.done,
      .tenant_fairness_total = sum(control.tenant_fairness),
      .tenant_fairness_skew = skew(control.tenant_fairness),
      .priority_fairness_total = sum(control.priority_fairness),
      .requeue_slots = occupancy.requeue,
      .fault_slots = occupancy.fault,
  };
}

WatchdogSnapshot RingTelemetry::watchdog(Word previous_done_count) const {
  const Word done_delta = control.done_count - previous_done_count;  // modulo 2^32 by design
  const Word depth = occupancy.queue_depth();
  return {
      .done_delta = done_delta,
      .queue_depth = depth,
      .fault_slots = occupancy.fault,
      .requeue_slots = occupancy.requeue,
      .gpu_idle_ppm = scaled_ratio(occupancy.empty, occupancy.total_slots(), kPpm),
      .suspected_stall = depth > 0 && done_delta == 0 && runnable_slots > 0,
      .blocked_slots = blocked_slots,
      .blocked_tenants = blocked_tenants,
      .all_blocked = done_delta == 0 && blocked_slots > 0 && movable_slots == 0,
  };
}

}  // namespace everkernel::telemetry
