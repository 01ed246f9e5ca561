// Device memory, and copies through pinned buffers.
#include "backend/cuda/cuda_memory.hpp"

#include <chrono>
#include <cstring>
#include <numeric>
#include <thread>
#include <vector>

#include "cuda/fake_fixture.hpp"
#include "support/bytes.hpp"

namespace everkernel::test {
namespace {

using backend::Memory;
using backend::Word;
using backend::cuda::Context;
using backend::cuda::CudaMemory;
using backend::cuda::Staging;
using std::chrono::milliseconds;

constexpr std::size_t kStagingBytes = Staging::kBufferBytes;

// Bytes without a period, so that a part copied to the wrong place shows.
Bytes pattern(std::size_t size) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) {
    bytes[i] = static_cast<std::byte>(i * 0x9E3779B97F4A7C15u >> 56);
  }
  return bytes;
}

class DeviceMemory : public WithFakeCuda {
 protected:
  static std::unique_ptr<Memory> make(const std::shared_ptr<Context>& context, std::size_t bytes) {
    auto memory = CudaMemory::create(context, bytes);
    EXPECT_TRUE(memory) << message_of(memory);
    if (!memory) std::abort();
    return std::move(*memory);
  }

  std::shared_ptr<Context> context = make_context();
};

TEST_F(DeviceMemory, is_zeroed_and_given_back) {
  auto memory = make(context, 4096);
  EXPECT_EQ(memory->size_bytes(), 4096u);
  EXPECT_NE(memory->device_address(), nullptr);
  EXPECT_EQ(fake().pool_allocations, 1);
  Bytes bytes(4096, std::byte{1});
  ASSERT_TRUE(memory->read(0, bytes));
  EXPECT_EQ(bytes, Bytes(4096));
  memory.reset();
  context.reset();
  expect_nothing_left();
}

TEST_F(DeviceMemory, is_zeroed_before_anybody_else_can_use_it) {
  const auto memory = make(context, 64);
  // The fake's device memory is host memory: it is read here without a copy, which would wait.
  Word word = 1;
  std::memcpy(&word, memory->device_address(), sizeof word);
  EXPECT_EQ(word, 0u);
}

TEST_F(DeviceMemory, works_without_pools) {
  context.reset();
  fake().has_memory_pools = false;
  context = make_context();
  auto memory = make(context, 128);
  EXPECT_EQ(fake().pool_allocations, 0);
  EXPECT_EQ(fake().live_allocations, 1);
  memory.reset();
  EXPECT_EQ(fake().live_allocations, 0);
}

TEST_F(DeviceMemory, may_be_empty) {
  const auto memory = make(context, 0);
  EXPECT_EQ(memory->size_bytes(), 0u);
  EXPECT_NE(memory->device_address(), nullptr);
  EXPECT_TRUE(memory->write(0, {}));
  EXPECT_TRUE(memory->read(0, {}));
  EXPECT_EQ(code_of(memory->write(0, Bytes(4))), Code::invalid_argument);
}

TEST_F(DeviceMemory, must_be_whole_words) {
  const auto memory = CudaMemory::create(context, 6);
  EXPECT_EQ(code_of(memory), Code::invalid_argument);
  EXPECT_EQ(message_of(memory), "memory: 6 bytes are not whole words");
}

TEST_F(DeviceMemory, that_is_too_much_is_out_of_memory_and_loses_nothing) {
  for (const std::size_t bytes : {std::size_t{2} << 30, ~std::size_t{3}}) {
    const auto memory = CudaMemory::create(context, bytes);
    EXPECT_EQ(code_of(memory), Code::out_of_memory);
    EXPECT_EQ(memory.error().native, 2);
  }
  EXPECT_TRUE(CudaMemory::create(context, 64));
}

TEST_F(DeviceMemory, that_cannot_be_zeroed_is_given_back) {
  fail("cuMemsetD32Async", 304);
  EXPECT_EQ(code_of(CudaMemory::create(context, 64)), Code::io);
  context.reset();
  expect_nothing_left();
}

TEST_F(DeviceMemory, refuses_copies_outside_it_and_parts_of_words) {
  const auto memory = make(context, 64);
  Bytes bytes(8);
  for (const std::size_t offset :
       {std::size_t{60}, std::size_t{64}, std::size_t{2}, ~std::size_t{7}}) {
    EXPECT_EQ(code_of(memory->write(offset, bytes)), Code::invalid_argument) << offset;
    EXPECT_EQ(code_of(memory->read(offset, bytes)), Code::invalid_argument) << offset;
  }
  EXPECT_EQ(code_of(memory->write(0, Bytes(6))), Code::invalid_argument);
  EXPECT_EQ(message_of(memory->read(60, bytes)),
            "memory: 8 bytes from byte 60 are not whole words of its 64 bytes");
  EXPECT_TRUE(memory->write(56, bytes));
}

class Copies : public DeviceMemory, public ::testing::WithParamInterface<std::size_t> {};

