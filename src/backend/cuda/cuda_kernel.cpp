// Launches: rows for the crews, one native submission for all of them, and what they came to. The
// protocol is megakernel.cu's.
#include "backend/cuda/cuda_kernel.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <future>
#include <numeric>

#include "everkernel/abi/debug_log.hpp"
#include "everkernel/jit/cuda_source.hpp"

namespace everkernel::backend::cuda {
namespace {

using device::Outcome;
using device::Shared;
using device::Submission;
using device::SurveyParams;
using device::SurveyResult;

static_assert(static_cast<Word>(Schedule::direct) == static_cast<Word>(device::Schedule::direct) &&
              static_cast<Word>(Schedule::priority) ==
                  static_cast<Word>(device::Schedule::priority) &&
              static_cast<Word>(Schedule::ticket) == static_cast<Word>(device::Schedule::ticket));

constexpr Word kMostBlockThreads = 256;
constexpr Word kMostGroupThreads = 512;
// Threads on a multiprocessor at one time. More have fewer registers each, and spill.
constexpr Word kThreadsPerSm = 1024;
// Takes of slots a crew should find, so that one slow item does not leave the others idle.
constexpr std::uint64_t kTakesPerCrew = 8;
// What is behind the last record that a log can have is not written.
constexpr Word kMostLogWords = 1 + abi::kMaxDebugRecords * abi::kDebugRecordWords;
// Tags of cells begin anew before they could meet old ones.
constexpr Word kLastTagBase = Word{1} << 30;
// What a kernel has from its deadline until its device counts as lost: items end at their next
// turn of a loop.
constexpr auto kAbortGrace = std::chrono::seconds(30);

Word* words_of(const std::unique_ptr<Memory>& memory) {
  return memory->device_address();
}

template <class T>
T* pointer_to(const std::unique_ptr<Memory>& memory, std::size_t index = 0) {
  return reinterpret_cast<T*>(memory->device_address()) + index;
}

Word word_count(const Memory& memory) {
  return static_cast<Word>(memory.size_bytes() / abi::kWordBytes);
}

// What a program asks of the launch.
struct ProgramShape {
  bool has_groups = false;      // a handler needs a whole block
  bool has_tiles = false;       // a group adds up before it goes to memory
  bool has_long_items = false;  // an item may take long
};

ProgramShape shape_of(const KernelOptions& options) {
  ProgramShape shape;
  for (const ir::TrustedHandler& handler : options.trusted_handlers) {
    shape.has_groups |= handler.scope == ir::Scope::group;
    shape.has_long_items |= !handler.is_short;
  }
  if (!options.program) return shape;
  for (const ir::VerifiedHandler& verified : options.program->handlers()) {
    const ir::Handler& handler = verified.handler;
    if (handler.is_payload && !options.payload) continue;
    shape.has_groups |= handler.scope == ir::Scope::group;
    shape.has_tiles |= handler.scope == ir::Scope::group && handler.commutes;
    shape.has_long_items |= ir::has_loops(handler.body);
  }
  return shape;
}

// A block has as many threads as a group has lanes, as far as a device can.
Word block_threads_of(const ProgramShape& shape, Word workgroup_size) {
  if (!shape.has_groups) return kMostBlockThreads;
  const Word whole_warps =
      (std::min(workgroup_size, kMostGroupThreads) + kWarp - 1) / kWarp * kWarp;
  return std::max(whole_warps, kWarp);
}

Result<void> check_options(const KernelOptions& options) {
  EVERKERNEL_TRY(
      ir::check_trusted(options.trusted_handlers, options.find_program(), ir::TrustedCode::cuda));
  if (options.execution == Execution::interpreter && options.program) {
    return fail(Code::unsupported, "cuda: handlers are compiled, there is no interpreter",
                "leave the execution to the backend, or use the CPU backend");
  }
  if (!options.payload) return {};
  if (options.program && options.program->payload() != nullptr) return {};
  return fail(Code::invalid_argument, "megakernel: the program has no payload to run",
              "add a `payload { … }` to the handlers, or do not ask for it");
}

std::string handler_text(const KernelOptions& options) {
  const jit::CudaOptions how{
      .memory = options.planned ? jit::MemoryUse::planned : jit::MemoryUse::shared,
      .payload = options.payload,
      .trusted_handlers = options.trusted_handlers};
  if (options.program) return jit::emit_cuda(*options.program, how);
  return jit::emit_cuda(*ir::verify({}), how);
}

}  // namespace

// ---- seats ----

Result<Seat> Seat::create(const std::shared_ptr<Context>& context, Word slot_count,
                          Word partition_count) {
  Seat seat(context);
  const Word cells = std::bit_ceil(slot_count);
  seat.cell_mask_ = cells - 1;
  seat.cell_bytes_ = std::size_t{cells} * partition_count * sizeof(std::uint64_t);
  const auto provide = [&](std::unique_ptr<Memory>& memory, std::size_t bytes) -> Result<void> {
    auto made = seat.allocate(bytes);
    if (!made) return Failure(made.error());
    memory = std::move(*made);
    return {};
  };
  EVERKERNEL_TRY(provide(seat.shared_, 2 * sizeof(Shared)));
  EVERKERNEL_TRY(provide(seat.cells_[0], seat.cell_bytes_));
  EVERKERNEL_TRY(provide(seat.notes_, std::size_t{slot_count} * abi::kWordBytes));
  EVERKERNEL_TRY(provide(seat.emitted_, sizeof(std::uint64_t)));
  return seat;
}

Result<std::unique_ptr<Memory>> Seat::allocate(std::size_t bytes) const {
  return CudaMemory::create(context_, bytes);
}

Result<void> Seat::fill(Submission& row, const Outcome* list) {
  row.shared = pointer_to<Shared>(shared_, turn_ % 2);
  row.next_shared = pointer_to<Shared>(shared_, (turn_ + 1) % 2);
  row.list = nullptr;
  if (list != nullptr) {
    row.list = pointer_to<device::Wide>(cells_[queue_]);
    std::ranges::copy(list->head, row.list_begin);
    std::ranges::copy(list->tail, row.list_end);
    queue_ = 1 - queue_;
    if (cells_[queue_] == nullptr) {
      auto made = allocate(cell_bytes_);
      if (!made) return Failure(made.error());
      cells_[queue_] = std::move(*made);
    }
  }
  row.cells = pointer_to<device::Wide>(cells_[queue_]);
  row.notes = words_of(notes_);
  row.hits = hit_capacity_ == 0 ? nullptr : pointer_to<abi::Hit>(hits_);
  row.hit_capacity = hit_capacity_;
  row.emitted = hit_capacity_ == 0 ? nullptr : pointer_to<device::Wide>(emitted_);
  row.cell_mask = cell_mask_;
  row.tag_base = tag_base_;
  return {};
}

Result<void> Seat::provide_hits(std::size_t capacity, CuStream stream) {
  hit_capacity_ = capacity;
  if (capacity == 0) return {};
  const std::size_t bytes = capacity * sizeof(abi::Hit);
  if (hits_ == nullptr || hits_->size_bytes() < bytes) {
    auto made = allocate(bytes);
    if (!made) return Failure(made.error());
    hits_ = std::move(*made);
  }
  return context_->check(context_->driver().cuMemsetD32Async(
                             reinterpret_cast<CuPointer>(emitted_->device_address()), 0, 2, stream),
                         "clearing the count of hits");
}

Result<void> Seat::note(const Outcome& outcome) {
  ++turn_;
  tag_base_ += 2 * outcome.laps;
  if (tag_base_ <= kLastTagBase) return {};
  tag_base_ = 0;
  for (auto& cells : cells_) {
    if (cells == nullptr) continue;
    auto made = allocate(cell_bytes_);  // zeroed
    if (!made) return Failure(made.error());
    cells = std::move(*made);
  }
  return {};
}

Result<void> Seat::read_hits(std::span<abi::Hit> hits) const {
  if (hits.empty()) return {};
  return hits_->read(0, std::as_writable_bytes(hits));
}

// ---- compiling ----

Result<std::unique_ptr<Kernel>> CudaKernel::compile(const std::shared_ptr<Context>& context,
                                                    const std::shared_ptr<ModuleShelf>& shelf,
                                                    const KernelOptions& options) {
  EVERKERNEL_TRY(check_options(options));
  const ProgramShape shape = shape_of(options);
  const Word block_threads = block_threads_of(shape, options.geometry.workgroup_size);
  const Word blocks_per_sm = std::max<Word>(1, kThreadsPerSm / block_threads);
  KernelText text{
      .handlers = handler_text(options),
      .options = {"-fmad=false", fmt::format("-DEVERKERNEL_BLOCK_THREADS={}", block_threads),
                  fmt::format("-DEVERKERNEL_BLOCKS_PER_SM={}", blocks_per_sm)}};
  if (options.fuel_per_item > ~Word{0}) text.options.emplace_back("-DEVERKERNEL_WIDE_FUEL");
  auto stream = Stream::create(context);
  if (!stream) return Failure(std::move(stream).error());
  std::unique_ptr<CudaKernel> kernel(
      new CudaKernel(context, shelf, options, std::move(text), std::move(*stream)));
  kernel->crew_ = {
      .has_groups = shape.has_groups, .has_tiles = shape.has_tiles, .block_threads = block_threads};
  kernel->has_long_items_ = shape.has_long_items;
  EVERKERNEL_TRY(kernel->prepare());
  return std::unique_ptr<Kernel>(std::move(kernel));
}

CudaKernel::CudaKernel(std::shared_ptr<Context> context, std::shared_ptr<ModuleShelf> shelf,
                       const KernelOptions& options, KernelText text, Stream stream)
    : context_(std::move(context)),
      shelf_(std::move(shelf)),
      options_(options),
      text_(std::move(text)),
      stream_(std::move(stream)) {}

// The code that drains rings, or the code that runs planned work.
Result<std::shared_ptr<const Module>> CudaKernel::load_module(bool is_graph) const {
  std::vector<std::string> compile_options = text_.options;
  compile_options.push_back(
      is_graph ? "-DEVERKERNEL_GRAPH"
               : fmt::format("-DEVERKERNEL_SCHEDULE={}", static_cast<Word>(options_.schedule)));
  std::vector<SourceText> headers(device_headers().begin(), device_headers().end());
  headers.push_back({"everkernel/handlers.cuh", text_.handlers});
  return shelf_->get(context_, {.source = megakernel_source(),
                                .headers = headers,
                                .options = compile_options,
                                .architecture = context_->facts().architecture});
}

Result<void> CudaKernel::prepare() {
  const auto current = context_->enter();
  if (!current) return Failure(current.error());
  if (options_.planned) {  // nothing without a plan runs there
    EVERKERNEL_TRY(prepare_graph(load_module(/*is_graph=*/true)));
  } else {
    // Both at one time. Planned work need not come, but when it does it may have little time.
    auto graph = std::async(std::launch::async, [this] { return load_module(/*is_graph=*/true); });
    EVERKERNEL_TRY(prepare_drain(load_module(/*is_graph=*/false)));
    EVERKERNEL_TRY(prepare_graph(graph.get()));
  }
  worker_count_ =
      options_.worker_count != 0 ? options_.worker_count : most_crews_ * crew_.most_slots();
  pipeline_id_ = fmt::format("cuda-{}-{}x{}-sm{}-{}", schedule_name(options_.schedule),
                             options_.geometry.slot_count, options_.geometry.workgroup_size,
                             context_->facts().architecture, module_->key().text());
  return {};
}

Result<void> CudaKernel::prepare_drain(Result<std::shared_ptr<const Module>> module) {
  if (!module) return Failure(std::move(module).error());
  module_ = std::move(*module);
  const auto drain = module_->function("everkernel_drain");
  if (!drain) return Failure(drain.error());
  const auto survey = module_->function("everkernel_survey");
  if (!survey) return Failure(survey.error());
  crew_.function = *drain;
  survey_ = *survey;
  const auto most_crews = most_crews_of(*context_, crew_);
  if (!most_crews) return Failure(most_crews.error());
  most_crews_ = *most_crews;
  EVERKERNEL_TRY(divide_cache(*context_, crew_, tile_bytes_));
  auto abort = CudaMemory::create(context_, abi::kWordBytes);
  if (!abort) return Failure(abort.error());
  abort_ = std::move(*abort);
  auto one = PinnedMemory::create(context_, abi::kWordBytes);
  if (!one) return Failure(std::move(one).error());
  one_ = std::move(*one);
  one_->data()[0] = std::byte{1};
  auto result = CudaMemory::create(context_, sizeof(SurveyResult));
  if (!result) return Failure(result.error());
  survey_result_ = std::move(*result);
  return {};
}

Result<void> CudaKernel::prepare_graph(Result<std::shared_ptr<const Module>> module) {
  if (!module) return Failure(std::move(module).error());
  const auto graph = (*module)->function("everkernel_graph");
  if (!graph) return Failure(graph.error());
  CrewKernel crew = crew_;
  crew.function = *graph;
  const auto most_crews = most_crews_of(*context_, crew);
  if (!most_crews) return Failure(most_crews.error());
  if (options_.planned) {
    most_crews_ = *most_crews;
    module_ = *module;
  }
  graph_code_ = {.context = context_,
                 .module = std::move(*module),
                 .crew = crew,
                 .most_crews = *most_crews,
                 .group_lanes = options_.geometry.workgroup_size,
                 .fuel_per_item = options_.fuel_per_item};
  return {};
}

// ---- sizes ----

// Fewer workers than a warp has lanes are crews that look at one slot each; more are whole warps.
CudaKernel::Crews CudaKernel::choose_crews(std::uint64_t slot_count) const {
  const auto crews = [](std::uint64_t count, Word most, std::uint64_t slots) {
    return Crews{.count = static_cast<Word>(std::clamp<std::uint64_t>(count, 1, most)),
                 .slots = static_cast<Word>(slots)};
  };
  if (options_.worker_count != 0) {
    const Word slots = worker_count_ < kWarp ? 1 : kWarp;
    return crews(slot_count, std::min(most_crews_, (worker_count_ + slots - 1) / slots), slots);
  }
  std::uint64_t slots = crew_.most_slots();
  if (has_long_items_) {
    slots = std::clamp<std::uint64_t>(slot_count / (most_crews_ * kTakesPerCrew), 1, slots);
  }
  return crews((slot_count + slots - 1) / slots, most_crews_, slots);
}

// ---- launching ----

Outcome& CudaKernel::outcome(std::size_t index) const {
  return reinterpret_cast<Outcome*>(outcomes_->data())[index];
}

Result<void> CudaKernel::provide_seats(std::size_t count) {
  const Word partitions = options_.schedule == Schedule::priority ? abi::kPriorityCount : 1;
  while (seats_.size() < count) {
    auto seat = Seat::create(context_, options_.geometry.slot_count, partitions);
    if (!seat) return Failure(std::move(seat).error());
    seats_.push_back(std::move(*seat));
  }
  if (!outcomes_ || outcomes_->size_bytes() < count * sizeof(Outcome)) {
    auto made = PinnedMemory::create(context_, count * sizeof(Outcome));
    if (!made) return Failure(std::move(made).error());
    outcomes_ = std::move(*made);
  }
  if (count == 1 || (staged_ && staged_->size_bytes() >= count * sizeof(Submission))) return {};
  auto staged = PinnedMemory::create(context_, count * sizeof(Submission));
  if (!staged) return Failure(std::move(staged).error());
  auto rows = CudaMemory::create(context_, count * sizeof(Submission));
  if (!rows) return Failure(std::move(rows).error());
  staged_ = std::move(*staged);
  device_rows_ = std::move(*rows);
  return {};
}

// The table lies on the device too, and is copied there when it has changed.
Result<void> CudaKernel::upload_table(const memory::BufferTableView& buffers) {
  if (buffers.entries == nullptr || buffers.revision == table_revision_) return {};
  static_assert(sizeof(memory::BufferEntry) == 24);
  const auto entries = std::span(buffers.entries, std::size_t{buffers.mask} + 1);
  if (table_ == nullptr || table_->size_bytes() < entries.size_bytes()) {
    auto made = CudaMemory::create(context_, entries.size_bytes());
    if (!made) return Failure(made.error());
    table_ = std::move(*made);
  }
  EVERKERNEL_TRY(table_->write(0, std::as_bytes(entries)));
  const unsigned tile_bytes = tile_bytes_of(crew_, buffers);
  if (tile_bytes != tile_bytes_) EVERKERNEL_TRY(divide_cache(*context_, crew_, tile_bytes));
  tile_bytes_ = tile_bytes;
  table_mask_ = buffers.mask;
  table_revision_ = buffers.revision;
  return {};
}

Result<void> CudaKernel::make_rows(const Launch& launch) {
  const std::size_t count = launch.submissions.size();
  EVERKERNEL_TRY(provide_seats(count));
  rows_.assign(count, {});
  sums_.assign(count, {});
  claimed_.assign(count, 0);
  for (std::size_t i = 0; i < count; ++i) {
    const DeviceBuffers& buffers = launch.submissions[i];
    Submission& row = rows_[i];
    row.control = buffers.control->device_address();
    row.ring = buffers.ring->device_address();
    row.debug_log = buffers.debug_log->device_address();
    row.io_queue = buffers.io_queue->device_address();
    row.control_words = word_count(*buffers.control);
    row.slot_count = static_cast<Word>(buffers.ring->size_bytes() / abi::kSlotBytes);
    row.debug_log_words = std::min(word_count(*buffers.debug_log), kMostLogWords);
    row.io_words = word_count(*buffers.io_queue);
    row.outcome = reinterpret_cast<Outcome*>(outcomes_->device_pointer()) + i;
    EVERKERNEL_TRY(seats_[i].provide_hits(launch.hits.empty() ? 0 : launch.hits[i].places.size(),
                                          stream_.get()));
  }
  return {};
}

Result<LaunchStats> CudaKernel::launch(const Launch& launch) {
  if (options_.planned) {
    return fail(Code::unsupported, "cuda: code that relies on a plan drains no rings");
  }
  const auto current = context_->enter();
  if (!current) return Failure(current.error());
  stats_ = {};
  EVERKERNEL_TRY(upload_table(launch.buffers));
  EVERKERNEL_TRY(make_rows(launch));
  open_.resize(rows_.size());
  std::iota(open_.begin(), open_.end(), std::size_t{0});
  for (const std::size_t i : open_) EVERKERNEL_TRY(seats_[i].fill(rows_[i], nullptr));
  EVERKERNEL_TRY(drain(open_, launch.deadline));
  for (std::size_t i = 0; i < rows_.size(); ++i) EVERKERNEL_TRY(check_setup(outcome(i)));
  for (std::size_t i = 0; i < rows_.size(); ++i) claimed_[i] = outcome(i).claimed_at_entry;
  EVERKERNEL_TRY(settle(launch.deadline));
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    EVERKERNEL_TRY(count_remaining(i, sums_[i]));
    if (!launch.hits.empty() && launch.hits[i].emitted != nullptr) {
      const HitBuffer& hits = launch.hits[i];
      const auto count = std::min<std::size_t>(outcome(i).hits, hits.places.size());
      EVERKERNEL_TRY(seats_[i].read_hits(hits.places.first(count)));
      hits.emitted->store(outcome(i).hits, std::memory_order_release);
    }
    launch.counts[i] = sums_[i];
  }
  return stats_;
}

