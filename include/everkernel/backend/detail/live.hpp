// A kernel that stays on a ring, and what it shares with the host that feeds it.
//
// Publishers reserve tickets at the TicketDesk, fill the ring's slots and store PUBLISHED; workers
// find the next ticket by the status of its slot. An item passes no other shared word: the word
// that holds the reserved tickets also counts the sleeping workers.
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

  /// What a publisher got.
  struct Reservation {
    std::uint64_t first_ticket = 0;  ///< its tickets are this and the following
    Word sleepers = 0;               ///< workers it must wake once the slots are published
  };

  /// Takes `count` tickets below `limit`, or nothing when there are not so many or the desk is
  /// closed. The caller fills the slots, then wakes.
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
  /// Takes them only if `first` is the next ticket.
  std::optional<Reservation> reserve_at(std::uint64_t first, std::uint64_t count,
                                        std::uint64_t limit);
  /// Lets that many sleeping workers go on.
  void wake(Word sleepers) {
    if (sleepers != 0) give_permits(sleepers);
  }
  /// Wakes every worker that sleeps now.
  void wake_all();
  /// Wakes every worker, and lets none sleep any more: for stopping.
  void close();
  /// Lets workers sleep again: for another kernel on the same ring.
  void reopen();

  /// Tickets handed out so far, as the number of the next.
  std::uint64_t next_ticket() const {
    return word_.load(std::memory_order_acquire) >> kSleeperBits;
  }

  /// A worker that found nothing says that it will sleep. Gives false when it must look again: a
  /// ticket from `next_unclaimed` on is reserved, or the desk is closed. What others did before
  /// they woke everybody is visible afterwards, so that this is the time for a last look.
  bool fall_asleep(std::uint64_t next_unclaimed);
  /// Sleeps until it is woken or the timeout is over. Only after fall_asleep().
  void sleep(std::chrono::nanoseconds timeout);

 private:
  static constexpr unsigned kSleeperBits = 12;  // and one of them says closed
  static constexpr std::uint64_t kClosed = std::uint64_t{1} << (kSleeperBits - 1);
  static constexpr std::uint64_t kSleeperMask = kClosed - 1;

  void give_permits(Word sleepers);
  void take_permit();
  bool leave_before_woken();

  alignas(64) std::atomic<std::uint64_t> word_;        // tickets, closed, sleepers
  alignas(64) std::atomic<std::uint32_t> permits_{0};  // woken workers that have not gone on yet
};

/// Lets a host thread sleep until an item has ended. Workers pay for a wake-up only while a host
/// thread is asleep. A host thread that helps counts as one more worker.
///
/// Every worker has its own word, which it exchanges after a batch of items. A host thread that is
/// about to sleep sets a flag in each of these words and reads the slots once more. Either the
/// worker finds the flag, or the host thread finds the ended item.
class CompletionBell {
 public:
  /// For that many workers.
  explicit CompletionBell(Word worker_count);

  /// A worker's call after its items are stored as ended.
  void ring(Word worker_index) {
    if (words_[worker_index].flag.exchange(0, std::memory_order_acq_rel) != 0) wake();
  }

  /// Raises the flags and gives a ticket for sleep(). Look again between the two.
  std::uint32_t prepare();
  /// Sleeps until a worker rang since prepare(), or until the deadline.
  void sleep(std::uint32_t prepared, Clock::time_point deadline);
  /// Wakes every host thread: for stopping, and for changes no worker makes.
  void wake();

 private:
  struct alignas(64) WorkerWord {
    std::atomic<std::uint32_t> flag{0};
  };
  Word worker_count_;
  std::unique_ptr<WorkerWord[]> words_;
  alignas(64) std::atomic<std::uint32_t> rings_{0};
};

/// What a live kernel works on. Everything in it outlives the kernel.
struct LiveLaunch {
  std::span<std::byte> control = {};     ///< on a 64-byte line
  std::span<std::byte> ring = {};        ///< a power of two of slots, on a 64-byte line
  std::span<std::byte> debug_log = {};   ///< on a 64-byte line
  std::span<std::byte> io_queue = {};    ///< on a 64-byte line
  memory::BufferTableView buffers = {};  ///< what handles mean
  TicketDesk* desk = nullptr;            ///< where tickets come from
  CompletionBell* bell = nullptr;        ///< rung after items ended
  std::uint64_t first_ticket = 0;        ///< tickets from here on are looked at
  Word worker_count = 0;                 ///< 0 = the kernel's
  const WorkGraph* graph = nullptr;      ///< planned work: slots stand for portions of it
};

/// A kernel that runs on a ring until it is stopped.
class LiveKernel {
 public:
  virtual ~LiveKernel();  ///< stops at once

  /// Workers finish the item they hold and leave; comes back when they have. At the deadline items
  /// that still run are ended as FAULT (deadline) at their next turn of a loop. May be called
  /// again.
  virtual void stop(Clock::time_point deadline) = 0;
  /// Adds what workers have counted so far to the control words, and gives the totals since the
  /// start. Includes every item whose end the caller has seen.
  virtual LiveCounters flush_counters() = 0;
  /// Runs published items that are short by construction (built-in, or handlers without loops) on
  /// the calling thread, and gives their number: what a thread that waits anyway does instead of
  /// spinning. 0 when there are none, or the backend cannot.
  virtual Word help() { return 0; }
  /// Whether workers are still there. They leave at stop(), and when SHUTDOWN is set.
  virtual bool is_running() const = 0;
  /// Makes workers look again at items that could not run: after a change of a tenant's mask or
  /// quota, or when an IO request was served.
  virtual void look_again() = 0;
  /// Fails with `device_lost` when the device went away under the kernel.
  virtual Result<void> health() const = 0;
};

}  // namespace everkernel::backend
