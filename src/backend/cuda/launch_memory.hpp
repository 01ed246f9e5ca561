// Memory that the launches of one kernel use, for as many submissions as a launch has.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "backend/cuda/submission_memory.hpp"

namespace everkernel::backend::cuda {

// Holds a SubmissionMemory and an outcome for each submission, and the rows of launches that have
// several. It grows with the largest launch.
class LaunchMemory {
 public:
  LaunchMemory(std::shared_ptr<Context> context, Word slot_count, Word partition_count)
      : context_(std::move(context)), slot_count_(slot_count), partition_count_(partition_count) {}

  // Allocates for that many submissions. Fails with `out_of_memory` and `device_lost`.
  Result<void> prepare(std::size_t submission_count);

  SubmissionMemory& submission(std::size_t index) { return submissions_[index]; }
  // The outcome of a submission, in memory of the host. The device writes it before a launch ends.
  const device::LaunchResult& result(std::size_t index) const {
    return reinterpret_cast<const device::LaunchResult*>(results_->data())[index];
  }
  // The address of the same outcome on the device.
  device::LaunchResult* result_address(std::size_t index) const {
    return reinterpret_cast<device::LaunchResult*>(results_->device_pointer()) + index;
  }
  // Copies the rows with these indices to the device, in this order, and returns their address
  // there. The copy is done before later work of the stream begins.
  Result<const device::Submission*> upload_rows(std::span<const device::Submission> rows,
                                                std::span<const std::size_t> indices,
                                                CuStream stream);

 private:
  std::shared_ptr<Context> context_;
  Word slot_count_;
  Word partition_count_;
  std::vector<SubmissionMemory> submissions_;
  std::optional<PinnedMemory> results_;
  std::optional<PinnedMemory> staged_rows_;
  std::unique_ptr<Memory> device_rows_;
};

}  // namespace everkernel::backend::cuda
