// The backend that tests of this program run on: EVERKERNEL_BACKEND=cpu
// cuda, by default cpu. If the backend cannot run here, the whole program is skipped with the
// reason.
#pragma once

#include <memory>

#include "everkernel/backend/backend.hpp"

namespace everkernel::test {

/// Whether tests run on a GPU.
bool is_on_cuda();

/// The backend. All tests of a program share one GPU backend, and with it the code it has compiled.
std::shared_ptr<backend::Backend> backend_under_test();

/// The execution for tests that do not need speed: the interpreter where the backend has one,
/// because compiling takes longer than the test.
inline backend::Execution usual_execution() {
  return is_on_cuda() ? backend::Execution::native : backend::Execution::interpreter;
}

}  // namespace everkernel::test
