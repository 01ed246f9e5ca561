// Runs on a fake device that accepts launches and executes nothing, or is lost.
#include <gtest/gtest.h>

#include <chrono>
#include <vector>

#include "cuda/fake_fixture.hpp"
#include "cuda/needs_nvrtc.hpp"
#include "everkernel/backend/cuda/cuda_backend.hpp"
#include "everkernel/runtime/megakernel.hpp"
#include "support/temp_dir.hpp"

namespace everkernel::test {
namespace {

using std::chrono::milliseconds;

const std::vector<abi::WorkItem> kItems(20, {0, 0, 0, 0});
const RunOptions kShortRun = {.timeout = milliseconds(30)};
const RunOptions kLongRun = {.timeout = std::chrono::seconds(2)};

class FakeRuns : public WithFakeCuda {
 protected:
  Megakernel make_kernel() {
    // Tests share the compiled code through a cache on disk.
    static const TempDir folder;
    auto kernel = Megakernel::create(
        backend::cuda::make_backend({.cache = jit::CodeCacheOptions{.directory = folder.path()}}),
        {.slot_count = 8, .workgroup_size = 1, .worker_count = 2});
    EXPECT_TRUE(kernel) << message_of(kernel);
    if (!kernel) std::abort();
    return *std::move(kernel);
  }
};

TEST_F(FakeRuns, end_in_time_with_everything_remaining) {
  EVERKERNEL_NEEDS_NVRTC(nvrtc);
  {
    Megakernel kernel = make_kernel();
    for (int round = 0; round < 2; ++round) {
      const auto report = kernel.run(kItems, kShortRun);
      ASSERT_TRUE(report) << message_of(report);
      EXPECT_EQ(report->items_remaining, kItems.size());
      EXPECT_EQ(report->outcomes, std::vector<Word>(kItems.size(), backend::kItemRemaining));
      EXPECT_GE(report->telemetry.kernel_launches, 1u);
      EXPECT_LE(report->telemetry.kernel_launches, report->shape.publish_batches)
          << "a launch had nothing new to run";
      EXPECT_GE(report->telemetry.bytes_uploaded, kItems.size() * sizeof(abi::WorkItem));
    }
    EXPECT_GE(fake().launched_threads, 32u);
  }
  expect_nothing_left();
}

TEST_F(FakeRuns, fail_with_the_device_wherever_it_is_lost) {
  EVERKERNEL_NEEDS_NVRTC(nvrtc);
  constexpr int kIllegalAddress = 700;
  for (const char* const call : {"cuMemAllocAsync", "cuMemsetD32Async", "cuMemcpyHtoDAsync_v2",
                                 "cuLaunchKernel", "cuStreamQuery", "cuMemcpyDtoHAsync_v2"}) {
    {
      Megakernel kernel = make_kernel();
      fail(call, kIllegalAddress);
      EXPECT_EQ(code_of(kernel.run(kItems, kLongRun)), Code::device_lost) << call;
      EXPECT_EQ(code_of(kernel.run(kItems, kLongRun)), Code::device_lost) << call;
    }
    reset();
  }
}

TEST_F(FakeRuns, that_find_no_memory_leave_the_megakernel_as_it_was) {
  EVERKERNEL_NEEDS_NVRTC(nvrtc);
  constexpr int kOutOfMemory = 2;
  for (const char* const call : {"cuMemAllocAsync", "cuMemHostAlloc", "cuStreamCreate"}) {
    Megakernel kernel = make_kernel();
    fail(call, kOutOfMemory);
    EXPECT_EQ(code_of(kernel.run(kItems, kShortRun)), Code::out_of_memory) << call;
    EXPECT_TRUE(kernel.run(kItems, kShortRun)) << call;
  }
}

}  // namespace
}  // namespace everkernel::test
