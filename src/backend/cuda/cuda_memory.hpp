// Device memory of a context.
#pragma once

#include <memory>
#include <optional>

#include "backend/cuda/context.hpp"

namespace everkernel::backend::cuda {

// Words on the device. Freed memory stays in the driver's pool, so that an allocation of the same
// size costs only the fill with zeros.
class CudaMemory final : public Memory {
 public:
  // Allocates zeroed memory. Fails with `invalid_argument`, `out_of_memory` and `device_lost`, and
  // with `timeout` if a kernel occupies the whole device, so that the fill cannot run.
  static Result<std::unique_ptr<Memory>> create(std::shared_ptr<const Context> context,
                                                std::size_t size_bytes);
  CudaMemory(const CudaMemory&) = delete;
  CudaMemory& operator=(const CudaMemory&) = delete;
  ~CudaMemory() override;

  std::size_t size_bytes() const override { return size_bytes_; }
  Word* device_address() const override;
  Result<void> write(std::size_t offset_bytes, std::span<const std::byte> bytes) override;
  Result<void> read(std::size_t offset_bytes, std::span<std::byte> bytes) const override;

 private:
  CudaMemory(std::shared_ptr<const Context> context, CuPointer pointer, std::size_t size_bytes);
  Result<void> check(std::size_t offset_bytes, std::size_t count) const;

  std::shared_ptr<const Context> context_;
  CuPointer pointer_;
  std::size_t size_bytes_;
};

// Allocates unless `memory` has that many bytes already. The old contents are lost.
Result<void> provide(const std::shared_ptr<Context>& context, std::size_t size_bytes,
                     std::unique_ptr<Memory>& memory);
Result<void> provide(const std::shared_ptr<Context>& context, std::size_t size_bytes,
                     std::optional<PinnedMemory>& memory);

// Device memory as an array of T, for kernels.
template <class T>
T* pointer_to(const Memory& memory, std::size_t index = 0) {
  return reinterpret_cast<T*>(memory.device_address()) + index;
}

// The address as the driver's functions take it.
inline CuPointer driver_address(const Memory& memory) {
  return reinterpret_cast<CuPointer>(memory.device_address());
}

}  // namespace everkernel::backend::cuda
