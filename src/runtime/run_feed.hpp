// Feeds planned work through a queue: publishes portions as room comes free, and waits for the end.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>

#include "base/spin.hpp"
#include "everkernel/backend/detail/graph.hpp"
#include "everkernel/backend/detail/graph_kernel.hpp"
#include "everkernel/protocol/queue.hpp"
#include "runtime/run_memory.hpp"

namespace everkernel {

/// How to feed.
struct FeedOptions {
  Word capacity = 0;                         ///< entries of the queue
  Word worker_count = 0;                     ///< that run it
  Word regions_per_ticket = 1;               ///< most regions of a ticket
  Word largest_batch = 1;                    ///< tickets published together
  std::span<const Word> tenant_quotas = {};  ///< by tenant
  backend::Deadline deadline = {};           ///< when to give up
  std::uint64_t item_count = 0;              ///< that run, for progress
  const std::function<void(const RunProgress&)>* progress = nullptr;  ///< may be null
};

/// Counts and times of feeding.
struct FeedStats {
  std::uint64_t tickets = 0;         ///< published
  std::uint64_t batches = 0;         ///< times tickets were published together
  std::uint64_t publish_ns = 0;      ///< writing their entries
  std::uint64_t dispatch_ns = 0;     ///< from the start of the kernel to the end of its last item
  std::uint64_t bytes_uploaded = 0;  ///< memory of the run and entries written
  Word sync_points = 0;              ///< times the host waited
  Word most_regions = 0;             ///< of one ticket
  Word published_end = 0;            ///< places of the order that were published
  backend::LiveCounters counters = {};  ///< counted by the workers
};

/// Feeds one run through a queue: on the calling thread, and on workers that have run out of
/// tickets.
class RunFeed {
 public:
  /// Prepares the queue, its doorbell and the control words. Fails with `invalid_argument`, `io` or
  /// `out_of_memory`.
  static Result<std::unique_ptr<RunFeed>> create(RunMemory& memory, backend::WorkGraph& graph,
                                                 const FeedOptions& options);

  /// Starts the kernel, feeds one wave after the other and stops it. `waves` are the places of the
  /// order at which waves begin; `order_end` is behind the last place. Returns at the deadline at
  /// the latest; items that did not run by then remain. Fails as Kernel::start does, and with
  /// `device_lost`.
  Result<FeedStats> run(backend::Kernel& kernel, memory::BufferTableView buffers,
                        std::span<const Word> waves, Word order_end);

  /// Tells the workers to leave and waits for them: also if a progress callback throws.
  ~RunFeed();

 private:
  RunFeed(RunMemory& memory, backend::WorkGraph& graph, const FeedOptions& options);
  Result<void> prepare();
  Result<bool> feed_wave(Word end);
  void end();
  bool refill();
  bool step();
  void publish(abi::LongWord room);
  backend::Portion make_portion();
  void store(abi::LongWord ticket, const backend::Portion& portion);
  void note();
  bool has_ended() const { return next_place_ == wave_end_ && noted_ == producer_.tail(); }
  void report_progress();

  RunMemory& memory_;
  backend::WorkGraph& graph_;
  const FeedOptions options_;
  const protocol::QueueProducer producer_;
  const protocol::QueueKernel kernel_side_;
  std::unique_ptr<backend::GraphKernel> live_;
  backend::Clock::time_point next_progress_ = {};

  std::mutex wake_mutex_;  // guards the next two
  std::condition_variable wake_;
  bool has_woken_ = false;

  SpinLock lock_;            // guards everything below; held by the thread that feeds
  abi::LongWord noted_ = 0;  // every ticket below has ended
  Word next_place_ = 0;
  Word wave_end_ = 0;
  bool is_over_ = false;
  FeedStats stats_;
};

}  // namespace everkernel
