// Native code of this machine, for shared and for exclusive memory, as the subject of a Trial.
#include <array>

#include "everkernel/jit/native.hpp"
#include "support/jit_stage.hpp"
#include "support/jit_trial.hpp"

namespace everkernel::test {
namespace {

class NativeSubject : public Subject {
 public:
  NativeSubject(jit::NativeProgram shared, jit::NativeProgram exclusive)
      : shared_(std::move(shared)), exclusive_(std::move(exclusive)) {}

  std::vector<Run> run(std::size_t handler_index, const FrameSpec& spec) const override {
    return {run_on("native code for shared memory", shared_, handler_index, spec),
            run_on("native code for exclusive memory", exclusive_, handler_index, spec)};
  }

 private:
  static Run run_on(const char* way, const jit::NativeProgram& native, std::size_t handler_index,
                    const FrameSpec& spec) {
    static Stage stage;
    const ir::Outcome outcome = native.run(handler_index, stage.set(spec));
    return {.way = way, .result = stage.collect(outcome)};
  }

  jit::NativeProgram shared_;
  jit::NativeProgram exclusive_;
};

Result<std::unique_ptr<const Subject>> make_subject(const ir::VerifiedProgram& program,
                                                    jit::CodeCache* cache) {
  auto shared =
      jit::NativeProgram::compile(program, {.memory = jit::MemoryUse::shared, .cache = cache});
  if (!shared) return Failure(shared.error());
  auto exclusive =
      jit::NativeProgram::compile(program, {.memory = jit::MemoryUse::exclusive, .cache = cache});
  if (!exclusive) return Failure(exclusive.error());
  return std::make_unique<const NativeSubject>(*std::move(shared), *std::move(exclusive));
}

std::string why_no_subject() {
  return jit::has_native_code() ? "" : "this build has no LLVM: there is no native code to check";
}

[[maybe_unused]] const SubjectKind kNative("native", make_subject, why_no_subject);

}  // namespace
}  // namespace everkernel::test
