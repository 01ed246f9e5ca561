// A megakernel compiled for a device, and its launches.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "backend/cuda/context.hpp"
#include "backend/cuda/cuda_graph.hpp"
#include "backend/cuda/cuda_memory.hpp"
#include "backend/cuda/launch_rows.hpp"
#include "backend/cuda/module.hpp"
#include "everkernel/backend/detail/live.hpp"

namespace everkernel::backend::cuda {

// What crews of one submission share on the device, kept from launch to launch.
class Seat {
 public:
  // Gets ready for rings of that many slots. Fails with `out_of_memory` and `device_lost`.
  static Result<Seat> create(const std::shared_ptr<Context>& context, Word slot_count,
                             Word partition_count);

  // Fills what a launch needs of it. With a list, the queue that the last launch left is gone
  // through instead of the ring.
  Result<void> fill(device::Submission& row, const device::Outcome* list);
  // Room for hits.
  Result<void> provide_hits(std::size_t capacity, CuStream stream);
  // After a launch.
  Result<void> note(const device::Outcome& outcome);
  // Copies hits to the host.
  Result<void> read_hits(std::span<abi::Hit> hits) const;

 private:
  explicit Seat(std::shared_ptr<Context> context) : context_(std::move(context)) {}
  Result<std::unique_ptr<Memory>> allocate(std::size_t bytes) const;

  std::shared_ptr<Context> context_;
  std::unique_ptr<Memory> shared_;                // two: of this launch, and of the next
  std::array<std::unique_ptr<Memory>, 2> cells_;  // of the queue, and of the one before
  std::unique_ptr<Memory> notes_;
  std::unique_ptr<Memory> hits_;
  std::unique_ptr<Memory> emitted_;
  std::size_t hit_capacity_ = 0;
  std::size_t cell_bytes_ = 0;
  Word cell_mask_ = 0;
  Word tag_base_ = 0;
  unsigned turn_ = 0;   // which Shared is this launch's
  unsigned queue_ = 0;  // which cells are
};

// Bounded drains on a device.
class CudaKernel final : public Kernel {
 public:
  // Compiles the workers together with the handlers, or finds them in the cache. Fails with
  // `unsupported` and `invalid_argument`, and as NVRTC and the driver do.
  static Result<std::unique_ptr<Kernel>> compile(const std::shared_ptr<Context>& context,
                                                 const std::shared_ptr<ModuleShelf>& shelf,
                                                 const KernelOptions& options);

  std::string_view pipeline_id() const override { return pipeline_id_; }
  Word worker_count() const override { return worker_count_; }
  bool is_from_cache() const override {
    return module_->is_from_cache() && graph_code_.module->is_from_cache();
  }
  Result<LaunchStats> launch(const Launch& launch) override;
  Result<std::unique_ptr<LiveKernel>> start(const LiveLaunch& launch) override;

 private:
  // Crews of a launch: how many, and how many slots each looks at together.
  struct Crews {
    Word count = 1;
    Word slots = 1;
  };

  // What is compiled together with the workers, and how.
  struct KernelText {
    std::string handlers;
    std::vector<std::string> options;
  };

  CudaKernel(std::shared_ptr<Context> context, std::shared_ptr<ModuleShelf> shelf,
             const KernelOptions& options, KernelText text, Stream stream);
  Result<std::shared_ptr<const Module>> load_module(bool is_graph) const;
  Result<void> prepare();
  Result<void> prepare_drain(Result<std::shared_ptr<const Module>> module);
  Result<void> prepare_graph(Result<std::shared_ptr<const Module>> module);
  Crews choose_crews(std::uint64_t slot_count) const;
  Result<void> provide_seats(std::size_t count);
  Result<void> upload_table(const memory::BufferTableView& buffers);
  Result<void> make_rows(const Launch& launch);
  Result<void> drain(std::span<const std::size_t> rows, Clock::time_point deadline);
  Result<void> finish(Clock::time_point deadline);
  Result<void> abort();
  Result<void> check_setup(const device::Outcome& outcome) const;
  Result<void> settle(Clock::time_point deadline);
  Result<void> count_remaining(std::size_t index, DrainCounts& counts);
  Result<device::SurveyResult> survey(std::size_t index);
  device::Outcome& outcome(std::size_t index) const;

  std::shared_ptr<Context> context_;
  std::shared_ptr<ModuleShelf> shelf_;
  KernelOptions options_;
  KernelText text_;
  std::shared_ptr<const Module> module_;
  Stream stream_;
  CrewKernel crew_;
  CuFunction survey_ = nullptr;
  bool has_long_items_ = false;
  Word most_crews_ = 1;      // that fit the device
  unsigned tile_bytes_ = 0;  // that the table's buffers can use
  Word worker_count_ = 0;
  std::string pipeline_id_;

  std::unique_ptr<Memory> abort_;
  std::optional<PinnedMemory> one_;  // the word 1, to be copied to the abort word
  bool is_abort_set_ = false;
  std::unique_ptr<Memory> table_;
  Word table_revision_ = 0;
  Word table_mask_ = 0;
  std::vector<Seat> seats_;
  std::vector<device::Submission> rows_;  // of this launch
  std::vector<DrainCounts> sums_;         // over its rounds
  std::vector<std::uint64_t> claimed_;    // slots that were CLAIMED before it
  std::vector<std::size_t> open_;         // rows that are not settled
  std::optional<PinnedMemory> outcomes_;  // one a seat
  std::optional<PinnedMemory> staged_;    // rows on their way to the device
  std::unique_ptr<Memory> device_rows_;
  std::unique_ptr<Memory> survey_result_;
  LaunchStats stats_;
  GraphCode graph_code_;
  std::shared_ptr<GraphMemory> graph_memory_;  // of the last planned run, for the next
};

}  // namespace everkernel::backend::cuda
