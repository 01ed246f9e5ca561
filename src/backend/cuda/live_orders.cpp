// Hands out places for orders.
#include "backend/cuda/live_orders.hpp"

#include <bit>
#include <cstring>
#include <utility>

namespace everkernel::backend::cuda {
namespace {

constexpr unsigned kPlaces = 64;
// Orders name every queue of a session, of which there are at most 1,024, and may have a limit for
// each.
constexpr std::size_t kPlaceBytes = sizeof(device::LiveOrders) + 2 * 1024 * sizeof(device::Wide);
// Where the addresses of the places lie behind their twins.
constexpr std::size_t kAddresses = kPlaces * kPlaceBytes;

}  // namespace

OrderPlace& OrderPlace::operator=(OrderPlace&& other) noexcept {
  if (this == &other) return *this;
  release();
  places_ = std::move(other.places_);
  memory_ = std::move(other.memory_);
  context_ = std::move(other.context_);
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
  const std::size_t offset = index_ * kPlaceBytes;
  std::memcpy(places_->twins_.data() + offset, orders.data(), orders.size());
  return places_->copy(address_, offset, orders.size());
}

Result<void> OrderPlace::store_address(CuPointer word) const {
  if (places_ != nullptr) {
    return places_->copy(word, kAddresses + index_ * sizeof address_, sizeof address_);
  }
  const Current current = EVERKERNEL_TRY(context_->enter());
  return context_->staging().write(word, std::as_bytes(std::span(&address_, 1)));
}

OrderPlaces::OrderPlaces(std::shared_ptr<Context> context, std::unique_ptr<Memory> block,
                         PinnedMemory twins)
    : context_(std::move(context)), block_(std::move(block)), twins_(std::move(twins)) {
  for (unsigned i = 0; i < kPlaces; ++i) {
    const device::Wide address = driver_address(*block_) + i * kPlaceBytes;
    std::memcpy(twins_.data() + kAddresses + i * sizeof address, &address, sizeof address);
  }
}

OrderPlaces::~OrderPlaces() {
  const auto current = context_->enter();
  if (!current) return;
  static_cast<void>(
      context_->wait(context_->copy_stream(), context_->copy_deadline(), "giving orders"));
}

Result<std::shared_ptr<OrderPlaces>> OrderPlaces::create(const std::shared_ptr<Context>& context) {
  auto block = EVERKERNEL_TRY(CudaMemory::create(context, kPlaces * kPlaceBytes));
  auto twins =
      EVERKERNEL_TRY(PinnedMemory::create(context, kAddresses + kPlaces * sizeof(device::Wide)));
  return std::shared_ptr<OrderPlaces>(new OrderPlaces(context, std::move(block), std::move(twins)));
}

Result<void> OrderPlaces::copy(CuPointer target, std::size_t twin_offset,
                               std::size_t size_bytes) const {
  const Current current = EVERKERNEL_TRY(context_->enter());
  return context_->check(context_->driver().cuMemcpyHtoDAsync(target, twins_.data() + twin_offset,
                                                              size_bytes, context_->copy_stream()),
                         "copying orders to the device");
}

Result<OrderPlace> OrderPlaces::take(std::size_t size_bytes) {
  OrderPlace place;
  const auto free = static_cast<unsigned>(std::countr_one(in_use_));
  if (free == kPlaces || size_bytes > kPlaceBytes) {
    place.memory_ = EVERKERNEL_TRY(CudaMemory::create(context_, size_bytes));
    place.context_ = context_;
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
