// The host's half of a live session.
//
// The path of a ticket: a publisher reserves it at the TicketDesk, fills its slot and stores
// PUBLISHED; a worker runs it and stores DONE or FAULT; a host thread reaps it, which notes the
// outcome and makes the slot EMPTY again. Tickets are reaped in order. Publishers reserve at most
// one slot less than the ring has, so the slot behind the last reserved one is always EMPTY.
#include "everkernel/runtime/session.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/spin.hpp"
#include "everkernel/abi/fault.hpp"
#include "everkernel/abi/opcode.hpp"
#include "everkernel/backend/detail/live.hpp"
#include "everkernel/protocol/control.hpp"
#include "everkernel/protocol/debug_log.hpp"
#include "everkernel/protocol/io_queue.hpp"
#include "everkernel/protocol/packed.hpp"
#include "everkernel/protocol/ring.hpp"
#include "everkernel/telemetry/decode.hpp"
#include "memory/shared_memory.hpp"
#include "runtime/elapsed.hpp"
#include "runtime/state.hpp"

namespace everkernel {
namespace {

using abi::Slot;
using abi::SlotStatus;
using backend::Clock;
using backend::deadline_after;
using protocol::LiveWords;
using protocol::Operation;
using protocol::Sender;

// Polls of a waiting thread: first it only pauses, then it yields its core, then it sleeps.
constexpr int kPausePolls = 400;
constexpr int kYieldPolls = 20;
// Items that a waiting thread runs itself between two readings of the clock.
constexpr Word kHelpBetweenLooks = 256;
// A sleeping host thread wakes up this often to check the kernel's health.
constexpr auto kHealthInterval = std::chrono::milliseconds(50);
// Slots whose lines are fetched ahead of publishing one by one.
constexpr std::uint64_t kPublishAhead = 12;
// Slots whose lines are fetched ahead of reaping.
constexpr std::uint64_t kReapAhead = 8;
// Most outcomes other than DONE that are kept; before one more is noted, all of them are dropped.
constexpr std::size_t kMostNotedFaults = std::size_t{1} << 20;
// Outcome of an item that stop() cancelled; no fault code is that large.
constexpr Word kCancelled = 0x10000;

// Reaping right behind the workers moves every cache line between two cores one at a time. A
// waiting thread therefore checks a ticket far ahead and reaps many slots at once; only on every
// 64th poll does it reap all slots that have ended by then.
class Patience {
 public:
  bool is_over() { return ++polls_ % kPolls == 0; }

 private:
  static constexpr int kPolls = 64;
  int polls_ = 0;
};

enum Part : std::size_t { kControl, kRing, kDebugLog, kIoQueue };

Result<memory::SharedMemory> make_shared_memory(const SessionOptions& options, Word slot_count) {
  const auto control = options.control.empty()
                           ? protocol::control_bytes({.tenant_count = options.tenant_count,
                                                      .observable_slots = options.observable_slots})
                           : Result<std::size_t>(options.control.size());
  const auto ring = protocol::ring_bytes(slot_count);
  const auto debug_log = protocol::debug_log_bytes(options.debug_records);
  const auto io_queue = protocol::io_queue_bytes(options.io_slots);
  for (const auto* part : {&control, &ring, &debug_log, &io_queue}) {
    if (!*part) return Failure(part->error());
  }
  return memory::SharedMemory::create(std::array{*control, *ring, *debug_log, *io_queue});
}

Result<void> fill_control(const SessionOptions& options, std::span<std::byte> control) {
  if (options.control.empty()) {
    return protocol::encode_control(
        {.tenant_count = options.tenant_count, .observable_slots = options.observable_slots},
        control);
  }
  EVERKERNEL_TRY(protocol::ControlView::parse(options.control));
  std::ranges::copy(options.control, control.begin());
  return {};
}

}  // namespace

// The state of a session. Each call of Session forwards to a function of this class.
class Session::State {
 public:
  State(std::shared_ptr<Megakernel::State> megakernel, memory::SharedMemory shared_memory,
        std::uint64_t first_ticket, Word worker_count)
      : megakernel_(std::move(megakernel)),
        shared_memory_(std::move(shared_memory)),
        ring_(*LiveWords::bind(protocol::Buffer::ring, shared_memory_.part(kRing))),
        control_(*LiveWords::bind(protocol::Buffer::control, shared_memory_.part(kControl))),
        slot_count_(static_cast<Word>(shared_memory_.part(kRing).size() / abi::kSlotBytes)),
        first_ticket_(first_ticket),
        desk_(first_ticket),
        bell_(worker_count + 1),
        reaped_(first_ticket),
        reported_published_(first_ticket) {}

  ~State() { stop(StopMode::cancel, {}); }

