// A bounded dispatch: check every buffer, copy host bytes to the device, launch, read back, check.
#include "everkernel/runtime/dispatch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <utility>

#include "everkernel/memory/available.hpp"
#include "everkernel/protocol/control.hpp"
#include "everkernel/protocol/debug_log.hpp"
#include "everkernel/protocol/io_queue.hpp"
#include "everkernel/protocol/ring.hpp"
#include "runtime/elapsed.hpp"
#include "runtime/out_of_memory.hpp"
#include "runtime/state.hpp"

namespace everkernel {
namespace {

using backend::Clock;
using protocol::Buffer;
using ByteSpans = std::array<std::span<const std::byte>, kSubmissionBuffers>;

// A submission without a log or queue gets a log without records and a queue of one slot.
constexpr std::array<std::byte, abi::kWordBytes> kNoLog{};
constexpr std::array<std::byte, abi::kIoSlotBytes> kOneIoSlot{};

ByteSpans spans_of(const HostBuffers& buffers) {
  ByteSpans spans{buffers.control, buffers.ring, buffers.debug_log, buffers.io_queue};
  if (spans[2].empty()) spans[2] = kNoLog;
  if (spans[3].empty()) spans[3] = kOneIoSlot;
  return spans;
}

// Whether the four buffers fit the wire format and the ring has `slot_count` slots.
Result<void> check_buffers(const ByteSpans& spans, Word slot_count) {
  EVERKERNEL_TRY(protocol::ControlView::parse(spans[0]));
  const protocol::RingView ring = EVERKERNEL_TRY(protocol::RingView::parse(spans[1]));
  if (ring.slot_count() != slot_count) {
    return fail(
        Code::invalid_argument,
        fmt::format("ring: it has {} slots, the megakernel has {}", ring.slot_count(), slot_count),
        "create the megakernel with the slot count of its rings");
  }
  EVERKERNEL_TRY(protocol::DebugLogView::parse(spans[2]));
  EVERKERNEL_TRY(protocol::IoQueueView::parse(spans[3]));
  return {};
}

std::uint64_t per_second(std::uint64_t amount, std::uint64_t time_ns) {
  if (time_ns == 0) return 0;
  __extension__ using Wide = unsigned __int128;
  const Wide rate = Wide{amount} * 1'000'000'000u / time_ns;
  return static_cast<std::uint64_t>(std::min<Wide>(rate, ~std::uint64_t{0}));
}

std::size_t read_back_count(Readback readback) {
  switch (readback) {
    case Readback::none:
      return 0;
    case Readback::control:
      return 1;
    case Readback::full:
      return kSubmissionBuffers;
  }
  return 0;
}

}  // namespace

std::uint64_t DispatchStats::output_bytes_per_second() const {
  return per_second(output_bytes, latency_ns);
}
std::uint64_t DispatchStats::readback_bytes_per_second() const {
  return per_second(readback_bytes, latency_ns);
}
std::uint64_t DispatchStats::bytes_moved_per_second() const {
  return per_second(bytes_moved, latency_ns);
}
std::uint64_t DispatchStats::device_allocation_bytes_per_second() const {
  return per_second(device_allocation_bytes, latency_ns);
}

namespace runtime {

/// Memory of a dispatch, kept so that the next dispatch of the same shape allocates nothing.
struct WorkspaceStorage {
  struct Staging {
    std::array<std::unique_ptr<backend::Memory>, kSubmissionBuffers> memories;
  };
  using Bytes = std::array<std::vector<std::byte>, kSubmissionBuffers>;

