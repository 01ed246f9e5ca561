// The example handlers, by their results: on the interpreter and, where this build has it, as
// native code for every use of memory.
#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <numeric>
#include <random>

#include "everkernel/ir/interpreter.hpp"
#include "everkernel/ir/parser.hpp"
#include "everkernel/jit/native.hpp"
#include "support/ir_text_file.hpp"

namespace everkernel {
namespace {

using abi::Word;
using ir::Ending;
using ir::ItemFrame;
using ir::Outcome;

enum class Execution { interpreter, native_shared, native_exclusive, native_planned, native_light };

std::string name_of(const testing::TestParamInfo<Execution>& info) {
  switch (info.param) {
    case Execution::interpreter:
      return "interpreter";
    case Execution::native_shared:
      return "native_shared";
    case Execution::native_exclusive:
      return "native_exclusive";
    case Execution::native_planned:
      return "native_planned";
    case Execution::native_light:
      return "native_light";
  }
  return "unknown";
}

class Examples : public testing::TestWithParam<Execution> {
 protected:
  void SetUp() override {
    if (GetParam() != Execution::interpreter && !jit::has_native_code()) {
      GTEST_SKIP() << "this build has no LLVM";
    }
  }

  static jit::MemoryUse memory_use() {
    switch (GetParam()) {
      case Execution::native_shared:
        return jit::MemoryUse::shared;
      case Execution::native_planned:
        return jit::MemoryUse::planned;
      case Execution::interpreter:
      case Execution::native_exclusive:
      case Execution::native_light:
        break;
    }
    return jit::MemoryUse::exclusive;
  }

  // A neighbour so large that the whole program takes the light passes of src/jit/native.cpp.
  static std::string large_handler() {
    std::string text = "handler large = 0x7fffffff {";
    for (int i = 0; i < 1000; ++i) text += "return;";
    return text + "}\n";
  }

  void load(const std::string& name) {
    std::string text = test::read_text("examples/handlers/" + name);
    if (GetParam() == Execution::native_light) text += large_handler();
    auto program = ir::parse(text);
    ASSERT_TRUE(program) << program.error().message;
    auto verified = ir::verify(std::move(*program));
    ASSERT_TRUE(verified) << verified.error().message;
    program_ = *verified;
    if (GetParam() == Execution::interpreter) return;
    auto native = jit::NativeProgram::compile(*program_, {.memory = memory_use()});
    ASSERT_TRUE(native) << native.error().message;
    native_.emplace(std::move(*native));
  }

  std::span<Word> buffer(Word handle, std::size_t words) {
    auto made = table_.create({.handle = handle, .word_count = words});
    EXPECT_TRUE(made);
    buffers_.push_back(std::move(*made));
    return buffers_.back().words();
  }

  Outcome run(ItemFrame& frame) {
    frame.args[0] = 1;
    frame.args[1] = 2;
    frame.buffers = table_.view();
    return native_ ? native_->run(0, frame) : ir::interpret(program_->handlers()[0], frame);
  }

