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
#include "ir/effect_rules.hpp"
#include "ir/recovery.hpp"
#include "ir/reporter.hpp"
#include "ir/suggestion.hpp"
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

bool gives_value(Function function) {
  return function != Function::printf && function != Function::emit;
}

enum class LoopKind : std::uint8_t { ordinary, each };

class HandlerVerifier {
 public:
  // `recovered` says what is missing of a handler whose text has mistakes; else null.
  HandlerVerifier(VerifiedHandler& result, Diagnostics& diagnostics, const Recovered* recovered)
      : result_(result),
        handler_(result.handler),
        body_(result.handler.body),
        wrong_(diagnostics, handler_.name),
        recovered_(recovered),
        effects_(result.handler, result.effects, wrong_) {}

  void run();

 private:
  bool check_sizes() const;
  void check_text_size() const;

  // Structure: indices inside their arrays, one parent for each node. False from the first node on
  // that breaks this: no other mistake of such a handler would mean anything.
  bool visit(ExprId id);
  bool visit(StmtId id);
  bool visit(BlockId id);

  // Names.
  bool use(NameId name, Location location);
  std::optional<LocalId> declare(NameId name, Type type, bool is_variable, Location location);
  std::optional<LocalId> resolve(NameId name, Location location);
  void tell_unknown(NameId name, Location location);

  // Statements.
  void check_block(BlockId id);
  void check_statement(StmtId id);
  void check_declaration(StmtId id, const Stmt& stmt);
  void check_assignment(StmtId id, const Stmt& stmt);
  void check_assigned(const Stmt& stmt, ExprId value, Type place, std::string_view role);
  void check_arg_store(const Stmt& stmt);
  void check_store(const Stmt& stmt);
  void check_branch(const Stmt& stmt);
  void check_counted_loop(StmtId id, const Stmt& stmt);
  void check_loop_exit(const Stmt& stmt);
  void check_ending(const Stmt& stmt);
  void check_fault(const Stmt& stmt);
  void check_await(const Stmt& stmt);
  void check_evaluate(const Stmt& stmt);

  // Expressions. The type is `none` if it is not known because of a mistake, which has been
  // reported: nothing that follows from it is.
  Type check(ExprId id, bool result_is_used = true);
  Type record(ExprId id, Type type);
  Type check_kind(ExprId id, const Expr& expr, bool result_is_used);
  bool check_is(ExprId id, Type wanted, std::string_view role);
  Type check_unary(const Expr& expr);
  Type check_chain(ExprId id);
  Type check_call(const Expr& expr);
  Type check_atomic(const Expr& expr, bool result_is_used);
  void check_buffer(const BufferRef& buffer);
  std::size_t text_depth(const Expr& expr) const;

  bool is_in_each() const { return std::ranges::find(loops_, LoopKind::each) != loops_.end(); }

  VerifiedHandler& result_;
  const Handler& handler_;
  const Body& body_;
  Reporter wrong_;
  const Recovered* recovered_;
  EffectRules effects_;
  std::vector<std::size_t> text_depths_;  // by ExprId
  std::size_t instruction_count_ = 0;     // of the printed text
  std::size_t name_bytes_ = 0;            // of all uses of names so far
  std::vector<bool> seen_exprs_, seen_stmts_, seen_blocks_;
  std::vector<std::optional<LocalId>> bindings_;  // by NameId: the variable it means here
  std::vector<bool> is_told_unknown_;             // by NameId: each is reported once
  std::vector<bool> is_outside_each_;             // by LocalId
  std::vector<LoopKind> loops_;
  std::size_t nesting_ = 0;
  std::size_t depth_ = 0;  // of expressions inside each other
  bool is_tree_ = true;    // every node so far exists once; else nothing more is read
  bool is_full_ = false;   // too many variables or bytes of names were reported
};

