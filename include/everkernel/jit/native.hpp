// Handlers as native code of this machine, made by LLVM.
//
// In a build without LLVM compile() fails with `unsupported`, and handlers run on the interpreter.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "everkernel/base/result.hpp"
#include "everkernel/ir/item.hpp"
#include "everkernel/ir/verifier.hpp"
#include "everkernel/jit/code_cache.hpp"
#include "everkernel/jit/memory_use.hpp"

namespace everkernel::jit {

/// Assumptions of the compiled code.
struct NativeOptions {
  MemoryUse memory = MemoryUse::shared;  ///< whether other items use the buffers
  CodeCache* cache = nullptr;            ///< loads and keeps compiled code; may be null
};

/// Whether this build has LLVM.
bool has_native_code();

/// A program compiled for this machine. Thread-safe. Its pages are executable and read only.
class NativeProgram {
 public:
  /// Compiles every handler, or loads the code of the same program from the cache. Fails with
  /// `unsupported` in a build without LLVM, or on a machine that LLVM does not support.
  static Result<NativeProgram> compile(const ir::VerifiedProgram& program,
                                       const NativeOptions& options);

  NativeProgram(NativeProgram&&) noexcept;             ///< takes over
  NativeProgram& operator=(NativeProgram&&) noexcept;  ///< drops its own, takes over
  ~NativeProgram();                                    ///< unmaps the code

  /// Whether the code came from a cache and was not compiled.
  bool is_from_cache() const { return is_from_cache_; }

  /// Runs one item of the handler at that index of the program's handlers.
  ir::Outcome run(std::size_t handler_index, ir::ItemFrame& frame) const {
    const ir::Word packed = entries_[handler_index](&frame);
    return {static_cast<ir::Ending>(packed & 0xFF), packed >> 8};
  }

 private:
  using Entry = ir::Word (*)(ir::ItemFrame*);
  struct Code;
  NativeProgram(std::unique_ptr<Code> code, std::vector<Entry> entries, bool is_from_cache);
  std::unique_ptr<Code> code_;
  std::vector<Entry> entries_;
  bool is_from_cache_ = false;
};

/// The LLVM IR of a program, before optimisation, as text. Fails with `unsupported` in a build
/// without LLVM.
Result<std::string> emit_llvm(const ir::VerifiedProgram& program, const NativeOptions& options);

}  // namespace everkernel::jit
