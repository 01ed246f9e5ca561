// Counters of one worker, on cache lines of its own, added to the control words at intervals.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "everkernel/abi/control.hpp"
#include "everkernel/backend/live_counters.hpp"
#include "everkernel/protocol/words.hpp"

namespace everkernel::backend::cpu {

/// Counters of one worker. Only that worker changes them, so no addition needs a bus lock; others
/// read. Each stands for one word of the control buffer.
class alignas(64) Tally {
 public:
  /// An item reached DONE.
  void count_done() { bump(kDone); }
  /// An item reached FAULT.
  void count_fault() { bump(kFault); }
  /// An operation below 32 was executed.
  void count_execution(Word opcode) {
    if (opcode < abi::kControlMetrics.count) bump(kFirstMetric + opcode);
  }
  /// Counters of operations without a control word.
  using Others = std::unique_ptr<std::atomic<std::uint64_t>[]>;
  /// That many, zero.
  static Others make_others(Word count) {
    return std::make_unique<std::atomic<std::uint64_t>[]>(count);
  }
  /// Counts such operations from now on in these counters.
  void keep_others(Others others, Word count) {
    others_ = std::move(others);
    other_count_ = count;
  }
  /// Such an operation was executed. A counter that there is no room for is not counted.
  void count_other(Word counter) {
    if (counter >= other_count_) return;
    others_[counter].store(other(counter) + 1, std::memory_order_relaxed);
  }
  /// Executions of such an operation, ever.
  std::uint64_t other(Word counter) const {
    return counter < other_count_ ? others_[counter].load(std::memory_order_relaxed) : 0;
  }
  /// Executions of an operation below 32, ever.
  std::uint64_t executions(Word opcode) const { return value(kFirstMetric + opcode); }
  /// A slot was claimed. A priority outside the format is not counted.
  void count_claim(Word tenant, Word priority) {
    bump(kFirstTenant + tenant);
    if (priority < abi::kPriorityCount) bump(kFirstPriority + priority);
  }
  /// Items that one worker of planned work ran one after the other.
  struct Stretch {
    Word claims = 0;   ///< times one of them was run
    Word done = 0;     ///< that reached DONE
    Word faulted = 0;  ///< that reached FAULT
    Word nops = 0;     ///< of those DONE, with opcode NOP
  };
  /// Counts them, of one tenant and priority.
  void count_run(Word tenant, Word priority, const Stretch& stretch) {
    add(kFirstTenant + tenant, stretch.claims);
    add(kFirstPriority + priority, stretch.claims);
    add(kDone, stretch.done);
    add(kFault, stretch.faulted);
    add(kFirstMetric, stretch.nops);
    ended_.store(ended_.load(std::memory_order_relaxed) + stretch.done + stretch.faulted,
                 std::memory_order_relaxed);
    publish();
  }
  /// Counts items whose ends were announced, of one tenant and priority.
  void count_batch(Word tenant, Word priority, const Stretch& stretch) {
    if (stretch.claims != 0) {
      add(kFirstTenant + tenant, stretch.claims);
      add(kFirstPriority + priority, stretch.claims);
    }
    if (stretch.done != 0) add(kDone, stretch.done);
    if (stretch.faulted != 0) add(kFault, stretch.faulted);
    if (stretch.nops != 0) add(kFirstMetric, stretch.nops);
    publish();
  }
  /// A handler asked to run again later.
  void count_requeue() { bump(kRequeues); }
  /// An item that runs alone took this long.
  void add_barrier_time(std::uint64_t time_ns) { add(kBarrierTime, time_ns); }
  /// An emit found no hit buffer.
  void count_hit_dropped() { bump(kHitsDropped); }

  /// Announces that an item is about to be stored as ended. A thread that sees that store also sees
  /// the announcement, and can wait until the item is counted.
  void announce_end() {
    ended_.store(ended_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  /// As announce_end(), of several items.
  void announce_ends(Word count) {
    ended_.store(ended_.load(std::memory_order_relaxed) + count, std::memory_order_relaxed);
  }
  /// States that all announced items are counted.
  void publish() {
    counted_.store(ended_.load(std::memory_order_relaxed), std::memory_order_release);
  }
  /// Waits until all items announced so far are counted; usually that takes nanoseconds.
  void wait_until_counted() const;

  /// Adds the counts since the last call to the control words. One thread at a time.
  void flush(protocol::LiveWords& control);
  /// Adds its totals to `totals`.
  void add_to(LiveCounters& totals) const;

  /// Items that reached DONE, ever.
  std::uint64_t done() const { return value(kDone); }
  /// Items that reached FAULT, ever.
  std::uint64_t faulted() const { return value(kFault); }
  /// Hits without a place, ever.
  std::uint64_t hits_dropped() const { return value(kHitsDropped); }
  /// Items that ended, ever.
  std::uint64_t ended() const { return ended_.load(std::memory_order_relaxed); }

 private:
  static constexpr std::size_t kDone = 0;
  static constexpr std::size_t kFault = 1;
  static constexpr std::size_t kFirstTenant = 2;
  static constexpr std::size_t kFirstPriority = kFirstTenant + abi::kControlTenantFairness.count;
  static constexpr std::size_t kFirstMetric = kFirstPriority + abi::kPriorityCount;
  static constexpr std::size_t kWireCounters = kFirstMetric + abi::kControlMetrics.count;
  static constexpr std::size_t kHitsDropped = kWireCounters;
  static constexpr std::size_t kRequeues = kWireCounters + 1;
  static constexpr std::size_t kBarrierTime = kWireCounters + 2;
  static constexpr std::size_t kCounters = kWireCounters + 3;

  static std::size_t control_word(std::size_t counter);
  std::uint64_t value(std::size_t counter) const {
    return values_[counter].load(std::memory_order_relaxed);
  }
  void add(std::size_t counter, std::uint64_t count) {
    values_[counter].store(value(counter) + count, std::memory_order_relaxed);
  }
  void bump(std::size_t counter) { add(counter, 1); }

  std::atomic<std::uint64_t> ended_{0};
  std::atomic<std::uint64_t> counted_{0};
  std::array<std::atomic<std::uint64_t>, kCounters> values_{};
  std::array<std::uint64_t, kWireCounters> flushed_{};
  Others others_;
  Word other_count_ = 0;
};

}  // namespace everkernel::backend::cpu
