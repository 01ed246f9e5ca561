// The smallest program: make a ring, publish one operation into it, look at what is there.
#include <fmt/format.h>

#include <array>
#include <vector>

#include "everkernel/abi/opcode.hpp"
#include "everkernel/protocol/ring.hpp"
#include "everkernel/protocol/ring_writer.hpp"
#include "everkernel/telemetry/decode.hpp"

int main() {
  using namespace everkernel;
  // [readme]
  std::vector<std::byte> ring(*protocol::ring_bytes(256));  // zeros: 256 empty slots
  auto writer = *protocol::RingWriter::bind(ring);

  const std::array<abi::Word, 2> args{5, 160};  // control[160] += 5
  const auto published =
      writer.publish({.slot_index = 0, .opcode = abi::Word(abi::Opcode::atomic_add), .args = args});
  if (!published) fmt::print("{} ({})\n", published.error().message, published.error().hint);

  telemetry::DecodeScratch scratch;
  telemetry::RingTelemetry look;
  if (telemetry::decode({.ring = ring}, scratch, look)) {
    fmt::print("{} of {} slots wait\n", look.occupancy.published, look.slots.size());
  }
  // [/readme]
  return look.occupancy.published == 1 && look.slots[0].args_prefix[0] == 5 ? 0 : 1;
}
