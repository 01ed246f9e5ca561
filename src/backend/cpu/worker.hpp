// One worker at one slot: check, claim, run, store the result. drain.cpp decides which slot is next
// in a bounded dispatch, live_kernel.cpp in a session.
#pragma once

#include "backend/cpu/item_runner.hpp"

namespace everkernel::backend::cpu {

/// The slots of one ring, and what its items share.
struct RingState : ItemContext {
  protocol::LiveWords slots;  ///< work slots
  Word slot_count = 0;        ///< slots of the ring

  /// Checks the buffers. Fails as their writers do.
  static Result<void> check(std::span<std::byte> control, std::span<std::byte> slots,
                            std::span<std::byte> debug_log, std::span<std::byte> io_queue);
  /// Binds buffers that passed check().
  RingState(std::span<std::byte> control_bytes, std::span<std::byte> slot_bytes,
            std::span<std::byte> log_bytes, std::span<std::byte> io_bytes);

  /// Status of a slot (acquire): stores of its last owner are visible afterwards.
  abi::SlotStatus status(Word slot) const {
    return abi::SlotStatus{slots.load_acquire(std::size_t{slot} * abi::kSlotWords)};
  }
  /// Stores the status (release): earlier stores of this worker are visible with it.
  void set_status(Word slot, abi::SlotStatus status) {
    slots.store_release(std::size_t{slot} * abi::kSlotWords, static_cast<Word>(status));
  }
  /// Whether running items must end as FAULT (deadline).
  bool is_aborted() const;
};

/// A slot to visit again, and the results of earlier visits.
struct Deferred {
  Word slot = 0;               ///< which
  Word checked = 0;            ///< of a fence: slots before it that are known to have ended
  bool needs_io_slot = false;  ///< it asked for IO when no IO slot was free
  Word partition = 0;          ///< of the priority schedule
};

/// Result of a visit to a slot.
enum class Visit {
  passed,    ///< the slot holds no active item
  ended,     ///< the item reached DONE or FAULT
  deferred,  ///< the item ran and wants to run again
  stuck,     ///< the item cannot run now
};

/// Visits slots of one ring on one thread.
class Worker {
 public:
  /// Counts into `tally`.
  Worker(RingState& ring, Tally& tally);

  /// Visits a slot and runs its item if it can run. `memory` names the slot and is updated.
  /// `priority` is the partition it lies in, or kOwnPriority.
  Visit visit(Deferred& memory, Word priority);

  /// Runs a slot whose status was `found` and which belongs to this worker alone.
  Visit run_claimed(Deferred& memory, abi::SlotStatus found, Word priority);

  /// Ends a slot that this worker has claimed if it holds a NOP of an enabled tenant without a
  /// counted quota; says whether it did. The same as run_claimed(), but inlined and without loading
  /// the arguments.
  bool end_nop(Word slot) {
    if (ring_.executor->payload() != Executor::kNone) return false;
    abi::Slot head;
    ring_.slots.load_slot_head(slot, head);
    if (head.opcode != 0 || ring_.standing_of(head.tenant) != Standing::enabled) return false;
    if (ring_.quota_of(head.tenant) < ring_.worker_count) return false;
    count_claim(head.tenant, abi::priority_of(head.priority));
    end_done(slot, head.opcode);
    return true;
  }

  /// Whether the last visit counted as a claim.
  bool has_claimed() const { return has_claimed_; }

  /// A slot's own priority word decides.
  static constexpr Word kOwnPriority = ~Word{0};

 private:
  enum class Admission { run, stuck };
  Admission look(Deferred& memory, abi::SlotStatus found) const;

  // Every item passes these functions; they are defined here to be inlined.
  using Standing = ItemContext::Standing;
  void count_claim(Word tenant, Word priority) {
    has_claimed_ = true;
    tally_.count_claim(tenant, priority);
  }
  Visit end_done(Word slot, Word opcode) {
    tally_.announce_end();
    ring_.set_status(slot, abi::SlotStatus::done);
    tally_.count_done();
    tally_.count_execution(opcode);
    tally_.publish();
    return Visit::ended;
  }

  Visit run_and_store(Deferred& memory, abi::Slot& slot, Word priority);

  Visit run_fence(Deferred& memory, const abi::Slot& slot, Word priority);
  bool is_fence_ready(Deferred& memory, Word count) const;
  Visit visit_waiting(Deferred& memory);

  void store_args(Word slot, const abi::Slot& copy);
  Visit end_fault(Word slot, const abi::Slot& copy, Word code);
  Visit put_back(Word slot, abi::SlotStatus status);

  RingState& ring_;
  Tally& tally_;
  ItemRunner runner_;
  bool has_claimed_ = false;
};

}  // namespace everkernel::backend::cpu
