// One suite that every backend passes: all calls go through the public API, and every expected word
// is typed by hand from the wire format.
//
// A backend's test program links the sources of this folder and writes, at namespace scope,
// EVERKERNEL_INSTANTIATE_CONFORMANCE(cpu, cpu_under_test()). Each fixture below stands for a part
// of the wire format; its tests lie in the file of the same name.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "conformance/handlers.hpp"
#include "conformance/trusted_handlers.hpp"
#include "everkernel/runtime/megakernel.hpp"
#include "support/results.hpp"
#include "support/wire_bytes.hpp"

namespace everkernel::conformance {

using abi::Word;
using backend::Execution;
using backend::Schedule;
using test::SlotWords;

/// A backend and how to make it.
struct BackendUnderTest {
  std::string name = {};                                         ///< in test listings
  std::function<std::shared_ptr<backend::Backend>()> make = {};  ///< called once
  std::string skip_reason = {};                      ///< why it cannot run here; empty if it can
  std::vector<abi::Word> worker_counts = {1, 2, 4};  ///< to test with; 1 is the first
  bool interprets = true;                            ///< whether it has an interpreter
  bool parks = false;                                ///< whether a session holds up its device
  std::chrono::milliseconds short_timeout{50};       ///< items begin before it ends
};

/// The backend, schedule, workers and execution that a test runs with.
struct Configuration {
  const BackendUnderTest* backend = nullptr;
  Schedule schedule = Schedule::direct;
  Word worker_count = 1;
  Word counter_start = 0;  ///< start of every wire counter
  Execution execution = Execution::interpreter;
};

/// Every wire counter wraps three counts after this.
inline constexpr Word kNearlyWrapped = 0xFFFFFFFDu;

/// Names a configuration in test listings.
std::string configuration_name(const testing::TestParamInfo<Configuration>& info);
void PrintTo(const Configuration& configuration, std::ostream* out);

/// Schedules × workers × counter starts × executions.
std::vector<Configuration> every_configuration(const BackendUnderTest& backend);
/// The same with one execution, for tests that run no handler.
std::vector<Configuration> interpreted_configurations(const BackendUnderTest& backend);
/// One worker, whose order can be seen.
std::vector<Configuration> single_worker_configurations(const BackendUnderTest& backend);
/// Every schedule and execution with one worker and with four, for tests that take long.
std::vector<Configuration> slow_configurations(const BackendUnderTest& backend);
/// Every schedule once.
std::vector<Configuration> schedule_configurations(const BackendUnderTest& backend);
/// Workers × counter starts × executions.
std::vector<Configuration> session_configurations(const BackendUnderTest& backend);
/// Workers × executions, beside the wrap of every counter: for tests that wait for time to pass.
std::vector<Configuration> wrapping_session_configurations(const BackendUnderTest& backend);

/// Those with one of these schedules.
std::vector<Configuration> only(std::initializer_list<Schedule> schedules,
                                std::vector<Configuration> configurations);

/// How long a test waits for an expected event. Only a failure takes that long.
inline constexpr std::chrono::nanoseconds kPatience = std::chrono::seconds(20);
/// How long a test watches that an event does not happen.
inline constexpr std::chrono::nanoseconds kMoment = std::chrono::milliseconds(20);

/// The value of a call that cannot fail here; the test fails with the error's message if it does.
template <class T>
T must(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().message);
  if constexpr (!std::is_void_v<T>) return *std::move(result);
}

/// One submission as words.
struct Job {
  std::vector<Word> control = {};
  std::vector<Word> ring = {};
  std::vector<Word> debug_log = {};
  std::vector<Word> io_queue = {};

  /// Slots of its ring.
  Word slot_count() const { return static_cast<Word>(ring.size() / 16); }
  /// Writes the words of a slot: status, opcode, tenant, priority word, arguments.
  void put(Word slot_index, const SlotWords& words);
  /// The words of a slot.
  SlotWords slot(Word slot_index) const;
  Word status(Word slot_index) const { return ring[slot_index * 16]; }
  /// The fault code of a slot, which must be FAULT.
  Word fault_code(Word slot_index) const;
  /// The words of an IO slot.
  std::vector<Word> io_slot(Word io_slot_index) const;
  /// Slots that hold this status.
  Word count(Word status) const;
  /// The buffers as a submission.
  HostBuffers buffers() const;
};

