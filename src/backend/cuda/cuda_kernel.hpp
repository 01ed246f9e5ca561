// A megakernel compiled for a device, and its launches.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend/cuda/abort_word.hpp"
#include "backend/cuda/context.hpp"
#include "backend/cuda/cuda_graph.hpp"
#include "backend/cuda/device_table.hpp"
#include "backend/cuda/launch_memory.hpp"
#include "backend/cuda/megakernel_code.hpp"
#include "backend/cuda/ring_survey.hpp"
#include "everkernel/backend/detail/live.hpp"

namespace everkernel::backend::cuda {

// Drains rings on a device, and starts planned work there.
class CudaKernel final : public Kernel {
 public:
  // Compiles the megakernel with the handlers, or takes it from the cache. Fails as
  // MegakernelCode::generate, NVRTC and the driver do.
  static Result<std::unique_ptr<Kernel>> compile(const std::shared_ptr<Context>& context,
                                                 ModuleCache& module_cache,
                                                 const KernelOptions& options);

  std::string_view pipeline_id() const override { return pipeline_id_; }
  Word worker_count() const override { return worker_count_; }
  bool is_from_cache() const override { return is_from_cache_; }
  Result<LaunchStats> launch(const Launch& launch) override;
  Result<std::unique_ptr<LiveKernel>> start(const LiveLaunch& launch) override;

 private:
  CudaKernel(std::shared_ptr<Context> context, const KernelOptions& options, Stream stream);
  Result<void> prepare(const MegakernelCode& code, ModuleCache& module_cache);
  Result<void> prepare_drain(const MegakernelCode& code, std::shared_ptr<const Module> module);
  Result<void> prepare_graph(const MegakernelCode& code, std::shared_ptr<const Module> module);
  Crews crews_for(std::uint64_t slot_count) const;
  Result<void> update_table(const memory::BufferTableView& buffers);
  Result<void> make_rows(const Launch& launch);
  device::LaunchParams make_params(const Crews& crews) const;
  Result<void> drain(std::span<const std::size_t> rows, Clock::time_point deadline);
  Result<void> drain_remaining_queues(Clock::time_point deadline);
  Result<void> count_remaining(std::size_t row);
  Result<void> store_tickets(std::size_t row, const device::SurveyResult& survey);
  Result<void> read_hits(std::size_t row, const HitBuffer& hits);

  std::shared_ptr<Context> context_;
  KernelOptions options_;
  Stream stream_;
  std::shared_ptr<const Module> module_;  // holds the kernels that drain
  CrewKernel drain_kernel_;               // of a planned kernel: the kernel of planned work
  bool has_long_items_ = false;
  bool is_from_cache_ = false;
  unsigned tile_bytes_ = 0;
  Word worker_count_ = 0;
  std::string pipeline_id_;

  // Kept from launch to launch. A planned kernel drains no rings and has no abort word and survey.
  std::optional<AbortWord> abort_word_;
  std::optional<RingSurvey> survey_;
  DeviceTable table_;
  LaunchMemory memory_;

  // Of the launch that runs; a row for each submission.
  std::vector<device::Submission> rows_;
  std::vector<DrainCounts> counts_;
  std::vector<std::uint64_t> claimed_at_entry_;  // slots that were CLAIMED before the launch
  std::vector<std::size_t> open_rows_;           // rows that another launch must drain
  LaunchStats stats_;

  GraphCode graph_code_;
  std::shared_ptr<GraphMemory> graph_memory_;  // of the last planned run; the next one uses it
};

}  // namespace everkernel::backend::cuda
