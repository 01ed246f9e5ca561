// Effects of a handler besides computing: recorded as its Effects, and refused where the handler
// declares `pure` or `commutes`.
#pragma once

#include <optional>
#include <string_view>

#include "everkernel/ir/verifier.hpp"
#include "ir/reporter.hpp"

namespace everkernel::ir {

/// Takes note of one handler's accesses and endings, in the order of the text. Each function
/// reports if the handler's declarations exclude the access or ending.
class EffectRules {
 public:
  /// Records into `effects`, which must outlive this object, as must the handler and `report`.
  EffectRules(const Handler& handler, Effects& effects, const Reporter& report)
      : handler_(handler), effects_(effects), report_(report) {}

  /// A load from a buffer or from control.
  void load(const BufferRef& buffer, Location location);
  /// A store to a buffer or to control; an update reads the word as well.
  void store(const BufferRef& buffer, Location location, bool is_update);
  /// An atomic; `result_is_used` says whether its value is.
  void atomic(const Expr& expr, bool result_is_used);
  /// The length of a buffer.
  void length(const BufferRef& buffer, Location location);
  /// A use of buffer(handle).
  void handle() { effects_.uses_handles = true; }

  /// A load from args at an index that has been checked.
  void load_arg(const Expr& index, Location location);
  /// A store to args, before its index is checked.
  void store_arg(Location location);
  /// The index of a store to args, once it has been checked.
  void store_arg_at(const Expr& index);
  /// A use of a builtin.
  void builtin(Builtin builtin, Location location);

  /// A yield or requeue, as the text spells it.
  void yield(std::string_view word, Location location);
  /// An await.
  void await(const Stmt& stmt);
  /// A call of printf or emit.
  void output_call(Function function, Location location);

 private:
  bool write(const BufferRef& buffer, Location location);
  void note_read(const BufferRef& buffer);
  bool refuse_if_pure(Location location, std::string_view what) const;
  bool refuse_if_commutes(Location location, std::string_view what, std::string hint) const;

  const Handler& handler_;
  Effects& effects_;
  const Reporter& report_;
  std::optional<AtomicOp> commuting_op_;  // the one kind of atomic of a commutes handler
};

}  // namespace everkernel::ir
