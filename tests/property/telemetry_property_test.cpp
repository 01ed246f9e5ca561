// decode() against a model that counts with maps and 64-bit sums.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "everkernel/telemetry/decode.hpp"
#include "everkernel/telemetry/evidence.hpp"
#include "property/generators.hpp"
#include "support/results.hpp"
#include "support/wire_bytes.hpp"

namespace everkernel::telemetry {
namespace {

using test::Bytes;
using test::code_of;
using test::SlotWords;

// Slots of few tickets, opcodes and tenants, so that windows have more than one slot.
std::vector<SlotWords> random_slots() {
  const auto count = *rc::gen::weightedOneOf<std::size_t>(
      {{8, rc::gen::inRange<std::size_t>(0, 12)}, {1, rc::gen::inRange<std::size_t>(60, 140)}});
  std::vector<SlotWords> slots(count);
  const Word tickets = *rc::gen::element<Word>(3, 1000);  // many tickets make the table grow
  for (SlotWords& slot : slots) {
    const Word status = *rc::gen::oneOf(rc::gen::inRange<Word>(0, 9), test::slot_status());
    slot = {status,
            *test::mostly_below(4),
            *test::mostly_below(34),
            *test::mostly_below(5),
            *test::mostly_below(tickets),
            *test::mostly_below(3),
            *test::edge_word()};
    if (status >= 7) slot[3] = *test::edge_word();  // a fault code, in a slot that has one or not
  }
  return slots;
}

std::vector<Word> random_control() {
  auto control = *test::words(160 + *rc::gen::inRange<std::size_t>(0, 6));
  control[2] = *rc::gen::weightedOneOf<Word>(
      {{6, rc::gen::just<Word>(3)}, {3, rc::gen::inRange<Word>(0, 34)}, {1, test::edge_word()}});
  for (std::size_t word = 3; word < 32; ++word) control[word] = *rc::gen::element<Word>(0, 1);
  return control;
}

// Whether a worker would run this tenant, in 64 bits so that nothing wraps.
bool is_enabled(const std::vector<Word>& control, Word tenant) {
  const std::uint64_t index = std::uint64_t{control[2]} + tenant;
  return index >= 3 && index <= 31 && control[index] != 0;
}

std::vector<WindowTelemetry> model_windows(const std::vector<SlotWords>& slots,
                                           const std::set<Word>& opcodes) {
  std::map<std::pair<Word, Word>, WindowTelemetry> windows;
  for (const SlotWords& slot : slots) {
    if (slot[0] == 0 || opcodes.count(slot[1]) == 0) continue;
    const auto [at, is_new] = windows.try_emplace({slot[4], slot[1]});
    WindowTelemetry& window = at->second;
    if (is_new) window = {.ticket = slot[4], .tenant_id = slot[2], .opcode = slot[1]};
    if (slot[5] == 0) ++window.required_slots;
    if (slot[5] == 1) ++window.lookahead_slots;
    Word ignored = 0;
    Word* const counts[] = {&ignored,        &window.published,   &window.claimed, &window.done,
                            &window.wait_io, &window.yield_count, &window.requeue, &window.fault};
    if (slot[0] < 8) ++*counts[slot[0]];
  }
  std::vector<WindowTelemetry> sorted;
  for (const auto& [key, window] : windows) sorted.push_back(window);
  return sorted;
}

ControlSnapshot model_control(const std::vector<Word>& words) {
  ControlSnapshot control{.shutdown = words[0] != 0,
                          .done_count = words[1],
                          .epoch = words[128],
                          .fault_count = words[143],
                          .debug_dropped = words[144],
                          .observables = {words.begin() + 160, words.end()}};
  for (Word opcode = 0; opcode < 32; ++opcode) {
    if (words[96 + opcode] != 0) control.metrics.push_back({opcode, words[96 + opcode]});
  }
  std::copy_n(words.begin() + 64, 32, control.tenant_fairness.begin());
  std::copy_n(words.begin() + 136, 5, control.priority_fairness.begin());
  for (Word tenant = 0; tenant < 32; ++tenant) {
    if (is_enabled(words, tenant)) control.enabled_tenants |= Word{1} << tenant;
    if (words[32 + tenant] == 0) control.tenants_without_quota |= Word{1} << tenant;
  }
  return control;
}

RingTelemetry model_decode(const std::vector<Word>& control, const std::vector<SlotWords>& slots,
                           const std::set<Word>& opcodes) {
  RingTelemetry model{.control = model_control(control), .windows = model_windows(slots, opcodes)};
  std::map<Word, Word> counts;
  for (const SlotWords& slot : slots) {
    ++counts[std::min<Word>(slot[0], 8)];
    const std::set<Word> moving{1, 2, 5, 6};
    if (moving.count(slot[0]) != 0 && is_enabled(control, slot[2])) ++model.runnable_slots;
    model.slots.push_back({static_cast<Word>(model.slots.size()),
                           RingStatus{slot[0]},
                           slot[2],
                           slot[1],
                           slot[3] & 0xFFFF,
                           slot[0] == 7 ? slot[3] >> 16 : 0,
                           {slot[4], slot[5], slot[6]}});
  }
  model.occupancy = {counts[0], counts[1], counts[2], counts[3], counts[4],
                     counts[5], counts[6], counts[7], counts[8]};
  return model;
}

std::vector<Word> random_opcodes() {
  return *rc::gen::container<std::vector<Word>>(*rc::gen::inRange<std::size_t>(0, 4),
                                                rc::gen::inRange<Word>(0, 4));
}

RC_GTEST_PROP(TelemetryProperty, decode_finds_what_the_model_finds, ()) {
  DecodeScratch scratch;
  RingTelemetry telemetry;
  // Twice with the same storage: values of the first decode must not remain.
  for (int run = 0; run < 2; ++run) {
    const std::vector<Word> control = random_control();
    const std::vector<SlotWords> slots = random_slots();
    const std::vector<Word> opcodes = random_opcodes();
    const Bytes control_bytes = test::bytes_of(control);
    const Bytes ring_bytes = test::ring_of(slots);
    RC_ASSERT(decode({.control = control_bytes,
                      .ring = ring_bytes,
                      .window_opcodes = opcodes,
                      .observables = true},
                     scratch, telemetry)
                  .has_value());
    const RingTelemetry model = model_decode(control, slots, {opcodes.begin(), opcodes.end()});
    RC_ASSERT(telemetry.control == model.control);
    RC_ASSERT(telemetry.windows == model.windows);
    RC_ASSERT(telemetry.occupancy == model.occupancy);
    RC_ASSERT(telemetry.runnable_slots == model.runnable_slots);
    RC_ASSERT(telemetry.slots == model.slots);
    RC_ASSERT(decode_capacity_evidence(telemetry, scratch).is_complete());
  }
}

RC_GTEST_PROP(TelemetryProperty, counters_and_watchdog_follow_their_formulae, ()) {
  const std::vector<Word> control = random_control();
  const std::vector<SlotWords> slots = random_slots();
  const Bytes control_bytes = test::bytes_of(control);
  const Bytes ring_bytes = test::ring_of(slots);
  DecodeScratch scratch;
  RingTelemetry telemetry;
  RC_ASSERT(decode({.control = control_bytes, .ring = ring_bytes}, scratch, telemetry).has_value());

  const auto count_if = [&](auto condition) {
    return static_cast<std::uint64_t>(std::ranges::count_if(slots, condition));
  };
  const std::uint64_t total = slots.size();
  const std::uint64_t empty = count_if([](const SlotWords& slot) { return slot[0] == 0; });
  const std::uint64_t done = count_if([](const SlotWords& slot) { return slot[0] == 3; });
  const std::uint64_t depth = total - empty - done;
  const auto ratio = [&](std::uint64_t part, std::uint64_t scale) {
    return total == 0 ? 0 : part * scale / total;
  };
  const RuntimeCounters counters = telemetry.counters();
  RC_ASSERT(counters.total_slots == total);
  RC_ASSERT(counters.queue_depth == depth);
  RC_ASSERT(counters.gpu_idle_ppm == ratio(empty, 1'000'000));
  RC_ASSERT(counters.frontier_density_bps == ratio(depth, 10'000));
  RC_ASSERT(counters.occupancy_proxy_bps == ratio(total - empty, 10'000));
  std::multiset<std::uint64_t> claims;
  std::uint64_t claim_sum = 0;
  for (std::size_t word = 64; word < 96; ++word) {
    claim_sum += control[word];
    if (control[word] != 0) claims.insert(control[word]);
  }
  RC_ASSERT(counters.tenant_fairness_total == claim_sum);
  RC_ASSERT(counters.tenant_fairness_skew ==
            (claims.empty() ? 0 : *claims.rbegin() - *claims.begin()));

  const Word before = *rc::gen::oneOf(rc::gen::just(control[1]), test::edge_word());
  const WatchdogSnapshot watchdog = telemetry.watchdog(before);
  const bool can_run = count_if([&](const SlotWords& slot) {
                         return (slot[0] == 1 || slot[0] == 2 || slot[0] == 5 || slot[0] == 6) &&
                                is_enabled(control, slot[2]);
                       }) > 0;
  const std::uint64_t delta = (0x100000000u + control[1] - before) % 0x100000000u;
  RC_CLASSIFY(watchdog.suspected_stall);
  RC_ASSERT(watchdog.done_delta == delta);
  RC_ASSERT(watchdog.queue_depth == depth);
  RC_ASSERT(watchdog.suspected_stall == (depth > 0 && delta == 0 && can_run));
}

RC_GTEST_PROP(TelemetryProperty, broken_lengths_are_corrupt_and_change_nothing, ()) {
  const Bytes good = test::ring_of({{1, 1, 0, 2, 5}});
  constexpr Word kOpcodes[] = {1};
  DecodeScratch scratch;
  RingTelemetry telemetry;
  RC_ASSERT(decode({.ring = good, .window_opcodes = kOpcodes}, scratch, telemetry).has_value());
  const RingTelemetry before = telemetry;
  const Bytes control(*rc::gen::oneOf(rc::gen::inRange<std::size_t>(630, 660),
                                      rc::gen::element<std::size_t>(640, 644)));
  const Bytes ring(*rc::gen::inRange<std::size_t>(0, 4) * 64 +
                   *rc::gen::inRange<std::size_t>(0, 3));
  const bool is_fine = control.size() % 4 == 0 && control.size() >= 640 && ring.size() % 64 == 0;
  RC_CLASSIFY(is_fine);
  const auto result = decode({.control = control, .ring = ring}, scratch, telemetry);
  RC_ASSERT(code_of(result) == (is_fine ? std::nullopt : std::optional(Code::corrupt)));
  if (!is_fine) RC_ASSERT(telemetry == before);
}

RC_GTEST_PROP(TelemetryProperty, copy_avoidance_is_the_exact_quotient, ()) {
  const auto bytes = [] {
    return rc::gen::oneOf(rc::gen::arbitrary<std::uint64_t>(),
                          rc::gen::element<std::uint64_t>(0, 1, 2, 1ull << 63, ~0ull, ~0ull - 1),
                          rc::gen::map(test::near_power_of_two(),
                                       [](Word word) { return std::uint64_t{word} << 32; }));
  };
  const RuntimeEvidence evidence{.host_copy_bytes = *bytes(), .host_copy_avoided_bytes = *bytes()};
  __extension__ using Wide = unsigned __int128;
  const Wide sum = Wide{evidence.host_copy_bytes} + evidence.host_copy_avoided_bytes;
  const Wide expected = sum == 0 ? 0 : Wide{evidence.host_copy_avoided_bytes} * 10'000 / sum;
  RC_ASSERT(evidence.host_copy_avoidance_bps() == static_cast<std::uint64_t>(expected));
}

}  // namespace
}  // namespace everkernel::telemetry
