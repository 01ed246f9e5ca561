// Device memory that the crews of one submission share.
#pragma once

#include <array>
#include <memory>
#include <span>

#include "backend/cuda/context.hpp"
#include "backend/cuda/cuda_memory.hpp"
#include "backend/cuda/launch_rows.hpp"

namespace everkernel::backend::cuda {

// Counters, the queue of slots that must run again, and hits. A kernel keeps one for each
// submission of a launch, and uses it again in the next launch.
class SubmissionMemory {
 public:
  // Allocates for a ring of `slot_count` slots. Fails with `out_of_memory` and `device_lost`.
  static Result<SubmissionMemory> create(const std::shared_ptr<Context>& context, Word slot_count,
                                         Word partition_count);

  // Allocates for `capacity` hits and clears their count.
  Result<void> provide_hits(std::size_t capacity, CuStream stream);
  // Sets the pointers of a row for the next launch, which drains the ring. If `last_outcome` is
  // given, the launch drains instead the queue that the launch with this outcome left.
  Result<void> fill(device::Submission& row, const device::LaunchResult* last_outcome);
  // Prepares for the launch after the one with this outcome. Call it after every launch.
  Result<void> advance(const device::LaunchResult& outcome);
  // Copies the first hits to the host.
  Result<void> read_hits(std::span<abi::Hit> hits) const;

 private:
  explicit SubmissionMemory(std::shared_ptr<Context> context) : context_(std::move(context)) {}
  Result<std::unique_ptr<Memory>> allocate(std::size_t bytes) const;

  std::shared_ptr<Context> context_;
  // Two device::Shared, used in turn: each launch clears the one that the next launch uses.
  std::unique_ptr<Memory> shared_;
  // The cells of the queue that a launch fills, and of the queue that it drains. The second is
  // allocated when a launch first drains a queue.
  std::array<std::unique_ptr<Memory>, 2> cells_;
  std::unique_ptr<Memory> notes_;    // a word for each slot
  std::unique_ptr<Memory> hits_;     // null until a launch has hits
  std::unique_ptr<Memory> emitted_;  // the count of hits
  std::size_t hit_capacity_ = 0;
  std::size_t cell_bytes_ = 0;
  Word cell_mask_ = 0;
  Word tag_base_ = 0;
  unsigned launch_count_ = 0;
  unsigned filled_queue_ = 0;  // index in cells_ of the queue that the launch fills
};

}  // namespace everkernel::backend::cuda
