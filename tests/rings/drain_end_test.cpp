// The end of a drain: a worker may leave only if nothing has moved since its last look at the
// deferred slots (src/backend/cpu/drain.cpp).
//
// A mistake there shows if a worker is interrupted between its look at a slot that cannot run yet
// and its return of that slot, while another worker makes the slot runnable and leaves. More
// workers than cores, fences that are looked at all the time, and many dispatches make that likely.
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "everkernel/backend/cpu/cpu_backend.hpp"
#include "everkernel/protocol/control.hpp"
#include "everkernel/runtime/megakernel.hpp"
#include "support/ir_text.hpp"
#include "support/sanitized.hpp"
#include "support/seeds.hpp"

namespace everkernel::test {
namespace {

using abi::Word;

constexpr Word kSlots = 16;
constexpr Word kYields = 64, kSpins = 65;
// `yields` ends in the loop over deferred slots, `spins` at its first visit.
constexpr std::string_view kHandlers = R"(
handler yields = 64 { if args[3] != 0 { args[3] = args[3] - 1; yield; } }
handler spins = 65 { var sum = 0; for i in 0 .. param { sum = sum * 3 + i; } args[3] = sum; }
)";

// Fences behind an item that yields and an item that spins.
std::vector<Word> ring_of(Word yields, Word spins, Word fences) {
  std::vector<Word> ring(kSlots * abi::kSlotWords);
  const auto put = [&](Word slot, std::initializer_list<Word> words) {
    std::copy(words.begin(), words.end(), ring.begin() + slot * abi::kSlotWords);
  };
  put(0, {1, kYields, 0, 2, 0, 0, 0, yields});
  put(1, {1, kSpins, 0, 2, 0, 0, spins, 0});
  for (Word slot = 2; slot < 2 + fences; ++slot) {
    put(slot, {1, static_cast<Word>(abi::Opcode::batch_fence), 0, 2, slot, 77});
  }
  return ring;
}

TEST(DrainEnd, no_slot_that_can_run_is_left) {
  const Word workers = std::thread::hardware_concurrency() + 2;
  auto kernel = Megakernel::create(backend::cpu::make_backend(),
                                   {.slot_count = kSlots,
                                    .workgroup_size = kSlots,
                                    .handlers = *check_text(kHandlers),
                                    .execution = backend::Execution::interpreter,
                                    .worker_count = workers});
  ASSERT_TRUE(kernel) << kernel.error().message;
  const Word dispatches =
      static_cast<Word>(number_from("EVERKERNEL_TRIALS").value_or(kIsSanitized ? 100 : 1000));
  for (Word i = 0; i < dispatches; ++i) {
    std::vector<Word> control(161);
    control[2] = 3;
    control[3] = ~0u;
    control[32] = 1'000'000;
    const Word fences = i % 2 == 0 ? 1 : kSlots - 2;
    const std::vector<Word> ring = ring_of(1000 + 37 * (i % 16), 4000 + 2000 * (i % 7), fences);
    const Submission submission = HostBuffers{.control = std::as_bytes(std::span(control)),
                                              .ring = std::as_bytes(std::span(ring))};
    const auto report =
        kernel->dispatch({.submissions = std::span(&submission, 1), .readback = Readback::none});
    ASSERT_TRUE(report) << report.error().message;
    ASSERT_EQ(report->stats.items_done, 2 + fences) << "dispatch " << i;
    ASSERT_EQ(report->stats.items_remaining, 0u) << "dispatch " << i;
  }
}

}  // namespace
}  // namespace everkernel::test
