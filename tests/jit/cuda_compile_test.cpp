// The device compilers take the text of every example and of random handlers, for three
// architectures; and in what they make of it, no access to memory goes around the accessors.
//
// EVERKERNEL_SEED=N says which random handlers.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>

#include "backend/cuda/device_source.hpp"
#include "cuda/needs_nvrtc.hpp"
#include "everkernel/ir/parser.hpp"
#include "everkernel/jit/cuda_source.hpp"
#include "support/jit_program_generator.hpp"
#include "support/process.hpp"
#include "support/ptx_check.hpp"
#include "support/seeds.hpp"
#include "support/temp_dir.hpp"

namespace everkernel::test {
namespace {

using backend::cuda::Nvrtc;
using backend::cuda::SourceText;

const std::filesystem::path kRoot = EVERKERNEL_SOURCE_DIR;
constexpr int kArchitectures[] = {80, 90, 100};

// Calls everything a worker calls, and touches global memory only by accessors.
constexpr std::string_view kKernel = R"(
#include "jit/device/item.cuh"
#include "everkernel/handlers.cuh"

using namespace everkernel::device;

extern "C" __global__ void run_one(const __grid_constant__ Item given,
                                   const __grid_constant__ Voice voice, Word opcode, Words out) {
  Item item = given;
  item.voice = voice;
  const Word handler = kPayload != kNoHandler ? kPayload : find_handler(opcode);
  const Word traits = traits_of(handler);
  Word result;
  if (opcode == 7) {
    result = run_alone(handler, item);
  } else if ((traits & kTraitGroup) != 0) {
    result = run_group_handler(handler, item);
  } else if ((traits & kTraitWarp) != 0) {
    result = run_warp_handler(handler, item);
  } else {
    result = run_lane_handler(handler, item);
  }
  out.store_relaxed(0, result);
  out.store_relaxed(1, static_cast<Word>(item.fuel));
#pragma unroll
  for (Word i = 0; i < 12; ++i) out.store_relaxed(2 + i, item.args[i]);
  out.store_relaxed(14, item.io.is_write ^ item.io.source ^ item.io.block ^ item.io.destination ^
                            item.io.byte_count);
}
)";

struct Example {
  std::string name;
  std::string text;  // of the handlers
};

std::vector<Example> all_examples() {
  std::vector<Example> examples;
  for (const char* folder : {"examples/handlers", "examples/jobs"}) {
    for (const auto& file : std::filesystem::directory_iterator(kRoot / folder)) {
      if (file.path().extension() != ".ek") continue;
      examples.push_back({file.path().filename().string(), read_text(file.path())});
    }
  }
  return examples;
}

std::string cuda_of(std::string_view text, jit::MemoryUse memory = jit::MemoryUse::shared) {
  auto parsed = ir::parse(text);
  EXPECT_TRUE(parsed) << parsed.error().message;
  auto verified = ir::verify(*std::move(parsed));
  EXPECT_TRUE(verified) << verified.error().message;
  return jit::emit_cuda(*verified, {.memory = memory, .payload = verified->payload() != nullptr});
}

// Compiles the handlers with the kernel around them. For an architecture NVRTC does not know it
// gives PTX.
Result<std::string> compiled(const Nvrtc& nvrtc, const std::string& handlers, int architecture) {
  std::vector<SourceText> headers(backend::cuda::device_headers().begin(),
                                  backend::cuda::device_headers().end());
  headers.push_back({"everkernel/handlers.cuh", handlers});
  const std::string options[] = {"-fmad=false"};
  const auto code = nvrtc.compile({.source = {"kernel.cu", kKernel},
                                   .headers = headers,
                                   .options = options,
                                   .architecture = architecture});
  if (!code) return Failure(code.error());
  EXPECT_EQ(code->log, "") << "the text is no cause for warnings";
  return std::string(reinterpret_cast<const char*>(code->bytes.data()), code->bytes.size());
}

// Compiles for every architecture, and reads the PTX of one.
void expect_compiles(const Nvrtc& nvrtc, const std::string& name, const std::string& handlers) {
  for (const int architecture : kArchitectures) {
    const auto code = compiled(nvrtc, handlers, architecture);
    ASSERT_TRUE(code) << name << " for sm_" << architecture << ": " << code.error().message;
    EXPECT_TRUE(code->starts_with("\177ELF")) << name;
  }
}

void expect_sound_ptx(const Nvrtc& nvrtc, const std::string& name, const std::string& handlers) {
  const auto ptx = compiled(nvrtc, handlers, 91);
  ASSERT_TRUE(ptx) << name << ": " << ptx.error().message;
  const PtxReport report = check_ptx(*ptx);
  EXPECT_EQ(shown(report), "") << name;
  EXPECT_GE(report.accesses.at("word"), 15u) << "the kernel itself stores that many";
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

TEST(CudaCompile, nvrtc_takes_every_example) {
  EVERKERNEL_NEEDS_NVRTC(nvrtc);
  const auto examples = all_examples();
  EXPECT_GE(examples.size(), 11u);
  for (const Example& example : examples) {
    for (const auto memory : {jit::MemoryUse::shared, jit::MemoryUse::planned}) {
      const std::string handlers = cuda_of(example.text, memory);
      expect_compiles(*nvrtc, example.name, handlers);
      expect_sound_ptx(*nvrtc, example.name, handlers);
    }
  }
  expect_compiles(*nvrtc, "no handlers", cuda_of(""));
}

TEST(CudaCompile, nvrtc_takes_random_handlers) {
  EVERKERNEL_NEEDS_NVRTC(nvrtc);
  constexpr std::size_t kBatches = 20, kHandlersEach = 25;
  const std::uint64_t seed = first_seed();
  std::printf("EVERKERNEL_SEED=%llu\n", static_cast<unsigned long long>(seed));
  const auto start = std::chrono::steady_clock::now();
  Random random(seed);
  for (std::size_t i = 0; i < kBatches; ++i) {
    const std::string handlers = cuda_of(generate_batch(random, kHandlersEach));
    const std::string name = fmt::format("batch {} of seed {}", i, seed);
    // Each batch for one architecture, its PTX read: every architecture sees a third of them.
    const auto code = compiled(*nvrtc, handlers, kArchitectures[i % std::size(kArchitectures)]);
    ASSERT_TRUE(code) << name << ": " << code.error().message;
    expect_sound_ptx(*nvrtc, name, handlers);
  }
  std::printf("%zu handlers in %.1f s\n", kBatches * kHandlersEach, seconds_since(start));
}

}  // namespace
}  // namespace everkernel::test
