// A context: making it current, waiting, losing the device, and objects made from it.
#include "backend/cuda/context.hpp"

#include <chrono>
#include <cstring>
#include <thread>

#include "cuda/fake_fixture.hpp"

namespace everkernel::test {
namespace {

using backend::Clock;
using backend::Word;
using backend::cuda::Context;
using backend::cuda::CuFunction;
using backend::cuda::CuModule;
using backend::cuda::Event;
using backend::cuda::PinnedMemory;
using backend::cuda::Stream;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int kIllegalAddress = 700;

class OneDevice : public WithFakeCuda {
 protected:
  /// A kernel to launch.
  static CuFunction any_function(const Context& context) {
    const auto current = context.enter();
    CuModule module = nullptr;
    CuFunction function = nullptr;
    EXPECT_EQ(context.driver().cuModuleLoadData(&module, "// PTX"), 0);
    EXPECT_EQ(context.driver().cuModuleGetFunction(&function, module, "everkernel_any"), 0);
    EXPECT_EQ(context.driver().cuModuleUnload(module), 0);
    return function;
  }
};

TEST_F(OneDevice, gives_everything_back) {
  { const auto context = make_context(); }
  EXPECT_EQ(fake().contexts_made, 1);
  expect_nothing_left();
}

TEST_F(OneDevice, the_context_is_current_as_long_as_the_guard_lives) {
  const auto context = make_context();
  EXPECT_EQ(fake().current_contexts, 0);
  {
    const auto outer = context->enter();
    ASSERT_TRUE(outer);
    EXPECT_EQ(fake().current_contexts, 1);
    {
      auto inner = context->enter();
      ASSERT_TRUE(inner);
      const auto moved = std::move(inner);
      EXPECT_EQ(fake().current_contexts, 2);
    }
    EXPECT_EQ(fake().current_contexts, 1);
    std::thread([this] { EXPECT_EQ(fake().current_contexts, 0); }).join();
  }
  EXPECT_EQ(fake().current_contexts, 0);
}

TEST_F(OneDevice, freed_memory_stays_in_the_pool) {
  const auto context = make_context();
  EXPECT_EQ(fake().release_threshold, ~std::uint64_t{0});
}

TEST_F(OneDevice, does_without_pools) {
  fake().has_memory_pools = false;
  const auto context = make_context();
  EXPECT_EQ(fake().release_threshold, 0u);
}

TEST_F(OneDevice, a_start_that_fails_at_any_call_gives_everything_back) {
  const auto driver = load_driver();
  const auto facts = backend::cuda::probe_device(driver, 0);
  int failures = 0;
  for (int call = 1; call < 100; ++call) {
    fail(nullptr, 304, call);
    const auto context = Context::create(driver, *facts);
    const bool was_hit = fake().failing_call == 0;
    fake().failing_call = 0;
    if (!was_hit) {
      EXPECT_TRUE(context);
      break;
    }
    ++failures;
    EXPECT_EQ(code_of(context), Code::io) << call;
  }
  EXPECT_GE(failures, 5);
  expect_nothing_left();
}

TEST_F(OneDevice, waiting_ends_when_the_stream_is_done) {
  const auto context = make_context();
  const auto stream = Stream::create(context);
  ASSERT_TRUE(stream);
  const auto function = any_function(*context);
  const auto current = context->enter();
  for (Word i = 0; i < 5; ++i) {
    ASSERT_TRUE(context->launch(function, {}, stream->get(), i, i));
  }
  EXPECT_TRUE(context->wait(stream->get(), Clock::now() + seconds(10), "five kernels"));
}

TEST_F(OneDevice, waiting_ends_at_the_deadline) {
  const auto context = make_context();
  const auto stream = Stream::create(context);
  const auto event = Event::create(context, false);
  ASSERT_TRUE(stream && event);
  const auto function = any_function(*context);
  const auto current = context->enter();
  fake().operations_per_look = 0;
  ASSERT_TRUE(context->launch(function, {}, stream->get(), Word{1}, Word{2}));
  ASSERT_EQ(context->driver().cuEventRecord(event->get(), stream->get()), 0);

  const auto begin = Clock::now();
  const auto waited = context->wait(stream->get(), begin + milliseconds(20), "a kernel");
  EXPECT_EQ(code_of(waited), Code::timeout);
  EXPECT_EQ(message_of(waited), "cuda: a kernel: not done before the deadline");
  EXPECT_GE(Clock::now() - begin, milliseconds(20));
  EXPECT_EQ(code_of(context->wait(event->get(), begin, "an event")), Code::timeout);
  EXPECT_FALSE(context->is_lost());

  fake().operations_per_look = 1;
  EXPECT_TRUE(context->wait(event->get(), Clock::now() + seconds(10), "an event"));
  EXPECT_TRUE(context->wait(stream->get(), Clock::now() + seconds(10), "a kernel"));
}

TEST_F(OneDevice, a_deadline_that_passed_still_looks_once) {
  const auto context = make_context();
  const auto current = context->enter();
  EXPECT_TRUE(context->wait(context->copy_stream(), Clock::now() - seconds(1), "nothing"));
}

TEST_F(OneDevice, waiting_notices_that_the_device_is_lost) {
  const auto context = make_context();
  const auto current = context->enter();
  fail("cuStreamQuery", kIllegalAddress);
  const auto waited = context->wait(context->copy_stream(), Clock::now() + seconds(10), "a kernel");
  EXPECT_EQ(code_of(waited), Code::device_lost);
  EXPECT_EQ(waited.error().native, kIllegalAddress);
  EXPECT_TRUE(context->is_lost());
}

TEST_F(OneDevice, a_launch_gets_its_grid_and_arguments) {
  const auto context = make_context();
  const auto function = any_function(*context);
  const auto current = context->enter();
  fake().argument_count = 2;
  ASSERT_TRUE(context->launch(function, {.block_count = 3, .thread_count = 64, .shared_bytes = 128},
                              context->copy_stream(), Word{7}, Word{9}));
  EXPECT_EQ(fake().launched_blocks, 3u);
  EXPECT_EQ(fake().launched_threads, 64u);
  EXPECT_EQ(fake().launched_shared_bytes, 128u);
  EXPECT_EQ(fake().launched_arguments[0], 7u);
  EXPECT_EQ(fake().launched_arguments[1], 9u);
}

TEST_F(OneDevice, a_launch_that_is_too_large_loses_nothing) {
  const auto context = make_context();
  const auto function = any_function(*context);
  const auto current = context->enter();
  fail("cuLaunchKernel", 701);
  EXPECT_EQ(code_of(context->launch(function, {}, context->copy_stream(), Word{7}, Word{9})),
            Code::invalid_argument);
  EXPECT_FALSE(context->is_lost());
}

TEST_F(OneDevice, once_lost_it_says_so_at_once_and_asks_no_more) {
  const auto context = make_context();
  EXPECT_EQ(code_of(context->check(kIllegalAddress, "the first")), Code::device_lost);
  EXPECT_EQ(code_of(context->check(719, "the second")), Code::device_lost);
  const int calls = fake().calls;
  const auto entered = context->enter();
  ASSERT_FALSE(entered);
  EXPECT_EQ(entered.error().code, Code::device_lost);
  EXPECT_EQ(entered.error().message, "cuda: the first: the fake says so (CUDA_ERROR_FAKE)");
  EXPECT_NE(entered.error().hint.find("start a new process"), std::string::npos);
  EXPECT_EQ(entered.error().native, kIllegalAddress);
  EXPECT_EQ(code_of(context->check_alive()), Code::device_lost);
  EXPECT_EQ(code_of(Stream::create(context)), Code::device_lost);
  EXPECT_EQ(code_of(Event::create(context, true)), Code::device_lost);
  EXPECT_EQ(code_of(PinnedMemory::create(context, 64)), Code::device_lost);
  EXPECT_EQ(fake().calls, calls);
}

TEST_F(OneDevice, what_was_made_before_the_loss_ends_quietly) {
  {
    auto context = make_context();
    auto stream = Stream::create(context);
    auto event = Event::create(context, true);
    auto memory = PinnedMemory::create(context, 64);
    ASSERT_TRUE(stream && event && memory);
    EXPECT_EQ(code_of(context->check(kIllegalAddress, "a kernel")), Code::device_lost);
  }
  EXPECT_EQ(fake().live_pinned, 1);  // the device may still write there
  EXPECT_EQ(fake().retained_contexts, 0);
  EXPECT_EQ(fake().current_contexts, 0);
}

TEST_F(OneDevice, pinned_memory_is_zeroed_and_given_back) {
  {
    auto memory = PinnedMemory::create(make_context(), 4096);
    ASSERT_TRUE(memory) << message_of(memory);
    EXPECT_EQ(memory->size_bytes(), 4096u);
    EXPECT_NE(memory->device_pointer(), 0u);
    for (std::size_t i = 0; i < 4096; ++i) ASSERT_EQ(memory->data()[i], std::byte{0}) << i;
    const PinnedMemory moved = std::move(*memory);
    EXPECT_EQ(fake().live_pinned, 1);
  }
  expect_nothing_left();
}

TEST_F(OneDevice, pinned_memory_without_a_device_pointer_is_given_back) {
  const auto context = make_context();
  fail("cuMemHostGetDevicePointer_v2", 304);
  EXPECT_EQ(code_of(PinnedMemory::create(context, 64)), Code::io);
  EXPECT_EQ(fake().live_pinned, 0);
}

TEST_F(OneDevice, too_much_pinned_memory_is_out_of_memory) {
  const auto memory = PinnedMemory::create(make_context(), std::size_t{2} << 30);
  EXPECT_EQ(code_of(memory), Code::out_of_memory);
  EXPECT_NE(message_of(memory).find("2147483648 bytes"), std::string::npos) << message_of(memory);
}

TEST_F(OneDevice, streams_and_events_move) {
  {
    const auto context = make_context();
    auto stream = Stream::create(context);
    auto other = Stream::create(context);
    auto event = Event::create(context, true);
    ASSERT_TRUE(stream && other && event);
    *stream = std::move(*other);
    const Stream moved = std::move(*stream);
    const Event moved_event = std::move(*event);
    EXPECT_NE(moved.get(), nullptr);
    EXPECT_NE(moved_event.get(), nullptr);
  }
  expect_nothing_left();
}

}  // namespace
}  // namespace everkernel::test
