// Compiles the kernels, launches drains over the rows of submissions, and collects their counts.
// megakernel.cu is the device's side of a launch.
#include "backend/cuda/cuda_kernel.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <future>
#include <numeric>
#include <utility>

#include "backend/cuda/control_check.hpp"
#include "everkernel/abi/debug_log.hpp"

namespace everkernel::backend::cuda {
namespace {

using device::LaunchParams;
using device::LaunchResult;
using device::Submission;
using device::SurveyResult;

// A crew should take slots at least this often, so that one slow item does not leave the other
// crews idle.
constexpr std::uint64_t kTakesPerCrew = 8;
// Between two looks at the deadline of a compilation.
constexpr auto kCompileLook = std::chrono::milliseconds(20);
// Words of a debug log that can hold records. Words behind them are never written.
constexpr Word kMaxLogWords = 1 + abi::kMaxDebugRecords * abi::kDebugRecordWords;

Word word_count(const Memory& memory) {
  return static_cast<Word>(memory.size_bytes() / abi::kWordBytes);
}

Word partition_count(Schedule schedule) {
  return schedule == Schedule::priority ? abi::kPriorityCount : 1;
}

std::uint64_t queued_slots(const LaunchResult& result) {
  std::uint64_t queued = 0;
  for (std::size_t i = 0; i < std::size(result.head); ++i) {
    queued += result.tail[i] - result.head[i];
  }
  return queued;
}

DrainEnd end_of(const LaunchResult& result) {
  if (result.is_shut_down != 0) return DrainEnd::shutdown;
  if (result.is_aborted != 0) return DrainEnd::deadline;
  return DrainEnd::complete;
}

// The opcodes of the handlers, by their index in the generated text.
std::vector<Word> handler_opcodes(const KernelOptions& options) {
  std::vector<Word> opcodes;
  if (options.program) {
    for (const ir::VerifiedHandler& verified : options.program->handlers()) {
      opcodes.push_back(verified.handler.opcode);
    }
  }
  for (const ir::TrustedHandler& handler : options.trusted_handlers) {
    opcodes.push_back(handler.opcode);
  }
  return opcodes;
}

}  // namespace

// ---- compiling ----

Result<std::unique_ptr<Kernel>> CudaKernel::compile(const std::shared_ptr<Context>& context,
                                                    ModuleCache& module_cache,
                                                    const KernelOptions& options) {
  MegakernelCode code = EVERKERNEL_TRY(MegakernelCode::generate(options));
  Stream stream = EVERKERNEL_TRY(Stream::create(context));
  std::unique_ptr<CudaKernel> kernel(
      new CudaKernel(context, module_cache, options, code, std::move(stream)));
  const CodePart part = options.planned ? CodePart::graph : CodePart::drain;
  kernel->pipeline_id_ =
      fmt::format("cuda-{}-{}x{}-sm{}-{}", schedule_name(options.schedule),
                  options.geometry.slot_count, options.geometry.workgroup_size,
                  context->facts().architecture, code.key(*context, module_cache, part).text());
  kernel->has_long_items_ = code.has_long_items();
  if (options.takes_over) {
    kernel->code_failure_ = Error{.code = Code::unsupported,
                                  .message = "cuda: a kernel that takes over sessions does no more",
                                  .hint = {},
                                  .native = {}};
    EVERKERNEL_TRY(kernel->compile_live(options.compile_deadline));
    return std::unique_ptr<Kernel>(std::move(kernel));
  }
  kernel->loader_ =
      std::make_unique<CodeLoader>(context, module_cache, std::move(code), options.planned);
  EVERKERNEL_TRY(kernel->wait_for_code(options.compile_deadline));
  return std::unique_ptr<Kernel>(std::move(kernel));
}

CudaKernel::CudaKernel(std::shared_ptr<Context> context, ModuleCache& module_cache,
                       const KernelOptions& options, MegakernelCode code, Stream stream)
    : context_(std::move(context)),
      module_cache_(module_cache),
      options_(options),
      code_(std::move(code)),
      stream_(std::move(stream)),
      worker_count_(options.worker_count != 0 ? options.worker_count
                                              : context_->facts().max_worker_count()),
      table_(context_),
      memory_(context_, options.geometry.slot_count, partition_count(options.schedule)) {}

// Waits for the code and makes it the kernel's; false if the deadline comes first. Compiling then
// goes on, for the next call.
Result<bool> CudaKernel::wait_for_code(const Deadline& deadline) {
  const std::scoped_lock held(code_mutex_);
  if (loader_ != nullptr) {
    if (!loader_->wait(deadline)) return false;
    auto modules = loader_->take();
    auto adopted = modules ? adopt(*std::move(modules)) : Result<void>(Failure(modules.error()));
    if (!adopted) code_failure_ = adopted.error();
    loader_ = nullptr;
  }
  if (code_failure_) return Failure(*code_failure_);
  return true;
}

Result<void> CudaKernel::adopt(KernelModules modules) {
  const Current current = EVERKERNEL_TRY(context_->enter());
  const MegakernelCode& code = loader_->code();
  bool is_from_cache = modules.graph->is_from_cache();
  EVERKERNEL_TRY(prepare_graph(code, std::move(modules.graph)));
  if (options_.planned) {
    module_ = graph_code_.module;
    drain_kernel_ = graph_code_.crew;
  } else {
    is_from_cache &= modules.drain->is_from_cache();
    EVERKERNEL_TRY(prepare_drain(code, std::move(modules.drain)));
  }
  if (options_.worker_count == 0) {
    worker_count_.store(drain_kernel_.max_workers(), std::memory_order_relaxed);
  }
  ++(is_from_cache ? code_counts_.from_cache : code_counts_.compiled);
  const std::chrono::nanoseconds taken = Clock::now() - compile_begin_;
  code_counts_.compile_ns = static_cast<std::uint64_t>(taken.count());
  return {};
}

CodeCounts CudaKernel::code_counts() const {
  const std::scoped_lock held(code_mutex_);
  return code_counts_;
}

Result<void> CudaKernel::prepare(const CodeRequest& request) {
  if (EVERKERNEL_TRY(wait_for_code(request.deadline))) return {};
  return fail(Code::timeout, "cuda: the handlers were not compiled before the deadline",
              "raise the deadline, or run again: compiling goes on");
}

Result<void> CudaKernel::prepare_drain(const MegakernelCode& code,
                                       std::shared_ptr<const Module> module) {
  drain_kernel_ = EVERKERNEL_TRY(code.find_kernel(*context_, *module, "everkernel_drain"));
  EVERKERNEL_TRY(divide_cache(*context_, drain_kernel_, tile_bytes_));
  survey_ = EVERKERNEL_TRY(RingSurvey::create(context_, *module));
  abort_word_ = EVERKERNEL_TRY(AbortWord::create(context_));
  module_ = std::move(module);
  return {};
}

Result<void> CudaKernel::prepare_graph(const MegakernelCode& code,
                                       std::shared_ptr<const Module> module) {
  const CrewKernel kernel =
      EVERKERNEL_TRY(code.find_kernel(*context_, *module, "everkernel_graph"));
  graph_code_ = {.context = context_,
                 .module = std::move(module),
                 .crew = kernel,
                 .group_lanes = options_.geometry.workgroup_size,
                 .fuel_per_item = options_.fuel_per_item};
  return {};
}

// ---- launching ----

Result<LaunchStats> CudaKernel::launch(const Launch& launch) {
  if (options_.planned) {
    return fail(Code::unsupported, "cuda: a kernel compiled for planned work drains no rings");
  }
  if (!EVERKERNEL_TRY(wait_for_code(launch.deadline))) return leave_all(launch);
  const RunningKernel running(*context_);
  const Current current = EVERKERNEL_TRY(context_->enter());
  stats_ = {};
  EVERKERNEL_TRY(update_table(launch.buffers));
  EVERKERNEL_TRY(make_rows(launch));
  open_rows_.resize(rows_.size());
  std::iota(open_rows_.begin(), open_rows_.end(), std::size_t{0});
  EVERKERNEL_TRY(drain(open_rows_, launch.deadline));
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    EVERKERNEL_TRY(
        check_control_words(memory_.result(i), options_.schedule, options_.geometry.slot_count));
    claimed_at_entry_[i] = memory_.result(i).claimed_at_entry;
  }
  EVERKERNEL_TRY(drain_remaining_queues(launch.deadline));
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    EVERKERNEL_TRY(count_remaining(i));
    if (!launch.hits.empty()) EVERKERNEL_TRY(read_hits(i, launch.hits[i]));
    launch.counts[i] = counts_[i];
  }
  return stats_;
}

