// The backend through its public interface, on the fake driver.
#include "everkernel/backend/cuda/cuda_backend.hpp"

#include "cuda/fake_fixture.hpp"
#include "cuda/needs_nvrtc.hpp"
#include "support/bytes.hpp"

namespace everkernel::test {
namespace {

using backend::cuda::make_backend;

class FakeBackend : public WithFakeCuda {
 protected:
  ~FakeBackend() override { ::unsetenv("EVERKERNEL_LIBNVRTC"); }
};

TEST_F(FakeBackend, says_what_it_can_do_without_using_the_device) {
  EVERKERNEL_NEEDS_NVRTC(nvrtc);
  const auto backend = make_backend();
  const backend::Capabilities& can = backend->capabilities();
  EXPECT_TRUE(can.supported) << can.reason;
  EXPECT_EQ(can.id, "cuda");
  EXPECT_EQ(can.device, "Fake GPU, 4 SMs, compute capability 9.0");
  EXPECT_EQ(can.reason, "");
  EXPECT_EQ(can.max_worker_count, 8192u);
  EXPECT_EQ(can.memory_bytes, std::uint64_t{1} << 30);
  EXPECT_TRUE(can.native_code);
  EXPECT_EQ(fake().contexts_made, 0);
}

TEST_F(FakeBackend, allocates_and_makes_one_context) {
  EVERKERNEL_NEEDS_NVRTC(nvrtc);
  {
    const auto backend = make_backend();
    const auto first = backend->allocate(64);
    const auto second = backend->allocate(0);
    ASSERT_TRUE(first) << message_of(first);
    ASSERT_TRUE(second) << message_of(second);
    EXPECT_TRUE((*first)->write(0, Bytes(64)));
    EXPECT_EQ(fake().contexts_made, 1);
    EXPECT_TRUE(backend->revive());
  }
  expect_nothing_left();
}

TEST_F(FakeBackend, memory_may_outlive_it) {
  EVERKERNEL_NEEDS_NVRTC(nvrtc);
  auto backend = make_backend();
  auto memory = backend->allocate(64);
  ASSERT_TRUE(memory);
  backend.reset();
  EXPECT_TRUE((*memory)->write(0, Bytes(64)));
  memory->reset();
  expect_nothing_left();
}

TEST_F(FakeBackend, a_context_that_cannot_be_made_may_be_made_later) {
  EVERKERNEL_NEEDS_NVRTC(nvrtc);
  const auto backend = make_backend();
  fail("cuDevicePrimaryCtxRetain", 2);
  EXPECT_EQ(code_of(backend->allocate(64)), Code::out_of_memory);
  EXPECT_TRUE(backend->allocate(64));
}

TEST_F(FakeBackend, a_lost_device_does_not_come_back) {
  EVERKERNEL_NEEDS_NVRTC(nvrtc);
  const auto backend = make_backend();
  const auto memory = backend->allocate(64);
  ASSERT_TRUE(memory);
  fail("cuMemcpyHtoDAsync_v2", 700);
  EXPECT_EQ(code_of((*memory)->write(0, Bytes(64))), Code::device_lost);
  for (int i = 0; i < 2; ++i) {
    const auto revived = backend->revive();
    ASSERT_FALSE(revived);
    EXPECT_EQ(revived.error().code, Code::device_lost);
    EXPECT_NE(revived.error().hint.find("start a new process"), std::string::npos);
  }
  EXPECT_EQ(code_of(backend->allocate(64)), Code::device_lost);
  EXPECT_EQ(code_of(backend->compile({})), Code::device_lost);
}

TEST_F(FakeBackend, without_a_driver_everything_says_why) {
  ::setenv("EVERKERNEL_LIBCUDA", "/nowhere/libcuda.so", 1);
  const auto backend = make_backend();
  const backend::Capabilities& can = backend->capabilities();
  EXPECT_FALSE(can.supported);
  EXPECT_EQ(can.id, "cuda");
  EXPECT_EQ(can.reason,
            "EVERKERNEL_LIBCUDA: /nowhere/libcuda.so: cannot open shared object file: No such "
            "file or directory; name an existing library, or unset the variable");
  EXPECT_EQ(code_of(backend->allocate(64)), Code::unsupported);
  EXPECT_EQ(code_of(backend->compile({})), Code::unsupported);
  EXPECT_EQ(code_of(backend->revive()), Code::unsupported);
}

TEST_F(FakeBackend, without_a_compiler_it_is_not_supported) {
  ::setenv("EVERKERNEL_LIBNVRTC", "/nowhere/libnvrtc.so", 1);
  const auto backend = make_backend();
  EXPECT_FALSE(backend->capabilities().supported);
  EXPECT_TRUE(backend->capabilities().reason.starts_with("EVERKERNEL_LIBNVRTC: "))
      << backend->capabilities().reason;
}

TEST_F(FakeBackend, takes_the_device_it_is_told_to) {
  EVERKERNEL_NEEDS_NVRTC(nvrtc);
  fake().device_count = 2;
  EXPECT_TRUE(make_backend({.device = 1})->capabilities().supported);
  EXPECT_EQ(make_backend({.device = 2})->capabilities().reason,
            "there is no GPU 2: the driver sees 2 GPUs, counted from 0; nvidia-smi -L lists the "
            "devices");
}

}  // namespace
}  // namespace everkernel::test
