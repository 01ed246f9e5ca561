// Decodes control buffer and ring into a RingTelemetry.
//
// A supervisor polls: the caller owns the target and the scratch and reuses them, so that only the
// first decode of a ring of some size allocates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "everkernel/base/result.hpp"
#include "everkernel/telemetry/snapshot.hpp"

namespace everkernel::telemetry {

struct DecodeCapacityEvidence;
class DecodeScratch;

/// The buffers to decode. Without a buffer, its part of the snapshot is empty.
struct DecodeRequest {
  std::optional<std::span<const std::byte>> control = {};  ///< 640 bytes or more
  std::optional<std::span<const std::byte>> ring = {};     ///< whole slots
  std::span<const Word> window_opcodes = {};  ///< opcodes whose slots are grouped into windows
  bool observables = false;                   ///< copy the observables too
};

/// Decodes into `telemetry`, replacing its contents. Fails with `corrupt` on bytes that break the
/// format, naming buffer, word and length, and then leaves `telemetry` unchanged.
Result<void> decode(const DecodeRequest& request, DecodeScratch& scratch, RingTelemetry& telemetry);

/// Working storage of decode(), kept from call to call. One thread at a time.
class DecodeScratch {
 public:
  /// Empty.
  DecodeScratch();

  /// Opcodes there is room for.
  std::size_t window_opcode_capacity() const { return window_opcodes_.capacity(); }
  /// Windows there is room for.
  std::size_t window_capacity() const { return table_.size() / 2; }

 private:
  friend class WindowGrouper;
  std::vector<Word> window_opcodes_;  // sorted, without repeats
  std::vector<Word> table_;           // open addressing: 1 + index into the windows, 0 = free
  std::uint64_t seed_;                // of the hash, drawn for each scratch
};

}  // namespace everkernel::telemetry
