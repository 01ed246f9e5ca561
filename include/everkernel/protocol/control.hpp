// Makes, reads and changes the control buffer (abi/control.hpp).
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "everkernel/abi/control.hpp"
#include "everkernel/protocol/buffer.hpp"
#include "everkernel/protocol/words.hpp"

namespace everkernel::protocol {

/// The content of a fresh control buffer.
struct ControlLayout {
  bool shutdown = false;      ///< the shutdown flag
  Word tenant_count = 1;      ///< tenants 0 … tenant_count − 1 are enabled; at most 29
  Word observable_slots = 0;  ///< result words behind the fixed part
};

/// Bytes of a control buffer. Fails with `invalid_argument` on too many tenants or observables.
Result<std::size_t> control_bytes(const ControlLayout& layout);

/// Writes a fresh control buffer into `target`, which has exactly control_bytes(layout) bytes. On
/// an error (`invalid_argument`) the target is unchanged.
Result<void> encode_control(const ControlLayout& layout, std::span<std::byte> target);

/// First slot of each priority and the end: a fifth each, the remainder to NORMAL.
std::array<Word, abi::kControlPriorityOffsets.count> default_priority_offsets(Word slot_count);

/// Reads DONE_COUNT from the first 8 bytes or more of a control buffer. Fails with `corrupt`.
Result<Word> read_done_count(std::span<const std::byte> control);

/// Reads EPOCH from the first 516 bytes or more of a control buffer. Fails with `corrupt`.
Result<Word> read_epoch(std::span<const std::byte> control);

/// Reads the executions of opcodes 0..31 from the first 512 bytes or more. Fails with `corrupt`.
Result<std::array<Word, abi::kControlMetrics.count>> read_metrics(
    std::span<const std::byte> control);

/// A whole control buffer (640 bytes or more), checked once and then read freely. A view: the bytes
/// must outlive it and belong to the reader (copy live memory first, LiveWords::copy_to).
class ControlView {
 public:
  /// Fails with `corrupt` when the bytes are not whole words or fewer than 640.
  static Result<ControlView> parse(std::span<const std::byte> control);

  /// Whether the shutdown flag is set.
  bool shutdown() const { return word(abi::kControlShutdown.first) != 0; }
  /// Slots that reached DONE, modulo 2^32.
  Word done_count() const { return word(abi::kControlDoneCount.first); }
  /// Slots that reached FAULT, modulo 2^32.
  Word fault_count() const { return word(abi::kControlFaultCount.first); }
  /// Debug records that found the log full.
  Word debug_dropped() const { return word(abi::kControlDebugDropped.first); }
  /// Batch fences completed, modulo 2^32.
  Word epoch() const { return word(abi::kControlEpoch.first); }
  /// Executions of an opcode below 32.
  Word metric(Word opcode) const { return in_range(abi::kControlMetrics, opcode); }
  /// Claims of a tenant; `tenant` is below 32.
  Word tenant_fairness(Word tenant) const { return in_range(abi::kControlTenantFairness, tenant); }
  /// Most slots of a tenant claimed at one time; `tenant` is below 32.
  Word tenant_quota(Word tenant) const { return in_range(abi::kControlTenantQuotas, tenant); }
  /// Claims of a priority below 5.
  Word priority_fairness(Word priority) const {
    return in_range(abi::kControlPriorityFairness, priority);
  }
  /// First slots of the priorities and the end, as they stand.
  std::array<Word, abi::kControlPriorityOffsets.count> priority_offsets() const;
  /// Whether a worker would run this tenant's slots: its mask lies in the table and is not zero.
  bool tenant_enabled(Word tenant) const;

  /// Result words behind the fixed part.
  Word observable_count() const;
  /// One result word; fails with `invalid_argument` past the last.
  Result<Word> observable(Word index) const;

 private:
  explicit ControlView(std::span<const std::byte> bytes) : bytes_(bytes) {}
  Word word(std::size_t index) const {
    Word value;
    std::memcpy(&value, bytes_.data() + index * abi::kWordBytes, sizeof value);
    return value;
  }
  Word in_range(abi::WordRange range, Word index) const;

  std::span<const std::byte> bytes_;
};

/// Changes the words of a control buffer that the host owns. Each call checks, then writes.
template <class Words>
class BasicControlWriter {
 public:
  /// Fails with `corrupt` when the bytes are not whole words or fewer than 640, and on live memory
  /// with `invalid_argument` when they are not aligned to a line.
  static Result<BasicControlWriter> bind(std::span<std::byte> control);

  /// Sets or clears the shutdown flag.
  void set_shutdown(bool shutdown);
  /// Lets a tenant run, or stops it. Fails with `invalid_argument` above tenant 28.
  Result<void> set_tenant_enabled(Word tenant, bool enabled);
  /// Limits the slots of a tenant claimed at one time. Fails with `invalid_argument` above
  /// tenant 28.
  Result<void> set_tenant_quota(Word tenant, Word quota);
  /// Splits a ring of `slot_count` slots among the priorities. Fails with `invalid_argument` when
  /// no ring can have that many.
  Result<void> set_priority_offsets(Word slot_count);

 private:
  explicit BasicControlWriter(Words words) : words_(words) {}
  Words words_;
};

extern template class BasicControlWriter<PrivateWords>;
extern template class BasicControlWriter<LiveWords>;

/// Changes a control buffer that only the caller uses.
using ControlWriter = BasicControlWriter<PrivateWords>;
/// Changes a control buffer that running workers share.
using LiveControlWriter = BasicControlWriter<LiveWords>;

}  // namespace everkernel::protocol
