// Any bytes as a ring: view, telemetry with windows, and a publish into every slot.
#include <algorithm>

#include "everkernel/protocol/ring.hpp"
#include "everkernel/protocol/ring_writer.hpp"
#include "everkernel/telemetry/decode.hpp"
#include "everkernel/telemetry/evidence.hpp"
#include "fuzz.hpp"

namespace everkernel::fuzz {
namespace {

using abi::SlotStatus;
using abi::Word;
using protocol::RingView;
using telemetry::RingTelemetry;
using telemetry::WindowTelemetry;

void check_view(const RingView& view, std::span<const std::byte> input) {
  test::Bytes rebuilt;
  for (Word i = 0; i < view.slot_count(); ++i) {
    const abi::Slot slot = view.slot(i);
    const auto bytes = std::as_bytes(std::span(&slot, 1));
    rebuilt.insert(rebuilt.end(), bytes.begin(), bytes.end());
  }
  EVERKERNEL_ASSERT(std::ranges::equal(rebuilt, input));
}

// Totals add up, and the view counts the same.
void check_occupancy(const RingView& view, const RingTelemetry& telemetry) {
  const auto& found = telemetry.occupancy;
  const Word counts[] = {found.empty,   found.published,   found.claimed, found.done,
                         found.wait_io, found.yield_count, found.requeue, found.fault};
  Word known = 0;
  for (Word status = 0; status < 8; ++status) {
    EVERKERNEL_ASSERT(*view.count(SlotStatus{status}, view.slot_count()) == counts[status]);
    known += counts[status];
  }
  EVERKERNEL_ASSERT(known + found.unknown == view.slot_count());
  EVERKERNEL_ASSERT(found.total_slots() == view.slot_count());
  EVERKERNEL_ASSERT(telemetry.slots.size() == view.slot_count());
  const auto counters = telemetry.counters();
  EVERKERNEL_ASSERT(counters.queue_depth + found.empty + found.done == view.slot_count());
  EVERKERNEL_ASSERT(counters.gpu_idle_ppm <= 1'000'000 && counters.frontier_density_bps <= 10'000 &&
                    counters.occupancy_proxy_bps <= 10'000);
}

// Windows rise strictly by (ticket, opcode) and hold just the slots that were asked for.
void check_windows(const RingView& view, const RingTelemetry& telemetry,
                   std::span<const Word> opcodes) {
  const auto key = [](const WindowTelemetry& w) { return std::pair(w.ticket, w.opcode); };
  const auto falls = [&](const auto& a, const auto& b) { return key(a) >= key(b); };
  EVERKERNEL_ASSERT(std::ranges::adjacent_find(telemetry.windows, falls) ==
                    telemetry.windows.end());
  std::uint64_t grouped = 0;
  for (const WindowTelemetry& w : telemetry.windows) {
    grouped += std::uint64_t{w.published} + w.claimed + w.done + w.wait_io + w.yield_count +
               w.requeue + w.fault;
    EVERKERNEL_ASSERT(std::ranges::count(opcodes, w.opcode) > 0);
  }
  std::uint64_t expected = 0;
  for (Word i = 0; i < view.slot_count(); ++i) {
    const abi::Slot slot = view.slot(i);
    const bool is_counted = abi::is_known(slot.status) && slot.status != SlotStatus::empty;
    if (is_counted && std::ranges::count(opcodes, slot.opcode) > 0) ++expected;
  }
  EVERKERNEL_ASSERT(grouped == expected);
}

void check_publish(const RingView& view, std::span<const std::byte> input) {
  test::Bytes copy(input.begin(), input.end());
  auto writer = *protocol::RingWriter::bind(copy);
  for (Word i = 0; i < view.slot_count(); ++i) {
    const bool is_free = abi::is_publishable(view.slot(i).status);
    const auto result = writer.publish({.slot_index = i, .opcode = 8});
    EVERKERNEL_ASSERT(test::code_of(result) ==
                      (is_free ? std::nullopt : std::optional(Code::queue_full)));
    const auto line = std::size_t{i} * 64;
    EVERKERNEL_ASSERT(is_free || std::memcmp(&copy[line], &input[line], 64) == 0);
  }
}

void run(std::span<const std::byte> input) {
  telemetry::DecodeScratch scratch;
  RingTelemetry telemetry;
  const auto view = RingView::parse(input);
  if (!check_accepted(view, input.size() % 64 == 0)) {
    check_refused(telemetry::decode({.ring = input}, scratch, telemetry));
    EVERKERNEL_ASSERT(telemetry == RingTelemetry{});
    return;
  }
  // Opcodes that are there: those of the first and the last slot, one of them twice.
  std::vector<Word> opcodes;
  if (view->slot_count() > 0) {
    opcodes = {view->slot(0).opcode, view->slot(view->slot_count() - 1).opcode,
               view->slot(0).opcode};
  }
  const telemetry::DecodeRequest request{.ring = input, .window_opcodes = opcodes};
  EVERKERNEL_ASSERT(telemetry::decode(request, scratch, telemetry).has_value());
  const RingTelemetry first = telemetry;
  EVERKERNEL_ASSERT(telemetry::decode(request, scratch, telemetry).has_value());
  EVERKERNEL_ASSERT(telemetry == first);
  EVERKERNEL_ASSERT(telemetry.runnable_slots == 0);  // no control buffer, no enabled tenant
  EVERKERNEL_ASSERT(telemetry::decode_capacity_evidence(telemetry, scratch).is_complete());
  check_view(*view, input);
  check_occupancy(*view, telemetry);
  check_windows(*view, telemetry, opcodes);
  check_publish(*view, input);
}

}  // namespace
}  // namespace everkernel::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  everkernel::fuzz::run(everkernel::fuzz::input_bytes(data, size));
  return 0;
}
