// The producer's half of a queue.
//
// The path of a ticket: a publisher reserves it by moving the tail, fills its entry and rings if a
// worker sleeps; a worker runs it and stores its outcome; a host thread notes the outcome, in order
// of tickets, whenever it needs room or waits. A place is given out again when it is noted.
#include "live/queue_core.hpp"

#include <fmt/format.h>

#include <unistd.h>

extern "C" {  // the header of glibc 2.36 does not say so itself
#include <sys/pidfd.h>
}

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

#include "backend/futex.hpp"
#include "base/spin.hpp"
#include "everkernel/base/detail/fence.hpp"
#include "everkernel/base/duration_text.hpp"
#include "everkernel/protocol/packed.hpp"
#include "live/callbacks.hpp"
#include "live/handover.hpp"

namespace everkernel::live {
namespace {

using backend::Clock;
using backend::deadline_after;
using protocol::Operation;

// Polls of a waiting thread: first it only pauses, then it yields its core, then it sleeps.
constexpr int kPausePolls = 1000;
constexpr int kYieldPolls = 20;
// Polls of a thread that waits for one item between two looks for items that it could run itself.
constexpr int kPollsBeforeHelp = 8;
// Polls before a thread that waits for an item that it cannot run itself helps with others.
constexpr int kPollsBeforeAnyHelp = 64;
// Items that a waiting thread runs itself between two readings of the clock.
constexpr Word kHelpBetweenLooks = 256;
// The error of a wait at least this long says what runs; looking takes a while.
constexpr auto kLongWait = std::chrono::milliseconds(100);
// A sleeping host thread wakes up this often to check the kernel's health.
constexpr auto kHealthInterval = std::chrono::milliseconds(50);
// A thread that was woken for nothing naps before it asks to be woken again: in a busy queue,
// workers would wake it after every batch.
constexpr auto kNap = std::chrono::microseconds(100);
// A publisher that other publishers overtake again and again gives up after this time, if its
// timeout is shorter.
constexpr auto kContentionTimeout = std::chrono::seconds(1);
// Interval at which a drain looks at a queue that was given away: nobody tells this process what
// the other one does.
constexpr auto kDrainLook = std::chrono::microseconds(200);

// Names a queue in its tickets. Only after 2^24 queues of one process a name comes again.
std::uint32_t next_id(std::uint8_t own_index) {
  static std::atomic<std::uint32_t> queues{0};
  const std::uint32_t number = queues.fetch_add(1, std::memory_order_relaxed) + 1;
  return number * QueueCore::kOwnIndices + own_index;
}

// Noting right behind the workers moves cache lines between two cores one at a time. A waiting
// thread therefore looks at a ticket far ahead and notes many at once; only on every 64th poll does
// it note all that have ended by then.
class Patience {
 public:
  bool is_over() { return ++polls_ % kPolls == 0; }

