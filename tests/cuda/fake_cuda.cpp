// The library that stands for libcuda in tests. fake_cuda.hpp says what it is for.
#include "cuda/fake_cuda.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "backend/cuda/driver.hpp"

namespace everkernel::backend::cuda {

// What the handles point to.
struct CuContextOpaque {};
struct CuMemoryPoolOpaque {};
struct CuModuleOpaque {};
struct CuFunctionOpaque {};
struct CuGraphOpaque {};
struct CuGraphNodeOpaque {};
struct CuGraphExecOpaque {};
struct CuStreamOpaque {
  std::deque<std::function<void()>> operations = {};
  std::uint64_t done_count = 0;
  std::uint64_t queued_count = 0;
};
struct CuEventOpaque {
  CuStreamOpaque* stream = nullptr;
  std::uint64_t position = 0;
};

}  // namespace everkernel::backend::cuda

namespace {

using namespace everkernel::backend::cuda;
using everkernel::test::FakeCuda;

constexpr CuResult kInvalidValue = 1;
constexpr CuResult kOutOfMemory = 2;
constexpr CuResult kInvalidDevice = 101;
constexpr CuResult kInvalidImage = 200;
constexpr CuResult kInvalidContext = 201;
constexpr CuResult kNoBinary = 209;
constexpr CuResult kInvalidHandle = 400;
constexpr CuResult kNotFound = 500;
constexpr CuResult kIllegalAddress = 700;
constexpr int kGarbage = 0xA5;

using Ranges = std::map<std::uintptr_t, std::size_t>;

struct World {
  World() = default;
  World(const World&) = delete;
  World& operator=(const World&) = delete;
  // Frees also what a test that lost its device could not give back.
  ~World() {
    for (const Ranges* ranges : {&device_memory, &pinned_memory}) {
      for (const auto& [begin, bytes] : *ranges) std::free(reinterpret_cast<void*>(begin));
    }
  }

