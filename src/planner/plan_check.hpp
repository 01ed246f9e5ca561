// Checks a list of items before it is planned.
#pragma once

#include "planner/plan.hpp"

namespace everkernel::planner {

/// Facts about a whole list that passed the check.
struct CheckedList {
  Word max_handle = 0;                    ///< the largest handle of any item
  Effects effects = 0;                    ///< of all items together
  bool has_priorities = false;            ///< whether items have different priorities
  std::vector<OpcodeCount> opcodes = {};  ///< of all items
};

/// Fails with `invalid_argument` for an opcode without a handler and for a tenant or priority that
/// is out of range; the message names the item.
Result<CheckedList> check_list(const PlanRequest& request);

}  // namespace everkernel::planner
