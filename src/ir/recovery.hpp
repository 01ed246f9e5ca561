// What the parser hands to the verifier of a text with mistakes: the handlers without the broken
// statements, so that the other statements are checked in the same pass.
#pragma once

#include <vector>

#include "everkernel/ir/diagnostic.hpp"
#include "everkernel/ir/program.hpp"

namespace everkernel::ir {

/// A literal of type `none` stands for an expression that the parser could not read.
constexpr bool is_unreadable(const Expr& expr) {
  return expr.kind == ExprKind::literal && expr.type == Type::none;
}

/// How much of a handler, or of all constants and functions together, could be read.
struct Recovered {
  bool has_opcode = false;       ///< its opcode could be read; not so of a payload
  bool has_lost_names = false;   ///< a declaration has no name: unknown names may be its name
  bool has_lost_blocks = false;  ///< braces do not match: scopes are not known
};

/// Verifies what could be read of a text that the parser has refused, and adds the mistakes.
/// `handlers` has an element for each handler.
void verify_recovered(Program program, const std::vector<Recovered>& handlers,
                      const Recovered& definitions, Diagnostics& diagnostics);

}  // namespace everkernel::ir
