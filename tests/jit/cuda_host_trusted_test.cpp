// The CUDA texts of trusted handlers, compiled as C++ of this machine through cuda_shim.hpp. They
// give the results of the C++ functions, on one thread and on several; where threads return
// different outcomes, the item still has one.
#include <dlfcn.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "conformance/trusted_handlers.hpp"
#include "cuda_shim_frame.hpp"
#include "everkernel/jit/cuda_source.hpp"
#include "support/build_paths.hpp"
#include "support/ir_text.hpp"
#include "support/jit_stage.hpp"
#include "support/process.hpp"
#include "support/results.hpp"
#include "support/temp_dir.hpp"

namespace everkernel::test {
namespace {

using conformance::trusted_handlers;
using ir::TrustedHandler;

const std::filesystem::path kSources = source_path();

std::string include(const char* folder) {
  return "-I" + (kSources / folder).string();
}

// The generated text of trusted handlers, as a library.
class CudaLibrary {
 public:
  explicit CudaLibrary(const std::vector<TrustedHandler>& handlers) {
    std::ofstream(dir_.path() / "handlers.cpp", std::ios::binary) << source_of(handlers);
    const Outcome compiled =
        test::run({.program = cxx_compiler(),
                   .args = {"-std=c++20", "-O1", "-w", "-fPIC", "-shared",
                            include("tests/jit/device_shim"), include("tests/jit"), include("src"),
                            include("include"), "handlers.cpp", "-o", "handlers.so"},
                   .folder = dir_.path(),
                   .timeout = std::chrono::minutes(5)});
    if (compiled.status != 0) throw std::runtime_error(compiled.err);
    library_ = dlopen((dir_.path() / "handlers.so").c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library_ == nullptr) throw std::runtime_error(dlerror());
    entry_ = reinterpret_cast<ShimRun>(dlsym(library_, "run"));
  }
  CudaLibrary(const CudaLibrary&) = delete;
  CudaLibrary& operator=(const CudaLibrary&) = delete;
  ~CudaLibrary() { dlclose(library_); }

  RunResult run(std::size_t index, ShimWay way, const FrameSpec& spec) const {
    static Stage stage;
    ir::ItemFrame& frame = stage.set(spec);
    const char* trouble = nullptr;
    const Word packed =
        entry_(static_cast<Word>(index), way, reinterpret_cast<ShimFrame*>(&frame), &trouble);
    EXPECT_EQ(trouble, nullptr) << trouble;
    return stage.collect({static_cast<ir::Ending>(packed & 0xFF), packed >> 8});
  }

 private:
  static std::string source_of(const std::vector<TrustedHandler>& handlers) {
    std::string text = "#include \"cuda_shim.hpp\"\n";
    text += jit::emit_cuda(*check_text(""), {.trusted_handlers = handlers});
    text +=
        "using namespace everkernel;\n"
        "extern \"C\" abi::Word run(abi::Word handler, test::ShimWay way, test::ShimFrame* frame,\n"
        "                         const char** trouble) {\n"
        "  return device::run_shimmed(way, frame, trouble, [&](auto lanes, device::Item& item) {\n"
        "    switch (handler) {\n";
    for (std::size_t i = 0; i < handlers.size(); ++i) {
      text += fmt::format("      case {0}: return device::handler_{0}(lanes, item);\n", i);
    }
    return text + "    }\n    return ~0u;\n  });\n}\n";
  }

