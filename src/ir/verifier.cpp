// One walk over each handler, in the order of the text: structure and names here, types by
// type_rules.hpp, `pure` and `commutes` by effect_rules.hpp. Every node is visited at most once, so
// that the walk ends for any program, however it was built.
#include "everkernel/ir/verifier.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "everkernel/abi/fault.hpp"
#include "everkernel/abi/opcode.hpp"
#include "everkernel/ir/detail/vocabulary_tables.hpp"
#include "everkernel/ir/limits.hpp"
#include "everkernel/ir/printer.hpp"
#include "ir/diagnostic.hpp"
#include "ir/effect_rules.hpp"
#include "ir/type_rules.hpp"
#include "ir/walk.hpp"

namespace everkernel::ir {
namespace {

// Enumerators of a program built from C++ may have any value. They index tables, so that they are
// checked first.
template <class Row, std::size_t kCount, class Enum>
bool is_known(const Row (&)[kCount], Enum value) {
  return static_cast<std::size_t>(value) < kCount;
}
bool is_known(const Expr& expr) {
  return expr.type <= Type::boolean && expr.unary <= UnaryOp::logical_not &&
         is_known(kBinaryOps, expr.binary) && is_known(kFunctions, expr.function) &&
         is_known(kAtomicOps, expr.atomic) && is_known(kBuiltins, expr.builtin) &&
         expr.buffer.kind <= BufferKind::handle;
}

enum class LoopKind : std::uint8_t { ordinary, each };

class HandlerVerifier {
 public:
  explicit HandlerVerifier(VerifiedHandler& result)
      : result_(result),
        handler_(result.handler),
        body_(result.handler.body),
        effects_(result.handler, result.effects) {}

  Result<void> run();

 private:
  Result<void> check_sizes() const;
  Result<void> check_text_size() const;
  Failure wrong(Location location, std::string_view what, std::string hint = {}) const {
    return mistake(location, handler_.name, what, std::move(hint));
  }

  // Structure: indices inside their arrays, one parent for each node.
  Result<void> visit(ExprId id);
  Result<void> visit(StmtId id);
  Result<void> visit(BlockId id);

  // Names.
  Result<void> use(NameId name, Location location);
  Result<LocalId> declare(NameId name, Type type, bool is_variable, Location location);
  Result<LocalId> resolve(NameId name, Location location);

  // Statements.
  Result<void> check_block(BlockId id);
  Result<void> check_statement(StmtId id);
  Result<void> check_declaration(StmtId id, const Stmt& stmt);
  Result<void> check_assignment(StmtId id, const Stmt& stmt);
  Result<void> check_arg_store(const Stmt& stmt);
  Result<void> check_store(const Stmt& stmt);
  Result<void> check_branch(const Stmt& stmt);
  Result<void> check_counted_loop(StmtId id, const Stmt& stmt);
  Result<void> check_loop_exit(const Stmt& stmt);
  Result<void> check_ending(const Stmt& stmt);
  Result<void> check_fault(const Stmt& stmt);
  Result<void> check_await(const Stmt& stmt);
  Result<void> check_evaluate(const Stmt& stmt);

  // Expressions.
  Result<Type> check(ExprId id, bool result_is_used = true);
  Result<Type> record(ExprId id, Type type);
  Result<Type> check_kind(ExprId id, const Expr& expr, bool result_is_used);
  Result<void> check_is(ExprId id, Type wanted, std::string_view role);
  Result<Type> check_unary(const Expr& expr);
  Result<Type> check_chain(ExprId id);
  Result<Type> check_call(const Expr& expr);
  Result<Type> check_atomic(const Expr& expr, bool result_is_used);
  Result<void> check_buffer(const BufferRef& buffer);
  std::size_t text_depth(const Expr& expr) const;

  bool is_in_each() const { return std::ranges::find(loops_, LoopKind::each) != loops_.end(); }

