// How the code of handlers runs: as a caller requests, as the planner recommends, and as it ran.
#pragma once

#include <string_view>

#include "everkernel/abi/platform.hpp"

namespace everkernel::backend {

/// How handlers are executed.
enum class Execution : abi::Word {
  automatic,    ///< as a request: the callee chooses between the other two
  interpreter,  ///< by the reference interpreter
  native,       ///< as compiled code; as a request: an error where that is not possible
};

/// The execution as JSON reports name it: `automatic`, `interpreter` or `jit`.
std::string_view execution_name(Execution execution);

}  // namespace everkernel::backend
