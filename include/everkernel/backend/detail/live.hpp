// A kernel that stays and takes items from queues, and the objects it shares with the host.
//
// A host opens queues, publishes entries and follows outcomes; the kernel takes entries, runs their
// items and stores outcomes (abi/queue.hpp). An item passes no other shared word. The record of
// what a kernel has taken lies in LiveQueue, outside the kernel: it is still there when the kernel
// is lost.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "everkernel/backend/backend.hpp"
#include "everkernel/backend/latency.hpp"
#include "everkernel/backend/live_counters.hpp"
#include "everkernel/base/detail/fence.hpp"
#include "everkernel/base/histogram.hpp"
#include "everkernel/base/result.hpp"
#include "everkernel/protocol/queue.hpp"

namespace everkernel::backend {

using abi::LongWord;

/// A producer's way to wake workers that sleep. A producer that has published reads the count of
/// those that sleep, or are about to, and rings if it is not 0.
class Bell {
 public:
  Bell(const Bell&) = delete;             ///< queues refer to it
  Bell& operator=(const Bell&) = delete;  ///< queues refer to it
  virtual ~Bell() = default;              ///< nobody may ring any more

  /// Called after something was stored that as many workers could take.
  void announce(Word workers = 1) {
    if (is_armed()) [[unlikely]]
      ring(workers);
  }
  /// Whether a worker sleeps or is about to, as seen by a thread that has stored something.
  bool is_armed() const {
    if (is_remote_) [[unlikely]] {
      fence::full();  // no fence of a worker in another process reaches this thread
    } else {
      fence::light();
    }
    return __atomic_load_n(armed_, __ATOMIC_RELAXED) != 0;
  }
  /// Wakes up to `count` workers, whether they sleep already or are about to.
  virtual void ring(Word count) = 0;

 protected:
  /// Reads the count from that word, which workers of this or of another process write.
  Bell(const std::uint32_t* armed, bool is_remote) : armed_(armed), is_remote_(is_remote) {}

 private:
  const std::uint32_t* const armed_;  // workers that sleep or are about to; accessed atomically
  const bool is_remote_;
};

class LiveQueue;

/// The bell of a session or of runs, where workers sleep. Outlives its kernels.
///
/// A worker that would sleep arms the bell, looks everywhere once more, waits and disarms. The
/// count of those that sleep lies on a page of its own, which producers in other processes map
/// read-only; each of them rings an eventfd of its own.
class Doorbell : public Bell {
 public:
  /// Fails with `io` or `out_of_memory`.
  static Result<std::shared_ptr<Doorbell>> create();

  /// Counts the calling worker as asleep. Look everywhere between this and wait().
  virtual void arm() = 0;
  /// Sleeps until the bell rings or the timeout is over. If the producer of a queue in another
  /// process rang, gives that queue, and the caller looks at it and calls answer().
  virtual std::shared_ptr<LiveQueue> wait(std::chrono::nanoseconds timeout) = 0;
  /// Takes the calling worker off the count.
  virtual void disarm() = 0;
  /// Says whether a queue for which its producer rang had an entry to take. A producer that rings
  /// for nothing again and again is not heard for a millisecond.
  virtual void answer(const LiveQueue& queue, bool had_work) = 0;

  /// Lets the producer of a queue in another process ring. Gives the eventfd for it, which stays
  /// this object's. Fails with `io` and `out_of_memory`.
  virtual Result<int> add_client(std::shared_ptr<LiveQueue> queue) = 0;
  /// Hears the producer of a queue no more.
  virtual void remove_client(const LiveQueue& queue) = 0;
  /// The file with the count, for another process to map.
  virtual int armed_descriptor() const = 0;

 protected:
  using Bell::Bell;
};

/// Nanoseconds on the steady clock.
inline std::int64_t steady_now() {
  return std::chrono::nanoseconds(Clock::now().time_since_epoch()).count();
}

/// One ticket in this many is timed.
inline constexpr LongWord kSampleInterval = 64;
/// Whether a ticket is timed.
constexpr bool is_sample(LongWord ticket) {
  return ticket % kSampleInterval == 0;
}
/// The first timed ticket from this one on.
constexpr LongWord next_sample(LongWord ticket) {
  return (ticket + kSampleInterval - 1) / kSampleInterval * kSampleInterval;
}
/// Places for the times of a queue: two timed tickets of one lap have two.
constexpr std::size_t sample_places(Word capacity) {
  return capacity < kSampleInterval ? 1 : capacity / kSampleInterval;
}
/// The place of a timed ticket.
constexpr std::size_t sample_place(LongWord ticket, Word capacity) {
  return static_cast<std::size_t>(ticket / kSampleInterval) & (sample_places(capacity) - 1);
}

/// The kernel's half of one queue. Made by whoever opened the queue.
class LiveQueue {
 public:
  /// What whoever opened a queue has set, and nothing in an entry changes.
  struct Rights {
    Word tenant = 0;                             ///< 0..28
    Word priority = 0;                           ///< 0..4
    std::chrono::nanoseconds item_timeout = {};  ///< of one run of an item; 0 = none
  };
  /// `memory` keeps the files mapped.
  LiveQueue(const protocol::QueueKernel& files, const Rights& rights,
            std::shared_ptr<const void> memory)
      : words(files),
        tenant(rights.tenant),
        priority(rights.priority),
        item_timeout(rights.item_timeout),
        head(files.first_ticket()),
        floor(files.first_ticket()),
        memory_(std::move(memory)),
        sampled_ends_(
            std::make_unique<std::atomic<std::int64_t>[]>(sample_places(files.capacity()))) {}

