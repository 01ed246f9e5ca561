// The survey kernel: counts the active slots of a large ring after a drain was stopped.
#pragma once

#include "backend/cuda/launch_rows.hpp"
#include "everkernel/abi/slot.hpp"
#include "jit/device/types.hpp"
#include "jit/device/words.cuh"

namespace everkernel::device {

using abi::SlotStatus;

/// Counts the active slots, and finds the first ticket that is active.
extern "C" __global__ void everkernel_survey(const __grid_constant__ SurveyParams params) {
  const Words result(&params.result->active, 2);
  for (Word slot = blockIdx.x * blockDim.x + threadIdx.x; slot < params.slot_count;
       slot += gridDim.x * blockDim.x) {
    const Words words(params.ring + Wide{slot} * abi::kSlotWords, abi::kSlotWords);
    if (!abi::is_active(SlotStatus{words.load_relaxed(0)})) continue;
    result.add_relaxed(0, 1);
    const Word behind = params.slot_count - params.first_ticket % params.slot_count;
    const Word position = (slot + behind) % params.slot_count;
    if (position < params.ticket_count) result.lower_relaxed(1, position);
  }
}

}  // namespace everkernel::device