/// The buffers and counts after a dispatch of a job.
struct Outcome : Job {
  backend::DrainCounts counts = {};
  DispatchStats stats = {};
  std::chrono::nanoseconds duration = {};
};

/// The control words a dispatch must leave: those before it, and the additions of the items.
class ExpectedControl {
 public:
  explicit ExpectedControl(const Job& job) : words_(job.control) {}

  ExpectedControl& add(Word index, Word count);
  ExpectedControl& set(Word index, Word word);
  /// `count` claims of a tenant and a priority.
  ExpectedControl& claims(Word tenant, Word priority, Word count = 1);
  /// `count` items that were claimed once and reached DONE.
  ExpectedControl& done(Word tenant, Word opcode, Word count = 1, Word priority = 2);
  /// `count` items that were claimed once and reached FAULT.
  ExpectedControl& faulted(Word tenant, Word count = 1, Word priority = 2);

  /// Compares every word but those of the schedule's own: 135, 141 and 142.
  void expect(const std::vector<Word>& control) const;

 private:
  std::vector<Word> words_;
};

/// Names words that differ, instead of printing whole buffers.
void expect_words(std::string_view what, const std::vector<Word>& actual,
                  const std::vector<Word>& expected);

/// The parts of a test's megakernel that its configuration does not fix.
struct Shape {
  Word slot_count = 16;
  Word workgroup_size = 16;
  std::string_view handlers = kHandlers;
  bool payload = false;
  std::uint64_t fuel_per_item = ir::kDefaultFuel;
  bool trusted = false;  ///< with trusted_handlers() as well
};

/// Every trusted handler, and two verified ones beside them.
inline constexpr Shape kWithTrusted{.handlers = kBesideTrusted, .trusted = true};

/// First slot of the NORMAL partition of 16 slots, and the first behind it: an item there has
/// priority 2 under every schedule.
inline constexpr Word kNormal = 6, kNormalEnd = 10;

/// How large the buffers of a job are.
struct JobSize {
  Word slot_count = 16;
  Word observables = 32;
  Word debug_records = 8;
  Word io_slots = 4;
};

/// A word of a submission, and its expected value.
struct WordChange {
  Word index, word;
};

/// Helpers of every part of the suite.
class BackendTest : public testing::TestWithParam<Configuration> {
 protected:
  void SetUp() override;

  Schedule schedule() const { return GetParam().schedule; }
  Word worker_count() const { return GetParam().worker_count; }
  Word counter_start() const { return GetParam().counter_start; }
  std::chrono::milliseconds short_timeout() const { return GetParam().backend->short_timeout; }

  static std::shared_ptr<backend::Backend> backend();
  /// The options of this configuration.
  static MegakernelOptions options(const Shape& shape = {});
  /// A megakernel of this configuration; kept, because compiling costs more than most tests.
  static Megakernel& kernel(const Shape& shape = {});

  /// A job whose counters stand where the configuration says, with every tenant enabled.
  static Job job(const JobSize& size = {});

  /// Dispatches, and checks the rules that hold for every dispatch.
  static Outcome run(Megakernel& kernel, const Job& job,
                     std::chrono::nanoseconds timeout = kPatience,
                     const std::atomic<bool>* stop = nullptr);
  static Outcome run(const Job& job) { return run(kernel(), job); }
  /// The error of a dispatch that is refused.
  static Error refused(Megakernel& kernel, const Job& job);

  /// A buffer of these words.
  static DataBuffer buffer(Megakernel& kernel, const DataBufferOptions& options,
                           std::span<const Word> words = {});
  static DataBuffer buffer(Word handle, std::size_t word_count) {
    return buffer(kernel(), {.handle = handle, .word_count = word_count});
  }
  static std::vector<Word> words_of(const DataBuffer& buffer);
};

struct BuiltinRow;

