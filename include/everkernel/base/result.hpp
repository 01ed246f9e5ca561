// Result: a value or an Error. No exception crosses the public API.
#pragma once

#if !defined(TL_EXPECTED_HPP)
namespace tl {
/// Makes the compiler warn about an ignored Result: tl::expected is not [[nodiscard]], an alias
/// cannot be, but a first declaration can. If tl/expected.hpp was included before this header,
/// there is no warning.
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

/// The return type of every call that can fail.
template <class T>
using Result = tl::expected<T, Error>;

/// The failing side of a Result.
using Failure = tl::unexpected<Error>;

/// Makes an error. Every error of the library is made here: a breakpoint here catches them all.
[[nodiscard]] Failure fail(Code code, std::string message, std::string hint = {},
                           std::int64_t native = 0);

namespace detail {

/// The value of a Result that has one; nothing for Result<void>.
template <class T>
T value_of(Result<T>&& result) {
  return *std::move(result);
}
inline void value_of(Result<void>&&) {}

}  // namespace detail
}  // namespace everkernel

/// The value of a `Result` expression. If it has an error, the calling function returns the error:
///
///     const Device device = EVERKERNEL_TRY(open_device());
///     EVERKERNEL_TRY(device.check());
///
/// A statement expression, which g++ and clang++ have, because nothing in C++20 can both return
/// from the calling function and have a value.
#define EVERKERNEL_TRY(expression)                                     \
  __extension__({                                                      \
    auto everkernel_try = (expression);                                \
    if (!everkernel_try) {                                             \
      return ::everkernel::Failure(std::move(everkernel_try).error()); \
    }                                                                  \
    ::everkernel::detail::value_of(std::move(everkernel_try));         \
  })
