// One pass over the ring: each slot is read once, copied to its snapshot, counted by status, and
// added to its window.
#include "everkernel/telemetry/decode.hpp"

#include <algorithm>
#include <random>

#include "everkernel/base/assert.hpp"
#include "everkernel/protocol/control.hpp"
#include "everkernel/protocol/ring.hpp"

namespace everkernel::telemetry {

using abi::Slot;
using protocol::ControlView;
using protocol::RingView;

DecodeScratch::DecodeScratch() {
  std::random_device random;
  seed_ = (std::uint64_t{random()} << 32) | random();
}

/// Groups slots into windows by (ticket, opcode).
class WindowGrouper {
 public:
  WindowGrouper(std::span<const Word> opcodes, DecodeScratch& scratch,
                std::vector<WindowTelemetry>& windows)
      : opcodes_(scratch.window_opcodes_),
        table_(scratch.table_),
        windows_(windows),
        seed_(scratch.seed_) {
    opcodes_.assign(opcodes.begin(), opcodes.end());
    std::ranges::sort(opcodes_);
    opcodes_.erase(std::unique(opcodes_.begin(), opcodes_.end()), opcodes_.end());
    windows_.clear();
    if (opcodes_.empty()) return;
    if (table_.empty()) table_.resize(kSmallestTable);
    std::ranges::fill(table_, 0u);
  }

  void add(const Slot& slot) {
    if (slot.status == RingStatus::empty || !is_window_opcode(slot.opcode)) return;
    WindowTelemetry& window = find(slot);
    window.required_slots += Word{slot.args[1] == 0};
    window.lookahead_slots += Word{slot.args[1] == 1};
    // Comparisons instead of a switch: statuses look random to the branch predictor, which would
    // mispredict most of them. An unknown status belongs to the window but has no count.
    window.published += Word{slot.status == RingStatus::published};
    window.claimed += Word{slot.status == RingStatus::claimed};
    window.done += Word{slot.status == RingStatus::done};
    window.wait_io += Word{slot.status == RingStatus::wait_io};
    window.yield_count += Word{slot.status == RingStatus::yield};
    window.requeue += Word{slot.status == RingStatus::requeue};
    window.fault += Word{slot.status == RingStatus::fault};
  }

  void finish() {
    const auto key = [](const WindowTelemetry& w) { return key_of(w.ticket, w.opcode); };
    // Windows are mostly published by rising ticket; then they are already sorted.
    if (!std::ranges::is_sorted(windows_, {}, key)) std::ranges::sort(windows_, {}, key);
  }

 private:
  static constexpr std::size_t kSmallestTable = 64;

  static std::uint64_t key_of(Word ticket, Word opcode) {
    return (std::uint64_t{ticket} << 32) | opcode;
  }

  // Every bit of the key affects every bit of the result. Tenants choose tickets: with a weaker
  // function, or a known seed, a tenant could make all of them collide.
  static std::uint64_t mix(std::uint64_t key) {
    key = (key ^ (key >> 33)) * 0xFF51AFD7ED558CCDu;
    key = (key ^ (key >> 33)) * 0xC4CEB9FE1A85EC53u;
    return key ^ (key >> 33);
  }

  bool is_window_opcode(Word opcode) const {
    if (opcodes_.size() == 1) return opcodes_.front() == opcode;
    return std::ranges::binary_search(opcodes_, opcode);
  }

  // Adjacent slots nearly always belong to the same window, so that of the last slot is tried
  // first.
  WindowTelemetry& find(const Slot& slot) {
    if (last_ < windows_.size() && windows_[last_].ticket == slot.args[0] &&
        windows_[last_].opcode == slot.opcode) {
      return windows_[last_];
    }
    if (2 * (windows_.size() + 1) > table_.size()) grow();
    Word& entry = table_[place(slot.args[0], slot.opcode)];
    if (entry == 0) {
      windows_.push_back({.ticket = slot.args[0], .tenant_id = slot.tenant, .opcode = slot.opcode});
      entry = static_cast<Word>(windows_.size());
    }
    last_ = entry - 1;
    return windows_[last_];
  }

  // The place of (ticket, opcode), or the free place for it. The table is at most half full, so
  // that the search ends.
  std::size_t place(Word ticket, Word opcode) const {
    const std::size_t mask = table_.size() - 1;
    // Sixteen consecutive tickets share a cache line of the table: they are mostly met in order.
    const std::uint64_t mixed = mix(key_of(ticket >> 4, opcode) ^ seed_);
    std::size_t at = (mixed ^ (ticket & 15)) & mask;
    while (table_[at] != 0) {
      const WindowTelemetry& window = windows_[table_[at] - 1];
      if (window.ticket == ticket && window.opcode == opcode) break;
      at = (at + 1) & mask;
    }
    return at;
  }

  void grow() {
    const std::size_t size = table_.size() * 2;
    table_.assign(size, 0);
    for (std::size_t i = 0; i < windows_.size(); ++i) {
      table_[place(windows_[i].ticket, windows_[i].opcode)] = static_cast<Word>(i + 1);
    }
  }

