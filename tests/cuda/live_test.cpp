// The host's half of sessions on a device, on the fake driver: copies of words, pages, the start of
// a kernel that stays, and its device getting lost.
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <thread>

#include "backend/cuda/live_kernel.hpp"
#include "backend/cuda/live_queues.hpp"
#include "backend/cuda/mirrored_words.hpp"
#include "cuda/fake_fixture.hpp"
#include "cuda/needs_nvrtc.hpp"
#include "everkernel/backend/cuda/cuda_backend.hpp"
#include "everkernel/runtime/megakernel.hpp"
#include "support/temp_dir.hpp"

namespace everkernel::test {
namespace {

using backend::Clock;
using backend::cuda::Context;
using backend::cuda::CudaLiveKernel;
using backend::cuda::CuFunction;
using backend::cuda::CuModule;
using backend::cuda::LiveCode;
using backend::cuda::MappedPages;
using backend::cuda::MirroredWords;
using protocol::Buffer;
using protocol::LiveWords;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int kIllegalAddress = 700;
constexpr int kNotPermitted = 304;

LiveWords bound(Buffer buffer, std::span<Word> words) {
  auto made = LiveWords::bind(buffer, std::as_writable_bytes(words));
  EXPECT_TRUE(made) << message_of(made);
  if (!made) std::abort();
  return *made;
}

// ---- words of both sides ----

class Mirror : public WithFakeCuda {
 protected:
  Mirror() { EXPECT_TRUE(words.create_on(context)); }

  // The device's word. The fake's device memory is host memory.
  Word& on_device(std::size_t index) const { return words.on_device().device_address()[index]; }

  // Copies to the device that `act` makes.
  int writes_of(const auto& act) const {
    constexpr int kMany = 1000;
    fail("cuMemcpyHtoDAsync_v2", kNotPermitted, kMany);
    EXPECT_TRUE(act());
    const int writes = kMany - fake().failing_call;
    fake().failing_call = 0;
    return writes;
  }

  std::shared_ptr<Context> context = make_context();
  alignas(64) std::array<Word, 16> host{1, 2, 3, 4, 5};
  MirroredWords words{bound(Buffer::control, host)};
};

TEST_F(Mirror, begins_as_the_host) {
  EXPECT_EQ(writes_of([&] { return words.sync(); }), 0);
  EXPECT_EQ(on_device(0), 1u);
  EXPECT_EQ(on_device(4), 5u);
  EXPECT_EQ(on_device(15), 0u);
  EXPECT_FALSE(words.has_host_changes());
}

TEST_F(Mirror, takes_a_change_of_the_host_to_the_device) {
  host[3] = 40;
  EXPECT_TRUE(words.has_host_changes());
  EXPECT_EQ(writes_of([&] { return words.sync(); }), 1);
  EXPECT_EQ(on_device(3), 40u);
  EXPECT_EQ(host[3], 40u);
  EXPECT_FALSE(words.has_host_changes());
  EXPECT_EQ(writes_of([&] { return words.sync(); }), 0);
}

TEST_F(Mirror, takes_a_change_of_the_device_to_the_host) {
  on_device(2) = 33;
  EXPECT_EQ(writes_of([&] { return words.sync(); }), 0);
  EXPECT_EQ(host[2], 33u);
  EXPECT_EQ(on_device(2), 33u);
}

TEST_F(Mirror, adds_changes_of_both_sides) {
  host[1] += 5;
  on_device(1) += 7;
  host[4] -= 6;  // below zero
  on_device(4) += 2;
  EXPECT_EQ(writes_of([&] { return words.sync(); }), 2);
  EXPECT_EQ(host[1], 14u);
  EXPECT_EQ(on_device(1), 14u);
  EXPECT_EQ(host[4], 1u);
  EXPECT_EQ(on_device(4), 1u);
  EXPECT_EQ(writes_of([&] { return words.sync(); }), 0);
}

TEST_F(Mirror, writes_neighbours_together) {
  for (const std::size_t i : {0u, 1u, 2u, 9u, 14u, 15u}) host[i] = 100 + static_cast<Word>(i);
  on_device(5) = 7;
  EXPECT_EQ(writes_of([&] { return words.sync(); }), 3);
  for (const std::size_t i : {0u, 1u, 2u, 9u, 14u, 15u}) EXPECT_EQ(on_device(i), 100 + i);
  EXPECT_EQ(host[5], 7u);
}

TEST_F(Mirror, brings_one_word_up_to_date_alone) {
  on_device(6) = 60;
  on_device(7) = 70;
  host[8] = 80;
  EXPECT_TRUE(words.sync_word(6));
  EXPECT_EQ(host[6], 60u);
  EXPECT_EQ(host[7], 0u);
  EXPECT_EQ(on_device(8), 0u);
  host[6] += 1;
  on_device(6) += 2;
  EXPECT_TRUE(words.sync_word(6));
  EXPECT_EQ(host[6], 63u);
  EXPECT_EQ(on_device(6), 63u);
}

TEST_F(Mirror, loses_nothing_when_a_copy_fails) {
  host[3] += 10;
  on_device(3) += 1;
  fail("cuMemcpyDtoHAsync_v2", kNotPermitted);
  EXPECT_EQ(code_of(words.sync()), Code::io);
  EXPECT_TRUE(words.sync());
  EXPECT_EQ(host[3], 15u);
  EXPECT_EQ(on_device(3), 15u);
}

// ---- pages ----

class Pages : public WithFakeCuda {
 protected:
  static constexpr std::size_t kBytes = 4096, kCount = Context::kManyKept + 1;

