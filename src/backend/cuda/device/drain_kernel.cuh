// The drain kernel: crews take the slots of rings in the order of the schedule, visit them, and
// visit those again that have not ended, until no slot can run. backend/cpu/drain.cpp is the same
// protocol on a CPU.
//
// Fresh slots are handed out by a counter; slots that do not end at their first visit go to a queue
// (requeue.cuh).
#pragma once

#include "backend/cuda/device/counters.cuh"
#include "backend/cuda/device/crew.cuh"
#include "backend/cuda/device/drain_report.cuh"
#include "backend/cuda/device/handlers.cuh"
#include "backend/cuda/device/requeue.cuh"
#include "backend/cuda/device/schedule.cuh"
#include "backend/cuda/device/submission.cuh"
#include "backend/cuda/device/visitor.cuh"
#include "backend/cuda/device/visits.cuh"
#include "backend/cuda/launch_rows.hpp"
#include "everkernel/abi/control.hpp"
#include "everkernel/abi/slot.hpp"
#include "jit/device/lanes.cuh"
#include "jit/device/types.hpp"
#include "jit/device/values.cuh"
#include "jit/device/words.cuh"

namespace everkernel::device {

/// The work of one crew on one submission.
///
/// A slot moves when a visit ends or defers it. The progress word counts the crews that work, the
/// times a crew began to work, and the times a crew moved slots. A crew that finds nothing to do
/// leaves. The last crew stays: it visits all slots of the queue once more, and if no slot moved
/// and no other crew entered meanwhile, it ends the drain. Every queued slot was then visited after
/// the last move, so that none can run. If the queue is long, that last pass would take one crew
/// too long: the drain ends unsettled, and the host launches another drain over the queue, until a
/// launch moves no slot.
class Drain {
 public:
  EK_DEVICE Drain(const LaunchParams& params, const Submission& row, Word crew_index)
      : params_(params),
        submission_{params.context, row},
        crew_index_(crew_index),
        progress_(&row.shared->progress) {
    crew_.slots = params.slots_per_crew;
  }

  EK_DEVICE void run() {
    if (!enter(kSchedule == Schedule::direct)) return;
    const bool is_sound = prepare();
    if (!is_sound) leave_for_good();
    // visit() is inlined with all handlers: it has one call.
    while (is_sound && (next_slots() || next_pass())) {
      if (count_ == 0) continue;
      Visitor visitor;
      choose_slot(visitor);
      visit(submission_, crew_, visitor, is_first_look());
      account_for(visitor);
    }
    if (has_ended_ && crew_.lane < kWarpLanes)
      report(submission_, submission_.abort(), {is_settled_, is_refused_, must_stop_});
  }

 private:
  // The progress word has, from its lowest bit: the crews that work, the mark of the end, the times
  // a crew began to work, the times a crew moved slots. The last count is on top because items that
  // yield for long make it overflow, which then changes no other field.
  static constexpr Wide kWorking = 1;
  static constexpr Wide kWorkingMask = (Wide{1} << 20) - 1;
  static constexpr Wide kEnded = Wide{1} << 20;
  static constexpr Wide kEntered = Wide{1} << 21;
  static constexpr Wide kMoved = Wide{1} << 40;
  static constexpr Wide kMovedMask = ~(kMoved - 1);
  static_assert(kMovedMask + kMoved == 0 && kWorkingMask < kEnded && kEnded < kEntered);
  // A queue of up to this many slots is visited by the last crew alone.
  static constexpr Wide kShortQueue = 1024;
  // Slots of one priority's queue that are visited before a lower priority gets its turn.
  static constexpr Wide kQueueLooks = 64;
  // Urgent claims in a row after which a scan begins with normal priority.
  static constexpr Word kStarvationLimit = 16;
  // Scans by priority between two reads of the lengths of the queues.
  static constexpr Word kScansPerLook = 8;

