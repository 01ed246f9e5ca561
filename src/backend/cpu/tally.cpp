// From a worker's counters to the control words.
#include "backend/cpu/tally.hpp"

#include <thread>

namespace everkernel::backend::cpu {

std::size_t Tally::control_word(std::size_t counter) {
  if (counter == kDone) return abi::kControlDoneCount.first;
  if (counter == kFault) return abi::kControlFaultCount.first;
  if (counter < kFirstPriority) return abi::kControlTenantFairness.first + counter - kFirstTenant;
  if (counter < kFirstMetric) {
    return abi::kControlPriorityFairness.first + counter - kFirstPriority;
  }
  return abi::kControlMetrics.first + counter - kFirstMetric;
}

void Tally::wait_until_counted() const {
  const std::uint64_t announced = ended_.load(std::memory_order_acquire);
  // The worker is between two stores, which takes long only if it is preempted there.
  while (counted_.load(std::memory_order_acquire) < announced) std::this_thread::yield();
}

void Tally::flush(protocol::LiveWords& control) {
  for (std::size_t i = 0; i < kWireCounters; ++i) {
    const std::uint64_t now = value(i);
    const auto fresh = static_cast<Word>(now - flushed_[i]);
    if (fresh == 0) continue;
    control.add_release(control_word(i), fresh);
    flushed_[i] = now;
  }
}

void Tally::add_to(LiveCounters& totals) const {
  totals.done += value(kDone);
  totals.faulted += value(kFault);
  totals.requeues += value(kRequeues);
  totals.barrier_ns += value(kBarrierTime);
  totals.hits_dropped += value(kHitsDropped);
  for (std::size_t i = 0; i < abi::kControlTenantFairness.count; ++i) {
    totals.tenant_claims[i] += value(kFirstTenant + i);
  }
  for (std::size_t i = 0; i < abi::kPriorityCount; ++i) {
    totals.priority_claims[i] += value(kFirstPriority + i);
  }
  for (std::size_t i = 0; i < abi::kControlMetrics.count; ++i) {
    totals.executions[i] += value(kFirstMetric + i);
  }
}

}  // namespace everkernel::backend::cpu
