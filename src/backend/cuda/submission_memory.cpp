// Allocates the memory of a submission, and says which part of it the next launch uses.
#include "backend/cuda/submission_memory.hpp"

#include <algorithm>
#include <bit>

namespace everkernel::backend::cuda {
namespace {

using device::LaunchResult;
using device::Shared;
using device::Submission;
using device::Wide;

// Cells of a queue carry a tag that grows with every lap, so that a launch need not clear them.
// Above this tag base new zeroed cells are allocated, before tags wrap and equal old ones.
constexpr Word kLastTagBase = Word{1} << 30;

}  // namespace

Result<SubmissionMemory> SubmissionMemory::create(const std::shared_ptr<Context>& context,
                                                  Word slot_count, Word partition_count) {
  SubmissionMemory memory(context);
  const Word cells = std::bit_ceil(slot_count);
  memory.cell_mask_ = cells - 1;
  memory.cell_bytes_ = std::size_t{cells} * partition_count * sizeof(Wide);
  memory.shared_ = EVERKERNEL_TRY(memory.allocate(2 * sizeof(Shared)));
  memory.cells_[0] = EVERKERNEL_TRY(memory.allocate(memory.cell_bytes_));
  memory.notes_ = EVERKERNEL_TRY(memory.allocate(std::size_t{slot_count} * abi::kWordBytes));
  memory.emitted_ = EVERKERNEL_TRY(memory.allocate(sizeof(Wide)));
  return memory;
}

Result<std::unique_ptr<Memory>> SubmissionMemory::allocate(std::size_t bytes) const {
  return CudaMemory::create(context_, bytes);
}

Result<void> SubmissionMemory::provide_hits(std::size_t capacity, CuStream stream) {
  hit_capacity_ = capacity;
  if (capacity == 0) return {};
  EVERKERNEL_TRY(provide(context_, capacity * sizeof(abi::Hit), hits_));
  return context_->check(
      context_->driver().cuMemsetD32Async(driver_address(*emitted_), 0, 2, stream),
      "clearing the count of hits");
}

Result<void> SubmissionMemory::fill(Submission& row, const LaunchResult* last_outcome) {
  row.shared = pointer_to<Shared>(*shared_, launch_count_ % 2);
  row.next_shared = pointer_to<Shared>(*shared_, (launch_count_ + 1) % 2);
  row.list = nullptr;
  if (last_outcome != nullptr) {
    row.list = pointer_to<Wide>(*cells_[filled_queue_]);
    std::ranges::copy(last_outcome->head, row.list_begin);
    std::ranges::copy(last_outcome->tail, row.list_end);
    filled_queue_ = 1 - filled_queue_;
    EVERKERNEL_TRY(provide(context_, cell_bytes_, cells_[filled_queue_]));
  }
  row.cells = pointer_to<Wide>(*cells_[filled_queue_]);
  row.notes = notes_->device_address();
  row.hits = hit_capacity_ == 0 ? nullptr : pointer_to<abi::Hit>(*hits_);
  row.hit_capacity = hit_capacity_;
  row.emitted = hit_capacity_ == 0 ? nullptr : pointer_to<Wide>(*emitted_);
  row.cell_mask = cell_mask_;
  row.tag_base = tag_base_;
  return {};
}

Result<void> SubmissionMemory::advance(const LaunchResult& outcome) {
  ++launch_count_;
  tag_base_ += 2 * outcome.laps;
  if (tag_base_ <= kLastTagBase) return {};
  tag_base_ = 0;
  for (auto& cells : cells_) {
    if (cells != nullptr) cells = EVERKERNEL_TRY(allocate(cell_bytes_));
  }
  return {};
}

Result<void> SubmissionMemory::read_hits(std::span<abi::Hit> hits) const {
  if (hits.empty()) return {};
  return hits_->read(0, std::as_writable_bytes(hits));
}

}  // namespace everkernel::backend::cuda