// The deadline came before the code: every item remains.
Result<LaunchStats> CudaKernel::leave_all(const Launch& launch) const {
  for (std::size_t i = 0; i < launch.submissions.size(); ++i) {
    const Memory& ring = *launch.submissions[i].ring;
    std::vector<Word> words(ring.size_bytes() / abi::kWordBytes);
    EVERKERNEL_TRY(ring.read(0, std::as_writable_bytes(std::span(words))));
    DrainCounts counts{.end = launch.deadline.is_stop_requested() ? DrainEnd::stopped
                                                                  : DrainEnd::deadline};
    for (std::size_t line = 0; line < words.size(); line += abi::kSlotWords) {
      if (abi::is_active(abi::SlotStatus{words[line]})) ++counts.remaining;
    }
    launch.counts[i] = counts;
  }
  return LaunchStats{};
}

Result<void> CudaKernel::update_table(const memory::BufferTableView& buffers) {
  if (!table_.is_outdated(buffers)) return {};
  const unsigned tile_bytes = tile_bytes_of(drain_kernel_, buffers);
  if (tile_bytes != tile_bytes_) {
    EVERKERNEL_TRY(divide_cache(*context_, drain_kernel_, tile_bytes));
    tile_bytes_ = tile_bytes;
  }
  return table_.update(buffers);
}

