// libfake_cuda.so: a scripted driver library in place of libcuda. fake_cuda.hpp describes it.
#include "cuda/fake_cuda.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>

#include "simulator/host_driver.hpp"

namespace everkernel::backend::cuda {

// The objects behind the driver's handles.
struct CuModuleOpaque {};
struct CuFunctionOpaque {};
struct CuGraphOpaque {};
struct CuGraphNodeOpaque {};
struct CuGraphExecOpaque {};
struct StreamOperation {
  std::function<void()> run = {};
  bool is_kernel = false;
};
struct CuStreamOpaque {
  std::deque<StreamOperation> operations = {};
  std::uint64_t done_count = 0;
  std::uint64_t queued_count = 0;
};
struct CuEventOpaque {
  CuStreamOpaque* stream = nullptr;
  std::uint64_t position = 0;
};

}  // namespace everkernel::backend::cuda

namespace everkernel::simulator {
namespace {

using namespace backend::cuda;

struct Objects {
  std::map<CuStream, std::unique_ptr<CuStreamOpaque>> streams;
  std::map<CuEvent, std::unique_ptr<CuEventOpaque>> events;
  std::map<CuModule, std::unique_ptr<CuModuleOpaque>> modules;
};

Objects the_objects;
CuFunctionOpaque the_function;

// Whether the first operation of a stream is a kernel that stays.
bool has_kernel_that_stays(const CuStreamOpaque& stream) {
  return driver().state.kernels_stay && !stream.operations.empty() &&
         stream.operations.front().is_kernel;
}

// Each query of a stream finishes a few of its operations.
void look_at(CuStream stream) {
  for (int i = 0; i < driver().state.operations_per_look && !stream->operations.empty(); ++i) {
    if (has_kernel_that_stays(*stream)) return;
    stream->operations.front().run();
    stream->operations.pop_front();
    ++stream->done_count;
  }
}

}  // namespace

// Programs that a test starts are configured by the environment.
void set_up(DriverState& state) {
  const char* const count = std::getenv("FAKE_CUDA_DEVICE_COUNT");
  if (count != nullptr) state.device_count = std::atoi(count);
}

void queue(CuStream stream, std::function<void()> operation) {
  stream->operations.push_back({.run = std::move(operation)});
  ++stream->queued_count;
}

// Does not wait: a test frees memory while its device hangs.
CuResult finish_all(std::string_view) {
  for (const auto& [stream, owned] : the_objects.streams) {
    if (has_kernel_that_stays(*stream)) {
      ++driver().state.waits_for_kernels;
      break;
    }
  }
  return 0;
}

extern "C" {

DriverState* fake_cuda_state() {
  driver().state.current_contexts = current_contexts();
  return &driver().state;
}

void fake_cuda_lock() {
  driver_lock().lock();
}
void fake_cuda_unlock() {
  driver_lock().unlock();
}

void fake_cuda_reset() {
  const std::scoped_lock hold(driver_lock());
  the_objects = {};
  reset_driver();
}

CuResult cuModuleLoadData(CuModule* module, const void* image) {
  DRIVER_CALL(begin_call_in_context, "cuModuleLoadData");
  if (driver().state.refused_images > 0) {
    --driver().state.refused_images;
    return kNoBinary;
  }
  const bool is_cubin = std::memcmp(image,
                                    "\x7F"
                                    "ELF",
                                    4) == 0;
  const bool is_ptx = std::memcmp(image, "//", 2) == 0;
  if (!is_cubin && !is_ptx) return kInvalidImage;
  *module = make(the_objects.modules, driver().state.live_modules);
  return 0;
}
CuResult cuModuleUnload(CuModule module) {
  DRIVER_CALL(begin_call_in_context, "cuModuleUnload");
  return destroy(the_objects.modules, driver().state.live_modules, module);
}
CuResult cuModuleGetFunction(CuFunction* function, CuModule, const char* name) {
  DRIVER_CALL(begin_call_in_context, "cuModuleGetFunction");
  *function = &the_function;
  return std::string_view(name).starts_with("everkernel_") ? 0 : kNotFound;
}
CuResult cuFuncGetAttribute(int* value, CuFunctionAttribute, CuFunction) {
  DRIVER_CALL(begin_call_in_context, "cuFuncGetAttribute");
  *value = 32;
  return 0;
}
CuResult cuFuncSetAttribute(CuFunction, CuFunctionAttribute, int) {
  DRIVER_CALL(begin_call_in_context, "cuFuncSetAttribute");
  return 0;
}
CuResult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CuFunction, int threads,
                                                     std::size_t) {
  DRIVER_CALL(begin_call_in_context, "cuOccupancyMaxActiveBlocksPerMultiprocessor");
  *blocks = 2048 / std::max(threads, 1);
  return 0;
}
CuResult cuLaunchKernel(CuFunction function, unsigned grid_x, unsigned, unsigned, unsigned block_x,
                        unsigned, unsigned, unsigned shared_bytes, CuStream stream,
                        void** arguments, void**) {
  DRIVER_CALL(begin_call_in_context, "cuLaunchKernel");
  if (function != &the_function) return kInvalidValue;
  driver().state.launched_blocks = grid_x;
  driver().state.launched_threads = block_x;
  driver().state.launched_shared_bytes = shared_bytes;
  for (std::size_t i = 0; i < driver().state.argument_count; ++i) {
    std::memcpy(&driver().state.launched_arguments[i], arguments[i], sizeof(std::uint32_t));
  }
  if (driver().state.at_launch != nullptr) {
    driver().state.at_launch(driver().state.at_launch_argument);
  }
  stream->operations.push_back({.run = [] {}, .is_kernel = true});
  ++stream->queued_count;
  return 0;
}

CuResult cuStreamCreate(CuStream* stream, unsigned flags) {
  DRIVER_CALL(begin_call_in_context, "cuStreamCreate");
  if (flags != kCuStreamNonBlocking) return kInvalidValue;
  *stream = make(the_objects.streams, driver().state.live_streams);
  return 0;
}
CuResult cuStreamDestroy_v2(CuStream stream) {
  DRIVER_CALL(begin_call_in_context, "cuStreamDestroy_v2");
  if (!the_objects.streams.contains(stream)) return kInvalidHandle;
  for (const auto& operation : stream->operations) operation.run();
  return destroy(the_objects.streams, driver().state.live_streams, stream);
}
CuResult cuStreamQuery(CuStream stream) {
  DRIVER_CALL(begin_call_in_context, "cuStreamQuery");
  look_at(stream);
  return stream->operations.empty() ? 0 : kCuNotReady;
}
CuResult cuStreamSynchronize(CuStream stream) {
  DRIVER_CALL(begin_call_in_context, "cuStreamSynchronize");
  while (!stream->operations.empty() && !has_kernel_that_stays(*stream)) look_at(stream);
  return 0;
}
CuResult cuStreamWaitEvent(CuStream, CuEvent, unsigned) {
  DRIVER_CALL(begin_call_in_context, "cuStreamWaitEvent");
  return 0;
}
CuResult cuEventCreate(CuEvent* event, unsigned) {
  DRIVER_CALL(begin_call_in_context, "cuEventCreate");
  *event = make(the_objects.events, driver().state.live_events);
  return 0;
}
CuResult cuEventRecord(CuEvent event, CuStream stream) {
  DRIVER_CALL(begin_call_in_context, "cuEventRecord");
  *event = {stream, stream->queued_count};
  return 0;
}
CuResult cuEventQuery(CuEvent event) {
  DRIVER_CALL(begin_call_in_context, "cuEventQuery");
  if (event->stream == nullptr) return 0;
  if (event->stream->done_count < event->position) look_at(event->stream);
  return event->stream->done_count >= event->position ? 0 : kCuNotReady;
}
CuResult cuEventSynchronize(CuEvent event) {
  DRIVER_CALL(begin_call_in_context, "cuEventSynchronize");
  while (event->stream != nullptr && event->stream->done_count < event->position) {
    look_at(event->stream);
  }
  return 0;
}
CuResult cuEventElapsedTime(float* milliseconds, CuEvent, CuEvent) {
  DRIVER_CALL(begin_call_in_context, "cuEventElapsedTime");
  *milliseconds = 1;
  return 0;
}
CuResult cuEventDestroy_v2(CuEvent event) {
  DRIVER_CALL(begin_call_in_context, "cuEventDestroy_v2");
  return destroy(the_objects.events, driver().state.live_events, event);
}

CuResult cuGraphCreate(CuGraph* graph, unsigned) {
  DRIVER_CALL(begin_call_in_context, "cuGraphCreate");
  *graph = new CuGraphOpaque;
  return 0;
}
CuResult cuGraphAddKernelNode_v2(CuGraphNode* node, CuGraph, const CuGraphNode*, std::size_t,
                                 const CuKernelNode*) {
  DRIVER_CALL(begin_call_in_context, "cuGraphAddKernelNode_v2");
  *node = nullptr;
  return 0;
}
CuResult cuGraphInstantiateWithFlags(CuGraphExec* executable, CuGraph, unsigned long long) {
  DRIVER_CALL(begin_call_in_context, "cuGraphInstantiateWithFlags");
  *executable = new CuGraphExecOpaque;
  return 0;
}
CuResult cuGraphUpload(CuGraphExec, CuStream) {
  DRIVER_CALL(begin_call_in_context, "cuGraphUpload");
  return 0;
}
CuResult cuGraphLaunch(CuGraphExec, CuStream stream) {
  DRIVER_CALL(begin_call_in_context, "cuGraphLaunch");
  queue(stream, [] {});
  return 0;
}
CuResult cuGraphExecDestroy(CuGraphExec executable) {
  DRIVER_CALL(begin_call_in_context, "cuGraphExecDestroy");
  delete executable;
  return 0;
}
// libfake_cuda_without_graphs.so lacks one function, for the test of a driver that is too old.
#if !defined(FAKE_CUDA_WITHOUT_GRAPHS)
CuResult cuGraphDestroy(CuGraph graph) {
  DRIVER_CALL(begin_call_in_context, "cuGraphDestroy");
  delete graph;
  return 0;
}
#endif

}  // extern "C"

}  // namespace everkernel::simulator
