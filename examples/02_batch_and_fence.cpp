// A batch and its fence: several operations, and a slot after them that completes when all of them
// have. When the host sees the epoch advance, it may read every result of the batch.
//
// dispatch() is the bounded way to run: it takes buffers, drains the ring and returns the buffers.
#include <fmt/format.h>

#include <array>
#include <vector>

#include "everkernel/abi/control.hpp"
#include "everkernel/abi/opcode.hpp"
#include "everkernel/backend/cpu/cpu_backend.hpp"
#include "everkernel/protocol/control.hpp"
#include "everkernel/protocol/ring.hpp"
#include "everkernel/protocol/ring_writer.hpp"
#include "everkernel/runtime/megakernel.hpp"

namespace {

using namespace everkernel;
using abi::Word;

constexpr Word kItems = 16;
constexpr Word kSum =
    abi::kControlWords + 1;  // the fence stores its tag into the observable before this one
constexpr Word kTag = 99;

// Publishes 1 + 2 + … + kItems as one addition per slot, and the fence.
Result<Word> publish_sum(std::span<std::byte> ring) {
  protocol::RingWriter writer = EVERKERNEL_TRY(protocol::RingWriter::bind(ring));
  std::vector<std::array<Word, 2>> args;
  for (Word i = 1; i <= kItems; ++i) args.push_back({i, kSum});
  std::vector<protocol::Operation> operations;
  for (const auto& words : args) {
    operations.push_back({.opcode = Word(abi::Opcode::atomic_add), .args = words});
  }
  return writer.publish_batch({.first_slot = 0, .tag = kTag, .operations = operations});
}

Result<bool> run() {
  const protocol::ControlLayout layout{.observable_slots = 2};
  std::vector<std::byte> control(*protocol::control_bytes(layout));
  std::vector<std::byte> ring(*protocol::ring_bytes(32));
  EVERKERNEL_TRY(protocol::encode_control(layout, control));
  const Word slots = EVERKERNEL_TRY(publish_sum(ring));

  Megakernel kernel = EVERKERNEL_TRY(
      Megakernel::create(backend::cpu::make_backend(), {.slot_count = 32, .workgroup_size = 32}));
  const Submission submissions[] = {HostBuffers{.control = control, .ring = ring}};
  const DispatchReport report = EVERKERNEL_TRY(kernel.dispatch({.submissions = submissions}));

  const protocol::ControlView after =
      EVERKERNEL_TRY(protocol::ControlView::parse(report.submissions[0].control));
  const Word tag = *after.observable(0);
  const Word sum = *after.observable(1);
  fmt::print("{} slots done, epoch {}, tag {}, sum {}\n", report.stats.items_done, after.epoch(),
             tag, sum);
  return report.stats.items_done == slots && after.epoch() == 1 && tag == kTag &&
         sum == kItems * (kItems + 1) / 2;
}

}  // namespace

int main() {
  const auto is_right = run();
  if (!is_right) fmt::print("error: {}\n", is_right.error().message);
  return is_right && *is_right ? 0 : 1;
}
