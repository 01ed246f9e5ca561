// Random programs as PTX on the CPU: what NVRTC made of them must leave what the interpreter left.
//
// Needs NVRTC and no GPU. What the second half of the compiler makes of the PTX, only a GPU shows.
// EVERKERNEL_SEED=N begins with batch N, EVERKERNEL_SECONDS=S says how long to go on and
// EVERKERNEL_PTX=PATH where the last PTX is to be left.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "backend/cuda/module.hpp"
#include "needs_nvrtc.hpp"
#include "random_batch.hpp"
#include "support/ir_text.hpp"
#include "support/ptx_machine.hpp"
#include "support/seeds.hpp"

namespace everkernel::test {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kUsualSeconds = 20;
constexpr std::uint32_t kTileBytes = 4096;
// One that no NVRTC knows: it gives the PTX that it gives for 90, byte for byte, and takes no time
// for the second half.
constexpr int kArchitecture = 91;
// The next one after 100, for which NVVM makes other choices.
constexpr int kNewerArchitecture = 102;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// ---- the machine ----

constexpr std::uint32_t kNan = 0x7FFFFFFFu;  // what arithmetic gives

// A kernel with this body, on the words that it knows as %rd0.
Result<std::uint64_t> run_body(std::string_view body, std::span<Word> words,
                               std::uint64_t limit = 1000) {
  const std::string text = fmt::format(
      ".version 9.0\n.target sm_90\n.address_size 64\n"
      ".global .align 8 .b8 table[8] = {{1, 2, 3}};\n"
      ".extern .shared .align 4 .b8 tile[];\n"
      ".visible .entry kernel(\n\t.param .u64 kernel_param_0\n)\n{{\n"
      "\t.local .align 4 .b8 \t__local_depot0[16];\n\t.shared .align 4 .u32 board;\n"
      ".reg .pred %p<9>;\n.reg .b16 %rs<9>;\n.reg .b32 %r<9>;\n.reg .f32 %f<9>;\n"
      ".reg .b64 %rd<9>;\n"
      "ld.param.u64 %rd0, [kernel_param_0];\n{}\nret;\n}}\n",
      body);
  const auto module = PtxModule::parse(text);
  if (!module) return Failure(module.error());
  const auto address = reinterpret_cast<std::uint64_t>(words.data());
  const ptx::Region region{.first = address, .size = words.size_bytes()};
  return module->run({.entry = "kernel",
                      .params = {&address, 1},
                      .block = 7,
                      .regions = {&region, 1},
                      .shared_bytes = 64,
                      .instruction_limit = limit});
}

// What %r0 is behind the body; %r1, %r2 and %r3 are these before it.
Word value_of(std::string_view body, Word a = 0, Word b = 0, Word c = 0) {
  alignas(16) Word words[] = {a, b, c, 0};
  const auto text = fmt::format(
      "ld.global.u32 %r1, [%rd0];\nld.global.u32 %r2, [%rd0+4];\nld.global.u32 %r3, [%rd0+8];\n"
      "{}\nst.global.u32 [%rd0+12], %r0;",
      body);
  const auto executed = run_body(text, words);
  EXPECT_TRUE(executed) << executed.error().message;
  return words[3];
}
// The same of floats, by their bits.
Word float_of(std::string_view body, Word a, Word b = 0, Word c = 0) {
  return value_of(fmt::format("mov.b32 %f1, %r1;\nmov.b32 %f2, %r2;\nmov.b32 %f3, %r3;\n{}\n"
                              "mov.b32 %r0, %f0;",
                              body),
                  a, b, c);
}
// Whether a comparison of floats holds.
bool holds(std::string_view comparison, Word a, Word b) {
  return value_of(fmt::format("mov.b32 %f1, %r1;\nmov.b32 %f2, %r2;\n"
                              "setp.{}.f32 %p1, %f1, %f2;\nselp.b32 %r0, 1, 0, %p1;",
                              comparison),
                  a, b) == 1;
}
std::string refusal(std::string_view body, std::span<Word> words, std::uint64_t limit = 1000) {
  const auto executed = run_body(body, words, limit);
  return executed ? std::string("it ran") : executed.error().message;
}

TEST(PtxMachine, integers_have_the_width_of_their_type) {
  EXPECT_EQ(value_of("add.s32 %r0, %r1, -1;", 0), ~0u);
  EXPECT_EQ(value_of("mul.lo.s32 %r0, %r1, -1640531535;", 3), 3 * 0x9E3779B1u);
  EXPECT_EQ(value_of("mul.hi.s32 %r0, %r1, %r2;", ~0u, 2), ~0u);
  EXPECT_EQ(value_of("mul.hi.u32 %r0, %r1, %r2;", ~0u, 2), 1u);
  EXPECT_EQ(value_of("mul.wide.u32 %rd1, %r1, %r2;\nshr.u64 %rd1, %rd1, 32;\n"
                     "cvt.u32.u64 %r0, %rd1;",
                     ~0u, 16),
            15u);
  EXPECT_EQ(value_of("cvt.u16.u32 %rs1, %r1;\ncvt.s32.s16 %r0, %rs1;", 0x18000), 0xFFFF8000u);
  EXPECT_EQ(value_of("cvt.u16.u32 %rs1, %r1;\ncvt.u32.u16 %r0, %rs1;", 0x18000), 0x8000u);
  EXPECT_EQ(value_of("div.s32 %r0, %r1, %r2;", static_cast<Word>(-7), 2), static_cast<Word>(-3));
  EXPECT_EQ(value_of("rem.s32 %r0, %r1, %r2;", static_cast<Word>(-7), 2), ~0u);
  EXPECT_EQ(value_of("min.u32 %r0, %r1, %r2;", ~0u, 2), 2u);
  EXPECT_EQ(value_of("min.s32 %r0, %r1, %r2;", ~0u, 2), ~0u);
  // Open, and nothing that looks right.
  EXPECT_EQ(value_of("rem.u32 %r0, %r1, %r2;", 5, 0), static_cast<Word>(ptx::kRubbish));
}

TEST(PtxMachine, shifts_do_not_wrap) {
  EXPECT_EQ(value_of("shl.b32 %r0, %r1, %r2;", 1, 31), 0x80000000u);
  EXPECT_EQ(value_of("shl.b32 %r0, %r1, %r2;", 1, 32), 0u);
  EXPECT_EQ(value_of("shr.u32 %r0, %r1, %r2;", ~0u, 33), 0u);
  EXPECT_EQ(value_of("shr.s32 %r0, %r1, %r2;", 0x80000000u, 200), ~0u);
  EXPECT_EQ(value_of("shf.l.wrap.b32 %r0, %r1, %r1, %r2;", 0x80000001u, 33), 3u);
  EXPECT_EQ(value_of("shf.r.clamp.b32 %r0, %r1, %r2, %r3;", 1, 2, 40), 2u);
}

TEST(PtxMachine, bits_are_counted_and_moved) {
  EXPECT_EQ(value_of("popc.b32 %r0, %r1;", 0xF0F0u), 8u);
  EXPECT_EQ(value_of("clz.b32 %r0, %r1;", 0), 32u);
  EXPECT_EQ(value_of("brev.b32 %r0, %r1;", 1), 0x80000000u);
  EXPECT_EQ(value_of("bfe.u32 %r0, %r1, 8, 8;", 0x8180u << 8), 0x80u);
  EXPECT_EQ(value_of("bfe.s32 %r0, %r1, 8, 8;", 0x8180u << 8), 0xFFFFFF80u);
  EXPECT_EQ(value_of("bfe.s32 %r0, %r1, 28, 8;", 0x80000000u), 0xFFFFFFF8u);
  EXPECT_EQ(value_of("bfi.b32 %r0, %r1, %r2, 4, 8;", 0xAB, ~0u), 0xFFFFFABFu);
  EXPECT_EQ(value_of("prmt.b32 %r0, %r1, %r2, 0x7610;", 0x33221100u, 0x77665544u), 0x77661100u);
  EXPECT_EQ(value_of("prmt.b32 %r0, %r1, %r2, 0x000B;", 0x80221100u, 0), 0x000000FFu);
  EXPECT_EQ(value_of("lop3.b32 %r0, %r1, %r2, %r3, 0x96;", 1, 3, 8), 10u);
  EXPECT_EQ(value_of("set.lt.u32.s32 %r0, %r1, %r2;", ~0u, 0), ~0u);
  EXPECT_EQ(value_of("set.lt.u32.u32 %r0, %r1, %r2;", ~0u, 0), 0u);
  EXPECT_EQ(value_of("mov.b64 %rd1, {%r1, %r2};\nmov.b64 {%r3, %r0}, %rd1;", 1, 2), 2u);
}

TEST(PtxMachine, floats_round_once_and_have_one_nan) {
  EXPECT_EQ(float_of("add.rn.f32 %f0, %f1, %f2;", 0x7F800000u, 0xFF800000u), kNan);
  EXPECT_EQ(float_of("mul.rn.f32 %f0, %f1, 0f3F800000;", 0xFFC12345u), kNan);
  EXPECT_EQ(float_of("mov.f32 %f0, %f1;", 0xFFC12345u), 0xFFC12345u);
  EXPECT_EQ(float_of("mul.rn.f32 %f0, %f1, %f2;", 0x00800000u, 0x3F000000u), 0x00400000u);
  EXPECT_EQ(float_of("fma.rn.f32 %f0, %f1, %f1, %f2;", 0x3F800001u, 0xBF800002u), 0x28800000u);
  EXPECT_EQ(float_of("sqrt.rn.f32 %f0, %f1;", 0xBF800000u), kNan);
  EXPECT_EQ(float_of("sqrt.rn.f32 %f0, %f1;", 0x80000000u), 0x80000000u);
  EXPECT_EQ(float_of("div.rn.f32 %f0, %f1, %f2;", 0x3F800000u, 0x80000000u), 0xFF800000u);
  EXPECT_EQ(float_of("min.f32 %f0, %f1, %f2;", 0xFFC12345u, 0x3F800000u), 0x3F800000u);
  EXPECT_EQ(float_of("max.f32 %f0, %f1, %f2;", 0x7FC00000u, 0xFFC00000u), kNan);
  EXPECT_EQ(float_of("min.f32 %f0, %f1, %f2;", 0, 0x80000000u), 0x80000000u);
  EXPECT_EQ(float_of("max.NaN.f32 %f0, %f1, %f2;", 0x7FC00000u, 0), kNan);
  EXPECT_EQ(float_of("cvt.rmi.f32.f32 %f0, %f1;", 0xBF000000u), 0xBF800000u);
  EXPECT_EQ(float_of("cvt.rni.f32.f32 %f0, %f1;", 0x3F000000u), 0u);
  EXPECT_EQ(float_of("cvt.rn.f32.u32 %f0, %r1;", 0xFFFFFFFFu), 0x4F800000u);
  EXPECT_EQ(float_of("cvt.rn.f32.s32 %f0, %r1;", 0xFFFFFFFFu), 0xBF800000u);
}

TEST(PtxMachine, conversions_to_integers_saturate) {
  const auto to = [](std::string_view type, Word bits) {
    return value_of(fmt::format("mov.b32 %f1, %r1;\ncvt.rzi.{}.f32 %r0, %f1;", type), bits);
  };
  EXPECT_EQ(to("u32", 0xBF800000u), 0u);
  EXPECT_EQ(to("u32", 0x4F800000u), ~0u);
  EXPECT_EQ(to("u32", 0x4F7FFFFFu), 0xFFFFFF00u);
  EXPECT_EQ(to("u32", 0x7FC00000u), 0u);
  EXPECT_EQ(to("s32", 0x4F000000u), 0x7FFFFFFFu);
  EXPECT_EQ(to("s32", 0xFF800000u), 0x80000000u);
  EXPECT_EQ(to("s32", 0xFFC00000u), 0u);
  EXPECT_EQ(to("s32", 0xBFFFFFFFu), ~0u);
  EXPECT_EQ(value_of("mov.b32 %f1, %r1;\ncvt.rzi.s64.f32 %rd1, %f1;\n"
                     "mov.b64 {%r1, %r0}, %rd1;",
                     0x7FC00000u),
            0x80000000u);
}

TEST(PtxMachine, comparisons_know_nan) {
  constexpr Word kOne = 0x3F800000u, kQuiet = 0x7FC00000u;
  for (const char* const ordered : {"eq", "ne", "lt", "le", "gt", "ge", "num"}) {
    EXPECT_FALSE(holds(ordered, kQuiet, kOne)) << ordered;
    EXPECT_FALSE(holds(ordered, kOne, kQuiet)) << ordered;
  }
  for (const char* const unordered : {"equ", "neu", "ltu", "leu", "gtu", "geu", "nan"}) {
    EXPECT_TRUE(holds(unordered, kQuiet, kOne)) << unordered;
    EXPECT_TRUE(holds(unordered, kOne, kQuiet)) << unordered;
  }
  EXPECT_TRUE(holds("eq", 0, 0x80000000u));
  EXPECT_FALSE(holds("ne", 0, 0x80000000u));
  EXPECT_FALSE(holds("neu", kOne, kOne));
  EXPECT_TRUE(holds("geu", kOne, kOne));
}

TEST(PtxMachine, predicates_guard_and_combine) {
  constexpr std::string_view kBody =
      "mov.u32 %r0, 1;\nsetp.lt.u32 %p1, %r1, %r2;\nsetp.eq.and.s32 %p2, %r1, 5, %p1;\n"
      "@%p1 add.s32 %r0, %r0, 2;\n@!%p1 add.s32 %r0, %r0, 4;\n@%p2 add.s32 %r0, %r0, 8;";
  EXPECT_EQ(value_of(kBody, 5, 6), 11u);
  EXPECT_EQ(value_of(kBody, 5, 5), 5u);
  EXPECT_EQ(value_of(kBody, 4, 5), 3u);
  EXPECT_EQ(value_of("mov.pred %p1, -1;\nnot.pred %p2, %p1;\nxor.pred %p1, %p1, %p2;\n"
                     "selp.b32 %r0, 6, 7, %p1;"),
            6u);
}

TEST(PtxMachine, names_between_braces_hide_others) {
  EXPECT_EQ(value_of("mov.u32 %r0, 0;\n{ .reg .b32 x; mov.u32 x, 3; // ek:data\n"
                     "{ .reg .b32 x;\nmov.u32 x, 4; add.s32 %r0, %r0, x; }\n"
                     "add.s32 %r0, %r0, x; }"),
            7u);
  EXPECT_EQ(value_of("mov.u32 %r0, 0;\n$again:\n.pragma \"nounroll\";\nadd.s32 %r0, %r0, 1;\n"
                     "setp.ne.s32 %p1, %r0, 10;\n@%p1 bra $again;\nbra.uni $end;\n"
                     "mov.u32 %r0, 99;\n$end:"),
            10u);
}

TEST(PtxMachine, memory_has_kinds_and_vectors) {
  alignas(16) Word words[8] = {1, 2, 3, 4};
  constexpr std::string_view kBody =
      "ld.global.nc.v4.u32 {%r1, %r2, %r3, %r4}, [%rd0]; // ek:table\n"
      "st.global.v2.u32 [%rd0+16], {%r4, %r3};\n"
      "atom.relaxed.gpu.global.add.u32 %r5, [%rd0+24], 9;\n"
      "red.relaxed.gpu.global.max.u32 [%rd0], 77;\n"
      "atom.acquire.gpu.global.cas.b32 %r5, [%rd0+4], 2, 50;\n"
      "mov.u64 %rd1, __local_depot0;\nst.local.u32 [%rd1+12], %r2;\nld.u32 %r6, [%rd1+12];\n"
      "mov.u32 %r7, board;\nst.shared.u32 [board], %r6;\natom.shared.or.b32 %r8, [%r7], 8;\n"
      "ld.shared.u32 %r6, [%r7];\nst.relaxed.gpu.global.u32 [%rd0+28], %r6;\n"
      "mov.u64 %rd2, table;\nld.global.s8 %r1, [%rd2+2];\nmov.u32 %r2, %ctaid.x;\n"
      "add.s32 %r1, %r1, %r2;\nst.global.u32 [%rd0+8], %r1;";
  const auto executed = run_body(kBody, words);
  ASSERT_TRUE(executed) << executed.error().message;
  EXPECT_EQ(*executed, 20u);
  EXPECT_EQ(std::vector<Word>(words, words + 8),
            (std::vector<Word>{77, 50, 10, 4, 4, 3, 9, 2 | 8}));
}

TEST(PtxMachine, the_tile_of_a_launch_lies_behind_other_shared_memory) {
  EXPECT_EQ(value_of("mov.u32 %r2, tile;\nst.shared.u32 [board], 5;\nst.shared.u32 [tile], 6;\n"
                     "st.shared.u32 [%r2+60], %r1;\nld.shared.u32 %r0, [board];\n"
                     "ld.shared.u32 %r3, [tile];\nadd.s32 %r0, %r0, %r3;\n"
                     "ld.shared.u32 %r3, [tile+60];\nadd.s32 %r0, %r0, %r3;\n"
                     "mov.u32 %r3, %dynamic_smem_size;\nadd.s32 %r0, %r0, %r3;",
                     100),
            5 + 6 + 100 + 64u);
  alignas(16) Word words[4] = {};
  EXPECT_NE(refusal("ld.shared.u32 %r1, [tile+64];", words).find("outside"), std::string::npos);
}

TEST(PtxMachine, what_it_does_not_know_it_refuses) {
  alignas(16) Word words[4] = {};
  EXPECT_EQ(refusal("mov.u32 %r1, 0;\nsin.approx.f32 %f1, %f2;", words),
            "PTX line 19: sin.approx.f32 %f1, %f2;: `sin.approx.f32` is not known");
  // The second half of the compiler may contract the one, and takes the other for positive.
  EXPECT_NE(refusal("add.f32 %f1, %f2, %f3;", words).find("not known"), std::string::npos);
  EXPECT_NE(refusal("abs.s32 %r1, %r2;", words).find("not known"), std::string::npos);
  EXPECT_NE(refusal("mov.u32 %r1, %clock;", words).find("`%clock`"), std::string::npos);
  EXPECT_NE(refusal("mov.u32 %r1, %r9;", words).find("`%r9`"), std::string::npos);
  EXPECT_NE(refusal("add.s32 %r1, %r2;", words).find("2 operands, not 3"), std::string::npos);
  EXPECT_NE(refusal("bra $nowhere;", words).find("no such label"), std::string::npos);
  EXPECT_NE(refusal("call.uni leave;", words).find("not known"), std::string::npos);
}

TEST(PtxMachine, what_must_not_happen_ends_the_run) {
  alignas(16) Word words[4] = {};
  const auto found = refusal("mov.u32 %r1, 0;\nld.global.u32 %r1, [%rd0+16];", words);
  EXPECT_TRUE(found.starts_with("PTX line 19: ld.global.u32 %r1, [%rd0+16];: loads 4 bytes at"))
      << found;
  EXPECT_TRUE(found.ends_with("outside of all regions")) << found;
  EXPECT_NE(refusal("st.global.u32 [%rd0+-4], %r1;", words).find("stores 4"), std::string::npos);
  EXPECT_NE(refusal("ld.global.u64 %rd1, [%rd0+4];", words).find("aligned"), std::string::npos);
  EXPECT_NE(refusal("ld.local.u32 %r1, [%rd0];", words).find("outside"), std::string::npos);
  EXPECT_NE(refusal("ld.shared.u32 %r1, [board+400];", words).find("outside"), std::string::npos);
  EXPECT_NE(refusal("$again:\nbra $again;", words, 50).find("ran too long"), std::string::npos);
  // What a predicate keeps from running does no harm.
  EXPECT_EQ(refusal("mov.pred %p1, 0;\n@%p1 ld.global.u32 %r1, [%rd0+16];", words), "it ran");
}

// ---- what must not come out ----

// Magnitudes, extremes of negations, and choices of floats (values.cuh).
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
    const RunnerSource source =
        runner_source(*program, {&entry, 1}, jit::MemoryUse::shared, /*is_one_thread=*/true);
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

// ---- random programs ----

// The memory that a run may use.
std::vector<ptx::Region> regions_of(const RunImage& image, std::size_t run, std::uint64_t base) {
  const auto region = [&](const WordRange& words, bool is_writable) {
    return ptx::Region{.first = base + words.first * sizeof(Word),
                       .size = words.count * sizeof(Word),
                       .is_writable = is_writable};
  };
  std::vector<ptx::Region> regions = {region(image.frame_of(run), false)};
  for (const WordRange& words : image.regions_of(run)) regions.push_back(region(words, true));
  return regions;
}

// The first difference, empty if there is none.
Result<std::string> run_on_machine(const PtxModule& module, const Batch& batch, Tally& tally,
                                   std::uint64_t& instructions) {
  const std::vector<RunRequest> requests = requests_of(batch);
  RunImage image(requests);
  const auto base = reinterpret_cast<std::uint64_t>(image.words().data());
  image.fill(base);
  for (const FrameRow& row : image.rows()) {
    const std::string kernel = kernel_name(row.entry);
    const std::uint64_t frames = base + row.first_frame * sizeof(Word);
    for (std::size_t k = 0; k < row.runs.size(); ++k) {
      const auto executed = module.run({.entry = kernel,
                                        .params = {&frames, 1},
                                        .block = static_cast<std::uint32_t>(k),
                                        .regions = regions_of(image, row.runs[k], base),
                                        .shared_bytes = kTileBytes});
      if (!executed) return report(batch, requests[row.runs[k]], executed.error().message);
      instructions += *executed;
    }
  }
  return first_difference(batch, requests, image.collect(), tally);
}

Result<std::string> compare(const backend::cuda::Nvrtc& nvrtc, const Batch& batch, Tally& tally,
                            std::uint64_t& instructions) {
  const auto compile_begins = Clock::now();
  std::vector<backend::cuda::SourceText> headers;
  const RunnerSource source = source_of(batch, Ways::one_thread);
  const auto request = request_for(source, kArchitecture, headers);
  const auto code = backend::cuda::compile_for_ptxas(nvrtc, request);
  if (!code) return Failure(code.error());
  tally.compile_seconds += seconds_since(compile_begins);
  if (const char* const path = std::getenv("EVERKERNEL_PTX")) std::ofstream(path) << code->ptx;
  const auto run_begins = Clock::now();
  const auto module = PtxModule::parse(code->ptx);
  if (!module) return Failure(module.error());
  auto found = run_on_machine(*module, batch, tally, instructions);
  tally.run_seconds += seconds_since(run_begins);
  return found;
}

TEST(CudaPtx, random_programs_agree_bit_for_bit) {
  EVERKERNEL_NEEDS_NVRTC(nvrtc);
  Tally tally;
  std::uint64_t instructions = 0;
  const double seconds = run_batches(seconds_to_run(kUsualSeconds), [&](std::uint64_t seed) {
    const auto batch = batch_of(seed, tally, Ways::one_thread);
    EXPECT_TRUE(batch) << "seed " << seed << ": " << batch.error().message;
    if (!batch) return false;
    const auto found = compare(*nvrtc, *batch, tally, instructions);
    EXPECT_TRUE(found) << "seed " << seed << ": " << found.error().message;
    if (found && !found->empty()) ADD_FAILURE() << *found;
    return !testing::Test::HasFailure();
  });
  RecordProperty("programs", static_cast<int>(tally.programs));
  RecordProperty("runs_compared", static_cast<int>(tally.runs - tally.racy));
  const auto programs = static_cast<double>(tally.programs);
  std::printf(
      "%zu programs, %zu runs compared with the interpreter in %.1f s, %.1f programs a second\n"
      "a program took %.1f ms to compile and %.1f ms to run, in %.0f instructions\n",
      tally.programs, tally.runs - tally.racy, seconds, programs / seconds,
      1e3 * tally.compile_seconds / programs, 1e3 * tally.run_seconds / programs,
      static_cast<double>(instructions) / programs);
}

}  // namespace
}  // namespace everkernel::test
