// What a session leaves to the next process: a process that drops its session, ends or is killed in
// the middle of a flood, and a producer that dies in the middle of publishing. Each time another
// process starts a session on the same device and runs an item.
//
// This program is all of these processes; its first argument names the role.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/descriptor.hpp"
#include "everkernel/runtime/megakernel.hpp"
#include "live/handover.hpp"
#include "live/queue_memory.hpp"
#include "support/backend_under_test.hpp"
#include "support/process.hpp"
#include "support/results.hpp"
#include "support/temp_dir.hpp"

namespace everkernel::test {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr auto kPatience = seconds(30);
constexpr unsigned kLongestRole = 120;  // seconds
constexpr int kPipe = kFirstInherited;
constexpr int kQueue = kFirstInherited;
constexpr const char* kCacheVariable = "EVERKERNEL_TEST_CACHE_DIR";

double ms_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

// Whether a GPU must be free again within kFreeMs. Elsewhere the time says how busy the machine is.
constexpr double kFreeMs = 2000;
bool is_on_device() {
  return is_on_cuda() && std::getenv("EVERKERNEL_LIBCUDA") == nullptr;
}

// ---- the roles ----

/// Ends the process with the error.
template <class T>
T taken(Result<T> result, int line = __builtin_LINE()) {
  if (result) return std::move(*result);
  fmt::print(stderr, "line {}: {}\n", line, result.error().message);
  std::fflush(nullptr);
  std::_Exit(1);
}

struct Running {
  Megakernel kernel = taken(Megakernel::create(backend_under_test()));
  std::optional<Session> session = taken(kernel.start());
};

/// One item that stores a word: 5 into control word 160.
void run_item(Session& session) {
  const std::array<Word, 2> args{5, 160};
  const Ticket ticket =
      taken(session.publish({.opcode = static_cast<Word>(abi::Opcode::store_u32), .args = args}));
  const Completion completion = taken(session.wait(ticket, kPatience));
  if (completion.is_done() && taken(session.observable(0)) == 5) return;
  fmt::print(stderr, "the item did not end as DONE\n");
  std::_Exit(1);
}

int run_next() {
  const auto begin = Clock::now();
  Running running;
  const double started = ms_since(begin);
  run_item(*running.session);
  fmt::print("session up after {:.0f} ms, item after {:.0f} ms", started, ms_since(begin));
  return running.session->stop(StopMode::drain).done == 1 ? 0 : 1;
}

/// Publishes NOPs without waiting for them, and tells the parent when some have ended.
void flood(Queue& queue, bool is_endless) {
  const std::vector<abi::WorkItem> batch(64);
  const TicketRange first = taken(queue.publish_items(batch, kPatience));
  taken(queue.wait(first.last(), kPatience));
  for (int i = 0; i < 16; ++i) taken(queue.publish_items(batch, kPatience));
  if (::write(kPipe, "f", 1) != 1) std::_Exit(1);
  while (is_endless) taken(queue.publish_items(batch, kPatience));
}

int run_flood() {
  Running running;
  Queue queue = taken(running.session->open_queue({.capacity = 4096}));
  flood(queue, true);
  return 1;
}

int leave_in_flood() {
  Running running;
  Queue queue = taken(running.session->open_queue({.capacity = 4096}));
  flood(queue, false);
  std::_Exit(0);
}

int drop_in_flood() {
  Running running;
  Queue queue = taken(running.session->open_queue({.capacity = 4096}));
  flood(queue, false);
  const auto begin = Clock::now();
  running.session.reset();
  const double dropped = ms_since(begin);
  running.session.emplace(taken(running.kernel.start()));
  run_item(*running.session);
  const double ran = ms_since(begin);
  fmt::print("dropped after {:.0f} ms, item of the next session after {:.0f} ms", dropped, ran);
  return is_on_device() && ran > kFreeMs ? 1 : 0;
}

/// A producer that dies with holes in its queue: of five tickets it fills two.
int die_in_publish() {
  auto received = taken(live::receive(kQueue));
  if (!live::take(kQueue)) return 1;
  const auto memory = taken(live::QueueMemory::attach(std::move(received.producer_file),
                                                      std::move(received.kernel_file)));
  const protocol::QueueProducer words = memory->producer();
  abi::LongWord tail = words.tail();
  if (!words.move_tail(tail, tail + 5)) return 1;
  words.store(tail, abi::WorkItem{});
  words.store(tail + 2, abi::WorkItem{});
  ::raise(SIGKILL);
  return 1;
}

/// Has such a producer, runs an item beside its holes, and stops.
int serve_dying_producer() {
  Running running;
  Queue queue = taken(running.session->open_queue({.capacity = 256}));
  const Descriptor given(taken(queue.descriptor()));
  Command command{.program = own_program(), .args = {"--die-in-publish"}, .folder = "."};
  command.inherited = {given.get()};
  Process producer(command);
  if (producer.finish().signal != SIGKILL) return 1;
  if (::write(kPipe, "d", 1) != 1) return 1;
  const auto begin = Clock::now();
  run_item(*running.session);
  const double ran = ms_since(begin);
  const StopReport report = running.session->stop(StopMode::drain, kPatience);
  const double stopped = ms_since(begin);
  fmt::print("item after {:.0f} ms, stopped after {:.0f} ms", ran, stopped);
  if (is_on_device() && stopped > kFreeMs) return 1;
  // Of the producer's items only the one before the first hole has run.
  return report.done == 2 && report.faulted == 0 ? 0 : 1;
}

struct Role {
  std::string_view name;
  int (*run)();
};
constexpr Role kRoles[] = {{"--next", run_next},
                           {"--flood", run_flood},
                           {"--leave-in-flood", leave_in_flood},
                           {"--drop-in-flood", drop_in_flood},
                           {"--die-in-publish", die_in_publish},
                           {"--serve-dying-producer", serve_dying_producer}};

// ---- the tests ----

class ProcessEnd : public testing::Test {
 protected:
  // The first process compiles; the others load what it compiled.
  static void SetUpTestSuite() {
    if (std::getenv(kCacheVariable) == nullptr) {
      folder_.emplace();
      ::setenv(kCacheVariable, folder_->path().c_str(), 1);
    }
    run_next("that compiles");
    run_next("alone");
  }
  static void TearDownTestSuite() {
    if (folder_) ::unsetenv(kCacheVariable);
    folder_.reset();
  }

