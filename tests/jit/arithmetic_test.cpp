// Random arithmetic without loops or memory, each handler on thousands of operands. Compilers
// recognise many ways to write a minimum, a magnitude or a rotation, and compile some of them
// wrongly for few operands. A program of differential_test.cpp seldom has both the expression and
// the operands.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "skip.hpp"
#include "support/jit_random.hpp"
#include "support/jit_trial.hpp"
#include "support/seeds.hpp"

namespace everkernel::test {
namespace {

constexpr std::size_t kHandlers = 12;
constexpr std::size_t kTuples = 2048;
constexpr std::uint64_t kBatches = 2;

constexpr Word kEdges[] = {
    0,           1,           2,           3,           7,           8,           31,
    32,          33,          255,         0x7FFFFFFEu, 0x7FFFFFFFu, 0x80000000u, 0x80000001u,
    0xFFFFFFFFu, 0xFFFFFFFEu, 0xFFFFFFF8u, 0x40000000u, 0xC0000000u, 0x55555555u, 0x3F800000u,
    0xBF800000u, 0x7F800000u, 0xFF800000u, 0x7FC00000u, 0x7F800001u, 0x00000001u, 0x4F000000u,
    0xCF000000u, 0x3F000000u, 0x4B800001u, 0x007FFFFFu, 0x42B17218u, 0xC2CFF1B5u, 0x43000000u,
    0xC3150000u, 0x40490FDBu, 0x49800000u, 0x49800001u, 0x3F800001u, 0x40400000u, 0xC1200000u,
};

enum Kind : std::size_t { kU32, kI32, kF32, kBool, kKinds };

// Writes the statements of one handler. Operands are mostly the latest values, so that expressions
// build on each other; a choice is mostly between the two operands that were compared.
class Arithmetic {
 public:
  explicit Arithmetic(Random& random) : random_(random) {}

  std::string run() {
    for (Word left = random_.between(6, 18); left > 0; --left) step();
    text_ += fmt::format("output[i] = rotl({}, 1) ^ rotl(u32({}), 9) ^ bits_u32({}) ^ u32({});\n",
                         names_[kU32].back(), names_[kI32].back(), names_[kF32].back(),
                         names_[kBool].back());
    return std::move(text_);
  }

 private:
  std::string operand(Kind kind) {
    static constexpr std::string_view kWords[] = {
        "0", "1", "2", "3", "7", "31", "32", "255", "0x7fffffff", "0x80000000", "0xffffffff"};
    static constexpr std::string_view kNumbers[] = {
        "0i", "1i", "(-1i)", "2i", "(-2i)", "31i", "0x7fffffffi", "(-0x7fffffffi - 1i)"};
    static constexpr std::string_view kFloats[] = {"0.0", "(-0.0)", "1.0",         "(-1.0)",
                                                   "0.5", "2.0",    "2147483648.0"};
    if (random_.chance(20)) {
      if (kind == kU32) return std::string(random_.pick(kWords));
      if (kind == kI32) return std::string(random_.pick(kNumbers));
      if (kind == kF32) return std::string(random_.pick(kFloats));
    }
    const auto& names = names_[kind];
    const auto recent = static_cast<Word>(std::min<std::size_t>(names.size(), 4));
    return random_.chance(70) ? names[names.size() - 1 - random_.below(recent)]
                              : random_.pick_from(names);
  }
  Kind number() { return static_cast<Kind>(random_.below(kBool)); }

  void add(Kind kind, const std::string& value) {
    names_[kind].push_back(fmt::format("{}_{}", "uife"[kind], next_++));
    text_ += fmt::format("let {} = {};\n", names_[kind].back(), value);
  }

  std::string comparison(const std::string& a, const std::string& b) {
    static constexpr std::string_view kSigns[] = {"<", "<=", ">", ">=", "==", "!="};
    const std::string compared = fmt::format("{} {} {}", a, random_.pick(kSigns), b);
    return random_.chance(15) ? fmt::format("!({})", compared) : compared;
  }

  // Compares two operands and chooses between them, or sometimes between other operands.
  void choice(Kind kind) {
    const std::string a = operand(kind);
    const std::string b = operand(kind);
    const std::string compared = comparison(a, b);
    const std::string first = random_.chance(75) ? a : operand(kind);
    const std::string second = random_.chance(75) ? b : operand(kind);
    add(kBool, compared);
    const std::string condition = random_.chance(80) ? names_[kBool].back() : operand(kBool);
    add(kind, random_.chance(50) ? fmt::format("select({}, {}, {})", condition, first, second)
                                 : fmt::format("select({}, {}, {})", condition, second, first));
  }

  // A choice made by a variable and branches.
  void branches(Kind kind) {
    const std::string variable = fmt::format("w_{}", next_++);
    text_ += fmt::format("var {} = {};\n", variable, operand(kind));
    for (Word left = random_.between(1, 3); left > 0; --left) {
      const std::string other = operand(kind);
      const std::string compared =
          random_.chance(50) ? comparison(variable, other) : comparison(other, variable);
      text_ += fmt::format("if {} {{ {} = {}; }}", compared, variable,
                           random_.chance(70) ? other : operand(kind));
      if (random_.chance(30)) text_ += fmt::format(" else {{ {} = {}; }}", variable, operand(kind));
      text_ += "\n";
    }
    add(kind, variable);
  }

