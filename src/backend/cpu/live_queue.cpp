// The table of waiting items.
#include "backend/cpu/live_queue.hpp"

#include <algorithm>
#include <mutex>

namespace everkernel::backend::cpu {
namespace {

// Most items of a queue that wait at one time.
constexpr std::size_t kMostWaiting = 1024;

}  // namespace

bool WaitingTable::promise() {
  if (promised_.fetch_add(1, std::memory_order_relaxed) < room_count_) return true;
  release();
  return false;
}

void WaitingTable::push(const WaitingItem& item) {
  const std::scoped_lock held(lock_);
  const std::size_t count = count_.load(std::memory_order_relaxed);
  rooms_[(first_ + count) % room_count_] = item;
  count_.store(count + 1, std::memory_order_relaxed);
}

bool WaitingTable::pop(WaitingItem& item) {
  if (size() == 0) return false;
  const std::scoped_lock held(lock_);
  const std::size_t count = count_.load(std::memory_order_relaxed);
  if (count == 0) return false;
  item = rooms_[first_];
  first_ = (first_ + 1) % room_count_;
  count_.store(count - 1, std::memory_order_relaxed);
  return true;
}

void WaitingTable::copy_to(std::vector<LiveItem>& items) const {
  const std::scoped_lock held(lock_);
  const std::size_t count = count_.load(std::memory_order_relaxed);
  for (std::size_t i = 0; i < count; ++i) {
    const WaitingItem& item = rooms_[(first_ + i) % room_count_];
    items.push_back({.ticket = item.ticket, .slot = item.slot});
  }
}

// After a lost kernel, up to a whole lap may have to run again.
CpuQueue::CpuQueue(std::shared_ptr<LiveQueue> shared)
    : live(std::move(shared)),
      capacity(live->words.capacity()),
      waiting(std::min<std::size_t>(
          live->words.capacity(),
          std::max<std::size_t>(kMostWaiting,
                                static_cast<std::size_t>(live->head - live->floor)))) {
  const LongWord end = live->head.load(std::memory_order_acquire);
  for (LongWord ticket = live->raise_floor(); ticket < end; ++ticket) {
    if (live->words.has_ended(ticket)) continue;
    WaitingItem item{};
    item.ticket = ticket;
    item.slot.status = abi::SlotStatus::published;  // it begins anew, from its entry
    item.taken_at = steady_now();
    static_cast<void>(waiting.promise());
    waiting.push(item);
  }
}

}  // namespace everkernel::backend::cpu
