// Reads Results that may hold an error.
#pragma once

#include <optional>
#include <ostream>

#include "everkernel/base/result.hpp"

namespace everkernel {

/// Prints a code by name in failed expectations.
inline void PrintTo(Code code, std::ostream* out) {
  *out << code_name(code);
}

namespace test {

/// The code of a failed call, nothing for one that succeeded (whose error() must not be read).
template <class T>
std::optional<Code> code_of(const Result<T>& result) {
  if (result) return std::nullopt;
  return result.error().code;
}

/// The message of a failed call, empty for one that succeeded.
template <class T>
std::string message_of(const Result<T>& result) {
  return result ? std::string() : result.error().message;
}

}  // namespace test
}  // namespace everkernel
