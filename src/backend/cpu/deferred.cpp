// Queues of slots to visit again.
#include "backend/cpu/deferred.hpp"

#include <algorithm>
#include <bit>
#include <mutex>

#include "base/spin.hpp"

namespace everkernel::backend::cpu {
namespace {

constexpr std::size_t kFirstPlaces = 16;

}  // namespace

void DeferredFifo::reserve(std::size_t count) {
  if (count <= places_.size()) return;
  std::vector<Deferred> grown(std::bit_ceil(std::max(count, kFirstPlaces)));
  for (std::size_t i = 0; i < count_; ++i) grown[i] = places_[(head_ + i) % places_.size()];
  places_.swap(grown);
  head_ = 0;
}

void DeferredFifo::push(const Deferred& entry) {
  // Words of the ring that another process changed can defer a slot twice, so there may be no room.
  reserve(count_ + 1);
  places_[(head_ + count_) & (places_.size() - 1)] = entry;
  ++count_;
}

Deferred DeferredFifo::pop() {
  const Deferred first = places_[head_];
  head_ = (head_ + 1) & (places_.size() - 1);
  --count_;
  return first;
}

void DeferredList::reserve(Word partition, std::size_t count) {
  const std::scoped_lock held(lock_);
  queues_[partition].reserve(count);
}

void DeferredList::push(const Deferred& entry) {
  const std::scoped_lock held(lock_);
  queues_[entry.partition].push(entry);
  sizes_[entry.partition].store(queues_[entry.partition].size(), std::memory_order_relaxed);
  total_.store(total_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

bool DeferredList::pop(Word partition, Deferred& entry) {
  const std::scoped_lock held(lock_);
  if (queues_[partition].size() == 0) return false;
  entry = queues_[partition].pop();
  sizes_[partition].store(queues_[partition].size(), std::memory_order_relaxed);
  total_.store(total_.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
  return true;
}

void DeferredList::clear() {
  const std::scoped_lock held(lock_);
  for (DeferredFifo& queue : queues_) queue.clear();
  for (auto& size : sizes_) size.store(0, std::memory_order_relaxed);
  total_.store(0, std::memory_order_relaxed);
}

}  // namespace everkernel::backend::cpu
