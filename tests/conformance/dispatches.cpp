// Dispatches: submissions of both kinds, readback, statistics, and refused calls.
#include <thread>

#include "conformance/backend_suite.hpp"

namespace everkernel::conformance {
namespace {

using protocol::Buffer;

constexpr Buffer kBuffers[] = {Buffer::control, Buffer::ring, Buffer::debug_log, Buffer::io_queue};

std::span<const std::byte> bytes_of(const HostBuffers& buffers, Buffer buffer) {
  switch (buffer) {
    case Buffer::control:
      return buffers.control;
    case Buffer::ring:
      return buffers.ring;
    case Buffer::debug_log:
      return buffers.debug_log;
    case Buffer::io_queue:
      return buffers.io_queue;
  }
  return {};
}

std::vector<Word> read(const ResidentBuffers& resident, Buffer buffer) {
  std::vector<Word> words(resident.size_bytes(buffer) / 4);
  must(resident.read(buffer, 0, std::as_writable_bytes(std::span(words))));
  return words;
}

// 16 slots, 32 observables, 8 debug records, 4 IO slots.
constexpr std::uint64_t kControlBytes = (160 + 32) * 4, kRingBytes = 16 * 64,
                        kLogBytes = (1 + 8 * 4) * 4, kIoBytes = 4 * 32;
constexpr std::uint64_t kJobBytes = kControlBytes + kRingBytes + kLogBytes + kIoBytes;

}  // namespace

Job Dispatches::sample(Word value) {
  Job made = job();
  made.control[3 + 5] = 0;
  made.put(6, {1, 1, 0, 2, value, 160});
  made.put(7, {1, 0xFFFE, 0, 2, value, 1, 2});
  made.put(8, {1, 9999, 0, 2});
  made.put(9, {1, 0, 5, 2});
  return made;
}

// --- readback ---------------------------------------------------------------------------------

TEST_P(Dispatches, readback_brings_what_was_asked_for) {
  const Job before = sample(7);
  const Submission submission = before.buffers();
  for (const Readback readback : {Readback::none, Readback::control, Readback::full}) {
    SCOPED_TRACE(static_cast<int>(readback));
    const auto report = must(kernel().dispatch(
        {.submissions = std::span(&submission, 1), .readback = readback, .timeout = kPatience}));
    ASSERT_EQ(report.submissions.size(), 1u);
    const SubmissionReport& first = report.submissions[0];
    const bool has_control = readback != Readback::none, has_all = readback == Readback::full;
    EXPECT_EQ(first.control.size(), has_control ? kControlBytes : 0);
    EXPECT_EQ(first.ring.size(), has_all ? kRingBytes : 0);
    EXPECT_EQ(first.debug_log.size(), has_all ? kLogBytes : 0);
    EXPECT_EQ(first.io_queue.size(), has_all ? kIoBytes : 0);
    if (has_control) {
      EXPECT_EQ(test::word_at(first.control, 160), 7u);
    }
    EXPECT_EQ(first.counts.done, 2u);
    EXPECT_EQ(first.counts.faulted, 1u);
    EXPECT_EQ(first.counts.remaining, 1u);
    EXPECT_EQ(report.stats.output_buffers, has_all ? 4u : has_control ? 1u : 0u);
    EXPECT_EQ(report.stats.readback_bytes, has_all ? kJobBytes : has_control ? kControlBytes : 0);
  }
}

TEST_P(Dispatches, the_bytes_of_the_caller_are_only_read) {
  const Job before = sample(7);
  const Job copy = before;
  run(before);
  EXPECT_EQ(before.control, copy.control);
  EXPECT_EQ(before.ring, copy.ring);
  EXPECT_EQ(before.debug_log, copy.debug_log);
}

TEST_P(Dispatches, bytes_may_have_any_alignment) {
  const Job before = sample(7);
  const HostBuffers buffers = before.buffers();
  std::array<std::vector<std::byte>, 4> shifted;
  for (std::size_t i = 0; i < 4; ++i) {
    const auto bytes = bytes_of(buffers, kBuffers[i]);
    shifted[i].resize(bytes.size() + 1);
    std::ranges::copy(bytes, shifted[i].begin() + 1);
  }
  const auto at = [&](std::size_t i) { return std::span<const std::byte>(shifted[i]).subspan(1); };
  const Submission submission =
      HostBuffers{.control = at(0), .ring = at(1), .debug_log = at(2), .io_queue = at(3)};
  const auto report = must(kernel().dispatch({.submissions = std::span(&submission, 1)}));
  EXPECT_EQ(report.submissions[0].counts.done, 2u);
}

// --- statistics -------------------------------------------------------------------------------

TEST_P(Dispatches, statistics_of_host_bytes_are_counted) {
  const Job before = sample(7);
  const Outcome after = run(before);
  EXPECT_EQ(after.stats.input_bytes, kJobBytes);
  EXPECT_EQ(after.stats.output_bytes, kJobBytes);
  EXPECT_EQ(after.stats.readback_bytes, kJobBytes);
  EXPECT_EQ(after.stats.bytes_moved, 2 * kJobBytes);
  EXPECT_GE(after.stats.device_allocation_bytes, kJobBytes);
  EXPECT_GE(after.stats.device_allocation_events, 1u);
  EXPECT_EQ(after.stats.output_buffers, 4u);
  EXPECT_EQ(after.stats.resident_resource_rows, 0u);
  EXPECT_EQ(after.stats.resident_resource_handles, 0u);
  EXPECT_EQ(after.stats.kernel_launches, 1u);
  EXPECT_FALSE(after.stats.recovered_after_device_loss);
  EXPECT_GT(after.stats.latency_ns, 0u);
  EXPECT_LE(after.stats.latency_ns, static_cast<std::uint64_t>(after.duration.count()));
}

TEST_P(Dispatches, statistics_of_resident_buffers_are_counted) {
  ResidentBuffers resident = must(kernel().make_resident(sample(7).buffers()));
  const Submission submission = &resident;
  const auto report = must(
      kernel().dispatch({.submissions = std::span(&submission, 1), .readback = Readback::control}));
  EXPECT_EQ(report.stats.input_bytes, 0u);
  EXPECT_EQ(report.stats.output_bytes, kJobBytes);
  EXPECT_EQ(report.stats.readback_bytes, kControlBytes);
  EXPECT_EQ(report.stats.bytes_moved, kControlBytes);
  EXPECT_EQ(report.stats.device_allocation_events, 0u);
  EXPECT_EQ(report.stats.device_allocation_bytes, 0u);
  EXPECT_EQ(report.stats.output_buffers, 1u);
  EXPECT_EQ(report.stats.resident_resource_rows, 1u);
  EXPECT_EQ(report.stats.resident_resource_handles, 4u);
  EXPECT_EQ(report.stats.kernel_launches, 1u);
  EXPECT_EQ(report.stats.items_done, 2u);
  EXPECT_EQ(report.stats.items_faulted, 1u);
  EXPECT_EQ(report.stats.items_remaining, 1u);
}

TEST_P(Dispatches, hits_without_a_place_are_counted) {
  Job before = job();
  for (Word slot = 6; slot < 9; ++slot) before.put(slot, {1, kEmitTwice, 0, 2});
  const Outcome after = run(before);
  EXPECT_EQ(after.counts.done, 3u);
  EXPECT_EQ(after.counts.hits_dropped, 6u);
  EXPECT_EQ(after.stats.hits_dropped, 6u);
}

TEST_P(Dispatches, rates_are_bytes_a_second_and_none_when_no_time_passed) {
  DispatchStats stats{.output_bytes = 1000,
                      .readback_bytes = 500,
                      .bytes_moved = 1500,
                      .device_allocation_bytes = 3,
                      .latency_ns = 2'000'000'000};
  EXPECT_EQ(stats.output_bytes_per_second(), 500u);
  EXPECT_EQ(stats.readback_bytes_per_second(), 250u);
  EXPECT_EQ(stats.bytes_moved_per_second(), 750u);
  EXPECT_EQ(stats.device_allocation_bytes_per_second(), 1u);
  stats.latency_ns = 0;
  EXPECT_EQ(stats.output_bytes_per_second(), 0u);
  EXPECT_EQ(stats.readback_bytes_per_second(), 0u);
  EXPECT_EQ(stats.bytes_moved_per_second(), 0u);
  EXPECT_EQ(stats.device_allocation_bytes_per_second(), 0u);
}

TEST_P(Dispatches, a_rate_of_many_bytes_in_no_time_does_not_wrap) {
  const DispatchStats stats{.output_bytes = 1ull << 40, .latency_ns = 1'000'000'000};
  EXPECT_EQ(stats.output_bytes_per_second(), 1ull << 40);
  const DispatchStats endless{.output_bytes = ~0ull, .latency_ns = 1};
  EXPECT_EQ(endless.output_bytes_per_second(), ~0ull);
}

// --- resident buffers -------------------------------------------------------------------------

TEST_P(Dispatches, resident_buffers_keep_what_a_dispatch_left) {
  Job before = job();
  before.put(7, {1, kCountdown, 0, 2, 0, 0, 0, 3});
  ResidentBuffers resident = must(kernel().make_resident(before.buffers()));
  EXPECT_EQ(resident.size_bytes(Buffer::control), kControlBytes);
  EXPECT_EQ(resident.size_bytes(Buffer::ring), kRingBytes);
  EXPECT_EQ(resident.size_bytes(Buffer::debug_log), kLogBytes);
  EXPECT_EQ(resident.size_bytes(Buffer::io_queue), kIoBytes);
  EXPECT_EQ(read(resident, Buffer::ring), before.ring);
  const Submission submission = &resident;
  const auto report = must(
      kernel().dispatch({.submissions = std::span(&submission, 1), .readback = Readback::none}));
  EXPECT_EQ(report.submissions[0].counts.done, 1u);
  const auto ring = read(resident, Buffer::ring);
  EXPECT_EQ(ring[7 * 16], 3u);
  EXPECT_EQ(ring[7 * 16 + 7], 0u);
  EXPECT_EQ(read(resident, Buffer::control)[1], 1u);
}

TEST_P(Dispatches, resident_slots_are_published_again_by_the_host) {
  Job before = job();
  ResidentBuffers resident = must(kernel().make_resident(before.buffers()));
  const Submission submission = &resident;
  for (const Word lap : {1u, 2u, 3u}) {
    const SlotWords slot{1, 2, 0, 2, 5, 160};
    must(resident.write(Buffer::ring, 7 * 64, std::as_bytes(std::span(slot))));
    const std::array<Word, 2> tickets{0, 0};
    must(resident.write(Buffer::control, 141 * 4, std::as_bytes(std::span(tickets))));
    const auto report = must(kernel().dispatch({.submissions = std::span(&submission, 1)}));
    EXPECT_EQ(report.submissions[0].counts.done, 1u);
    EXPECT_EQ(test::word_at(report.submissions[0].control, 160), 5 * lap);
    EXPECT_EQ(test::word_at(report.submissions[0].control, 1), lap);
  }
}

TEST_P(Dispatches, bytes_outside_resident_buffers_are_refused) {
  ResidentBuffers resident = must(kernel().make_resident(job().buffers()));
  std::array<std::byte, 8> eight{};
  for (const Buffer buffer : kBuffers) {
    const std::size_t size = resident.size_bytes(buffer);
    for (const std::size_t offset : {size - 4, size, size + 4, ~std::size_t{3}}) {
      EXPECT_EQ(test::code_of(resident.write(buffer, offset, eight)), Code::invalid_argument);
      EXPECT_EQ(test::code_of(resident.read(buffer, offset, eight)), Code::invalid_argument);
    }
    EXPECT_EQ(test::code_of(resident.write(buffer, 2, std::span(eight).first(4))),
              Code::invalid_argument);
    EXPECT_EQ(test::code_of(resident.write(buffer, 0, std::span(eight).first(3))),
              Code::invalid_argument);
  }
}

TEST_P(Dispatches, resident_buffers_of_another_megakernel_are_refused) {
  Megakernel other = must(Megakernel::create(backend(), options()));
  ResidentBuffers resident = must(other.make_resident(sample(7).buffers()));
  const Submission submission = &resident;
  EXPECT_EQ(test::code_of(kernel().dispatch({.submissions = std::span(&submission, 1)})),
            Code::invalid_argument);
  const Submission nothing = static_cast<ResidentBuffers*>(nullptr);
  EXPECT_EQ(test::code_of(kernel().dispatch({.submissions = std::span(&nothing, 1)})),
            Code::invalid_argument);
}

// --- many submissions -------------------------------------------------------------------------

TEST_P(Dispatches, many_submissions_of_both_kinds_are_one_launch) {
  const Job first = sample(11), second = sample(22), third = sample(33);
  ResidentBuffers resident = must(kernel().make_resident(second.buffers()));
  const std::array<Submission, 3> submissions{first.buffers(), &resident, third.buffers()};
  const auto report = must(kernel().dispatch({.submissions = submissions, .timeout = kPatience}));
  ASSERT_EQ(report.submissions.size(), 3u);
  for (Word i = 0; i < 3; ++i) {
    SCOPED_TRACE(i);
    const SubmissionReport& one = report.submissions[i];
    EXPECT_EQ(one.counts.done, 2u);
    EXPECT_EQ(one.counts.faulted, 1u);
    EXPECT_EQ(one.counts.remaining, 1u);
    EXPECT_EQ(one.counts.end, backend::DrainEnd::complete);
    EXPECT_EQ(test::word_at(one.control, 160), 11 * (i + 1));
    EXPECT_EQ(test::word_at(one.debug_log, 1), 11 * (i + 1));
  }
  EXPECT_EQ(report.stats.kernel_launches, 1u);
  EXPECT_EQ(report.stats.input_bytes, 2 * kJobBytes);
  EXPECT_EQ(report.stats.output_bytes, 3 * kJobBytes);
  EXPECT_EQ(report.stats.readback_bytes, 3 * kJobBytes);
  EXPECT_EQ(report.stats.output_buffers, 12u);
  EXPECT_EQ(report.stats.resident_resource_rows, 1u);
  EXPECT_EQ(report.stats.resident_resource_handles, 4u);
  EXPECT_EQ(report.stats.items_done, 6u);
  EXPECT_EQ(report.stats.items_faulted, 3u);
  EXPECT_EQ(report.stats.items_remaining, 3u);
}

TEST_P(Dispatches, a_submission_that_shuts_down_leaves_the_others_running) {
  Job stopping = job();
  stopping.put(6, {1, 0xFFFFFFFF, 0, 2});
  Job going = job();
  for (Word slot = 0; slot < 16; ++slot) going.put(slot, {1, kCountdown, 0, 2, 0, 0, 0, 20});
  const std::array<Submission, 3> submissions{going.buffers(), stopping.buffers(), going.buffers()};
  const auto report = must(kernel().dispatch({.submissions = submissions, .timeout = kPatience}));
  EXPECT_EQ(report.submissions[1].counts.end, backend::DrainEnd::shutdown);
  for (const std::size_t i : {0u, 2u}) {
    EXPECT_EQ(report.submissions[i].counts.done, 16u);
    EXPECT_EQ(report.submissions[i].counts.end, backend::DrainEnd::complete);
  }
}

TEST_P(Dispatches, submissions_of_different_lengths_go_together) {
  Job small = job({.observables = 0, .debug_records = 0, .io_slots = 1});
  Job large = job({.observables = 5000, .debug_records = 300, .io_slots = 64});
  small.put(7, {1, 0, 0, 2});
  large.put(7, {1, 1, 0, 2, 5, 5159});
  const std::array<Submission, 2> submissions{small.buffers(), large.buffers()};
  const auto report = must(kernel().dispatch({.submissions = submissions}));
  EXPECT_EQ(report.submissions[0].control.size(), 640u);
  EXPECT_EQ(test::word_at(report.submissions[1].control, 5159), 5u);
  EXPECT_EQ(report.submissions[1].debug_log.size(), 4u + 300u * 16u);
  EXPECT_EQ(report.submissions[1].io_queue.size(), 64u * 32u);
}

TEST_P(Dispatches, a_hundred_submissions_are_drained) {
  std::vector<Job> jobs;
  for (Word i = 0; i < 100; ++i) jobs.push_back(sample(i));
  std::vector<Submission> submissions;
  for (const Job& one : jobs) submissions.push_back(one.buffers());
  const auto report = must(kernel().dispatch({.submissions = submissions, .timeout = kPatience}));
  EXPECT_EQ(report.stats.items_done, 200u);
  EXPECT_EQ(report.stats.kernel_launches, 1u);
  for (Word i = 0; i < 100; ++i) EXPECT_EQ(test::word_at(report.submissions[i].control, 160), i);
}

TEST_P(Dispatches, dispatches_of_several_threads_run_one_after_the_other) {
  const DataBuffer output = buffer(2, 1);
  std::vector<std::jthread> threads;
  std::atomic<std::uint64_t> done{0};
  Job before = job();
  for (Word slot = 0; slot < 16; ++slot) before.put(slot, {1, kAddParam, 0, 2, 0, 2, 1});
  Megakernel& kernel = BackendTest::kernel();
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&] {
      for (int lap = 0; lap < 5; ++lap) {
        const Submission submission = before.buffers();
        const auto report = kernel.dispatch({.submissions = std::span(&submission, 1)});
        if (report) done += report->stats.items_done;
      }
    });
  }
  threads.clear();
  EXPECT_EQ(done, 4u * 5u * 16u);
  EXPECT_EQ(words_of(output)[0], 4u * 5u * 16u);
}