  /// The slots that a crew visits in a pass: fresh slots (and queued ones in the priority
  /// schedule), its share of the queue, or as the last crew the whole queue.
  enum class Pass : Word { fresh, queue, closing };

  EK_DEVICE bool is_list() const { return submission_.row.list != nullptr; }
  EK_DEVICE bool is_first_look() const { return !from_queue_ && !is_list(); }

  // ---- entering and leaving ----

  /// The progress word and the length of the queue, read together.
  struct Look {
    Wide progress;
    Wide length;
    EK_DEVICE Wide working() const { return progress & kWorkingMask; }
  };
  EK_DEVICE Look look() const {
    Look now{};
    if (crew_.leads()) {
      now.progress = progress_.load_acquire();
      now.length = queue_length(submission_.row);
    }
    return {crew_.from_leader(now.progress), crew_.from_leader(now.length)};
  }
  /// Begins to work; returns false if the drain has ended. With `takes`, which is for the first
  /// entry, the first slots are taken at the same time: both atomics are issued together, in no
  /// order. Slots may therefore be taken by a crew that is not yet in the progress word; such a
  /// crew has not added them to `taken`, and until then are_all_slots_counted() keeps the drain
  /// from ending.
  EK_DEVICE bool enter(bool takes = false) {
    Wide before = 0;
    Taken taken{};
    if (crew_.leads()) {
      before = progress_.fetch_add_relaxed(kWorking + kEntered);
      if (takes) taken = take_positions(0);
    }
    before = crew_.from_leader(before);
    seen_ = before & kMovedMask;
    begin(Pass::fresh);
    if (takes) {
      share_fresh(0, taken);
      has_taken_ = true;
    }
    return (before & kEnded) == 0;
  }
  /// Whether `taken` counts all fresh slots. Called by a crew that found no fresh slot, after it
  /// has seen that no other crew works.
  EK_DEVICE bool are_all_slots_counted() const {
    if (kSchedule != Schedule::direct) return true;  // slots are taken after the entry only
    const Wide begin = is_list() ? submission_.row.list_begin[0] : 0;
    const Word taken = one_word(&submission_.row.shared->taken).load_relaxed(0);
    return taken == static_cast<Word>(fresh_end(0) - begin);
  }
  /// Tells waiting crews that slots moved.
  EK_DEVICE void note_progress() {
    Wide before = 0;
    if (crew_.leads()) before = progress_.fetch_add_acq_rel(kMoved);
    before = crew_.from_leader(before);
    seen_ = (before + kMoved) & kMovedMask;
  }
  /// Stops working and waits for work; returns whether there is some.
  EK_DEVICE bool leave() {
    Wide before = 0;
    bool has_ended = false;
    if (crew_.leads()) {
      before = progress_.fetch_add_acq_rel(0 - kWorking);
      const Wide after = before - kWorking;
      // If no crew works and the queue is empty, it stays empty until a crew enters and changes the
      // progress word.
      const bool is_over = (before & kWorkingMask) == 1 && queue_length(submission_.row) == 0 &&
                           are_all_slots_counted();
      has_ended = is_over && progress_.exchange_if(after, after | kEnded);
    }
    if (crew_.any(has_ended)) {
      is_settled_ = true;
      has_ended_ = true;
      return false;
    }
    // The last crew enters again: it has to end the drain.
    const bool is_last = (crew_.from_leader(before) & kWorkingMask) == 1;
    return (is_last || wait_for_progress()) && enter();
  }
  /// Stops working because the drain must stop; the last crew ends it.
  EK_DEVICE void leave_for_good() {
    must_stop_ = true;
    bool has_ended = false;
    if (crew_.leads()) {
      const Wide after = progress_.fetch_add_acq_rel(0 - kWorking) - kWorking;
      const bool is_last = (after & (kWorkingMask | kEnded)) == 0;
      has_ended = is_last && progress_.exchange_if(after, after | kEnded);
    }
    is_settled_ = false;
    has_ended_ = crew_.any(has_ended);
  }
  /// Waits until a slot moves; returns false if this crew has nothing to wait for.
  EK_DEVICE bool wait_for_progress() const {
    for (Word pause = 500;; pause = pause < 16000 ? pause * 2 : pause) {
      const Look now = look();
      // The queue is too short for this many crews: the last ones leave.
      if (Wide{crew_index_} * crew_.slots >= now.length) return false;
      bool stops = false;
      if (crew_.leads()) stops = submission_.must_stop();
      if ((now.progress & kEnded) != 0 || crew_.any(stops)) return false;
      if ((now.progress & kMovedMask) != seen_) return true;
      sleep(pause);
    }
  }