Result<void> CudaKernel::make_rows(const Launch& launch) {
  const std::size_t count = launch.submissions.size();
  EVERKERNEL_TRY(memory_.prepare(count));
  rows_.assign(count, {});
  counts_.assign(count, {});
  claimed_at_entry_.assign(count, 0);
  for (std::size_t i = 0; i < count; ++i) {
    const DeviceBuffers& buffers = launch.submissions[i];
    Submission& row = rows_[i];
    row.control = buffers.control->device_address();
    row.ring = buffers.ring->device_address();
    row.debug_log = buffers.debug_log->device_address();
    row.io_queue = buffers.io_queue->device_address();
    row.control_words = word_count(*buffers.control);
    row.slot_count = static_cast<Word>(buffers.ring->size_bytes() / abi::kSlotBytes);
    row.debug_log_words = std::min(word_count(*buffers.debug_log), kMaxLogWords);
    row.io_words = word_count(*buffers.io_queue);
    row.result = memory_.result_address(i);
    SubmissionMemory& memory = memory_.submission(i);
    EVERKERNEL_TRY(
        memory.provide_hits(launch.hits.empty() ? 0 : launch.hits[i].places.size(), stream_.get()));
    EVERKERNEL_TRY(memory.fill(row, nullptr));
  }
  return {};
}

Crews CudaKernel::crews_for(std::uint64_t slot_count) const {
  const Crews most = max_launch(drain_kernel_, options_.worker_count);
  if (options_.worker_count != 0) {
    // As many crews as the caller has asked for, even where fewer would hold all slots.
    return {.count = static_cast<Word>(std::clamp<std::uint64_t>(slot_count, 1, most.count)),
            .slots_per_crew = most.slots_per_crew};
  }
  const std::uint64_t wanted_slots =
      has_long_items_ ? slot_count / (most.count * kTakesPerCrew) : most.slots_per_crew;
  return choose_crews(most, slot_count, wanted_slots);
}

LaunchParams CudaKernel::make_params(const Crews& crews) const {
  LaunchParams params{};
  params.context.entries = table_.entries();
  params.context.entry_mask = table_.mask();
  params.context.abort = abort_word_->device_address();
  params.context.fuel_per_item = options_.fuel_per_item;
  params.context.worker_count = crews.worker_count();
  params.context.group_lanes = options_.geometry.workgroup_size;
  params.slots_per_crew = crews.slots_per_crew;
  return params;
}

