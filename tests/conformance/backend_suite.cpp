// Makes megakernels, jobs and sessions for the suite, and checks the rules that hold for every
// dispatch.
#include "conformance/backend_suite.hpp"

#include <algorithm>
#include <bit>
#include <list>
#include <map>
#include <mutex>

#include "support/ir_text.hpp"
#include "support/sanitized.hpp"
#include "support/seeds.hpp"

namespace everkernel::conformance {
namespace {

constexpr Schedule kSchedules[] = {Schedule::direct, Schedule::priority, Schedule::ticket};
constexpr Word kStarts[] = {0, kNearlyWrapped};
constexpr Execution kExecutions[] = {Execution::interpreter, Execution::native};

// Schedules × workers × counter starts × executions. Under a sanitizer, where each test takes many
// times as long, a schedule has two configurations that share no value of an axis with two or more
// values; a soak has them all.
std::vector<Configuration> product(const BackendUnderTest& backend,
                                   std::span<const Schedule> schedules,
                                   std::span<const Word> worker_counts,
                                   std::span<const Word> starts,
                                   std::span<const Execution> executions) {
  std::vector<Configuration> all;
  const auto add = [&](Schedule schedule, Word workers, Word start, Execution execution) {
    if (!backend.interprets) execution = Execution::native;
    all.push_back({&backend, schedule, workers, start, execution});
  };
  if (!backend.interprets) executions = executions.last(1);
  for (const Schedule schedule : schedules) {
    if (test::kIsSanitized && !test::is_soak()) {
      const std::size_t most =
          std::max({worker_counts.size(), starts.size(), executions.size()}) > 1 ? 2 : 1;
      for (std::size_t k = 0; k < most; ++k) {
        add(schedule, worker_counts[(worker_counts.size() * 2 - 1 - k) % worker_counts.size()],
            starts[k % starts.size()],
            executions[(executions.size() * 2 - 1 - k) % executions.size()]);
      }
      continue;
    }
    for (const Word workers : worker_counts) {
      for (const Word start : starts) {
        for (const Execution execution : executions) add(schedule, workers, start, execution);
      }
    }
  }
  return all;
}

std::string name_of(const Configuration& configuration) {
  std::string name(backend::schedule_name(configuration.schedule));
  name += "_" + std::to_string(configuration.worker_count) + "_workers";
  name += configuration.counter_start == 0 ? "_from_zero" : "_nearly_wrapped";
  return name + (configuration.execution == Execution::native ? "_native" : "_interpreter");
}

bool is_active(Word status) {
  return status == 1 || status == 2 || status == 4 || status == 5 || status == 6;
}

// Words that count: DONE_COUNT, fairness and metrics, EPOCH, priority fairness, FAULT_COUNT and
// DEBUG_DROPPED.
void start_counters(std::vector<Word>& control, Word start) {
  control[1] = start;
  for (Word word = 64; word < 129; ++word) control[word] = start;
  for (Word word = 136; word < 141; ++word) control[word] = start;
  control[143] = start;
  control[144] = start;
}

std::vector<Word> control_words(Word tenant_count, Word observables, Word start) {
  std::vector<Word> control(160 + observables);
  control[2] = 3;
  for (Word tenant = 0; tenant < tenant_count; ++tenant) {
    control[3 + tenant] = 0xFFFFFFFF;
    control[32 + tenant] = 1'000'000;
  }
  start_counters(control, start);
  return control;
}

// --- rules that hold for every dispatch --------------------------------------------------------

// The rule that a dispatch broke in a slot, or an empty text.
std::string_view flaw_of(const SlotWords& before, const SlotWords& after) {
  const bool is_claimable = is_active(before[0]) && before[0] != 2;
  if (!is_claimable) return after == before ? "" : "is not claimable, but was touched";
  const bool is_left = after[0] == before[0];
  if (!is_left && (after[0] < 3 || after[0] > 7)) return "has a status no worker leaves";
  if (after[1] != before[1] || after[2] != before[2]) return "has another opcode or tenant";
  if ((after[3] & 0xFFFF) != (before[3] & 0xFFFF)) return "has another priority";
  if (after[0] == 7) return after[3] >> 16 != 0 ? "" : "is FAULT without a code";
  return after[3] >> 16 == before[3] >> 16 ? "" : "has a fault code, but is not FAULT";
}

void audit(const Job& before, const Outcome& after) {
  ASSERT_EQ(after.control.size(), before.control.size());
  ASSERT_EQ(after.ring.size(), before.ring.size());
  if (!before.debug_log.empty()) {
    EXPECT_EQ(after.debug_log.size(), before.debug_log.size());
  }
  if (!before.io_queue.empty()) {
    EXPECT_EQ(after.io_queue.size(), before.io_queue.size());
  }
  Word done = 0, faulted = 0, remaining = 0;
  for (Word i = 0; i < before.slot_count(); ++i) {
    const std::string_view flaw = flaw_of(before.slot(i), after.slot(i));
    if (!flaw.empty()) ADD_FAILURE() << "slot " << i << " " << flaw;
    done += Word{before.status(i) != 3 && after.status(i) == 3};
    faulted += Word{before.status(i) != 7 && after.status(i) == 7};
    remaining += Word{is_active(after.status(i))};
  }
  EXPECT_EQ(after.counts.done, done);
  EXPECT_EQ(after.counts.faulted, faulted);
  EXPECT_EQ(after.counts.remaining, remaining);
  EXPECT_EQ(after.control[1] - before.control[1], done) << "DONE_COUNT";
  EXPECT_EQ(after.control[143] - before.control[143], faulted) << "FAULT_COUNT";
  EXPECT_EQ(after.stats.items_done, done);
  EXPECT_EQ(after.stats.items_faulted, faulted);
  EXPECT_EQ(after.stats.items_remaining, remaining);
  EXPECT_EQ(after.stats.kernel_launches, 1u);
  if (after.counts.end == backend::DrainEnd::shutdown) {
    EXPECT_NE(after.control[0], 0u);
  }
}

// --- kernels ----------------------------------------------------------------------------------

std::shared_ptr<backend::Backend> backend_of(const BackendUnderTest& under_test) {
  static std::mutex mutex;
  static std::map<const BackendUnderTest*, std::shared_ptr<backend::Backend>> made;
  const std::lock_guard lock(mutex);
  auto& backend = made[&under_test];
  if (!backend) backend = under_test.make();
  return backend;
}

ir::VerifiedProgram program_of(std::string_view text) {
  static std::map<std::string, ir::VerifiedProgram, std::less<>> programs;
  const auto found = programs.find(text);
  if (found != programs.end()) return found->second;
  return programs.emplace(text, must(test::check_text(text))).first->second;
}

// Each kernel keeps threads, so the cache holds only the latest kernels: more than one part of the
// suite uses with one shape.
class KernelCache {
 public:
  Megakernel& get(const std::string& key, const std::function<Megakernel()>& make) {
    const auto found =
        std::ranges::find_if(kernels_, [&](const auto& entry) { return entry.first == key; });
    if (found != kernels_.end()) {
      kernels_.splice(kernels_.begin(), kernels_, found);
    } else {
      kernels_.emplace_front(key, make());
      if (kernels_.size() > kMaxKernels) kernels_.pop_back();
    }
    return kernels_.front().second;
  }

