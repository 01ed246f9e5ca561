// The functions of native.hpp in a build without LLVM.
#include "everkernel/base/assert.hpp"
#include "everkernel/jit/native.hpp"

namespace everkernel::jit {
namespace {

Failure no_llvm() {
  return fail(Code::unsupported, "native code: this build has no LLVM",
              "build with LLVM 19 (llvm-19-dev), or run the handlers with the interpreter");
}

}  // namespace

struct NativeProgram::Code {};

NativeProgram::NativeProgram(std::unique_ptr<Code> code, std::vector<Entry> entries,
                             bool is_from_cache)
    : code_(std::move(code)), entries_(std::move(entries)), is_from_cache_(is_from_cache) {}
NativeProgram::NativeProgram(NativeProgram&&) noexcept = default;
NativeProgram& NativeProgram::operator=(NativeProgram&&) noexcept = default;
NativeProgram::~NativeProgram() = default;

bool has_native_code() {
  return false;
}

Result<NativeProgram> NativeProgram::compile(const ir::VerifiedProgram&, const NativeOptions&) {
  return no_llvm();
}

Result<std::string> emit_llvm(const ir::VerifiedProgram&, const NativeOptions&) {
  return no_llvm();
}

}  // namespace everkernel::jit
