// Section 2 of the wire format: the shutdown flag and the counters.
#include "conformance/backend_suite.hpp"

namespace everkernel::conformance {

// --- SHUTDOWN ---------------------------------------------------------------------------------

TEST_P(ControlWords, shutdown_at_entry_runs_nothing) {
  for (const Word flag : {1u, 2u, 0x80000000u, ~0u}) {
    SCOPED_TRACE(flag);
    Job before = job();
    before.control[0] = flag;
    before.put(7, {1, 2, 0, 2, 1, 160});
    before.put(8, {5, 2, 0, 2, 1, 160});
    before.put(9, {7, 2, 0, 0x00020002, 1, 160});
    const Outcome after = run(before);
    EXPECT_EQ(after.ring, before.ring);
    EXPECT_EQ(after.counts.end, backend::DrainEnd::shutdown);
    EXPECT_EQ(after.counts.remaining, 2u);
    ExpectedControl(before).expect(after.control);
  }
}

TEST_P(ControlWords, the_operators_shutdown_stops_the_workers) {
  Job before = job();
  for (Word slot = 0; slot < 16; ++slot) before.put(slot, {1, 2, 1, 2, 1, 160});
  before.put(5, {1, 0xFFFFFFFF, 0, 2});
  const Outcome after = run(before);
  EXPECT_EQ(after.control[0], 1u);
  EXPECT_EQ(after.status(5), 3u);
  EXPECT_EQ(after.counts.end, backend::DrainEnd::shutdown);
  EXPECT_EQ(after.count(1) + after.count(3), 16u) << "every slot ran or was left";
  EXPECT_EQ(after.control[160], after.count(3) - 1);
}

TEST_P(ControlWords, an_operator_that_stores_to_word_0_stops_the_workers_too) {
  Job before = job();
  for (Word slot = 0; slot < 16; ++slot) before.put(slot, {1, 2, 1, 2, 1, 160});
  before.put(5, {1, 1, 0, 2, 7, 0});
  const Outcome after = run(before);
  EXPECT_EQ(after.control[0], 7u);
  EXPECT_EQ(after.status(5), 3u);
  EXPECT_EQ(after.counts.end, backend::DrainEnd::shutdown);
}

TEST_P(ControlWords, shutdown_stops_items_that_would_yield_for_ever) {
  Job before = job();
  for (Word slot = 0; slot < 16; ++slot) before.put(slot, {1, kYieldForever, 1, 2});
  before.put(9, {1, 0xFFFFFFFF, 0, 2});
  const Outcome after = run(before);
  EXPECT_EQ(after.status(9), 3u);
  EXPECT_EQ(after.count(1) + after.count(5), 15u);
  EXPECT_EQ(after.counts.end, backend::DrainEnd::shutdown);
}

TEST_P(ControlWords, shutdown_is_denied_to_every_other_tenant) {
  Job before = job();
  before.put(7, {1, 0xFFFFFFFF, 1, 2});
  before.put(8, {1, 0xFFFFFFFF, 28, 2});
  before.put(9, {1, 0, 1, 2});
  const Outcome after = run(before);
  EXPECT_EQ(after.fault_code(7), 5u);
  EXPECT_EQ(after.fault_code(8), 5u);
  EXPECT_EQ(after.status(9), 3u);
  EXPECT_EQ(after.counts.end, backend::DrainEnd::complete);
  ExpectedControl(before).faulted(1).faulted(28).done(1, 0).expect(after.control);
}

// --- counters ---------------------------------------------------------------------------------

TEST_P(ControlWords, every_item_counts_once_under_its_tenant_opcode_and_priority) {
  Job before = job();
  before.put(0, {1, 0, 0, 0});          // CRITICAL under every schedule: 16 slots split 3 3 4 3 3
  before.put(3, {1, 1, 1, 1, 5, 160});  // HIGH
  before.put(6, {1, 2, 1, 2, 6, 161});  // NORMAL
  before.put(9, {1, 8, 28, 2});
  before.put(10, {1, 31, 28, 3});        // LOW
  before.put(15, {1, 64, 28, 4, 0, 0});  // IDLE, an opcode without a metric; there is no buffer 0
  const Outcome after = run(before);
  EXPECT_EQ(after.fault_code(15), 9u);
  ExpectedControl(before)
      .done(0, 0, 1, 0)
      .done(1, 1, 1, 1)
      .done(1, 2, 1, 2)
      .done(28, 8, 1, 2)
      .done(28, 31, 1, 3)
      .faulted(28, 1, 4)
      .set(160, 5)
      .add(161, 6)
      .expect(after.control);
}

TEST_P(ControlWords, faults_count_as_claims_but_not_as_executions) {
  Job before = job();
  before.put(6, {1, 1, 2, 2, 5, 0});       // STORE_U32 that is denied
  before.put(7, {1, 9, 2, 2});             // no handler
  before.put(8, {1, kRaiseArg, 2, 2, 3});  // raises 3
  before.put(9, {1, 7, 2, 2, 99, 0});      // a fence before slot 0
  const Outcome after = run(before);
  EXPECT_EQ(after.fault_code(6), 5u);
  EXPECT_EQ(after.fault_code(7), 1u);
  EXPECT_EQ(after.fault_code(8), 259u);
  EXPECT_EQ(after.fault_code(9), 7u);
  ExpectedControl(before).faulted(2, 4).expect(after.control);
}

TEST_P(ControlWords, an_item_that_yields_counts_every_claim_and_one_execution) {
  Job before = job();
  before.put(6, {1, kCountdown, 1, 2, 0, 0, 0, 6});
  before.put(7, {1, kYieldOnce, 2, 2});
  before.put(8, {1, kRequeueOnce, 2, 2});
  const Outcome after = run(before);
  ExpectedControl(before)
      .done(1, kCountdown)
      .claims(1, 2, 6)
      .done(2, kYieldOnce)
      .done(2, kRequeueOnce)
      .claims(2, 2, 2)
      .expect(after.control);
}

TEST_P(ControlWords, adds_of_all_workers_are_exact) {
  const Shape shape{.slot_count = 1024, .workgroup_size = 64, .handlers = {}};
  Job before = job({.slot_count = 1024});
  for (Word slot = 0; slot < 1024; ++slot) before.put(slot, {1, 2, slot % 29, 2, slot, 160});
  const Outcome after = run(kernel(shape), before);
  EXPECT_EQ(after.counts.done, 1024u);
  EXPECT_EQ(after.control[160], 1023u * 512u);
  EXPECT_EQ(after.control[98] - before.control[98], 1024u);
  for (Word tenant = 0; tenant < 29; ++tenant) {
    EXPECT_EQ(after.control[64 + tenant] - before.control[64 + tenant], tenant < 9 ? 36u : 35u);
  }
}

// --- lengths ----------------------------------------------------------------------------------

TEST_P(ControlWords, a_control_buffer_of_any_length_comes_back_whole) {
  for (const Word observables : {0u, 1u, 1000u, 100'003u}) {
    SCOPED_TRACE(observables);
    Job before = job({.observables = observables});
    for (Word i = 0; i < observables; ++i) before.control[160 + i] = i * 0x9E3779B1u;
    before.put(7, {1, 0, 0, 2});
    if (observables > 0) before.put(8, {1, 1, 0, 2, 77, 160 + observables - 1});
    const Outcome after = run(before);
    ExpectedControl expected(before);
    expected.done(0, 0);
    if (observables > 0) expected.done(0, 1).set(160 + observables - 1, 77);
    expected.expect(after.control);
  }
}

TEST_P(ControlWords, reserved_words_come_back_as_they_were) {
  Job before = job();
  for (Word word = 145; word < 160; ++word) before.control[word] = word;
  before.put(7, {1, 0, 0, 2});
  ExpectedControl(before).done(0, 0).expect(run(before).control);
}

}  // namespace everkernel::conformance
