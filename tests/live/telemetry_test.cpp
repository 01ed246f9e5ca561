// What a snapshot says of queues: which opcodes ran, how long items took, how old the oldest is.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <thread>

#include "queue_fixture.hpp"

namespace everkernel::test {
namespace {

class QueueTelemetry : public Queues {
 protected:
  SessionSnapshot look() {
    SessionSnapshot snapshot;
    const auto taken = session->snapshot(snapshot);
    EXPECT_TRUE(taken) << message_of(taken);
    return snapshot;
  }
  static std::uint64_t done(const SessionSnapshot& snapshot, Word opcode) {
    for (const backend::OpcodeTotal& row : snapshot.executions) {
      if (row.opcode == opcode) return row.done;
    }
    ADD_FAILURE() << "no row of opcode " << opcode;
    return 0;
  }
  static void publish(Queue& queue, Word opcode, Word count) {
    const std::array<Word, 3> args{1, 2, 3};
    for (Word i = 0; i < count; ++i) {
      ASSERT_TRUE(queue.publish({opcode, args}, kPatience));
    }
    ASSERT_TRUE(queue.wait_all(kPatience));
  }
};

TEST_F(QueueTelemetry, every_opcode_is_counted) {
  Queue queue = open({.entries = EntryFormat::full});
  const SessionSnapshot before = look();
  EXPECT_EQ(before.executions.size(), std::size(abi::kOpcodes) + 4) << "built in, and 4 handlers";
  EXPECT_TRUE(std::ranges::is_sorted(before.executions, {}, &backend::OpcodeTotal::opcode));
  publish(queue, kAnswer, 70);
  publish(queue, 0, 300);
  publish(queue, Word(abi::Opcode::printf), 5);
  const std::array<Word, 2> args{1, 2};
  const std::array<protocol::PackedOp, 2> packed{{{kAnswer, args}, {kAnswer, args}}};
  ASSERT_TRUE(queue.publish_packed(packed));
  ASSERT_TRUE(queue.wait_all(kPatience));
  const SessionSnapshot after = look();
  EXPECT_EQ(done(after, kAnswer), 72u);
  EXPECT_EQ(done(after, 0), 300u);
  EXPECT_EQ(done(after, Word(abi::Opcode::printf)), 5u);
  EXPECT_EQ(done(after, Word(abi::Opcode::packed_slot)), 1u);
  EXPECT_EQ(done(after, kSpin), 0u);
}

TEST_F(QueueTelemetry, one_item_in_64_is_timed) {
  for (const Word capacity : {2u, 64u, 1024u}) {
    Queue queue = open({.capacity = capacity, .first_ticket = 4096});
    publish(queue, kAnswer, 6400);
    const SessionSnapshot snapshot = look();
    const QueueSnapshot& seen = snapshot.queues.back();
    EXPECT_EQ(seen.published_to_end.count(), 100u) << capacity;
    EXPECT_EQ(seen.taken_to_end.count(), 100u) << capacity;
    EXPECT_LE(seen.taken_to_end.quantile(0.5), seen.published_to_end.quantile(0.5) * 9 / 8);
    EXPECT_LT(seen.published_to_end.quantile(1), seconds(20));
  }
}

TEST_F(QueueTelemetry, a_long_item_is_long_in_both_histograms) {
  Queue queue = open();
  const auto spins = queue.publish({kSpin});  // ticket 0 is timed
  ASSERT_TRUE(spins);
  std::this_thread::sleep_for(milliseconds(60));
  const SessionSnapshot before = look();
  EXPECT_EQ(before.queues.back().taken, 1u);
  EXPECT_GE(before.queues.back().oldest_age, milliseconds(40));
  EXPECT_LT(before.queues.back().oldest_age, seconds(20));
  session->stop(StopMode::cancel, milliseconds(0));
  const SessionSnapshot after = look();
  EXPECT_GE(after.queues.back().taken_to_end.quantile(0.5), milliseconds(40));
}

TEST_F(QueueTelemetry, the_oldest_item_of_each_queue_has_its_age) {
  ASSERT_TRUE(session->set_tenant_enabled(TenantId(3), false));
  Queue held = open({.tenant = TenantId(3)});
  Queue free = open();
  ASSERT_TRUE(held.publish({}));
  std::this_thread::sleep_for(milliseconds(50));
  ASSERT_TRUE(held.publish({}));
  publish(free, 0, 10);
  const SessionSnapshot stuck = look();
  ASSERT_EQ(stuck.queues.size(), 2u);
  EXPECT_EQ(stuck.queues[0].waiting, 2u);
  EXPECT_GE(stuck.queues[0].oldest_age, milliseconds(40));
  EXPECT_EQ(stuck.queues[1].oldest_age, milliseconds(0));
  ASSERT_TRUE(session->set_tenant_enabled(TenantId(3), true));
  ASSERT_TRUE(held.wait_all(kPatience));
  EXPECT_EQ(look().queues[0].oldest_age, milliseconds(0));
}

// Nobody but the producer knows when it published: the age counts from the first look.
TEST_F(QueueTelemetry, of_a_queue_of_another_process_the_age_counts_from_the_first_look) {
  ASSERT_TRUE(session->set_tenant_enabled(TenantId(3), false));
  Queue queue = open({.tenant = TenantId(3)});
  const auto descriptor = queue.descriptor();
  ASSERT_TRUE(descriptor);
  auto attached = attach_queue(*descriptor);
  ::close(*descriptor);
  ASSERT_TRUE(attached) << message_of(attached);
  ASSERT_TRUE(attached->publish({}));
  SessionSnapshot snapshot;
  ASSERT_TRUE(session->snapshot(snapshot));
  EXPECT_LT(snapshot.queues[0].oldest_age, seconds(20));
  std::this_thread::sleep_for(milliseconds(30));
  ASSERT_TRUE(session->snapshot(snapshot));
  EXPECT_GE(snapshot.queues[0].oldest_age, milliseconds(20));
  ASSERT_TRUE(session->set_tenant_enabled(TenantId(3), true));
  ASSERT_TRUE(attached->wait_all(kPatience));
  ASSERT_TRUE(session->snapshot(snapshot));
  EXPECT_EQ(snapshot.queues[0].oldest_age, milliseconds(0));
  EXPECT_EQ(snapshot.queues[0].taken_to_end.count(), 1u);
}

}  // namespace
}  // namespace everkernel::test
