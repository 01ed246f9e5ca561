// Slots to visit again: items that yielded, fences that are not ready, items of tenants
// that may not run, items that wait for IO.
//
// One lock guards all queues and is held for a few instructions: these items are off the fast path.
// The lock also orders the changes of one worker against the last round of another, which is how a
// bounded drain finds its end (drain.cpp).
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "backend/cpu/worker.hpp"
#include "base/spin.hpp"
#include "everkernel/abi/slot.hpp"

namespace everkernel::backend::cpu {

/// First in, first out; its storage only grows.
class DeferredFifo {
 public:
  /// Provides room for `count` entries.
  void reserve(std::size_t count);
  /// Entries.
  std::size_t size() const { return count_; }
  /// Adds behind the last.
  void push(const Deferred& entry);
  /// Takes the first; there is one.
  Deferred pop();
  /// Forgets all entries.
  void clear() { head_ = count_ = 0; }

 private:
  std::vector<Deferred> places_;  // a power of two
  std::size_t head_ = 0;
  std::size_t count_ = 0;
};

/// The deferred slots of one ring, by priority.
class DeferredList {
 public:
  /// Provides room for `count` entries of a partition. A slot has at most one entry, so that a
  /// worker that pushes never allocates if there is room for every slot: an allocation that fails
  /// on a worker's thread would end the process.
  void reserve(Word partition, std::size_t count);
  /// Adds a slot to the queue of its partition.
  void push(const Deferred& entry);
  /// Takes the first of a partition; says whether there was one.
  bool pop(Word partition, Deferred& entry);
  /// Entries of a partition; a hint outside the lock.
  std::size_t size(Word partition) const {
    return sizes_[partition].load(std::memory_order_relaxed);
  }
  /// Entries of all partitions; a hint outside the lock.
  std::size_t size() const { return total_.load(std::memory_order_relaxed); }
  /// Forgets everything.
  void clear();

  /// Guards the queues, and other state that must be ordered with them.
  SpinLock& lock() { return lock_; }

 private:
  alignas(64) SpinLock lock_;
  std::array<DeferredFifo, abi::kPriorityCount> queues_;
  std::array<std::atomic<std::size_t>, abi::kPriorityCount> sizes_{};
  std::atomic<std::size_t> total_{0};
};

}  // namespace everkernel::backend::cpu
