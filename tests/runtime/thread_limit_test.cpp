// Calls that need threads, on a system that refuses the n-th one: an error that names the limit,
// and nothing left behind. This program has its own pthread_create() in front of the one of libc.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "everkernel/backend/cpu/cpu_backend.hpp"
#include "everkernel/jit/native.hpp"
#include "everkernel/protocol/control.hpp"
#include "everkernel/protocol/ring.hpp"
#include "everkernel/runtime/megakernel.hpp"
#include "support/bytes.hpp"
#include "support/ir_text.hpp"
#include "support/results.hpp"
#include "support/sanitized.hpp"

namespace {

// Threads that can still be made; negative: any number.
std::atomic<int> threads_left{-1};

}  // namespace

// The runtime of a sanitizer has a pthread_create() too, which must be the first.
#if !defined(EVERKERNEL_SANITIZED)
extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                              void* (*body)(void*), void* argument) {
  static const auto next =
      reinterpret_cast<decltype(&pthread_create)>(::dlsym(RTLD_NEXT, "pthread_create"));
  const int left = threads_left.load();
  if (left == 0) return EAGAIN;
  if (left > 0) --threads_left;
  return next(thread, attributes, body, argument);
}
#endif

namespace everkernel::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Word kWorkers = 4;
constexpr Word kSlots = 16;
constexpr Word kWork = 64;

std::size_t thread_count() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return static_cast<std::size_t>(std::distance(begin(tasks), end(tasks)));
}

class ThreadLimit : public testing::Test {
 protected:
  void SetUp() override {
    if (kIsSanitized) GTEST_SKIP() << "a sanitizer has a pthread_create() of its own";
  }
  void TearDown() override { threads_left = -1; }

  static Megakernel make_kernel(backend::Execution execution = backend::Execution::automatic) {
    auto program =
        check_text("handler work = 64 { for i in 0..200000 { atomic_add(output[0], 1); } }");
    EXPECT_TRUE(program);
    auto made = Megakernel::create(backend::cpu::make_backend(), {.slot_count = kSlots,
                                                                  .workgroup_size = 1,
                                                                  .handlers = *program,
                                                                  .execution = execution,
                                                                  .worker_count = kWorkers});
    EXPECT_TRUE(made) << message_of(made);
    return std::move(*made);
  }

  // Calls `attempt` while the system allows 0, 1, 2 … threads, until it succeeds; returns how many
  // were needed.
  static int needed_threads(const auto& attempt) {
    const std::size_t before = thread_count();
    for (int allowed = 0; allowed < 50; ++allowed) {
      threads_left = allowed;
      const auto result = attempt();
      threads_left = -1;
      if (result) return allowed;
      EXPECT_EQ(code_of(result), Code::unsupported) << message_of(result);
      EXPECT_NE(message_of(result).find("RLIMIT_NPROC"), std::string::npos) << message_of(result);
      EXPECT_EQ(thread_count(), before) << "threads left behind with " << allowed << " allowed";
    }
    return 50;
  }
};

TEST_F(ThreadLimit, a_session_starts_with_all_its_workers_or_not_at_all) {
  Megakernel kernel = make_kernel();
  const int needed = needed_threads([&]() -> Result<void> {
    auto session = kernel.start();
    if (!session) return Failure(session.error());
    EXPECT_EQ(session->publish({}).has_value(), true);
    EXPECT_EQ(session->stop(StopMode::drain, seconds(10)).done, 1u);
    return {};
  });
  EXPECT_EQ(needed, static_cast<int>(kWorkers));
}

TEST_F(ThreadLimit, a_run_has_all_its_workers_or_fails) {
  Megakernel kernel = make_kernel();
  auto output = kernel.create_buffer({.handle = 1, .word_count = 1});
  ASSERT_TRUE(output);
  const std::vector<abi::WorkItem> items(8, abi::WorkItem{kWork, 0, 1, 0});
  const int needed = needed_threads([&]() -> Result<void> {
    const auto report = kernel.run(items, {.worker_count = 3});
    if (!report) return Failure(report.error());
    EXPECT_EQ(report->items_processed, 8u);
    return {};
  });
  EXPECT_GE(needed, 3);
  EXPECT_LT(needed, 50);
}

// Native code is compiled on a thread of its own.
TEST_F(ThreadLimit, native_code_without_a_thread_names_the_limit_and_comes_later) {
  if (!jit::has_native_code()) GTEST_SKIP() << "this build has no LLVM";
  Megakernel kernel = make_kernel(backend::Execution::native);
  auto output = kernel.create_buffer({.handle = 1, .word_count = 1});
  ASSERT_TRUE(output);
  Bytes control(*protocol::control_bytes({.tenant_count = 1}));
  ASSERT_TRUE(protocol::encode_control({.tenant_count = 1}, control));
  Bytes ring(*protocol::ring_bytes(kSlots));
  const std::vector<abi::WorkItem> items(8, abi::WorkItem{kWork, 0, 1, 0});
  ASSERT_TRUE(protocol::encode_items({.items = items}, ring));
  const Submission submission = HostBuffers{.control = control, .ring = ring};
  threads_left = 0;
  const auto refused = kernel.dispatch({.submissions = {&submission, 1}});
  threads_left = -1;
  EXPECT_EQ(code_of(refused), Code::unsupported);
  EXPECT_NE(message_of(refused).find("RLIMIT_NPROC"), std::string::npos) << message_of(refused);
  const auto report = kernel.dispatch({.submissions = {&submission, 1}});
  ASSERT_TRUE(report) << message_of(report);
  EXPECT_EQ(report->stats.items_done, 8u);
  threads_left = 0;
  const auto run = make_kernel().run(items, {.execution = backend::Execution::native});
  threads_left = -1;
  EXPECT_EQ(code_of(run), Code::unsupported);
  EXPECT_NE(message_of(run).find("RLIMIT_NPROC"), std::string::npos) << message_of(run);
}

