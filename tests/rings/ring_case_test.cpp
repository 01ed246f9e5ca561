// Rings on which random tests once found an error, made as small as possible. The model computes
// the expected result.
#include <gtest/gtest.h>

#include <array>
#include <initializer_list>
#include <vector>

#include "ring_trial.hpp"
#include "support/backend_under_test.hpp"

namespace everkernel::test {
namespace {

using namespace wire;
using backend::Schedule;
using SlotWords = std::array<Word, 16>;

// All tenants may run, all counters are 0, and the IO slots have these statuses.
GeneratedRing plain_ring(std::initializer_list<SlotWords> slots,
                         std::initializer_list<Word> io_statuses) {
  GeneratedRing ring;
  ring.image.control.assign(200, 0);
  ring.image.control[2] = 3;
  for (Word i = 3; i < 32; ++i) ring.image.control[i] = 1;
  for (Word i = 32; i < 64; ++i) ring.image.control[i] = 1'000'000;
  for (const SlotWords& slot : slots) {
    ring.image.ring.insert(ring.image.ring.end(), slot.begin(), slot.end());
  }
  ring.image.debug_log.assign(5, 0);
  for (const Word status : io_statuses) {
    ring.image.io_queue.insert(ring.image.io_queue.end(), {0, 0, 0, 0, 0, 0, status, 0});
  }
  return ring;
}

// Dispatches the ring on every schedule with one worker and with three. On a GPU also with 64: from
// 32 workers on the lanes of a warp look at a slot each.
void expect_as_modelled(const GeneratedRing& ring, std::optional<Between> between = {}) {
  const Word slot_count = ring.image.slot_count();
  Random random(1);
  const std::vector<DataImage> data = generate_data(random, slot_count);
  std::vector<Word> worker_counts = {1, 3};
  if (is_on_cuda()) worker_counts.push_back(64);
  for (const Schedule schedule : {Schedule::direct, Schedule::priority, Schedule::ticket}) {
    for (const Word workers : worker_counts) {
      const KernelShape shape = {
          .slot_count = slot_count, .worker_count = workers, .schedule = schedule};
      auto kernel = RingKernel::make(shape, data);
      ASSERT_TRUE(kernel) << kernel.error().message;
      const TrialResult result = kernel->run({.rings = {ring},
                                              .is_resident = {false},
                                              .data = data,
                                              .between = between,
                                              .timeout = std::chrono::seconds(2)});
      EXPECT_EQ(result.difference, "") << describe(shape);
    }
  }
}

constexpr SlotWords kLoadMissSlot = {kPublished, kLoadMiss, 0, 2, 7, 0};
constexpr SlotWords kPrefetchSlot = {kPublished, kLoadMiss, 0, 2, 8, 1};
constexpr SlotWords kWaiterSlot = {
    kPublished, handler::kWaiter, 0, 2, 0, handle::kShared, 5, 0, 1, 2, 3, 4, 0, 0};

// The item used to keep the args of the run whose request was lost, and continued without the data.
TEST(RingCases, an_item_whose_await_finds_no_io_slot_asks_again) {
  const GeneratedRing ring = plain_ring({kLoadMissSlot, kWaiterSlot}, {0});
  expect_as_modelled(ring);
  expect_as_modelled(ring, Between{.serves_io = true});
}

// The item used to be tried for ever: an unanswered prefetch passed for a free IO slot.
TEST(RingCases, a_load_miss_behind_a_prefetch_ends_the_dispatch) {
  expect_as_modelled(plain_ring({kPrefetchSlot, kLoadMissSlot}, {0}));
}

TEST(RingCases, an_item_that_finds_no_io_slot_is_put_back_and_counts_no_claim) {
  expect_as_modelled(plain_ring({kLoadMissSlot}, {1}));
  expect_as_modelled(plain_ring({kWaiterSlot}, {1}));
}

TEST(RingCases, an_item_that_waits_for_an_io_slot_outside_the_queue_faults) {
  SlotWords slot = kLoadMissSlot;
  slot[0] = kWaitIo;
  slot[15] = 1;
  expect_as_modelled(plain_ring({slot}, {0}));
}

// No worker claims an item that waits for IO, so its tenant is not checked. On a GPU the item used
// to be counted at an index taken from the upper half of the tenant: behind the control words, or
// in word 192.
TEST(RingCases, an_answered_load_miss_of_any_tenant_is_counted_as_done_alone) {
  for (const Word tenant : {1u, 29u, 256u, 0x0040'0000u, 0xFFFF'FFFFu}) {
    SlotWords slot = kLoadMissSlot;
    slot[0] = kWaitIo;
    slot[2] = tenant;
    slot[15] = 1;
    expect_as_modelled(plain_ring({slot}, {0, kIoOk}));
    expect_as_modelled(plain_ring({slot, kLoadMissSlot, {kPublished, kNop}}, {0, kIoOk}));
  }
}

}  // namespace
}  // namespace everkernel::test
