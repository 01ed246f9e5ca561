// A live queue: one producer's way to feed a kernel that stays, and to follow what it published.
//
// A queue belongs to one tenant and one priority. Its items are taken in the order of their
// tickets; they run and end in any order, and only a fence orders more. A queue that is full, or
// whose items cannot run, does not hold up any other queue.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "everkernel/base/result.hpp"
#include "everkernel/live/ids.hpp"
#include "everkernel/protocol/ring_writer.hpp"

namespace everkernel {

/// How to open a queue.
struct QueueOptions {
  TenantId tenant = {};                                  ///< whose items they are
  Priority priority = Priority::normal;                  ///< how urgent they are
  Word capacity = 1024;                                  ///< a power of two, 2 … 2^20
  abi::EntryFormat entries = abi::EntryFormat::compact;  ///< full for more than three arguments
  bool results = false;                                  ///< whether items answer with three words
  std::uint64_t first_ticket = 0;  ///< number of the first ticket, a multiple of 2 × capacity
  /// An item that runs longer ends as FAULT (deadline) at its next turn of a loop; 0 = no limit. It
  /// counts from the beginning of each run: an item that yields or waits begins anew when it goes
  /// on. A trusted handler that does not return cannot be ended.
  std::chrono::nanoseconds item_timeout = {};
};

/// Totals of a queue, 64 bits wide.
struct QueueCounters {
  std::uint64_t published = 0;         ///< items accepted
  std::uint64_t noted = 0;             ///< items that have ended and whose places are free again
  std::uint64_t full_waits = 0;        ///< times a publisher found the queue full
  std::uint64_t forgotten_faults = 0;  ///< fault codes dropped before they were asked for
  std::uint64_t failed_callbacks = 0;  ///< of an attached queue: callbacks that threw an exception
};

/// How closing treats items that have not run.
enum class StopMode {
  drain,   ///< waits until every item has ended
  cancel,  ///< waits for running items and cancels the rest
};

namespace live {
class QueueCore;
}  // namespace live

/// A queue that a session opened. Every call is thread-safe. Move-only; its destructor cancels
/// items that have not run. It may outlive its session, whose end closes it. It belongs to the
/// process that made it: in a child of fork(), calls fail with `unsupported`, and the destructor
/// does nothing.
class Queue {
 public:
  Queue(Queue&&) noexcept;             ///< takes over
  Queue& operator=(Queue&&) noexcept;  ///< closes its own, takes over
  /// As close(cancel, 0). Of an attached queue it waits up to a minute for a callback that runs.
  ~Queue();

  /// Publishes one operation: at most 12 arguments, 3 in compact entries. Fails with
  /// `invalid_argument` as the wire format says, with `queue_full` when the queue is full and the
  /// timeout is 0, with `timeout` when it stayed full, and with `device_lost`; then nothing is
  /// published.
  Result<Ticket> publish(const protocol::Operation& item, std::chrono::nanoseconds timeout = {});
  /// Publishes work items, all of them or none; at most capacity() at one time.
  Result<TicketRange> publish_items(std::span<const abi::WorkItem> items,
                                    std::chrono::nanoseconds timeout = {});
  /// Publishes several small operations as one item. Needs full entries.
  Result<Ticket> publish_packed(std::span<const protocol::PackedOp> ops,
                                std::chrono::nanoseconds timeout = {});
  /// Publishes operations and a fence behind them; the last ticket is the fence's.
  Result<TicketRange> publish_batch(std::span<const protocol::Operation> items, Word tag,
                                    std::chrono::nanoseconds timeout = {});

  /// Waits until the item has ended. Fails with `timeout`, with `invalid_argument` for a ticket
  /// that is not of this queue, that was cancelled or whose outcome was dropped, and with
  /// `device_lost`.
  Result<Completion> wait(Ticket ticket, std::chrono::nanoseconds timeout);
  /// Waits until everything published before the call has ended. Fails as wait does.
  Result<void> wait_all(std::chrono::nanoseconds timeout);
  /// How the item ended, or nothing while it is on its way. Fails with `invalid_argument` and
  /// `device_lost` as wait does.
  Result<std::optional<Completion>> poll(Ticket ticket);
  /// Calls `callback` once, on a thread of the session, when the item has ended or was cancelled.
  /// The rest as Session::on_complete. An attached queue has a thread of its own for its callbacks,
  /// and close() stands for stop(): also items whose end this process will not see count as
  /// cancelled, because it closed the queue or because the process of the session has ended.
  Result<void> on_complete(Ticket ticket,
                           std::function<void(Ticket, Completion, bool cancelled)> callback);

  /// Refuses further items. With drain it waits for those that were published, with cancel for
  /// those that run, at most `timeout`; then running items become FAULT (deadline) at their next
  /// turn of a loop, and the rest is cancelled. Gives the number of cancelled items. Further calls
  /// give 0.
  std::uint64_t close(StopMode mode, std::chrono::nanoseconds timeout = std::chrono::seconds(60));

  /// Gives the queue to another process, which calls attach_queue() with this descriptor and alone
  /// publishes into it; here it can then only be closed and counted. The descriptor is not
  /// inherited by exec(), and the caller closes it. Once, before anything is published. Fails with
  /// `invalid_argument`, and with `io` when there is no room for descriptors.
  Result<int> descriptor();

  /// Whose items they are.
  TenantId tenant() const;
  /// How urgent they are.
  Priority priority() const;
  /// Most items in it at one time.
  Word capacity() const;
  /// Totals.
  QueueCounters counters() const;

 private:
  friend class Session;
  friend Result<Queue> attach_queue(int descriptor);
  explicit Queue(std::shared_ptr<live::QueueCore> core);
  std::shared_ptr<live::QueueCore> core_;
};

/// The queue that another process gave away with Queue::descriptor(), received through a descriptor
/// that a child inherits or a socket carries. This process publishes into it and waits for its
/// items. Waiting never runs items here, and close() leaves what was published to run; with drain
/// it waits for it, and it returns when every callback has, as Session::stop does. When the process
/// of the session ends, calls fail with `device_lost`. Fails with `corrupt` for a descriptor that
/// is not one of a queue or was used before, with `invalid_argument`, `io` and `out_of_memory`. The
/// descriptor stays the caller's.
Result<Queue> attach_queue(int descriptor);

}  // namespace everkernel
