// Fills in the report of a run: the plan, the cost of feeding the ring, and how items ended.
#pragma once

#include <cstdint>
#include <span>

#include "everkernel/backend/backend.hpp"
#include "everkernel/runtime/run.hpp"
#include "planner/plan.hpp"
#include "runtime/run_feed.hpp"

namespace everkernel {

/// Reports the size of the plan.
void report_plan(const planner::Plan& plan, RunReport& report);
/// Reports the decisions of the launch policy.
void report_policy(const planner::LaunchPolicy& policy, RunReport& report);
/// Reports the cost of feeding the ring, and the items that the workers counted.
void report_feed(const FeedStats& stats, Word worker_count, RunReport& report);
/// Gives every dropped item the outcome of the equal item that ran, then counts remaining and
/// faulted items.
void report_outcomes(const planner::PlanRequest& request, const planner::Plan& plan,
                     RunReport& report);
/// Reports the hits in the order of their items; `emitted` of them were made, and those beyond
/// `kept` found no room.
void report_hits(std::span<const abi::Hit> kept, std::uint64_t emitted, RunReport& report);
/// Reports the bytes read back, from the outcomes and hits that are in the report.
void report_readback(RunReport& report);
/// Reports which opcodes contributed to each region.
void report_lineage(const planner::PlanRequest& request, const planner::Plan& plan,
                    const backend::KernelOptions& kernel, RunReport& report);

}  // namespace everkernel
