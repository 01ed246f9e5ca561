// libsimulated_cuda.so: a driver library that runs kernels with machine.hpp's Grid on host memory.
//
// Here are the functions for modules, events, graphs and launches; streams.hpp runs what they
// queue.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "simulator/cubin.hpp"
#include "simulator/host_driver.hpp"
#include "simulator/machine.hpp"
#include "simulator/streams.hpp"

namespace everkernel::backend::cuda {

// The objects behind the driver's handles.
struct CuFunctionOpaque {
  std::shared_ptr<const simulator::Cubin> cubin = {};
  const simulator::Kernel* kernel = nullptr;
  std::shared_ptr<const simulator::Program> program = {};
  int dynamic_bytes = 0;  // maximum of dynamic shared memory
  int preferred_percent = -1;
};
struct CuModuleOpaque {
  std::shared_ptr<const simulator::Cubin> cubin = {};
  std::map<std::string, CuFunctionOpaque, std::less<>> functions = {};
};
struct CuEventOpaque {
  std::shared_ptr<const simulator::Mark> mark = {};
  bool has_timing = true;
};
struct CuGraphNodeOpaque {};
struct CuGraphOpaque {
  std::vector<simulator::Start> starts = {};
};
struct CuGraphExecOpaque {
  std::vector<simulator::Start> starts = {};
};

}  // namespace everkernel::backend::cuda

