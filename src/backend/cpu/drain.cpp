// How a bounded drain finds its end without a counter that every item touches.
//
// Fresh slots are handed out once, in chunks; a slot that cannot end at its first visit goes to the
// deferred list. A worker that finds no fresh slot and no deferred slot that can move leaves; the
// last worker to leave ends the drain. This is correct because a worker that moved a slot changes
// the stamp before its last round over the list, and a worker leaves only if the stamp has the same
// value as before its round. Both happen under the list's lock. So after the last change of any
// slot, a worker visited every deferred slot and none could move.
#include "backend/cpu/drain.hpp"

#include <algorithm>
#include <mutex>
#include <thread>

#include "backend/schedule_words.hpp"
#include "base/spin.hpp"
#include "everkernel/protocol/control.hpp"

namespace everkernel::backend::cpu {
namespace {

constexpr Word kLargestChunk = 64;
// Chunks for each worker, so that one slow chunk does not leave the other workers idle.
constexpr Word kChunksPerWorker = 8;
// Visits between two calls for help.
constexpr Word kVisitsPerCall = 4;
// Deferred slots of a partition that are visited before less urgent partitions get their turn.
constexpr std::size_t kDeferredLooks = 64;
constexpr Word kStarvationLimit = 16;
constexpr int kSpinsBeforeSleep = 200;
constexpr auto kIdleSleep = std::chrono::microseconds(100);

constexpr std::array<Word, abi::kPriorityCount> kUrgentFirst{0, 1, 2, 3, 4};
constexpr std::array<Word, abi::kPriorityCount> kUrgentLast{2, 3, 4, 0, 1};

}  // namespace

// The visits of one worker in a drain.
class Drain::Pass {
 public:
  Pass(Drain& drain, Tally& tally, const CallForHelp& call_for_help)
      : drain_(drain), worker_(*drain.ring_, tally), call_for_help_(call_for_help) {
    starvation_ = drain.ring_->control.load_relaxed(abi::kControlStarvation.first);
  }

  /// Visits every fresh slot there is, and deferred ones as the schedule says. Says whether
  /// anything moved.
  bool visit_fresh() {
    return drain_.schedule_ == Schedule::priority ? visit_by_priority() : visit_in_order();
  }

  /// One look at every deferred slot. Says whether any moved.
  bool visit_deferred() {
    bool has_moved = false;
    for (Word partition = 0; partition < abi::kPriorityCount; ++partition) {
      std::size_t looks = drain_.deferred_.size(partition);
      for (; looks > 0 && !drain_.must_stop(); --looks) {
        Deferred entry;
        if (!drain_.deferred_.pop(partition, entry)) break;
        has_moved |= visit(entry);
      }
    }
    return has_moved;
  }

 private:
  bool visit_in_order() {
    bool has_moved = false;
    Fresh& fresh = drain_.fresh_[0];
    while (fresh.next.load(std::memory_order_relaxed) < fresh.end) {
      const std::uint64_t first = fresh.next.fetch_add(drain_.chunk_, std::memory_order_relaxed);
      const std::uint64_t end = std::min(first + drain_.chunk_, fresh.end);
      for (std::uint64_t position = first; position < end; ++position) {
        if (drain_.must_stop()) return has_moved;
        Deferred entry{.slot = drain_.slot_at(position)};
        has_moved |= visit_first_time(entry);
      }
    }
    return has_moved;
  }

  bool visit_by_priority() {
    bool has_moved = false;
    while (!drain_.must_stop()) {
      const auto& order = starvation_ >= kStarvationLimit ? kUrgentLast : kUrgentFirst;
      const bool has_run =
          std::ranges::any_of(order, [this](Word partition) { return run_one_of(partition); });
      if (!has_run) break;
      has_moved = true;
    }
    return has_moved;
  }

  // Runs the next slot of a partition; says whether there was one that moved.
  bool run_one_of(Word partition) {
    Fresh& fresh = drain_.fresh_[partition];
    while (fresh.next.load(std::memory_order_relaxed) < fresh.end) {
      const std::uint64_t position = fresh.next.fetch_add(1, std::memory_order_relaxed);
      if (position >= fresh.end) break;
      Deferred entry{.slot = static_cast<Word>(position), .partition = partition};
      if (visit_first_time(entry)) return true;
    }
    std::size_t looks = std::min(drain_.deferred_.size(partition), kDeferredLooks);
    for (; looks > 0; --looks) {
      Deferred entry;
      if (!drain_.deferred_.pop(partition, entry)) break;
      if (visit(entry)) return true;
    }
    return false;
  }

