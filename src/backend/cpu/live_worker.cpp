// The loop of a live worker.
//
// Which queue is next: by priority, most urgent first, unless 16 urgent items in a row let the
// others go first; within a priority tenants take turns, and within a tenant its queues. What a
// producer can write is used in two ways only: the lap bit of an entry says that it is there, and
// the copy made after the claim is the item. The worker takes a ticket only if the ticket one lap
// before has ended by the kernel's own record.
#include "backend/cpu/live_worker.hpp"

#include <algorithm>
#include <optional>

#include "backend/cpu/float_guard.hpp"
#include "everkernel/abi/fault.hpp"
#include "everkernel/abi/opcode.hpp"
#include "everkernel/base/detail/fence.hpp"

namespace everkernel::backend::cpu {
namespace {

using abi::FaultCode;
using abi::IoStatus;
using abi::Opcode;
using abi::OutcomeCode;
using abi::Slot;
using abi::SlotStatus;
using ir::Ending;
using ItemClass = Executor::ItemClass;
using std::chrono::milliseconds;

// Short items are taken together: as many as run in about kBatchTime, and at most kLargestBatch.
// Batches end where a line of outcomes does, so that two threads seldom store into one line.
constexpr Word kLargestBatch = 256;
constexpr std::uint32_t kBatchTime = 2000 * 16;  // in sixteenths of a nanosecond
constexpr Word kOutcomesOfLine = 64;
// One batch in this many is timed, if it has at least kTimedBatch items.
constexpr Word kTimingInterval = 4;
constexpr Word kTimedBatch = 16;
// Moving an item to another core takes this long, in sixteenths of a nanosecond.
constexpr std::uint32_t kMoveTime = 50 * 16;
// A host thread that ran at least this many items at one time is expected to come back to the next
// ones within the time, in nanoseconds.
constexpr Word kManyItems = 32;
constexpr std::int64_t kHelperReturn = 50'000;
// Items of a batch between two looks whether the rest is to be cancelled.
constexpr Word kCancelLook = 8;
// Urgent items in a row after which the others are looked at first.
constexpr Word kStarvation = 16;
// Priorities that count as urgent are below this one.
constexpr Word kFirstPatient = static_cast<Word>(abi::Priority::normal);
// Pauses between two looks: after an item that is not short, and after short ones, whose publishers
// looks disturb more. Empty looks after which the pauses are halved.
constexpr int kShortestInterval = 1;
constexpr int kShortInterval = 2;
constexpr int kLongInterval = 256;
constexpr int kPollsPerInterval = 32;
// Empty looks after which a worker counts as one that only looks.
constexpr int kPollsBeforeIdle = 8;
// Pauses after which an idle worker yields its core, and further pauses after which it sleeps.
constexpr int kPausesBeforeYield = 4000;
constexpr int kPausesBeforeSleep = 64;
// Queues that are looked at in the time of a pause.
constexpr std::size_t kQueuesPerPause = 4;
constexpr std::size_t kQuietQueuesPerPause = 16;
// Pauses before the first yield where workers outnumber cores: a worker that only polls keeps
// another worker off its core.
constexpr int kPausesOnSharedCores = 64;
// A worker that sleeps while items wait wakes up by itself after a nap, because an item may become
// ready without a ring. Other workers sleep for kLongSleep.
constexpr milliseconds kShortestNap(1);
constexpr milliseconds kLongestNap(16);
constexpr std::chrono::hours kLongSleep(1);
// Items that a worker ends between two additions to the control words while it is never idle.
constexpr std::uint64_t kFlushInterval = 1 << 16;

constexpr Word kNop = static_cast<Word>(Opcode::nop);

constexpr bool is_opcode(Word number, Opcode opcode) {
  return number == static_cast<Word>(opcode);
}

}  // namespace

// The time in which a worker may read the roster and touch a queue.
class LiveWorker::Turn {
 public:
  explicit Turn(LiveSeat& seat) : seat_(seat) {
    // Release: whoever sees this turn also sees that the turns before it are over.
    seat_.turn.store(seat_.turn.load(std::memory_order_relaxed) + 1, std::memory_order_release);
    // Whoever replaces the roster passes the heavy fence: either this turn is seen, or the new
    // roster is read.
    fence::light();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  ~Turn() {
    seat_.queue.store(nullptr, std::memory_order_relaxed);
    seat_.turn.store(seat_.turn.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }

 private:
  LiveSeat& seat_;
};

LiveWorker::LiveWorker(CpuLiveKernel& kernel, Word seat)
    : kernel_(kernel),
      seat_(kernel.seats_[seat]),
      context_(kernel.context_),
      executor_(*kernel.executor_),
      tally_(seat_.tally),
      runner_(kernel.context_, tally_),
      is_helper_(seat == kernel.worker_count_),
      interval_(kShortInterval),
      nap_(kShortestNap) {
  const bool has_own_core = kernel.worker_count_ <= std::thread::hardware_concurrency();
  pauses_before_yield_ = has_own_core ? kPausesBeforeYield : kPausesOnSharedCores;
}

bool LiveWorker::must_leave() const {
  return kernel_.must_leave_.load(std::memory_order_relaxed) || context_.is_shut_down();
}

void LiveWorker::run() {
  const FloatGuard floats;
  while (!must_leave() && !kernel_.must_step_aside_.load(std::memory_order_relaxed)) {
    const bool has_moved = step();
    looked_at_ = 0;
    if (has_moved) {
      count_idle(false);
      idle_pauses_ = 0;
      empty_polls_ = 0;
      nap_ = kShortestNap;
      if (tally_.ended() - flushed_at_ >= kFlushInterval) flush();
      if (kernel_.has_retired_.load(std::memory_order_relaxed)) kernel_.free_retired();
      if (interval_ > kShortInterval) wait_a_while(interval_);
    } else {
      be_idle();
    }
  }
  count_idle(false);
}

Word LiveWorker::help(LiveQueue& live, LongWord awaited) {
  if (must_leave()) return 0;
  if (awaited != LiveKernel::kNoTicket) {
    // The line of the entry is this core's own; the head is a worker's.
    const auto opcode = live.words.peek(awaited);
    if (opcode && executor_.class_of(*opcode) != ItemClass::quick) return 0;
  }
  const std::uint64_t before = tally_.ended();
  {
    const Turn turn(seat_);
    // Closing clears the part before it waits for turns like this one.
    auto* const queue = static_cast<CpuQueue*>(live.kernel_part.load(std::memory_order_acquire));
    if (queue == nullptr) return 0;
    if (take(*queue, true) != Take::items) return 0;
    if (tally_.ended() - before >= kManyItems && !live.is_helped.load(std::memory_order_relaxed)) {
      live.is_helped.store(true, std::memory_order_relaxed);
    }
    // An item may have let others run, and this thread does not stay to run them.
    if (kernel_.doorbell_.is_armed() && has_work(kernel_.roster())) kernel_.doorbell_.ring(1);
  }
  if (context_.is_shut_down()) kernel_.look_again();
  return static_cast<Word>(tally_.ended() - before);
}

// ---- which queue ----

// Takes from one queue, or lets one waiting item go on; says whether anything moved.
bool LiveWorker::step() {
  const Turn turn(seat_);
  const Roster& roster = kernel_.roster();
  is_stuck_ = false;
  const Roster::Levels& levels = lookout_.begin(roster);
  const std::size_t quiet = lookout_.quiet_count();
  look_pauses_ = static_cast<int>((roster.queues.size() - quiet) / kQueuesPerPause +
                                  quiet / kQuietQueuesPerPause);
  return step_in(levels) || (lookout_.look() && step_in(levels));
}

bool LiveWorker::step_in(const Roster::Levels& levels) {
  if (urgent_ >= kStarvation) {
    for (Word level = kFirstPatient; level < abi::kPriorityCount; ++level) {
      if (try_level(levels, level)) return true;
    }
  }
  for (Word level = 0; level < abi::kPriorityCount; ++level) {
    if (try_level(levels, level)) return true;
  }
  return false;
}

bool LiveWorker::try_level(const Roster::Levels& levels, Word level) {
  const auto& tenants = levels[level];
  std::size_t& turn = tenant_turns_[level];
  for (std::size_t i = 0; i < tenants.size(); ++i) {
    if (turn >= tenants.size()) turn = 0;
    const Roster::Tenant& tenant = tenants[turn++];
    std::size_t& queue_turn = queue_turns_[level][tenant.tenant];
    for (std::size_t j = 0; j < tenant.queues.size(); ++j) {
      if (queue_turn >= tenant.queues.size()) queue_turn = 0;
      if (serve(*tenant.queues[queue_turn++])) return true;
    }
  }
  return false;
}

// Fresh entries and waiting items of a queue go first in turn, so that neither starves the other.
bool LiveWorker::serve(CpuQueue& queue) {
  if (queue.is_closing.load(std::memory_order_relaxed)) return false;
  const bool has_waiting = queue.waiting.size() != 0;
  if (!has_waiting) return take(queue, false) != Take::nothing;
  prefers_waiting_ = !prefers_waiting_;
  if (prefers_waiting_) return visit_waiting(queue) || take(queue, false) != Take::nothing;
  return take(queue, false) != Take::nothing || visit_waiting(queue);
}

// ---- taking ----

// Whether an item of the tenant may run now. An unknown tenant's items run to become FAULT.
bool LiveWorker::admit(Word tenant, bool& is_counted) {
  is_counted = false;
  const auto standing = context_.standing_of(tenant);
  if (standing == ItemContext::Standing::unknown) return true;
  return standing == ItemContext::Standing::enabled && context_.take_quota(tenant, is_counted);
}

// The most short items from `first` on to take at one time.
LongWord LiveWorker::most_short(const LiveQueue& live, LongWord first, LongWord room) const {
  const std::uint32_t time = live.short_item_time.load(std::memory_order_relaxed);
  const LongWord wanted =
      std::clamp<Word>(time == 0 ? kOutcomesOfLine : kBatchTime / time, 1, kLargestBatch);
  LongWord most = wanted;
  if (wanted >= kOutcomesOfLine) most -= (first + wanted) % kOutcomesOfLine;
  if (live.priority < kFirstPatient) {
    most = std::min<LongWord>(most, urgent_ < kStarvation ? kStarvation - urgent_ : 1);
  }
  return std::min(most, room);
}

// Whether to leave items to the producer, which runs its items itself when it waits, if they are so
// short that moving them to this core and their lines back would take longer. If it does not come
// back to them in time, workers take them at once from then on, until it helps again.
bool LiveWorker::is_left_to_helper(CpuQueue& queue, LongWord first) {
  LiveQueue& live = *queue.live;
  if (!live.is_helped.load(std::memory_order_relaxed)) return false;
  if (live.short_item_time.load(std::memory_order_relaxed) >= kMoveTime) return false;
  const std::int64_t now = steady_now();
  if (queue.left_head.load(std::memory_order_relaxed) != first) {
    queue.left_since.store(now, std::memory_order_relaxed);
    queue.left_head.store(first, std::memory_order_relaxed);
    return true;
  }
  if (now - queue.left_since.load(std::memory_order_relaxed) < kHelperReturn) return true;
  live.is_helped.store(false, std::memory_order_relaxed);
  return false;
}

// Short items from `first` on that are published one behind the other.
Word LiveWorker::count_short(const CpuQueue& queue, LongWord first, LongWord most) const {
  const protocol::QueueKernel& words = queue.live->words;
  LongWord count = words.count_equal(first, most);
  while (count < most) {
    const auto opcode = words.peek(first + count);
    if (!opcode || executor_.class_of(*opcode) != ItemClass::quick) break;
    count += words.count_equal(first + count, most - count);
  }
  // The entry may have changed since the first look.
  return static_cast<Word>(std::max<LongWord>(count, 1));
}

// Takes the entries at the head: consecutive short items together, any other item alone, so that
// nothing waits behind an item that may take long while another worker is idle.
LiveWorker::Take LiveWorker::take(CpuQueue& queue, bool only_short) {
  LiveQueue& live = *queue.live;
  LongWord first = live.head.load(std::memory_order_acquire);
  const auto opcode = live.words.peek(first);
  if (!opcode) return Take::nothing;
  LongWord end = live.floor.load(std::memory_order_acquire) + queue.capacity;
  if (first >= end) end = live.raise_floor() + queue.capacity;
  end = std::min(end, live.limit.load(std::memory_order_relaxed));
  if (first >= end || !queue.waiting.has_room()) return Take::nothing;
  const ItemClass kind = executor_.class_of(*opcode);
  const bool waits = kind == ItemClass::waits;
  const bool is_short = kind == ItemClass::quick;
  if (only_short && !is_short) return Take::nothing;
  if (is_short && !only_short && is_left_to_helper(queue, first)) {
    interval_ = kLongInterval;
    return Take::nothing;
  }
  bool is_counted = false;
  if (!admit(live.tenant, is_counted)) {
    is_stuck_ = true;
    return Take::nothing;
  }
  Take result = Take::nothing;
  if (!waits || queue.waiting.promise()) {
    const bool has_several = is_short && live.words.peek(first + 1);
    const LongWord most = has_several ? most_short(live, first, end - first) : 1;
    const Word count = most > 1 ? count_short(queue, first, most) : 1;
    seat_.queue.store(&queue, std::memory_order_relaxed);
    lookout_.note_taking(queue);
    if (live.head.compare_exchange_strong(first, first + count, std::memory_order_acq_rel,
                                          std::memory_order_relaxed)) {
      // What is left, or an item that waits for these, may be run by a worker that sleeps. For an
      // entry that came after the look above, its producer rings.
      const bool has_next = (has_several || !is_short) && live.words.peek(first + count);
      if ((has_next || queue.waiting.size() != 0) && kernel_.doorbell_.is_armed()) {
        kernel_.doorbell_.ring(1);
      }
      if (!only_short) choose_interval(is_short, has_next && count == most);
      run_taken(queue, {.first = first, .count = count, .opcode = *opcode, .waits = waits});
      result = Take::items;
    } else {
      if (waits) queue.waiting.release();
      if (!only_short) choose_interval(is_short, false);  // another worker takes these
      result = Take::lost;
    }
  }
  if (is_counted) context_.return_quota(live.tenant);
  return result;
}

void LiveWorker::run_taken(CpuQueue& queue, const Taken& taken) {
  const Word count = taken.count;
  if (count < kTimedBatch || ++batches_ % kTimingInterval != 0) return run_tickets(queue, taken);
  const auto begin = Clock::now();
  run_tickets(queue, taken);
  const auto time = static_cast<std::uint64_t>((Clock::now() - begin).count()) * 16 / count;
  // A batch in which the thread was off its core counts as a long one, not as all that follow.
  auto& mean = queue.live->short_item_time;
  const std::uint64_t old = mean.load(std::memory_order_relaxed);
  const std::uint64_t bounded = std::min<std::uint64_t>(time, 4 * old + kBatchTime / 16);
  mean.store(static_cast<std::uint32_t>(std::max<std::uint64_t>(1, (3 * old + bounded) / 4)),
             std::memory_order_relaxed);
}

void LiveWorker::run_tickets(CpuQueue& queue, const Taken& taken) {
  LiveQueue& live = *queue.live;
  const auto [first, count, opcode, waits] = taken;
  // Read after the claim: items that were published after a change of the buffers see it. It stays
  // for this turn.
  const memory::BufferTableView& buffers = kernel_.roster().buffers;
  ends_nops_ = !live.words.has_results() && executor_.payload() == Executor::kNone &&
               context_.standing_of(live.tenant) == ItemContext::Standing::enabled;
  // Items that end at once. Whoever counts waits for those that are announced.
  is_announced_ = count > 1 || (ends_nops_ && opcode == kNop);
  if (is_announced_) tally_.announce_ends(count);
  std::optional<FloatGuard> floats;  // of a host thread; it costs more than a NOP
  Word next_look = 0;
  for (Word i = 0; i < count;) {
    if (i >= next_look) {
      if (must_cancel(queue, i > 0)) [[unlikely]] {
        if (waits) queue.waiting.release();
        cancel(live, first + i, count - i);
        break;
      }
      next_look = i + kCancelLook;
    }
    if (const Word nops = end_nops(live, first + i, count - i); nops != 0) {
      i += nops;
    } else {
      if (is_helper_ && !floats) floats.emplace();
      run_ticket(queue, first + i, waits, buffers);
      ++i;
    }
  }
  is_announced_ = false;
  urgent_ = live.priority < kFirstPatient ? urgent_ + count : 0;
  finish_counting(live);
  live.notify();
}

// Whether items that were taken and have not begun must not run any more. An item of the same batch
// may have set SHUTDOWN.
bool LiveWorker::must_cancel(const CpuQueue& queue, bool has_begun) const {
  return kernel_.must_cancel_.load(std::memory_order_relaxed) ||
         queue.is_closing.load(std::memory_order_relaxed) || (has_begun && context_.is_shut_down());
}

void LiveWorker::cancel(LiveQueue& live, LongWord first, Word count) {
  for (Word i = 0; i < count; ++i) live.words.end(first + i, OutcomeCode::cancelled, 0, {});
  kernel_.cancelled_.fetch_add(count, std::memory_order_relaxed);
}

// ---- items ----

// Ends NOPs at the front of a batch, up to a ticket that is timed; gives how many.
inline Word LiveWorker::end_nops(const LiveQueue& live, LongWord ticket, Word most) {
  if (!ends_nops_ || !is_announced_ || is_sample(ticket)) return 0;
  const LongWord untimed = std::min<LongWord>(most, next_sample(ticket) - ticket);
  const auto count = static_cast<Word>(untimed == 1 ? live.words.end_nop(ticket)
                                                    : live.words.end_nops(ticket, untimed));
  stretch_.claims += count;
  stretch_.done += count;
  stretch_.nops += count;
  return count;
}

inline void LiveWorker::run_ticket(CpuQueue& queue, LongWord ticket, bool waits,
                                   const memory::BufferTableView& buffers) {
  WaitingItem item;
  if (is_sample(ticket)) [[unlikely]]
    item.taken_at = steady_now();
  item.ticket = ticket;
  item.checked = 0;
  item.needs_io_slot = false;
  item.slot.status = SlotStatus::published;
  has_room_ = waits;
  run_item(queue, item, buffers);
}

// Runs a ticket from its entry, or from its copy if it ran before. It ends, or goes to the table.
void LiveWorker::run_item(CpuQueue& queue, WaitingItem& item,
                          const memory::BufferTableView& buffers) {
  LiveQueue& live = *queue.live;
  if (item.slot.status == SlotStatus::published) {
    if (!live.words.copy_slot(item.ticket, item.slot)) {
      return end_fault(queue, item, static_cast<Word>(FaultCode::bad_entry));
    }
    item.slot.tenant = live.tenant;
    item.slot.priority = live.priority;
  }
  if (context_.standing_of(live.tenant) == ItemContext::Standing::unknown) {
    return end_fault(queue, item, static_cast<Word>(FaultCode::tenant_out_of_range));
  }
  if (is_opcode(item.slot.opcode, Opcode::batch_fence)) return run_fence(queue, item);
  // By the copy: the entry may have changed since the look that took it.
  const bool is_marked = executor_.class_of(item.slot.opcode) != ItemClass::quick;
  const Word* const abort =
      is_marked ? seat_.mark.begin(live, item.ticket, item.slot.opcode, begin_of_run(live))
                : &live.abort;
  const ItemRunner::End end =
      runner_.run(item.slot, live.words.place_of(item.ticket), buffers, abort);
  if (is_marked) seat_.mark.end();
  item.needs_io_slot = end.needs_io_slot;
  // Without a free IO slot the item is put back, which does not count as a claim.
  if (!end.needs_io_slot) ++stretch_.claims;
  switch (end.outcome.ending) {
    case Ending::done:
      return end_done(queue, item);
    case Ending::yield:
      return wait_with(queue, item, SlotStatus::yield);
    case Ending::requeue:
      return wait_with(queue, item, SlotStatus::requeue);
    case Ending::wait_io:
      return wait_with(queue, item, SlotStatus::wait_io);
    case Ending::fault:
      break;
  }
  end_fault(queue, item, end.outcome.fault_code);
}

// When the item that is about to run begins. Reading the clock takes longer than a short item, so
// that the time of the look that found the item counts, unless the queue has a timeout: the thread
// may have lost its core since.
std::int64_t LiveWorker::begin_of_run(const LiveQueue& live) const {
  const bool is_exact = looked_at_ == 0 || live.item_timeout.count() != 0;
  return is_exact ? steady_now() : looked_at_;
}

// The opcode in the entry may have changed between the look and the copy: then there is no room for
// the item, and it is FAULT.
void LiveWorker::wait_with(CpuQueue& queue, WaitingItem& item, SlotStatus status) {
  if (!has_room_) return end_fault(queue, item, static_cast<Word>(FaultCode::bad_entry));
  item.slot.status = status;
  queue.waiting.push(item);
}

void LiveWorker::end_done(CpuQueue& queue, const WaitingItem& item) {
  if (!is_announced_) tally_.announce_ends(1);
  if (is_sample(item.ticket)) [[unlikely]]
    queue.live->sample_end(item.ticket, item.taken_at);
  const Word* const args = item.slot.args + abi::kFirstResultArg;
  queue.live->words.end(item.ticket, OutcomeCode::done, 0, {args[0], args[1], args[2]});
  ++stretch_.done;
  runner_.count_execution(item.slot.opcode);
  if (has_room_) queue.waiting.release();
}

void LiveWorker::end_fault(CpuQueue& queue, const WaitingItem& item, Word code) {
  if (!is_announced_) tally_.announce_ends(1);
  if (is_sample(item.ticket)) [[unlikely]]
    queue.live->sample_end(item.ticket, item.taken_at);
  queue.live->words.end(item.ticket, OutcomeCode::fault, code, {});
  ++stretch_.faulted;
  if (has_room_) queue.waiting.release();
}

// ---- items that wait ----

// Lets the item that waits longest go on; says whether it did.
bool LiveWorker::visit_waiting(CpuQueue& queue) {
  LiveQueue& live = *queue.live;
  bool is_counted = false;
  if (!admit(live.tenant, is_counted)) {
    is_stuck_ = true;
    return false;
  }
  bool has_moved = false;
  WaitingItem item;
  seat_.queue.store(&queue, std::memory_order_relaxed);
  for (std::size_t looks = queue.waiting.size(); looks > 0 && !has_moved; --looks) {
    if (!queue.waiting.pop(item)) break;
    has_room_ = true;
    if (is_ready(queue, item)) {
      has_moved = true;
      run_item(queue, item, kernel_.roster().buffers);
    } else if (item.slot.status == SlotStatus::wait_io && end_io_wait(queue, item)) {
      has_moved = true;
    } else {
      queue.waiting.push(item);
    }
  }
  if (is_counted) context_.return_quota(live.tenant);
  if (!has_moved) is_stuck_ = true;
  finish_counting(live);
  if (has_moved) {
    urgent_ = live.priority < kFirstPatient ? urgent_ + 1 : 0;
    live.notify();
  }
  return has_moved;
}

// Whether a waiting item can run.
bool LiveWorker::is_ready(CpuQueue& queue, WaitingItem& item) {
  if (item.slot.status == SlotStatus::published) return true;
  if (item.slot.status == SlotStatus::wait_io) return false;
  if (item.needs_io_slot) return context_.has_free_io_slot();
  return !is_opcode(item.slot.opcode, Opcode::batch_fence) || is_fence_ready(*queue.live, item);
}

// Ends an item's wait for IO if its request is complete: a LOAD_MISS and an item whose request
// failed have ended then, any other runs again later.
bool LiveWorker::end_io_wait(CpuQueue& queue, WaitingItem& item) {
  const Word io_slot = item.slot.args[abi::kIoSlotArg];
  const IoStatus answer = context_.io_status(io_slot);
  if (!abi::is_complete(answer)) return false;
  if (std::size_t{io_slot} * abi::kIoSlotWords >= context_.io_words.size()) {
    end_fault(queue, item, static_cast<Word>(FaultCode::index_out_of_range));
    return true;
  }
  static_cast<void>(context_.io.release(io_slot));
  if (answer == IoStatus::error) {
    end_fault(queue, item, static_cast<Word>(FaultCode::io_error));
  } else if (is_opcode(item.slot.opcode, Opcode::load_miss) &&
             executor_.payload() == Executor::kNone) {
    end_done(queue, item);
  } else {
    wait_with(queue, item, SlotStatus::requeue);
  }
  return true;
}

void LiveWorker::run_fence(CpuQueue& queue, WaitingItem& item) {
  const LiveQueue& live = *queue.live;
  if (item.slot.args[0] > item.ticket - live.words.first_ticket()) {
    ++stretch_.claims;
    return end_fault(queue, item, static_cast<Word>(FaultCode::bad_fence));
  }
  if (!is_fence_ready(live, item)) return wait_with(queue, item, SlotStatus::yield);
  ++stretch_.claims;
  if (context_.control.size() > abi::kControlFirstObservable) {
    context_.control.store_relaxed(abi::kControlFirstObservable, item.slot.args[1]);
  }
  // Every outcome was read with acquire: a host that acquires EPOCH sees the words that the batch
  // wrote.
  context_.control.add_release(abi::kControlEpoch.first, 1);
  end_done(queue, item);
}

bool LiveWorker::is_fence_ready(const LiveQueue& live, WaitingItem& item) {
  const LongWord reach = std::min<LongWord>(item.slot.args[0], LongWord{live.words.capacity()} - 1);
  LongWord ticket = std::max(item.checked, item.ticket - reach);
  while (ticket < item.ticket && live.has_ended(ticket)) ++ticket;
  item.checked = ticket;
  return ticket == item.ticket;
}

// ---- idle workers ----

// Every look takes the cache line of an entry away from the producer that is about to write it, and
// every item that runs here moves its line to this core and back. For an item of a few nanoseconds
// that is most of its cost, and a host thread that waits for the item runs it on its own core
// (help()). So while few short items are published, the worker looks less and less often, until a
// long row of them is published and the producer writes entries far from those that are read. All
// workers that only look together do so as often as one of them would alone.
void LiveWorker::choose_interval(bool is_short, bool is_long_row) {
  if (!is_short) {
    interval_ = kShortestInterval;
  } else if (is_long_row) {
    interval_ = std::max(interval_ / 2, kShortInterval);
  } else {
    interval_ = std::min(2 * interval_, kLongInterval);
  }
}

void LiveWorker::wait_a_while(int pauses) {
  for (int i = 0; i < pauses; ++i) spin_pause();
}

void LiveWorker::count_idle(bool is_idle) {
  if (is_idle == is_counted_idle_) return;
  is_counted_idle_ = is_idle;
  kernel_.idle_workers_.fetch_add(is_idle ? 1 : ~Word{0}, std::memory_order_relaxed);
}

void LiveWorker::be_idle() {
  if (++empty_polls_ % kPollsPerInterval == 0 && interval_ > kShortInterval) {
    interval_ = std::max(interval_ / 2, kShortInterval);
  }
  if (empty_polls_ >= kPollsBeforeIdle) count_idle(true);
  const Word idle = std::max<Word>(1, kernel_.idle_workers_.load(std::memory_order_relaxed));
  const int pauses = interval_ * static_cast<int>(idle);
  idle_pauses_ += pauses + look_pauses_;
  if (idle_pauses_ < pauses_before_yield_) {
    wait_a_while(pauses - 1);
    looked_at_ = steady_now();  // takes as long as a pause
  } else if (idle_pauses_ < pauses_before_yield_ + kPausesBeforeSleep) {
    std::this_thread::yield();
  } else {
    count_idle(false);
    rest();
    idle_pauses_ = 0;
    empty_polls_ = 0;
  }
}

// Whether a queue has items that wait. Another worker may just be looking at one of them, so that
// rooms count, and not what lies in the table.
bool LiveWorker::has_waiting(const Roster& roster) {
  return std::ranges::any_of(roster.queues,
                             [](const auto& queue) { return queue->waiting.is_used(); });
}

// Whether an entry is there that a worker could take now.
bool LiveWorker::has_work(const Roster& roster) const {
  return std::ranges::any_of(roster.queues, [this](const auto& queue) {
    return !queue->is_closing.load(std::memory_order_relaxed) && is_takeable(*queue->live);
  });
}

bool LiveWorker::is_takeable(const LiveQueue& live) const {
  const LongWord next = live.head.load(std::memory_order_acquire);
  if (next >= live.limit.load(std::memory_order_relaxed) || !live.words.peek(next)) return false;
  const auto standing = context_.standing_of(live.tenant);
  if (standing == ItemContext::Standing::disabled) return false;
  const Word quota = context_.quota_of(live.tenant);
  return quota >= context_.worker_count ||
         context_.in_flight[live.tenant].load(std::memory_order_relaxed) < quota;
}

void LiveWorker::rest() {
  flush();
  if (kernel_.has_retired_.load(std::memory_order_relaxed)) kernel_.free_retired();
  seat_.sleeps.store(seat_.sleeps.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  Doorbell& doorbell = kernel_.doorbell_;
  doorbell.arm();
  const std::uint32_t requests = kernel_.look_requests_.load(std::memory_order_acquire);
  bool has_found = requests != seen_requests_ || must_leave() ||
                   kernel_.must_step_aside_.load(std::memory_order_seq_cst);
  seen_requests_ = requests;
  bool must_nap = is_stuck_;
  if (!has_found) {
    const Turn turn(seat_);
    has_found = has_work(kernel_.roster());
    must_nap |= has_waiting(kernel_.roster());
  }
  if (!has_found) {
    sleep(must_nap ? std::chrono::nanoseconds(nap_) : std::chrono::nanoseconds(kLongSleep));
    nap_ = std::min(2 * nap_, kLongestNap);
  }
  doorbell.disarm();
}

// Sleeps until the bell rings or the time is over. A client in another process that rings for
// nothing does not wake the worker up: it would look at every queue for a while.
void LiveWorker::sleep(std::chrono::nanoseconds time) {
  Doorbell& doorbell = kernel_.doorbell_;
  const auto end = Clock::now() + time;
  bool has_work = false;
  do {
    const auto ringer = doorbell.wait(end - Clock::now());
    if (ringer == nullptr) return;
    has_work = is_takeable(*ringer);
    doorbell.answer(*ringer, has_work);
  } while (!has_work && !must_leave() && Clock::now() < end);
}

// ---- counting ----

void LiveWorker::finish_counting(const LiveQueue& live) {
  tally_.count_batch(live.tenant, live.priority, stretch_);
  stretch_ = {};
}

void LiveWorker::flush() {
  flushed_at_ = tally_.ended();
  if (!kernel_.flush_lock_.try_lock()) return;  // the next flush adds these counts
  tally_.flush(context_.control);
  kernel_.flush_lock_.unlock();
}

}  // namespace everkernel::backend::cpu
