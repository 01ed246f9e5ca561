// Runs one item from its private copy: built-in operations, handlers, packed operations, IO
// requests. worker.cpp runs the slots of a ring with it, live_worker.cpp the entries of queues.
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

/// The words, tables and code that the items of one kernel share.
struct ItemContext {
  protocol::LiveWords control;                     ///< flags, counters, observables
  protocol::LiveDebugLogWriter log;                ///< PRINTF records
  protocol::LiveWords io_words;                    ///< IO requests, for looking
  protocol::LiveIoQueueWriter io;                  ///< IO requests, for asking
  Word worker_count = 1;                           ///< most items that can run at one time
  const Executor* executor = nullptr;              ///< runs the opcodes
  memory::BufferTableView buffers = {};            ///< the buffers that handles name
  std::uint64_t fuel_per_item = ir::kDefaultFuel;  ///< turns of loops
  const Word* abort = nullptr;                     ///< non-zero ends items that run
  HitBuffer hits = {};                             ///< where emit puts its hits

  std::atomic<std::uint64_t> prefetches{0};  ///< IO slots of prefetches, one bit each
  /// Running items of each tenant whose quota is below the number of workers. Other quotas cannot
  /// be reached and are not counted.
  alignas(64) std::array<std::atomic<Word>, abi::kControlTenantQuotas.count> in_flight{};

  /// Checks the buffers. Fails as their writers do.
  static Result<void> check(std::span<std::byte> control, std::span<std::byte> debug_log,
                            std::span<std::byte> io_queue);
  /// Binds buffers that passed check().
  ItemContext(std::span<std::byte> control_bytes, std::span<std::byte> log_bytes,
              std::span<std::byte> io_bytes);

  /// Whether SHUTDOWN is set.
  bool is_shut_down() const { return control.load_relaxed(abi::kControlShutdown.first) != 0; }

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
  /// The quota of a tenant now.
  Word quota_of(Word tenant) const {
    return control.load_relaxed(abi::kControlTenantQuotas.first + tenant);
  }
  /// Takes one of the quota of a tenant; says whether there was one. A quota that is not below the
  /// number of workers cannot be exceeded and is not counted.
  bool take_quota(Word tenant, bool& is_counted) {
    const Word quota = quota_of(tenant);
    is_counted = quota < worker_count;
    return !is_counted || take_counted_quota(tenant, quota);
  }
  /// Gives it back.
  void return_quota(Word tenant) { in_flight[tenant].fetch_sub(1, std::memory_order_relaxed); }
  /// Whether an IO request could succeed: a slot is EMPTY, or holds a prefetch that has completed.
  bool has_free_io_slot() const;
  /// The status of an IO slot (acquire); `error` outside the queue.
  abi::IoStatus io_status(Word io_slot) const;

 private:
  bool take_counted_quota(Word tenant, Word quota);
};

/// Runs items on one thread.
class ItemRunner {
 public:
  /// Counts inner operations and dropped hits into `tally`.
  ItemRunner(ItemContext& context, Tally& tally);
  ItemRunner(const ItemRunner&) = delete;             ///< handlers refer to it
  ItemRunner& operator=(const ItemRunner&) = delete;  ///< handlers refer to it

  /// How a run of an item ended.
  struct End {
    ir::Outcome outcome = {};    ///< done, fault, or what the item waits for
    bool needs_io_slot = false;  ///< it asked for IO when no IO slot was free; it has had no effect
    bool writes_args = false;    ///< whether its handler may have changed its args
  };
  /// Runs an item other than a fence. The args of the copy are as the item left them; of an item
  /// that waits for IO, arg 11 is its IO slot. `place` names the item in debug records and hits.
  End run(abi::Slot& slot, Word place);
  /// As run(), with these buffers and this abort word instead of those of the context.
  End run(abi::Slot& slot, Word place, const memory::BufferTableView& buffers, const Word* abort) {
    buffers_ = buffers;
    frame_.abort = abort;
    return run_item(slot, place);
  }

  /// Counts an operation that reached DONE, by its opcode.
  void count_execution(Word opcode) {
    if (opcode < abi::kControlMetrics.count) {
      tally_.count_execution(opcode);
    } else {
      tally_.count_other(context_.executor->counter_of(opcode));
    }
  }

  /// Appends a record for the item that runs, or counts it as dropped.
  void print(Word fmt, Word a, Word b);
  /// Appends a hit of the item that runs, or counts it as dropped.
  void emit(Word a, Word b, Word c) {
    if (!context_.hits.append({place_, a, b, c})) tally_.count_hit_dropped();
  }

 private:
  End run_item(abi::Slot& slot, Word place);
  ir::Outcome run_handler(Word handler, const abi::Slot& slot);
  ir::Outcome run_packed(const abi::Slot& slot);
  End run_load_miss(abi::Slot& slot);
  End wait_for(const protocol::IoRequest& request, abi::Slot& slot);
  bool ask_io(const protocol::IoRequest& request, Word& io_slot);
  void free_prefetches();

  ItemContext& context_;
  Tally& tally_;
  ir::ItemHooks hooks_;
  ir::ItemFrame frame_;
  memory::BufferTableView buffers_;
  Word place_ = 0;
};

}  // namespace everkernel::backend::cpu
