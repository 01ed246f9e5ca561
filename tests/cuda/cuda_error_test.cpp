// The Error for each result of the driver.
#include "backend/cuda/cuda_error.hpp"

#include <algorithm>

#include "cuda/fake_fixture.hpp"

namespace everkernel::test {
namespace {

using backend::cuda::cuda_errors;
using backend::cuda::cuda_failure;
using backend::cuda::CudaError;
using backend::cuda::find_cuda_error;

struct Row {
  int result;
  const char* name;
  Code code;
};

void PrintTo(const Row& row, std::ostream* out) {
  *out << row.name;
}

// Copied from the driver's documentation (CUDA 13.0), not from the table under test.
constexpr Row kRows[] = {
    {1, "INVALID_VALUE", Code::invalid_argument},
    {2, "OUT_OF_MEMORY", Code::out_of_memory},
    {3, "NOT_INITIALIZED", Code::unsupported},
    {4, "DEINITIALIZED", Code::device_lost},
    {5, "PROFILER_DISABLED", Code::unsupported},
    {6, "PROFILER_NOT_INITIALIZED", Code::unsupported},
    {7, "PROFILER_ALREADY_STARTED", Code::unsupported},
    {8, "PROFILER_ALREADY_STOPPED", Code::unsupported},
    {34, "STUB_LIBRARY", Code::unsupported},
    {36, "CALL_REQUIRES_NEWER_DRIVER", Code::unsupported},
    {46, "DEVICE_UNAVAILABLE", Code::unsupported},
    {100, "NO_DEVICE", Code::unsupported},
    {101, "INVALID_DEVICE", Code::invalid_argument},
    {102, "DEVICE_NOT_LICENSED", Code::unsupported},
    {200, "INVALID_IMAGE", Code::unsupported},
    {201, "INVALID_CONTEXT", Code::invalid_argument},
    {202, "CONTEXT_ALREADY_CURRENT", Code::invalid_argument},
    {205, "MAP_FAILED", Code::io},
    {206, "UNMAP_FAILED", Code::io},
    {207, "ARRAY_IS_MAPPED", Code::invalid_argument},
    {208, "ALREADY_MAPPED", Code::invalid_argument},
    {209, "NO_BINARY_FOR_GPU", Code::unsupported},
    {210, "ALREADY_ACQUIRED", Code::invalid_argument},
    {211, "NOT_MAPPED", Code::invalid_argument},
    {212, "NOT_MAPPED_AS_ARRAY", Code::invalid_argument},
    {213, "NOT_MAPPED_AS_POINTER", Code::invalid_argument},
    {214, "ECC_UNCORRECTABLE", Code::device_lost},
    {215, "UNSUPPORTED_LIMIT", Code::unsupported},
    {216, "CONTEXT_ALREADY_IN_USE", Code::unsupported},
    {217, "PEER_ACCESS_UNSUPPORTED", Code::unsupported},
    {218, "INVALID_PTX", Code::unsupported},
    {219, "INVALID_GRAPHICS_CONTEXT", Code::invalid_argument},
    {220, "NVLINK_UNCORRECTABLE", Code::device_lost},
    {221, "JIT_COMPILER_NOT_FOUND", Code::unsupported},
    {222, "UNSUPPORTED_PTX_VERSION", Code::unsupported},
    {223, "JIT_COMPILATION_DISABLED", Code::unsupported},
    {224, "UNSUPPORTED_EXEC_AFFINITY", Code::unsupported},
    {225, "UNSUPPORTED_DEVSIDE_SYNC", Code::unsupported},
    {226, "CONTAINED", Code::device_lost},
    {300, "INVALID_SOURCE", Code::unsupported},
    {301, "FILE_NOT_FOUND", Code::io},
    {302, "SHARED_OBJECT_SYMBOL_NOT_FOUND", Code::unsupported},
    {303, "SHARED_OBJECT_INIT_FAILED", Code::io},
    {304, "OPERATING_SYSTEM", Code::io},
    {400, "INVALID_HANDLE", Code::invalid_argument},
    {401, "ILLEGAL_STATE", Code::invalid_argument},
    {402, "LOSSY_QUERY", Code::invalid_argument},
    {500, "NOT_FOUND", Code::invalid_argument},
    {600, "NOT_READY", Code::timeout},
    {700, "ILLEGAL_ADDRESS", Code::device_lost},
    {701, "LAUNCH_OUT_OF_RESOURCES", Code::invalid_argument},
    {702, "LAUNCH_TIMEOUT", Code::device_lost},
    {703, "LAUNCH_INCOMPATIBLE_TEXTURING", Code::invalid_argument},
    {704, "PEER_ACCESS_ALREADY_ENABLED", Code::invalid_argument},
    {705, "PEER_ACCESS_NOT_ENABLED", Code::invalid_argument},
    {708, "PRIMARY_CONTEXT_ACTIVE", Code::invalid_argument},
    {709, "CONTEXT_IS_DESTROYED", Code::device_lost},
    {710, "ASSERT", Code::device_lost},
    {711, "TOO_MANY_PEERS", Code::unsupported},
    {712, "HOST_MEMORY_ALREADY_REGISTERED", Code::invalid_argument},
    {713, "HOST_MEMORY_NOT_REGISTERED", Code::invalid_argument},
    {714, "HARDWARE_STACK_ERROR", Code::device_lost},
    {715, "ILLEGAL_INSTRUCTION", Code::device_lost},
    {716, "MISALIGNED_ADDRESS", Code::device_lost},
    {717, "INVALID_ADDRESS_SPACE", Code::device_lost},
    {718, "INVALID_PC", Code::device_lost},
    {719, "LAUNCH_FAILED", Code::device_lost},
    {720, "COOPERATIVE_LAUNCH_TOO_LARGE", Code::invalid_argument},
    {721, "TENSOR_MEMORY_LEAK", Code::device_lost},
    {800, "NOT_PERMITTED", Code::unsupported},
    {801, "NOT_SUPPORTED", Code::unsupported},
    {802, "SYSTEM_NOT_READY", Code::unsupported},
    {803, "SYSTEM_DRIVER_MISMATCH", Code::unsupported},
    {804, "COMPAT_NOT_SUPPORTED_ON_DEVICE", Code::unsupported},
    {805, "MPS_CONNECTION_FAILED", Code::unsupported},
    {806, "MPS_RPC_FAILURE", Code::device_lost},
    {807, "MPS_SERVER_NOT_READY", Code::unsupported},
    {808, "MPS_MAX_CLIENTS_REACHED", Code::unsupported},
    {809, "MPS_MAX_CONNECTIONS_REACHED", Code::unsupported},
    {810, "MPS_CLIENT_TERMINATED", Code::device_lost},
    {811, "CDP_NOT_SUPPORTED", Code::unsupported},
    {812, "CDP_VERSION_MISMATCH", Code::unsupported},
    {900, "STREAM_CAPTURE_UNSUPPORTED", Code::invalid_argument},
    {901, "STREAM_CAPTURE_INVALIDATED", Code::invalid_argument},
    {902, "STREAM_CAPTURE_MERGE", Code::invalid_argument},
    {903, "STREAM_CAPTURE_UNMATCHED", Code::invalid_argument},
    {904, "STREAM_CAPTURE_UNJOINED", Code::invalid_argument},
    {905, "STREAM_CAPTURE_ISOLATION", Code::invalid_argument},
    {906, "STREAM_CAPTURE_IMPLICIT", Code::invalid_argument},
    {907, "CAPTURED_EVENT", Code::invalid_argument},
    {908, "STREAM_CAPTURE_WRONG_THREAD", Code::invalid_argument},
    {909, "TIMEOUT", Code::timeout},
    {910, "GRAPH_EXEC_UPDATE_FAILURE", Code::invalid_argument},
    {911, "EXTERNAL_DEVICE", Code::device_lost},
    {912, "INVALID_CLUSTER_SIZE", Code::invalid_argument},
    {913, "FUNCTION_NOT_LOADED", Code::invalid_argument},
    {914, "INVALID_RESOURCE_TYPE", Code::invalid_argument},
    {915, "INVALID_RESOURCE_CONFIGURATION", Code::invalid_argument},
    {916, "KEY_ROTATION", Code::device_lost},
    {999, "UNKNOWN", Code::device_lost},
};

class EveryResult : public WithFakeCuda, public ::testing::WithParamInterface<Row> {};

TEST_P(EveryResult, has_a_code_and_a_hint) {
  const Row& row = GetParam();
  const CudaError error = find_cuda_error(row.result);
  EXPECT_EQ(error.result, row.result);
  EXPECT_EQ(error.name, row.name);
  EXPECT_EQ(error.code, row.code);
  EXPECT_FALSE(error.hint.empty());
}

TEST_P(EveryResult, becomes_an_error_with_the_drivers_words) {
  const Row& row = GetParam();
  const Error error = cuda_failure(load_driver(), row.result, "cuSomething").value();
  EXPECT_EQ(error.code, row.code);
  EXPECT_EQ(error.message, "cuda: cuSomething: the fake says so (CUDA_ERROR_FAKE)");
  EXPECT_EQ(error.hint, find_cuda_error(row.result).hint);
  EXPECT_EQ(error.native, row.result);
}

TEST_P(EveryResult, loses_the_context_exactly_if_it_says_so) {
  const Row& row = GetParam();
  const auto context = make_context();
  EXPECT_EQ(code_of(context->check(row.result, "cuSomething")), row.code);
  EXPECT_EQ(context->is_lost(), row.code == Code::device_lost);
}

INSTANTIATE_TEST_SUITE_P(Documented, EveryResult, ::testing::ValuesIn(kRows));

TEST(CudaErrors, the_table_has_no_other_rows) {
  EXPECT_EQ(cuda_errors().size(), std::size(kRows));
}

TEST(CudaErrors, a_lost_device_hints_at_a_new_process) {
  for (const CudaError& error : cuda_errors()) {
    if (error.code != Code::device_lost) continue;
    EXPECT_NE(error.hint.find("new"), std::string_view::npos) << error.name;
  }
}

using UnknownResult = WithFakeCuda;

TEST_F(UnknownResult, is_an_io_error_with_its_number) {
  const Error error = cuda_failure(load_driver(), 12345, "cuSomething").value();
  EXPECT_EQ(error.code, Code::io);
  EXPECT_EQ(error.message, "cuda: cuSomething: unknown result (12345)");
  EXPECT_FALSE(error.hint.empty());
  EXPECT_EQ(error.native, 12345);
}

}  // namespace
}  // namespace everkernel::test
