// The host's half of planned work on a device: copies arrays to the device and back, and launches
// crews whenever a region can run.
#include "backend/cuda/cuda_graph.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>
#include <utility>
#include <vector>

#include "backend/cuda/abort_word.hpp"
#include "base/spin.hpp"
#include "everkernel/backend/detail/live.hpp"
#include "everkernel/base/assert.hpp"
#include "everkernel/protocol/debug_log.hpp"

namespace everkernel::backend::cuda {
namespace {

using abi::LongWord;
using device::Continuation;
using device::FreshRegion;
using device::GraphReport;
using device::GraphShared;
using std::chrono::microseconds;
using std::chrono::milliseconds;

static_assert(kNoNode == device::kNoNode && kMany == device::kMany);
static_assert(kMaxRegionItems <= device::kWaitsAlone);
static_assert(kItemDone == device::kItemDone && kItemRemaining == 0);
static_assert(sizeof(Node) == sizeof(device::Waiters) && sizeof(Origin) == 2);
static_assert(sizeof(FreshRegion) == 16 && sizeof(Continuation) == 64);

// Regions gathered for one launch, unless a single ticket holds more.
constexpr std::size_t kFreshRegions = std::size_t{1} << 16;
// Least room for the hits of a launch, unless the run may keep fewer.
constexpr std::uint64_t kLeastHits = std::uint64_t{1} << 20;
// Hits that come from the device at one time.
constexpr std::uint64_t kHitsPerRead = std::uint64_t{1} << 16;
// Least room for regions that a launch puts aside.
constexpr std::size_t kContinuations = 1024;
// Arrays of a run that are together no larger than this are copied as one.
constexpr std::size_t kPackedBytes = std::size_t{1} << 20;
constexpr std::size_t kAlignment = 256;
// Looks at the queue before the serving thread sleeps.
constexpr int kSpinLooks = 2000;
constexpr int kLooksPerRefill = 64;
constexpr auto kShortestNap = milliseconds(1);
constexpr auto kLongestNap = milliseconds(16);
constexpr auto kLongSleep = std::chrono::hours(1);
// While a launch runs, interval of checks whether the device was given up.
constexpr auto kLaunchLook = milliseconds(100);
constexpr auto kLeaveLook = microseconds(50);
std::size_t aligned(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

// Tenant and priority as the one number that the device reads.
Word origin_word(const Origin& origin) {
  return Word{origin.tenant} | Word{origin.priority} << 8;
}

// The limit on workers, or 0 if the device has no more workers than that.
Word worker_limit(const CrewKernel& kernel, const GraphLaunch& launch) {
  return launch.worker_count < kernel.max_workers() ? launch.worker_count : 0;
}

std::uint64_t claims_of(const LiveCounters& counters) {
  std::uint64_t claims = 0;
  for (const std::uint64_t count : counters.priority_claims) claims += count;
  return claims;
}

}  // namespace

Result<std::shared_ptr<GraphMemory>> GraphMemory::create(const std::shared_ptr<Context>& context) {
  auto memory = std::make_shared<GraphMemory>();
  memory->stream = EVERKERNEL_TRY(Stream::create(context));
  EVERKERNEL_TRY(provide(context, kFreshRegions * sizeof(FreshRegion), memory->fresh));
  EVERKERNEL_TRY(provide(context, sizeof(GraphReport), memory->report));
  EVERKERNEL_TRY(provide(context, abi::kWordBytes, memory->one));
  memory->one->data()[0] = std::byte{1};
  return memory;
}

// Lays arrays out one behind the other: first those copied from the host, then those that begin as
// zeros, then the rest.
class CudaGraphKernel::Layout {
 public:
  std::size_t copy(std::span<const std::byte> bytes) {
    parts_.push_back({end_, bytes});
    copied_end_ = end_ + bytes.size();
    return add(bytes.size());
  }
  template <class T>
  std::size_t copy(std::span<const T> values) {
    return copy(std::as_bytes(values));
  }
  std::size_t add(std::size_t bytes) {
    return std::exchange(end_, aligned(end_ + std::max<std::size_t>(bytes, 1)));
  }
  std::size_t end() const { return end_; }

