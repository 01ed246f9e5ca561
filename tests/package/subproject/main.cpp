// Needs the protocol alone: makes a ring and reads it back.
#include <cstdio>
#include <vector>

#include "everkernel/protocol/ring.hpp"

int main() {
  namespace protocol = everkernel::protocol;
  std::vector<std::byte> ring(3 * everkernel::abi::kSlotBytes, std::byte{0xFF});
  const auto encoded = protocol::encode_ring(3, ring);
  const auto view = protocol::RingView::parse(ring);
  const bool is_right = encoded && view && view->slot_count() == 3 &&
                        view->count(everkernel::abi::SlotStatus::empty, 3) == 3u;
  std::printf("%s\n", is_right ? "three empty slots" : "error: not three empty slots");
  return is_right ? 0 : 1;
}
