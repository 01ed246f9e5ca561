// Sorting queues into quiet ones and others.
#include "backend/cpu/lookout.hpp"

#include <algorithm>
#include <new>

namespace everkernel::backend::cpu {
namespace {

// Up to this many queues, all of them are looked at every time.
constexpr std::size_t kFewQueues = 32;
// A queue from which nothing was taken for this time is quiet, in nanoseconds.
constexpr std::int64_t kQuietTime = 1'000'000;
// A busy worker looks at quiet queues after this time, in nanoseconds: an item in one of them waits
// that much longer, whatever its priority.
constexpr std::int64_t kLookInterval = 50'000;

}  // namespace

const Roster::Levels& Lookout::begin(const Roster& roster) {
  if (roster.queues.size() <= kFewQueues) [[likely]] {
    now_ = 0;
    is_sorted_ = false;
    quiet_.clear();
    return roster.levels;
  }
  now_ = steady_now();
  if (roster.version != version_) {
    // A session may be opening one queue after the other: copying waits until that is over.
    version_ = roster.version;
    is_sorted_ = false;
    quiet_.clear();
    sorted_at_ = now_;
  }
  if (now_ - sorted_at_ >= kQuietTime) {
    sorted_at_ = now_;
    if (is_sorted_ || copy(roster)) sort();
  }
  if (!is_sorted_) return roster.levels;
  if (now_ - looked_at_ >= kLookInterval) look();
  return levels_;
}

// Without memory the worker goes on looking at every queue.
bool Lookout::copy(const Roster& roster) {
  try {
    quiet_.reserve(roster.queues.size());
    levels_ = roster.levels;
    is_sorted_ = true;
  } catch (const std::bad_alloc&) {
  }
  return is_sorted_;
}

void Lookout::sort() {
  for (auto& level : levels_) {
    for (Roster::Tenant& tenant : level) {
      std::erase_if(tenant.queues, [&](CpuQueue* queue) {
        const LongWord head = queue->live->head.load(std::memory_order_acquire);
        if (!is_quiet(*queue, head)) return false;
        quiet_.push_back({.head = &queue->live->head,
                          .ticket = head,
                          .entry = protocol::EntryMark(queue->live->words, head),
                          .queue = queue,
                          .home = &tenant.queues});
        return true;
      });
    }
  }
}

bool Lookout::is_quiet(const CpuQueue& queue, LongWord head) const {
  return now_ - queue.taken_at.load(std::memory_order_relaxed) >= kQuietTime &&
         !queue.waiting.is_used() && !queue.live->words.peek(head);
}

// Items that wait keep a queue from being quiet, and they come to wait only after the head moved.
bool Lookout::look() {
  looked_at_ = now_;
  const std::size_t before = quiet_.size();
  for (std::size_t i = 0; i < quiet_.size();) {
    if (!quiet_[i].has_changed()) {
      ++i;
      continue;
    }
    quiet_[i].home->push_back(quiet_[i].queue);
    quiet_[i] = quiet_.back();
    quiet_.pop_back();
  }
  return quiet_.size() != before;
}

}  // namespace everkernel::backend::cpu
