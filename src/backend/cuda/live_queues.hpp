// A queue of a session as a device has it: its files, which the driver maps, and what the kernel
// keeps beside them.
#pragma once

#include <memory>

#include "backend/cuda/context.hpp"
#include "backend/cuda/cuda_memory.hpp"
#include "backend/cuda/live_rows.hpp"
#include "everkernel/backend/detail/live.hpp"

namespace everkernel::backend::cuda {

// Pages of the host that the device reads and writes. Unmapping them waits for every kernel of the
// device, so that they stay mapped, and their owner there, while any kernel stays (Context::unmap).
class MappedPages {
 public:
  // Maps the pages from `begin` on, which is on a page. `owner` keeps them. Fails with
  // `out_of_memory` and `unsupported`.
  static Result<MappedPages> map(std::shared_ptr<const Context> context, const void* begin,
                                 std::size_t size_bytes, std::shared_ptr<const void> owner);
  MappedPages(MappedPages&& other) noexcept;
  MappedPages& operator=(MappedPages&& other) noexcept;
  ~MappedPages();

  // Where the device finds the first byte.
  CuPointer device_pointer() const { return device_pointer_; }

 private:
  MappedPages(std::shared_ptr<const Context> context, void* begin, std::size_t size_bytes,
              std::shared_ptr<const void> owner)
      : context_(std::move(context)),
        begin_(begin),
        size_bytes_(size_bytes),
        owner_(std::move(owner)) {}

  std::shared_ptr<const Context> context_;
  void* begin_;
  std::size_t size_bytes_;
  std::shared_ptr<const void> owner_;
  CuPointer device_pointer_ = 0;
};

// The device's part of one queue.
class DeviceQueue {
 public:
  // Tickets below the head of the queue that have not ended wait, and run again. `number` names
  // the queue in seats; it is not 0. Fails as MappedPages::map and CudaMemory::create do.
  static Result<std::unique_ptr<DeviceQueue>> create(const std::shared_ptr<Context>& context,
                                                     std::shared_ptr<LiveQueue> queue, Word number);

  // The row, which orders name.
  device::Wide row() const { return driver_address(*block_); }
  Word number() const { return number_; }
  LiveQueue& live() const { return *queue_; }

  // Moves the head of the queue, as the host sees it, to that of the device, and the floor with it.
  Result<void> note_head();
  // Copies the items that wait.
  Result<void> copy_waiting(std::vector<LiveItem>& items) const;

 private:
  // Offsets in the block, behind the row.
  struct Offsets {
    std::size_t slots, ended, waiting, end;
  };
  static Offsets offsets_of(Word capacity);

  DeviceQueue(std::shared_ptr<LiveQueue> queue, Word number, MappedPages producer_file,
              MappedPages kernel_file, std::unique_ptr<Memory> block);
  Result<void> fill();
  void stage_taken(std::vector<std::byte>& image) const;

  std::shared_ptr<LiveQueue> queue_;
  Word number_;
  Offsets offsets_;
  MappedPages producer_file_;
  MappedPages kernel_file_;
  std::unique_ptr<Memory> block_;
};

}  // namespace everkernel::backend::cuda
