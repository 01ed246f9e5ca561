// A whole program as native code: its handlers, one after the other.
#include <algorithm>

#include "everkernel/jit/native.hpp"

namespace everkernel::jit {

Result<NativeProgram> NativeProgram::compile(const ir::VerifiedProgram& program,
                                             const NativeOptions& options) {
  NativeProgram native;
  native.handlers_.reserve(program.handlers().size());
  for (const ir::VerifiedHandler& handler : program.handlers()) {
    native.handlers_.push_back(EVERKERNEL_TRY(NativeHandler::compile(handler, options)));
  }
  return native;
}

bool NativeProgram::is_from_cache() const {
  return !handlers_.empty() && std::ranges::all_of(handlers_, &NativeHandler::is_from_cache);
}

}  // namespace everkernel::jit
