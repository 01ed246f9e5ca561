// Doorbell: a worker that sleeps is woken, and no ring is lost.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "everkernel/backend/detail/live.hpp"
#include "live/queue_memory.hpp"

namespace everkernel::backend {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(Doorbell, a_wait_ends_at_its_timeout_and_leaves_nobody_armed) {
  const auto bell = *Doorbell::create();
  EXPECT_FALSE(bell->is_armed());
  bell->arm();
  EXPECT_TRUE(bell->is_armed());
  const auto begin = Clock::now();
  bell->wait(milliseconds(5));
  EXPECT_GE(Clock::now() - begin, milliseconds(4));
  bell->disarm();
  EXPECT_FALSE(bell->is_armed());
}

TEST(Doorbell, an_announcement_wakes_as_many_as_there_is_work_for) {
  const auto bell = *Doorbell::create();
  std::atomic<int> armed{0};
  const auto sleep = [&] {
    bell->arm();
    armed.fetch_add(1);
    bell->wait(seconds(60));
    bell->disarm();
  };
  const auto begin = Clock::now();
  {
    std::jthread first(sleep);
    std::jthread second(sleep);
    while (armed.load() != 2) std::this_thread::yield();
    bell->announce(2);
  }
  EXPECT_LT(Clock::now() - begin, seconds(30));
}

TEST(Doorbell, a_ring_before_the_wait_is_heard) {
  const auto bell = *Doorbell::create();
  const auto begin = Clock::now();
  bell->arm();
  bell->ring(1);
  bell->wait(seconds(60));
  bell->disarm();
  EXPECT_LT(Clock::now() - begin, seconds(30));
}

// Two workers that sleep whenever they can, and a producer that never waits longer than for room:
// if a ring were lost, a ticket would not be taken for a minute.
TEST(Doorbell, no_publish_is_slept_through) {
  constexpr LongWord kTickets = 20'000;
  constexpr Word kCapacity = 8;
  const auto bell = *Doorbell::create();
  const auto memory = *live::QueueMemory::create({.capacity = kCapacity});
  const auto kernel = memory->kernel();
  const auto producer = memory->producer();
  std::atomic<LongWord> head{0};
  const auto work = [&] {
    for (LongWord next = head.load(); next != kTickets; next = head.load()) {
      if (kernel.peek(next)) {
        if (head.compare_exchange_strong(next, next + 1)) {
          kernel.end(next, abi::OutcomeCode::done, 0, {});
        }
        continue;
      }
      bell->arm();
      const LongWord latest = head.load();
      if (latest != kTickets && !kernel.peek(latest)) bell->wait(seconds(60));
      bell->disarm();
    }
  };
  const auto begin = Clock::now();
  std::jthread first(work);
  std::jthread second(work);
  LongWord noted = 0;
  for (LongWord ticket = 0; ticket < kTickets; ++ticket) {
    while (ticket >= noted + kCapacity) {
      noted += producer.count_done(noted, ticket - noted);
      std::this_thread::yield();
    }
    producer.store(ticket, abi::WorkItem{});
    bell->announce();
  }
  while (head.load() != kTickets) std::this_thread::yield();
  bell->ring(2);
  EXPECT_LT(Clock::now() - begin, seconds(50));
}

}  // namespace
}  // namespace everkernel::backend
