// Compiling through the cache on disk, and loading with the fake driver.
#include "backend/cuda/module.hpp"

#include "cuda/fake_fixture.hpp"
#include "cuda/needs_nvrtc.hpp"
#include "support/temp_dir.hpp"

namespace everkernel::test {
namespace {

using backend::cuda::compile_module;
using backend::cuda::CompileRequest;
using backend::cuda::Module;
using backend::cuda::SourceText;

constexpr SourceText kHeaders[] = {{"a.cuh", "#define NAME everkernel_a\n"}};
constexpr SourceText kSource{"a.cu",
                             "#include \"a.cuh\"\nextern \"C\" __global__ void NAME() {}\n"};

class CompiledModules : public WithFakeCuda {
 protected:
  jit::CodeCache open_cache() const {
    auto cache = jit::CodeCache::open({.directory = folder.path() / "cache"});
    EXPECT_TRUE(cache) << message_of(cache);
    return std::move(*cache);
  }

  TempDir folder;
  CompileRequest request{.source = kSource, .headers = kHeaders, .options = {}, .architecture = 90};
};

TEST_F(CompiledModules, come_from_the_cache_the_second_time) {
  EVERKERNEL_NEEDS_NVRTC(nvrtc);
  auto cache = open_cache();
  const auto first = compile_module(*nvrtc, &cache, request, 13000);
  ASSERT_TRUE(first) << message_of(first);
  EXPECT_FALSE(first->is_from_cache);
  auto reopened = open_cache();
  const auto second = compile_module(*nvrtc, &reopened, request, 13000);
  ASSERT_TRUE(second);
  EXPECT_TRUE(second->is_from_cache);
  EXPECT_EQ(second->bytes, first->bytes);
  EXPECT_EQ(second->key, first->key);
}

// Decision 0012.
TEST_F(CompiledModules, are_compiled_once_more_where_the_first_code_has_a_magnitude) {
  EVERKERNEL_NEEDS_NVRTC(nvrtc);
  constexpr std::string_view kMagnitude =
      "extern \"C\" __global__ void everkernel_a(int* x) {\n"
      "#if defined(EVERKERNEL_OPAQUE_ARITHMETIC)\n"
      "  x[0] = 77;\n"
      "#else\n"
      "  x[0] = x[0] < 0 ? -x[0] : x[0];\n"
      "#endif\n}\n";
  const auto first =
      nvrtc->compile({.source = {"a.cu", kMagnitude}, .architecture = 90, .keeps_ptx = true});
  ASSERT_TRUE(first) << message_of(first);
  EXPECT_NE(first->ptx.find("abs.s32"), std::string::npos);
  const auto code = backend::cuda::compile_for_ptxas(
      *nvrtc, {.source = {"a.cu", kMagnitude}, .architecture = 90});
  ASSERT_TRUE(code) << message_of(code);
  EXPECT_EQ(code->ptx.find("abs.s32"), std::string::npos);
  EXPECT_NE(code->ptx.find("77"), std::string::npos);
  EXPECT_NE(code->bytes, first->bytes);
}

TEST_F(CompiledModules, need_no_cache) {
  EVERKERNEL_NEEDS_NVRTC(nvrtc);
  const auto module = compile_module(*nvrtc, nullptr, request, 13000);
  ASSERT_TRUE(module) << message_of(module);
  EXPECT_FALSE(module->is_from_cache);
}

TEST_F(CompiledModules, are_compiled_again_when_anything_they_depend_on_changes) {
  EVERKERNEL_NEEDS_NVRTC(nvrtc);
  auto cache = open_cache();
  ASSERT_TRUE(compile_module(*nvrtc, &cache, request, 13000));
  const auto expect_other = [&](const CompileRequest& changed, int driver_version,
                                const char* what) {
    const auto module = compile_module(*nvrtc, &cache, changed, driver_version);
    ASSERT_TRUE(module) << message_of(module);
    EXPECT_FALSE(module->is_from_cache) << what;
  };
  expect_other(request, 13010, "driver");
  CompileRequest changed = request;
  changed.architecture = 80;
  expect_other(changed, 13000, "architecture");
  const std::string options[] = {"--fmad=false"};
  changed = request;
  changed.options = options;
  expect_other(changed, 13000, "options");
  const SourceText headers[] = {{"a.cuh", "#define NAME everkernel_b\n"}};
  changed = request;
  changed.headers = headers;
  expect_other(changed, 13000, "a header");
  const SourceText renamed[] = {kHeaders[0], {"b.cuh", ""}};
  changed.headers = renamed;
  expect_other(changed, 13000, "one more header");
  changed = request;
  const std::string text = std::string(kSource.text) + "// changed\n";
  changed.source.text = text;
  expect_other(changed, 13000, "the source");
}

TEST_F(CompiledModules, that_do_not_compile_leave_nothing_in_the_cache) {
  EVERKERNEL_NEEDS_NVRTC(nvrtc);
  auto cache = open_cache();
  request.source.text = "nonsense";
  EXPECT_EQ(code_of(compile_module(*nvrtc, &cache, request, 13000)), Code::invalid_argument);
  EXPECT_EQ(cache.counters().stored, 0u);
}

TEST_F(CompiledModules, are_loaded_and_unloaded) {
  EVERKERNEL_NEEDS_NVRTC(nvrtc);
  {
    auto module = Module::load(make_context(), *nvrtc, nullptr, request);
    ASSERT_TRUE(module) << message_of(module);
    EXPECT_FALSE(module->is_from_cache());
    EXPECT_EQ(fake().live_modules, 1);
    EXPECT_TRUE(module->function("everkernel_a"));
    const auto missing = module->function("somebody");
    EXPECT_EQ(code_of(missing), Code::invalid_argument);
    EXPECT_NE(message_of(missing).find("somebody"), std::string::npos);
    const Module moved = std::move(*module);
  }
  expect_nothing_left();
}

TEST_F(CompiledModules, that_the_driver_refuses_are_compiled_anew_when_they_were_stored) {
  EVERKERNEL_NEEDS_NVRTC(nvrtc);
  const auto context = make_context();
  auto cache = open_cache();
  ASSERT_TRUE(Module::load(context, *nvrtc, &cache, request));
  {
    const auto stored = Module::load(context, *nvrtc, &cache, request);
    ASSERT_TRUE(stored);
    EXPECT_TRUE(stored->is_from_cache());
  }
  fake().refused_images = 1;
  const auto anew = Module::load(context, *nvrtc, &cache, request);
  ASSERT_TRUE(anew) << message_of(anew);
  EXPECT_FALSE(anew->is_from_cache());
  EXPECT_EQ(cache.counters().rejected, 1u);
  EXPECT_EQ(cache.counters().stored, 2u);
}

TEST_F(CompiledModules, that_are_refused_fresh_are_an_error) {
  EVERKERNEL_NEEDS_NVRTC(nvrtc);
  const auto context = make_context();
  auto cache = open_cache();
  ASSERT_TRUE(Module::load(context, *nvrtc, &cache, request));
  fake().refused_images = 2;
  EXPECT_EQ(code_of(Module::load(context, *nvrtc, &cache, request)), Code::unsupported);
  EXPECT_FALSE(context->is_lost());
}

TEST_F(CompiledModules, are_not_blamed_for_a_device_that_is_lost) {
  EVERKERNEL_NEEDS_NVRTC(nvrtc);
  const auto context = make_context();
  auto cache = open_cache();
  ASSERT_TRUE(Module::load(context, *nvrtc, &cache, request));
  fail("cuModuleLoadData", 700);
  EXPECT_EQ(code_of(Module::load(context, *nvrtc, &cache, request)), Code::device_lost);
  EXPECT_EQ(cache.counters().rejected, 0u);
  EXPECT_EQ(code_of(Module::load(context, *nvrtc, &cache, request)), Code::device_lost);
}

}  // namespace
}  // namespace everkernel::test
