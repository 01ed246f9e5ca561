// One queue in a process: publishing, waiting, following, closing. Queue is a handle to it.
//
// In the process of the session, which holds it too, it has the kernel's half as well. There it may
// be given to another process: then it only closes and counts. In that other process it has the
// producer's half alone.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>

#include "base/process.hpp"
#include "everkernel/backend/detail/live.hpp"
#include "everkernel/live/queue.hpp"
#include "everkernel/protocol/queue.hpp"
#include "live/host.hpp"
#include "live/notes.hpp"
#include "live/publish_times.hpp"
#include "live/queue_memory.hpp"
#include "live/remote_kernel.hpp"

namespace everkernel::live {

class Callbacks;

/// Fails with `invalid_argument` for a negative timeout.
Result<void> check_item_timeout(std::chrono::nanoseconds timeout);

/// A queue and its producer's half.
class QueueCore : public std::enable_shared_from_this<QueueCore> {
 public:
  /// Makes the memory of a queue. Fails with `invalid_argument`, `io` and `out_of_memory`.
  static Result<std::shared_ptr<QueueCore>> create(std::weak_ptr<Host> host,
                                                   std::shared_ptr<backend::Doorbell> doorbell,
                                                   const QueueOptions& options,
                                                   std::uint8_t own_index);
  /// The producer's half of a queue that another process gave away. Fails as attach_queue() does.
  static Result<std::shared_ptr<QueueCore>> attach(int descriptor);
  /// Use create().
  QueueCore(std::weak_ptr<Host> host, std::shared_ptr<backend::Doorbell> doorbell,
            const QueueOptions& options, std::uint8_t own_index,
            std::shared_ptr<const QueueMemory> memory);
  /// Use attach().
  QueueCore(std::unique_ptr<RemoteKernel> remote, const QueueOptions& options,
            std::shared_ptr<const QueueMemory> memory);

  /// As Queue::descriptor.
  Result<Descriptor> give_away();
  /// Whether another process publishes into it.
  bool is_given() const { return is_given_.load(std::memory_order_relaxed); }

  // ---- publishing ----

  /// As Queue::publish.
  Result<Ticket> publish(const protocol::Operation& item, std::chrono::nanoseconds timeout) {
    if (is_publishable(item) && is_ours()) [[likely]] {
      if (const auto first = try_reserve(1)) [[likely]] {
        times_.stamp(*first, 1);
        words_.store(*first, item, sender_);
        end_publish(*first + 1);
        return ticket_of(*first);
      }
    }
    return publish_slowly(item, timeout);
  }
  /// As Queue::publish_items.
  Result<TicketRange> publish_items(std::span<const abi::WorkItem> items,
                                    std::chrono::nanoseconds timeout);
  /// As Queue::publish_packed.
  Result<Ticket> publish_packed(std::span<const protocol::PackedOp> ops,
                                std::chrono::nanoseconds timeout);
  /// As Queue::publish_batch.
  Result<TicketRange> publish_batch(std::span<const protocol::Operation> items, Word tag,
                                    std::chrono::nanoseconds timeout);

  // ---- following ----

  /// As Queue::wait. A caller that keeps the session alive passes it: else the wait has to.
  Result<Completion> wait(Ticket ticket, std::chrono::nanoseconds timeout, Host* session = nullptr);
  /// As Queue::wait_all.
  Result<void> wait_all(std::chrono::nanoseconds timeout,
                        const std::atomic<bool>* must_hurry = nullptr);
  /// As Queue::poll.
  Result<std::optional<Completion>> poll(Ticket ticket);
  /// Fails with `invalid_argument` unless the ticket is one of this queue.
  Result<std::uint64_t> number_of(Ticket ticket) const;
  /// Whether a ticket of this queue has ended or was cancelled.
  bool has_ended(LongWord number) const {
    return notes_.has_ended(number) || is_closed_.load(std::memory_order_acquire);
  }
  /// How a ticket that has ended did; fails if it was cancelled or forgotten.
  Result<Completion> outcome(LongWord number);
  /// The same without the text of an error, for a caller without memory.
  Notes::Outcome find(LongWord number) { return notes_.find(number); }
  /// As Queue::on_complete.
  Result<void> call_back(Ticket ticket, std::function<void(Ticket, Completion, bool)> callback);
  /// Keeps the outcome of a ticket until unfollow(). Fails as wait does if it is no longer kept.
  Result<void> follow(LongWord number);
  /// Ends one follow().
  void unfollow(LongWord number) { notes_.unfollow(number); }

  // ---- ending ----

  /// As Queue::close, with a point in time; gives the number of cancelled items. Callbacks of an
  /// attached queue may run on until `callback_timeout` is over, or the deadline if that is later.
  std::uint64_t close(StopMode mode, backend::Clock::time_point deadline,
                      std::chrono::nanoseconds callback_timeout);
  /// Refuses new items from now on.
  void begin_drain();
  /// Waits until everything published has ended, at most until the deadline; a flag that is not
  /// null may end the wait early.
  void drain_until(backend::Clock::time_point deadline, const std::atomic<bool>* must_hurry);
  /// Ends the queue, whose items no worker touches any more: what has no outcome is cancelled.
  /// Gives the number of cancelled items, 0 in further calls.
  std::uint64_t finish();
  /// The session of this queue is gone.
  bool is_closed() const { return is_closed_.load(std::memory_order_acquire); }

  // ---- other handlers ----

  /// Lets workers take nothing but what was reserved by now; see LiveKernel::settle.
  void set_limit();
  /// Lets them take everything again.
  void lift_limit();
  /// After LiveKernel::settle: the first ticket that was taken, or reserved before set_limit(), and
  /// has not ended. Nothing if there is none, or only holes that the producer process left behind
  /// when it went.
  std::optional<LongWord> first_open() const;

