// Finds the code of an opcode and runs it: the function of a trusted handler, compiled code, or the
// interpreter.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/cpu/handler_code.hpp"
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

/// Handlers and where to find their code. Any worker may use it.
class Executor {
 public:
  /// Index that means no handler.
  static constexpr Word kNone = ~Word{0};

  /// Takes the handlers of the options; compiles none of them yet. Fails with `unsupported` when
  /// native code was asked for in a build without LLVM or a trusted handler has no C++ function,
  /// and with `invalid_argument` for a payload that is not there and trusted handlers that do not
  /// fit.
  static Result<Executor> create(const KernelOptions& options, BackgroundCompiler& compiler,
                                 HandlerCode::FindCache find_cache);

  Executor(Executor&&) noexcept = default;             ///< takes over
  Executor& operator=(Executor&&) noexcept = default;  ///< takes over
  ~Executor();                                         ///< ends compilations for it

  /// The handler of an opcode, or kNone.
  Word find(Word opcode) const {
    if (opcode < dense_.size()) return dense_[opcode];
    return find_sparse(opcode);
  }
  /// Which of counter_count() counters stands for an opcode that has no control word: a handler's,
  /// or a built-in operation's with a large number. kNone for any other.
  Word counter_of(Word opcode) const {
    const Word handler = find(opcode);
    return handler != kNone ? handler : find_builtin_counter(opcode);
  }
  /// Counters of such opcodes.
  Word counter_count() const;
  /// The opcodes of all built-in operations and handlers, sorted.
  std::span<const Word> opcodes() const { return opcodes_; }
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
  /// What a worker may expect of an item before it takes it.
  enum class ItemClass : std::uint8_t {
    quick,  ///< short by construction, and ends when it runs
    waits,  ///< may yield, requeue or wait: a fence, LOAD_MISS, some handlers
    slow,   ///< may take long
  };
  /// The class of an opcode; one load for small ones.
  ItemClass class_of(Word opcode) const {
    return opcode < classes_.size() ? classes_[opcode] : find_class(opcode);
  }
  /// Whether any item may take long.
  bool has_long_items() const { return has_long_items_; }
  /// Whether handlers run as native code, at least once it is there.
  bool is_native() const { return execution_ != Execution::interpreter; }
  /// Whether items wait for native code, and never run on the interpreter.
  bool is_only_native() const { return execution_ == Execution::native; }
  /// As Kernel::prepare.
  Result<void> prepare(const CodeRequest& request) const;
  /// As Kernel::code_counts.
  CodeCounts code_counts() const { return code_ ? code_->counts() : CodeCounts{}; }

  /// Runs one item.
  ir::Outcome run(Word handler, ir::ItemFrame& frame) const {
    if (handler >= first_trusted_) {
      return ir::run_trusted(trusted_[handler - first_trusted_], frame);
    }
    const HandlerCode::Entry entry = entries_[handler].load(std::memory_order_acquire);
    if (entry != nullptr) [[likely]]
      return jit::NativeHandler::run(entry, frame);
    return run_without_code(handler, frame);
  }

 private:
  Executor() = default;
  Result<void> add_program(const KernelOptions& options);
  Result<void> add_trusted(const KernelOptions& options);
  void add_opcode(Word opcode);
  Word find_sparse(Word opcode) const;
  Word find_builtin_counter(Word opcode) const;
  ItemClass find_class(Word opcode) const;
  ir::Outcome run_without_code(Word handler, ir::ItemFrame& frame) const;

  std::shared_ptr<HandlerCode> code_;                         // of the program; null without one
  const std::atomic<HandlerCode::Entry>* entries_ = nullptr;  // of `code_`
  Execution execution_ = Execution::interpreter;
  std::vector<ir::TrustedHandler> trusted_;
  Word first_trusted_ = 0;                     // handlers below this are the program's
  std::vector<HandlerInfo> infos_;             // the program's, then native ones
  std::vector<Word> opcodes_;                  // of all built-in operations and handlers
  std::vector<Word> dense_;                    // handler by opcode, for small opcodes
  std::vector<std::pair<Word, Word>> sparse_;  // opcode and handler, sorted
  std::array<ItemClass, 256> classes_ = {};    // of small opcodes
  Word payload_ = kNone;
  bool has_long_items_ = false;
};

}  // namespace everkernel::backend::cpu