  Pages() {
    void* const mapped = ::mmap(nullptr, kBytes * kCount, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) std::abort();
    memory = static_cast<std::byte*>(mapped);
  }
  ~Pages() override { ::munmap(memory, kBytes * kCount); }

  std::shared_ptr<MappedPages> map(std::size_t page) const {
    auto pages = MappedPages::map(context, memory + page * kBytes, 100, owner);
    EXPECT_TRUE(pages) << message_of(pages);
    if (!pages) std::abort();
    return std::make_shared<MappedPages>(std::move(*pages));
  }

  std::byte* memory = nullptr;
  std::shared_ptr<const int> owner = std::make_shared<int>(1);
  std::shared_ptr<Context> context = make_context();
};

TEST_F(Pages, are_given_back_once) {
  {
    auto pages = map(0);
    EXPECT_NE(pages->device_pointer(), 0u);
    EXPECT_EQ(fake().live_registered, 1);
    MappedPages moved = std::move(*pages);
    pages.reset();
    EXPECT_EQ(fake().live_registered, 1);
    MappedPages other = std::move(*map(1));
    other = std::move(moved);
    EXPECT_EQ(fake().live_registered, 2);
  }
  EXPECT_EQ(fake().live_registered, 0);
}

TEST_F(Pages, that_have_no_device_pointer_are_given_back) {
  fail("cuMemHostGetDevicePointer_v2", kNotPermitted);
  EXPECT_EQ(code_of(MappedPages::map(context, memory, kBytes, nullptr)), Code::io);
  EXPECT_EQ(fake().live_registered, 0);
}

TEST_F(Pages, are_given_back_at_once_while_no_kernel_stays) {
  map(0);
  EXPECT_EQ(fake().live_registered, 0);
}

TEST_F(Pages, are_kept_until_the_last_kernel_has_left) {
  context->begin_stay();
  context->begin_stay();
  map(0);
  context->end_stay();
  map(1);
  EXPECT_EQ(fake().live_registered, 2);
  EXPECT_EQ(owner.use_count(), 3);
  context->end_stay();
  EXPECT_EQ(fake().live_registered, 0);
  EXPECT_EQ(owner.use_count(), 1);
  map(2);
  EXPECT_EQ(fake().live_registered, 0);
}

TEST_F(Pages, that_wait_are_much_from_some_number_on) {
  context->begin_stay();
  for (std::size_t i = 0; i < Context::kManyKept; ++i) map(i);
  EXPECT_FALSE(context->has_much_to_free());
  map(Context::kManyKept);
  EXPECT_TRUE(context->has_much_to_free());
  context->begin_stay();  // one kernel that is parked would free nothing beside another one
  EXPECT_FALSE(context->has_much_to_free());
  context->end_stay();
  context->end_stay();
  EXPECT_FALSE(context->has_much_to_free());
}

// ---- a kernel that stays ----

class LiveOnFake : public WithFakeCuda {
 protected:
  static CuFunction any_function(const Context& context) {
    const auto current = context.enter();
    CuModule module = nullptr;
    CuFunction function = nullptr;
    EXPECT_EQ(context.driver().cuModuleLoadData(&module, "// PTX"), 0);
    EXPECT_EQ(context.driver().cuModuleGetFunction(&function, module, "everkernel_live"), 0);
    EXPECT_EQ(context.driver().cuModuleUnload(module), 0);
    return function;
  }
  LiveCode code() const {
    return {.context = context,
            .crew = {.function = function, .block_threads = 128},
            .group_lanes = 32,
            .worker_count = 4,
            .sm_count = 4,
            .fuel_per_item = 1000,
            .opcodes = {64}};
  }
  backend::LiveLaunch launch() {
    return {.control = std::as_writable_bytes(std::span(control)),
            .debug_log = std::as_writable_bytes(std::span(debug_log)),
            .io_queue = std::as_writable_bytes(std::span(io_queue))};
  }

