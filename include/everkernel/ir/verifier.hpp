// Checks that a program may run, and records the types, variables and effects it finds.
//
// Interpreter and code generators take a VerifiedProgram, which only verify() can make: no program
// runs unchecked, wherever it came from.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "everkernel/base/result.hpp"
#include "everkernel/ir/diagnostic.hpp"
#include "everkernel/ir/program.hpp"

namespace everkernel::ir {

/// Index of a variable in its handler.
enum class LocalId : std::uint32_t {};

/// A variable, a loop counter or an array.
struct Local {
  NameId name = {};               ///< its name in the text
  Type type = Type::u32;          ///< of its first value, or of the words of an array
  bool is_variable = false;       ///< may be assigned
  std::uint32_t array_words = 0;  ///< length of an array; 0 for others
  std::uint32_t first_word = 0;   ///< of an array, among the words of all arrays
};

/// The memory a handler can touch and the ways it can end. Planner and schedulers order items by
/// it.
struct Effects {
  bool reads_input = false;     ///< loads or atomics on input
  bool writes_input = false;    ///< stores or atomics on input
  bool reads_output = false;    ///< loads or atomics on output
  bool writes_output = false;   ///< stores or atomics on output
  bool uses_handles = false;    ///< buffer(h): may touch every buffer
  bool reads_control = false;   ///< loads or atomics on control
  bool writes_control = false;  ///< stores or atomics on control
  bool moves_buffers =
      false;                 ///< stores to args[0] or args[1], or at an index that is not constant
  bool writes_args = false;  ///< stores to args
  bool can_yield = false;    ///< yield or requeue
  bool can_await = false;    ///< await
  bool prints = false;       ///< printf
  bool emits = false;        ///< emit
};

/// A handler that may run, with the results of the checks.
struct VerifiedHandler {
  Handler handler = {};                   ///< the handler
  std::vector<Type> types = {};           ///< of each expression
  std::vector<LocalId> expr_locals = {};  ///< of each expression that is a name
  std::vector<LocalId> stmt_locals = {};  ///< of each statement that declares or assigns a name
  std::vector<Local> locals = {};         ///< every variable
  Effects effects = {};                   ///< memory it can touch and ways it can end

  /// Type of an expression.
  Type type(ExprId id) const { return types[static_cast<std::size_t>(id)]; }
  /// The variable a name expression means.
  LocalId local(ExprId id) const { return expr_locals[static_cast<std::size_t>(id)]; }
  /// The variable a statement declares or assigns.
  LocalId local(StmtId id) const { return stmt_locals[static_cast<std::size_t>(id)]; }
};

/// A program that may run. Cheap to copy: copies share their immutable handlers.
class VerifiedProgram {
 public:
  /// Every handler, in the order of the program; the payload among them.
  std::span<const VerifiedHandler> handlers() const { return *handlers_; }
  /// The handler of an opcode; null if there is none.
  const VerifiedHandler* find(std::uint32_t opcode) const;
  /// The payload; null if there is none.
  const VerifiedHandler* payload() const;
  /// The program as it was written: with its constants, functions and their calls, which the
  /// handlers that run hold no more.
  Program source() const;

 private:
  friend Result<VerifiedProgram> verify(Program program, Diagnostics* diagnostics);
  VerifiedProgram(std::vector<VerifiedHandler> handlers, std::shared_ptr<const Program> source)
      : handlers_(std::make_shared<const std::vector<VerifiedHandler>>(std::move(handlers))),
        source_(std::move(source)) {}
  std::shared_ptr<const std::vector<VerifiedHandler>> handlers_;
  std::shared_ptr<const Program> source_;  // null if it is that of the handlers
};

/// Checks a program against every rule of the language. Fails with `invalid_argument` at the first
/// mistake; the message begins with `line:column:` where the program came from text. `diagnostics`
/// receives every mistake, without those that only follow from another.
Result<VerifiedProgram> verify(Program program, Diagnostics* diagnostics = nullptr);

}  // namespace everkernel::ir