 private:
  static constexpr std::size_t kMaxKernels = 40;
  std::list<std::pair<std::string, Megakernel>> kernels_;
};

std::string key_of(const Configuration& configuration, const Shape& shape) {
  Configuration plain = configuration;
  plain.counter_start = 0;
  std::string key = configuration.backend->name + "/" + name_of(plain);
  for (const std::uint64_t number :
       {std::uint64_t{shape.slot_count}, std::uint64_t{shape.workgroup_size}, shape.fuel_per_item,
        std::uint64_t{shape.payload}, std::uint64_t{shape.trusted}}) {
    key += "/" + std::to_string(number);
  }
  return key.append(shape.handlers);
}

std::vector<Word> copy_of(std::span<const std::byte> bytes) {
  return test::words_of(bytes);
}

}  // namespace

// --- configurations ---------------------------------------------------------------------------

std::string configuration_name(const testing::TestParamInfo<Configuration>& info) {
  return name_of(info.param);
}

void PrintTo(const Configuration& configuration, std::ostream* out) {
  *out << name_of(configuration);
}

std::vector<Configuration> every_configuration(const BackendUnderTest& backend) {
  return product(backend, kSchedules, backend.worker_counts, kStarts, kExecutions);
}

std::vector<Configuration> interpreted_configurations(const BackendUnderTest& backend) {
  return product(backend, kSchedules, backend.worker_counts, kStarts,
                 std::array{Execution::interpreter});
}

std::vector<Configuration> single_worker_configurations(const BackendUnderTest& backend) {
  return product(backend, kSchedules, std::array<Word, 1>{1}, kStarts,
                 std::array{Execution::interpreter});
}

std::vector<Configuration> slow_configurations(const BackendUnderTest& backend) {
  return product(backend, kSchedules, std::array{1u, backend.worker_counts.back()},
                 std::array<Word, 1>{0}, kExecutions);
}

std::vector<Configuration> schedule_configurations(const BackendUnderTest& backend) {
  return product(backend, kSchedules, std::array{backend.worker_counts[1]}, std::array<Word, 1>{0},
                 std::array{Execution::interpreter});
}

std::vector<Configuration> session_configurations(const BackendUnderTest& backend) {
  return product(backend, std::array{Schedule::ticket}, backend.worker_counts, kStarts,
                 kExecutions);
}

std::vector<Configuration> wrapping_session_configurations(const BackendUnderTest& backend) {
  return product(backend, std::array{Schedule::ticket}, backend.worker_counts,
                 std::array{kNearlyWrapped}, kExecutions);
}

std::vector<Configuration> only(std::initializer_list<Schedule> schedules,
                                std::vector<Configuration> configurations) {
  std::erase_if(configurations, [&](const Configuration& configuration) {
    return std::ranges::find(schedules, configuration.schedule) == schedules.end();
  });
  return configurations;
}

// --- jobs -------------------------------------------------------------------------------------

void Job::put(Word slot_index, const SlotWords& words) {
  std::ranges::copy(words, ring.begin() + slot_index * 16);
}

SlotWords Job::slot(Word slot_index) const {
  SlotWords words;
  std::copy_n(ring.begin() + slot_index * 16, 16, words.begin());
  return words;
}

Word Job::fault_code(Word slot_index) const {
  EXPECT_EQ(status(slot_index), 7u) << "slot " << slot_index << " is not FAULT";
  return ring[slot_index * 16 + 3] >> 16;
}

std::vector<Word> Job::io_slot(Word io_slot_index) const {
  const auto first = io_queue.begin() + io_slot_index * 8;
  return {first, first + 8};
}

Word Job::count(Word status_value) const {
  Word slots = 0;
  for (Word i = 0; i < slot_count(); ++i) slots += Word{status(i) == status_value};
  return slots;
}

HostBuffers Job::buffers() const {
  return {.control = std::as_bytes(std::span(control)),
          .ring = std::as_bytes(std::span(ring)),
          .debug_log = std::as_bytes(std::span(debug_log)),
          .io_queue = std::as_bytes(std::span(io_queue))};
}

// --- expectations -----------------------------------------------------------------------------

ExpectedControl& ExpectedControl::add(Word index, Word count) {
  words_.at(index) += count;
  return *this;
}

ExpectedControl& ExpectedControl::set(Word index, Word word) {
  words_.at(index) = word;
  return *this;
}

ExpectedControl& ExpectedControl::claims(Word tenant, Word priority, Word count) {
  return add(64 + tenant, count).add(136 + priority, count);
}

ExpectedControl& ExpectedControl::done(Word tenant, Word opcode, Word count, Word priority) {
  if (opcode < 32) add(96 + opcode, count);
  return add(1, count).claims(tenant, priority, count);
}

ExpectedControl& ExpectedControl::faulted(Word tenant, Word count, Word priority) {
  return add(143, count).claims(tenant, priority, count);
}

void ExpectedControl::expect(const std::vector<Word>& control) const {
  std::vector<Word> expected = words_;
  ASSERT_EQ(control.size(), expected.size());
  for (const Word word : {135u, 141u, 142u}) expected[word] = control[word];
  expect_words("control", control, expected);
}

void expect_words(std::string_view what, const std::vector<Word>& actual,
                  const std::vector<Word>& expected) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    EXPECT_EQ(actual[i], expected[i]) << what << " word " << i;
  }
}

