// The loop of a worker of planned work: take a ticket, run its portion, run regions that were
// released or put aside.
//
// The lap bit of the entry at the head says whether the next ticket is published. The ticket one
// lap before has ended then: the run publishes into a place only when it has noted the outcome
// there.
#include "backend/cpu/graph_kernel.hpp"

#include <algorithm>
#include <mutex>
#include <new>
#include <optional>

#include "backend/cpu/float_guard.hpp"

namespace everkernel::backend::cpu {
namespace {

using abi::LongWord;
using std::chrono::milliseconds;

// Pauses between two polls of the next entry.
constexpr int kPollInterval = 2;
// Pauses after which an idle worker yields its core, and further pauses after which it sleeps.
constexpr int kPausesBeforeYield = 4000;
constexpr int kPausesBeforeSleep = 64;
// Pauses before the first yield where workers outnumber cores: a worker that only polls keeps
// another worker off its core.
constexpr int kPausesOnSharedCores = 64;
// A worker that sleeps while regions are put aside wakes up by itself after a nap, because such a
// region may become ready without a wake-up. Other workers sleep for kLongSleep.
constexpr milliseconds kShortestNap(1);
constexpr milliseconds kLongestNap(16);
constexpr std::chrono::hours kLongSleep(1);
// Items that a worker ends between two additions to the control words while it is never idle.
constexpr std::uint64_t kFlushInterval = 1 << 16;

}  // namespace

// One worker's loop.
class CpuGraphKernel::Loop {
 public:
  Loop(CpuGraphKernel& kernel, Word index)
      : kernel_(kernel),
        seat_(kernel.seats_[index]),
        planned_(kernel.graph_, seat_.tally, kernel.must_leave_) {
    const bool has_own_core = kernel.worker_count_ <= std::thread::hardware_concurrency();
    pauses_before_yield_ = has_own_core ? kPausesBeforeYield : kPausesOnSharedCores;
  }

  void run() {
    const FloatGuard floats;
    while (!must_leave()) {
      const bool has_run = take();
      if (planned_.run_waiting() || has_run) {
        begin_busy();
        idle_pauses_ = 0;
        nap_ = kShortestNap;
        if (seat_.tally.ended() - flushed_at_ >= kFlushInterval) flush();
      } else if (planned_.refill()) {
        idle_pauses_ = 0;
      } else {
        end_busy();
        be_idle();
      }
    }
    end_busy();
    planned_.hand_in();
  }

 private:
  bool must_leave() const {
    return kernel_.must_leave_.load(std::memory_order_relaxed) || kernel_.context_.is_shut_down();
  }

  // Takes the ticket at the head and runs its portion. Tickets are taken one by one: their amount
  // of work was chosen when they were published.
  bool take() {
    LongWord ticket = kernel_.head_.load(std::memory_order_acquire);
    if (!kernel_.queue_.peek(ticket)) return false;
    if (!kernel_.head_.compare_exchange_strong(ticket, ticket + 1, std::memory_order_acq_rel,
                                               std::memory_order_relaxed)) {
      return false;
    }
    if (must_leave()) return true;  // its regions remain
    begin_busy();
    planned_.run_portion(static_cast<Word>(ticket));
    return true;
  }

  void be_idle() {
    idle_pauses_ += kPollInterval;
    if (idle_pauses_ < pauses_before_yield_) {
      for (int i = 0; i < kPollInterval; ++i) spin_pause();
    } else if (idle_pauses_ < pauses_before_yield_ + kPausesBeforeSleep) {
      std::this_thread::yield();
    } else {
      rest();
      idle_pauses_ = 0;
    }
  }