  // ---- passes ----

  EK_DEVICE void begin(Pass pass) {
    pass_ = pass;
    scan_ = 0;
    is_scanning_queue_ = false;
    has_moved_ = false;
  }
  /// Begins the pass that follows the current one; returns whether there is one.
  EK_DEVICE bool next_pass() {
    count_ = 0;
    flush();  // before other crews learn that slots moved
    if (must_stop_) {
      leave_for_good();
      return false;
    }
    const bool has_moved = has_moved_;
    const Look now = look();
    // Waiting crews wait for queued slots: if there is none, the progress word stays.
    if (has_moved && now.length != 0) note_progress();
    if (pass_ == Pass::fresh && now.length != 0) {
      begin(Pass::queue);
      sharers_ = now.working() != 0 ? static_cast<Word>(now.working()) : 1;
      return true;
    }
    if (pass_ != Pass::fresh && has_moved) {
      begin(Pass::fresh);
      return true;
    }
    if (pass_ == Pass::closing) return !close();
    if (now.working() != 1) return leave();
    before_closing_ = now.progress;
    is_settled_ = now.length <= kShortQueue;
    if (now.length == 0) return !close();
    begin(Pass::closing);
    return true;
  }
  /// Ends the drain, unless another crew has entered since this crew found itself alone. Called if
  /// no slot moved since then.
  EK_DEVICE bool close() {
    bool has_ended = false;
    if (crew_.leads()) {
      if (!are_all_slots_counted()) {
        sleep(100);
      } else {
        has_ended = progress_.exchange_if(before_closing_, before_closing_ | kEnded);
      }
    }
    begin(Pass::fresh);
    has_ended_ = crew_.any(has_ended);
    return has_ended_;
  }

  /// Takes the next slots of the pass for the crew; returns whether there are any.
  EK_DEVICE bool next_slots() {
    if (has_taken_) {
      has_taken_ = false;
      return count_ != 0;
    }
    if (pass_ != Pass::fresh) return next_of_queue();
    return kByPriority ? next_by_priority() : take_fresh(0);
  }
  EK_DEVICE bool next_of_queue() {
    for (; scan_ < kPartitions; ++scan_, is_scanning_queue_ = false) {
      if (!is_scanning_queue_) {
        is_scanning_queue_ = true;
        looks_ = looks_at(scan_);
      }
      if (looks_ != 0 && take_queued(scan_)) return true;
    }
    return false;
  }
  /// How many slots of a partition's queue this crew visits in a pass: its share of the queue, so
  /// that all crews together visit each slot once, or in the closing pass all of them. A slot that
  /// stays goes to the end of the same queue, so the number must be fixed when the pass begins.
  EK_DEVICE Wide looks_at(Word partition) const {
    Wide length = 0;
    if (crew_.leads()) length = Queue{submission_.row, partition}.size();
    length = crew_.from_leader(length);
    if (pass_ == Pass::closing) return is_settled_ ? length : 0;
    const Wide share = length / sharers_ + crew_.slots;
    return share < length ? share : length;
  }
  /// Takes slots of the highest priority that has any, fresh ones before queued ones. After
  /// kStarvationLimit urgent claims the scan begins with normal priority.
  EK_DEVICE bool next_by_priority() {
    if (scan_ == 0 && !is_scanning_queue_) look_at_queues();
    for (; scan_ < abi::kPriorityCount; ++scan_, is_scanning_queue_ = false) {
      const Word first = starvation_ >= kStarvationLimit ? 2 : 0;
      const Word partition = (first + scan_) % abi::kPriorityCount;
      if (!is_scanning_queue_) {
        if (take_fresh(partition)) return true;
        is_scanning_queue_ = true;
        looks_ = 0;
        if ((has_queue_ >> partition & 1) != 0) {
          Wide length = 0;
          if (crew_.leads()) length = Queue{submission_.row, partition}.size();
          length = crew_.from_leader(length);
          looks_ = length < kQueueLooks ? length : kQueueLooks;
        }
      }
      if (looks_ != 0 && take_queued(partition)) return true;
    }
    return false;
  }
  /// Updates has_queue_. The crew knows of the slots that it queued itself; it reads the lengths
  /// only every kScansPerLook scans for the slots that other crews queued.
  EK_DEVICE void look_at_queues() {
    scans_ = opaque(scans_ + 1);
    if (has_queue_ == 0 && scans_ % kScansPerLook != 0) return;
    Word has_queue = 0;
    if (crew_.leads()) {
#pragma unroll
      for (Word i = 0; i < abi::kPriorityCount; ++i) {
        if (Queue{submission_.row, i}.size() != 0) has_queue |= 1u << i;
      }
    }
    has_queue_ = static_cast<Word>(crew_.from_leader(has_queue));
  }

