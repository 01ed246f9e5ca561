// Planned work: run a region, release the regions that waited for it, continue with those.
//
// The count of a waiting region is one higher than the nodes it waits for: the worker that takes
// its ticket takes off that one. The worker that brings the count to zero runs the region. Each
// step of the count is acquire and release, so that worker sees all results the region depends on.
#include "backend/cpu/graph_work.hpp"

#include <algorithm>
#include <mutex>

#include "everkernel/abi/fault.hpp"
#include "everkernel/base/assert.hpp"

namespace everkernel::backend::cpu {
namespace {

using ir::Ending;
using ir::Outcome;

// Value of `poisoned_by` for a handle that no dependent may touch any more. A smaller value is the
// commuting opcode whose items faulted: items of that opcode may still run.
constexpr Word kPoisonedForAll = 0xFFFFFFFFu;
// Released regions that a worker keeps for itself: of short items, and of items that may be long.
constexpr std::size_t kKeepShort = 8;
constexpr std::size_t kKeepLong = 1;
// Shared regions a worker takes at one time.
constexpr std::size_t kTakeShort = 16;

std::atomic_ref<Word> shared_word(std::span<Word> words, std::size_t index) {
  return std::atomic_ref(words[index]);
}

}  // namespace

// ---- state that workers share ----

void GraphWork::share(std::span<const Word> regions) {
  {
    const std::scoped_lock held(lock_);
    regions_.insert(regions_.end(), regions.begin(), regions.end());
    shared_.store(regions_.size(), std::memory_order_relaxed);
  }
  // Either this wakes a sleeping worker, or a worker about to sleep finds the regions.
  doorbell_.announce(static_cast<Word>(regions.size()));
}

std::size_t GraphWork::take(std::span<Word> regions) {
  if (shared() == 0) return 0;
  const std::scoped_lock held(lock_);
  const std::size_t count = std::min(regions.size(), regions_.size());
  std::copy(regions_.end() - static_cast<std::ptrdiff_t>(count), regions_.end(), regions.begin());
  regions_.resize(regions_.size() - count);
  shared_.store(regions_.size(), std::memory_order_relaxed);
  return count;
}

void GraphWork::push(const Continuation& continuation) {
  const std::scoped_lock held(lock_);
  const std::size_t count = put_aside_.load(std::memory_order_relaxed);
  if (count == continuations_.size()) {
    std::rotate(continuations_.begin(),
                continuations_.begin() + static_cast<std::ptrdiff_t>(first_), continuations_.end());
    first_ = 0;
    continuations_.resize(std::max<std::size_t>(64, 2 * count));
  }
  continuations_[(first_ + count) % continuations_.size()] = continuation;
  put_aside_.store(count + 1, std::memory_order_relaxed);
}

bool GraphWork::pop(Continuation& continuation) {
  if (put_aside() == 0) return false;
  const std::scoped_lock held(lock_);
  const std::size_t count = put_aside_.load(std::memory_order_relaxed);
  if (count == 0) return false;
  continuation = continuations_[first_];
  first_ = (first_ + 1) % continuations_.size();
  put_aside_.store(count - 1, std::memory_order_relaxed);
  return true;
}

// ---- one worker ----

GraphWorker::GraphWorker(GraphWork& work, Tally& tally, const std::atomic<bool>& must_leave)
    : work_(work),
      graph_(work.graph),
      queue_(work.queue),
      context_(work.context),
      executor_(*work.context.executor),
      tally_(tally),
      must_leave_(must_leave),
      hits_(work.graph.hits),
      prints_(work.graph.prints) {
  hooks_ = {.self = this,
            .print = [](void* self, Word fmt, Word a,
                        Word b) { static_cast<GraphWorker*>(self)->print(fmt, a, b); },
            .emit = [](void* self, Word a, Word b,
                       Word c) { static_cast<GraphWorker*>(self)->emit(a, b, c); }};
  frame_.control = work.context.control.data();
  frame_.control_words = static_cast<Word>(work.context.control.size());
  frame_.abort = work.context.abort;
  frame_.buffers = work.context.buffers;
  frame_.hooks = &hooks_;
  most_kept_ = executor_.has_long_items() ? kKeepLong : kKeepShort;
}

void GraphWorker::run_portion(Word ticket) {
  // Another worker may run the last region and end the ticket, so the entry is read here and not
  // again.
  const auto entry = queue_.copy_item(ticket);
  EVERKERNEL_ASSERT(entry);
  const Portion portion = Portion::of(*entry);
  Word ended = 0;
  is_admitted_ = false;
  for (Word at = portion.first; at != portion.first + portion.count; ++at) {
    const Word item = graph_.order.empty() ? at : graph_.order[at];
    if (graph_.places[item] != 0) continue;
    if (must_leave()) break;
    const auto waiting_for = shared_word(graph_.waiting_for, item);
    if (waiting_for.load(std::memory_order_relaxed) != 0) {
      graph_.ticket_of[item] = ticket;
      if (waiting_for.fetch_sub(1, std::memory_order_acq_rel) != 1) continue;
    }
    if (end_nop(item) || run_region(item, ticket) == Ended::yes) ++ended;
    if (!released_.empty()) run_released();
  }
  finish(ticket, ended);
}

bool GraphWorker::run_waiting() {
  // Both kinds run in turn; if the launch policy ages items, those put aside go first.
  const bool has_resumed = graph_.ages && resume();
  const bool has_taken = take_shared();
  return has_resumed || has_taken || (!graph_.ages && resume());
}

bool GraphWorker::take_shared() {
  std::array<Word, kTakeShort> regions;
  const std::size_t most = most_kept_ == kKeepLong ? 1 : regions.size();
  const std::size_t count = work_.take(std::span(regions).first(most));
  if (count == 0) return false;
  released_.insert(released_.end(), regions.begin(),
                   regions.begin() + static_cast<std::ptrdiff_t>(count));
  run_released();
  return true;
}

// Tries every region that was put aside once; says whether any made progress.
bool GraphWorker::resume() {
  bool has_moved = false;
  for (std::size_t looks = work_.put_aside(); looks > 0 && !must_leave(); --looks) {
    Continuation at;
    if (!work_.pop(at)) break;
    const bool had_begun = at.has_begun;
    const Word item = at.item;
    if (run_from(at) == Ended::yes) finish(at.ticket, 1);
    has_moved |= at.item != item || at.has_begun || had_begun;
    if (!released_.empty()) run_released();
  }
  return has_moved;
}

void GraphWorker::run_released() {
  while (!released_.empty() && !must_leave()) {
    if (released_.size() > most_kept_) {
      work_.share(std::span(released_).first(released_.size() - most_kept_));
      released_.erase(released_.begin(), released_.end() - static_cast<std::ptrdiff_t>(most_kept_));
    }
    const Word item = released_.back();
    released_.pop_back();
    const Word ticket = graph_.ticket_of[item];
    if (run_region(item, ticket) == Ended::yes) finish(ticket, 1);
  }
  released_.clear();  // on a stop, regions that have not begun stay `remaining`
}

// ---- regions ----

GraphWorker::Ended GraphWorker::run_region(Word item, Word ticket) {
  Continuation at;
  at.item = item;
  at.ticket = ticket;
  return run_from(at);
}

// Runs a region from where it stands to its end, or to where it must be put aside.
inline GraphWorker::Ended GraphWorker::run_from(Continuation& at) {
  const Ended ended = run_chain(at);
  if (runs_barrier_) note_barrier(false);
  return ended;
}

inline GraphWorker::Ended GraphWorker::run_chain(Continuation& at) {
  for (;;) {
    if (!graph_.barriers.empty()) [[unlikely]]
      note_barrier(is_barrier(at.item));
    if (run_item(at) != Move::done) {
      publish_counts();
      work_.push(at);
      return Ended::no;
    }
    const Word next = graph_.next_of(at.item);
    if (next == kNoNode) break;
    if (must_leave()) {
      publish_counts();
      return Ended::no;
    }
    at.item = next;
    at.has_begun = false;
  }
  release(graph_.nodes[at.item]);
  return Ended::yes;
}

bool GraphWorker::is_barrier(Word item) const {
  return std::ranges::find(graph_.barriers, graph_.items[item].op_handle) != graph_.barriers.end();
}

// Measures the time in which barriers run, with two looks at the clock for a row of them.
void GraphWorker::note_barrier(bool is_barrier) {
  if (is_barrier == runs_barrier_) return;
  runs_barrier_ = is_barrier;
  const auto now = Clock::now();
  if (is_barrier) {
    barrier_since_ = now;
  } else {
    const auto time = std::chrono::nanoseconds(now - barrier_since_).count();
    tally_.add_barrier_time(static_cast<std::uint64_t>(time));
  }
}

void GraphWorker::release(const Node& node) {
  const auto visit = [this](Word waiter) { release_one(waiter); };
  graph_.for_each_waiter(node, visit);
  while (!joins_.empty()) {
    const Word join = joins_.back();
    joins_.pop_back();
    graph_.for_each_waiter(graph_.joins[join], visit);
  }
}

void GraphWorker::release_one(Word waiter) {
  const auto item_count = static_cast<Word>(graph_.items.size());
  if (waiter < item_count) {
    const auto waiting_for = shared_word(graph_.waiting_for, waiter);
    if (waiting_for.fetch_sub(1, std::memory_order_acq_rel) == 1) released_.push_back(waiter);
  } else {
    const auto waiting_for = shared_word(graph_.join_waiting_for, waiter - item_count);
    if (waiting_for.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      joins_.push_back(waiter - item_count);
    }
  }
}

// Some regions of a ticket have ended. It ends with the last of them.
void GraphWorker::finish(Word ticket, Word regions) {
  publish_counts();
  if (regions == 0) return;
  const auto left = shared_word(graph_.left, queue_.place_of(ticket));
  if (left.fetch_sub(regions, std::memory_order_acq_rel) == regions) {
    queue_.end(ticket, abi::OutcomeCode::done, 0, {});
  }
}

// ---- items ----

inline GraphWorker::Move GraphWorker::run_item(Continuation& at) {
  const abi::WorkItem& item = graph_.items[at.item];
  const Origin& origin = graph_.origin_of(at.item);
  bool is_counted = false;
  if (context_.standing_of(origin.tenant) != ItemContext::Standing::enabled ||
      !context_.take_quota(origin.tenant, is_counted)) [[unlikely]] {
    is_admitted_ = false;
    return Move::stuck;
  }
  if (origin != counted_origin_) [[unlikely]] {
    publish_counts();
    counted_origin_ = origin;
  }
  is_admitted_ = !is_counted;
  ++claims_;
  const Word handler = executor_.find(item.op_handle);
  if (handler == Executor::kNone) {  // NOP: a run has no other opcode without a handler
    ++nops_;
    end_item(at.item, kItemDone);
    if (is_counted) context_.return_quota(origin.tenant);
    return Move::done;
  }
  const HandlerInfo& info = executor_.info(handler);
  Outcome outcome{Ending::fault, static_cast<Word>(abi::FaultCode::input_faulted)};
  const bool may_be_poisoned = graph_.ordered && work_.has_faults.load(std::memory_order_relaxed);
  if (!may_be_poisoned || !is_poisoned(at.item, info)) outcome = run_handler(handler, at);
  if (is_counted) context_.return_quota(origin.tenant);
  if (outcome.ending == Ending::requeue) tally_.count_requeue();
  if (outcome.ending == Ending::yield || outcome.ending == Ending::requeue) return Move::again;
  if (outcome.ending == Ending::done) {
    end_item(at.item, kItemDone);
    return Move::done;
  }
  poison_outputs(at.item, info);
  end_item(at.item, outcome.fault_code);
  return Move::done;
}

// A short cut of run_item() for a NOP that no item waits for: if an item of the same origin was
// just admitted, tenant and quota need no check.
inline bool GraphWorker::end_nop(Word item) {
  if (graph_.items[item].op_handle != 0 || graph_.nodes[item].last_waiter != kNoNode) return false;
  if (!is_admitted_ || graph_.origin_of(item) != counted_origin_) return false;
  ++claims_;
  ++nops_;
  end_item(item, kItemDone);
  return true;
}

inline Outcome GraphWorker::run_handler(Word handler, Continuation& at) {
  const abi::WorkItem& item = graph_.items[at.item];
  const Origin& origin = graph_.origin_of(at.item);
  const HandlerInfo& info = executor_.info(handler);
  item_ = at.item;
  if (at.has_begun) {
    std::ranges::copy(at.args, frame_.args);
  } else {
    frame_.args[0] = item.input_handle;
    frame_.args[1] = item.output_handle;
    frame_.args[2] = item.param;
  }
  frame_.opcode = item.op_handle;
  frame_.tenant = origin.tenant;
  frame_.priority = origin.priority;
  frame_.slot = queue_.place_of(at.ticket);
  frame_.lanes = info.lanes;
  frame_.fuel = context_.fuel_per_item;
  const Outcome outcome = executor_.run(handler, frame_);
  if (info.can_leave) {
    hand_in();  // another worker may continue the item, and its hits come after these
    at.has_begun = true;
    std::ranges::copy(frame_.args, at.args.begin());
  }
  // Args from the fourth on are zero for every item, unless a handler wrote them.
  if (info.writes_args || info.can_leave) {
    std::fill(std::begin(frame_.args) + 3, std::end(frame_.args), 0);
  }
  return outcome;
}

inline void GraphWorker::end_item(Word item, Word outcome) {
  shared_word(graph_.outcomes, item).store(outcome, std::memory_order_relaxed);
  ++(outcome == kItemDone ? done_ : faulted_);
}

// Items are counted before their ticket ends: a reader of the outcome finds the counts.
void GraphWorker::publish_counts() {
  tally_.count_run(counted_origin_.tenant, counted_origin_.priority,
                   {.claims = claims_, .done = done_, .faulted = faulted_, .nops = nops_});
  claims_ = done_ = faulted_ = nops_ = 0;
}

// ---- faults ----

bool GraphWorker::is_poisoned(Word item, const HandlerInfo& info) const {
  const abi::WorkItem& words = graph_.items[item];
  const auto poison = [&](Word handle) -> Word {
    if (handle == 0) return 0;
    return shared_word(graph_.poisoned_by, graph_.handles.find(handle))
        .load(std::memory_order_relaxed);
  };
  const ir::Effects& effects = info.effects;
  const bool touches_input = effects.reads_input || effects.writes_input;
  if (touches_input && poison(words.input_handle) != 0) return true;
  if (!effects.reads_output && !effects.writes_output) return false;
  const Word by = poison(words.output_handle);
  return by != 0 && !(commutes(words, info) && by == words.op_handle);
}

// Whether the item does not depend on others of its opcode through its output.
bool GraphWorker::commutes(const abi::WorkItem& item, const HandlerInfo& info) {
  const bool touches_input = info.effects.reads_input || info.effects.writes_input;
  return info.commutes && !(touches_input && item.input_handle == item.output_handle);
}

void GraphWorker::poison_outputs(Word item, const HandlerInfo& info) {
  if (!graph_.ordered) return;
  const abi::WorkItem& words = graph_.items[item];
  if (info.effects.writes_input) poison_handle(words.input_handle, kPoisonedForAll);
  if (info.effects.writes_output) {
    poison_handle(words.output_handle, commutes(words, info) ? words.op_handle : kPoisonedForAll);
  }
  work_.has_faults.store(true, std::memory_order_relaxed);
}

void GraphWorker::poison_handle(Word handle, Word by) {
  if (handle == 0) return;
  const auto word = shared_word(graph_.poisoned_by, graph_.handles.find(handle));
  Word before = 0;
  while (!word.compare_exchange_weak(before, before == 0 || before == by ? by : kPoisonedForAll,
                                     std::memory_order_relaxed)) {
  }
}

}  // namespace everkernel::backend::cpu
