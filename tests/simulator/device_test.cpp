// Streams of the simulated GPU, and kernels that stay resident while the host goes on.
#include <emmintrin.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "backend/cuda/driver.hpp"
#include "cuda/needs_nvrtc.hpp"

namespace everkernel::simulator {
namespace {

using namespace backend::cuda;
using Word = std::uint32_t;

constexpr char kSource[] = R"(
typedef unsigned Word;
typedef unsigned long long Wide;
extern "C" __global__ void until(volatile Word* stop, volatile Word* sign) {
  *sign = 1;
  while (*stop == 0) {}
  *sign = 1 + *stop;
}
extern "C" __global__ void add(Word* words, Word value) { words[threadIdx.x] += value; }

__device__ void load_quad(const void* from, Wide& first, Wide& second) {
  asm volatile("{ .reg .b128 q; ld.relaxed.sys.global.b128 q, [%2]; mov.b128 {%0, %1}, q; }"
               : "=l"(first), "=l"(second) : "l"(from) : "memory");
}
__device__ void store_quad(void* to, Wide first, Wide second) {
  asm volatile("{ .reg .b128 q; mov.b128 q, {%0, %1}; st.relaxed.sys.global.b128 [%2], q; }"
               :: "l"(first), "l"(second), "l"(to) : "memory");
}
// One block for each queue: 64 slots of 16 bytes, whose highest bit is the lap; then 64 answers of
// 16 bytes and 64 outcomes of one byte. The leading warp serves the queue, the others sleep.
extern "C" __global__ void live(char* queues, volatile Word* stop, Wide* sum) {
  __shared__ Word is_over;
  if (threadIdx.x == 0) is_over = 0;
  __syncthreads();
  char* const queue = queues + blockIdx.x * 4096;
  const Word lane = threadIdx.x & 31;
  Wide head = 0, own = 0;
  if (threadIdx.x >= 32) {
    while (*(volatile Word*)&is_over == 0) __nanosleep(200);
    return;
  }
  for (;;) {
    Wide first, second;
    const Wide ticket = head + lane;
    load_quad(queue + ticket % 64 * 16, first, second);
    const Wide lap = ticket / 64 % 2 == 0 ? 1ull << 63 : 0;
    const Word fresh = __ballot_sync(~0u, (first & 1ull << 63) == lap);
    const Word count = __ffs(~fresh) == 0 ? 32 : __ffs(~fresh) - 1;
    if (count == 0) {
      const Word is_ended = lane == 0 ? *stop : 0;
      if (__shfl_sync(~0u, is_ended, 0)) break;
      continue;
    }
    asm volatile("fence.acq_rel.sys;" ::: "memory");
    if (lane < count) {
      own += second;
      store_quad(queue + 1024 + ticket % 64 * 16, lap | second, second + ticket);
      asm volatile("st.release.sys.global.u8 [%0], %1;"
                   :: "l"(queue + 2048 + ticket % 64), "r"(lap == 0 ? 1 : 0x81) : "memory");
    }
    head += count;
    __syncwarp();
  }
  atomicAdd(sum, own);
  *(volatile Word*)&is_over = 1;
}
)";

const Result<CompiledCode>& compiled() {
  static const Result<CompiledCode> code = []() -> Result<CompiledCode> {
    const auto nvrtc = Nvrtc::load();
    if (!nvrtc) return Failure(nvrtc.error());
    return nvrtc->compile(
        {.source = {"device_test.cu", kSource}, .options = {}, .architecture = 90});
  }();
  return code;
}

// Calls in tests must succeed. A macro, because it reports its line.
#define DO(call) ASSERT_EQ(driver_.call, 0)

class SimulatedDevice : public ::testing::Test {
 protected:
  void SetUp() override {
    ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
    EVERKERNEL_NEEDS_NVRTC(nvrtc);
    ASSERT_TRUE(compiled()) << compiled().error().message;
    const auto folder = std::filesystem::read_symlink("/proc/self/exe").parent_path();
    ::setenv("EVERKERNEL_LIBCUDA", (folder / "libsimulated_cuda.so").c_str(), 1);
    ::setenv("SIMULATED_PATIENCE_S", "1", 1);
    auto driver = Driver::load();
    ASSERT_TRUE(driver) << driver.error().message;
    driver_ = *driver;
    CuContext context = nullptr;
    DO(cuDevicePrimaryCtxRetain(&context, 0));
    DO(cuCtxPushCurrent(context));
    DO(cuModuleLoadData(&module_, compiled()->bytes.data()));
    for (CuStream& stream : streams_) DO(cuStreamCreate(&stream, kCuStreamNonBlocking));
    void* memory = nullptr;
    DO(cuMemHostAlloc(&memory, kHostWords * sizeof(Word), kCuHostAllocMapped));
    std::memset(memory, 0, kHostWords * sizeof(Word));
    host_ = static_cast<Word*>(memory);
    DO(cuMemAlloc(&device_, kDeviceBytes));
    DO(cuMemsetD8Async(device_, 0, kDeviceBytes, streams_[0]));
    DO(cuStreamSynchronize(streams_[0]));
  }
  void TearDown() override {
    if (module_ == nullptr) return;
    CuContext context = nullptr;
    for (CuStream& stream : streams_) EXPECT_EQ(driver_.cuStreamDestroy(stream), 0);
    EXPECT_EQ(driver_.cuMemFree(device_), 0);
    EXPECT_EQ(driver_.cuMemFreeHost(host_), 0);
    EXPECT_EQ(driver_.cuModuleUnload(module_), 0);
    EXPECT_EQ(driver_.cuCtxPopCurrent(&context), 0);
    EXPECT_EQ(driver_.cuDevicePrimaryCtxRelease(0), 0);
  }

