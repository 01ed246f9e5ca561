// How does the speed of handlers as native code compare with hand-written C++?
//
// The floor is C++ at -O3 with the same bounds checks, in this file; another contender has no
// checks. The handlers are those of examples/handlers. `exclusive` is code for buffers that no
// other item uses, `shared` for buffers that several items may use at one time.
#include <bit>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <random>
#include <span>

#include "everkernel/ir/interpreter.hpp"
#include "everkernel/ir/parser.hpp"
#include "everkernel/jit/native.hpp"
#include "harness.hpp"

namespace everkernel::bench {
namespace {

using abi::Word;
using ir::ItemFrame;

// ---- hand-written, with and without checks ----

constexpr Word kOutOfRange = 2;

[[gnu::noinline]] Word saxpy_checked(Word a_bits, std::span<const Word> x, std::span<Word> y) {
  const float a = std::bit_cast<float>(a_bits);
  const std::size_t n = std::min(x.size(), y.size());
  for (std::size_t i = 0; i < n; ++i) {
    if (i >= x.size() || i >= y.size()) return kOutOfRange;
    y[i] = std::bit_cast<Word>(a * std::bit_cast<float>(x[i]) + std::bit_cast<float>(y[i]));
  }
  return 0;
}

[[gnu::noinline]] Word saxpy_unchecked(Word a_bits, std::span<const Word> x, std::span<Word> y) {
  const float a = std::bit_cast<float>(a_bits);
  for (std::size_t i = 0; i < x.size(); ++i) {
    y[i] = std::bit_cast<Word>(a * std::bit_cast<float>(x[i]) + std::bit_cast<float>(y[i]));
  }
  return 0;
}

[[gnu::noinline]] Word histogram_checked(std::span<const Word> data, std::span<Word> counts) {
  for (const Word word : data) {
    const Word index = word & 255;
    if (index >= counts.size()) return kOutOfRange;
    ++counts[index];
  }
  return 0;
}

[[gnu::noinline]] Word histogram_unchecked(std::span<const Word> data, std::span<Word> counts) {
  for (const Word word : data) ++counts[word & 255];
  return 0;
}

[[gnu::noinline]] Word dfa_checked(std::span<const Word> data, std::span<const Word> table,
                                   std::span<Word> result, const ir::ItemHooks& hooks) {
  Word state = 0;
  Word matches = 0;
  for (Word i = 0; i < Word(data.size() * 4); ++i) {
    if ((i >> 2) >= data.size()) return kOutOfRange;
    const Word byte = (data[i >> 2] >> ((i & 3) << 3)) & 255;
    const Word index = state * 256 + byte;
    if (index >= table.size()) return kOutOfRange;
    const Word next = table[index];
    state = next & 0x7FFFFFFFu;
    if (next == state) continue;
    ++matches;
    hooks.emit(hooks.self, i, state, 0);
  }
  if (result.size() < 2) return kOutOfRange;
  result[0] = matches;
  result[1] = state;
  return 0;
}

[[gnu::noinline]] Word dfa_unchecked(std::span<const Word> data, std::span<const Word> table,
                                     std::span<Word> result, const ir::ItemHooks& hooks) {
  Word state = 0;
  Word matches = 0;
  for (Word i = 0; i < Word(data.size() * 4); ++i) {
    const Word byte = (data[i >> 2] >> ((i & 3) << 3)) & 255;
    const Word next = table[state * 256 + byte];
    state = next & 0x7FFFFFFFu;
    if (next == state) continue;
    ++matches;
    hooks.emit(hooks.self, i, state, 0);
  }
  result[0] = matches;
  result[1] = state;
  return 0;
}

// ---- handlers ----

std::string read_example(const std::string& name) {
  std::ifstream file(std::string(EVERKERNEL_SOURCE_DIR) + "/examples/handlers/" + name);
  if (!file) std::abort();
  return {std::istreambuf_iterator<char>(file), {}};
}

ir::VerifiedProgram verified(const std::string& text) {
  auto program = ir::parse(text);
  if (!program) std::abort();
  auto result = ir::verify(std::move(*program));
  if (!result) std::abort();
  return *result;
}

/// One handler in every kind of execution, with its buffers.
class Bench {
 public:
  Bench(const std::string& text, std::size_t input_words, std::size_t output_words)
      : program_(verified(text)),
        shared_(*jit::NativeProgram::compile(program_, {.memory = jit::MemoryUse::shared})),
        exclusive_(*jit::NativeProgram::compile(program_, {.memory = jit::MemoryUse::exclusive})),
        input_(*table_.create({.handle = 1, .word_count = input_words})),
        output_(*table_.create({.handle = 2, .word_count = output_words})),
        extra_(*table_.create({.handle = 3, .word_count = 64 * 256})) {
    std::mt19937 random(3);
    for (Word& word : input_.words()) word = static_cast<Word>(random()) & 0x3FFFFFFFu;
    hooks_ = {.self = &hits_, .print = nullptr, .emit = [](void* self, Word, Word, Word) {
                ++*static_cast<Word*>(self);
              }};
  }

