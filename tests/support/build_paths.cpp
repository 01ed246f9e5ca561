// CMake defines the paths for this file alone.
#include "support/build_paths.hpp"

namespace everkernel::test {

std::string source_path(std::string_view relative) {
  return std::string(EVERKERNEL_SOURCE_DIR).append("/").append(relative);
}

std::string built_path(std::string_view name) {
  return std::string(EVERKERNEL_BINARY_DIR).append("/bin/").append(name);
}

std::string cxx_compiler() {
  return EVERKERNEL_CXX;
}

std::string nvcc_compiler() {
  return EVERKERNEL_NVCC;
}

}  // namespace everkernel::test
