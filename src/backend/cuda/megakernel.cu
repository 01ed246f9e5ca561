// The megakernel: the source that NVRTC compiles with the handlers of a program. A module has the
// kernels of one kind of work, so that a launch waits for the compilation of these alone.
//
// The kernels of every kind share crews, submissions, items and counters (the other files of
// device/). backend/cpu/worker.cpp is the same protocol on a CPU.
#if defined(EVERKERNEL_GRAPH)
#include "backend/cuda/device/graph_kernel.cuh"
#elif defined(EVERKERNEL_LIVE)
#include "backend/cuda/device/live_kernel.cuh"
#else
#include "backend/cuda/device/drain_kernel.cuh"
#include "backend/cuda/device/survey_kernel.cuh"
#endif