  std::span<Word> input() const { return input_.words(); }
  std::span<Word> output() const { return output_.words(); }
  std::span<Word> extra() const { return extra_.words(); }
  const ir::ItemHooks& hooks() const { return hooks_; }

  Contender native(bool is_shared, Word param) {
    return {is_shared ? "native, shared" : "native, exclusive", [this, is_shared, param] {
              ItemFrame frame = frame_with(param);
              const auto outcome = (is_shared ? shared_ : exclusive_).run(0, frame);
              if (outcome != ir::Outcome{}) std::abort();
              return checksum();
            }};
  }

  Contender interpreter() {
    return {"interpreter", [this] {
              ItemFrame frame = frame_with(0);
              const auto outcome = ir::interpret(program_.handlers()[0], frame);
              if (outcome != ir::Outcome{}) std::abort();
              return checksum();
            }};
  }

  Contender written(const char* name, std::function<Word()> run) {
    return {name, [this, run = std::move(run)] {
              if (run() != 0) std::abort();
              return checksum();
            }};
  }

 private:
  std::uint64_t checksum() const {
    const auto words = output_.words();
    return (std::uint64_t{words[0]} << 32) | words[words.size() / 2];
  }

  ItemFrame frame_with(Word param) {
    ItemFrame frame{.lanes = 1, .fuel = ~std::uint64_t{0}, .hooks = &hooks_};
    frame.args[0] = 1;
    frame.args[1] = 2;
    frame.args[2] = param;
    frame.buffers = table_.view();
    return frame;
  }

