// The host's half of a planned run. The thread that holds the lock publishes and reaps: the calling
// thread, or a worker that ran out of slots and would otherwise wait for that thread to wake up.
#include "runtime/run_feed.hpp"

#include <algorithm>
#include <array>
#include <mutex>

#include "base/spin.hpp"
#include "everkernel/protocol/control.hpp"
#include "everkernel/protocol/debug_log.hpp"
#include "everkernel/protocol/io_queue.hpp"
#include "everkernel/protocol/ring.hpp"
#include "runtime/elapsed.hpp"

namespace everkernel {
namespace {

using abi::SlotStatus;
using backend::Clock;
using backend::Portion;

enum Part : std::size_t { kControl, kRing, kDebugLog, kIoQueue };

constexpr Word kObservables = 64;
constexpr Word kDebugRecords = 1024;
constexpr Word kIoSlots = 16;
// Polls of the host before it leaves its core to the workers, and how long it sleeps then. Workers
// feed the ring meanwhile and wake the host when a wave has ended.
constexpr int kSpinLooks = 200;
constexpr auto kLookInterval = std::chrono::milliseconds(2);
constexpr auto kProgressInterval = std::chrono::milliseconds(100);

Result<memory::SharedMemory> make_shared_memory(Word slot_count) {
  const auto control = protocol::control_bytes(
      {.tenant_count = abi::kTenantCount, .observable_slots = kObservables});
  const auto ring = protocol::ring_bytes(slot_count);
  const auto debug_log = protocol::debug_log_bytes(kDebugRecords);
  const auto io_queue = protocol::io_queue_bytes(kIoSlots);
  for (const auto* part : {&control, &ring, &debug_log, &io_queue}) {
    if (!*part) return Failure(part->error());
  }
  return memory::SharedMemory::create(std::array{*control, *ring, *debug_log, *io_queue});
}

// Provides the portions of the ring's slots, and shared memory for the ring if none of that size is
// there.
Result<void> provide(RunMemory& memory, backend::WorkGraph& graph, Word slot_count) {
  const std::size_t ring_bytes = std::size_t{slot_count} * abi::kSlotBytes;
  if (!memory.shared_memory || memory.shared_memory->part(kRing).size() != ring_bytes) {
    memory.shared_memory = EVERKERNEL_TRY(make_shared_memory(slot_count));
    ++memory.shared_memory_allocations;
  }
  graph.portions = memory.portions.take(slot_count);
  return {};
}

}  // namespace

Result<std::unique_ptr<RunFeed>> RunFeed::create(RunMemory& memory, backend::WorkGraph& graph,
                                                 const FeedOptions& options) {
  EVERKERNEL_TRY(provide(memory, graph, options.slot_count));
  std::unique_ptr<RunFeed> feed(new RunFeed(memory, graph, options));
  EVERKERNEL_TRY(feed->prepare());
  graph.refill = {[](void* self) { return static_cast<RunFeed*>(self)->refill(); }, feed.get()};
  return feed;
}

RunFeed::RunFeed(RunMemory& memory, backend::WorkGraph& graph, const FeedOptions& options)
    : memory_(memory),
      graph_(graph),
      options_(options),
      slot_mask_(options.slot_count - 1),
      ring_(*protocol::LiveWords::bind(protocol::Buffer::ring, memory.shared_memory->part(kRing))),
      desk_(0),
      bell_(options.ringer_count) {}

Result<void> RunFeed::prepare() {
  const auto control = memory_.shared_memory->part(kControl);
  EVERKERNEL_TRY(protocol::encode_control(
      {.tenant_count = abi::kTenantCount, .observable_slots = kObservables}, control));
  EVERKERNEL_TRY(protocol::encode_ring(options_.slot_count, memory_.shared_memory->part(kRing)));
  EVERKERNEL_TRY(protocol::encode_debug_log(kDebugRecords, memory_.shared_memory->part(kDebugLog)));
  EVERKERNEL_TRY(protocol::encode_io_queue(kIoSlots, memory_.shared_memory->part(kIoQueue)));
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
                                             .ring = memory_.shared_memory->part(kRing),
                                             .debug_log = memory_.shared_memory->part(kDebugLog),
                                             .io_queue = memory_.shared_memory->part(kIoQueue),
                                             .buffers = buffers,
                                             .desk = &desk_,
                                             .bell = &bell_,
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
  desk_.close();
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
      reap();
      return has_ended();
    }
    if (now >= next_progress_) report_progress();
    std::unique_lock held(wake_mutex_);
    wake_.wait_until(held, std::min(options_.deadline.time, now + kLookInterval),
                     [this] { return has_woken_; });
    has_woken_ = false;
  }
}