 private:
  static constexpr int kPolls = 64;
  int polls_ = 0;
};

// Whether an item needs no further look: a handler's, or a built-in operation with at most three
// arguments.
bool is_plain(const abi::WorkItem& item) {
  const Word opcode = item.op_handle;
  return opcode <= static_cast<Word>(abi::Opcode::memcpy) ||
         (opcode >= abi::kFirstFreeOpcode && !abi::is_reserved_opcode(opcode));
}

// Whether all items are plain. No number is above the union of all of them, and without both bits
// of kOthers none is one of the low built-in operations that are not plain: one instruction for
// each of the many items of a call.
bool are_plain(std::span<const abi::WorkItem> items) {
  constexpr Word kOthers =
      static_cast<Word>(abi::Opcode::dfa_step) & static_cast<Word>(abi::Opcode::batch_fence);
  static_assert(static_cast<Word>(abi::Opcode::memcpy) == kOthers - 1 &&
                kOthers == abi::kFirstFreeOpcode - 2);
  Word all = 0;
  for (const abi::WorkItem& item : items) all |= item.op_handle;
  if (all < abi::kFirstReservedOpcode && (all & kOthers) != kOthers) return true;
  return std::ranges::all_of(items, is_plain);
}

protocol::QueueShape shape_of(const QueueOptions& options) {
  return {.entries = options.entries,
          .capacity = options.capacity,
          .has_results = options.results,
          .first_ticket = options.first_ticket};
}

Failure not_handed_over(std::string_view call) {
  return fail(Code::io, fmt::format("queue: {}: {}", call, std::strerror(errno)),
              "raise the limit of open files (ulimit -n)", errno);
}

}  // namespace

Result<void> check_item_timeout(std::chrono::nanoseconds timeout) {
  if (timeout.count() >= 0) return {};
  return fail(Code::invalid_argument, fmt::format("queue: item_timeout is {} ns", timeout.count()),
              "give a positive time, or 0 for no limit");
}

Result<std::shared_ptr<QueueCore>> QueueCore::create(std::weak_ptr<Host> host,
                                                     std::shared_ptr<backend::Doorbell> doorbell,
                                                     const QueueOptions& options,
                                                     std::uint8_t own_index) {
  EVERKERNEL_TRY(
      protocol::check_operation({}, {options.tenant.number, static_cast<Word>(options.priority)}));
  EVERKERNEL_TRY(check_item_timeout(options.item_timeout));
  auto memory = EVERKERNEL_TRY(QueueMemory::create(shape_of(options)));
  return std::make_shared<QueueCore>(std::move(host), std::move(doorbell), options, own_index,
                                     std::move(memory));
}

QueueCore::QueueCore(std::weak_ptr<Host> host, std::shared_ptr<backend::Doorbell> doorbell,
                     const QueueOptions& options, std::uint8_t own_index,
                     std::shared_ptr<const QueueMemory> memory)
    : id_(next_id(own_index)),
      host_(std::move(host)),
      doorbell_(std::move(doorbell)),
      bell_(doorbell_),
      options_(options),
      sender_{options.tenant.number, static_cast<Word>(options.priority)},
      memory_(std::move(memory)),
      words_(memory_->producer()),
      live_(std::make_shared<backend::LiveQueue>(
          memory_->kernel(),
          backend::LiveQueue::Rights{.tenant = sender_.tenant,
                                     .priority = sender_.priority,
                                     .item_timeout = options.item_timeout},
          memory_)),
      times_(words_.capacity(), live_.get()),
      notes_(words_, times_) {}

// ---- in two processes ----

Result<std::shared_ptr<QueueCore>> QueueCore::attach(int descriptor) {
  Handover received = EVERKERNEL_TRY(receive(descriptor));
  auto memory = EVERKERNEL_TRY(
      QueueMemory::attach(std::move(received.producer_file), std::move(received.kernel_file)));
  auto remote = EVERKERNEL_TRY(RemoteKernel::create(received));
  const abi::QueueHeader& header = memory->header();
  if (memory->producer().tail() != header.first_ticket) {
    return fail(Code::invalid_argument, "queue: another process has published into it",
                "ask for another queue");
  }
  const QueueOptions options{.tenant = received.tenant,
                             .priority = received.priority,
                             .capacity = header.capacity,
                             .entries = abi::EntryFormat{header.entry_bytes},
                             .results = header.outcome_bytes != 1,
                             .first_ticket = header.first_ticket};
  auto core = std::make_shared<QueueCore>(std::move(remote), options, std::move(memory));
  EVERKERNEL_TRY(take(descriptor));  // last: what fails before can be tried again
  return core;
}

QueueCore::QueueCore(std::unique_ptr<RemoteKernel> remote, const QueueOptions& options,
                     std::shared_ptr<const QueueMemory> memory)
    : id_(next_id(kNotOwn)),
      remote_(std::move(remote)),
      callbacks_(std::make_shared<Callbacks>()),
      bell_(remote_->bell()),
      options_(options),
      sender_{options.tenant.number, static_cast<Word>(options.priority)},
      memory_(std::move(memory)),
      words_(memory_->producer()),
      times_(words_.capacity(), live_.get()),
      notes_(words_, times_) {}

Result<Descriptor> QueueCore::give_away() {
  EVERKERNEL_TRY(check_home());
  const std::scoped_lock held(close_mutex_);
  if (live_ == nullptr || is_given() || is_closed() || words_.tail() != words_.first_ticket()) {
    return fail(Code::invalid_argument, "queue: it cannot be given to another process any more",
                "open a queue, and ask for its descriptor once, before anything is published");
  }
  Handover handover{.tenant = options_.tenant, .priority = options_.priority};
  handover.producer_file = EVERKERNEL_TRY(memory_->open_for_client());
  handover.kernel_file = Descriptor::copy_of(memory_->kernel_file());
  handover.armed_file = Descriptor::copy_of(doorbell_->armed_descriptor());
  handover.kernel_process = Descriptor(::pidfd_open(::getpid(), 0));
  if (!handover.kernel_process.is_open()) return not_handed_over("pidfd_open");
  if (!handover.kernel_file.is_open() || !handover.armed_file.is_open()) {
    return not_handed_over("fcntl");
  }
  handover.bell = Descriptor::copy_of(EVERKERNEL_TRY(doorbell_->add_client(live_)));
  auto sent = handover.bell.is_open() ? send(handover) : not_handed_over("fcntl");
  if (!sent) {
    doorbell_->remove_client(*live_);
    return Failure(sent.error());
  }
  is_given_.store(true, std::memory_order_relaxed);
  live_->is_given.store(true, std::memory_order_relaxed);
  return sent;
}

Result<void> QueueCore::check_ours() const {
  EVERKERNEL_TRY(check_home());
  if (!is_given()) return {};
  return fail(Code::invalid_argument, "queue: it was given to another process",
              "publish and wait in that process, or open another queue");
}

// ---- publishing ----

Result<void> QueueCore::check_form(const Operation& item) const {
  return words_.is_compact() ? protocol::check_compact(item) : Result<void>();
}

Result<void> QueueCore::check_item(const Operation& item) const {
  EVERKERNEL_TRY(protocol::check_operation(item, sender_));
  return check_form(item);
}

Result<void> QueueCore::check_count(std::size_t count) const {
  if (count <= words_.capacity()) return {};
  return fail(
      Code::invalid_argument,
      fmt::format("queue: {} items at one time, its capacity is {}", count, words_.capacity()),
      "publish in smaller parts, or open a queue with a larger capacity");
}

// Publishes an item that publish() could not: reports its mistake, or waits for room.
Result<Ticket> QueueCore::publish_slowly(const Operation& item, std::chrono::nanoseconds timeout) {
  EVERKERNEL_TRY(check_ours());
  EVERKERNEL_TRY(check_item(item));
  const LongWord first = EVERKERNEL_TRY(reserve(1, timeout));
  words_.store(first, item, sender_);
  end_publish(first + 1);
  return ticket_of(first);
}

Result<TicketRange> QueueCore::publish_items(std::span<const abi::WorkItem> items,
                                             std::chrono::nanoseconds timeout) {
  EVERKERNEL_TRY(check_ours());
  if (!are_plain(items)) {
    EVERKERNEL_TRY(protocol::check_items(items, sender_));
    for (const abi::WorkItem& item : items) EVERKERNEL_TRY(check_form({item.op_handle}));
  }
  EVERKERNEL_TRY(check_count(items.size()));
  if (items.empty()) return TicketRange{ticket_of(words_.tail()), 0};
  const LongWord first = EVERKERNEL_TRY(reserve(items.size(), timeout));
  words_.store_items(first, items, sender_);
  end_publish(first + items.size());
  return TicketRange{ticket_of(first), static_cast<Word>(items.size())};
}

Result<Ticket> QueueCore::publish_packed(std::span<const protocol::PackedOp> ops,
                                         std::chrono::nanoseconds timeout) {
  const auto args = EVERKERNEL_TRY(protocol::pack(ops));
  return publish({static_cast<Word>(abi::Opcode::packed_slot), args}, timeout);
}

Result<TicketRange> QueueCore::publish_batch(std::span<const Operation> items, Word tag,
                                             std::chrono::nanoseconds timeout) {
  EVERKERNEL_TRY(check_ours());
  for (std::size_t i = 0; i < items.size(); ++i) {
    auto checked = check_item(items[i]);
    if (checked) continue;
    checked.error().message += fmt::format(" (item {})", i);
    return Failure(checked.error());
  }
  EVERKERNEL_TRY(check_count(items.size() + 1));
  const auto count = static_cast<Word>(items.size());
  const LongWord first = EVERKERNEL_TRY(reserve(LongWord{count} + 1, timeout));
  for (Word i = 0; i < count; ++i) words_.store(first + i, items[i], sender_);
  const std::array<Word, 2> fence_args{count, tag};
  words_.store(first + count, {static_cast<Word>(abi::Opcode::batch_fence), fence_args}, sender_);
  end_publish(first + count + 1);
  return TicketRange{ticket_of(first), count + 1};
}

// Reserves tickets, whose entries are to be stored next.
Result<LongWord> QueueCore::reserve(LongWord count, std::chrono::nanoseconds timeout) {
  const LongWord first = EVERKERNEL_TRY(reserve_in_time(count, timeout));
  times_.stamp(first, count);
  return first;
}

Result<LongWord> QueueCore::reserve_in_time(LongWord count, std::chrono::nanoseconds timeout) {
  if (const auto first = try_reserve(count)) [[likely]]
    return *first;
  const auto deadline = deadline_after(timeout);
  const auto last_try = std::max(deadline, deadline_after(kContentionTimeout));
  do {
    EVERKERNEL_TRY(wait_for_room(count, timeout, deadline));
    if (const auto first = try_reserve(count)) return *first;
  } while (Clock::now() < last_try);
  return fail(
      Code::queue_full,
      fmt::format("queue: other publishers took the room for {} items again and again", count),
      "give a longer `timeout`, or open a queue with a larger capacity");
}

// Returns when there is room for `count` items, or fails.
Result<void> QueueCore::wait_for_room(LongWord count, std::chrono::nanoseconds timeout,
                                      Clock::time_point deadline) {
  Patience patience;
  const auto has_room = [&](bool is_exact) {
    const LongWord tail = words_.tail();
    const LongWord far = std::min(notes_.noted() + words_.capacity() / 2, tail - 1);
    if (is_exact || notes_.has_ended(far) || patience.is_over()) notes_.advance(tail);
    if (tail + count <= notes_.noted() + words_.capacity()) return true;
    return is_exact && !check_accepting();  // then nobody makes room any more
  };
  EVERKERNEL_TRY(check_accepting());
  notes_.advance(words_.tail());
  if (has_room(true)) return check_accepting();
  full_waits_.fetch_add(1, std::memory_order_relaxed);
  if (timeout <= std::chrono::nanoseconds(0)) {
    return fail(Code::queue_full,
                fmt::format("queue: no room for {} items: {} of {} places are in use", count,
                            words_.tail() - notes_.noted(), words_.capacity()),
                "wait for earlier items, or give a `timeout`");
  }
  EVERKERNEL_TRY(await(has_room, deadline - Clock::now(),
                       [&] { return fmt::format("no room for {} items", count); }));
  return check_accepting();
}

// Fails if no kernel will run what is published now.
Result<void> QueueCore::check_accepting() const {
  EVERKERNEL_TRY(check_running());
  if (words_.state() == abi::QueueState::open) return {};
  return fail(Code::invalid_argument, "queue is closed", "open another queue");
}

Result<void> QueueCore::check_running() const {
  if (remote_ != nullptr) return remote_->check_running(words_);
  const auto session = host();
  if (session != nullptr) return session->check_running();
  return fail(Code::invalid_argument, "queue: its session has ended", "start a new session");
}

Word QueueCore::help() const {
  const auto session = host();
  return session == nullptr ? 0 : session->help(*live_, backend::LiveKernel::kNoTicket);
}

// ---- following ----

Result<std::uint64_t> QueueCore::number_of(Ticket ticket) const {
  if (!is_ours()) [[unlikely]]
    EVERKERNEL_TRY(check_ours());
  if (is_given_out(ticket)) return ticket.number;
  return fail(Code::invalid_argument,
              ticket.queue == id_
                  ? fmt::format("queue: ticket {} was not given out", ticket.number)
                  : fmt::format("queue: ticket {} belongs to queue {}, this is queue {}",
                                ticket.number, ticket.queue, id_),
              "ask the queue that published the item");
}

Failure QueueCore::no_longer_kept(LongWord number) const {
  return fail(Code::invalid_argument,
              fmt::format("queue: the outcome of ticket {} is no longer kept", number),
              options_.results ? "ask before as many later items were noted as the queue has places"
                               : "ask before a million later items have faulted");
}

Result<void> QueueCore::follow(LongWord number) {
  if (notes_.follow(number)) return {};
  return no_longer_kept(number);
}

Result<Completion> QueueCore::outcome(LongWord number) {
  const Notes::Outcome found = notes_.find(number);
  if (found.is_forgotten) return no_longer_kept(number);
  if (found.has_ended && !found.was_cancelled) return found.completion;
  return fail(Code::invalid_argument, fmt::format("queue was closed before item {} ran", number),
              "publish the item again, into another queue");
}

Result<Completion> QueueCore::wait(Ticket ticket, std::chrono::nanoseconds timeout, Host* session) {
  const LongWord number = ticket.number;
  if (!is_ours() || !is_given_out(ticket)) [[unlikely]]
    EVERKERNEL_TRY(number_of(ticket));
  if (session != nullptr && !has_ended(number)) session->help(*live_, number);
  // Most items end well, and many of them here.
  if (notes_.is_plainly_done(number)) [[likely]]
    return Completion{};
  EVERKERNEL_TRY(await([&](bool) { return has_ended(number); }, timeout,
                       [&] { return fmt::format("ticket {} has not ended", number); }, session,
                       number));
  return outcome(number);
}

Result<void> QueueCore::wait_all(std::chrono::nanoseconds timeout,
                                 const std::atomic<bool>* must_hurry) {
  EVERKERNEL_TRY(check_ours());
  const LongWord target = words_.tail();
  Patience patience;
  EVERKERNEL_TRY(await(
      [&](bool is_exact) {
        if (notes_.noted() >= target) return true;
        if (must_hurry != nullptr && must_hurry->load(std::memory_order_relaxed)) return true;
        if (is_exact || has_ended(target - 1) || patience.is_over()) notes_.advance(target);
        return notes_.noted() >= target || is_closed();
      },
      timeout, [&] { return fmt::format("{} items have not ended", target - notes_.noted()); }));
  // A ticket that was reserved while the queue was closed may lie behind all that were noted.
  if (notes_.noted() >= target && notes_.first_cancelled() >= target) return {};
  return fail(Code::invalid_argument, "queue was closed before all items ran",
              "publish the items that are left into another queue");
}

Result<std::optional<Completion>> QueueCore::poll(Ticket ticket) {
  const LongWord number = EVERKERNEL_TRY(number_of(ticket));
  if (!has_ended(number) && (help() == 0 || !has_ended(number))) {
    EVERKERNEL_TRY(check_running());
    return std::optional<Completion>();
  }
  const Completion completion = EVERKERNEL_TRY(outcome(number));
  return std::optional<Completion>(completion);
}

Result<void> QueueCore::call_back(Ticket ticket,
                                  std::function<void(Ticket, Completion, bool)> callback) {
  EVERKERNEL_TRY(number_of(ticket));
  try {
    if (is_attached()) return callbacks_->add(shared_from_this(), ticket, std::move(callback));
    const auto session = host();
    if (session == nullptr) {
      return fail(Code::invalid_argument, "queue: its session has ended", "start a new session");
    }
    return session->call_back(shared_from_this(), ticket, std::move(callback));
  } catch (const std::bad_alloc&) {
    return fail(Code::out_of_memory, "queue: no memory for a callback");
  }
}

template <class IsMet, class Describe>
Result<void> QueueCore::await(const IsMet& is_met, std::chrono::nanoseconds timeout,
                              const Describe& describe, Host* session, LongWord awaited) {
  if (is_met(false)) return {};
  std::optional<Clock::time_point> deadline;  // most waits are over before they need a clock
  {
    std::shared_ptr<Host> held;  // two atomic additions, a tenth of a short wait
    if (session == nullptr) {
      held = host();
      session = held.get();
    }
    Word helped = 0;
    for (int polls = 0; polls < kPausePolls;) {
      if (polls >= kPollsBeforeAnyHelp) awaited = backend::LiveKernel::kNoTicket;
      const Word count = session == nullptr ? 0 : session->help(*live_, awaited);
      if (is_met(false)) return {};
      helped += count;
      if (count == 0) {
        const bool can_help = awaited == backend::LiveKernel::kNoTicket;
        for (int i = 0; i < (can_help ? 1 : kPollsBeforeHelp); ++i, ++polls) {
          spin_pause();
          if (is_met(false)) return {};
        }
        ++polls;  // helping takes longer than a poll
      } else if (helped >= kHelpBetweenLooks) {
        if (!deadline) deadline = deadline_after(timeout);
        if (Clock::now() >= *deadline) break;
        helped = 0;
      }
    }
  }
  if (!deadline) deadline = deadline_after(timeout);
  // From here on a check may be the last before a long sleep, so it must find every ended item.
  for (int polls = 0;; ++polls) {
    if (polls < kYieldPolls) {
      std::this_thread::yield();
    } else {
      sleep([&] { return is_met(true); }, std::min(*deadline, Clock::now() + kHealthInterval));
    }
    if (is_met(true)) return {};
    if (Clock::now() >= *deadline) {
      return fail(Code::timeout,
                  fmt::format("queue: {} within {}{}", describe(), duration_text(timeout),
                              timeout < kLongWait ? std::string() : stuck_text()),
                  "raise the timeout, or take a snapshot to see which items are stuck");
    }
    if (const auto running = check_running(); !running) {
      if (is_met(true)) return {};
      auto error = running.error();
      error.message += fmt::format("; {}", describe());
      return Failure(std::move(error));
    }
  }
}

// The item of this queue that has run longest, as the end of a message.
std::string QueueCore::stuck_text() const {
  const auto session = live_ == nullptr ? nullptr : host();
  const std::string text = session == nullptr ? std::string() : session->running_text(*live_);
  return text.empty() ? text : "; " + text;
}

// Sleeps until a worker has ended something in this queue, or until the deadline.
void QueueCore::sleep(const std::function<bool()>& is_met, Clock::time_point deadline) {
  if (remote_ != nullptr) {
    remote_->sleep(words_, is_met, deadline);
  } else {
    sleep_on_workers(is_met, deadline);
  }
  if (!is_met() && Clock::now() < deadline) std::this_thread::sleep_for(kNap);
}

void QueueCore::sleep_on_workers(const std::function<bool()>& is_met, Clock::time_point deadline) {
  const std::uint32_t before = live_->wakes.load(std::memory_order_acquire);
  live_->sleepers.fetch_add(1, std::memory_order_seq_cst);
  fence::heavy();
  if (const auto session = host()) session->expect_sleeper();
  if (!is_met()) backend::futex::wait(live_->wakes, before, deadline - Clock::now());
  live_->sleepers.fetch_sub(1, std::memory_order_relaxed);
}

// ---- ending ----

void QueueCore::begin_drain() {
  if (words_.state() == abi::QueueState::open) live_->words.set_state(abi::QueueState::draining);
}

// What is left at the deadline is cancelled, so that the error of waiting says nothing new; there
// may be no memory for its message.
void QueueCore::drain_until(Clock::time_point deadline, const std::atomic<bool>* must_hurry) {
  if (is_given()) return drain_given(deadline, must_hurry);
  try {
    static_cast<void>(wait_all(deadline - Clock::now(), must_hurry));
  } catch (const std::bad_alloc&) {
  }
}

// What the other process has published is what lies at the head, and no word of it says more: the
// tail may be any number. So while that process lives, the queue is drained once every reserved
// ticket has ended; when it is gone, holes are given up. It may have gone between an entry and its
// ring.
void QueueCore::drain_given(Clock::time_point deadline, const std::atomic<bool>* must_hurry) {
  while (Clock::now() < deadline) {
    if (must_hurry != nullptr && must_hurry->load(std::memory_order_relaxed)) return;
    // In this order: what the producer stored before it went is seen by the look behind.
    const bool has_no_producer = memory_->has_no_client();
    if (live_->is_drained()) {
      const bool has_hole = words_.tail() != live_->head.load(std::memory_order_acquire);
      if (has_no_producer || !has_hole) return;
    } else {
      bell_->announce();
    }
    std::this_thread::sleep_for(kDrainLook);
  }
}

// What was published runs all the same. Callbacks end without the lock: one of them may call
// close() too.
void QueueCore::close_attached(StopMode mode, Clock::time_point deadline,
                               std::chrono::nanoseconds callback_timeout) {
  {
    const std::scoped_lock held(close_mutex_);
    if (mode == StopMode::drain && !is_closed()) drain_until(deadline, nullptr);
    is_closed_.store(true, std::memory_order_release);
  }
  callbacks_->end(std::max(deadline, deadline_after(callback_timeout)));
}

std::uint64_t QueueCore::close(StopMode mode, Clock::time_point deadline,
                               std::chrono::nanoseconds callback_timeout) {
  if (!is_here()) return 0;
  if (is_attached()) {
    close_attached(mode, deadline, callback_timeout);
    return 0;
  }
  const std::scoped_lock held(close_mutex_);
  if (is_closed()) return 0;
  begin_drain();
  if (mode == StopMode::drain) drain_until(deadline, nullptr);
  if (const auto session = host()) {
    session->take_away(*this, mode == StopMode::drain ? Clock::now() : deadline);
  }
  return finish();
}

// A publisher that reserved before the state changed may still be writing its entry; nobody will
// take it, and it is cancelled like the others. The tail is bounded by what can be reserved: it
// lies in memory that others may write.
std::uint64_t QueueCore::finish() {
  const std::scoped_lock held(finish_mutex_);
  if (is_closed()) return 0;
  const LongWord floor = live_->raise_floor();
  const LongWord end = std::min(words_.tail(), floor + words_.capacity());
  std::uint64_t cancelled = 0;
  for (LongWord ticket = floor; ticket < end; ++ticket) {
    if (live_->words.has_ended(ticket)) continue;
    live_->words.end(ticket, abi::OutcomeCode::cancelled, 0, {});
    ++cancelled;
  }
  live_->words.set_state(abi::QueueState::closed);
  if (is_given()) {
    doorbell_->remove_client(*live_);
    backend::futex::wake_shared(live_->words.change_wake_word());
  } else {
    cancelled = notes_.finish(end);  // with those that the workers cancelled
  }
  is_closed_.store(true, std::memory_order_release);
  live_->wakes.fetch_add(1, std::memory_order_acq_rel);
  backend::futex::wake(live_->wakes);
  return cancelled;
}

// The tail of a queue that was given away lies in memory of another process, and may be any number.
void QueueCore::set_limit() {
  LongWord limit = words_.tail();
  if (is_given()) limit = std::min(limit, live_->raise_floor() + words_.capacity());
  live_->limit.store(limit, std::memory_order_seq_cst);
}

void QueueCore::lift_limit() {
  live_->limit.store(backend::LiveQueue::kNoLimit, std::memory_order_release);
}

// A ticket one lap before one that was taken or reserved has ended: its place may say so of the
// later one by now.
std::optional<LongWord> QueueCore::first_open() const {
  const LongWord limit = live_->limit.load(std::memory_order_relaxed);
  const LongWord end = std::max(limit, live_->head.load(std::memory_order_acquire));
  const bool has_no_producer = is_given() && memory_->has_no_client();
  const LongWord lap_before = end > words_.capacity() ? end - words_.capacity() : 0;
  const LongWord floor = std::max(live_->raise_floor(), lap_before);
  if (is_closed() || floor >= end) return std::nullopt;
  const LongWord open = floor + live_->words.count_ended(floor, end - floor);
  if (open >= end || (has_no_producer && live_->is_drained())) return std::nullopt;
  return open;
}

QueueCounters QueueCore::counters() const {
  if (is_given()) {  // by the kernel's record: the tail is the other process's
    return {.published = live_->head.load(std::memory_order_acquire) - words_.first_ticket(),
            .noted = live_->raise_floor() - words_.first_ticket()};
  }
  return {.published = words_.tail() - words_.first_ticket(),
          .noted = notes_.noted() - words_.first_ticket(),
          .full_waits = full_waits_.load(std::memory_order_relaxed),
          .forgotten_faults = notes_.forgotten(),
          .failed_callbacks = is_attached() ? callbacks_->failed() : 0};
}

}  // namespace everkernel::live