  EK_DEVICE bool take_fresh(Word partition) {
    if ((exhausted_ >> partition & 1) != 0) {
      count_ = 0;
      return false;
    }
    Taken taken{};
    if (crew_.leads()) taken = take_positions(partition);
    share_fresh(partition, taken);
    return count_ != 0;
  }
  /// Positions that the leader took: the first, how many there are from there on, and whether the
  /// drain must stop.
  struct Taken {
    Wide first, left;
    bool stops;
  };
  EK_DEVICE Taken take_positions(Word partition) const {
    const Word shutdown = submission_.control().load_relaxed(abi::kControlShutdown.first);
    const Word abort = submission_.abort().load_relaxed(0);
    const Wide end = fresh_end(partition);
    Wide first = WideWord(submission_.row.shared->fresh + partition).fetch_add_relaxed(crew_.slots);
    if (is_list()) first += submission_.row.list_begin[partition];
    return {first, first < end ? end - first : 0, (shutdown | abort) != 0};
  }
  EK_DEVICE void share_fresh(Word partition, const Taken& taken) {
    if (kSchedule == Schedule::direct) {  // on the leader; also if the drain must stop
      tally_.taken += static_cast<Word>(taken.left < crew_.slots ? taken.left : crew_.slots);
    }
    const bool is_all = take(partition, taken.first, taken.left, taken.stops, false);
    if (is_all) exhausted_ |= 1u << partition;
  }
  EK_DEVICE bool take_queued(Word partition) {
    Wide first = 0;
    Word count = 0;
    bool stops = false;
    if (crew_.leads()) {
      stops = submission_.must_stop();
      const Word most = looks_ < crew_.slots ? static_cast<Word>(looks_) : crew_.slots;
      if (!stops) count = Queue{submission_.row, partition}.reserve(most, first);
    }
    take(partition, first, count, stops, true);
    looks_ -= count_;
    return count_ != 0;
  }
  /// Makes these positions, up to one a lane, the next slots of the crew. Returns whether they are
  /// all that are left.
  EK_DEVICE bool take(Word partition, Wide first, Wide left, bool stops, bool from_queue) {
    const bool is_all = left <= crew_.slots;
    const Wide count = stops ? 0 : is_all ? left : crew_.slots;
    const Wide packed = crew_.from_leader(first << 16 | count << 2 | Wide{is_all} << 1 | stops);
    first_ = packed >> 16;
    count_ = static_cast<Word>(packed >> 2 & 0x3FFF);
    must_stop_ = (packed & 1) != 0;
    partition_ = partition;
    from_queue_ = from_queue;
    return (packed & 2) != 0;
  }

