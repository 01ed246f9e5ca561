// Benchmarks have no use for errors: they print one and end.
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

/// The value, or the end.
template <class T>
T checked(Result<T> result) {
  if (!result) give_up(result.error());
  return std::move(*result);
}

/// Goes on, or ends.
inline void check(const Result<void>& result) {
  if (!result) give_up(result.error());
}

}  // namespace everkernel::bench