TEST_P(Dispatches, the_same_resident_buffers_twice_are_refused) {
  ResidentBuffers resident = must(kernel().make_resident(sample(7).buffers()));
  const Job other = sample(8);
  const std::array<Submission, 3> submissions{&resident, other.buffers(), &resident};
  EXPECT_EQ(test::code_of(kernel().dispatch({.submissions = submissions})), Code::invalid_argument);
  EXPECT_EQ(read(resident, Buffer::control)[1], 0u) << "nothing has run";
}

TEST_P(Dispatches, beside_a_long_dispatch_deadlines_hold_and_sessions_start) {
  constexpr auto kLong = std::chrono::milliseconds(600), kShort = std::chrono::milliseconds(20);
  Megakernel& kernel = BackendTest::kernel();
  Job endless = job();
  endless.put(7, {1, kYieldForever, 0, 2});
  const Submission long_one = endless.buffers();
  // The first session waits for the compiler.
  if (backend()->capabilities().live) static_cast<void>(must(kernel.start()));
  std::jthread first(
      [&] { (void)kernel.dispatch({.submissions = std::span(&long_one, 1), .timeout = kLong}); });
  std::this_thread::sleep_for(kMoment);
  const auto begin = std::chrono::steady_clock::now();
  const Job before = sample(7);
  const Submission short_one = before.buffers();
  const auto report = kernel.dispatch({.submissions = std::span(&short_one, 1), .timeout = kShort});
  if (!report) {
    EXPECT_EQ(report.error().code, Code::timeout);
  }
  EXPECT_EQ(kernel.worker_count(), worker_count());
  EXPECT_FALSE(kernel.pipeline_id().empty());
  if (backend()->capabilities().live) {
    Session session = must(kernel.start());
    EXPECT_TRUE(must(session.wait(must(session.publish({.opcode = 0})), kPatience)).is_done());
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kLong / 2);
}

