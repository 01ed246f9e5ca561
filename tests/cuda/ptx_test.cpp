// PTX of handlers must not contain the instructions that ptxas translates wrongly (decision 0012).
//
// Needs NVRTC but no GPU.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "backend/cuda/module.hpp"
#include "needs_nvrtc.hpp"
#include "runner_source.hpp"
#include "support/ir_text.hpp"

namespace everkernel::test {
namespace {

// NVRTC has no such architecture: it generates the PTX of 90, byte for byte, and does not run
// ptxas.
constexpr int kArchitecture = 91;
// Generates the PTX of 100, for which NVVM optimises differently.
constexpr int kNewerArchitecture = 102;

// Ways to write magnitudes, extremes of negations, and choices of floats (values.cuh).
TEST(CudaPtx, what_ptxas_gets_wrong_is_not_there) {
  EVERKERNEL_NEEDS_NVRTC(nvrtc);
  constexpr std::string_view kWays[] = {
      "let y = abs(x);",
      "var y = x; if x < 0i { y = -x; }",
      "let y = select(x < 0i, 0i - x, x);",
      "let y = select(x >= 0i, x, -x);",
      "let y = select(bits_u32(x) > 0x7fffffff, -x, x);",
      "let y = select(x < 0i, x * -1i, x);",
      "let y = select(x < 0i, x / -1i, x);",
      "let y = max(x, -x);",
      "let zero = 0i; let y = select(x < 0i, zero - x, x);",
      "let y = (x ^ (x >> 31)) - (x >> 31);",
      "let y = (x + (x >> 31)) ^ (x >> 31);",
      "let y = select(x < 0i, ~x + 1i, x);",
      "let y = select(x < 0i, ~(x - 1i), x);",
      "let m = -1i; let y = select(x < 0i, x * m, x);",
      "var y = x; if z == -1i && x < 0i { y = x * z; }",
      "let y = select(x < 0i, x * -2i + x, x);",
      "let y = select(x < 0i, x - (x << 1), x);",
      "let y = select(x < 0i, x * 3i * 0x55555555i, x);",
      "let y = select(x < 0i, (x | -1i) - (x & -1i) + 1i, x);",
      "let y = x * select(x < 0i, -1i, 1i);",
      "let y = x * ((x >> 31) | 1i);",
      "let y = select(x < 0i, 0i, x) - select(x < 0i, x, 0i);",
      "let y = select(x < 0i, ~x, x) + select(x < 0i, 1i, 0i);",
      "let s = x >> 31; let y = ((x | s) & ~(x & s)) - s;",
      "var v = x; for i in 0 .. 1 { v = x; } let y = x * select(v < 0i, -1i, 1i);",
      "let y = select(select(-x < z, -x, z) < w, select(-x < z, -x, z), w);",
      "let y = select(select(-x > z, -x, z) > w, select(-x > z, -x, z), w);",
      "var y = -x; if z < y { y = z; } if w < y { y = w; }",
      "var y = z; if y < -x { y = -x; } if y < w { y = w; }",
      "var y = x * -1i; for i in 0 .. 3 { if z < y { y = z; } }",
      "var y = -x; if y > 0i { y = 0i; } if y < z { y = z; }",
      "let y = bits_i32(select(f < 0.0, f, 0.0));",
      "let y = bits_i32(select(f < g, -0.0, g));",
      "let y = bits_i32(min(f, max(g, -0.0)));",
      "var v = -0.0; if f < g { v = g; } let y = bits_i32(v);",
      "var v = f; while v < g { v = -0.0; } let y = bits_i32(v);",
  };
  for (const std::string_view way : kWays) {
    const std::string text = fmt::format(
        "handler h = 64 {{ let x = bits_i32(args[3]); let z = bits_i32(args[4]); "
        "let w = bits_i32(args[5]); let f = bits_f32(args[3]); let g = bits_f32(args[4]); "
        "{} output[0] = bits_u32(min(y, 0i)); }}",
        way);
    const auto program = check_text(text);
    ASSERT_TRUE(program) << text << ": " << program.error().message;
    const Entry entry{.handler_index = 0, .way = Way::lane};
    const RunnerSource source = runner_source(*program, {&entry, 1}, jit::MemoryUse::shared);
    for (const int architecture : {kArchitecture, kNewerArchitecture}) {
      std::vector<backend::cuda::SourceText> headers;
      const auto request = request_for(source, architecture, headers);
      const auto code = backend::cuda::compile_for_ptxas(*nvrtc, request);
      ASSERT_TRUE(code) << text << ": " << code.error().message;
      for (const char* const what :
           {"abs.s32", "min.s32", "max.s32", "min.f32", "max.f32", "selp.f32"}) {
        EXPECT_EQ(code->ptx.find(what), std::string::npos) << architecture << ": " << text;
      }
    }
  }
}

}  // namespace
}  // namespace everkernel::test
