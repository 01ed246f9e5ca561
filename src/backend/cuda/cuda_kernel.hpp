// A megakernel compiled for a device, and its launches.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend/cuda/abort_word.hpp"
#include "backend/cuda/code_loader.hpp"
#include "backend/cuda/context.hpp"
#include "backend/cuda/cuda_graph.hpp"
#include "backend/cuda/device_table.hpp"
#include "backend/cuda/launch_memory.hpp"
#include "backend/cuda/live_kernel.hpp"
#include "backend/cuda/megakernel_code.hpp"
#include "backend/cuda/ring_survey.hpp"
#include "everkernel/backend/detail/graph_kernel.hpp"
#include "everkernel/backend/detail/live.hpp"

namespace everkernel::backend::cuda {

// Drains rings on a device, and starts planned work there.
class CudaKernel final : public Kernel {
 public:
  // Compiles the megakernel with the handlers, or takes it from the cache. If that takes longer
  // than the deadline of the options, the kernel is returned without code, and calls that need the
  // code wait for it. Fails as MegakernelCode::generate, NVRTC and the driver do.
  static Result<std::unique_ptr<Kernel>> compile(const std::shared_ptr<Context>& context,
                                                 ModuleCache& module_cache,
                                                 const KernelOptions& options);

  std::string_view pipeline_id() const override { return pipeline_id_; }
  Word worker_count() const override { return worker_count_.load(std::memory_order_relaxed); }
  Word largest_share(Word multiprocessors) const override;
  Result<void> health() const override { return context_->check_alive(); }
  CodeCounts code_counts() const override;
  Result<void> prepare(const CodeRequest& request) override;
  Result<LaunchStats> launch(const Launch& launch) override;
  Result<std::unique_ptr<LiveKernel>> start(const LiveLaunch& launch) override;
  Result<void> take_over(LiveKernel& live, Clock::time_point deadline) override;
  Result<std::unique_ptr<GraphKernel>> start_graph(const GraphLaunch& launch) override;

 private:
  CudaKernel(std::shared_ptr<Context> context, ModuleCache& module_cache,
             const KernelOptions& options, MegakernelCode code, Stream stream);
  Result<bool> wait_for_code(const Deadline& deadline);
  Result<void> adopt(KernelModules modules);
  Result<LaunchStats> leave_all(const Launch& launch) const;
  Result<void> prepare_drain(const MegakernelCode& code, std::shared_ptr<const Module> module);
  Result<void> prepare_graph(const MegakernelCode& code, std::shared_ptr<const Module> module);
  Result<LiveCode> live_code();
  Result<LiveCode> make_live_code(std::shared_ptr<const Module> module) const;
  Result<void> compile_live(const Deadline& deadline);
  Crews crews_for(std::uint64_t slot_count) const;
  Result<void> update_table(const memory::BufferTableView& buffers);
  Result<void> make_rows(const Launch& launch);
  device::LaunchParams make_params(const Crews& crews) const;
  Result<void> drain(std::span<const std::size_t> rows, const Deadline& deadline);
  Result<void> drain_remaining_queues(const Deadline& deadline);
  Result<void> count_remaining(std::size_t row);
  Result<void> store_tickets(std::size_t row, const device::SurveyResult& survey);
  Result<void> read_hits(std::size_t row, const HitBuffer& hits);

  std::shared_ptr<Context> context_;
  ModuleCache& module_cache_;
  KernelOptions options_;
  const MegakernelCode code_;
  Stream stream_;
  std::shared_ptr<const Module> module_;  // holds the kernels that drain
  CrewKernel drain_kernel_;               // of a planned kernel: the kernel of planned work
  bool has_long_items_ = false;
  unsigned tile_bytes_ = 0;
  std::atomic<Word> worker_count_ = 0;

  mutable std::mutex code_mutex_;       // of the three below
  std::unique_ptr<CodeLoader> loader_;  // null once the code is there, or cannot be
  std::optional<Error> code_failure_;
  CodeCounts code_counts_;
  Clock::time_point compile_begin_ = Clock::now();

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

  std::mutex live_mutex_;              // of the next one
  std::optional<LiveCode> live_code_;  // compiled for the first session
  // Of a kernel that takes over: one of the two.
  std::shared_ptr<const Module> loaded_live_;
  CompiledModule compiled_live_;

  GraphCode graph_code_;
  std::shared_ptr<GraphMemory> graph_memory_;  // of the last planned run; the next one uses it
};

}  // namespace everkernel::backend::cuda
