// Reads the properties of a device from the driver.
#include "backend/cuda/device.hpp"

#include <fmt/format.h>

#include "backend/cuda/cuda_error.hpp"

namespace everkernel::backend::cuda {
namespace {

// Fails if there is no device with this ordinal.
Result<void> check_ordinal(const Driver& driver, int ordinal) {
  int count = 0;
  if (const CuResult result = driver.cuDeviceGetCount(&count); result != kCuSuccess) {
    return cuda_failure(driver, result, "cuDeviceGetCount");
  }
  if (count == 0) {
    return fail(Code::unsupported, "the NVIDIA driver sees no GPU",
                "install a GPU, or make one visible with CUDA_VISIBLE_DEVICES");
  }
  if (ordinal >= 0 && ordinal < count) return {};
  return fail(
      Code::unsupported,
      fmt::format("there is no GPU {}: the driver sees {} GPUs, counted from 0", ordinal, count),
      "nvidia-smi -L lists the devices");
}

// The value of an attribute; 0 if the driver is too old to know it.
int attribute(const Driver& driver, CuDevice device, CuDeviceAttribute name) {
  int value = 0;
  const CuResult result = driver.cuDeviceGetAttribute(&value, name, device);
  return result == kCuSuccess && value > 0 ? value : 0;
}

void read_attributes(const Driver& driver, DeviceFacts& facts) {
  const auto number = [&](CuDeviceAttribute name) { return attribute(driver, facts.device, name); };
  const auto count = [&](CuDeviceAttribute name) { return static_cast<Word>(number(name)); };
  const auto flag = [&](CuDeviceAttribute name) { return number(name) != 0; };
  using enum CuDeviceAttribute;
  facts.architecture = number(compute_capability_major) * 10 + number(compute_capability_minor);
  facts.sm_count = count(sm_count);
  facts.max_threads_per_sm = count(max_threads_per_sm);
  facts.max_threads_per_block = count(max_threads_per_block);
  facts.max_shared_bytes_per_sm = count(max_shared_bytes_per_sm);
  facts.max_shared_bytes_per_block = count(max_shared_bytes_per_block);
  facts.max_registers_per_sm = count(max_registers_per_sm);
  facts.has_kernel_timeout = flag(kernel_exec_timeout);
  facts.can_map_host_memory = flag(can_map_host_memory);
  facts.has_host_native_atomics = flag(host_native_atomics);
  facts.has_only_partial_host_native_atomics = flag(only_partial_host_native_atomics);
  facts.has_pageable_memory_access = flag(pageable_memory_access);
  facts.has_concurrent_managed_access = flag(concurrent_managed_access);
  facts.has_cooperative_launch = flag(cooperative_launch);
  facts.has_memory_pools = flag(memory_pools);
}

Result<void> check_facts(const DeviceFacts& facts) {
  if (facts.architecture < kOldestArchitecture) {
    return fail(Code::unsupported,
                fmt::format("{} has compute capability {}.{}; at least {}.{} is needed", facts.name,
                            facts.architecture / 10, facts.architecture % 10,
                            kOldestArchitecture / 10, kOldestArchitecture % 10),
                "use a GPU of the Ampere generation or newer");
  }
  if (!facts.can_map_host_memory) {
    return fail(Code::unsupported, fmt::format("{} cannot map host memory", facts.name),
                "use another GPU");
  }
  return {};
}

}  // namespace

Result<DeviceFacts> probe_device(const Driver& driver, int ordinal) {
  EVERKERNEL_TRY(check_ordinal(driver, ordinal));
  DeviceFacts facts;
  char name[256] = {};
  std::size_t bytes = 0;
  CuResult result = driver.cuDeviceGet(&facts.device, ordinal);
  if (result == kCuSuccess) {
    result = driver.cuDeviceGetName(name, sizeof name - 1, facts.device);
  }
  if (result == kCuSuccess) result = driver.cuDeviceTotalMem(&bytes, facts.device);
  if (result != kCuSuccess) {
    return cuda_failure(driver, result, fmt::format("reading the properties of GPU {}", ordinal));
  }
  facts.name = name;
  facts.memory_bytes = bytes;
  read_attributes(driver, facts);
  EVERKERNEL_TRY(check_facts(facts));
  return facts;
}

}  // namespace everkernel::backend::cuda