  ir::VerifiedProgram program_;
  jit::NativeProgram shared_, exclusive_;
  memory::BufferTable table_;
  memory::Buffer input_, output_, extra_;
  Word hits_ = 0;
  ir::ItemHooks hooks_;
};

void ask_saxpy(Suite& suite, std::size_t words) {
  Bench bench(read_example("saxpy.ek"), words, words);
  const Word a = std::bit_cast<Word>(1e-20f);  // small enough that the sums never overflow
  suite.ask(
      {.name = "saxpy",
       .text = "y = a * x + y on f32 words in cache",
       .items = words,
       .bytes = words * 12,
       .contenders = {
           bench.written("C++, checked",
                         [&, a] { return saxpy_checked(a, bench.input(), bench.output()); }),
           bench.written("C++, unchecked",
                         [&, a] { return saxpy_unchecked(a, bench.input(), bench.output()); }),
           bench.native(false, a), bench.native(true, a)}});
}

void ask_histogram(Suite& suite, std::size_t words) {
  Bench bench(read_example("histogram.ek"), words, 256);
  suite.ask({.name = "histogram",
             .text = "low bytes of words counted into 256 words",
             .items = words,
             .bytes = words * 4,
             .contenders = {
                 bench.written("C++, checked",
                               [&] { return histogram_checked(bench.input(), bench.output()); }),
                 bench.written("C++, unchecked",
                               [&] { return histogram_unchecked(bench.input(), bench.output()); }),
                 bench.native(false, 0), bench.native(true, 0)}});
}

void ask_dfa(Suite& suite, std::size_t words) {
  Bench bench(read_example("dfa_scan.ek"), words, 2);
  std::mt19937 random(4);
  for (Word& entry : bench.extra()) {
    entry = static_cast<Word>(random()) % 64 | (random() % 4096 == 0 ? 0x80000000u : 0);
  }
  suite.ask({.name = "dfa_scan",
             .text = "an automaton of 64 states over bytes",
             .items = words * 4,
             .bytes = words * 4,
             .contenders = {bench.written("C++, checked",
                                          [&] {
                                            return dfa_checked(bench.input(), bench.extra(),
                                                               bench.output(), bench.hooks());
                                          }),
                            bench.written("C++, unchecked",
                                          [&] {
                                            return dfa_unchecked(bench.input(), bench.extra(),
                                                                 bench.output(), bench.hooks());
                                          }),
                            bench.native(false, 3), bench.native(true, 3)}});
}

// One function of numbers, of operands below 2, in place of the product of saxpy.
template <class Library>
void ask_numbers(Suite& suite, std::size_t words, const std::string& name,
                 const std::string& expression, const Library& library) {
  Bench bench(
      "handler numbers = 64 { for i in 0 .. len(input) { let x = bits_f32(input[i]); "
      "output[i] = bits_u32(" +
          expression + "); } }",
      words, words);
  suite.ask({.name = "numbers_" + name,
             .text = expression + " of f32 words in cache, against the C library",
             .items = words,
             .bytes = words * 8,
             .contenders = {bench.written("C library",
                                          [&] {
                                            const auto x = bench.input();
                                            const auto y = bench.output();
                                            for (std::size_t i = 0; i < x.size(); ++i) {
                                              y[i] = std::bit_cast<Word>(
                                                  library(std::bit_cast<float>(x[i])));
                                            }
                                            return 0;
                                          }),
                            bench.native(false, 0), bench.native(true, 0), bench.interpreter()}});
}

void ask_every_number(Suite& suite, std::size_t words) {
  ask_numbers(suite, words, "product", "x * 1.7", [](float x) { return x * 1.7f; });
  ask_numbers(suite, words, "exp", "exp(x)", [](float x) { return std::exp(x); });
  ask_numbers(suite, words, "log", "log(x)", [](float x) { return std::log(x); });
  ask_numbers(suite, words, "sin", "sin(x)", [](float x) { return std::sin(x); });
  ask_numbers(suite, words, "tanh", "tanh(x)", [](float x) { return std::tanh(x); });
  ask_numbers(suite, words, "pow", "pow(x, 1.7)", [](float x) { return std::pow(x, 1.7f); });
}

// dfa_scan.ek has about twenty lines.
void ask_compile(Suite& suite) {
  const std::string text = read_example("dfa_scan.ek");
  const ir::VerifiedProgram program = verified(text);
  suite.ask({.name = "compile",
             .text = "one 20-line handler: parse and verify, then compile",
             .items = 1,
             .bytes = text.size(),
             .contenders = {{"parse and verify",
                             [&] { return std::uint64_t{verified(text).handlers().size()}; }},
                            {"compile", [&] {
                               const auto native = jit::NativeProgram::compile(program, {});
                               if (!native) std::abort();
                               return std::uint64_t{1};
                             }}}});
}

/// A temporary folder; the destructor removes it.
class CacheFolder {
 public:
  CacheFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "everkernel-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) std::abort();
    path_ = name;
  }
  CacheFolder(const CacheFolder&) = delete;
  CacheFolder& operator=(const CacheFolder&) = delete;
  ~CacheFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// All examples in one question: a program's handlers are compiled and loaded together.
void ask_load(Suite& suite) {
  std::vector<ir::VerifiedProgram> programs;
  std::size_t text_bytes = 0;
  for (const char* name :
       {"countdown.ek", "dfa_scan.ek", "histogram.ek", "prefix_sum.ek", "saxpy.ek", "sha256.ek"}) {
    const std::string text = read_example(name);
    text_bytes += text.size();
    programs.push_back(verified(text));
  }
  const CacheFolder folder;
  jit::CodeCache cache = *jit::CodeCache::open({.directory = folder.path()});
  const auto make_all = [&](jit::CodeCache* from, bool is_from_cache) {
    for (const ir::VerifiedProgram& program : programs) {
      const auto native = jit::NativeProgram::compile(program, {.cache = from});
      if (!native || native->is_from_cache() != is_from_cache) std::abort();
    }
    return std::uint64_t{1};
  };
  make_all(&cache, false);
  suite.ask({.name = "load",
             .text = "the six example programs: load them from the cache, or compile them",
             .items = programs.size(),
             .bytes = text_bytes,
             .contenders = {{"load", [&] { return make_all(&cache, true); }},
                            {"compile", [&] { return make_all(nullptr, false); }}}});
}

int run(int argc, char** argv) {
  const Options options = Options::parse(argc, argv);
  if (!jit::has_native_code()) {
    std::puts("handlers_bench: skipped, this build has no LLVM");
    return 0;
  }
  Suite suite("handlers", options);
  ask_saxpy(suite, options.scale(4096, 64));
  ask_histogram(suite, options.scale(1 << 16, 64));
  ask_dfa(suite, options.scale(1 << 14, 64));
  ask_every_number(suite, options.scale(4096, 64));
  ask_compile(suite);
  ask_load(suite);
  return suite.finish();
}

}  // namespace
}  // namespace everkernel::bench

int main(int argc, char** argv) {
  return everkernel::bench::run(argc, argv);
}