  Result<void> launch() {
    const auto kernel = megakernel_->current_kernel(&generation_);
    table_ = megakernel_->current_table();
    auto live =
        EVERKERNEL_TRY(kernel->start({.control = shared_memory_.part(kControl),
                                      .ring = shared_memory_.part(kRing),
                                      .debug_log = shared_memory_.part(kDebugLog),
                                      .io_queue = shared_memory_.part(kIoQueue),
                                      .buffers = table_->table.view(),
                                      .desk = &desk_,
                                      .bell = &bell_,
                                      .first_ticket = reaped_.load(std::memory_order_acquire)}));
    kernels_.push_back({kernel, std::move(live)});
    live_.store(kernels_.back().live.get(), std::memory_order_release);
    is_open_.store(true, std::memory_order_release);
    return {};
  }

  // ---- publishing ----

  Word capacity() const { return slot_count_ - 1; }

  Result<Ticket> publish(const Operation& item, const PublishOptions& options) {
    const Sender sender{options.tenant, options.priority};
    const bool is_fence = item.opcode == static_cast<Word>(abi::Opcode::batch_fence);
    if (protocol::is_publishable(item, sender) && !is_fence) [[likely]] {
      if (const auto place = desk_.reserve(1, limit())) [[likely]] {
        store_one(*place, item, sender);
        return Ticket{place->first_ticket};
      }
    }
    return publish_slowly(item, options);
  }

  // Publishes an item that publish() could not: reports its mistake, guards the batch of a fence,
  // or waits for room. A function of its own, so that publish() stays short.
  [[gnu::noinline]] Result<Ticket> publish_slowly(const Operation& item,
                                                  const PublishOptions& options) {
    const Sender sender{options.tenant, options.priority};
    EVERKERNEL_TRY(protocol::check_operation(item, sender));
    const auto place = EVERKERNEL_TRY(reserve(1, options));
    if (item.opcode == static_cast<Word>(abi::Opcode::batch_fence)) {
      const std::uint64_t reach = item.args.empty() ? 0 : item.args[0];
      guard_batch(place.first_ticket - std::min(reach, place.first_ticket), place.first_ticket);
    }
    store_one(place, item, sender);
    return Ticket{place.first_ticket};
  }

  Result<TicketRange> publish_items(std::span<const abi::WorkItem> items,
                                    const PublishOptions& options) {
    const Sender sender{options.tenant, options.priority};
    EVERKERNEL_TRY(protocol::check_items(items, sender));
    EVERKERNEL_TRY(check_count(items.size()));
    if (items.empty()) return TicketRange{Ticket{desk_.next_ticket()}, 0};
    const auto place = EVERKERNEL_TRY(reserve(items.size(), options));
    // The first slot is published last: workers wait for it, and then find all the others. If
    // workers could start earlier, the cache lines of the slots would move back and forth behind
    // this loop.
    for (std::size_t i = 1; i < items.size(); ++i) {
      store(place.first_ticket + i, protocol::published_slot(items[i], sender));
    }
    store(place.first_ticket, protocol::published_slot(items[0], sender));
    desk_.wake(place.sleepers);
    return TicketRange{Ticket{place.first_ticket}, static_cast<Word>(items.size())};
  }

  Result<Ticket> publish_packed(std::span<const protocol::PackedOp> ops,
                                const PublishOptions& options) {
    const auto args = EVERKERNEL_TRY(protocol::pack(ops));
    return publish({static_cast<Word>(abi::Opcode::packed_slot), args}, options);
  }

  Result<TicketRange> publish_batch(std::span<const Operation> items, Word tag,
                                    const PublishOptions& options) {
    const Sender sender{options.tenant, options.priority};
    for (std::size_t i = 0; i < items.size(); ++i) {
      auto checked = protocol::check_operation(items[i], sender);
      if (checked) continue;
      checked.error().message += fmt::format(" (item {})", i);
      return Failure(checked.error());
    }
    EVERKERNEL_TRY(check_count(items.size() + 1));
    const Word count = static_cast<Word>(items.size());
    const auto place = EVERKERNEL_TRY(reserve_row(count + 1, options));
    guard_batch(place.first_ticket, place.first_ticket + count);
    std::uint64_t ticket = place.first_ticket;
    for (const Operation& item : items) store(ticket++, protocol::published_slot(item, sender));
    const std::array<Word, 2> fence_args{count, tag};
    const Operation fence{static_cast<Word>(abi::Opcode::batch_fence), fence_args};
    store(ticket, protocol::published_slot(fence, sender));
    desk_.wake(place.sleepers);
    return TicketRange{Ticket{place.first_ticket}, count + 1};
  }

  // ---- following ----

  Result<Completion> wait(Ticket ticket, std::chrono::nanoseconds timeout) {
    const auto number = static_cast<std::uint64_t>(ticket);
    EVERKERNEL_TRY(check_ticket(number));
    EVERKERNEL_TRY(await([&](bool) { return has_ended(number); }, timeout,
                         [&] { return fmt::format("ticket {} has not ended", number); }));
    return outcome(number);
  }