  alignas(64) std::array<Word, 512> control{};
  alignas(64) std::array<Word, 64> debug_log{};
  alignas(64) std::array<Word, 32> io_queue{};
  std::shared_ptr<Context> context = make_context();
  CuFunction function = any_function(*context);
};

TEST_F(LiveOnFake, a_start_that_fails_at_any_call_leaves_nothing) {
  fake().kernels_stay = true;
  const int streams = fake().live_streams;
  int failures = 0;
  for (int call = 1; call < 200; ++call) {
    fail(nullptr, kNotPermitted, call);
    const auto kernel = CudaLiveKernel::start(code(), launch());
    change([](FakeCuda& fake) { fake.failing_call = 0; });
    if (kernel) {
      change([](FakeCuda& fake) { fake.kernels_stay = false; });  // it leaves
      break;
    }
    ++failures;
    EXPECT_EQ(code_of(kernel), Code::io) << call;
    EXPECT_EQ(fake().live_streams, streams) << call;
  }
  EXPECT_GE(failures, 20);
  EXPECT_FALSE(context->is_lost());
  context.reset();
  expect_nothing_left();
}

// Else the end of another session could give pages back, which waits for the new kernel too.
TEST_F(LiveOnFake, stays_before_it_is_launched) {
  struct AtLaunch {
    Context* context;
    std::shared_ptr<int> object = std::make_shared<int>(1);
    std::weak_ptr<int> kept = object;
  } at_launch{context.get()};
  context->reserve_place_to_keep();
  fake().at_launch_argument = &at_launch;
  fake().at_launch = [](void* argument) {
    auto& at = *static_cast<AtLaunch*>(argument);
    at.context->unmap(nullptr, 0, std::move(at.object));
  };
  const auto kernel = CudaLiveKernel::start(code(), launch());
  ASSERT_TRUE(kernel) << message_of(kernel);
  EXPECT_FALSE(at_launch.kept.expired());
  EXPECT_EQ((*kernel)->stop(Clock::now() + seconds(10), backend::LeaveMode::cancel), 0u);
  EXPECT_TRUE(at_launch.kept.expired());
}

TEST_F(LiveOnFake, does_not_stay_when_it_cannot_be_launched) {
  fail("cuLaunchKernel", kNotPermitted);
  EXPECT_EQ(code_of(CudaLiveKernel::start(code(), launch())), Code::io);
  context->reserve_place_to_keep();
  auto object = std::make_shared<int>(1);
  const std::weak_ptr<int> kept = object;
  context->unmap(nullptr, 0, std::move(object));
  EXPECT_TRUE(kept.expired());
}

TEST_F(LiveOnFake, nothing_waits_for_a_kernel_that_stays) {
  fake().kernels_stay = true;
  auto kernel = CudaLiveKernel::start(code(), launch());
  ASSERT_TRUE(kernel) << message_of(kernel);
  for (int i = 0; i < 5; ++i) (*kernel)->look_again();
  (*kernel)->mirror();
  EXPECT_TRUE((*kernel)->is_running());
  EXPECT_TRUE((*kernel)->health());
  change([](FakeCuda& fake) { fake.kernels_stay = false; });
  (*kernel)->stop(Clock::now() + seconds(10), backend::LeaveMode::cancel);
  EXPECT_FALSE((*kernel)->is_running());
  EXPECT_TRUE((*kernel)->health());
  EXPECT_EQ(fake().waits_for_kernels, 0);
}

// ---- parking ----

// A kernel of which the host's half is tested: the fake runs no crews, so that it leaves when a
// test says so.
class ParkedOnFake : public LiveOnFake {
 protected:
  ParkedOnFake() {
    fake().kernels_stay = true;
    auto started = CudaLiveKernel::start(code(), launch());
    EXPECT_TRUE(started) << message_of(started);
    if (!started) std::abort();
    kernel = std::move(*started);
  }
  ~ParkedOnFake() override {
    let_it_leave(true);
    kernel->stop(Clock::now() + seconds(10), backend::LeaveMode::cancel);
  }