void HandlerVerifier::run() {
  const std::size_t mistakes = wrong_.count();
  const bool has_opcode = recovered_ == nullptr || recovered_->has_opcode;
  if (has_opcode && !handler_.is_payload && abi::is_reserved_opcode(handler_.opcode)) {
    wrong_(Rule::reserved_opcode, handler_.location,
           fmt::format("opcode {0} ({0:#x}) is reserved for the system", handler_.opcode),
           "choose an opcode in 8..0xffef or 0x10000..0x7fffffff");
  }
  if (recovered_ == nullptr && !check_sizes()) return;
  if (handler_.scope > Scope::group) {
    return wrong_(Rule::malformed_tree, handler_.location, "the scope is unknown");
  }
  if (handler_.is_payload && (handler_.is_pure || handler_.commutes)) {
    wrong_(Rule::payload_promise, handler_.location,
           "a payload cannot be declared pure or commutes", "declare a handler instead");
  }
  if (std::set<std::string_view>(body_.names.begin(), body_.names.end()).size() !=
      body_.names.size()) {
    return wrong_(Rule::malformed_tree, handler_.location, "the table of names holds a name twice");
  }
  instruction_count_ = body_.exprs.size() + body_.stmts.size();
  text_depths_.resize(body_.exprs.size());
  seen_exprs_.resize(body_.exprs.size());
  seen_stmts_.resize(body_.stmts.size());
  seen_blocks_.resize(body_.blocks.size());
  bindings_.resize(body_.names.size());
  is_told_unknown_.resize(body_.names.size());
  result_.types.resize(body_.exprs.size(), Type::none);
  result_.expr_locals.resize(body_.exprs.size());
  result_.stmt_locals.resize(body_.stmts.size());
  check_block(body_.root);
  if (recovered_ == nullptr && wrong_.count() == mistakes) check_text_size();
}

// ---- sizes ----

void too_many_instructions(const Reporter& report, Location location, std::size_t count) {
  report(Rule::too_many_instructions, location,
         fmt::format("the handler has {} instructions, at most {} are allowed", count,
                     kMaxInstructions),
         "split it into several handlers");
}

void too_long_text(const Reporter& report, Location location, std::size_t size_bytes) {
  report(Rule::text_too_long, location,
         fmt::format("the handler has {} bytes of text, at most {} are allowed", size_bytes,
                     kMaxTextBytes),
         "split it into several handlers, or shorten its names");
}

// Before the walk, which must not take long for any tree.
bool HandlerVerifier::check_sizes() const {
  const std::size_t text_bytes = std::max(handler_.text_bytes, handler_.name.size());
  const std::size_t count = body_.exprs.size() + body_.stmts.size();
  if (text_bytes > kMaxTextBytes) {
    too_long_text(wrong_, handler_.location, text_bytes);
  } else if (count > kMaxInstructions) {
    too_many_instructions(wrong_, handler_.location, count);
  } else if (body_.blocks.size() > kMaxInstructions + 1 || body_.names.size() > kMaxInstructions) {
    // Every block but the root belongs to a statement with operands, every name to some node.
    wrong_(Rule::malformed_tree, handler_.location,
           "the handler has more blocks or names than instructions");
  } else {
    return true;
  }
  return false;
}

// After the walk. A handler that was built from C++ has the size of the text that it prints as, and
// that text must be one that parses and verifies.
void HandlerVerifier::check_text_size() const {
  if (instruction_count_ > kMaxInstructions) {
    return too_many_instructions(wrong_, handler_.location, instruction_count_);
  }
  if (handler_.text_bytes != 0) return;
  const std::size_t text_bytes = print({.handlers = {handler_}}).size();
  if (text_bytes > kMaxTextBytes) too_long_text(wrong_, handler_.location, text_bytes);
}

// ---- structure ----

