// Finds the code of an opcode and runs it: the function of a trusted handler, compiled code, or the
// interpreter.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "everkernel/abi/opcode.hpp"
#include "everkernel/backend/backend.hpp"
#include "everkernel/ir/item.hpp"
#include "everkernel/jit/native.hpp"

namespace everkernel::backend::cpu {

/// A handler as the workers see it.
struct HandlerInfo {
  Word lanes = 1;            ///< of its scope
  bool can_leave = false;    ///< may yield, requeue or await
  bool is_pure = false;      ///< running it twice has the effect of running it once
  bool writes_args = false;  ///< its args go back to the slot
  bool is_long = false;      ///< may take long
  bool commutes = false;     ///< items on one output may run in any order
  ir::Effects effects = {};  ///< memory it can touch
};

/// Compiled handlers and where to find them. Immutable, so that any worker may use it.
class Executor {
 public:
  /// Index that means no handler.
  static constexpr Word kNone = ~Word{0};

  /// Returns the cache for native code, or null; called only if there is something to compile.
  using FindCache = std::function<jit::CodeCache*()>;

  /// Compiles the program of the options. Fails with `unsupported` when native code was asked for
  /// and cannot be made or a trusted handler has no C++ function, and with `invalid_argument` for a
  /// payload that is not there and trusted handlers that do not fit.
  static Result<Executor> create(const KernelOptions& options, const FindCache& find_cache);

  /// The handler of an opcode, or kNone.
  Word find(Word opcode) const {
    if (opcode < dense_.size()) return dense_[opcode];
    return find_sparse(opcode);
  }
  /// The payload that runs instead of the opcode of every slot, or kNone.
  Word payload() const { return payload_; }
  /// The properties of a handler.
  const HandlerInfo& info(Word handler) const { return infos_[handler]; }
  /// Whether an item of this opcode is short by construction.
  bool is_short(Word opcode) const {
    if (payload_ == kNone && opcode < abi::kFirstFreeOpcode) {
      return opcode != static_cast<Word>(abi::Opcode::memcpy);
    }
    const Word handler = payload_ != kNone ? payload_ : find(opcode);
    return handler != kNone && !infos_[handler].is_long;
  }
  /// Whether any item may take long.
  bool has_long_items() const { return has_long_items_; }
  /// Whether handlers run as native code.
  bool is_native() const { return native_.has_value(); }
  /// Whether that code came from a cache.
  bool is_from_cache() const { return native_ && native_->is_from_cache(); }

  /// Runs one item.
  ir::Outcome run(Word handler, ir::ItemFrame& frame) const {
    if (handler >= first_trusted_) {
      return ir::run_trusted(trusted_[handler - first_trusted_], frame);
    }
    if (native_) return native_->run(handler, frame);
    return interpret(handler, frame);
  }

 private:
  Executor() = default;
  Result<void> add_program(const KernelOptions& options);
  Result<void> add_trusted(const KernelOptions& options);
  Result<void> compile(const KernelOptions& options, const FindCache& find_cache);
  void add_opcode(Word opcode);
  Word find_sparse(Word opcode) const;
  ir::Outcome interpret(Word handler, ir::ItemFrame& frame) const;

  std::optional<ir::VerifiedProgram> program_;
  std::optional<jit::NativeProgram> native_;
  std::vector<ir::TrustedHandler> trusted_;
  Word first_trusted_ = 0;                     // handlers below this are the program's
  std::vector<HandlerInfo> infos_;             // the program's, then native ones
  std::vector<Word> dense_;                    // handler by opcode, for small opcodes
  std::vector<std::pair<Word, Word>> sparse_;  // opcode and handler, sorted
  Word payload_ = kNone;
  bool has_long_items_ = false;
};

}  // namespace everkernel::backend::cpu
