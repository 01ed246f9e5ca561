// NVRTC itself, on machines that have it. It needs no GPU.
#include "backend/cuda/nvrtc.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <ctime>
#include <thread>
#include <vector>

#include "cuda/fake_fixture.hpp"
#include "cuda/needs_nvrtc.hpp"
#include "everkernel/jit/cuda_source.hpp"

namespace everkernel::test {
namespace {

using backend::cuda::CompileRequest;
using backend::cuda::device_headers;
using backend::cuda::megakernel_source;
using backend::cuda::Nvrtc;
using backend::cuda::SourceText;

constexpr SourceText kEmpty{"empty.cu", "extern \"C\" __global__ void everkernel_empty() {}\n"};

std::string_view text_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

class CompilerIsMissing : public ::testing::Test {
 protected:
  ~CompilerIsMissing() override { ::unsetenv("EVERKERNEL_LIBNVRTC"); }
};

TEST_F(CompilerIsMissing, a_library_that_is_not_there_is_named) {
  ::setenv("EVERKERNEL_LIBNVRTC", "/nowhere/libnvrtc.so", 1);
  const auto nvrtc = Nvrtc::load();
  EXPECT_EQ(code_of(nvrtc), Code::unsupported);
  EXPECT_EQ(message_of(nvrtc),
            "EVERKERNEL_LIBNVRTC: /nowhere/libnvrtc.so: cannot open shared object file: No such "
            "file or directory");
}

TEST_F(CompilerIsMissing, a_library_that_is_another_one_is_named) {
  const std::string path = beside_program("libfake_cuda.so");
  ::setenv("EVERKERNEL_LIBNVRTC", path.c_str(), 1);
  const auto nvrtc = Nvrtc::load();
  EXPECT_EQ(code_of(nvrtc), Code::unsupported);
  EXPECT_EQ(message_of(nvrtc), path + " has no nvrtcGetErrorString");
}

TEST(Compiler, says_its_version_and_what_it_makes_code_for) {
  EVERKERNEL_NEEDS_NVRTC(nvrtc);
  EXPECT_GE(nvrtc->version(), 12000);
  const auto& known = nvrtc->architectures();
  EXPECT_TRUE(std::ranges::is_sorted(known));
  EXPECT_TRUE(std::ranges::binary_search(known, 80));
}

TEST(Compiler, makes_machine_code_for_an_architecture_it_knows) {
  EVERKERNEL_NEEDS_NVRTC(nvrtc);
  for (const int architecture : {80, 90}) {
    const auto code = nvrtc->compile({.source = kEmpty, .architecture = architecture});
    ASSERT_TRUE(code) << message_of(code);
    EXPECT_FALSE(code->is_ptx);
    EXPECT_TRUE(text_of(code->bytes)
                    .starts_with("\x7F"
                                 "ELF"));
    EXPECT_NE(text_of(code->bytes).find("everkernel_empty"), std::string_view::npos);
  }
}

TEST(Compiler, makes_ptx_for_an_architecture_of_the_future) {
  EVERKERNEL_NEEDS_NVRTC(nvrtc);
  const auto code = nvrtc->compile({.source = kEmpty, .architecture = 999});
  ASSERT_TRUE(code) << message_of(code);
  EXPECT_TRUE(code->is_ptx);
  const std::string target = ".target sm_" + std::to_string(nvrtc->architectures().back());
  EXPECT_NE(text_of(code->bytes).find(target), std::string_view::npos);
  EXPECT_EQ(code->bytes.back(), std::byte{0});  // the driver takes PTX as a C string
}

TEST(Compiler, says_when_an_architecture_is_too_old) {
  EVERKERNEL_NEEDS_NVRTC(nvrtc);
  const auto code = nvrtc->compile({.source = kEmpty, .architecture = 20});
  EXPECT_EQ(code_of(code), Code::unsupported);
  EXPECT_NE(message_of(code).find("generates no code for compute capability 2.0"),
            std::string::npos)
      << message_of(code);
}

TEST(Compiler, an_error_comes_with_file_line_and_text) {
  EVERKERNEL_NEEDS_NVRTC(nvrtc);
  const auto code = nvrtc->compile(
      {.source = {"broken.cu", "__global__ void f() {\n  nonsense();\n}\n"}, .architecture = 90});
  EXPECT_EQ(code_of(code), Code::invalid_argument);
  EXPECT_TRUE(message_of(code).starts_with("NVRTC cannot compile broken.cu:\n"))
      << message_of(code);
  EXPECT_NE(message_of(code).find("broken.cu(2): error: identifier \"nonsense\""),
            std::string::npos)
      << message_of(code);
  EXPECT_EQ(code.error().native, 6);
}

TEST(Compiler, a_log_without_end_is_cut) {
  EVERKERNEL_NEEDS_NVRTC(nvrtc);
  std::string text;
  for (int i = 0; i < 2000; ++i) text += "#warning a line that nobody reads to its end\n";
  text += "nonsense\n";
  const auto code = nvrtc->compile({.source = {"long.cu", text}, .architecture = 90});
  EXPECT_EQ(code_of(code), Code::invalid_argument);
  EXPECT_LT(message_of(code).size(), 20'000u);
}

TEST(Compiler, takes_headers_by_name_and_options) {
  EVERKERNEL_NEEDS_NVRTC(nvrtc);
  const SourceText headers[] = {{"some/where.cuh", "#define WHERE HERE\n"}};
  const std::string options[] = {"-DHERE=everkernel_here"};
  const CompileRequest request{
      .source = {"a.cu", "#include \"some/where.cuh\"\nextern \"C\" __global__ void WHERE() {}\n"},
      .headers = headers,
      .options = options,
      .architecture = 90};
  const auto code = nvrtc->compile(request);
  ASSERT_TRUE(code) << message_of(code);
  EXPECT_NE(text_of(code->bytes).find("everkernel_here"), std::string_view::npos);
}

TEST(Compiler, can_check_a_text_without_making_code) {
  EVERKERNEL_NEEDS_NVRTC(nvrtc);
  const auto checked = nvrtc->compile({.source = kEmpty, .architecture = 90, .only_checks = true});
  ASSERT_TRUE(checked) << message_of(checked);
  EXPECT_TRUE(checked->bytes.empty());
  const auto refused =
      nvrtc->compile({.source = {"bad.cu", "nonsense"}, .architecture = 90, .only_checks = true});
  EXPECT_EQ(code_of(refused), Code::invalid_argument);
}

TEST(Compiler, an_option_it_does_not_know_is_an_error) {
  EVERKERNEL_NEEDS_NVRTC(nvrtc);
  const std::string options[] = {"--no-such-option"};
  const auto code = nvrtc->compile({.source = kEmpty, .options = options, .architecture = 90});
  EXPECT_EQ(code_of(code), Code::unsupported);
  EXPECT_NE(message_of(code).find("--no-such-option"), std::string::npos) << message_of(code);
}

TEST(Compiler, warnings_are_kept) {
  EVERKERNEL_NEEDS_NVRTC(nvrtc);
  const auto code = nvrtc->compile(
      {.source = {"warn.cu", "#warning look here\n__global__ void f() {}\n"}, .architecture = 90});
  ASSERT_TRUE(code) << message_of(code);
  EXPECT_NE(code->log.find("look here"), std::string::npos) << code->log;
}

TEST(Compiler, takes_the_embedded_workers) {
  EVERKERNEL_NEEDS_NVRTC(nvrtc);
  const std::string handlers = jit::emit_cuda(*ir::verify({}), {});
  std::vector<SourceText> headers(device_headers().begin(), device_headers().end());
  headers.push_back({"everkernel/handlers.cuh", handlers});
  struct Kind {
    const char* option;
    std::string_view kernel;
  };
  constexpr Kind kKinds[] = {{"-DEVERKERNEL_SCHEDULE=0", "everkernel_drain"},
                             {"-DEVERKERNEL_GRAPH", "everkernel_graph"},
                             {"-DEVERKERNEL_LIVE", "everkernel_live"}};
  for (const Kind& kind : kKinds) {
    const std::array<std::string, 3> options{"-DEVERKERNEL_BLOCK_THREADS=256",
                                             "-DEVERKERNEL_BLOCKS_PER_SM=1", kind.option};
    const auto code = nvrtc->compile({.source = megakernel_source(),
                                      .headers = headers,
                                      .options = options,
                                      .architecture = 90});
    ASSERT_TRUE(code) << message_of(code);
    EXPECT_EQ(code->log, "");
    for (const Kind& other : kKinds) {
      const bool has = text_of(code->bytes).find(other.kernel) != std::string_view::npos;
      EXPECT_EQ(has, other.kernel == kind.kernel) << kind.option << " and " << other.kernel;
    }
  }
}

TEST(Compiler, serves_threads_at_one_time) {
  EVERKERNEL_NEEDS_NVRTC(nvrtc);
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&nvrtc, t] {
      const std::string name = "everkernel_thread_" + std::to_string(t);
      const std::string text = "extern \"C\" __global__ void " + name + "() {}\n";
      for (int round = 0; round < 3; ++round) {
        const auto code = nvrtc->compile({.source = {"t.cu", text}, .architecture = 90});
        ASSERT_TRUE(code) << message_of(code);
        EXPECT_NE(text_of(code->bytes).find(name), std::string_view::npos);
      }
    });
  }
}

TEST(Compiler, ends_early_when_it_is_cancelled) {
  EVERKERNEL_NEEDS_NVRTC(nvrtc);
  if (!nvrtc->can_cancel()) GTEST_SKIP() << "NVRTC before 12.8 cannot be cancelled";
  std::string text;
  for (int i = 0; i < 3000; ++i) {
    text += "extern \"C\" __global__ void f" + std::to_string(i) +
            "(int* x) { for (int i = 0; i < x[1]; ++i) x[i] = x[i] * 3 + x[i + 1]; }\n";
  }
  std::atomic<bool> is_cancelled = false;
  std::jthread canceller([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    is_cancelled = true;
  });
  const std::clock_t begin = std::clock();  // processor time: other programs do not count
  const auto code = nvrtc->compile(
      {.source = {"long.cu", text}, .architecture = 90, .is_cancelled = &is_cancelled});
  const double taken = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  EXPECT_EQ(code_of(code), Code::timeout);
  EXPECT_LT(taken, 2.0) << "to its end it takes 20 s; cancelled, 0.2 s";
}

}  // namespace
}  // namespace everkernel::test