template <class Id>
bool visit_once(Id id, std::vector<bool>& seen, const Reporter& report) {
  const auto index = static_cast<std::size_t>(id);
  if (index >= seen.size()) {
    report(Rule::malformed_tree, {}, fmt::format("node {} does not exist", index));
    return false;
  }
  if (seen[index]) {
    report(Rule::malformed_tree, {}, fmt::format("node {} has two parents", index));
    return false;
  }
  seen[index] = true;
  return true;
}

bool HandlerVerifier::visit(ExprId id) {
  is_tree_ = visit_once(id, seen_exprs_, wrong_) && is_tree_;
  return is_tree_;
}
bool HandlerVerifier::visit(StmtId id) {
  is_tree_ = visit_once(id, seen_stmts_, wrong_) && is_tree_;
  return is_tree_;
}
bool HandlerVerifier::visit(BlockId id) {
  is_tree_ = visit_once(id, seen_blocks_, wrong_) && is_tree_;
  return is_tree_;
}

// ---- names ----

// Checks that a name exists, and adds its length to the text.
bool HandlerVerifier::use(NameId name, Location location) {
  if (static_cast<std::size_t>(name) >= body_.names.size()) {
    wrong_(Rule::malformed_tree, location, "a name does not exist");
    return false;
  }
  name_bytes_ += body_[name].size();
  if (name_bytes_ <= kMaxTextBytes) return true;
  if (!std::exchange(is_full_, true)) too_long_text(wrong_, handler_.location, name_bytes_);
  return false;
}

std::optional<LocalId> HandlerVerifier::declare(NameId name, Type type, bool is_variable,
                                                Location location) {
  if (!use(name, location)) return {};
  const auto index = static_cast<std::size_t>(name);
  const std::string& text = body_[name];
  if (recovered_ != nullptr && text.empty()) return {};  // the parser has reported it
  if (!is_word(text)) {
    wrong_(Rule::bad_name, location, fmt::format("'{}' cannot be a name", text),
           "names are letters, digits and _");
  } else if (is_reserved_word(text)) {
    wrong_(Rule::reserved_name, location,
           fmt::format("'{}' cannot be a name: the language uses it", text), "choose another name");
  } else if (bindings_[index]) {
    wrong_(Rule::repeated_name, location, fmt::format("'{}' is declared already", text),
           "choose another name, or assign to the first one");
  }
  if (result_.locals.size() == kMaxLocals) {
    if (!std::exchange(is_full_, true)) {
      wrong_(Rule::too_many_variables, location,
             fmt::format("the handler has more than {} variables", kMaxLocals),
             "split it into several handlers");
    }
    // A name that could not be declared is not unknown.
    is_told_unknown_[index] = true;
    return {};
  }
  const LocalId local{static_cast<std::uint32_t>(result_.locals.size())};
  result_.locals.push_back({.name = name, .type = type, .is_variable = is_variable});
  is_outside_each_.push_back(!is_in_each());
  bindings_[index] = local;
  return local;
}

std::optional<LocalId> HandlerVerifier::resolve(NameId name, Location location) {
  if (!use(name, location)) return {};
  const auto index = static_cast<std::size_t>(name);
  if (!bindings_[index]) tell_unknown(name, location);
  return bindings_[index];
}

// Once for each name.
void HandlerVerifier::tell_unknown(NameId name, Location location) {
  const bool may_be_lost = recovered_ != nullptr && recovered_->has_lost_names;
  if (may_be_lost || is_told_unknown_[static_cast<std::size_t>(name)]) return;
  is_told_unknown_[static_cast<std::size_t>(name)] = true;
  const std::string_view text = body_[name];
  Suggestion suggestion(text);
  for (std::size_t i = 0; i < bindings_.size(); ++i) {
    if (bindings_[i]) suggestion.offer(body_.names[i]);
  }
  for (const BuiltinInfo& row : kBuiltins) suggestion.offer(row.name);
  for (const std::string_view word : {"true", "false", "input", "output", "control", "args"}) {
    suggestion.offer(word);
  }
  wrong_(Rule::unknown_name, location, fmt::format("'{}' is not defined here", text),
         suggestion.hint("declare it before its use with let or var"));
}

