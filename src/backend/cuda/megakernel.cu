// The workers.
#include "everkernel/handlers.cuh"
#include "jit/device/item.cuh"

extern "C" __global__ void everkernel_drain() {}
