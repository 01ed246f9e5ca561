// Native code that comes from a cache is the code that was compiled, or it is compiled again.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <random>
#include <thread>

#include "everkernel/ir/parser.hpp"
#include "everkernel/jit/code_cache.hpp"
#include "everkernel/jit/native.hpp"
#include "skip.hpp"
#include "support/build_paths.hpp"
#include "support/jit_trial.hpp"
#include "support/temp_dir.hpp"

namespace everkernel::jit {
namespace {

using test::Bytes;
using test::TempDir;

constexpr std::string_view kText = "handler h = 64 { args[3] = args[3] * 3 + 1; }";

ir::VerifiedProgram verified(std::string_view text) {
  auto parsed = ir::parse(text);
  EXPECT_TRUE(parsed) << parsed.error().message;
  auto program = ir::verify(*std::move(parsed));
  EXPECT_TRUE(program) << program.error().message;
  return *std::move(program);
}

// The handler of kText turns 5 into 16.
ir::Word run_on_five(const NativeProgram& native) {
  ir::ItemFrame frame;
  frame.args[3] = 5;
  EXPECT_EQ(native.run(0, frame), ir::Outcome{});
  return frame.args[3];
}

class NativeCache : public testing::Test {
 protected:
  void SetUp() override { EVERKERNEL_NEEDS_NATIVE_CODE(); }

  static CodeCache open(const TempDir& dir) {
    return *CodeCache::open({.directory = dir.path(), .max_bytes = 1 << 24});
  }
  static NativeProgram compile(const ir::VerifiedProgram& program, CodeCache& cache,
                               MemoryUse memory = MemoryUse::shared) {
    auto native = NativeProgram::compile(program, {.memory = memory, .cache = &cache});
    if (!native) ADD_FAILURE() << native.error().message;
    return *std::move(native);
  }
  bool is_hit(std::string_view text, MemoryUse memory = MemoryUse::shared) {
    return compile(verified(text), cache_, memory).is_from_cache();
  }
  // The key of the only entry.
  CodeKey only_key() const {
    const auto names = dir_.names();
    EXPECT_EQ(names.size(), 1u);
    CodeKey key;
    for (std::size_t i = 0; i < key.bytes.size(); ++i) {
      key.bytes[i] = static_cast<std::byte>(std::stoi(names[0].substr(2 * i, 2), nullptr, 16));
    }
    return key;
  }
  // The stored bytes are unusable: the program is compiled again, stored again, and then found.
  void expect_compiled_again(const std::string& what) {
    const auto rejected = cache_.counters().rejected;
    const NativeProgram again = compile(program_, cache_);
    EXPECT_FALSE(again.is_from_cache()) << what;
    EXPECT_EQ(run_on_five(again), 16u) << what;
    EXPECT_EQ(cache_.counters().rejected, rejected + 1) << what;
    EXPECT_TRUE(compile(program_, cache_).is_from_cache()) << what;
  }