// One native submission over these rows, whose seats are filled.
Result<void> CudaKernel::drain(std::span<const std::size_t> rows, Clock::time_point deadline) {
  const Driver& driver = context_->driver();
  std::uint64_t slots = 0;
  for (const std::size_t i : rows) {
    slots += rows_[i].list == nullptr
                 ? rows_[i].slot_count
                 : std::max<std::uint64_t>(1, outcome(i).tail[0] - outcome(i).head[0]);
  }
  const Crews crews = choose_crews(slots);
  device::LaunchParams params{};
  params.first = rows_[rows.front()];
  if (rows.size() > 1) {
    auto* const staged = reinterpret_cast<Submission*>(staged_->data());
    for (std::size_t k = 0; k < rows.size(); ++k) staged[k] = rows_[rows[k]];
    EVERKERNEL_TRY(context_->check(
        driver.cuMemcpyHtoDAsync(reinterpret_cast<CuPointer>(device_rows_->device_address()),
                                 staged, rows.size() * sizeof(Submission), stream_.get()),
        "copying the rows of a launch"));
    params.rows = pointer_to<const Submission>(device_rows_);
  }
  params.around.entries = table_ == nullptr ? nullptr : table_->device_address();
  params.around.entry_mask = table_mask_;
  params.around.abort = words_of(abort_);
  params.around.fuel_per_item = options_.fuel_per_item;
  params.submission_count = static_cast<Word>(rows.size());
  params.slots_per_crew = crews.slots;
  params.around.worker_count = crews.count * crews.slots;
  params.around.group_lanes = options_.geometry.workgroup_size;
  if (is_abort_set_) {
    EVERKERNEL_TRY(context_->check(
        driver.cuMemsetD32Async(reinterpret_cast<CuPointer>(abort_->device_address()), 0, 1,
                                stream_.get()),
        "clearing the abort word"));
    is_abort_set_ = false;
  }
  EVERKERNEL_TRY(context_->launch(crew_.function,
                                  crew_grid(*context_, crew_, crews.count, tile_bytes_),
                                  stream_.get(), params));
  ++stats_.kernel_launches;
  EVERKERNEL_TRY(finish(deadline));
  for (const std::size_t i : rows) {
    const Outcome& out = outcome(i);
    EVERKERNEL_TRY(seats_[i].note(out));
    sums_[i].done += out.done;
    sums_[i].faulted += out.faulted;
    sums_[i].hits_dropped += out.hits_dropped;
  }
  return {};
}