  void let_it_leave(bool leaves) {
    change([&](FakeCuda& fake) { fake.kernels_stay = !leaves; });
  }
  // The kernel leaves, and the next one stays.
  Result<void> park(const std::function<void()>& act = [] {}) {
    let_it_leave(true);
    return kernel->parked(
        [&] {
          let_it_leave(false);
          act();
        },
        Clock::now() + seconds(10));
  }
  Word launches() { return static_cast<Word>(kernel->flush_counters().launches); }

  std::unique_ptr<backend::LiveKernel> kernel;
};

TEST_F(ParkedOnFake, is_launched_again) {
  for (Word lap = 1; lap <= 3; ++lap) {
    bool was_called = false;
    EXPECT_TRUE(park([&] { was_called = true; }));
    EXPECT_TRUE(was_called);
    EXPECT_TRUE(kernel->is_running());
    EXPECT_EQ(launches(), 1 + lap);
  }
  EXPECT_TRUE(kernel->health());
}

// Two copies of orders and a launch, and looks at the stream: nothing waits for a copy.
TEST_F(ParkedOnFake, makes_few_driver_calls) {
  std::this_thread::sleep_for(milliseconds(20));  // the keeper frees the orders of the start
  const auto calls_of = [&](const char* symbol, const auto& act) {
    constexpr int kMany = 1'000'000;
    fail(symbol, kNotPermitted, kMany);
    act();
    int left = 0;
    change([&](FakeCuda& fake) { left = std::exchange(fake.failing_call, 0); });
    return kMany - left;
  };
  const auto parks = [&] { EXPECT_TRUE(park()); };
  EXPECT_EQ(calls_of("cuMemcpyHtoDAsync_v2", parks), 2);
  EXPECT_EQ(calls_of("cuLaunchKernel", parks), 1);
  EXPECT_EQ(calls_of("cuMemAllocAsync", parks), 0);
  EXPECT_EQ(calls_of("cuMemHostAlloc", parks), 0);
}

TEST_F(ParkedOnFake, goes_on_if_crews_do_not_leave_in_time) {
  bool was_called = false;
  const auto parked = kernel->parked([&] { was_called = true; }, Clock::now() + milliseconds(5));
  EXPECT_EQ(code_of(parked), Code::timeout);
  EXPECT_FALSE(was_called);
  EXPECT_TRUE(kernel->is_running());
  EXPECT_TRUE(kernel->health());
  EXPECT_EQ(launches(), 1u);
  EXPECT_TRUE(park());
}

TEST_F(ParkedOnFake, frees_what_waits_while_it_is_away) {
  context->reserve_place_to_keep();
  auto object = std::make_shared<int>(1);
  const std::weak_ptr<int> kept = object;
  context->unmap(&object, 0, std::move(object));
  EXPECT_FALSE(kept.expired());
  EXPECT_TRUE(park([&] { EXPECT_TRUE(kept.expired()); }));
  EXPECT_EQ(fake().waits_for_kernels, 0);
}

TEST_F(ParkedOnFake, goes_on_if_its_keeper_cannot_park_it) {
  for (std::size_t i = 0; i <= Context::kManyKept; ++i) {
    context->reserve_place_to_keep();
    context->unmap(&kernel, 0, nullptr);
  }
  EXPECT_TRUE(context->has_much_to_free());
  std::this_thread::sleep_for(milliseconds(30));  // the keeper tries, and crews do not leave
  EXPECT_TRUE(context->has_much_to_free());
  EXPECT_TRUE(kernel->is_running());
  EXPECT_TRUE(kernel->health());
  EXPECT_EQ(launches(), 1u);
}

TEST_F(ParkedOnFake, fails_when_it_cannot_be_launched_again) {
  const auto parked = park([&] { fail("cuLaunchKernel", kNotPermitted); });
  EXPECT_EQ(code_of(parked), Code::io);
  EXPECT_FALSE(kernel->is_running());
  EXPECT_EQ(code_of(kernel->health()), Code::io);
  EXPECT_EQ(code_of(park()), Code::invalid_argument);
}

TEST_F(ParkedOnFake, says_so_when_the_device_is_lost) {
  bool was_called = false;
  fail("cuStreamQuery", kIllegalAddress);
  EXPECT_EQ(code_of(kernel->parked([&] { was_called = true; }, Clock::now() + seconds(10))),
            Code::device_lost);
  EXPECT_FALSE(was_called);
}

// Executions by handlers that are gone stay in the totals.
TEST_F(ParkedOnFake, goes_on_with_other_code) {
  auto& live = dynamic_cast<CudaLiveKernel&>(*kernel);
  LiveCode other = code();
  other.worker_count = 7;
  other.opcodes = {70, 71};
  let_it_leave(true);
  const auto replaced = live.replace(
      [&](Word sm_count) -> Result<LiveCode> {
        let_it_leave(false);
        other.sm_count = sm_count;
        return other;
      },
      Clock::now() + seconds(10));
  EXPECT_TRUE(replaced) << message_of(replaced);
  EXPECT_EQ(launches(), 2u);
  EXPECT_EQ(fake().launched_threads * fake().launched_blocks, 8u * 32);  // two warps in a block
  std::vector<backend::OpcodeTotal> totals;
  live.add_executions(totals);
  for (const Word opcode : {64u, 70u, 71u}) {
    EXPECT_NE(std::ranges::find(totals, opcode, &backend::OpcodeTotal::opcode), totals.end())
        << opcode;
  }
}

TEST_F(ParkedOnFake, goes_on_with_its_code_if_other_code_does_not_load) {
  auto& live = dynamic_cast<CudaLiveKernel&>(*kernel);
  const auto replace = [&](const std::function<Result<LiveCode>()>& load) {
    let_it_leave(true);
    return live.replace(
        [&](Word) {
          let_it_leave(false);
          return load();
        },
        Clock::now() + seconds(10));
  };
  EXPECT_EQ(code_of(replace([]() -> Result<LiveCode> { return everkernel::fail(Code::io, "no"); })),
            Code::io);
  EXPECT_EQ(code_of(replace([&]() -> Result<LiveCode> {
              fail("cuMemAllocAsync", kNotPermitted, 2);
              LiveCode other = code();
              other.worker_count = 7;
              return other;
            })),
            Code::io);
  EXPECT_EQ(launches(), 3u);
  EXPECT_EQ(fake().launched_threads * fake().launched_blocks, 4u * 32);
  EXPECT_TRUE(kernel->is_running());
  EXPECT_TRUE(kernel->health());
}

TEST_F(ParkedOnFake, is_not_launched_again_after_a_stop) {
  EXPECT_TRUE(park([&] { kernel->stop(Clock::now() + seconds(10), backend::LeaveMode::cancel); }));
  EXPECT_FALSE(kernel->is_running());
  EXPECT_EQ(launches(), 1u);
  EXPECT_EQ(code_of(park()), Code::invalid_argument);
}

// ---- a device that is lost ----

template <class Call>
Clock::duration time_of(const Call& call) {
  const auto begin = Clock::now();
  call();
  return Clock::now() - begin;
}

// A session whose kernel stays and does nothing.
class LostSession : public WithFakeCuda {
 protected:
  Session start() {
    fake().kernels_stay = true;
    static const TempDir folder;  // the tests use the same code
    auto made = Megakernel::create(
        backend::cuda::make_backend({.cache = jit::CodeCacheOptions{.directory = folder.path()}}),
        {});
    EXPECT_TRUE(made) << message_of(made);
    if (!made) std::abort();
    kernel.emplace(std::move(*made));
    auto session = kernel->start();
    EXPECT_TRUE(session) << message_of(session);
    if (!session) std::abort();
    return std::move(*session);
  }