  const protocol::QueueKernel words;  ///< entries and outcomes
  const Word tenant;                  ///< whose items they are
  const Word priority;                ///< how urgent they are
  /// An item that runs longer ends as FAULT (deadline) at its next turn of a loop; 0 = never.
  const std::chrono::nanoseconds item_timeout;
  /// Whether the queue was given to another process, which alone publishes into it.
  std::atomic<bool> is_given{false};
  /// Tickets from this one on are not taken. Workers obey a change from LiveKernel::settle() on.
  std::atomic<LongWord> limit{kNoLimit};
  static constexpr LongWord kNoLimit = ~LongWord{0};  ///< of a queue from which all are taken

  /// The next ticket to take.
  alignas(64) std::atomic<LongWord> head;
  /// Every ticket below it has ended.
  std::atomic<LongWord> floor;
  /// Time of one of its short items, in sixteenths of a nanosecond; a running mean.
  std::atomic<std::uint32_t> short_item_time{0};
  /// Whether host threads that wait run many short items of it.
  std::atomic<bool> is_helped{false};
  /// Host threads that sleep until an item of this queue ends; workers wake them.
  alignas(64) std::atomic<std::uint32_t> sleepers{0};
  /// Changes when such threads are woken.
  std::atomic<std::uint32_t> wakes{0};
  /// A word that changes too, for a thread that follows several queues; null if there is none. That
  /// thread counts as a sleeper of each.
  std::atomic<std::atomic<std::uint32_t>*> follower{nullptr};
  /// Non-zero ends short items that wait for their code; accessed atomically. An item that may take
  /// long has a word of its own.
  alignas(64) Word abort = 0;
  /// What the kernel that has the queue open keeps beside it; null while none has.
  std::atomic<void*> kernel_part{nullptr};

  /// Whether a ticket below the head has ended.
  bool has_ended(LongWord ticket) const {
    return ticket < floor.load(std::memory_order_acquire) || words.has_ended(ticket);
  }
  /// Moves the floor over tickets that have ended; returns it.
  LongWord raise_floor();
  /// Whether every ticket that was taken has ended, and the next entry is not there.
  bool is_drained();
  /// Called after outcomes were stored: wakes host threads that sleep on them.
  void notify();

  /// Called before the outcome of a timed ticket is stored.
  void sample_end(LongWord ticket, std::int64_t taken_at) {
    const std::int64_t now = steady_now();
    taken_to_end_.record(std::chrono::nanoseconds(now - taken_at));
    sampled_ends_[sample_place(ticket, words.capacity())].store(now, std::memory_order_relaxed);
  }
  /// When the timed ticket of that place ended last, on the steady clock.
  std::int64_t sampled_end(std::size_t place) const {
    return sampled_ends_[place].load(std::memory_order_relaxed);
  }
  /// Times from taking to the end, of one item in kSampleInterval.
  Histogram taken_to_end() const { return taken_to_end_.load(); }

 private:
  void wake_sleepers();

  const std::shared_ptr<const void> memory_;
  const std::unique_ptr<std::atomic<std::int64_t>[]> sampled_ends_;
  LiveHistogram taken_to_end_;
};

/// An item of a queue as a reader of telemetry sees it.
struct LiveItem {
  LongWord ticket = 0;  ///< which
  abi::Slot slot = {};  ///< its status is YIELD, REQUEUE or WAIT_IO
};

/// An item that may take long and runs now. Short items end by construction and are not listed.
struct LiveRunning {
  const LiveQueue* queue = nullptr;         ///< whose item; only to be compared
  LongWord ticket = 0;                      ///< which
  Word opcode = 0;                          ///< of its entry
  Word worker = 0;                          ///< that runs it
  std::optional<Word> multiprocessor = {};  ///< of a GPU
  Clock::time_point since = {};             ///< when this run of the item began
  bool was_told_to_end = false;             ///< its time is over, or its queue or the kernel ends
};

/// The memory and objects that a live kernel works on. All of them outlive the kernel.
struct LiveLaunch {
  std::span<std::byte> control = {};    ///< on a 64-byte line
  std::span<std::byte> debug_log = {};  ///< on a 64-byte line
  std::span<std::byte> io_queue = {};   ///< on a 64-byte line
  Doorbell* doorbell = nullptr;         ///< where workers sleep
  Word worker_count = 0;                ///< 0 = all workers of the kernel
  Word multiprocessors = 0;             ///< of a GPU; 0 = all of them
  Latency latency = Latency::normal;    ///< of the first item after a while
};

/// How a kernel leaves its queues.
enum class LeaveMode {
  hand_over,  ///< items that were taken end or stay open for another kernel; the rest stays
  cancel,     ///< as hand_over, and what was taken and did not begin is CANCELLED
};

/// A kernel that takes items from queues until it is stopped. Thread-safe.
class LiveKernel {
 public:
  virtual ~LiveKernel();  ///< stops at once

