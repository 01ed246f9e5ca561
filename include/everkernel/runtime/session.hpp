// A live session: the kernel stays, programs publish items and follow their tickets.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "everkernel/backend/live_counters.hpp"
#include "everkernel/base/result.hpp"
#include "everkernel/protocol/ring_writer.hpp"
#include "everkernel/telemetry/evidence.hpp"
#include "everkernel/telemetry/snapshot.hpp"

namespace everkernel {

using abi::Word;

/// Names one published item, for the life of its session.
enum class Ticket : std::uint64_t {};

/// Tickets of items that were published together.
struct TicketRange {
  Ticket first = {};  ///< of the first item
  Word count = 0;     ///< how many there are

  /// The ticket of one of them; `index` is below count.
  Ticket operator[](Word index) const { return Ticket{static_cast<std::uint64_t>(first) + index}; }
  /// The ticket of the last; of a batch, its fence.
  Ticket last() const { return (*this)[count - 1]; }
};

/// How an item ended.
struct Completion {
  Word fault_code = 0;  ///< 0 = DONE, else why it is FAULT
  /// Whether it reached DONE.
  bool is_done() const { return fault_code == 0; }
};

/// How to start a session.
struct SessionOptions {
  Word tenant_count = abi::kTenantCount;  ///< tenants 0 … tenant_count − 1 are enabled
  Word observable_slots = 64;             ///< result words behind the fixed control words
  Word debug_records = 1024;              ///< PRINTF records there is room for
  Word io_slots = 16;                     ///< IO requests at one time
  /// A control buffer to begin with instead (masks, quotas, counters); TICKET_HEAD and TICKET_TAIL
  /// must be equal and are the number of the first ticket.
  std::span<const std::byte> control = {};
};

/// Whose work it is, how urgent, and how long publishing may wait for room.
struct PublishOptions {
  Word tenant = 0;                             ///< 0..28
  Word priority = protocol::kDefaultPriority;  ///< 0..4; counted, a session runs in order
  std::chrono::nanoseconds timeout = {};       ///< of waiting for room in the ring; 0 = do not wait
};

/// How stop() treats items that have not run.
enum class StopMode {
  drain,   ///< waits until every item has ended, then stops
  cancel,  ///< waits for running items and cancels the rest
};

/// The counts of a stopped session.
struct StopReport {
  std::uint64_t done = 0;       ///< items that reached DONE
  std::uint64_t faulted = 0;    ///< items that reached FAULT
  std::uint64_t cancelled = 0;  ///< items that never ran
};

/// Totals of a session, 64 bits wide.
struct SessionCounters {
  std::uint64_t published = 0;         ///< items accepted, padding of batches included
  std::uint64_t padding = 0;           ///< NOPs in front of batches that would have wrapped
  std::uint64_t reaped = 0;            ///< tickets whose slots are free again
  std::uint64_t full_waits = 0;        ///< times a publisher found the ring full
  std::uint64_t forgotten_faults = 0;  ///< fault codes dropped before they were asked for
  backend::LiveCounters kernel = {};   ///< counted by the workers
};

/// A snapshot of a running session.
struct SessionSnapshot {
  telemetry::RingTelemetry telemetry = {};   ///< control words and slots, decoded
  telemetry::RuntimeEvidence evidence = {};  ///< bytes copied, and times of decoding
  SessionCounters counters = {};             ///< totals, 64 bits wide
};

/// A running megakernel. Every call is thread-safe unless it says otherwise. Move-only; its
/// destructor cancels items that have not run.
class Session {
 public:
  Session(Session&&) noexcept;             ///< takes over
  Session& operator=(Session&&) noexcept;  ///< stops its own, takes over
  ~Session();                              ///< cancels, without waiting for items that run

  /// Publishes one operation with at most 12 arguments. Fails with `invalid_argument` as the wire
  /// format says, with `queue_full` when the ring is full, with `timeout` when it stayed full, and
  /// with `device_lost`; then nothing is published.
  Result<Ticket> publish(const protocol::Operation& item, const PublishOptions& options = {});
  /// Publishes work items, all of them or none; at most capacity() at one time.
  Result<TicketRange> publish_items(std::span<const abi::WorkItem> items,
                                    const PublishOptions& options = {});
  /// Publishes several small operations in one slot.
  Result<Ticket> publish_packed(std::span<const protocol::PackedOp> ops,
                                const PublishOptions& options = {});
  /// Publishes operations and a fence behind them; the last ticket is the fence's.
  Result<TicketRange> publish_batch(std::span<const protocol::Operation> items, Word tag,
                                    const PublishOptions& options = {});

  /// Waits until the item has ended. Fails with `timeout`, with `invalid_argument` for a ticket
  /// that is not of this session or whose fault was dropped, and with `device_lost`.
  Result<Completion> wait(Ticket ticket, std::chrono::nanoseconds timeout);
  /// Waits until everything published before the call has ended. Fails as wait does.
  Result<void> wait_all(std::chrono::nanoseconds timeout);
  /// How the item ended, or nothing while it is on its way. Fails with `invalid_argument` and
  /// `device_lost` as wait does.
  Result<std::optional<Completion>> poll(Ticket ticket);
  /// Calls `callback` once, on a thread of the session, when the item has ended or stop cancelled
  /// it (`cancelled`). After stop it is called at once, on the calling thread. The callback may
  /// publish; it must not stop the session.
  Result<void> on_complete(Ticket ticket,
                           std::function<void(Ticket, Completion, bool cancelled)> callback);

  /// Enables or disables a tenant. Fails with `invalid_argument` above tenant 28.
  Result<void> set_tenant_enabled(Word tenant, bool enabled);
  /// Limits the items of a tenant that run at one time. Fails with `invalid_argument` above
  /// tenant 28.
  Result<void> set_tenant_quota(Word tenant, Word quota);

  /// Decodes the session as it stands into `target`, whose storage is reused; counters are exact:
  /// they include every item whose end this thread has seen. One thread at a time.
  Result<void> snapshot(SessionSnapshot& target, std::span<const Word> window_opcodes = {});
  /// Totals, exact in the same way.
  SessionCounters counters();
  /// One observable as it stands. Fails with `invalid_argument` past the last.
  Result<Word> observable(Word index) const;
  /// Copies the debug log as it stands.
  void copy_debug_log(std::vector<std::byte>& target) const;

  /// Stops the kernel. With drain it waits for every item, with cancel for those that run, at most
  /// `timeout`. Items that still run then become FAULT (deadline); items that have not begun are
  /// cancelled. Every callback has been called when it returns. Further calls give the same report.
  StopReport stop(StopMode mode, std::chrono::nanoseconds timeout = std::chrono::seconds(60));

  /// After `device_lost`: brings the kernel back on the same ring. Published items are still
  /// there; those that were running run again when their handler is pure, else they are FAULT
  /// (maybe_executed).
  Result<void> recover();

  /// Most items in the ring at one time: one less than it has slots.
  Word capacity() const;
  /// The shared memory the ring and its neighbours lie in, for another process to map.
  int memory_descriptor() const;

  /// The implementation.
  class State;

 private:
  friend class Megakernel;
  explicit Session(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace everkernel
