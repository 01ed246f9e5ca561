// Buffers read from files: the bytes with the view that checked them.
#pragma once

#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>

#include "everkernel/base/result.hpp"
#include "files.hpp"

namespace everkernel::cli {

/// An input file: its path, its bytes, and the view that checked them.
template <class View>
struct Input {
  std::string path;  ///< as the user wrote it
  Bytes bytes;       ///< the whole file
  View view;         ///< refers to `bytes`; moving the vector does not move its elements
};

/// The error with the path in front of its message.
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

/// Reads a file into `target` if a path was given.
template <class View>
Result<void> read_input(const std::optional<std::string>& path,
                        std::optional<Input<View>>& target) {
  if (!path) return {};
  target.emplace(EVERKERNEL_TRY(read_input<View>(*path)));
  return {};
}

}  // namespace everkernel::cli
