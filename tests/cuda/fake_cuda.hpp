// A driver that a test can script: memory is the host's, copies are made when somebody looks, no
// kernel runs. fake_cuda.cpp is the library, this is how a test talks to it.
//
// It is stricter than it needs to be: a call without a current context, a copy outside memory, or
// one from host memory that is not pinned fails the way the real driver would at its worst.
#pragma once

#include <cstddef>
#include <cstdint>

namespace everkernel::test {

/// What the fake does, and what was done to it. A test changes it between calls.
struct FakeCuda {
  // The machine.
  const char* name = "Fake GPU";
  int version = 13000;
  int device_count = 1;
  int architecture = 90;
  int sm_count = 4;
  int shared_bytes_per_sm = 200 << 10;
  bool can_map_host_memory = true;
  bool has_memory_pools = true;
  bool takes_pageable_memory = false;  // copies from memory of the host that is not pinned
  std::size_t memory_bytes = std::size_t{1} << 30;

  // Operations of a stream that are done between two looks at it; 0 is a device that hangs.
  int operations_per_look = 1;

  // The call of `failing_symbol` that is `failing_call`th from now fails, and with a result that
  // breaks contexts, every call after it. A null symbol is any call.
  const char* failing_symbol = nullptr;
  int failing_call = 0;  // 0 is none
  int failing_result = 0;

  int refused_images = 0;  // modules that are refused before one is taken

  // What is there now.
  int live_allocations = 0;
  int live_pinned = 0;
  int live_streams = 0;
  int live_events = 0;
  int live_modules = 0;
  int retained_contexts = 0;
  int current_contexts = 0;  // of the thread that looks

  // What happened.
  int calls = 0;  // all
  int pool_allocations = 0;
  int contexts_made = 0;
  std::uint64_t release_threshold = 0;
  unsigned launched_blocks = 0;
  unsigned launched_threads = 0;
  unsigned launched_shared_bytes = 0;
  std::size_t argument_count = 0;  // that kernels have, as far as a test wants to see them
  std::uint32_t launched_arguments[2] = {};
};

/// The exported functions behind fake_cuda_state and fake_cuda_reset: the state, and a state as
/// above with everything forgotten.
using FakeCudaState = FakeCuda*();
using FakeCudaReset = void();

}  // namespace everkernel::test