  template <class... Values>
  CuResult launch(std::size_t stream, const char* name, unsigned blocks, unsigned threads,
                  Values... values) {
    CuFunction function = nullptr;
    if (const CuResult result = driver_.cuModuleGetFunction(&function, module_, name)) {
      return result;
    }
    void* arguments[] = {&values...};
    return driver_.cuLaunchKernel(function, blocks, 1, 1, threads, 1, 1, 0, streams_[stream],
                                  arguments, nullptr);
  }
  // A kernel that runs until the word is not 0, and says in the next one that it runs.
  CuResult launch_until(std::size_t stream, CuPointer stop) {
    return launch(stream, "until", 1, 32, stop, stop + 4);
  }
  CuPointer host_pointer(std::size_t word) const {
    return reinterpret_cast<CuPointer>(host_ + word);
  }
  Word host(std::size_t word) const {
    return std::atomic_ref(host_[word]).load(std::memory_order_acquire);
  }
  void set_host(std::size_t word, Word value) {
    std::atomic_ref(host_[word]).store(value, std::memory_order_release);
  }
  bool becomes(std::size_t word, Word value) const {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (host(word) != value) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::yield();
    }
    return true;
  }
  CuResult query(std::size_t stream) const { return driver_.cuStreamQuery(streams_[stream]); }
  void make_it_rest() const { std::this_thread::sleep_for(std::chrono::milliseconds(20)); }

  static constexpr std::size_t kHostWords = 16384, kDeviceBytes = 4096;

  Driver driver_ = {};
  CuModule module_ = nullptr;
  std::array<CuStream, 3> streams_ = {};
  Word* host_ = nullptr;
  CuPointer device_ = 0;
};

TEST_F(SimulatedDevice, a_launch_returns_at_once_and_its_stream_keeps_its_order) {
  const auto words = [&] { return std::vector<Word>(host_ + 64, host_ + 96); };
  std::fill_n(host_ + 64, 32, 9u);
  CuEvent event = nullptr;
  DO(cuEventCreate(&event, kCuEventDisableTiming));
  ASSERT_EQ(launch_until(0, host_pointer(0)), 0);
  DO(cuMemsetD32Async(device_, 5, 32, streams_[0]));
  ASSERT_EQ(launch(0, "add", 1, 32, device_, Word{7}), 0);
  DO(cuMemcpyDtoHAsync(host_ + 64, device_, 128, streams_[0]));
  DO(cuEventRecord(event, streams_[0]));
  ASSERT_TRUE(becomes(1, 1));
  make_it_rest();
  EXPECT_EQ(query(0), kCuNotReady);
  EXPECT_EQ(driver_.cuEventQuery(event), kCuNotReady);
  EXPECT_EQ(words(), std::vector<Word>(32, 9));
  set_host(0, 1);
  DO(cuEventSynchronize(event));
  EXPECT_EQ(query(0), 0);
  EXPECT_EQ(words(), std::vector<Word>(32, 12));
  EXPECT_EQ(host(1), 2u);
  DO(cuEventDestroy(event));
}

TEST_F(SimulatedDevice, a_resident_kernel_sees_copies_of_other_streams_and_they_see_its_words) {
  ASSERT_EQ(launch_until(0, device_), 0);
  while (host(0) == 0) {
    DO(cuMemcpyDtoHAsync(host_, device_ + 4, 4, streams_[1]));
    DO(cuStreamSynchronize(streams_[1]));
  }
  EXPECT_EQ(host(0), 1u);
  EXPECT_EQ(query(0), kCuNotReady);
  const Word stop = 41;
  DO(cuMemcpyHtoDAsync(device_, &stop, 4, streams_[1]));
  DO(cuStreamSynchronize(streams_[0]));
  DO(cuMemcpyDtoHAsync(host_, device_ + 4, 4, streams_[1]));
  DO(cuStreamSynchronize(streams_[1]));
  EXPECT_EQ(host(0), 42u);
}

