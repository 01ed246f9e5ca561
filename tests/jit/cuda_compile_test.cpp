// The device compilers compile the text of every example and of random handlers for three
// architectures, and in their PTX every memory access is one of the accessors.
//
// A test run compiles all examples as one program, every architecture and every kind of kernel at
// least once, and one batch of random handlers. A soak (EVERKERNEL_SOAK=1) compiles each example
// alone, every kind for every architecture, and 500 random handlers that EVERKERNEL_SEED selects.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <utility>

#include "backend/cuda/device_source.hpp"
#include "cuda/needs_nvrtc.hpp"
#include "everkernel/ir/parser.hpp"
#include "everkernel/jit/cuda_source.hpp"
#include "support/build_paths.hpp"
#include "support/jit_program_generator.hpp"
#include "support/process.hpp"
#include "support/ptx_check.hpp"
#include "support/seeds.hpp"
#include "support/temp_dir.hpp"

namespace everkernel::test {
namespace {

using backend::cuda::Nvrtc;
using backend::cuda::SourceText;

const std::filesystem::path kRoot = source_path();
constexpr int kArchitectures[] = {80, 90, 100};

// Calls every function that a worker calls, and touches global memory only by accessors.
constexpr std::string_view kKernel = R"(
#include "jit/device/handler.cuh"
#include "everkernel/handlers.cuh"

using namespace everkernel::device;

extern "C" __global__ void run_one(const __grid_constant__ Item given,
                                   const __grid_constant__ ItemSinks sinks, Word opcode,
                                   Words out) {
  Item item = given;
  item.sinks = sinks;
  const Word handler = kPayload != kNoHandler ? kPayload : find_handler(opcode);
  const Word traits = traits_of(handler);
  Word result;
  if ((traits & kTraitGroup) != 0) {
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

// A kernel for each handler: a compiler takes several small functions faster than a large one.
std::string kernels_of(const ir::VerifiedProgram& program) {
  constexpr std::string_view kLanes[] = {"OneLane", "WarpLanes", "GroupLanes"};
  std::string text =
      "#include \"jit/device/handler.cuh\"\n#include \"everkernel/handlers.cuh\"\n"
      "using namespace everkernel::device;\n";
  for (std::size_t i = 0; i < program.handlers().size(); ++i) {
    const auto scope = static_cast<std::size_t>(program.handlers()[i].handler.scope);
    text += fmt::format(
        "extern \"C\" __global__ void run_{0}(const __grid_constant__ Item given, Words out) {{\n"
        "  Item item = given;\n"
        "  out.store_relaxed(0, handler_{0}({1}{{}}, item));\n"
        "  out.store_relaxed(1, static_cast<Word>(item.fuel));\n"
        "#pragma unroll\n"
        "  for (Word i = 0; i < 12; ++i) out.store_relaxed(2 + i, item.args[i]);\n"
        "  out.store_relaxed(14, item.io.source ^ item.io.block ^ item.io.byte_count);\n}}\n",
        i, kLanes[scope]);
  }
  return text;
}

ir::Program parsed(std::string_view text) {
  auto program = ir::parse(text);
  EXPECT_TRUE(program) << program.error().message;
  return *std::move(program);
}

ir::VerifiedProgram verified(ir::Program program) {
  auto made = ir::verify(std::move(program));
  EXPECT_TRUE(made) << made.error().message;
  return *std::move(made);
}

std::string cuda_of(const ir::VerifiedProgram& program,
                    jit::MemoryUse memory = jit::MemoryUse::shared) {
  return jit::emit_cuda(program, {.memory = memory, .payload = program.payload() != nullptr});
}

struct Example {
  std::string name;
  ir::Program program;
};

std::vector<Example> all_examples() {
  std::vector<Example> examples;
  for (const char* folder : {"examples/handlers", "examples/jobs"}) {
    for (const auto& file : std::filesystem::directory_iterator(kRoot / folder)) {
      if (file.path().extension() != ".ek") continue;
      examples.push_back({file.path().filename().string(), parsed(read_text(file.path()))});
    }
  }
  EXPECT_GE(examples.size(), 11u);
  return examples;
}

// The handlers of all examples as one program. Names and opcodes are new, so that none clash.
Example all_in_one() {
  ir::Program all;
  for (Example& example : all_examples()) {
    for (ir::Handler& handler : example.program.handlers) {
      handler.name = fmt::format("h_{}", all.handlers.size());
      handler.opcode = static_cast<std::uint32_t>(100 + all.handlers.size());
      handler.is_payload = false;
      all.handlers.push_back(std::move(handler));
    }
  }
  return {"all examples", std::move(all)};
}

std::vector<Example> examples_to_compile() {
  return is_soak() ? all_examples() : std::vector{all_in_one()};
}

struct Source {
  std::string name;      // for messages
  std::string handlers;  // the text under test
  std::string kernel;
  std::vector<std::string> options = {};
};

void expect_compiles(const Nvrtc& nvrtc, const Source& source, int architecture) {
  std::vector<SourceText> headers(backend::cuda::device_headers().begin(),
                                  backend::cuda::device_headers().end());
  headers.push_back({"everkernel/handlers.cuh", source.handlers});
  std::vector<std::string> options = {"-fmad=false"};
  options.insert(options.end(), source.options.begin(), source.options.end());
  const auto code = nvrtc.compile({.source = {"kernel.cu", source.kernel},
                                   .headers = headers,
                                   .options = options,
                                   .architecture = architecture,
                                   .keeps_ptx = true});
  const std::string place = fmt::format("{} for sm_{}", source.name, architecture);
  ASSERT_TRUE(code) << place << ": " << code.error().message;
  EXPECT_FALSE(code->is_ptx) << place;
  EXPECT_EQ(code->log, "") << place << ": the text is no cause for warnings";
  const PtxReport report = check_ptx(code->ptx);
  EXPECT_EQ(shown(report), "") << place;
  EXPECT_GE(report.accesses.at("word"), 15u) << "a kernel itself stores that many";
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

TEST(CudaCompile, nvrtc_takes_every_example) {
  EVERKERNEL_NEEDS_NVRTC(nvrtc);
  for (const int architecture : kArchitectures) {
    for (const Example& example : examples_to_compile()) {
      const std::string handlers = cuda_of(verified(example.program));
      expect_compiles(*nvrtc, {example.name, handlers, std::string(kKernel)}, architecture);
    }
  }
  expect_compiles(*nvrtc, {"no handlers", cuda_of(verified({})), std::string(kKernel)}, 90);
}

TEST(CudaCompile, nvrtc_takes_every_example_for_planned_memory) {
  EVERKERNEL_NEEDS_NVRTC(nvrtc);
  for (const Example& example : examples_to_compile()) {
    const std::string handlers = cuda_of(verified(example.program), jit::MemoryUse::planned);
    expect_compiles(*nvrtc, {example.name, handlers, std::string(kKernel)}, 90);
  }
}

constexpr const char* kLive = "-DEVERKERNEL_LIVE";
constexpr const char* kKindsOfKernel[] = {"-DEVERKERNEL_SCHEDULE=0", "-DEVERKERNEL_SCHEDULE=1",
                                          "-DEVERKERNEL_SCHEDULE=2", "-DEVERKERNEL_GRAPH", kLive};

// A live kernel has one block on a multiprocessor.
std::vector<std::string> worker_options(const char* kind, const char* more = nullptr) {
  const char* const occupancy =
      kind == kLive ? "-DEVERKERNEL_BLOCKS_PER_SM=1" : "-DEVERKERNEL_BLOCKS_PER_SM=4";
  std::vector<std::string> options = {"-DEVERKERNEL_BLOCK_THREADS=128", occupancy, kind};
  if (more != nullptr) options.emplace_back(more);
  return options;
}

// The kernels of the workers, of every kind.
TEST(CudaCompile, nvrtc_takes_the_megakernel_with_every_example) {
  EVERKERNEL_NEEDS_NVRTC(nvrtc);
  const std::string workers(backend::cuda::megakernel_source().text);
  for (const Example& example : examples_to_compile()) {
    const std::string handlers = cuda_of(verified(example.program));
    for (std::size_t i = 0; i < std::size(kKindsOfKernel); ++i) {
      for (std::size_t k = 0; k < std::size(kArchitectures); ++k) {
        if (!is_soak() && i % std::size(kArchitectures) != k) continue;
        expect_compiles(*nvrtc,
                        {example.name, handlers, workers, worker_options(kKindsOfKernel[i])},
                        kArchitectures[k]);
      }
    }
  }
  const auto program = verified(all_examples()[0].program);
  for (const char* const kind : {"-DEVERKERNEL_SCHEDULE=0", kLive}) {
    expect_compiles(
        *nvrtc,
        {"wide fuel", cuda_of(program), workers, worker_options(kind, "-DEVERKERNEL_WIDE_FUEL")},
        90);
  }
  // The fences of live kernels differ by architecture.
  for (const int architecture : kArchitectures) {
    expect_compiles(*nvrtc, {"live", cuda_of(program), workers, worker_options(kLive)},
                    architecture);
  }
  expect_compiles(*nvrtc,
                  {"planned memory", cuda_of(program, jit::MemoryUse::planned), workers,
                   worker_options("-DEVERKERNEL_GRAPH")},
                  90);
}

std::size_t count_of(std::string_view text, std::string_view what) {
  std::size_t count = 0;
  for (auto at = text.find(what); at != text.npos; at = text.find(what, at + 1)) ++count;
  return count;
}

// The host tears a quad that is not loaded or stored as one, and sees nothing of a smaller scope.
TEST(CudaCompile, live_kernels_reach_the_host_in_whole_quads_and_system_scope) {
  EVERKERNEL_NEEDS_NVRTC(nvrtc);
  const std::string handlers = cuda_of(verified({}));
  std::vector<SourceText> headers(backend::cuda::device_headers().begin(),
                                  backend::cuda::device_headers().end());
  headers.push_back({"everkernel/handlers.cuh", handlers});
  const auto options = worker_options(kLive);
  for (const int architecture : {80, 90}) {
    const auto code = nvrtc->compile({.source = backend::cuda::megakernel_source(),
                                      .headers = headers,
                                      .options = options,
                                      .architecture = architecture,
                                      .keeps_ptx = true});
    ASSERT_TRUE(code) << code.error().message;
    const std::string_view ptx = code->ptx;
    EXPECT_GE(count_of(ptx, "ld.relaxed.sys.global.b128"), 1u) << "entries";
    EXPECT_GE(count_of(ptx, "st.relaxed.sys.global.b128"), 1u) << "completions";
    EXPECT_GE(count_of(ptx, "st.relaxed.sys.global.u8"), 1u) << "outcomes";
    EXPECT_GE(count_of(ptx, "fence.acq_rel.sys;") + count_of(ptx, "fence.acquire.sys;"), 1u);
    // The host copies marks from the memory of the device.
    const std::size_t marks = count_of(ptx, "st.relaxed.gpu.global.b128");
    EXPECT_GE(marks, 2u);
    EXPECT_EQ(count_of(ptx, ".global.b128"), count_of(ptx, ".sys.global.b128") + marks)
        << architecture;
  }
}

// Calls `compile` with random handlers, in sources of a few each, until one fails.
template <class Compile>
void for_random_batches(const Compile& compile) {
  constexpr std::size_t kHandlersEach = 25;
  const std::size_t batches = is_soak() ? 20 : 1;
  const std::uint64_t seed = first_seed();
  std::printf("EVERKERNEL_SEED=%llu\n", static_cast<unsigned long long>(seed));
  const auto start = std::chrono::steady_clock::now();
  Random random(seed);
  for (std::size_t i = 0; i < batches; ++i) {
    const auto program = verified(parsed(generate_batch(random, kHandlersEach)));
    compile(
        Source{fmt::format("batch {} of seed {}", i, seed), cuda_of(program), kernels_of(program)});
    if (testing::Test::HasFailure()) return;
  }
  std::printf("%zu handlers in %.1f s\n", batches * kHandlersEach, seconds_since(start));
}

TEST(CudaCompile, nvrtc_takes_random_handlers) {
  EVERKERNEL_NEEDS_NVRTC(nvrtc);
  bool is_first = true;
  for_random_batches([&](Source source) {
    for (const int architecture : kArchitectures) expect_compiles(*nvrtc, source, architecture);
    if (std::exchange(is_first, false)) {
      source.options = {"-DEVERKERNEL_WIDE_FUEL"};
      expect_compiles(*nvrtc, source, 90);
    }
  });
}

// Handlers at the limits of the language: the compiler must accept them and finish in bounded time.
TEST(CudaCompile, nvrtc_takes_handlers_at_the_limits) {
  EVERKERNEL_NEEDS_NVRTC(nvrtc);
  std::string large = "handler large = 300 { var a = input[0]; var b = 1;\n";
  for (int i = 0; i < 170; ++i) {
    large += fmt::format(
        "a = a * {} + (b ^ a); if a > {} {{ b = input[a % len(input)]; output[b % len(output)] = "
        "a; "
        "}}\n",
        i + 3, i * 7);
  }
  std::string deep = "handler deep = 301 scope group { let x = param; output[0] = ";
  for (int i = 0; i < 250; ++i) deep += '(';
  deep += 'x';
  for (int i = 0; i < 250; ++i) deep += fmt::format(" + {})", i);
  deep += "; let c = ";
  for (int i = 0; i < 120; ++i) deep += fmt::format("(input[{}] == 0 && ", i);
  deep += "true";
  for (int i = 0; i < 120; ++i) deep += ')';
  deep += "; if c { output[1] = 1; } ";
  for (int i = 0; i < 13; ++i) deep += fmt::format("for v{} in 0 .. 2 {{ ", i);
  deep += "output[2] = output[2] + v7; ";
  for (int i = 0; i < 13; ++i) deep += "} ";
  for (const std::string& text : {large + "}", deep + "}"}) {
    const auto program = verified(parsed(text));
    const auto start = std::chrono::steady_clock::now();
    expect_compiles(*nvrtc, {"at the limits", cuda_of(program), kernels_of(program)}, 90);
    std::printf("%zu instructions in %.1f s\n",
                program.handlers()[0].handler.body.exprs.size() +
                    program.handlers()[0].handler.body.stmts.size(),
                seconds_since(start));
  }
}

// The same text by the compiler of the toolkit: in a test run to PTX, in a soak to machine code for
// all architectures.
void expect_nvcc_compiles(const Source& source) {
  const TempDir dir;
  std::filesystem::create_directory(dir.path() / "everkernel");
  const auto write = [&](const char* name, const std::string& text) {
    const auto bytes = std::as_bytes(std::span(text));
    dir.write(name, Bytes(bytes.begin(), bytes.end()));
  };
  write("everkernel/handlers.cuh", source.handlers);
  write("kernel.cu", source.kernel);
  std::vector<std::string> args = {"-std=c++20", "-fmad=false", "-Werror", "all-warnings", "-I."};
  for (const char* folder : {"include", "src"}) args.push_back("-I" + (kRoot / folder).string());
  if (is_soak()) {
    for (const int architecture : kArchitectures) {
      args.push_back(fmt::format("-gencode=arch=compute_{0},code=sm_{0}", architecture));
    }
  } else {
    args.push_back("-arch=compute_90");
  }
  args.insert(args.end(), source.options.begin(), source.options.end());
  args.insert(args.end(), {is_soak() ? "-c" : "-ptx", "kernel.cu", "-o", "kernel.out"});
  const Outcome outcome = run({.program = nvcc_compiler(),
                               .args = args,
                               .folder = dir.path(),
                               .timeout = std::chrono::minutes(5)});
  EXPECT_EQ(outcome.status, 0) << source.name << ": " << outcome.out << outcome.err;
}

#define EVERKERNEL_NEEDS_NVCC() \
  if (nvcc_compiler().empty()) GTEST_SKIP() << "there is no nvcc here"

TEST(CudaCompile, nvcc_takes_the_megakernel_with_the_examples) {
  EVERKERNEL_NEEDS_NVCC();
  const auto program = verified(all_in_one().program);
  const std::string handlers = cuda_of(program);
  expect_nvcc_compiles({"a kernel each", handlers, kernels_of(program) + std::string(kKernel)});
  const std::string workers(backend::cuda::megakernel_source().text);
  for (const char* kind : kKindsOfKernel) {
    expect_nvcc_compiles({kind, handlers, workers, worker_options(kind)});
  }
}

TEST(CudaCompile, nvcc_takes_random_handlers) {
  EVERKERNEL_NEEDS_NVCC();
  for_random_batches(expect_nvcc_compiles);
}

}  // namespace
}  // namespace everkernel::test
