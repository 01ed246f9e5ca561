// Trusted handlers: the values they see, the outcomes they return, and errors that name them.
#include "conformance/session_helpers.hpp"
#include "everkernel/ir/trusted_item.hpp"

namespace everkernel::conformance {
namespace {

constexpr Word kPacked = 0x80000001;
constexpr Word kWaitIo = 4;
constexpr Word kIoPublished = 1, kIoOk = 0x10;

// A handler that does nothing, with a C++ function and a CUDA text.
ir::TrustedHandler made(std::string name, Word opcode) {
  return {.name = name,
          .opcode = opcode,
          .cpu = [](ir::TrustedItem& item) { return item.done(); },
          .cuda = "template <class Item> __device__ Word " + name +
                  "(Item& item) { return item.done(); }"};
}

}  // namespace

// --- the values they see ----------------------------------------------------------------------

TEST_P(Trusted, a_handler_sees_the_words_of_its_slot) {
  const DataBuffer input = buffer(kernel(), {.handle = 1, .word_count = 5});
  const DataBuffer output = buffer(kernel(), {.handle = 2, .word_count = 19});
  Job before = job();
  const SlotWords item{1, kTrustedEcho, 3, 2, 1, 2, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21};
  before.put(7, item);
  const Outcome after = run(before);
  SlotWords expected = item;
  expected[0] = 3;
  EXPECT_EQ(after.slot(7), expected);
  EXPECT_EQ(words_of(output), (std::vector<Word>{kTrustedEcho, 3, 2, 7, 1, 2, 12, 13, 14, 15, 16,
                                                 17, 18, 19, 20, 21, 5, 192, 0}));
  ExpectedControl(before).done(3, kTrustedEcho).expect(after.control);
}

TEST_P(Trusted, trusted_and_verified_handlers_run_beside_each_other) {
  const DataBuffer output = buffer(kernel(), {.handle = 2, .word_count = 16});
  Job before = job();
  for (Word slot = 0; slot < 16; ++slot) {
    before.put(slot, {1, slot % 2 == 0 ? Word{kTrustedMark} : Word{kMark}, slot, 2, 0, 2});
  }
  EXPECT_EQ(run(before).counts.done, 16u);
  EXPECT_EQ(words_of(output), std::vector<Word>(16, 1));
}

TEST_P(Trusted, an_opcode_below_32_is_counted) {
  Job before = job();
  before.put(7, {1, kTrustedStore3, 0, 2, 5, 6, 7, 0, 0, 0, 0, 0, 0, 0, 0, 8});
  const Outcome after = run(before);
  ExpectedControl(before)
      .done(0, kTrustedStore3)
      .set(160, 5)
      .set(161, 6)
      .set(162, 15)
      .expect(after.control);
}

TEST_P(Trusted, an_opcode_far_away_is_found) {
  const DataBuffer output = buffer(kernel(), {.handle = 2, .word_count = 1});
  Job before = job();
  before.put(7, {1, kTrustedFar, 0, 2, 0, 2});
  before.put(8, {1, kTrustedFar + 1, 0, 2, 0, 2});
  const Outcome after = run(before);
  EXPECT_EQ(after.status(7), 3u);
  EXPECT_EQ(after.fault_code(8), 1u);
  EXPECT_EQ(words_of(output), std::vector<Word>{kTrustedFar});
}

TEST_P(Trusted, lanes_follow_the_scope) {
  const DataBuffer output = buffer(kernel(), {.handle = 2, .word_count = 9});
  Job before = job();
  for (Word i = 0; i < 3; ++i) before.put(6 + i, {1, kTrustedLane + i, 0, 2, 0, 2, 3 * i});
  EXPECT_EQ(run(before).counts.done, 3u);
  EXPECT_EQ(words_of(output), (std::vector<Word>{1, 0, 40, 32, 31, 40, 16, 15, 40}));
}

TEST_P(Trusted, atomics_change_a_word_and_give_the_one_before) {
  std::vector<Word> words(16);
  for (Word i = 0; i < 8; ++i) words[i] = 12 + i;
  const DataBuffer output = buffer(kernel(), {.handle = 2, .word_count = 16}, words);
  Job before = job();
  before.put(7, {1, kTrustedAtomics, 0, 2, 0, 2});
  EXPECT_EQ(run(before).counts.done, 1u);
  EXPECT_EQ(words_of(output),
            (std::vector<Word>{17, 3, 99, 6, 19, 18, 70, 80, 12, 13, 14, 15, 16, 17, 18, 19}));
}

TEST_P(Trusted, buffers_are_guarded_by_handle_owner_access_and_length) {
  struct Row {
    std::string_view name;
    Word output, fault;
  };
  constexpr Row kRows[] = {
      {"no buffer", 0, 9},  {"not in the table", 77, 9}, {"of tenant 4", 4, 5}, {"read only", 5, 5},
      {"write only", 8, 5}, {"too short", 6, 2},         {"no words", 7, 2},    {"its own", 3, 0}};
  using memory::Access;
  const DataBuffer own = buffer(kernel(), {.handle = 3, .word_count = 16, .owner = 3});
  const DataBuffer foreign = buffer(kernel(), {.handle = 4, .word_count = 16, .owner = 4});
  const DataBuffer read_only =
      buffer(kernel(), {.handle = 5, .word_count = 16, .access = Access::read});
  const DataBuffer write_only =
      buffer(kernel(), {.handle = 8, .word_count = 16, .access = Access::write});
  const DataBuffer small = buffer(kernel(), {.handle = 6, .word_count = 8});
  const DataBuffer none = buffer(kernel(), {.handle = 7, .word_count = 0});
  for (const Row& row : kRows) {
    SCOPED_TRACE(row.name);
    Job before = job();
    before.put(8, {1, kTrustedMark, 3, 2, 0, row.output});
    EXPECT_EQ(run(before).slot(8), (SlotWords{row.fault == 0 ? 3u : 7u, kTrustedMark, 3,
                                              row.fault << 16 | 2, 0, row.output}));
  }
  EXPECT_EQ(words_of(own)[8], 1u);
  for (const DataBuffer* other : {&foreign, &read_only, &write_only, &small}) {
    EXPECT_EQ(words_of(*other), std::vector<Word>(other->word_count()));
  }
}

TEST_P(Trusted, control_words_are_written_as_the_tenant_may) {
  struct Row {
    Word tenant, index, fault;
  };
  for (const Row& row : {Row{0, 159, 0}, Row{0, 191, 0}, Row{0, 192, 2}, Row{1, 159, 5},
                         Row{1, 160, 0}, Row{1, 192, 2}, Row{0, 0xFFFFFFFF, 2}}) {
    SCOPED_TRACE(testing::Message() << "tenant " << row.tenant << " index " << row.index);
    Job before = job();
    before.put(7, {1, kTrustedPoke, row.tenant, 2, 0, 0, 0, row.index, 99});
    const Outcome after = run(before);
    ExpectedControl expected(before);
    if (row.fault == 0) {
      EXPECT_EQ(after.status(7), 3u);
      expected.done(row.tenant, kTrustedPoke).set(row.index, 99);
    } else {
      EXPECT_EQ(after.fault_code(7), row.fault);
      expected.faulted(row.tenant);
    }
    expected.expect(after.control);
  }
}

TEST_P(Trusted, what_they_say_is_heard) {
  Job before = job();
  before.put(6, {1, kTrustedSay, 0, 2, 0, 0, 0, 10, 11, 12});
  before.put(7, {1, kTrustedEmitTwice, 0, 2});
  const Outcome after = run(before);
  EXPECT_EQ(after.counts.done, 2u);
  EXPECT_EQ(after.counts.hits_dropped, 2u) << "a dispatch has no room for hits";
  EXPECT_EQ(std::vector(after.debug_log.begin(), after.debug_log.begin() + 5),
            (std::vector<Word>{4, 10, 11, 12, 6 * 16}));
}

// --- their outcomes ---------------------------------------------------------------------------

TEST_P(Trusted, a_handler_raises_codes_from_256_up) {
  for (const auto& [raised, code] : {std::pair{0u, 256u}, {7u, 263u}, {70000u, 65535u}}) {
    Job before = job();
    before.put(7, {1, kTrustedRaise, 3, 2, raised});
    const Outcome after = run(before);
    EXPECT_EQ(after.slot(7), (SlotWords{7, kTrustedRaise, 3, code << 16 | 2, raised}));
    ExpectedControl(before).faulted(3).expect(after.control);
  }
}

TEST_P(Trusted, accesses_that_fail_let_the_rest_run_and_the_lowest_code_counts) {
  const DataBuffer output = buffer(kernel(), {.handle = 2, .word_count = 4});
  Job before = job();
  before.put(7, {1, kTrustedClumsy, 0, 2, 0, 2});
  EXPECT_EQ(run(before).fault_code(7), 2u);
  EXPECT_EQ(words_of(output), (std::vector<Word>{7, 0, 0, 0}));
}

TEST_P(Trusted, items_come_back_with_their_args) {
  Job before = job();
  before.put(7, {1, kTrustedCountdown, 0, 2, 0, 0, 0, 5});
  before.put(8, {1, kTrustedCountdownLater, 0, 2, 0, 0, 0, 3});
  const Outcome after = run(before);
  EXPECT_EQ(after.slot(7), (SlotWords{3, kTrustedCountdown, 0, 2}));
  EXPECT_EQ(after.slot(8), (SlotWords{3, kTrustedCountdownLater, 0, 2}));
  EXPECT_EQ(after.control[64] - before.control[64], 10u) << "six claims and four";
}

TEST_P(Trusted, args_that_are_written_and_not_declared_stay) {
  Job before = job();
  before.put(7, {1, kTrustedScribble, 0, 2, 1, 2, 3, 4, 5, 6});
  EXPECT_EQ(run(before).slot(7), (SlotWords{3, kTrustedScribble, 0, 2, 1, 2, 3, 4, 5, 6}));
}

TEST_P(Trusted, an_ending_that_is_not_declared_is_a_fault_and_workers_go_on) {
  Job before = job();
  for (Word slot = 4; slot < 12; ++slot) before.put(slot, {1, kTrustedUndeclared, 0, 2});
  before.put(12, {1, kTrustedRaise, 0, 2});
  before.put(13, {1, 0, 0, 2});
  const Outcome after = run(before);
  for (Word slot = 4; slot < 12; ++slot) EXPECT_EQ(after.fault_code(slot), 65533u);
  EXPECT_EQ(after.counts.faulted, 9u);
  EXPECT_EQ(after.status(13), 3u);
}

TEST_P(Trusted, an_await_asks_for_io_and_comes_back) {
  const DataBuffer input = buffer(kernel(), {.handle = 1, .word_count = 3}, std::array{1u, 2u, 3u});
  const DataBuffer output = buffer(kernel(), {.handle = 2, .word_count = 1});
  Job before = job();
  before.put(7, {1, kTrustedReadAndSum, 3, 2, 1, 2, 0, 55, 2, 12});
  Job served = run(before);
  ASSERT_EQ(served.status(7), kWaitIo);
  const Word io_slot = served.slot(7)[15];
  ASSERT_LT(io_slot, 4u);
  EXPECT_EQ(served.io_slot(io_slot), (std::vector<Word>{1, 55, 1, 8192, 0, 12, kIoPublished, 7}));
  served.io_queue[io_slot * 8 + 6] = kIoOk;
  EXPECT_EQ(run(served).status(7), 3u);
  EXPECT_EQ(words_of(output), std::vector<Word>{6});
}

TEST_P(Trusted, items_that_ask_the_token_end_at_the_deadline) {
  for (const Word opcode : {kTrustedSpin, kTrustedTurns}) {
    Job before = job();
    before.put(7, {1, opcode, 1, 2});
    const Outcome after = run(before, short_timeout());
    EXPECT_EQ(after.slot(7), (SlotWords{7, opcode, 1, 0x000A0002}));
    EXPECT_EQ(after.counts.end, backend::DrainEnd::deadline);
    EXPECT_LT(after.duration, kPatience);
  }
}

// --- in packed slots and beside a payload -----------------------------------------------------

TEST_P(Trusted, inside_a_packed_slot_a_handler_sees_its_own_words) {
  Job before = job();
  // STORE_U32 (5, 165), then the handler with two words.
  before.put(7, {1, kPacked, 0, 2, 0x00010402, 0x0200 | kTrustedStore3, 5, 165, 10, 32});
  const Outcome after = run(before);
  ExpectedControl(before)
      .done(0, kPacked)
      .add(97, 1)
      .add(96 + kTrustedStore3, 1)
      .set(165, 5)
      .set(160, 10)
      .set(161, 32)
      .expect(after.control);
}

TEST_P(Trusted, inside_a_packed_slot_a_fault_ends_the_slot) {
  Job before = job();
  before.put(7, {1, kPacked, 0, 2, 0x00010302, 0x0200 | kTrustedRaise, 5, 165, 9});
  const Outcome after = run(before);
  EXPECT_EQ(after.fault_code(7), 265u);
  EXPECT_EQ(after.control[165], 5u) << "what was before it has happened";
}

TEST_P(Trusted, inside_a_packed_slot_nothing_can_come_back) {
  Job before = job();
  before.put(7, {1, kPacked, 0, 2, 0x00010202, 0x0200 | kTrustedYieldOnce, 5, 165});
  before.put(8, {1, kPacked, 0, 2, 0x00010202, 0x0200 | kTrustedReadAndSum, 5, 166});
  const Outcome after = run(before);
  EXPECT_EQ(after.fault_code(7), 6u);
  EXPECT_EQ(after.fault_code(8), 6u);
  EXPECT_EQ(after.control[165], 0u);
  EXPECT_EQ(after.control[166], 0u);
}

TEST_P(Trusted, inside_a_packed_slot_wide_handlers_do_their_work) {
  const DataBuffer output = buffer(kernel(), {.handle = 2, .word_count = 6});
  Job before = job();
  // Two operations, three words each: input, output, param.
  before.put(7, {1, kPacked, 0, 2, 2 | 6 << 8 | kTrustedWarp << 16, 0x0300 | kTrustedGroup, 0, 2, 0,
                 0, 2, 3});
  EXPECT_EQ(run(before).status(7), 3u);
  EXPECT_EQ(words_of(output), (std::vector<Word>{32, 31, 40, 16, 15, 40}));
}

TEST_P(Trusted, a_payload_runs_instead) {
  Megakernel& payload = BackendTest::kernel(
      {.handlers = "payload { buffer(7)[slot] = opcode; }", .payload = true, .trusted = true});
  const DataBuffer output = buffer(payload, {.handle = 7, .word_count = 16});
  Job before = job();
  before.put(7, {1, kTrustedRaise, 0, 2, 5});
  before.put(8, {1, kPacked, 0, 2, 1 | 2 << 8 | kTrustedStore3 << 16, 10, 32});
  const Outcome after = BackendTest::run(payload, before);
  EXPECT_EQ(after.counts.done, 2u);
  EXPECT_EQ(words_of(output)[7], kTrustedRaise);
  EXPECT_EQ(after.control[160], 10u);
}

// --- making megakernels -----------------------------------------------------------------------

TEST_P(Trusted, handlers_that_do_not_fit_are_refused_by_name) {
  struct Row {
    std::string_view name;
    ir::TrustedHandler handler;
  };
  ir::TrustedHandler pure = made("unlikely", 200);
  pure.is_pure = true;
  const Row rows[] = {{"reserved", made("unlikely", 7)},
                      {"reserved above", made("unlikely", 0x80000000)},
                      {"a verified handler's number", made("unlikely", kMark)},
                      {"a trusted handler's number", made("unlikely", kTrustedMark)},
                      {"pure, but touches everything", pure},
                      {"no code", {.name = "unlikely", .opcode = 200}}};
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    MegakernelOptions options = BackendTest::options(kWithTrusted);
    options.trusted_handlers.push_back(row.handler);
    const auto made = Megakernel::create(backend(), options);
    ASSERT_EQ(test::code_of(made), Code::invalid_argument);
    EXPECT_NE(test::message_of(made).find("unlikely"), std::string::npos) << test::message_of(made);
  }
}

