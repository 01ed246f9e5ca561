// Error handling of benchmarks: any error is printed and ends the program.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "everkernel/base/result.hpp"

namespace everkernel::bench {

/// Prints the error and ends the program.
[[noreturn]] inline void give_up(const Error& error) {
  fmt::print(stderr, "error: {}\nhint: {}\n", error.message, error.hint);
  std::abort();
}

/// The value; an error ends the program.
template <class T>
T checked(Result<T> result) {
  if (!result) give_up(result.error());
  return std::move(*result);
}

/// Ends the program if there is an error.
inline void check(const Result<void>& result) {
  if (!result) give_up(result.error());
}

}  // namespace everkernel::bench