  std::weak_ptr<Megakernel::State> owner;  // the megakernel whose device holds the staging
  std::uint64_t generation = 0;
  std::vector<Staging> staging;
  std::vector<backend::DeviceBuffers> rows;
  std::vector<backend::DrainCounts> counts;
  std::vector<Bytes> bytes;     // of the last report
  std::vector<Bytes> incoming;  // of the next report, once they are checked
  std::vector<SubmissionReport> reports;
  std::vector<abi::Hit> hits;                      // of all submissions, one after the other
  std::vector<backend::HitBuffer> hit_buffers;     // part of `hits` of each submission
  std::deque<std::atomic<std::uint64_t>> emitted;  // one a submission
};

namespace {

// One attempt at a dispatch. The launch mutex is held.
class Attempt {
 public:
  Attempt(Megakernel::State& state, const DispatchOptions& options, WorkspaceStorage& storage,
          DispatchStats& stats)
      : state_(state), options_(options), storage_(storage), stats_(stats) {}

  Result<void> run(const backend::Deadline& deadline) {
    EVERKERNEL_TRY(stage());
    const auto table = state_.current_table();
    storage_.counts.assign(options_.submissions.size(), {});
    provide_report();
    const backend::LaunchStats cost =
        EVERKERNEL_TRY(state_.kernel->launch({.submissions = storage_.rows,
                                              .buffers = table->table.view(),
                                              .deadline = deadline,
                                              .counts = storage_.counts,
                                              .hits = provide_hits()}));
    for (backend::DrainCounts& counts : storage_.counts) {
      const bool is_cut = counts.end == backend::DrainEnd::deadline;
      if (is_cut && deadline.is_stop_requested()) counts.end = backend::DrainEnd::stopped;
    }
    stats_.kernel_launches += cost.kernel_launches;
    stats_.sync_points += cost.sync_points;
    EVERKERNEL_TRY(read_back());
    EVERKERNEL_TRY(refresh_copies(*table));
    report();
    return {};
  }

 private:
  Result<void> stage() {
    const bool is_foreign =
        storage_.owner.lock().get() != &state_ || storage_.generation != state_.generation;
    if (is_foreign) {
      storage_.staging.clear();
      storage_.owner = state_.weak_from_this();
      storage_.generation = state_.generation;
    }
    const std::size_t count = options_.submissions.size();
    if (storage_.staging.size() < count) storage_.staging.resize(count);
    storage_.rows.assign(count, {});
    for (std::size_t i = 0; i < count; ++i) {
      const Submission& submission = options_.submissions[i];
      if (const auto* host = std::get_if<HostBuffers>(&submission)) {
        EVERKERNEL_TRY(stage_host(*host, storage_.staging[i], storage_.rows[i]));
      } else {
        use_resident(*std::get<ResidentBuffers*>(submission), storage_.rows[i]);
      }
    }
    return {};
  }

  Result<void> stage_host(const HostBuffers& host, WorkspaceStorage::Staging& staging,
                          backend::DeviceBuffers& row) {
    const ByteSpans spans = spans_of(host);
    for (std::size_t i = 0; i < kSubmissionBuffers; ++i) {
      auto& memory = staging.memories[i];
      if (memory == nullptr || memory->size_bytes() != spans[i].size()) {
        memory = EVERKERNEL_TRY(state_.backend->allocate(spans[i].size()));
        stats_.device_allocation_bytes += spans[i].size();
        ++stats_.device_allocation_events;
      }
      EVERKERNEL_TRY(memory->write(0, spans[i]));
      stats_.input_bytes += spans[i].size();
    }
    set_row(row, [&](std::size_t i) { return staging.memories[i].get(); });
    return {};
  }

  void use_resident(ResidentBuffers& resident, backend::DeviceBuffers& row) {
    auto& buffers = resident.state().buffers;
    set_row(row, [&](std::size_t i) { return buffers[i].memory.get(); });
    ++stats_.resident_resource_rows;
    stats_.resident_resource_handles += kSubmissionBuffers;
  }

  static void set_row(backend::DeviceBuffers& row, const auto& memory_at) {
    row = {.control = memory_at(0),
           .ring = memory_at(1),
           .debug_log = memory_at(2),
           .io_queue = memory_at(3)};
  }

