// Grows the memory of launches, and copies their rows to the device.
#include "backend/cuda/launch_memory.hpp"

namespace everkernel::backend::cuda {

using device::LaunchResult;
using device::Submission;

Result<void> LaunchMemory::prepare(std::size_t submission_count) {
  while (submissions_.size() < submission_count) {
    submissions_.push_back(
        EVERKERNEL_TRY(SubmissionMemory::create(context_, slot_count_, partition_count_)));
  }
  EVERKERNEL_TRY(provide(context_, submission_count * sizeof(LaunchResult), results_));
  if (submission_count == 1) return {};  // the only row is an argument of the kernel
  EVERKERNEL_TRY(provide(context_, submission_count * sizeof(Submission), staged_rows_));
  return provide(context_, submission_count * sizeof(Submission), device_rows_);
}

Result<const Submission*> LaunchMemory::upload_rows(std::span<const Submission> rows,
                                                    std::span<const std::size_t> indices,
                                                    CuStream stream) {
  auto* const staged = reinterpret_cast<Submission*>(staged_rows_->data());
  for (std::size_t i = 0; i < indices.size(); ++i) staged[i] = rows[indices[i]];
  EVERKERNEL_TRY(context_->check(
      context_->driver().cuMemcpyHtoDAsync(driver_address(*device_rows_), staged,
                                           indices.size() * sizeof(Submission), stream),
      "copying the rows of a launch"));
  return pointer_to<const Submission>(*device_rows_);
}

}  // namespace everkernel::backend::cuda