  // The clock is read once when a worker finds work after it had none, and once when it runs out of
  // work.
  void begin_busy() {
    if (is_busy_) return;
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

  void flush() {
    flushed_at_ = seat_.tally.ended();
    if (!kernel_.flush_lock_.try_lock()) return;  // the next flush adds these counts
    seat_.tally.flush(kernel_.context_.control);
    kernel_.flush_lock_.unlock();
  }

  void rest() {
    flush();
    seat_.sleeps.store(seat_.sleeps.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    // Whatever is stored from here on rings, and whatever was stored before is seen here.
    kernel_.doorbell_.arm();
    if (!has_work() && !must_leave()) {
      std::chrono::nanoseconds timeout = kLongSleep;
      if (kernel_.graph_.put_aside() != 0) {
        timeout = nap_;
        nap_ = std::min(2 * nap_, kLongestNap);
      }
      kernel_.doorbell_.wait(timeout);
    }
    kernel_.doorbell_.disarm();
  }

  bool has_work() const {
    return kernel_.graph_.shared() != 0 ||
           kernel_.queue_.peek(kernel_.head_.load(std::memory_order_acquire));
  }

  CpuGraphKernel& kernel_;
  Seat& seat_;
  GraphWorker planned_;
  bool is_busy_ = false;
  Clock::time_point busy_since_;
  int idle_pauses_ = 0;
  int pauses_before_yield_ = kPausesBeforeYield;
  milliseconds nap_ = kShortestNap;
  std::uint64_t flushed_at_ = 0;
};

Result<std::unique_ptr<GraphKernel>> CpuGraphKernel::start(const GraphLaunch& launch,
                                                           std::shared_ptr<const Executor> executor,
                                                           std::uint64_t fuel_per_item,
                                                           Word worker_count) {
  EVERKERNEL_TRY(ItemContext::check(launch.control, launch.debug_log, launch.io_queue));
  std::unique_ptr<CpuGraphKernel> kernel(
      new CpuGraphKernel(launch, std::move(executor), fuel_per_item, worker_count));
  EVERKERNEL_TRY(kernel->threads_.start([self = kernel.get()](Word seat) { self->work(seat); }));
  return std::unique_ptr<GraphKernel>(std::move(kernel));
}

CpuGraphKernel::CpuGraphKernel(const GraphLaunch& launch, std::shared_ptr<const Executor> executor,
                               std::uint64_t fuel_per_item, Word worker_count)
    : doorbell_(*launch.doorbell),
      executor_(std::move(executor)),
      context_(launch.control, launch.debug_log, launch.io_queue),
      queue_(*launch.queue),
      graph_(*launch.graph, queue_, context_, doorbell_),
      seats_(std::make_unique<Seat[]>(worker_count)),
      worker_count_(worker_count),
      threads_(worker_count) {
  context_.executor = executor_.get();
  context_.buffers = launch.buffers;
  context_.fuel_per_item = fuel_per_item;
  context_.worker_count = worker_count;
  context_.abort = &abort_;
}

// Workers keep lists of regions that can run, and these grow. Without memory for them the kernel
// stops and its health says so.
void CpuGraphKernel::work(Word seat) {
  try {
    Loop(*this, seat).run();
  } catch (const std::bad_alloc&) {
    is_out_of_memory_.store(true, std::memory_order_release);
    must_leave_.store(true, std::memory_order_release);
  }
  doorbell_.ring(worker_count_);  // after SHUTDOWN, sleeping workers must leave as well
}

Result<void> CpuGraphKernel::health() const {
  if (!is_out_of_memory_.load(std::memory_order_acquire)) return {};
  return fail(Code::out_of_memory, "a worker stopped: it had no memory for its list of regions",
              "raise the memory limit of the process (ulimit -v), or run fewer items at one time");
}

CpuGraphKernel::~CpuGraphKernel() {
  stop(Clock::now());
}

void CpuGraphKernel::stop(Clock::time_point deadline) {
  if (!home_.is_here()) return;  // a child of fork() has no workers
  must_leave_.store(true, std::memory_order_release);
  doorbell_.ring(worker_count_);
  if (!threads_.wait(deadline)) std::atomic_ref(abort_).store(1, std::memory_order_relaxed);
  threads_.join();
}

LiveCounters CpuGraphKernel::flush_counters() {
  LiveCounters totals;
  for (Word i = 0; i < worker_count_; ++i) seats_[i].tally.wait_until_counted();
  const std::scoped_lock held(flush_lock_);
  for (Word i = 0; i < worker_count_; ++i) {
    seats_[i].tally.flush(context_.control);
    seats_[i].tally.add_to(totals);
    totals.sleeps += seats_[i].sleeps.load(std::memory_order_relaxed);
    totals.busy_ns += seats_[i].busy_ns.load(std::memory_order_relaxed);
  }
  return totals;
}

}  // namespace everkernel::backend::cpu
