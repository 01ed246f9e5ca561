// A session as a reader of telemetry sees it: each queue as a ring with a slot for each place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "everkernel/backend/detail/live.hpp"
#include "everkernel/protocol/words.hpp"
#include "everkernel/runtime/session.hpp"
#include "everkernel/telemetry/decode.hpp"
#include "live/queue_core.hpp"

namespace everkernel {

/// Takes snapshots into storage that it reuses. One thread at a time.
class SnapshotTaker {
 public:
  /// What to look at.
  struct Scene {
    const protocol::LiveWords& control;
    std::span<const std::shared_ptr<live::QueueCore>> queues = {};
    const backend::LiveKernel* kernel = nullptr;
    std::span<const Word> window_opcodes = {};
    std::uint64_t resident_bytes = 0;
  };
  /// Fills telemetry, queues and evidence of `target`; its counters are there already.
  Result<void> take(const Scene& scene, SessionSnapshot& target);

 private:
  /// The oldest item of a queue of another process, and when it was first seen.
  struct Sight {
    std::uint32_t queue = 0;
    abi::LongWord ticket = 0;
    backend::Clock::time_point since;
    bool is_fresh = false;  // seen in this snapshot
  };

  void append(const live::QueueCore& queue, const backend::LiveKernel& kernel,
              std::vector<QueueSnapshot>& queues);
  std::chrono::milliseconds time_in_sight(std::uint32_t queue, abi::LongWord ticket);

  std::vector<std::byte> control_copy_;
  std::vector<abi::Slot> slots_;
  std::vector<backend::LiveItem> waiting_;
  std::vector<Sight> sights_;
  telemetry::DecodeScratch scratch_;
  telemetry::RingTelemetry control_only_;
  std::uint64_t reported_bytes_ = 0;  // of entries published before the last snapshot
};

}  // namespace everkernel
