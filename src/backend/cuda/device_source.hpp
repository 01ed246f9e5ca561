// The texts that NVRTC compiles, embedded in the library by cmake/embed.cmake.
#pragma once

#include <span>
#include <string_view>

namespace everkernel::backend::cuda {

// A text by the name that an #include gives it.
struct SourceText {
  std::string_view name = {};
  std::string_view text = {};
};

// Headers that device code may include: the wire format, and what handlers see.
std::span<const SourceText> device_headers();

// The workers. It includes the handlers, which are generated, as `everkernel/handlers.cuh`.
SourceText megakernel_source();

}  // namespace everkernel::backend::cuda
