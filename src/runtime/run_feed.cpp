// The host's half of a planned run. The thread that holds the lock publishes and notes outcomes:
// the calling thread, or a worker that ran out of tickets and would otherwise wait for that thread
// to wake up.
#include "runtime/run_feed.hpp"

#include <algorithm>
#include <array>
#include <mutex>

#include "base/spin.hpp"
#include "everkernel/backend/detail/live.hpp"
#include "everkernel/protocol/control.hpp"
#include "everkernel/protocol/debug_log.hpp"
#include "everkernel/protocol/io_queue.hpp"
#include "runtime/elapsed.hpp"

namespace everkernel {
namespace {

using abi::LongWord;
using backend::Clock;
using backend::Portion;

// The parts of a run's memory. The two files of the queue are parts of it, because the run is its
// only producer.
enum Part : std::size_t { kControl, kDebugLog, kIoQueue, kProducerFile, kKernelFile };

constexpr Word kObservables = 64;
constexpr Word kDebugRecords = 1024;
constexpr Word kIoSlots = 16;
// Polls of the host before it leaves its core to the workers, and how long it sleeps then. Workers
// feed the queue meanwhile and wake the host when a wave has ended.
constexpr int kSpinLooks = 200;
constexpr auto kLookInterval = std::chrono::milliseconds(2);
constexpr auto kProgressInterval = std::chrono::milliseconds(100);

abi::QueueHeader header_of(Word capacity) {
  return abi::queue_header(abi::EntryFormat::compact, capacity, false, 0);
}

Result<memory::SharedMemory> make_shared_memory(const abi::QueueHeader& queue) {
  const auto control = protocol::control_bytes(
      {.tenant_count = abi::kTenantCount, .observable_slots = kObservables});
  const auto debug_log = protocol::debug_log_bytes(kDebugRecords);
  const auto io_queue = protocol::io_queue_bytes(kIoSlots);
  for (const auto* part : {&control, &debug_log, &io_queue}) {
    if (!*part) return Failure(part->error());
  }
  return memory::SharedMemory::create(std::array{*control, *debug_log, *io_queue,
                                                 static_cast<std::size_t>(queue.producer_bytes),
                                                 static_cast<std::size_t>(queue.kernel_bytes)});
}

// Provides what the run before left, or makes it.
Result<void> provide(RunMemory& memory, backend::WorkGraph& graph, Word capacity) {
  const abi::QueueHeader queue = header_of(capacity);
  if (!memory.shared_memory ||
      memory.shared_memory->part(kProducerFile).size() != queue.producer_bytes) {
    memory.shared_memory = EVERKERNEL_TRY(make_shared_memory(queue));
    ++memory.shared_memory_allocations;
  }
  if (memory.doorbell == nullptr) memory.doorbell = EVERKERNEL_TRY(backend::Doorbell::create());
  graph.left = memory.left.take(capacity);
  return {};
}

}  // namespace

Result<std::unique_ptr<RunFeed>> RunFeed::create(RunMemory& memory, backend::WorkGraph& graph,
                                                 const FeedOptions& options) {
  EVERKERNEL_TRY(provide(memory, graph, options.capacity));
  std::unique_ptr<RunFeed> feed(new RunFeed(memory, graph, options));
  EVERKERNEL_TRY(feed->prepare());
  graph.refill = {[](void* self) { return static_cast<RunFeed*>(self)->refill(); }, feed.get()};
  return feed;
}

RunFeed::RunFeed(RunMemory& memory, backend::WorkGraph& graph, const FeedOptions& options)
    : memory_(memory),
      graph_(graph),
      options_(options),
      producer_(header_of(options.capacity), memory.shared_memory->part(kProducerFile).data(),
                memory.shared_memory->part(kKernelFile).data()),
      kernel_side_(producer_.header(), memory.shared_memory->part(kProducerFile).data(),
                   memory.shared_memory->part(kKernelFile).data()) {}

Result<void> RunFeed::prepare() {
  const auto control = memory_.shared_memory->part(kControl);
  EVERKERNEL_TRY(protocol::encode_control(
      {.tenant_count = abi::kTenantCount, .observable_slots = kObservables}, control));
  EVERKERNEL_TRY(protocol::encode_debug_log(kDebugRecords, memory_.shared_memory->part(kDebugLog)));
  EVERKERNEL_TRY(protocol::encode_io_queue(kIoSlots, memory_.shared_memory->part(kIoQueue)));
  // Zeroed memory holds no valid entry: what the run before left there is gone.
  const auto producer_file = memory_.shared_memory->part(kProducerFile);
  const auto kernel_file = memory_.shared_memory->part(kKernelFile);
  std::ranges::fill(producer_file, std::byte{0});
  std::ranges::fill(kernel_file, std::byte{0});
  protocol::encode_queue(producer_.header(), producer_file, kernel_file);
  auto writer = *protocol::LiveControlWriter::bind(control);
  for (Word tenant = 0; tenant < options_.tenant_quotas.size(); ++tenant) {
    EVERKERNEL_TRY(writer.set_tenant_quota(tenant, options_.tenant_quotas[tenant]));
  }
  stats_.bytes_uploaded += memory_.shared_memory->size_bytes();
  return {};
}

Result<FeedStats> RunFeed::run(backend::Kernel& kernel, memory::BufferTableView buffers,
                               std::span<const Word> waves, Word order_end) {
  const auto begin = Clock::now();
  live_ = EVERKERNEL_TRY(kernel.start_graph({.control = memory_.shared_memory->part(kControl),
                                             .debug_log = memory_.shared_memory->part(kDebugLog),
                                             .io_queue = memory_.shared_memory->part(kIoQueue),
                                             .buffers = buffers,
                                             .queue = &kernel_side_,
                                             .doorbell = memory_.doorbell.get(),
                                             .worker_count = options_.worker_count,
                                             .graph = &graph_}));
  next_progress_ = begin + kProgressInterval;
  for (std::size_t wave = 0; wave < waves.size(); ++wave) {
    const bool is_in_time =
        EVERKERNEL_TRY(feed_wave(wave + 1 < waves.size() ? waves[wave + 1] : order_end));
    if (!is_in_time) break;
  }
  stats_.dispatch_ns = nanoseconds_since(begin);
  end();
  EVERKERNEL_TRY(live_->health());  // fails if results did not come back from a device
  stats_.counters = live_->flush_counters();
  stats_.published_end = next_place_;
  report_progress();
  return stats_;
}

RunFeed::~RunFeed() {
  end();
}

// Workers use this object until they have left.
void RunFeed::end() {
  if (live_ == nullptr) return;
  {
    const std::scoped_lock held(lock_);
    is_over_ = true;
  }
  live_->stop(backend::deadline_after(kRunStopTimeout));
}

// Publishes up to place `end` of the order and waits until all of it has ended; false if the
// deadline or a SHUTDOWN came first.
Result<bool> RunFeed::feed_wave(Word end) {
  {
    const std::scoped_lock held(lock_);
    wave_end_ = end;
  }
  for (int looks = 0;; ++looks) {
    {
      const std::scoped_lock held(lock_);
      static_cast<void>(step());
      if (has_ended()) return true;
    }
    if (looks < kSpinLooks) {
      spin_pause();
      continue;
    }
    if (looks == kSpinLooks) ++stats_.sync_points;
    const auto now = Clock::now();
    if (options_.deadline.has_passed()) return false;
    EVERKERNEL_TRY(live_->health());
    if (!live_->is_running()) {  // an item set SHUTDOWN
      const std::scoped_lock held(lock_);
      note();
      return has_ended();
    }
    if (now >= next_progress_) report_progress();
    std::unique_lock held(wake_mutex_);
    wake_.wait_until(held, std::min(options_.deadline.time, now + kLookInterval),
                     [this] { return has_woken_; });
    has_woken_ = false;
  }
}

// Called by a worker that has run out of tickets. Fills the queue if the wave has more regions, and
// wakes the host if the wave has ended.
bool RunFeed::refill() {
  if (!lock_.try_lock()) return false;
  const bool has_more = !is_over_ && step();
  const bool is_end = !is_over_ && has_ended();
  lock_.unlock();
  if (is_end) {
    {
      const std::scoped_lock held(wake_mutex_);
      has_woken_ = true;
    }
    wake_.notify_one();
  }
  return has_more;
}

// Notes what has ended and fills the room; returns whether it published anything.
bool RunFeed::step() {
  note();
  bool has_more = false;
  while (next_place_ < wave_end_) {
    const LongWord room = noted_ + producer_.capacity() - producer_.tail();
    if (room == 0) break;
    publish(room);
    has_more = true;
  }
  return has_more;
}

// The first entry is stored last: workers wait for it, and then find all the others. The tail moves
// behind the entries, because whoever holds the lock is the only producer.
void RunFeed::publish(LongWord room) {
  const auto begin = Clock::now();
  LongWord first = producer_.tail();
  const LongWord limit = first + std::min<LongWord>(room, options_.largest_batch);
  const Portion opening = make_portion();
  if (opening.regions == 0) return;
  LongWord end = first + 1;
  for (; end < limit; ++end) {
    const Portion portion = make_portion();
    if (portion.regions == 0) break;
    store(end, portion);
  }
  store(first, opening);
  const LongWord count = end - first;
  producer_.move_tail(first, end);
  producer_.raise_filled(end);
  memory_.doorbell->announce(static_cast<Word>(count));
  stats_.tickets += count;
  stats_.bytes_uploaded += count * abi::kQuadBytes;
  ++stats_.batches;
  stats_.publish_ns += nanoseconds_since(begin);
}

// The next regions of the order; none if the wave has none left.
Portion RunFeed::make_portion() {
  const Word end = wave_end_;
  const auto item_at = [&](Word place) {
    return graph_.order.empty() ? place : graph_.order[place];
  };
  while (next_place_ < end && graph_.places[item_at(next_place_)] != 0) ++next_place_;
  const Word first = next_place_;
  Word regions = 0;
  while (next_place_ < end && regions < options_.regions_per_ticket) {
    if (graph_.places[item_at(next_place_)] == 0) ++regions;
    ++next_place_;
  }
  stats_.most_regions = std::max(stats_.most_regions, regions);
  return {.first = first, .count = next_place_ - first, .regions = regions};
}

void RunFeed::store(LongWord ticket, const Portion& portion) {
  graph_.left[producer_.place_of(ticket)] = portion.regions;
  producer_.store(ticket, portion.entry());
}

// A ticket of a run ends as DONE, however its items ended.
void RunFeed::note() {
  noted_ += producer_.count_done(noted_, producer_.tail() - noted_);
}

void RunFeed::report_progress() {
  if (options_.progress == nullptr) return;
  next_progress_ = Clock::now() + kProgressInterval;
  const backend::LiveCounters counters = live_->flush_counters();
  (*options_.progress)(
      {.items_ended = counters.done + counters.faulted, .item_count = options_.item_count});
}

}  // namespace everkernel
