// Values of constants, the order of definitions, and the handlers that run in place of those that
// were written.
#include "ir/definitions.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "everkernel/ir/detail/vocabulary_tables.hpp"
#include "everkernel/ir/limits.hpp"
#include "ir/semantics.hpp"
#include "ir/walk.hpp"

namespace everkernel::ir {

using abi::Word;

// ---- order ----

ReferenceOrder order_of(const std::vector<std::vector<std::size_t>>& references) {
  const std::size_t count = references.size();
  std::vector<std::size_t> open(count);  // references to things that are not in order yet
  std::vector<std::vector<std::size_t>> referrers(count);
  for (std::size_t i = 0; i < count; ++i) {
    open[i] = references[i].size();
    for (const std::size_t to : references[i]) referrers[to].push_back(i);
  }
  ReferenceOrder order;
  for (std::size_t i = 0; i < count; ++i) {
    if (open[i] == 0) order.sorted.push_back(i);
  }
  for (std::size_t at = 0; at < order.sorted.size(); ++at) {
    for (const std::size_t from : referrers[order.sorted[at]]) {
      if (--open[from] == 0) order.sorted.push_back(from);
    }
  }
  // Each that is left refers to another that is left: following them leads into a cycle.
  std::vector<std::size_t> walk_of(count, 0);  // the walk that came by, from 1
  for (std::size_t start = 0; start < count; ++start) {
    std::vector<std::size_t> path;
    std::size_t at = start;
    while (open[at] > 0 && walk_of[at] == 0) {
      walk_of[at] = start + 1;
      path.push_back(at);
      at = *std::ranges::find_if(references[at], [&](std::size_t to) { return open[to] > 0; });
    }
    if (path.empty() || walk_of[at] != start + 1) continue;
    order.cycles.emplace_back(std::ranges::find(path, at), path.end());
  }
  return order;
}

// ---- constants ----

Word constant_value(const Body& body, ExprId id, const std::vector<Type>& types,
                    const Definitions& definitions) {
  const Expr& expr = body[id];
  const auto value = [&](std::size_t i) {
    return constant_value(body, expr.operands[i], types, definitions);
  };
  const auto type = [&] { return types[static_cast<std::size_t>(expr.operands[0])]; };
  switch (expr.kind) {
    case ExprKind::literal:
      return expr.bits;
    case ExprKind::name:
      return definitions.constants.find(body[expr.name])->second.bits;
    case ExprKind::unary:
      return semantics::unary(expr.unary, type(), value(0));
    case ExprKind::binary: {
      const Word left = value(0), right = value(1);
      if (expr.binary == BinaryOp::logical_and) return left & right;
      if (expr.binary == BinaryOp::logical_or) return left | right;
      return semantics::binary(expr.binary, type(), left, right);
    }
    case ExprKind::call: {
      Word values[3] = {};
      for (std::size_t i = 0; i < expr.operand_count; ++i) values[i] = value(i);
      return semantics::call(expr.function, type(), values[0], values[1], values[2]);
    }
    default:
      return 0;
  }
}

// ---- lowering ----

namespace {

class Lowering {
 public:
  explicit Lowering(const Definitions& definitions) : definitions_(definitions) {}

  Body run(const Body& body) {
    out_.root = copy(body, body.root);
    return std::move(out_);
  }

 private:
  // Where an expression is copied from, and what its names are called in the copy.
  struct Source {
    const Body& body;
    std::string prefix;
  };

  BlockId copy(const Body& body, BlockId id) {
    Block block{.location = body[id].location};
    const Source source{body, ""};
    for (const StmtId stmt : body[id].statements) {
      block.statements.push_back(copy(source, body[stmt]));
    }
    return out_.add(std::move(block));
  }

  StmtId copy(const Source& source, const Stmt& written) {
    // A row of else-ifs is copied from its end, not by recursion.
    std::vector<const Stmt*> row = {&written};
    while (const Stmt* const next = next_case(source.body, *row.back())) row.push_back(next);
    std::vector<Stmt> copies;
    for (const Stmt* const stmt : row) copies.push_back(copy_parts(source, *stmt));
    std::optional<StmtId> last;
    for (std::size_t i = row.size(); i-- > 0;) {
      if (last) {
        const Location location = source.body[*row[i]->otherwise].location;
        copies[i].otherwise = out_.add(Block{.statements = {*last}, .location = location});
      } else if (row[i]->kind == StmtKind::branch && row[i]->otherwise) {
        copies[i].otherwise = copy(source.body, *row[i]->otherwise);
      }
      last = out_.add(copies[i]);
    }
    return *last;
  }

