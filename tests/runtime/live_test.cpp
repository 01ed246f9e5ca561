// TicketDesk and CompletionBell: a sleeping thread is woken, and no wake-up is lost.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "everkernel/backend/detail/graph_kernel.hpp"

namespace everkernel::backend {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(TicketDesk, gives_tickets_in_order_and_stops_at_the_limit) {
  TicketDesk desk(5);
  EXPECT_EQ(desk.reserve(3, 10)->first_ticket, 5u);
  EXPECT_EQ(desk.reserve(2, 10)->first_ticket, 8u);
  EXPECT_FALSE(desk.reserve(1, 10));
  EXPECT_EQ(desk.next_ticket(), 10u);
}

TEST(TicketDesk, reserves_at_a_place_only_while_it_is_the_next) {
  TicketDesk desk(5);
  EXPECT_FALSE(desk.reserve_at(6, 1, 10));
  EXPECT_EQ(desk.reserve_at(5, 2, 10)->first_ticket, 5u);
  EXPECT_FALSE(desk.reserve_at(7, 4, 10));
}

TEST(TicketDesk, nobody_sleeps_while_a_reserved_ticket_is_unclaimed) {
  TicketDesk desk(0);
  ASSERT_TRUE(desk.reserve(1, 8));
  EXPECT_FALSE(desk.fall_asleep(0));
  EXPECT_EQ(desk.reserve(1, 8)->sleepers, 0u);
}

TEST(TicketDesk, a_sleeper_is_taken_off_by_the_publisher_that_wakes_it) {
  TicketDesk desk(0);
  std::jthread worker([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      if (desk.fall_asleep(desk.next_ticket())) desk.sleep(seconds(60));
    }
  });
  std::optional<TicketDesk::Reservation> place;
  do {
    std::this_thread::sleep_for(milliseconds(1));
    place = desk.reserve(1, ~std::uint64_t{0} >> 12);
    ASSERT_TRUE(place);
  } while (place->sleepers == 0);
  EXPECT_EQ(place->sleepers, 1u);
  EXPECT_EQ(desk.reserve(1, ~std::uint64_t{0} >> 12)->sleepers, 0u);
  worker.request_stop();
  desk.wake(place->sleepers);
  desk.close();
}

TEST(TicketDesk, a_nap_ends_by_itself_and_leaves_no_sleeper) {
  TicketDesk desk(0);
  ASSERT_TRUE(desk.fall_asleep(0));
  desk.sleep(milliseconds(1));
  EXPECT_EQ(desk.reserve(1, 8)->sleepers, 0u);
}

TEST(TicketDesk, a_closed_desk_gives_nothing_and_lets_nobody_sleep) {
  TicketDesk desk(0);
  desk.close();
  EXPECT_FALSE(desk.reserve(1, 8));
  EXPECT_FALSE(desk.reserve_at(0, 1, 8));
  EXPECT_FALSE(desk.fall_asleep(0));
  desk.reopen();
  EXPECT_TRUE(desk.reserve(1, 8));
}

TEST(TicketDesk, closing_wakes_whoever_sleeps) {
  TicketDesk desk(0);
  std::jthread worker([&] {
    if (desk.fall_asleep(0)) desk.sleep(seconds(60));
  });
  std::this_thread::sleep_for(milliseconds(5));
  desk.close();
}

// Two workers that sleep whenever they can, and a publisher that never waits: if a wake-up were
// lost, a ticket would stay unclaimed and the test would not end.
TEST(TicketDesk, no_publish_is_slept_through) {
  constexpr std::uint64_t kTickets = 20'000;
  TicketDesk desk(0);
  std::atomic<std::uint64_t> head{0};
  const auto work = [&] {
    for (;;) {
      std::uint64_t next = head.load();
      if (next == kTickets) return;
      if (next < desk.next_ticket()) {
        head.compare_exchange_strong(next, next + 1);
      } else {
        if (desk.fall_asleep(next)) desk.sleep(seconds(60));
      }
    }
  };
  std::jthread first(work);
  std::jthread second(work);
  for (std::uint64_t i = 0; i < kTickets; ++i) {
    const auto place = desk.reserve(1, kTickets);
    ASSERT_TRUE(place);
    desk.wake(place->sleepers);
    if (i % 64 == 0) std::this_thread::yield();
  }
  while (head.load() != kTickets) std::this_thread::yield();
  desk.close();
}

TEST(CompletionBell, wakes_a_host_that_prepared) {
  CompletionBell bell(2);
  std::atomic<bool> has_ended{false};
  std::jthread worker([&] {
    std::this_thread::sleep_for(milliseconds(2));
    has_ended.store(true);
    bell.ring(1);
  });
  const auto begin = Clock::now();
  while (!has_ended.load()) {
    const std::uint32_t prepared = bell.prepare();
    if (has_ended.load()) break;
    bell.sleep(prepared, Clock::now() + seconds(60));
  }
  EXPECT_LT(Clock::now() - begin, seconds(30));
}

TEST(CompletionBell, sleeping_ends_at_the_deadline) {
  CompletionBell bell(1);
  const auto begin = Clock::now();
  bell.sleep(bell.prepare(), begin + milliseconds(5));
  EXPECT_GE(Clock::now() - begin, milliseconds(4));
}

}  // namespace
}  // namespace everkernel::backend
