// Counts the active slots of a ring on the device.
#pragma once

#include <memory>

#include "backend/cuda/context.hpp"
#include "backend/cuda/cuda_memory.hpp"
#include "backend/cuda/launch_rows.hpp"
#include "backend/cuda/module.hpp"

namespace everkernel::backend::cuda {

// Needed where a drain cannot count the slots that are left itself: at a deadline, for example.
class RingSurvey {
 public:
  // Takes the kernel from the module. Fails with `out_of_memory` and `device_lost`.
  static Result<RingSurvey> create(std::shared_ptr<Context> context, const Module& module);

  // Surveys the ring of a row whose drain had this outcome, and counts the launch in `stats`.
  Result<device::SurveyResult> run(const device::Submission& row,
                                   const device::LaunchResult& outcome, CuStream stream,
                                   LaunchStats& stats);

 private:
  RingSurvey(std::shared_ptr<Context> context, CuFunction kernel, std::unique_ptr<Memory> result)
      : context_(std::move(context)), kernel_(kernel), result_(std::move(result)) {}

  std::shared_ptr<Context> context_;
  CuFunction kernel_;
  std::unique_ptr<Memory> result_;
};

}  // namespace everkernel::backend::cuda
