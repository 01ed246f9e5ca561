// Reads the project's own text files in tests.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

#include "support/build_paths.hpp"

namespace everkernel::test {

/// The whole text of a file of the repository.
inline std::string read_text(const std::string& path) {
  std::ifstream file(source_path(path));
  EXPECT_TRUE(file) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace everkernel::test
