#include "everkernel/telemetry/snapshot.hpp"

#include <gtest/gtest.h>

#include "everkernel/telemetry/decode.hpp"
#include "support/wire_bytes.hpp"

namespace everkernel::telemetry {
namespace {

using test::Bytes;
using test::control_of;
using test::ring_of;

constexpr Word kMaxWord = 0xFFFFFFFFu;

RingTelemetry decoded(const Bytes& control, const Bytes& ring) {
  DecodeScratch scratch;
  RingTelemetry telemetry;
  EXPECT_TRUE(decode({.control = control, .ring = ring}, scratch, telemetry));
  return telemetry;
}

TEST(RingOccupancy, matches_the_vector_of_the_seed) {
  const RingOccupancy occupancy{1, 2, 3, 4, 5, 6, 7, 8, 9};
  EXPECT_EQ(occupancy.total_slots(), 45u);
  EXPECT_EQ(occupancy.queue_depth(), 40u);
}

TEST(RingOccupancy, totals_saturate) {
  const RingOccupancy most{.empty = kMaxWord, .published = kMaxWord, .done = kMaxWord};
  EXPECT_EQ(most.total_slots(), kMaxWord);
  EXPECT_EQ(most.queue_depth(), kMaxWord);
  const RingOccupancy depth{.fault = kMaxWord, .unknown = 1};
  EXPECT_EQ(depth.queue_depth(), kMaxWord);
  EXPECT_EQ(depth.total_slots(), kMaxWord);
  EXPECT_EQ(RingOccupancy{}.total_slots(), 0u);
}

TEST(RuntimeCounters, match_the_vector_of_the_capabilities) {
  const RingTelemetry telemetry =
      decoded(control_of({{64, 3}, {65, 9}}), ring_of({{6}, {3}, {1}, {0}}));
  const RuntimeCounters counters = telemetry.counters();
  EXPECT_EQ(counters.total_slots, 4u);
  EXPECT_EQ(counters.queue_depth, 2u);
  EXPECT_EQ(counters.gpu_idle_slots, 1u);
  EXPECT_EQ(counters.gpu_idle_ppm, 250'000u);
  EXPECT_EQ(counters.frontier_density_bps, 5000u);
  EXPECT_EQ(counters.occupancy_proxy_bps, 7500u);
  EXPECT_EQ(counters.tenant_fairness_total, 12u);
  EXPECT_EQ(counters.tenant_fairness_skew, 6u);
  EXPECT_EQ(counters.unreclaimed_done_slots, 1u);
  EXPECT_EQ(counters.requeue_slots, 1u);
  EXPECT_EQ(counters.fault_slots, 0u);
}

TEST(RuntimeCounters, of_an_empty_ring_are_zero) {
  EXPECT_EQ(RingTelemetry{}.counters(), RuntimeCounters{});
}

TEST(RuntimeCounters, take_their_counts_from_control_and_occupancy) {
  RingTelemetry telemetry;
  telemetry.control.done_count = 77;
  telemetry.control.priority_fairness = {1, 2, 3, 4, 5};
  telemetry.occupancy = {.done = 11, .requeue = 12, .fault = 13};
  const RuntimeCounters counters = telemetry.counters();
  EXPECT_EQ(counters.drained_slots, 77u);
  EXPECT_EQ(counters.priority_fairness_total, 15u);
  EXPECT_EQ(counters.unreclaimed_done_slots, 11u);
  EXPECT_EQ(counters.requeue_slots, 12u);
  EXPECT_EQ(counters.fault_slots, 13u);
}

TEST(RuntimeCounters, ratios_round_down_and_stay_in_scale) {
  struct Row {
    const char* name;
    RingOccupancy occupancy;
    Word idle_ppm;
    std::uint16_t density_bps, occupancy_bps;
  };
  constexpr Row kRows[] = {
      {"all empty", {.empty = 5}, 1'000'000, 0, 0},
      {"all done", {.done = 5}, 0, 0, 10'000},
      {"all faulted", {.fault = 5}, 0, 10'000, 10'000},
      {"all unknown", {.unknown = 5}, 0, 10'000, 10'000},
      {"thirds", {.empty = 1, .published = 1, .done = 1}, 333'333, 3333, 6666},
      {"one of many", {.empty = 268'435'454, .claimed = 1}, 999'999, 0, 0},
      {"all but one", {.empty = 1, .wait_io = 268'435'454}, 0, 9999, 9999},
      {"every counter at its end",
       {.empty = kMaxWord, .yield_count = kMaxWord},
       1'000'000,
       10'000,
       0},
      {"a product past 32 bits", {.empty = 1u << 31, .done = 1u << 30}, 666'666, 0, 3333},
  };
  for (const Row& row : kRows) {
    SCOPED_TRACE(row.name);
    const RuntimeCounters counters = RingTelemetry{.occupancy = row.occupancy}.counters();
    EXPECT_EQ(counters.gpu_idle_ppm, row.idle_ppm);
    EXPECT_EQ(counters.frontier_density_bps, row.density_bps);
    EXPECT_EQ(counters.occupancy_proxy_bps, row.occupancy_bps);
  }
}

TEST(RuntimeCounters, skew_looks_at_tenants_with_claims_only) {
  struct Row {
    const char* name;
    Word first, second, last;
    Word skew;
    std::uint64_t total;
  };
  constexpr Row kRows[] = {
      {"nobody", 0, 0, 0, 0, 0},
      {"one tenant", 0, 7, 0, 0, 7},
      {"equal", 7, 0, 7, 0, 14},
      {"first and last", 1, 0, 9, 8, 10},
      {"the widest", 1, 0, kMaxWord, kMaxWord - 1, 0x100000000},
      {"a sum past 32 bits", kMaxWord, kMaxWord, kMaxWord, 0, 3 * std::uint64_t{kMaxWord}},
  };
  for (const Row& row : kRows) {
    SCOPED_TRACE(row.name);
    RingTelemetry telemetry;
    telemetry.control.tenant_fairness[0] = row.first;
    telemetry.control.tenant_fairness[1] = row.second;
    telemetry.control.tenant_fairness[31] = row.last;
    EXPECT_EQ(telemetry.counters().tenant_fairness_skew, row.skew);
    EXPECT_EQ(telemetry.counters().tenant_fairness_total, row.total);
  }
}

TEST(WindowTelemetry, is_active_while_a_slot_is_on_its_way) {
  struct Row {
    const char* name;
    WindowTelemetry window;
    bool expected;
  };
  constexpr Row kRows[] = {
      {"nothing", {}, false},
      {"published", {.published = 1}, true},
      {"claimed", {.claimed = 1}, true},
      {"wait_io", {.wait_io = 1}, true},
      {"yield", {.yield_count = 1}, true},
      {"requeue", {.requeue = 1}, true},
      {"done", {.required_slots = 3, .done = 3}, false},
      {"fault", {.required_slots = 3, .fault = 3}, false},
  };
  for (const Row& row : kRows) EXPECT_EQ(row.window.is_active(), row.expected) << row.name;
}

// One slot of tenant 1 in each state; tenant 1 is enabled and nothing completes.
TEST(Watchdog, suspects_a_stall_while_a_slot_could_run) {
  struct Row {
    Word status;
    bool is_stall;
    Word queue_depth;
  };
  constexpr Row kRows[] = {{0, false, 0}, {1, true, 1},        {2, true, 1}, {3, false, 0},
                           {4, false, 1}, {5, true, 1},        {6, true, 1}, {7, false, 1},
                           {8, false, 1}, {kMaxWord, false, 1}};
  for (const Row& row : kRows) {
    SCOPED_TRACE(row.status);
    const auto telemetry = decoded(control_of({{4, 1}}), ring_of({{row.status, 0, 1}}));
    EXPECT_EQ(telemetry.watchdog(0).suspected_stall, row.is_stall);
    EXPECT_EQ(telemetry.watchdog(0).queue_depth, row.queue_depth);
    EXPECT_FALSE(telemetry.watchdog(kMaxWord).suspected_stall) << "something completed";
  }
}

TEST(Watchdog, done_delta_is_modular) {
  struct Row {
    Word before, now, delta;
  };
  constexpr Row kRows[] = {
      {0, 0, 0},
      {0, 5, 5},
      {kMaxWord, kMaxWord, 0},
      {kMaxWord, 0, 1},
      {kMaxWord - 2, 1, 4},
      {5, 4, kMaxWord},
      {0, kMaxWord, kMaxWord},
  };
  for (const Row& row : kRows) {
    SCOPED_TRACE(testing::Message() << row.before << " to " << row.now);
    const auto telemetry = decoded(control_of({{1, row.now}, {3, 1}}), ring_of({{1}}));
    EXPECT_EQ(telemetry.watchdog(row.before).done_delta, row.delta);
    EXPECT_EQ(telemetry.watchdog(row.before).suspected_stall, row.delta == 0);
  }
}

TEST(Watchdog, looks_at_slots_of_enabled_tenants_only) {
  struct Row {
    const char* name;
    Word base, mask_word, tenant;  // the one mask that is set
    bool is_stall;
  };
  constexpr Row kRows[] = {
      {"enabled", 3, 3, 0, true},
      {"last tenant", 3, 31, 28, true},
      {"disabled", 3, 3, 1, false},
      {"tenant 29 has a quota where its mask would be", 3, 32, 29, false},
      {"tenant 32", 3, 3, 32, false},
      {"tenant 33 is tenant 1 in the low five bits", 3, 4, 33, false},
      {"largest tenant", 3, 3, kMaxWord, false},
      {"base 0 moves the ids", 0, 3, 3, true},
      {"base 0 has no tenant 0", 0, 3, 0, false},
      {"base 0 knows tenant 31", 0, 31, 31, true},
      {"base 0 does not know tenant 32", 0, 32, 32, false},
      {"base behind the table", 100, 100, 0, false},
      {"a base that wraps", kMaxWord, 3, 4, false},
  };
  for (const Row& row : kRows) {
    const auto control = control_of({{row.mask_word, 1}, {2, row.base}});
    const auto telemetry = decoded(control, ring_of({{1, 0, row.tenant}}));
    EXPECT_EQ(telemetry.watchdog(0).suspected_stall, row.is_stall) << row.name;
    EXPECT_EQ(telemetry.watchdog(0).queue_depth, 1u) << row.name;
  }
}

TEST(Watchdog, a_fault_elsewhere_does_not_hide_a_stall) {
  const auto telemetry =
      decoded(control_of({{3, 1}, {32, 1}}), ring_of({{7}, {1}, {6, 0, 5}, {0}}));
  EXPECT_EQ(telemetry.watchdog(0), (WatchdogSnapshot{.done_delta = 0,
                                                     .queue_depth = 3,
                                                     .fault_slots = 1,
                                                     .requeue_slots = 1,
                                                     .gpu_idle_ppm = 250'000,
                                                     .suspected_stall = true,
                                                     .blocked_slots = 1,
                                                     .blocked_tenants = 1 << 5}));
}

TEST(Watchdog, says_when_every_slot_that_waits_is_blocked_by_its_tenant) {
  struct Row {
    const char* name;
    Word status, tenant;  // of a slot beside one of tenant 5, which is disabled
    Word blocked, tenants;
    bool all;
  };
  // Tenant 0 is enabled with a quota, tenant 1 without one.
  constexpr Row kRows[] = {
      {"nothing else", 0, 0, 1, 1 << 5, true},
      {"one that ended", 3, 0, 1, 1 << 5, true},
      {"one that faulted", 7, 0, 1, 1 << 5, true},
      {"one without quota", 1, 1, 2, 1 << 5 | 1 << 1, true},
      {"one without quota that runs", 2, 1, 1, 1 << 5, false},
      {"one that waits for IO", 4, 0, 1, 1 << 5, false},
      {"one that can run", 5, 0, 1, 1 << 5, false},
  };
  for (const Row& row : kRows) {
    SCOPED_TRACE(row.name);
    const auto telemetry = decoded(control_of({{3, 1}, {4, 1}, {32, 1}}),
                                   ring_of({{6, 0, 5}, {row.status, 0, row.tenant}}));
    EXPECT_EQ(telemetry.watchdog(0).blocked_slots, row.blocked);
    EXPECT_EQ(telemetry.watchdog(0).blocked_tenants, row.tenants);
    EXPECT_EQ(telemetry.watchdog(0).all_blocked, row.all);
    EXPECT_FALSE(telemetry.watchdog(kMaxWord).all_blocked) << "something completed";
  }
}

TEST(Watchdog, waiting_faulted_and_disabled_slots_alone_are_no_stall) {
  const auto telemetry = decoded(control_of({{3, 1}}), ring_of({{4}, {7}, {1, 0, 5}, {3}}));
  EXPECT_EQ(telemetry.watchdog(0).queue_depth, 3u);
  EXPECT_FALSE(telemetry.watchdog(0).suspected_stall);
}

}  // namespace
}  // namespace everkernel::telemetry