// Waits for the kernel. At the deadline items are told to end, and what is done comes back.
Result<void> CudaKernel::finish(Clock::time_point deadline) {
  ++stats_.sync_points;
  auto done = context_->wait(stream_.get(), deadline, "waiting for a kernel");
  if (done || done.error().code != Code::timeout) return done;
  done = abort();
  if (done) {
    done =
        context_->wait(stream_.get(), deadline_after(kAbortGrace), "waiting for a kernel to stop");
  }
  // A kernel that came to its end by itself must not leave the word for the next.
  if (done) {
    done = context_->wait(context_->copy_stream(), deadline_after(kAbortGrace),
                          "storing the abort word");
  }
  if (done || context_->is_lost()) return done;
  // It is still there and cannot be told to go.
  return context_->lose(
      {.code = Code::device_lost,
       .message =
           fmt::format("cuda: a kernel did not end after its deadline: {}", done.error().message),
       .hint = "the process must be replaced; look for a loop without an end in trusted handlers",
       .native = done.error().native});
}

// By a copy on another stream: the kernel may have every multiprocessor.
Result<void> CudaKernel::abort() {
  is_abort_set_ = true;
  return context_->check(
      context_->driver().cuMemcpyHtoDAsync(reinterpret_cast<CuPointer>(abort_->device_address()),
                                           one_->data(), abi::kWordBytes, context_->copy_stream()),
      "storing the abort word");
}