TEST_F(SimulatedDevice, memory_comes_and_goes_in_streams_beside_a_resident_kernel) {
  ASSERT_EQ(launch_until(0, host_pointer(0)), 0);
  ASSERT_TRUE(becomes(1, 1));
  for (int i = 0; i < 20; ++i) {
    CuPointer memory = 0;
    DO(cuMemAllocAsync(&memory, 4096, streams_[1]));
    DO(cuMemsetD8Async(memory, 3, 4096, streams_[1]));
    ASSERT_EQ(launch(1, "add", 1, 64, memory, Word{1}), 0);
    DO(cuMemcpyDtoHAsync(host_ + 64, memory + 252, 8, streams_[1]));
    DO(cuMemFreeAsync(memory, streams_[1]));
    DO(cuStreamSynchronize(streams_[1]));
    EXPECT_EQ(host(64), 0x03030304u);
    EXPECT_EQ(host(65), 0x03030303u);
  }
  EXPECT_EQ(query(0), kCuNotReady);
  set_host(0, 1);
  DO(cuStreamSynchronize(streams_[0]));
}

TEST_F(SimulatedDevice, a_stream_waits_for_an_event_of_another) {
  CuEvent event = nullptr;
  DO(cuEventCreate(&event, kCuEventDisableTiming));
  ASSERT_EQ(launch_until(0, host_pointer(0)), 0);
  DO(cuEventRecord(event, streams_[0]));
  DO(cuStreamWaitEvent(streams_[1], event, 0));
  ASSERT_EQ(launch(1, "add", 1, 1, host_pointer(8), Word{3}), 0);
  ASSERT_TRUE(becomes(1, 1));
  make_it_rest();
  EXPECT_EQ(query(1), kCuNotReady);
  EXPECT_EQ(host(8), 0u);
  set_host(0, 1);
  DO(cuStreamSynchronize(streams_[1]));
  EXPECT_EQ(host(8), 3u);
  EXPECT_EQ(query(0), 0);
  DO(cuEventDestroy(event));
}

TEST_F(SimulatedDevice, kernels_of_several_streams_are_resident_together) {
  ASSERT_EQ(launch_until(0, host_pointer(0)), 0);
  ASSERT_EQ(launch_until(1, host_pointer(2)), 0);
  ASSERT_TRUE(becomes(1, 1));
  ASSERT_TRUE(becomes(3, 1));
  for (Word i = 1; i <= 20; ++i) {
    ASSERT_EQ(launch(2, "add", 1, 128, host_pointer(100), Word{1}), 0);
    DO(cuStreamSynchronize(streams_[2]));
    EXPECT_EQ(host(100), i);
  }
  EXPECT_EQ(query(0), kCuNotReady);
  EXPECT_EQ(query(1), kCuNotReady);
  set_host(2, 1);
  DO(cuStreamSynchronize(streams_[1]));
  EXPECT_EQ(query(0), kCuNotReady);
  set_host(0, 1);
  DO(cuStreamSynchronize(streams_[0]));
}

// ---- a kernel that the host feeds through queues ----

// One queue of the kernel `live`, as its producer sees it.
class Producer {
 public:
  explicit Producer(char* queue) : queue_(queue) {}

  void put(std::uint64_t value) {
    const std::uint64_t slot = tail_ % kSlots;
    const auto first = static_cast<long long>(lap(tail_) << 63);
    _mm_store_si128(reinterpret_cast<__m128i*>(queue_ + slot * 16),
                    _mm_set_epi64x(static_cast<long long>(value), first));
    ++tail_;
  }
  bool is_full() const { return tail_ - done_ == kSlots; }
  bool is_empty() const { return tail_ == done_; }
  // Whether the oldest item has ended; its answer must be right.
  bool take(std::uint64_t value) {
    const std::uint64_t slot = done_ % kSlots;
    auto& outcome = reinterpret_cast<unsigned char&>(queue_[2048 + slot]);
    const unsigned expected = lap(done_) != 0 ? 0x81 : 1;
    if (std::atomic_ref(outcome).load(std::memory_order_acquire) != expected) return false;
    std::uint64_t answer[2] = {};
    std::memcpy(answer, queue_ + 1024 + slot * 16, sizeof answer);
    EXPECT_EQ(answer[0], lap(done_) << 63 | value);
    EXPECT_EQ(answer[1], value + done_);
    ++done_;
    return true;
  }

 private:
  static constexpr std::uint64_t kSlots = 64;
  static std::uint64_t lap(std::uint64_t ticket) { return 1 - ticket / kSlots % 2; }

  char* queue_;
  std::uint64_t tail_ = 0, done_ = 0;
};

