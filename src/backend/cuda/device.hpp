// Properties of a device, read without creating a context on it.
#pragma once

#include <cstdint>
#include <string>

#include "backend/cuda/driver.hpp"
#include "everkernel/backend/capabilities.hpp"

namespace everkernel::backend::cuda {

// The oldest supported compute capability. It introduced the warp-wide reductions that the
// megakernel uses.
inline constexpr int kOldestArchitecture = 80;

// A device as the driver describes it.
struct DeviceFacts {
  CuDevice device = 0;
  std::string name = {};
  int architecture = 0;  // 90 is compute capability 9.0
  Word sm_count = 0;
  Word max_threads_per_sm = 0;
  Word max_threads_per_block = 0;
  Word max_shared_bytes_per_sm = 0;
  Word max_shared_bytes_per_block = 0;  // for kernels that opt in
  Word max_registers_per_sm = 0;
  std::uint64_t memory_bytes = 0;
  bool has_kernel_timeout = false;  // the driver ends kernels that take seconds
  bool can_map_host_memory = false;
  bool has_host_native_atomics = false;
  bool has_only_partial_host_native_atomics = false;
  bool has_pageable_memory_access = false;
  bool has_concurrent_managed_access = false;
  bool has_cooperative_launch = false;
  bool has_memory_pools = false;

  // Threads that can be resident on the device at one time.
  Word max_worker_count() const { return sm_count * max_threads_per_sm; }
};

// Reads the properties of device `ordinal`. Fails with `unsupported` if there is no such device, or
// if it is too old.
Result<DeviceFacts> probe_device(const Driver& driver, int ordinal);

}  // namespace everkernel::backend::cuda
