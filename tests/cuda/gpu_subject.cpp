// Runs handlers on a GPU, with one thread, a warp and a block, as the subject of a Trial.
#include <fmt/format.h>

#include <cstdlib>

#include "handler_runs.hpp"

namespace everkernel::test {
namespace {

class GpuSubject : public Subject {
 public:
  GpuSubject(ir::VerifiedProgram program, HandlerRunner runner)
      : program_(std::move(program)), runner_(std::move(runner)) {}

  std::vector<Run> run(std::size_t handler_index, const FrameSpec& spec) const override {
    const RunResult expected = interpret_once(program_.handlers()[handler_index], spec);
    std::vector<RunRequest> requests;
    for (const Way way : kAllWays) requests.push_back({{handler_index, way}, &spec, &expected});
    auto results = runner_.run(requests);
    if (!results) {
      std::fprintf(stderr, "the GPU: %s\n", results.error().message.c_str());
      std::abort();
    }
    std::vector<Run> runs;
    for (const Way way : kAllWays) {
      runs.push_back({.way = way_name(way),
                      .is_parallel = way != Way::lane,
                      .has_two_logs = true,
                      .result = std::move((*results)[static_cast<std::size_t>(way)])});
    }
    return runs;
  }

 private:
  ir::VerifiedProgram program_;
  HandlerRunner runner_;
};

Result<std::unique_ptr<const Subject>> make_subject(const ir::VerifiedProgram& program,
                                                    jit::CodeCache*) {
  // The context stays current on the test thread until the program ends.
  static const auto current = gpu()->context->enter();
  if (!current) return Failure(current.error());
  std::vector<Entry> entries;
  for (std::size_t i = 0; i < program.handlers().size(); ++i) {
    for (const Way way : kAllWays) entries.push_back({i, way});
  }
  const auto source = runner_source(program, entries, jit::MemoryUse::shared);
  auto runner = EVERKERNEL_TRY(HandlerRunner::create(*gpu(), source));
  return std::make_unique<const GpuSubject>(program, std::move(runner));
}

std::string why_no_subject() {
  if (gpu()) return "";
  return fmt::format("there is no GPU here: {}; {}", gpu().error().message, gpu().error().hint);
}

[[maybe_unused]] const SubjectKind kGpu("gpu", make_subject, why_no_subject);

}  // namespace
}  // namespace everkernel::test