  std::optional<Megakernel> kernel;
};

TEST_F(LostSession, says_so_to_everybody_soon) {
  EVERKERNEL_NEEDS_NVRTC(nvrtc);
  Session session = start();
  auto queue = session.open_queue({.capacity = 16});
  ASSERT_TRUE(queue) << message_of(queue);
  const auto ticket = queue->publish({});
  ASSERT_TRUE(ticket) << message_of(ticket);
  for (int i = 1; i < 16; ++i) ASSERT_TRUE(queue->publish({}));
  std::optional<Code> waited, published, all;
  const auto taken = time_of([&] {
    std::jthread waiter([&] { waited = code_of(queue->wait(*ticket, seconds(60))); });
    std::jthread publisher([&] { published = code_of(queue->publish({}, seconds(60))); });
    std::jthread other([&] { all = code_of(session.wait_all(seconds(60))); });
    std::this_thread::sleep_for(milliseconds(20));
    fail("cuStreamQuery", kIllegalAddress);
  });
  EXPECT_LT(taken, seconds(10));
  EXPECT_EQ(waited, Code::device_lost);
  EXPECT_EQ(published, Code::device_lost);
  EXPECT_EQ(all, Code::device_lost);
  EXPECT_EQ(code_of(session.publish({})), Code::device_lost);
  EXPECT_EQ(code_of(queue->poll(*ticket)), Code::device_lost);
  EXPECT_EQ(code_of(session.open_queue({})), Code::device_lost);
  EXPECT_LT(time_of([&] { EXPECT_EQ(queue->close(StopMode::drain, seconds(1)), 16u); }),
            seconds(10));
  EXPECT_LT(time_of([&] { session.stop(StopMode::drain, seconds(1)); }), seconds(10));
}

TEST_F(LostSession, ends_soon_without_having_been_asked_anything) {
  EVERKERNEL_NEEDS_NVRTC(nvrtc);
  Session session = start();
  ASSERT_TRUE(session.publish({}));
  fail("cuStreamQuery", kIllegalAddress);
  EXPECT_LT(time_of([&] {
              const StopReport report = session.stop(StopMode::drain, seconds(2));
              EXPECT_EQ(report.done, 0u);
              EXPECT_EQ(report.cancelled, 1u);
            }),
            seconds(10));
}

}  // namespace
}  // namespace everkernel::test
