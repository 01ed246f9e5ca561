// A live session: the kernel stays, programs publish items into queues and follow their tickets.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "everkernel/backend/latency.hpp"
#include "everkernel/backend/live_counters.hpp"
#include "everkernel/base/histogram.hpp"
#include "everkernel/base/result.hpp"
#include "everkernel/ir/verifier.hpp"
#include "everkernel/live/queue.hpp"
#include "everkernel/protocol/ring_writer.hpp"
#include "everkernel/telemetry/evidence.hpp"
#include "everkernel/telemetry/snapshot.hpp"

namespace everkernel {

using abi::Word;

/// How to start a session.
struct SessionOptions {
  Word tenant_count = abi::kTenantCount;  ///< tenants 0 … tenant_count − 1 are enabled
  Word observable_slots = 64;             ///< result words behind the fixed control words
  Word debug_records = 1024;              ///< PRINTF records there is room for
  Word io_slots = 16;                     ///< IO requests at one time
  Word capacity = 1024;                   ///< of the queues that publish() opens; a power of two
  std::uint64_t first_ticket = 0;         ///< of those queues; a multiple of 2 × capacity
  /// Multiprocessors of a GPU that the session takes; 0 = all of them. It has four warps on each,
  /// or a block on every second one if a handler has `scope group`; `worker_count` of the
  /// megakernel may limit them further. The rest of the GPU is left to other kernels. A session on
  /// a CPU must leave it 0.
  Word multiprocessors = 0;
  std::chrono::nanoseconds item_timeout = {};  ///< of those queues, as QueueOptions::item_timeout
  /// How soon a first item begins after the session had nothing to do.
  backend::Latency latency = backend::Latency::normal;
  /// A control buffer to begin with instead (masks, quotas, counters). Without one, the quota of
  /// every tenant but the operator is one less than the workers, at least 1, so that no tenant can
  /// hold them all; on a GPU with workers that serve one priority each it is less by as many.
  std::span<const std::byte> control = {};
};

/// Whose work it is, how urgent, and how long publishing may wait for room.
struct PublishOptions {
  TenantId tenant = {};                   ///< whose item it is
  Priority priority = Priority::normal;   ///< how urgent it is
  std::chrono::nanoseconds timeout = {};  ///< of waiting for room; 0 = do not wait
};

/// The counts of a stopped session.
struct StopReport {
  std::uint64_t done = 0;               ///< items that reached DONE
  std::uint64_t faulted = 0;            ///< items that reached FAULT
  std::uint64_t cancelled = 0;          ///< items that never ran
  std::uint64_t callbacks_dropped = 0;  ///< not called: an earlier callback ran past the deadline
};

/// Totals of a session over all its queues, 64 bits wide.
struct SessionCounters {
  std::uint64_t published = 0;         ///< items accepted
  std::uint64_t noted = 0;             ///< items that have ended and whose places are free again
  std::uint64_t full_waits = 0;        ///< times a publisher found its queue full
  std::uint64_t forgotten_faults = 0;  ///< fault codes dropped before they were asked for
  std::uint64_t failed_callbacks = 0;  ///< callbacks that threw an exception
  backend::LiveCounters kernel = {};   ///< counted by the workers
};

/// An item that a worker runs now. Items that end soon by construction are not listed: built-in
/// operations but MEMCPY, and handlers without loops (a trusted handler declares that it is short).
struct RunningItem {
  Ticket ticket = {};                       ///< which
  TenantId tenant = {};                     ///< whose item it is
  Priority priority = Priority::normal;     ///< how urgent it is
  Word opcode = 0;                          ///< of the item; of a packed slot its own
  std::string name = {};                    ///< of its handler or built-in operation; else empty
  Word worker = 0;                          ///< that runs it; on a GPU a crew
  std::optional<Word> multiprocessor = {};  ///< on a GPU: where it runs
  /// When this run of the item began; `docs/sessions.md` says how exact it is.
  std::chrono::steady_clock::time_point since = {};
  /// Its time is over, or its queue or session ends: it will end at its next turn of a loop. A
  /// trusted handler that does not return stays in the list.
  bool was_told_to_end = false;
};

/// A queue in a snapshot.
struct QueueSnapshot {
  std::uint32_t queue = 0;               ///< as its tickets name it
  TenantId tenant = {};                  ///< whose items they are
  Priority priority = Priority::normal;  ///< how urgent they are
  bool is_enabled = true;                ///< whether the tenant is; without it nothing is taken
  Word quota = 0;                        ///< items of the tenant that may run at one time
  Word capacity = 0;                     ///< places
  std::size_t first_slot = 0;            ///< of its places among the slots of the telemetry
  std::uint64_t waiting = 0;             ///< items that were published and not taken
  std::uint64_t taken = 0;               ///< items that were taken and have not ended
  QueueCounters counters = {};           ///< totals
  /// At least how long ago the oldest item that has not ended was published, to a few milliseconds;
  /// 0 without one. One item in 8 knows its time, of others the next one's counts, or the time
  /// since a snapshot first saw the item; in a queue of another process only the latter.
  std::chrono::milliseconds oldest_age = {};
  /// Times from publishing to the end, of one item in 64, once its end was noted; none in a queue
  /// of another process.
  Histogram published_to_end = {};
  /// Times from taking to the end, of one item in 64; none on a GPU.
  Histogram taken_to_end = {};
};

/// A snapshot of a running session.
struct SessionSnapshot {
  telemetry::RingTelemetry telemetry = {};   ///< control words, and a slot for each place
  std::vector<QueueSnapshot> queues = {};    ///< in the order in which they were opened
  std::vector<RunningItem> running = {};     ///< items that run, the one that began first first
  telemetry::RuntimeEvidence evidence = {};  ///< bytes copied, and times of decoding
  SessionCounters counters = {};             ///< totals, 64 bits wide
  /// Items that reached DONE: a row for each built-in operation and each handler, by opcode.
  std::vector<backend::OpcodeTotal> executions = {};
};

/// A running megakernel. Items go through queues: those that open_queue() gives, and one for each
/// tenant and priority that publish() opens when it first needs it. Items of one queue are taken in
/// order; priorities and tenants decide between queues. Every call is thread-safe unless it says
/// otherwise. Move-only; its destructor cancels items that have not run. It belongs to the process
/// that made it: in a child of fork(), calls fail with `unsupported`, calls that cannot fail return
/// zeros (but memory_descriptor() does not, because a child inherits descriptors), and the
/// destructor does nothing.
class Session {
 public:
  Session(Session&&) noexcept;             ///< takes over
  Session& operator=(Session&&) noexcept;  ///< stops its own, takes over
  /// Stops as stop(cancel, 0) does, but waits up to a minute for a callback that runs.
  ~Session();

