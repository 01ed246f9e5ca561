// The state of a driver stand-in: the device it presents, the failures it plays, and counts of the
// calls it has received.
#pragma once

#include <cstddef>
#include <cstdint>

namespace everkernel::simulator {

/// A test reads and changes it between two calls of the driver.
struct DriverState {
  // The device.
  const char* name = "Fake GPU";
  int version = 13000;
  int device_count = 1;
  int architecture = 90;
  int sm_count = 4;
  int shared_bytes_per_sm = 200 << 10;
  bool can_map_host_memory = true;
  bool has_memory_pools = true;
  bool takes_pageable_memory = false;  // whether copies from unpinned host memory are accepted
  std::size_t memory_bytes = std::size_t{1} << 30;

  // Only for tests/cuda/fake_cuda.cpp: how many operations of a stream finish each time the stream
  // is queried. 0 is a device that hangs.
  int operations_per_look = 1;
  // Only for the same: whether launched kernels stay until this is false again.
  bool kernels_stay = false;
  // Called by a launch, with the second word. It must not call the driver.
  void (*at_launch)(void*) = nullptr;
  void* at_launch_argument = nullptr;

  // A failure to play: counted from now, call number `failing_call` of `failing_symbol` returns
  // `failing_result`. If that result breaks contexts, every later call returns it too. A null
  // symbol counts all calls.
  const char* failing_symbol = nullptr;
  int failing_call = 0;  // 0: no call fails
  int failing_result = 0;

  int refused_images = 0;  // the next modules that cuModuleLoadData refuses

  // Objects that exist now.
  int live_allocations = 0;
  int live_pinned = 0;
  int live_registered = 0;  // memory of the host
  int live_streams = 0;
  int live_events = 0;
  int live_modules = 0;
  int retained_contexts = 0;
  int current_contexts = 0;  // of the thread that reads this

  // Calls received so far.
  int calls = 0;  // of all functions
  int pool_allocations = 0;
  int waits_for_kernels = 0;  // only of tests/cuda/fake_cuda.cpp: calls that a device would hold up
  int contexts_made = 0;
  std::uint64_t release_threshold = 0;
  unsigned launched_blocks = 0;
  unsigned launched_threads = 0;
  unsigned launched_shared_bytes = 0;
  std::size_t argument_count = 0;  // how many arguments of a launch are copied to the next field
  std::uint32_t launched_arguments[2] = {};
};

}  // namespace everkernel::simulator