// One launch over rows whose memory is filled.
Result<void> CudaKernel::drain(std::span<const std::size_t> rows, const Deadline& deadline) {
  std::uint64_t slot_count = 0;
  for (const std::size_t row : rows) {
    const LaunchResult& last = memory_.result(row);
    slot_count += rows_[row].list == nullptr
                      ? rows_[row].slot_count
                      : std::max<std::uint64_t>(1, last.tail[0] - last.head[0]);
  }
  const Crews crews = crews_for(slot_count);
  LaunchParams params = make_params(crews);
  params.first = rows_[rows.front()];
  params.submission_count = static_cast<Word>(rows.size());
  if (rows.size() > 1) {
    params.rows = EVERKERNEL_TRY(memory_.upload_rows(rows_, rows, stream_.get()));
  }
  EVERKERNEL_TRY(abort_word_->clear(stream_.get()));
  EVERKERNEL_TRY(context_->launch(
      drain_kernel_.function,
      crew_grid(context_->facts().sm_count, drain_kernel_, crews.count, tile_bytes_), stream_.get(),
      params));
  ++stats_.kernel_launches;
  ++stats_.sync_points;
  EVERKERNEL_TRY(abort_word_->wait(stream_.get(), deadline));
  for (const std::size_t row : rows) {
    const LaunchResult& result = memory_.result(row);
    EVERKERNEL_TRY(memory_.submission(row).advance(result));
    counts_[row].done += result.done;
    counts_[row].faulted += result.faulted;
    counts_[row].hits_dropped += result.hits_dropped;
  }
  return {};
}

// A drain that leaves a long queue ends without another look at all of it. Its queue is drained
// again until a launch changes nothing.
Result<void> CudaKernel::drain_remaining_queues(const Deadline& deadline) {
  for (;;) {
    std::erase_if(open_rows_, [this](std::size_t row) {
      const LaunchResult& result = memory_.result(row);
      const bool was_queue = rows_[row].list != nullptr;
      return result.is_settled != 0 || end_of(result) != DrainEnd::complete ||
             (was_queue && result.moved == 0);
    });
    if (open_rows_.empty()) return {};
    for (const std::size_t row : open_rows_) {
      EVERKERNEL_TRY(memory_.submission(row).fill(rows_[row], &memory_.result(row)));
    }
    EVERKERNEL_TRY(drain(open_rows_, deadline));
  }
}

// ---- results ----

Result<void> CudaKernel::count_remaining(std::size_t row) {
  const LaunchResult& result = memory_.result(row);
  DrainCounts& counts = counts_[row];
  counts.end = end_of(result);
  const bool is_ticket = options_.schedule == Schedule::ticket;
  // If the drain ended by itself, every active slot is in the queue or was CLAIMED before. The
  // ticket schedule looks at no slot outside its tickets, so there they must cover the ring.
  const bool has_found_end = result.is_settled != 0 || counts.end == DrainEnd::complete;
  const bool covers_ring =
      result.has_moved_head != 0 && result.ticket_count == options_.geometry.slot_count;
  if (has_found_end && (!is_ticket || covers_ring)) {
    counts.remaining = queued_slots(result) + claimed_at_entry_[row];
    return {};
  }
  if (result.is_surveyed != 0) {
    counts.remaining = result.active;
    return {};
  }
  const SurveyResult survey =
      EVERKERNEL_TRY(survey_->run(rows_[row], result, stream_.get(), stats_));
  counts.remaining = survey.active;
  if (!is_ticket || result.has_moved_head != 0 || result.has_begun == 0) return {};
  return store_tickets(row, survey);
}

// The head stops at the first ticket whose item has not ended: the next dispatch begins there.
Result<void> CudaKernel::store_tickets(std::size_t row, const SurveyResult& survey) {
  const LaunchResult& result = memory_.result(row);
  const std::array<Word, 2> tickets{result.first_ticket + survey.first_active,
                                    result.first_ticket + result.ticket_count};
  static_assert(abi::kControlTicketTail.first == abi::kControlTicketHead.first + 1);
  const auto target =
      reinterpret_cast<CuPointer>(rows_[row].control + abi::kControlTicketHead.first);
  EVERKERNEL_TRY(context_->check(
      context_->driver().cuMemcpyHtoDAsync(target, tickets.data(), sizeof tickets, stream_.get()),
      "storing the tickets"));
  ++stats_.sync_points;
  return context_->wait(stream_.get(), deadline_after(kAbortTimeout), "storing the tickets");
}

Result<void> CudaKernel::read_hits(std::size_t row, const HitBuffer& hits) {
  if (hits.emitted == nullptr) return {};
  const std::uint64_t emitted = memory_.result(row).hits;
  const auto count = std::min<std::size_t>(emitted, hits.places.size());
  EVERKERNEL_TRY(memory_.submission(row).read_hits(hits.places.first(count)));
  hits.emitted->store(emitted, std::memory_order_release);
  return {};
}

// ---- sessions and planned work ----