// Control words that the schedule cannot work with: nothing has run.
Result<void> CudaKernel::check_setup(const Outcome& out) const {
  const Word slots = options_.geometry.slot_count;
  if (out.is_refused == 0) return {};
  const auto words = std::span(out.words);
  if (options_.schedule == Schedule::priority) {
    const bool is_sound =
        words.front() == 0 && words.back() == slots && std::ranges::is_sorted(words);
    if (is_sound) return {};
    return fail(Code::corrupt,
                fmt::format("control: words {}..{} (priority offsets) are {}, they must rise from "
                            "0 to the {} slots of the ring",
                            abi::kControlPriorityOffsets.first,
                            abi::kControlPriorityOffsets.end() - 1, fmt::join(words, ", "), slots),
                "write them with set_priority_offsets, or leave them 0 for the default split");
  }
  const Word count = words[1] - words[0];
  if (count <= slots) return {};
  return fail(Code::corrupt,
              fmt::format("control: TICKET_TAIL (word {}) is {}, {} tickets behind TICKET_HEAD "
                          "{}; the ring has {} slots",
                          abi::kControlTicketTail.first, words[1], count, words[0], slots),
              "leave both 0 to drain the whole ring");
}

// A drain that left a long queue did not look at all of it at the end. It is gone through until
// nothing moves.
Result<void> CudaKernel::settle(Clock::time_point deadline) {
  for (;;) {
    std::erase_if(open_, [this](std::size_t i) {
      const Outcome& out = outcome(i);
      const bool is_round = rows_[i].list != nullptr;
      return out.is_settled != 0 || out.is_shut_down != 0 || out.is_aborted != 0 ||
             (is_round && out.moved == 0);
    });
    if (open_.empty()) return {};
    for (const std::size_t i : open_) EVERKERNEL_TRY(seats_[i].fill(rows_[i], &outcome(i)));
    EVERKERNEL_TRY(drain(open_, deadline));
  }
}

