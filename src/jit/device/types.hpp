// The types and the function attribute that all device code uses. Host compilers read this header
// too: the rows of a launch (backend/cuda/launch_rows.hpp) are made of these types.
#pragma once

#include "everkernel/abi/fault.hpp"
#include "everkernel/abi/platform.hpp"

/// Every device function is inlined into its kernel, except where a comment gives a reason.
#define EK_DEVICE __device__ __forceinline__

namespace everkernel::device {

using abi::FaultCode;
using abi::Word;
using Wide = unsigned long long;
static_assert(sizeof(Wide) == 8);

}  // namespace everkernel::device
