// The handlers of this module: the text that jit/cuda_source.hpp generates, behind the names that
// it uses. It offers find_handler(), traits_of(), run_lane_handler() and so on.
#pragma once

#include "jit/device/handler.cuh"

#include "everkernel/handlers.cuh"
