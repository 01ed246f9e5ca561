// A driver that a test can script: device memory is host memory, copies are made when a stream is
// queried, and no kernel runs. fake_cuda.cpp is the library; a test reaches it through this header.
//
// It is stricter than the real driver: a call without a current context, a copy outside of
// allocated memory, and a copy from host memory that is not pinned all fail.
#pragma once

#include "simulator/driver_state.hpp"

namespace everkernel::test {

/// The properties that the fake reports and the calls it has recorded. A test changes it between
/// calls.
using FakeCuda = simulator::DriverState;

/// The exported functions fake_cuda_state and fake_cuda_reset: the first returns the state, the
/// second restores its initial values and drops every object.
using FakeCudaState = FakeCuda*();
using FakeCudaReset = void();
/// The exported functions fake_cuda_lock and fake_cuda_unlock: between them no thread is in a call
/// of the driver.
using FakeCudaLock = void();

}  // namespace everkernel::test
