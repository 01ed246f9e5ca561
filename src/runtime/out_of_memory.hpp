// Where memory that runs out becomes an error: no exception of the library crosses the public API.
#pragma once

#include <fmt/format.h>

#include <cerrno>
#include <new>
#include <string_view>

#include "everkernel/base/result.hpp"

namespace everkernel {

/// The result of `body`, a function that returns a Result; `out_of_memory` if an allocation fails.
/// `call` names the public call.
auto or_out_of_memory(std::string_view call, const auto& body) -> decltype(body()) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return fail(Code::out_of_memory, fmt::format("{}: the process has no memory left", call),
                "raise the memory limit of the process (ulimit -v), or ask for less", ENOMEM);
  }
}

}  // namespace everkernel
