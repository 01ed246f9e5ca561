// What a result of the driver means to a caller, decided once.
#pragma once

#include <span>
#include <string_view>

#include "backend/cuda/driver.hpp"

namespace everkernel::backend::cuda {

// A result of the driver that has a row.
struct CudaError {
  CuResult result = 0;
  std::string_view name = {};  // CUDA_ERROR_ stands before it
  Code code = Code::io;
  std::string_view hint = {};
};

// All rows, by result.
std::span<const CudaError> cuda_errors();

// The row of a result; one of our own for those that no row has.
CudaError find_cuda_error(CuResult result);

// The error of a call that failed: `cuda: WHAT: text of the driver (NAME)`.
Failure cuda_failure(const Driver& driver, CuResult result, std::string_view what);

}  // namespace everkernel::backend::cuda
