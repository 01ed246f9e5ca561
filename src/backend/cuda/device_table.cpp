// Copies the buffer table when it has changed.
#include "backend/cuda/device_table.hpp"

#include <span>

namespace everkernel::backend::cuda {

Result<void> DeviceTable::update(const memory::BufferTableView& buffers) {
  static_assert(sizeof(memory::BufferEntry) == 24);  // the layout that jit/device/buffers.cuh reads
  const auto entries = std::span(buffers.entries, std::size_t{buffers.mask} + 1);
  revision_ = 0;  // if this copy fails, the next launch copies again
  EVERKERNEL_TRY(provide(context_, entries.size_bytes(), memory_));
  EVERKERNEL_TRY(memory_->write(0, std::as_bytes(entries)));
  mask_ = buffers.mask;
  revision_ = buffers.revision;
  return {};
}

}  // namespace everkernel::backend::cuda