  /// Whether another process runs the kernel.
  bool is_attached() const { return remote_ != nullptr; }
  /// Whether it is attached and nothing will end in it any more. Look for outcomes behind it.
  bool is_abandoned() const { return is_attached() && remote_->has_ended(words_); }
  /// Sleeps until something ended in an attached queue, until `rings` is no longer `prepared`, or
  /// for `timeout`. Looks once more before.
  void sleep_beside(const std::atomic<std::uint32_t>& rings, std::uint32_t prepared,
                    const std::function<bool()>& is_met, std::chrono::nanoseconds timeout) {
    remote_->sleep_beside(rings, prepared, words_, is_met, timeout);
  }
  /// The kernel's half.
  const std::shared_ptr<backend::LiveQueue>& live() const { return live_; }
  /// How it was opened.
  const QueueOptions& options() const { return options_; }
  /// Names it in tickets.
  std::uint32_t id() const { return id_; }
  /// Totals.
  QueueCounters counters() const;
  /// Fails with `unsupported` in another process.
  Result<void> check_home() const { return home_.check("queue"); }
  /// Whether this is the process that made it.
  bool is_here() const { return home_.is_here(); }
  /// The session, null once it is gone.
  std::shared_ptr<Host> host() const { return host_.lock(); }
  /// Times of its items; of a queue that was given away there are none.
  const PublishTimes& times() const { return times_; }
  /// Bytes of its files.
  std::size_t memory_bytes() const { return memory_->size_bytes(); }
  /// The code of a ticket that ended as FAULT, if it is still in the queue.
  std::optional<Word> fault_code(LongWord ticket) const { return words_.fault_code(ticket); }

  /// The id of a queue modulo this number is its index among the session's own queues, or kNotOwn.
  static constexpr std::uint32_t kOwnIndices = 256;
  /// Index of a queue that is not one of the session's own.
  static constexpr std::uint8_t kNotOwn = 255;

 private:
  // Whether this process publishes into it.
  bool is_ours() const { return home_.is_here() && !is_given(); }
  Result<void> check_ours() const;
  Failure no_longer_kept(LongWord number) const;
  bool is_publishable(const protocol::Operation& item) const {
    return protocol::is_publishable(item, sender_) &&
           (!words_.is_compact() || protocol::is_compact(item));
  }
  std::optional<LongWord> try_reserve(LongWord count) {
    if (words_.state() != abi::QueueState::open) return std::nullopt;
    LongWord tail = words_.tail();
    do {
      if (tail + count > notes_.noted() + words_.capacity()) return std::nullopt;
    } while (!words_.move_tail(tail, tail + count));
    return tail;
  }
  void end_publish(LongWord end) {
    words_.raise_filled(end);
    bell_->announce();
  }
  Ticket ticket_of(LongWord number) const { return {number, id_}; }

  // Whether a ticket of this process is one of this queue.
  bool is_given_out(Ticket ticket) const {
    return ticket.queue == id_ && ticket.number >= words_.first_ticket() &&
           ticket.number < words_.tail();
  }

  Result<void> check_form(const protocol::Operation& item) const;
  Result<void> check_item(const protocol::Operation& item) const;
  Result<void> check_count(std::size_t count) const;
  Result<Ticket> publish_slowly(const protocol::Operation& item, std::chrono::nanoseconds timeout);
  Result<LongWord> reserve(LongWord count, std::chrono::nanoseconds timeout);
  Result<LongWord> reserve_in_time(LongWord count, std::chrono::nanoseconds timeout);
  Result<void> wait_for_room(LongWord count, std::chrono::nanoseconds timeout,
                             backend::Clock::time_point deadline);
  Result<void> check_accepting() const;
  Result<void> check_running() const;
  Word help() const;
  template <class IsMet, class Describe>
  Result<void> await(const IsMet& is_met, std::chrono::nanoseconds timeout,
                     const Describe& describe, Host* session = nullptr,
                     LongWord awaited = backend::LiveKernel::kNoTicket);
  std::string stuck_text() const;
  void sleep(const std::function<bool()>& is_met, backend::Clock::time_point deadline);
  void sleep_on_workers(const std::function<bool()>& is_met, backend::Clock::time_point deadline);
  void close_attached(StopMode mode, backend::Clock::time_point deadline,
                      std::chrono::nanoseconds callback_timeout);
  void drain_given(backend::Clock::time_point deadline, const std::atomic<bool>* must_hurry);

  HomeProcess home_;
  const std::uint32_t id_;
  const std::weak_ptr<Host> host_;                     // none in a client
  const std::shared_ptr<backend::Doorbell> doorbell_;  // null in a client
  const std::unique_ptr<RemoteKernel> remote_;         // null in the session's process
  const std::shared_ptr<Callbacks> callbacks_;         // null in the session's process
  const std::shared_ptr<backend::Bell> bell_;
  const QueueOptions options_;
  const protocol::Sender sender_;
  const std::shared_ptr<const QueueMemory> memory_;
  const protocol::QueueProducer words_;
  const std::shared_ptr<backend::LiveQueue> live_;  // null in a client
  PublishTimes times_;
  Notes notes_;
  std::atomic<bool> is_given_{false};
  std::atomic<std::uint64_t> full_waits_{0};
  std::atomic<bool> is_closed_{false};
  std::mutex close_mutex_;   // one close() at a time
  std::mutex finish_mutex_;  // held briefly: a stop of the session finishes the queue too
};

}  // namespace everkernel::live