  VerifiedHandler& result_;
  const Handler& handler_;
  const Body& body_;
  EffectRules effects_;
  std::vector<std::size_t> text_depths_;  // by ExprId
  std::size_t instruction_count_ = 0;     // of the printed text
  std::size_t name_bytes_ = 0;            // of all uses of names so far
  std::vector<bool> seen_exprs_, seen_stmts_, seen_blocks_;
  std::vector<std::optional<LocalId>> bindings_;  // by NameId: the variable it means here
  std::vector<bool> is_outside_each_;             // by LocalId
  std::vector<LoopKind> loops_;
  std::size_t nesting_ = 0;
  std::size_t depth_ = 0;  // of expressions inside each other
};

Result<void> HandlerVerifier::run() {
  if (!handler_.is_payload && abi::is_reserved_opcode(handler_.opcode)) {
    return wrong(handler_.location,
                 fmt::format("opcode {0} ({0:#x}) is reserved for the system", handler_.opcode),
                 "choose an opcode in 8..0xffef or 0x10000..0x7fffffff");
  }
  EVERKERNEL_TRY(check_sizes());
  if (handler_.scope > Scope::group) return wrong(handler_.location, "the scope is unknown");
  if (handler_.is_payload && (handler_.is_pure || handler_.commutes)) {
    return wrong(handler_.location, "a payload cannot be declared pure or commutes");
  }
  if (std::set<std::string_view>(body_.names.begin(), body_.names.end()).size() !=
      body_.names.size()) {
    return wrong(handler_.location, "the table of names holds a name twice");
  }
  instruction_count_ = body_.exprs.size() + body_.stmts.size();
  text_depths_.resize(body_.exprs.size());
  seen_exprs_.resize(body_.exprs.size());
  seen_stmts_.resize(body_.stmts.size());
  seen_blocks_.resize(body_.blocks.size());
  bindings_.resize(body_.names.size());
  result_.types.resize(body_.exprs.size(), Type::none);
  result_.expr_locals.resize(body_.exprs.size());
  result_.stmt_locals.resize(body_.stmts.size());
  EVERKERNEL_TRY(check_block(body_.root));
  return check_text_size();
}

// ---- sizes ----

Failure too_many_instructions(const Handler& handler, std::size_t count) {
  return mistake(handler.location, handler.name,
                 fmt::format("the handler has {} instructions, at most {} are allowed", count,
                             kMaxInstructions),
                 "split it into several handlers");
}

Failure too_long_text(const Handler& handler, std::size_t size_bytes) {
  // The name may be the reason, and is not repeated.
  return mistake(handler.location, std::string_view(handler.name).substr(0, 40),
                 fmt::format("the handler has {} bytes of text, at most {} are allowed", size_bytes,
                             kMaxTextBytes),
                 "split it into several handlers, or shorten its names");
}

// Before the walk, which must not take long for any tree.
Result<void> HandlerVerifier::check_sizes() const {
  const std::size_t text_bytes = std::max(handler_.text_bytes, handler_.name.size());
  if (text_bytes > kMaxTextBytes) return too_long_text(handler_, text_bytes);
  const std::size_t count = body_.exprs.size() + body_.stmts.size();
  if (count > kMaxInstructions) return too_many_instructions(handler_, count);
  // Every block but the root belongs to a statement with operands, every name to some node.
  if (body_.blocks.size() > kMaxInstructions + 1 || body_.names.size() > kMaxInstructions) {
    return wrong(handler_.location, "the handler has more blocks or names than instructions");
  }
  return {};
}

// After the walk. A handler that was built from C++ has the size of the text that it prints as, and
// that text must be one that parses and verifies.
Result<void> HandlerVerifier::check_text_size() const {
  if (instruction_count_ > kMaxInstructions) {
    return too_many_instructions(handler_, instruction_count_);
  }
  if (handler_.text_bytes != 0) return {};
  const std::size_t text_bytes = print({.handlers = {handler_}}).size();
  if (text_bytes > kMaxTextBytes) return too_long_text(handler_, text_bytes);
  return {};
}

// ---- structure ----

template <class Id>
Result<void> visit_once(Id id, std::vector<bool>& seen, const Handler& handler) {
  const auto index = static_cast<std::size_t>(id);
  if (index >= seen.size()) {
    return mistake({}, handler.name, fmt::format("node {} does not exist", index));
  }
  if (seen[index]) return mistake({}, handler.name, fmt::format("node {} has two parents", index));
  seen[index] = true;
  return {};
}

Result<void> HandlerVerifier::visit(ExprId id) {
  return visit_once(id, seen_exprs_, handler_);
}
Result<void> HandlerVerifier::visit(StmtId id) {
  return visit_once(id, seen_stmts_, handler_);
}
Result<void> HandlerVerifier::visit(BlockId id) {
  return visit_once(id, seen_blocks_, handler_);
}

// ---- names ----

// Checks that a name exists, and adds its length to the text.
Result<void> HandlerVerifier::use(NameId name, Location location) {
  if (static_cast<std::size_t>(name) >= body_.names.size()) {
    return wrong(location, "a name does not exist");
  }
  name_bytes_ += body_[name].size();
  if (name_bytes_ > kMaxTextBytes) return too_long_text(handler_, name_bytes_);
  return {};
}

Result<LocalId> HandlerVerifier::declare(NameId name, Type type, bool is_variable,
                                         Location location) {
  EVERKERNEL_TRY(use(name, location));
  const auto index = static_cast<std::size_t>(name);
  if (!is_word(body_[name])) {
    return wrong(location, fmt::format("'{}' cannot be a name", body_[name]),
                 "names are letters, digits and _");
  }
  if (is_reserved_word(body_[name])) {
    return wrong(location, fmt::format("'{}' cannot be a name: the language uses it", body_[name]));
  }
  if (bindings_[index]) {
    return wrong(location, fmt::format("'{}' is declared already", body_[name]),
                 "choose another name, or assign to the first one");
  }
  if (result_.locals.size() == kMaxLocals) {
    return wrong(location, fmt::format("the handler has more than {} variables", kMaxLocals),
                 "split it into several handlers");
  }
  const LocalId local{static_cast<std::uint32_t>(result_.locals.size())};
  result_.locals.push_back({.name = name, .type = type, .is_variable = is_variable});
  is_outside_each_.push_back(!is_in_each());
  bindings_[index] = local;
  return local;
}

Result<LocalId> HandlerVerifier::resolve(NameId name, Location location) {
  EVERKERNEL_TRY(use(name, location));
  const auto index = static_cast<std::size_t>(name);
  if (bindings_[index]) return *bindings_[index];
  return wrong(location, fmt::format("'{}' is not defined here", body_[name]),
               "declare it before its use with let or var");
}

// ---- statements ----

Result<void> HandlerVerifier::check_block(BlockId id) {
  EVERKERNEL_TRY(visit(id));
  if (++nesting_ > kMaxNesting) {
    return wrong(body_[id].location,
                 fmt::format("blocks are nested more than {} deep", kMaxNesting),
                 "split the handler, or join conditions with &&");
  }
  const auto outer = bindings_;
  for (const StmtId stmt : body_[id].statements) EVERKERNEL_TRY(check_statement(stmt));
  bindings_ = outer;
  --nesting_;
  return {};
}

Result<void> HandlerVerifier::check_statement(StmtId id) {
  EVERKERNEL_TRY(visit(id));
  const Stmt& stmt = body_[id];
  if (stmt.buffer.kind > BufferKind::handle) {
    return wrong(stmt.location, "the kind of this buffer is unknown");
  }
  switch (stmt.kind) {
    case StmtKind::let_value:
    case StmtKind::let_variable:
      return check_declaration(id, stmt);
    case StmtKind::assign_name:
      return check_assignment(id, stmt);
    case StmtKind::assign_arg:
      return check_arg_store(stmt);
    case StmtKind::store:
      return check_store(stmt);
    case StmtKind::branch:
      return check_branch(stmt);
    case StmtKind::for_loop:
    case StmtKind::each_loop:
      return check_counted_loop(id, stmt);
    case StmtKind::while_loop: {
      EVERKERNEL_TRY(check_is(stmt.operands[0], Type::boolean, "the condition"));
      loops_.push_back(LoopKind::ordinary);
      EVERKERNEL_TRY(check_block(stmt.body));
      loops_.pop_back();
      return {};
    }
    case StmtKind::break_loop:
    case StmtKind::continue_loop:
      return check_loop_exit(stmt);
    case StmtKind::finish:
    case StmtKind::yield:
    case StmtKind::requeue:
      return check_ending(stmt);
    case StmtKind::fault:
      return check_fault(stmt);
    case StmtKind::evaluate:
      return check_evaluate(stmt);
    case StmtKind::await_read:
    case StmtKind::await_write:
      return check_await(stmt);
  }
  return wrong(stmt.location, "the kind of this statement is unknown");
}

Result<void> HandlerVerifier::check_declaration(StmtId id, const Stmt& stmt) {
  const Type type = EVERKERNEL_TRY(check(stmt.operands[0]));
  const bool is_variable = stmt.kind == StmtKind::let_variable;
  result_.stmt_locals[static_cast<std::size_t>(id)] =
      EVERKERNEL_TRY(declare(stmt.name, type, is_variable, stmt.location));
  return {};
}

Result<void> HandlerVerifier::check_assignment(StmtId id, const Stmt& stmt) {
  const LocalId local = EVERKERNEL_TRY(resolve(stmt.name, stmt.location));
  const auto index = static_cast<std::size_t>(local);
  const Local& variable = result_.locals[index];
  if (!variable.is_variable) {
    return wrong(stmt.location, fmt::format("'{}' cannot be assigned", body_[stmt.name]),
                 "declare it with var instead of let; loop counters cannot change");
  }
  if (is_in_each() && is_outside_each_[index]) {
    return wrong(stmt.location,
                 fmt::format("'{}' is read only inside each: all turns share it", body_[stmt.name]),
                 "use an atomic on a buffer word, or a variable declared inside the each");
  }
  result_.stmt_locals[static_cast<std::size_t>(id)] = local;
  return check_is(stmt.operands[0], variable.type, fmt::format("'{}'", body_[stmt.name]));
}

Result<void> HandlerVerifier::check_arg_store(const Stmt& stmt) {
  if (is_in_each()) {
    return wrong(stmt.location, "args are read only inside each: all turns share them",
                 "store them before or after the each");
  }
  EVERKERNEL_TRY(effects_.store_arg(stmt.location));
  EVERKERNEL_TRY(check_is(stmt.operands[0], Type::u32, "the index"));
  EVERKERNEL_TRY(check_is(stmt.operands[1], Type::u32, "an argument word"));
  effects_.store_arg_at(body_[stmt.operands[0]]);
  return {};
}

Result<void> HandlerVerifier::check_store(const Stmt& stmt) {
  EVERKERNEL_TRY(check_buffer(stmt.buffer));
  EVERKERNEL_TRY(check_is(stmt.operands[0], Type::u32, "the index"));
  EVERKERNEL_TRY(check_is(stmt.operands[1], Type::u32, "a buffer word"));
  return effects_.store(stmt.buffer, stmt.location);
}

Result<void> HandlerVerifier::check_branch(const Stmt& first) {
  // An else block that is a single branch is an `else if`. A row of them is not nested any deeper,
  // so that it is walked in a loop.
  for (const Stmt* stmt = &first;;) {
    EVERKERNEL_TRY(check_is(stmt->operands[0], Type::boolean, "the condition"));
    EVERKERNEL_TRY(check_block(stmt->body));
    if (!stmt->otherwise) return {};
    if (static_cast<std::size_t>(*stmt->otherwise) >= body_.blocks.size()) {
      return check_block(*stmt->otherwise);
    }
    const Block& otherwise = body_[*stmt->otherwise];
    const bool is_chain = otherwise.statements.size() == 1 &&
                          static_cast<std::size_t>(otherwise.statements[0]) < body_.stmts.size() &&
                          body_[otherwise.statements[0]].kind == StmtKind::branch;
    if (!is_chain) return check_block(*stmt->otherwise);
    EVERKERNEL_TRY(visit(*stmt->otherwise));
    EVERKERNEL_TRY(visit(otherwise.statements[0]));
    if (body_[otherwise.statements[0]].buffer.kind > BufferKind::handle) {
      return wrong(otherwise.location, "the kind of this buffer is unknown");
    }
    stmt = &body_[otherwise.statements[0]];
  }
}

Result<void> HandlerVerifier::check_counted_loop(StmtId id, const Stmt& stmt) {
  const bool is_each = stmt.kind == StmtKind::each_loop;
  if (is_each && is_in_each()) {
    return wrong(stmt.location, "an each cannot be inside another", "use for inside");
  }
  const Type first = EVERKERNEL_TRY(check(stmt.operands[0]));
  if (!is_integer(first)) {
    return wrong(body_[stmt.operands[0]].location,
                 fmt::format("a loop counts in u32 or i32, not in {}", type_name(first)));
  }
  EVERKERNEL_TRY(check_is(stmt.operands[1], first, "the end of the range"));
  const auto outer = bindings_;
  loops_.push_back(is_each ? LoopKind::each : LoopKind::ordinary);
  result_.stmt_locals[static_cast<std::size_t>(id)] =
      EVERKERNEL_TRY(declare(stmt.name, first, /*is_variable=*/false, stmt.location));
  EVERKERNEL_TRY(check_block(stmt.body));
  loops_.pop_back();
  bindings_ = outer;
  return {};
}

Result<void> HandlerVerifier::check_loop_exit(const Stmt& stmt) {
  const bool is_break = stmt.kind == StmtKind::break_loop;
  if (loops_.empty()) {
    return wrong(stmt.location,
                 fmt::format("{} is outside of every loop", is_break ? "break" : "continue"));
  }
  if (is_break && loops_.back() == LoopKind::each) {
    return wrong(stmt.location, "break cannot leave an each: its turns are independent",
                 "use continue to end this turn");
  }
  return {};
}

Result<void> HandlerVerifier::check_ending(const Stmt& stmt) {
  const std::string_view word = stmt.kind == StmtKind::finish  ? "return"
                                : stmt.kind == StmtKind::yield ? "yield"
                                                               : "requeue";
  if (is_in_each()) {
    return wrong(stmt.location,
                 fmt::format("{} cannot leave an each: its turns are independent", word),
                 "use continue to end this turn");
  }
  if (stmt.kind == StmtKind::finish) return {};
  return effects_.yield(word, stmt.location);
}

// A code that is computed is checked when the item runs, and stops at the highest one.
Result<void> HandlerVerifier::check_fault(const Stmt& stmt) {
  EVERKERNEL_TRY(check_is(stmt.operands[0], Type::u32, "the fault code"));
  const Expr& code = body_[stmt.operands[0]];
  if (code.kind != ExprKind::literal || code.bits <= abi::kMaxUserFault) return {};
  return wrong(code.location,
               fmt::format("fault {} is above the highest code, {}", code.bits, abi::kMaxUserFault),
               fmt::format("choose a code in 0..{}", abi::kMaxUserFault));
}

Result<void> HandlerVerifier::check_await(const Stmt& stmt) {
  if (is_in_each()) {
    return wrong(stmt.location, "await cannot leave an each: its turns are independent");
  }
  constexpr std::string_view kRoles[] = {"the source", "the block", "the destination",
                                         "the byte count"};
  for (std::size_t i = 0; i < 4; ++i) {
    EVERKERNEL_TRY(check_is(stmt.operands[i], Type::u32, kRoles[i]));
  }
  return effects_.await(stmt);
}

Result<void> HandlerVerifier::check_evaluate(const Stmt& stmt) {
  EVERKERNEL_TRY(check(stmt.operands[0], /*result_is_used=*/false));
  const ExprKind kind = body_[stmt.operands[0]].kind;
  if (kind == ExprKind::call || kind == ExprKind::atomic) return {};
  return wrong(stmt.location, "this value is not used",
               "only a call can be a statement of its own");
}

// ---- expressions ----

Result<Type> HandlerVerifier::check(ExprId id, bool result_is_used) {
  EVERKERNEL_TRY(visit(id));
  const Expr& expr = body_[id];
  if (!is_known(expr)) return wrong(expr.location, "the kind of this expression is unknown");
  if (expr.kind == ExprKind::binary) return check_chain(id);
  // Each level of this recursion is at least one level of the parser's.
  if (++depth_ > kMaxParserDepth) {
    return wrong(expr.location, "this expression is nested too deeply",
                 "name parts of it with let");
  }
  const Type type = EVERKERNEL_TRY(check_kind(id, expr, result_is_used));
  --depth_;
  if (type == Type::none && result_is_used) {
    return wrong(expr.location, fmt::format("{} gives no value", info(expr.function).name),
                 "call it as a statement of its own");
  }
  return record(id, type);
}

Result<Type> HandlerVerifier::record(ExprId id, Type type) {
  const Expr& expr = body_[id];
  result_.types[static_cast<std::size_t>(id)] = type;
  const std::size_t depth = text_depth(expr);
  if (depth >= kMaxParserDepth) {
    return wrong(expr.location, "this expression is nested too deeply",
                 "name parts of it with let");
  }
  text_depths_[static_cast<std::size_t>(id)] = depth;
  // A literal with a depth is printed as a call or a sign with a literal inside.
  if (expr.kind == ExprKind::literal) instruction_count_ += depth;
  return type;
}

// The parser's depth of recursion for the printed text of an expression, whose parts have been
// checked: the printed text of a verified program must parse again.
std::size_t HandlerVerifier::text_depth(const Expr& expr) const {
  const auto depth = [&](ExprId id) { return text_depths_[static_cast<std::size_t>(id)]; };
  const auto is_looser = [&](ExprId id, int precedence) -> std::size_t {
    const Expr& part = body_[id];
    return part.kind == ExprKind::binary && info(part.binary).precedence < precedence ? 1 : 0;
  };
  if (expr.kind == ExprKind::literal) {
    const bool is_spelled = expr.type == Type::u32 || expr.type == Type::boolean ||
                            ((expr.bits >> 31) == 0 && expr.bits < 0x7F800000u);
    return is_spelled || (expr.type == Type::i32 && (expr.bits >> 31) == 0) ? 0 : 1;
  }
  if (expr.kind == ExprKind::binary) {
    const int own = info(expr.binary).precedence;
    return std::max(is_looser(expr.operands[0], own) + depth(expr.operands[0]),
                    1 + is_looser(expr.operands[1], own + 1) + depth(expr.operands[1]));
  }
  if (expr.kind == ExprKind::unary) {
    constexpr int kTightest = 11;
    return 1 + is_looser(expr.operands[0], kTightest) + depth(expr.operands[0]);
  }
  std::size_t deepest = 0;
  if (has_buffer(expr.kind) && expr.buffer.kind == BufferKind::handle) {
    deepest = 1 + depth(expr.buffer.handle);
  }
  for (std::size_t i = 0; i < operand_count(expr); ++i) {
    deepest = std::max(deepest, 1 + depth(expr.operands[i]));
  }
  return deepest;
}

Result<Type> HandlerVerifier::check_kind(ExprId id, const Expr& expr, bool result_is_used) {
  switch (expr.kind) {
    case ExprKind::literal:
      if (expr.type == Type::none || (expr.type == Type::boolean && expr.bits > 1)) {
        return wrong(expr.location, "this literal has no value of its type");
      }
      return expr.type;
    case ExprKind::name: {
      const LocalId local = EVERKERNEL_TRY(resolve(expr.name, expr.location));
      result_.expr_locals[static_cast<std::size_t>(id)] = local;
      return result_.locals[static_cast<std::size_t>(local)].type;
    }
    case ExprKind::builtin:
      EVERKERNEL_TRY(effects_.builtin(expr.builtin, expr.location));
      return Type::u32;
    case ExprKind::arg:
      EVERKERNEL_TRY(check_is(expr.operands[0], Type::u32, "the index"));
      EVERKERNEL_TRY(effects_.load_arg(body_[expr.operands[0]], expr.location));
      return Type::u32;
    case ExprKind::load:
      EVERKERNEL_TRY(check_buffer(expr.buffer));
      EVERKERNEL_TRY(check_is(expr.operands[0], Type::u32, "the index"));
      EVERKERNEL_TRY(effects_.load(expr.buffer, expr.location));
      return Type::u32;
    case ExprKind::length:
      EVERKERNEL_TRY(check_buffer(expr.buffer));
      EVERKERNEL_TRY(effects_.length(expr.buffer, expr.location));
      return Type::u32;
    case ExprKind::unary:
      return check_unary(expr);
    case ExprKind::binary:
      break;  // check_chain() handles it
    case ExprKind::call:
      return check_call(expr);
    case ExprKind::atomic:
      return check_atomic(expr, result_is_used);
  }
  return wrong(expr.location, "the kind of this expression is unknown");
}

Result<void> HandlerVerifier::check_is(ExprId id, Type wanted, std::string_view role) {
  const Type type = EVERKERNEL_TRY(check(id));
  if (type == wanted) return {};
  return wrong(body_[id].location,
               fmt::format("{} is {}, not {}", role, type_name(wanted), type_name(type)),
               conversion_hint(wanted, type));
}

Result<Type> HandlerVerifier::check_unary(const Expr& expr) {
  const Type operand = EVERKERNEL_TRY(check(expr.operands[0]));
  return unary_type(handler_, expr, operand);
}

// A chain a + b + c … nests to the left, and may be as long as a handler. It is walked in a loop,
// not by recursion: from the operator at its right end, which has been visited, to its first
// operand and back.
Result<Type> HandlerVerifier::check_chain(ExprId id) {
  if (++depth_ > kMaxParserDepth) {
    return wrong(body_[id].location, "this expression is nested too deeply",
                 "name parts of it with let");
  }
  std::vector<ExprId> chain = {id};
  for (;;) {
    const ExprId next = body_[chain.back()].operands[0];
    const auto index = static_cast<std::size_t>(next);
    if (index >= body_.exprs.size() || body_[next].kind != ExprKind::binary) break;
    EVERKERNEL_TRY(visit(next));
    if (!is_known(body_[next])) {
      return wrong(body_[next].location, "the kind of this expression is unknown");
    }
    chain.push_back(next);
  }
  Type left = EVERKERNEL_TRY(check(body_[chain.back()].operands[0]));
  for (std::size_t i = chain.size(); i-- > 0;) {
    const Type right = EVERKERNEL_TRY(check(body_[chain[i]].operands[1]));
    const Type type = EVERKERNEL_TRY(binary_type(handler_, body_[chain[i]], left, right));
    left = EVERKERNEL_TRY(record(chain[i], type));
  }
  --depth_;
  return left;
}

Result<Type> HandlerVerifier::check_call(const Expr& expr) {
  const FunctionInfo& function = info(expr.function);
  if (expr.operand_count != function.argument_count) {
    return wrong(expr.location,
                 fmt::format("{} takes {} values", function.name, function.argument_count));
  }
  Type types[3] = {};
  for (std::size_t i = 0; i < expr.operand_count; ++i) {
    types[i] = EVERKERNEL_TRY(check(expr.operands[i]));
  }
  const Type type = EVERKERNEL_TRY(call_type(handler_, expr, {types, expr.operand_count}));
  if (expr.function == Function::printf || expr.function == Function::emit) {
    EVERKERNEL_TRY(effects_.output_call(expr.function, expr.location));
  }
  return type;
}

Result<Type> HandlerVerifier::check_atomic(const Expr& expr, bool result_is_used) {
  const AtomicOpInfo& op = info(expr.atomic);
  if (expr.operand_count != 1 + op.value_count) {
    return wrong(expr.location,
                 fmt::format("{} takes a word and {} values", op.name, op.value_count));
  }
  EVERKERNEL_TRY(check_buffer(expr.buffer));
  EVERKERNEL_TRY(check_is(expr.operands[0], Type::u32, "the index"));
  for (std::size_t i = 1; i < expr.operand_count; ++i) {
    EVERKERNEL_TRY(check_is(expr.operands[i], Type::u32, "the operand of an atomic"));
  }
  EVERKERNEL_TRY(effects_.atomic(expr, result_is_used));
  return Type::u32;
}

Result<void> HandlerVerifier::check_buffer(const BufferRef& buffer) {
  if (buffer.kind != BufferKind::handle) return {};
  effects_.handle();
  return check_is(buffer.handle, Type::u32, "a buffer handle");
}

}  // namespace

const VerifiedHandler* VerifiedProgram::find(std::uint32_t opcode) const {
  for (const VerifiedHandler& handler : *handlers_) {
    if (!handler.handler.is_payload && handler.handler.opcode == opcode) return &handler;
  }
  return nullptr;
}

const VerifiedHandler* VerifiedProgram::payload() const {
  const auto found = std::ranges::find_if(
      *handlers_, [](const VerifiedHandler& handler) { return handler.handler.is_payload; });
  return found == handlers_->end() ? nullptr : &*found;
}

Result<VerifiedProgram> verify(Program program) {
  if (program.handlers.size() > kMaxHandlers) {
    const Handler& first = program.handlers[kMaxHandlers];
    return mistake(first.location, first.name,
                   fmt::format("the program has {} handlers, more than {}", program.handlers.size(),
                               kMaxHandlers),
                   "split it into several programs");
  }
  std::set<std::uint32_t> opcodes;
  std::set<std::string, std::less<>> names;
  bool has_payload = false;
  std::vector<VerifiedHandler> verified;
  verified.reserve(program.handlers.size());
  for (Handler& handler : program.handlers) {
    const Location location = handler.location;
    if (handler.is_payload && std::exchange(has_payload, true)) {
      return mistake(location, handler.name, "a file has at most one payload");
    }
    if (!handler.is_payload && !is_word(handler.name)) {
      return mistake(location, handler.name, fmt::format("'{}' cannot be a name", handler.name),
                     "names are letters, digits and _");
    }
    if (!handler.is_payload && is_reserved_word(handler.name)) {
      return mistake(location, handler.name,
                     fmt::format("'{}' cannot be a name: the language uses it", handler.name));
    }
    if (!handler.is_payload && !names.insert(handler.name).second) {
      return mistake(location, handler.name,
                     fmt::format("another handler has the name '{}'", handler.name));
    }
    if (!handler.is_payload && !opcodes.insert(handler.opcode).second) {
      return mistake(location, handler.name,
                     fmt::format("another handler has opcode {}", handler.opcode),
                     "give every handler an opcode of its own");
    }
    verified.push_back({.handler = std::move(handler)});
    EVERKERNEL_TRY(HandlerVerifier(verified.back()).run());
  }
  return VerifiedProgram(std::move(verified));
}

}  // namespace everkernel::ir
