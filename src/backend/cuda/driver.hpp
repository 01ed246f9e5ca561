// NVIDIA's driver library, libcuda, opened at run time. The declarations here replace cuda.h, so
// that the build needs no CUDA toolkit and a program starts on machines without libcuda.
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

// Results that the code compares with. cuda_error.cpp has all of them.
inline constexpr CuResult kCuSuccess = 0;
inline constexpr CuResult kCuNotReady = 600;

inline constexpr unsigned kCuStreamNonBlocking = 1;
inline constexpr unsigned kCuEventDisableTiming = 2;
inline constexpr unsigned kCuHostAllocPortable = 1;
inline constexpr unsigned kCuHostAllocMapped = 2;

// The values of these enumerations are those of cuda.h.
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

// A kernel node of a graph, in the layout of CUDA_KERNEL_NODE_PARAMS.
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

// The oldest driver that has every function: CUDA 12.0, as cuDriverGetVersion encodes it.
inline constexpr int kOldestDriverVersion = 12000;

// The functions of the driver, by their documented names. Copies are cheap and valid until the
// process ends: libcuda is never closed.
struct Driver {
#define EVERKERNEL_DRIVER_FUNCTION(name, symbol, parameters) CuResult(*name) parameters = nullptr
#include "backend/cuda/driver_functions.inl"
#undef EVERKERNEL_DRIVER_FUNCTION

  int version = 0;  // 12040 is CUDA 12.4

  // Opens the library and initializes the driver. Fails with `unsupported`, or with the error of
  // cuInit. Message and hint are written for the user.
  static Result<Driver> load();
};

}  // namespace everkernel::backend::cuda
