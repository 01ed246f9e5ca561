// Makes ring images of queues and decodes them.
#include "runtime/session_snapshot.hpp"

#include <algorithm>

#include "everkernel/protocol/control.hpp"
#include "runtime/elapsed.hpp"

namespace everkernel {
namespace {

using abi::LongWord;
using abi::OutcomeCode;
using abi::Slot;
using abi::SlotStatus;
using backend::Clock;
using std::chrono::milliseconds;

// A slot with the entry of a ticket, if it is still the ticket's, and a status.
Slot slot_of(const backend::LiveQueue& queue, LongWord ticket, SlotStatus status) {
  Slot slot = queue.words.copy_slot(ticket).value_or(Slot{});
  slot.status = status;
  slot.tenant = queue.tenant;
  slot.priority = abi::priority_word(queue.priority, 0);
  return slot;
}

}  // namespace

// The window of live tickets begins at the floor. A place whose ticket is not published yet shows
// the item that ended there one lap before.
void SnapshotTaker::append(const live::QueueCore& core, const backend::LiveKernel& kernel,
                           std::vector<QueueSnapshot>& queues) {
  backend::LiveQueue& queue = *core.live();
  const Word capacity = queue.words.capacity();
  QueueSnapshot summary{.queue = core.id(),
                        .tenant = core.options().tenant,
                        .priority = core.options().priority,
                        .capacity = capacity,
                        .first_slot = slots_.size(),
                        .counters = core.counters()};
  const LongWord floor = queue.raise_floor();
  const LongWord head = queue.head.load(std::memory_order_acquire);
  slots_.resize(slots_.size() + capacity);
  Slot* const places = slots_.data() + summary.first_slot;
  const auto show = [&](LongWord ticket, const Slot& slot) {
    places[queue.words.place_of(ticket)] = slot;
  };
  const auto end_of = [&](LongWord ticket, OutcomeCode code) {
    Slot slot =
        slot_of(queue, ticket, code == OutcomeCode::fault ? SlotStatus::fault : SlotStatus::done);
    if (code == OutcomeCode::fault) {
      const auto found = core.fault_code(ticket);
      slot.priority = abi::priority_word(queue.priority, found.value_or(0));
    }
    return slot;
  };
  for (LongWord ticket = floor; ticket < floor + capacity; ++ticket) {
    const OutcomeCode code = queue.words.outcome(ticket);
    if (code != OutcomeCode::none) {
      show(ticket, end_of(ticket, code));
    } else if (ticket < head) {
      show(ticket, slot_of(queue, ticket, SlotStatus::claimed));
      ++summary.taken;
    } else if (queue.words.peek(ticket)) {
      show(ticket, slot_of(queue, ticket, SlotStatus::published));
      ++summary.waiting;
    } else if (ticket >= queue.words.first_ticket() + capacity) {
      show(ticket, end_of(ticket - capacity, queue.words.outcome(ticket - capacity)));
    }
  }
  waiting_.clear();
  kernel.copy_waiting(queue, waiting_);
  for (const backend::LiveItem& item : waiting_) {
    const bool is_live = item.ticket >= floor && item.ticket < floor + capacity;
    if (!is_live || queue.words.has_ended(item.ticket)) continue;
    Slot slot = slot_of(queue, item.ticket, item.slot.status);
    std::ranges::copy(item.slot.args, slot.args);
    show(item.ticket, slot);
  }
  if (summary.taken + summary.waiting != 0) {
    const LongWord end = queue.words.first_ticket() + summary.counters.published;
    const auto known = core.times().least_age(floor, core.is_given() ? 0 : end);
    summary.oldest_age = std::max(time_in_sight(core.id(), floor), known.value_or(milliseconds(0)));
  }
  if (!core.is_given()) summary.published_to_end = core.times().histogram();
  summary.taken_to_end = queue.taken_to_end();
  const protocol::ControlView control = *protocol::ControlView::parse(control_copy_);
  summary.is_enabled = control.tenant_enabled(queue.tenant);
  summary.quota = control.tenant_quota(queue.tenant);
  queues.push_back(summary);
}

milliseconds SnapshotTaker::time_in_sight(std::uint32_t queue, LongWord ticket) {
  const auto now = Clock::now();
  auto sight = std::ranges::find(sights_, queue, &Sight::queue);
  if (sight == sights_.end()) {
    sights_.push_back({.queue = queue, .ticket = ticket, .since = now});
    sight = sights_.end() - 1;
  }
  if (sight->ticket != ticket) *sight = {.queue = queue, .ticket = ticket, .since = now};
  sight->is_fresh = true;
  return std::chrono::duration_cast<milliseconds>(now - sight->since);
}

Result<void> SnapshotTaker::take(const Scene& scene, SessionSnapshot& target) {
  control_copy_.resize(scene.control.size() * abi::kWordBytes);
  EVERKERNEL_TRY(scene.control.copy_to(control_copy_));
  slots_.clear();
  target.queues.clear();
  for (Sight& sight : sights_) sight.is_fresh = false;
  for (const auto& queue : scene.queues) append(*queue, *scene.kernel, target.queues);
  std::erase_if(sights_, [](const Sight& sight) { return !sight.is_fresh; });
  const std::span<const std::byte> control = control_copy_;
  const std::span<const std::byte> ring = std::as_bytes(std::span(slots_));
  auto begin = Clock::now();
  EVERKERNEL_TRY(
      telemetry::decode({.control = control, .observables = true}, scratch_, control_only_));
  const std::uint64_t control_ns = nanoseconds_since(begin);
  begin = Clock::now();
  EVERKERNEL_TRY(telemetry::decode({.control = control,
                                    .ring = ring,
                                    .window_opcodes = scene.window_opcodes,
                                    .observables = true},
                                   scratch_, target.telemetry));
  const std::uint64_t both_ns = nanoseconds_since(begin);
  // Entries are written in the memory that workers read, so a published item is not copied.
  std::uint64_t in_place = 0;
  for (const auto& queue : scene.queues) {
    in_place += queue->counters().published * static_cast<Word>(queue->options().entries);
  }
  target.evidence = {.resident_device_bytes = scene.resident_bytes,
                     .host_copy_bytes = control.size() + ring.size(),
                     .host_copy_avoided_bytes = in_place - std::min(in_place, reported_bytes_),
                     .ring_occupancy = target.telemetry.occupancy,
                     .control_decode_ns = control_ns,
                     .ring_decode_ns = both_ns - std::min(both_ns, control_ns),
                     .coverage = telemetry::RuntimeEvidenceMetricCoverage::complete()};
  reported_bytes_ = in_place;
  return {};
}

}  // namespace everkernel
