// The live loop: find published tickets, claim a few at one time, run them.
//
// The slot of the next ticket is always EMPTY until it is published: publishers reserve one slot
// less than the ring has, and a slot is emptied before it is given out again. So the status of the
// slot at the head tells whether the next ticket is published, and the cache line that a worker
// polls is the one it reads next.
#include "backend/cpu/live_kernel.hpp"

#include <algorithm>
#include <mutex>

#include "backend/cpu/float_guard.hpp"
#include "base/spin.hpp"

namespace everkernel::backend::cpu {
namespace {

using abi::SlotStatus;
using std::chrono::microseconds;
using std::chrono::milliseconds;

// Most short items claimed at one time.
constexpr Word kLargestBatch = 64;
// Claimed slots whose lines are fetched ahead of running them.
constexpr Word kFetchAhead = 6;
// A worker polls more often once this many items, or a quarter of the ring, are published in a row.
constexpr Word kLongRow = 256;
// Pauses between two polls of the next slot, and empty polls after which the pauses are halved.
constexpr int kShortInterval = 2;
constexpr int kLongInterval = 1024;
constexpr int kPollsPerInterval = 32;
// Pauses after which an idle worker yields its core, and further pauses after which it sleeps.
constexpr int kPausesBeforeYield = 4000;
constexpr int kPausesBeforeSleep = 64;
// Pauses before the first yield where workers outnumber cores: a worker that only polls keeps
// another worker off its core.
constexpr int kPausesOnSharedCores = 64;
// A worker that sleeps while slots are deferred wakes up by itself after a nap, because a deferred
// slot may become ready without a wake-up. Other workers sleep for kLongSleep.
constexpr milliseconds kShortestNap(1);
constexpr milliseconds kLongestNap(16);
constexpr std::chrono::hours kLongSleep(1);
// Interval at which stop() checks whether the workers have left.
constexpr auto kLeaveLook = microseconds(50);
// Items that a worker ends between two additions to the control words while it is never idle.
constexpr std::uint64_t kFlushInterval = 1 << 16;

}  // namespace

// One worker's loop.
class CpuLiveKernel::Loop {
 public:
  Loop(CpuLiveKernel& kernel, Word index)
      : kernel_(kernel),
        index_(index),
        seat_(kernel.seats_[index]),
        worker_(kernel.ring_, seat_.tally) {
    if (kernel.graph_) planned_.emplace(*kernel.graph_, seat_.tally, kernel.must_leave_);
    const bool has_own_core = kernel.worker_count_ <= std::thread::hardware_concurrency();
    pauses_before_yield_ = has_own_core ? kPausesBeforeYield : kPausesOnSharedCores;
  }

  void run() {
    const FloatGuard floats;
    while (!must_leave()) {
      const bool has_run = run_batch(false) != 0;
      // Deferred items are visited after every batch, and on every turn of an idle worker.
      const bool has_moved = (kernel_.deferred_.size() != 0 && visit_deferred()) ||
                             (planned_ && planned_->run_waiting());
      if (has_run || has_moved) {
        begin_busy();
        kernel_.bell_.ring(index_);
        idle_pauses_ = 0;
        empty_polls_ = 0;
        nap_ = kShortestNap;
        flush_if_due();
        if (interval_ > kShortInterval) wait_a_while();
      } else if (planned_ && planned_->refill()) {
        idle_pauses_ = 0;
      } else {
        end_busy();
        be_idle();
      }
    }
    end_busy();
    kernel_.desk_.close();  // after SHUTDOWN, sleeping workers must leave as well
    kernel_.present_.fetch_sub(1, std::memory_order_acq_rel);
    kernel_.bell_.wake();
  }

