// Compiling takes no part of the time that a caller gave: handlers are compiled beside the items,
// the interpreter runs items meanwhile, and items that cost much get native code while they run.
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <ctime>
#include <thread>

#include "everkernel/backend/cpu/cpu_backend.hpp"
#include "everkernel/backend/cuda/cuda_backend.hpp"
#include "everkernel/protocol/control.hpp"
#include "everkernel/protocol/ring.hpp"
#include "everkernel/protocol/ring_writer.hpp"
#include "run_fixture.hpp"
#include "support/sanitized.hpp"

namespace everkernel::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;
using Clock = std::chrono::steady_clock;
using Items = std::vector<abi::WorkItem>;
using backend::Execution;

constexpr Word kFirst = 64;

// Compiling and its time differ on a device, which has no interpreter.
#define EVERKERNEL_NEEDS_CPU_CODE()                                \
  if (is_on_cuda()) GTEST_SKIP() << "a device has no interpreter"; \
  if (!backend_under_test()->capabilities().native_code) GTEST_SKIP() << "there is no native code"

std::string many_handlers(Word count) {
  std::string text;
  for (Word i = 0; i < count; ++i) {
    text += fmt::format(
        "handler h{} = {} {{ for k in 0 .. min(len(input), len(output)) {{ output[k] = output[k] * "
        "{} + input[k]; }} }}\n",
        i, kFirst + i, i + 3);
  }
  return text;
}

// The slowest kind of handler that gets every pass of LLVM.
std::string many_loops() {
  std::string text = "handler loops = 64 {\n";
  for (int i = 0; i < 24; ++i) {
    text += fmt::format(
        "for c{0} in 0 .. min(len(input), len(output)) {{ output[c{0}] = output[c{0}] * 3 + "
        "input[c{0}] + {0}; }}\n",
        i);
  }
  return text + "}\n";
}

// Close to 4,096 instructions, and padded to 64 KiB of text.
std::string largest_handler() {
  std::string text = "handler big = 64 {\n";
  for (int i = 0; i < 240; ++i) {
    text += fmt::format(
        "for c{0} in 0 .. min(len(input), len(output)) {{ output[c{0}] = output[c{0}] * 3 + "
        "input[c{0}] + {0}; }}\n",
        i);
  }
  text += "/*" + std::string(ir::kMaxTextBytes - 256 - text.size(), '.') + "*/";
  return text + "}\n";
}

// A megakernel whose code is compiled afresh: its backend has no cache.
Runner cold_runner(std::string_view text, Word worker_count = 2) {
  return Runner(backend::cpu::make_backend({.cache = std::nullopt}),
                {.slot_count = 64, .workgroup_size = 1, .worker_count = worker_count}, text);
}

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

TEST(CompileTime, a_program_of_a_thousand_handlers_starts_within_a_second) {
  EVERKERNEL_NEEDS_CPU_CODE();
  const std::string text = many_handlers(1000);
  const auto begin = Clock::now();
  Runner runner = cold_runner(text);
  Items items;
  for (Word i = 0; i < 5000; ++i) items.push_back({kFirst + i % 1000, 1, 2, 0});
  const RunReport report = runner.run(items);
  // Takes 0.1 s on two cores; compiling all of it takes 20 s.
  EXPECT_LT(seconds_since(begin), 1.0);
  EXPECT_EQ(report.items_processed, items.size());
  EXPECT_LT(report.shape.compiled_handlers, 100u);
}

TEST(CompileTime, items_run_as_native_code_when_it_is_there) {
  EVERKERNEL_NEEDS_CPU_CODE();
  Runner runner = cold_runner(many_handlers(1000));
  const Items items(5000, {kFirst + 7, 1, 2, 0});
  runner.run(items);
  const auto end = Clock::now() + seconds(20);
  std::uint64_t interpreted = items.size();
  while (interpreted != 0 && Clock::now() < end) {
    interpreted = runner.run(items).shape.items_interpreted;
  }
  EXPECT_EQ(interpreted, 0u);
}