  /// Opens a queue of its own for one producer. Fails with `invalid_argument` for options that
  /// cannot be and above 1,024 queues, with `io`, `out_of_memory` and `device_lost`.
  Result<Queue> open_queue(const QueueOptions& options = {});

  /// Publishes one operation with at most 12 arguments into the session's queue of that tenant and
  /// priority. Fails with `invalid_argument` as the wire format says, with `queue_full` when that
  /// queue is full, with `timeout` when it stayed full, and with `device_lost`; then nothing is
  /// published.
  Result<Ticket> publish(const protocol::Operation& item, const PublishOptions& options = {});
  /// Publishes work items, all of them or none; at most capacity() at one time.
  Result<TicketRange> publish_items(std::span<const abi::WorkItem> items,
                                    const PublishOptions& options = {});
  /// Publishes several small operations as one item.
  Result<Ticket> publish_packed(std::span<const protocol::PackedOp> ops,
                                const PublishOptions& options = {});
  /// Publishes operations and a fence behind them; the last ticket is the fence's.
  Result<TicketRange> publish_batch(std::span<const protocol::Operation> items, Word tag,
                                    const PublishOptions& options = {});

  /// Waits until the item has ended. Fails with `timeout`, with `invalid_argument` for a ticket
  /// that is not of this session or whose fault was dropped, and with `device_lost`.
  Result<Completion> wait(Ticket ticket, std::chrono::nanoseconds timeout);
  /// Waits until everything that this process published before the call, into any queue, has ended.
  /// Fails as wait does.
  Result<void> wait_all(std::chrono::nanoseconds timeout);
  /// How the item ended, or nothing while it is on its way. Fails with `invalid_argument` and
  /// `device_lost` as wait does.
  Result<std::optional<Completion>> poll(Ticket ticket);
  /// Calls `callback` once, on a thread of the session, when the item has ended or stop cancelled
  /// it (`cancelled`). After stop it is called at once, on the calling thread. The callback may
  /// publish. An exception that it throws ends in `failed_callbacks` of the counters. Fails with
  /// `invalid_argument` as wait does, and with `out_of_memory` or `unsupported` if the thread
  /// cannot be made; then the callback is not called.
  Result<void> on_complete(Ticket ticket,
                           std::function<void(Ticket, Completion, bool cancelled)> callback);

  /// Enables or disables a tenant. Fails with `invalid_argument` above tenant 28.
  Result<void> set_tenant_enabled(TenantId tenant, bool enabled);
  /// Limits the items of a tenant that run at one time. Fails with `invalid_argument` above
  /// tenant 28.
  Result<void> set_tenant_quota(TenantId tenant, Word quota);