Result<void> CudaKernel::count_remaining(std::size_t index, DrainCounts& counts) {
  const Outcome& out = outcome(index);
  if (out.is_shut_down != 0) {
    counts.end = DrainEnd::shutdown;
  } else if (out.is_aborted != 0) {
    counts.end = DrainEnd::deadline;
  }
  std::uint64_t queued = 0;
  for (std::size_t i = 0; i < std::size(out.head); ++i) queued += out.tail[i] - out.head[i];
  const bool is_ticket = options_.schedule == Schedule::ticket;
  // Where the drain found its end, what has not ended is in the queue or was CLAIMED before; where
  // it was stopped, nobody knows.
  const bool has_found_end = out.is_settled != 0 || counts.end == DrainEnd::complete;
  const bool knows_tickets =
      out.has_moved_head != 0 && out.ticket_count == options_.geometry.slot_count;
  const bool is_whole = has_found_end && (!is_ticket || knows_tickets);
  if (is_whole) {
    counts.remaining = queued + claimed_[index];
    return {};
  }
  if (out.is_surveyed != 0) {
    counts.remaining = out.active;
    return {};
  }
  const auto found = survey(index);
  if (!found) return Failure(found.error());
  counts.remaining = found->active;
  if (!is_ticket || out.has_moved_head != 0 || out.has_begun == 0) return {};
  // The head stops at the first ticket that has not ended, so that another dispatch goes on there.
  const std::array<Word, 2> tickets{out.first_ticket + found->first_active,
                                    out.first_ticket + out.ticket_count};
  static_assert(abi::kControlTicketTail.first == abi::kControlTicketHead.first + 1);
  const Driver& driver = context_->driver();
  EVERKERNEL_TRY(context_->check(
      driver.cuMemcpyHtoDAsync(
          reinterpret_cast<CuPointer>(rows_[index].control + abi::kControlTicketHead.first),
          tickets.data(), sizeof tickets, stream_.get()),
      "storing the tickets"));
  ++stats_.sync_points;
  return context_->wait(stream_.get(), deadline_after(kAbortGrace), "storing the tickets");
}