  static const Stmt* next_case(const Body& body, const Stmt& stmt) {
    if (stmt.kind != StmtKind::branch || !stmt.otherwise) return nullptr;
    const Block& otherwise = body[*stmt.otherwise];
    if (otherwise.statements.size() != 1) return nullptr;
    const Stmt& only = body[otherwise.statements[0]];
    return only.kind == StmtKind::branch ? &only : nullptr;
  }

  // Everything but an else. Nobody has looked at an else of a statement that is not an if.
  Stmt copy_parts(const Source& source, const Stmt& written) {
    Stmt stmt = written;
    stmt.otherwise.reset();
    if (has_name(stmt.kind)) stmt.name = out_.intern(source.body[written.name]);
    if (stmt.kind == StmtKind::store && stmt.buffer.kind == BufferKind::handle) {
      stmt.buffer.handle = copy(source, written.buffer.handle);
    }
    for (std::size_t i = 0; i < operand_count(stmt); ++i) {
      stmt.operands[i] = copy(source, written.operands[i]);
    }
    if (is_loop(stmt.kind) || stmt.kind == StmtKind::branch) {
      stmt.body = copy(source.body, written.body);
    }
    return stmt;
  }

  static bool has_name(StmtKind kind) {
    return kind == StmtKind::declare_array || kind == StmtKind::store_element ||
           kind == StmtKind::let_value || kind == StmtKind::let_variable ||
           kind == StmtKind::assign_name || kind == StmtKind::for_loop ||
           kind == StmtKind::each_loop;
  }

  ExprId copy(const Source& source, ExprId id) {
    const Expr& written = source.body[id];
    // Functions that call each other twice double at each level: the rest is not needed.
    if (out_.exprs.size() > kMaxInstructions) return out_.add(Expr{.location = written.location});
    if (written.kind == ExprKind::user_call) return inlined(source, written);
    Expr expr = written;
    if (written.kind == ExprKind::name) {
      const auto constant = definitions_.constants.find(source.body[written.name]);
      if (constant != definitions_.constants.end()) {
        return out_.add(Expr{.kind = ExprKind::literal,
                             .type = constant->second.type,
                             .bits = constant->second.bits,
                             .location = written.location});
      }
      expr.name = out_.intern(source.prefix + source.body[written.name]);
    }
    if (written.kind == ExprKind::element) expr.name = out_.intern(source.body[written.name]);
    if (has_buffer(written.kind) && written.buffer.kind == BufferKind::handle) {
      expr.buffer.handle = copy(source, written.buffer.handle);
    }
    for (std::size_t i = 0; i < operand_count(written); ++i) {
      expr.operands[i] = copy(source, written.operands[i]);
    }
    return out_.add(expr);
  }

  // The arguments and lets of a function are bound around its value. Their names cannot meet those
  // of the handler, and not those of another call: no function calls itself.
  ExprId inlined(const Source& caller, const Expr& call) {
    if (depth_ == kMaxParserDepth) {
      while (out_.exprs.size() <= kMaxInstructions) out_.add(Expr{});
      return out_.add(Expr{});
    }
    const UserFunction& function = *definitions_.functions.find(caller.body[call.name])->second;
    const Source source{function.body, function.name + "."};
    std::vector<std::pair<std::string, ExprId>> bound;
    for (std::size_t i = 0; i < call.operand_count; ++i) {
      bound.emplace_back(source.prefix + function.parameters[i].name,
                         copy(caller, caller.body.arguments[call.bits + i]));
    }
    ++depth_;
    for (const StmtId id : function.body[function.body.root].statements) {
      const Stmt& let = function.body[id];
      bound.emplace_back(source.prefix + function.body[let.name], copy(source, let.operands[0]));
    }
    ExprId value = copy(source, function.value);
    --depth_;
    for (std::size_t i = bound.size(); i-- > 0;) {
      Expr bind{.kind = ExprKind::bind, .location = call.location};
      bind.name = out_.intern(bound[i].first);
      bind.operands[0] = bound[i].second;
      bind.operands[1] = value;
      value = out_.add(bind);
    }
    return value;
  }

  const Definitions& definitions_;
  Body out_;
  std::size_t depth_ = 0;  // of calls inside the functions of calls
};

}  // namespace

Body lowered(const Body& body, const Definitions& definitions) {
  return Lowering(definitions).run(body);
}

bool needs_lowering(const Body& body, const Definitions& definitions) {
  // Nodes that nothing refers to have not been verified.
  return std::ranges::any_of(body.exprs, [&](const Expr& expr) {
    const bool has_name = static_cast<std::size_t>(expr.name) < body.names.size();
    return expr.kind == ExprKind::user_call || (expr.kind == ExprKind::name && has_name &&
                                                definitions.constants.contains(body[expr.name]));
  });
}

}  // namespace everkernel::ir
