// Compares the declarations of driver.hpp with cuda.h of the toolkit, if there is one: the same
// functions, parameters of the same kind and size, the same constants.
#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>
#include <type_traits>

#include "backend/cuda/cuda_error.hpp"
#include "backend/cuda/driver.hpp"

namespace everkernel::backend::cuda {
namespace {

// The names are taken before cuda.h, which defines macros with the same names.
#define EVERKERNEL_DRIVER_FUNCTION(name, symbol, parameters) \
  using Our_##name = decltype(Driver::name)
#include "backend/cuda/driver_functions.inl"
#undef EVERKERNEL_DRIVER_FUNCTION

}  // namespace
}  // namespace everkernel::backend::cuda

#include <cuda.h>

namespace everkernel::backend::cuda {
namespace {

template <class Ours, class Theirs>
constexpr bool kAgree =
    sizeof(Ours) == sizeof(Theirs) &&
    std::is_pointer_v<Ours> == std::is_pointer_v<Theirs>&& std::is_floating_point_v<Ours> ==
        std::is_floating_point_v<Theirs>;

template <class Ours, class Theirs>
constexpr bool kSameShape = false;
template <class... Ours, class... Theirs>
requires(
    sizeof...(Ours) ==
    sizeof...(Theirs)) constexpr bool kSameShape<CuResult (*)(Ours...), CUresult (*)(Theirs...)> =
    (kAgree<Ours, Theirs> && ...);

#define EVERKERNEL_TEXT_OF(name) #name
#define EVERKERNEL_EXPANDED_TEXT(name) EVERKERNEL_TEXT_OF(name)

TEST(Declarations, have_the_parameters_and_the_symbols_of_the_toolkit) {
  // Every driver has both symbols. They differ only for events of other contexts.
  const auto is_an_older_symbol = [](std::string_view symbol) {
    return symbol == "cuEventElapsedTime";
  };
#define EVERKERNEL_DRIVER_FUNCTION(name, symbol, parameters) \
  static_assert(kSameShape<Our_##name, decltype(&::name)>);  \
  if (!is_an_older_symbol(symbol)) {                         \
    EXPECT_STREQ(symbol, EVERKERNEL_EXPANDED_TEXT(name));    \
  }                                                          \
  static_assert(true)
#include "backend/cuda/driver_functions.inl"
#undef EVERKERNEL_DRIVER_FUNCTION
}

template <class Ours, class Theirs>
constexpr bool equal(Ours ours, Theirs theirs) {
  return static_cast<int>(ours) == static_cast<int>(theirs);
}

static_assert(equal(CuDeviceAttribute::max_threads_per_block,
                    CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK));
static_assert(equal(CuDeviceAttribute::sm_count, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
static_assert(equal(CuDeviceAttribute::kernel_exec_timeout,
                    CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT));
static_assert(equal(CuDeviceAttribute::can_map_host_memory,
                    CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY));
static_assert(equal(CuDeviceAttribute::max_threads_per_sm,
                    CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR));
static_assert(equal(CuDeviceAttribute::compute_capability_major,
                    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR));
static_assert(equal(CuDeviceAttribute::compute_capability_minor,
                    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR));
static_assert(equal(CuDeviceAttribute::max_shared_bytes_per_sm,
                    CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR));
static_assert(equal(CuDeviceAttribute::max_registers_per_sm,
                    CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR));
static_assert(equal(CuDeviceAttribute::host_native_atomics,
                    CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED));
static_assert(equal(CuDeviceAttribute::pageable_memory_access,
                    CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS));
static_assert(equal(CuDeviceAttribute::concurrent_managed_access,
                    CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS));
static_assert(equal(CuDeviceAttribute::cooperative_launch, CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH));
static_assert(equal(CuDeviceAttribute::max_shared_bytes_per_block,
                    CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN));
static_assert(equal(CuDeviceAttribute::memory_pools, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED));
#if CUDA_VERSION >= 13000
static_assert(equal(CuDeviceAttribute::only_partial_host_native_atomics,
                    CU_DEVICE_ATTRIBUTE_ONLY_PARTIAL_HOST_NATIVE_ATOMIC_SUPPORTED));
#endif

static_assert(equal(CuFunctionAttribute::max_threads_per_block,
                    CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK));
static_assert(equal(CuFunctionAttribute::shared_bytes, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES));
static_assert(equal(CuFunctionAttribute::local_bytes, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES));
static_assert(equal(CuFunctionAttribute::register_count, CU_FUNC_ATTRIBUTE_NUM_REGS));
static_assert(equal(CuFunctionAttribute::max_dynamic_shared_bytes,
                    CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES));
static_assert(equal(CuPoolAttribute::release_threshold, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD));
static_assert(equal(kCuStreamNonBlocking, CU_STREAM_NON_BLOCKING));
static_assert(equal(kCuEventDisableTiming, CU_EVENT_DISABLE_TIMING));
static_assert(equal(kCuHostAllocPortable, CU_MEMHOSTALLOC_PORTABLE));
static_assert(equal(kCuHostAllocMapped, CU_MEMHOSTALLOC_DEVICEMAP));
static_assert(equal(kCuSuccess, CUDA_SUCCESS) && equal(kCuNotReady, CUDA_ERROR_NOT_READY));

static_assert(sizeof(CuKernelNode) == sizeof(CUDA_KERNEL_NODE_PARAMS));
static_assert(offsetof(CuKernelNode, grid) == offsetof(CUDA_KERNEL_NODE_PARAMS, gridDimX));
static_assert(offsetof(CuKernelNode, block) == offsetof(CUDA_KERNEL_NODE_PARAMS, blockDimX));
static_assert(offsetof(CuKernelNode, shared_bytes) ==
              offsetof(CUDA_KERNEL_NODE_PARAMS, sharedMemBytes));
static_assert(offsetof(CuKernelNode, arguments) == offsetof(CUDA_KERNEL_NODE_PARAMS, kernelParams));
static_assert(offsetof(CuKernelNode, context) == offsetof(CUDA_KERNEL_NODE_PARAMS, ctx));

}  // namespace
}  // namespace everkernel::backend::cuda
