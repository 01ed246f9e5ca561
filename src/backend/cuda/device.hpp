// What one device is and can do, asked without making a context on it.
#pragma once

#include <cstdint>
#include <string>

#include "backend/cuda/driver.hpp"
#include "everkernel/backend/capabilities.hpp"

namespace everkernel::backend::cuda {

// The oldest compute capability: workers use the reductions over a warp that came with it.
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
  Word max_shared_bytes_per_block = 0;  // for kernels that ask for it
  Word max_registers_per_sm = 0;
  std::uint64_t memory_bytes = 0;
  bool has_kernel_timeout = false;  // kernels that take seconds are ended
  bool can_map_host_memory = false;
  bool has_host_native_atomics = false;
  bool has_only_partial_host_native_atomics = false;
  bool has_pageable_memory_access = false;
  bool has_concurrent_managed_access = false;
  bool has_cooperative_launch = false;
  bool has_memory_pools = false;

  // Threads that can be on the device at one time.
  Word max_worker_count() const { return sm_count * max_threads_per_sm; }
};

// Asks for device `ordinal`. Fails with `unsupported` when there is none, or an old one.
Result<DeviceFacts> probe_device(const Driver& driver, int ordinal);

}  // namespace everkernel::backend::cuda
