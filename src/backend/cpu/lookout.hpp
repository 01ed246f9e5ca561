// Which queues a live worker looks at between two items.
//
// A look takes two cache lines, so that looking at a thousand queues takes longer than most items
// run. In a session of many queues most are quiet at any time: a worker that is busy looks at those
// only now and then, and at one place in each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "backend/cpu/live_queue.hpp"
#include "backend/cpu/roster.hpp"

namespace everkernel::backend::cpu {

/// The queues of one roster as one worker sees them. Used only while that worker may read the
/// roster.
class Lookout {
 public:
  /// The queues to look at now: all of them if there are few, else those that are not quiet. Looks
  /// at the quiet ones if that was long ago.
  const Roster::Levels& begin(const Roster& roster);
  /// Looks at the quiet queues now. Says whether something happened in one; then it is among those
  /// that begin() gave. A worker that finds no work elsewhere calls this before it believes that
  /// there is none.
  bool look();
  /// Called when items of a queue were taken.
  void note_taking(CpuQueue& queue) const {
    if (now_ == 0) return;
    // The line is read by all workers: it is not written for every item.
    if (now_ - queue.taken_at.load(std::memory_order_relaxed) < kStampInterval) return;
    queue.taken_at.store(now_, std::memory_order_relaxed);
  }
  /// Queues that are quiet.
  std::size_t quiet_count() const { return quiet_.size(); }

 private:
  static constexpr std::int64_t kStampInterval = 100'000;

  /// A queue that is quiet as long as its head stays and no entry is there.
  struct Quiet {
    bool has_changed() const {
      return head->load(std::memory_order_relaxed) != ticket || entry.is_new();
    }

    const std::atomic<LongWord>* head;
    LongWord ticket;
    protocol::EntryMark entry;
    CpuQueue* queue;
    std::vector<CpuQueue*>* home;  // where it lies when it is not quiet
  };

  bool copy(const Roster& roster);
  void sort();
  bool is_quiet(const CpuQueue& queue, LongWord head) const;

  Roster::Levels levels_ = {};  // the queues that are not quiet; each list has room for all
  std::vector<Quiet> quiet_;
  std::uint64_t version_ = 0;  // of the roster that was copied, or will be
  bool is_sorted_ = false;     // the two above count
  std::int64_t now_ = 0;       // when begin() was called; 0 if there are few queues
  std::int64_t sorted_at_ = 0;
  std::int64_t looked_at_ = 0;
};

}  // namespace everkernel::backend::cpu