TEST(CompileTime, the_largest_handler_of_the_language_runs_at_once) {
  EVERKERNEL_NEEDS_CPU_CODE();
  const std::string text = largest_handler();
  const auto begin = Clock::now();
  Runner runner = cold_runner(text);
  const RunReport report = runner.run({{kFirst, 1, 2, 0}}, {.timeout = milliseconds(100)});
  EXPECT_LT(seconds_since(begin), 1.0);
  EXPECT_EQ(report.items_processed, 1u);
  // Its native code takes 0.3 s of a processor, whatever else the machine does.
  const std::clock_t cpu_begin = std::clock();
  Runner native = cold_runner(text);
  const RunReport compiled = native.run({{kFirst, 1, 2, 0}}, {.execution = Execution::native});
  EXPECT_EQ(compiled.telemetry.execution_mode, Execution::native);
  EXPECT_LT(std::clock() - cpu_begin, (kIsSanitized ? 15 : 3) * CLOCKS_PER_SEC);
  EXPECT_EQ(native.word(2), runner.word(2));
}

TEST(CompileTime, native_code_that_comes_after_the_deadline_leaves_every_item) {
  EVERKERNEL_NEEDS_CPU_CODE();
  Runner runner = cold_runner(many_handlers(200));
  Items items;
  for (Word i = 0; i < 200; ++i) items.push_back({kFirst + i, 1, 2, 0});
  const auto begin = Clock::now();
  const RunReport late =
      runner.run(items, {.timeout = milliseconds(50), .execution = Execution::native});
  EXPECT_LT(seconds_since(begin), 1.0) << "the deadline holds within 200 ms on a quiet machine";
  EXPECT_EQ(late.items_remaining, items.size());
  EXPECT_EQ(runner.word(2), 2u);
  // The handler that is needed alone waits for nothing but the one that is being compiled.
  const RunReport one = runner.run({{kFirst + 199, 1, 2, 0}},
                                   {.timeout = seconds(20), .execution = Execution::native});
  EXPECT_EQ(one.items_processed, 1u);
  EXPECT_EQ(one.telemetry.execution_mode, Execution::native);
  EXPECT_EQ(runner.word(2), 2u * (199 + 3) + 1);
}

TEST(CompileTime, few_heavy_items_run_as_native_code) {
  EVERKERNEL_NEEDS_CPU_CODE();
  const Items items(12, {kWork, 0, 2, 60'000'000});
  const auto measure = [&](Execution execution) {
    Runner runner = cold_runner(kHandlers);
    const auto begin = Clock::now();
    const RunReport report = runner.run(items, {.execution = execution});
    EXPECT_EQ(report.items_processed, items.size());
    EXPECT_EQ(report.telemetry.execution_mode, Execution::native);
    EXPECT_EQ(runner.word(2), 2u + 12);
    return seconds_since(begin);
  };
  const double native = measure(Execution::native);
  // The interpreter alone takes 60 times as long.
  EXPECT_LT(measure(Execution::automatic), 4 * native + 0.5);
}

TEST(CompileTime, a_heavy_item_that_has_written_nothing_leaves_the_interpreter_in_the_middle) {
  EVERKERNEL_NEEDS_CPU_CODE();
  // The number of turns shows only while the loop runs.
  Runner runner = cold_runner(
      "handler spin = 64 { var x = param; while x != 1 { x = select((x & 1) == 0, x + 1, x - 3); } "
      "output[0] = x; }",
      1);
  const RunReport report = runner.run({{64, 0, 2, 40'000'001}});
  EXPECT_EQ(report.items_processed, 1u);
  EXPECT_EQ(report.shape.items_interpreted, 0u);
  EXPECT_EQ(runner.word(2), 1u);
}

TEST(CompileTime, a_heavy_item_that_has_written_something_ends_where_it_began) {
  EVERKERNEL_NEEDS_CPU_CODE();
  Runner runner = cold_runner(
      "handler count = 64 { output[0] = output[0] + 1; var x = param; "
      "while x != 0 { x = x - 1; } output[1] = output[1] + 1; }",
      1);
  const RunReport report = runner.run({{64, 0, 2, 3'000'000}, {64, 0, 2, 3'000'000}});
  EXPECT_EQ(report.items_processed, 2u);
  EXPECT_GE(report.shape.items_interpreted, 1u);
  EXPECT_EQ(runner.word(2, 0), 4u) << "its first store ran once an item";
  EXPECT_EQ(runner.word(2, 1), 4u);
}

TEST(CompileTime, a_megakernel_is_destroyed_while_its_handlers_are_compiled) {
  EVERKERNEL_NEEDS_CPU_CODE();
  const auto begin = Clock::now();
  {
    Runner runner = cold_runner(many_loops());
    const RunReport report = runner.run(
        {{kFirst, 1, 2, 0}}, {.timeout = milliseconds(20), .execution = Execution::native});
    EXPECT_EQ(report.items_remaining, 1u);
  }
  // At most the code generation of one handler, 0.2 s, has to end.
  EXPECT_LT(seconds_since(begin), 2.0);
}

