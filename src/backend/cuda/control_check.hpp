// The error for control words that a schedule cannot work with.
#pragma once

#include "backend/cuda/launch_rows.hpp"
#include "everkernel/backend/backend.hpp"

namespace everkernel::backend::cuda {

// Fails with `corrupt` if the launch refused the control words of a submission. No item ran then.
Result<void> check_control_words(const device::LaunchResult& result, Schedule schedule,
                                 Word slot_count);

}  // namespace everkernel::backend::cuda