  // Makes room for the report before anything runs: afterwards, a failed allocation would lose the
  // results of items that have run. Both sides of the swap in report() grow together, so that the
  // second dispatch of a shape finds room.
  void provide_report() {
    const std::size_t wanted = read_back_count(options_.readback);
    const std::size_t rows = std::max(storage_.incoming.size(), storage_.rows.size());
    storage_.incoming.resize(rows);
    storage_.bytes.resize(rows);
    storage_.reports.reserve(rows);
    for (std::size_t i = 0; i < storage_.rows.size(); ++i) {
      const auto memories = memories_of(storage_.rows[i]);
      for (std::size_t j = 0; j < wanted; ++j) {
        storage_.incoming[i][j].reserve(memories[j]->size_bytes());
        storage_.bytes[i][j].reserve(memories[j]->size_bytes());
      }
    }
  }

  static std::array<backend::Memory*, kSubmissionBuffers> memories_of(
      const backend::DeviceBuffers& row) {
    return {row.control, row.ring, row.debug_log, row.io_queue};
  }

  Result<void> read_back() {
    const std::size_t wanted = read_back_count(options_.readback);
    for (std::size_t i = 0; i < storage_.rows.size(); ++i) {
      const auto memories = memories_of(storage_.rows[i]);
      for (std::size_t j = 0; j < kSubmissionBuffers; ++j) {
        stats_.output_bytes += memories[j]->size_bytes();
        auto& bytes = storage_.incoming[i][j];
        bytes.resize(j < wanted ? memories[j]->size_bytes() : 0);
        if (bytes.empty()) continue;
        EVERKERNEL_TRY(memories[j]->read(0, bytes));
        stats_.readback_bytes += bytes.size();
        ++stats_.output_buffers;
      }
      EVERKERNEL_TRY(check_readback(storage_.incoming[i], wanted));
    }
    return {};
  }

  // Handlers may have written anything: bytes are checked before a report shows them.
  Result<void> check_readback(const WorkspaceStorage::Bytes& bytes, std::size_t wanted) const {
    if (wanted == kSubmissionBuffers) {
      return check_buffers({bytes[0], bytes[1], bytes[2], bytes[3]},
                           state_.options.geometry.slot_count);
    }
    if (wanted == 1) EVERKERNEL_TRY(protocol::ControlView::parse(bytes[0]));
    return {};
  }

  Result<void> refresh_copies(const TableSnapshot& table) const {
    EVERKERNEL_TRY(table.refresh_copies());
    for (const Submission& submission : options_.submissions) {
      if (const auto* resident = std::get_if<ResidentBuffers*>(&submission)) {
        for (KeptMemory& memory : (*resident)->state().buffers) {
          EVERKERNEL_TRY(memory.refresh());
        }
      }
    }
    return {};
  }

  std::span<const backend::HitBuffer> provide_hits() {
    if (options_.hit_capacity == 0) return {};
    const std::size_t count = options_.submissions.size();
    storage_.hits.resize(count * options_.hit_capacity);
    while (storage_.emitted.size() < count) storage_.emitted.emplace_back();
    storage_.hit_buffers.clear();
    for (std::size_t i = 0; i < count; ++i) {
      storage_.emitted[i].store(0, std::memory_order_relaxed);
      const auto room =
          std::span(storage_.hits).subspan(i * options_.hit_capacity, options_.hit_capacity);
      storage_.hit_buffers.push_back({room, &storage_.emitted[i]});
    }
    return storage_.hit_buffers;
  }

  // A slot's hits were emitted one after the other: a stable sort keeps their order.
  std::span<const abi::Hit> take_hits(std::size_t submission) {
    if (options_.hit_capacity == 0) return {};
    const backend::HitBuffer& buffer = storage_.hit_buffers[submission];
    const std::uint64_t emitted = buffer.emitted->load(std::memory_order_acquire);
    const auto hits = buffer.places.first(std::min<std::size_t>(emitted, buffer.places.size()));
    std::ranges::stable_sort(hits, {}, &abi::Hit::item);
    return hits;
  }