TEST(CompileTime, a_dispatch_that_waits_for_native_code_returns_at_its_deadline) {
  EVERKERNEL_NEEDS_CPU_CODE();
  auto program = check_text(many_loops());
  ASSERT_TRUE(program) << message_of(program);
  auto kernel = Megakernel::create(
      backend::cpu::make_backend({.cache = std::nullopt}),
      {.slot_count = 4, .workgroup_size = 1, .handlers = *program, .execution = Execution::native});
  ASSERT_TRUE(kernel) << message_of(kernel);
  std::vector<std::byte> control(*protocol::control_bytes({.tenant_count = 1}));
  ASSERT_TRUE(protocol::encode_control({.tenant_count = 1}, control));
  std::vector<std::byte> ring(*protocol::ring_bytes(4));
  ASSERT_TRUE(protocol::encode_ring(4, ring));
  auto writer = protocol::RingWriter::bind(ring);
  ASSERT_TRUE(writer->publish({.opcode = kFirst}));
  const Submission submissions[] = {HostBuffers{.control = control, .ring = ring}};
  const auto begin = Clock::now();
  const auto late = kernel->dispatch({.submissions = submissions, .timeout = milliseconds(10)});
  ASSERT_TRUE(late) << message_of(late);
  EXPECT_LT(seconds_since(begin), 1.0);
  EXPECT_EQ(late->stats.items_remaining, 1u);
  EXPECT_EQ(late->submissions[0].counts.end, backend::DrainEnd::deadline);
  EXPECT_TRUE(std::ranges::equal(late->submissions[0].ring, ring)) << "the item was not claimed";
  const auto again = kernel->dispatch({.submissions = submissions, .timeout = seconds(20)});
  ASSERT_TRUE(again) << message_of(again);
  EXPECT_EQ(again->stats.items_remaining, 0u);
}

TEST(CompileTime, a_device_that_compiles_past_the_deadline_leaves_every_item) {
  if (!is_on_cuda()) GTEST_SKIP() << "a CPU interprets items meanwhile";
  auto program = check_text(many_handlers(4));
  ASSERT_TRUE(program) << message_of(program);
  auto kernel = Megakernel::create(backend::cuda::make_backend({.cache = std::nullopt}),
                                   {.slot_count = 64,
                                    .workgroup_size = 32,
                                    .handlers = *program,
                                    .compile_timeout = nanoseconds(0)});
  ASSERT_TRUE(kernel) << message_of(kernel);
  auto buffer = kernel->create_buffer({.handle = 1, .word_count = 4});
  ASSERT_TRUE(buffer) << message_of(buffer);
  const Items items(10, {kFirst, 1, 1, 0});
  const auto begin = Clock::now();
  const auto late = kernel->run(items, {.timeout = milliseconds(50)});
  ASSERT_TRUE(late) << message_of(late);
  EXPECT_LT(seconds_since(begin), 1.0) << "compiling takes seconds";
  EXPECT_EQ(late->items_remaining, items.size());
  const auto again = kernel->run(items, {.timeout = seconds(120)});
  ASSERT_TRUE(again) << message_of(again);
  EXPECT_EQ(again->items_processed, items.size());
  EXPECT_FALSE(again->telemetry.compiled_pipeline_cache_hit);
}

TEST(CompileTime, a_device_that_compiles_is_left_soon) {
  if (!is_on_cuda()) GTEST_SKIP() << "a CPU interprets items meanwhile";
  auto program = check_text(many_handlers(200));
  ASSERT_TRUE(program) << message_of(program);
  const std::clock_t cpu_begin = std::clock();
  {
    auto kernel = Megakernel::create(backend::cuda::make_backend({.cache = std::nullopt}),
                                     {.slot_count = 64,
                                      .workgroup_size = 32,
                                      .handlers = *program,
                                      .compile_timeout = milliseconds(100)});
    ASSERT_TRUE(kernel) << message_of(kernel);
  }
  // Time of the processor, which does not depend on what else the machine does. NVRTC before 12.8
  // cannot be cancelled.
  const double seconds_taken = static_cast<double>(std::clock() - cpu_begin) / CLOCKS_PER_SEC;
  std::printf("%.1f s\n", seconds_taken);
  EXPECT_LT(seconds_taken, 4.0);
}

}  // namespace
}  // namespace everkernel::test