// --- the fixture ------------------------------------------------------------------------------

void BackendTest::SetUp() {
  if (!GetParam().backend->skip_reason.empty()) GTEST_SKIP() << GetParam().backend->skip_reason;
  if (GetParam().execution == Execution::native && !backend()->capabilities().native_code) {
    GTEST_SKIP() << "this backend has no native code here";
  }
}

std::shared_ptr<backend::Backend> BackendTest::backend() {
  return backend_of(*GetParam().backend);
}

MegakernelOptions BackendTest::options(const Shape& shape) {
  MegakernelOptions options{.slot_count = shape.slot_count,
                            .workgroup_size = shape.workgroup_size,
                            .payload = shape.payload,
                            .schedule = GetParam().schedule,
                            .execution = GetParam().execution,
                            .fuel_per_item = shape.fuel_per_item,
                            .worker_count = GetParam().worker_count};
  if (!shape.handlers.empty()) options.handlers = program_of(shape.handlers);
  if (shape.trusted) options.trusted_handlers = trusted_handlers();
  return options;
}

Megakernel& BackendTest::kernel(const Shape& shape) {
  static KernelCache cache;
  return cache.get(key_of(GetParam(), shape), [&] {
    auto made = must(Megakernel::create(backend(), options(shape)));
    EXPECT_EQ(made.worker_count(), GetParam().worker_count);
    return made;
  });
}

