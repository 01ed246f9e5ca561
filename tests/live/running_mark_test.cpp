// The marks of workers, the thread that ends overdue items, and items that cannot be ended.
#include "backend/cpu/running_mark.hpp"

#include <atomic>
#include <filesystem>
#include <thread>

#include "everkernel/ir/trusted_item.hpp"
#include "live/queue_memory.hpp"
#include "queue_fixture.hpp"

namespace everkernel::test {
namespace {

using abi::LongWord;
using backend::LiveQueue;
using backend::cpu::RunningMark;
using Clock = backend::Clock;

class RunningMarks : public testing::Test {
 protected:
  void SetUp() override {
    auto memory = live::QueueMemory::create({.capacity = 4});
    ASSERT_TRUE(memory) << message_of(memory);
    queue = std::make_unique<LiveQueue>(
        (*memory)->kernel(),
        LiveQueue::Rights{.tenant = 3, .priority = 1, .item_timeout = seconds(5)}, *memory);
  }
  static Word load(const Word* abort) {
    return std::atomic_ref(*const_cast<Word*>(abort)).load(std::memory_order_relaxed);
  }

  std::unique_ptr<LiveQueue> queue;
  RunningMark mark;
};

TEST_F(RunningMarks, show_what_runs_and_nothing_else) {
  EXPECT_FALSE(mark.look());
  const auto before = Clock::now();
  mark.begin(*queue, 77, 64);
  const auto seen = mark.look();
  ASSERT_TRUE(seen);
  EXPECT_EQ(seen->queue, queue.get());
  EXPECT_EQ(seen->ticket, 77u);
  EXPECT_EQ(seen->opcode, 64u);
  EXPECT_EQ(seen->timeout, seconds(5));
  EXPECT_GE(seen->since, before);
  EXPECT_LE(seen->since, Clock::now());
  EXPECT_FALSE(seen->was_told_to_end);
  mark.end();
  EXPECT_FALSE(mark.look());
  mark.begin(*queue, 78, 64, 1'000);
  EXPECT_EQ(mark.look()->since.time_since_epoch(), std::chrono::microseconds(1));
  mark.end();
}

TEST_F(RunningMarks, a_run_is_told_to_end_and_the_next_one_is_not) {
  const Word* const abort = mark.begin(*queue, 1, 64);
  EXPECT_EQ(load(abort), 0u);
  const std::uint64_t number = mark.look()->number;
  mark.tell_to_end(number);
  EXPECT_EQ(load(abort), 1u);
  EXPECT_TRUE(mark.look()->was_told_to_end);
  mark.end();
  EXPECT_EQ(load(mark.begin(*queue, 2, 64)), 0u);
  mark.tell_to_end(number);  // late: that run is over
  EXPECT_EQ(load(abort), 0u);
  EXPECT_FALSE(mark.look()->was_told_to_end);
  mark.end();
}

// One thread ends runs as fast as it can while another one begins and ends them: a run sees the
// abort word only if it was meant, and what is seen of a run is of that run alone.
TEST_F(RunningMarks, no_run_is_hurt_by_the_end_of_another) {
  constexpr LongWord kRuns = 200'000;
  std::atomic<bool> is_over{false};
  std::atomic<LongWord> told{0}, wrong{0};
  std::jthread ender([&] {
    while (!is_over) {
      const auto seen = mark.look();
      if (!seen) continue;
      if (seen->opcode != seen->ticket % 1000) ++wrong;
      if (seen->ticket % 2 == 0) {
        mark.tell_to_end(seen->number);
        ++told;
      }
    }
  });
  LongWord hurt = 0, ended = 0;
  for (LongWord ticket = 0; ticket < kRuns; ++ticket) {
    const Word* const abort = mark.begin(*queue, ticket, static_cast<Word>(ticket % 1000));
    if (ticket % 256 == 0) std::this_thread::yield();
    const bool is_aborted = load(abort) != 0;
    hurt += LongWord{is_aborted && ticket % 2 != 0};
    ended += LongWord{is_aborted};
    mark.end();
  }
  is_over = true;
  ender.join();
  EXPECT_EQ(hurt, 0u);
  EXPECT_EQ(wrong, 0u);
  EXPECT_GE(told, ended);
}

// ---- in a session ----

using OverdueItems = Queues;

std::ptrdiff_t thread_count() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
}

TEST_F(OverdueItems, only_a_queue_with_a_timeout_costs_a_thread) {
  const auto before = thread_count();
  Queue without = open();
  EXPECT_EQ(thread_count(), before);
  Queue with = open({.item_timeout = milliseconds(5)});
  EXPECT_EQ(thread_count(), before + 1);
  Queue another = open({.item_timeout = milliseconds(1)});
  EXPECT_EQ(thread_count(), before + 1);
  for (Queue* const queue : {&with, &another}) {
    const auto ticket = queue->publish({kSpin});
    ASSERT_TRUE(ticket);
    const auto ended = queue->wait(*ticket, kPatience);
    ASSERT_TRUE(ended) << message_of(ended);
    EXPECT_EQ(ended->fault_code, Word(abi::FaultCode::deadline));
  }
  const auto spins = without.publish({kSpin});
  ASSERT_TRUE(spins);
  std::this_thread::sleep_for(milliseconds(20));
  EXPECT_FALSE(*without.poll(*spins));
}

std::atomic<int> stuck_runs{0};
std::atomic<bool> may_return{false};
ir::Outcome run_stuck(ir::TrustedItem&) {
  ++stuck_runs;
  while (!may_return) std::this_thread::sleep_for(milliseconds(1));
  return {};
}

// Nothing can end it, but it is seen, and everything else goes on.
TEST(StuckItems, a_trusted_handler_that_does_not_return_is_listed_until_it_does) {
  auto kernel = Megakernel::create(
      backend::cpu::make_backend(),
      {.trusted_handlers = {{.name = "stuck", .opcode = 70, .cpu = run_stuck}}, .worker_count = 2});
  ASSERT_TRUE(kernel) << message_of(kernel);
  auto session = kernel->start({.item_timeout = milliseconds(2)});
  ASSERT_TRUE(session) << message_of(session);
  const auto stuck = session->publish({70});
  ASSERT_TRUE(stuck);
  const auto deadline = Clock::now() + kPatience;
  std::vector<RunningItem> seen;
  while (seen.empty() || !seen[0].was_told_to_end) {
    ASSERT_LT(Clock::now(), deadline);
    auto running = session->running();
    ASSERT_TRUE(running) << message_of(running);
    seen = std::move(*running);
  }
  EXPECT_EQ(seen[0].name, "stuck");
  EXPECT_EQ(seen[0].ticket, *stuck);
  const auto beside = session->publish({0});
  ASSERT_TRUE(beside);
  EXPECT_TRUE(session->wait(*beside, kPatience));
  EXPECT_FALSE(*session->poll(*stuck));
  may_return = true;
  const auto ended = session->wait(*stuck, kPatience);
  ASSERT_TRUE(ended) << message_of(ended);
  EXPECT_TRUE(ended->is_done()) << "it returned DONE";
  EXPECT_EQ(stuck_runs, 1);
}

}  // namespace
}  // namespace everkernel::test
