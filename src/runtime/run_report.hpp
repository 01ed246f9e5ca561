// Fills in the report of a run: the plan, the cost of feeding it, and how items ended.
#pragma once

#include <cstdint>
#include <span>

#include "everkernel/backend/backend.hpp"
#include "everkernel/backend/detail/hit_store.hpp"
#include "everkernel/runtime/run.hpp"
#include "planner/plan.hpp"
#include "runtime/run_feed.hpp"

namespace everkernel {

/// Reports the size of the plan.
void report_plan(const planner::Plan& plan, RunReport& report);
/// Reports a handler that is a barrier, and how many items of it run.
void report_barrier(const ir::HandlerTraits& handler, std::uint64_t items, RunReport& report);
/// Reports the decisions of the launch policy.
void report_policy(const planner::LaunchPolicy& policy, RunReport& report);
/// Reports the cost of feeding, and the items that the workers counted.
void report_feed(const FeedStats& stats, Word worker_count, RunReport& report);
/// The code that ran the items of a run.
struct CodeUse {
  std::uint64_t compiled_handlers = 0;  ///< compiled for it
  std::uint64_t compile_ns = 0;         ///< time that compiling or loading code took
  std::uint64_t items_handled = 0;      ///< items that handlers of the program ran to their end
  std::uint64_t items_interpreted = 0;  ///< those of them that the interpreter ran
};
/// Reports which code ran the items; before report_outcomes().
void report_code(const CodeUse& use, RunReport& report);
/// Gives every dropped item the outcome of the equal item that ran, then counts remaining and
/// faulted items.
void report_outcomes(const planner::PlanRequest& request, const planner::Plan& plan,
                     RunReport& report);
/// Reports the hits of a run and the records of its printf.
void report_hits(backend::HitStore& hits, backend::HitStore& prints, RunReport& report);
/// Reports the bytes read back, from the outcomes and hits that are in the report.
void report_readback(RunReport& report);
/// Reports which opcodes contributed to each region.
void report_lineage(const planner::PlanRequest& request, const planner::Plan& plan,
                    const backend::KernelOptions& kernel, RunReport& report);

}  // namespace everkernel
