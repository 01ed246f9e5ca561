// Results of operators and functions against words written by hand from the description of the
// language. tests/jit compares native code with the interpreter.
#include "support/ir_machine.hpp"

namespace everkernel::test {
namespace {

struct Row {
  std::string_view expression;
  Word expected;
};

void expect_values(std::initializer_list<Row> rows) {
  for (const Row& row : rows) {
    EXPECT_EQ(value_of(row.expression), row.expected) << row.expression;
  }
}

TEST(Meaning, unsigned_arithmetic_wraps) {
  expect_values({
      {"4294967295 + 2", 1},
      {"0 - 1", 0xFFFFFFFF},
      {"65536 * 65537", 65536},
      {"-1", 0xFFFFFFFF},
      {"~0", 0xFFFFFFFF},
      {"7 / 2", 3},
      {"4294967295 / 2", 2147483647},
      {"7 % 4", 3},
      {"7 / 0", 7},
      {"0 / 0", 0},
      {"7 % 0", 0},
  });
}

TEST(Meaning, signed_arithmetic_wraps_and_truncates) {
  expect_values({
      {"u32(2147483647i + 1i)", 0x80000000},
      {"u32(i32(0x80000000) - 1i)", 0x7FFFFFFF},
      {"u32(-i32(0x80000000))", 0x80000000},
      {"u32(65536i * 65536i)", 0},
      {"u32(-7i / 2i)", 0xFFFFFFFD},
      {"u32(-7i % 2i)", 0xFFFFFFFF},
      {"u32(7i % -2i)", 1},
      {"u32(-7i / 0i)", 0xFFFFFFF9},
      {"u32(-7i % 0i)", 0},
      {"u32(i32(0x80000000) / -1i)", 0x80000000},
      {"u32(i32(0x80000000) % -1i)", 0},
      {"u32(i32(0x80000000) / 0i)", 0x80000000},
  });
}

TEST(Meaning, shifts_take_their_count_modulo_32) {
  expect_values({
      {"1 << 31", 0x80000000},
      {"1 << 32", 1},
      {"1 << 33", 2},
      {"0x80000000 >> 31", 1},
      {"0x80000000 >> 32", 0x80000000},
      {"1 << 4294967295", 0x80000000},
      {"u32(-8i >> 1)", 0xFFFFFFFC},
      {"u32(i32(0x80000000) >> 31)", 0xFFFFFFFF},
      {"u32(-1i >> 32)", 0xFFFFFFFF},
      {"u32(-1i << 31)", 0x80000000},
      {"rotl(0x80000001, 1)", 3},
      {"rotl(0x12345678, 0)", 0x12345678},
      {"rotl(0x12345678, 32)", 0x12345678},
      {"rotl(0x12345678, 20)", 0x67812345},
      {"rotl(0x12345678, 36)", 0x23456781},
  });
}

TEST(Meaning, comparisons_look_at_the_sign_of_i32_alone) {
  expect_values({
      {"u32(0xffffffff > 1)", 1},
      {"u32(i32(0xffffffff) > 1i)", 0},
      {"u32(0x80000000 < 1)", 0},
      {"u32(i32(0x80000000) < 1i)", 1},
      {"u32(1 <= 1)", 1},
      {"u32(1 >= 2)", 0},
      {"u32(-1i <= -1i)", 1},
      {"u32(-1i >= 0i)", 0},
      {"u32(true == true)", 1},
      {"u32(true != true)", 0},
      {"u32(!true)", 0},
      {"u32(!false)", 1},
  });
}

TEST(Meaning, bit_functions_count_bits) {
  expect_values({
      {"clz(0)", 32},
      {"clz(1)", 31},
      {"clz(0xffffffff)", 0},
      {"popcount(0)", 0},
      {"popcount(0xffffffff)", 32},
      {"popcount(0x80000001)", 2},
  });
}

TEST(Meaning, min_max_and_abs_of_integers) {
  expect_values({
      {"min(1, 0xffffffff)", 1},
      {"max(1, 0xffffffff)", 0xFFFFFFFF},
      {"u32(min(1i, i32(0xffffffff)))", 0xFFFFFFFF},
      {"u32(max(1i, i32(0xffffffff)))", 1},
      {"abs(0xffffffff)", 0xFFFFFFFF},
      {"u32(abs(-7i))", 7},
      {"u32(abs(i32(0x80000000)))", 0x80000000},
  });
}

TEST(Meaning, floats_round_once_and_keep_denormals) {
  expect_values({
      {"bits_u32(1.0 + 2.0)", 0x40400000},
      {"bits_u32(1.0 / 3.0)", 0x3EAAAAAB},
      {"bits_u32(16777216.0 + 1.0)", 0x4B800000},
      {"bits_u32(3.0e38 * 10.0)", 0x7F800000},
      {"bits_u32(1.0 / 0.0)", 0x7F800000},
      {"bits_u32(-1.0 / 0.0)", 0xFF800000},
      {"bits_u32(0.0 / 0.0)", 0x7FC00000},
      {"bits_u32(bits_f32(0x00800000) * 0.5)", 0x00400000},
      {"bits_u32(bits_f32(1) + bits_f32(1))", 2},
      {"bits_u32(-0.0)", 0x80000000},
      {"bits_u32(0.0 - 0.0)", 0},
      {"bits_u32(sqrt(2.0))", 0x3FB504F3},
      {"bits_u32(sqrt(-1.0))", 0x7FC00000},
      {"bits_u32(sqrt(-0.0))", 0x80000000},
      {"bits_u32(floor(1.5))", 0x3F800000},
      {"bits_u32(floor(-1.5))", 0xC0000000},
      {"bits_u32(floor(-0.0))", 0x80000000},
      {"bits_u32(abs(-0.0))", 0},
      // (1 + 2^-12)² − (1 + 2^-11) is 2^-24 fused and 0 rounded twice.
      {"bits_u32(fma(bits_f32(0x3f800800), bits_f32(0x3f800800), -bits_f32(0x3f801000)))",
       0x33800000},
      {"bits_u32(bits_f32(0x3f800800) * bits_f32(0x3f800800) - bits_f32(0x3f801000))", 0},
  });
}

TEST(Meaning, functions_of_numbers_give_the_nearest_float) {
  expect_values({
      {"bits_u32(exp(1.0))", 0x402DF854},
      {"bits_u32(exp(-104.0))", 0},
      {"bits_u32(log(2.0))", 0x3F317218},
      {"bits_u32(log(-1.0))", 0x7FC00000},
      {"bits_u32(exp2(-149.0))", 1},
      {"bits_u32(log2(bits_f32(1)))", 0xC3150000},
      {"bits_u32(sin(1.0))", 0x3F576AA4},
      {"bits_u32(cos(1.0))", 0x3F0A5140},
      {"bits_u32(sin(1048577.0))", 0x7FC00000},
      {"bits_u32(tanh(1.0))", 0x3F42F7D6},
      {"bits_u32(pow(2.0, 0.5))", 0x3FB504F3},
      {"bits_u32(pow(-2.0, 3.0))", 0xC1000000},
      {"bits_u32(pow(4099.0, 2.0))", 0x4B803004},
      {"bits_u32(pow(1.0, bits_f32(0x7fc00000)))", 0x7FC00000},
      {"clamp(9, 1, 7)", 7},
      {"clamp(5, 7, 1)", 1},
      {"u32(clamp(-9i, -7i, 7i))", 0xFFFFFFF9},
      {"bits_u32(clamp(-0.0, 0.0, 1.0))", 0},
  });
}

TEST(Meaning, every_nan_shows_as_one) {
  expect_values({
      {"bits_u32(bits_f32(0x7f800001))", 0x7FC00000},
      {"bits_u32(bits_f32(0xffffffff))", 0x7FC00000},
      {"u32(bits_i32(bits_f32(0xff800001)))", 0x7FC00000},
      {"bits_u32(-bits_f32(0x7fc00000))", 0x7FC00000},
      {"bits_u32(bits_f32(0x7fc00000) + 1.0)", 0x7FC00000},
      {"bits_u32(0x7f800001)", 0x7F800001},  // a word is no NaN
      {"bits_u32(bits_f32(0x7f800000))", 0x7F800000},
  });
}

TEST(Meaning, float_min_and_max_prefer_numbers_and_order_zeros) {
  expect_values({
      {"bits_u32(min(1.0, 2.0))", 0x3F800000},
      {"bits_u32(max(1.0, 2.0))", 0x40000000},
      {"bits_u32(min(bits_f32(0x7fc00000), 2.0))", 0x40000000},
      {"bits_u32(min(2.0, bits_f32(0x7fc00000)))", 0x40000000},
      {"bits_u32(max(bits_f32(0xffc00000), 2.0))", 0x40000000},
      {"bits_u32(max(2.0, bits_f32(0xffc00000)))", 0x40000000},
      {"bits_u32(min(bits_f32(0x7f800001), bits_f32(0xffffffff)))", 0x7FC00000},
      {"bits_u32(min(0.0, -0.0))", 0x80000000},
      {"bits_u32(min(-0.0, 0.0))", 0x80000000},
      {"bits_u32(max(0.0, -0.0))", 0},
      {"bits_u32(max(-0.0, 0.0))", 0},
  });
}

TEST(Meaning, comparisons_with_nan_are_false_but_not_equal) {
  expect_values({
      {"u32(bits_f32(0x7fc00000) < 1.0)", 0},
      {"u32(bits_f32(0x7fc00000) <= 1.0)", 0},
      {"u32(bits_f32(0x7fc00000) > 1.0)", 0},
      {"u32(1.0 >= bits_f32(0x7fc00000))", 0},
      {"u32(bits_f32(0x7fc00000) == bits_f32(0x7fc00000))", 0},
      {"u32(bits_f32(0x7fc00000) != bits_f32(0x7fc00000))", 1},
      {"u32(0.0 == -0.0)", 1},
      {"u32(-0.0 < 0.0)", 0},
  });
}

TEST(Meaning, conversions_truncate_and_saturate) {
  expect_values({
      {"u32(1.9)", 1},
      {"u32(-0.9)", 0},
      {"u32(-5.0)", 0},
      {"u32(4294967040.0)", 0xFFFFFF00},
      {"u32(4294967296.0)", 0xFFFFFFFF},
      {"u32(1.0 / 0.0)", 0xFFFFFFFF},
      {"u32(-1.0 / 0.0)", 0},
      {"u32(0.0 / 0.0)", 0},
      {"u32(i32(-1.9))", 0xFFFFFFFF},
      {"u32(i32(2147483520.0))", 0x7FFFFF80},
      {"u32(i32(2147483648.0))", 0x7FFFFFFF},
      {"u32(i32(-2147483648.0))", 0x80000000},
      {"u32(i32(-3.0e9))", 0x80000000},
      {"u32(i32(0.0 / 0.0))", 0},
      {"u32(-1i)", 0xFFFFFFFF},
      {"u32(true) + u32(false)", 1},
      {"bits_u32(f32(4294967295))", 0x4F800000},
      {"bits_u32(f32(-1i))", 0xBF800000},
      {"bits_u32(f32(16777217))", 0x4B800000},
      {"bits_u32(f32(i32(0x80000000)))", 0xCF000000},
      {"u32(bits_i32(1.0))", 0x3F800000},
      {"bits_u32(bits_f32(-1i + 1i))", 0},
      {"bits_u32(f32(1.5))", 0x3FC00000},
  });
}

TEST(Meaning, select_takes_the_second_after_true) {
  expect_values({
      {"select(true, 1, 2)", 1},
      {"select(1 == 2, 1, 2)", 2},
      {"u32(select(true, -1i, 2i))", 0xFFFFFFFF},
      {"bits_u32(select(false, 1.0, 2.0))", 0x40000000},
      {"u32(select(false, true, false))", 0},
  });
}

TEST(Meaning, atomics_change_the_word_and_give_the_one_before) {
  struct Atomic {
    std::string_view call;
    Word after;
  };
  constexpr Atomic kRows[] = {
      {"atomic_add(output[7], 0xffffffff)", 11}, {"atomic_min(output[7], 5)", 5},
      {"atomic_min(output[7], 0xffffffff)", 12}, {"atomic_max(output[7], 0xffffffff)", 0xFFFFFFFF},
      {"atomic_max(output[7], 5)", 12},          {"atomic_and(output[7], 6)", 4},
      {"atomic_or(output[7], 3)", 15},           {"atomic_xor(output[7], 6)", 10},
      {"atomic_exchange(output[7], 99)", 99},    {"atomic_cas(output[7], 12, 50)", 50},
      {"atomic_cas(output[7], 13, 50)", 12},
  };
  for (const Atomic& row : kRows) {
    Machine machine;
    machine.output[7] = 12;
    EXPECT_EQ(machine.run("output[0] = " + std::string(row.call) + ";"), kDone);
    EXPECT_EQ(machine.output[0], 12u) << row.call;
    EXPECT_EQ(machine.output[7], row.after) << row.call;
  }
}

}  // namespace
}  // namespace everkernel::test
