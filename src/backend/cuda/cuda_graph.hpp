// Planned work on a device: one launch after another over the regions that can run
// (device/graph_kernel.cuh).
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "backend/cuda/context.hpp"
#include "backend/cuda/crew_grid.hpp"
#include "backend/cuda/cuda_memory.hpp"
#include "backend/cuda/graph_rows.hpp"
#include "backend/cuda/module.hpp"
#include "base/thread.hpp"
#include "everkernel/backend/detail/graph_kernel.hpp"
#include "everkernel/protocol/words.hpp"

namespace everkernel::backend::cuda {

// The code, and how it is launched.
struct GraphCode {
  std::shared_ptr<Context> context = {};
  std::shared_ptr<const Module> module = {};
  CrewKernel crew = {};
  Word group_lanes = 0;             // of handlers of scope group
  std::uint64_t fuel_per_item = 0;  // turns of loops
};

// Memory that a run uses on the device and for copies. Kept from run to run, used by one run at a
// time.
struct GraphMemory {
  // Fails with `out_of_memory` and `device_lost`.
  static Result<std::shared_ptr<GraphMemory>> create(const std::shared_ptr<Context>& context);

  std::unique_ptr<Memory> block;                         // the arrays of the graph
  std::unique_ptr<Memory> hits;                          // of one launch
  std::array<std::unique_ptr<Memory>, 2> continuations;  // put aside by the last and next launch
  std::optional<Stream> stream;                          // on which launches run
  std::optional<PinnedMemory> fresh;                     // regions a launch begins with
  std::optional<PinnedMemory> finished;                  // tickets that have ended
  std::optional<PinnedMemory> report;                    // results and counts of a launch
  std::optional<PinnedMemory> one;                       // the word 1, to be copied to a signal
};

// A thread of the host serves the queue: it gathers the regions of published tickets, launches
// crews over them and over regions that earlier launches put aside, and ends the tickets whose
// regions have all ended.
class CudaGraphKernel final : public GraphKernel {
 public:
  // Fails as the driver does, and for buffers as protocol::LiveWords does.
  static Result<std::unique_ptr<GraphKernel>> start(GraphCode code,
                                                    std::shared_ptr<GraphMemory> memory,
                                                    const GraphLaunch& launch);
  ~CudaGraphKernel() override;

  void stop(Clock::time_point deadline) override;
  LiveCounters flush_counters() override;
  bool is_running() const override { return is_running_.load(std::memory_order_acquire); }
  Result<void> health() const override;

 private:
  // Offsets of the arrays in the block.
  struct Offsets {
    std::size_t control, debug_log, table, items, origins, nodes, joins, chunks;
    std::size_t waiting_for, join_waiting_for, keys;
    std::size_t zeros, signals, shared, ring_shared, emitted, poisoned_by, released, left, outcomes;
    std::size_t zeros_end, ticket_of;
  };
  class Layout;
  // Words that tell crews to leave, and items to end.
  enum class Signal : std::size_t { leave, abort };

  CudaGraphKernel(GraphCode code, std::shared_ptr<GraphMemory> memory, const GraphLaunch& launch,
                  protocol::LiveWords control);
  void gather_waiters();
  Word first_chunk_of(Word only_waiter) const;
  void gather_waiters(std::span<const Node> nodes, std::vector<device::Waiters>& gathered);
  Layout lay_out();
  Result<void> upload();
  void fill_params();
  void fill_graph_params();
  void serve();
  Result<void> serve_queue();
  bool must_leave() const { return must_leave_.load(std::memory_order_acquire); }
  bool can_look_again() const { return aside_ != 0 && (has_moved_ || has_rested_); }
  Result<void> collect();
  void add_portion(Word ticket, const Portion& portion);
  Result<void> run_launch();
  Result<void> provide_continuations();
  Result<void> wait_for_launch();
  Crews choose_crews() const;
  void hand_back();
  Result<void> provide_hits(std::uint64_t count);
  Result<void> take_hits();
  Result<void> take_prints();
  bool refill() const;
  void be_idle();
  void rest();
  void send(Signal signal);
  bool has_left(Clock::time_point deadline) const;
  Result<void> read_back();
  void note(Result<void> result);
  void flush_words();

  Context& context() const { return *code_.context; }
  std::byte* block() const {
    return reinterpret_cast<std::byte*>(memory_->block->device_address());
  }
  // An array of the block.
  template <class T>
  void set(T*& pointer, std::size_t offset) const {
    pointer = reinterpret_cast<T*>(block() + offset);
  }
  std::span<const memory::BufferEntry> table_entries() const {
    const auto& table = launch_.buffers;
    return {table.entries, table.entries == nullptr ? 0 : std::size_t{table.mask} + 1};
  }
  const device::GraphReport& report() const {
    return *reinterpret_cast<const device::GraphReport*>(memory_->report->data());
  }

  const GraphCode code_;
  const std::shared_ptr<GraphMemory> memory_;
  const GraphLaunch launch_;
  const WorkGraph& graph_;
  const protocol::QueueKernel queue_;
  protocol::LiveWords control_;
  const Crews max_crews_;      // the most of a launch
  const unsigned tile_bytes_;  // that buffers of the table can use
  Offsets offsets_ = {};
  std::vector<device::Waiters> node_waiters_;  // these three are freed once they are on the device
  std::vector<device::Waiters> join_waiters_;
  std::vector<Word> chunks_;

  // Used by the serving thread alone.
  device::GraphParams params_ = {};
  std::size_t fresh_count_ = 0;         // regions gathered for the next launch
  std::uint64_t outstanding_ = 0;       // regions of tickets that have not ended
  std::uint64_t aside_ = 0;             // regions the last launch put aside
  bool has_moved_ = false;              // whether anything ran in the last launch
  bool has_rested_ = false;             // whether the thread has slept since the last launch
  int looks_ = 0;                       // in a row that found nothing
  Clock::duration nap_ = {};            // length of the next one
  std::atomic<abi::LongWord> head_{0};  // the next ticket
  std::atomic<bool> must_leave_{false};
  std::atomic<bool> is_running_{false};

  mutable std::mutex lock_;  // guards the next three
  LiveCounters totals_;
  LiveCounters flushed_;  // the part of totals_ that is in the control words
  std::optional<Error> failure_;

  std::mutex stop_lock_;
  bool has_stopped_ = false;
  Thread thread_;
};

}  // namespace everkernel::backend::cuda
