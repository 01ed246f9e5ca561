// What stands in the CUDA text of handlers, and what does not.
#include <gtest/gtest.h>

#include "everkernel/ir/parser.hpp"
#include "everkernel/jit/cuda_source.hpp"

namespace everkernel::test {
namespace {

std::string cuda_of(std::string_view text, const jit::CudaOptions& options = {}) {
  auto parsed = ir::parse(text);
  EXPECT_TRUE(parsed) << parsed.error().message;
  auto verified = ir::verify(*std::move(parsed));
  EXPECT_TRUE(verified) << verified.error().message;
  return jit::emit_cuda(*verified, options);
}

bool has(const std::string& text, std::string_view what) {
  return text.find(what) != std::string::npos;
}

TEST(CudaSource, names_of_the_program_stay_out_of_it) {
  const std::string text = cuda_of(
      "handler zebra = 64 { let giraffe = 1; var okapi = giraffe; for gnu in 0 .. 3 { okapi = gnu; "
      "} output[0] = okapi; }");
  for (const std::string_view name : {"zebra", "giraffe", "okapi", "gnu"}) {
    EXPECT_FALSE(has(text, name)) << name << "\n" << text;
  }
}

}  // namespace
}  // namespace everkernel::test
