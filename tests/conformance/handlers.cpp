// Section 4 of the wire format: the effects of handlers, and how their faults are reported.
#include "conformance/backend_suite.hpp"

namespace everkernel::conformance {

TEST_P(Handlers, a_handler_raises_codes_from_256_up) {
  struct Row {
    Word raised, code;
  };
  for (const Row& row :
       {Row{0, 256}, Row{7, 263}, Row{65279, 65535}, Row{65280, 65535}, Row{0xFFFFFFFF, 65535}}) {
    Job before = job();
    before.put(7, {1, kRaise, 3, 2, 0, 0, row.raised});
    const Outcome after = run(before);
    EXPECT_EQ(after.slot(7), (SlotWords{7, kRaise, 3, row.code << 16 | 2, 0, 0, row.raised}));
    ExpectedControl(before).faulted(3).expect(after.control);
  }
}

TEST_P(Handlers, a_handler_without_fuel_is_a_fault_and_workers_go_on) {
  Megakernel& small = kernel({.fuel_per_item = 100});
  Job before = job();
  before.put(5, {1, kSpin, 1, 2});
  before.put(6, {1, kLoop, 1, 2, 0, 0, 101});
  before.put(7, {1, kLoop, 1, 2, 0, 0, 100});
  before.put(8, {1, 0, 1, 2});
  const Outcome after = run(small, before);
  EXPECT_EQ(after.fault_code(5), 4u);
  EXPECT_EQ(after.fault_code(6), 4u);
  EXPECT_EQ(after.status(7), 3u);
  EXPECT_EQ(after.status(8), 3u);
}

TEST_P(Handlers, an_item_has_its_fuel_anew_after_every_yield) {
  // Each of four runs takes 90 of the 100 turns of its fuel.
  constexpr std::string_view kText =
      "handler h = 64 { for i in 0 .. 90 { } if args[3] != 0 { args[3] = args[3] - 1; yield; } }";
  Job before = job();
  before.put(7, {1, 64, 0, 2, 0, 0, 0, 3});
  const Outcome after = run(kernel({.handlers = kText, .fuel_per_item = 100}), before);
  EXPECT_EQ(after.status(7), 3u);
}

TEST_P(Handlers, buffers_are_guarded_by_handle_owner_access_and_length) {
  struct Row {
    std::string_view name;
    Word output, fault;
  };
  constexpr Row kRows[] = {{"no buffer", 0, 9}, {"not in the table", 77, 9}, {"of tenant 4", 4, 5},
                           {"read only", 5, 5}, {"too short", 6, 2},         {"no words", 7, 2},
                           {"its own", 3, 0}};
  Megakernel& kernel = BackendTest::kernel();
  const DataBuffer own = buffer(kernel, {.handle = 3, .word_count = 16, .owner = 3});
  const DataBuffer foreign = buffer(kernel, {.handle = 4, .word_count = 16, .owner = 4});
  const DataBuffer read_only =
      buffer(kernel, {.handle = 5, .word_count = 16, .access = memory::Access::read});
  const DataBuffer small = buffer(kernel, {.handle = 6, .word_count = 8});
  const DataBuffer none = buffer(kernel, {.handle = 7, .word_count = 0});
  for (const Row& row : kRows) {
    SCOPED_TRACE(row.name);
    Job before = job();
    before.put(8, {1, kMark, 3, 2, 0, row.output});
    const Outcome after = run(kernel, before);
    EXPECT_EQ(after.slot(8),
              (SlotWords{row.fault == 0 ? 3u : 7u, kMark, 3, row.fault << 16 | 2, 0, row.output}));
  }
  EXPECT_EQ(words_of(own)[8], 1u);
  for (const DataBuffer* other : {&foreign, &read_only, &small}) {
    EXPECT_EQ(words_of(*other), std::vector<Word>(other->word_count()));
  }
}

TEST_P(Handlers, a_handler_writes_control_words_as_its_tenant_may) {
  struct Row {
    Word tenant, index, fault;
  };
  for (const Row& row :
       {Row{0, 159, 0}, Row{0, 160, 0}, Row{0, 191, 0}, Row{0, 192, 2}, Row{1, 159, 5},
        Row{1, 0, 5}, Row{1, 160, 0}, Row{1, 191, 0}, Row{1, 192, 2}, Row{0, 0xFFFFFFFF, 2}}) {
    SCOPED_TRACE(testing::Message() << "tenant " << row.tenant << " index " << row.index);
    Job before = job();
    before.put(7, {1, kPoke, row.tenant, 2, 0, 0, 0, row.index, 99});
    const Outcome after = run(before);
    ExpectedControl expected(before);
    if (row.fault == 0) {
      EXPECT_EQ(after.status(7), 3u);
      expected.done(row.tenant, kPoke).set(row.index, 99);
    } else {
      EXPECT_EQ(after.fault_code(7), row.fault);
      expected.faulted(row.tenant);
    }
    expected.expect(after.control);
  }
}

TEST_P(Handlers, what_a_handler_wrote_before_its_fault_stays) {
  constexpr std::string_view kText = "handler h = 64 { output[0] = 7; output[1] = 8; fault 1; }";
  Megakernel& kernel = BackendTest::kernel({.handlers = kText});
  const DataBuffer output = buffer(kernel, {.handle = 2, .word_count = 1});
  Job before = job();
  before.put(7, {1, 64, 0, 2, 0, 2});
  const Outcome after = run(kernel, before);
  EXPECT_EQ(after.fault_code(7), 2u);
  EXPECT_EQ(words_of(output), std::vector<Word>{7});
}

TEST_P(Handlers, every_item_of_a_ring_runs_once) {
  const DataBuffer output = buffer(2, 16);
  Job before = job();
  for (Word slot = 0; slot < 16; ++slot) before.put(slot, {1, kMark, slot, 2, 0, 2});
  EXPECT_EQ(run(before).counts.done, 16u);
  EXPECT_EQ(words_of(output), std::vector<Word>(16, 1));
}

TEST_P(Handlers, lanes_follow_the_scope) {
  // `lanes` is 1, 32 or the workgroup size, on every backend; turn k runs on lane k mod lanes.
  constexpr std::string_view kText = R"(
handler on_lane = 64 { output[0] = lanes; each i in 0 .. 40 { atomic_max(output[1], lane); } }
handler on_warp = 65 scope warp {
  output[2] = lanes;
  each i in 0 .. 40 { atomic_max(output[3], lane); }
}
handler on_group = 66 scope group {
  output[4] = lanes;
  each i in 0 .. 40 { atomic_max(output[5], lane); }
}
)";
  Megakernel& kernel = BackendTest::kernel({.handlers = kText});
  const DataBuffer output = buffer(kernel, {.handle = 2, .word_count = 6});
  Job before = job();
  for (Word i = 0; i < 3; ++i) before.put(6 + i, {1, 64 + i, 0, 2, 0, 2});
  EXPECT_EQ(run(kernel, before).counts.done, 3u);
  EXPECT_EQ(words_of(output), (std::vector<Word>{1, 0, 32, 31, 16, 15}));
}

TEST_P(Handlers, buffers_last_from_dispatch_to_dispatch) {
  const DataBuffer output = buffer(2, 1);
  Job before = job();
  before.put(7, {1, kAddParam, 0, 2, 0, 2, 5});
  run(before);
  run(before);
  EXPECT_EQ(words_of(output), std::vector<Word>{10});
}

TEST_P(Handlers, a_buffer_that_was_dropped_is_not_found) {
  { const DataBuffer output = buffer(2, 1); }
  Job before = job();
  before.put(7, {1, kAddParam, 0, 2, 0, 2, 5});
  EXPECT_EQ(run(before).fault_code(7), 9u);
}

}  // namespace everkernel::conformance
