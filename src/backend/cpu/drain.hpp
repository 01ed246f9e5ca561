// One submission of a bounded dispatch: which slot is next, and when the drain ends.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "backend/cpu/deferred.hpp"
#include "backend/cpu/worker.hpp"
#include "everkernel/backend/backend.hpp"

namespace everkernel::backend::cpu {

/// The buffers and options of a drain.
struct DrainSetup {
  std::span<std::byte> control = {};     ///< flags, counters, observables
  std::span<std::byte> slots = {};       ///< work slots
  std::span<std::byte> debug_log = {};   ///< PRINTF records
  std::span<std::byte> io_queue = {};    ///< IO requests
  memory::BufferTableView buffers = {};  ///< the buffers that handles name
  const Executor* executor = nullptr;    ///< runs the opcodes
  Schedule schedule = Schedule::direct;  ///< in which order workers visit slots
  std::uint64_t fuel_per_item = 0;       ///< turns of loops
  Word worker_count = 1;                 ///< most that may take part
  const Word* abort = nullptr;           ///< non-zero at the deadline
  HitBuffer hits = {};                   ///< where emit puts its hits
};

/// Drains one ring; workers may join and leave at any time. Its memory is reused by the next drain.
class Drain {
 public:
  /// Called by a worker while slots are left that other workers could take; `is_urgent` before it
  /// runs an item that may take long.
  using CallForHelp = std::function<void(bool is_urgent)>;

  /// Gets ready. Fails with `corrupt` for control words the schedule cannot work with; then nothing
  /// was written.
  Result<void> prepare(const DrainSetup& setup);
  /// Runs items until none is left that could run, or until SHUTDOWN or the deadline.
  void work(const CallForHelp& call_for_help);
  /// Whether nothing is left to do.
  bool is_finished() const { return is_finished_.load(std::memory_order_acquire); }
  /// The counts; called after every worker has left.
  DrainCounts close();

 private:
  /// A range of slots that workers take from its front.
  struct alignas(64) Fresh {
    std::atomic<std::uint64_t> next{0};
    std::uint64_t end = 0;
  };
  class Pass;

  Result<void> prepare_partitions();
  Result<void> prepare_tickets();
  Word slot_at(std::uint64_t position) const;
  bool must_stop() const { return ring_->is_shut_down() || ring_->is_aborted(); }

  void run(Tally& tally, const CallForHelp& call_for_help);
  bool enter(std::uint64_t& seen);
  bool leave(std::uint64_t& seen);
  void stop_working();
  void note_progress(std::uint64_t& seen);
  void wait_for_change(std::uint64_t seen);
  Word count_active() const;
  void close_tickets();

  std::optional<RingState> ring_;
  Schedule schedule_ = Schedule::direct;
  std::array<Fresh, abi::kPriorityCount> fresh_;
  Word chunk_ = 1;
  Word first_ticket_ = 0;
  DeferredList deferred_;
  std::atomic<std::uint64_t> claimed_at_entry_{0};

  // Changed under the deferred list's lock.
  DrainCounts counts_;
  Word working_ = 0;
  std::atomic<std::uint64_t> stamp_{0};
  std::atomic<bool> is_finished_{false};
};

}  // namespace everkernel::backend::cpu
