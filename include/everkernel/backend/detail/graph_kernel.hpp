// A kernel that runs planned work, and the objects it shares with the host that feeds it.
//
// The host reserves tickets at the TicketDesk, fills the ring's slots and stores PUBLISHED; workers
// find the next ticket by the status of its slot. The word that holds the reserved tickets also
// counts the sleeping workers.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "everkernel/abi/control.hpp"
#include "everkernel/backend/backend.hpp"
#include "everkernel/backend/detail/graph.hpp"
#include "everkernel/backend/live_counters.hpp"
#include "everkernel/base/result.hpp"

namespace everkernel::backend {

/// Hands out tickets, and lets workers sleep without missing one.
///
/// One word holds the tickets reserved and the workers asleep. A publisher changes it by one
/// compare-and-swap before it writes its slots, and in the same step takes the sleepers it will
/// wake off the count. A worker may only add itself when every reserved ticket is claimed. So a
/// publisher either sees the sleeper, or the worker sees the ticket and stays awake.
class TicketDesk {
 public:
  /// The next ticket will be `first_ticket`.
  explicit TicketDesk(std::uint64_t first_ticket) : word_(first_ticket << kSleeperBits) {}

  /// The tickets that a publisher reserved.
  struct Reservation {
    std::uint64_t first_ticket = 0;  ///< its tickets are this and the following
    Word sleepers = 0;               ///< workers it must wake once the slots are published
  };

  /// Reserves `count` tickets below `limit`; nothing if there are fewer or the desk is closed. The
  /// caller fills the slots, then calls wake().
  std::optional<Reservation> reserve(std::uint64_t count, std::uint64_t limit) {
    std::uint64_t word = word_.load(std::memory_order_relaxed);
    for (;;) {
      const std::uint64_t first = word >> kSleeperBits;
      if (first + count > limit || (word & kClosed) != 0) return std::nullopt;
      const std::uint64_t sleepers = word & kSleeperMask;
      const std::uint64_t woken = sleepers < count ? sleepers : count;
      if (word_.compare_exchange_weak(word, word + (count << kSleeperBits) - woken,
                                      std::memory_order_acq_rel, std::memory_order_relaxed)) {
        return Reservation{first, static_cast<Word>(woken)};
      }
    }
  }
  /// As reserve(), but only if `first` is the next ticket.
  std::optional<Reservation> reserve_at(std::uint64_t first, std::uint64_t count,
                                        std::uint64_t limit);
  /// Wakes that many sleeping workers.
  void wake(Word sleepers) {
    if (sleepers != 0) give_permits(sleepers);
  }
  /// Wakes every worker that sleeps now.
  void wake_all();
  /// Wakes every worker, and lets none sleep any more: for stopping.
  void close();
  /// Lets workers sleep again: for another kernel on the same ring.
  void reopen();

  /// Whether it was closed and not reopened since.
  bool is_closed() const { return (word_.load(std::memory_order_acquire) & kClosed) != 0; }
  /// The next ticket that will be handed out.
  std::uint64_t next_ticket() const {
    return word_.load(std::memory_order_acquire) >> kSleeperBits;
  }

  /// Announces that the calling worker will sleep. Returns false if the worker must look again: a
  /// ticket from `next_unclaimed` on is reserved, or the desk is closed. After it has returned
  /// true, changes that another thread made before it woke all workers are visible, so that the
  /// worker can look for them before it calls sleep().
  bool fall_asleep(std::uint64_t next_unclaimed);
  /// Sleeps until woken or until the timeout. Only after fall_asleep() has returned true.
  void sleep(std::chrono::nanoseconds timeout);

 private:
  static constexpr unsigned kSleeperBits = 12;  // one of these bits means closed
  static constexpr std::uint64_t kClosed = std::uint64_t{1} << (kSleeperBits - 1);
  static constexpr std::uint64_t kSleeperMask = kClosed - 1;

  void give_permits(Word sleepers);
  void take_permit();
  bool leave_before_woken();

  alignas(64) std::atomic<std::uint64_t> word_;        // tickets, closed, sleepers
  alignas(64) std::atomic<std::uint32_t> permits_{0};  // woken workers that have not gone on yet
};

/// Lets a host thread sleep until an item has ended. Workers pay for a wake-up only while a host
/// thread is asleep.
///
/// Every worker has its own word, which it exchanges after a batch of items. A host thread that is
/// about to sleep sets a flag in each of these words and reads the slots once more. Either the
/// worker finds the flag, or the host thread finds the ended item.
class CompletionBell {
 public:
  /// For that many workers.
  explicit CompletionBell(Word worker_count);

  /// Called by a worker after it has stored its items as ended.
  void ring(Word worker_index) {
    if (words_[worker_index].flag.exchange(0, std::memory_order_acq_rel) != 0) wake();
  }

  /// Raises the flags and returns a number for sleep(). Look for ended items between the two calls.
  std::uint32_t prepare();
  /// Sleeps until a worker has rung since prepare(), or until the deadline.
  void sleep(std::uint32_t prepared, Clock::time_point deadline);
  /// Wakes every host thread: for stopping, and for changes that no worker makes.
  void wake();

 private:
  struct alignas(64) WorkerWord {
    std::atomic<std::uint32_t> flag{0};
  };
  Word worker_count_;
  std::unique_ptr<WorkerWord[]> words_;
  alignas(64) std::atomic<std::uint32_t> rings_{0};
};

/// The memory and objects that a kernel of planned work uses. All of them outlive the kernel.
struct GraphLaunch {
  std::span<std::byte> control = {};     ///< on a 64-byte line
  std::span<std::byte> ring = {};        ///< a power of two of slots, on a 64-byte line
  std::span<std::byte> debug_log = {};   ///< on a 64-byte line
  std::span<std::byte> io_queue = {};    ///< on a 64-byte line
  memory::BufferTableView buffers = {};  ///< the buffers that handles name
  TicketDesk* desk = nullptr;            ///< where tickets come from
  CompletionBell* bell = nullptr;        ///< rung after items ended
  Word worker_count = 0;                 ///< 0 = all workers of the kernel
  const WorkGraph* graph = nullptr;      ///< the plan: slots stand for portions of it
};

/// A kernel that runs planned work until it is stopped.
class GraphKernel {
 public:
  virtual ~GraphKernel();  ///< stops at once

  /// Each worker finishes the item it holds and leaves; returns when all have left. At the
  /// deadline, items that still run are ended as FAULT (deadline) at their next turn of a loop. May
  /// be called again.
  virtual void stop(Clock::time_point deadline) = 0;
  /// Adds the counts of the workers so far to the control words, and returns the totals since the
  /// start. Includes every item whose end the caller has seen.
  virtual LiveCounters flush_counters() = 0;
  /// Whether workers are still running. They leave at stop(), and when SHUTDOWN is set.
  virtual bool is_running() const = 0;
  /// Fails with `device_lost` when the device went away under the kernel.
  virtual Result<void> health() const = 0;
};

}  // namespace everkernel::backend