  // Copies the arrays of the host to the device. `memory` has room for all of them.
  Result<void> write_to(Memory& memory) const {
    if (copied_end_ <= kPackedBytes) {
      std::vector<std::byte> packed(aligned(copied_end_));
      for (const Part& part : parts_) place(part.bytes, packed.data() + part.at);
      return memory.write(0, packed);
    }
    for (const Part& part : parts_) {
      const std::size_t whole = part.bytes.size() / abi::kWordBytes * abi::kWordBytes;
      EVERKERNEL_TRY(memory.write(part.at, part.bytes.first(whole)));
      if (whole == part.bytes.size()) continue;
      std::array<std::byte, abi::kWordBytes> rest{};
      place(part.bytes.subspan(whole), rest.data());
      EVERKERNEL_TRY(memory.write(part.at + whole, rest));
    }
    return {};
  }

 private:
  struct Part {
    std::size_t at;
    std::span<const std::byte> bytes;
  };
  static void place(std::span<const std::byte> bytes, std::byte* to) {
    if (!bytes.empty()) std::memcpy(to, bytes.data(), bytes.size());
  }

  std::vector<Part> parts_;
  std::size_t copied_end_ = 0;
  std::size_t end_ = 0;
};

// ---- starting ----

Result<std::unique_ptr<GraphKernel>> CudaGraphKernel::start(GraphCode code,
                                                            std::shared_ptr<GraphMemory> memory,
                                                            const GraphLaunch& launch) {
  const auto control =
      EVERKERNEL_TRY(protocol::LiveWords::bind(protocol::Buffer::control, launch.control));
  std::unique_ptr<CudaGraphKernel> kernel(
      new CudaGraphKernel(std::move(code), std::move(memory), launch, control));
  EVERKERNEL_TRY(kernel->upload());
  kernel->is_running_.store(true, std::memory_order_relaxed);
  kernel->thread_ = EVERKERNEL_TRY(
      Thread::start([self = kernel.get()](const std::stop_token&) { self->serve(); }));
  return std::unique_ptr<GraphKernel>(std::move(kernel));
}

CudaGraphKernel::CudaGraphKernel(GraphCode code, std::shared_ptr<GraphMemory> memory,
                                 const GraphLaunch& launch, protocol::LiveWords control)
    : code_(std::move(code)),
      memory_(std::move(memory)),
      launch_(launch),
      graph_(*launch.graph),
      queue_(*launch.queue),
      control_(control),
      max_crews_(max_launch(code_.crew, worker_limit(code_.crew, launch))),
      tile_bytes_(tile_bytes_of(code_.crew, launch.buffers)),
      nap_(kShortestNap) {}

// Gathers the waiters of each node in whole chunks, which lanes read side by side without following
// links.
void CudaGraphKernel::gather_waiters() {
  if (!graph_.has_waiters) return;
  gather_waiters(graph_.nodes, node_waiters_);
  gather_waiters(graph_.joins, join_waiters_);
}

// What the device has to know of the only waiter of a node. A region also waits for its claim.
Word CudaGraphKernel::first_chunk_of(Word only_waiter) const {
  const Word place = graph_.places[only_waiter];
  return place == 0 && graph_.waiting_for[only_waiter] == 2 ? device::kWaitsAlone : place;
}

void CudaGraphKernel::gather_waiters(std::span<const Node> nodes,
                                     std::vector<device::Waiters>& gathered) {
  gathered.resize(nodes.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const Node& node = nodes[i];
    gathered[i] = {.only = node.last_waiter, .first_chunk = 0};
    if (node.last_waiter < graph_.items.size()) {
      gathered[i].first_chunk = first_chunk_of(node.last_waiter);
    }
    if (node.last_waiter == kNoNode || (node.last_waiter & kMany) == 0) continue;
    const std::size_t first = chunks_.size();
    graph_.for_each_waiter(node, [this](Word waiter) { chunks_.push_back(waiter); });
    while (chunks_.size() % device::kChunkWaiters != 0) chunks_.push_back(kNoNode);
    const std::size_t count = (chunks_.size() - first) / device::kChunkWaiters;
    gathered[i] = {.only = static_cast<Word>(count) | kMany,
                   .first_chunk = static_cast<Word>(first / device::kChunkWaiters)};
  }
}

// Lays out all arrays of the graph in one block of memory.
CudaGraphKernel::Layout CudaGraphKernel::lay_out() {
  const std::size_t item_words = graph_.items.size() * abi::kWordBytes;
  Layout layout;
  Offsets& at = offsets_;
  at.control = layout.copy(launch_.control);
  at.debug_log = layout.copy(launch_.debug_log);
  at.table = layout.copy(table_entries());
  at.items = layout.copy(graph_.items);
  at.origins = layout.copy(graph_.origins);
  at.nodes = layout.copy(std::as_bytes(std::span(node_waiters_)));
  at.joins = layout.copy(std::as_bytes(std::span(join_waiters_)));
  at.chunks = layout.copy(std::as_bytes(std::span(chunks_)));
  if (graph_.has_waiters) {
    at.waiting_for = layout.copy(std::as_bytes(graph_.waiting_for));
    at.join_waiting_for = layout.copy(std::as_bytes(graph_.join_waiting_for));
    at.keys = layout.copy(graph_.handles.keys);
  }
  at.zeros = layout.end();
  at.signals = layout.add(2 * abi::kWordBytes);
  at.shared = layout.add(sizeof(GraphShared));
  at.ring_shared = layout.add(sizeof(device::Shared));
  at.emitted = layout.add(sizeof(device::Wide));
  at.poisoned_by = layout.add(graph_.poisoned_by.size() * abi::kWordBytes);
  at.released = layout.add(item_words + chunks_.size() / device::kChunkWaiters * abi::kWordBytes);
  at.left = layout.add(std::size_t{queue_.capacity()} * abi::kWordBytes);
  at.outcomes = layout.add(item_words);
  at.zeros_end = layout.end();
  at.ticket_of = layout.add(item_words);
  return layout;
}

Result<void> CudaGraphKernel::upload() {
  const Current current = EVERKERNEL_TRY(context().enter());
  EVERKERNEL_TRY(divide_cache(context(), code_.crew, tile_bytes_));
  gather_waiters();
  const Layout layout = lay_out();
  EVERKERNEL_TRY(provide(code_.context, layout.end(), memory_->block));
  EVERKERNEL_TRY(
      provide(code_.context, std::size_t{queue_.capacity()} * abi::kWordBytes, memory_->finished));
  EVERKERNEL_TRY(context().check(
      context().driver().cuMemsetD32Async(reinterpret_cast<CuPointer>(block() + offsets_.zeros), 0,
                                          (offsets_.zeros_end - offsets_.zeros) / abi::kWordBytes,
                                          context().copy_stream()),
      "clearing the memory of a run"));
  if (graph_.has_waiters) {
    EVERKERNEL_TRY(
        context().check(context().driver().cuMemsetD32Async(
                            reinterpret_cast<CuPointer>(block() + offsets_.ticket_of),
                            device::kNoTicket, graph_.items.size(), context().copy_stream()),
                        "clearing the tickets of a run"));
  }
  // write() waits for its stream, on which the memsets run as well.
  EVERKERNEL_TRY(layout.write_to(*memory_->block));
  totals_.bytes_uploaded = offsets_.zeros;
  node_waiters_ = {};
  join_waiters_ = {};
  chunks_ = {};
  std::memset(memory_->report->data(), 0, sizeof(GraphReport));
  fill_params();
  fill_graph_params();
  const std::uint64_t expected = graph_.hits->first_room();
  if (expected == 0) return {};
  return provide_hits(std::min(graph_.hits->limit(), std::max(expected, kLeastHits)));
}

// Fills the parameters that items use, as in a drain.
void CudaGraphKernel::fill_params() {
  device::LaunchParams& params = params_.launch;
  device::Submission& row = params.first;
  set(row.control, offsets_.control);
  set(row.debug_log, offsets_.debug_log);
  set(row.shared, offsets_.ring_shared);
  set(row.emitted, offsets_.emitted);
  row.control_words = static_cast<Word>(launch_.control.size() / abi::kWordBytes);
  row.debug_log_words = static_cast<Word>(launch_.debug_log.size() / abi::kWordBytes);
  row.slot_count = queue_.capacity();
  if (!table_entries().empty()) params.context.entries = block() + offsets_.table;
  params.context.entry_mask = launch_.buffers.mask;
  params.submission_count = 1;
  params.context.fuel_per_item = code_.fuel_per_item;
  params.context.group_lanes = code_.group_lanes;
  set(params.context.abort,
      offsets_.signals + static_cast<std::size_t>(Signal::abort) * abi::kWordBytes);
}

void CudaGraphKernel::fill_graph_params() {
  device::GraphParams& params = params_;
  set(params.leave, offsets_.signals + static_cast<std::size_t>(Signal::leave) * abi::kWordBytes);
  set(params.items, offsets_.items);
  if (!graph_.origins.empty()) set(params.origins, offsets_.origins);
  if (graph_.has_waiters) {
    set(params.nodes, offsets_.nodes);
    set(params.waiting_for, offsets_.waiting_for);
    set(params.join_waiting_for, offsets_.join_waiting_for);
  }
  set(params.joins, offsets_.joins);
  set(params.chunks, offsets_.chunks);
  set(params.ticket_of, offsets_.ticket_of);
  set(params.outcomes, offsets_.outcomes);
  if (!graph_.handles.keys.empty()) set(params.keys, offsets_.keys);
  params.key_mask = graph_.handles.keys.size() - 1;
  set(params.poisoned_by, offsets_.poisoned_by);
  set(params.released, offsets_.released);
  set(params.left, offsets_.left);
  set(params.shared, offsets_.shared);
  params.finished = reinterpret_cast<Word*>(memory_->finished->device_pointer());
  params.report = reinterpret_cast<GraphReport*>(memory_->report->device_pointer());
  params.item_count = static_cast<Word>(graph_.items.size());
  params.origin = origin_word(graph_.origin);
  params.is_ordered = graph_.ordered && graph_.has_waiters ? 1 : 0;
  params.ages = graph_.ages ? 1 : 0;
}

CudaGraphKernel::~CudaGraphKernel() {
  stop(Clock::now());
}

// ---- serving the queue ----

void CudaGraphKernel::serve() {
  try {
    note(serve_queue());
  } catch (const std::bad_alloc&) {
    note(fail(Code::out_of_memory, "no memory left"));  // so short that the text needs none
  }
  is_running_.store(false, std::memory_order_release);
}

Result<void> CudaGraphKernel::serve_queue() {
  const Current current = EVERKERNEL_TRY(context().enter());
  while (!must_leave()) {
    EVERKERNEL_TRY(collect());
    if (fresh_count_ == 0 && !can_look_again()) {
      be_idle();
      continue;
    }
    looks_ = 0;
    EVERKERNEL_TRY(run_launch());
    EVERKERNEL_TRY(take_hits());
    hand_back();
    if (report().is_shut_down != 0) return {};
  }
  return {};
}

// Gathers the regions of all published tickets, in their order.
Result<void> CudaGraphKernel::collect() {
  fresh_count_ = 0;
  for (LongWord ticket = head_.load(std::memory_order_relaxed);; ++ticket) {
    if (!queue_.peek(ticket)) return {};
    const auto entry = queue_.copy_item(ticket);
    EVERKERNEL_ASSERT(entry);
    const Portion portion = Portion::of(*entry);
    const std::size_t room = memory_->fresh->size_bytes() / sizeof(FreshRegion);
    if (fresh_count_ != 0 && fresh_count_ + portion.regions > room) return {};
    EVERKERNEL_TRY(provide(code_.context, portion.regions * sizeof(FreshRegion), memory_->fresh));
    add_portion(static_cast<Word>(ticket), portion);
    head_.store(ticket + 1, std::memory_order_relaxed);
  }
}

void CudaGraphKernel::add_portion(Word ticket, const Portion& portion) {
  auto* const rows = reinterpret_cast<FreshRegion*>(memory_->fresh->data());
  const std::size_t first = fresh_count_;
  for (Word place = portion.first; place != portion.first + portion.count; ++place) {
    const Word item = graph_.order.empty() ? place : graph_.order[place];
    if (graph_.places[item] != 0) continue;
    const Word told = fresh_count_ == first ? portion.regions : 0;
    rows[fresh_count_++] = {.item = item, .ticket = ticket, .portion_regions = told, .unused = 0};
  }
  EVERKERNEL_ASSERT(fresh_count_ - first == portion.regions);
  outstanding_ += portion.regions;
}

// Few regions are spread over the device, a lane of a warp each; many fill the lanes.
Crews CudaGraphKernel::choose_crews() const {
  const std::uint64_t regions = std::max<std::uint64_t>(1, outstanding_);
  return cuda::choose_crews(max_crews_, regions,
                            (regions + max_crews_.count - 1) / max_crews_.count);
}

// A launch puts each region aside at most once, so there is room for every outstanding region.
Result<void> CudaGraphKernel::provide_continuations() {
  const std::size_t regions = std::max(std::bit_ceil(std::size_t{outstanding_}), kContinuations);
  return provide(code_.context, regions * sizeof(Continuation), memory_->continuations[1]);
}

Result<void> CudaGraphKernel::run_launch() {
  EVERKERNEL_TRY(provide_continuations());
  const Crews crews = choose_crews();
  const auto& [resumed, aside] = memory_->continuations;
  params_.launch.slots_per_crew = crews.slots_per_crew;
  params_.launch.context.worker_count = crews.worker_count();
  params_.crew_count = crews.count;
  params_.fresh = reinterpret_cast<const FreshRegion*>(memory_->fresh->device_pointer());
  params_.fresh_count = fresh_count_;
  params_.resumed_count = aside_;
  params_.resumed =
      aside_ == 0 ? nullptr : reinterpret_cast<const Continuation*>(resumed->device_address());
  params_.aside = reinterpret_cast<Continuation*>(aside->device_address());
  const auto begin = Clock::now();
  const RunningKernel running(context());
  EVERKERNEL_TRY(
      context().launch(code_.crew.function,
                       crew_grid(context().facts().sm_count, code_.crew, crews.count, tile_bytes_),
                       memory_->stream->get(), params_));
  EVERKERNEL_TRY(wait_for_launch());
  const auto took = std::chrono::nanoseconds(Clock::now() - begin).count();
  const std::scoped_lock held(lock_);
  ++totals_.launches;
  // The device does not measure when a lane is idle: a lane counts as busy while its launch runs.
  totals_.busy_ns += static_cast<std::uint64_t>(took) * params_.launch.context.worker_count;
  totals_.bytes_uploaded += fresh_count_ * sizeof(FreshRegion);
  return {};
}

Result<void> CudaGraphKernel::wait_for_launch() {
  for (;;) {
    auto done = context().wait(memory_->stream->get(), Clock::now() + kLaunchLook,
                               "waiting for planned work");
    if (done || done.error().code != Code::timeout) return done;
    EVERKERNEL_TRY(context().check_alive());
  }
}

// Takes over the counts of the launch, and ends the tickets whose regions have all ended.
void CudaGraphKernel::hand_back() {
  const GraphReport& report = this->report();
  {
    const std::scoped_lock held(lock_);
    const std::uint64_t claims = claims_of(totals_);
    totals_.done = report.totals.done;
    totals_.faulted = report.totals.faulted;
    totals_.requeues = report.totals.requeues;
    totals_.executions[0] = report.totals.nops;
    std::ranges::copy(report.totals.tenant_claims, totals_.tenant_claims.begin());
    std::ranges::copy(report.totals.priority_claims, totals_.priority_claims.begin());
    has_moved_ = claims_of(totals_) != claims;
  }
  if (has_moved_) nap_ = kShortestNap;
  has_rested_ = false;
  aside_ = report.aside;
  std::swap(memory_->continuations[0], memory_->continuations[1]);
  const auto* const finished = reinterpret_cast<const Word*>(memory_->finished->data());
  for (const Word ticket : std::span(finished, report.finished)) {
    outstanding_ -= std::exchange(graph_.left[queue_.place_of(ticket)], 0);
    queue_.end(ticket, abi::OutcomeCode::done, 0, {});
  }
  static_cast<void>(refill());
}

Result<void> CudaGraphKernel::provide_hits(std::uint64_t count) {
  EVERKERNEL_TRY(provide(code_.context, count * sizeof(abi::Hit), memory_->hits));
  device::Submission& row = params_.launch.first;
  row.hits = reinterpret_cast<abi::Hit*>(memory_->hits->device_address());
  row.hit_capacity = count;
  return {};
}

// Takes over the hits of a launch, so that every launch has all of the room. A launch cannot wait
// for more room: hits without any are dropped, and the next launch has more.
Result<void> CudaGraphKernel::take_hits() {
  const std::uint64_t emitted = report().emitted;
  if (emitted == 0) return {};
  const std::uint64_t room = params_.launch.first.hit_capacity;
  const std::uint64_t kept = std::min(emitted, room);
  std::vector<abi::Hit> piece(std::min(kept, kHitsPerRead));
  for (std::uint64_t first = 0; first < kept; first += piece.size()) {
    const auto hits = std::span(piece).first(std::min<std::size_t>(piece.size(), kept - first));
    EVERKERNEL_TRY(memory_->hits->read(first * sizeof(abi::Hit), std::as_writable_bytes(hits)));
    graph_.hits->append(hits);
  }
  graph_.hits->count_dropped(emitted - kept);
  const device::Wide none = 0;
  EVERKERNEL_TRY(memory_->block->write(offsets_.emitted, std::as_bytes(std::span(&none, 1))));
  if (emitted <= room / 2 || room >= graph_.hits->limit()) return {};
  const auto grown = provide_hits(std::min(graph_.hits->limit(), 2 * std::max(emitted, room)));
  if (grown || grown.error().code != Code::out_of_memory) return grown;
  return provide_hits(room);
}

// Takes over the records of printf.
Result<void> CudaGraphKernel::take_prints() {
  const auto log = EVERKERNEL_TRY(protocol::DebugLogView::parse(launch_.debug_log));
  for (Word i = 0; i < log.record_count(); ++i) {
    const abi::DebugRecord record = log.record(i);
    const abi::Hit print{record.args[2], record.fmt_id, record.args[0], record.args[1]};
    graph_.prints->append(std::span(&print, 1));
  }
  graph_.prints->count_dropped(control_.load_relaxed(abi::kControlDebugDropped.first));
  return {};
}

bool CudaGraphKernel::refill() const {
  return graph_.refill.call != nullptr && graph_.refill.call(graph_.refill.self);
}

void CudaGraphKernel::be_idle() {
  if (looks_ % kLooksPerRefill == 0 && refill()) return;
  if (++looks_ < kSpinLooks) return spin_pause();
  looks_ = 0;
  rest();
}

void CudaGraphKernel::rest() {
  Doorbell& doorbell = *launch_.doorbell;
  doorbell.arm();
  if (!queue_.peek(head_.load(std::memory_order_relaxed)) && !must_leave()) {
    {
      const std::scoped_lock held(lock_);
      ++totals_.sleeps;
    }
    if (aside_ == 0) {
      doorbell.wait(kLongSleep);
    } else {
      doorbell.wait(nap_);
      nap_ = std::min<Clock::duration>(2 * nap_, kLongestNap);
      has_rested_ = true;
    }
  }
  doorbell.disarm();
}

// ---- stopping ----

void CudaGraphKernel::stop(Clock::time_point deadline) {
  if (!context().is_here()) return;  // a child of fork() has no serving thread
  const std::scoped_lock held(stop_lock_);
  if (has_stopped_ || !thread_.joinable()) return;
  has_stopped_ = true;
  must_leave_.store(true, std::memory_order_release);
  launch_.doorbell->ring(1);
  send(Signal::leave);
  if (!has_left(deadline)) {
    send(Signal::abort);
    if (!has_left(deadline_after(kAbortTimeout))) {
      // The launch still runs and does not react to the signal.
      static_cast<void>(context().lose(
          {.code = Code::device_lost,
           .message = "cuda: planned work did not end after its deadline",
           .hint = "start a new process; look for an endless loop in trusted handlers",
           .native = {}}));
    }
  }
  thread_.join();
  note(read_back());
}

// Writes the signal by a copy on another stream, because the launch may occupy every
// multiprocessor.
void CudaGraphKernel::send(Signal signal) {
  if (!is_running()) return;
  const auto current = context().enter();
  if (!current) return note(Failure(current.error()));
  const auto target = reinterpret_cast<CuPointer>(memory_->block->device_address()) +
                      offsets_.signals + static_cast<std::size_t>(signal) * abi::kWordBytes;
  note(context().check(context().driver().cuMemcpyHtoDAsync(
                           target, memory_->one->data(), abi::kWordBytes, context().copy_stream()),
                       "telling crews to leave"));
}

bool CudaGraphKernel::has_left(Clock::time_point deadline) const {
  while (is_running() && Clock::now() < deadline) std::this_thread::sleep_for(kLeaveLook);
  return !is_running();
}

Result<void> CudaGraphKernel::read_back() {
  EVERKERNEL_TRY(context().check_alive());
  const Memory& block = *memory_->block;
  EVERKERNEL_TRY(block.read(offsets_.outcomes, std::as_writable_bytes(graph_.outcomes)));
  EVERKERNEL_TRY(block.read(offsets_.debug_log, launch_.debug_log));
  EVERKERNEL_TRY(block.read(offsets_.control, launch_.control));
  EVERKERNEL_TRY(take_prints());
  const std::scoped_lock held(lock_);
  flushed_ = {};  // the control words of the device contain no counts: all are added again
  return {};
}

// ---- calls of the host ----

LiveCounters CudaGraphKernel::flush_counters() {
  const std::scoped_lock held(lock_);
  flush_words();
  return totals_;
}

void CudaGraphKernel::flush_words() {
  const auto add = [this](std::size_t word, std::uint64_t now, std::uint64_t& flushed) {
    if (now == flushed) return;
    control_.add_release(word, static_cast<Word>(now - flushed));
    flushed = now;
  };
  add(abi::kControlDoneCount.first, totals_.done, flushed_.done);
  add(abi::kControlFaultCount.first, totals_.faulted, flushed_.faulted);
  for (std::size_t i = 0; i < totals_.tenant_claims.size(); ++i) {
    add(abi::kControlTenantFairness.first + i, totals_.tenant_claims[i], flushed_.tenant_claims[i]);
  }
  for (std::size_t i = 0; i < totals_.priority_claims.size(); ++i) {
    add(abi::kControlPriorityFairness.first + i, totals_.priority_claims[i],
        flushed_.priority_claims[i]);
  }
  add(abi::kControlMetrics.first, totals_.executions[0], flushed_.executions[0]);
  control_.store_relaxed(abi::kControlTicketHead.first,
                         static_cast<Word>(head_.load(std::memory_order_relaxed)));
}

void CudaGraphKernel::note(Result<void> result) {
  if (result) return;
  const std::scoped_lock held(lock_);
  if (!failure_) failure_ = std::move(result).error();
}

Result<void> CudaGraphKernel::health() const {
  EVERKERNEL_TRY(context().check_alive());
  const std::scoped_lock held(lock_);
  if (!failure_) return {};
  return Failure(*failure_);
}

}  // namespace everkernel::backend::cuda