  // ---- visits ----

  /// Chooses the slot that this lane visits, if there is one for it.
  EK_DEVICE void choose_slot(Visitor& visitor) const {
    visitor.partition = partition_;
    if (crew_.lane >= count_) return;
    if (from_queue_) {
      Queue{submission_.row, partition_}.take(first_ + crew_.lane, visitor.slot, visitor.note);
      return;
    }
    visitor.slot = slot_at(first_ + crew_.lane);
    if (is_list()) visitor.note = one_word(submission_.row.notes + visitor.slot).load_relaxed(0);
  }
  EK_DEVICE Word slot_at(Wide position) const {
    if (is_list()) {
      const Wide first = Wide{partition_} * (Wide{submission_.row.cell_mask} + 1);
      return static_cast<Word>(
          WideWord(submission_.row.list + first + (position & submission_.row.cell_mask))
              .load_relaxed());
    }
    if (!kByTicket) return static_cast<Word>(position);
    return (first_ticket_ + static_cast<Word>(position)) % submission_.row.slot_count;
  }
  /// Counts the visits, and queues the slots that have not ended.
  EK_DEVICE void account_for(const Visitor& visitor) {
    const Word priority = kByPriority ? partition_ : abi::priority_of(visitor.priority_word);
    count(submission_, visitor, priority, tally_);
    const bool stays = visitor.visit == Visit::stuck || visitor.visit == Visit::deferred;
    const bool is_longer =
        Queue{submission_.row, partition_}.push(stays, visitor.slot, visitor.note);
    if (kByPriority) {
      // All warps of the crew must agree on has_queue_: it decides which slots they take.
      if (crew_.any(is_longer)) has_queue_ |= 1u << partition_;
      count_starvation(visitor);
    }
    if (!crew_.any(visitor.visit == Visit::ended || visitor.visit == Visit::deferred)) return;
    has_moved_ = true;
    if (pass_ == Pass::fresh) {  // the next scan begins with the highest priority
      scan_ = 0;
      is_scanning_queue_ = false;
    }
  }
  EK_DEVICE void count_starvation(const Visitor& visitor) {
    Word claims = 0;
    if constexpr (kHasGroupHandlers) {
      claims = static_cast<Word>(__syncthreads_count(visitor.has_claimed));
    } else {
      claims = static_cast<Word>(__popc(__ballot_sync(kAllLanes, visitor.has_claimed)));
    }
    if (claims == 0) return;
    const bool is_urgent = partition_ <= static_cast<Word>(abi::Priority::high);
    starvation_ = is_urgent ? starvation_ + claims : 0;
    if (crew_.leads())
      submission_.control().store_relaxed(abi::kControlStarvation.first, starvation_);
  }

  // ---- the range of fresh slots ----

  EK_DEVICE Wide fresh_end(Word partition) const {
    if (is_list()) return submission_.row.list_end[partition];
    if (kSchedule == Schedule::direct) return submission_.row.slot_count;
    return WideWord(submission_.row.shared->fresh_end + partition).load_relaxed();
  }

