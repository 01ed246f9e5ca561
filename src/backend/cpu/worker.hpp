// One worker at one slot: check, claim, run, store the result. drain.cpp decides which slot is next
// in a bounded dispatch, live_kernel.cpp in a session.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "backend/cpu/executor.hpp"
#include "backend/cpu/tally.hpp"
#include "everkernel/abi/io_queue.hpp"
#include "everkernel/backend/hit_buffer.hpp"
#include "everkernel/protocol/debug_log.hpp"
#include "everkernel/protocol/io_queue.hpp"
#include "everkernel/protocol/words.hpp"

namespace everkernel::backend::cpu {

/// The four buffers of one ring and other state that its workers share.
struct RingState {
  protocol::LiveWords control;                     ///< flags, counters, observables
  protocol::LiveWords slots;                       ///< work slots
  protocol::LiveDebugLogWriter log;                ///< PRINTF records
  protocol::LiveWords io_words;                    ///< IO requests, for looking
  protocol::LiveIoQueueWriter io;                  ///< IO requests, for asking
  Word slot_count = 0;                             ///< slots of the ring
  Word worker_count = 1;                           ///< most that can hold a slot at one time
  const Executor* executor = nullptr;              ///< runs the opcodes
  memory::BufferTableView buffers = {};            ///< the buffers that handles name
  std::uint64_t fuel_per_item = ir::kDefaultFuel;  ///< turns of loops
  const Word* abort = nullptr;                     ///< non-zero ends items that run
  HitBuffer hits = {};                             ///< where emit puts its hits

  std::atomic<std::uint64_t> prefetches{0};  ///< IO slots of prefetches, one bit each
  /// Claimed slots of each tenant whose quota is below the number of workers. Other quotas cannot
  /// be reached and are not counted.
  alignas(64) std::array<std::atomic<Word>, abi::kControlTenantQuotas.count> in_flight{};

  /// Binds the buffers. Fails as their writers do.
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
  /// Whether SHUTDOWN is set.
  bool is_shut_down() const { return control.load_relaxed(abi::kControlShutdown.first) != 0; }
  /// Whether running items must end as FAULT (deadline).
  bool is_aborted() const;

  /// The rights of a tenant.
  enum class Standing { enabled, disabled, unknown };
  /// The rights of a tenant now. TENANT_BASE is read once, because a handler may change it
  /// meanwhile.
  Standing standing_of(Word tenant) const {
    const std::uint64_t base = control.load_relaxed(abi::kControlTenantBase.first);
    const std::uint64_t index = base + tenant;
    if (index < abi::kControlTenantMasks.first || index >= abi::kControlTenantMasks.end()) {
      return Standing::unknown;
    }
    return control.load_relaxed(index) != 0 ? Standing::enabled : Standing::disabled;
  }
  /// Takes one of the quota of a tenant; says whether there was one. A quota that is not below the
  /// number of workers cannot be exceeded and is not counted.
  bool take_quota(Word tenant, bool& is_counted) {
    const Word quota = control.load_relaxed(abi::kControlTenantQuotas.first + tenant);
    is_counted = quota < worker_count;
    return !is_counted || take_counted_quota(tenant, quota);
  }
  /// Gives it back.
  void return_quota(Word tenant) { in_flight[tenant].fetch_sub(1, std::memory_order_relaxed); }

 private:
  bool take_counted_quota(Word tenant, Word quota);
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
    const Word quota = ring_.control.load_relaxed(abi::kControlTenantQuotas.first + head.tenant);
    if (quota < ring_.worker_count) return false;
    count_claim(head.tenant, abi::priority_of(head.priority));
    end_done(slot, head.opcode);
    return true;
  }

  /// Whether the last visit counted as a claim.
  bool has_claimed() const { return has_claimed_; }

  /// A slot's own priority word decides.
  static constexpr Word kOwnPriority = ~Word{0};

  /// Appends a record for the slot that runs, or counts it as dropped.
  void print(Word fmt, Word a, Word b);
  /// Appends a hit of the slot that runs, or counts it as dropped.
  void emit(Word a, Word b, Word c) {
    if (!ring_.hits.append({current_slot_, a, b, c})) tally_.count_hit_dropped();
  }

 private:
  enum class Admission { run, stuck };
  Admission look(Deferred& memory, abi::SlotStatus found) const;

  // Every item passes these functions; they are defined here to be inlined.
  using Standing = RingState::Standing;
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
  ir::Outcome run_item(abi::Slot& slot, bool& needs_io_slot);
  ir::Outcome run_handler(Word handler, abi::Slot& slot);
  ir::Outcome run_packed(const abi::Slot& slot);

  Visit run_fence(Deferred& memory, const abi::Slot& slot, Word priority);
  bool is_fence_ready(Deferred& memory, Word count) const;

  ir::Outcome run_load_miss(abi::Slot& slot, bool& needs_io_slot);
  ir::Outcome wait_for(const protocol::IoRequest& request, const abi::Slot* args,
                       bool& needs_io_slot);
  bool ask_io(const protocol::IoRequest& request, Word& io_slot);
  bool has_free_io_slot() const;
  void free_prefetches();
  Visit visit_waiting(Deferred& memory);

  void store_args(const abi::Slot& slot);
  Visit end_fault(Word slot, const abi::Slot& copy, Word code);
  Visit put_back(Word slot, abi::SlotStatus status);

  RingState& ring_;
  Tally& tally_;
  ir::ItemHooks hooks_;
  ir::ItemFrame frame_;
  Word current_slot_ = 0;
  bool has_claimed_ = false;
};

}  // namespace everkernel::backend::cpu