  std::vector<Word>& opcodes_;
  std::vector<Word>& table_;
  std::vector<WindowTelemetry>& windows_;
  std::uint64_t seed_;
  std::size_t last_ = 0;
};

namespace {

void decode_control(const ControlView& view, bool observables, ControlSnapshot& control) {
  control.shutdown = view.shutdown();
  control.done_count = view.done_count();
  control.epoch = view.epoch();
  control.fault_count = view.fault_count();
  control.debug_dropped = view.debug_dropped();
  control.metrics.clear();
  control.metrics.reserve(abi::kControlMetrics.count);  // so that later decodes do not allocate
  for (Word opcode = 0; opcode < abi::kControlMetrics.count; ++opcode) {
    const Word count = view.metric(opcode);
    if (count != 0) control.metrics.push_back({.opcode = opcode, .count = count});
  }
  control.enabled_tenants = 0;
  control.tenants_without_quota = 0;
  for (Word tenant = 0; tenant < control.tenant_fairness.size(); ++tenant) {
    control.tenant_fairness[tenant] = view.tenant_fairness(tenant);
    control.enabled_tenants |= Word{view.tenant_enabled(tenant)} << tenant;
    control.tenants_without_quota |= Word{view.tenant_quota(tenant) == 0} << tenant;
  }
  for (Word priority = 0; priority < abi::kPriorityCount; ++priority) {
    control.priority_fairness[priority] = view.priority_fairness(priority);
  }
  control.observables.resize(observables ? view.observable_count() : 0);
  for (Word i = 0; i < control.observables.size(); ++i)
    control.observables[i] = *view.observable(i);
}

// 1 for a slot that is claimable or CLAIMED and whose tenant may run, computed without a branch. A
// tenant id from 32 up has no mask and may not run.
Word is_runnable(const Slot& slot, Word enabled_tenants) {
  const bool can_move = abi::is_claimable(slot.status) || slot.status == RingStatus::claimed;
  const std::uint64_t enabled = std::uint64_t{enabled_tenants} >> std::min(slot.tenant, Word{63});
  return Word{can_move} & static_cast<Word>(enabled);
}

// Counts the slots that cannot move because of their tenant, and those that can. WAIT_IO moves when
// its request is served, whatever the tenant is.
struct Movement {
  Word stopped_tenants = 0;  // bit t: no slot of tenant t may be claimed
  Word movable = 0;
  Word blocked = 0;
  Word blocked_tenants = 0;

  void add(const Slot& slot) {
    const bool is_waiting = abi::is_claimable(slot.status);
    const bool is_on_its_way =
        slot.status == RingStatus::claimed || slot.status == RingStatus::wait_io;
    const bool is_stopped = slot.tenant < 32 && (stopped_tenants >> slot.tenant & 1) != 0;
    movable += Word{is_on_its_way || (is_waiting && !is_stopped)};
    if (!is_waiting || !is_stopped) return;
    ++blocked;
    blocked_tenants |= Word{1} << slot.tenant;
  }
};

// The upper half of the priority word has a meaning in a faulted slot only.
Word fault_code(const Slot& slot) {
  return slot.status == RingStatus::fault ? abi::fault_code_of(slot.priority) : 0;
}

void decode_ring(const RingView& view, std::span<const Word> window_opcodes, DecodeScratch& scratch,
                 RingTelemetry& telemetry) {
  telemetry.slots.resize(view.slot_count());
  WindowGrouper windows(window_opcodes, scratch, telemetry.windows);
  std::array<Word, abi::kSlotStatusCount + 1> counts{};
  Word runnable = 0;
  const Word enabled_tenants = telemetry.control.enabled_tenants;
  Movement movement{.stopped_tenants = ~enabled_tenants | telemetry.control.tenants_without_quota};
  for (Word i = 0; i < view.slot_count(); ++i) {
    const Slot slot = view.slot(i);
    telemetry.slots[i] = {.slot_idx = i,
                          .status = slot.status,
                          .tenant_id = slot.tenant,
                          .opcode = slot.opcode,
                          .priority = abi::priority_of(slot.priority),
                          .fault_code = fault_code(slot),
                          .args_prefix = {slot.args[0], slot.args[1], slot.args[2]}};
    ++counts[std::min(static_cast<Word>(slot.status), abi::kSlotStatusCount)];
    runnable += is_runnable(slot, enabled_tenants);
    movement.add(slot);
    if (!window_opcodes.empty()) windows.add(slot);
  }
  windows.finish();
  telemetry.runnable_slots = runnable;
  telemetry.movable_slots = movement.movable;
  telemetry.blocked_slots = movement.blocked;
  telemetry.blocked_tenants = movement.blocked_tenants;
  telemetry.occupancy = {.empty = counts[0],
                         .published = counts[1],
                         .claimed = counts[2],
                         .done = counts[3],
                         .wait_io = counts[4],
                         .yield_count = counts[5],
                         .requeue = counts[6],
                         .fault = counts[7],
                         .unknown = counts[8]};
}

}  // namespace

Result<void> decode(const DecodeRequest& request, DecodeScratch& scratch,
                    RingTelemetry& telemetry) {
  std::optional<ControlView> control;
  if (request.control) control = EVERKERNEL_TRY(ControlView::parse(*request.control));
  std::optional<RingView> ring;
  if (request.ring) ring = EVERKERNEL_TRY(RingView::parse(*request.ring));

  // Nothing fails from here on. Parts without a buffer are emptied and keep their storage.
  static constexpr std::array<std::byte, abi::kControlWords * abi::kWordBytes> kNoControl{};
  decode_control(control ? *control : *ControlView::parse(kNoControl), request.observables,
                 telemetry.control);
  decode_ring(ring ? *ring : *RingView::parse({}), request.window_opcodes, scratch, telemetry);
  if (!control) {  // which tenants may run is not known
    telemetry.control.tenants_without_quota = 0;
    telemetry.movable_slots = telemetry.blocked_slots = telemetry.blocked_tenants = 0;
  }
  return {};
}

}  // namespace everkernel::telemetry
