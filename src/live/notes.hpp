// What a producer has noted of its queue: which tickets have ended, and how those ended that did
// not reach DONE. Noting frees places; a ticket below `noted` is answered from here.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "everkernel/live/ids.hpp"
#include "everkernel/protocol/queue.hpp"
#include "live/publish_times.hpp"

namespace everkernel::live {

using abi::LongWord;

/// The noted outcomes of one queue. Thread-safe.
class Notes {
 public:
  /// Of a queue that begins with its first ticket. Tells `times` of what is noted.
  Notes(const protocol::QueueProducer& queue, PublishTimes& times);

  /// Every ticket below it has ended, and its outcome is noted.
  LongWord noted() const { return noted_.load(std::memory_order_acquire); }
  /// Notes tickets below `end` that have ended, in order, up to the first that has not.
  void advance(LongWord end);
  /// Notes every ticket below `end`: those without an outcome never ran. The queue is closed. Gives
  /// how many were cancelled in all.
  std::uint64_t finish(LongWord end);

  /// How a ticket ended.
  struct Outcome {
    bool has_ended = false;      ///< else nothing below counts
    bool was_cancelled = false;  ///< it never ran
    bool is_forgotten = false;   ///< it ended, and how is no longer kept
    Completion completion = {};  ///< of a ticket that ran and is not forgotten
  };
  /// How a ticket below the tail ended.
  Outcome find(LongWord ticket);
  /// Whether find() would say without looking further that a ticket is DONE and has no results.
  bool is_plainly_done(LongWord ticket) const {
    return results_ == nullptr && queue_.outcome(ticket) == abi::OutcomeCode::done &&
           ticket >= noted();
  }
  /// Whether a ticket has ended.
  bool has_ended(LongWord ticket) const {
    if (ticket < noted()) return true;
    if (queue_.outcome(ticket) != abi::OutcomeCode::none) return true;
    // Between the two loads above the ticket may have been noted and its place used again.
    return ticket < noted();
  }

  /// Keeps how a ticket ends until unfollow(), whatever is noted meanwhile; false if that is no
  /// longer kept. One ticket may have several followers.
  bool follow(LongWord ticket);
  /// Ends one follow().
  void unfollow(LongWord ticket);

  /// Fault codes dropped before they were asked for.
  std::uint64_t forgotten() const;
  /// The lowest ticket that was cancelled; the highest number if there is none.
  LongWord first_cancelled() const { return first_cancelled_.load(std::memory_order_acquire); }

 private:
  struct Kept {
    Word fault_code = 0;
    bool was_cancelled = false;
  };
  struct Followed {
    Outcome outcome = {.has_ended = true};  // once it was noted
    std::size_t followers = 0;
  };

  bool note(LongWord ticket);
  void keep(LongWord ticket, const Kept& outcome);
  void keep_results(LongWord ticket);
  Outcome find_noted(LongWord ticket);
  Outcome recall(LongWord ticket) const;
  void tell_followed(LongWord ticket, const Outcome& outcome);

  protocol::QueueProducer queue_;
  PublishTimes& times_;
  alignas(64) std::atomic<LongWord> noted_;
  mutable std::mutex mutex_;                         // guards everything below
  std::unordered_map<LongWord, Kept> kept_;          // outcomes of noted tickets that are not DONE
  std::unordered_map<LongWord, Followed> followed_;  // a ticket without an outcome here is DONE
  std::uint64_t forgotten_ = 0;
  LongWord forgotten_before_ = 0;  // outcomes of older tickets may have been dropped
  std::unique_ptr<protocol::ItemResults[]> results_;  // of the last lap; null without results
  std::atomic<LongWord> first_cancelled_{~LongWord{0}};
  std::uint64_t cancelled_ = 0;
};

}  // namespace everkernel::live
