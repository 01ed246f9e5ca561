// Hands out places for orders.
#include "backend/cuda/live_orders.hpp"

#include <bit>
#include <utility>

namespace everkernel::backend::cuda {
namespace {

constexpr unsigned kPlaces = 64;
// Orders name every queue of a session, of which there are at most 1,024.
constexpr std::size_t kPlaceBytes = sizeof(device::LiveOrders) + 1024 * sizeof(device::Wide);

}  // namespace

OrderPlace& OrderPlace::operator=(OrderPlace&& other) noexcept {
  if (this == &other) return *this;
  release();
  places_ = std::move(other.places_);
  memory_ = std::move(other.memory_);
  index_ = other.index_;
  address_ = other.address_;
  return *this;
}

void OrderPlace::release() {
  if (places_ == nullptr) return;
  places_->in_use_ &= ~(std::uint64_t{1} << index_);
  places_.reset();
}

Result<void> OrderPlace::write(std::span<const std::byte> orders) const {
  if (memory_ != nullptr) return memory_->write(0, orders);
  return places_->block_->write(index_ * kPlaceBytes, orders);
}

Result<std::shared_ptr<OrderPlaces>> OrderPlaces::create(const std::shared_ptr<Context>& context) {
  auto block = EVERKERNEL_TRY(CudaMemory::create(context, kPlaces * kPlaceBytes));
  return std::shared_ptr<OrderPlaces>(new OrderPlaces(context, std::move(block)));
}

Result<OrderPlace> OrderPlaces::take(std::size_t size_bytes) {
  OrderPlace place;
  const auto free = static_cast<unsigned>(std::countr_one(in_use_));
  if (free == kPlaces || size_bytes > kPlaceBytes) {
    place.memory_ = EVERKERNEL_TRY(CudaMemory::create(context_, size_bytes));
    place.address_ = driver_address(*place.memory_);
    return place;
  }
  in_use_ |= std::uint64_t{1} << free;
  place.places_ = shared_from_this();
  place.index_ = free;
  place.address_ = driver_address(*block_) + free * kPlaceBytes;
  return place;
}

}  // namespace everkernel::backend::cuda
