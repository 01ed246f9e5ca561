// What a worker runs, and since when: it marks an item that may take long before it runs it, so
// that others can see the item and end it.
//
// The state of a mark is one word: the number of the marked run, and whether it runs. Whoever ends
// an item replaces "run 7 runs" by "run 7 is told to end", which fails if that run is over, and
// only then sets the abort word. A worker that finds its run told to end waits for the abort word
// and clears it, so that no later item of the worker sees it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>

#include "everkernel/backend/detail/live.hpp"

namespace everkernel::backend::cpu {

/// The mark of one worker.
class alignas(64) RunningMark {
 public:
  RunningMark() = default;
  RunningMark(const RunningMark&) = delete;             ///< others refer to it
  RunningMark& operator=(const RunningMark&) = delete;  ///< others refer to it

  /// Called by the worker before it runs an item. Gives the word that ends the item. `since` is on
  /// the steady clock.
  const Word* begin(const LiveQueue& queue, LongWord ticket, Word opcode,
                    std::int64_t since = steady_now()) {
    ++number_;
    // Release: whoever sees one of these words also sees that the run before is over.
    queue_.store(&queue, std::memory_order_release);
    ticket_.store(ticket, std::memory_order_release);
    opcode_.store(opcode, std::memory_order_release);
    timeout_ns_.store(queue.item_timeout.count(), std::memory_order_release);
    since_.store(since, std::memory_order_release);
    state_.store(state_of(kRuns), std::memory_order_release);
    return &abort_;
  }
  /// Called by the worker when the item has run.
  void end() {
    const std::uint64_t before = state_.exchange(state_of(kIdle), std::memory_order_acq_rel);
    if (before != state_of(kRuns)) [[unlikely]]
      clear_abort();
  }

  /// A marked run as others see it.
  struct Sight {
    std::uint64_t number = 0;               ///< of the run
    const LiveQueue* queue = nullptr;       ///< only to be compared
    LongWord ticket = 0;                    ///< of the item
    Word opcode = 0;                        ///< of the item
    std::chrono::nanoseconds timeout = {};  ///< of the item; 0 = none
    Clock::time_point since = {};           ///< when the run began
    bool was_told_to_end = false;           ///< tell_to_end() has succeeded
  };
  /// The item that runs now, or nothing.
  std::optional<Sight> look() const;
  /// Ends the run of that number at its next turn of a loop, unless it is over.
  void tell_to_end(std::uint64_t number);

 private:
  enum State : std::uint64_t { kIdle = 0, kRuns = 1, kMustEnd = 2 };
  static constexpr std::uint64_t kStates = 4;
  std::uint64_t state_of(State state) const { return number_ * kStates + state; }
  void clear_abort();

  std::atomic<std::uint64_t> state_{0};
  std::atomic<const LiveQueue*> queue_{nullptr};
  std::atomic<LongWord> ticket_{0};
  std::atomic<std::int64_t> since_{0};
  std::atomic<std::int64_t> timeout_ns_{0};
  std::atomic<Word> opcode_{0};
  Word abort_ = 0;            // accessed atomically; items read it
  std::uint64_t number_ = 0;  // the worker's own
};

}  // namespace everkernel::backend::cpu
