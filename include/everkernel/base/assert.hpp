// Assertions for invariants of the library itself. Bad input is never an assertion: it is an Error.
#pragma once

namespace everkernel::detail {

/// Prints the broken invariant and aborts.
[[noreturn]] void assertion_failed(const char* expression, const char* file, int line);

}  // namespace everkernel::detail

/// Aborts the program if an invariant of the library does not hold, also in release builds.
#define EVERKERNEL_ASSERT(expression)  \
  ((expression) ? static_cast<void>(0) \
                : ::everkernel::detail::assertion_failed(#expression, __FILE__, __LINE__))
