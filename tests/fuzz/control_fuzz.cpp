// Any bytes as a control buffer: the readers of prefixes, the view and the telemetry agree.
#include <algorithm>

#include "everkernel/protocol/control.hpp"
#include "everkernel/telemetry/decode.hpp"
#include "fuzz.hpp"

namespace everkernel::fuzz {
namespace {

using abi::Word;
using protocol::ControlView;

void check_prefixes(std::span<const std::byte> input) {
  const bool is_words = input.size() % 4 == 0;
  const auto done = protocol::read_done_count(input);
  if (check_accepted(done, is_words && input.size() >= 8)) {
    EVERKERNEL_ASSERT(*done == test::word_at(input, 1));
  }
  const auto epoch = protocol::read_epoch(input);
  if (check_accepted(epoch, is_words && input.size() >= 516)) {
    EVERKERNEL_ASSERT(*epoch == test::word_at(input, 128));
  }
  const auto metrics = protocol::read_metrics(input);
  if (check_accepted(metrics, is_words && input.size() >= 512)) {
    for (std::size_t i = 0; i < 32; ++i) {
      EVERKERNEL_ASSERT((*metrics)[i] == test::word_at(input, 96 + i));
    }
  }
}

void check_snapshot(const ControlView& view, const telemetry::ControlSnapshot& control,
                    std::span<const std::byte> input) {
  EVERKERNEL_ASSERT(control.shutdown == (test::word_at(input, 0) != 0));
  EVERKERNEL_ASSERT(control.done_count == view.done_count());
  EVERKERNEL_ASSERT(control.epoch == view.epoch());
  EVERKERNEL_ASSERT(control.observables.size() == (input.size() - 640) / 4);
  EVERKERNEL_ASSERT(control.observables == test::words_of(input.subspan(640)));
  for (const auto& row : control.metrics) {
    EVERKERNEL_ASSERT(row.opcode < 32 && row.count != 0 && row.count == view.metric(row.opcode));
  }
  for (Word tenant = 0; tenant < 32; ++tenant) {
    const std::uint64_t index = std::uint64_t{test::word_at(input, 2)} + tenant;
    const bool is_enabled = index >= 3 && index <= 31 && test::word_at(input, index) != 0;
    EVERKERNEL_ASSERT(view.tenant_enabled(tenant) == is_enabled);
    EVERKERNEL_ASSERT(((control.enabled_tenants >> tenant) & 1) == (is_enabled ? 1 : 0));
  }
}

// A word that the host changes is read back, and no other word changes.
void check_writer(std::span<const std::byte> input) {
  test::Bytes copy(input.begin(), input.end());
  auto writer = *protocol::ControlWriter::bind(copy);
  EVERKERNEL_ASSERT(writer.set_tenant_quota(28, 5).has_value());
  EVERKERNEL_ASSERT(test::code_of(writer.set_tenant_quota(29, 5)) == Code::invalid_argument);
  EVERKERNEL_ASSERT(ControlView::parse(copy)->tenant_quota(28) == 5);
  test::set_word(copy, 60, test::word_at(input, 60));
  EVERKERNEL_ASSERT(std::ranges::equal(copy, input));
}

void run(std::span<const std::byte> input) {
  check_prefixes(input);
  telemetry::DecodeScratch scratch;
  telemetry::RingTelemetry telemetry;
  const telemetry::DecodeRequest request{.control = input, .observables = true};
  const auto decoded = telemetry::decode(request, scratch, telemetry);
  const auto view = ControlView::parse(input);
  const bool is_sound = input.size() % 4 == 0 && input.size() >= 640;
  check_accepted(decoded, is_sound);
  if (!check_accepted(view, is_sound)) return;
  check_snapshot(*view, telemetry.control, input);
  check_writer(input);
  const auto counters = telemetry.counters();
  EVERKERNEL_ASSERT(counters.total_slots == 0 && counters.gpu_idle_ppm == 0);
  EVERKERNEL_ASSERT(!telemetry.watchdog(view->done_count()).suspected_stall);
}

}  // namespace
}  // namespace everkernel::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  everkernel::fuzz::run(everkernel::fuzz::input_bytes(data, size));
  return 0;
}