TEST_P(Dispatches, what_handlers_may_only_read_is_written_after_the_dispatch) {
  constexpr auto kLong = std::chrono::milliseconds(400);
  Megakernel& kernel = BackendTest::kernel();
  DataBuffer constant =
      buffer(kernel, {.handle = 1, .word_count = 1, .access = memory::Access::read});
  DataBuffer variable = buffer(kernel, {.handle = 2, .word_count = 1});
  Job endless = job();
  endless.put(7, {1, kYieldForever, 0, 2});
  const Submission submission = endless.buffers();
  const auto begin = std::chrono::steady_clock::now();
  const auto since = [&] { return std::chrono::steady_clock::now() - begin; };
  std::jthread dispatch(
      [&] { (void)kernel.dispatch({.submissions = std::span(&submission, 1), .timeout = kLong}); });
  std::this_thread::sleep_for(kMoment);
  const std::array<Word, 1> words{5};
  must(variable.write(0, words));
  EXPECT_LT(since(), kLong);
  must(constant.write(0, words));
  EXPECT_GE(since(), kLong);
  EXPECT_EQ(words_of(constant)[0], 5u);
}

// --- workspaces -------------------------------------------------------------------------------

TEST_P(Dispatches, a_workspace_is_allocated_once_for_a_shape) {
  Workspace workspace;
  const Job first = sample(11), second = sample(22);
  bool is_first = true;
  for (const Job* one : {&first, &second, &first}) {
    const Submission submission = one->buffers();
    const auto report = must(
        kernel().dispatch({.submissions = std::span(&submission, 1), .workspace = &workspace}));
    EXPECT_EQ(report.stats.device_allocation_events > 0, is_first);
    EXPECT_EQ(report.stats.device_allocation_bytes > 0, is_first);
    EXPECT_EQ(test::word_at(report.submissions[0].control, 160), one == &first ? 11u : 22u);
    EXPECT_EQ(report.submissions[0].counts.done, 2u);
    is_first = false;
  }
}

