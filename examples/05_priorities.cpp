// Priorities: the ring is divided into five parts, and workers take the most urgent part first.
// After every 16 urgent items a worker takes a less urgent one, so that every item runs eventually.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "everkernel/backend/cpu/cpu_backend.hpp"
#include "everkernel/ir/parser.hpp"
#include "everkernel/protocol/control.hpp"
#include "everkernel/protocol/ring.hpp"
#include "everkernel/protocol/ring_writer.hpp"
#include "everkernel/runtime/megakernel.hpp"

namespace {

using namespace everkernel;
using abi::Word;

// Records the order in which items ran: word 0 counts them, the others hold their priorities.
constexpr std::string_view kHandlers =
    "handler note = 64 { let place = atomic_add(output[0], 1); output[1 + place] = priority; }";
constexpr Word kOpcode = 64;
constexpr Word kOrder = 1;  // the handle of that buffer
constexpr Word kSlots = 100;
constexpr char kLetters[] = {'C', 'H', 'N', 'L', 'I'};

// Fills the ring from its end, so that the order of publishing is not the order of running.
Result<void> publish_all(std::span<std::byte> ring) {
  protocol::RingWriter writer = EVERKERNEL_TRY(protocol::RingWriter::bind(ring));
  const auto offsets = protocol::default_priority_offsets(kSlots);
  const Word args[] = {0, kOrder};
  for (Word priority = abi::kPriorityCount; priority-- > 0;) {
    for (Word slot = offsets[priority]; slot < offsets[priority + 1]; ++slot) {
      EVERKERNEL_TRY(writer.publish(
          {.slot_index = slot, .priority = priority, .opcode = kOpcode, .args = args}));
    }
  }
  return {};
}

Result<std::string> run() {
  ir::Program program = EVERKERNEL_TRY(ir::parse(kHandlers));
  const ir::VerifiedProgram verified = EVERKERNEL_TRY(ir::verify(std::move(program)));
  // One worker, so that the order is defined.
  Megakernel kernel = EVERKERNEL_TRY(
      Megakernel::create(backend::cpu::make_backend(), {.slot_count = kSlots,
                                                        .workgroup_size = 4,
                                                        .handlers = verified,
                                                        .schedule = backend::Schedule::priority,
                                                        .worker_count = 1}));
  const DataBuffer order =
      EVERKERNEL_TRY(kernel.create_buffer({.handle = kOrder, .word_count = kSlots + 1}));

  const protocol::ControlLayout layout;
  std::vector<std::byte> control(*protocol::control_bytes(layout));
  std::vector<std::byte> ring(*protocol::ring_bytes(kSlots));
  EVERKERNEL_TRY(protocol::encode_control(layout, control));
  EVERKERNEL_TRY(publish_all(ring));
  const Submission submissions[] = {HostBuffers{.control = control, .ring = ring}};
  const DispatchReport report =
      EVERKERNEL_TRY(kernel.dispatch({.submissions = submissions, .readback = Readback::none}));

  std::vector<Word> words(kSlots + 1);
  EVERKERNEL_TRY(order.read(0, words));
  std::string letters;
  for (Word i = 0; i < std::min(words[0], kSlots); ++i) letters += kLetters[words[i + 1]];
  return letters;
}

}  // namespace

int main() {
  const auto letters = run();
  if (!letters) fmt::print("error: {}\n", letters.error().message);
  if (!letters) return 1;
  fmt::print("{}\n", *letters);
  // All items ran; the urgent ones ended before the low ones began, but normal ones ran in between.
  const bool is_right = letters->size() == kSlots && letters->front() == 'C' &&
                        letters->rfind('H') < letters->find('L') &&
                        letters->find('N') < letters->rfind('H') && letters->back() == 'I';
  return is_right ? 0 : 1;
}
