// The thread of callbacks: finds items that have ended, calls, sleeps until a worker ends one more.
#include "live/callbacks.hpp"

#include <algorithm>
#include <utility>

#include "backend/futex.hpp"
#include "everkernel/base/detail/fence.hpp"

namespace everkernel::live {
namespace {

using backend::Clock;

// The thread looks this often whether anything ended without a ring.
constexpr auto kLookInterval = std::chrono::milliseconds(50);
// A ring for nothing costs a nap: a busy queue would ring after every batch.
constexpr auto kNap = std::chrono::microseconds(100);
// A deadline further away than this would overflow the clock of a condition variable.
constexpr auto kLongestWait = std::chrono::hours(24 * 365);

}  // namespace

Callbacks::~Callbacks() {
  if (thread_.is_current()) thread_.detach();
}

Result<void> Callbacks::add(std::shared_ptr<QueueCore> queue, Ticket ticket, Callback callback) {
  std::list<Pending> one;
  one.emplace_back(std::move(queue), ticket, std::move(callback));
  EVERKERNEL_TRY(one.front().queue->follow(ticket.number));
  one.front().is_following = true;
  {
    const std::scoped_lock held(mutex_);
    if (!has_ended_) {
      followed_.reserve(followed_.size() + 1);
      EVERKERNEL_TRY(start_thread());
      follow(*one.front().queue);
      pending_.splice(pending_.end(), one);
      ++uncalled_;
      rings_.fetch_add(1, std::memory_order_acq_rel);
      backend::futex::wake(rings_);
      return {};
    }
  }
  call(one.front());
  return {};
}

Result<void> Callbacks::start_thread() {
  if (thread_.joinable()) return {};
  thread_ = EVERKERNEL_TRY(
      Thread::start([self = shared_from_this()](const std::stop_token& stop) { self->run(stop); }));
  is_running_ = true;
  return {};
}

// Workers ring for a queue as long as a callback waits for one of its items. Those of another
// process ring when the thread says that it sleeps.
void Callbacks::follow(QueueCore& queue) {
  if (queue.is_attached()) return;
  const bool is_known =
      std::ranges::any_of(followed_, [&](const auto& known) { return known.get() == &queue; });
  if (is_known) return;
  followed_.push_back(queue.shared_from_this());
  queue.live()->follower.store(&rings_, std::memory_order_release);
  queue.live()->sleepers.fetch_add(1, std::memory_order_seq_cst);
}

void Callbacks::unfollow_idle() {
  std::erase_if(followed_, [this](const std::shared_ptr<QueueCore>& queue) {
    if (std::ranges::any_of(pending_, [&](const Pending& one) { return one.queue == queue; })) {
      return false;
    }
    queue->live()->sleepers.fetch_sub(1, std::memory_order_relaxed);
    queue->live()->follower.store(nullptr, std::memory_order_release);
    return true;
  });
}

void Callbacks::run(const std::stop_token& stop) {
  for (;;) {
    const std::uint32_t prepared = rings_.load(std::memory_order_acquire);
    fence::heavy();  // a worker either rings, or its outcome is found below
    const bool is_last = stop.stop_requested();
    const bool has_called = call_ready(is_last);
    if (is_last && !has_called) break;
    if (has_called) continue;
    wait(prepared);
    if (!stop.stop_requested()) std::this_thread::sleep_for(kNap);
  }
  const std::scoped_lock held(mutex_);
  is_running_ = false;
  left_.notify_all();
}

void Callbacks::wait(std::uint32_t prepared) {
  std::shared_ptr<QueueCore> attached;
  {
    const std::scoped_lock held(mutex_);
    if (!pending_.empty() && pending_.front().queue->is_attached()) {
      attached = pending_.front().queue;
    }
  }
  if (attached == nullptr) return backend::futex::wait(rings_, prepared, kLookInterval);
  attached->sleep_beside(
      rings_, prepared, [this] { return has_ready(); }, kLookInterval);
}

bool Callbacks::has_ready() {
  const std::scoped_lock held(mutex_);
  return std::ranges::any_of(
      pending_, [](const Pending& one) { return one.queue->has_ended(one.ticket.number); });
}

// Calls the callbacks of items that have ended; returns whether there were any. The last call takes
// every callback.
bool Callbacks::call_ready(bool is_last) {
  std::list<Pending> ready;  // destroyed without the lock: its objects are the caller's
  {
    const std::scoped_lock held(mutex_);
    // All callbacks of an attached queue are of that queue.
    is_last |= !pending_.empty() && pending_.front().queue->is_abandoned();
    for (auto at = pending_.begin(); at != pending_.end();) {
      const auto next = std::next(at);
      if (is_last || at->queue->has_ended(at->ticket.number)) {
        ready.splice(ready.end(), pending_, at);
      }
      at = next;
    }
    unfollow_idle();
  }
  for (Pending& pending : ready) {
    {
      const std::scoped_lock held(mutex_);
      if (has_dropped_) break;
      --uncalled_;
    }
    call(pending);
  }
  return !ready.empty();
}

// An exception of a callback has no caller to go to: it is counted.
void Callbacks::call(Pending& pending) {
  const Notes::Outcome ended = pending.queue->find(pending.ticket.number);
  const bool is_known = ended.has_ended && !ended.was_cancelled && !ended.is_forgotten;
  try {
    pending.call(pending.ticket, ended.completion, !is_known);
  } catch (...) {
    failed_.fetch_add(1, std::memory_order_relaxed);
  }
}

std::uint64_t Callbacks::end(Clock::time_point deadline) {
  std::list<Pending> dropped;  // destroyed without the lock: its objects are the caller's
  Thread ended;                // joined without the lock
  std::unique_lock held(mutex_);
  has_ended_ = true;
  if (!thread_.joinable()) return dropped_;
  thread_.request_stop();
  rings_.fetch_add(1, std::memory_order_acq_rel);
  backend::futex::wake(rings_);
  if (thread_.is_current()) return dropped_;  // the rest follows when this callback returns
  const auto latest = std::min(deadline, Clock::now() + kLongestWait);
  const bool has_left = left_.wait_until(held, latest, [this] { return !is_running_; });
  if (!thread_.joinable()) return dropped_;
  if (has_left) {
    ended = std::move(thread_);
    return dropped_;
  }
  has_dropped_ = true;
  dropped.swap(pending_);
  unfollow_idle();
  thread_.detach();
  dropped_ += std::exchange(uncalled_, 0);
  return dropped_;
}

}  // namespace everkernel::live