  Result<void> wait_all(std::chrono::nanoseconds timeout) {
    const std::uint64_t target = desk_.next_ticket();
    Patience patience;
    EVERKERNEL_TRY(await(
        [&](bool is_exact) {
          if (is_exact || has_ended(target - 1) || patience.is_over()) reap();
          return reaped_.load(std::memory_order_acquire) >= target;
        },
        timeout,
        [&] {
          return fmt::format("{} items have not ended",
                             target - reaped_.load(std::memory_order_acquire));
        }));
    if (first_cancelled_.load(std::memory_order_acquire) >= target) return {};
    return fail(Code::invalid_argument, "session was stopped before all items ran",
                "start a new session and publish the items that are left");
  }

  Result<std::optional<Completion>> poll(Ticket ticket) {
    const auto number = static_cast<std::uint64_t>(ticket);
    EVERKERNEL_TRY(check_ticket(number));
    if (!has_ended(number) && (live()->help() == 0 || !has_ended(number))) {
      EVERKERNEL_TRY(live_health());
      return std::optional<Completion>();
    }
    const Completion completion = EVERKERNEL_TRY(outcome(number));
    return std::optional<Completion>(completion);
  }

  Result<void> on_complete(Ticket ticket, std::function<void(Ticket, Completion, bool)> callback) {
    EVERKERNEL_TRY(check_ticket(static_cast<std::uint64_t>(ticket)));
    {
      const std::scoped_lock held(callback_mutex_);
      if (!has_stopped_callbacks_) {
        if (!callback_thread_.joinable()) {
          callback_thread_ = std::jthread([this](const std::stop_token& stop) { call_back(stop); });
        }
        callbacks_.push_back({static_cast<std::uint64_t>(ticket), std::move(callback)});
        callback = nullptr;
      }
    }
    if (callback) {
      const auto ended = outcome(static_cast<std::uint64_t>(ticket));
      callback(ticket, ended.value_or(Completion{}), !ended.has_value());
      return {};
    }
    bell_.wake();
    return {};
  }

  // ---- looking ----

  SessionCounters counters() {
    SessionCounters counters;
    counters.kernel = live()->flush_counters();
    add(counters.kernel, earlier_);
    const std::uint64_t next = desk_.next_ticket();
    counters.published = next - first_ticket_;
    counters.padding = padding_.load(std::memory_order_relaxed);
    counters.reaped = reaped_.load(std::memory_order_acquire) - first_ticket_;
    counters.full_waits = full_waits_.load(std::memory_order_relaxed);
    const std::scoped_lock held(reap_mutex_);
    counters.forgotten_faults = forgotten_faults_;
    control_.store_relaxed(abi::kControlTicketTail.first, static_cast<Word>(next));
    return counters;
  }

  Result<void> snapshot(SessionSnapshot& target, std::span<const Word> window_opcodes) {
    const std::scoped_lock held(snapshot_mutex_);
    target.counters = counters();
    control_copy_.resize(shared_memory_.part(kControl).size());
    ring_copy_.resize(shared_memory_.part(kRing).size());
    EVERKERNEL_TRY(control_.copy_to(control_copy_));
    EVERKERNEL_TRY(ring_.copy_to(ring_copy_));
    const std::span<const std::byte> control = control_copy_;
    const std::span<const std::byte> ring = ring_copy_;
    auto begin = Clock::now();
    EVERKERNEL_TRY(
        telemetry::decode({.control = control, .observables = true}, scratch_, control_only_));
    const std::uint64_t control_ns = nanoseconds_since(begin);
    begin = Clock::now();
    EVERKERNEL_TRY(telemetry::decode(
        {.control = control, .ring = ring, .window_opcodes = window_opcodes, .observables = true},
        scratch_, target.telemetry));
    const std::uint64_t both_ns = nanoseconds_since(begin);
    const std::uint64_t published = first_ticket_ + target.counters.published;
    // Slots are written in the memory that workers read, so a published item is not copied.
    const std::uint64_t in_place = (published - reported_published_) * abi::kSlotBytes;
    reported_published_ = published;
    target.evidence = {.resident_device_bytes = shared_memory_.size_bytes() + table_bytes(),
                       .host_copy_bytes = control.size() + ring.size(),
                       .host_copy_avoided_bytes = in_place,
                       .ring_occupancy = target.telemetry.occupancy,
                       .control_decode_ns = control_ns,
                       .ring_decode_ns = both_ns - std::min(both_ns, control_ns),
                       .coverage = telemetry::RuntimeEvidenceMetricCoverage::complete()};
    return {};
  }

  Result<Word> observable(Word index) const {
    const std::uint64_t word = std::uint64_t{abi::kControlFirstObservable} + index;
    if (word < control_.size()) return control_.load_acquire(word);
    return fail(Code::invalid_argument,
                fmt::format("control: observable {} is outside the {} of this session", index,
                            control_.size() - abi::kControlFirstObservable));
  }

  void copy_debug_log(std::vector<std::byte>& target) const {
    const auto log = shared_memory_.part(kDebugLog);
    target.resize(log.size());
    const auto words = LiveWords::bind(protocol::Buffer::debug_log, log);
    static_cast<void>(words->copy_to(target));
  }