namespace everkernel::simulator {
namespace {

using namespace backend::cuda;

// Resources of a multiprocessor and the units in which it allocates them.
constexpr unsigned kWarp = 32;
constexpr unsigned kWarpsPerSm = 64;
constexpr unsigned kQuarters = 4;
constexpr unsigned kRegistersPerQuarter = 16384;
constexpr unsigned kRegisterUnit = 256;
constexpr unsigned kSharedPerSm = 228 << 10;
constexpr unsigned kSharedUnit = 128;
constexpr unsigned kReservedShared = 1024;  // in every block
constexpr int kSharedPerBlock = 227 << 10;
constexpr int kUsualSharedPerBlock = 48 << 10;

struct Device {
  std::map<CuEvent, std::unique_ptr<CuEventOpaque>> events;
  std::map<CuModule, std::unique_ptr<CuModuleOpaque>> modules;
};
// Never destroyed, as the driver's state.
Device& the_device = *new Device;

// ---- kernels ----

// The number of warps whose registers fit on a multiprocessor.
unsigned warps_by_registers(const Kernel& kernel) {
  const unsigned registers =
      (kernel.register_count * kWarp + kRegisterUnit - 1) / kRegisterUnit * kRegisterUnit;
  return registers == 0 ? kWarpsPerSm : kRegistersPerQuarter / registers * kQuarters;
}

unsigned max_threads(const Kernel& kernel) {
  return std::min(kernel.max_threads, warps_by_registers(kernel) * kWarp);
}

unsigned blocks_per_sm(const Kernel& kernel, unsigned threads, std::size_t shared_bytes) {
  const std::size_t shared =
      (kernel.shared_bytes + shared_bytes + kReservedShared + kSharedUnit - 1) / kSharedUnit *
      kSharedUnit;
  if (threads == 0 || threads > max_threads(kernel)) return 0;
  const unsigned warps = (threads + kWarp - 1) / kWarp;
  const auto most = static_cast<unsigned>(number_from_environment("SIMULATED_BLOCKS_PER_SM", 2));
  return std::min({most, kWarpsPerSm / 2, kWarpsPerSm / warps, warps_by_registers(kernel) / warps,
                   static_cast<unsigned>(kSharedPerSm / shared)});
}

// Copies the arguments at the time of the launch.
std::vector<std::byte> parameters_of(const Kernel& kernel, void** arguments) {
  std::vector<std::byte> bytes(kernel.constants.size() - kernel.parameter_offset);
  for (std::size_t i = 0; i < kernel.parameters.size(); ++i) {
    const Parameter& parameter = kernel.parameters[i];
    std::memcpy(bytes.data() + parameter.offset, arguments[i], parameter.size);
  }
  return bytes;
}

CuResult make_start(const CuKernelNode& node, Start& start) {
  if (node.function == nullptr) return kInvalidHandle;
  const CuFunctionOpaque& function = *node.function;
  const bool is_flat =
      node.grid[1] == 1 && node.grid[2] == 1 && node.block[1] == 1 && node.block[2] == 1;
  if (!is_flat || node.extra != nullptr) {
    say("grids of more than one dimension and packed arguments are not supported");
    return kNotSupported;
  }
  const Kernel& kernel = *function.kernel;
  if (node.grid[0] == 0 || node.block[0] == 0 || node.block[0] > max_threads(kernel) ||
      node.shared_bytes > static_cast<unsigned>(function.dynamic_bytes) ||
      (node.arguments == nullptr && !kernel.parameters.empty())) {
    return kInvalidValue;
  }
  start = {.cubin = function.cubin,
           .kernel = function.kernel,
           .program = function.program,
           .launch = {.block_count = node.grid[0],
                      .thread_count = node.block[0],
                      .sm_count = static_cast<std::uint32_t>(driver().state.sm_count),
                      .shared_bytes = node.shared_bytes,
                      .instruction_limit = ~std::uint64_t{0}},
           .parameters = parameters_of(kernel, node.arguments)};
  return 0;
}

// The driver's interface has no length for an image; its ELF header says where it ends.
std::span<const std::byte> image_bytes(const void* image) {
  const auto* const bytes = static_cast<const std::byte*>(image);
  const auto number = [&]<class T>(std::size_t at, T value) -> std::uint64_t {
    std::memcpy(&value, bytes + at, sizeof value);
    return value;
  };
  using std::uint16_t, std::uint64_t;
  const uint64_t programs_end =
      number(0x20, uint64_t{}) + number(0x36, uint16_t{}) * number(0x38, uint16_t{});
  const uint64_t sections_end =
      number(0x28, uint64_t{}) + number(0x3A, uint16_t{}) * number(0x3C, uint16_t{});
  return {bytes, std::max({programs_end, sections_end, uint64_t{64}})};
}

}  // namespace

void set_up(DriverState& state) {
  state.name = "Simulated GPU";
  state.sm_count = number_from_environment("SIMULATED_SM_COUNT", 2);
  state.shared_bytes_per_sm = static_cast<int>(kSharedPerSm);
  state.takes_pageable_memory = true;
}

extern "C" {

// ---- code ----

CuResult cuModuleLoadData(CuModule* module, const void* image) {
  DRIVER_CALL(begin_call_in_context, "cuModuleLoadData");
  constexpr std::array<unsigned char, 4> kMagic = {0x7F, 'E', 'L', 'F'};
  if (std::memcmp(image, kMagic.data(), kMagic.size()) != 0) return kNoBinary;
  auto cubin = Cubin::load(image_bytes(image));
  if (!cubin) {
    say(cubin.error().message);
    return cubin.error().code == Code::unsupported ? kNoBinary : kInvalidImage;
  }
  *module = make(the_device.modules, driver().state.live_modules);
  (*module)->cubin = std::make_shared<const Cubin>(std::move(*cubin));
  return 0;
}
CuResult cuModuleUnload(CuModule module) {
  DRIVER_CALL(begin_call_in_context, "cuModuleUnload");
  if (const CuResult result = finish_all("cuModuleUnload"); result != 0) return result;
  return destroy(the_device.modules, driver().state.live_modules, module);
}
CuResult cuModuleGetFunction(CuFunction* function, CuModule module, const char* name) {
  DRIVER_CALL(begin_call_in_context, "cuModuleGetFunction");
  if (!the_device.modules.contains(module)) return kInvalidHandle;
  auto known = module->functions.find(name);
  if (known == module->functions.end()) {
    const auto found = module->cubin->kernels().find(std::string_view(name));
    if (found == module->cubin->kernels().end()) return kNotFound;
    auto program = read_program(found->second);
    if (!program) {
      say(fmt::format("{}: {}", name, program.error().message));
      return kNotSupported;
    }
    const int most = kUsualSharedPerBlock - static_cast<int>(found->second.shared_bytes);
    known = module->functions
                .emplace(name, CuFunctionOpaque{.cubin = module->cubin,
                                                .kernel = &found->second,
                                                .program = std::move(*program),
                                                .dynamic_bytes = std::max(most, 0)})
                .first;
  }
  *function = &known->second;
  return 0;
}
CuResult cuFuncGetAttribute(int* value, CuFunctionAttribute attribute, CuFunction function) {
  DRIVER_CALL(begin_call_in_context, "cuFuncGetAttribute");
  const Kernel& kernel = *function->kernel;
  switch (attribute) {
    case CuFunctionAttribute::max_threads_per_block:
      *value = static_cast<int>(max_threads(kernel));
      return 0;
    case CuFunctionAttribute::shared_bytes:
      *value = static_cast<int>(kernel.shared_bytes);
      return 0;
    case CuFunctionAttribute::local_bytes:
      *value = static_cast<int>(kernel.local_bytes);
      return 0;
    case CuFunctionAttribute::register_count:
      *value = static_cast<int>(kernel.register_count);
      return 0;
    case CuFunctionAttribute::max_dynamic_shared_bytes:
      *value = function->dynamic_bytes;
      return 0;
    case CuFunctionAttribute::preferred_shared_percent:
      *value = function->preferred_percent;
      return 0;
  }
  return kInvalidValue;
}
CuResult cuFuncSetAttribute(CuFunction function, CuFunctionAttribute attribute, int value) {
  DRIVER_CALL(begin_call_in_context, "cuFuncSetAttribute");
  const int most = kSharedPerBlock - static_cast<int>(function->kernel->shared_bytes);
  if (attribute == CuFunctionAttribute::max_dynamic_shared_bytes && value >= 0 && value <= most) {
    function->dynamic_bytes = value;
    return 0;
  }
  if (attribute == CuFunctionAttribute::preferred_shared_percent && value >= -1 && value <= 100) {
    function->preferred_percent = value;
    return 0;
  }
  return kInvalidValue;
}
CuResult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CuFunction function, int threads,
                                                     std::size_t shared_bytes) {
  DRIVER_CALL(begin_call_in_context, "cuOccupancyMaxActiveBlocksPerMultiprocessor");
  if (threads <= 0) return kInvalidValue;
  *blocks = static_cast<int>(
      blocks_per_sm(*function->kernel, static_cast<unsigned>(threads), shared_bytes));
  return 0;
}
CuResult cuLaunchKernel(CuFunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                        unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                        CuStream stream, void** arguments, void** extra) {
  DRIVER_CALL(begin_call_in_context, "cuLaunchKernel");
  if (!is_stream(stream)) return kInvalidHandle;
  Start start;
  const CuResult result = make_start({.function = function,
                                      .grid = {grid_x, grid_y, grid_z},
                                      .block = {block_x, block_y, block_z},
                                      .shared_bytes = shared_bytes,
                                      .arguments = arguments,
                                      .extra = extra},
                                     start);
  if (result == 0) queue_launch(stream, std::move(start));
  return result;
}

// ---- streams and events ----

CuResult cuStreamCreate(CuStream* stream, unsigned flags) {
  DRIVER_CALL(begin_call_in_context, "cuStreamCreate");
  if (flags != kCuStreamNonBlocking) return kInvalidValue;
  *stream = make_stream();
  ++driver().state.live_streams;
  return 0;
}
CuResult cuStreamDestroy_v2(CuStream stream) {
  DRIVER_CALL(begin_call_in_context, "cuStreamDestroy_v2");
  if (!is_stream(stream)) return kInvalidHandle;
  destroy_stream(stream);
  --driver().state.live_streams;
  return 0;
}
CuResult cuStreamQuery(CuStream stream) {
  DRIVER_CALL(begin_call_in_context, "cuStreamQuery");
  if (!is_stream(stream)) return kInvalidHandle;
  return look([&] { return is_idle(stream); });
}
CuResult cuStreamSynchronize(CuStream stream) {
  DRIVER_CALL(begin_call_in_context, "cuStreamSynchronize");
  if (!is_stream(stream)) return kInvalidHandle;
  return wait_until([mark = put_mark(stream)] { return mark->is_reached; });
}
CuResult cuStreamWaitEvent(CuStream stream, CuEvent event, unsigned) {
  DRIVER_CALL(begin_call_in_context, "cuStreamWaitEvent");
  if (!is_stream(stream) || !the_device.events.contains(event)) return kInvalidHandle;
  if (event->mark == nullptr) return 0;
  queue_step(stream, [mark = event->mark] { return mark->is_reached; });
  return 0;
}
CuResult cuEventCreate(CuEvent* event, unsigned flags) {
  DRIVER_CALL(begin_call_in_context, "cuEventCreate");
  *event = make(the_device.events, driver().state.live_events);
  (*event)->has_timing = (flags & kCuEventDisableTiming) == 0;
  return 0;
}
CuResult cuEventRecord(CuEvent event, CuStream stream) {
  DRIVER_CALL(begin_call_in_context, "cuEventRecord");
  if (!is_stream(stream) || !the_device.events.contains(event)) return kInvalidHandle;
  event->mark = put_mark(stream);
  return 0;
}
CuResult cuEventQuery(CuEvent event) {
  DRIVER_CALL(begin_call_in_context, "cuEventQuery");
  if (!the_device.events.contains(event)) return kInvalidHandle;
  return look([mark = event->mark] { return mark == nullptr || mark->is_reached; });
}
CuResult cuEventSynchronize(CuEvent event) {
  DRIVER_CALL(begin_call_in_context, "cuEventSynchronize");
  if (!the_device.events.contains(event)) return kInvalidHandle;
  return wait_until([mark = event->mark] { return mark == nullptr || mark->is_reached; });
}
CuResult cuEventElapsedTime(float* milliseconds, CuEvent begin, CuEvent end) {
  DRIVER_CALL(begin_call_in_context, "cuEventElapsedTime");
  for (const CuEvent event : {begin, end}) {
    if (!the_device.events.contains(event) || !event->has_timing || event->mark == nullptr) {
      return kInvalidHandle;
    }
    if (!event->mark->is_reached) return kCuNotReady;
  }
  const std::chrono::duration<float, std::milli> time = end->mark->time - begin->mark->time;
  *milliseconds = time.count();
  return 0;
}
CuResult cuEventDestroy_v2(CuEvent event) {
  DRIVER_CALL(begin_call_in_context, "cuEventDestroy_v2");
  return destroy(the_device.events, driver().state.live_events, event);
}

// ---- graphs ----

CuResult cuGraphCreate(CuGraph* graph, unsigned) {
  DRIVER_CALL(begin_call_in_context, "cuGraphCreate");
  *graph = new CuGraphOpaque;
  return 0;
}
// A node can depend only on nodes added before it, so running nodes in the order of addition is
// correct. A handle is the node's number, not a pointer.
CuResult cuGraphAddKernelNode_v2(CuGraphNode* node, CuGraph graph, const CuGraphNode* dependencies,
                                 std::size_t dependency_count, const CuKernelNode* parameters) {
  DRIVER_CALL(begin_call_in_context, "cuGraphAddKernelNode_v2");
  for (const CuGraphNode other : std::span(dependencies, dependency_count)) {
    const auto number = reinterpret_cast<std::uintptr_t>(other);
    if (number == 0 || number > graph->starts.size()) return kInvalidValue;
  }
  Start start;
  if (const CuResult result = make_start(*parameters, start); result != 0) return result;
  graph->starts.push_back(std::move(start));
  *node = reinterpret_cast<CuGraphNode>(graph->starts.size());
  return 0;
}
CuResult cuGraphInstantiateWithFlags(CuGraphExec* executable, CuGraph graph, unsigned long long) {
  DRIVER_CALL(begin_call_in_context, "cuGraphInstantiateWithFlags");
  *executable = new CuGraphExecOpaque{graph->starts};
  return 0;
}
CuResult cuGraphUpload(CuGraphExec, CuStream stream) {
  DRIVER_CALL(begin_call_in_context, "cuGraphUpload");
  return is_stream(stream) ? 0 : kInvalidHandle;
}
CuResult cuGraphLaunch(CuGraphExec executable, CuStream stream) {
  DRIVER_CALL(begin_call_in_context, "cuGraphLaunch");
  if (!is_stream(stream)) return kInvalidHandle;
  for (const Start& start : executable->starts) queue_launch(stream, start);
  return 0;
}
CuResult cuGraphExecDestroy(CuGraphExec executable) {
  DRIVER_CALL(begin_call_in_context, "cuGraphExecDestroy");
  delete executable;
  return 0;
}
CuResult cuGraphDestroy(CuGraph graph) {
  DRIVER_CALL(begin_call_in_context, "cuGraphDestroy");
  delete graph;
  return 0;
}

}  // extern "C"

}  // namespace everkernel::simulator