TEST_P(Trusted, names_are_used_once) {
  for (const std::string name : {"mark", "trusted_mark"}) {
    MegakernelOptions options = BackendTest::options(kWithTrusted);
    options.trusted_handlers.push_back(made(name, 200));
    EXPECT_EQ(test::code_of(Megakernel::create(backend(), options)), Code::invalid_argument);
  }
}

TEST_P(Trusted, a_backend_needs_its_own_code_and_no_other) {
  const bool is_cpu = backend()->capabilities().id == "cpu";
  ir::TrustedHandler cpu_only = made("one_code", 200), cuda_only = cpu_only;
  cpu_only.cuda.clear();
  cuda_only.cpu = nullptr;
  MegakernelOptions with = options(), without = options();
  with.trusted_handlers = {is_cpu ? cpu_only : cuda_only};
  without.trusted_handlers = {is_cpu ? cuda_only : cpu_only};
  EXPECT_TRUE(Megakernel::create(backend(), with));
  const auto refused = Megakernel::create(backend(), without);
  ASSERT_EQ(test::code_of(refused), Code::unsupported);
  EXPECT_NE(test::message_of(refused).find("one_code"), std::string::npos)
      << test::message_of(refused);
}

TEST_P(Trusted, other_handlers_are_other_code) {
  const auto id_of = [](std::vector<ir::TrustedHandler> handlers) {
    MegakernelOptions options = BackendTest::options({.handlers = {}});
    options.trusted_handlers = std::move(handlers);
    return std::string(must(Megakernel::create(backend(), options)).pipeline_id());
  };
  const std::string id = id_of({made("first", 200)});
  EXPECT_EQ(id_of({made("first", 200)}), id);
  EXPECT_NE(id_of({}), id);
  EXPECT_NE(id_of({made("first", 201)}), id);
  EXPECT_NE(id_of({made("first", 200), made("second", 201)}), id);
  ir::TrustedHandler changed = made("first", 200);
  changed.cpu = [](ir::TrustedItem& item) { return item.fault(1); };
  changed.cuda =
      "template <class Item> __device__ Word first(Item& item) { return item.fault(1); }";
  EXPECT_NE(id_of({changed}), id);
  changed = made("first", 200);
  changed.effects = {};
  EXPECT_NE(id_of({changed}), id);
}