  void magnitude() {
    const std::string a = operand(kI32);
    static constexpr std::string_view kOthers[] = {"-{}", "{} * -1i", "~{}", "0i - {}", "~{} + 1i"};
    add(kI32, fmt::format(fmt::runtime(random_.pick(kOthers)), a));
    const std::string other = names_[kI32].back();
    static constexpr std::string_view kLimits[] = {"0i", "1i", "(-1i)"};
    add(kBool, comparison(a, std::string(random_.pick(kLimits))));
    const std::string& sign = names_[kBool].back();
    add(kI32, random_.chance(70) ? fmt::format("select({}, {}, {})", sign, other, a)
                                 : fmt::format("select({}, {}, {})", sign, a, other));
  }

  void step() {
    static constexpr std::string_view kWordOps[] = {
        "{} + {}",      "{} - {}",      "{} * {}",          "{} / {}",
        "{} % {}",      "{} & {}",      "{} | {}",          "{} ^ {}",
        "{} << {}",     "{} >> {}",     "min({}, {})",      "max({}, {})",
        "-{}",          "~{}",          "clz({})",          "abs({})",
        "popcount({})", "rotl({}, {})", "clamp({}, {}, {})"};
    static constexpr std::string_view kNumberOps[] = {
        "{} + {}", "{} - {}", "{} * {}", "{} / {}",          "{} % {}",
        "{} & {}", "{} | {}", "{} ^ {}", "min({}, {})",      "max({}, {})",
        "-{}",     "~{}",     "abs({})", "clamp({}, {}, {})"};
    static constexpr std::string_view kFloatOps[] = {
        "{} + {}",  "{} - {}",    "{} * {}",  "{} / {}",   "min({}, {})",     "max({}, {})",
        "-{}",      "abs({})",    "sqrt({})", "floor({})", "fma({}, {}, {})", "clamp({}, {}, {})",
        "exp({})",  "log({})",    "exp2({})", "log2({})",  "sin({})",         "cos({})",
        "tanh({})", "pow({}, {})"};
    static constexpr Word kWeights[] = {16, 16, 16, 20, 12, 8, 6, 6};
    const auto of = [&](Kind kind, std::string_view pattern) {
      const std::string a = operand(kind);
      const std::string b = operand(kind);
      const std::string c = operand(kind);
      return fmt::format(fmt::runtime(pattern), a, b, c);
    };
    switch (random_.weighted(kWeights)) {
      case 0:
        return add(kU32, of(kU32, random_.pick(kWordOps)));
      case 1:
        return add(kI32, of(kI32, random_.pick(kNumberOps)));
      case 2:
        return add(kF32, of(kF32, random_.pick(kFloatOps)));
      case 3:
        return choice(number());
      case 4:
        return branches(number());
      case 5:
        return magnitude();
      case 6: {
        const std::string i = operand(kI32);
        const std::string u = operand(kU32);
        return add(kI32, fmt::format("{} {} {}", i, random_.chance(50) ? "<<" : ">>", u));
      }
      default:
        return convert();
    }
  }

  void convert() {
    static constexpr std::string_view kTo[] = {"u32",      "i32",      "f32",
                                               "bits_u32", "bits_i32", "bits_f32"};
    const std::size_t to = random_.below(6);
    const Kind from = number();
    add(static_cast<Kind>(to % 3), fmt::format("{}({})", kTo[to], operand(from)));
  }

  Random& random_;
  std::string text_;
  std::size_t next_ = 0;
  std::array<std::vector<std::string>, kKinds> names_ = {
      {{"x", "y", "z"}, {"p", "q", "r"}, {"f", "g", "h"}, {"s", "t"}}};
};

std::string batch_text(Random& random) {
  std::string text;
  for (std::size_t i = 0; i < kHandlers; ++i) {
    text += fmt::format(
        "handler arithmetic_{} = {} {{ let n = len(output); for i in 0 .. n {{\n"
        "let x = input[i]; let y = input[i + n]; let z = input[i + n + n];\n"
        "let p = i32(x); let q = i32(y); let r = i32(z);\n"
        "let f = bits_f32(x); let g = bits_f32(y); let h = bits_f32(z);\n"
        "let s = x < y; let t = q < r;\n{}}} }}\n",
        i, 1000 + i, Arithmetic(random).run());
  }
  return text;
}

FrameSpec random_frame(Random& random) {
  FrameSpec spec;
  spec.args[0] = 1;
  spec.args[1] = 2;
  spec.fuel = 100'000;
  std::vector<Word> input;
  for (std::size_t i = 0; i < 3 * kTuples; ++i) {
    input.push_back(random.chance(85) ? random.pick(kEdges) : random.word());
  }
  spec.buffers.push_back({.handle = 1, .words = input, .access = memory::Access::read});
  spec.buffers.push_back(
      {.handle = 2, .words = std::vector<Word>(kTuples), .access = memory::Access::write});
  return spec;
}

TEST(Arithmetic, random_handlers_agree_on_thousands_of_operands) {
  EVERKERNEL_NEEDS_SUBJECT();
  std::size_t handlers = 0;
  const double seconds = run_batches(kBatches, [&](std::uint64_t seed) {
    Random random(seed);
    const std::string text = batch_text(random);
    const FrameSpec spec = random_frame(random);
    const Trial trial = Trial::from_text(text);
    for (std::size_t i = 0; i < kHandlers; ++i) {
      const auto compared = trial.run(i, spec);
      EXPECT_EQ(compared.interpreted.outcome, ir::Outcome{}) << replay_command(seed) << "\n"
                                                             << text;
      EXPECT_EQ(compared.difference, "") << "handler " << i << " of\n"
                                         << text << replay_command(seed);
    }
    handlers += kHandlers;
    return !testing::Test::HasFailure();
  });
  RecordProperty("handlers", static_cast<int>(handlers));
  std::printf("%zu handlers on %zu operands each in %.1f s\n", handlers, kTuples, seconds);
}

}  // namespace
}  // namespace everkernel::test