/// Section 1: statuses and the words of a slot.
class Slots : public BackendTest {};
/// Section 2: flags and counters.
class ControlWords : public BackendTest {};
/// Section 2: masks, quotas and the mask table.
class Tenants : public BackendTest {};
/// Section 4: built-in operations, without handlers.
class Builtins : public BackendTest {
 protected:
  /// Every row has its effect and no other.
  static void expect_rows(Word tenant, const std::vector<BuiltinRow>& rows);
};
/// All operations together, on a ring that all workers are busy with.
class Mixtures : public BackendTest {};
/// Section 4: handlers and the faults they raise.
class Handlers : public BackendTest {};
/// Section 4: trusted handlers, to which the same rules apply as to others.
class Trusted : public BackendTest {
 protected:
  /// A megakernel with every trusted handler, and verified ones beside them.
  static Megakernel& kernel() { return BackendTest::kernel(kWithTrusted); }
  static Outcome run(const Job& job, std::chrono::nanoseconds timeout = kPatience) {
    return BackendTest::run(kernel(), job, timeout);
  }
};
/// Section 5.
class Fences : public BackendTest {};
/// Section 6: every slot runs.
class Schedules : public BackendTest {};
/// Section 6: partitions of the ring.
class Priorities : public BackendTest {};
/// Section 6: the order of direct and ticket, seen with one worker.
class RingOrders : public BackendTest {};
/// Section 6: the order of priority, seen with one worker.
class PriorityOrders : public BackendTest {};
/// Section 6: the order of tickets, seen with one worker.
class TicketOrders : public BackendTest {};
/// Section 6: dispatches that end at their deadline.
class Deadlines : public BackendTest {};
/// Section 7.
class PackedSlots : public BackendTest {
 protected:
  /// Expects that a packed slot ends with this fault, changes these control words and counts these
  /// executions.
  static void expect_row(const SlotWords& slot, Word fault, const std::vector<WordChange>& changes,
                         const std::vector<WordChange>& executions);
};
/// Section 8: PRINTF.
class DebugLogs : public BackendTest {};
/// Section 8: IO requests.
class IoRequests : public BackendTest {};
/// Making megakernels.
class Megakernels : public BackendTest {};
/// Submissions, readback, statistics.
class Dispatches : public BackendTest {
 protected:
  /// Two items that end, one that faults, one that is left; the first stores `value`.
  static Job sample(Word value);
};

/// Live sessions.
class SessionTest : public BackendTest {
 protected:
  void SetUp() override;

  /// The control buffer a session begins with: counters and tickets where the configuration says.
  static std::vector<Word> session_control(Word tenant_count = 29, Word observables = 64);
  /// A session whose counters stand where the configuration says.
  static Session start(Megakernel& kernel, Word tenant_count = 29);
  /// The first ticket of a session's queues: 0, or shortly before 2^32.
  static std::uint64_t first_ticket(Word capacity = 16);
  static Session start() { return start(kernel()); }
  /// The slot the next ticket lies in, when `published` tickets were given out.
  static Word slot_of(std::uint64_t published, Word slot_count = 16);
};

/// Publishing and following tickets.
class Sessions : public SessionTest {};
/// Tenants of a running session.
class SessionTenants : public SessionTest {};
/// Observing a running session.
class SessionLooks : public SessionTest {};
/// Stopping.
class SessionEnds : public SessionTest {};
/// What a running session runs.
class RunningItems : public SessionTest {};
/// Items that run longer than their queue allows.
class ItemTimeouts : public SessionTest {};
/// Replacing handlers.
class SessionHandlers : public SessionTest {
 protected:
  /// A megakernel of this configuration with these handlers.
  static Megakernel make(const ir::VerifiedProgram& program) {
    MegakernelOptions made = options();
    made.handlers = program;
    return must(Megakernel::create(backend(), made));
  }
};
/// Trusted handlers in sessions.
class TrustedSessions : public SessionTest {};

}  // namespace everkernel::conformance

/// Runs a fixture's tests on a list of configurations.
#define EVERKERNEL_INSTANTIATE_FIXTURE(prefix, fixture, configurations) \
  INSTANTIATE_TEST_SUITE_P(prefix, fixture, testing::ValuesIn(configurations), configuration_name)