  // Runs items on a host thread that waits anyway. It takes no planned work, which could keep the
  // thread for long.
  Word run_as_helper() {
    if (must_leave() || planned_) return 0;
    const FloatGuard floats;
    const Word count = run_batch(true);
    if (count == 0) return 0;
    // The helper returns to its caller, so that a worker must run the items it deferred.
    if (kernel_.deferred_.size() != 0) kernel_.desk_.wake_all();
    if (kernel_.ring_.is_shut_down()) kernel_.desk_.close();
    kernel_.bell_.ring(index_);
    return count;
  }

 private:
  bool must_leave() const {
    return kernel_.must_leave_.load(std::memory_order_relaxed) || kernel_.ring_.is_shut_down();
  }

  SlotStatus status(std::uint64_t ticket) const {
    return kernel_.ring_.status(kernel_.slot_of(ticket));
  }

  bool is_short_and_published(std::uint64_t ticket) const {
    return status(ticket) == SlotStatus::published && is_short_item(ticket);
  }

  // A slot of planned work is claimed alone: its amount of work was chosen when it was published.
  bool is_short_item(std::uint64_t ticket) const {
    if (planned_) return false;
    const std::size_t line = std::size_t{kernel_.slot_of(ticket)} * abi::kSlotWords;
    return kernel_.executor_->is_short(kernel_.ring_.slots.load_relaxed(line + 1));
  }

  // Claims the published tickets at the head: consecutive short items together, any other item
  // alone, so that nothing waits behind an item that may take long while another worker is idle.
  // Returns how many tickets it claimed.
  Word claim(std::uint64_t& first, bool only_short) {
    first = kernel_.head_.load(std::memory_order_acquire);
    if (status(first) != SlotStatus::published) return 0;
    const bool is_short = is_short_item(first);
    if (only_short && !is_short) return 0;
    Word count = 1;
    while (is_short && count < kernel_.largest_batch_ && is_short_and_published(first + count)) {
      ++count;
    }
    const bool is_ours = kernel_.head_.compare_exchange_strong(
        first, first + count, std::memory_order_acq_rel, std::memory_order_relaxed);
    if (!only_short) choose_interval(first, is_short);
    return is_ours ? count : 0;
  }

  // Chooses how long to pause before the next poll. Every poll takes the cache line of the slot
  // away from the publisher that is about to write it, and every item that runs here moves its line
  // to this core and back. For an item of a few nanoseconds that is most of its cost, and a host
  // thread that waits for the item runs it on its own core (help()). So while few short items are
  // published, the worker polls less and less often, until a long row of them is published and the
  // publisher writes slots far from those that the worker reads.
  void choose_interval(std::uint64_t first, bool is_short) {
    if (!is_short) {
      interval_ = kShortInterval;
    } else if (status(first + kernel_.long_row_) == SlotStatus::published) {
      interval_ = std::max(interval_ / 2, kShortInterval);
    } else {
      interval_ = std::min(2 * interval_, kLongInterval);
    }
  }

  void wait_a_while() const {
    for (int i = 0; i < interval_; ++i) spin_pause();
  }

  void be_idle() {
    if (++empty_polls_ % kPollsPerInterval == 0) {
      interval_ = std::max(interval_ / 2, kShortInterval);
    }
    idle_pauses_ += interval_;
    if (idle_pauses_ < pauses_before_yield_) {
      wait_a_while();
    } else if (idle_pauses_ < pauses_before_yield_ + kPausesBeforeSleep) {
      std::this_thread::yield();
    } else {
      rest();
      idle_pauses_ = 0;
    }
  }

  // Claims and runs a few tickets; returns how many it claimed.
  Word run_batch(bool only_short) {
    std::uint64_t first = 0;
    const Word count = claim(first, only_short);
    if (count == 0) return 0;
    for (Word i = 0; i < count; ++i) {
      const Word slot = kernel_.slot_of(first + i);
      if (must_leave()) return count;  // the host cancels the rest
      if (i + kFetchAhead < count) {
        kernel_.ring_.slots.prefetch_slot(kernel_.slot_of(first + i + kFetchAhead));
      }
      if (!planned_ && worker_.end_nop(slot)) continue;
      kernel_.ring_.slots.store_relaxed(std::size_t{slot} * abi::kSlotWords,
                                        static_cast<Word>(SlotStatus::claimed));
      if (planned_) {
        begin_busy();
        planned_->run_portion(slot);
        continue;
      }
      Deferred entry{.slot = slot};
      const Visit visit = worker_.run_claimed(entry, SlotStatus::published, Worker::kOwnPriority);
      if (visit == Visit::stuck || visit == Visit::deferred) kernel_.deferred_.push(entry);
    }
    return count;
  }

