// A session of so many queues that workers look at the quiet ones only now and then.
#include <thread>

#include "backend/cpu/lookout.hpp"
#include "live/queue_memory.hpp"
#include "queue_fixture.hpp"

namespace everkernel::test {
namespace {

using backend::LiveQueue;
using backend::cpu::CpuQueue;
using backend::cpu::Lookout;
using backend::cpu::Roster;

constexpr Word kQueues = 40;
constexpr auto kQuietTime = milliseconds(2);

// ---- which queues a worker looks at ----

// Queues of two tenants in turn, without a worker.
class LookoutOfMany : public testing::Test {
 protected:
  void SetUp() override {
    for (Word i = 0; i < kQueues; ++i) add();
    roster.levels[2] = {{.tenant = 0}, {.tenant = 1}};
    for (Word i = 0; i < kQueues; ++i) {
      roster.levels[2][i % 2].queues.push_back(roster.queues[i].get());
    }
    roster.version = 1;
  }
  void add() {
    auto memory = live::QueueMemory::create({.capacity = 4});
    ASSERT_TRUE(memory) << message_of(memory);
    files.push_back(std::move(*memory));
    roster.queues.push_back(std::make_shared<CpuQueue>(std::make_shared<LiveQueue>(
        files.back()->kernel(), LiveQueue::Rights{0, 2}, files.back())));
  }
  std::vector<CpuQueue*> looked_at() {
    const auto& tenants = lookout.begin(roster)[2];
    std::vector<CpuQueue*> all;
    for (const auto& tenant : tenants) {
      all.insert(all.end(), tenant.queues.begin(), tenant.queues.end());
    }
    return all;
  }
  void wait_until_quiet() {
    looked_at();
    std::this_thread::sleep_for(kQuietTime);
  }

  Roster roster;
  std::vector<std::shared_ptr<const live::QueueMemory>> files;
  Lookout lookout;
};

TEST_F(LookoutOfMany, passes_over_queues_that_are_quiet) {
  EXPECT_EQ(looked_at().size(), kQueues);
  std::this_thread::sleep_for(kQuietTime);
  EXPECT_TRUE(looked_at().empty());
  EXPECT_EQ(lookout.quiet_count(), kQueues);
  EXPECT_FALSE(lookout.look());
}

TEST_F(LookoutOfMany, sees_an_entry_in_a_quiet_queue) {
  wait_until_quiet();
  EXPECT_TRUE(looked_at().empty());
  files[7]->producer().store(0, abi::WorkItem{});
  EXPECT_TRUE(lookout.look());
  EXPECT_EQ(looked_at(), std::vector<CpuQueue*>{roster.queues[7].get()});
  files[8]->producer().store(0, abi::WorkItem{});
  std::this_thread::sleep_for(milliseconds(1));
  EXPECT_EQ(looked_at().size(), 2u) << "a busy worker looks by itself after a while";
}

TEST_F(LookoutOfMany, sees_that_another_worker_took_from_a_quiet_queue) {
  wait_until_quiet();
  EXPECT_TRUE(looked_at().empty());
  roster.queues[3]->live->head.store(1);
  EXPECT_TRUE(lookout.look());
}

TEST_F(LookoutOfMany, keeps_queues_with_work) {
  files[1]->producer().store(0, abi::WorkItem{});
  ASSERT_TRUE(roster.queues[2]->waiting.promise());
  wait_until_quiet();
  roster.queues[4]->taken_at.store(backend::steady_now());
  EXPECT_EQ(looked_at().size(), 3u);
  roster.queues[2]->waiting.release();
}

TEST_F(LookoutOfMany, begins_anew_with_another_roster) {
  wait_until_quiet();
  EXPECT_TRUE(looked_at().empty());
  roster.version = 2;
  EXPECT_EQ(looked_at().size(), kQueues);
  roster.queues.resize(8);
  for (auto& tenant : roster.levels[2]) tenant.queues.resize(4);
  roster.version = 3;
  EXPECT_EQ(looked_at().size(), 8u);
  std::this_thread::sleep_for(kQuietTime);
  EXPECT_EQ(looked_at().size(), 8u) << "few queues are all looked at";
}

// ---- what runs ----

class ManyQueues : public Queues {
 protected:
  // Keeps a queue full until it is destroyed.
  static std::jthread flood(Queue& queue) {
    return std::jthread([&queue](const std::stop_token& stop) {
      const std::vector<abi::WorkItem> items(64, abi::WorkItem{kAnswer, 0, 0, 0});
      while (!stop.stop_requested()) {
        EXPECT_TRUE(queue.publish_items(items, kPatience));
      }
      EXPECT_TRUE(queue.wait_all(kPatience));
    });
  }
  // A fence, which a waiting thread does not run itself.
  static void run_one(Queue& queue) {
    const auto fence = queue.publish_batch({}, 1);
    ASSERT_TRUE(fence) << message_of(fence);
    const auto ended = queue.wait(fence->last(), kPatience);
    EXPECT_TRUE(ended) << message_of(ended);
  }
};

TEST_F(ManyQueues, an_item_of_a_quiet_queue_runs_beside_a_busy_one) {
  std::vector<Queue> quiet;
  for (Word i = 0; i < kQueues; ++i) {
    quiet.push_back(open({.tenant = TenantId(i % 3), .priority = Priority{i % 5}, .capacity = 4}));
  }
  for (const Priority urgency : {Priority::critical, Priority::idle}) {
    Queue busy = open({.priority = urgency, .capacity = 256});
    const std::jthread flooding = flood(busy);
    std::this_thread::sleep_for(2 * kQuietTime);
    for (Queue& queue : quiet) run_one(queue);
  }
}

TEST_F(ManyQueues, come_and_go_beside_a_busy_one) {
  std::vector<Queue> queues;
  for (Word i = 0; i < kQueues; ++i) queues.push_back(open({.capacity = 4}));
  Queue busy = open({.capacity = 256});
  const std::jthread flooding = flood(busy);
  for (Word i = 0; i < 20; ++i) {
    std::this_thread::sleep_for(i % 2 * kQuietTime);
    run_one(queues[i]);
    queues.erase(queues.begin() + i % 7);
    queues.push_back(open({.capacity = 4}));
    run_one(queues.back());
  }
}

}  // namespace
}  // namespace everkernel::test