TEST_F(ThreadLimit, a_dispatch_needs_the_thread_of_its_deadline_and_does_without_helpers) {
  const auto control_options = protocol::ControlLayout{.tenant_count = 4, .observable_slots = 4};
  Bytes control(*protocol::control_bytes(control_options));
  ASSERT_TRUE(protocol::encode_control(control_options, control));
  Bytes ring(*protocol::ring_bytes(kSlots));
  const std::vector<abi::WorkItem> items(8, abi::WorkItem{kWork, 0, 1, 0});
  ASSERT_TRUE(protocol::encode_items({.items = items}, ring));
  const Submission submission = HostBuffers{.control = control, .ring = ring};
  for (int allowed = 0; allowed <= 4; ++allowed) {
    Megakernel kernel = make_kernel();
    auto output = kernel.create_buffer({.handle = 1, .word_count = 1});
    ASSERT_TRUE(output);
    threads_left = allowed;
    const auto report = kernel.dispatch({.submissions = {&submission, 1}});
    threads_left = -1;
    if (allowed == 0) {
      EXPECT_EQ(code_of(report), Code::unsupported);
      EXPECT_NE(message_of(report).find("RLIMIT_NPROC"), std::string::npos);
    } else {
      ASSERT_TRUE(report) << message_of(report);
      EXPECT_EQ(report->stats.items_done, 8u) << allowed << " threads";
    }
    EXPECT_TRUE(kernel.dispatch({.submissions = {&submission, 1}})) << "threads can be made again";
  }
}

TEST_F(ThreadLimit, a_callback_without_a_thread_is_refused) {
  Megakernel kernel = make_kernel();
  auto session = kernel.start();
  ASSERT_TRUE(session);
  const auto ticket = session->publish({});
  ASSERT_TRUE(ticket);
  std::atomic<int> calls{0};
  const auto count = [&](Ticket, Completion, bool) { ++calls; };
  threads_left = 0;
  EXPECT_EQ(code_of(session->on_complete(*ticket, count)), Code::unsupported);
  threads_left = -1;
  EXPECT_TRUE(session->on_complete(*ticket, count));
  session->stop(StopMode::drain, seconds(10));
  EXPECT_EQ(calls, 1);
}

TEST_F(ThreadLimit, an_attached_queue_without_a_thread_refuses_callbacks_and_works_on) {
  Megakernel kernel = make_kernel();
  auto session = kernel.start();
  ASSERT_TRUE(session);
  auto given = session->open_queue();
  ASSERT_TRUE(given);
  const int descriptor = given->descriptor().value_or(-1);
  auto attached = attach_queue(descriptor);
  ::close(descriptor);
  ASSERT_TRUE(attached) << message_of(attached);
  const auto ticket = attached->publish({});
  ASSERT_TRUE(ticket);
  std::atomic<int> calls{0};
  const auto count = [&](Ticket, Completion, bool) { ++calls; };
  threads_left = 0;
  EXPECT_EQ(code_of(attached->on_complete(*ticket, count)), Code::unsupported);
  threads_left = -1;
  EXPECT_TRUE(attached->wait(*ticket, seconds(10)));
  EXPECT_TRUE(attached->on_complete(*ticket, count));
  attached->close(StopMode::drain, seconds(10));
  EXPECT_EQ(calls, 1);
}

// 0: started and stopped; 1: an error; anything else is a fault of the library.
int start_with_memory(Megakernel& kernel, std::size_t spare_bytes) {
  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const std::size_t bytes = pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const rlimit limit{bytes + spare_bytes, bytes + spare_bytes};
  if (::setrlimit(RLIMIT_AS, &limit) != 0) return 2;
  try {
    auto session = kernel.start();
    if (!session) return session.error().code == Code::out_of_memory ? 1 : 3;
    session->stop(StopMode::drain, seconds(10));
    return 0;
  } catch (...) {
    return 4;
  }
}

// Each limit in a process of its own, ended after ten seconds.
TEST_F(ThreadLimit, a_start_without_memory_is_out_of_memory) {
  int failures = 0;
  int successes = 0;
  for (std::size_t spare_kib = 0; spare_kib <= 160 << 10; spare_kib += 2 << 10) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      ::alarm(10);
      auto kernel =
          Megakernel::create(backend::cpu::make_backend(),
                             {.slot_count = kSlots, .workgroup_size = 1, .worker_count = kWorkers});
      ::_exit(kernel ? start_with_memory(*kernel, spare_kib << 10) : 5);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status)) << spare_kib << " KiB: signal " << WTERMSIG(status);
    ASSERT_LE(WEXITSTATUS(status), 1) << spare_kib << " KiB";
    ++(WEXITSTATUS(status) == 0 ? successes : failures);
  }
  EXPECT_GT(failures, 0);
  EXPECT_GT(successes, 0);
}

}  // namespace
}  // namespace everkernel::test