/// Runs the whole suite on a backend; `backend` is an expression that lives for ever.
#define EVERKERNEL_INSTANTIATE_CONFORMANCE(prefix, backend)                                        \
  namespace everkernel::conformance {                                                              \
  EVERKERNEL_INSTANTIATE_FIXTURE(prefix, Slots, every_configuration(backend));                     \
  EVERKERNEL_INSTANTIATE_FIXTURE(prefix, ControlWords, interpreted_configurations(backend));       \
  EVERKERNEL_INSTANTIATE_FIXTURE(prefix, Tenants, every_configuration(backend));                   \
  EVERKERNEL_INSTANTIATE_FIXTURE(prefix, Builtins, interpreted_configurations(backend));           \
  EVERKERNEL_INSTANTIATE_FIXTURE(prefix, Handlers, every_configuration(backend));                  \
  EVERKERNEL_INSTANTIATE_FIXTURE(prefix, Trusted, interpreted_configurations(backend));            \
  EVERKERNEL_INSTANTIATE_FIXTURE(prefix, Mixtures, every_configuration(backend));                  \
  EVERKERNEL_INSTANTIATE_FIXTURE(prefix, Fences, every_configuration(backend));                    \
  EVERKERNEL_INSTANTIATE_FIXTURE(prefix, Schedules, interpreted_configurations(backend));          \
  EVERKERNEL_INSTANTIATE_FIXTURE(prefix, Priorities,                                               \
                                 only({Schedule::priority}, interpreted_configurations(backend))); \
  EVERKERNEL_INSTANTIATE_FIXTURE(prefix, RingOrders,                                               \
                                 only({Schedule::direct, Schedule::ticket},                        \
                                      single_worker_configurations(backend)));                     \
  EVERKERNEL_INSTANTIATE_FIXTURE(prefix, PriorityOrders,                                           \
                                 only({Schedule::priority},                                        \
                                      single_worker_configurations(backend)));                     \
  EVERKERNEL_INSTANTIATE_FIXTURE(prefix, TicketOrders,                                             \
                                 only({Schedule::ticket}, single_worker_configurations(backend))); \
  EVERKERNEL_INSTANTIATE_FIXTURE(prefix, Deadlines, slow_configurations(backend));                 \
  EVERKERNEL_INSTANTIATE_FIXTURE(prefix, PackedSlots, every_configuration(backend));               \
  EVERKERNEL_INSTANTIATE_FIXTURE(prefix, DebugLogs, every_configuration(backend));                 \
  EVERKERNEL_INSTANTIATE_FIXTURE(prefix, IoRequests, every_configuration(backend));                \
  EVERKERNEL_INSTANTIATE_FIXTURE(prefix, Megakernels, schedule_configurations(backend));           \
  EVERKERNEL_INSTANTIATE_FIXTURE(prefix, Dispatches, schedule_configurations(backend));            \
  EVERKERNEL_INSTANTIATE_FIXTURE(prefix, Sessions, session_configurations(backend));               \
  EVERKERNEL_INSTANTIATE_FIXTURE(prefix, SessionTenants, session_configurations(backend));         \
  EVERKERNEL_INSTANTIATE_FIXTURE(prefix, SessionLooks, session_configurations(backend));           \
  EVERKERNEL_INSTANTIATE_FIXTURE(prefix, SessionEnds, session_configurations(backend));            \
  EVERKERNEL_INSTANTIATE_FIXTURE(prefix, RunningItems, wrapping_session_configurations(backend));  \
  EVERKERNEL_INSTANTIATE_FIXTURE(prefix, ItemTimeouts, wrapping_session_configurations(backend));  \
  EVERKERNEL_INSTANTIATE_FIXTURE(prefix, SessionHandlers, session_configurations(backend));        \
  EVERKERNEL_INSTANTIATE_FIXTURE(prefix, TrustedSessions, session_configurations(backend));        \
  } /* namespace everkernel::conformance */                                                        \
  static_assert(true)
