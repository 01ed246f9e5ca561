// Finds which items wait for which, and duplicates, in one pass over a checked list.
#pragma once

#include "planner/plan.hpp"

namespace everkernel::planner {

/// Fills nodes, joins, edges, counts and duplicates of `plan`, whose arrays are taken and cleared.
/// `max_handle` is the largest handle of any item. Says whether it ended before the deadline.
bool scan_hazards(const PlanRequest& request, Word max_handle, Plan& plan);
/// Bytes that the scan keeps of one handle.
std::size_t handle_state_bytes();

}  // namespace everkernel::planner
