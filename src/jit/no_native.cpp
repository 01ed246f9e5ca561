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

struct NativeHandler::Code {};

NativeHandler::NativeHandler(std::unique_ptr<Code> code, Entry start, bool is_from_cache)
    : code_(std::move(code)), entry_(start), is_from_cache_(is_from_cache) {}
NativeHandler::NativeHandler(NativeHandler&&) noexcept = default;
NativeHandler& NativeHandler::operator=(NativeHandler&&) noexcept = default;
NativeHandler::~NativeHandler() = default;

bool has_native_code() {
  return false;
}

Result<NativeHandler> NativeHandler::compile(const ir::VerifiedHandler&, const NativeOptions&) {
  return no_llvm();
}

Result<std::string> emit_llvm(const ir::VerifiedProgram&, const NativeOptions&) {
  return no_llvm();
}

}  // namespace everkernel::jit
