// exp, log, exp2, log2, sin, cos, tanh and pow on many operands: native code equals the
// interpreter, and results are off by hardly more than half a unit in the last place, measured with
// MPFR.
//
// EVERKERNEL_SOAK=1 tries every operand there is, and more of them with MPFR.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#if defined(EVERKERNEL_HAS_MPFR)
#include <mpfr.h>
#endif

#include "everkernel/ir/detail/vocabulary_tables.hpp"
#include "everkernel/ir/parser.hpp"
#include "everkernel/jit/native.hpp"
#include "everkernel/memory/buffer_table.hpp"
#include "ir/semantics.hpp"
#include "skip.hpp"
#include "support/jit_random.hpp"
#include "support/seeds.hpp"

namespace everkernel::test {
namespace {

using ir::Function;

constexpr Function kOfOneNumber[] = {Function::exp, Function::log, Function::exp2, Function::log2,
                                     Function::sin, Function::cos, Function::tanh};

std::string name_of(const testing::TestParamInfo<Function>& function) {
  return std::string(ir::info(function.param).name);
}

Word interpreted(Function function, Word x, Word y = 0) {
  return ir::semantics::call(function, ir::Type::f32, x, y, 0);
}

// ---- operands ----

constexpr Word kSign = 0x80000000u;

// Operands around which the results or the ways to compute them change.
constexpr Word kThresholds[] = {
    0,                                      // and denormals
    0x00800000u, 0x3F800000u,               // the least normal number, 1
    0x3F3504F3u,                            // the root of 1/2
    0x3EB17218u,                            // log(2)/2
    0x3F490FDBu, 0x3FC90FDBu, 0x40490FDBu,  // pi/4, pi/2, pi
    0x41102CB4u, 0x41200000u,               // where tanh becomes 1; 10
    0x42AEAC50u, 0x42B17218u,               // where exp becomes denormal; infinite
    0x42CFF1B5u, 0x42D20000u,               // where exp becomes 0; 105
    0x42FC0000u, 0x43000000u,               // 126, 128
    0x43150000u, 0x43160000u, 0x43200000u,  // 149, 150, 160
    0x46199998u,                            // 9830.4
    0x497FFFF0u, 0x49800000u,               // 2^20
    0x7F7FFFF0u,                            // and infinity
};

/// The thresholds and what is next to them, with both signs.
std::vector<Word> edges() {
  std::vector<Word> words;
  for (const Word threshold : kThresholds) {
    for (Word i = 0; i < 32; ++i) {
      for (const Word bits : {threshold + i, threshold - i}) {
        words.insert(words.end(), {bits, bits ^ kSign});
      }
    }
  }
  return words;
}

// ---- native code ----

/// A loop over words as native code. In exclusive memory it is vectorised, in shared memory not.
class Loop {
 public:
  Loop(Function function, jit::MemoryUse memory, std::span<Word> operands, std::span<Word> results)
      : input_(table_.adopt({.handle = 1}, operands).value()),
        output_(table_.adopt({.handle = 2}, results).value()),
        code_(compile(function, memory)) {}

  void run() const {
    ir::ItemFrame frame;
    frame.args[0] = 1;
    frame.args[1] = 2;
    frame.buffers = table_.view();
    ASSERT_EQ(code_.run(0, frame), ir::Outcome{});
  }

 private:
  static jit::NativeProgram compile(Function function, jit::MemoryUse memory) {
    auto program =
        ir::parse(fmt::format("handler h = 64 {{ for i in 0 .. min(len(input), len(output)) {{\n"
                              "output[i] = bits_u32({}(bits_f32(input[i]))); }} }}",
                              ir::info(function).name));
    const auto verified = ir::verify(*std::move(program));
    return jit::NativeProgram::compile(*verified, {.memory = memory}).value();
  }

  memory::BufferTable table_;
  memory::Buffer input_, output_;
  jit::NativeProgram code_;
};

class OfOneNumber : public testing::TestWithParam<Function> {};
INSTANTIATE_TEST_SUITE_P(NumberFunctions, OfOneNumber, testing::ValuesIn(kOfOneNumber), name_of);

/// Both kinds of loops, compared with the interpreter.
class Loops {
 public:
  explicit Loops(Function function) : function_(function) {}

  static constexpr std::size_t kBlock = 1 << 14;

  // Operands are set by `operand(i)`.
  template <class Operand>
  void expect_agreement(const Operand& operand) {
    for (std::size_t i = 0; i < kBlock; ++i) operands_[i] = operand(i);
    for (std::size_t i = 0; i < kBlock; ++i) expected_[i] = interpreted(function_, operands_[i]);
    fast_.run();
    slow_.run();
    if (vectorised_ == expected_ && scalar_ == expected_) return;
    for (std::size_t i = 0; i < kBlock; ++i) {
      ASSERT_EQ(vectorised_[i], expected_[i]) << fmt::format("vectorised, of {:#x}", operands_[i]);
      ASSERT_EQ(scalar_[i], expected_[i]) << fmt::format("scalar, of {:#x}", operands_[i]);
    }
  }

