// One walk over each handler, in the order of the text: structure and names here, types by
// type_rules.hpp, `pure` and `commutes` by effect_rules.hpp. Every node is visited at most once, so
// that the walk ends for any program, however it was built.
#include "everkernel/ir/verifier.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <utility>

#include "everkernel/abi/fault.hpp"
#include "everkernel/abi/opcode.hpp"
#include "everkernel/ir/detail/vocabulary_tables.hpp"
#include "everkernel/ir/limits.hpp"
#include "everkernel/ir/printer.hpp"
#include "ir/definitions.hpp"
#include "ir/effect_rules.hpp"
#include "ir/foreign_words.hpp"
#include "ir/recovery.hpp"
#include "ir/reporter.hpp"
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

// What a body belongs to.
enum class BodyKind : std::uint8_t {
  handler,   // as it was written
  lowered,   // as it runs: without constants and calls of the program's functions
  function,  // sees no item
  constant,  // sees constants only
};

class HandlerVerifier {
 public:
  // `recovered` says what is missing of a handler whose text has mistakes; else null.
  HandlerVerifier(VerifiedHandler& result, Diagnostics& diagnostics, const Definitions& definitions,
                  const Recovered* recovered, BodyKind kind = BodyKind::handler)
      : result_(result),
        handler_(result.handler),
        body_(result.handler.body),
        wrong_(diagnostics, handler_.name),
        definitions_(definitions),
        recovered_(recovered),
        kind_(kind),
        effects_(result.handler, result.effects, wrong_) {}

  // A handler.
  void run();
  // A function whose body the handler holds.
  void run_function(const UserFunction& function);
  // A constant whose body the handler holds; its type.
  Type run_constant(const Constant& constant);

 private:
  bool check_sizes() const;
  void check_text_size() const;
  bool prepare();

  // Structure: indices inside their arrays, one parent for each node. False from the first node on
  // that breaks this: no other mistake of such a handler would mean anything.
  bool visit(ExprId id);
  bool visit(StmtId id);
  bool visit(BlockId id);

  // Names.
  bool use(NameId name, Location location);
  std::optional<LocalId> declare(NameId name, Type type, bool is_variable, Location location);
  std::optional<LocalId> resolve(NameId name, Location location);
  const KnownConstant* find_constant(NameId name) const;
  void tell_unknown(NameId name, Location location);
  bool refuse_outside_handlers(const Expr& expr);

  // Statements.
  void check_block(BlockId id);
  void check_statement(StmtId id);
  void check_declaration(StmtId id, const Stmt& stmt);
  void check_assignment(StmtId id, const Stmt& stmt);
  void check_assigned(const Stmt& stmt, ExprId value, Type place, std::string_view role);
  void check_arg_store(const Stmt& stmt);
  void check_store(const Stmt& stmt);
  void check_array(StmtId id, const Stmt& stmt);
  std::optional<std::uint32_t> array_length(const Stmt& stmt);
  void check_element_store(StmtId id, const Stmt& stmt);
  std::optional<LocalId> resolve_array(NameId name, Location location);
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
  Type check_user_call(const Expr& expr);
  void tell_unknown_function(const Expr& expr);
  Type check_bind(ExprId id, const Expr& expr);
  Type check_atomic(const Expr& expr, bool result_is_used);
  void check_buffer(const BufferRef& buffer);
  std::size_t text_depth(const Expr& expr) const;

  bool is_in_each() const { return std::ranges::find(loops_, LoopKind::each) != loops_.end(); }

