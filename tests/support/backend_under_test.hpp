// The backend that tests of this program run on: EVERKERNEL_BACKEND=cpu|cuda, cpu unless it says
// otherwise. Where it cannot run, the whole program is skipped and says why.
#pragma once

#include <memory>

#include "everkernel/backend/backend.hpp"

namespace everkernel::test {

/// Whether tests run on a GPU.
bool is_on_cuda();

/// The backend. All tests of a program share the one of a GPU, and with it what it has compiled.
std::shared_ptr<backend::Backend> backend_under_test();

/// How handlers run there without being asked to be fast: nothing is compiled where that takes
/// longer than the test.
inline backend::Execution usual_execution() {
  return is_on_cuda() ? backend::Execution::native : backend::Execution::interpreter;
}

}  // namespace everkernel::test