  /// Adds a queue. Tickets between its floor and its head that have not ended run again from their
  /// entries. Fails with `out_of_memory`.
  virtual Result<void> open(std::shared_ptr<LiveQueue> queue) = 0;
  /// Takes a queue away: no worker touches it when this returns. At the deadline, items of it that
  /// still run are ended as FAULT (deadline) at their next turn of a loop. Items that yielded or
  /// wait, and items that were taken and did not begin, are CANCELLED. Gives their number.
  virtual std::uint64_t close(LiveQueue& queue, Clock::time_point deadline) = 0;
  /// Makes items that are taken from now on see these buffers. `owner` keeps them until no item can
  /// see them any more.
  virtual void set_buffers(const memory::BufferTableView& buffers,
                           std::shared_ptr<const void> owner) = 0;

  /// Each worker finishes the items it holds and leaves; returns when all have left. At the
  /// deadline, items that still run are ended as FAULT (deadline) at their next turn of a loop. May
  /// be called again. With `cancel`, gives the number of items that were taken and CANCELLED.
  virtual std::uint64_t stop(Clock::time_point deadline, LeaveMode mode) = 0;
  /// Adds the counts of the workers so far to the control words, and returns the totals since the
  /// start. Includes every item whose end the caller has seen.
  virtual LiveCounters flush_counters() = 0;
  /// Runs published items of a queue that are short by construction (built-in operations, or
  /// handlers without loops) on the calling thread and returns how many: for a thread that would
  /// spin otherwise. Returns 0 if there are none or the backend does not support it, and at once if
  /// `awaited` is the ticket of a published item that is not short: such a thread would only
  /// disturb the worker that takes the item.
  virtual Word help(LiveQueue& queue, LongWord awaited) = 0;
  static constexpr LongWord kNoTicket =
      ~LongWord{0};  ///< for help() of a thread that waits for all
  /// Whether workers are still running. They leave at stop(), and when SHUTDOWN is set.
  virtual bool is_running() const = 0;
  /// Makes workers look again at items that could not run: after a change of a tenant's mask or
  /// quota, or when an IO request was served.
  virtual void look_again() = 0;
  /// Makes workers obey the limits of queues as they are now: when it returns, none takes a ticket
  /// beyond them, and the heads are up to date. Fails with `timeout` if an item holds it up.
  virtual Result<void> settle(Clock::time_point deadline) = 0;
  /// Brings a control word of the host up to date, where items use a copy on the device.
  virtual void refresh_control(std::size_t) {}
  /// Brings the control words, the debug log and the IO queue of the host up to date, and those
  /// that items use, where these are copies on the device.
  virtual void mirror() {}
  /// Called by a host thread that has counted itself among the sleepers of a queue and is about to
  /// sleep: a kernel whose workers cannot wake host threads begins to look for outcomes.
  virtual void expect_sleeper() {}
  /// Calls `act`, which does not throw, when the kernel is not on its device, and starts it again.
  /// Nothing of the queues changes by it. Workers on a CPU hold up no call of a device, so they
  /// just go on. Fails with `timeout` if an item still runs at the deadline, or another thread has
  /// the kernel parked; then `act` was not called and the kernel goes on. Fails with
  /// `invalid_argument` after stop(), and with `device_lost`.
  virtual Result<void> parked(const std::function<void()>& act, Clock::time_point) {
    act();
    return {};
  }
  /// Adds the items that reached DONE, by opcode, to totals sorted by opcode: every built-in
  /// operation and every handler has a row.
  virtual void add_executions(std::vector<OpcodeTotal>& totals) const = 0;
  /// Copies the items of a queue that yielded or wait, for telemetry.
  virtual void copy_waiting(const LiveQueue& queue, std::vector<LiveItem>& items) const = 0;
  /// Adds the items that run now and may take long. Fails with `device_lost`.
  virtual Result<void> copy_running(std::vector<LiveRunning>& items) = 0;
  /// Fails with `device_lost` when the device went away under the kernel.
  virtual Result<void> health() const = 0;
};

}  // namespace everkernel::backend
