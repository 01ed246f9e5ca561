// Allocates and copies on the context's copy stream.
#include "backend/cuda/cuda_memory.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace everkernel::backend::cuda {

CudaMemory::CudaMemory(std::shared_ptr<const Context> context, CuPointer pointer,
                       std::size_t size_bytes)
    : context_(std::move(context)), pointer_(pointer), size_bytes_(size_bytes) {}

CudaMemory::~CudaMemory() {
  const auto current = context_->enter();
  if (!current) return;
  const Driver& driver = context_->driver();
  if (context_->facts().has_memory_pools) {
    driver.cuMemFreeAsync(pointer_, context_->copy_stream());
  } else {
    driver.cuMemFree(pointer_);
  }
}

Word* CudaMemory::device_address() const {
  return reinterpret_cast<Word*>(pointer_);
}

Result<std::unique_ptr<Memory>> CudaMemory::create(std::shared_ptr<const Context> context,
                                                   std::size_t size_bytes) {
  if (size_bytes % abi::kWordBytes != 0) {
    return fail(Code::invalid_argument,
                fmt::format("memory: {} bytes are not whole words", size_bytes));
  }
  const Current current = EVERKERNEL_TRY(context->enter());
  const Driver& driver = context->driver();
  const CuStream stream = context->copy_stream();
  // The driver refuses allocations of 0 bytes, but kernels need an address for empty memory too.
  const std::size_t held_bytes = std::max<std::size_t>(size_bytes, abi::kSlotBytes);
  CuPointer pointer = 0;
  const CuResult result = context->facts().has_memory_pools
                              ? driver.cuMemAllocAsync(&pointer, held_bytes, stream)
                              : driver.cuMemAlloc(&pointer, held_bytes);
  EVERKERNEL_TRY(context->check(result, fmt::format("allocating {} bytes", size_bytes)));
  std::unique_ptr<Memory> memory(new CudaMemory(context, pointer, size_bytes));
  EVERKERNEL_TRY(
      context->check(driver.cuMemsetD32Async(pointer, 0, held_bytes / abi::kWordBytes, stream),
                     "cuMemsetD32Async"));
  // Other streams may use the memory as soon as this call returns.
  EVERKERNEL_TRY(context->wait(stream, context->copy_deadline(), "setting memory to zero"));
  return memory;
}

Result<void> CudaMemory::write(std::size_t offset_bytes, std::span<const std::byte> bytes) {
  EVERKERNEL_TRY(check(offset_bytes, bytes.size()));
  const Current current = EVERKERNEL_TRY(context_->enter());
  return context_->staging().write(pointer_ + offset_bytes, bytes);
}

Result<void> CudaMemory::read(std::size_t offset_bytes, std::span<std::byte> bytes) const {
  EVERKERNEL_TRY(check(offset_bytes, bytes.size()));
  const Current current = EVERKERNEL_TRY(context_->enter());
  return context_->staging().read(pointer_ + offset_bytes, bytes);
}

Result<void> CudaMemory::check(std::size_t offset_bytes, std::size_t count) const {
  const bool is_whole = offset_bytes % abi::kWordBytes == 0 && count % abi::kWordBytes == 0;
  if (is_whole && offset_bytes <= size_bytes_ && count <= size_bytes_ - offset_bytes) return {};
  return fail(Code::invalid_argument,
              fmt::format("memory: {} bytes from byte {} are not whole words of its {} bytes",
                          count, offset_bytes, size_bytes_));
}

Result<void> provide(const std::shared_ptr<Context>& context, std::size_t size_bytes,
                     std::unique_ptr<Memory>& memory) {
  if (memory != nullptr && memory->size_bytes() >= size_bytes) return {};
  memory.reset();  // first, so that the new memory may take its place
  memory = EVERKERNEL_TRY(CudaMemory::create(context, size_bytes));
  return {};
}

Result<void> provide(const std::shared_ptr<Context>& context, std::size_t size_bytes,
                     std::optional<PinnedMemory>& memory) {
  if (memory && memory->size_bytes() >= size_bytes) return {};
  memory = EVERKERNEL_TRY(PinnedMemory::create(context, size_bytes));
  return {};
}

}  // namespace everkernel::backend::cuda
