// Effects of a handler besides computing: recorded as its Effects, and refused where the handler
// declares `pure` or `commutes`.
#pragma once

#include <optional>
#include <string_view>

#include "everkernel/ir/verifier.hpp"

namespace everkernel::ir {

/// Takes note of one handler's accesses and endings, in the order of the text. Each function fails
/// with `invalid_argument` if the handler's declarations exclude the access or ending.
class EffectRules {
 public:
  /// Records into `effects`, which must outlive this object, as must the handler.
  EffectRules(const Handler& handler, Effects& effects) : handler_(handler), effects_(effects) {}

  /// A load from a buffer or from control.
  Result<void> load(const BufferRef& buffer, Location location);
  /// A store to a buffer or to control.
  Result<void> store(const BufferRef& buffer, Location location);
  /// An atomic; `result_is_used` says whether its value is.
  Result<void> atomic(const Expr& expr, bool result_is_used);
  /// The length of a buffer.
  Result<void> length(const BufferRef& buffer, Location location);
  /// A use of buffer(handle).
  void handle() { effects_.uses_handles = true; }

  /// A load from args at an index that has been checked.
  Result<void> load_arg(const Expr& index, Location location);
  /// A store to args, before its index is checked.
  Result<void> store_arg(Location location);
  /// The index of a store to args, once it has been checked.
  void store_arg_at(const Expr& index);
  /// A use of a builtin.
  Result<void> builtin(Builtin builtin, Location location);

  /// A yield or requeue, as the text spells it.
  Result<void> yield(std::string_view word, Location location);
  /// An await.
  Result<void> await(const Stmt& stmt);
  /// A call of printf or emit.
  Result<void> output_call(Function function, Location location);

 private:
  Result<void> write(const BufferRef& buffer, Location location);
  void note_read(const BufferRef& buffer);
  Result<void> refuse_if_pure(Location location, std::string_view what) const;
  Failure wrong(Location location, std::string_view what, std::string hint = {}) const;

  const Handler& handler_;
  Effects& effects_;
  std::optional<AtomicOp> commuting_op_;  // the one kind of atomic of a commutes handler
};

}  // namespace everkernel::ir
