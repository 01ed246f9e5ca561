// The buffer table of the host, copied to the device.
#pragma once

#include <memory>

#include "backend/cuda/context.hpp"
#include "backend/cuda/cuda_memory.hpp"
#include "everkernel/memory/buffer_table.hpp"

namespace everkernel::backend::cuda {

// The copy that handlers look handles up in. Empty until the first update.
class DeviceTable {
 public:
  explicit DeviceTable(std::shared_ptr<Context> context) : context_(std::move(context)) {}

  // Whether update() would copy.
  bool is_outdated(const memory::BufferTableView& buffers) const {
    return buffers.entries != nullptr && buffers.revision != revision_;
  }
  // Copies the table. Fails as Memory::write does.
  Result<void> update(const memory::BufferTableView& buffers);

  // The entries on the device, null if the table is empty.
  const void* entries() const { return memory_ == nullptr ? nullptr : memory_->device_address(); }
  // The number of entries minus one.
  Word mask() const { return mask_; }

 private:
  std::shared_ptr<Context> context_;
  std::unique_ptr<Memory> memory_;
  Word revision_ = 0;  // of the table that was copied; tables count from 1
  Word mask_ = 0;
};

}  // namespace everkernel::backend::cuda
