// Buffers that commands read from files: the bytes, and the view that checked them.
#pragma once

#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>

#include "everkernel/base/result.hpp"
#include "files.hpp"

namespace everkernel::cli {

/// A file that was given: where it is, its bytes, and the view that checked them.
template <class View>
struct Input {
  std::string path;  ///< as the user wrote it
  Bytes bytes;       ///< all of it
  View view;         ///< into bytes; moving a vector keeps them where they are
};

/// The error with the file it is about in front.
inline Failure in_file(const std::string& path, Error error) {
  error.message = fmt::format("{}: {}", path, error.message);
  return Failure(std::move(error));
}

/// Reads a file and checks its bytes.
template <class View>
Result<Input<View>> read_input(const std::string& path) {
  Bytes bytes = EVERKERNEL_TRY(read_file(path));
  const auto view = View::parse(bytes);
  if (!view) return in_file(path, view.error());
  return Input<View>{path, std::move(bytes), *view};
}

/// Reads a file into its place, if it was given.
template <class View>
Result<void> read_input(const std::optional<std::string>& path,
                        std::optional<Input<View>>& target) {
  if (!path) return {};
  target.emplace(EVERKERNEL_TRY(read_input<View>(*path)));
  return {};
}

}  // namespace everkernel::cli
