// Making megakernels: geometry, names of compiled code, the payload, buffers.
#include "conformance/backend_suite.hpp"

namespace everkernel::conformance {
namespace {

constexpr std::string_view kOther = "handler nothing = 8 { output[0] = 1; }";

// Notes the opcode it runs for in a buffer of one word a slot.
constexpr std::string_view kPayload = R"(
handler nothing = 8 { buffer(7)[slot] = 999; }
payload { buffer(7)[slot] = opcode; }
)";

}  // namespace

// --- geometry ---------------------------------------------------------------------------------

TEST_P(Megakernels, a_geometry_that_does_not_fit_is_refused) {
  struct Row {
    Word slot_count, workgroup_size;
  };
  for (const Row& row :
       {Row{0, 1}, Row{1, 0}, Row{0, 0}, Row{1, 2}, Row{255, 256}, Row{257, 256}, Row{100, 64},
        Row{268'435'456, 1}, Row{0xFFFFFFFF, 1}, Row{0xFFFFFFFF, 0xFFFFFFFF}, Row{256, 512}}) {
    SCOPED_TRACE(testing::Message() << row.slot_count << " by " << row.workgroup_size);
    auto options = BackendTest::options({.handlers = {}});
    options.slot_count = row.slot_count;
    options.workgroup_size = row.workgroup_size;
    EXPECT_EQ(test::code_of(Megakernel::create(backend(), options)), Code::invalid_argument);
  }
}

TEST_P(Megakernels, a_geometry_gives_its_groups) {
  struct Row {
    Word slot_count, workgroup_size, groups;
  };
  for (const Row& row : {Row{1, 1, 1}, Row{7, 1, 7}, Row{7, 7, 1}, Row{1000, 8, 125},
                         Row{1024, 256, 4}, Row{1'048'576, 1024, 1024}}) {
    const Megakernel megakernel =
        must(Megakernel::create(backend(), options({.slot_count = row.slot_count,
                                                    .workgroup_size = row.workgroup_size,
                                                    .handlers = {}})));
    EXPECT_EQ(megakernel.slot_count(), row.slot_count);
    EXPECT_EQ(megakernel.workgroup_size(), row.workgroup_size);
    EXPECT_EQ(megakernel.worker_groups(), row.groups);
  }
}

TEST_P(Megakernels, the_default_is_256_slots_in_one_group) {
  const Megakernel megakernel = must(Megakernel::create(backend()));
  EXPECT_EQ(megakernel.slot_count(), 256u);
  EXPECT_EQ(megakernel.workgroup_size(), 256u);
  EXPECT_EQ(megakernel.worker_groups(), 1u);
  EXPECT_GE(megakernel.worker_count(), 1u);
  EXPECT_LE(megakernel.worker_count(), backend()->capabilities().max_worker_count);
}

TEST_P(Megakernels, capabilities_say_what_runs_here) {
  const backend::Capabilities& capabilities = backend()->capabilities();
  EXPECT_TRUE(capabilities.supported);
  EXPECT_GE(capabilities.max_worker_count, 1u);
  EXPECT_FALSE(capabilities.id.empty());
  EXPECT_FALSE(capabilities.device.empty());
  EXPECT_EQ(capabilities.reason, "");
  EXPECT_GT(capabilities.memory_bytes, 0u);
}

TEST_P(Megakernels, native_code_that_is_not_there_is_unsupported) {
  auto options = BackendTest::options();
  options.execution = Execution::native;
  const auto made = Megakernel::create(backend(), options);
  if (backend()->capabilities().native_code) {
    EXPECT_TRUE(made.has_value()) << test::message_of(made);
  } else {
    EXPECT_EQ(test::code_of(made), Code::unsupported);
  }
}

TEST_P(Megakernels, automatic_execution_runs_handlers) {
  auto options = BackendTest::options();
  options.execution = Execution::automatic;
  Megakernel megakernel = must(Megakernel::create(backend(), options));
  const DataBuffer output = buffer(megakernel, {.handle = 2, .word_count = 16});
  Job before = job();
  for (Word slot = 0; slot < 16; ++slot) before.put(slot, {1, kMark, 0, 2, 0, 2});
  run(megakernel, before);
  EXPECT_EQ(words_of(output), std::vector<Word>(16, 1));
}

// --- names of code ----------------------------------------------------------------------------

TEST_P(Megakernels, equal_code_has_equal_ids_and_other_code_another) {
  const auto id_of = [](const Shape& shape) {
    return std::string(must(Megakernel::create(backend(), options(shape))).pipeline_id());
  };
  const std::string id = id_of({});
  EXPECT_FALSE(id.empty());
  EXPECT_EQ(id_of({}), id);
  EXPECT_NE(id_of({.handlers = kOther}), id);
  EXPECT_NE(id_of({.handlers = {}}), id);
  EXPECT_NE(id_of({.handlers = kOther}), id_of({.handlers = {}}));
  EXPECT_NE(id_of({.handlers = kPayload, .payload = true}), id_of({.handlers = kPayload}));
}

TEST_P(Megakernels, another_schedule_is_other_code) {
  auto first = options(), second = options();
  second.schedule = schedule() == Schedule::direct ? Schedule::ticket : Schedule::direct;
  EXPECT_NE(must(Megakernel::create(backend(), first)).pipeline_id(),
            must(Megakernel::create(backend(), second)).pipeline_id());
}

// --- payload ----------------------------------------------------------------------------------

TEST_P(Megakernels, a_payload_that_is_not_there_is_refused) {
  auto with_handlers = options();
  with_handlers.payload = true;
  EXPECT_EQ(test::code_of(Megakernel::create(backend(), with_handlers)), Code::invalid_argument);
  auto without = options({.handlers = {}});
  without.payload = true;
  EXPECT_EQ(test::code_of(Megakernel::create(backend(), without)), Code::invalid_argument);
}