Word CudaKernel::largest_share(Word multiprocessors) const {
  const Word crews =
      live_worker_count(*context_, code_.shape(), options_.worker_count, multiprocessors);
  return largest_live_share(code_.shape(), crews);
}

// The code that serves sessions is compiled for the first one.
Result<LiveCode> CudaKernel::live_code() {
  const std::scoped_lock held(live_mutex_);
  if (!live_code_) {
    auto module = EVERKERNEL_TRY(code_.load(context_, module_cache_, CodePart::live, nullptr));
    live_code_ = EVERKERNEL_TRY(make_live_code(std::move(module)));
  }
  return *live_code_;
}

Result<LiveCode> CudaKernel::make_live_code(std::shared_ptr<const Module> module) const {
  const Current current = EVERKERNEL_TRY(context_->enter());
  const CrewKernel crew = EVERKERNEL_TRY(code_.find_kernel(*context_, *module, "everkernel_live"));
  return LiveCode{.context = context_,
                  .module = std::move(module),
                  .crew = crew,
                  .group_lanes = options_.geometry.workgroup_size,
                  .fuel_per_item = options_.fuel_per_item,
                  .opcodes = handler_opcodes(options_)};
}

// Compiles beside a session whose kernel runs. The code is loaded when that kernel is away.
Result<void> CudaKernel::compile_live(const Deadline& deadline) {
  loaded_live_ = module_cache_.find(code_.key(*context_, module_cache_, CodePart::live));
  if (loaded_live_ != nullptr) return {};
  std::atomic<bool> is_cancelled{false};
  std::packaged_task<Result<CompiledModule>()> task(
      [&] { return code_.compile(*context_, module_cache_, CodePart::live, &is_cancelled); });
  auto compiled = task.get_future();
  const Thread thread = EVERKERNEL_TRY(Thread::start([&task](const std::stop_token&) { task(); }));
  while (compiled.wait_until(std::min(deadline.next_look(), deadline_after(kCompileLook))) !=
         std::future_status::ready) {
    if (deadline.has_passed()) is_cancelled.store(true, std::memory_order_relaxed);
  }
  auto code = compiled.get();
  if (!code && is_cancelled.load(std::memory_order_relaxed)) {
    return fail(Code::timeout, "cuda: the handlers were not compiled before the deadline",
                "raise the timeout");
  }
  compiled_live_ = EVERKERNEL_TRY(std::move(code));
  return {};
}

Result<void> CudaKernel::take_over(LiveKernel& live, Clock::time_point deadline) {
  const auto load = [this](Word sm_count) -> Result<LiveCode> {
    auto module = loaded_live_;
    if (module == nullptr) module = EVERKERNEL_TRY(module_cache_.load(context_, compiled_live_));
    LiveCode code = EVERKERNEL_TRY(make_live_code(std::move(module)));
    code.sm_count = sm_count;
    code.worker_count = live_worker_count(*context_, code.crew, options_.worker_count, sm_count);
    return code;
  };
  return static_cast<CudaLiveKernel&>(live).replace(load, deadline);
}

Result<std::unique_ptr<LiveKernel>> CudaKernel::start(const LiveLaunch& launch) {
  const Word sm_count = context_->facts().sm_count;
  if (launch.multiprocessors > sm_count) {
    return fail(Code::invalid_argument,
                fmt::format("session: {} multiprocessors were asked for, the GPU has {}",
                            launch.multiprocessors, sm_count),
                "ask for fewer, or for 0, which is all of them");
  }
  LiveCode code = EVERKERNEL_TRY(live_code());
  code.sm_count = launch.multiprocessors == 0 ? sm_count : launch.multiprocessors;
  code.worker_count =
      live_worker_count(*context_, code.crew, options_.worker_count, launch.multiprocessors);
  if (launch.worker_count != 0) {
    code.worker_count = std::min(code.worker_count, launch.worker_count);
  }
  return CudaLiveKernel::start(std::move(code), launch);
}

Result<std::unique_ptr<GraphKernel>> CudaKernel::start_graph(const GraphLaunch& launch) {
  EVERKERNEL_TRY(wait_for_code({}));
  const bool is_free = graph_memory_ != nullptr && graph_memory_.use_count() == 1;
  if (!is_free) graph_memory_ = EVERKERNEL_TRY(GraphMemory::create(context_));
  return CudaGraphKernel::start(graph_code_, graph_memory_, launch);
}

}  // namespace everkernel::backend::cuda