// --- sessions ---------------------------------------------------------------------------------

TEST_P(TrustedSessions, items_run_and_their_ends_are_seen) {
  Megakernel& kernel = BackendTest::kernel(kWithTrusted);
  const DataBuffer output = buffer(kernel, {.handle = 2, .word_count = 16});
  Session session = start(kernel);
  const std::array<Word, 4> steps{0, 2, 0, 30};
  const std::array<Word, 1> raised{5};
  const Ticket first = must(session.publish({.opcode = kTrustedFar, .args = steps}));
  const Ticket late = must(session.publish({.opcode = kTrustedCountdown, .args = steps}));
  const Ticket bad = must(session.publish({.opcode = kTrustedRaise, .args = raised}));
  EXPECT_TRUE(must(session.wait(first, kPatience)).is_done());
  EXPECT_TRUE(must(session.wait(late, kPatience)).is_done());
  EXPECT_EQ(must(session.wait(bad, kPatience)).fault_code, 261u);
  EXPECT_EQ(words_of(output)[0], kTrustedFar);
}

TEST_P(TrustedSessions, short_and_long_items_run_once) {
  Megakernel& kernel = BackendTest::kernel(kWithTrusted);
  const DataBuffer output = buffer(kernel, {.handle = 2, .word_count = 16});
  Session session = start(kernel);
  const std::array<Word, 3> mark{0, 2};
  const std::array<Word, 3> add{0, 2, 1};
  for (Word i = 0; i < 300; ++i) {
    must(session.publish({.opcode = kTrustedMark, .args = mark}, {.timeout = kPatience}));
    must(session.publish({.opcode = kTrustedAdd, .args = add}, {.timeout = kPatience}));
  }
  must(session.wait_all(kPatience));
  Word sum = 0;
  for (const Word word : words_of(output)) sum += word;
  EXPECT_EQ(sum, 600u);
}

TEST_P(TrustedSessions, packed_operations_are_one_item) {
  Session session = start(BackendTest::kernel(kWithTrusted));
  const std::array<Word, 2> stored{7, 8};
  const PackedOp ops[] = {{.opcode = kTrustedStore3, .args = stored}, {.opcode = 2, .args = kAdd1}};
  EXPECT_TRUE(must(session.wait(must(session.publish_packed(ops)), kPatience)).is_done());
  EXPECT_EQ(must(session.observable(0)), 7u);
  EXPECT_EQ(must(session.observable(1)), 9u);
}

TEST_P(TrustedSessions, stopping_ends_items_that_ask_the_token) {
  Session session = start(BackendTest::kernel(kWithTrusted));
  const Ticket spin = must(session.publish({.opcode = kTrustedSpin}));
  ASSERT_TRUE(comes_true([&] { return must(session.observable(0)) == 1; }));
  EXPECT_EQ(test::code_of(session.wait(spin, kMoment)), Code::timeout);
  const StopReport report = session.stop(StopMode::drain, kMoment);
  EXPECT_EQ(report.faulted, 1u);
  EXPECT_EQ(report.cancelled, 0u);
}

}  // namespace everkernel::conformance
