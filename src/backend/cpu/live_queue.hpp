// A queue as the workers of the CPU backend see it: its record, and its items that wait.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

#include "base/spin.hpp"
#include "everkernel/backend/detail/live.hpp"

namespace everkernel::backend::cpu {

/// An item that was taken and cannot end yet: it yielded, it waits for IO or for a quota, or it is
/// a fence that is not ready. No default values: rooms of the table stay untouched until they are
/// used.
struct WaitingItem {
  abi::Slot slot;         ///< its copy; the status says what it waits for
  LongWord ticket;        ///< which it is
  LongWord checked;       ///< of a fence: tickets below this one are known to have ended
  bool needs_io_slot;     ///< it asked for IO when no IO slot was free
  std::int64_t taken_at;  ///< of a timed ticket, on the steady clock
};

/// The waiting items of one queue, first in, first out. Its size is fixed when the queue is opened,
/// so that no worker allocates. One lock is held for a few instructions: these items are off the
/// fast path.
class WaitingTable {
 public:
  /// Room for that many.
  explicit WaitingTable(std::size_t room_count)
      : room_count_(room_count),
        rooms_(std::make_unique_for_overwrite<WaitingItem[]>(room_count)) {}

  /// Promises a room to an item that is about to be taken; false if there is none.
  bool promise();
  /// Gives a promise back: the item has ended.
  void release() { promised_.fetch_sub(1, std::memory_order_relaxed); }
  /// Adds an item that has a promise.
  void push(const WaitingItem& item);
  /// Takes the item that was added first; says whether there was one.
  bool pop(WaitingItem& item);
  /// Items in it; a hint outside the lock.
  std::size_t size() const { return count_.load(std::memory_order_relaxed); }
  /// Whether any room is promised; a hint.
  bool is_used() const { return promised_.load(std::memory_order_relaxed) != 0; }
  /// Whether a room could be promised; a hint.
  bool has_room() const { return promised_.load(std::memory_order_relaxed) < room_count_; }
  /// Appends copies of all items.
  void copy_to(std::vector<LiveItem>& items) const;

 private:
  const std::size_t room_count_;
  const std::unique_ptr<WaitingItem[]> rooms_;
  mutable SpinLock lock_;
  std::size_t first_ = 0;
  std::atomic<std::size_t> count_{0};
  std::atomic<std::size_t> promised_{0};
};

/// A queue of a CPU kernel.
struct CpuQueue {
  /// Takes over the queue's record. Tickets that were taken and have not ended wait for a worker
  /// that runs them again.
  explicit CpuQueue(std::shared_ptr<LiveQueue> shared);

  const std::shared_ptr<LiveQueue> live;  ///< memory and record
  const LongWord capacity;                ///< of the queue
  WaitingTable waiting;                   ///< items that were taken and wait
  /// The head at which workers leave short items to a host thread, and since when; hints.
  std::atomic<LongWord> left_head{~LongWord{0}};
  std::atomic<std::int64_t> left_since{0};
  /// When items were taken last, to a tenth of a millisecond; kept where there are many queues.
  std::atomic<std::int64_t> taken_at{0};
  /// Items that were taken and have not begun are CANCELLED: the queue is being closed.
  std::atomic<bool> is_closing{false};
};

}  // namespace everkernel::backend::cpu