  memory::BufferTable table_;
  std::vector<memory::Buffer> buffers_;
  std::optional<ir::VerifiedProgram> program_;
  std::optional<jit::NativeProgram> native_;
};

TEST_P(Examples, saxpy_adds_a_multiple) {
  ASSERT_NO_FATAL_FAILURE(load("saxpy.ek"));
  const auto x = buffer(1, 1000);
  const auto y = buffer(2, 1003);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::bit_cast<Word>(float(i));
  for (Word& word : y) word = std::bit_cast<Word>(0.5f);
  ItemFrame frame;
  frame.args[2] = std::bit_cast<Word>(3.0f);
  ASSERT_EQ(run(frame), Outcome{});
  for (std::size_t i = 0; i < x.size(); ++i) {
    ASSERT_EQ(std::bit_cast<float>(y[i]), 3.0f * float(i) + 0.5f) << i;
  }
  EXPECT_EQ(std::bit_cast<float>(y[1000]), 0.5f);
}

TEST_P(Examples, histogram_counts_low_bytes) {
  ASSERT_NO_FATAL_FAILURE(load("histogram.ek"));
  const auto data = buffer(1, 10'000);
  const auto counts = buffer(2, 256);
  std::mt19937 random(7);
  std::array<Word, 256> expected{};
  for (Word& word : data) {
    word = static_cast<Word>(random());
    ++expected[word & 255];
  }
  ItemFrame frame{.lanes = 256};
  ASSERT_EQ(run(frame), Outcome{});
  EXPECT_TRUE(std::ranges::equal(counts, expected));
}

TEST_P(Examples, prefix_sum_adds_up_and_wraps) {
  ASSERT_NO_FATAL_FAILURE(load("prefix_sum.ek"));
  const auto data = buffer(1, 5000);
  const auto sums = buffer(2, 5000);
  std::mt19937 random(8);
  for (Word& word : data) word = static_cast<Word>(random());
  std::vector<Word> expected(data.size());
  std::partial_sum(data.begin(), data.end(), expected.begin());
  ItemFrame frame;
  ASSERT_EQ(run(frame), Outcome{});
  EXPECT_TRUE(std::ranges::equal(sums, expected));
}

TEST_P(Examples, countdown_yields_until_it_is_done) {
  ASSERT_NO_FATAL_FAILURE(load("countdown.ek"));
  ItemFrame frame;
  frame.args[3] = 2;
  EXPECT_EQ(run(frame).ending, Ending::yield);
  EXPECT_EQ(frame.args[3], 1u);
  EXPECT_EQ(run(frame).ending, Ending::yield);
  EXPECT_EQ(run(frame).ending, Ending::done);
  EXPECT_EQ(frame.args[3], 0u);
}

struct Hit {
  Word a, b, c;
  friend bool operator==(const Hit&, const Hit&) = default;
};

// An automaton that finds "ab" anywhere: state 1 after an 'a', state 2 (a match) after its 'b'.
TEST_P(Examples, dfa_scan_emits_every_match) {
  ASSERT_NO_FATAL_FAILURE(load("dfa_scan.ek"));
  const std::string text = "xxabab..aab.....";  // 16 bytes, 4 words
  const auto data = buffer(1, text.size() / 4);
  std::memcpy(data.data(), text.data(), text.size());
  const auto result = buffer(2, 2);
  const auto table = buffer(3, 3 * 256);
  for (std::size_t state = 0; state < 3; ++state) table[state * 256 + 'a'] = 1;
  table[1 * 256 + 'b'] = 0x80000002u;
  std::vector<Hit> hits;
  ir::ItemHooks hooks{.self = &hits};
  hooks.emit = [](void* self, Word a, Word b, Word c) {
    static_cast<std::vector<Hit>*>(self)->push_back({a, b, c});
  };
  ItemFrame frame{.hooks = &hooks};
  frame.args[2] = 3;
  ASSERT_EQ(run(frame), Outcome{});
  EXPECT_EQ(hits, (std::vector<Hit>{{3, 2, 0}, {5, 2, 0}, {10, 2, 0}}));
  EXPECT_EQ(result[0], 3u);
  EXPECT_EQ(result[1], 0u);
}

class Digests : public Examples {
 protected:
  std::vector<Word> sha256(const std::string& message) {
    load("sha256.ek");
    buffers_.clear();
    const auto data = buffer(1, (message.size() + 3) / 4);
    if (!message.empty()) std::memcpy(data.data(), message.data(), message.size());
    const auto digest = buffer(2, 136);
    ItemFrame frame;
    frame.args[2] = static_cast<Word>(message.size());
    EXPECT_EQ(run(frame), Outcome{});
    return {digest.begin(), digest.begin() + 8};
  }
};

// Digests published with FIPS 180-4.
TEST_P(Digests, sha256_gives_the_published_digests) {
  EXPECT_EQ(sha256(""), (std::vector<Word>{0xe3b0c442, 0x98fc1c14, 0x9afbf4c8, 0x996fb924,
                                           0x27ae41e4, 0x649b934c, 0xa495991b, 0x7852b855}));
  EXPECT_EQ(sha256("abc"), (std::vector<Word>{0xba7816bf, 0x8f01cfea, 0x414140de, 0x5dae2223,
                                              0xb00361a3, 0x96177a9c, 0xb410ff61, 0xf20015ad}));
  EXPECT_EQ(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            (std::vector<Word>{0x248d6a61, 0xd20638b8, 0xe5c02693, 0x0c3e6039, 0xa33ce459,
                               0x64ff2167, 0xf6ecedd4, 0x19db06c1}));
}

// Native code only: the interpreter needs many seconds for it.
class LongDigests : public Digests {};

TEST_P(LongDigests, sha256_of_a_million_letters) {
  EXPECT_EQ(sha256(std::string(1'000'000, 'a')),
            (std::vector<Word>{0xcdc76e5c, 0x9914fb92, 0x81a1c7e2, 0x84d73e67, 0xf1809a48,
                               0xa497200e, 0x046d39cc, 0xc7112cd0}));
}

const auto kEveryExecution =
    testing::Values(Execution::interpreter, Execution::native_shared, Execution::native_exclusive,
                    Execution::native_planned, Execution::native_light);
INSTANTIATE_TEST_SUITE_P(Executions, Examples, kEveryExecution, name_of);
INSTANTIATE_TEST_SUITE_P(Executions, Digests, kEveryExecution, name_of);
INSTANTIATE_TEST_SUITE_P(Executions, LongDigests,
                         testing::Values(Execution::native_shared, Execution::native_exclusive,
                                         Execution::native_planned, Execution::native_light),
                         name_of);

}  // namespace
}  // namespace everkernel
