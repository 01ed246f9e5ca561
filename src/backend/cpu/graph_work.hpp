// Runs planned work on the CPU: portions of the order, and regions that were released.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <vector>

#include "backend/cpu/executor.hpp"
#include "backend/cpu/item_runner.hpp"
#include "backend/cpu/tally.hpp"
#include "base/spin.hpp"
#include "everkernel/backend/detail/graph.hpp"
#include "everkernel/backend/detail/live.hpp"

namespace everkernel::backend::cpu {

/// How far a region has run. `args` are valid only if `has_begun`: clearing them would cost time
/// for the many items that never use them.
struct Continuation {
  Word item = 0;                          ///< the next item
  Word ticket = 0;                        ///< the ticket it belongs to
  bool has_begun = false;                 ///< whether the item has run before and runs again
  std::array<Word, abi::kSlotArgs> args;  ///< as the item left them
};

/// State that the workers of one planned run share.
class GraphWork {
 public:
  /// All of them outlive it.
  GraphWork(const WorkGraph& planned, const protocol::QueueKernel& tickets, ItemContext& items,
            Doorbell& bell)
      : graph(planned), queue(tickets), context(items), doorbell_(bell) {}

  const WorkGraph& graph;              ///< the planned work
  const protocol::QueueKernel& queue;  ///< portions of it, and outcomes
  ItemContext& context;                ///< what its items share
  /// Whether any item has faulted so far. Until then no handle is poisoned and none is looked up.
  std::atomic<bool> has_faults{false};

  /// Offers regions to other workers, and wakes sleeping ones.
  void share(std::span<const Word> regions);
  /// Takes shared regions; returns their number.
  std::size_t take(std::span<Word> regions);
  /// Puts aside a region that cannot continue now.
  void push(const Continuation& continuation);
  /// Takes the region that was put aside first; says whether there was one.
  bool pop(Continuation& continuation);

  /// Regions that could run now; a hint.
  std::size_t shared() const { return shared_.load(std::memory_order_relaxed); }
  /// Regions put aside; a hint.
  std::size_t put_aside() const { return put_aside_.load(std::memory_order_relaxed); }

 private:
  Doorbell& doorbell_;
  alignas(64) SpinLock lock_;
  std::vector<Word> regions_;
  std::vector<Continuation> continuations_;  // a ring: from first_ on, put_aside_ many
  std::size_t first_ = 0;
  std::atomic<std::size_t> shared_{0};
  std::atomic<std::size_t> put_aside_{0};
};

/// Runs planned work on one thread.
class GraphWorker {
 public:
  /// Counts into `tally`; stops when `must_leave` is set.
  GraphWorker(GraphWork& work, Tally& tally, const std::atomic<bool>& must_leave);

  /// Runs the regions of a ticket that this worker has taken, and the regions they release.
  void run_portion(Word ticket);
  /// Runs shared regions and regions put aside; says whether any made progress.
  bool run_waiting();

  /// Publishes more tickets if the order has more; says whether it did.
  bool refill() const {
    return graph_.refill.call != nullptr && graph_.refill.call(graph_.refill.self);
  }

  /// Appends a record of the item that runs.
  void print(Word fmt, Word a, Word b) { prints_.append({item_, fmt, a, b}); }
  /// Appends a hit of the item that runs.
  void emit(Word a, Word b, Word c) { hits_.append({item_, a, b, c}); }
  /// Hands in the hits and records so far.
  void hand_in() {
    hits_.hand_in();
    prints_.hand_in();
  }

 private:
  enum class Ended { yes, no };
  enum class Move { done, again, stuck };

  bool take_shared();
  bool resume();
  Ended run_region(Word item, Word ticket);
  Ended run_from(Continuation& at);
  Ended run_chain(Continuation& at);
  void note_barrier(bool is_barrier);
  bool is_barrier(Word item) const;
  Move run_item(Continuation& at);
  ir::Outcome run_handler(Word handler, Continuation& at);
  void release(const Node& node);
  void release_one(Word waiter);
  void run_released();
  void finish(Word ticket, Word regions);
  bool end_nop(Word item);
  void end_item(Word item, Word outcome);
  void publish_counts();
  bool is_poisoned(Word item, const HandlerInfo& info) const;
  void poison_outputs(Word item, const HandlerInfo& info);
  void poison_handle(Word handle, Word by);
  static bool commutes(const abi::WorkItem& item, const HandlerInfo& info);
  bool must_leave() const {
    return must_leave_.load(std::memory_order_relaxed) || context_.is_shut_down();
  }

  GraphWork& work_;
  // Copies of data that every item needs, which saves an indirection.
  const WorkGraph graph_;
  const protocol::QueueKernel& queue_;
  ItemContext& context_;
  const Executor& executor_;
  Tally& tally_;
  const std::atomic<bool>& must_leave_;
  ir::ItemHooks hooks_;
  ir::ItemFrame frame_;
  Word item_ = 0;             // that runs
  Origin counted_origin_;     // whose claims are counted
  bool is_admitted_ = false;  // whether those may run without a look, until the portion ends
  Word claims_ = 0;           // counted and not yet in the tally, like the next three
  Word done_ = 0;
  Word faulted_ = 0;
  Word nops_ = 0;
  bool runs_barrier_ = false;  // the item that runs, runs alone
  Clock::time_point barrier_since_;
  HitChunk hits_;
  HitChunk prints_;
  std::size_t most_kept_ = 0;  // released regions this worker keeps to itself
  std::vector<Word> released_;
  std::vector<Word> joins_;
};

}  // namespace everkernel::backend::cpu
