// The texts that cmake/embed.cmake generates: files as string literals.
#pragma once

#include <span>
#include <string_view>

namespace everkernel::backend::cuda {

// A file, cut at ends of lines.
struct EmbeddedText {
  std::string_view name = {};
  std::span<const std::string_view> pieces = {};
};

// All embedded files.
std::span<const EmbeddedText> embedded_texts();

}  // namespace everkernel::backend::cuda