TEST_P(Copies, arrive_whole_in_both_directions_and_touch_nothing_else) {
  const std::size_t size = GetParam();
  const auto memory = make(context, size + 128);
  const Bytes sent = pattern(size);
  ASSERT_TRUE(memory->write(64, sent));
  Bytes received(size + 128, std::byte{1});
  ASSERT_TRUE(memory->read(0, received));
  const auto begin = received.begin() + 64;
  EXPECT_TRUE(std::equal(sent.begin(), sent.end(), begin));
  EXPECT_EQ(Bytes(received.begin(), begin), Bytes(64));
  EXPECT_EQ(Bytes(begin + static_cast<std::ptrdiff_t>(size), received.end()), Bytes(64));
}

// Sizes around one, two and three staging buffers. The fake copies only when it is queried, so that
// a buffer that is filled again too early loses bytes.
INSTANTIATE_TEST_SUITE_P(Sizes, Copies,
                         ::testing::Values(4, 64, kStagingBytes - 4, kStagingBytes,
                                           kStagingBytes + 4, 2 * kStagingBytes - 4,
                                           2 * kStagingBytes, 2 * kStagingBytes + 4,
                                           3 * kStagingBytes + 4, 5 * kStagingBytes + 16));

TEST_F(DeviceMemory, copies_do_not_touch_the_callers_memory_after_a_timeout) {
  context.reset();
  context = make_context(milliseconds(10));
  const auto memory = make(context, 64);
  ASSERT_TRUE(memory->write(0, Bytes(64, std::byte{7})));
  fake().operations_per_look = 0;
  Bytes bytes(64, std::byte{1});
  EXPECT_EQ(code_of(memory->read(0, bytes)), Code::timeout);
  EXPECT_EQ(code_of(CudaMemory::create(context, 64)), Code::timeout);
  EXPECT_FALSE(context->is_lost());

  fake().operations_per_look = 1;
  Bytes later(64);
  ASSERT_TRUE(memory->read(0, later));
  EXPECT_EQ(later, Bytes(64, std::byte{7}));
  EXPECT_EQ(bytes, Bytes(64, std::byte{1}));
}

TEST_F(DeviceMemory, a_copy_that_was_given_up_ends_before_the_next_one_begins) {
  context.reset();
  context = make_context(milliseconds(10));
  const auto memory = make(context, 64);
  fake().operations_per_look = 0;
  EXPECT_EQ(code_of(memory->write(0, Bytes(64, std::byte{9}))), Code::timeout);
  EXPECT_EQ(code_of(memory->write(0, Bytes(64, std::byte{11}))), Code::timeout);

  // The second copy never began: it would have changed the bytes of the first copy.
  fake().operations_per_look = 1;
  Bytes bytes(64);
  ASSERT_TRUE(memory->read(0, bytes));
  EXPECT_EQ(bytes, Bytes(64, std::byte{9}));
}

TEST_F(DeviceMemory, a_staging_area_that_the_device_still_uses_is_not_given_back) {
  context.reset();
  context = make_context(milliseconds(10));
  {
    const auto memory = make(context, 64);
    fake().operations_per_look = 0;
    EXPECT_EQ(code_of(memory->write(0, Bytes(64))), Code::timeout);
  }
  context.reset();
  EXPECT_EQ(fake().live_pinned, 1);
}

TEST_F(DeviceMemory, a_lost_device_fails_every_copy_at_once) {
  auto memory = make(context, 64);
  ASSERT_TRUE(memory->write(0, Bytes(64)));
  fail("cuStreamQuery", 719);
  Bytes bytes(64);
  EXPECT_EQ(code_of(memory->write(0, bytes)), Code::device_lost);
  const int calls = fake().calls;
  EXPECT_EQ(code_of(memory->write(0, bytes)), Code::device_lost);
  EXPECT_EQ(code_of(memory->read(0, bytes)), Code::device_lost);
  EXPECT_EQ(code_of(CudaMemory::create(context, 64)), Code::device_lost);
  memory.reset();
  EXPECT_EQ(fake().calls, calls);
}

TEST_F(DeviceMemory, a_copy_that_fails_at_any_call_says_so_and_the_next_one_works) {
  const auto memory = make(context, 2 * kStagingBytes + 64);
  const Bytes sent = pattern(memory->size_bytes());
  Bytes received(sent.size());
  int failures = 0;
  for (int call = 1; call < 200; ++call) {
    fail(nullptr, 304, call);
    const auto written = memory->write(0, sent);
    const auto read = memory->read(0, received);
    const bool was_hit = fake().failing_call == 0;
    fake().failing_call = 0;
    EXPECT_EQ(written && read, !was_hit) << call;
    if (!was_hit) break;
    ++failures;
    ASSERT_TRUE(memory->write(0, sent)) << call;
    ASSERT_TRUE(memory->read(0, received)) << call;
    ASSERT_EQ(received, sent) << call;
  }
  EXPECT_GE(failures, 20);
}

TEST_F(DeviceMemory, threads_copy_at_one_time) {
  const auto memory = make(context, 4 * 4096);
  std::vector<std::jthread> threads;
  for (std::size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&memory, t] {
      for (int round = 0; round < 50; ++round) {
        const Bytes sent(4096, static_cast<std::byte>(4 * round + static_cast<int>(t)));
        Bytes received(4096);
        EXPECT_TRUE(memory->write(t * 4096, sent));
        EXPECT_TRUE(memory->read(t * 4096, received));
        EXPECT_EQ(received, sent);
      }
    });
  }
}

}  // namespace
}  // namespace everkernel::test
