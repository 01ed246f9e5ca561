// The CUDA texts of trusted handlers: NVRTC compiles them with the workers, for every architecture,
// and its messages name the handler whose text is wrong. Needs no GPU.
#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <sstream>

#include "backend/cuda/device_source.hpp"
#include "backend/cuda/nvrtc.hpp"
#include "conformance/trusted_handlers.hpp"
#include "everkernel/jit/cuda_source.hpp"
#include "support/ir_text.hpp"
#include "support/ir_text_file.hpp"
#include "support/ptx_check.hpp"
#include "support/results.hpp"

namespace everkernel::conformance {
namespace {

using backend::cuda::CompiledCode;
using backend::cuda::Nvrtc;
using backend::cuda::SourceText;

// An architecture newer than NVRTC knows: it gives PTX.
constexpr int kFuture = 9990;

std::string text_of(const std::vector<ir::TrustedHandler>& trusted) {
  return jit::emit_cuda(*test::check_text(kBesideTrusted), {.trusted_handlers = trusted});
}

class TrustedCuda : public testing::Test {
 protected:
  void SetUp() override {
    auto loaded = Nvrtc::load();
    if (!loaded) GTEST_SKIP() << test::message_of(loaded);
    nvrtc.emplace(*loaded);
  }

  Result<CompiledCode> compile(const std::vector<ir::TrustedHandler>& trusted,
                               int architecture) const {
    const auto known = backend::cuda::device_headers();
    std::vector<SourceText> headers(known.begin(), known.end());
    const std::string handlers = text_of(trusted);
    headers.push_back({"everkernel/handlers.cuh", handlers});
    const std::array<std::string, 4> options{"-fmad=false", "-DEVERKERNEL_BLOCK_THREADS=64",
                                             "-DEVERKERNEL_BLOCKS_PER_SM=1",
                                             "-DEVERKERNEL_SCHEDULE=1"};
    return nvrtc->compile({.source = backend::cuda::megakernel_source(),
                           .headers = headers,
                           .options = options,
                           .architecture = architecture});
  }

  std::optional<Nvrtc> nvrtc;
};

ir::TrustedHandler with_text(std::string cuda) {
  return {.name = "mistaken", .opcode = 200, .cuda = std::move(cuda)};
}

TEST_F(TrustedCuda, every_handler_compiles_for_every_architecture) {
  for (const int architecture : {80, 90, 100}) {
    const auto code = compile(trusted_handlers(), architecture);
    ASSERT_TRUE(code) << architecture << ": " << test::message_of(code);
    EXPECT_FALSE(code->is_ptx);
    EXPECT_EQ(code->log.find("trusted"), std::string::npos) << code->log;
    EXPECT_EQ(code->log.find("trusted"), std::string::npos) << code->log;
  }
}

TEST_F(TrustedCuda, each_scope_compiles_alone) {
  for (const ir::TrustedHandler& handler : trusted_handlers()) {
    if (!handler.name.starts_with("trusted_") || handler.opcode < kTrustedLane ||
        handler.opcode > kTrustedGroup) {
      continue;
    }
    const auto code = compile({handler}, 90);
    EXPECT_TRUE(code) << handler.name << ": " << test::message_of(code);
  }
}

TEST_F(TrustedCuda, checked_accesses_go_through_the_accessors) {
  const auto code = compile(trusted_handlers(), kFuture);
  ASSERT_TRUE(code) << test::message_of(code);
  ASSERT_TRUE(code->is_ptx);
  const auto report =
      test::check_ptx({reinterpret_cast<const char*>(code->bytes.data()), code->bytes.size()});
  EXPECT_EQ(test::shown(report), "");
  EXPECT_GT(report.accesses.at("data"), 20u);
  EXPECT_GT(report.accesses.at("atomic"), 10u);
}

TEST_F(TrustedCuda, a_message_names_the_handler_and_its_line) {
  const auto code =
      compile({with_text("// the mistake is in the third line\n"
                         "template <class Item> __device__ Word mistaken(Item& item) {\n"
                         "  return item.no_such_thing();\n"
                         "}")},
              90);
  ASSERT_EQ(test::code_of(code), Code::invalid_argument);
  EXPECT_NE(test::message_of(code).find("trusted handler mistaken(3)"), std::string::npos)
      << test::message_of(code);
}

TEST_F(TrustedCuda, a_text_has_helpers_of_its_own) {
  const std::string helper = "__device__ Word twice(Word x) { return 2 * x; }\n";
  ir::TrustedHandler first = with_text(
      helper +
      "template <class Item> __device__ Word mistaken(Item& item) { item.output().store(0, "
      "twice(item.param())); return item.done(); }");
  ir::TrustedHandler second = first;
  second.name = "other";
  second.opcode = 201;
  second.cuda.replace(second.cuda.find("mistaken"), 8, "other");
  const auto code = compile({first, second}, 90);
  EXPECT_TRUE(code) << test::message_of(code);
}

// The raw string in a file that users read.
std::string shown_text(const std::string& path) {
  const std::string file = test::read_text(path);
  const std::size_t begin = file.find("R\"(\n") + 3;
  return file.substr(begin, file.find(")\";", begin) - begin);
}

TEST_F(TrustedCuda, what_users_are_shown_compiles) {
  const ir::TrustedHandler manual{.name = "add_one",
                                  .opcode = 200,
                                  .scope = ir::Scope::group,
                                  .cuda = shown_text("docs/handlers.md")};
  const ir::TrustedHandler example{.name = "sum_words",
                                   .opcode = 201,
                                   .scope = ir::Scope::group,
                                   .cuda = shown_text("examples/06_trusted_handler.cpp")};
  const auto code = compile({manual, example}, 90);
  EXPECT_TRUE(code) << test::message_of(code);
}

TEST_F(TrustedCuda, a_text_without_its_function_is_refused) {
  const auto code = compile({with_text("__device__ Word unrelated() { return 0; }")}, 90);
  EXPECT_EQ(test::code_of(code), Code::invalid_argument);
}

// ---- the text alone ----

TEST(TrustedCudaText, verified_handlers_do_without) {
  EXPECT_EQ(text_of({}).find("nverified.cuh"), std::string::npos);
  EXPECT_NE(text_of(trusted_handlers()).find("jit/device/trusted.cuh"), std::string::npos);
}

TEST(TrustedCudaText, indices_follow_the_programs) {
  const auto program = test::check_text("handler a = 64 { } handler b = 65 { }");
  const auto trusted = with_text("TEXT");
  const std::string text = jit::emit_cuda(*program, {.trusted_handlers = std::span(&trusted, 1)});
  EXPECT_NE(text.find("namespace trusted_2 {"), std::string::npos) << text;
  EXPECT_NE(text.find("case 200u:\n      return 2u;"), std::string::npos) << text;
}

TEST(TrustedCudaText, lines_behind_a_text_are_counted_on) {
  const auto trusted = with_text("one\ntwo");
  const std::string text =
      jit::emit_cuda(*test::check_text(""), {.trusted_handlers = {&trusted, 1}});
  std::istringstream lines(text);
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    if (!line.ends_with("\"everkernel/handlers.cuh\"")) continue;
    EXPECT_EQ(line, "#line " + std::to_string(number + 1) + " \"everkernel/handlers.cuh\"");
    return;
  }
  FAIL() << text;
}

}  // namespace
}  // namespace everkernel::conformance