TEST_F(SimulatedDevice, a_live_kernel_serves_queues_in_host_memory) {
  constexpr std::uint64_t kItems = 2000;
  constexpr std::size_t kQueues = 2;
  // Memory of the caller, that the device may use.
  auto* const queues = static_cast<char*>(std::aligned_alloc(4096, kQueues * 4096));
  std::memset(queues, 0, kQueues * 4096);
  CuPointer pointer = 0;
  EXPECT_NE(driver_.cuMemHostGetDevicePointer(&pointer, queues, 0), 0);
  DO(cuMemHostRegister(queues, kQueues * 4096, 2));
  EXPECT_EQ(driver_.cuMemHostRegister(queues + 4096, 4096, 2), 712);
  DO(cuMemHostGetDevicePointer(&pointer, queues, 0));
  ASSERT_EQ(launch(0, "live", kQueues, 128, pointer, host_pointer(0), device_), 0);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < kQueues; ++i) {
    threads.emplace_back([queue = queues + 4096 * i] {
      Producer producer(queue);
      for (std::uint64_t put = 0, taken = 0; taken < kItems;) {
        if (put < kItems && !producer.is_full() && (put % 7 != 0 || producer.is_empty())) {
          producer.put(put++ * 3);
        } else if (producer.take(taken * 3)) {
          ++taken;
        } else {
          std::this_thread::yield();
        }
      }
    });
  }
  // Meanwhile other kernels run.
  for (int i = 0; i < 5; ++i) {
    ASSERT_EQ(launch(1, "add", 1, 32, host_pointer(100), Word{1}), 0);
    DO(cuStreamSynchronize(streams_[1]));
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(query(0), kCuNotReady);
  set_host(0, 1);
  DO(cuStreamSynchronize(streams_[0]));
  DO(cuMemcpyDtoHAsync(host_ + 64, device_, 8, streams_[0]));
  DO(cuStreamSynchronize(streams_[0]));
  std::uint64_t sum = 0;
  std::memcpy(&sum, host_ + 64, sizeof sum);
  EXPECT_EQ(sum, kQueues * 3 * kItems * (kItems - 1) / 2);
  DO(cuMemHostUnregister(queues));
  EXPECT_EQ(driver_.cuMemHostUnregister(queues), 713);
  std::free(queues);
}

// ---- calls that wait for all kernels ----

TEST_F(SimulatedDevice, calls_that_free_memory_wait_for_kernels_that_end_soon) {
  CuPointer memory = 0;
  DO(cuMemAlloc(&memory, 64));
  ASSERT_EQ(launch_until(0, host_pointer(0)), 0);
  std::thread later([&] {
    make_it_rest();
    set_host(0, 1);
  });
  DO(cuMemFree(memory));
  EXPECT_EQ(host(1), 2u);
  EXPECT_EQ(query(0), 0);
  later.join();
}

TEST_F(SimulatedDevice, calls_that_a_resident_kernel_would_block_for_ever_abort_the_process) {
  DO(cuMemHostRegister(host_ + kHostWords, 1, 2));
  const auto expect_death = [&](const char* call, auto function) {
    EXPECT_DEATH(
        {
          launch_until(0, host_pointer(0));
          function();
        },
        std::string(call) + " waits for the end of all kernels, and until has run on for 1 s");
  };
  expect_death("cuMemFree", [&] { driver_.cuMemFree(device_); });
  expect_death("cuMemFreeHost", [&] { driver_.cuMemFreeHost(host_); });
  expect_death("cuMemHostUnregister", [&] { driver_.cuMemHostUnregister(host_ + kHostWords); });
  expect_death("cuModuleUnload", [&] { driver_.cuModuleUnload(module_); });
  expect_death("cuDevicePrimaryCtxRelease", [&] { driver_.cuDevicePrimaryCtxRelease(0); });
  DO(cuMemHostUnregister(host_ + kHostWords));
}

// Programs call the driver when their static objects are destroyed, after the driver has ended.
struct LastCall {
  CuResult (*free)(CuPointer) = nullptr;
  LastCall() = default;
  LastCall(const LastCall&) = delete;
  LastCall& operator=(const LastCall&) = delete;
  ~LastCall() {
    constexpr CuResult kDeinitialized = 4;
    if (free != nullptr && free(1) != kDeinitialized) std::_Exit(8);
  }
};
LastCall last_call;

TEST_F(SimulatedDevice, a_process_ends_although_a_kernel_is_resident) {
  EXPECT_EXIT(
      {
        last_call.free = driver_.cuMemFree;
        launch_until(0, host_pointer(0));
        while (!becomes(1, 1)) {
        }
        std::exit(7);
      },
      ::testing::ExitedWithCode(7), "");
}

}  // namespace
}  // namespace everkernel::simulator
