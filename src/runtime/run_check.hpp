// Checks the options of a run before anything is planned.
#pragma once

#include <cstddef>

#include "everkernel/runtime/run.hpp"
#include "runtime/state.hpp"

namespace everkernel {

/// Fails with `invalid_argument` for an option that is out of range or does not fit the megakernel,
/// and with `unsupported` for an option that the backend does not support. The planner checks the
/// items.
Result<void> check_run(const Megakernel::State& state, std::size_t item_count,
                       const RunOptions& options);

}  // namespace everkernel
