// The Error for each result of the driver.
#pragma once

#include <span>
#include <string_view>

#include "backend/cuda/driver.hpp"

namespace everkernel::backend::cuda {

// A row of the table of results.
struct CudaError {
  CuResult result = 0;
  std::string_view name = {};  // without the prefix CUDA_ERROR_
  Code code = Code::io;
  std::string_view hint = {};
};

// All rows, sorted by result.
std::span<const CudaError> cuda_errors();

// The row of a result. A result that is not in the table has the code `io` and no name.
CudaError find_cuda_error(CuResult result);

// The error of the failed call `what`: `cuda: WHAT: text of the driver (NAME)`.
Failure cuda_failure(const Driver& driver, CuResult result, std::string_view what);

}  // namespace everkernel::backend::cuda
