// Live sessions: tenants, and observing a running session.
#include <algorithm>
#include <atomic>
#include <thread>

#include "conformance/session_helpers.hpp"

namespace everkernel::conformance {

// --- tenants ----------------------------------------------------------------------------------

TEST_P(SessionTenants, a_tenant_is_stopped_and_let_run_while_it_is_live) {
  Session session = start();
  for (int lap = 0; lap < 10; ++lap) {
    must(session.set_tenant_enabled(TenantId(5), false));
    const Ticket held = must(session.publish(kAdd, {.tenant = TenantId(5)}));
    must(session.wait(must(session.publish(kNop)), kPatience));
    EXPECT_FALSE(must(session.poll(held)).has_value());
    must(session.set_tenant_enabled(TenantId(5), true));
    EXPECT_TRUE(must(session.wait(held, kPatience)).is_done());
  }
  EXPECT_EQ(must(session.observable(1)), 10u);
}

TEST_P(SessionTenants, a_session_begins_with_the_tenants_it_was_given) {
  Session session = start(kernel(), 2);
  EXPECT_TRUE(must(session.wait(must(session.publish(kNop, {.tenant = TenantId(1)})), kPatience))
                  .is_done());
  const Ticket held = must(session.publish(kNop, {.tenant = TenantId(2)}));
  EXPECT_EQ(test::code_of(session.wait(held, kMoment)), Code::timeout);
  must(session.set_tenant_enabled(TenantId(2), true));
  must(session.set_tenant_quota(TenantId(2), 1));
  EXPECT_TRUE(must(session.wait(held, kPatience)).is_done());
}

TEST_P(SessionTenants, a_quota_holds_while_it_is_live) {
  const DataBuffer output = buffer(2, 3);
  Session session = start();
  must(session.set_tenant_quota(TenantId(5), 0));
  std::vector<abi::WorkItem> items(10, abi::WorkItem{kCrowd, 0, 2, 200});
  const TicketRange range = must(session.publish_items(items, {.tenant = TenantId(5)}));
  EXPECT_EQ(test::code_of(session.wait(range.first, kMoment)), Code::timeout);
  must(session.set_tenant_quota(TenantId(5), 1));
  must(session.wait_all(kPatience));
  EXPECT_EQ(words_of(output)[1], 1u);
  must(session.set_tenant_quota(TenantId(5), 2));
  must(session.publish_items(items, {.tenant = TenantId(5)}));
  must(session.wait_all(kPatience));
  EXPECT_LE(words_of(output)[1], 2u);
}

TEST_P(SessionTenants, an_operators_item_lets_a_tenant_run) {
  Session session = start();
  must(session.set_tenant_enabled(TenantId(5), false));
  const Ticket held = must(session.publish(kNop, {.tenant = TenantId(5)}));
  EXPECT_EQ(test::code_of(session.wait(held, kMoment)), Code::timeout);
  const std::array<Word, 2> enable{1, 3 + 5};
  must(session.publish({.opcode = 1, .args = enable}));
  EXPECT_TRUE(must(session.wait(held, kPatience)).is_done());
}

TEST_P(SessionTenants, tenants_above_28_are_refused) {
  Session session = start();
  for (const Word tenant : {29u, 31u, 32u, ~0u}) {
    EXPECT_EQ(test::code_of(session.set_tenant_enabled(TenantId(tenant), true)),
              Code::invalid_argument);
    EXPECT_EQ(test::code_of(session.set_tenant_quota(TenantId(tenant), 1)), Code::invalid_argument);
  }
}

TEST_P(SessionTenants, a_tenant_may_do_no_more_than_in_a_dispatch) {
  Session session = start();
  const std::array<Word, 2> mask{1, 3 + 5};
  const Ticket store = must(session.publish({.opcode = 1, .args = mask}, {.tenant = TenantId(5)}));
  const Ticket shutdown = must(session.publish({.opcode = 0xFFFFFFFF}, {.tenant = TenantId(5)}));
  EXPECT_EQ(must(session.wait(store, kPatience)).fault_code, 5u);
  EXPECT_EQ(must(session.wait(shutdown, kPatience)).fault_code, 5u);
  must(session.wait(must(session.publish(kNop)), kPatience));
}

// --- observing --------------------------------------------------------------------------------

TEST_P(SessionLooks, a_snapshot_is_exact_for_what_was_seen_to_end) {
  Session session = start();
  SessionSnapshot snapshot;
  for (Word lap = 1; lap <= 12; ++lap) {
    must(session.wait(must(session.publish(kAdd, {.tenant = TenantId(5), .priority = Priority{4}})),
                      kPatience));
    must(session.snapshot(snapshot));
    ASSERT_EQ(snapshot.telemetry.control.done_count, counter_start() + lap);
    ASSERT_EQ(snapshot.telemetry.control.tenant_fairness[5], counter_start() + lap);
    ASSERT_EQ(snapshot.telemetry.control.priority_fairness[4], counter_start() + lap);
    ASSERT_EQ(snapshot.counters.kernel.done, lap);
    ASSERT_EQ(snapshot.counters.kernel.tenant_claims[5], lap);
    ASSERT_EQ(snapshot.counters.kernel.priority_claims[4], lap);
    ASSERT_EQ(snapshot.counters.kernel.executions[2], lap);
    ASSERT_EQ(snapshot.counters.published, lap);
  }
  const Ticket fault = must(session.publish({.opcode = 9999}));
  must(session.wait(fault, kPatience));
  must(session.snapshot(snapshot));
  EXPECT_EQ(snapshot.telemetry.control.fault_count, counter_start() + 1);
  EXPECT_EQ(snapshot.counters.kernel.faulted, 1u);
  EXPECT_EQ(snapshot.counters.kernel.done, 12u);
}

TEST_P(SessionLooks, counters_are_64_bits_wide_where_the_wire_wraps) {
  Session session = start();
  publish_many(session, kNop, 100);
  must(session.wait_all(kPatience));
  SessionSnapshot snapshot;
  must(session.snapshot(snapshot));
  EXPECT_EQ(snapshot.telemetry.control.done_count, counter_start() + 100);
  EXPECT_EQ(snapshot.counters.kernel.done, 100u);
  EXPECT_EQ(snapshot.counters.published, 100u);
  EXPECT_EQ(snapshot.counters.kernel.executions[0], 100u);
  const auto metrics = snapshot.telemetry.control.metrics;
  const auto nop =
      std::ranges::find_if(metrics, [](const auto& metric) { return metric.opcode == 0; });
  ASSERT_NE(nop, metrics.end());
  EXPECT_EQ(nop->count, counter_start() + 100);
}

TEST_P(SessionLooks, a_snapshot_has_every_slot_and_complete_evidence) {
  Session session = start();
  must(session.set_tenant_enabled(TenantId(5), false));
  const std::array<Word, 3> window{42, 0, 0};
  const Ticket held =
      must(session.publish({.opcode = kNothing, .args = window}, {.tenant = TenantId(5)}));
  must(session.wait(must(session.publish(kNop)), kPatience));
  SessionSnapshot snapshot;
  const Word opcodes[] = {kNothing};
  must(session.snapshot(snapshot, opcodes));
  EXPECT_TRUE(snapshot.evidence.is_complete());
  EXPECT_EQ(snapshot.evidence.ring_occupancy, snapshot.telemetry.occupancy);
  EXPECT_EQ(snapshot.telemetry.occupancy.total_slots(), 32u) << "two queues of 16 places";
  ASSERT_EQ(snapshot.telemetry.slots.size(), 32u);
  EXPECT_EQ(snapshot.telemetry.occupancy.published, 1u)
      << "a disabled tenant's slot stays as it is";
  const auto& slot = snapshot.telemetry.slots[slot_of(0)];
  EXPECT_EQ(slot.opcode, kNothing);
  EXPECT_EQ(slot.tenant_id, 5u);
  EXPECT_EQ(slot.args_prefix[0], 42u);
  ASSERT_EQ(snapshot.telemetry.windows.size(), 1u);
  EXPECT_EQ(snapshot.telemetry.windows[0].ticket, 42u);
  EXPECT_FALSE(snapshot.telemetry.control.shutdown);
  must(session.set_tenant_enabled(TenantId(5), true));
  must(session.wait(held, kPatience));
}

TEST_P(SessionLooks, a_snapshot_beside_publishers_never_goes_back) {
  Session session = start();
  must(session.publish_items({}));  // opens the queue
  std::atomic<bool> is_over{false};
  std::jthread publisher([&] {
    for (int i = 0; i < 400; ++i) {
      if (!session.publish(kAdd, {.timeout = kPatience})) break;
    }
    is_over = true;
  });
  SessionSnapshot snapshot;
  std::uint64_t done = 0;
  while (!is_over) {
    must(session.snapshot(snapshot));
    ASSERT_GE(snapshot.counters.kernel.done, done);
    ASSERT_LE(snapshot.counters.kernel.done, 400u);
    ASSERT_EQ(snapshot.telemetry.occupancy.total_slots(), 16u);
    done = snapshot.counters.kernel.done;
  }
  publisher.join();
  must(session.wait_all(kPatience));
  must(session.snapshot(snapshot));
  EXPECT_EQ(snapshot.counters.kernel.done, 400u);
  EXPECT_EQ(must(session.observable(1)), 400u);
}

TEST_P(SessionLooks, claims_of_an_item_that_yields_are_counted) {
  Session session = start();
  const std::array<Word, 4> steps{0, 0, 0, 9};
  must(session.wait(
      must(session.publish({.opcode = kCountdown, .args = steps}, {.tenant = TenantId(5)})),
      kPatience));
  const auto counters = session.counters();
  EXPECT_EQ(counters.kernel.tenant_claims[5], 10u);
  EXPECT_EQ(counters.kernel.executions[kCountdown], 1u);
  EXPECT_EQ(counters.kernel.done, 1u);
}

TEST_P(SessionLooks, observables_are_read_while_it_is_live) {
  const auto control = session_control(29, 3);
  Session session = must(kernel().start({.control = std::as_bytes(std::span(control))}));
  const std::array<Word, 2> last{9, 162};
  must(session.wait(must(session.publish({.opcode = 1, .args = last})), kPatience));
  EXPECT_EQ(must(session.observable(2)), 9u);
  EXPECT_EQ(test::code_of(session.observable(3)), Code::invalid_argument);
  EXPECT_EQ(test::code_of(session.observable(~0u)), Code::invalid_argument);
}

TEST_P(SessionLooks, a_session_has_the_memory_it_was_asked_for) {
  Session session =
      must(kernel().start({.observable_slots = 5, .debug_records = 2, .io_slots = 1}));
  EXPECT_TRUE(session.observable(4).has_value());
  EXPECT_EQ(test::code_of(session.observable(5)), Code::invalid_argument);
  std::vector<std::byte> log;
  session.copy_debug_log(log);
  EXPECT_EQ(log.size(), 4u + 2u * 16u);
  EXPECT_GE(session.memory_descriptor(), 0);
}

TEST_P(SessionLooks, the_debug_log_is_copied_while_it_is_live) {
  Session session = start();
  const std::array<Word, 3> args{100, 1, 2};
  must(session.wait(must(session.publish({.opcode = 0xFFFE, .args = args})), kPatience));
  std::vector<std::byte> log;
  session.copy_debug_log(log);
  const auto words = test::words_of(log);
  EXPECT_EQ(words[0], 4u);
  EXPECT_EQ((std::vector<Word>(words.begin() + 1, words.begin() + 5)),
            (std::vector<Word>{100, 1, 2, slot_of(0) * 16}));
}

TEST_P(SessionLooks, a_full_debug_log_counts_what_it_drops) {
  auto session = must(kernel().start({.debug_records = 1}));
  const std::array<Word, 3> args{100, 1, 2};
  for (int i = 0; i < 5; ++i) must(session.publish({.opcode = 0xFFFE, .args = args}));
  must(session.wait_all(kPatience));
  SessionSnapshot snapshot;
  must(session.snapshot(snapshot));
  EXPECT_EQ(snapshot.telemetry.control.debug_dropped, 4u);
}

}  // namespace everkernel::conformance
