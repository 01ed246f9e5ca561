// A live session: its kernel, its queues, and what lies beside them (control words, debug log, IO
// queue). live/queue_core.cpp is one queue, live/callbacks.cpp the callbacks.
#include "everkernel/runtime/session.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <exception>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/process.hpp"
#include "everkernel/abi/fault.hpp"
#include "everkernel/abi/opcode.hpp"
#include "everkernel/protocol/control.hpp"
#include "everkernel/protocol/debug_log.hpp"
#include "everkernel/protocol/io_queue.hpp"
#include "live/callbacks.hpp"
#include "live/queue_core.hpp"
#include "memory/shared_memory.hpp"
#include "runtime/out_of_memory.hpp"
#include "runtime/running_items.hpp"
#include "runtime/session_snapshot.hpp"
#include "runtime/session_state.hpp"
#include "runtime/state.hpp"

namespace everkernel {
namespace {

using backend::Clock;
using backend::deadline_after;
using backend::LongWord;
using live::QueueCore;
using protocol::LiveWords;
using protocol::Operation;

// Stopping waits at least this long for a callback that runs.
constexpr auto kStopGrace = std::chrono::milliseconds(500);
// How long the destructor of a session waits for callbacks that run.
constexpr auto kCallbackTimeout = std::chrono::seconds(60);
// Interval at which replace_handlers() looks whether items have ended.
constexpr auto kEndedLook = std::chrono::microseconds(50);
// How often, and at which interval, the end of a replacement tries to tell the kernel.
constexpr int kLiftTries = 1000;
constexpr auto kLiftInterval = std::chrono::milliseconds(1);
// Most queues of a session.
constexpr std::size_t kMostQueues = 1024;

Result<memory::SharedMemory> make_shared_memory(const SessionOptions& options) {
  const auto control = options.control.empty()
                           ? protocol::control_bytes({.tenant_count = options.tenant_count,
                                                      .observable_slots = options.observable_slots})
                           : Result<std::size_t>(options.control.size());
  const auto debug_log = protocol::debug_log_bytes(options.debug_records);
  const auto io_queue = protocol::io_queue_bytes(options.io_slots);
  for (const auto* part : {&control, &debug_log, &io_queue}) {
    if (!*part) return Failure(part->error());
  }
  return memory::SharedMemory::create(std::array{*control, *debug_log, *io_queue});
}

Result<void> fill_control(const SessionOptions& options, Word quota, std::span<std::byte> control) {
  if (!options.control.empty()) {
    EVERKERNEL_TRY(protocol::ControlView::parse(options.control));
    std::ranges::copy(options.control, control.begin());
    return {};
  }
  EVERKERNEL_TRY(protocol::encode_control(
      {.tenant_count = options.tenant_count, .observable_slots = options.observable_slots},
      control));
  auto writer = *protocol::LiveControlWriter::bind(control);
  for (Word tenant = 1; tenant < options.tenant_count; ++tenant) {
    EVERKERNEL_TRY(writer.set_tenant_quota(tenant, quota));
  }
  return {};
}

Failure stopped() {
  return fail(Code::invalid_argument, "session is stopped", "start a new session");
}

}  // namespace

Session::State::State(std::shared_ptr<Megakernel::State> megakernel,
                      memory::SharedMemory shared_memory, const SessionOptions& options,
                      std::shared_ptr<backend::Doorbell> doorbell)
    : megakernel_(std::move(megakernel)),
      shared_memory_(std::move(shared_memory)),
      control_(*LiveWords::bind(protocol::Buffer::control, shared_memory_.part(kControl))),
      capacity_(options.capacity),
      first_ticket_(options.first_ticket),
      multiprocessors_(options.multiprocessors),
      item_timeout_(options.item_timeout),
      latency_(options.latency),
      doorbell_(std::move(doorbell)) {}

// Starts the kernel on the queues that are there. After a loss, the counts of the kernel that was
// lost are kept.
Result<void> Session::State::launch() {
  const std::scoped_lock held(kernel_mutex_);
  kernels_.reserve(kernels_.size() + 1);
  const auto kernel = EVERKERNEL_TRY(kernel_to_start());
  auto live = EVERKERNEL_TRY(kernel->start({.control = shared_memory_.part(kControl),
                                            .debug_log = shared_memory_.part(kDebugLog),
                                            .io_queue = shared_memory_.part(kIoQueue),
                                            .doorbell = doorbell_.get(),
                                            .multiprocessors = multiprocessors_,
                                            .latency = latency_}));
  auto table = megakernel_->current_table();
  live->set_buffers(table->table.view(), table);
  for (const auto& queue : queues_) EVERKERNEL_TRY(live->open(queue->live()));
  if (!kernels_.empty()) add(earlier_, kernels_.back().live->flush_counters());
  kernels_.push_back({kernel, std::move(live)});
  table_ = std::move(table);
  live_.store(kernels_.back().live.get(), std::memory_order_release);
  is_open_.store(true, std::memory_order_release);
  return {};
}

// The megakernel's, or after the handlers were replaced one of the session's own.
Result<std::shared_ptr<backend::Kernel>> Session::State::kernel_to_start() {
  auto kernel = megakernel_->current_kernel(&generation_);
  if (!replaced_) return kernel;
  return std::shared_ptr<backend::Kernel>(
      EVERKERNEL_TRY(megakernel_->backend->compile(*replaced_)));
}

// ---- queues ----

Result<std::shared_ptr<QueueCore>> Session::State::open(const QueueOptions& options,
                                                        std::uint8_t own_index) {
  EVERKERNEL_TRY(check_home());
  EVERKERNEL_TRY(check_running());
  auto queue = EVERKERNEL_TRY(QueueCore::create(weak_from_this(), doorbell_, options, own_index));
  const std::scoped_lock held(kernel_mutex_);
  if (!is_open_.load(std::memory_order_acquire) || is_stopping_.load(std::memory_order_acquire)) {
    return stopped();
  }
  if (queues_.size() >= kMostQueues) {
    return fail(Code::invalid_argument,
                fmt::format("session: it has {} queues, the most there can be", kMostQueues),
                "close queues that are no longer used");
  }
  queues_.reserve(queues_.size() + 1);
  if (has_limits_) queue->set_limit();
  EVERKERNEL_TRY(live()->open(queue->live()));
  queues_.push_back(queue);
  return queue;
}

// The queue of a tenant and priority into which publish() goes, opened if it is not there yet.
Result<QueueCore*> Session::State::own_queue(const PublishOptions& options) {
  if (QueueCore* const known = find_own_queue(options)) return known;
  return open_own_queue(options.tenant.number, static_cast<Word>(options.priority));
}

Result<QueueCore*> Session::State::open_own_queue(Word tenant, Word priority) {
  EVERKERNEL_TRY(protocol::check_operation({}, {tenant, priority}));
  const std::scoped_lock held(own_mutex_);
  auto& place = own_queues_[own_index(tenant, priority)];
  if (QueueCore* const known = place.load(std::memory_order_acquire)) return known;
  const auto opened = EVERKERNEL_TRY(or_out_of_memory("session", [&] {
    return open({.tenant = TenantId(tenant),
                 .priority = Priority{priority},
                 .capacity = capacity_,
                 .entries = abi::EntryFormat::full,
                 .first_ticket = first_ticket_,
                 .item_timeout = item_timeout_},
                own_index(tenant, priority));
  }));
  place.store(opened.get(), std::memory_order_release);  // the session holds it until its end
  return opened.get();
}

// The queue of a ticket: one of the session's own without a lock, any other by search.
Result<std::shared_ptr<QueueCore>> Session::State::queue_of(Ticket ticket) {
  EVERKERNEL_TRY(check_home());
  const std::scoped_lock held(kernel_mutex_);
  const auto found = std::ranges::find(queues_, ticket.queue, &QueueCore::id);
  if (found != queues_.end()) return *found;
  return fail(Code::invalid_argument,
              fmt::format("session: ticket {} belongs to queue {}, which is not open here",
                          ticket.number, ticket.queue),
              "ask the session or the queue that published the item");
}

QueueCore* Session::State::own_queue_of(Ticket ticket) const {
  const std::size_t index = ticket.queue % QueueCore::kOwnIndices;
  if (index >= own_queues_.size() || !home_.is_here()) return nullptr;
  QueueCore* const queue = own_queues_[index].load(std::memory_order_acquire);
  return queue != nullptr && queue->id() == ticket.queue ? queue : nullptr;
}

// Visits every queue without the lock, which calls that wait must not hold, and without memory.
void Session::State::for_each_queue(const auto& visit) {
  for (std::size_t i = 0;; ++i) {
    std::shared_ptr<QueueCore> queue;
    {
      const std::scoped_lock held(kernel_mutex_);
      if (i >= queues_.size()) return;
      queue = queues_[i];
    }
    visit(*queue);
  }
}

std::uint64_t Session::State::take_away(QueueCore& queue, Clock::time_point deadline) {
  // The kernel lock is not held while items of the queue end: other queues come and go meanwhile.
  const std::uint64_t cancelled = live()->close(*queue.live(), deadline);
  const std::scoped_lock held(kernel_mutex_);
  if (is_stopping_.load(std::memory_order_acquire)) return cancelled;
  closed_.published += queue.counters().published;
  closed_.full_waits += queue.counters().full_waits;
  closed_.forgotten_faults += queue.counters().forgotten_faults;
  closed_.noted += queue.counters().published;
  std::erase_if(queues_, [&](const auto& known) { return known.get() == &queue; });
  return cancelled;
}

Word Session::State::help(backend::LiveQueue& queue, LongWord awaited) {
  return live()->help(queue, awaited);
}

void Session::State::expect_sleeper() {
  live()->expect_sleeper();
}

std::string Session::State::running_text(const backend::LiveQueue& queue) {
  const auto items = running();
  if (!items) return {};
  const std::scoped_lock held(kernel_mutex_);
  for (const RunningItem& item : *items) {
    const auto found = std::ranges::find(queues_, item.ticket.queue, &QueueCore::id);
    if (found != queues_.end() && (*found)->live().get() == &queue) {
      return everkernel::running_text(item);
    }
  }
  return {};
}

Result<void> Session::State::check_running() const {
  if (!is_open_.load(std::memory_order_acquire)) return stopped();
  const auto kernel = live();
  const bool has_workers = kernel->is_running();
  EVERKERNEL_TRY(kernel->health());
  if (has_workers || kernel != live()) return {};  // a recovery replaced it meanwhile
  return fail(Code::invalid_argument, "session: SHUTDOWN was set, and the workers left",
              "stop the session, then start a new one");
}

Result<void> Session::State::call_back(std::shared_ptr<QueueCore> queue, Ticket ticket,
                                       live::Callback callback) {
  EVERKERNEL_TRY(callbacks_->add(std::move(queue), ticket, std::move(callback)));
  expect_sleeper();
  return {};
}

void Session::State::set_buffers(std::shared_ptr<TableSnapshot> table) {
  const std::scoped_lock held(kernel_mutex_);
  if (kernels_.empty()) return;
  live()->set_buffers(table->table.view(), table);
  table_ = std::move(table);
}

Result<void> Session::State::wait_all(std::chrono::nanoseconds timeout) {
  EVERKERNEL_TRY(check_home());
  const auto deadline = deadline_after(timeout);
  Result<void> result;
  for_each_queue([&](QueueCore& queue) {
    if (!result || queue.is_given()) return;
    result = queue.wait_all(std::max<std::chrono::nanoseconds>(deadline - Clock::now(), {}));
  });
  EVERKERNEL_TRY(result);
  if (!was_cancelled_.load(std::memory_order_acquire)) return {};
  return fail(Code::invalid_argument, "session was stopped before all items ran",
              "start a new session and publish the items that are left");
}

// ---- looking ----

SessionCounters Session::State::counters() {
  SessionCounters counters;
  if (!is_here()) return counters;
  const std::scoped_lock held(kernel_mutex_);
  counters.kernel = live()->flush_counters();
  add(counters.kernel, earlier_);
  counters.failed_callbacks = callbacks_->failed();
  QueueCounters sum = closed_;
  for (const auto& queue : queues_) {
    const QueueCounters one = queue->counters();
    sum.published += one.published;
    sum.noted += one.noted;
    sum.full_waits += one.full_waits;
    sum.forgotten_faults += one.forgotten_faults;
  }
  counters.published = sum.published;
  counters.noted = sum.noted;
  counters.full_waits = sum.full_waits;
  counters.forgotten_faults = sum.forgotten_faults;
  return counters;
}

Result<std::vector<RunningItem>> Session::State::running() {
  EVERKERNEL_TRY(check_home());
  std::vector<std::shared_ptr<QueueCore>> queues;
  {
    const std::scoped_lock held(kernel_mutex_);
    queues = queues_;
  }
  return running_items(*live(), queues, megakernel_->options);
}

Result<void> Session::State::snapshot(SessionSnapshot& target,
                                      std::span<const Word> window_opcodes) {
  EVERKERNEL_TRY(check_home());
  const std::scoped_lock held(snapshot_mutex_);
  target.counters = counters();
  std::uint64_t resident = shared_memory_.size_bytes() + table_bytes();
  {
    const std::scoped_lock queues_held(kernel_mutex_);
    seen_queues_ = queues_;
    target.executions.clear();
    for (const RunningKernel& kernel : kernels_) kernel.live->add_executions(target.executions);
  }
  for (const auto& queue : seen_queues_) resident += queue->memory_bytes();
  // A device that was lost runs nothing; the counters before it are still worth a look.
  auto running = running_items(*live(), seen_queues_, megakernel_->options);
  target.running = running ? *std::move(running) : std::vector<RunningItem>();
  return snapshot_.take({.control = control_,
                         .queues = seen_queues_,
                         .kernel = live(),
                         .window_opcodes = window_opcodes,
                         .resident_bytes = resident},
                        target);
}

std::uint64_t Session::State::table_bytes() {
  const std::scoped_lock held(kernel_mutex_);
  std::uint64_t bytes = 0;
  for (const auto& buffer : table_->owners) bytes += buffer->options.word_count * abi::kWordBytes;
  return bytes;
}

Result<Word> Session::State::observable(Word index) const {
  EVERKERNEL_TRY(check_home());
  const std::uint64_t word = std::uint64_t{abi::kControlFirstObservable} + index;
  if (word < control_.size()) {
    live()->refresh_control(word);
    return control_.load_acquire(word);
  }
  return fail(Code::invalid_argument,
              fmt::format("control: observable {} is outside the {} of this session", index,
                          control_.size() - abi::kControlFirstObservable));
}

void Session::State::copy_debug_log(std::vector<std::byte>& target) const {
  const auto log = shared_memory_.part(kDebugLog);
  target.clear();
  if (!is_here()) return;
  live()->mirror();
  target.resize(log.size());
  const auto words = LiveWords::bind(protocol::Buffer::debug_log, log);
  static_cast<void>(words->copy_to(target));
}

Result<void> Session::State::set_tenant_enabled(TenantId tenant, bool enabled) {
  EVERKERNEL_TRY(check_home());
  auto writer = *protocol::LiveControlWriter::bind(shared_memory_.part(kControl));
  EVERKERNEL_TRY(writer.set_tenant_enabled(tenant.number, enabled));
  live()->look_again();
  return {};
}

Result<void> Session::State::set_tenant_quota(TenantId tenant, Word quota) {
  EVERKERNEL_TRY(check_home());
  auto writer = *protocol::LiveControlWriter::bind(shared_memory_.part(kControl));
  EVERKERNEL_TRY(writer.set_tenant_quota(tenant.number, quota));
  live()->look_again();
  return {};
}

// ---- parking ----

namespace {

// The sessions that the calling thread has parked.
struct ParkedHere {
  const Session::State* session;
  const ParkedHere* outer;
};
thread_local const ParkedHere* parked_here = nullptr;

bool is_parked_here(const Session::State* session) {
  for (const ParkedHere* next = parked_here; next != nullptr; next = next->outer) {
    if (next->session == session) return true;
  }
  return false;
}

}  // namespace

Result<void> Session::State::parked(const std::function<void()>& act,
                                    std::chrono::nanoseconds timeout) {
  EVERKERNEL_TRY(check_home());
  const auto deadline = deadline_after(timeout);
  if (!act) return fail(Code::invalid_argument, "session: parked() needs a function to call");
  if (is_parked_here(this)) {
    return fail(Code::invalid_argument, "session: parked() was called inside parked()",
                "the kernel is away until the outer function returns: do the work there");
  }
  EVERKERNEL_TRY(check_running());
  std::exception_ptr thrown;
  const auto guarded = [&] {
    const ParkedHere here{this, parked_here};
    parked_here = &here;
    try {
      act();
    } catch (...) {
      thrown = std::current_exception();
    }
    parked_here = here.outer;
  };
  const auto done = or_out_of_memory("session", [&] { return live()->parked(guarded, deadline); });
  if (thrown != nullptr) std::rethrow_exception(thrown);
  return done;
}

// ---- other handlers ----

Result<void> Session::State::replace_handlers(const ir::VerifiedProgram& program,
                                              std::chrono::nanoseconds timeout) {
  EVERKERNEL_TRY(check_home());
  const backend::Deadline deadline(deadline_after(timeout), &must_hurry_);
  if (is_parked_here(this)) {
    return fail(Code::invalid_argument, "session: handlers were to be replaced inside parked()",
                "replace them when it has returned");
  }
  EVERKERNEL_TRY(check_running());
  if (!replace_gate_.try_lock_until(deadline)) {
    EVERKERNEL_TRY(check_not_stopping());
    return fail(Code::timeout, "session: another thread replaced the handlers until the deadline",
                "raise `timeout`, or replace handlers from one thread");
  }
  const std::unique_lock held(replace_gate_, std::adopt_lock);
  backend::KernelOptions options = megakernel_->options;
  options.program = program;
  options.takes_over = true;
  options.compile_deadline = deadline;
  const std::shared_ptr<backend::Kernel> kernel =
      EVERKERNEL_TRY(megakernel_->backend->compile(options));
  options.takes_over = false;
  options.compile_deadline = {};
  if (!stop_gate_.try_lock_until(deadline)) {
    EVERKERNEL_TRY(check_not_stopping());
    return fail(Code::timeout, "session: a stop or recovery was under way until the deadline",
                "raise `timeout`");
  }
  const std::unique_lock gate(stop_gate_, std::adopt_lock);
  if (stopped_) return stopped();
  EVERKERNEL_TRY(check_running());
  EVERKERNEL_TRY(swap(kernel, deadline));
  replaced_ = std::move(options);
  return {};
}

// Takes nothing new, waits until everything taken has ended, and goes on with the other kernel.
Result<void> Session::State::swap(const std::shared_ptr<backend::Kernel>& kernel,
                                  const backend::Deadline& deadline) {
  struct Limits {
    State& session;
    explicit Limits(State& of) : session(of) {
      session.live()->mirror();  // how far queues of other processes are
      session.set_limits(true);
    }
    ~Limits() { session.set_limits(false); }
  } const limits(*this);
  EVERKERNEL_TRY(wait_until_ended(deadline));
  return kernel->take_over(*live(), deadline.time);
}

void Session::State::set_limits(bool are_set) {
  {
    const std::scoped_lock held(kernel_mutex_);
    has_limits_ = are_set;
    for (const auto& queue : queues_) are_set ? queue->set_limit() : queue->lift_limit();
  }
  // Without memory for orders to a GPU, its queues would stay limited until the next ones.
  for (int tries = 0; !are_set && tries < kLiftTries; ++tries) {
    try {
      return live()->look_again();
    } catch (const std::bad_alloc&) {
      std::this_thread::sleep_for(kLiftInterval);
    }
  }
}

Result<void> Session::State::wait_until_ended(const backend::Deadline& deadline) {
  const auto settled = live()->settle(deadline.time);
  if (!settled && settled.error().code != Code::timeout) return settled;
  for (;;) {
    auto error = what_holds_up();
    if (settled && !error) return {};
    EVERKERNEL_TRY(check_running());
    EVERKERNEL_TRY(check_not_stopping());
    if (!settled || Clock::now() >= deadline.time) {
      return error ? Result<void>(Failure(*std::move(error))) : settled;
    }
    std::this_thread::sleep_for(kEndedLook);
  }
}

// The first item that has not ended and must, and why it has not.
std::optional<Error> Session::State::what_holds_up() {
  std::shared_ptr<QueueCore> stuck;
  LongWord ticket = 0;
  {
    const std::scoped_lock held(kernel_mutex_);
    for (const auto& queue : queues_) {
      const auto open = queue->first_open();
      if (!open) continue;
      stuck = queue;
      ticket = *open;
      break;
    }
  }
  if (stuck == nullptr) return std::nullopt;
  const backend::LiveQueue& live_queue = *stuck->live();
  const auto why = [&]() -> std::string_view {
    const Word mask = control_.load_relaxed(abi::kControlTenantMasks.first + live_queue.tenant);
    const Word quota = control_.load_relaxed(abi::kControlTenantQuotas.first + live_queue.tenant);
    if (mask == 0) return "its tenant is disabled";
    if (quota == 0) return "its tenant has a quota of 0";
    std::vector<backend::LiveItem> waiting;
    live()->copy_waiting(live_queue, waiting);
    const auto found = std::ranges::find(waiting, ticket, &backend::LiveItem::ticket);
    if (found != waiting.end()) {
      if (found->slot.status == abi::SlotStatus::wait_io) return "it waits for IO";
      return "it has yielded, or is a fence that waits";
    }
    if (!live_queue.words.peek(ticket)) return "its producer has not filled its entry";
    return ticket < live_queue.head.load(std::memory_order_acquire) ? "it runs"
                                                                    : "it has not been taken";
  }();
  return fail(
             Code::timeout,
             fmt::format("session: handlers were not replaced: item {} of queue {}, tenant {}, has "
                         "not ended: {}",
                         ticket, stuck->id(), live_queue.tenant, why),
             "end what holds it up, or raise `timeout`")
      .value();
}

// ---- ending ----

StopReport Session::State::stop(StopMode mode, std::chrono::nanoseconds timeout,
                                std::chrono::nanoseconds callback_timeout) {
  if (!is_here()) return {};
  const auto deadline = deadline_after(timeout);
  StopReport report;
  {
    const auto held = lock_to_stop(mode, deadline);
    report = held.owns_lock() ? stop_kernel(mode, deadline) : counts_so_far();
  }
  // Without the gate: a callback may call stop() too, and this waits for callbacks.
  report.callbacks_dropped = callbacks_->end(
      std::max({deadline, deadline_after(kStopGrace), deadline_after(callback_timeout)}));
  return report;
}

// Takes the gate. If another stop or a recovery still holds it when this one has to end, asks that
// call to hurry; if it does not give the gate back even then, no later call starts a kernel.
std::unique_lock<LaunchGate> Session::State::lock_to_stop(StopMode mode,
                                                          Clock::time_point deadline) {
  if (stop_gate_.try_lock_until(mode == StopMode::drain ? deadline : Clock::now())) {
    return {stop_gate_, std::adopt_lock};
  }
  must_hurry_.store(true, std::memory_order_relaxed);
  if (stop_gate_.try_lock_until(std::max(deadline, deadline_after(kStopGrace)))) {
    return {stop_gate_, std::adopt_lock};
  }
  is_open_.store(false, std::memory_order_release);
  return {};
}

// Stops the kernel and cancels what has not run; the gate is held.
StopReport Session::State::stop_kernel(StopMode mode, Clock::time_point deadline) {
  if (stopped_) return *stopped_;
  is_stopping_.store(true, std::memory_order_release);  // no queue comes or goes from here on
  for_each_queue([](QueueCore& queue) { queue.begin_drain(); });
  if (mode == StopMode::drain) {
    for_each_queue([&](QueueCore& queue) { queue.drain_until(deadline, &must_hurry_); });
  }
  live()->stop(mode == StopMode::drain ? Clock::now() : deadline, backend::LeaveMode::cancel);
  is_open_.store(false, std::memory_order_release);
  std::uint64_t cancelled = 0;
  for_each_queue([&](QueueCore& queue) { cancelled += queue.finish(); });
  if (cancelled != 0) was_cancelled_.store(true, std::memory_order_release);
  stopped_ = counts_so_far();
  stopped_->cancelled = cancelled;
  return *stopped_;
}

StopReport Session::State::counts_so_far() {
  const SessionCounters totals = counters();
  return {.done = totals.kernel.done, .faulted = totals.kernel.faulted};
}

Result<void> Session::State::recover(std::chrono::nanoseconds timeout) {
  EVERKERNEL_TRY(check_home());
  const backend::Deadline deadline(deadline_after(timeout), &must_hurry_);
  if (!stop_gate_.try_lock_until(deadline)) {
    EVERKERNEL_TRY(check_not_stopping());
    return fail(Code::timeout, "session: another stop or recovery was under way until the deadline",
                "raise `timeout`, or call recover() from one thread");
  }
  const std::unique_lock held(stop_gate_, std::adopt_lock);
  if (stopped_) return stopped();
  const auto lost = live();
  if (lost->health()) return {};
  lost->stop(Clock::now(), backend::LeaveMode::hand_over);
  const RecoveryDecision recovery = EVERKERNEL_TRY(megakernel_->recover(generation_, deadline));
  if (recovery.buffers_lost != 0) {
    return fail(
        Code::device_lost,
        fmt::format("session: {} buffers without a host copy were lost with the device",
                    recovery.buffers_lost),
        "the device is back and these buffers are zero: fill them, then call recover() again");
  }
  EVERKERNEL_TRY(check_not_stopping());
  end_taken();
  return launch();
}

// A stop that waits, or that has given up waiting, needs no further kernel.
Result<void> Session::State::check_not_stopping() const {
  if (!must_hurry_.load(std::memory_order_relaxed)) return {};
  return stopped();
}

// Items that were taken when the device was lost: those that may run twice stay open, and the next
// kernel runs them again; the others end as FAULT (maybe_executed).
void Session::State::end_taken() {
  const std::scoped_lock held(kernel_mutex_);  // whoever sees a FAULT finds it counted
  for (const auto& queue : queues_) {
    backend::LiveQueue& live = *queue->live();
    const abi::LongWord end = live.head.load(std::memory_order_acquire);
    for (abi::LongWord ticket = live.raise_floor(); ticket < end; ++ticket) {
      if (live.words.has_ended(ticket)) continue;
      const auto slot = live.words.copy_slot(ticket);
      if (slot && may_run_twice(*slot)) continue;
      constexpr auto kCode = static_cast<Word>(abi::FaultCode::maybe_executed);
      live.words.end(ticket, abi::OutcomeCode::fault, kCode, {});
      control_.add_release(abi::kControlFaultCount.first, 1);
      ++earlier_.faulted;
    }
    live.notify();
  }
}

bool Session::State::may_run_twice(const abi::Slot& slot) const {
  const backend::KernelOptions& options = replaced_ ? *replaced_ : megakernel_->options;
  if (options.payload) return false;
  if (slot.opcode == static_cast<Word>(abi::Opcode::nop)) return true;
  const auto found = options.find_handler(slot.opcode);
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
  sum.launches += more.launches;
  sum.bytes_uploaded += more.bytes_uploaded;
  sum.hits_dropped += more.hits_dropped;
  add_all(sum.tenant_claims, more.tenant_claims);
  add_all(sum.priority_claims, more.priority_claims);
  add_all(sum.executions, more.executions);
}

// ---- the calls ----

Session::Session(std::shared_ptr<State> state) : state_(std::move(state)) {}
Session::Session(Session&&) noexcept = default;

Session& Session::operator=(Session&& other) noexcept {
  if (this != &other) Session ended(std::exchange(state_, std::move(other.state_)));
  return *this;
}

Session::~Session() {
  if (state_ == nullptr) return;
  if (state_->is_here()) {
    state_->stop(StopMode::cancel, {}, kCallbackTimeout);
  } else {
    abandon(std::move(state_));
  }
}

Result<Queue> Session::open_queue(const QueueOptions& options) {
  return or_out_of_memory("session", [&]() -> Result<Queue> {
    return Queue(EVERKERNEL_TRY(state_->open(options, QueueCore::kNotOwn)));
  });
}

Result<Ticket> Session::publish(const Operation& item, const PublishOptions& options) {
  if (QueueCore* const known = state_->find_own_queue(options)) [[likely]] {
    return known->publish(item, options.timeout);
  }
  QueueCore* const queue = EVERKERNEL_TRY(state_->own_queue(options));
  return queue->publish(item, options.timeout);
}
Result<TicketRange> Session::publish_items(std::span<const abi::WorkItem> items,
                                           const PublishOptions& options) {
  QueueCore* const queue = EVERKERNEL_TRY(state_->own_queue(options));
  return queue->publish_items(items, options.timeout);
}
Result<Ticket> Session::publish_packed(std::span<const protocol::PackedOp> ops,
                                       const PublishOptions& options) {
  QueueCore* const queue = EVERKERNEL_TRY(state_->own_queue(options));
  return queue->publish_packed(ops, options.timeout);
}
Result<TicketRange> Session::publish_batch(std::span<const Operation> items, Word tag,
                                           const PublishOptions& options) {
  QueueCore* const queue = EVERKERNEL_TRY(state_->own_queue(options));
  return queue->publish_batch(items, tag, options.timeout);
}
Result<Completion> Session::wait(Ticket ticket, std::chrono::nanoseconds timeout) {
  if (QueueCore* const own = state_->own_queue_of(ticket)) {
    return own->wait(ticket, timeout, state_.get());
  }
  const auto queue = EVERKERNEL_TRY(state_->queue_of(ticket));
  return queue->wait(ticket, timeout, state_.get());
}
Result<void> Session::wait_all(std::chrono::nanoseconds timeout) {
  return state_->wait_all(timeout);
}
Result<std::optional<Completion>> Session::poll(Ticket ticket) {
  if (QueueCore* const own = state_->own_queue_of(ticket)) return own->poll(ticket);
  const auto queue = EVERKERNEL_TRY(state_->queue_of(ticket));
  return queue->poll(ticket);
}
Result<void> Session::on_complete(Ticket ticket,
                                  std::function<void(Ticket, Completion, bool)> callback) {
  return or_out_of_memory("session", [&]() -> Result<void> {
    auto queue = EVERKERNEL_TRY(state_->queue_of(ticket));
    EVERKERNEL_TRY(queue->number_of(ticket));
    return state_->call_back(std::move(queue), ticket, std::move(callback));
  });
}
Result<void> Session::set_tenant_enabled(TenantId tenant, bool enabled) {
  return state_->set_tenant_enabled(tenant, enabled);
}
Result<void> Session::set_tenant_quota(TenantId tenant, Word quota) {
  return state_->set_tenant_quota(tenant, quota);
}
Result<void> Session::snapshot(SessionSnapshot& target, std::span<const Word> window_opcodes) {
  return or_out_of_memory("session", [&] { return state_->snapshot(target, window_opcodes); });
}
SessionCounters Session::counters() {
  return state_->counters();
}
Result<std::vector<RunningItem>> Session::running() {
  return or_out_of_memory("session", [&] { return state_->running(); });
}
Result<Word> Session::observable(Word index) const {
  return state_->observable(index);
}
void Session::copy_debug_log(std::vector<std::byte>& target) const {
  state_->copy_debug_log(target);
}
Result<void> Session::parked(const std::function<void()>& act, std::chrono::nanoseconds timeout) {
  const auto state = state_;  // the function may be the session's end
  return state->parked(act, timeout);
}
Result<void> Session::replace_handlers(const ir::VerifiedProgram& program,
                                       std::chrono::nanoseconds timeout) {
  const auto state = state_;  // a stop that does not wait for this call may be the session's end
  return or_out_of_memory("session", [&] { return state->replace_handlers(program, timeout); });
}
StopReport Session::stop(StopMode mode, std::chrono::nanoseconds timeout) {
  return state_->stop(mode, timeout, {});
}
Result<void> Session::recover(std::chrono::nanoseconds timeout) {
  const auto state = state_;  // a stop that does not wait for this call may be the session's end
  return or_out_of_memory("session", [&] { return state->recover(timeout); });
}
Word Session::capacity() const {
  return state_->is_here() ? state_->capacity() : 0;
}
int Session::memory_descriptor() const {
  return state_->memory_descriptor();
}

Result<Session> Megakernel::start(const SessionOptions& options) {
  EVERKERNEL_TRY(state_->home.check("megakernel"));
  EVERKERNEL_TRY(live::check_item_timeout(options.item_timeout));
  EVERKERNEL_TRY(protocol::check_shape({.entries = abi::EntryFormat::full,
                                        .capacity = options.capacity,
                                        .first_ticket = options.first_ticket}));
  auto shared_memory = EVERKERNEL_TRY(make_shared_memory(options));
  const Word quota = state_->current_kernel()->largest_share(options.multiprocessors);
  EVERKERNEL_TRY(fill_control(options, quota, shared_memory.part(Session::State::kControl)));
  auto doorbell = EVERKERNEL_TRY(backend::Doorbell::create());
  return or_out_of_memory("session", [&]() -> Result<Session> {
    auto session = std::make_shared<Session::State>(state_, std::move(shared_memory), options,
                                                    std::move(doorbell));
    EVERKERNEL_TRY(session->launch());
    state_->add_session(session);
    return Session(std::move(session));
  });
}

}  // namespace everkernel