namespace everkernel {

using live::QueueCore;

namespace {

// Closing an attached queue waits at least this long for a callback that runs, and its destructor
// this long: as the end of a session does.
constexpr auto kCallbackGrace = std::chrono::milliseconds(500);
constexpr auto kCallbackTimeout = std::chrono::seconds(60);

}  // namespace

Queue::Queue(std::shared_ptr<QueueCore> core) : core_(std::move(core)) {}
Queue::Queue(Queue&&) noexcept = default;

Queue& Queue::operator=(Queue&& other) noexcept {
  if (this != &other) Queue ended(std::exchange(core_, std::move(other.core_)));
  return *this;
}

Queue::~Queue() {
  if (core_ == nullptr) return;
  if (core_->is_here()) {
    core_->close(StopMode::cancel, backend::Clock::now(), kCallbackTimeout);
  } else {
    abandon(std::move(core_));
  }
}

Result<Ticket> Queue::publish(const protocol::Operation& item, std::chrono::nanoseconds timeout) {
  return core_->publish(item, timeout);
}
Result<TicketRange> Queue::publish_items(std::span<const abi::WorkItem> items,
                                         std::chrono::nanoseconds timeout) {
  return core_->publish_items(items, timeout);
}
Result<Ticket> Queue::publish_packed(std::span<const protocol::PackedOp> ops,
                                     std::chrono::nanoseconds timeout) {
  return core_->publish_packed(ops, timeout);
}
Result<TicketRange> Queue::publish_batch(std::span<const protocol::Operation> items, Word tag,
                                         std::chrono::nanoseconds timeout) {
  return core_->publish_batch(items, tag, timeout);
}
Result<Completion> Queue::wait(Ticket ticket, std::chrono::nanoseconds timeout) {
  return core_->wait(ticket, timeout);
}
Result<void> Queue::wait_all(std::chrono::nanoseconds timeout) {
  return core_->wait_all(timeout);
}
Result<std::optional<Completion>> Queue::poll(Ticket ticket) {
  return core_->poll(ticket);
}
Result<void> Queue::on_complete(Ticket ticket,
                                std::function<void(Ticket, Completion, bool)> callback) {
  return core_->call_back(ticket, std::move(callback));
}
std::uint64_t Queue::close(StopMode mode, std::chrono::nanoseconds timeout) {
  return core_->close(mode, backend::deadline_after(timeout), kCallbackGrace);
}
TenantId Queue::tenant() const {
  return core_->options().tenant;
}
Priority Queue::priority() const {
  return core_->options().priority;
}
Word Queue::capacity() const {
  return core_->options().capacity;
}
QueueCounters Queue::counters() const {
  return core_->counters();
}
Result<int> Queue::descriptor() {
  Descriptor given = EVERKERNEL_TRY(core_->give_away());
  return given.release();
}

Result<Queue> attach_queue(int descriptor) {
  try {
    return Queue(EVERKERNEL_TRY(QueueCore::attach(descriptor)));
  } catch (const std::bad_alloc&) {
    return fail(Code::out_of_memory, "queue: no memory to attach to it");
  }
}

}  // namespace everkernel
