// Priorities, turns of tenants, and quotas of a session with one worker.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <array>
#include <atomic>
#include <chrono>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "everkernel/abi/control.hpp"
#include "everkernel/backend/cpu/cpu_backend.hpp"
#include "everkernel/ir/trusted.hpp"
#include "everkernel/ir/trusted_item.hpp"
#include "everkernel/runtime/megakernel.hpp"
#include "support/results.hpp"

namespace everkernel::test {
namespace {

using std::chrono::seconds;

constexpr auto kPatience = seconds(30);
constexpr Word kNote = 64;  // notes the priority and tenant under which it runs

struct Seen {
  Word tenant = 0;
  Word priority = 0;
};

std::mutex seen_mutex;
std::vector<Seen> seen;

ir::Outcome note(ir::TrustedItem& item) {
  const std::scoped_lock held(seen_mutex);
  seen.push_back({item.tenant(), item.priority()});
  return {};
}

constexpr Word kBlock = 65;  // runs until the test lets it end
std::atomic<bool> is_blocked{false};
std::atomic<bool> is_released{false};

ir::Outcome block(ir::TrustedItem&) {
  is_blocked = true;
  while (!is_released) std::this_thread::sleep_for(std::chrono::microseconds(50));
  return {};
}

// One worker. Everything is published while it runs another item, and the order is read afterwards.
class Turns : public testing::Test {
 protected:
  void SetUp() override {
    seen.clear();
    is_blocked = is_released = false;
    auto made =
        Megakernel::create(backend::cpu::make_backend(),
                           {.trusted_handlers = {{.name = "note", .opcode = kNote, .cpu = note},
                                                 {.name = "block", .opcode = kBlock, .cpu = block}},
                            .worker_count = 1});
    ASSERT_TRUE(made) << message_of(made);
    kernel.emplace(std::move(*made));
    session.emplace(*kernel->start());
    ASSERT_TRUE(session->publish({.opcode = kBlock}));
    while (!is_blocked) std::this_thread::yield();
  }
  void TearDown() override { is_released = true; }
  void publish(Word tenant, Word priority, Word count) {
    const std::vector<abi::WorkItem> items(count, abi::WorkItem{kNote, 0, 0, 0});
    ASSERT_TRUE(session->publish_items(
        items, {.tenant = TenantId(tenant), .priority = Priority{priority}}));
  }
  void run_all() {
    is_released = true;
    ASSERT_TRUE(session->wait_all(kPatience));
  }

  std::optional<Megakernel> kernel;
  std::optional<Session> session;
};

TEST_F(Turns, urgent_items_go_first_and_patient_ones_get_one_of_17) {
  publish(0, 0, 170);  // CRITICAL
  publish(0, 4, 170);  // IDLE
  run_all();
  ASSERT_EQ(seen.size(), 340u);
  std::array<Word, 2> counts{};
  for (std::size_t i = 0; i < 170; ++i) ++counts[seen[i].priority == 0 ? 0 : 1];
  EXPECT_GE(counts[0], 150u) << "CRITICAL goes first";
  EXPECT_GE(counts[1], 9u) << "IDLE gets 1 of 17";
  Word row = 0;
  for (std::size_t i = 0; i < 150; ++i) {
    row = seen[i].priority == 0 ? row + 1 : 0;
    EXPECT_LE(row, 16u) << "at item " << i;
  }
}

TEST_F(Turns, normal_items_go_before_low_and_idle_ones) {
  for (const Word priority : {4u, 3u, 2u}) publish(0, priority, 20);
  run_all();
  ASSERT_EQ(seen.size(), 60u);
  for (std::size_t i = 0; i < 60; ++i) EXPECT_EQ(seen[i].priority, 2 + i / 20) << i;
}

TEST_F(Turns, tenants_of_one_priority_take_turns) {
  publish(0, 2, 100);
  publish(1, 2, 10);
  publish(2, 2, 10);
  run_all();
  ASSERT_EQ(seen.size(), 120u);
  // Tenants 1 and 2 have ended after 10 turns each, whatever tenant 0 has published.
  std::size_t last = 0;
  for (std::size_t i = 0; i < seen.size(); ++i) {
    if (seen[i].tenant != 0) last = i;
  }
  EXPECT_LE(last, 32u);
}

TEST_F(Turns, a_tenant_gains_no_turn_by_more_queues) {
  std::vector<Queue> many;
  for (int i = 0; i < 10; ++i) {
    many.push_back(*session->open_queue({.tenant = TenantId(1), .capacity = 16}));
    const std::vector<abi::WorkItem> items(10, abi::WorkItem{kNote, 0, 0, 0});
    ASSERT_TRUE(many.back().publish_items(items));
  }
  publish(2, 2, 10);
  run_all();
  ASSERT_EQ(seen.size(), 110u);
  std::size_t last = 0;
  for (std::size_t i = 0; i < seen.size(); ++i) {
    if (seen[i].tenant == 2) last = i;
  }
  EXPECT_LE(last, 22u);
}

TEST_F(Turns, entries_do_not_choose_their_tenant_or_priority) {
  Queue queue = *session->open_queue(
      {.tenant = TenantId(7), .priority = Priority::low, .entries = abi::EntryFormat::full});
  ASSERT_TRUE(queue.publish({.opcode = kNote}));
  run_all();
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].tenant, 7u);
  EXPECT_EQ(seen[0].priority, 3u);
}

TEST_F(Turns, the_quota_of_every_tenant_but_the_operator_leaves_a_worker_free) {
  auto made = Megakernel::create(backend::cpu::make_backend(), {.worker_count = 4});
  Session four = *made->start();
  void* const memory = ::mmap(nullptr, 4096, PROT_READ, MAP_SHARED, four.memory_descriptor(), 0);
  ASSERT_NE(memory, MAP_FAILED);
  const Word* const quotas = static_cast<const Word*>(memory) + abi::kControlTenantQuotas.first;
  EXPECT_EQ(quotas[0], 1'000'000u);
  for (Word tenant = 1; tenant < 29; ++tenant) EXPECT_EQ(quotas[tenant], 3u) << tenant;
  ::munmap(memory, 4096);
}

}  // namespace
}  // namespace everkernel::test