 private:
  using Words = std::vector<Word>;
  Function function_;
  Words operands_ = Words(kBlock), vectorised_ = operands_, scalar_ = operands_;
  Words expected_ = operands_;
  Loop fast_{function_, jit::MemoryUse::exclusive, operands_, vectorised_};
  Loop slow_{function_, jit::MemoryUse::shared, operands_, scalar_};
};

TEST_P(OfOneNumber, native_code_agrees_at_edges) {
  EVERKERNEL_NEEDS_NATIVE_CODE();
  const std::vector<Word> words = edges();
  Loops loops(GetParam());
  loops.expect_agreement([&](std::size_t i) { return words[i % words.size()]; });
}

TEST_P(OfOneNumber, native_code_agrees_on_operands_of_every_size) {
  EVERKERNEL_NEEDS_NATIVE_CODE();
  constexpr std::uint64_t kEvery = std::uint64_t{1} << 32;
  constexpr std::uint64_t kUsualStep = 16'411;  // a prime: every exponent with many fractions
  const std::uint64_t step = is_soak() ? 1 : kUsualStep;
  Loops loops(GetParam());
  for (std::uint64_t first = 0; first < kEvery && !HasFailure(); first += step * Loops::kBlock) {
    loops.expect_agreement([&](std::size_t i) { return static_cast<Word>(first + i * step); });
  }
}

// ---- accuracy ----

#if defined(EVERKERNEL_HAS_MPFR)

/// A number with far more bits than an f32.
class Exact {
 public:
  Exact() { mpfr_init2(value_, 120); }
  Exact(const Exact&) = delete;
  Exact& operator=(const Exact&) = delete;
  ~Exact() { mpfr_clear(value_); }
  operator mpfr_ptr() { return value_; }

 private:
  mpfr_t value_;
};

void compute(Function function, mpfr_ptr result, mpfr_srcptr x, mpfr_srcptr y) {
  switch (function) {
    case Function::exp:
      mpfr_exp(result, x, MPFR_RNDN);
      break;
    case Function::log:
      mpfr_log(result, x, MPFR_RNDN);
      break;
    case Function::exp2:
      mpfr_exp2(result, x, MPFR_RNDN);
      break;
    case Function::log2:
      mpfr_log2(result, x, MPFR_RNDN);
      break;
    case Function::sin:
      mpfr_sin(result, x, MPFR_RNDN);
      break;
    case Function::cos:
      mpfr_cos(result, x, MPFR_RNDN);
      break;
    case Function::tanh:
      mpfr_tanh(result, x, MPFR_RNDN);
      break;
    default:
      mpfr_pow(result, x, y, MPFR_RNDN);
  }
}

/// The results of one function, compared with exact ones.
struct Comparison {
  std::size_t operands = 0;
  std::size_t not_nearest = 0;  // results that are another f32 than the nearest one
  double worst = 0.5;           // error of such a result in units of the last place
  Word worst_x = 0, worst_y = 0;

  void add(Function function, Word x_bits, Word y_bits) {
    mpfr_set_flt(x_, std::bit_cast<float>(x_bits), MPFR_RNDN);
    mpfr_set_flt(y_, std::bit_cast<float>(y_bits), MPFR_RNDN);
    compute(function, exact_, x_, y_);
    const Word found = interpreted(function, x_bits, y_bits);
    ++operands;
    if (mpfr_nan_p(exact_) != 0) {
      EXPECT_EQ(found, ir::semantics::kCanonicalNan) << fmt::format("of {:#x}", x_bits);
      return;
    }
    if (found == std::bit_cast<Word>(mpfr_get_flt(exact_, MPFR_RNDN))) return;
    ++not_nearest;
    const double error = error_of(std::bit_cast<float>(found));
    if (error <= worst) return;
    worst = error;
    worst_x = x_bits;
    worst_y = y_bits;
  }

 private:
  double error_of(float found) {
    constexpr mpfr_exp_t kFractionBits = 24, kLeastExponent = -149;
    const mpfr_exp_t unit = std::max(mpfr_get_exp(exact_) - kFractionBits, kLeastExponent);
    mpfr_set_flt(x_, found, MPFR_RNDN);
    mpfr_sub(y_, exact_, x_, MPFR_RNDN);
    mpfr_div_2si(y_, y_, unit, MPFR_RNDN);
    return std::fabs(mpfr_get_d(y_, MPFR_RNDN));
  }

