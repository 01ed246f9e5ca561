#include "everkernel/telemetry/decode.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <numeric>

#include "support/results.hpp"
#include "support/wire_bytes.hpp"

namespace everkernel::telemetry {
namespace {

using test::Bytes;
using test::bytes_of;
using test::code_of;
using test::control_of;
using test::message_of;
using test::ring_of;
using test::SlotWords;

constexpr Word kMaxWord = 0xFFFFFFFFu;

RingTelemetry decoded(const DecodeRequest& request) {
  DecodeScratch scratch;
  RingTelemetry telemetry;
  EXPECT_TRUE(decode(request, scratch, telemetry));
  return telemetry;
}

std::vector<WindowTelemetry> windows_of(const Bytes& ring, std::span<const Word> opcodes) {
  return decoded({.ring = ring, .window_opcodes = opcodes}).windows;
}

// --- control ----------------------------------------------------------------------------------

TEST(DecodeControl, reads_each_field_from_its_word) {
  std::vector<Word> words(163);
  std::iota(words.begin(), words.end(), 1000u);
  words[2] = 3;
  const Bytes control = bytes_of(words);
  const ControlSnapshot snapshot = decoded({.control = control, .observables = true}).control;
  EXPECT_TRUE(snapshot.shutdown);
  EXPECT_EQ(snapshot.done_count, 1001u);
  EXPECT_EQ(snapshot.epoch, 1128u);
  EXPECT_EQ(snapshot.fault_count, 1143u);
  EXPECT_EQ(snapshot.debug_dropped, 1144u);
  EXPECT_EQ(snapshot.metrics.size(), 32u);
  EXPECT_EQ(snapshot.metrics.front(), (OpcodeCount{0, 1096}));
  EXPECT_EQ(snapshot.metrics.back(), (OpcodeCount{31, 1127}));
  EXPECT_EQ(snapshot.tenant_fairness[0], 1064u);
  EXPECT_EQ(snapshot.tenant_fairness[31], 1095u);
  EXPECT_EQ(snapshot.priority_fairness, (std::array<Word, 5>{1136, 1137, 1138, 1139, 1140}));
  EXPECT_EQ(snapshot.enabled_tenants, 0x1FFFFFFFu);  // 29 of them
  EXPECT_EQ(snapshot.observables, (std::vector<Word>{1160, 1161, 1162}));
}

TEST(DecodeControl, metrics_leave_zeros_out) {
  const Bytes control = control_of({{97, 5}, {127, kMaxWord}});
  EXPECT_EQ(decoded({.control = control}).control.metrics,
            (std::vector<OpcodeCount>{{1, 5}, {31, kMaxWord}}));
}

TEST(DecodeControl, observables_come_only_when_asked_for) {
  const Bytes control = control_of({{160, 7}}, 161);
  EXPECT_TRUE(decoded({.control = control}).control.observables.empty());
  EXPECT_EQ(decoded({.control = control, .observables = true}).control.observables,
            std::vector<Word>{7});
}

TEST(DecodeControl, enabled_tenants_follow_mask_and_base) {
  struct Row {
    const char* name;
    Word base, mask_word, expected;
  };
  constexpr Row kRows[] = {
      {"tenant 0", 3, 3, 1u},
      {"tenant 28", 3, 31, 1u << 28},
      {"a quota is no mask", 3, 32, 0},
      {"base 0", 0, 31, 1u << 31},
      {"base past the table", 32, 32, 0},
      {"largest base", kMaxWord, 3, 0},
  };
  for (const Row& row : kRows) {
    const Bytes control = control_of({{row.mask_word, 1}, {2, row.base}});
    EXPECT_EQ(decoded({.control = control}).control.enabled_tenants, row.expected) << row.name;
  }
}

// --- ring -------------------------------------------------------------------------------------

TEST(DecodeRing, copies_each_slot_with_its_first_three_arguments) {
  const Bytes ring = ring_of({{0}, {7, 0x10000, 28, 0x01230004, 11, 12, 13, 14}});
  const RingTelemetry telemetry = decoded({.ring = ring});
  ASSERT_EQ(telemetry.slots.size(), 2u);
  EXPECT_EQ(telemetry.slots[0], RingSlotSnapshot{});
  EXPECT_EQ(telemetry.slots[1], (RingSlotSnapshot{.slot_idx = 1,
                                                  .status = RingStatus::fault,
                                                  .tenant_id = 28,
                                                  .opcode = 0x10000,
                                                  .priority = 4,
                                                  .fault_code = 0x0123,
                                                  .args_prefix = {11, 12, 13}}));
}

// The upper half of the priority word has a meaning in a faulted slot only.
TEST(DecodeRing, only_a_faulted_slot_has_a_fault_code) {
  for (const Word status : {0u, 1u, 2u, 3u, 4u, 5u, 6u, 8u, kMaxWord}) {
    const Bytes ring = ring_of({{status, 0, 0, 0x00050002}});
    EXPECT_EQ(decoded({.ring = ring}).slots[0].fault_code, 0u) << "status " << status;
    EXPECT_EQ(decoded({.ring = ring}).slots[0].priority, 2u) << "status " << status;
  }
}

TEST(DecodeRing, counts_every_status_once) {
  std::vector<SlotWords> slots;
  // 1 empty, 2 published, … 8 faulted, and 9 that are none of these.
  for (Word status = 0; status < 9; ++status) slots.insert(slots.end(), status + 1, {status});
  slots.back()[0] = kMaxWord;
  const RingTelemetry telemetry = decoded({.ring = ring_of(slots)});
  EXPECT_EQ(telemetry.occupancy, (RingOccupancy{1, 2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(static_cast<Word>(telemetry.slots.back().status), kMaxWord);  // kept as found
}

TEST(DecodeRing, runnable_slots_are_claimable_or_claimed_ones_of_enabled_tenants) {
  const Bytes control = control_of({{4, 1}});  // tenant 1
  const Bytes ring = ring_of({{0, 0, 1},
                              {1, 0, 1},
                              {2, 0, 1},
                              {3, 0, 1},
                              {4, 0, 1},
                              {5, 0, 1},
                              {6, 0, 1},
                              {7, 0, 1},
                              {9, 0, 1},
                              {1, 0, 0}});
  EXPECT_EQ(decoded({.control = control, .ring = ring}).runnable_slots, 4u);
}

TEST(Decode, what_is_not_given_is_empty) {
  const Bytes control = control_of({{1, 5}, {97, 1}, {3, 1}}, 161);
  const Bytes ring = ring_of({{1, 40, 0, 2, 9}});
  constexpr Word kOpcodes[] = {40};
  DecodeScratch scratch;
  RingTelemetry telemetry;
  const DecodeRequest both{
      .control = control, .ring = ring, .window_opcodes = kOpcodes, .observables = true};
  ASSERT_TRUE(decode(both, scratch, telemetry));
  const RingTelemetry full = telemetry;

  ASSERT_TRUE(decode({.control = control, .window_opcodes = kOpcodes, .observables = true}, scratch,
                     telemetry));
  EXPECT_EQ(telemetry, (RingTelemetry{.control = full.control}));

  ASSERT_TRUE(
      decode({.ring = ring, .window_opcodes = kOpcodes, .observables = true}, scratch, telemetry));
  EXPECT_EQ(
      telemetry,
      (RingTelemetry{.occupancy = full.occupancy, .slots = full.slots, .windows = full.windows}));

  ASSERT_TRUE(decode({}, scratch, telemetry));
  EXPECT_EQ(telemetry, RingTelemetry{});
}

TEST(Decode, a_reused_target_equals_a_fresh_one) {
  constexpr Word kOpcodes[] = {40};
  const Bytes large = ring_of({{1, 40, 0, 2, 9}, {7, 40, 0, 0x00010002, 8}, {3}});
  const Bytes small = ring_of({{3, 40, 1, 2, 5, 1}});
  DecodeScratch scratch;
  RingTelemetry telemetry;
  ASSERT_TRUE(decode({.ring = large, .window_opcodes = kOpcodes}, scratch, telemetry));
  ASSERT_TRUE(decode({.ring = small, .window_opcodes = kOpcodes}, scratch, telemetry));
  EXPECT_EQ(telemetry, decoded({.ring = small, .window_opcodes = kOpcodes}));
}

// --- refusals ---------------------------------------------------------------------------------

TEST(Decode, refuses_broken_buffers_by_name_and_leaves_the_target_alone) {
  struct Row {
    const char* name;
    std::size_t control_bytes, ring_bytes;
    std::vector<const char*> parts;  // of the message
  };
  const Row kRows[] = {
      {"control one byte short", 639, 64, {"control", "word 159", "639 bytes"}},
      {"control one word short", 636, 64, {"control", "word 159", "636 bytes"}},
      {"control empty", 0, 64, {"control", "0 bytes"}},
      {"control with a broken word", 642, 64, {"control", "word 160", "642 bytes"}},
      {"ring one byte short", 640, 63, {"ring", "slot 0", "63 bytes"}},
      {"ring one word over", 640, 68, {"ring", "slot 1", "68 bytes"}},
      {"both: control is looked at first", 636, 63, {"control", "636 bytes"}},
  };
  DecodeScratch scratch;
  RingTelemetry telemetry;
  const Bytes good_ring = ring_of({{1, 40, 0, 2, 9}});
  constexpr Word kOpcodes[] = {40};
  ASSERT_TRUE(decode({.ring = good_ring, .window_opcodes = kOpcodes}, scratch, telemetry));
  const RingTelemetry before = telemetry;
  for (const Row& row : kRows) {
    SCOPED_TRACE(row.name);
    const Bytes control(row.control_bytes);
    const Bytes ring(row.ring_bytes);
    const auto result = decode({.control = control, .ring = ring}, scratch, telemetry);
    EXPECT_EQ(code_of(result), Code::corrupt);
    for (const char* const part : row.parts) {
      EXPECT_NE(message_of(result).find(part), std::string::npos) << message_of(result);
    }
    EXPECT_EQ(telemetry, before);
  }
}

// --- windows ----------------------------------------------------------------------------------

TEST(Windows, group_slots_by_ticket_and_opcode) {
  constexpr Word kOpcodes[] = {40, 41};
  const Bytes ring = ring_of({{1, 40, 3, 2, 7, 0},
                              {2, 40, 4, 2, 7, 1},  // the tenant is that of the first slot
                              {3, 41, 5, 2, 7, 0},
                              {4, 40, 6, 2, 8, 0},
                              {5, 40, 3, 2, 7, 0},
                              {6, 40, 3, 2, 7, 2},
                              {7, 40, 3, 2, 7, kMaxWord}});
  const std::vector<WindowTelemetry> expected{
      {.ticket = 7,
       .tenant_id = 3,
       .opcode = 40,
       .required_slots = 2,
       .lookahead_slots = 1,
       .published = 1,
       .claimed = 1,
       .yield_count = 1,
       .requeue = 1,
       .fault = 1},
      {.ticket = 7, .tenant_id = 5, .opcode = 41, .required_slots = 1, .done = 1},
      {.ticket = 8, .tenant_id = 6, .opcode = 40, .required_slots = 1, .wait_io = 1},
  };
  EXPECT_EQ(windows_of(ring, kOpcodes), expected);
}

TEST(Windows, arg1_is_0_for_required_and_1_for_lookahead_and_else_neither) {
  struct Row {
    Word arg1, required, lookahead;
  };
  constexpr Row kRows[] = {{0, 1, 0}, {1, 0, 1}, {2, 0, 0}, {0x10000, 0, 0}, {kMaxWord, 0, 0}};
  constexpr Word kOpcodes[] = {40};
  for (const Row& row : kRows) {
    const auto windows = windows_of(ring_of({{1, 40, 0, 2, 7, row.arg1}}), kOpcodes);
    ASSERT_EQ(windows.size(), 1u) << row.arg1;
    EXPECT_EQ(windows[0].required_slots, row.required) << row.arg1;
    EXPECT_EQ(windows[0].lookahead_slots, row.lookahead) << row.arg1;
    EXPECT_EQ(windows[0].published, 1u) << row.arg1;
  }
}

TEST(Windows, ignore_empty_slots_and_opcodes_nobody_asked_for) {
  const Bytes ring = ring_of({{0, 40, 0, 2, 7, 0}, {1, 41, 0, 2, 7, 0}, {1, 39, 0, 2, 7, 0}});
  constexpr Word kOpcodes[] = {40};
  EXPECT_TRUE(windows_of(ring, kOpcodes).empty());
  EXPECT_TRUE(windows_of(ring, {}).empty());
}

TEST(Windows, a_slot_of_unknown_status_belongs_to_its_window_without_a_count) {
  constexpr Word kOpcodes[] = {40};
  const auto windows = windows_of(ring_of({{8, 40, 3, 2, 7, 0}}), kOpcodes);
  EXPECT_EQ(windows, (std::vector<WindowTelemetry>{
                         {.ticket = 7, .tenant_id = 3, .opcode = 40, .required_slots = 1}}));
  EXPECT_FALSE(windows.at(0).is_active());
}

TEST(Windows, are_sorted_by_ticket_and_then_opcode) {
  constexpr Word kOpcodes[] = {0x7FFFFFFF, 0, 40};  // in no order
  const Bytes ring = ring_of({{1, 40, 0, 2, kMaxWord},
                              {1, 40, 0, 2, 1},
                              {1, 0x7FFFFFFF, 0, 2, 1},
                              {1, 0, 0, 2, 1},
                              {1, 0, 0, 2, 0x80000000},
                              {1, 0, 0, 2, 0}});
  std::vector<std::pair<Word, Word>> keys;
  for (const auto& window : windows_of(ring, kOpcodes))
    keys.emplace_back(window.ticket, window.opcode);
  EXPECT_EQ(keys, (std::vector<std::pair<Word, Word>>{
                      {0, 0}, {1, 0}, {1, 40}, {1, 0x7FFFFFFF}, {0x80000000, 0}, {kMaxWord, 40}}));
}

TEST(Windows, an_opcode_listed_twice_counts_once) {
  constexpr Word kOnce[] = {40};
  constexpr Word kTwice[] = {40, 41, 40, 40};
  const Bytes ring = ring_of({{1, 40, 0, 2, 7}, {1, 40, 0, 2, 7}});
  EXPECT_EQ(windows_of(ring, kTwice), windows_of(ring, kOnce));
}

// A thousand windows of two slots each, published in an order that jumps about.
TEST(Windows, there_may_be_more_than_the_scratch_has_seen) {
  constexpr Word kWindows = 1000;
  std::vector<SlotWords> slots;
  for (const Word lap : {0u, 1u}) {
    for (Word i = 0; i < kWindows; ++i) slots.push_back({1, 40, 0, 2, i * 7919 % kWindows, lap});
  }
  constexpr Word kOpcodes[] = {40};
  const auto windows = windows_of(ring_of(slots), kOpcodes);
  ASSERT_EQ(windows.size(), kWindows);
  for (Word ticket = 0; ticket < kWindows; ++ticket) {
    ASSERT_EQ(windows[ticket], (WindowTelemetry{.ticket = ticket,
                                                .opcode = 40,
                                                .required_slots = 1,
                                                .lookahead_slots = 1,
                                                .published = 2}));
  }
}

TEST(Windows, scratch_of_a_larger_decode_serves_a_smaller_one) {
  constexpr Word kOpcodes[] = {40};
  std::vector<SlotWords> many;
  for (Word i = 0; i < 500; ++i) many.push_back({1, 40, 0, 2, i});
  const Bytes large = ring_of(many);
  const Bytes small = ring_of({{1, 40, 0, 2, 3}, {1, 40, 0, 2, 900}});
  DecodeScratch scratch;
  RingTelemetry telemetry;
  ASSERT_TRUE(decode({.ring = large, .window_opcodes = kOpcodes}, scratch, telemetry));
  EXPECT_GE(scratch.window_capacity(), 500u);
  EXPECT_GE(scratch.window_opcode_capacity(), 1u);
  ASSERT_TRUE(decode({.ring = small, .window_opcodes = kOpcodes}, scratch, telemetry));
  EXPECT_EQ(telemetry.windows, windows_of(small, kOpcodes));
}

// Tickets that differ in the upper bits only must not share a place of the hash table, which would
// make a decode quadratic. The time is compared with that for consecutive tickets.
TEST(Windows, tickets_that_differ_in_their_upper_bits_only_take_no_longer) {
  constexpr Word kWindows = 10'000;
  const auto best_of_three = [](unsigned shift) {
    std::vector<SlotWords> slots;
    for (Word i = 0; i < kWindows; ++i) slots.push_back({1, 40, 0, 2, i << shift});
    const Bytes ring = ring_of(slots);
    constexpr Word kOpcodes[] = {40};
    DecodeScratch scratch;
    RingTelemetry telemetry;
    auto best = std::chrono::steady_clock::duration::max();
    for (int run = 0; run < 3; ++run) {
      const auto start = std::chrono::steady_clock::now();
      EXPECT_TRUE(decode({.ring = ring, .window_opcodes = kOpcodes}, scratch, telemetry));
      best = std::min(best, std::chrono::steady_clock::now() - start);
    }
    return best;
  };
  // Measured: a factor of 100 and more if they collide, 1 to 3 with a good hash function.
  EXPECT_LT(best_of_three(16), 20 * best_of_three(0));
}

}  // namespace
}  // namespace everkernel::telemetry
