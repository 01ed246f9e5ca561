// One bounded drain: its options, its report and its costs.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <variant>

#include "everkernel/backend/backend.hpp"
#include "everkernel/protocol/buffer.hpp"

namespace everkernel {

using abi::Word;

namespace runtime {
struct WorkspaceStorage;
}

class ResidentBuffers;

/// Timeout of a dispatch that names none.
inline constexpr std::chrono::nanoseconds kDefaultDispatchTimeout = std::chrono::seconds(60);

/// The four buffers of a submission as host bytes, which are only read. Without a debug log PRINTF
/// records are dropped and counted; without an IO queue the kernel gets a queue of one slot.
struct HostBuffers {
  std::span<const std::byte> control = {};    ///< 640 bytes or more
  std::span<const std::byte> ring = {};       ///< as many slots as the megakernel has
  std::span<const std::byte> debug_log = {};  ///< a cursor and records, or empty
  std::span<const std::byte> io_queue = {};   ///< 1..64 IO slots, or empty
};

/// Buffers to drain: host bytes, or buffers that are resident on the device.
using Submission = std::variant<HostBuffers, ResidentBuffers*>;

/// Which buffers a dispatch copies back.
enum class Readback {
  none,     ///< nothing but the counts
  control,  ///< the control buffer
  full,     ///< all four buffers
};

/// What a dispatch does when it fails with `device_lost`.
enum class Recovery {
  none,        ///< reports it
  retry_once,  ///< recovers and runs the whole dispatch once more
};

/// Storage that dispatches of one shape share, so that every one after the first allocates nothing.
/// One thread at a time. Move-only.
class Workspace {
 public:
  Workspace();                                 ///< empty
  Workspace(Workspace&&) noexcept;             ///< takes over
  Workspace& operator=(Workspace&&) noexcept;  ///< drops its own, takes over
  ~Workspace();                                ///< gives its memory back

 private:
  friend class Megakernel;
  friend struct DispatchReport;
  std::unique_ptr<runtime::WorkspaceStorage> storage_;
};

/// How to dispatch.
struct DispatchOptions {
  std::span<const Submission> submissions = {};  ///< one or many, in one native submission
  Readback readback = Readback::full;            ///< buffers to copy back
  Recovery recovery = Recovery::retry_once;      ///< what to do when the device is lost
  Workspace* workspace = nullptr;                ///< storage to reuse; null makes fresh storage
  std::chrono::nanoseconds timeout =
      kDefaultDispatchTimeout;  ///< of the whole call: waiting for others, running, running again
  /// Once it is true, the dispatch ends as at its timeout. A signal handler may set it. Null =
  /// never.
  const std::atomic<bool>* stop = nullptr;
  Word hit_capacity = 0;  ///< room for hits of emit, in each submission
};

/// Costs of a dispatch. Every field is counted where it arises.
struct DispatchStats {
  std::uint64_t input_bytes = 0;              ///< copied to the device
  std::uint64_t output_bytes = 0;             ///< of the buffers that were drained
  std::uint64_t readback_bytes = 0;           ///< copied back
  std::uint64_t bytes_moved = 0;              ///< both ways
  std::uint64_t device_allocation_bytes = 0;  ///< allocated on the device
  Word device_allocation_events = 0;          ///< allocations on the device
  std::uint64_t latency_ns = 0;               ///< from call to return
  Word output_buffers = 0;                    ///< buffers copied back
  Word resident_resource_rows = 0;            ///< submissions that were resident
  Word resident_resource_handles = 0;         ///< their buffers
  Word kernel_launches = 0;                   ///< native submissions
  Word sync_points = 0;                       ///< waits for the device
  bool recovered_after_device_loss = false;   ///< whether this is the second attempt
  std::uint64_t items_done = 0;               ///< items that reached DONE
  std::uint64_t items_faulted = 0;            ///< items that reached FAULT
  std::uint64_t items_remaining = 0;          ///< slots still active
  std::uint64_t hits = 0;                     ///< emits that found room
  std::uint64_t hits_dropped = 0;             ///< emits that found no room

  /// Drained bytes a second; 0 when no time passed.
  std::uint64_t output_bytes_per_second() const;
  /// Bytes copied back a second.
  std::uint64_t readback_bytes_per_second() const;
  /// Bytes moved a second.
  std::uint64_t bytes_moved_per_second() const;
  /// Bytes allocated a second.
  std::uint64_t device_allocation_bytes_per_second() const;
};

/// The result of one submission. Buffers that Readback leaves out are empty; the others stay in
/// the workspace until its next dispatch.
struct SubmissionReport {
  std::span<const std::byte> control = {};    ///< flags, counters, observables
  std::span<const std::byte> ring = {};       ///< work slots
  std::span<const std::byte> debug_log = {};  ///< PRINTF records
  std::span<const std::byte> io_queue = {};   ///< IO requests
  backend::DrainCounts counts = {};           ///< items by how they ended
  std::span<const abi::Hit> hits = {};        ///< emitted hits, sorted by slot
};

/// The result of a dispatch. Move-only.
struct DispatchReport {
  std::span<const SubmissionReport> submissions = {};  ///< one each, in the order given
  DispatchStats stats = {};                            ///< of all of them together
  Workspace own_workspace = {};  ///< where the bytes lie when the caller gave no workspace
};

/// How resident buffers are kept.
struct ResidentOptions {
  /// Whether the host keeps a copy, refreshed after every write and dispatch, from which the buffer
  /// is restored after the device was lost.
  bool keep_host_copy = false;
};

/// The four buffers of a submission on the device. Move-only; belongs to one megakernel. Must not
/// be read or written while a dispatch uses them.
class ResidentBuffers {
 public:
  ResidentBuffers(ResidentBuffers&&) noexcept;             ///< takes over
  ResidentBuffers& operator=(ResidentBuffers&&) noexcept;  ///< drops its own, takes over
  ~ResidentBuffers();                                      ///< gives the memory back

  /// Length of a buffer.
  std::size_t size_bytes(protocol::Buffer buffer) const;
  /// Copies host bytes into a buffer; offset and length are whole words. Fails with
  /// `invalid_argument` outside the buffer, and with `device_lost`.
  Result<void> write(protocol::Buffer buffer, std::size_t offset_bytes,
                     std::span<const std::byte> bytes);
  /// Copies from a buffer to the host. Fails as write does.
  Result<void> read(protocol::Buffer buffer, std::size_t offset_bytes,
                    std::span<std::byte> bytes) const;

  /// The storage, shared with the megakernel that recovers it.
  struct State;
  /// The storage, for the megakernel.
  State& state() const { return *state_; }

 private:
  friend class Megakernel;
  explicit ResidentBuffers(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

}  // namespace everkernel
