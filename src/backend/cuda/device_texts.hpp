// Device source files as string literals. cmake/embed.cmake generates the definitions.
#pragma once

#include <span>
#include <string_view>

namespace everkernel::backend::cuda {

// A file, cut at line ends into pieces that are short enough for a string literal.
struct EmbeddedText {
  std::string_view name = {};
  std::span<const std::string_view> pieces = {};
};

// All embedded files.
std::span<const EmbeddedText> embedded_texts();

}  // namespace everkernel::backend::cuda
