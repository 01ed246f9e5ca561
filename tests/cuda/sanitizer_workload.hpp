// What the parts of the program for compute-sanitizer share.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "everkernel/abi/slot.hpp"
#include "everkernel/backend/backend.hpp"
#include "everkernel/base/result.hpp"

namespace everkernel::test {

using abi::Word;

[[noreturn]] inline void give_up(std::string_view what) {
  fmt::print(stderr, "error: {}\n", what);
  std::exit(1);
}

template <class T>
T checked(Result<T> result) {
  if (!result) give_up(fmt::format("{}; {}", result.error().message, result.error().hint));
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

/// Ends the program at the first word that differs.
void compare(std::string_view what, const std::vector<Word>& gpu, const std::vector<Word>& cpu);

/// Runs at least that many items through sessions of both backends and compares how each ended.
/// Returns how many ran.
std::size_t run_sessions(const std::shared_ptr<backend::Backend>& cuda, std::size_t items);

}  // namespace everkernel::test
