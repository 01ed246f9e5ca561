#include "everkernel/telemetry/evidence.hpp"

#include <gtest/gtest.h>

#include "support/wire_bytes.hpp"

namespace everkernel::telemetry {
namespace {

using Family = RuntimeEvidenceMetricFamily;

constexpr std::uint64_t kMax64 = ~std::uint64_t{0};

// Tests of the reference implementation.

TEST(RuntimeEvidence, reports_missing_metric_families) {
  const RuntimeEvidence evidence{.coverage = {.ring = true, .copy = true}};
  EXPECT_EQ(evidence.missing_metric_families(), (std::vector{Family::control, Family::residency}));
  EXPECT_FALSE(evidence.is_complete());
}

TEST(RuntimeEvidence, records_copy_avoidance_and_occupancy) {
  const RuntimeEvidence evidence{.resident_device_bytes = 4096,
                                 .host_copy_bytes = 1024,
                                 .host_copy_avoided_bytes = 3072,
                                 .ring_occupancy = {1, 2, 3, 4, 5, 6, 7, 8, 9},
                                 .control_decode_ns = 11,
                                 .ring_decode_ns = 13,
                                 .coverage = RuntimeEvidenceMetricCoverage::complete()};
  EXPECT_TRUE(evidence.is_complete());
  EXPECT_EQ(evidence.resident_device_bytes, 4096u);
  EXPECT_EQ(evidence.ring_occupancy.total_slots(), 45u);
  EXPECT_EQ(evidence.ring_occupancy.queue_depth(), 40u);
  EXPECT_EQ(evidence.host_copy_avoidance_bps(), 7500u);
}

TEST(RuntimeEvidence, missing_families_come_in_their_own_order) {
  EXPECT_EQ(RuntimeEvidence{}.missing_metric_families(),
            (std::vector{Family::ring, Family::control, Family::copy, Family::residency}));
  EXPECT_TRUE(RuntimeEvidenceMetricCoverage::complete().missing_families().empty());
}

TEST(RuntimeEvidence, is_complete_with_every_family_under_its_own_schema_only) {
  struct Row {
    const char* name;
    std::uint32_t schema;
    RuntimeEvidenceMetricCoverage coverage;
    bool expected;
  };
  constexpr Row kRows[] = {
      {"all", 1, {true, true, true, true}, true},
      {"no ring", 1, {false, true, true, true}, false},
      {"no control", 1, {true, false, true, true}, false},
      {"no copy", 1, {true, true, false, true}, false},
      {"no residency", 1, {true, true, true, false}, false},
      {"another schema", 2, {true, true, true, true}, false},
      {"no schema", 0, {true, true, true, true}, false},
  };
  for (const Row& row : kRows) {
    const RuntimeEvidence evidence{.schema_version = row.schema, .coverage = row.coverage};
    EXPECT_EQ(evidence.is_complete(), row.expected) << row.name;
  }
}

TEST(RuntimeEvidence, family_names_are_the_tokens_of_the_seed) {
  EXPECT_EQ(metric_family_name(Family::ring), "ring");
  EXPECT_EQ(metric_family_name(Family::control), "control");
  EXPECT_EQ(metric_family_name(Family::copy), "copy");
  EXPECT_EQ(metric_family_name(Family::residency), "residency");
}

TEST(RuntimeEvidence, copy_avoidance_is_exact_at_every_size) {
  struct Row {
    const char* name;
    std::uint64_t copied, avoided;
    std::uint16_t expected;
  };
  constexpr Row kRows[] = {
      {"nothing moved", 0, 0, 0},
      {"all avoided", 0, 1, 10'000},
      {"all copied", 1, 0, 0},
      {"rounds down", 2, 1, 3333},
      {"just under all", 1, 9999, 9999},
      {"just under all, of many", 1, 1'000'000'000, 9999},
      {"a product past 64 bits", 1ull << 62, 3ull << 61, 6000},
      {"a sum past 64 bits", kMax64, kMax64, 5000},
      {"the largest, all avoided", 0, kMax64, 10'000},
      {"the largest, all but one byte avoided", 1, kMax64, 9999},
      {"half the range, all but one byte avoided", 1, 1ull << 63, 9999},
      {"the largest, one byte avoided", kMax64, 1, 0},
  };
  for (const Row& row : kRows) {
    const RuntimeEvidence evidence{.host_copy_bytes = row.copied,
                                   .host_copy_avoided_bytes = row.avoided};
    EXPECT_EQ(evidence.host_copy_avoidance_bps(), row.expected) << row.name;
  }
}

TEST(DecodeCapacityEvidence, is_complete_when_storage_covers_what_was_decoded) {
  constexpr DecodeCapacityEvidence kEnough{.decoded_slot_count = 4,
                                           .slot_output_capacity = 4,
                                           .decoded_window_count = 2,
                                           .window_output_capacity = 2,
                                           .window_opcode_scratch_capacity = 0,
                                           .window_accumulator_scratch_capacity = 2,
                                           .uses_caller_owned_scratch = true};
  EXPECT_TRUE(kEnough.is_complete());
  struct Row {
    const char* name;
    void (*spoil)(DecodeCapacityEvidence&);
  };
  constexpr Row kRows[] = {
      {"slots", [](DecodeCapacityEvidence& e) { e.slot_output_capacity = 3; }},
      {"windows", [](DecodeCapacityEvidence& e) { e.window_output_capacity = 1; }},
      {"scratch", [](DecodeCapacityEvidence& e) { e.window_accumulator_scratch_capacity = 1; }},
      {"owner", [](DecodeCapacityEvidence& e) { e.uses_caller_owned_scratch = false; }},
      {"schema", [](DecodeCapacityEvidence& e) { e.schema_version = 2; }},
  };
  for (const Row& row : kRows) {
    DecodeCapacityEvidence evidence = kEnough;
    row.spoil(evidence);
    EXPECT_FALSE(evidence.is_complete()) << row.name;
  }
}

TEST(DecodeCapacityEvidence, of_a_decode_is_complete_and_counts_what_is_there) {
  const test::Bytes ring =
      test::ring_of({{1, 40, 0, 2, 7}, {1, 40, 0, 2, 8}, {1, 41, 0, 2, 8}, {0}});
  constexpr Word kOpcodes[] = {40, 41};
  DecodeScratch scratch;
  RingTelemetry telemetry;
  ASSERT_TRUE(decode({.ring = ring, .window_opcodes = kOpcodes}, scratch, telemetry));
  const DecodeCapacityEvidence evidence = decode_capacity_evidence(telemetry, scratch);
  EXPECT_EQ(evidence.schema_version, 1u);
  EXPECT_EQ(evidence.decoded_slot_count, 4u);
  EXPECT_EQ(evidence.decoded_window_count, 3u);
  EXPECT_GE(evidence.slot_output_capacity, 4u);
  EXPECT_GE(evidence.window_output_capacity, 3u);
  EXPECT_GE(evidence.window_opcode_scratch_capacity, 2u);
  EXPECT_GE(evidence.window_accumulator_scratch_capacity, 3u);
  EXPECT_TRUE(evidence.is_complete());
}

TEST(DecodeCapacityEvidence, of_nothing_decoded_is_complete) {
  EXPECT_TRUE(decode_capacity_evidence(RingTelemetry{}, DecodeScratch{}).is_complete());
}

}  // namespace
}  // namespace everkernel::telemetry