  VerifiedHandler& result_;
  const Handler& handler_;
  const Body& body_;
  Reporter wrong_;
  const Definitions& definitions_;
  const Recovered* recovered_;
  const BodyKind kind_;
  EffectRules effects_;
  std::vector<std::size_t> text_depths_;  // by ExprId
  std::size_t instruction_count_ = 0;     // of the printed text
  std::size_t name_bytes_ = 0;            // of all uses of names so far
  std::vector<bool> seen_exprs_, seen_stmts_, seen_blocks_;
  std::vector<std::optional<LocalId>> bindings_;  // by NameId: the variable it means here
  std::vector<bool> is_told_unknown_;             // by NameId: each is reported once
  std::vector<bool> is_outside_each_;             // by LocalId
  std::vector<LoopKind> loops_;
  std::size_t array_words_ = 0, array_words_in_each_ = 0;
  std::size_t nesting_ = 0;
  std::size_t depth_ = 0;  // of expressions inside each other
  bool is_tree_ = true;    // every node so far exists once; else nothing more is read
  bool is_full_ = false;   // too many variables or bytes of names were reported
};

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
  if (!prepare()) return;
  check_block(body_.root);
  const bool is_written = recovered_ == nullptr && kind_ == BodyKind::handler;
  if (wrong_.count() != mistakes) return;
  if (is_written) check_text_size();
  if (kind_ == BodyKind::lowered && instruction_count_ > kMaxInstructions) {
    too_many_instructions(wrong_, handler_.location, instruction_count_);
  }
}

