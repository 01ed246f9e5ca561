// Device memory for the orders of a live kernel (live_rows.hpp).
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "backend/cuda/cuda_memory.hpp"
#include "backend/cuda/live_rows.hpp"

namespace everkernel::backend::cuda {

class OrderPlaces;

// A place where orders lie. Free again when it is destroyed.
class OrderPlace {
 public:
  OrderPlace() = default;
  OrderPlace(OrderPlace&&) noexcept = default;
  OrderPlace& operator=(OrderPlace&& other) noexcept;
  ~OrderPlace() { release(); }

  // Where the device finds the orders.
  device::Wide address() const { return address_; }
  // Begin to copy orders there, and their address to a word of the device. Work that is queued in
  // the copy stream behind them finds both. Fail as Memory::write does.
  Result<void> write(std::span<const std::byte> orders) const;
  Result<void> store_address(CuPointer word) const;

 private:
  friend class OrderPlaces;
  void release();

  std::shared_ptr<OrderPlaces> places_;  // null: none, or the place has memory of its own
  std::unique_ptr<Memory> memory_;
  std::shared_ptr<const Context> context_;  // of memory of its own
  unsigned index_ = 0;
  device::Wide address_ = 0;
};

// Places for orders in one block, which is there before the kernel is launched: giving orders
// allocates nothing. Each place has a twin in pinned memory, which holds the same orders: giving
// them waits for no copy. Not thread-safe.
class OrderPlaces : public std::enable_shared_from_this<OrderPlaces> {
 public:
  // Fails as CudaMemory::create does.
  static Result<std::shared_ptr<OrderPlaces>> create(const std::shared_ptr<Context>& context);
  // Waits for the copies that were begun: they read the twins.
  ~OrderPlaces();

  // A place for orders of that size. If every place is in use, because a crew has run one item
  // while many orders were given, or if the size is unusual, it has memory of its own. Fails as
  // CudaMemory::create does.
  Result<OrderPlace> take(std::size_t size_bytes);

 private:
  friend class OrderPlace;
  OrderPlaces(std::shared_ptr<Context> context, std::unique_ptr<Memory> block, PinnedMemory twins);
  Result<void> copy(CuPointer target, std::size_t twin_offset, std::size_t size_bytes) const;

  std::shared_ptr<Context> context_;
  std::unique_ptr<Memory> block_;
  PinnedMemory twins_;        // of the places, and behind them their addresses
  std::uint64_t in_use_ = 0;  // a bit for each place
};

}  // namespace everkernel::backend::cuda