  TempDir dir_;
  void* library_ = nullptr;
  ShimRun entry_ = nullptr;
};

// An item of tenant 1 with every kind of buffer; 1 is input, 2 output.
FrameSpec item_of(Word opcode) {
  FrameSpec spec{.args = {1, 2, 3, 4, 5, 6, 0, 0, 0, 0, 0, 9},
                 .opcode = opcode,
                 .tenant = 1,
                 .priority = 2,
                 .slot = 3,
                 .lanes = 5,
                 .control = std::vector<Word>(200)};
  spec.buffers = {{.handle = 1, .words = {10, 20, 30}},
                  {.handle = 2, .words = std::vector<Word>(20, 12)},
                  {.handle = 3, .words = {1, 2}, .access = memory::Access::read},
                  {.handle = 4, .words = {1, 2}, .access = memory::Access::write},
                  {.handle = 5, .words = {1, 2}, .owner = 9},
                  {.handle = 6, .words = {}, .access = memory::Access::read},
                  {.handle = 8, .words = {4}},
                  {.handle = 9, .words = {5}}};
  return spec;
}

// An ordinary item, and variants whose args, access rights and tokens lead to other branches.
std::vector<FrameSpec> variants_of(Word opcode) {
  std::vector<FrameSpec> specs{item_of(opcode)};
  for (const Word handle : {0u, 1u, 3u, 4u, 5u, 6u, 77u}) {
    specs.push_back(item_of(opcode));
    specs.back().args[1] = handle;
    specs.push_back(specs.back());
    std::swap(specs.back().args[0], specs.back().args[1]);
  }
  for (const Word index : {0u, 1u, 159u, 160u, 199u, 200u, 0xFFFFFFFFu}) {
    specs.push_back(item_of(opcode));
    specs.back().args[3] = index;
    specs.back().args[6] = index;
    specs.push_back(specs.back());
    specs.back().tenant = 0;
  }
  for (const Word param : {0u, 15u, 17u, 18u, 666u}) {
    specs.push_back(item_of(opcode));
    specs.back().args[2] = param;
  }
  for (const Abort abort : {Abort::absent, Abort::set}) {
    specs.push_back(item_of(opcode));
    specs.back().abort = abort;
  }
  return specs;
}

bool never_ends(const TrustedHandler& handler, const FrameSpec& spec) {
  const bool waits =
      handler.opcode == conformance::kTrustedSpin || handler.opcode == conformance::kTrustedTurns;
  return waits && spec.abort != Abort::set;
}

RunResult run_cpp_function(const TrustedHandler& handler, const FrameSpec& spec) {
  static Stage stage;
  ir::ItemFrame& frame = stage.set(spec);
  return stage.collect(ir::run_trusted(handler, frame));
}

TEST(CudaTrusted, texts_give_the_results_of_the_cpp_functions) {
  const CudaLibrary library(trusted_handlers());
  std::size_t runs = 0;
  for (std::size_t i = 0; i < trusted_handlers().size(); ++i) {
    const TrustedHandler& handler = trusted_handlers()[i];
    for (const FrameSpec& spec : variants_of(handler.opcode)) {
      if (never_ends(handler, spec)) continue;
      const RunResult expected = run_cpp_function(handler, spec);
      EXPECT_EQ(difference(expected, library.run(i, ShimWay::one_lane, spec)), "")
          << handler.name << " on one thread, " << describe(spec);
      ++runs;
      if (handler.scope == ir::Scope::lane) continue;
      EXPECT_EQ(difference(expected, library.run(i, ShimWay::many_lanes, spec)), "")
          << handler.name << " on five threads, " << describe(spec);
    }
  }
  EXPECT_GT(runs, 500u);
}

// ---- threads that disagree ----

struct Disagreement {
  std::string_view body;
  ir::Effects effects = {};
  ir::Outcome expected = {};
  Word third_arg = 4;  // args[3] afterwards
};

TEST(CudaTrusted, threads_that_disagree_come_to_one_end) {
  constexpr ir::Effects kArgs{.writes_args = true};
  constexpr ir::Effects kLeaves{.writes_args = true, .can_yield = true, .can_await = true};
  using ir::Ending;
  const std::vector<Disagreement> rows = {
      {"if (item.leads()) item.args()[3] = 7; return item.done();", kArgs, {}, 7},
      {"if (!item.leads()) item.args()[3] = 7; return item.done();", kArgs, {}, 4},
      {"if (item.leads()) item.args()[3] = 7; return item.done();", {}, {}, 4},
      {"return item.leads() ? item.yield() : item.done();", kLeaves, {Ending::yield, 0}},
      {"return item.leads() ? item.done() : item.yield();", kLeaves, {}},
      {"return item.leads() ? item.done() : item.yield();", {}, {Ending::fault, 65533}},
      {"if (item.leads()) return item.await_read(1, 2, 3, 4); return item.done();",
       kLeaves,
       {Ending::wait_io, 0}},
      {"return item.thread() == 3 ? item.fault(9) : item.done();", {}, {Ending::fault, 265}},
      {"return item.fault(item.thread_count() - item.thread());", {}, {Ending::fault, 257}},
      {"if (item.thread() == 3) item.output().store(99, 1); return item.done();",
       {},
       {Ending::fault, 2}},
      {"if (item.thread() == 3) item.buffer(77).load(0); return item.fault(1);",
       {},
       {Ending::fault, 9}},
      {"return 0x2A;", {}, {Ending::fault, 65533}},
      {"return 4;", {}, {Ending::fault, 65533}},
      {"return 4 | 0x10000 << 8;", {}, {Ending::fault, 65533}},
      {"return item.lowest(10 - item.thread()) == 6 && item.from_leader(item.thread()) == 0 && "
       "item.total(item.thread()) == 10 ? item.done() : item.fault(0);",
       {},
       {}},
  };
  std::vector<TrustedHandler> handlers;
  for (const Disagreement& row : rows) {
    handlers.push_back(
        {.name = "body",
         .opcode = static_cast<Word>(64 + handlers.size()),
         .scope = ir::Scope::group,
         .effects = row.effects,
         .cuda = fmt::format("template <class Item> __device__ Word body(Item& item) {{ {} }}",
                             row.body)});
  }
  const CudaLibrary library(handlers);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const RunResult result = library.run(i, ShimWay::many_lanes, item_of(64));
    EXPECT_EQ(result.outcome, rows[i].expected)
        << rows[i].body << ": " << static_cast<Word>(result.outcome.ending) << ", "
        << result.outcome.fault_code;
    EXPECT_EQ(result.args[3], rows[i].third_arg) << rows[i].body;
    EXPECT_EQ(result.io.destination, result.outcome.ending == Ending::wait_io ? 3u : 0u);
  }
}

}  // namespace
}  // namespace everkernel::test
