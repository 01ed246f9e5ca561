// Records about how a telemetry sample was taken: bytes copied, time to decode, storage used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "everkernel/telemetry/decode.hpp"
#include "everkernel/telemetry/snapshot.hpp"

namespace everkernel::telemetry {

/// Version of RuntimeEvidence's fields.
inline constexpr std::uint32_t kRuntimeEvidenceSchemaVersion = 1;
/// Version of DecodeCapacityEvidence's fields.
inline constexpr std::uint32_t kDecodeCapacitySchemaVersion = 1;

/// Families of metrics a complete record must have.
enum class RuntimeEvidenceMetricFamily {
  ring,       ///< ring occupancy
  control,    ///< control-buffer decoding
  copy,       ///< bytes copied between host and device
  residency,  ///< bytes that stay on the device
};

/// The family in snake case.
std::string_view metric_family_name(RuntimeEvidenceMetricFamily family);

/// Which families a record has.
struct RuntimeEvidenceMetricCoverage {
  bool ring = false;       ///< ring occupancy is present
  bool control = false;    ///< control-buffer decoding is present
  bool copy = false;       ///< copied bytes are present
  bool residency = false;  ///< resident bytes are present

  /// Every family.
  static constexpr RuntimeEvidenceMetricCoverage complete() { return {true, true, true, true}; }
  /// The families that are not present, in the order of the enumeration.
  std::vector<RuntimeEvidenceMetricFamily> missing_families() const;

  /// Equal in every field.
  friend bool operator==(const RuntimeEvidenceMetricCoverage&,
                         const RuntimeEvidenceMetricCoverage&) = default;
};

/// Bytes copied and bytes resident while one sample was taken. The runtime fills it from its
/// measurements.
struct RuntimeEvidence {
  std::uint32_t schema_version = kRuntimeEvidenceSchemaVersion;  ///< of these fields
  std::uint64_t resident_device_bytes = 0;                       ///< bytes that stay on the device
  std::uint64_t host_copy_bytes = 0;            ///< bytes copied to take the sample
  std::uint64_t host_copy_avoided_bytes = 0;    ///< bytes read in place instead
  RingOccupancy ring_occupancy = {};            ///< slots by status
  std::uint64_t control_decode_ns = 0;          ///< time to decode the control buffer
  std::uint64_t ring_decode_ns = 0;             ///< time to decode the ring
  RuntimeEvidenceMetricCoverage coverage = {};  ///< which of these were measured

  /// Families that were not measured.
  std::vector<RuntimeEvidenceMetricFamily> missing_metric_families() const;
  /// Whether everything was measured, under this schema.
  bool is_complete() const;
  /// Avoided bytes in basis points of avoided and copied ones; 0 when both are 0.
  std::uint16_t host_copy_avoidance_bps() const;

  /// Equal in every field.
  friend bool operator==(const RuntimeEvidence&, const RuntimeEvidence&) = default;
};

/// Shows that a decode fitted into storage of the caller.
struct DecodeCapacityEvidence {
  std::uint32_t schema_version = kDecodeCapacitySchemaVersion;  ///< of these fields
  std::size_t decoded_slot_count = 0;                           ///< slots in the snapshot
  std::size_t slot_output_capacity = 0;                         ///< slots the target has room for
  std::size_t decoded_window_count = 0;                         ///< windows in the snapshot
  std::size_t window_output_capacity = 0;                       ///< windows the target has room for
  std::size_t window_opcode_scratch_capacity = 0;       ///< opcodes the scratch has room for
  std::size_t window_accumulator_scratch_capacity = 0;  ///< windows the scratch has room for
  bool uses_caller_owned_scratch = false;               ///< always true of decode()

  /// Whether the storage covers all decoded data, under this schema.
  bool is_complete() const;
};

/// Reads the capacities after a decode into `telemetry` with `scratch`.
DecodeCapacityEvidence decode_capacity_evidence(const RingTelemetry& telemetry,
                                                const DecodeScratch& scratch);

}  // namespace everkernel::telemetry