// Called by a worker that has run out of slots. Fills the ring if the wave has more regions, and
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

// Frees slots that have ended and fills free slots; returns whether it published any.
bool RunFeed::step() {
  reap();
  bool has_more = false;
  while (next_place_ < wave_end_) {
    const std::uint64_t room = reaped_ + slot_mask_ - next_ticket_;
    if (room == 0) break;
    publish(room);
    has_more = true;
  }
  return has_more;
}

void RunFeed::publish(std::uint64_t room) {
  const auto begin = Clock::now();
  const std::uint64_t first = next_ticket_;
  const std::uint64_t most = std::min<std::uint64_t>(room, options_.largest_batch);
  std::uint64_t count = 0;
  while (count < most && make_portion(slot_of(first + count))) ++count;
  if (count == 0) return;
  const auto place = desk_.reserve(count, first + count);
  // The first slot is published last: workers wait for it, and then find all the others.
  for (std::uint64_t ticket = first + 1; ticket < first + count; ++ticket) {
    store(ticket, graph_.portions[slot_of(ticket)].first);
  }
  store(first, graph_.portions[slot_of(first)].first);
  if (place) desk_.wake(place->sleepers);
  next_ticket_ += count;
  stats_.tickets += count;
  stats_.bytes_uploaded += count * abi::kSlotBytes;
  ++stats_.batches;
  stats_.publish_ns += nanoseconds_since(begin);
}

// Makes the next regions of the order the portion of a slot; false if the wave has none left.
bool RunFeed::make_portion(Word slot) {
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
  if (regions == 0) return false;
  graph_.portions[slot] = {.first = first, .count = next_place_ - first, .left = regions};
  stats_.most_regions = std::max(stats_.most_regions, regions);
  return true;
}

// A slot shows the first item of its portion.
void RunFeed::store(std::uint64_t ticket, Word first_place) {
  const Word first = graph_.order.empty() ? first_place : graph_.order[first_place];
  const abi::WorkItem& item = graph_.items[first];
  const backend::Origin& origin = graph_.origin_of(first);
  const std::array<Word, 3> args{item.input_handle, item.output_handle, item.param};
  ring_.store_slot(slot_of(ticket),
                   {item.op_handle, origin.tenant, abi::priority_word(origin.priority, 0)}, args);
}

// Frees the slots of tickets that have ended, in order.
void RunFeed::reap() {
  while (reaped_ < next_ticket_) {
    const std::size_t line = std::size_t{slot_of(reaped_)} * abi::kSlotWords;
    if (SlotStatus{ring_.load_acquire(line)} != SlotStatus::done) break;
    ring_.store_relaxed(line, static_cast<Word>(SlotStatus::empty));
    ++reaped_;
  }
}

void RunFeed::report_progress() {
  if (options_.progress == nullptr) return;
  next_progress_ = Clock::now() + kProgressInterval;
  const backend::LiveCounters counters = live_->flush_counters();
  (*options_.progress)(
      {.items_ended = counters.done + counters.faulted, .item_count = options_.item_count});
}

}  // namespace everkernel
