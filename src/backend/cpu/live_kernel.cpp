// Queues come and go, buffers change, workers start and leave.
#include "backend/cpu/live_kernel.hpp"

#include <algorithm>
#include <mutex>
#include <thread>

#include "backend/cpu/live_worker.hpp"
#include "everkernel/base/detail/fence.hpp"

namespace everkernel::backend::cpu {
namespace {

// Interval at which close() looks whether workers have left a queue.
constexpr auto kLeaveLook = std::chrono::microseconds(50);
// Interval at which replace() looks whether workers have left instead of stepping aside.
constexpr auto kAsideLook = std::chrono::milliseconds(1);
// close() looks this often without a pause: a worker that only looks at queues is soon done.
constexpr int kSpinLooks = 1000;
// stop() tells items to end again this often, because a worker may have begun another one.
constexpr auto kEndInterval = std::chrono::milliseconds(1);
// The thread that ends overdue items looks this often in the shortest timeout of a queue, and at
// most and at least in these intervals.
constexpr int kLooksPerTimeout = 4;
constexpr std::chrono::nanoseconds kShortestLook = std::chrono::microseconds(200);
constexpr std::chrono::nanoseconds kLongestLook = std::chrono::milliseconds(50);

// The queues of a roster by priority and tenant.
void arrange(Roster& roster) {
  for (auto& level : roster.levels) level.clear();
  for (const auto& queue : roster.queues) {
    auto& level = roster.levels[queue->live->priority];
    auto found = std::ranges::find(level, queue->live->tenant, &Roster::Tenant::tenant);
    if (found == level.end()) {
      level.push_back({.tenant = queue->live->tenant});
      found = level.end() - 1;
    }
    found->queues.push_back(queue.get());
  }
}

}  // namespace

Result<std::unique_ptr<LiveKernel>> CpuLiveKernel::start(const LiveLaunch& launch,
                                                         std::shared_ptr<const Executor> executor,
                                                         std::uint64_t fuel_per_item,
                                                         Word worker_count) {
  EVERKERNEL_TRY(ItemContext::check(launch.control, launch.debug_log, launch.io_queue));
  fence::prepare();
  std::unique_ptr<CpuLiveKernel> kernel(
      new CpuLiveKernel(launch, std::move(executor), fuel_per_item, worker_count));
  EVERKERNEL_TRY(kernel->threads_.start([self = kernel.get()](Word seat) { self->work(seat); }));
  return std::unique_ptr<LiveKernel>(std::move(kernel));
}

CpuLiveKernel::CpuLiveKernel(const LiveLaunch& launch, std::shared_ptr<const Executor> executor,
                             std::uint64_t fuel_per_item, Word worker_count)
    : doorbell_(*launch.doorbell),
      executor_(std::move(executor)),
      context_(launch.control, launch.debug_log, launch.io_queue),
      worker_count_(worker_count),
      seat_count_(worker_count + 1),
      seats_(std::make_unique<LiveSeat[]>(seat_count_)),
      current_roster_(std::make_unique<Roster>()),
      threads_(worker_count) {
  context_.executor = executor_.get();
  context_.fuel_per_item = fuel_per_item;
  context_.worker_count = seat_count_;
  for (Word i = 0; i < seat_count_; ++i) {
    const Word counters = executor_->counter_count();
    seats_[i].tally.keep_others(Tally::make_others(counters), counters);
  }
  roster_.store(current_roster_.get(), std::memory_order_release);
  helper_ = std::make_unique<LiveWorker>(*this, worker_count);
}

void CpuLiveKernel::work(Word seat) {
  for (;;) {
    LiveWorker(*this, seat).run();
    if (must_leave_.load() || context_.is_shut_down()) break;
    wait_aside();
  }
  if (context_.is_shut_down()) refuse_items();
  doorbell_.ring(worker_count_);  // after SHUTDOWN, sleeping workers must leave as well
}

// After SHUTDOWN nothing that is published would run.
void CpuLiveKernel::refuse_items() {
  const std::scoped_lock held(roster_mutex_);
  for (const auto& queue : current_roster_->queues) {
    queue->live->words.set_state(abi::QueueState::draining);
  }
}

CpuLiveKernel::~CpuLiveKernel() {
  stop(Clock::now(), LeaveMode::hand_over);
}

// ---- queues and buffers ----

// The roster without queues that were closed.
std::unique_ptr<Roster> CpuLiveKernel::copy_roster() const {
  auto roster = std::make_unique<Roster>(*current_roster_);
  std::erase_if(roster->queues, [](const auto& queue) { return queue->is_closing.load(); });
  arrange(*roster);
  return roster;
}

// Workers that are in a turn may read the old roster until that turn is over.
void CpuLiveKernel::replace_roster(std::unique_ptr<Roster> roster) {
  std::list<Retired> retired(1);  // everything that needs memory comes before the change
  retired.front().turns.resize(seat_count_);
  roster->version = current_roster_->version + 1;
  roster_.store(roster.get(), std::memory_order_release);
  fence::heavy();
  for (Word i = 0; i < seat_count_; ++i) {
    retired.front().turns[i] = seats_[i].turn.load(std::memory_order_acquire);
  }
  retired.front().roster = std::exchange(current_roster_, std::move(roster));
  retired_.splice(retired_.end(), retired);
  has_retired_.store(true, std::memory_order_relaxed);
}

// Frees rosters that no worker can be reading: without memory, because workers call it, and without
// the lock, because owners of buffers are freed with them.
void CpuLiveKernel::free_retired() {
  const auto is_read = [this](const Retired& retired) {
    for (Word i = 0; i < seat_count_; ++i) {
      const std::uint64_t turn = retired.turns[i];
      if (turn % 2 != 0 && seats_[i].turn.load(std::memory_order_acquire) == turn) return true;
    }
    return false;
  };
  std::list<Retired> freed;
  const std::unique_lock held(roster_mutex_, std::try_to_lock);
  if (!held) return;
  for (auto next = retired_.begin(); next != retired_.end();) {
    const auto retired = next++;
    if (!is_read(*retired)) freed.splice(freed.end(), retired_, retired);
  }
  has_retired_.store(!retired_.empty(), std::memory_order_relaxed);
}

Result<void> CpuLiveKernel::open(std::shared_ptr<LiveQueue> queue) {
  const bool has_timeout = queue->item_timeout.count() != 0;
  auto added = std::make_shared<CpuQueue>(std::move(queue));
  if (has_timeout) EVERKERNEL_TRY(timeouts_.begin());  // the last thing that can fail
  {
    const std::scoped_lock held(roster_mutex_);
    auto roster = copy_roster();
    roster->queues.push_back(added);
    arrange(*roster);
    replace_roster(std::move(roster));
    added->live->kernel_part.store(added.get(), std::memory_order_release);
  }
  free_retired();
  look_again();
  if (has_timeout) return timeouts_.begin();  // it sees the queue now
  return {};
}

// Workers pass over a queue that is marked, so that closing needs no memory: the roster without it
// comes when there is some.
std::uint64_t CpuLiveKernel::close(LiveQueue& queue, Clock::time_point deadline) {
  std::shared_ptr<CpuQueue> closing;
  {
    const std::scoped_lock held(roster_mutex_);
    for (const auto& known : current_roster_->queues) {
      if (known->live.get() == &queue && !known->is_closing.load()) closing = known;
    }
  }
  if (closing == nullptr) return 0;
  const std::uint64_t before = cancelled_.load(std::memory_order_relaxed);
  closing->is_closing.store(true, std::memory_order_seq_cst);
  queue.kernel_part.store(nullptr, std::memory_order_relaxed);
  fence::heavy();
  wait_until_untouched(*closing, deadline);
  const std::uint64_t cancelled = cancel_waiting(*closing);
  try {
    const std::scoped_lock held(roster_mutex_);
    replace_roster(copy_roster());
  } catch (const std::bad_alloc&) {
  }
  free_retired();
  return cancelled + cancelled_.load(std::memory_order_relaxed) - before;
}

// A worker that is in a turn of another queue takes nothing from this one any more: it sees the
// mark in its next turn.
void CpuLiveKernel::wait_until_untouched(CpuQueue& queue, Clock::time_point deadline) {
  for (Word i = 0; i < seat_count_; ++i) {
    const std::uint64_t turn = seats_[i].turn.load(std::memory_order_acquire);
    if (turn % 2 == 0) continue;
    for (int looks = 0; seats_[i].turn.load(std::memory_order_acquire) == turn; ++looks) {
      const CpuQueue* const taken_from = seats_[i].queue.load(std::memory_order_relaxed);
      if (taken_from != nullptr && taken_from != &queue) break;
      if (looks < kSpinLooks) {
        spin_pause();
        continue;
      }
      if (Clock::now() >= deadline) {
        std::atomic_ref(queue.live->abort).store(1, std::memory_order_relaxed);
        RunningMark& mark = seats_[i].mark;
        const auto seen = mark.look();
        if (seen && seen->queue == queue.live.get()) mark.tell_to_end(seen->number);
      }
      std::this_thread::sleep_for(kLeaveLook);
    }
  }
}

std::uint64_t CpuLiveKernel::cancel_waiting(CpuQueue& queue) {
  std::uint64_t cancelled = 0;
  WaitingItem item;
  while (queue.waiting.pop(item)) {
    queue.live->words.end(item.ticket, abi::OutcomeCode::cancelled, 0, {});
    queue.waiting.release();
    ++cancelled;
  }
  return cancelled;
}

void CpuLiveKernel::set_buffers(const memory::BufferTableView& buffers,
                                std::shared_ptr<const void> owner) {
  {
    const std::scoped_lock held(roster_mutex_);
    auto roster = copy_roster();
    roster->buffers = buffers;
    roster->buffer_owner = std::move(owner);
    replace_roster(std::move(roster));
  }
  free_retired();
}

// What handlers that were replaced have run is in `earlier_`, but for small opcodes: their counters
// stay.
void CpuLiveKernel::add_executions(std::vector<OpcodeTotal>& totals) const {
  const std::scoped_lock held(roster_mutex_);
  const auto row_of = [&](Word opcode) -> OpcodeTotal& {
    const auto row = std::ranges::lower_bound(totals, opcode, {}, &OpcodeTotal::opcode);
    if (row != totals.end() && row->opcode == opcode) return *row;
    return *totals.insert(row, {.opcode = opcode});
  };
  const auto add = [&](Word opcode) {
    OpcodeTotal& row = row_of(opcode);
    for (Word i = 0; i < seat_count_; ++i) {
      const Tally& tally = seats_[i].tally;
      row.done += opcode < abi::kControlMetrics.count ? tally.executions(opcode)
                                                      : tally.other(executor_->counter_of(opcode));
    }
  };
  for (const Word opcode : executor_->opcodes()) add(opcode);
  for (const OpcodeTotal& earlier : earlier_) {
    row_of(earlier.opcode).done += earlier.done;
    if (!std::ranges::binary_search(executor_->opcodes(), earlier.opcode)) add(earlier.opcode);
  }
}

void CpuLiveKernel::copy_waiting(const LiveQueue& queue, std::vector<LiveItem>& items) const {
  const std::scoped_lock held(roster_mutex_);
  for (const auto& known : current_roster_->queues) {
    if (known->live.get() == &queue) known->waiting.copy_to(items);
  }
}

// ---- items that run ----

Result<void> CpuLiveKernel::copy_running(std::vector<LiveRunning>& items) {
  for (Word i = 0; i < seat_count_; ++i) {
    const auto seen = seats_[i].mark.look();
    if (!seen) continue;
    items.push_back({.queue = seen->queue,
                     .ticket = seen->ticket,
                     .opcode = seen->opcode,
                     .worker = i,
                     .since = seen->since,
                     .was_told_to_end = seen->was_told_to_end});
  }
  return {};
}

void CpuLiveKernel::tell_all_to_end() {
  for (Word i = 0; i < seat_count_; ++i) {
    if (const auto seen = seats_[i].mark.look()) seats_[i].mark.tell_to_end(seen->number);
  }
}

// Ends items that have run longer than their queue allows; says when to look again.
Clock::time_point CpuLiveKernel::end_overdue() {
  auto shortest = std::chrono::nanoseconds::max();
  {
    const std::scoped_lock held(roster_mutex_);
    for (const auto& queue : current_roster_->queues) {
      const auto timeout = queue->live->item_timeout;
      if (timeout.count() != 0) shortest = std::min(shortest, timeout);
    }
  }
  if (shortest == std::chrono::nanoseconds::max()) return Clock::time_point::max();
  auto wait = std::clamp(shortest / kLooksPerTimeout, kShortestLook, kLongestLook);
  const auto now = Clock::now();
  for (Word i = 0; i < seat_count_; ++i) {
    const auto seen = seats_[i].mark.look();
    if (!seen || seen->timeout.count() == 0 || seen->was_told_to_end) continue;
    const auto left = seen->timeout - (now - seen->since);
    if (left.count() <= 0) {
      seats_[i].mark.tell_to_end(seen->number);
    } else {
      wait = std::min(wait, left);
    }
  }
  return now + wait;
}

// ---- other handlers ----

// A worker in a turn may have looked at a limit before. Its turn ends with the item that it runs,
// which must have ended anyway before handlers are replaced.
Result<void> CpuLiveKernel::settle(Clock::time_point deadline) {
  fence::heavy();
  for (Word i = 0; i < seat_count_; ++i) {
    const std::uint64_t turn = seats_[i].turn.load(std::memory_order_acquire);
    if (turn % 2 == 0) continue;
    for (int looks = 0; seats_[i].turn.load(std::memory_order_acquire) == turn; ++looks) {
      if (Clock::now() >= deadline) {
        return fail(Code::timeout, "cpu: an item held up a session until the deadline",
                    "raise the timeout");
      }
      if (looks < kSpinLooks) {
        spin_pause();
      } else {
        std::this_thread::sleep_for(kLeaveLook);
      }
    }
  }
  return {};
}

// A worker whose step is over waits until handlers were replaced, and begins anew.
void CpuLiveKernel::wait_aside() {
  std::unique_lock held(aside_mutex_);
  ++aside_;
  aside_changed_.notify_all();
  aside_changed_.wait(held, [this] { return !must_step_aside_.load() || must_leave_.load(); });
  --aside_;
  aside_changed_.notify_all();
}

// Whether all workers are aside. They run no items, so that it takes as long as waking them up.
bool CpuLiveKernel::wait_until_aside(Clock::time_point deadline) {
  std::unique_lock held(aside_mutex_);
  while (aside_ != worker_count_ && !must_leave_.load() && threads_.are_running()) {
    if (Clock::now() >= deadline) return false;
    aside_changed_.wait_for(held, kAsideLook);  // after SHUTDOWN, workers leave and tell nobody
  }
  return aside_ == worker_count_;
}

// All executions by the present handlers, but for small opcodes, whose counters stay. The roster's
// mutex is held.
std::vector<OpcodeTotal> CpuLiveKernel::executions_so_far() const {
  std::vector<OpcodeTotal> now = earlier_;
  for (const Word opcode : executor_->opcodes()) {
    auto row = std::ranges::find(now, opcode, &OpcodeTotal::opcode);
    if (row == now.end()) row = now.insert(now.end(), {.opcode = opcode});
    for (Word i = 0; opcode >= abi::kControlMetrics.count && i < seat_count_; ++i) {
      row->done += seats_[i].tally.other(executor_->counter_of(opcode));
    }
  }
  return now;
}

Result<void> CpuLiveKernel::replace(std::shared_ptr<const Executor> executor,
                                    std::uint64_t fuel_per_item, Clock::time_point deadline) {
  must_step_aside_.store(true);
  doorbell_.ring(worker_count_);
  struct Back {
    CpuLiveKernel& kernel;
    ~Back() {
      {
        const std::scoped_lock held(kernel.aside_mutex_);
        kernel.must_step_aside_.store(false);
      }
      kernel.aside_changed_.notify_all();
    }
  } const back{*this};
  if (!wait_until_aside(deadline)) {
    return fail(Code::timeout, "cpu: workers did not step aside before the deadline",
                "raise the timeout");
  }
  const std::scoped_lock helper_is_away(helper_lock_);
  const std::scoped_lock held(roster_mutex_);
  // Everything that needs memory comes before the change.
  const Word counters = executor->counter_count();
  std::vector<Tally::Others> others;
  for (Word i = 0; i < seat_count_; ++i) others.push_back(Tally::make_others(counters));
  std::vector<OpcodeTotal> earlier = executions_so_far();
  std::swap(executor_, executor);
  try {
    helper_ = std::make_unique<LiveWorker>(*this, worker_count_);
  } catch (...) {
    std::swap(executor_, executor);
    throw;
  }
  context_.executor = executor_.get();
  context_.fuel_per_item = fuel_per_item;
  for (Word i = 0; i < seat_count_; ++i) {
    seats_[i].tally.keep_others(std::move(others[i]), counters);
  }
  earlier_ = std::move(earlier);
  return {};
}

// ---- ending and helping ----

std::uint64_t CpuLiveKernel::stop(Clock::time_point deadline, LeaveMode mode) {
  if (!home_.is_here()) return 0;  // a child of fork() has no workers
  if (mode == LeaveMode::cancel) must_cancel_.store(true, std::memory_order_release);
  {
    const std::scoped_lock held(aside_mutex_);
    must_leave_.store(true, std::memory_order_release);
  }
  aside_changed_.notify_all();
  doorbell_.ring(worker_count_);
  if (!threads_.wait(deadline)) {
    {
      const std::scoped_lock held(roster_mutex_);
      for (const auto& queue : current_roster_->queues) {
        std::atomic_ref(queue->live->abort).store(1, std::memory_order_relaxed);
      }
    }
    do {
      tell_all_to_end();
    } while (!threads_.wait(Clock::now() + kEndInterval));
  }
  threads_.join();
  timeouts_.stop();
  const std::scoped_lock helper_has_left(helper_lock_);
  if (mode != LeaveMode::cancel) return 0;
  std::uint64_t cancelled = cancelled_.exchange(0, std::memory_order_relaxed);
  const std::scoped_lock held(roster_mutex_);
  for (const auto& queue : current_roster_->queues) cancelled += cancel_waiting(*queue);
  return cancelled;
}

Word CpuLiveKernel::help(LiveQueue& queue, LongWord awaited) {
  if (!helper_lock_.try_lock()) return 0;
  const Word count = helper_->help(queue, awaited);
  helper_lock_.unlock();
  return count;
}

LiveCounters CpuLiveKernel::flush_counters() {
  LiveCounters totals;
  for (Word i = 0; i < seat_count_; ++i) seats_[i].tally.wait_until_counted();
  const std::scoped_lock held(flush_lock_);
  for (Word i = 0; i < seat_count_; ++i) {
    seats_[i].tally.flush(context_.control);
    seats_[i].tally.add_to(totals);
    totals.sleeps += seats_[i].sleeps.load(std::memory_order_relaxed);
  }
  return totals;
}

void CpuLiveKernel::look_again() {
  look_requests_.fetch_add(1, std::memory_order_release);
  doorbell_.ring(worker_count_);
}

}  // namespace everkernel::backend::cpu