  /// Decodes the session as it stands into `target`, whose storage is reused; counters are exact:
  /// they include every item whose end this thread has seen. One thread at a time.
  Result<void> snapshot(SessionSnapshot& target, std::span<const Word> window_opcodes = {});
  /// Totals, exact in the same way.
  SessionCounters counters();
  /// The items that run now, the one that began first first: what a snapshot has of them, for a
  /// fraction of its cost. Fails with `device_lost`.
  Result<std::vector<RunningItem>> running();
  /// One observable as it stands. Fails with `invalid_argument` past the last.
  Result<Word> observable(Word index) const;
  /// Copies the debug log as it stands.
  void copy_debug_log(std::vector<std::byte>& target) const;

  /// Calls `act` on the calling thread while the session's kernel is not on the GPU, and launches
  /// the kernel again. Inside, driver calls that wait for the whole device return (docs/cuda.md
  /// lists them), unless another session or kernel runs there. Publishing, waiting and every other
  /// call of the session stay allowed, also inside `act`; but nothing runs before it has returned.
  /// Items that yielded or wait stay where they are. Memory that waited for the kernel's end, such
  /// as that of closed queues, is freed. An exception of `act` comes out of this call, and the
  /// kernel is launched all the same. If the session is stopped meanwhile, the kernel is not
  /// launched again.
  ///
  /// On a CPU, workers hold up no call of a device: `act` is just called, and items run on.
  ///
  /// Fails with `timeout` if items still run at the end of the timeout, or another thread has the
  /// session parked; with `invalid_argument` inside another parked() of the session, after stop()
  /// and SHUTDOWN; and with `device_lost`. Then `act` was not called, and unless the device was
  /// lost the session goes on; but if the kernel cannot be launched again, the error of the driver
  /// comes after `act` was called, and the session has to be stopped.
  Result<void> parked(const std::function<void()>& act,
                      std::chrono::nanoseconds timeout = std::chrono::seconds(60));

  /// Replaces the handlers of the session, but not those of its megakernel. Items that were
  /// published before the call run the handlers there were, items that are published after it has
  /// returned run those of the program, and no item runs by both. Trusted handlers and all options
  /// of the megakernel stay. Publishing goes on: what is published during the call runs when the
  /// handlers were replaced, or a bit before. An item whose opcode the program does not have is
  /// FAULT (unknown_opcode).
  ///
  /// The program is compiled first, beside the items. Then the call waits until everything that was
  /// published before has ended. Fails with `timeout` if that takes too long, and the message names
  /// the first item that held it up, and why; with `invalid_argument` for a program that does not
  /// compile or lacks the payload, inside parked(), after stop() and SHUTDOWN; with
  /// `out_of_memory`, `unsupported` and `device_lost`. Then the handlers are those that were there,
  /// and the session goes on.
  Result<void> replace_handlers(const ir::VerifiedProgram& program,
                                std::chrono::nanoseconds timeout = std::chrono::seconds(60));

  /// Stops the kernel. With drain it waits for every item, with cancel for those that run, at most
  /// `timeout`. Items that still run then become FAULT (deadline); items that have not begun are
  /// cancelled. Every callback has returned when it returns. If one runs half a second past the
  /// timeout, the callbacks behind it are dropped and counted, and what it refers to must outlive
  /// it. A stop() inside a callback does not wait for callbacks. A trusted handler that does not
  /// return holds stop() up, because nothing can end it. A stop() or recover() of another thread is
  /// asked to end when this one has to; if it does not within half a second, stop() returns the
  /// counts so far, and items that have not run are cancelled by the next stop() or the destructor.
  /// Further calls give the same report.
  StopReport stop(StopMode mode, std::chrono::nanoseconds timeout = std::chrono::seconds(60));

  /// After `device_lost`: brings the kernel back on the same queues. Published items are still
  /// there; those that were running run again when their handler is pure, else they are FAULT
  /// (maybe_executed). Does nothing if the device was not lost. Fails as Megakernel::recover does;
  /// a lost GPU does not come back in the same process.
  Result<void> recover(std::chrono::nanoseconds timeout = std::chrono::seconds(60));

  /// Most items at one time in each queue that publish() opens.
  Word capacity() const;
  /// The shared memory of the control words, the debug log and the IO queue, for another process to
  /// map. On a GPU they are as of the last counters(), snapshot() or change of a tenant.
  int memory_descriptor() const;

  /// The implementation.
  class State;

 private:
  friend class Megakernel;
  explicit Session(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

}  // namespace everkernel
