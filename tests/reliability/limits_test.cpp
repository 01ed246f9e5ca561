// Rows 23 and 25: a process whose address space is limited, and a trusted handler that crashes.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "child.hpp"
#include "everkernel/ir/trusted.hpp"
#include "everkernel/ir/trusted_item.hpp"
#include "runtime_world.hpp"

namespace everkernel::test {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kHasSanitizer = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
constexpr bool kHasSanitizer = true;
#else
constexpr bool kHasSanitizer = false;
#endif
#else
constexpr bool kHasSanitizer = false;
#endif

std::size_t address_space_bytes() {
  std::ifstream file("/proc/self/statm");
  std::size_t pages = 0;
  file >> pages;
  return pages * 4096;
}

// Everything a program does, once. Returns the first error.
Result<void> use_everything() {
  auto device = backend::cpu::make_backend({.cache = {}});
  auto program = EVERKERNEL_TRY(check_text(kSampleHandlers));
  auto kernel =
      EVERKERNEL_TRY(Megakernel::create(device, {.slot_count = 4096,
                                                 .workgroup_size = 1,
                                                 .handlers = std::move(program),
                                                 .execution = backend::Execution::interpreter,
                                                 .worker_count = 4}));
  auto output = EVERKERNEL_TRY(kernel.create_buffer({.handle = 2, .word_count = 1 << 20}));
  const std::vector<SlotWords> slots(4096, SlotWords{1, 64, 0, 2, 1, 2, 1});
  const Bytes ring = ring_of(slots);
  const Bytes control = control_of({{3, 1}, {32, 1'000'000}}, 170);
  const Submission submission = HostBuffers{.control = control, .ring = ring};
  EVERKERNEL_TRY(kernel.dispatch({.submissions = {&submission, 1}}));
  auto session = EVERKERNEL_TRY(kernel.start());
  const std::array<Word, 3> args{1, 2, 1};
  for (int i = 0; i < 100; ++i) {
    EVERKERNEL_TRY(session.publish({64, args}, {.timeout = std::chrono::seconds(10)}));
  }
  EVERKERNEL_TRY(session.wait_all(std::chrono::seconds(10)));
  session.stop(StopMode::drain);
  const std::vector<abi::WorkItem> items(50'000, {64, 1, 2, 1});
  const auto report =
      EVERKERNEL_TRY(kernel.run(items, {.execution = backend::Execution::interpreter}));
  if (report.items_processed == items.size()) return {};
  return fail(Code::corrupt, "items are missing");
}

TEST(MemoryLimit, every_limit_ends_in_success_or_in_a_typed_error) {
  if (kHasSanitizer) GTEST_SKIP() << "a sanitizer needs terabytes of address space";
  std::size_t successes = 0, refusals = 0;
  for (std::size_t mebibytes = 0; mebibytes <= 96; mebibytes += mebibytes < 48 ? 1 : 8) {
    int report[2];
    ASSERT_EQ(::pipe(report), 0);
    const auto problem = run_in_child(20, [&](Journal& journal) {
      journal.note(fmt::format("{} MiB more than at the start", mebibytes));
      const rlimit limit{address_space_bytes() + (mebibytes << 20), RLIM_INFINITY};
      ::setrlimit(RLIMIT_AS, &limit);
      char result = 'm';
      try {
        const auto used = use_everything();
        result = used ? 's' : 'e';
        const bool is_typed = used || used.error().code == Code::out_of_memory ||
                              used.error().code == Code::io ||
                              used.error().code == Code::unsupported;
        if (!is_typed) journal.fail(used.error().message);
      } catch (const std::bad_alloc&) {
      }
      static_cast<void>(!::write(report[1], &result, 1));
    });
    ::close(report[1]);
    char result = 0;
    static_cast<void>(!::read(report[0], &result, 1));
    ::close(report[0]);
    EXPECT_EQ(problem, "");
    (result == 's' ? successes : refusals) += 1;
  }
  EXPECT_GT(successes, 0u) << "the largest limit is too small to show anything";
  EXPECT_GT(refusals, 0u) << "the smallest limit is too large to show anything";
}

ir::Outcome crash(ir::TrustedItem&) {
  ::raise(SIGSEGV);
  return {};
}

// The process ends with the signal, as it does for a crash anywhere else in it.
TEST(Crash, of_a_trusted_handler_ends_the_process_with_its_signal) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::signal(SIGSEGV, SIG_DFL);
    const rlimit no_core{0, 0};
    ::setrlimit(RLIMIT_CORE, &no_core);
    auto kernel =
        Megakernel::create(backend::cpu::make_backend({.cache = {}}),
                           {.slot_count = 16,
                            .workgroup_size = 1,
                            .trusted_handlers = {{.name = "crash", .opcode = 64, .cpu = crash}},
                            .worker_count = 2});
    std::vector<SlotWords> slots(16);
    slots[3] = {1, 64, 0, 2};
    const Bytes ring = ring_of(slots);
    const Bytes control = control_of({{3, 1}, {32, 1'000'000}}, 170);
    const Submission submission = HostBuffers{.control = control, .ring = ring};
    static_cast<void>(kernel->dispatch({.submissions = {&submission, 1}}));
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGSEGV);
}

}  // namespace
}  // namespace everkernel::test
