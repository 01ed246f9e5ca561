// The driver's functions for devices, contexts and memory, with memory of the host.
#include "simulator/host_driver.hpp"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace everkernel::backend::cuda {

// The objects behind the driver's handles.
struct CuContextOpaque {};
struct CuMemoryPoolOpaque {};

}  // namespace everkernel::backend::cuda

namespace everkernel::simulator {
namespace {

using namespace backend::cuda;

constexpr int kGarbage = 0xA5;
constexpr std::size_t kAlignment = 256;  // as the driver's

CuContextOpaque the_context;
CuMemoryPoolOpaque the_pool;
thread_local int current_count = 0;

std::unique_ptr<HostDriver> make_driver() {
  auto made = std::make_unique<HostDriver>();
  set_up(made->state);
  return made;
}

// Never destroyed: programs call the driver from destructors of their own static objects.
std::unique_ptr<HostDriver>& the_driver() {
  static auto& instance = *new std::unique_ptr<HostDriver>(make_driver());
  return instance;
}

// Results after which the real driver fails every call.
bool breaks_contexts(CuResult result) {
  return result == 214 || (result >= 700 && result <= 719 && result != 701);
}

CuResult allocate(CuPointer* target, std::size_t bytes) {
  DriverState& state = driver().state;
  DeviceMemory& memory = driver().memory;
  if (bytes == 0) return kInvalidValue;
  if (bytes > state.memory_bytes - memory.device_bytes()) return kOutOfMemory;
  *target = reinterpret_cast<CuPointer>(memory.allocate(bytes, DeviceMemory::Owner::device));
  ++state.live_allocations;
  return 0;
}

CuResult release(CuPointer pointer) {
  void* const memory = reinterpret_cast<void*>(pointer);
  if (!driver().memory.release(memory, DeviceMemory::Owner::device)) return kInvalidValue;
  --driver().state.live_allocations;
  return 0;
}

template <class Word>
void copy_each(std::byte* to, const std::byte* from, std::size_t bytes) {
  for (std::size_t done = 0; done < bytes; done += sizeof(Word)) {
    Word word = 0;
    std::memcpy(&word, from + done, sizeof word);
    std::atomic_ref(*reinterpret_cast<Word*>(to + done)).store(word, std::memory_order_relaxed);
  }
}

// A kernel may use the memory meanwhile, and must not see half of a word.
void copy_words(std::byte* to, const std::byte* from, std::size_t bytes) {
  const std::size_t any =
      reinterpret_cast<std::uintptr_t>(to) | reinterpret_cast<std::uintptr_t>(from) | bytes;
  if (any % sizeof(std::uint64_t) == 0) return copy_each<std::uint64_t>(to, from, bytes);
  if (any % sizeof(std::uint32_t) == 0) return copy_each<std::uint32_t>(to, from, bytes);
  std::memcpy(to, from, bytes);
}

// The device can access its own memory and pinned host memory.
CuResult copy(CuStream stream, std::uintptr_t target, std::uintptr_t source, std::size_t bytes) {
  const DeviceMemory& memory = driver().memory;
  auto* const to = reinterpret_cast<std::byte*>(target);
  const auto* const from = reinterpret_cast<const std::byte*>(source);
  const bool is_staged = !memory.can_reach(source, bytes) && driver().state.takes_pageable_memory;
  if (!memory.can_reach(target, bytes) || (!memory.can_reach(source, bytes) && !is_staged)) {
    driver().broken = kIllegalAddress;
    return kIllegalAddress;
  }
  if (is_staged) {
    queue(stream, [to, taken = std::vector(from, from + bytes)] {
      copy_words(to, taken.data(), taken.size());
    });
  } else {
    queue(stream, [=] { copy_words(to, from, bytes); });
  }
  return 0;
}

int attribute_of(CuDeviceAttribute attribute) {
  const DriverState& state = driver().state;
  switch (attribute) {
    case CuDeviceAttribute::max_threads_per_block:
      return 1024;
    case CuDeviceAttribute::sm_count:
      return state.sm_count;
    case CuDeviceAttribute::max_threads_per_sm:
      return 2048;
    case CuDeviceAttribute::compute_capability_major:
      return state.architecture / 10;
    case CuDeviceAttribute::compute_capability_minor:
      return state.architecture % 10;
    case CuDeviceAttribute::max_shared_bytes_per_sm:
      return state.shared_bytes_per_sm;
    case CuDeviceAttribute::max_shared_bytes_per_block:
      return state.shared_bytes_per_sm - 1024;
    case CuDeviceAttribute::max_registers_per_sm:
      return 65536;
    case CuDeviceAttribute::can_map_host_memory:
      return state.can_map_host_memory ? 1 : 0;
    case CuDeviceAttribute::memory_pools:
      return state.has_memory_pools ? 1 : 0;
    case CuDeviceAttribute::cooperative_launch:
    case CuDeviceAttribute::concurrent_managed_access:
      return 1;
    case CuDeviceAttribute::kernel_exec_timeout:
    case CuDeviceAttribute::host_native_atomics:
    case CuDeviceAttribute::pageable_memory_access:
      return 0;
    case CuDeviceAttribute::only_partial_host_native_atomics:
      break;
  }
  return -1;  // a driver of CUDA 12 does not know this attribute
}

}  // namespace

void TurnLock::lock() {
  std::unique_lock hold(lock_);
  const std::uint64_t turn = came_++;
  next_.wait(hold, [&] { return left_ == turn; });
}

void TurnLock::unlock() {
  const std::scoped_lock hold(lock_);
  ++left_;
  next_.notify_all();
}

DeviceMemory::~DeviceMemory() {
  for (const auto& [begin, range] : ranges_) {
    if (range.owner != Owner::host) std::free(reinterpret_cast<void*>(begin));
  }
}

void* DeviceMemory::allocate(std::size_t bytes, Owner owner) {
  void* memory = nullptr;
  if (::posix_memalign(&memory, kAlignment, bytes) != 0) std::abort();
  std::memset(memory, kGarbage, bytes);
  const auto begin = reinterpret_cast<std::uintptr_t>(memory);
  ranges_[begin] = {{begin, bytes}, owner};
  if (owner == Owner::device) device_bytes_ += bytes;
  return memory;
}

void DeviceMemory::add(void* memory, std::size_t bytes) {
  const auto begin = reinterpret_cast<std::uintptr_t>(memory);
  ranges_[begin] = {{begin, bytes}, Owner::host};
}

bool DeviceMemory::begins_at(const void* memory, Owner owner) const {
  const auto found = ranges_.find(reinterpret_cast<std::uintptr_t>(memory));
  return found != ranges_.end() && found->second.owner == owner;
}

bool DeviceMemory::release(void* memory, Owner owner) {
  if (!begins_at(memory, owner)) return false;
  const auto found = ranges_.find(reinterpret_cast<std::uintptr_t>(memory));
  if (owner == Owner::device) device_bytes_ -= found->second.bytes;
  if (owner != Owner::host) std::free(memory);
  ranges_.erase(found);
  release_count_.fetch_add(1, std::memory_order_release);
  return true;
}

const DeviceMemory::Range* DeviceMemory::find(std::uintptr_t begin, std::size_t bytes) const {
  auto next = ranges_.upper_bound(begin);
  if (next == ranges_.begin()) return nullptr;
  --next;
  return next->second.has(begin, bytes) ? &next->second : nullptr;
}

bool DeviceMemory::is_device(std::uintptr_t begin, std::size_t bytes) const {
  const Range* const range = find(begin, bytes);
  return range != nullptr && range->owner == Owner::device;
}

bool DeviceMemory::can_reach(std::uintptr_t begin, std::size_t bytes) const {
  return find(begin, bytes) != nullptr;
}

std::optional<MemoryRange> DeviceMemory::range_of(std::uintptr_t begin, std::size_t bytes) const {
  const Range* const range = find(begin, bytes);
  return range == nullptr ? std::nullopt : std::optional<MemoryRange>(*range);
}

bool DeviceMemory::has_any_of(std::uintptr_t begin, std::size_t bytes) const {
  const auto next = ranges_.lower_bound(begin);
  if (next != ranges_.end() && next->first - begin < bytes) return true;
  return find(begin, 1) != nullptr;
}

HostDriver& driver() {
  return *the_driver();
}

// Never destroyed: in a child of fork() a condition waits for its waiters for ever.
TurnLock& driver_lock() {
  static TurnLock& lock = *new TurnLock;
  return lock;
}

void reset_driver() {
  the_driver() = make_driver();
}

int current_contexts() {
  return current_count;
}

CuResult begin_call(std::string_view symbol) {
  DriverState& state = driver().state;
  ++state.calls;
  if (driver().broken != 0) return driver().broken;
  if (state.failing_call == 0) return 0;
  if (state.failing_symbol != nullptr && symbol != state.failing_symbol) return 0;
  if (--state.failing_call != 0) return 0;
  if (breaks_contexts(state.failing_result)) driver().broken = state.failing_result;
  return state.failing_result;
}

CuResult begin_call_in_context(std::string_view symbol) {
  if (const CuResult result = begin_call(symbol); result != 0) return result;
  return current_count > 0 ? 0 : kInvalidContext;
}

extern "C" {

CuResult cuInit(unsigned flags) {
  DRIVER_CALL(begin_call, "cuInit");
  return flags == 0 ? 0 : kInvalidValue;
}
CuResult cuDriverGetVersion(int* version) {
  DRIVER_CALL(begin_call, "cuDriverGetVersion");
  *version = driver().state.version;
  return 0;
}
CuResult cuGetErrorName(CuResult error, const char** name) {
  *name = error < 10'000 ? "CUDA_ERROR_FAKE" : nullptr;
  return *name != nullptr ? 0 : kInvalidValue;
}
CuResult cuGetErrorString(CuResult error, const char** text) {
  *text = error < 10'000 ? "the fake says so" : nullptr;
  return *text != nullptr ? 0 : kInvalidValue;
}

CuResult cuDeviceGetCount(int* count) {
  DRIVER_CALL(begin_call, "cuDeviceGetCount");
  *count = driver().state.device_count;
  return 0;
}
CuResult cuDeviceGet(CuDevice* device, int ordinal) {
  DRIVER_CALL(begin_call, "cuDeviceGet");
  *device = ordinal;
  return ordinal >= 0 && ordinal < driver().state.device_count ? 0 : kInvalidDevice;
}
CuResult cuDeviceGetName(char* name, int size, CuDevice) {
  DRIVER_CALL(begin_call, "cuDeviceGetName");
  std::strncpy(name, driver().state.name, static_cast<std::size_t>(size));
  return 0;
}
CuResult cuDeviceGetAttribute(int* value, CuDeviceAttribute attribute, CuDevice) {
  DRIVER_CALL(begin_call, "cuDeviceGetAttribute");
  const int answer = attribute_of(attribute);
  if (answer < 0) return kInvalidValue;
  *value = answer;
  return 0;
}
CuResult cuDeviceTotalMem_v2(std::size_t* bytes, CuDevice) {
  DRIVER_CALL(begin_call, "cuDeviceTotalMem_v2");
  *bytes = driver().state.memory_bytes;
  return 0;
}
CuResult cuDevicePrimaryCtxRetain(CuContext* context, CuDevice) {
  DRIVER_CALL(begin_call, "cuDevicePrimaryCtxRetain");
  ++driver().state.retained_contexts;
  ++driver().state.contexts_made;
  *context = &the_context;
  return 0;
}
// Works for a broken context too.
CuResult cuDevicePrimaryCtxRelease_v2(CuDevice) {
  const std::scoped_lock hold(driver_lock());
  if (driver().state.retained_contexts == 1) finish_all("cuDevicePrimaryCtxRelease");
  --driver().state.retained_contexts;
  return 0;
}
CuResult cuCtxPushCurrent_v2(CuContext context) {
  DRIVER_CALL(begin_call, "cuCtxPushCurrent_v2");
  if (context != &the_context || driver().state.retained_contexts == 0) return kInvalidContext;
  ++current_count;
  return 0;
}
CuResult cuCtxPopCurrent_v2(CuContext* context) {
  const std::scoped_lock hold(driver_lock());
  if (current_count == 0) return kInvalidContext;
  --current_count;
  *context = &the_context;
  return 0;
}

CuResult cuMemAlloc_v2(CuPointer* memory, std::size_t bytes) {
  DRIVER_CALL(begin_call_in_context, "cuMemAlloc_v2");
  return allocate(memory, bytes);
}
CuResult cuMemFree_v2(CuPointer memory) {
  DRIVER_CALL(begin_call_in_context, "cuMemFree_v2");
  if (const CuResult result = finish_all("cuMemFree"); result != 0) return result;
  return release(memory);
}
CuResult cuMemAllocAsync(CuPointer* memory, std::size_t bytes, CuStream) {
  DRIVER_CALL(begin_call_in_context, "cuMemAllocAsync");
  ++driver().state.pool_allocations;
  return allocate(memory, bytes);
}
CuResult cuMemFreeAsync(CuPointer memory, CuStream stream) {
  DRIVER_CALL(begin_call_in_context, "cuMemFreeAsync");
  const void* const begin = reinterpret_cast<const void*>(memory);
  if (!driver().memory.begins_at(begin, DeviceMemory::Owner::device)) return kInvalidValue;
  queue(stream, [=] { release(memory); });
  return 0;
}
CuResult cuDeviceGetDefaultMemPool(CuMemoryPool* pool, CuDevice) {
  DRIVER_CALL(begin_call, "cuDeviceGetDefaultMemPool");
  *pool = &the_pool;
  return 0;
}
CuResult cuMemPoolSetAttribute(CuMemoryPool pool, CuPoolAttribute attribute, void* value) {
  DRIVER_CALL(begin_call, "cuMemPoolSetAttribute");
  if (pool != &the_pool || attribute != CuPoolAttribute::release_threshold) return kInvalidValue;
  std::memcpy(&driver().state.release_threshold, value, sizeof driver().state.release_threshold);
  return 0;
}
CuResult cuMemHostAlloc(void** memory, std::size_t bytes, unsigned) {
  DRIVER_CALL(begin_call_in_context, "cuMemHostAlloc");
  if (bytes == 0) return kInvalidValue;
  if (bytes > driver().state.memory_bytes) return kOutOfMemory;
  *memory = driver().memory.allocate(bytes, DeviceMemory::Owner::pinned);
  ++driver().state.live_pinned;
  return 0;
}
CuResult cuMemFreeHost(void* memory) {
  DRIVER_CALL(begin_call_in_context, "cuMemFreeHost");
  if (const CuResult result = finish_all("cuMemFreeHost"); result != 0) return result;
  if (!driver().memory.release(memory, DeviceMemory::Owner::pinned)) return kInvalidValue;
  --driver().state.live_pinned;
  return 0;
}
CuResult cuMemHostGetDevicePointer_v2(CuPointer* pointer, void* memory, unsigned) {
  DRIVER_CALL(begin_call_in_context, "cuMemHostGetDevicePointer_v2");
  const auto begin = reinterpret_cast<std::uintptr_t>(memory);
  const DeviceMemory& known = driver().memory;
  if (!known.can_reach(begin, 1) || known.is_device(begin, 1)) return kInvalidValue;
  *pointer = begin;
  return 0;
}
CuResult cuMemHostRegister_v2(void* memory, std::size_t bytes, unsigned) {
  DRIVER_CALL(begin_call_in_context, "cuMemHostRegister_v2");
  if (memory == nullptr || bytes == 0) return kInvalidValue;
  if (driver().memory.has_any_of(reinterpret_cast<std::uintptr_t>(memory), bytes)) {
    return kAlreadyRegistered;
  }
  driver().memory.add(memory, bytes);
  ++driver().state.live_registered;
  return 0;
}
CuResult cuMemHostUnregister(void* memory) {
  DRIVER_CALL(begin_call_in_context, "cuMemHostUnregister");
  if (const CuResult result = finish_all("cuMemHostUnregister"); result != 0) return result;
  if (!driver().memory.release(memory, DeviceMemory::Owner::host)) return kNotRegistered;
  --driver().state.live_registered;
  return 0;
}
CuResult cuMemcpyHtoDAsync_v2(CuPointer target, const void* source, std::size_t bytes,
                              CuStream stream) {
  DRIVER_CALL(begin_call_in_context, "cuMemcpyHtoDAsync_v2");
  return copy(stream, target, reinterpret_cast<std::uintptr_t>(source), bytes);
}
CuResult cuMemcpyDtoHAsync_v2(void* target, CuPointer source, std::size_t bytes, CuStream stream) {
  DRIVER_CALL(begin_call_in_context, "cuMemcpyDtoHAsync_v2");
  return copy(stream, reinterpret_cast<std::uintptr_t>(target), source, bytes);
}
CuResult cuMemcpyDtoDAsync_v2(CuPointer target, CuPointer source, std::size_t bytes,
                              CuStream stream) {
  DRIVER_CALL(begin_call_in_context, "cuMemcpyDtoDAsync_v2");
  return copy(stream, target, source, bytes);
}
CuResult cuMemsetD32Async(CuPointer target, unsigned value, std::size_t words, CuStream stream) {
  DRIVER_CALL(begin_call_in_context, "cuMemsetD32Async");
  if (!driver().memory.is_device(target, words * 4)) return kInvalidValue;
  queue(stream, [=] {
    for (std::size_t i = 0; i < words; ++i) {
      std::memcpy(reinterpret_cast<void*>(target + 4 * i), &value, 4);
    }
  });
  return 0;
}
CuResult cuMemsetD8Async(CuPointer target, unsigned char value, std::size_t bytes,
                         CuStream stream) {
  DRIVER_CALL(begin_call_in_context, "cuMemsetD8Async");
  if (!driver().memory.is_device(target, bytes)) return kInvalidValue;
  queue(stream, [=] { std::memset(reinterpret_cast<void*>(target), value, bytes); });
  return 0;
}

}  // extern "C"

}  // namespace everkernel::simulator