  const ir::VerifiedProgram program_ = verified(kText);
  TempDir dir_;
  CodeCache cache_ = open(dir_);
};

TEST_F(NativeCache, a_second_compile_is_a_load) {
  const NativeProgram first = compile(program_, cache_);
  EXPECT_FALSE(first.is_from_cache());
  EXPECT_EQ(cache_.counters().stored, 1u);
  CodeCache other = open(dir_);
  const NativeProgram second = compile(program_, other);
  EXPECT_TRUE(second.is_from_cache());
  EXPECT_EQ(other.counters().hits, 1u);
  EXPECT_EQ(other.counters().stored, 0u);
  EXPECT_EQ(run_on_five(first), 16u);
  EXPECT_EQ(run_on_five(second), 16u);
}

TEST_F(NativeCache, code_outlives_the_cache_it_came_from) {
  compile(program_, cache_);
  std::optional<CodeCache> short_lived = open(dir_);
  const NativeProgram native = compile(program_, *short_lived);
  short_lived.reset();
  std::filesystem::remove_all(dir_.path());
  EXPECT_EQ(run_on_five(native), 16u);
}

TEST_F(NativeCache, without_a_cache_nothing_comes_from_one) {
  EXPECT_FALSE(NativeProgram::compile(program_, {})->is_from_cache());
}

// Buffers for any of the examples: input, output and a table.
test::FrameSpec example_frame(ir::Word param, std::mt19937& random) {
  test::FrameSpec spec;
  spec.args = {1, 2, param, 2};
  spec.lanes = 32;
  spec.fuel = 1 << 20;
  spec.control.assign(170, 0);
  for (const ir::Word handle : {1u, 2u, 3u}) {
    test::BufferSpec buffer{.handle = handle, .words = std::vector<ir::Word>(1000)};
    for (ir::Word& word : buffer.words) word = static_cast<ir::Word>(random()) & 0x40FFFFFFu;
    spec.buffers.push_back(buffer);
  }
  return spec;
}

// Both trials compare with the interpreter word by word: the one that compiles, and the one that
// loads.
TEST_F(NativeCache, every_example_computes_the_same_from_the_cache) {
  const std::filesystem::path folder = test::source_path("examples/handlers");
  std::mt19937 random(11);
  std::size_t count = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    const ir::VerifiedProgram program = verified(test::read_text(file.path()));
    const auto stored = cache_.counters().stored;
    const auto compiled = test::Trial::make(program, &cache_);
    ASSERT_EQ(cache_.counters().stored, stored + 2) << file.path();
    const auto hits = cache_.counters().hits;
    const auto loaded = test::Trial::make(program, &cache_);
    ASSERT_EQ(cache_.counters().hits, hits + 2) << file.path();
    for (const ir::Word param : {0u, 3u, 64u, 1000u, 0x40400000u}) {
      const test::FrameSpec spec = example_frame(param, random);
      for (std::size_t i = 0; i < program.handlers().size(); ++i) {
        EXPECT_EQ(compiled->run(i, spec).difference, "") << file.path() << param;
        EXPECT_EQ(loaded->run(i, spec).difference, "") << file.path() << param;
      }
    }
    ++count;
  }
  EXPECT_GE(count, 6u);
}

TEST_F(NativeCache, compiling_twice_gives_the_same_bytes) {
  const TempDir other_dir;
  CodeCache other = open(other_dir);
  compile(program_, cache_);
  compile(program_, other);
  ASSERT_EQ(dir_.names(), other_dir.names());
  EXPECT_EQ(dir_.read(dir_.names()[0]), other_dir.read(dir_.names()[0]));
}

// ---- keys ----

TEST_F(NativeCache, another_use_of_memory_is_another_entry) {
  EXPECT_FALSE(is_hit(kText, MemoryUse::shared));
  EXPECT_FALSE(is_hit(kText, MemoryUse::exclusive));
  EXPECT_FALSE(is_hit(kText, MemoryUse::planned));
  EXPECT_TRUE(is_hit(kText, MemoryUse::planned));
}

TEST_F(NativeCache, any_change_of_the_program_is_another_entry) {
  for (const char* text :
       {"handler h = 64 { args[3] = args[3] * 3 + 1; }",  // unchanged
        "handler h = 64 { args[3] = args[3] * 3 + 2; }",  // a number
        "handler h = 65 { args[3] = args[3] * 3 + 1; }",  // the opcode
        "handler h = 64 scope warp { args[3] = args[3] * 3 + 1; }", "payload { args[3] = 1; }",
        "handler h = 64 { args[3] = 1; } handler k = 65 { args[3] = 2; }"}) {
    EXPECT_FALSE(is_hit(text)) << text;
  }
}

TEST_F(NativeCache, a_handler_is_found_in_whichever_program_it_is) {
  EXPECT_FALSE(is_hit("handler h = 64 { args[3] = 1; } handler k = 65 { args[3] = 2; }"));
  EXPECT_TRUE(is_hit("handler k = 65 { args[3] = 2; } handler h = 64 { args[3] = 1; }"));
  EXPECT_TRUE(is_hit("handler k = 65 { args[3] = 2; }"));
  EXPECT_FALSE(is_hit("handler h = 64 { args[3] = 1; } handler k = 65 { args[3] = 3; }"));
  EXPECT_EQ(cache_.counters().hits, 4u);
  EXPECT_EQ(cache_.counters().stored, 3u);
}

TEST_F(NativeCache, comments_and_spaces_are_no_change) {
  EXPECT_FALSE(is_hit(kText));
  EXPECT_TRUE(is_hit("// three times\nhandler h = 64 {\n  args[3] = (args[3] * 3) + 1;\n}\n"));
}

// ---- unusable entries ----

TEST_F(NativeCache, damaged_code_is_compiled_again_and_never_run) {
  compile(program_, cache_);
  const std::string name = dir_.names()[0];
  const Bytes entry = dir_.read(name);
  std::mt19937 random(5);
  for (int turn = 0; turn < 30; ++turn) {
    Bytes damaged = entry;
    const std::size_t at = random() % entry.size();
    damaged[at] ^= std::byte{1} << (random() % 8);
    dir_.write(name, damaged);
    expect_compiled_again(fmt::format("byte {}", at));
  }
}

TEST_F(NativeCache, bytes_that_are_no_object_file_are_compiled_again) {
  compile(program_, cache_);
  const CodeKey key = only_key();
  for (const std::size_t size : {0u, 1u, 16u, 5000u}) {
    cache_.put(key, Bytes(size, std::byte{0x7F}));
    expect_compiled_again(fmt::format("{} bytes of nonsense", size));
  }
}

TEST_F(NativeCache, an_object_file_cut_short_is_compiled_again) {
  compile(program_, cache_);
  const CodeKey key = only_key();
  const Bytes object = *cache_.get(key);
  for (const std::size_t size : {object.size() - 1, object.size() / 2, object.size() / 10}) {
    cache_.put(key, std::span(object).first(size));
    expect_compiled_again(fmt::format("{} of {} bytes", size, object.size()));
  }
}

TEST_F(NativeCache, the_object_file_of_another_handler_is_compiled_again) {
  compile(verified("handler k = 70 { args[3] = 1; }"), cache_);
  const Bytes other = *cache_.get(only_key());
  std::filesystem::remove(dir_.path() / dir_.names()[0]);
  compile(program_, cache_);
  cache_.put(only_key(), other);
  expect_compiled_again("another handler");
}

// ---- caches that do not work ----

TEST_F(NativeCache, a_cache_that_stores_nothing_is_no_error) {
  auto tiny = CodeCache::open({.directory = dir_.path() / "tiny", .max_bytes = 10});
  ASSERT_TRUE(tiny);
  for (int turn = 0; turn < 2; ++turn) {
    const NativeProgram native = compile(program_, *tiny);
    EXPECT_FALSE(native.is_from_cache());
    EXPECT_EQ(run_on_five(native), 16u);
  }
  EXPECT_EQ(tiny->counters().misses, 2u);
  EXPECT_NE(tiny->last_problem(), "");
}

TEST_F(NativeCache, a_cache_whose_folder_vanished_is_no_error) {
  compile(program_, cache_);
  std::filesystem::remove_all(dir_.path());
  const NativeProgram native = compile(program_, cache_);
  EXPECT_FALSE(native.is_from_cache());
  EXPECT_EQ(run_on_five(native), 16u);
  EXPECT_NE(cache_.last_problem(), "");
}

TEST_F(NativeCache, threads_that_compile_one_program_agree) {
  std::atomic<int> failures = 0;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        for (int turn = 0; turn < 5; ++turn) {
          const auto native = NativeProgram::compile(program_, {.cache = &cache_});
          if (!native || run_on_five(*native) != 16) ++failures;
        }
      });
    }
  }
  EXPECT_EQ(failures, 0);
  EXPECT_EQ(cache_.counters().rejected, 0u);
  EXPECT_EQ(dir_.names().size(), 1u);
}

}  // namespace
}  // namespace everkernel::jit