// ---- statements ----

void HandlerVerifier::check_block(BlockId id) {
  if (!visit(id)) return;
  if (nesting_ == kMaxNesting) {
    return wrong_(Rule::too_deep, body_[id].location,
                  fmt::format("blocks are nested more than {} deep", kMaxNesting),
                  "split the handler, or join conditions with &&");
  }
  ++nesting_;
  const auto outer = bindings_;
  for (const StmtId stmt : body_[id].statements) check_statement(stmt);
  bindings_ = outer;
  --nesting_;
}

void HandlerVerifier::check_statement(StmtId id) {
  if (!visit(id)) return;
  const Stmt& stmt = body_[id];
  if (stmt.buffer.kind > BufferKind::handle) {
    return wrong_(Rule::malformed_tree, stmt.location, "the kind of this buffer is unknown");
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
    case StmtKind::while_loop:
      check_is(stmt.operands[0], Type::boolean, "the condition");
      loops_.push_back(LoopKind::ordinary);
      check_block(stmt.body);
      return loops_.pop_back();
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
  wrong_(Rule::malformed_tree, stmt.location, "the kind of this statement is unknown");
}

void HandlerVerifier::check_declaration(StmtId id, const Stmt& stmt) {
  const Type type = check(stmt.operands[0]);
  const bool is_variable = stmt.kind == StmtKind::let_variable;
  const auto local = declare(stmt.name, type, is_variable, stmt.location);
  if (local) result_.stmt_locals[static_cast<std::size_t>(id)] = *local;
}

void HandlerVerifier::check_assignment(StmtId id, const Stmt& stmt) {
  const auto local = resolve(stmt.name, stmt.location);
  if (!local) {
    check(stmt.operands[0]);
    return;
  }
  const auto index = static_cast<std::size_t>(*local);
  const Local variable = result_.locals[index];
  const std::string& name = body_[stmt.name];
  if (!variable.is_variable) {
    wrong_(Rule::not_assignable, stmt.location, fmt::format("'{}' cannot be assigned", name),
           "declare it with var instead of let; loop counters cannot change");
  } else if (is_in_each() && is_outside_each_[index]) {
    wrong_(Rule::read_only_in_each, stmt.location,
           fmt::format("'{}' is read only inside each: all turns share it", name),
           "use an atomic on a buffer word, or a variable declared inside the each");
  }
  result_.stmt_locals[static_cast<std::size_t>(id)] = *local;
  check_assigned(stmt, stmt.operands[0], variable.type, fmt::format("'{}'", name));
}

// The value that a place of that type is assigned, with or without an operator.
void HandlerVerifier::check_assigned(const Stmt& stmt, ExprId value, Type place,
                                     std::string_view role) {
  if (!stmt.compound) {
    check_is(value, place, role);
    return;
  }
  if (!is_known(kBinaryOps, *stmt.compound) || !can_be_compound(*stmt.compound)) {
    return wrong_(Rule::malformed_tree, stmt.location, "no assignment has this operator");
  }
  const Type type = check(value);
  if (type == Type::none) return;
  fits_compound(wrong_, *stmt.compound, body_[value].location, place, type);
}

void HandlerVerifier::check_arg_store(const Stmt& stmt) {
  if (is_in_each()) {
    wrong_(Rule::read_only_in_each, stmt.location,
           "args are read only inside each: all turns share them",
           "store them before or after the each");
  } else {
    effects_.store_arg(stmt.location);
  }
  const bool has_index = check_is(stmt.operands[0], Type::u32, "the index");
  check_assigned(stmt, stmt.operands[1], Type::u32, "an argument word");
  if (has_index) effects_.store_arg_at(body_[stmt.operands[0]]);
}

void HandlerVerifier::check_store(const Stmt& stmt) {
  check_buffer(stmt.buffer);
  check_is(stmt.operands[0], Type::u32, "the index");
  check_assigned(stmt, stmt.operands[1], Type::u32, "a buffer word");
  effects_.store(stmt.buffer, stmt.location, /*is_update=*/stmt.compound.has_value());
}

void HandlerVerifier::check_branch(const Stmt& first) {
  // An else block that is a single branch is an `else if`. A row of them is not nested any deeper,
  // so that it is walked in a loop.
  for (const Stmt* stmt = &first;;) {
    check_is(stmt->operands[0], Type::boolean, "the condition");
    check_block(stmt->body);
    if (!stmt->otherwise) return;
    if (static_cast<std::size_t>(*stmt->otherwise) >= body_.blocks.size()) {
      return check_block(*stmt->otherwise);
    }
    const Block& otherwise = body_[*stmt->otherwise];
    const bool is_chain = otherwise.statements.size() == 1 &&
                          static_cast<std::size_t>(otherwise.statements[0]) < body_.stmts.size() &&
                          body_[otherwise.statements[0]].kind == StmtKind::branch;
    if (!is_chain) return check_block(*stmt->otherwise);
    if (!visit(*stmt->otherwise) || !visit(otherwise.statements[0])) return;
    if (body_[otherwise.statements[0]].buffer.kind > BufferKind::handle) {
      return wrong_(Rule::malformed_tree, otherwise.location, "the kind of this buffer is unknown");
    }
    stmt = &body_[otherwise.statements[0]];
  }
}

void HandlerVerifier::check_counted_loop(StmtId id, const Stmt& stmt) {
  const bool is_each = stmt.kind == StmtKind::each_loop;
  if (is_each && is_in_each()) {
    wrong_(Rule::nested_each, stmt.location, "an each cannot be inside another", "use for inside");
  }
  Type first = check(stmt.operands[0]);
  if (first != Type::none && !is_integer(first)) {
    wrong_(Rule::type_mismatch, body_[stmt.operands[0]].location,
           fmt::format("a loop counts in u32 or i32, not in {}", type_name(first)),
           "convert the bounds with u32(x) or i32(x)");
    first = Type::none;
  }
  const bool is_known = first != Type::none;
  if (is_known) {
    check_is(stmt.operands[1], first, "the end of the range");
  } else {
    check(stmt.operands[1]);
  }
  if (stmt.has_step && !is_each) check_is(stmt.operands[2], first, "the step");
  const auto outer = bindings_;
  loops_.push_back(is_each ? LoopKind::each : LoopKind::ordinary);
  const auto local = declare(stmt.name, first, /*is_variable=*/false, stmt.location);
  if (local) result_.stmt_locals[static_cast<std::size_t>(id)] = *local;
  check_block(stmt.body);
  loops_.pop_back();
  bindings_ = outer;
}

void HandlerVerifier::check_loop_exit(const Stmt& stmt) {
  const bool is_break = stmt.kind == StmtKind::break_loop;
  if (loops_.empty()) {
    return wrong_(Rule::outside_loop, stmt.location,
                  fmt::format("{} is outside of every loop", is_break ? "break" : "continue"),
                  "return ends the item");
  }
  if (is_break && loops_.back() == LoopKind::each) {
    wrong_(Rule::leaves_each, stmt.location,
           "break cannot leave an each: its turns are independent",
           "use continue to end this turn");
  }
}

void HandlerVerifier::check_ending(const Stmt& stmt) {
  const std::string_view word = stmt.kind == StmtKind::finish  ? "return"
                                : stmt.kind == StmtKind::yield ? "yield"
                                                               : "requeue";
  if (is_in_each()) {
    return wrong_(Rule::leaves_each, stmt.location,
                  fmt::format("{} cannot leave an each: its turns are independent", word),
                  "use continue to end this turn");
  }
  if (stmt.kind != StmtKind::finish) effects_.yield(word, stmt.location);
}

// A code that is computed is checked when the item runs, and stops at the highest one.
void HandlerVerifier::check_fault(const Stmt& stmt) {
  if (!check_is(stmt.operands[0], Type::u32, "the fault code")) return;
  const Expr& code = body_[stmt.operands[0]];
  if (code.kind != ExprKind::literal || code.bits <= abi::kMaxUserFault) return;
  wrong_(Rule::fault_code_range, code.location,
         fmt::format("fault {} is above the highest code, {}", code.bits, abi::kMaxUserFault),
         fmt::format("choose a code in 0..{}", abi::kMaxUserFault));
}

void HandlerVerifier::check_await(const Stmt& stmt) {
  if (is_in_each()) {
    wrong_(Rule::leaves_each, stmt.location,
           "await cannot leave an each: its turns are independent",
           "await before or after the each");
  }
  constexpr std::string_view kRoles[] = {"the source", "the block", "the destination",
                                         "the byte count"};
  for (std::size_t i = 0; i < 4; ++i) check_is(stmt.operands[i], Type::u32, kRoles[i]);
  if (!is_in_each()) effects_.await(stmt);
}

void HandlerVerifier::check_evaluate(const Stmt& stmt) {
  check(stmt.operands[0], /*result_is_used=*/false);
  if (static_cast<std::size_t>(stmt.operands[0]) >= body_.exprs.size()) return;
  const ExprKind kind = body_[stmt.operands[0]].kind;
  if (kind == ExprKind::call || kind == ExprKind::atomic) return;
  wrong_(Rule::unused_value, stmt.location, "this value is not used",
         "only a call can be a statement of its own");
}

// ---- expressions ----

Type HandlerVerifier::check(ExprId id, bool result_is_used) {
  if (!visit(id)) return Type::none;
  const Expr& expr = body_[id];
  if (!is_known(expr)) {
    wrong_(Rule::malformed_tree, expr.location, "the kind of this expression is unknown");
    return Type::none;
  }
  if (expr.kind == ExprKind::binary) return check_chain(id);
  // Each level of this recursion is at least one level of the parser's.
  if (depth_ == kMaxParserDepth) {
    wrong_(Rule::too_deep, expr.location, "this expression is nested too deeply",
           "name parts of it with let");
    return Type::none;
  }
  ++depth_;
  const std::size_t mistakes = wrong_.count();
  const Type type = check_kind(id, expr, result_is_used);
  --depth_;
  if (type == Type::none && result_is_used && wrong_.count() == mistakes &&
      expr.kind == ExprKind::call && !gives_value(expr.function)) {
    wrong_(Rule::no_value, expr.location,
           fmt::format("{} gives no value", info(expr.function).name),
           "call it as a statement of its own");
  }
  return record(id, type);
}

Type HandlerVerifier::record(ExprId id, Type type) {
  const Expr& expr = body_[id];
  result_.types[static_cast<std::size_t>(id)] = type;
  if (!is_tree_) return Type::none;  // its parts may not be there
  const std::size_t depth = text_depth(expr);
  if (depth >= kMaxParserDepth) {
    wrong_(Rule::too_deep, expr.location, "this expression is nested too deeply",
           "name parts of it with let");
    return Type::none;
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

Type HandlerVerifier::check_kind(ExprId id, const Expr& expr, bool result_is_used) {
  switch (expr.kind) {
    case ExprKind::literal:
      if (recovered_ != nullptr && is_unreadable(expr)) return Type::none;
      if (expr.type == Type::none || (expr.type == Type::boolean && expr.bits > 1)) {
        wrong_(Rule::malformed_tree, expr.location, "this literal has no value of its type");
        return Type::none;
      }
      return expr.type;
    case ExprKind::name: {
      const auto local = resolve(expr.name, expr.location);
      if (!local) return Type::none;
      result_.expr_locals[static_cast<std::size_t>(id)] = *local;
      return result_.locals[static_cast<std::size_t>(*local)].type;
    }
    case ExprKind::builtin:
      effects_.builtin(expr.builtin, expr.location);
      return Type::u32;
    case ExprKind::arg:
      if (check_is(expr.operands[0], Type::u32, "the index")) {
        effects_.load_arg(body_[expr.operands[0]], expr.location);
      }
      return Type::u32;
    case ExprKind::load:
      check_buffer(expr.buffer);
      check_is(expr.operands[0], Type::u32, "the index");
      effects_.load(expr.buffer, expr.location);
      return Type::u32;
    case ExprKind::length:
      check_buffer(expr.buffer);
      effects_.length(expr.buffer, expr.location);
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
  wrong_(Rule::malformed_tree, expr.location, "the kind of this expression is unknown");
  return Type::none;
}

// Whether the expression is of that type.
bool HandlerVerifier::check_is(ExprId id, Type wanted, std::string_view role) {
  const Type type = check(id);
  if (type == Type::none || wanted == Type::none) return false;
  if (type == wanted) return true;
  wrong_(Rule::type_mismatch, body_[id].location,
         fmt::format("{} is {}, not {}", role, type_name(wanted), type_name(type)),
         conversion_hint(wanted, type));
  return false;
}

Type HandlerVerifier::check_unary(const Expr& expr) {
  const Type operand = check(expr.operands[0]);
  return unary_type(wrong_, expr, operand);
}

// A chain a + b + c … nests to the left, and may be as long as a handler. It is walked in a loop,
// not by recursion: from the operator at its right end, which has been visited, to its first
// operand and back.
Type HandlerVerifier::check_chain(ExprId id) {
  if (depth_ == kMaxParserDepth) {
    wrong_(Rule::too_deep, body_[id].location, "this expression is nested too deeply",
           "name parts of it with let");
    return Type::none;
  }
  ++depth_;
  std::vector<ExprId> chain = {id};
  bool is_broken = false;
  for (;;) {
    const ExprId next = body_[chain.back()].operands[0];
    const auto index = static_cast<std::size_t>(next);
    if (index >= body_.exprs.size() || body_[next].kind != ExprKind::binary) break;
    is_broken = !visit(next);
    if (!is_broken && !is_known(body_[next])) {
      wrong_(Rule::malformed_tree, body_[next].location, "the kind of this expression is unknown");
      is_broken = true;
    }
    if (is_broken) break;
    chain.push_back(next);
  }
  Type left = is_broken ? Type::none : check(body_[chain.back()].operands[0]);
  for (std::size_t i = chain.size(); i-- > 0;) {
    const Type right = check(body_[chain[i]].operands[1]);
    left = record(chain[i], binary_type(wrong_, body_[chain[i]], left, right));
  }
  --depth_;
  return left;
}

Type HandlerVerifier::check_call(const Expr& expr) {
  const FunctionInfo& function = info(expr.function);
  if (expr.operand_count != function.argument_count) {
    wrong_(Rule::argument_count, expr.location,
           fmt::format("{} takes {} values", function.name, function.argument_count));
    return Type::none;
  }
  Type types[3] = {};
  for (std::size_t i = 0; i < expr.operand_count; ++i) types[i] = check(expr.operands[i]);
  const Type type = call_type(wrong_, body_, expr, {types, expr.operand_count});
  if (!gives_value(expr.function)) effects_.output_call(expr.function, expr.location);
  return type;
}

Type HandlerVerifier::check_atomic(const Expr& expr, bool result_is_used) {
  const AtomicOpInfo& op = info(expr.atomic);
  if (expr.operand_count != 1 + op.value_count) {
    wrong_(Rule::argument_count, expr.location,
           fmt::format("{} takes a word and {} values", op.name, op.value_count));
    return Type::none;
  }
  check_buffer(expr.buffer);
  check_is(expr.operands[0], Type::u32, "the index");
  for (std::size_t i = 1; i < expr.operand_count; ++i) {
    check_is(expr.operands[i], Type::u32, "the operand of an atomic");
  }
  effects_.atomic(expr, result_is_used);
  return Type::u32;
}

void HandlerVerifier::check_buffer(const BufferRef& buffer) {
  if (buffer.kind != BufferKind::handle) return;
  effects_.handle();
  check_is(buffer.handle, Type::u32, "a buffer handle");
}

// ---- programs ----

// Names and opcodes of the handlers so far.
class ProgramVerifier {
 public:
  explicit ProgramVerifier(Diagnostics& diagnostics) : diagnostics_(diagnostics) {}

  void check(const Handler& handler, const Recovered* recovered) {
    const Reporter wrong(diagnostics_, handler.name);
    const Location location = handler.location;
    if (handler.is_payload) {
      if (std::exchange(has_payload_, true)) {
        wrong(Rule::repeated_payload, location, "a file has at most one payload",
              "join both into one");
      }
      return;
    }
    const bool has_name = recovered == nullptr || !handler.name.empty();
    if (has_name) check_name(handler, wrong);
    if (recovered != nullptr && !recovered->has_opcode) return;
    if (!opcodes_.insert(handler.opcode).second) {
      wrong(Rule::repeated_opcode, location,
            fmt::format("another handler has opcode {}", handler.opcode),
            "give every handler an opcode of its own");
    }
  }

 private:
  void check_name(const Handler& handler, const Reporter& wrong) {
    if (!is_word(handler.name)) {
      wrong(Rule::bad_name, handler.location, fmt::format("'{}' cannot be a name", handler.name),
            "names are letters, digits and _");
    } else if (is_reserved_word(handler.name)) {
      wrong(Rule::reserved_name, handler.location,
            fmt::format("'{}' cannot be a name: the language uses it", handler.name),
            "choose another name");
    } else if (!names_.insert(handler.name).second) {
      wrong(Rule::repeated_name, handler.location,
            fmt::format("another handler has the name '{}'", handler.name), "choose another name");
    }
  }

  Diagnostics& diagnostics_;
  std::set<std::uint32_t> opcodes_;
  std::set<std::string, std::less<>> names_;
  bool has_payload_ = false;
};

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

Result<VerifiedProgram> verify(Program program, Diagnostics* diagnostics) {
  Diagnostics found;
  std::vector<VerifiedHandler> verified;
  if (program.handlers.size() > kMaxHandlers) {
    const Handler& first = program.handlers[kMaxHandlers];
    Reporter(found, first.name)(Rule::too_many_handlers, first.location,
                                fmt::format("the program has {} handlers, more than {}",
                                            program.handlers.size(), kMaxHandlers),
                                "split it into several programs");
    program.handlers.clear();
  }
  verified.reserve(program.handlers.size());
  ProgramVerifier names(found);
  for (Handler& handler : program.handlers) {
    names.check(handler, nullptr);
    verified.push_back({.handler = std::move(handler)});
    HandlerVerifier(verified.back(), found, nullptr).run();
  }
  if (found.empty()) return VerifiedProgram(std::move(verified));
  Failure failure = found.first();
  if (diagnostics != nullptr) diagnostics->merge(std::move(found));
  return failure;
}

void verify_recovered(Program program, const std::vector<Recovered>& recovered,
                      Diagnostics& diagnostics) {
  Diagnostics found;
  ProgramVerifier names(found);
  for (std::size_t i = 0; i < program.handlers.size(); ++i) {
    names.check(program.handlers[i], &recovered[i]);
    if (recovered[i].has_lost_blocks) continue;
    VerifiedHandler handler{.handler = std::move(program.handlers[i])};
    HandlerVerifier(handler, found, &recovered[i]).run();
  }
  diagnostics.merge(std::move(found));
}

}  // namespace everkernel::ir
