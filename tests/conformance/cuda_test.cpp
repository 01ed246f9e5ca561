// The conformance suite on a GPU.
#include "conformance/backend_suite.hpp"
#include "everkernel/backend/cuda/cuda_backend.hpp"

namespace everkernel::conformance {
namespace {

// Below 32 workers every worker is a warp that looks at one slot; from there on lanes of a warp
// look at 32 together.
const BackendUnderTest& cuda_under_test() {
  static const BackendUnderTest backend{
      .name = "cuda",
      .make = [] { return backend::cuda::make_backend(); },
      .skip_reason = backend::cuda::make_backend()->capabilities().reason,
      .worker_counts = {1, 4, 64},
      .interprets = false,
      .parks = true,
      .short_timeout = std::chrono::milliseconds(400)};  // other processes may use the GPU as well
  return backend;
}

}  // namespace
}  // namespace everkernel::conformance

EVERKERNEL_INSTANTIATE_CONFORMANCE(cuda, cuda_under_test());
