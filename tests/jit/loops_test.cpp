// Loops whose indices native code checks once for many turns. A model of a few lines says which
// turn faults and which words were stored before it; interpreter and native code must both agree
// with it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "skip.hpp"
#include "support/jit_trial.hpp"

namespace everkernel::test {
namespace {

struct IndexRow {
  std::string_view before;  // statements before the access in the body
  std::string_view index;   // uses i, and n = args[5]
  Word (*value)(Word i, Word n);
};
constexpr IndexRow kIndices[] = {
    {"", "i", [](Word i, Word) { return i; }},
    {"", "i + 5", [](Word i, Word) { return i + 5; }},
    {"", "5 + i", [](Word i, Word) { return i + 5; }},
    {"", "i + n", [](Word i, Word n) { return i + n; }},
    {"", "i - 1", [](Word i, Word) { return i - 1; }},
    {"", "i * 2", [](Word i, Word) { return i * 2; }},
    {"", "i * 3 + 2", [](Word i, Word) { return i * 3 + 2; }},
    {"", "3 * i + n * 2", [](Word i, Word n) { return 3 * i + n * 2; }},
    {"", "i * n", [](Word i, Word n) { return i * n; }},
    {"", "i * i", [](Word i, Word) { return i * i; }},
    {"", "i & 63", [](Word i, Word) { return i & 63; }},
    {"", "(i + 7) & n", [](Word i, Word n) { return (i + 7) & n; }},
    {"", "i * 40503 & 127", [](Word i, Word) { return (i * 40503) & 127; }},
    {"", "i % 7", [](Word i, Word) { return i % 7; }},
    {"", "i % n", [](Word i, Word n) { return n == 0 ? 0 : i % n; }},
    {"", "(i << 3) % 61", [](Word i, Word) { return (i << 3) % 61; }},
    {"", "i / 3", [](Word i, Word) { return i / 3; }},
    {"", "i / n", [](Word i, Word n) { return n == 0 ? i : i / n; }},
    {"", "i >> 2", [](Word i, Word) { return i >> 2; }},
    {"", "i >> n", [](Word i, Word n) { return i >> (n & 31); }},
    {"", "i >> 33", [](Word i, Word) { return i >> 1; }},
    {"", "i << 1", [](Word i, Word) { return i << 1; }},
    {"", "min(i, n)", [](Word i, Word n) { return std::min(i, n); }},
    {"", "min(i * 2, 100) + 1", [](Word i, Word) { return std::min(i * 2, 100u) + 1; }},
    {"", "max(i, n)", [](Word i, Word n) { return std::max(i, n); }},
    {"", "select(i % 2 == 0, i, n)", [](Word i, Word n) { return i % 2 == 0 ? i : n; }},
    {"let k = i + 1;", "k", [](Word i, Word) { return i + 1; }},
    {"let k = i * 2; let m = k + n;", "m", [](Word i, Word n) { return i * 2 + n; }},
    {"let k = i & 31; let m = k + k;", "m + k", [](Word i, Word) { return 3 * (i & 31); }},
    {"var k = i; k = k + 1;", "k", [](Word i, Word) { return i + 1; }},
    {"", "i ^ 1", [](Word i, Word) { return i ^ 1; }},
    {"", "i | 1", [](Word i, Word) { return i | 1; }},
    {"", "i + 0xffffffff", [](Word i, Word) { return i - 1; }},
    {"", "i * 0x80000001", [](Word i, Word) { return i * 0x80000001u; }},
    {"", "(i + 0xfffffff0) * 0", [](Word, Word) { return Word{0}; }},
    {"", "(i + 0x80000000) / 0x80000000", [](Word i, Word) { return (i + 0x80000000u) >> 31; }},
    {"", "u32(i32(i) / 2i)", [](Word i, Word) { return i / 2; }},
    // A value that is masked below the bound may wrap above it.
    {"", "(i + 0xfffffff0) & 15", [](Word i, Word) { return (i - 16) & 15; }},
    {"", "(i + 0xfffffff0) % 13", [](Word i, Word) { return (i - 16) % 13; }},
    {"", "i * 0x9e3779b1 & 127", [](Word i, Word) { return (i * 0x9E3779B1u) & 127; }},
    {"", "i * 0x9e3779b1 >> 26", [](Word i, Word) { return (i * 0x9E3779B1u) >> 26; }},
    {"", "min(i * 0x9e3779b1, 50)", [](Word i, Word) { return std::min(i * 0x9E3779B1u, 50u); }},
    {"", "lane + i", [](Word i, Word) { return i; }},  // one lane
};

// Statements that use the index. Each shows in memory which turns ran.
constexpr std::string_view kUses[] = {
    "output[{0}] = i + 1;",
    "atomic_add(output[{0}], i + 1);",
    "output[{0}] = output[{0}] + i;",
    "if i % 3 == 1 {{ output[{0}] = i + 1; }}",
    "if i % 3 != 1 {{ continue; }} output[{0}] = i + 1;",
};

// Applies statement `use` to `output`; false if a turn was out of range.
bool model(std::size_t use, const IndexRow& row, Word first, Word last, Word n,
           std::vector<Word>& output) {
  for (Word i = first; i < last; ++i) {
    if (use >= 3 && i % 3 != 1) continue;
    const Word index = row.value(i, n);
    if (index >= output.size()) return false;
    if (use == 0 || use >= 3) output[index] = i + 1;
    if (use == 1) output[index] += i + 1;
    if (use == 2) output[index] += i;
  }
  return true;
}

// Compiling takes most of the time of this test: every index is stored to, but only the first few
// are used by every statement of kUses.
constexpr std::size_t kUsedInEveryWay = 6;
struct Variant {
  std::size_t row, use;
  bool is_each;
};
const std::vector<Variant>& variants() {
  static const std::vector<Variant> all = [] {
    std::vector<Variant> made;
    for (std::size_t row = 0; row < std::size(kIndices); ++row) {
      for (std::size_t use = 0; use < std::size(kUses); ++use) {
        const bool is_common = use == 0 || row % kUsedInEveryWay == 0;
        if (is_common) made.push_back({row, use, false});
        if (is_common && (use == 0 ? row % 3 == 0 : row == 0)) made.push_back({row, use, true});
      }
    }
    return made;
  }();
  return all;
}

const Trial& index_trial() {
  static const Trial trial = [] {
    std::string text;
    for (std::size_t i = 0; i < variants().size(); ++i) {
      const auto [row, use, is_each] = variants()[i];
      text += fmt::format(
          "handler h_{} = {} {{ let n = args[5]; {} i in args[3] .. args[4] {{ {} {} }} }}\n", i,
          1000 + i, is_each ? "each" : "for", kIndices[row].before,
          fmt::format(fmt::runtime(kUses[use]), kIndices[row].index));
    }
    return Trial::from_text(text);
  }();
  return trial;
}

FrameSpec loop_frame(Word first, Word last, Word n, std::size_t words) {
  FrameSpec spec;
  spec.args = {1, 2, 0, first, last, n};
  spec.fuel = 100'000;
  spec.buffers = {{.handle = 1, .words = std::vector<Word>(4, 1)},
                  {.handle = 2, .words = std::vector<Word>(words, 0)}};
  return spec;
}

void expect_model(std::size_t variant, Word first, Word last, Word n, std::size_t words) {
  const auto [row, use, is_each] = variants()[variant];
  FrameSpec spec = loop_frame(first, last, n, words);
  spec.buffers[1].edge = (first + words) % 2 == 0 ? Edge::end : Edge::start;
  const auto compared = index_trial().run(variant, spec);
  const std::string place =
      fmt::format("{}: {} with index {}, i in {} .. {}, n = {}, {} words", is_each ? "each" : "for",
                  kUses[use], kIndices[row].index, first, last, n, words);
  ASSERT_EQ(compared.difference, "") << place;
  if (is_each) return;  // its other turns go on after a fault: the interpreter is the model
  std::vector<Word> expected(words, 0);
  const bool is_done = model(use, kIndices[row], first, last, n, expected);
  ASSERT_EQ(compared.interpreted.outcome.fault_code, is_done ? 0u : 2u) << place;
  ASSERT_EQ(compared.interpreted.buffers[1], expected) << place;
}

// Lengths of output at which the first, middle or last turn faults, or none.
std::set<std::size_t> lengths_of(const IndexRow& row, Word first, Word last, Word n) {
  std::set<std::size_t> lengths = {0, 1, 64};
  const Word turns = last - first;
  for (const Word turn : {Word{0}, turns / 2, turns - 1}) {
    const std::size_t index = row.value(first + turn, n);
    for (const std::size_t length : {index, index + 1}) {
      if (length <= 30'000) lengths.insert(length);
    }
  }
  return lengths;
}

void expect_all_lengths(Word first, Word last, Word n) {
  for (std::size_t variant = 0; variant < variants().size(); ++variant) {
    for (const std::size_t words : lengths_of(kIndices[variants()[variant].row], first, last, n)) {
      expect_model(variant, first, last, n, words);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST(Loops, the_fault_falls_on_its_turn_in_short_loops) {
  EVERKERNEL_NEEDS_SUBJECT();
  expect_all_lengths(0, 1, 3);
  expect_all_lengths(0, 9, 3);
  expect_all_lengths(4, 50, 0);
  expect_all_lengths(10, 75, 31);
}

TEST(Loops, the_fault_falls_on_its_turn_across_chunks) {
  EVERKERNEL_NEEDS_SUBJECT();
  expect_all_lengths(0, 4097, 2);
  expect_all_lengths(100, 4300, 5);
}

TEST(Loops, indices_that_wrap_near_the_top_of_u32_fault_or_land_where_they_should) {
  EVERKERNEL_NEEDS_SUBJECT();
  expect_all_lengths(0xFFFFFFF0u, 0xFFFFFFFFu, 16);
  expect_all_lengths(0xFFFFFFF0u, 0xFFFFFFFFu, 0xFFFFFFF8u);
  expect_all_lengths(0x7FFFFFF8u, 0x80000008u, 2);
  expect_all_lengths(0xFFFFEF00u, 0xFFFFFFFFu, 0x1100u);
}

// Bodies of handlers that run n turns.
constexpr std::string_view kBodies[] = {
    "for i in 0 .. n { output[i] = input[i] * 3 + 1; }",
    "for i in 0 .. n { output[i] = input[i + 1] - input[i]; }",
    "for i in 0 .. n { if input[i] > 50 { output[i] = input[i]; } }",
    "for i in 0 .. n { if i < len(output) { output[i] = input[i]; } }",
    "for i in 0 .. n { if i < len(input) && input[i] != 3 { output[i] = 1; } }",
    "for i in 0 .. n { output[i] = bits_u32(bits_f32(input[i]) * 1.5 + bits_f32(output[i])); }",
    "var sum = 0; for i in 0 .. n { sum = sum + input[i]; } output[0] = sum;",
    "var sum = 0.0; for i in 0 .. n { sum = sum + f32(input[i]); } output[0] = bits_u32(sum);",
    "var best = 0; for i in 0 .. n { best = max(best, input[i]); } output[0] = best;",
    "var least = bits_f32(0x7f800000); for i in 0 .. n { least = min(least, bits_f32(input[i])); "
    "} output[0] = bits_u32(least);",
    "for i in 0 .. n { output[input[i] & 15] = i; }",
    "for i in 0 .. n { output[input[i]] = i; }",
    "for i in 0 .. n { output[i] = input[input[i] % 8]; }",
    "for i in 0 .. n { atomic_add(output[input[i] & 7], 1); }",
    "var last = 0; for i in 0 .. n { last = atomic_max(output[i], input[i]) + last; } "
    "args[7] = last;",
    "for i in 0 .. n { output[i] = control[i]; }",
    "for i in 0 .. n { control[160 + i] = input[i]; }",
    "for i in 0 .. n { buffer(args[1])[i] = buffer(args[0])[i]; }",
    "for i in 0 .. n { output[i] = i; if input[i] == 60 { break; } }",
    "for i in 0 .. n { output[i] = i; if input[i] == 60 { return; } }",
    "for i in 0 .. n { if input[i] == 60 { fault i; } output[i] = i; }",
    "for i in 0 .. n { output[i] = i; args[7] = i; }",
    "for i in 0 .. n { output[i] = i; args[1] = args[1]; }",
    "for i in 0 .. n { output[i + param] = i; }",
    "for i in 0 .. n { printf(i, input[i], 0); output[i] = 1; }",
    "for i in 0 .. n { emit(i, output[i], 0); output[i] = 1; }",
    "for i in 0i .. i32(n) { output[u32(i)] = input[u32(i)]; }",
    "for i in -5i .. i32(n) { output[u32(i + 5i)] = u32(i); }",
    "for i in -5i .. i32(n) { output[u32(i)] = u32(i); }",
    "for k in 0 .. 3 { for i in 0 .. n { output[i + k] = input[i] + k; } }",
    "for k in 0 .. n { for i in 0 .. 4 { output[k + i] = output[k + i] + input[k]; } }",
    "var k = 0; for i in 0 .. n { k = k + 2; output[k] = i; }",
    "var k = 0; while k < n { output[k] = input[k]; k = k + 1; }",
    "each i in 0 .. n { output[i] = input[i] + lane; }",
    "each i in 0 .. n { output[lane] = lanes; }",
    "each i in 0 .. n { for k in 0 .. 3 { output[i * 3 + k] = input[i] + lane; } }",
    "each i in 0 .. n { let a = input[i]; if a == 60 { continue; } output[i] = a / (a - 3); }",
    "let m = n * 2; for i in n .. m { output[i - n] = input[i - n]; }",
    "for i in 0 .. n { let a = i + 1; let b = a * 2; if b < 40 { let c = b + a; output[c] = b; } "
    "}",
    "for i in 0 .. n { output[i] = input[min(i, len(input) - 1)]; }",
    "for i in 0 .. n { output[i % len(output)] = i; }",
    "for i in 0 .. n { output[select(i < 10, i, 10)] = input[i >> 1]; }",
    "for i in 0 .. n { if i == 20 { yield; } output[i] = 1; }",
    "for i in 0 .. n { if i == 20 { await write(i, input[i], 1, 2); } output[i] = 1; }",
};

// Loops over constants whose ends depend on the bits of a constant as a float: a compiler that runs
// the loop at compile time must keep those bits.
constexpr std::string_view kKnownBodies[] = {
    "var n = 0; while n < 5 { n = n + 1; if bits_f32(n) > 0.001 { break; } } args[5] = n;",
    "var n = 0; while n < 5 { n = n + 1; if bits_f32(n) > bits_f32(864026624) + 0.001 { break; } } "
    "args[5] = n;",
    "var n = 9; while n > 2 { n = n - 1; if bits_f32(n) < 0.5 { args[6] = args[6] + 1; } else { "
    "break; } } args[5] = n;",
    "for i in 0 .. 7 { args[5] = i; if bits_f32(i) >= 1.0 { break; } }",
    "for i in 0x3f800000 .. 0x3f800007 { args[5] = i; if bits_f32(i) > 1.5 { break; } }",
    "var n = 1i; while n < 40i { n = n * 3i; if bits_f32(n) > 2.0 { break; } } args[5] = u32(n);",
    "for k in 0 .. 4 { var n = 0; while n < 5 { n = n + 1; if bits_f32(n) > 0.001 { break; } } "
    "args[5] = args[5] + n; }",
    "each k in 0 .. 4 { var n = 0; while n < 5 { n = n + 1; if bits_f32(n) > bits_f32(864026624) + "
    "0.001 { break; } } output[k] = n; }",
    "var n = 3; for k in 0 .. 4 { n = 0; while n < 5 { n = n + 1; "
    "if bits_f32(n) > 0.001 { break; } } args[5] = args[5] + n; }",
    "var n = param - param; while n < 5 { n = n + 1; let f = bits_f32(n * 2); "
    "if f > 0.001 { break; } } args[5] = n;",
    "var f = bits_f32(1); var n = 0; while n < 5 { n = n + 1; if f > 0.001 { break; } f = "
    "bits_f32(2); } args[5] = n;",
    "var n = 0; while n < 5 { n = n + 1; if select(n > 2, bits_f32(3), bits_f32(4)) > 0.001 { "
    "break; } } args[5] = n;",
    "var f = 0.0; while f < 5.0 { f = f + 1.0; if bits_u32(f) > 5 { break; } } args[5] = u32(f);",
};

TEST(Loops, floats_that_are_known_before_a_loop_are_taken_by_their_bits) {
  EVERKERNEL_NEEDS_SUBJECT();
  std::string text;
  for (std::size_t i = 0; i < std::size(kKnownBodies); ++i) {
    text += fmt::format("handler h_{} = {} {{ {} }}\n", i, 1000 + i, kKnownBodies[i]);
  }
  const Trial trial = Trial::from_text(text);
  for (std::size_t i = 0; i < std::size(kKnownBodies); ++i) {
    for (const Word fuel : {2u, 7u, 1000u}) {
      FrameSpec spec;
      spec.args = {1, 2, 3};
      spec.fuel = fuel;
      spec.buffers = {{.handle = 1, .words = {1, 2, 3}}, {.handle = 2, .words = {4, 5, 6, 7}}};
      EXPECT_EQ(trial.run(i, spec).difference, "") << kKnownBodies[i] << " fuel " << fuel;
    }
  }
}

// Loads, two buffers, and other bodies with several checked accesses; the interpreter is the model.
TEST(Loops, native_code_agrees_where_several_accesses_are_checked_at_one_time) {
  EVERKERNEL_NEEDS_SUBJECT();
  std::string text;
  for (std::size_t i = 0; i < std::size(kBodies); ++i) {
    text += fmt::format("handler h_{} = {} {{ let n = args[3]; {} }}\n", i, 1000 + i, kBodies[i]);
  }
  const Trial trial = Trial::from_text(text);
  struct Shape {
    Word turns;
    std::size_t input_words, output_words;
  };
  constexpr Shape kShapes[] = {{0, 0, 0},
                               {1, 0, 1},
                               {1, 1, 0},
                               {64, 64, 64},
                               {64, 65, 64},
                               {64, 63, 80},
                               {64, 80, 63},
                               {64, 32, 200},
                               {64, 200, 1},
                               {4096, 4097, 4096},
                               {4097, 4097, 4096},
                               {4100, 4096, 20'000},
                               {9000, 9001, 27'000},
                               {9000, 8999, 27'000}};
  for (const Shape& shape : kShapes) {
    for (const bool is_alias : {false, true}) {
      FrameSpec spec;
      spec.args = {1, is_alias ? 1u : 2u, 3, shape.turns};
      spec.fuel = 50'000;
      spec.lanes = 32;
      spec.tenant = 7;
      spec.control.assign(400, 9);
      spec.buffers = {{.handle = 1, .words = std::vector<Word>(shape.input_words)},
                      {.handle = 2, .words = std::vector<Word>(shape.output_words)}};
      for (BufferSpec& buffer : spec.buffers) {
        buffer.edge = shape.turns % 2 == 0 ? Edge::end : Edge::start;
        for (std::size_t i = 0; i < buffer.words.size(); ++i) {
          buffer.words[i] = static_cast<Word>(i * 2654435761u >> 25);  // 0 … 127
        }
      }
      for (std::size_t i = 0; i < std::size(kBodies); ++i) {
        const auto compared = trial.run(i, spec);
        EXPECT_EQ(compared.difference, "")
            << kBodies[i] << "\nturns " << shape.turns << ", input " << shape.input_words
            << ", output " << shape.output_words << (is_alias ? ", one buffer" : "");
      }
    }
  }
}

}  // namespace
}  // namespace everkernel::test
