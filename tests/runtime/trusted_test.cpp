// Trusted handlers on the CPU backend: exceptions they throw, the thread that runs them, and a lost
// device.
#include <atomic>
#include <stdexcept>
#include <thread>

#include "everkernel/ir/trusted_item.hpp"
#include "recovery_fixture.hpp"

namespace everkernel::test {
namespace {

using ir::TrustedHandler;
using ir::TrustedItem;

constexpr Word kThrow = 100, kBlock = 101, kShort = 102, kLong = 103, kPure = 104, kImpure = 105;

// Trusted handlers have no state of their own; these tests do.
std::atomic<bool> is_blocked = false;
std::atomic<bool> is_blocking = false;
std::atomic<std::thread::id> last_thread = {};

ir::Outcome throw_at_odd(TrustedItem& item) {
  if (item.param() % 2 == 1) throw std::runtime_error("odd");
  item.output().atomic_add(0, 1);
  return item.done();
}

ir::Outcome block(TrustedItem& item) {
  is_blocking = true;
  while (is_blocked && !item.should_stop()) std::this_thread::yield();
  return item.done();
}

ir::Outcome note_thread(TrustedItem& item) {
  last_thread = std::this_thread::get_id();
  return item.done();
}

ir::Outcome fill(TrustedItem& item) {
  item.output().store(0, item.param());
  return item.done();
}

std::vector<TrustedHandler> handlers() {
  constexpr ir::Effects kFills{.writes_output = true};
  return {{.name = "throw_at_odd", .opcode = kThrow, .cpu = throw_at_odd},
          {.name = "block", .opcode = kBlock, .cpu = block},
          {.name = "short_one", .opcode = kShort, .is_short = true, .cpu = note_thread},
          {.name = "long_one", .opcode = kLong, .cpu = note_thread},
          {.name = "pure_one", .opcode = kPure, .effects = kFills, .is_pure = true, .cpu = fill},
          {.name = "impure_one", .opcode = kImpure, .effects = kFills, .cpu = fill}};
}

class TrustedOnTheCpu : public OnAFaultyDevice {
 protected:
  void SetUp() override {
    OnAFaultyDevice::SetUp();
    is_blocked = is_blocking = false;
    last_thread = std::thread::id();
    remake(2);
  }

  void remake(Word worker_count) {
    auto made = Megakernel::create(device, {.slot_count = kSlots,
                                            .workgroup_size = 1,
                                            .trusted_handlers = handlers(),
                                            .worker_count = worker_count});
    ASSERT_TRUE(made) << message_of(made);
    kernel.emplace(std::move(*made));
  }

  Session start() {
    auto made = kernel->start();
    EXPECT_TRUE(made) << message_of(made);
    return std::move(*made);
  }

  static Ticket publish(Session& session, Word opcode, const PublishOptions& options = {}) {
    const std::array<Word, 3> args{1, 2, 9};
    const auto ticket = session.publish({opcode, args}, options);
    EXPECT_TRUE(ticket) << message_of(ticket);
    return *ticket;
  }
};

// ---- exceptions ----

TEST_F(TrustedOnTheCpu, what_a_handler_throws_is_a_fault_of_its_item_alone) {
  const DataBuffer output = buffer(2, false);
  std::vector<abi::WorkItem> items;
  for (Word i = 0; i < kSlots; ++i) items.push_back({kThrow, 0, 2, i});
  fill_ring(items);
  const auto report = dispatch(host());
  ASSERT_TRUE(report) << message_of(report);
  EXPECT_EQ(report->stats.items_done, kSlots / 2);
  EXPECT_EQ(report->stats.items_faulted, kSlots / 2);
  EXPECT_EQ(first_word(output), kSlots / 2);
  const auto words = words_of(report->submissions[0].ring);
  EXPECT_EQ(words[16 + 3] >> 16, ir::kThrewFault);
}

TEST_F(TrustedOnTheCpu, a_run_goes_on_after_a_throw) {
  const DataBuffer output = buffer(2, false);
  std::vector<abi::WorkItem> items;
  for (Word i = 0; i < 100; ++i) items.push_back({kThrow, 0, 2 + i % 2, i});
  const auto report = kernel->run(items, {.ordered = false});
  ASSERT_TRUE(report) << message_of(report);
  EXPECT_EQ(report->items_processed, 50u);
  EXPECT_EQ(report->items_faulted, 50u);
  EXPECT_EQ(report->faults.at(0).code, ir::kThrewFault);
  EXPECT_EQ(first_word(output), 50u);
}

TEST_F(TrustedOnTheCpu, a_session_goes_on_after_a_throw) {
  Session session = start();
  const auto bad = session.wait(publish(session, kThrow), seconds(5));
  ASSERT_TRUE(bad) << message_of(bad);
  EXPECT_EQ(bad->fault_code, ir::kThrewFault);
  EXPECT_TRUE(session.wait(publish(session, kLong), seconds(5))->is_done());
}

// ---- short and long ----

TEST_F(TrustedOnTheCpu, a_thread_that_waits_runs_short_items_and_no_others) {
  remake(1);
  Session session = start();
  is_blocked = true;
  publish(session, kBlock);
  while (!is_blocking) std::this_thread::yield();  // the only worker is busy
  const auto quick = session.wait(publish(session, kShort), seconds(5));
  ASSERT_TRUE(quick) << message_of(quick);
  EXPECT_EQ(last_thread.load(), std::this_thread::get_id());
  const Ticket slow = publish(session, kLong);
  EXPECT_EQ(code_of(session.wait(slow, milliseconds(20))), Code::timeout);
  is_blocked = false;
  ASSERT_TRUE(session.wait(slow, seconds(5)));
  EXPECT_NE(last_thread.load(), std::this_thread::get_id());
}

// ---- a device that is lost ----

TEST_F(TrustedOnTheCpu, claimed_items_run_again_only_when_they_are_declared_pure) {
  const DataBuffer output = buffer(2, true);
  Session session = start();
  ASSERT_TRUE(session.set_tenant_enabled(TenantId(3), false));
  const Ticket impure = publish(session, kImpure, {.tenant = TenantId(3)});
  const Ticket pure = publish(session, kPure, {.tenant = TenantId(3)});
  device->lose_device(2);  // workers held both items
  ASSERT_TRUE(session.recover());
  ASSERT_TRUE(session.set_tenant_enabled(TenantId(3), true));
  EXPECT_EQ(session.wait(impure, seconds(5))->fault_code,
            static_cast<Word>(abi::FaultCode::maybe_executed));
  EXPECT_TRUE(session.wait(pure, seconds(5))->is_done());
  EXPECT_EQ(first_word(output), 9u);
}

}  // namespace
}  // namespace everkernel::test