  FakeCuda state;
  CuResult broken = 0;  // what every call answers once a context is broken
  Ranges device_memory;
  Ranges pinned_memory;
  Ranges registered_memory;
  std::size_t used_bytes = 0;
  std::map<CuStream, std::unique_ptr<CuStreamOpaque>> streams;
  std::map<CuEvent, std::unique_ptr<CuEventOpaque>> events;
  std::map<CuModule, std::unique_ptr<CuModuleOpaque>> modules;
};

// A program that a test starts is told by its environment.
std::unique_ptr<World> make_world() {
  auto world = std::make_unique<World>();
  const char* const count = std::getenv("FAKE_CUDA_DEVICE_COUNT");
  if (count != nullptr) world->state.device_count = std::atoi(count);
  return world;
}

// Makes what a handle names.
template <class Object>
Object* make(std::map<Object*, std::unique_ptr<Object>>& objects, int& live_count) {
  auto object = std::make_unique<Object>();
  Object* const handle = object.get();
  objects.emplace(handle, std::move(object));
  ++live_count;
  return handle;
}

template <class Object>
CuResult destroy(std::map<Object*, std::unique_ptr<Object>>& objects, int& live_count,
                 Object* handle) {
  if (objects.erase(handle) == 0) return kInvalidHandle;
  --live_count;
  return 0;
}

std::recursive_mutex lock;
std::unique_ptr<World> the_world = make_world();
CuContextOpaque the_context;
CuMemoryPoolOpaque the_pool;
CuFunctionOpaque the_function;
thread_local int current_count = 0;

// Results after which the real driver answers nothing else any more.
bool breaks_contexts(CuResult result) {
  return result == 214 || (result >= 700 && result <= 719 && result != 701);
}

bool is_inside(const Ranges& memory, std::uintptr_t begin, std::size_t bytes) {
  auto next = memory.upper_bound(begin);
  if (next == memory.begin()) return false;
  --next;
  return begin - next->first <= next->second && bytes <= next->second - (begin - next->first);
}

// What every function begins with: counts, and fails where the test wants it.
CuResult begin_call(std::string_view symbol) {
  FakeCuda& state = the_world->state;
  ++state.calls;
  if (the_world->broken != 0) return the_world->broken;
  if (state.failing_call == 0) return 0;
  if (state.failing_symbol != nullptr && symbol != state.failing_symbol) return 0;
  if (--state.failing_call != 0) return 0;
  if (breaks_contexts(state.failing_result)) the_world->broken = state.failing_result;
  return state.failing_result;
}

CuResult begin_call_in_context(std::string_view symbol) {
  if (const CuResult result = begin_call(symbol); result != 0) return result;
  return current_count > 0 ? 0 : kInvalidContext;
}

void queue(CuStream stream, std::function<void()> operation) {
  stream->operations.push_back(std::move(operation));
  ++stream->queued_count;
}

// A look at a stream lets it get on a little.
void look_at(CuStream stream) {
  for (int i = 0; i < the_world->state.operations_per_look && !stream->operations.empty(); ++i) {
    stream->operations.front()();
    stream->operations.pop_front();
    ++stream->done_count;
  }
}

CuResult allocate(CuPointer* target, std::size_t bytes) {
  if (bytes == 0) return kInvalidValue;
  if (bytes > the_world->state.memory_bytes - the_world->used_bytes) return kOutOfMemory;
  void* const memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  std::memset(memory, kGarbage, bytes);
  the_world->device_memory[reinterpret_cast<std::uintptr_t>(memory)] = bytes;
  the_world->used_bytes += bytes;
  ++the_world->state.live_allocations;
  *target = reinterpret_cast<CuPointer>(memory);
  return 0;
}

CuResult release(CuPointer memory) {
  const auto found = the_world->device_memory.find(memory);
  if (found == the_world->device_memory.end()) return kInvalidValue;
  the_world->used_bytes -= found->second;
  --the_world->state.live_allocations;
  std::free(reinterpret_cast<void*>(found->first));
  the_world->device_memory.erase(found);
  return 0;
}

// The device reaches its own memory, and pinned memory of the host.
CuResult copy(CuStream stream, std::uintptr_t target, std::uintptr_t source, std::size_t bytes) {
  const auto can_reach = [bytes](std::uintptr_t begin) {
    return is_inside(the_world->device_memory, begin, bytes) ||
           is_inside(the_world->pinned_memory, begin, bytes) ||
           is_inside(the_world->registered_memory, begin, bytes);
  };
  if (!can_reach(target) || !can_reach(source)) {
    the_world->broken = kIllegalAddress;
    return kIllegalAddress;
  }
  queue(stream, [=] {
    std::memcpy(reinterpret_cast<void*>(target), reinterpret_cast<const void*>(source), bytes);
  });
  return 0;
}

int attribute_of(CuDeviceAttribute attribute) {
  const FakeCuda& state = the_world->state;
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
    case CuDeviceAttribute::max_shared_bytes_per_block:
      return 200 << 10;
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

extern "C" {

FakeCuda* fake_cuda_state() {
  the_world->state.current_contexts = current_count;
  return &the_world->state;
}

void fake_cuda_reset() {
  const std::scoped_lock hold(lock);
  the_world = make_world();
}

// The first line of every function. A macro, because it returns.
#define FAKE_CALL(begin, symbol)                \
  const std::scoped_lock hold(lock);            \
  do {                                          \
    const CuResult fake_result = begin(symbol); \
    if (fake_result != 0) return fake_result;   \
  } while (false)

CuResult cuInit(unsigned flags) {
  FAKE_CALL(begin_call, "cuInit");
  return flags == 0 ? 0 : kInvalidValue;
}
CuResult cuDriverGetVersion(int* version) {
  FAKE_CALL(begin_call, "cuDriverGetVersion");
  *version = the_world->state.version;
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
  *count = the_world->state.device_count;
  return 0;
}
CuResult cuDeviceGet(CuDevice* device, int ordinal) {
  FAKE_CALL(begin_call, "cuDeviceGet");
  *device = ordinal;
  return ordinal >= 0 && ordinal < the_world->state.device_count ? 0 : kInvalidDevice;
}
CuResult cuDeviceGetName(char* name, int size, CuDevice) {
  FAKE_CALL(begin_call, "cuDeviceGetName");
  std::strncpy(name, "Fake GPU", static_cast<std::size_t>(size));
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
  *bytes = the_world->state.memory_bytes;
  return 0;
}
CuResult cuDevicePrimaryCtxRetain(CuContext* context, CuDevice) {
  FAKE_CALL(begin_call, "cuDevicePrimaryCtxRetain");
  ++the_world->state.retained_contexts;
  ++the_world->state.contexts_made;
  *context = &the_context;
  return 0;
}
// Also a broken context can be released.
CuResult cuDevicePrimaryCtxRelease_v2(CuDevice) {
  const std::scoped_lock hold(lock);
  --the_world->state.retained_contexts;
  return 0;
}
CuResult cuCtxPushCurrent_v2(CuContext context) {
  FAKE_CALL(begin_call, "cuCtxPushCurrent_v2");
  if (context != &the_context || the_world->state.retained_contexts == 0) return kInvalidContext;
  ++current_count;
  return 0;
}
CuResult cuCtxPopCurrent_v2(CuContext* context) {
  const std::scoped_lock hold(lock);
  if (current_count == 0) return kInvalidContext;
  --current_count;
  *context = &the_context;
  return 0;
}

CuResult cuModuleLoadData(CuModule* module, const void* image) {
  FAKE_CALL(begin_call_in_context, "cuModuleLoadData");
  if (the_world->state.refused_images > 0) {
    --the_world->state.refused_images;
    return kNoBinary;
  }
  const bool is_cubin = std::memcmp(image,
                                    "\x7F"
                                    "ELF",
                                    4) == 0;
  const bool is_ptx = std::memcmp(image, "//", 2) == 0;
  if (!is_cubin && !is_ptx) return kInvalidImage;
  *module = make(the_world->modules, the_world->state.live_modules);
  return 0;
}
CuResult cuModuleUnload(CuModule module) {
  FAKE_CALL(begin_call_in_context, "cuModuleUnload");
  return destroy(the_world->modules, the_world->state.live_modules, module);
}
CuResult cuModuleGetFunction(CuFunction* function, CuModule, const char* name) {
  FAKE_CALL(begin_call_in_context, "cuModuleGetFunction");
  *function = &the_function;
  return std::string_view(name).starts_with("everkernel_") ? 0 : kNotFound;
}
CuResult cuFuncGetAttribute(int* value, CuFunctionAttribute, CuFunction) {
  FAKE_CALL(begin_call_in_context, "cuFuncGetAttribute");
  *value = 32;
  return 0;
}
CuResult cuFuncSetAttribute(CuFunction, CuFunctionAttribute, int) {
  FAKE_CALL(begin_call_in_context, "cuFuncSetAttribute");
  return 0;
}
CuResult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CuFunction, int threads,
                                                     std::size_t) {
  FAKE_CALL(begin_call_in_context, "cuOccupancyMaxActiveBlocksPerMultiprocessor");
  *blocks = 2048 / std::max(threads, 1);
  return 0;
}
CuResult cuLaunchKernel(CuFunction function, unsigned grid_x, unsigned, unsigned, unsigned block_x,
                        unsigned, unsigned, unsigned shared_bytes, CuStream stream,
                        void** arguments, void**) {
  FAKE_CALL(begin_call_in_context, "cuLaunchKernel");
  if (function != &the_function) return kInvalidValue;
  the_world->state.launched_blocks = grid_x;
  the_world->state.launched_threads = block_x;
  the_world->state.launched_shared_bytes = shared_bytes;
  for (std::size_t i = 0; i < the_world->state.argument_count; ++i) {
    std::memcpy(&the_world->state.launched_arguments[i], arguments[i], sizeof(std::uint32_t));
  }
  queue(stream, [] {});
  return 0;
}

CuResult cuStreamCreate(CuStream* stream, unsigned flags) {
  FAKE_CALL(begin_call_in_context, "cuStreamCreate");
  if (flags != kCuStreamNonBlocking) return kInvalidValue;
  *stream = make(the_world->streams, the_world->state.live_streams);
  return 0;
}
CuResult cuStreamDestroy_v2(CuStream stream) {
  FAKE_CALL(begin_call_in_context, "cuStreamDestroy_v2");
  if (!the_world->streams.contains(stream)) return kInvalidHandle;
  for (const auto& operation : stream->operations) operation();
  return destroy(the_world->streams, the_world->state.live_streams, stream);
}
CuResult cuStreamQuery(CuStream stream) {
  FAKE_CALL(begin_call_in_context, "cuStreamQuery");
  look_at(stream);
  return stream->operations.empty() ? 0 : kCuNotReady;
}
CuResult cuStreamSynchronize(CuStream stream) {
  FAKE_CALL(begin_call_in_context, "cuStreamSynchronize");
  while (!stream->operations.empty()) look_at(stream);
  return 0;
}
CuResult cuStreamWaitEvent(CuStream, CuEvent, unsigned) {
  FAKE_CALL(begin_call_in_context, "cuStreamWaitEvent");
  return 0;
}
CuResult cuEventCreate(CuEvent* event, unsigned) {
  FAKE_CALL(begin_call_in_context, "cuEventCreate");
  *event = make(the_world->events, the_world->state.live_events);
  return 0;
}
CuResult cuEventRecord(CuEvent event, CuStream stream) {
  FAKE_CALL(begin_call_in_context, "cuEventRecord");
  *event = {stream, stream->queued_count};
  return 0;
}
CuResult cuEventQuery(CuEvent event) {
  FAKE_CALL(begin_call_in_context, "cuEventQuery");
  if (event->stream == nullptr) return 0;
  if (event->stream->done_count < event->position) look_at(event->stream);
  return event->stream->done_count >= event->position ? 0 : kCuNotReady;
}
CuResult cuEventSynchronize(CuEvent event) {
  FAKE_CALL(begin_call_in_context, "cuEventSynchronize");
  while (event->stream != nullptr && event->stream->done_count < event->position) {
    look_at(event->stream);
  }
  return 0;
}
CuResult cuEventElapsedTime(float* milliseconds, CuEvent, CuEvent) {
  FAKE_CALL(begin_call_in_context, "cuEventElapsedTime");
  *milliseconds = 1;
  return 0;
}
CuResult cuEventDestroy_v2(CuEvent event) {
  FAKE_CALL(begin_call_in_context, "cuEventDestroy_v2");
  return destroy(the_world->events, the_world->state.live_events, event);
}

CuResult cuMemAlloc_v2(CuPointer* memory, std::size_t bytes) {
  FAKE_CALL(begin_call_in_context, "cuMemAlloc_v2");
  return allocate(memory, bytes);
}
CuResult cuMemFree_v2(CuPointer memory) {
  FAKE_CALL(begin_call_in_context, "cuMemFree_v2");
  return release(memory);
}
CuResult cuMemAllocAsync(CuPointer* memory, std::size_t bytes, CuStream) {
  FAKE_CALL(begin_call_in_context, "cuMemAllocAsync");
  ++the_world->state.pool_allocations;
  return allocate(memory, bytes);
}
CuResult cuMemFreeAsync(CuPointer memory, CuStream stream) {
  FAKE_CALL(begin_call_in_context, "cuMemFreeAsync");
  if (!the_world->device_memory.contains(memory)) return kInvalidValue;
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
  std::memcpy(&the_world->state.release_threshold, value,
              sizeof the_world->state.release_threshold);
  return 0;
}
CuResult cuMemHostAlloc(void** memory, std::size_t bytes, unsigned) {
  FAKE_CALL(begin_call_in_context, "cuMemHostAlloc");
  if (bytes == 0) return kInvalidValue;
  if (bytes > the_world->state.memory_bytes) return kOutOfMemory;
  *memory = std::malloc(bytes);
  std::memset(*memory, kGarbage, bytes);
  the_world->pinned_memory[reinterpret_cast<std::uintptr_t>(*memory)] = bytes;
  ++the_world->state.live_pinned;
  return 0;
}
CuResult cuMemFreeHost(void* memory) {
  FAKE_CALL(begin_call_in_context, "cuMemFreeHost");
  if (the_world->pinned_memory.erase(reinterpret_cast<std::uintptr_t>(memory)) == 0) {
    return kInvalidValue;
  }
  std::free(memory);
  --the_world->state.live_pinned;
  return 0;
}
CuResult cuMemHostGetDevicePointer_v2(CuPointer* pointer, void* memory, unsigned) {
  FAKE_CALL(begin_call_in_context, "cuMemHostGetDevicePointer_v2");
  *pointer = reinterpret_cast<CuPointer>(memory);
  return 0;
}
CuResult cuMemHostRegister_v2(void* memory, std::size_t bytes, unsigned) {
  FAKE_CALL(begin_call_in_context, "cuMemHostRegister_v2");
  the_world->registered_memory[reinterpret_cast<std::uintptr_t>(memory)] = bytes;
  return 0;
}
CuResult cuMemHostUnregister(void* memory) {
  FAKE_CALL(begin_call_in_context, "cuMemHostUnregister");
  return the_world->registered_memory.erase(reinterpret_cast<std::uintptr_t>(memory)) != 0
             ? 0
             : kInvalidValue;
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
  if (!is_inside(the_world->device_memory, target, words * 4)) return kInvalidValue;
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
  if (!is_inside(the_world->device_memory, target, bytes)) return kInvalidValue;
  queue(stream, [=] { std::memset(reinterpret_cast<void*>(target), value, bytes); });
  return 0;
}

CuResult cuGraphCreate(CuGraph* graph, unsigned) {
  FAKE_CALL(begin_call_in_context, "cuGraphCreate");
  *graph = new CuGraphOpaque;
  return 0;
}
CuResult cuGraphAddKernelNode_v2(CuGraphNode* node, CuGraph, const CuGraphNode*, std::size_t,
                                 const CuKernelNode*) {
  FAKE_CALL(begin_call_in_context, "cuGraphAddKernelNode_v2");
  *node = nullptr;
  return 0;
}
CuResult cuGraphInstantiateWithFlags(CuGraphExec* executable, CuGraph, unsigned long long) {
  FAKE_CALL(begin_call_in_context, "cuGraphInstantiateWithFlags");
  *executable = new CuGraphExecOpaque;
  return 0;
}
CuResult cuGraphUpload(CuGraphExec, CuStream) {
  FAKE_CALL(begin_call_in_context, "cuGraphUpload");
  return 0;
}
CuResult cuGraphLaunch(CuGraphExec, CuStream stream) {
  FAKE_CALL(begin_call_in_context, "cuGraphLaunch");
  queue(stream, [] {});
  return 0;
}
CuResult cuGraphExecDestroy(CuGraphExec executable) {
  FAKE_CALL(begin_call_in_context, "cuGraphExecDestroy");
  delete executable;
  return 0;
}
// A driver that lacks one function, for the test that finds it missing.
#if !defined(FAKE_CUDA_WITHOUT_GRAPHS)
CuResult cuGraphDestroy(CuGraph graph) {
  FAKE_CALL(begin_call_in_context, "cuGraphDestroy");
  delete graph;
  return 0;
}
#endif

}  // extern "C"