  /// Finds the range of fresh slots; returns whether the control words are valid. Items may change
  /// control words, so that the first crew of a launch reads the ranges for all crews and all
  /// submissions before any item runs. If the words of one submission are not valid, nothing runs.
  EK_DEVICE bool prepare() {
    if (kSchedule == Schedule::direct || is_list()) return true;
    const bool is_one = params_.rows == nullptr;
    Shared* const gate = params_.first.shared;
    const Words setup = one_word(&gate->setup);
    bool is_mine = false;
    if (crew_.leads()) is_mine = setup.claim(0, 0, 1);
    if (crew_.from_leader(is_mine) != 0) {
      bool is_sound = true;
      const Word lanes = kHasGroupHandlers ? blockDim.x : kWarpLanes;
      for (Word i = crew_.lane; i < params_.submission_count; i += lanes) {
        if (!read_setup(is_one ? params_.first : load_row(params_.rows + i))) is_sound = false;
      }
      is_sound = !crew_.any(!is_sound);
      __syncwarp();  // stores of all lanes come before the release of the leader
      if (crew_.leads()) setup.store_release(0, is_sound ? 2 : 3);
      __syncwarp();
    }
    Word state = 0;
    Word starts = 0;
    if (crew_.leads()) {
      for (state = setup.load_acquire(0); state < 2; state = setup.load_acquire(0)) sleep(200);
      starts = kByPriority ? submission_.control().load_relaxed(abi::kControlStarvation.first)
                           : one_word(&submission_.row.shared->first_ticket).load_relaxed(0);
    }
    const Wide packed = crew_.from_leader(Wide{state} << 32 | starts);
    (kByPriority ? starvation_ : first_ticket_) = static_cast<Word>(packed);
    is_refused_ = packed >> 32 == 3;
    return !is_refused_;
  }

  // ---- counting ----

  EK_DEVICE void flush() {
    add_counts(submission_, tally_);
    tally_ = {};
    (void)crew_.any(false);  // a barrier: all warps of the crew have added
  }

  const LaunchParams& params_;
  LaunchedSubmission submission_;
  Word crew_index_;
  WideWord progress_;
  Crew crew_;
  Tally tally_;
  Wide seen_ = 0;  // the count of moves when this crew last read the progress word
  Pass pass_ = Pass::fresh;
  Word scan_ = 0;  // partitions that this pass has finished
  bool is_scanning_queue_ = false;
  Word scans_ = 0;
  Word has_queue_ = 0;  // partitions whose queue may hold slots, one bit each
  Word exhausted_ = 0;  // partitions without fresh slots, one bit each
  Wide looks_ = 0;      // queued slots of the partition still to visit in this pass
  Word sharers_ = 1;    // crews that share the queues in this pass
  bool has_moved_ = false;
  Wide before_closing_ = 0;
  bool has_ended_ = false;   // this crew ended the drain
  bool is_settled_ = false;  // and no slot can run any more
  bool is_refused_ = false;
  bool must_stop_ = false;
  Word starvation_ = 0;
  Word first_ticket_ = 0;
  Word count_ = 0;           // the slots to visit next: their number,
  Wide first_ = 0;           // the position of the first,
  Word partition_ = 0;       // their partition,
  bool from_queue_ = false;  // whether they are queued or fresh,
  bool has_taken_ = false;   // and whether enter() has taken them already
};

/// Drains every submission: each crew begins with a different one and then helps with the others.
extern "C" __global__ void __launch_bounds__(EVERKERNEL_BLOCK_THREADS, EVERKERNEL_BLOCKS_PER_SM)
    everkernel_drain(const __grid_constant__ LaunchParams params) {
  const Word warp = threadIdx.x / kWarpLanes;
  const Word crew = crew_index();
  __shared__ Submission rows[EVERKERNEL_BLOCK_THREADS / kWarpLanes];
  Submission& row = rows[kHasGroupHandlers ? 0 : warp];
  const Word count = params.submission_count;
  // The last block may have more warps than there are crews.
  if (!kHasGroupHandlers && Wide{crew} * params.slots_per_crew >= params.context.worker_count)
    return;
#pragma unroll 1
  for (Word i = 0; i < count; ++i) {
    if (kHasGroupHandlers) __syncthreads();
    __syncwarp();
    if (kHasGroupHandlers ? threadIdx.x == 0 : lane_index() == 0) {
      row = params.rows == nullptr ? params.first : load_row(params.rows + (crew + i) % count);
    }
    if (kHasGroupHandlers) __syncthreads();
    __syncwarp();
    Drain(params, row, crew / count).run();
  }
}

}  // namespace everkernel::device
