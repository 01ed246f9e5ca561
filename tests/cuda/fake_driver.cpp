// The driver's functions for devices, contexts and memory, with memory of the host.
#include "cuda/fake_driver.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace everkernel::backend::cuda {

// What the handles point to.
struct CuContextOpaque {};
struct CuMemoryPoolOpaque {};

}  // namespace everkernel::backend::cuda

namespace everkernel::test {
namespace {

using namespace backend::cuda;

constexpr int kGarbage = 0xA5;
constexpr std::size_t kAlignment = 256;  // as the driver's

CuContextOpaque the_context;
CuMemoryPoolOpaque the_pool;
thread_local int current_count = 0;

std::unique_ptr<FakeWorld> make_world() {
  auto made = std::make_unique<FakeWorld>();
  set_up(made->state);
  return made;
}

std::unique_ptr<FakeWorld>& the_world() {
  static std::unique_ptr<FakeWorld> world = make_world();
  return world;
}

// Results after which the real driver answers nothing else any more.
bool breaks_contexts(CuResult result) {
  return result == 214 || (result >= 700 && result <= 719 && result != 701);
}

CuResult allocate(CuPointer* target, std::size_t bytes) {
  FakeCuda& state = world().state;
  FakeMemory& memory = world().memory;
  if (bytes == 0) return kInvalidValue;
  if (bytes > state.memory_bytes - memory.device_bytes()) return kOutOfMemory;
  *target = reinterpret_cast<CuPointer>(memory.allocate(bytes, FakeMemory::Owner::device));
  ++state.live_allocations;
  return 0;
}

CuResult release(CuPointer pointer) {
  void* const memory = reinterpret_cast<void*>(pointer);
  if (!world().memory.release(memory, FakeMemory::Owner::device)) return kInvalidValue;
  --world().state.live_allocations;
  return 0;
}

// The device reaches its own memory, and pinned memory of the host.
CuResult copy(CuStream stream, std::uintptr_t target, std::uintptr_t source, std::size_t bytes) {
  const FakeMemory& memory = world().memory;
  auto* const to = reinterpret_cast<std::byte*>(target);
  const auto* const from = reinterpret_cast<const std::byte*>(source);
  const bool is_staged = !memory.can_reach(source, bytes) && world().state.takes_pageable_memory;
  if (!memory.can_reach(target, bytes) || (!memory.can_reach(source, bytes) && !is_staged)) {
    world().broken = kIllegalAddress;
    return kIllegalAddress;
  }
  if (is_staged) {
    queue(stream, [to, taken = std::vector(from, from + bytes)] { std::ranges::copy(taken, to); });
  } else {
    queue(stream, [=] { std::memcpy(to, from, bytes); });
  }
  return 0;
}

int attribute_of(CuDeviceAttribute attribute) {
  const FakeCuda& state = world().state;
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
  return -1;  // as a driver of CUDA 12 knows none of it
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

FakeMemory::~FakeMemory() {
  for (const auto& [begin, range] : ranges_) {
    if (range.owner != Owner::host) std::free(reinterpret_cast<void*>(begin));
  }
}

void* FakeMemory::allocate(std::size_t bytes, Owner owner) {
  void* memory = nullptr;
  if (::posix_memalign(&memory, kAlignment, bytes) != 0) std::abort();
  std::memset(memory, kGarbage, bytes);
  const auto begin = reinterpret_cast<std::uintptr_t>(memory);
  ranges_[begin] = {begin, bytes, owner};
  if (owner == Owner::device) device_bytes_ += bytes;
  return memory;
}

void FakeMemory::add(void* memory, std::size_t bytes) {
  const auto begin = reinterpret_cast<std::uintptr_t>(memory);
  ranges_[begin] = {begin, bytes, Owner::host};
}

bool FakeMemory::begins_at(const void* memory, Owner owner) const {
  const auto found = ranges_.find(reinterpret_cast<std::uintptr_t>(memory));
  return found != ranges_.end() && found->second.owner == owner;
}

bool FakeMemory::release(void* memory, Owner owner) {
  if (!begins_at(memory, owner)) return false;
  const auto found = ranges_.find(reinterpret_cast<std::uintptr_t>(memory));
  if (owner == Owner::device) device_bytes_ -= found->second.bytes;
  if (owner != Owner::host) std::free(memory);
  ranges_.erase(found);
  last_ = {};
  return true;
}

const FakeMemory::Range* FakeMemory::find(std::uintptr_t begin, std::size_t bytes) const {
  auto next = ranges_.upper_bound(begin);
  if (next == ranges_.begin()) return nullptr;
  --next;
  return next->second.has(begin, bytes) ? &next->second : nullptr;
}

bool FakeMemory::is_device(std::uintptr_t begin, std::size_t bytes) const {
  const Range* const range = find(begin, bytes);
  return range != nullptr && range->owner == Owner::device;
}

bool FakeMemory::can_reach(std::uintptr_t begin, std::size_t bytes) const {
  if (last_.bytes != 0 && last_.has(begin, bytes)) return true;
  const Range* const range = find(begin, bytes);
  if (range == nullptr) return false;
  last_ = *range;
  return true;
}

FakeWorld& world() {
  return *the_world();
}

TurnLock& world_lock() {
  static TurnLock lock;
  return lock;
}

void forget_world() {
  the_world() = make_world();
}

int current_contexts() {
  return current_count;
}

CuResult begin_call(std::string_view symbol) {
  FakeCuda& state = world().state;
  ++state.calls;
  if (world().broken != 0) return world().broken;
  if (state.failing_call == 0) return 0;
  if (state.failing_symbol != nullptr && symbol != state.failing_symbol) return 0;
  if (--state.failing_call != 0) return 0;
  if (breaks_contexts(state.failing_result)) world().broken = state.failing_result;
  return state.failing_result;
}

CuResult begin_call_in_context(std::string_view symbol) {
  if (const CuResult result = begin_call(symbol); result != 0) return result;
  return current_count > 0 ? 0 : kInvalidContext;
}

extern "C" {

CuResult cuInit(unsigned flags) {
  FAKE_CALL(begin_call, "cuInit");
  return flags == 0 ? 0 : kInvalidValue;
}
CuResult cuDriverGetVersion(int* version) {
  FAKE_CALL(begin_call, "cuDriverGetVersion");
  *version = world().state.version;
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
  FAKE_CALL(begin_call, "cuDeviceGetCount");
  *count = world().state.device_count;
  return 0;
}
CuResult cuDeviceGet(CuDevice* device, int ordinal) {
  FAKE_CALL(begin_call, "cuDeviceGet");
  *device = ordinal;
  return ordinal >= 0 && ordinal < world().state.device_count ? 0 : kInvalidDevice;
}
CuResult cuDeviceGetName(char* name, int size, CuDevice) {
  FAKE_CALL(begin_call, "cuDeviceGetName");
  std::strncpy(name, world().state.name, static_cast<std::size_t>(size));
  return 0;
}
CuResult cuDeviceGetAttribute(int* value, CuDeviceAttribute attribute, CuDevice) {
  FAKE_CALL(begin_call, "cuDeviceGetAttribute");
  const int answer = attribute_of(attribute);
  if (answer < 0) return kInvalidValue;
  *value = answer;
  return 0;
}
CuResult cuDeviceTotalMem_v2(std::size_t* bytes, CuDevice) {
  FAKE_CALL(begin_call, "cuDeviceTotalMem_v2");
  *bytes = world().state.memory_bytes;
  return 0;
}
CuResult cuDevicePrimaryCtxRetain(CuContext* context, CuDevice) {
  FAKE_CALL(begin_call, "cuDevicePrimaryCtxRetain");
  ++world().state.retained_contexts;
  ++world().state.contexts_made;
  *context = &the_context;
  return 0;
}
// Also a broken context can be released.
CuResult cuDevicePrimaryCtxRelease_v2(CuDevice) {
  const std::scoped_lock hold(world_lock());
  --world().state.retained_contexts;
  return 0;
}
CuResult cuCtxPushCurrent_v2(CuContext context) {
  FAKE_CALL(begin_call, "cuCtxPushCurrent_v2");
  if (context != &the_context || world().state.retained_contexts == 0) return kInvalidContext;
  ++current_count;
  return 0;
}
CuResult cuCtxPopCurrent_v2(CuContext* context) {
  const std::scoped_lock hold(world_lock());
  if (current_count == 0) return kInvalidContext;
  --current_count;
  *context = &the_context;
  return 0;
}

CuResult cuMemAlloc_v2(CuPointer* memory, std::size_t bytes) {
  FAKE_CALL(begin_call_in_context, "cuMemAlloc_v2");
  return allocate(memory, bytes);
}
CuResult cuMemFree_v2(CuPointer memory) {
  FAKE_CALL(begin_call_in_context, "cuMemFree_v2");
  if (const CuResult result = finish_all(); result != 0) return result;
  return release(memory);
}
CuResult cuMemAllocAsync(CuPointer* memory, std::size_t bytes, CuStream) {
  FAKE_CALL(begin_call_in_context, "cuMemAllocAsync");
  ++world().state.pool_allocations;
  return allocate(memory, bytes);
}
CuResult cuMemFreeAsync(CuPointer memory, CuStream stream) {
  FAKE_CALL(begin_call_in_context, "cuMemFreeAsync");
  const void* const begin = reinterpret_cast<const void*>(memory);
  if (!world().memory.begins_at(begin, FakeMemory::Owner::device)) return kInvalidValue;
  queue(stream, [=] { release(memory); });
  return 0;
}
CuResult cuDeviceGetDefaultMemPool(CuMemoryPool* pool, CuDevice) {
  FAKE_CALL(begin_call, "cuDeviceGetDefaultMemPool");
  *pool = &the_pool;
  return 0;
}
CuResult cuMemPoolSetAttribute(CuMemoryPool pool, CuPoolAttribute attribute, void* value) {
  FAKE_CALL(begin_call, "cuMemPoolSetAttribute");
  if (pool != &the_pool || attribute != CuPoolAttribute::release_threshold) return kInvalidValue;
  std::memcpy(&world().state.release_threshold, value, sizeof world().state.release_threshold);
  return 0;
}
CuResult cuMemHostAlloc(void** memory, std::size_t bytes, unsigned) {
  FAKE_CALL(begin_call_in_context, "cuMemHostAlloc");
  if (bytes == 0) return kInvalidValue;
  if (bytes > world().state.memory_bytes) return kOutOfMemory;
  *memory = world().memory.allocate(bytes, FakeMemory::Owner::pinned);
  ++world().state.live_pinned;
  return 0;
}
CuResult cuMemFreeHost(void* memory) {
  FAKE_CALL(begin_call_in_context, "cuMemFreeHost");
  if (const CuResult result = finish_all(); result != 0) return result;
  if (!world().memory.release(memory, FakeMemory::Owner::pinned)) return kInvalidValue;
  --world().state.live_pinned;
  return 0;
}
CuResult cuMemHostGetDevicePointer_v2(CuPointer* pointer, void* memory, unsigned) {
  FAKE_CALL(begin_call_in_context, "cuMemHostGetDevicePointer_v2");
  *pointer = reinterpret_cast<CuPointer>(memory);
  return 0;
}
CuResult cuMemHostRegister_v2(void* memory, std::size_t bytes, unsigned) {
  FAKE_CALL(begin_call_in_context, "cuMemHostRegister_v2");
  world().memory.add(memory, bytes);
  return 0;
}
CuResult cuMemHostUnregister(void* memory) {
  FAKE_CALL(begin_call_in_context, "cuMemHostUnregister");
  if (const CuResult result = finish_all(); result != 0) return result;
  return world().memory.release(memory, FakeMemory::Owner::host) ? 0 : kInvalidValue;
}
CuResult cuMemcpyHtoDAsync_v2(CuPointer target, const void* source, std::size_t bytes,
                              CuStream stream) {
  FAKE_CALL(begin_call_in_context, "cuMemcpyHtoDAsync_v2");
  return copy(stream, target, reinterpret_cast<std::uintptr_t>(source), bytes);
}
CuResult cuMemcpyDtoHAsync_v2(void* target, CuPointer source, std::size_t bytes, CuStream stream) {
  FAKE_CALL(begin_call_in_context, "cuMemcpyDtoHAsync_v2");
  return copy(stream, reinterpret_cast<std::uintptr_t>(target), source, bytes);
}
CuResult cuMemcpyDtoDAsync_v2(CuPointer target, CuPointer source, std::size_t bytes,
                              CuStream stream) {
  FAKE_CALL(begin_call_in_context, "cuMemcpyDtoDAsync_v2");
  return copy(stream, target, source, bytes);
}
CuResult cuMemsetD32Async(CuPointer target, unsigned value, std::size_t words, CuStream stream) {
  FAKE_CALL(begin_call_in_context, "cuMemsetD32Async");
  if (!world().memory.is_device(target, words * 4)) return kInvalidValue;
  queue(stream, [=] {
    for (std::size_t i = 0; i < words; ++i) {
      std::memcpy(reinterpret_cast<void*>(target + 4 * i), &value, 4);
    }
  });
  return 0;
}
CuResult cuMemsetD8Async(CuPointer target, unsigned char value, std::size_t bytes,
                         CuStream stream) {
  FAKE_CALL(begin_call_in_context, "cuMemsetD8Async");
  if (!world().memory.is_device(target, bytes)) return kInvalidValue;
  queue(stream, [=] { std::memset(reinterpret_cast<void*>(target), value, bytes); });
  return 0;
}

}  // extern "C"

}  // namespace everkernel::test
