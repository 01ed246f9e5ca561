// The counters of the workers of a live kernel.
#pragma once

#include <array>
#include <cstdint>

#include "everkernel/abi/control.hpp"

namespace everkernel::backend {

using abi::Word;

/// Items of one opcode that reached DONE.
struct OpcodeTotal {
  Word opcode = 0;         ///< built in, or a handler's
  std::uint64_t done = 0;  ///< how many; also operations inside packed slots
};

/// Totals of a live kernel, 64 bits wide.
struct LiveCounters {
  std::uint64_t done = 0;     ///< items that reached DONE
  std::uint64_t faulted = 0;  ///< items that reached FAULT
  std::array<std::uint64_t, abi::kControlTenantFairness.count> tenant_claims =
      {};                                                                 ///< claims by tenant
  std::array<std::uint64_t, abi::kPriorityCount> priority_claims = {};    ///< claims by priority
  std::array<std::uint64_t, abi::kControlMetrics.count> executions = {};  ///< by opcode below 32
  std::uint64_t sleeps = 0;          ///< times a worker went to sleep
  std::uint64_t busy_ns = 0;         ///< of planned work: time workers had something to run
  std::uint64_t requeues = 0;        ///< of planned work: times an item asked to run again later
  std::uint64_t barrier_ns = 0;      ///< of planned work: time in which an item ran alone
  std::uint64_t hits_dropped = 0;    ///< of a session: emits, which have no place to go
  std::uint64_t launches = 0;        ///< native submissions, 0 where none are made
  std::uint64_t bytes_uploaded = 0;  ///< of planned work: copied to a device of its own
};

}  // namespace everkernel::backend
