// Result: a value, or the Error that stands in its place. No exception crosses the public API.
#pragma once

#if !defined(TL_EXPECTED_HPP)
namespace tl {
/// Nobody may ignore a Result, but tl::expected is not [[nodiscard]] and an alias cannot be. Its
/// first declaration can say so; whoever included it before us keeps the plain one.
template <class T, class E>
class [[nodiscard]] expected;
}  // namespace tl
#endif

#include <cstdint>
#include <string>
#include <tl/expected.hpp>
#include <utility>

#include "everkernel/base/error.hpp"

namespace everkernel {

/// What every fallible call returns.
template <class T>
using Result = tl::expected<T, Error>;

/// The failing side of a Result.
using Failure = tl::unexpected<Error>;

/// Makes every error of the library: a breakpoint here catches them all.
[[nodiscard]] Failure fail(Code code, std::string message, std::string hint = {},
                           std::int64_t native = 0);

}  // namespace everkernel

/// Returns the error of a `Result` expression from the calling function, if it has one.
#define EVERKERNEL_TRY(expression)                                            \
  do {                                                                        \
    if (auto everkernel_try_result = (expression); !everkernel_try_result) {  \
      return ::everkernel::Failure(std::move(everkernel_try_result).error()); \
    }                                                                         \
  } while (false)