  void report() {
    storage_.bytes.swap(storage_.incoming);
    storage_.reports.clear();
    for (std::size_t i = 0; i < storage_.rows.size(); ++i) {
      const auto& bytes = storage_.bytes[i];
      const backend::DrainCounts& counts = storage_.counts[i];
      const auto hits = take_hits(i);
      storage_.reports.push_back({bytes[0], bytes[1], bytes[2], bytes[3], counts, hits});
      stats_.hits += hits.size();
      stats_.items_done += counts.done;
      stats_.items_faulted += counts.faulted;
      stats_.items_remaining += counts.remaining;
      stats_.hits_dropped += counts.hits_dropped;
    }
  }

  Megakernel::State& state_;
  const DispatchOptions& options_;
  WorkspaceStorage& storage_;
  DispatchStats& stats_;
};

}  // namespace
}  // namespace runtime

Workspace::Workspace() = default;
Workspace::Workspace(Workspace&&) noexcept = default;
Workspace& Workspace::operator=(Workspace&&) noexcept = default;
Workspace::~Workspace() = default;

namespace {

Result<void> check_submission(const Megakernel::State& state, const Submission& submission) {
  if (const auto* host = std::get_if<HostBuffers>(&submission)) {
    return check_buffers(spans_of(*host), state.options.geometry.slot_count);
  }
  const ResidentBuffers* const resident = std::get<ResidentBuffers*>(submission);
  if (resident != nullptr && resident->state().owner.lock().get() == &state) return {};
  return fail(Code::invalid_argument,
              resident == nullptr ? "the pointer to its resident buffers is null"
                                  : "its resident buffers belong to another megakernel",
              "create them with make_resident() of the megakernel that dispatches them");
}

Result<void> check_options(const Megakernel::State& state, const DispatchOptions& options) {
  if (options.timeout <= std::chrono::nanoseconds(0)) {
    return fail(
        Code::invalid_argument,
        fmt::format("dispatch: timeout is {} ns, it must be positive", options.timeout.count()),
        "raise the timeout; the default is 60 s");
  }
  for (std::size_t i = 0; i < options.submissions.size(); ++i) {
    auto checked = check_submission(state, options.submissions[i]);
    if (checked) continue;
    if (options.submissions.size() > 1) {
      checked.error().message = fmt::format("submission {}: {}", i, checked.error().message);
    }
    return checked;
  }
  const std::uint64_t hits = std::uint64_t{options.hit_capacity} * options.submissions.size();
  return memory::check_available(hits * sizeof(abi::Hit), "dispatch: hit_capacity");
}

// A resident buffer set may appear only once in a dispatch: two drains would race on it.
Result<void> check_distinct(Megakernel::State& state, const DispatchOptions& options) {
  const std::uint64_t number = ++state.dispatches;
  for (std::size_t i = 0; i < options.submissions.size(); ++i) {
    const auto* const resident = std::get_if<ResidentBuffers*>(&options.submissions[i]);
    if (resident == nullptr) continue;
    if (std::exchange((*resident)->state().last_dispatch, number) != number) continue;
    return fail(
        Code::invalid_argument,
        fmt::format("submission {}: its resident buffers are also those of an earlier submission",
                    i),
        "give each submission buffers of its own");
  }
  return {};
}

}  // namespace

namespace runtime {
namespace {

// Attempts the dispatch, and once more after a recovery if the options say so. The launch mutex is
// held. Everything ends at the same deadline.
Result<void> attempt_dispatch(Megakernel::State& state, const DispatchOptions& options,
                              const backend::Deadline& deadline, WorkspaceStorage& storage,
                              DispatchStats& stats) {
  EVERKERNEL_TRY(check_distinct(state, options));
  if (options.submissions.empty()) return {};
  auto done = Attempt(state, options, storage, stats).run(deadline);
  const bool is_lost = !done && done.error().code == Code::device_lost;
  if (!is_lost || options.recovery != Recovery::retry_once) return done;
  const RecoveryDecision recovery = EVERKERNEL_TRY(state.recover_locked(deadline));
  if (recovery.buffers_lost != 0) {
    return fail(Code::device_lost,
                fmt::format("dispatch: the device was lost, and {} buffers without a host copy "
                            "with it",
                            recovery.buffers_lost),
                "the device is back and these buffers are zero: fill them, then dispatch again; "
                "keep_host_copy restores them");
  }
  stats = {};
  done = Attempt(state, options, storage, stats).run(deadline);
  stats.recovered_after_device_loss = true;
  return done;
}

}  // namespace
}  // namespace runtime

Result<DispatchReport> Megakernel::dispatch(const DispatchOptions& options) {
  const auto begin = Clock::now();
  const backend::Deadline deadline(backend::deadline_after(options.timeout), options.stop);
  const auto state = state_;  // this object may be destroyed before the call returns
  EVERKERNEL_TRY(state->home.check("megakernel"));
  EVERKERNEL_TRY(check_options(*state, options));
  return or_out_of_memory("dispatch", [&]() -> Result<DispatchReport> {
    DispatchReport report;
    Workspace& workspace = options.workspace != nullptr ? *options.workspace : report.own_workspace;
    if (workspace.storage_ == nullptr) {
      workspace.storage_ = std::make_unique<runtime::WorkspaceStorage>();
    }
    const auto held = EVERKERNEL_TRY(state->lock_launches("dispatch", deadline));
    EVERKERNEL_TRY(
        runtime::attempt_dispatch(*state, options, deadline, *workspace.storage_, report.stats));
    report.submissions = {workspace.storage_->reports.data(), options.submissions.size()};
    report.stats.bytes_moved = report.stats.input_bytes + report.stats.readback_bytes;
    report.stats.latency_ns = nanoseconds_since(begin);
    return report;
  });
}

namespace {

Result<std::shared_ptr<ResidentBuffers::State>> copy_to_device(Megakernel::State& state,
                                                               const ByteSpans& spans,
                                                               const ResidentOptions& options) {
  std::uint64_t generation = 0;
  static_cast<void>(state.current_kernel(&generation));
  auto resident = std::make_shared<ResidentBuffers::State>();
  resident->owner = state.weak_from_this();
  for (std::size_t i = 0; i < kSubmissionBuffers; ++i) {
    KeptMemory& memory = resident->buffers[i];
    memory.keeps_copy = options.keep_host_copy;
    EVERKERNEL_TRY(memory.allocate(*state.backend, spans[i].size()));
    EVERKERNEL_TRY(memory.write(0, spans[i]));
  }
  const std::scoped_lock held(state.table_mutex);
  if (state.generation != generation) {
    return fail(Code::device_lost,
                "resident buffers: the device was lost and recovered while they were made",
                "make them again");
  }
  // Expired entries are removed each time the list has doubled.
  if (state.residents.size() >= state.resident_sweep) {
    std::erase_if(state.residents, [](const auto& weak) { return weak.expired(); });
    state.resident_sweep = std::max<std::size_t>(64, 2 * state.residents.size());
  }
  state.residents.push_back(resident);
  return resident;
}

}  // namespace

Result<ResidentBuffers> Megakernel::make_resident(const HostBuffers& buffers,
                                                  const ResidentOptions& options) {
  EVERKERNEL_TRY(state_->home.check("megakernel"));
  const ByteSpans spans = spans_of(buffers);
  EVERKERNEL_TRY(check_buffers(spans, state_->options.geometry.slot_count));
  auto resident = EVERKERNEL_TRY(or_out_of_memory(
      "resident buffers", [&] { return copy_to_device(*state_, spans, options); }));
  return ResidentBuffers(std::move(resident));
}

}  // namespace everkernel
