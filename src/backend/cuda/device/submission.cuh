// A submission on the device: the row that the host wrote (backend/cuda/launch_rows.hpp), and typed
// access to its ring, control words, logs and quotas.
#pragma once

#include "backend/cuda/launch_rows.hpp"
#include "everkernel/abi/control.hpp"
#include "everkernel/abi/slot.hpp"
#include "jit/device/buffers.cuh"
#include "jit/device/sinks.cuh"
#include "jit/device/types.hpp"
#include "jit/device/words.cuh"

namespace everkernel::device {

using abi::SlotStatus;

inline constexpr Word kNoSlot = 0xFFFFFFFFu;

/// Copies a row. Rows are written before the launch and constant while it runs.
EK_DEVICE Submission load_row(const Submission* row) {
  union {
    Submission submission;
    Wide words[sizeof(Submission) / sizeof(Wide)];
  } copy;
#pragma unroll
  for (Word i = 0; i < sizeof(Submission) / sizeof(Wide); ++i) {
    asm volatile("ld.global.nc.u64 %0, [%1]; // ek:row"
                 : "=l"(copy.words[i])
                 : "l"(__cvta_generic_to_global(reinterpret_cast<const Wide*>(row) + i)));
  }
  return copy.submission;
}

/// Whether the items of a tenant may run; `unknown` is a tenant outside of the table.
enum class TenantStanding : Word { enabled, disabled, unknown };

/// Typed access to the memory of one submission.
struct SubmissionView {
  const Submission& row;

  EK_DEVICE Words control() const { return {row.control, row.control_words}; }
  EK_DEVICE Words io() const { return {row.io_queue, row.io_words}; }
  EK_DEVICE ItemSinks sinks() const {
    return {control(),   {row.debug_log, row.debug_log_words}, row.hits, row.hit_capacity,
            row.emitted, one_word(&row.shared->hits_dropped)};
  }

  EK_DEVICE Word* slot_words(Word slot) const { return row.ring + Wide{slot} * abi::kSlotWords; }
  EK_DEVICE Words slot(Word index) const { return {slot_words(index), abi::kSlotWords}; }
  EK_DEVICE void set_status(Word index, SlotStatus status) const {
    slot(index).store_release(0, static_cast<Word>(status));
  }

  EK_DEVICE Word tenant_base() const {
    return control().load_relaxed(abi::kControlTenantBase.first);
  }
  /// `base` is tenant_base(), read once by the caller: the host may move the table at any time.
  EK_DEVICE TenantStanding standing_of(Word tenant, Word base) const {
    const Wide index = Wide{base} + tenant;
    if (index < abi::kControlTenantMasks.first || index >= abi::kControlTenantMasks.end()) {
      return TenantStanding::unknown;
    }
    return control().load_relaxed(index) != 0 ? TenantStanding::enabled : TenantStanding::disabled;
  }
  EK_DEVICE Words in_flight(Word tenant) const { return one_word(row.shared->in_flight + tenant); }
  EK_DEVICE Word quota_of(Word tenant) const {
    return control().load_relaxed(abi::kControlTenantQuotas.first + tenant);
  }

  /// Tells the compiler that the row lies in shared memory. For functions that a drain calls and
  /// that are not inlined.
  EK_DEVICE void assume_place() const { __builtin_assume(__isShared(&row)); }
};

/// A submission with the context of its launch.
struct LaunchedSubmission : SubmissionView {
  const LaunchContext& context;

  EK_DEVICE LaunchedSubmission(const LaunchContext& launch_context,
                               const Submission& submission_row)
      : SubmissionView{submission_row}, context(launch_context) {}

  EK_DEVICE Words abort() const { return one_word(context.abort); }
  EK_DEVICE BufferTable buffers() const {
    return {static_cast<const BufferEntry*>(context.entries), context.entry_mask};
  }
  EK_DEVICE bool must_stop() const {
    return (control().load_relaxed(abi::kControlShutdown.first) | abort().load_relaxed(0)) != 0;
  }
};

}  // namespace everkernel::device
