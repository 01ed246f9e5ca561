// The primary context of a device, and the streams, events and pinned memory made from it.
#include "backend/cuda/context.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

#include "backend/cuda/cuda_error.hpp"
#include "base/spin.hpp"

namespace everkernel::backend::cuda {
namespace {

// How late the shortest sleep returns: the timer slack of Linux (50 us), and the switch back.
constexpr auto kWakeDelay = std::chrono::microseconds(60);
constexpr auto kLongestSleep = std::chrono::microseconds(200);

// The driver's memory pool keeps all freed memory instead of returning it to the system.
constexpr std::uint64_t kKeepAll = ~std::uint64_t{0};

}  // namespace

Current::~Current() {
  if (driver_ == nullptr) return;
  CuContext popped = nullptr;
  driver_->cuCtxPopCurrent(&popped);
}

Context::Context(const Driver& driver, const DeviceFacts& facts, Clock::duration copy_timeout)
    : driver_(driver),
      facts_(facts),
      copy_timeout_(copy_timeout),
      staging_(std::make_unique<Staging>(*this)) {}

Result<std::shared_ptr<Context>> Context::create(const Driver& driver, const DeviceFacts& facts,
                                                 Clock::duration copy_timeout) {
  std::shared_ptr<Context> context(new Context(driver, facts, copy_timeout));
  EVERKERNEL_TRY(context->open());
  return context;
}

Result<void> Context::open() {
  CuContext retained = nullptr;
  EVERKERNEL_TRY(check(driver_.cuDevicePrimaryCtxRetain(&retained, facts_.device),
                       "cuDevicePrimaryCtxRetain"));
  context_ = retained;
  const Current current = EVERKERNEL_TRY(enter());
  EVERKERNEL_TRY(
      check(driver_.cuStreamCreate(&copy_stream_, kCuStreamNonBlocking), "cuStreamCreate"));
  if (!facts_.has_memory_pools) return {};
  CuMemoryPool pool = nullptr;
  EVERKERNEL_TRY(
      check(driver_.cuDeviceGetDefaultMemPool(&pool, facts_.device), "cuDeviceGetDefaultMemPool"));
  std::uint64_t threshold = kKeepAll;
  return check(driver_.cuMemPoolSetAttribute(pool, CuPoolAttribute::release_threshold, &threshold),
               "cuMemPoolSetAttribute");
}

Context::~Context() {
  if (context_ == nullptr || !is_here()) return;
  staging_.reset();
  if (copy_stream_ != nullptr && !is_lost()) {
    const auto current = enter();
    if (current) driver_.cuStreamDestroy(copy_stream_);
  }
  driver_.cuDevicePrimaryCtxRelease(facts_.device);
}

Result<Current> Context::enter() const {
  EVERKERNEL_TRY(check_alive());
  EVERKERNEL_TRY(check(driver_.cuCtxPushCurrent(context_), "cuCtxPushCurrent"));
  return Current(driver_);
}

Result<void> Context::check(CuResult result, std::string_view what) const {
  if (result == kCuSuccess) return {};
  Failure failure = cuda_failure(driver_, result, what);
  if (failure.value().code != Code::device_lost) return failure;
  return lose(std::move(failure.value()));
}

Result<void> Context::wait(CuStream stream, const Deadline& deadline, std::string_view what) const {
  return poll(driver_.cuStreamQuery, stream, deadline, what);
}

Result<void> Context::wait(CuEvent event, const Deadline& deadline, std::string_view what) const {
  return poll(driver_.cuEventQuery, event, deadline, what);
}

template <class Handle>
Result<void> Context::poll(CuResult (*query)(Handle), Handle handle, const Deadline& deadline,
                           std::string_view what) const {
  const auto begin = Clock::now();
  for (;;) {
    const CuResult result = query(handle);
    if (result != kCuNotReady) return check(result, what);
    const auto now = Clock::now();
    if (deadline.has_passed()) {
      return fail(Code::timeout, fmt::format("cuda: {}: not done before the deadline", what),
                  "raise the timeout, or check whether another kernel occupies the device",
                  kCuNotReady);
    }
    // A sleep is a sixteenth of the time waited so far, so that the wait ends at most that late.
    // Within the first millisecond the sleep is shorter than kWakeDelay, and the thread spins.
    const auto sleep =
        std::min<Clock::duration>({(now - begin) / 16, kLongestSleep, deadline.time - now}) -
        kWakeDelay;
    if (sleep > Clock::duration::zero()) {
      std::this_thread::sleep_for(sleep);
    } else {
      spin_pause();
    }
  }
}

void Context::begin_stay() const {
  const std::scoped_lock held(stay_lock_);
  ++staying_kernels_;
}

void Context::end_stay() const {
  const std::scoped_lock held(stay_lock_);  // no kernel begins to stay meanwhile
  if (--staying_kernels_ != 0) return;
  if (kept_pages_.empty() && kept_memory_.empty() && kept_modules_.empty()) return;
  if (const auto current = enter()) {
    for (const KeptPages& pages : kept_pages_) driver_.cuMemHostUnregister(pages.begin);
    for (void* const memory : kept_memory_) driver_.cuMemFreeHost(memory);
    for (const CuModule module : kept_modules_) driver_.cuModuleUnload(module);
  }
  kept_page_bytes_ = 0;
  kept_pages_.clear();
  kept_memory_.clear();
  kept_modules_.clear();
}

void Context::free_pinned(void* memory) const {
  const std::scoped_lock held(stay_lock_);
  --places_to_keep_;
  if (staying_kernels_ != 0) {
    kept_memory_.push_back(memory);
  } else if (const auto current = enter()) {
    driver_.cuMemFreeHost(memory);
  }
}

void Context::unload(CuModule module) const {
  const std::scoped_lock held(stay_lock_);
  --places_to_keep_;
  if (staying_kernels_ != 0) {
    kept_modules_.push_back(module);
  } else if (const auto current = enter()) {
    driver_.cuModuleUnload(module);
  }
}

void Context::unmap(void* pages, std::size_t size_bytes, std::shared_ptr<const void> owner) const {
  const std::scoped_lock held(stay_lock_);
  --places_to_keep_;
  if (staying_kernels_ != 0) {
    kept_pages_.push_back({.begin = pages, .owner = std::move(owner)});
    kept_page_bytes_ += size_bytes;
  } else if (const auto current = enter()) {
    driver_.cuMemHostUnregister(pages);
  }
}

bool Context::has_much_to_free() const {
  const std::scoped_lock held(stay_lock_);
  const std::size_t count = kept_pages_.size() + kept_memory_.size() + kept_modules_.size();
  return staying_kernels_ == 1 && (count > kManyKept || kept_page_bytes_ > kManyBytes);
}

void Context::reserve_place_to_keep() const {
  const std::scoped_lock held(stay_lock_);
  const auto reserve = [this](auto& kept) {
    const std::size_t needed = kept.size() + places_to_keep_ + 1;
    if (kept.capacity() < needed) kept.reserve(std::max(needed, 2 * kept.capacity()));
  };
  reserve(kept_pages_);
  reserve(kept_memory_);
  reserve(kept_modules_);
  ++places_to_keep_;
}

void Context::return_place_to_keep() const {
  const std::scoped_lock held(stay_lock_);
  --places_to_keep_;
}

Result<void> Context::check_alive() const {
  EVERKERNEL_TRY(home_.check("cuda device"));
  if (!is_lost()) return {};
  const std::scoped_lock lock(loss_lock_);
  return fail(loss_->code, loss_->message, loss_->hint, loss_->native);
}

Failure Context::lose(Error error) const {
  const std::scoped_lock lock(loss_lock_);
  if (!loss_) loss_ = error;
  is_lost_.store(true, std::memory_order_release);
  return Failure(std::move(error));
}

Result<void> Context::launch_kernel(CuFunction function, const Grid& grid, CuStream stream,
                                    void** arguments) const {
  return check(driver_.cuLaunchKernel(function, grid.block_count, 1, 1, grid.thread_count, 1, 1,
                                      grid.shared_bytes, stream, arguments, nullptr),
               "cuLaunchKernel");
}

Stream::Stream(std::shared_ptr<const Context> context, CuStream stream)
    : context_(std::move(context)), stream_(stream) {}
Stream::Stream(Stream&& other) noexcept
    : context_(std::move(other.context_)), stream_(std::exchange(other.stream_, nullptr)) {}
Stream& Stream::operator=(Stream&& other) noexcept {
  std::swap(context_, other.context_);
  std::swap(stream_, other.stream_);
  return *this;
}

Stream::~Stream() {
  if (stream_ == nullptr) return;
  if (const auto current = context_->enter()) context_->driver().cuStreamDestroy(stream_);
}

Result<Stream> Stream::create(std::shared_ptr<const Context> context) {
  const Current current = EVERKERNEL_TRY(context->enter());
  CuStream stream = nullptr;
  EVERKERNEL_TRY(context->check(context->driver().cuStreamCreate(&stream, kCuStreamNonBlocking),
                                "cuStreamCreate"));
  return Stream(std::move(context), stream);
}

Event::Event(std::shared_ptr<const Context> context, CuEvent event)
    : context_(std::move(context)), event_(event) {}
Event::Event(Event&& other) noexcept
    : context_(std::move(other.context_)), event_(std::exchange(other.event_, nullptr)) {}
Event& Event::operator=(Event&& other) noexcept {
  std::swap(context_, other.context_);
  std::swap(event_, other.event_);
  return *this;
}

Event::~Event() {
  if (event_ == nullptr) return;
  if (const auto current = context_->enter()) context_->driver().cuEventDestroy(event_);
}

Result<Event> Event::create(std::shared_ptr<const Context> context, bool has_timing) {
  const Current current = EVERKERNEL_TRY(context->enter());
  CuEvent event = nullptr;
  EVERKERNEL_TRY(context->check(
      context->driver().cuEventCreate(&event, has_timing ? 0 : kCuEventDisableTiming),
      "cuEventCreate"));
  return Event(std::move(context), event);
}

PinnedMemory::PinnedMemory(std::shared_ptr<const Context> context, std::byte* data,
                           std::size_t size_bytes)
    : context_(std::move(context)), data_(data), size_bytes_(size_bytes) {}
PinnedMemory::PinnedMemory(PinnedMemory&& other) noexcept
    : context_(std::move(other.context_)),
      data_(std::exchange(other.data_, nullptr)),
      device_pointer_(other.device_pointer_),
      size_bytes_(other.size_bytes_) {}
PinnedMemory& PinnedMemory::operator=(PinnedMemory&& other) noexcept {
  std::swap(context_, other.context_);
  std::swap(data_, other.data_);
  std::swap(device_pointer_, other.device_pointer_);
  std::swap(size_bytes_, other.size_bytes_);
  return *this;
}

// If the device is lost, the memory leaks: the device may still write to it.
PinnedMemory::~PinnedMemory() {
  if (data_ != nullptr) context_->free_pinned(data_);
}

Result<PinnedMemory> PinnedMemory::create(std::shared_ptr<const Context> context,
                                          std::size_t size_bytes) {
  const Current current = EVERKERNEL_TRY(context->enter());
  const Driver& driver = context->driver();
  context->reserve_place_to_keep();
  void* data = nullptr;
  const auto allocated = context->check(
      driver.cuMemHostAlloc(&data, size_bytes, kCuHostAllocMapped | kCuHostAllocPortable),
      fmt::format("cuMemHostAlloc of {} bytes", size_bytes));
  if (!allocated) context->return_place_to_keep();
  EVERKERNEL_TRY(allocated);
  std::memset(data, 0, size_bytes);
  PinnedMemory memory(std::move(context), static_cast<std::byte*>(data), size_bytes);
  EVERKERNEL_TRY(
      memory.context_->check(driver.cuMemHostGetDevicePointer(&memory.device_pointer_, data, 0),
                             "cuMemHostGetDevicePointer"));
  return memory;
}

}  // namespace everkernel::backend::cuda
