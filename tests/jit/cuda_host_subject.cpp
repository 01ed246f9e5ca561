// CUDA text of handlers, compiled as C++ of this machine with cuda_shim.hpp, as the subject of a
// Trial.
#include <dlfcn.h>
#include <fmt/format.h>

#include <cstddef>
#include <filesystem>
#include <fstream>

#include "cuda_shim_frame.hpp"
#include "everkernel/jit/cuda_source.hpp"
#include "support/build_paths.hpp"
#include "support/jit_stage.hpp"
#include "support/jit_trial.hpp"
#include "support/process.hpp"
#include "support/seeds.hpp"
#include "support/temp_dir.hpp"

namespace everkernel::test {
namespace {

static_assert(sizeof(ShimFrame) == sizeof(ir::ItemFrame) &&
              offsetof(ShimFrame, control) == offsetof(ir::ItemFrame, control) &&
              offsetof(ShimFrame, entries) == offsetof(ir::ItemFrame, buffers) &&
              offsetof(ShimFrame, fuel) == offsetof(ir::ItemFrame, fuel) &&
              offsetof(ShimFrame, abort) == offsetof(ir::ItemFrame, abort) &&
              offsetof(ShimFrame, hooks) == offsetof(ir::ItemFrame, hooks) &&
              offsetof(ShimFrame, io) == offsetof(ir::ItemFrame, io));
static_assert(sizeof(ShimHooks) == sizeof(ir::ItemHooks));

const std::filesystem::path kSources = source_path();

std::string include(const char* folder) {
  return "-I" + (kSources / folder).string();
}

// The generated text, and one function that runs any handler of it.
std::string source_of(const ir::VerifiedProgram& program) {
  std::string text = "#include \"cuda_shim.hpp\"\n";
  text += jit::emit_cuda(program, {.payload = program.payload() != nullptr});
  text +=
      "using namespace everkernel;\n"
      "extern \"C\" abi::Word run(abi::Word handler, test::ShimWay way, test::ShimFrame* frame,\n"
      "                         const char** trouble) {\n"
      "  return device::run_shimmed(way, frame, trouble, [&](auto lanes, device::Item& item) {\n"
      "    switch (handler) {\n";
  for (std::size_t i = 0; i < program.handlers().size(); ++i) {
    text += fmt::format("      case {0}: return device::handler_{0}(lanes, item);\n", i);
  }
  return text + "    }\n    return ~0u;\n  });\n}\n";
}

class HostCudaSubject : public Subject {
 public:
  HostCudaSubject(void* library, ShimRun entry) : library_(library), entry_(entry) {}
  HostCudaSubject(const HostCudaSubject&) = delete;
  HostCudaSubject& operator=(const HostCudaSubject&) = delete;
  ~HostCudaSubject() override { dlclose(library_); }

  std::vector<Run> run(std::size_t handler_index, const FrameSpec& spec) const override {
    return {run_on(ShimWay::one_lane, handler_index, spec),
            run_on(ShimWay::many_lanes, handler_index, spec)};
  }

 private:
  Run run_on(ShimWay way, std::size_t handler_index, const FrameSpec& spec) const {
    static Stage stage;
    ir::ItemFrame& frame = stage.set(spec);
    const char* trouble = nullptr;
    const Word packed = entry_(static_cast<Word>(handler_index), way,
                               reinterpret_cast<ShimFrame*>(&frame), &trouble);
    Run made{.way = way == ShimWay::one_lane ? "CUDA text on one lane" : "CUDA text on many lanes",
             .is_parallel = way == ShimWay::many_lanes,
             .result = stage.collect({static_cast<ir::Ending>(packed & 0xFF), packed >> 8})};
    // A frame without any result always counts as a difference.
    if (trouble != nullptr) made = {.way = fmt::format("{} ({})", made.way, trouble)};
    return made;
  }

  void* library_;
  ShimRun entry_;
};

Result<std::unique_ptr<const Subject>> make_subject(const ir::VerifiedProgram& program,
                                                    jit::CodeCache*) {
  const TempDir dir;
  std::ofstream(dir.path() / "handlers.cpp", std::ios::binary) << source_of(program);
  const Outcome compiled = test::run(
      {.program = cxx_compiler(),
       .args = {"-std=c++20", is_soak() ? "-O1" : "-O0", "-w", "-fPIC", "-shared",
                "-ffp-contract=off", include("tests/jit/device_shim"), include("tests/jit"),
                include("src"), include("include"), "handlers.cpp", "-o", "handlers.so"},
       .folder = dir.path(),
       .timeout = std::chrono::minutes(5)});
  if (compiled.status != 0)
    return fail(Code::unsupported, "the CUDA text is no C++: " + compiled.err);
  void* const library = dlopen((dir.path() / "handlers.so").c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return fail(Code::unsupported, dlerror());
  return std::make_unique<const HostCudaSubject>(library,
                                                 reinterpret_cast<ShimRun>(dlsym(library, "run")));
}

std::string why_no_subject() {
  return std::filesystem::exists(cxx_compiler())
             ? ""
             : "the compiler this was built with is not here: " + cxx_compiler();
}

[[maybe_unused]] const SubjectKind kCudaText("cuda_text", make_subject, why_no_subject);

}  // namespace
}  // namespace everkernel::test