  Exact x_, y_, exact_;
};

constexpr Word kMagnitude = 0x7FFFFFFFu, kInfinity = 0x7F800000u, kOne = 0x3F800000u;

// Random operands for which the result is no constant.
Word random_operand(Function function, Random& random) {
  const auto below = [&](Word limit) {
    return random.below(limit) | (random.chance(50) ? kSign : 0);
  };
  switch (function) {
    case Function::exp:
    case Function::exp2:
      // Mostly numbers from 2^-12 to 128: for smaller ones the result is 1.
      return random.chance(10) ? below(0x43160000u) : below(0x0B000000u) + 0x39000000u;
    case Function::sin:
    case Function::cos:
      return random.chance(10) ? below(0x49800000u) : below(0x12800000u) + 0x37000000u;
    case Function::tanh:
      return random.chance(10) ? below(0x41200000u) : below(0x08800000u) + 0x39000000u;
    default:
      return random.below(kInfinity);
  }
}

void expect_accurate(Function function, const Comparison& comparison) {
  std::printf("%s: %zu operands, %zu results are not the nearest f32, the worst is off by %.9f ulp",
              std::string(ir::info(function).name).c_str(), comparison.operands,
              comparison.not_nearest, comparison.worst);
  std::printf(" (%#x, %#x)\n", comparison.worst_x, comparison.worst_y);
  EXPECT_LE(comparison.worst, 0.5001);
  EXPECT_LE(comparison.not_nearest, comparison.operands / 10'000);
}

std::size_t operand_count() {
  return is_soak() ? 1'000'000 : 100'000;
}

TEST_P(OfOneNumber, results_are_the_nearest_f32_or_nearly) {
  const Function function = GetParam();
  Comparison comparison;
  const bool is_circular = function == Function::sin || function == Function::cos;
  for (const Word bits : edges()) {
    if (is_circular && (bits & kMagnitude) > 0x49800000u) {
      EXPECT_EQ(interpreted(function, bits), ir::semantics::kCanonicalNan);
    } else {
      comparison.add(function, bits, 0);
    }
  }
  Random random(first_seed());
  while (comparison.operands < operand_count()) {
    comparison.add(function, random_operand(function, random), 0);
  }
  expect_accurate(function, comparison);
}

double from_library(Function function, double x) {
  switch (function) {
    case Function::exp:
      return std::exp(x);
    case Function::log:
      return std::log(x);
    case Function::exp2:
      return std::exp2(x);
    case Function::log2:
      return std::log2(x);
    case Function::sin:
      return std::sin(x);
    case Function::cos:
      return std::cos(x);
    default:
      return std::tanh(x);
  }
}

// The C library's f64, taken to be off by 2^-49 of itself at most, which is far more than it is,
// decides for nearly all operands what the nearest f32 is. MPFR decides for the others.
TEST_P(OfOneNumber, every_result_is_the_nearest_f32_or_nearly) {
  const Function function = GetParam();
  const bool is_circular = function == Function::sin || function == Function::cos;
  Comparison comparison;
  const std::uint64_t step = is_soak() ? 1 : 16'411;
  for (std::uint64_t operand = 0; operand >> 32 == 0; operand += step) {
    const auto bits = static_cast<Word>(operand);
    if (is_circular && (bits & kMagnitude) > 0x49800000u) continue;
    const double close = from_library(function, std::bit_cast<float>(bits));
    const auto low = static_cast<float>(close * (1 - 0x1p-49));
    const auto high = static_cast<float>(close * (1 + 0x1p-49));
    const Word found = interpreted(function, bits);
    const Word expected =
        std::isnan(close) ? ir::semantics::kCanonicalNan : std::bit_cast<Word>(low);
    if (found == expected && (low == high || std::isnan(close))) {
      ++comparison.operands;
    } else {
      comparison.add(function, bits, 0);
    }
  }
  expect_accurate(function, comparison);
}

TEST(NumberFunctions, powers_are_the_nearest_f32_or_nearly) {
  Comparison comparison;
  Random random(first_seed());
  const auto float_of = [](Word bits) { return std::bit_cast<float>(bits); };
  while (comparison.operands < operand_count()) {
    // Bases of every size, near 1 and small whole numbers; a result of every size.
    const Word kind = random.below(10);
    const Word x = kind < 5   ? random.below(kInfinity)
                   : kind < 8 ? kOne - 0x200000u + random.below(0x400000u)
                              : std::bit_cast<Word>(static_cast<float>(random.between(2, 4000)));
    const float logarithm = std::log2(float_of(x));
    const float wanted = static_cast<float>(random.below(280'000)) / 1000.0f - 150.0f;
    Word y = std::bit_cast<Word>(wanted / logarithm);
    if (random.chance(20)) y = std::bit_cast<Word>(std::nearbyint(float_of(y)));
    if (!std::isfinite(float_of(y))) continue;
    comparison.add(Function::pow, x, y);
  }
  expect_accurate(Function::pow, comparison);
}

#else

TEST(NumberFunctions, results_are_the_nearest_f32_or_nearly) {
  GTEST_SKIP() << "built without MPFR (Debian: libmpfr-dev)";
}

#endif

}  // namespace
}  // namespace everkernel::test