  bool visit_first_time(Deferred& entry) {
    if (drain_.ring_->status(entry.slot) == abi::SlotStatus::claimed) {
      // A fresh slot is visited once, so it was CLAIMED before this drain began.
      drain_.claimed_at_entry_.fetch_add(1, std::memory_order_relaxed);
      return false;
    }
    const bool is_urgent = drain_.ring_->executor->has_long_items() && is_long(entry.slot);
    if (is_urgent || ++visits_ % kVisitsPerCall == 0) call_for_help_(is_urgent);
    return visit(entry);
  }

  bool is_long(Word slot) const {
    const std::size_t line = std::size_t{slot} * abi::kSlotWords;
    return !drain_.ring_->executor->is_short(drain_.ring_->slots.load_relaxed(line + 1));
  }

  bool visit(Deferred& entry) {
    const bool by_priority = drain_.schedule_ == Schedule::priority;
    const Visit visit = worker_.visit(entry, by_priority ? entry.partition : Worker::kOwnPriority);
    if (visit == Visit::stuck || visit == Visit::deferred) drain_.deferred_.push(entry);
    if (by_priority && worker_.has_claimed()) count_starvation(entry.partition);
    return visit == Visit::ended || visit == Visit::deferred;
  }

  void count_starvation(Word partition) {
    const bool is_urgent = partition <= static_cast<Word>(abi::Priority::high);
    starvation_ = is_urgent ? starvation_ + 1 : 0;
    drain_.ring_->control.store_relaxed(abi::kControlStarvation.first, starvation_);
  }

  Drain& drain_;
  Worker worker_;
  const CallForHelp& call_for_help_;
  Word starvation_ = 0;
  Word visits_ = 0;
};

Result<void> Drain::prepare(const DrainSetup& setup) {
  EVERKERNEL_TRY(RingState::check(setup.control, setup.slots, setup.debug_log, setup.io_queue));
  ring_.emplace(setup.control, setup.slots, setup.debug_log, setup.io_queue);
  ring_->buffers = setup.buffers;
  ring_->executor = setup.executor;
  ring_->fuel_per_item = setup.fuel_per_item;
  ring_->worker_count = setup.worker_count;
  ring_->abort = setup.abort;
  ring_->hits = setup.hits;
  schedule_ = setup.schedule;
  // No slot may wait in the chunk of a worker that runs a long item.
  chunk_ = setup.executor->has_long_items()
               ? 1
               : std::clamp<Word>(ring_->slot_count / (setup.worker_count * kChunksPerWorker), 1,
                                  kLargestChunk);
  for (Fresh& fresh : fresh_) {
    fresh.next.store(0, std::memory_order_relaxed);
    fresh.end = 0;
  }
  fresh_[0].end = ring_->slot_count;
  first_ticket_ = 0;
  deferred_.clear();
  claimed_at_entry_.store(0, std::memory_order_relaxed);
  counts_ = {};
  working_ = 0;
  is_finished_.store(false, std::memory_order_relaxed);
  if (schedule_ == Schedule::priority) return prepare_partitions();
  if (schedule_ == Schedule::ticket) EVERKERNEL_TRY(prepare_tickets());
  deferred_.reserve(0, fresh_[0].end);
  return {};
}

Result<void> Drain::prepare_partitions() {
  constexpr Word kFirst = abi::kControlPriorityOffsets.first;
  std::array<Word, abi::kControlPriorityOffsets.count> offsets{};
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    offsets[i] = ring_->control.load_relaxed(kFirst + i);
  }
  const bool is_default = std::ranges::all_of(offsets, [](Word word) { return word == 0; });
  if (is_default) offsets = protocol::default_priority_offsets(ring_->slot_count);
  EVERKERNEL_TRY(check_priority_offsets(offsets, ring_->slot_count));
  for (std::size_t i = 0; i < fresh_.size(); ++i) {
    fresh_[i].next.store(offsets[i], std::memory_order_relaxed);
    fresh_[i].end = offsets[i + 1];
    deferred_.reserve(static_cast<Word>(i), offsets[i + 1] - offsets[i]);
  }
  return {};
}

Result<void> Drain::prepare_tickets() {
  first_ticket_ = ring_->control.load_relaxed(abi::kControlTicketHead.first);
  const Word tail = ring_->control.load_relaxed(abi::kControlTicketTail.first);
  EVERKERNEL_TRY(check_tickets(first_ticket_, tail, ring_->slot_count));
  const bool is_untouched = first_ticket_ == 0 && tail == 0;
  const Word count = is_untouched ? ring_->slot_count : tail - first_ticket_;
  fresh_[0].end = count;
  return {};
}

