// Handlers as native code of this machine, made by LLVM.
//
// In a build without LLVM compile() fails with `unsupported`, and handlers run on the interpreter.
#pragma once

#include <atomic>
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
  /// Once it is true, compiling ends early and fails with `timeout`; may be null. LLVM generates
  /// the machine code of a handler in one step, which cannot be interrupted.
  const std::atomic<bool>* is_cancelled = nullptr;
};

/// Whether this build has LLVM.
bool has_native_code();

/// A handler compiled for this machine. Thread-safe. Its pages are executable and read only.
class NativeHandler {
 public:
  /// The code of a handler: it runs one item and returns the ending, and a fault code above it.
  using Entry = ir::Word (*)(ir::ItemFrame*);

  /// Compiles the handler, or loads the code of an equal handler from the cache. Fails with
  /// `unsupported` in a build without LLVM, or on a machine that LLVM does not support, and with
  /// `timeout` if it is cancelled.
  static Result<NativeHandler> compile(const ir::VerifiedHandler& handler,
                                       const NativeOptions& options);

  NativeHandler(NativeHandler&&) noexcept;             ///< takes over
  NativeHandler& operator=(NativeHandler&&) noexcept;  ///< drops its own, takes over
  ~NativeHandler();                                    ///< unmaps the code

  /// Whether the code came from a cache and was not compiled.
  bool is_from_cache() const { return is_from_cache_; }
  /// The code, valid as long as this object.
  Entry entry() const { return entry_; }

  /// Runs one item with the code of an entry.
  static ir::Outcome run(Entry entry, ir::ItemFrame& frame) {
    const ir::Word packed = entry(&frame);
    return {static_cast<ir::Ending>(packed & 0xFF), packed >> 8};
  }

 private:
  struct Code;
  NativeHandler(std::unique_ptr<Code> code, Entry start, bool is_from_cache);
  std::unique_ptr<Code> code_;
  Entry entry_ = nullptr;
  bool is_from_cache_ = false;
};

/// Every handler of a program, compiled one after the other.
class NativeProgram {
 public:
  /// Compiles or loads every handler. Fails as NativeHandler::compile does.
  static Result<NativeProgram> compile(const ir::VerifiedProgram& program,
                                       const NativeOptions& options);

  /// Whether the code of every handler came from a cache.
  bool is_from_cache() const;

  /// Runs one item of the handler at that index of the program's handlers.
  ir::Outcome run(std::size_t handler_index, ir::ItemFrame& frame) const {
    return NativeHandler::run(handlers_[handler_index].entry(), frame);
  }

 private:
  std::vector<NativeHandler> handlers_;
};

/// The LLVM IR of a program, before optimisation, as text. Fails with `unsupported` in a build
/// without LLVM.
Result<std::string> emit_llvm(const ir::VerifiedProgram& program, const NativeOptions& options);

}  // namespace everkernel::jit
