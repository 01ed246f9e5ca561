// Uses the installed library end to end: encodes buffers, publishes, decodes and checks.
#include <cstddef>
#include <cstdio>
#include <string>
#include <vector>

#include "everkernel/abi/opcode.hpp"
#include "everkernel/base/version.hpp"
#include "everkernel/protocol/control.hpp"
#include "everkernel/protocol/ring.hpp"
#include "everkernel/protocol/ring_writer.hpp"
#include "everkernel/telemetry/decode.hpp"
#include "everkernel/telemetry/json.hpp"

namespace {

using namespace everkernel;

Result<telemetry::RingTelemetry> publish_and_decode() {
  std::vector<std::byte> control(640);
  EVERKERNEL_TRY(protocol::encode_control({.tenant_count = 2}, control));
  std::vector<std::byte> ring(4 * abi::kSlotBytes);
  EVERKERNEL_TRY(protocol::encode_ring(4, ring));

  auto writer = protocol::RingWriter::bind(ring);
  if (!writer) return Failure(writer.error());
  const std::vector<abi::Word> args = {7, 160};
  EVERKERNEL_TRY(writer->publish({
      .slot_index = 2,
      .tenant = 1,
      .opcode = static_cast<abi::Word>(abi::Opcode::store_u32),
      .args = args,
  }));

  telemetry::DecodeScratch scratch;
  telemetry::RingTelemetry telemetry;
  EVERKERNEL_TRY(telemetry::decode({.control = control, .ring = ring}, scratch, telemetry));
  return telemetry;
}

}  // namespace

int main() {
  const auto telemetry = publish_and_decode();
  if (!telemetry) {
    std::fprintf(stderr, "error: %s\n", telemetry.error().message.c_str());
    return 1;
  }
  std::string text;
  JsonWriter json(text);
  telemetry::write_json(json, telemetry->occupancy);
  std::printf("everkernel %s: %s\n", std::string(version()).c_str(), text.c_str());

  const telemetry::RingSlotSnapshot& slot = telemetry->slots.at(2);
  const bool is_right = telemetry->occupancy.published == 1 && telemetry->occupancy.empty == 3 &&
                        slot.tenant_id == 1 && slot.opcode == 1 && slot.args_prefix[1] == 160;
  if (!is_right) std::fprintf(stderr, "error: decoded something else than was published\n");
  return is_right ? 0 : 1;
}
