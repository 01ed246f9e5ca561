// The table of the driver's results. The error code says what the caller can do next: after a
// `device_lost` result, every later driver call of the process fails with the same result.
#include "backend/cuda/cuda_error.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace everkernel::backend::cuda {
namespace {

constexpr std::string_view kReplace =
    "this process cannot use the device any more: start a new process";
constexpr std::string_view kNewDriver = "install a newer NVIDIA driver";
constexpr std::string_view kLess = "allocate less, or free memory first";
constexpr std::string_view kSmaller = "launch fewer threads per block, or fewer blocks";
constexpr std::string_view kChild =
    "a forked process cannot use CUDA: start the program with exec instead";
constexpr std::string_view kBusy =
    "another process uses the device exclusively, or its compute mode (nvidia-smi) forbids it";
constexpr std::string_view kMachine = "check nvidia-smi and the services of the driver";
constexpr std::string_view kOther = "--backend cpu runs on every machine";
constexpr std::string_view kCode =
    "NVRTC may be newer than the driver: update the driver, or name an older NVRTC in "
    "EVERKERNEL_LIBNVRTC";
constexpr std::string_view kDefect = "this is a defect of Everkernel: please report it";

constexpr CudaError kErrors[] = {
    {1, "INVALID_VALUE", Code::invalid_argument, kDefect},
    {2, "OUT_OF_MEMORY", Code::out_of_memory, kLess},
    {3, "NOT_INITIALIZED", Code::unsupported, kChild},
    {4, "DEINITIALIZED", Code::device_lost, kReplace},
    {5, "PROFILER_DISABLED", Code::unsupported, kOther},
    {6, "PROFILER_NOT_INITIALIZED", Code::unsupported, kOther},
    {7, "PROFILER_ALREADY_STARTED", Code::unsupported, kOther},
    {8, "PROFILER_ALREADY_STOPPED", Code::unsupported, kOther},
    {34, "STUB_LIBRARY", Code::unsupported,
     "this libcuda is the toolkit's stub: install the NVIDIA driver and name its library"},
    {36, "CALL_REQUIRES_NEWER_DRIVER", Code::unsupported, kNewDriver},
    {46, "DEVICE_UNAVAILABLE", Code::unsupported, kBusy},
    {100, "NO_DEVICE", Code::unsupported,
     "install an NVIDIA GPU, or make one visible with CUDA_VISIBLE_DEVICES"},
    {101, "INVALID_DEVICE", Code::invalid_argument, "nvidia-smi -L lists the devices"},
    {102, "DEVICE_NOT_LICENSED", Code::unsupported, kMachine},
    {200, "INVALID_IMAGE", Code::unsupported, kCode},
    {201, "INVALID_CONTEXT", Code::invalid_argument, kDefect},
    {202, "CONTEXT_ALREADY_CURRENT", Code::invalid_argument, kDefect},
    {205, "MAP_FAILED", Code::io, kLess},
    {206, "UNMAP_FAILED", Code::io, kDefect},
    {207, "ARRAY_IS_MAPPED", Code::invalid_argument, kDefect},
    {208, "ALREADY_MAPPED", Code::invalid_argument, kDefect},
    {209, "NO_BINARY_FOR_GPU", Code::unsupported, kCode},
    {210, "ALREADY_ACQUIRED", Code::invalid_argument, kDefect},
    {211, "NOT_MAPPED", Code::invalid_argument, kDefect},
    {212, "NOT_MAPPED_AS_ARRAY", Code::invalid_argument, kDefect},
    {213, "NOT_MAPPED_AS_POINTER", Code::invalid_argument, kDefect},
    {214, "ECC_UNCORRECTABLE", Code::device_lost, kReplace},
    {215, "UNSUPPORTED_LIMIT", Code::unsupported, kOther},
    {216, "CONTEXT_ALREADY_IN_USE", Code::unsupported, kBusy},
    {217, "PEER_ACCESS_UNSUPPORTED", Code::unsupported, kOther},
    {218, "INVALID_PTX", Code::unsupported, kNewDriver},
    {219, "INVALID_GRAPHICS_CONTEXT", Code::invalid_argument, kDefect},
    {220, "NVLINK_UNCORRECTABLE", Code::device_lost, kReplace},
    {221, "JIT_COMPILER_NOT_FOUND", Code::unsupported,
     "install libnvidia-ptxjitcompiler, a part of the NVIDIA driver"},
    {222, "UNSUPPORTED_PTX_VERSION", Code::unsupported, kNewDriver},
    {223, "JIT_COMPILATION_DISABLED", Code::unsupported, "unset CUDA_DISABLE_PTX_JIT"},
    {224, "UNSUPPORTED_EXEC_AFFINITY", Code::unsupported, kOther},
    {225, "UNSUPPORTED_DEVSIDE_SYNC", Code::unsupported, kOther},
    {226, "CONTAINED", Code::device_lost, kReplace},
    {300, "INVALID_SOURCE", Code::unsupported, kCode},
    {301, "FILE_NOT_FOUND", Code::io, kMachine},
    {302, "SHARED_OBJECT_SYMBOL_NOT_FOUND", Code::unsupported, kNewDriver},
    {303, "SHARED_OBJECT_INIT_FAILED", Code::io, kMachine},
    {304, "OPERATING_SYSTEM", Code::io, kMachine},
    {400, "INVALID_HANDLE", Code::invalid_argument, kDefect},
    {401, "ILLEGAL_STATE", Code::invalid_argument, kDefect},
    {402, "LOSSY_QUERY", Code::invalid_argument, kDefect},
    {500, "NOT_FOUND", Code::invalid_argument, kDefect},
    {600, "NOT_READY", Code::timeout, "raise the timeout"},
    {700, "ILLEGAL_ADDRESS", Code::device_lost, kReplace},
    {701, "LAUNCH_OUT_OF_RESOURCES", Code::invalid_argument, kSmaller},
    {702, "LAUNCH_TIMEOUT", Code::device_lost, kReplace},
    {703, "LAUNCH_INCOMPATIBLE_TEXTURING", Code::invalid_argument, kDefect},
    {704, "PEER_ACCESS_ALREADY_ENABLED", Code::invalid_argument, kDefect},
    {705, "PEER_ACCESS_NOT_ENABLED", Code::invalid_argument, kDefect},
    {708, "PRIMARY_CONTEXT_ACTIVE", Code::invalid_argument, kDefect},
    {709, "CONTEXT_IS_DESTROYED", Code::device_lost, kReplace},
    {710, "ASSERT", Code::device_lost, kReplace},
    {711, "TOO_MANY_PEERS", Code::unsupported, kOther},
    {712, "HOST_MEMORY_ALREADY_REGISTERED", Code::invalid_argument, kDefect},
    {713, "HOST_MEMORY_NOT_REGISTERED", Code::invalid_argument, kDefect},
    {714, "HARDWARE_STACK_ERROR", Code::device_lost, kReplace},
    {715, "ILLEGAL_INSTRUCTION", Code::device_lost, kReplace},
    {716, "MISALIGNED_ADDRESS", Code::device_lost, kReplace},
    {717, "INVALID_ADDRESS_SPACE", Code::device_lost, kReplace},
    {718, "INVALID_PC", Code::device_lost, kReplace},
    {719, "LAUNCH_FAILED", Code::device_lost, kReplace},
    {720, "COOPERATIVE_LAUNCH_TOO_LARGE", Code::invalid_argument, kSmaller},
    {721, "TENSOR_MEMORY_LEAK", Code::device_lost, kReplace},
    {800, "NOT_PERMITTED", Code::unsupported, kOther},
    {801, "NOT_SUPPORTED", Code::unsupported, kOther},
    {802, "SYSTEM_NOT_READY", Code::unsupported, kMachine},
    {803, "SYSTEM_DRIVER_MISMATCH", Code::unsupported,
     "libcuda and the kernel module differ in version: restart the machine, or reinstall the "
     "driver"},
    {804, "COMPAT_NOT_SUPPORTED_ON_DEVICE", Code::unsupported,
     "this GPU does not support the compatibility libcuda: use the libcuda of the driver"},
    {805, "MPS_CONNECTION_FAILED", Code::unsupported, kMachine},
    {806, "MPS_RPC_FAILURE", Code::device_lost, kReplace},
    {807, "MPS_SERVER_NOT_READY", Code::unsupported, kMachine},
    {808, "MPS_MAX_CLIENTS_REACHED", Code::unsupported, kMachine},
    {809, "MPS_MAX_CONNECTIONS_REACHED", Code::unsupported, kMachine},
    {810, "MPS_CLIENT_TERMINATED", Code::device_lost, kReplace},
    {811, "CDP_NOT_SUPPORTED", Code::unsupported, kOther},
    {812, "CDP_VERSION_MISMATCH", Code::unsupported, kOther},
    {900, "STREAM_CAPTURE_UNSUPPORTED", Code::invalid_argument, kDefect},
    {901, "STREAM_CAPTURE_INVALIDATED", Code::invalid_argument, kDefect},
    {902, "STREAM_CAPTURE_MERGE", Code::invalid_argument, kDefect},
    {903, "STREAM_CAPTURE_UNMATCHED", Code::invalid_argument, kDefect},
    {904, "STREAM_CAPTURE_UNJOINED", Code::invalid_argument, kDefect},
    {905, "STREAM_CAPTURE_ISOLATION", Code::invalid_argument, kDefect},
    {906, "STREAM_CAPTURE_IMPLICIT", Code::invalid_argument, kDefect},
    {907, "CAPTURED_EVENT", Code::invalid_argument, kDefect},
    {908, "STREAM_CAPTURE_WRONG_THREAD", Code::invalid_argument, kDefect},
    {909, "TIMEOUT", Code::timeout, "raise the timeout"},
    {910, "GRAPH_EXEC_UPDATE_FAILURE", Code::invalid_argument, kDefect},
    {911, "EXTERNAL_DEVICE", Code::device_lost, kReplace},
    {912, "INVALID_CLUSTER_SIZE", Code::invalid_argument, kSmaller},
    {913, "FUNCTION_NOT_LOADED", Code::invalid_argument, kDefect},
    {914, "INVALID_RESOURCE_TYPE", Code::invalid_argument, kDefect},
    {915, "INVALID_RESOURCE_CONFIGURATION", Code::invalid_argument, kDefect},
    {916, "KEY_ROTATION", Code::device_lost, kReplace},
    {999, "UNKNOWN", Code::device_lost,
     "start a new process; if that does not help, check nvidia-smi and the system log"},
};
static_assert(std::ranges::is_sorted(kErrors, {}, &CudaError::result));

// The driver's name or text of a result; null if the driver does not know the result.
const char* ask(CuResult (*function)(CuResult, const char**), CuResult result) {
  const char* text = nullptr;
  return function(result, &text) == kCuSuccess ? text : nullptr;
}

}  // namespace

std::span<const CudaError> cuda_errors() {
  return kErrors;
}

CudaError find_cuda_error(CuResult result) {
  const auto* const row = std::ranges::lower_bound(kErrors, result, {}, &CudaError::result);
  if (row != std::end(kErrors) && row->result == result) return *row;
  return {.result = result, .name = "", .code = Code::io, .hint = kMachine};
}

Failure cuda_failure(const Driver& driver, CuResult result, std::string_view what) {
  const CudaError row = find_cuda_error(result);
  const char* const text = ask(driver.cuGetErrorString, result);
  const char* const name = ask(driver.cuGetErrorName, result);
  return fail(row.code,
              fmt::format("cuda: {}: {} ({})", what, text != nullptr ? text : "unknown result",
                          name != nullptr ? name : fmt::format("{}", result)),
              std::string(row.hint), result);
}

}  // namespace everkernel::backend::cuda