TEST_P(Megakernels, a_payload_runs_for_every_opcode_but_fence_shutdown_and_packed) {
  Megakernel& kernel = BackendTest::kernel({.handlers = kPayload, .payload = true});
  const DataBuffer output = buffer(kernel, {.handle = 7, .word_count = 16});
  constexpr std::array<Word, 14> kOpcodes{
      0, 1, 2, 6, 8, 31, 64, 0xFFF0, 0xFFFD, 0xFFFE, 0x10000, 0x7FFFFFFF, 5, 0x80000000};
  Job before = job();
  for (Word i = 0; i < kOpcodes.size(); ++i) before.put(i, {1, kOpcodes[i], 3, 2, 7, 160});
  before.put(14, {1, 0x80000001, 3, 2, 0x03010201, 9, 161});  // bad: its offset is past the end
  before.put(15, {1, 7, 3, 2, 15, 77});
  const Outcome after = run(kernel, before);
  EXPECT_EQ(after.counts.done, 15u);
  EXPECT_EQ(after.fault_code(14), 6u);
  EXPECT_EQ(after.control[160], 77u) << "the fence's tag, not a store";
  EXPECT_EQ(after.control[128], counter_start() + 1);
  std::vector<Word> expected(16);
  std::ranges::copy(kOpcodes, expected.begin());
  EXPECT_EQ(words_of(output), expected);
}

TEST_P(Megakernels, beside_a_payload_shutdown_and_packed_slots_work) {
  Megakernel& kernel = BackendTest::kernel({.handlers = kPayload, .payload = true});
  const DataBuffer output = buffer(kernel, {.handle = 7, .word_count = 16});
  Job packed = job();
  packed.put(7, {1, 0x80000001, 3, 2, 0x00010201, 9, 161});
  const Outcome after = run(kernel, packed);
  EXPECT_EQ(after.status(7), 3u);
  EXPECT_EQ(after.control[161], 9u);
  Job stop = job();
  stop.put(7, {1, 0xFFFFFFFF, 0, 2});
  EXPECT_EQ(run(kernel, stop).control[0], 1u);
  EXPECT_EQ(words_of(output), std::vector<Word>(16));
}

TEST_P(Megakernels, a_program_with_a_payload_runs_its_handlers_when_not_asked_for_it) {
  Megakernel& kernel = BackendTest::kernel({.handlers = kPayload});
  const DataBuffer output = buffer(kernel, {.handle = 7, .word_count = 16});
  Job before = job();
  before.put(7, {1, 8, 0, 2});
  before.put(8, {1, 64, 0, 2});
  const Outcome after = run(kernel, before);
  EXPECT_EQ(after.fault_code(8), 1u);
  EXPECT_EQ(words_of(output)[7], 999u);
}

// --- buffers ----------------------------------------------------------------------------------

TEST_P(Megakernels, a_buffer_that_cannot_be_is_refused) {
  const DataBuffer there = buffer(3, 4);
  const DataBufferOptions rows[] = {
      {.handle = 0, .word_count = 4},
      {.handle = 0x80000000, .word_count = 4},
      {.handle = 0xFFFFFFFF, .word_count = 4},
      {.handle = 3, .word_count = 4},
      {.handle = 4, .word_count = 4, .owner = 29},
      {.handle = 4, .word_count = std::size_t{1} << 32},
  };
  for (const DataBufferOptions& row : rows) {
    SCOPED_TRACE(row.handle);
    EXPECT_EQ(test::code_of(kernel().create_buffer(row)), Code::invalid_argument);
  }
}

TEST_P(Megakernels, a_buffer_begins_as_zeros_and_keeps_what_is_written) {
  DataBuffer made = buffer(0x7FFFFFFF, 5);
  EXPECT_EQ(made.handle(), 0x7FFFFFFFu);
  EXPECT_EQ(made.word_count(), 5u);
  EXPECT_EQ(words_of(made), std::vector<Word>(5));
  must(made.write(1, std::array<Word, 3>{7, 8, 9}));
  EXPECT_EQ(words_of(made), (std::vector<Word>{0, 7, 8, 9, 0}));
  std::array<Word, 2> part{};
  must(made.read(2, part));
  EXPECT_EQ(part, (std::array<Word, 2>{8, 9}));
}

TEST_P(Megakernels, words_outside_a_buffer_are_refused) {
  DataBuffer made = buffer(3, 5);
  std::array<Word, 2> two{1, 2};
  for (const std::size_t first :
       {std::size_t{4}, std::size_t{5}, std::size_t{6}, ~std::size_t{0}}) {
    EXPECT_EQ(test::code_of(made.write(first, two)), Code::invalid_argument) << first;
    EXPECT_EQ(test::code_of(made.read(first, two)), Code::invalid_argument) << first;
  }
  EXPECT_EQ(words_of(made), std::vector<Word>(5));
}

TEST_P(Megakernels, a_handle_is_free_again_when_its_buffer_is_dropped) {
  { const DataBuffer first = buffer(3, 5); }
  EXPECT_EQ(buffer(3, 6).word_count(), 6u);
}

TEST_P(Megakernels, buffers_outlive_their_megakernel) {
  std::optional<Megakernel> made = must(Megakernel::create(backend(), options()));
  DataBuffer buffer = must(made->create_buffer({.handle = 3, .word_count = 2}));
  made.reset();
  must(buffer.write(0, std::array<Word, 2>{7, 8}));
  EXPECT_EQ(words_of(buffer), (std::vector<Word>{7, 8}));
}

}  // namespace everkernel::conformance