  Result<void> set_tenant_enabled(Word tenant, bool enabled) {
    auto writer = *protocol::LiveControlWriter::bind(shared_memory_.part(kControl));
    EVERKERNEL_TRY(writer.set_tenant_enabled(tenant, enabled));
    live()->look_again();
    return {};
  }

  Result<void> set_tenant_quota(Word tenant, Word quota) {
    auto writer = *protocol::LiveControlWriter::bind(shared_memory_.part(kControl));
    EVERKERNEL_TRY(writer.set_tenant_quota(tenant, quota));
    live()->look_again();
    return {};
  }

  int memory_descriptor() const { return shared_memory_.file_descriptor(); }

  // ---- ending ----

  StopReport stop(StopMode mode, std::chrono::nanoseconds timeout);
  Result<void> recover();

 private:
  struct RunningKernel {
    std::shared_ptr<backend::Kernel> kernel;  // outlives `live`
    std::unique_ptr<backend::LiveKernel> live;
  };
  struct PendingCallback {
    std::uint64_t ticket = 0;
    std::function<void(Ticket, Completion, bool)> call;
  };
  struct GuardedBatch {
    std::uint64_t first = 0;
    std::uint64_t fence = 0;
  };

  backend::LiveKernel* live() const { return live_.load(std::memory_order_acquire); }
  Word slot_of(std::uint64_t ticket) const { return static_cast<Word>(ticket) & (slot_count_ - 1); }
  std::size_t line_of(std::uint64_t ticket) const {
    return std::size_t{slot_of(ticket)} * abi::kSlotWords;
  }
  SlotStatus status_of(std::uint64_t ticket) const {
    return SlotStatus{ring_.load_acquire(line_of(ticket))};
  }
  void store_one(const backend::TicketDesk::Reservation& place, const Operation& item,
                 const Sender& sender) {
    ring_.store_slot(slot_of(place.first_ticket),
                     {item.opcode, sender.tenant, abi::priority_word(sender.priority, 0)},
                     item.args);
    ring_.prefetch_slot(slot_of(place.first_ticket + kPublishAhead));
    desk_.wake(place.sleepers);
  }
  void store(std::uint64_t ticket, const Slot& slot) { ring_.store_slot(slot_of(ticket), slot); }

  Result<void> check_count(std::size_t count) const;
  Result<void> check_ticket(std::uint64_t ticket) const;
  Result<void> live_health() const;
  Result<backend::TicketDesk::Reservation> reserve(std::uint64_t count,
                                                   const PublishOptions& options);
  Result<backend::TicketDesk::Reservation> reserve_row(Word count, const PublishOptions& options);
  Result<void> wait_for_room(std::uint64_t count, const PublishOptions& options,
                             Clock::time_point deadline);
  std::uint64_t limit() const { return reaped_.load(std::memory_order_acquire) + capacity(); }
  void guard_batch(std::uint64_t first, std::uint64_t fence);

  bool has_ended(std::uint64_t ticket) const;
  Result<Completion> outcome(std::uint64_t ticket);
  Result<Completion> noted_outcome(std::uint64_t ticket);
  void reap();
  bool reap_one(std::uint64_t ticket);
  void note_fault(std::uint64_t ticket, Word code);
  Result<void> await(const auto& is_met, std::chrono::nanoseconds timeout, const auto& describe);
  void call_back(const std::stop_token& stop);
  bool run_callbacks(bool is_last);
  std::uint64_t cancel_rest();
  void end_or_republish_claimed();
  bool may_run_twice(const Slot& slot) const;
  static void add(backend::LiveCounters& sum, const backend::LiveCounters& more);
  std::uint64_t table_bytes() const;

  std::shared_ptr<Megakernel::State> megakernel_;
  memory::SharedMemory shared_memory_;
  LiveWords ring_;
  LiveWords control_;
  const Word slot_count_;
  const std::uint64_t first_ticket_;
  backend::TicketDesk desk_;
  backend::CompletionBell bell_;
  alignas(64) std::atomic<std::uint64_t> reaped_;

  std::mutex reap_mutex_;
  std::unordered_map<std::uint64_t, Word> faults_;  // outcomes of reaped tickets that are not DONE
  std::uint64_t forgotten_faults_ = 0;
  std::uint64_t forgotten_before_ = 0;  // outcomes of older tickets may have been dropped
  std::vector<GuardedBatch> batches_;   // sorted by first ticket

  std::atomic<bool> is_open_{false};
  std::atomic<std::uint64_t> padding_{0};
  std::atomic<std::uint64_t> full_waits_{0};
  std::atomic<std::uint64_t> first_cancelled_{~std::uint64_t{0}};  // lowest cancelled ticket

  std::mutex stop_mutex_;
  std::optional<StopReport> stopped_;
  std::shared_ptr<TableSnapshot> table_;
  std::uint64_t generation_ = 0;
  std::vector<RunningKernel> kernels_;  // lost kernels stay: other threads may still use them
  std::atomic<backend::LiveKernel*> live_{nullptr};  // the last of kernels_
  backend::LiveCounters earlier_;                    // counts of kernels that were lost

