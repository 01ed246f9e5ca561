// NVIDIA's driver, libcuda, by declarations of our own: nothing of CUDA is needed to build, and a
// machine without it learns why there is no CUDA backend.
#pragma once

#include <cstddef>
#include <cstdint>

#include "everkernel/base/result.hpp"

namespace everkernel::backend::cuda {

using CuResult = int;
using CuDevice = int;
using CuPointer = unsigned long long;
using CuContext = struct CuContextOpaque*;
using CuModule = struct CuModuleOpaque*;
using CuFunction = struct CuFunctionOpaque*;
using CuStream = struct CuStreamOpaque*;
using CuEvent = struct CuEventOpaque*;
using CuMemoryPool = struct CuMemoryPoolOpaque*;
using CuGraph = struct CuGraphOpaque*;
using CuGraphNode = struct CuGraphNodeOpaque*;
using CuGraphExec = struct CuGraphExecOpaque*;

// Results that are told apart by more than cuda_error.cpp.
inline constexpr CuResult kCuSuccess = 0;
inline constexpr CuResult kCuNotReady = 600;

inline constexpr unsigned kCuStreamNonBlocking = 1;
inline constexpr unsigned kCuEventDisableTiming = 2;
inline constexpr unsigned kCuHostAllocPortable = 1;
inline constexpr unsigned kCuHostAllocMapped = 2;

// The numbers of these are the driver's.
enum class CuDeviceAttribute : int {
  max_threads_per_block = 1,
  sm_count = 16,
  kernel_exec_timeout = 17,
  can_map_host_memory = 19,
  max_threads_per_sm = 39,
  compute_capability_major = 75,
  compute_capability_minor = 76,
  max_shared_bytes_per_sm = 81,
  max_registers_per_sm = 82,
  host_native_atomics = 86,
  pageable_memory_access = 88,
  concurrent_managed_access = 89,
  cooperative_launch = 95,
  max_shared_bytes_per_block = 97,
  memory_pools = 115,
  only_partial_host_native_atomics = 147,
};

enum class CuFunctionAttribute : int {
  max_threads_per_block = 0,
  shared_bytes = 1,
  local_bytes = 3,
  register_count = 4,
  max_dynamic_shared_bytes = 8,
  preferred_shared_percent = 9,
};

enum class CuPoolAttribute : int { release_threshold = 4 };

// A kernel in a graph, as the driver lays it out.
struct CuKernelNode {
  CuFunction function = nullptr;
  unsigned grid[3] = {1, 1, 1};
  unsigned block[3] = {1, 1, 1};
  unsigned shared_bytes = 0;
  void** arguments = nullptr;
  void** extra = nullptr;
  void* kernel = nullptr;
  CuContext context = nullptr;
};
static_assert(sizeof(CuKernelNode) == 72);

// The oldest driver that has every function: CUDA 12.0, as cuDriverGetVersion counts.
inline constexpr int kOldestDriverVersion = 12000;

// The functions of the driver, by the names of its documentation. Plain pointers: a copy is as good
// as the original, and none of them ends before the process.
struct Driver {
#define EVERKERNEL_DRIVER_FUNCTION(name, symbol, parameters) CuResult(*name) parameters = nullptr
#include "backend/cuda/driver_functions.inl"
#undef EVERKERNEL_DRIVER_FUNCTION

  int version = 0;  // 12040 is CUDA 12.4

  // Opens the library and starts the driver. Fails with `unsupported`, or as cuInit does; message
  // and hint together are what a user needs to know.
  static Result<Driver> load();
};

}  // namespace everkernel::backend::cuda
