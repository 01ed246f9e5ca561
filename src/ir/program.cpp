#include "everkernel/ir/program.hpp"

#include <algorithm>

namespace everkernel::ir {

ExprId Body::add(const Expr& expr) {
  exprs.push_back(expr);
  return ExprId{static_cast<std::uint32_t>(exprs.size() - 1)};
}

StmtId Body::add(const Stmt& stmt) {
  stmts.push_back(stmt);
  return StmtId{static_cast<std::uint32_t>(stmts.size() - 1)};
}

BlockId Body::add(Block block) {
  blocks.push_back(std::move(block));
  return BlockId{static_cast<std::uint32_t>(blocks.size() - 1)};
}

NameId Body::intern(std::string_view name) {
  // A handler has at most 256 locals: a search is as fast as a map and keeps the order of the text.
  const auto found = std::ranges::find(names, name);
  const auto index = static_cast<std::uint32_t>(found - names.begin());
  if (found == names.end()) names.emplace_back(name);
  return NameId{index};
}

bool has_loops(const Body& body) {
  return std::ranges::any_of(body.stmts, is_loop, &Stmt::kind);
}

}  // namespace everkernel::ir