  std::mutex callback_mutex_;
  std::vector<PendingCallback> callbacks_;
  bool has_stopped_callbacks_ = false;
  std::jthread callback_thread_;

  std::mutex snapshot_mutex_;
  std::vector<std::byte> control_copy_;
  std::vector<std::byte> ring_copy_;
  telemetry::DecodeScratch scratch_;
  telemetry::RingTelemetry control_only_;
  std::uint64_t reported_published_;
};

// ---- reserving ----

Result<void> Session::State::check_count(std::size_t count) const {
  if (count <= capacity()) return {};
  return fail(Code::invalid_argument,
              fmt::format("session: {} items at one time, a ring of {} slots takes {}", count,
                          slot_count_, capacity()),
              "publish in smaller parts, or create the megakernel with more slots");
}

Result<backend::TicketDesk::Reservation> Session::State::reserve(std::uint64_t count,
                                                                 const PublishOptions& options) {
  if (const auto place = desk_.reserve(count, limit())) [[likely]]
    return *place;
  const auto deadline = deadline_after(options.timeout);
  for (;;) {
    EVERKERNEL_TRY(wait_for_room(count, options, deadline));
    if (const auto place = desk_.reserve(count, limit())) return *place;
  }
}

// Reserves consecutive slots for a batch. A batch does not wrap around the end of the ring: if it
// does not fit there, the slots up to the end are filled with NOPs.
Result<backend::TicketDesk::Reservation> Session::State::reserve_row(
    Word count, const PublishOptions& options) {
  const auto deadline = deadline_after(options.timeout);
  for (;;) {
    const std::uint64_t next = desk_.next_ticket();
    const Word left = slot_count_ - slot_of(next);
    const Word wanted = count <= left ? count : left;
    const auto place = desk_.reserve_at(next, wanted, limit());
    if (!place) {
      // Another publisher reserved the ticket, or the ring has no room.
      if (desk_.next_ticket() == next) EVERKERNEL_TRY(wait_for_room(wanted, options, deadline));
      continue;
    }
    if (wanted == count) return *place;
    for (Word i = 0; i < wanted; ++i) store(next + i, protocol::published_slot(Operation{}, {}));
    padding_.fetch_add(wanted, std::memory_order_relaxed);
    desk_.wake(place->sleepers);
  }
}

// Returns when there is room for `count` items, or fails.
Result<void> Session::State::wait_for_room(std::uint64_t count, const PublishOptions& options,
                                           Clock::time_point deadline) {
  Patience patience;
  const auto has_room = [&](bool is_exact) {
    const std::uint64_t far = reaped_.load(std::memory_order_relaxed) + capacity() / 2;
    if (is_exact || has_ended(far) || patience.is_over()) reap();
    return desk_.next_ticket() + count <= limit();
  };
  if (!is_open_.load(std::memory_order_acquire)) {
    return fail(Code::invalid_argument, "session is stopped", "start a new session");
  }
  if (control_.load_relaxed(abi::kControlShutdown.first) != 0) {
    return fail(Code::invalid_argument, "session: an item set SHUTDOWN",
                "stop the session, then start a new one");
  }
  EVERKERNEL_TRY(live_health());
  reap();
  if (has_room(false)) return {};
  full_waits_.fetch_add(1, std::memory_order_relaxed);
  if (options.timeout <= std::chrono::nanoseconds(0)) {
    return fail(
        Code::queue_full,
        fmt::format("session: no room for {} items: {} of {} slots are in use", count,
                    desk_.next_ticket() - reaped_.load(std::memory_order_acquire), capacity()),
        "wait for earlier items, or give a `timeout`");
  }
  return await(has_room, deadline - Clock::now(),
               [&] { return fmt::format("no room for {} items", count); });
}

// The slots of a batch are not reused before its fence is DONE, because the fence reads them.
void Session::State::guard_batch(std::uint64_t first, std::uint64_t fence) {
  const std::scoped_lock held(reap_mutex_);
  const GuardedBatch batch{first, fence};
  const auto at = std::ranges::upper_bound(batches_, first, {}, &GuardedBatch::first);
  batches_.insert(at, batch);
}

// ---- following ----

Result<void> Session::State::check_ticket(std::uint64_t ticket) const {
  if (ticket >= first_ticket_ && ticket < desk_.next_ticket()) return {};
  return fail(Code::invalid_argument,
              fmt::format("session: ticket {} is not one of this session", ticket));
}

Result<void> Session::State::live_health() const {
  return live()->health();
}

bool Session::State::has_ended(std::uint64_t ticket) const {
  if (ticket < reaped_.load(std::memory_order_acquire)) return true;
  if (abi::is_terminal(status_of(ticket))) return true;
  // Between the two loads above, the ticket may have been reaped and its slot reused.
  return ticket < reaped_.load(std::memory_order_acquire);
}

Result<Completion> Session::State::outcome(std::uint64_t ticket) {
  const SlotStatus status = status_of(ticket);
  const Word priority_word = ring_.load_relaxed(line_of(ticket) + 3);
  if (ticket < reaped_.load(std::memory_order_acquire)) return noted_outcome(ticket);
  // The ticket was not reaped, so the slot still belonged to it when it was read.
  return Completion{status == SlotStatus::fault ? abi::fault_code_of(priority_word) : 0};
}

Result<Completion> Session::State::noted_outcome(std::uint64_t ticket) {
  const std::scoped_lock held(reap_mutex_);
  if (const auto found = faults_.find(ticket); found != faults_.end()) {
    if (found->second == kCancelled) {
      return fail(Code::invalid_argument,
                  fmt::format("session was stopped before item {} ran", ticket),
                  "start a new session and publish the item again");
    }
    return Completion{found->second};
  }
  if (ticket < forgotten_before_) {
    return fail(Code::invalid_argument,
                fmt::format("session: the outcome of ticket {} is no longer kept", ticket),
                "ask for an outcome before a million later items have faulted");
  }
  return Completion{};
}

Result<void> Session::State::await(const auto& is_met, std::chrono::nanoseconds timeout,
                                   const auto& describe) {
  const auto kernel = live();
  std::optional<Clock::time_point> deadline;  // most waits are over before they need a clock
  Word helped = 0;
  for (int polls = 0; polls < kPausePolls;) {
    if (is_met(false)) return {};
    const Word count = kernel->help();
    helped += count;
    if (count == 0) {
      ++polls;
      spin_pause();
    } else if (helped >= kHelpBetweenLooks) {
      if (!deadline) deadline = deadline_after(timeout);
      if (Clock::now() >= *deadline) break;
      helped = 0;
    }
  }
  if (!deadline) deadline = deadline_after(timeout);
  // From here on a check may be the last before a long sleep, so it must find every ended item.
  for (int polls = 0;; ++polls) {
    if (polls < kYieldPolls) {
      std::this_thread::yield();
      if (is_met(true)) return {};
    } else {
      const std::uint32_t prepared = bell_.prepare();
      if (is_met(true)) return {};
      bell_.sleep(prepared, std::min(*deadline, Clock::now() + kHealthInterval));
    }
    if (is_met(true)) return {};
    if (Clock::now() >= *deadline) {
      return fail(Code::timeout,
                  fmt::format("session: {} within {} ns", describe(), timeout.count()),
                  "raise the timeout, or take a snapshot to see which items are stuck");
    }
    if (live()->is_running()) continue;
    if (is_met(true)) return {};
    EVERKERNEL_TRY(live_health());
    return fail(Code::invalid_argument, fmt::format("session is stopped; {}", describe()),
                "start a new session");
  }
}

// ---- reaping ----

void Session::State::reap() {
  const std::scoped_lock held(reap_mutex_);
  const std::uint64_t end = desk_.next_ticket();
  std::uint64_t ticket = reaped_.load(std::memory_order_relaxed);
  while (ticket < end && reap_one(ticket)) {
    ring_.prefetch_slot(slot_of(ticket + kReapAhead));
    ++ticket;
  }
  // Release: a publisher that reserves these slots next sees that they are EMPTY.
  reaped_.store(ticket, std::memory_order_release);
}

bool Session::State::reap_one(std::uint64_t ticket) {
  const std::size_t line = line_of(ticket);
  const SlotStatus status = status_of(ticket);
  if (!abi::is_terminal(status)) return false;
  while (!batches_.empty() && batches_.front().fence < ticket) batches_.erase(batches_.begin());
  for (const GuardedBatch& batch : batches_) {
    if (batch.first > ticket) break;
    if (ticket <= batch.fence && !abi::is_terminal(status_of(batch.fence))) return false;
  }
  if (status == SlotStatus::fault) {
    const Word word = ring_.load_relaxed(line + 3);
    note_fault(ticket, abi::fault_code_of(word));
    ring_.store_relaxed(line + 3, abi::priority_word(abi::priority_of(word), 0));
  }
  ring_.store_relaxed(line, static_cast<Word>(SlotStatus::empty));
  return true;
}

void Session::State::note_fault(std::uint64_t ticket, Word code) {
  if (faults_.size() >= kMostNotedFaults) {
    forgotten_faults_ += faults_.size();
    forgotten_before_ = ticket;
    faults_.clear();
  }
  faults_.emplace(ticket, code);
}

// ---- callbacks ----

void Session::State::call_back(const std::stop_token& stop) {
  for (;;) {
    const std::uint32_t prepared = bell_.prepare();
    const bool is_last = stop.stop_requested();
    const bool has_run = run_callbacks(is_last) || live()->help() != 0;
    if (is_last && !has_run) return;
    if (!has_run) bell_.sleep(prepared, Clock::now() + kHealthInterval);
  }
}

// Runs the callbacks of items that have ended; returns whether there were any. The last call runs
// every callback, whether its item has ended or not.
bool Session::State::run_callbacks(bool is_last) {
  std::vector<PendingCallback> ready;
  {
    const std::scoped_lock held(callback_mutex_);
    // clang 14 does not take the subrange that std::ranges::partition of libstdc++ 12 gives.
    const auto rest = std::partition(
        callbacks_.begin(), callbacks_.end(),
        [&](const PendingCallback& pending) { return !is_last && !has_ended(pending.ticket); });
    std::move(rest, callbacks_.end(), std::back_inserter(ready));
    callbacks_.erase(rest, callbacks_.end());
  }
  for (PendingCallback& pending : ready) {
    const auto ended = outcome(pending.ticket);
    pending.call(Ticket{pending.ticket}, ended.value_or(Completion{}), !ended.has_value());
  }
  return !ready.empty();
}

// ---- ending ----

StopReport Session::State::stop(StopMode mode, std::chrono::nanoseconds timeout) {
  const std::scoped_lock held(stop_mutex_);
  if (stopped_) return *stopped_;
  is_open_.store(false, std::memory_order_release);
  const auto kernel = live();
  if (kernel == nullptr) return stopped_.emplace();
  const auto deadline = deadline_after(timeout);
  if (mode == StopMode::drain) static_cast<void>(wait_all(timeout));
  desk_.close();
  kernel->stop(mode == StopMode::drain ? Clock::now() : deadline);
  reap();
  StopReport report;
  report.cancelled = cancel_rest();
  const SessionCounters totals = counters();
  report.done = totals.kernel.done;
  report.faulted = totals.kernel.faulted;
  stopped_ = report;
  {
    const std::scoped_lock callbacks_held(callback_mutex_);
    has_stopped_callbacks_ = true;
    callback_thread_.request_stop();
  }
  bell_.wake();
  // Objects that callbacks refer to may be destroyed once stop() has returned.
  if (callback_thread_.joinable()) callback_thread_.join();
  return report;
}

// Cancels every item that has not ended, and notes that outcome. No worker is running any more.
std::uint64_t Session::State::cancel_rest() {
  // A publisher that reserved before the desk closed may still be writing its slots, and may need
  // the lock for that: wait for it before taking the lock.
  const std::uint64_t end = desk_.next_ticket();
  for (std::uint64_t ticket = reaped_.load(std::memory_order_acquire); ticket < end; ++ticket) {
    while (status_of(ticket) == SlotStatus::empty &&
           ticket >= reaped_.load(std::memory_order_acquire)) {
      std::this_thread::yield();
    }
  }
  const std::scoped_lock held(reap_mutex_);
  std::uint64_t cancelled = 0;
  batches_.clear();
  for (std::uint64_t ticket = reaped_.load(std::memory_order_relaxed); ticket < end; ++ticket) {
    if (!reap_one(ticket)) {
      if (cancelled == 0) first_cancelled_.store(ticket, std::memory_order_release);
      note_fault(ticket, kCancelled);
      ring_.store_relaxed(line_of(ticket), static_cast<Word>(SlotStatus::empty));
      ++cancelled;
    }
    reaped_.store(ticket + 1, std::memory_order_release);
  }
  return cancelled;
}

Result<void> Session::State::recover() {
  const std::scoped_lock held(stop_mutex_);
  if (stopped_) return fail(Code::invalid_argument, "session is stopped", "start a new session");
  const auto lost = live();
  if (lost->health()) return {};
  lost->stop(Clock::now());
  const RecoveryDecision recovery = EVERKERNEL_TRY(megakernel_->recover(generation_));
  if (recovery.buffers_lost != 0) {
    return fail(
        Code::device_lost,
        fmt::format("session: {} buffers without a host copy were lost with the device",
                    recovery.buffers_lost),
        "the device is back and these buffers are zero: fill them, then call recover() again");
  }
  add(earlier_, lost->flush_counters());
  end_or_republish_claimed();
  desk_.reopen();
  return launch();
}

// Handles items that were running when the device was lost: items that may run twice are published
// again, the others end as FAULT (maybe_executed).
void Session::State::end_or_republish_claimed() {
  const std::uint64_t end = desk_.next_ticket();
  for (std::uint64_t ticket = reaped_.load(std::memory_order_acquire); ticket < end; ++ticket) {
    if (status_of(ticket) != SlotStatus::claimed) continue;
    const Slot slot = ring_.load_slot(slot_of(ticket));
    if (may_run_twice(slot)) {
      ring_.store_release(line_of(ticket), static_cast<Word>(SlotStatus::published));
      continue;
    }
    constexpr auto kCode = static_cast<Word>(abi::FaultCode::maybe_executed);
    ring_.store_relaxed(line_of(ticket) + 3,
                        abi::priority_word(abi::priority_of(slot.priority), kCode));
    ring_.store_release(line_of(ticket), static_cast<Word>(SlotStatus::fault));
    control_.add_release(abi::kControlFaultCount.first, 1);
    ++earlier_.faulted;
  }
}

bool Session::State::may_run_twice(const Slot& slot) const {
  if (megakernel_->options.payload) return false;
  if (slot.opcode == static_cast<Word>(abi::Opcode::nop)) return true;
  const auto found = megakernel_->options.find_handler(slot.opcode);
  const bool is_in_place = slot.args[0] == slot.args[1];
  return found && found->is_pure && !is_in_place;
}

void Session::State::add(backend::LiveCounters& sum, const backend::LiveCounters& more) {
  const auto add_all = [](auto& to, const auto& from) {
    for (std::size_t i = 0; i < to.size(); ++i) to[i] += from[i];
  };
  sum.done += more.done;
  sum.faulted += more.faulted;
  sum.sleeps += more.sleeps;
  sum.busy_ns += more.busy_ns;
  sum.requeues += more.requeues;
  add_all(sum.tenant_claims, more.tenant_claims);
  add_all(sum.priority_claims, more.priority_claims);
  add_all(sum.executions, more.executions);
}

std::uint64_t Session::State::table_bytes() const {
  std::uint64_t bytes = 0;
  for (const auto& buffer : table_->owners) bytes += buffer->options.word_count * abi::kWordBytes;
  return bytes;
}

// ---- the calls ----

Session::Session(std::unique_ptr<State> state) : state_(std::move(state)) {}
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;
Session::~Session() = default;

Result<Ticket> Session::publish(const Operation& item, const PublishOptions& options) {
  return state_->publish(item, options);
}
Result<TicketRange> Session::publish_items(std::span<const abi::WorkItem> items,
                                           const PublishOptions& options) {
  return state_->publish_items(items, options);
}
Result<Ticket> Session::publish_packed(std::span<const protocol::PackedOp> ops,
                                       const PublishOptions& options) {
  return state_->publish_packed(ops, options);
}
Result<TicketRange> Session::publish_batch(std::span<const Operation> items, Word tag,
                                           const PublishOptions& options) {
  return state_->publish_batch(items, tag, options);
}
Result<Completion> Session::wait(Ticket ticket, std::chrono::nanoseconds timeout) {
  return state_->wait(ticket, timeout);
}
Result<void> Session::wait_all(std::chrono::nanoseconds timeout) {
  return state_->wait_all(timeout);
}
Result<std::optional<Completion>> Session::poll(Ticket ticket) {
  return state_->poll(ticket);
}
Result<void> Session::on_complete(Ticket ticket,
                                  std::function<void(Ticket, Completion, bool)> callback) {
  return state_->on_complete(ticket, std::move(callback));
}
Result<void> Session::set_tenant_enabled(Word tenant, bool enabled) {
  return state_->set_tenant_enabled(tenant, enabled);
}
Result<void> Session::set_tenant_quota(Word tenant, Word quota) {
  return state_->set_tenant_quota(tenant, quota);
}
Result<void> Session::snapshot(SessionSnapshot& target, std::span<const Word> window_opcodes) {
  return state_->snapshot(target, window_opcodes);
}
SessionCounters Session::counters() {
  return state_->counters();
}
Result<Word> Session::observable(Word index) const {
  return state_->observable(index);
}
void Session::copy_debug_log(std::vector<std::byte>& target) const {
  state_->copy_debug_log(target);
}
StopReport Session::stop(StopMode mode, std::chrono::nanoseconds timeout) {
  return state_->stop(mode, timeout);
}
Result<void> Session::recover() {
  return state_->recover();
}
Word Session::capacity() const {
  return state_->capacity();
}
int Session::memory_descriptor() const {
  return state_->memory_descriptor();
}

Result<Session> Megakernel::start(const SessionOptions& options) {
  const Word slot_count = state_->options.geometry.slot_count;
  if (slot_count < 2 || !std::has_single_bit(slot_count)) {
    return fail(Code::invalid_argument,
                fmt::format("session: the ring has {} slots, not a power of two that is at least 2",
                            slot_count),
                fmt::format("create the megakernel with {} slots",
                            std::bit_ceil(std::max<Word>(slot_count, 2))));
  }
  auto shared_memory = EVERKERNEL_TRY(make_shared_memory(options, slot_count));
  EVERKERNEL_TRY(fill_control(options, shared_memory.part(kControl)));
  const auto words = *LiveWords::bind(protocol::Buffer::control, shared_memory.part(kControl));
  const Word head = words.load_relaxed(abi::kControlTicketHead.first);
  const Word tail = words.load_relaxed(abi::kControlTicketTail.first);
  if (head != tail) {
    return fail(Code::invalid_argument,
                fmt::format("control: TICKET_HEAD is {} and TICKET_TAIL {}; a session begins with "
                            "an empty ring",
                            head, tail),
                "set TICKET_HEAD and TICKET_TAIL to the same value");
  }
  auto session = std::make_unique<Session::State>(state_, std::move(shared_memory), head,
                                                  state_->current_kernel()->worker_count());
  EVERKERNEL_TRY(session->launch());
  return Session(std::move(session));
}

}  // namespace everkernel