Job BackendTest::job(const JobSize& size) {
  Job job{.control = control_words(29, size.observables, GetParam().counter_start),
          .ring = std::vector<Word>(size.slot_count * 16),
          .debug_log = std::vector<Word>(1 + size.debug_records * 4),
          .io_queue = std::vector<Word>(size.io_slots * 8)};
  // Tickets that wrap need a power of two of slots.
  if (GetParam().schedule == Schedule::ticket && std::has_single_bit(size.slot_count)) {
    const Word start = GetParam().counter_start;
    job.control[141] = start;
    job.control[142] = start == 0 ? 0 : start + size.slot_count;
  }
  return job;
}

Outcome BackendTest::run(Megakernel& kernel, const Job& job, std::chrono::nanoseconds timeout,
                         const std::atomic<bool>* stop) {
  const Submission submission = job.buffers();
  const auto begin = std::chrono::steady_clock::now();
  const auto report = must(kernel.dispatch(
      {.submissions = std::span(&submission, 1), .timeout = timeout, .stop = stop}));
  Outcome outcome;
  outcome.duration = std::chrono::steady_clock::now() - begin;
  outcome.stats = report.stats;
  if (report.submissions.size() != 1) throw std::runtime_error("not one report for one submission");
  const SubmissionReport& first = report.submissions[0];
  outcome.counts = first.counts;
  outcome.control = copy_of(first.control);
  outcome.ring = copy_of(first.ring);
  outcome.debug_log = copy_of(first.debug_log);
  outcome.io_queue = copy_of(first.io_queue);
  audit(job, outcome);
  if (testing::Test::HasFatalFailure()) throw std::runtime_error("the report does not fit the job");
  return outcome;
}

Error BackendTest::refused(Megakernel& kernel, const Job& job) {
  const Submission submission = job.buffers();
  auto report = kernel.dispatch({.submissions = std::span(&submission, 1), .timeout = kPatience});
  EXPECT_FALSE(report.has_value()) << "the dispatch was accepted";
  return report ? Error{} : report.error();
}

DataBuffer BackendTest::buffer(Megakernel& kernel, const DataBufferOptions& options,
                               std::span<const Word> words) {
  DataBuffer made = must(kernel.create_buffer(options));
  if (!words.empty()) must(made.write(0, words));
  return made;
}

std::vector<Word> BackendTest::words_of(const DataBuffer& buffer) {
  std::vector<Word> words(buffer.word_count());
  must(buffer.read(0, words));
  return words;
}

// --- sessions ---------------------------------------------------------------------------------

void SessionTest::SetUp() {
  BackendTest::SetUp();
  if (IsSkipped()) return;
  if (!backend()->capabilities().live) GTEST_SKIP() << "this backend serves no sessions";
}

std::vector<Word> SessionTest::session_control(Word tenant_count, Word observables) {
  auto control = control_words(tenant_count, observables, GetParam().counter_start);
  return control;
}

std::uint64_t SessionTest::first_ticket(Word capacity) {
  if (GetParam().counter_start == 0) return 0;
  return (std::uint64_t{1} << 32) - 2 * std::uint64_t{capacity};
}

// The capacity of its queues is the number of slots of the megakernel.
Session SessionTest::start(Megakernel& kernel, Word tenant_count) {
  const Word capacity = kernel.slot_count();
  SessionOptions options{
      .tenant_count = tenant_count, .capacity = capacity, .first_ticket = first_ticket(capacity)};
  if (GetParam().counter_start == 0) return must(kernel.start(options));
  const auto control = session_control(tenant_count);
  options.control = std::as_bytes(std::span(control));
  return must(kernel.start(options));
}

Word SessionTest::slot_of(std::uint64_t published, Word slot_count) {
  return static_cast<Word>(published % slot_count);
}

}  // namespace everkernel::conformance