  bool visit_deferred() {
    bool has_moved = false;
    for (std::size_t looks = kernel_.deferred_.size(); looks > 0 && !must_leave(); --looks) {
      Deferred entry;
      if (!kernel_.deferred_.pop(0, entry)) break;
      const Visit visit = worker_.visit(entry, Worker::kOwnPriority);
      if (visit == Visit::stuck || visit == Visit::deferred) kernel_.deferred_.push(entry);
      has_moved |= visit == Visit::ended || visit == Visit::deferred;
    }
    return has_moved;
  }

  // Busy time is measured for planned work only: the clock is read once when a worker finds work
  // after it had none, and once when it runs out of work.
  void begin_busy() {
    if (!planned_ || is_busy_) return;
    is_busy_ = true;
    busy_since_ = Clock::now();
  }
  void end_busy() {
    if (!is_busy_) return;
    is_busy_ = false;
    const auto busy = std::chrono::nanoseconds(Clock::now() - busy_since_).count();
    seat_.busy_ns.store(
        seat_.busy_ns.load(std::memory_order_relaxed) + static_cast<std::uint64_t>(busy),
        std::memory_order_relaxed);
  }

  void flush_if_due() {
    if (seat_.tally.ended() - flushed_at_ < kFlushInterval) return;
    flush();
  }

  void flush() {
    flushed_at_ = seat_.tally.ended();
    if (!kernel_.flush_lock_.try_lock()) return;  // the next flush adds these counts
    seat_.tally.flush(kernel_.ring_.control);
    kernel_.flush_lock_.unlock();
  }

