// The control buffer: encoded from a layout, read through a checked view, changed word by word.
#include "everkernel/protocol/control.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "everkernel/base/assert.hpp"

namespace everkernel::protocol {
namespace {

using abi::WordRange;

// Fails unless the buffer is whole words and holds all of `range`.
Result<void> check_holds(std::span<const std::byte> control, WordRange range,
                         std::string_view name) {
  const std::size_t words =
      EVERKERNEL_TRY(whole_units(Buffer::control, control.size(), abi::kWordBytes));
  if (words >= range.end()) return {};
  return fail(Code::corrupt,
              fmt::format("control: word {} ({}) is missing: the buffer has {} bytes ({} words)",
                          range.end() - 1, name, control.size(), words),
              fmt::format("pass at least {} bytes", range.end() * abi::kWordBytes));
}

Result<void> check_whole(std::span<const std::byte> control) {
  return check_holds(control, {0, abi::kControlWords}, "the end of the fixed part");
}

Word word_at(std::span<const std::byte> bytes, std::size_t index) {
  Word word;
  std::memcpy(&word, bytes.data() + index * abi::kWordBytes, sizeof word);
  return word;
}

Result<void> check_tenant(Word tenant) {
  if (tenant <= abi::kMaxTenant) return {};
  return fail(Code::invalid_argument,
              fmt::format("control: tenant {} has no entry, the table has tenants 0..{}", tenant,
                          abi::kMaxTenant),
              "use several rings for more tenants");
}

}  // namespace

Result<std::size_t> control_bytes(const ControlLayout& layout) {
  if (layout.tenant_count > abi::kTenantCount) {
    return fail(Code::invalid_argument,
                fmt::format("control: {} tenants do not fit, the mask table has {}",
                            layout.tenant_count, abi::kTenantCount),
                "use several rings for more tenants");
  }
  if (layout.observable_slots > abi::kMaxObservables) {
    return fail(Code::invalid_argument,
                fmt::format("control: {} observables are more than {}", layout.observable_slots,
                            abi::kMaxObservables),
                "keep more results in data buffers");
  }
  return (std::size_t{abi::kControlWords} + layout.observable_slots) * abi::kWordBytes;
}

Result<void> encode_control(const ControlLayout& layout, std::span<std::byte> target) {
  const std::size_t needed = EVERKERNEL_TRY(control_bytes(layout));
  EVERKERNEL_TRY(check_target(Buffer::control, target.size(), needed));

  std::array<Word, abi::kControlWords> fixed{};
  fixed[abi::kControlShutdown.first] = layout.shutdown ? 1 : 0;
  fixed[abi::kControlTenantBase.first] = abi::kControlTenantMasks.first;
  std::fill_n(&fixed[abi::kControlTenantMasks.first], layout.tenant_count, abi::kTenantEnabled);
  std::fill_n(&fixed[abi::kControlTenantQuotas.first], layout.tenant_count,
              abi::kDefaultTenantQuota);
  std::memcpy(target.data(), fixed.data(), sizeof fixed);
  std::fill(target.begin() + sizeof fixed, target.end(), std::byte{0});
  return {};
}

std::array<Word, abi::kControlPriorityOffsets.count> default_priority_offsets(Word slot_count) {
  constexpr Word kNormal = static_cast<Word>(abi::Priority::normal);
  const Word fifth = slot_count / abi::kPriorityCount;
  std::array<Word, abi::kControlPriorityOffsets.count> offsets{};
  for (Word priority = 0; priority < abi::kPriorityCount; ++priority) {
    const Word extra = priority == kNormal ? slot_count % abi::kPriorityCount : 0;
    offsets[priority + 1] = offsets[priority] + fifth + extra;
  }
  return offsets;
}

Result<Word> read_done_count(std::span<const std::byte> control) {
  EVERKERNEL_TRY(check_holds(control, abi::kControlDoneCount, "done_count"));
  return word_at(control, abi::kControlDoneCount.first);
}

Result<Word> read_epoch(std::span<const std::byte> control) {
  EVERKERNEL_TRY(check_holds(control, abi::kControlEpoch, "epoch"));
  return word_at(control, abi::kControlEpoch.first);
}

Result<std::array<Word, abi::kControlMetrics.count>> read_metrics(
    std::span<const std::byte> control) {
  EVERKERNEL_TRY(check_holds(control, abi::kControlMetrics, "metrics"));
  std::array<Word, abi::kControlMetrics.count> metrics;
  std::memcpy(metrics.data(), control.data() + abi::kControlMetrics.first * abi::kWordBytes,
              sizeof metrics);
  return metrics;
}

Result<ControlView> ControlView::parse(std::span<const std::byte> control) {
  EVERKERNEL_TRY(check_whole(control));
  return ControlView(control);
}

Word ControlView::in_range(WordRange range, Word index) const {
  EVERKERNEL_ASSERT(index < range.count);
  return word(std::size_t{range.first} + index);
}

std::array<Word, abi::kControlPriorityOffsets.count> ControlView::priority_offsets() const {
  std::array<Word, abi::kControlPriorityOffsets.count> offsets;
  for (Word i = 0; i < offsets.size(); ++i) {
    offsets[i] = in_range(abi::kControlPriorityOffsets, i);
  }
  return offsets;
}

bool ControlView::tenant_enabled(Word tenant) const {
  // 64 bits: base and tenant may be any words, and their sum must not wrap around into the table.
  const std::uint64_t index = std::uint64_t{word(abi::kControlTenantBase.first)} + tenant;
  if (index < abi::kControlTenantMasks.first || index >= abi::kControlTenantMasks.end()) {
    return false;
  }
  return word(index) != 0;
}

Word ControlView::observable_count() const {
  const std::size_t count = bytes_.size() / abi::kWordBytes - abi::kControlFirstObservable;
  return static_cast<Word>(std::min<std::size_t>(count, ~Word{0}));
}

Result<Word> ControlView::observable(Word index) const {
  if (index < observable_count()) return word(std::size_t{abi::kControlFirstObservable} + index);
  return fail(
      Code::invalid_argument,
      fmt::format("control: observable {} (word {}) does not exist: the buffer has {} bytes "
                  "and {} observables",
                  index, std::uint64_t{abi::kControlFirstObservable} + index, bytes_.size(),
                  observable_count()),
      "encode the control buffer with more observable slots");
}

template <class Words>
Result<BasicControlWriter<Words>> BasicControlWriter<Words>::bind(std::span<std::byte> control) {
  EVERKERNEL_TRY(check_whole(control));
  const Words words = EVERKERNEL_TRY(Words::bind(Buffer::control, control));
  return BasicControlWriter(words);
}

template <class Words>
void BasicControlWriter<Words>::set_shutdown(bool shutdown) {
  words_.store_release(abi::kControlShutdown.first, shutdown ? 1 : 0);
}

template <class Words>
Result<void> BasicControlWriter<Words>::set_tenant_enabled(Word tenant, bool enabled) {
  EVERKERNEL_TRY(check_tenant(tenant));
  words_.store_release(std::size_t{abi::kControlTenantMasks.first} + tenant,
                       enabled ? abi::kTenantEnabled : 0);
  return {};
}

template <class Words>
Result<void> BasicControlWriter<Words>::set_tenant_quota(Word tenant, Word quota) {
  EVERKERNEL_TRY(check_tenant(tenant));
  words_.store_release(std::size_t{abi::kControlTenantQuotas.first} + tenant, quota);
  return {};
}

template <class Words>
Result<void> BasicControlWriter<Words>::set_priority_offsets(Word slot_count) {
  if (slot_count == 0 || slot_count > abi::kMaxRingSlots) {
    return fail(Code::invalid_argument,
                fmt::format("control: priorities cannot share {} slots, a ring has 1..{}",
                            slot_count, abi::kMaxRingSlots),
                "give the number of slots of the ring");
  }
  const auto offsets = default_priority_offsets(slot_count);
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    words_.store_release(abi::kControlPriorityOffsets.first + i, offsets[i]);
  }
  return {};
}

template class BasicControlWriter<PrivateWords>;
template class BasicControlWriter<LiveWords>;

}  // namespace everkernel::protocol