TEST_P(Dispatches, a_workspace_serves_other_shapes_too) {
  Workspace workspace;
  for (const Word observables : {32u, 5000u, 1u, 0u, 200u}) {
    Job before = job({.observables = observables, .io_slots = 1 + observables % 64});
    before.put(7, {1, 0, 0, 2});
    const std::array<Submission, 2> submissions{before.buffers(), before.buffers()};
    const std::size_t count = 1 + observables % 2;
    const auto report = must(kernel().dispatch(
        {.submissions = std::span(submissions).first(count), .workspace = &workspace}));
    ASSERT_EQ(report.submissions.size(), count);
    for (const SubmissionReport& one : report.submissions) {
      EXPECT_EQ(one.control.size(), (160 + observables) * 4);
      EXPECT_EQ(one.counts.done, 1u);
    }
  }
}

// --- refused calls ----------------------------------------------------------------------------

namespace {

struct Damage {
  std::string_view name;
  Buffer buffer;
  std::size_t size_bytes;  // to which the buffer of the sample is cut or grown
  Word first_word = 0;
};

constexpr Damage kDamages[] = {
    {"no control", Buffer::control, 0},
    {"short control", Buffer::control, 636},
    {"control of no whole words", Buffer::control, 641},
    {"no ring", Buffer::ring, 0},
    {"ring of no whole slots", Buffer::ring, kRingBytes - 4},
    {"ring of a slot less", Buffer::ring, kRingBytes - 64},
    {"ring of a slot more", Buffer::ring, kRingBytes + 64},
    {"ring of twice the slots", Buffer::ring, 2 * kRingBytes},
    {"log of no whole words", Buffer::debug_log, 3},
    {"log whose cursor lies inside a record", Buffer::debug_log, kLogBytes, 1},
    {"log whose cursor lies past the last record", Buffer::debug_log, kLogBytes, 36},
    {"log whose cursor is 2^32 - 4", Buffer::debug_log, kLogBytes, 0xFFFFFFFC},
    {"queue of no whole slots", Buffer::io_queue, 31},
    {"queue of one and a half", Buffer::io_queue, 48},
    {"queue of 65 slots", Buffer::io_queue, 65 * 32},
};

// The sample with one buffer replaced.
struct Damaged {
  Damaged(const HostBuffers& whole, const Damage& damage) : bytes(damage.size_bytes) {
    const auto source = bytes_of(whole, damage.buffer);
    std::copy_n(source.begin(), std::min(source.size(), bytes.size()), bytes.begin());
    if (damage.first_word != 0) test::set_word(bytes, 0, damage.first_word);
    buffers = whole;
    for (auto* span : {&buffers.control, &buffers.ring, &buffers.debug_log, &buffers.io_queue}) {
      if (span->data() == source.data()) *span = bytes;
    }
  }
  std::vector<std::byte> bytes;
  HostBuffers buffers;
};

}  // namespace

