// Where this build's sources and programs lie. Only build_paths.cpp is compiled with the paths, so
// that a clone in another folder finds all other objects in the compiler cache.
#pragma once

#include <string>
#include <string_view>

namespace everkernel::test {

/// A file of the checkout, by its path in it.
std::string source_path(std::string_view relative = {});
/// A program or library of this build.
std::string built_path(std::string_view name);
/// The C++ compiler of this build.
std::string cxx_compiler();
/// The CUDA compiler; empty if there is none.
std::string nvcc_compiler();

}  // namespace everkernel::test