  // A process in a role, and the pipe by which it says that it has come to its point.
  class Child {
   public:
    explicit Child(std::string role) {
      std::array<int, 2> ends{-1, -1};
      EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
      told_ = Descriptor(ends[0]);
      const Descriptor writing(ends[1]);
      Command command{.program = own_program(), .args = {std::move(role)}, .folder = "."};
      command.inherited = {writing.get()};
      command.timeout = kPatience;
      process_.emplace(command);
    }
    void await_point() {
      pollfd waited{.fd = told_.get(), .events = POLLIN, .revents = 0};
      char said = 0;
      ASSERT_EQ(::poll(&waited, 1, static_cast<int>(milliseconds(kPatience).count())), 1);
      ASSERT_EQ(::read(told_.get(), &said, 1), 1) << "it ended before: " << process_->finish().err;
    }
    Process& process() { return *process_; }

   private:
    Descriptor told_;
    std::optional<Process> process_;
  };

  // Starts a session in a new process and runs an item.
  static void run_next(std::string_view when) {
    const auto begin = Clock::now();
    Command command{.program = own_program(), .args = {"--next"}, .folder = "."};
    command.timeout = kPatience;
    const Outcome outcome = Process(command).finish();
    const double ms = ms_since(begin);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    fmt::print("  the next process, {}: {:.0f} ms ({})\n", when, ms, outcome.out);
    if (when == "that compiles") return;
    testing::Test::RecordProperty("next_process_ms", fmt::format("{:.0f}", ms));
    if (is_on_device()) {
      EXPECT_LT(ms, kFreeMs) << when;
    }
  }
  static void expect_ended_well(Child& child) {
    const Outcome outcome = child.process().finish();
    EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
    if (!outcome.out.empty()) fmt::print("  the process itself: {}\n", outcome.out);
  }

 private:
  static inline std::optional<TempDir> folder_;
};

TEST_F(ProcessEnd, a_session_that_is_dropped_leaves_the_device_free) {
  Child child("--drop-in-flood");
  child.await_point();
  run_next("while a session is dropped");
  expect_ended_well(child);
}

TEST_F(ProcessEnd, a_process_that_exits_leaves_the_device_free) {
  Child child("--leave-in-flood");
  child.await_point();
  run_next("while a process with a session exits");
  expect_ended_well(child);
}

TEST_F(ProcessEnd, a_process_that_is_killed_in_a_flood_leaves_the_device_free) {
  Child child("--flood");
  child.await_point();
  std::this_thread::sleep_for(milliseconds(20));
  child.process().send(SIGKILL);
  run_next("after a process was killed in a flood");
  EXPECT_EQ(child.process().finish().signal, SIGKILL);
}

TEST_F(ProcessEnd, a_producer_that_dies_in_publish_leaves_the_device_free) {
  Child child("--serve-dying-producer");
  child.await_point();
  expect_ended_well(child);
  run_next("after a producer has left holes");
}

}  // namespace
}  // namespace everkernel::test

int main(int argc, char** argv) {
  using namespace everkernel::test;
  for (const Role& role : kRoles) {
    if (argc != 2 || role.name != argv[1]) continue;
    ::alarm(kLongestRole);
    return role.run();
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
