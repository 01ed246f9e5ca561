// The texts that NVRTC compiles, embedded in the library by cmake/embed.cmake.
#pragma once

#include <span>
#include <string_view>

namespace everkernel::backend::cuda {

// A text and the name by which an #include finds it.
struct SourceText {
  std::string_view name = {};
  std::string_view text = {};
};

// Headers that device code may include: the wire format, the files that handlers use and those of
// the kernels.
std::span<const SourceText> device_headers();

// The source of the kernels. It includes the generated handlers as `everkernel/handlers.cuh`.
SourceText megakernel_source();

}  // namespace everkernel::backend::cuda
