// Completeness and ratios of the evidence records.
#include "everkernel/telemetry/evidence.hpp"

namespace everkernel::telemetry {

std::string_view metric_family_name(RuntimeEvidenceMetricFamily family) {
  switch (family) {
    case RuntimeEvidenceMetricFamily::ring:
      return "ring";
    case RuntimeEvidenceMetricFamily::control:
      return "control";
    case RuntimeEvidenceMetricFamily::copy:
      return "copy";
    case RuntimeEvidenceMetricFamily::residency:
      return "residency";
  }
  return "unknown";
}

std::vector<RuntimeEvidenceMetricFamily> RuntimeEvidenceMetricCoverage::missing_families() const {
  std::vector<RuntimeEvidenceMetricFamily> missing;
  if (!ring) missing.push_back(RuntimeEvidenceMetricFamily::ring);
  if (!control) missing.push_back(RuntimeEvidenceMetricFamily::control);
  if (!copy) missing.push_back(RuntimeEvidenceMetricFamily::copy);
  if (!residency) missing.push_back(RuntimeEvidenceMetricFamily::residency);
  return missing;
}

std::vector<RuntimeEvidenceMetricFamily> RuntimeEvidence::missing_metric_families() const {
  return coverage.missing_families();
}

bool RuntimeEvidence::is_complete() const {
  return schema_version == kRuntimeEvidenceSchemaVersion &&
         coverage == RuntimeEvidenceMetricCoverage::complete();
}

std::uint16_t RuntimeEvidence::host_copy_avoidance_bps() const {
  __extension__ using Wide = unsigned __int128;  // two 64-bit numbers add up to 65 bits
  const Wide total = Wide{host_copy_bytes} + host_copy_avoided_bytes;
  if (total == 0) return 0;
  return static_cast<std::uint16_t>(Wide{host_copy_avoided_bytes} * 10'000 / total);
}

bool DecodeCapacityEvidence::is_complete() const {
  return schema_version == kDecodeCapacitySchemaVersion && uses_caller_owned_scratch &&
         slot_output_capacity >= decoded_slot_count &&
         window_output_capacity >= decoded_window_count &&
         window_accumulator_scratch_capacity >= decoded_window_count;
}

DecodeCapacityEvidence decode_capacity_evidence(const RingTelemetry& telemetry,
                                                const DecodeScratch& scratch) {
  return {.decoded_slot_count = telemetry.slots.size(),
          .slot_output_capacity = telemetry.slots.capacity(),
          .decoded_window_count = telemetry.windows.size(),
          .window_output_capacity = telemetry.windows.capacity(),
          .window_opcode_scratch_capacity = scratch.window_opcode_capacity(),
          .window_accumulator_scratch_capacity = scratch.window_capacity(),
          .uses_caller_owned_scratch = true};
}

}  // namespace everkernel::telemetry
