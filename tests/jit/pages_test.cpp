// Generated code is never writable and executable at one time.
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "everkernel/ir/parser.hpp"
#include "everkernel/jit/native.hpp"

namespace everkernel::jit {
namespace {

TEST(Pages, are_executable_or_writable_but_not_both) {
  if (!has_native_code()) GTEST_SKIP() << "this build has no LLVM";
  auto program = ir::parse("handler h = 64 { output[0] = input[0] + param; }");
  ASSERT_TRUE(program);
  const auto verified = ir::verify(std::move(*program));
  ASSERT_TRUE(verified);
  const auto native = NativeProgram::compile(*verified, {});
  ASSERT_TRUE(native);
  std::ifstream maps("/proc/self/maps");
  int executable = 0;
  for (std::string line; std::getline(maps, line);) {
    const std::string rights = line.substr(line.find(' ') + 1, 4);
    if (rights[2] == 'x') ++executable;
    EXPECT_FALSE(rights[1] == 'w' && rights[2] == 'x') << line;
  }
  EXPECT_GT(executable, 0);
}

}  // namespace
}  // namespace everkernel::jit
