// The checker of PTX finds each kind of forbidden access.
#include <gtest/gtest.h>

#include "support/ptx_check.hpp"

namespace everkernel::test {
namespace {

// A line as a compiler prints it around an accessor.
std::string inlined(std::string_view line) {
  return "\t// begin inline asm\n\t" + std::string(line) + "\n\t// end inline asm\n";
}

struct Row {
  std::string text;
  std::string_view what;  // is wrong; empty: nothing
};

class PtxCheck : public ::testing::TestWithParam<Row> {};

TEST_P(PtxCheck, judges_a_line) {
  const PtxReport report = check_ptx(GetParam().text);
  if (GetParam().what.empty()) {
    EXPECT_EQ(shown(report), "");
    return;
  }
  ASSERT_EQ(report.violations.size(), 1u) << shown(report);
  EXPECT_EQ(report.violations[0].what, GetParam().what);
}

constexpr std::string_view kCompiler = "was made by the compiler, not by an accessor";

INSTANTIATE_TEST_SUITE_P(
    Sound, PtxCheck,
    testing::Values(
        Row{inlined("ld.acquire.gpu.global.u32 %r1, [%rd1]; // ek:word"), ""},
        Row{inlined("st.release.sys.global.u32 [%rd1], %r1; // ek:word"), ""},
        Row{inlined("@%p1 atom.acq_rel.gpu.global.add.u64 %rd2, [%rd1], 1; // ek:word"), ""},
        Row{inlined("red.relaxed.gpu.global.add.u32 [%rd1], %r2; // ek:atomic"), ""},
        Row{inlined("ld.global.u32 %r1, [%rd1]; // ek:data"), ""},
        Row{inlined("{ .reg .pred p; setp.lt.u32 p, %r1, %r2;\n@p ld.global.u32 %r3, [%rd1]; "
                    "// ek:data\n}"),
            ""},
        Row{inlined("st.global.v4.u32 [%rd1], {%r1, %r2, %r3, %r4}; // ek:hit"), ""},
        Row{inlined("ld.global.nc.v2.u32 {%r1, %r2}, [%rd1+8]; // ek:table"), ""},
        Row{"\tld.param.u64 \t%rd1, [kernel_param_0];\n", ""},
        Row{"\tst.shared.u32 \t[board], %r1;\n", ""},
        Row{"\tatom.cta.shared.min.u32 \t%r1, [board], %r2;\n", ""},
        Row{"\tld.shared::cta.u32 \t%r1, [board];\n", ""},
        Row{"\tld.local.u32 \t%r1, [%rd1];\n", ""}, Row{"\tld.const.u32 \t%r1, [table];\n", ""},
        Row{"\tcvta.to.global.u64 \t%rd1, %rd2;\n", ""}, Row{"\tadd.s32 \t%r1, %r2, %r3;\n", ""},
        Row{"\tredux.sync.min.u32 \t%r1, %r2, %r3;\n", ""},
        Row{"$L1:\n\tbar.warp.sync \t-1;\n\tbarrier.red.or.pred \t%p1, 0, %p2;\n", ""},
        Row{"// ld.global.u32 in a comment\n", ""}));

INSTANTIATE_TEST_SUITE_P(
    Unsound, PtxCheck,
    testing::Values(
        Row{"\tld.global.u32 \t%r1, [%rd1];\n", kCompiler},
        Row{"\t@%p1 ld.global.u32 \t%r1, [%rd1];\n", kCompiler},
        Row{"$L1: st.global.u32 \t[%rd1], %r1;\n", kCompiler},
        Row{"\tld.u32 \t%r1, [%rd1];\n", kCompiler},
        Row{"\tst.v2.u32 \t[%SP+8], {%r1, %r2};\n", kCompiler},
        Row{"\tatom.global.add.u32 \t%r1, [%rd1], %r2;\n", kCompiler},
        Row{"\tatom.add.u32 \t%r1, [%rd1], %r2;\n", kCompiler},
        Row{"\tred.global.add.u32 \t[%rd1], %r2;\n", kCompiler},
        Row{"\tld.global.nc.u32 \t%r1, [%rd1];\n", kCompiler},
        Row{"\tcp.async.ca.shared.global [%r1], [%rd1], 16;\n", kCompiler},
        // A marker on another line does not count for this line.
        Row{inlined("ld.global.u32 %r1, [%rd1]; // ek:data") + "\tld.global.u32 \t%r1, [%rd1];\n",
            kCompiler},
        Row{"\tld.global.u32 \t%r1, [%rd1]; // ek:data\n", kCompiler},
        Row{inlined("ld.global.u32 %r1, [%rd1];"), "has no marker"},
        Row{inlined("ld.relaxed.gpu.global.u32 %r1, [%rd1]; // word"), "has no marker"},
        Row{inlined("ld.global.u32 %r1, [%rd1]; // ek:data\n\tld.global.u32 %r2, [%rd1];"),
            "has no marker"},
        Row{inlined("ld.global.u32 %r1, [%rd1]; // ek:guess"),
            "has a marker that means nothing: `guess`"},
        Row{inlined("ld.global.gpu.u32 %r1, [%rd1]; // ek:word"), "has no order"},
        Row{inlined("ld.relaxed.global.u32 %r1, [%rd1]; // ek:word"), "has no scope"},
        Row{inlined("atom.global.gpu.add.u32 %r1, [%rd1], %r2; // ek:atomic"), "has no order"},
        Row{inlined("ld.relaxed.gpu.u32 %r1, [%rd1]; // ek:word"),
            "does not say which memory it means"},
        Row{inlined("ld.global.nc.u32 %r1, [%rd1]; // ek:data"),
            "may be read from a cache that is not coherent"},
        Row{"\tbar.warp.sync \t-1;\n$L1:\n\tbarrier.red.or.pred \t%p1, 0, %p2;\n",
            "is reached by lanes that may be apart"},
        Row{"\tbar.warp.sync \t-1;\n\t@%p1 bra \t$L1;\n\tbar.red.or.pred \t%p1, 0, %p2;\n",
            "is reached by lanes that may be apart"},
        Row{"\tld.volatile.shared.u32 \t%r1, [board];\n", "is volatile: it has no order"},
        Row{".extern .func (.param .b32 r) vprintf\n", "calls a function outside the text"}));

TEST(PtxReports, count_accesses_by_marker_and_name_the_line) {
  const PtxReport report = check_ptx(inlined("ld.global.u32 %r1, [%rd1]; // ek:data") +
                                     inlined("st.global.u32 [%rd1], %r1; // ek:data") +
                                     inlined("ld.relaxed.gpu.global.u32 %r1, [%rd1]; // ek:word") +
                                     "\tld.global.u32 \t%r1, [%rd1];\n");
  EXPECT_EQ(report.accesses, (std::map<std::string, std::size_t>{{"data", 2}, {"word", 1}}));
  ASSERT_EQ(report.violations.size(), 1u);
  EXPECT_EQ(report.violations[0].line, 10u);
  EXPECT_EQ(report.violations[0].text, "ld.global.u32 \t%r1, [%rd1];");
}

}  // namespace
}  // namespace everkernel::test