Result<SurveyResult> CudaKernel::survey(std::size_t index) {
  const Outcome& out = outcome(index);
  SurveyResult result{.active = 0, .first_active = out.ticket_count};
  EVERKERNEL_TRY(survey_result_->write(0, std::as_bytes(std::span(&result, 1))));
  const SurveyParams params{.ring = rows_[index].ring,
                            .result = pointer_to<SurveyResult>(survey_result_),
                            .slot_count = rows_[index].slot_count,
                            .first_ticket = out.first_ticket,
                            .ticket_count = out.ticket_count};
  const Word blocks =
      std::min<Word>((params.slot_count + 255) / 256, context_->facts().sm_count * 8);
  EVERKERNEL_TRY(context_->launch(survey_, {.block_count = blocks, .thread_count = 256},
                                  stream_.get(), params));
  ++stats_.kernel_launches;
  ++stats_.sync_points;
  EVERKERNEL_TRY(context_->wait(stream_.get(), deadline_after(kAbortGrace), "counting slots"));
  EVERKERNEL_TRY(survey_result_->read(0, std::as_writable_bytes(std::span(&result, 1))));
  return result;
}

Result<std::unique_ptr<LiveKernel>> CudaKernel::start(const LiveLaunch& launch) {
  if (launch.graph == nullptr) {
    return fail(Code::unsupported, "cuda: live sessions are not there yet",
                "dispatch, or use the CPU backend for sessions");
  }
  const bool is_free = graph_memory_ != nullptr && graph_memory_.use_count() == 1;
  if (!is_free) {
    auto made = GraphMemory::create(context_);
    if (!made) return Failure(std::move(made).error());
    graph_memory_ = std::move(*made);
  }
  return CudaGraphKernel::start(graph_code_, graph_memory_, launch);
}

}  // namespace everkernel::backend::cuda