Word Drain::slot_at(std::uint64_t position) const {
  if (schedule_ != Schedule::ticket) return static_cast<Word>(position);
  return (first_ticket_ + static_cast<Word>(position)) % ring_->slot_count;
}

void Drain::work(const CallForHelp& call_for_help) {
  Tally tally;
  run(tally, call_for_help);
  const std::scoped_lock held(deferred_.lock());
  counts_.done += tally.done();
  counts_.faulted += tally.faulted();
  counts_.hits_dropped += tally.hits_dropped();
  tally.flush(ring_->control);
}

void Drain::run(Tally& tally, const CallForHelp& call_for_help) {
  std::uint64_t seen = 0;
  if (!enter(seen)) return;
  Pass pass(*this, tally, call_for_help);
  for (;;) {
    bool has_moved = pass.visit_fresh();
    if (has_moved) note_progress(seen);
    has_moved = pass.visit_deferred();
    if (must_stop()) return stop_working();
    if (has_moved) {
      note_progress(seen);
      continue;
    }
    if (leave(seen)) continue;
    wait_for_change(seen);
    if (!enter(seen)) return;
  }
}

bool Drain::enter(std::uint64_t& seen) {
  const std::scoped_lock held(deferred_.lock());
  if (is_finished_.load(std::memory_order_relaxed)) return false;
  ++working_;
  seen = stamp_.load(std::memory_order_relaxed);
  return true;
}

void Drain::note_progress(std::uint64_t& seen) {
  const std::scoped_lock held(deferred_.lock());
  const std::uint64_t stamp = stamp_.load(std::memory_order_relaxed);
  // Other workers may have moved slots after this worker visited them: it must visit them again.
  if (stamp == seen) seen = stamp + 1;
  stamp_.store(stamp + 1, std::memory_order_release);
}

// Returns true if the worker must not leave but visit the deferred slots again.
bool Drain::leave(std::uint64_t& seen) {
  const std::scoped_lock held(deferred_.lock());
  const std::uint64_t stamp = stamp_.load(std::memory_order_relaxed);
  if (stamp != seen) {
    seen = stamp;
    return true;
  }
  if (--working_ == 0) is_finished_.store(true, std::memory_order_release);
  return false;
}

void Drain::stop_working() {
  const std::scoped_lock held(deferred_.lock());
  if (--working_ == 0) is_finished_.store(true, std::memory_order_release);
}

// Other workers still run items; each may end items that deferred ones wait for, or defer its own.
void Drain::wait_for_change(std::uint64_t seen) {
  for (int spins = 0;; ++spins) {
    if (is_finished() || stamp_.load(std::memory_order_acquire) != seen || must_stop()) return;
    if (spins < kSpinsBeforeSleep) {
      spin_pause();
    } else {
      std::this_thread::sleep_for(kIdleSleep);
    }
  }
}

Word Drain::count_active() const {
  Word active = 0;
  for (Word slot = 0; slot < ring_->slot_count; ++slot) {
    if (abi::is_active(ring_->status(slot))) ++active;
  }
  return active;
}

DrainCounts Drain::close() {
  if (ring_->is_shut_down()) {
    counts_.end = DrainEnd::shutdown;
  } else if (ring_->is_aborted()) {
    counts_.end = DrainEnd::deadline;
  }
  const bool is_whole = counts_.end == DrainEnd::complete && schedule_ != Schedule::ticket;
  counts_.remaining = is_whole && deferred_.size() == 0
                          ? claimed_at_entry_.load(std::memory_order_relaxed)
                          : count_active();
  const bool has_begun = fresh_[0].next.load(std::memory_order_relaxed) != 0;
  if (schedule_ == Schedule::ticket && has_begun) close_tickets();
  return counts_;
}

// TICKET_HEAD stops at the first ticket that has not ended: the next dispatch continues there.
void Drain::close_tickets() {
  const Word count = static_cast<Word>(fresh_[0].end);
  Word ended = 0;
  while (ended < count && !abi::is_active(ring_->status(slot_at(ended)))) ++ended;
  ring_->control.store_relaxed(abi::kControlTicketTail.first, first_ticket_ + count);
  ring_->control.store_relaxed(abi::kControlTicketHead.first, first_ticket_ + ended);
}

}  // namespace everkernel::backend::cpu