  void rest() {
    flush();
    seat_.sleeps.store(seat_.sleeps.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    if (!kernel_.desk_.fall_asleep(kernel_.head_.load(std::memory_order_acquire))) return;
    // A helper that defers an item, and look_again(), wake all sleepers after their change. This
    // worker counts as a sleeper already, so it either gets that wake-up or sees the change here.
    const std::uint32_t requests = kernel_.look_requests_.load(std::memory_order_acquire);
    const bool has_deferred =
        kernel_.deferred_.size() != 0 || (kernel_.graph_ && kernel_.graph_->put_aside() != 0);
    std::chrono::nanoseconds timeout = kLongSleep;
    if (requests != seen_requests_ || (kernel_.graph_ && kernel_.graph_->shared() != 0)) {
      seen_requests_ = requests;
      timeout = {};
    } else if (has_deferred) {
      timeout = nap_;
      nap_ = std::min(2 * nap_, kLongestNap);
    }
    kernel_.desk_.sleep(timeout);
  }

  CpuLiveKernel& kernel_;
  const Word index_;
  Seat& seat_;
  Worker worker_;
  std::optional<GraphWorker> planned_;
  bool is_busy_ = false;
  Clock::time_point busy_since_;
  int interval_ = kShortInterval;
  int empty_polls_ = 0;
  int idle_pauses_ = 0;
  int pauses_before_yield_ = kPausesBeforeYield;
  milliseconds nap_ = kShortestNap;
  std::uint64_t flushed_at_ = 0;
  std::uint32_t seen_requests_ = 0;
};

Result<std::unique_ptr<LiveKernel>> CpuLiveKernel::start(const LiveLaunch& launch,
                                                         std::shared_ptr<const Executor> executor,
                                                         std::uint64_t fuel_per_item,
                                                         Word worker_count) {
  EVERKERNEL_TRY(RingState::check(launch.control, launch.ring, launch.debug_log, launch.io_queue));
  return std::unique_ptr<LiveKernel>(
      new CpuLiveKernel(launch, std::move(executor), fuel_per_item, worker_count));
}

CpuLiveKernel::CpuLiveKernel(const LiveLaunch& launch, std::shared_ptr<const Executor> executor,
                             std::uint64_t fuel_per_item, Word worker_count)
    : desk_(*launch.desk),
      bell_(*launch.bell),
      executor_(std::move(executor)),
      ring_(launch.control, launch.ring, launch.debug_log, launch.io_queue),
      slot_mask_(ring_.slot_count - 1),
      largest_batch_(std::min(kLargestBatch, slot_mask_)),
      long_row_(std::clamp<Word>(ring_.slot_count / 4, 1, kLongRow)),
      seats_(std::make_unique<Seat[]>(worker_count + 1)),
      worker_count_(worker_count),
      seat_count_(worker_count + 1),
      present_(worker_count),
      head_(launch.first_ticket) {
  ring_.executor = executor_.get();
  ring_.buffers = launch.buffers;
  ring_.fuel_per_item = fuel_per_item;
  ring_.worker_count = seat_count_;
  ring_.abort = &abort_;
  if (launch.graph != nullptr) graph_ = std::make_unique<GraphWork>(*launch.graph, ring_, desk_);
  take_over(launch.first_ticket);
  helper_ = std::make_unique<Loop>(*this, worker_count);
  for (Word i = 0; i < worker_count; ++i) {
    seats_[i].thread = std::jthread([this, i] { Loop(*this, i).run(); });
  }
}

// Takes over a ring that another kernel left: items that were published and have not ended are
// deferred. The head moves behind them, or to the first ticket whose slot is still being written.
void CpuLiveKernel::take_over(std::uint64_t first_ticket) {
  const std::uint64_t end = desk_.next_ticket();
  std::uint64_t head = first_ticket;
  for (; head < end; ++head) {
    const SlotStatus status = ring_.status(slot_of(head));
    if (status == SlotStatus::empty) break;
    if (abi::is_active(status)) deferred_.push({.slot = slot_of(head)});
  }
  head_.store(head, std::memory_order_relaxed);
}

CpuLiveKernel::~CpuLiveKernel() {
  stop(Clock::now());
}

void CpuLiveKernel::stop(Clock::time_point deadline) {
  must_leave_.store(true, std::memory_order_release);
  desk_.close();
  while (is_running() && Clock::now() < deadline) std::this_thread::sleep_for(kLeaveLook);
  std::atomic_ref(abort_).store(1, std::memory_order_relaxed);
  for (Word i = 0; i < worker_count_; ++i) {
    if (seats_[i].thread.joinable()) seats_[i].thread.join();
  }
  const std::scoped_lock helper_has_left(helper_lock_);
}

Word CpuLiveKernel::help() {
  if (!helper_lock_.try_lock()) return 0;
  const Word count = helper_->run_as_helper();
  helper_lock_.unlock();
  return count;
}

LiveCounters CpuLiveKernel::flush_counters() {
  LiveCounters totals;
  for (Word i = 0; i < seat_count_; ++i) seats_[i].tally.wait_until_counted();
  const std::scoped_lock held(flush_lock_);
  for (Word i = 0; i < seat_count_; ++i) {
    seats_[i].tally.flush(ring_.control);
    seats_[i].tally.add_to(totals);
    totals.sleeps += seats_[i].sleeps.load(std::memory_order_relaxed);
    totals.busy_ns += seats_[i].busy_ns.load(std::memory_order_relaxed);
  }
  ring_.control.store_relaxed(abi::kControlTicketHead.first,
                              static_cast<Word>(head_.load(std::memory_order_relaxed)));
  return totals;
}

void CpuLiveKernel::look_again() {
  look_requests_.fetch_add(1, std::memory_order_release);
  desk_.wake_all();
}

}  // namespace everkernel::backend::cpu