// Before the walk over the nodes.
bool HandlerVerifier::prepare() {
  if (std::set<std::string_view>(body_.names.begin(), body_.names.end()).size() !=
      body_.names.size()) {
    wrong_(Rule::malformed_tree, handler_.location, "the table of names holds a name twice");
    return false;
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
  return true;
}

// ---- functions and constants ----

void HandlerVerifier::run_function(const UserFunction& function) {
  if ((recovered_ == nullptr && !check_sizes()) || !prepare()) return;
  const auto is_wrong = [&](Type type) {
    return type > Type::boolean || (type == Type::none && recovered_ == nullptr);
  };
  if (is_wrong(function.result)) {
    return wrong_(Rule::malformed_tree, function.location, "the type of this function is unknown");
  }
  for (const Parameter& parameter : function.parameters) {
    if (is_wrong(parameter.type)) {
      return wrong_(Rule::malformed_tree, parameter.location,
                    "the type of this parameter is unknown");
    }
    const auto name = std::ranges::find(body_.names, parameter.name);
    if (name == body_.names.end()) {
      wrong_(Rule::malformed_tree, parameter.location, "a parameter is not among the names");
      return;
    }
    const NameId id{static_cast<std::uint32_t>(name - body_.names.begin())};
    declare(id, parameter.type, /*is_variable=*/false, parameter.location);
  }
  if (!visit(body_.root)) return;
  for (const StmtId id : body_[body_.root].statements) {
    if (!visit(id)) return;
    if (body_[id].kind != StmtKind::let_value) {
      return wrong_(Rule::not_in_function, body_[id].location,
                    "a function consists of lets and one return",
                    "use select(c, a, b) to choose between values");
    }
    check_declaration(id, body_[id]);
  }
  check_is(function.value, function.result, fmt::format("what {} returns", function.name));
}

Type HandlerVerifier::run_constant(const Constant& constant) {
  if ((recovered_ == nullptr && !check_sizes()) || !prepare()) return Type::none;
  return check(constant.value);
}

// What only a handler can see.
bool HandlerVerifier::refuse_outside_handlers(const Expr& expr) {
  const bool is_of_item = expr.kind == ExprKind::element || expr.kind == ExprKind::builtin ||
                          expr.kind == ExprKind::arg || has_buffer(expr.kind) ||
                          (expr.kind == ExprKind::call && !gives_value(expr.function));
  const bool is_call = expr.kind == ExprKind::user_call;
  if (kind_ == BodyKind::function && is_of_item) {
    wrong_(Rule::not_in_function, expr.location,
           "a function sees only its parameters, constants and other functions",
           "pass what it needs as a parameter");
    return true;
  }
  if (kind_ == BodyKind::constant && (is_of_item || is_call)) {
    wrong_(Rule::not_in_function, expr.location,
           "a constant is made of literals and other constants", "compute other values with let");
    return true;
  }
  return false;
}

// ---- sizes ----

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
  } else if (definitions_.constants.contains(text) || definitions_.functions.contains(text)) {
    wrong_(Rule::repeated_name, location,
           fmt::format("'{}' is the name of a constant or function of this file", text),
           "choose another name");
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

// The constant that a name means; null if it means none.
const KnownConstant* HandlerVerifier::find_constant(NameId name) const {
  if (definitions_.constants.empty()) return nullptr;
  if (static_cast<std::size_t>(name) >= body_.names.size()) return nullptr;
  const auto found = definitions_.constants.find(body_[name]);
  const bool is_local = bindings_[static_cast<std::size_t>(name)].has_value();
  return found == definitions_.constants.end() || is_local ? nullptr : &found->second;
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
  for (const auto& [constant, value] : definitions_.constants) suggestion.offer(constant);
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
    case StmtKind::declare_array:
      return check_array(id, stmt);
    case StmtKind::store_element:
      return check_element_store(id, stmt);
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
  if (find_constant(stmt.name) != nullptr) {
    wrong_(Rule::not_assignable, stmt.location,
           fmt::format("'{}' is a constant and cannot be assigned", body_[stmt.name]), "use a var");
    check(stmt.operands[0]);
    return;
  }
  const auto local = resolve(stmt.name, stmt.location);
  if (!local) {
    check(stmt.operands[0]);
    return;
  }
  const auto index = static_cast<std::size_t>(*local);
  const Local variable = result_.locals[index];
  const std::string& name = body_[stmt.name];
  if (variable.array_words > 0) {
    wrong_(Rule::array_without_index, stmt.location, fmt::format("'{}' is an array", name),
           fmt::format("assign one word: {}[i] = value;", name));
    check(stmt.operands[0]);
    return;
  }
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

// ---- arrays ----

// The length of an array, a number or a constant; none if it is neither.
std::optional<std::uint32_t> HandlerVerifier::array_length(const Stmt& stmt) {
  if (!check_is(stmt.operands[0], Type::u32, "the length of an array")) return {};
  const Expr& length = body_[stmt.operands[0]];
  const KnownConstant* const constant =
      length.kind == ExprKind::name ? find_constant(length.name) : nullptr;
  if (length.kind != ExprKind::literal && constant == nullptr) {
    wrong_(Rule::array_length, length.location, "the length of an array is a number or a constant",
           "declare it with const");
    return {};
  }
  const std::uint32_t words = constant != nullptr ? constant->bits : length.bits;
  if (words >= 1 && words <= kMaxArrayWords) return words;
  wrong_(Rule::array_length, length.location,
         fmt::format("an array has 1 to {} words, not {}", kMaxArrayWords, words),
         "keep larger tables in a buffer");
  return {};
}

void HandlerVerifier::check_array(StmtId id, const Stmt& stmt) {
  const bool is_number = is_integer(stmt.element) || stmt.element == Type::f32;
  const bool is_lost = stmt.element == Type::none && recovered_ != nullptr;
  if (!is_number && !is_lost) {
    wrong_(Rule::type_mismatch, stmt.location, "the words of an array are u32, i32 or f32",
           "keep a bool as a u32 of 0 or 1");
  }
  const auto length = array_length(stmt);
  const auto local = declare(stmt.name, stmt.element, /*is_variable=*/true, stmt.location);
  if (!local) return;
  Local& array = result_.locals[static_cast<std::size_t>(*local)];
  array.array_words = length.value_or(1);
  array.first_word = static_cast<std::uint32_t>(array_words_);
  result_.stmt_locals[static_cast<std::size_t>(id)] = *local;
  const bool had_room = array_words_ <= kMaxArrayWords;
  const bool had_room_in_each = array_words_in_each_ <= kMaxArrayWordsInEach;
  array_words_ += array.array_words;
  if (is_in_each()) array_words_in_each_ += array.array_words;
  if (had_room && array_words_ > kMaxArrayWords) {
    wrong_(Rule::too_many_array_words, stmt.location,
           fmt::format("the arrays of the handler have more than {} words", kMaxArrayWords),
           "keep larger tables in a buffer");
  } else if (had_room_in_each && array_words_in_each_ > kMaxArrayWordsInEach) {
    wrong_(Rule::too_many_array_words, stmt.location,
           fmt::format("the arrays inside each have more than {} words", kMaxArrayWordsInEach),
           "each lane has a copy of them: declare read-only ones outside");
  }
}

// The array of that name.
std::optional<LocalId> HandlerVerifier::resolve_array(NameId name, Location location) {
  if (!use(name, location)) return {};
  const auto local = bindings_[static_cast<std::size_t>(name)];
  if (local && result_.locals[static_cast<std::size_t>(*local)].array_words > 0) return local;
  const bool may_be_lost = recovered_ != nullptr && recovered_->has_lost_names;
  const bool is_silent =
      local && result_.locals[static_cast<std::size_t>(*local)].type == Type::none;
  if (may_be_lost || is_silent) return {};
  const std::string_view text = body_[name];
  Suggestion suggestion(text);
  for (const std::string_view word : {"input", "output", "control", "args"}) suggestion.offer(word);
  for (std::size_t i = 0; i < bindings_.size(); ++i) {
    const bool is_array =
        bindings_[i] && result_.locals[static_cast<std::size_t>(*bindings_[i])].array_words > 0;
    if (is_array) suggestion.offer(body_.names[i]);
  }
  wrong_(Rule::not_a_buffer, location,
         fmt::format("'{}' is not a buffer or an array: only these and args have an index", text),
         suggestion.hint("buffers are input, output, control and buffer(handle)"));
  return {};
}

void HandlerVerifier::check_element_store(StmtId id, const Stmt& stmt) {
  const auto local = resolve_array(stmt.name, stmt.location);
  check_is(stmt.operands[0], Type::u32, "the index");
  if (!local) {
    check(stmt.operands[1]);
    return;
  }
  const auto index = static_cast<std::size_t>(*local);
  if (is_in_each() && is_outside_each_[index]) {
    wrong_(Rule::read_only_in_each, stmt.location,
           fmt::format("'{}' is read only inside each: all turns share it", body_[stmt.name]),
           "declare an array inside the each, or store to a buffer");
  }
  result_.stmt_locals[static_cast<std::size_t>(id)] = *local;
  const Type type = result_.locals[index].type;
  check_assigned(stmt, stmt.operands[1], type, fmt::format("a word of '{}'", body_[stmt.name]));
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
  if (kind_ == BodyKind::lowered) return;  // what a call has become, such as a literal
  const bool is_call = kind == ExprKind::call || kind == ExprKind::user_call;
  if (is_call || kind == ExprKind::atomic) return;
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
  // Behind a mistake some parts have not been looked at, and the text is refused anyway.
  if (wrong_.count() != 0 || recovered_ != nullptr) return type;
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
  if (expr.kind == ExprKind::user_call) {
    for (std::size_t i = 0; i < expr.operand_count; ++i) {
      deepest = std::max(deepest, 1 + depth(body_.arguments[expr.bits + i]));
    }
  }
  return deepest;
}

Type HandlerVerifier::check_kind(ExprId id, const Expr& expr, bool result_is_used) {
  if (refuse_outside_handlers(expr)) return Type::none;
  switch (expr.kind) {
    case ExprKind::literal:
      if (recovered_ != nullptr && is_unreadable(expr)) return Type::none;
      if (expr.type == Type::none || (expr.type == Type::boolean && expr.bits > 1)) {
        wrong_(Rule::malformed_tree, expr.location, "this literal has no value of its type");
        return Type::none;
      }
      return expr.type;
    case ExprKind::name: {
      if (const KnownConstant* const constant = find_constant(expr.name)) {
        return use(expr.name, expr.location) ? constant->type : Type::none;
      }
      const auto local = resolve(expr.name, expr.location);
      if (!local) return Type::none;
      result_.expr_locals[static_cast<std::size_t>(id)] = *local;
      const Local& found = result_.locals[static_cast<std::size_t>(*local)];
      if (found.array_words == 0) return found.type;
      wrong_(Rule::array_without_index, expr.location,
             fmt::format("'{}' is an array", body_[expr.name]),
             fmt::format("name one word: {}[i]", body_[expr.name]));
      return Type::none;
    }
    case ExprKind::element: {
      const auto local = resolve_array(expr.name, expr.location);
      check_is(expr.operands[0], Type::u32, "the index");
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
    case ExprKind::user_call:
      return check_user_call(expr);
    case ExprKind::bind:
      if (kind_ == BodyKind::lowered) return check_bind(id, expr);
      break;
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

Type HandlerVerifier::check_user_call(const Expr& expr) {
  if (!use(expr.name, expr.location)) return Type::none;
  if (expr.bits > body_.arguments.size() ||
      expr.operand_count > body_.arguments.size() - expr.bits) {
    wrong_(Rule::malformed_tree, expr.location, "the arguments of this call do not exist");
    return Type::none;
  }
  const std::span arguments = std::span(body_.arguments).subspan(expr.bits, expr.operand_count);
  const auto found = definitions_.functions.find(body_[expr.name]);
  const UserFunction* const function =
      found == definitions_.functions.end() ? nullptr : found->second;
  const bool is_known = function != nullptr && function->result != Type::none;
  const bool has_count = is_known && function->parameters.size() == arguments.size();
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (has_count) {
      check_is(arguments[i], function->parameters[i].type,
               fmt::format("'{}' of {}", function->parameters[i].name, function->name));
    } else {
      check(arguments[i]);
    }
  }
  if (function == nullptr) tell_unknown_function(expr);
  if (is_known && !has_count) {
    const std::size_t count = function->parameters.size();
    wrong_(Rule::argument_count, expr.location,
           fmt::format("{} takes {} value{}, this call has {}", function->name, count,
                       count == 1 ? "" : "s", arguments.size()),
           arguments.size() < count ? "add what is missing" : "remove what is too many");
  }
  return has_count ? function->result : Type::none;
}

void HandlerVerifier::tell_unknown_function(const Expr& expr) {
  const std::string_view name = body_[expr.name];
  Suggestion suggestion(name);
  for (const auto& [known, function] : definitions_.functions) suggestion.offer(known);
  for (const FunctionInfo& row : kFunctions) suggestion.offer(row.name);
  for (const AtomicOpInfo& row : kAtomicOps) suggestion.offer(row.name);
  for (const std::string_view word : {"len", "buffer"}) suggestion.offer(word);
  const std::string_view ours = foreign_word(name);
  wrong_(Rule::unknown_function, expr.location, fmt::format("'{}' is not a function", name),
         ours.empty() || !suggestion.best().empty()
             ? suggestion.hint("declare it with fn; docs/handlers.md lists those of the language")
             : fmt::format("did you mean `{}`?", ours));
}

// The name is in sight in operand 1 only.
Type HandlerVerifier::check_bind(ExprId id, const Expr& expr) {
  const Type type = check(expr.operands[0]);
  const auto index = static_cast<std::size_t>(expr.name);
  if (result_.locals.size() == kMaxLocals) {
    if (!std::exchange(is_full_, true)) {
      wrong_(Rule::too_many_variables, expr.location,
             fmt::format("with its functions the handler has more than {} variables", kMaxLocals),
             "split it into several handlers");
    }
    return Type::none;
  }
  const LocalId local{static_cast<std::uint32_t>(result_.locals.size())};
  result_.locals.push_back({.name = expr.name, .type = type, .is_variable = false});
  is_outside_each_.push_back(!is_in_each());
  result_.expr_locals[static_cast<std::size_t>(id)] = local;
  // An argument of a call may hold another call of the same function.
  const auto outer = std::exchange(bindings_[index], local);
  const Type value = check(expr.operands[1]);
  bindings_[index] = outer;
  return value;
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

// The names and opcodes of a program, its constants and its functions.
class ProgramVerifier {
 public:
  // `recovered` is null unless the text has mistakes.
  ProgramVerifier(const Program& program, Diagnostics& diagnostics, const Recovered* recovered)
      : program_(program), diagnostics_(diagnostics), recovered_(recovered) {}

  // The constants and functions. Handlers come behind them.
  Definitions definitions();
  void check(const Handler& handler, const Recovered* recovered);

 private:
  bool check_name(const std::string& name, Location location, std::string_view of_what);
  void check_constants();
  void check_constant(const Constant& constant);
  void check_functions();
  void tell_cycles(const ReferenceOrder& order, const auto& things);
  VerifiedHandler holder(const std::string& name, Location location, const Body& body,
                         std::size_t text_bytes) const {
    return {.handler = {.name = name,
                        .is_payload = true,
                        .text_bytes = std::max<std::size_t>(text_bytes, 1),
                        .location = location,
                        .body = body}};
  }

  const Program& program_;
  Diagnostics& diagnostics_;
  const Recovered* recovered_;
  Definitions definitions_;
  std::set<std::uint32_t> opcodes_;
  std::set<std::string, std::less<>> names_, handler_names_;
  bool has_payload_ = false;
};

// Whether something may be declared under that name.
bool ProgramVerifier::check_name(const std::string& name, Location location,
                                 std::string_view of_what) {
  const Reporter wrong(diagnostics_, name);
  if (recovered_ != nullptr && name.empty()) return false;  // the parser has reported it
  if (!is_word(name)) {
    wrong(Rule::bad_name, location, fmt::format("'{}' cannot be a name", name),
          "names are letters, digits and _");
  } else if (is_reserved_word(name) || (of_what == "function" && find_function(name))) {
    wrong(Rule::reserved_name, location,
          fmt::format("'{}' cannot be a name: the language uses it", name), "choose another name");
  } else if (!names_.insert(name).second) {
    const bool are_handlers = of_what == "handler" && handler_names_.contains(name);
    wrong(Rule::repeated_name, location,
          are_handlers ? fmt::format("another handler has the name '{}'", name)
                       : fmt::format("'{}' is declared already in this file", name),
          "choose another name");
  } else {
    return true;
  }
  return false;
}

Definitions ProgramVerifier::definitions() {
  for (const Constant& constant : program_.constants) {
    if (check_name(constant.name, constant.location, "constant")) {
      definitions_.constants.emplace(constant.name, KnownConstant{});
    }
  }
  for (const UserFunction& function : program_.functions) {
    if (check_name(function.name, function.location, "function")) {
      definitions_.functions.emplace(function.name, &function);
    }
  }
  check_constants();
  check_functions();
  return definitions_;
}

// A cycle is an error at its first member in the text; it names all of them.
void ProgramVerifier::tell_cycles(const ReferenceOrder& order, const auto& things) {
  for (const auto& cycle : order.cycles) {
    const auto first = std::ranges::min_element(cycle);
    std::vector<std::size_t> path(first, cycle.end());
    path.insert(path.end(), cycle.begin(), first);
    std::string text;
    for (const std::size_t i : path) text += things[i].name + " needs ";
    const auto& subject = things[*first];
    Reporter(diagnostics_, subject.name)(
        Rule::recursion, subject.location, fmt::format("recursion: {}{}", text, subject.name),
        "functions and constants cannot need themselves; use a loop in the handler");
  }
}

void ProgramVerifier::check_constants() {
  const auto& constants = program_.constants;
  std::map<std::string_view, std::size_t> index;
  for (std::size_t i = 0; i < constants.size(); ++i) index.emplace(constants[i].name, i);
  std::vector<std::vector<std::size_t>> references(constants.size());
  for (std::size_t i = 0; i < constants.size(); ++i) {
    for (const std::string& name : constants[i].body.names) {
      if (const auto found = index.find(name); found != index.end()) {
        references[i].push_back(found->second);
      }
    }
  }
  const ReferenceOrder order = order_of(references);
  tell_cycles(order, constants);
  for (const std::size_t i : order.sorted) check_constant(constants[i]);
}

void ProgramVerifier::check_constant(const Constant& constant) {
  VerifiedHandler held = holder(constant.name, constant.location, constant.body, 0);
  const std::size_t mistakes = diagnostics_.count();
  const Type type =
      HandlerVerifier(held, diagnostics_, definitions_, recovered_, BodyKind::constant)
          .run_constant(constant);
  const auto known = definitions_.constants.find(constant.name);
  if (type == Type::none || diagnostics_.count() != mistakes) return;
  if (known == definitions_.constants.end()) return;
  known->second = {type, constant_value(constant.body, constant.value, held.types, definitions_)};
}

void ProgramVerifier::check_functions() {
  const auto& functions = program_.functions;
  std::map<std::string_view, std::size_t> index;
  for (std::size_t i = 0; i < functions.size(); ++i) index.emplace(functions[i].name, i);
  std::vector<std::vector<std::size_t>> references(functions.size());
  for (std::size_t i = 0; i < functions.size(); ++i) {
    const Body& body = functions[i].body;
    std::set<std::size_t> called;
    for (const Expr& expr : body.exprs) {
      if (expr.kind != ExprKind::user_call) continue;
      if (static_cast<std::size_t>(expr.name) >= body.names.size()) continue;
      if (const auto found = index.find(body[expr.name]); found != index.end()) {
        called.insert(found->second);
      }
    }
    references[i].assign(called.begin(), called.end());
    VerifiedHandler held =
        holder(functions[i].name, functions[i].location, body, functions[i].text_bytes);
    HandlerVerifier(held, diagnostics_, definitions_, recovered_, BodyKind::function)
        .run_function(functions[i]);
  }
  tell_cycles(order_of(references), functions);
}

void ProgramVerifier::check(const Handler& handler, const Recovered* recovered) {
  const Reporter wrong(diagnostics_, handler.name);
  const Location location = handler.location;
  if (handler.is_payload) {
    if (std::exchange(has_payload_, true)) {
      wrong(Rule::repeated_payload, location, "a file has at most one payload",
            "join both into one");
    }
    return;
  }
  check_name(handler.name, location, "handler");
  handler_names_.insert(handler.name);
  if (recovered != nullptr && !recovered->has_opcode) return;
  if (!opcodes_.insert(handler.opcode).second) {
    wrong(Rule::repeated_opcode, location,
          fmt::format("another handler has opcode {}", handler.opcode),
          "give every handler an opcode of its own");
  }
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

Program VerifiedProgram::source() const {
  if (source_ != nullptr) return *source_;
  Program program;
  for (const VerifiedHandler& handler : *handlers_) program.handlers.push_back(handler.handler);
  return program;
}

namespace {

// Whether the program is small enough to be looked at.
bool check_count(const Program& program, Diagnostics& diagnostics) {
  const auto check = [&](const auto& things, std::string_view what) {
    if (things.size() <= kMaxHandlers) return true;
    const auto& first = things[kMaxHandlers];
    Reporter(diagnostics, first.name)(
        Rule::too_many_handlers, first.location,
        fmt::format("the program has {} {}, more than {}", things.size(), what, kMaxHandlers),
        "split it into several programs");
    return false;
  };
  return check(program.handlers, "handlers") && check(program.constants, "constants") &&
         check(program.functions, "functions");
}

// The handlers of a verified program without constants and calls of its functions.
void lower(std::vector<VerifiedHandler>& handlers, const Definitions& definitions,
           Diagnostics& diagnostics) {
  for (VerifiedHandler& verified : handlers) {
    if (!needs_lowering(verified.handler.body, definitions)) continue;
    Handler handler = std::move(verified.handler);
    handler.body = lowered(handler.body, definitions);
    verified = {.handler = std::move(handler)};
    HandlerVerifier(verified, diagnostics, definitions, nullptr, BodyKind::lowered).run();
  }
}

}  // namespace

Result<VerifiedProgram> verify(Program program, Diagnostics* diagnostics) {
  Diagnostics found;
  std::vector<VerifiedHandler> verified;
  std::shared_ptr<const Program> source;
  if (check_count(program, found)) {
    if (!program.constants.empty() || !program.functions.empty()) {
      source = std::make_shared<const Program>(program);
    }
    verified.reserve(program.handlers.size());
    ProgramVerifier whole(program, found, nullptr);
    const Definitions definitions = whole.definitions();
    for (Handler& handler : program.handlers) {
      whole.check(handler, nullptr);
      verified.push_back({.handler = std::move(handler)});
      HandlerVerifier(verified.back(), found, definitions, nullptr).run();
    }
    if (found.empty() && source != nullptr) lower(verified, definitions, found);
  }
  if (found.empty()) return VerifiedProgram(std::move(verified), std::move(source));
  Failure failure = found.first();
  if (diagnostics != nullptr) diagnostics->merge(std::move(found));
  return failure;
}

void verify_recovered(Program program, const std::vector<Recovered>& handlers,
                      const Recovered& definitions_state, Diagnostics& diagnostics) {
  Diagnostics found;
  ProgramVerifier whole(program, found, &definitions_state);
  const Definitions definitions = whole.definitions();
  for (std::size_t i = 0; i < program.handlers.size(); ++i) {
    whole.check(program.handlers[i], &handlers[i]);
    if (handlers[i].has_lost_blocks) continue;
    Recovered state = handlers[i];
    state.has_lost_names |= definitions_state.has_lost_names;
    VerifiedHandler handler{.handler = program.handlers[i]};
    HandlerVerifier(handler, found, definitions, &state).run();
  }
  diagnostics.merge(std::move(found));
}

}  // namespace everkernel::ir