TEST_P(Dispatches, bytes_that_do_not_fit_are_refused_and_change_nothing) {
  const Job whole = sample(11);
  const DataBuffer output = buffer(2, 16);
  Workspace workspace;
  const Submission good = whole.buffers();
  const auto last =
      must(kernel().dispatch({.submissions = std::span(&good, 1), .workspace = &workspace}));
  const auto control = test::words_of(last.submissions[0].control);
  const auto ring = test::words_of(last.submissions[0].ring);
  Job second = job();
  second.put(7, {1, kMark, 0, 2, 0, 2});
  for (const Damage& damage : kDamages) {
    SCOPED_TRACE(damage.name);
    const Damaged damaged(whole.buffers(), damage);
    // The other submission is valid, but must not run either.
    const std::array<Submission, 2> submissions{second.buffers(), damaged.buffers};
    const auto report = kernel().dispatch({.submissions = submissions, .workspace = &workspace});
    const auto code = test::code_of(report);
    EXPECT_TRUE(code == Code::corrupt || code == Code::invalid_argument);
    EXPECT_NE(test::message_of(report).find(protocol::buffer_name(damage.buffer)),
              std::string::npos)
        << test::message_of(report);
    EXPECT_EQ(test::words_of(last.submissions[0].control), control);
    EXPECT_EQ(test::words_of(last.submissions[0].ring), ring);
    const auto resident = test::code_of(kernel().make_resident(damaged.buffers));
    EXPECT_TRUE(resident == Code::corrupt || resident == Code::invalid_argument);
  }
  EXPECT_EQ(words_of(output), std::vector<Word>(16));
}

}  // namespace everkernel::conformance
