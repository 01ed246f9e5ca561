// One function template a handler, over the lanes that run it (device/item.cuh).
//
// Every operation is a statement with a name for its value: the order of evaluation is the order of
// the text, and no expression is deep. Outside `each` all lanes of a warp or group run the same
// statements on equal values: what reads memory is done by the leader and told to the others, what
// changes anything is done by the leader alone. Inside, a lane runs its turns by itself.
#include "everkernel/jit/cuda_source.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "everkernel/abi/fault.hpp"
#include "everkernel/abi/slot.hpp"
#include "jit/cuda_values.hpp"

namespace everkernel::jit {
namespace {

using namespace ir;
using abi::FaultCode;
using abi::Word;

/// Buffers that are looked up before the body runs; a handler that names more pays at each use.
constexpr std::size_t kMaxBuffersAtEntry = 8;

/// A turn of an each up to this many instructions is worth running several times in a row, with the
/// words it begins with fetched for all of them at once.
constexpr std::size_t kMaxAheadInstructions = 64;
/// Words of a turn that are fetched ahead.
constexpr std::size_t kMaxAheadLoads = 4;

/// What an access to a buffer needs; the bits of memory::Access.
enum class Need : Word { read = 1, write = 2, update = 3 };

/// A handle that is known before the body runs, until the arg that holds it is assigned.
struct EntryHandle {
  enum class Kind : std::uint8_t { literal, arg } kind;
  Word value;  // the handle, or which arg holds it
  friend constexpr auto operator<=>(const EntryHandle&, const EntryHandle&) = default;
};

/// What a block does, as far as it decides how an `each` around it is emitted.
struct BlockFacts {
  bool has_loop = false;
  bool uses_lane = false;
  std::size_t instructions = 0;
  std::set<LocalId> declared = {};
  std::optional<AtomicOp> output_atomic = {};  // the last one on output
  std::vector<ExprId> loads = {};
};

/// A loop around the statement that is being emitted.
struct Loop {
  StmtKind kind;
  std::size_t number = 0;
  bool pays_ahead = false;  // has paid for turns that it may not run
};

/// An each while its turns are emitted.
struct Each {
  std::size_t number;
  LocalId counter = {};
  bool has_tile = false;                     // its updates of output go through a tile
  bool gathers = false;                      // a turn makes one such update, at its end
  std::map<ExprId, std::size_t> ahead = {};  // loads whose words are fetched for several turns
  std::set<LocalId> declared = {};           // in its body
  bool is_quick = false;                     // while turns are emitted that have their words
  bool has_effect = false;                   // whether the turn so far may have changed anything
};

// ---- walking ----

/// Whether a statement gives a name a value and does nothing else.
bool is_computation(StmtKind kind) {
  return kind == StmtKind::let_value || kind == StmtKind::let_variable ||
         kind == StmtKind::assign_name;
}

/// Calls `visit` for each expression below, parts first, as they are evaluated.
template <class Visit>
void for_each_expr(const Body& body, ExprId id, const Visit& visit) {
  const Expr& expr = body[id];
  const bool has_buffer =
      expr.kind == ExprKind::load || expr.kind == ExprKind::atomic || expr.kind == ExprKind::length;
  if (has_buffer && expr.buffer.kind == BufferKind::handle) {
    for_each_expr(body, expr.buffer.handle, visit);
  }
  for (std::size_t i = 0; i < expr.operand_count; ++i) for_each_expr(body, expr.operands[i], visit);
  visit(id);
}

/// Expressions a statement itself evaluates, blocks inside it apart.
std::size_t operand_count(StmtKind kind) {
  switch (kind) {
    case StmtKind::let_value:
    case StmtKind::let_variable:
    case StmtKind::assign_name:
    case StmtKind::branch:
    case StmtKind::while_loop:
    case StmtKind::fault:
    case StmtKind::evaluate:
      return 1;
    case StmtKind::assign_arg:
    case StmtKind::store:
    case StmtKind::for_loop:
    case StmtKind::each_loop:
      return 2;
    case StmtKind::await_read:
    case StmtKind::await_write:
      return 4;
    case StmtKind::break_loop:
    case StmtKind::continue_loop:
    case StmtKind::finish:
    case StmtKind::yield:
    case StmtKind::requeue:
      return 0;
  }
  return 0;
}

bool is_loop(StmtKind kind) {
  return kind == StmtKind::for_loop || kind == StmtKind::each_loop || kind == StmtKind::while_loop;
}

/// Calls `visit_stmt` for each statement of a block and the blocks inside it, `visit_expr` for each
/// expression.
template <class VisitStmt, class VisitExpr>
void for_each_node(const Body& body, BlockId id, const VisitStmt& visit_stmt,
                   const VisitExpr& visit_expr) {
  for (const StmtId stmt_id : body[id].statements) {
    const Stmt& stmt = body[stmt_id];
    visit_stmt(stmt_id);
    if (stmt.kind == StmtKind::store && stmt.buffer.kind == BufferKind::handle) {
      for_each_expr(body, stmt.buffer.handle, visit_expr);
    }
    for (std::size_t i = 0; i < operand_count(stmt.kind); ++i) {
      for_each_expr(body, stmt.operands[i], visit_expr);
    }
    if (is_loop(stmt.kind) || stmt.kind == StmtKind::branch) {
      for_each_node(body, stmt.body, visit_stmt, visit_expr);
    }
    if (stmt.kind == StmtKind::branch && stmt.otherwise) {
      for_each_node(body, *stmt.otherwise, visit_stmt, visit_expr);
    }
  }
}

// ---- one handler ----

class HandlerCodegen {
 public:
  HandlerCodegen(const VerifiedHandler& verified, std::size_t index, const CudaOptions& options)
      : verified_(verified),
        body_(verified.handler.body),
        index_(index),
        has_shared_buffers_(options.memory == MemoryUse::shared) {}

  std::string run();

 private:
  // Text.
  template <class... Parts>
  void line(fmt::format_string<Parts...> pattern, Parts&&... parts) {
    text_.append(2 * level_, ' ');
    fmt::format_to(std::back_inserter(text_), pattern, std::forward<Parts>(parts)...);
    text_ += '\n';
  }
  template <class... Parts>
  void open(fmt::format_string<Parts...> pattern, Parts&&... parts) {
    line(pattern, std::forward<Parts>(parts)...);
    ++level_;
  }
  void close(std::string_view end = "}") {
    --level_;
    line("{}", end);
  }
  std::string fresh() { return fmt::format("t{}", next_temporary_++); }
  std::string named(Type type, const std::string& value);
  std::string name(LocalId id) const { return fmt::format("v{}", static_cast<Word>(id)); }

  // Endings.
  std::string turn_end() const {
    return fmt::format("next_{}{}", each_.number, each_.is_quick ? "_quick" : "");
  }
  std::string fault(std::string_view code);
  std::string fault(FaultCode code) { return fault(fmt::format("{}u", static_cast<Word>(code))); }

  // Statements.
  void emit(BlockId id);
  void emit(StmtId id);
  void emit_let(StmtId id, const Stmt& stmt);
  void emit_assign_arg(const Stmt& stmt);
  void emit_store(const Stmt& stmt);
  void emit_branch(const Stmt& stmt);
  void emit_refund();
  void emit_end(std::string_view ending);
  void emit_break();
  void emit_continue();
  void emit_await(const Stmt& stmt);

  // Loops.
  void emit_while(const Stmt& stmt);
  void emit_for(StmtId id, const Stmt& stmt);
  void emit_each(StmtId id, const Stmt& stmt);
  void emit_turns(const Stmt& stmt, std::string_view first, const BlockFacts& facts);
  void emit_turn(const Stmt& stmt, std::string_view first, const BlockFacts& facts);
  void emit_quick_turns(const Stmt& stmt, std::string_view first, const BlockFacts& facts);
  void emit_counter(LocalId counter, std::string_view value);
  std::optional<std::string> tile_condition(const BlockFacts& facts);
  bool ends_with_its_update(const Stmt& stmt) const;
  void find_ahead_loads(const Stmt& stmt, const BlockFacts& facts);
  bool can_load_ahead(const Expr& load) const;
  void emit_ahead_loads();
  void emit_chunks(StmtId id, const Stmt& stmt, std::string_view first, std::size_t number);
  void emit_spend_turn();
  void emit_fault_code(const std::string& call);
  BlockFacts facts_of(BlockId id) const;
  std::string_view turns_function(const Stmt& stmt) const {
    return verified_.type(stmt.operands[0]) == Type::i32 ? "turns_i32" : "turns_u32";
  }

  // Buffers.
  void gather_handles();
  void emit_entry_buffers();
  void emit_moved_buffers(std::optional<Word> arg);
  std::optional<EntryHandle> entry_handle(ExprId id) const;
  std::string find_buffer(std::string_view handle);
  std::string resolve(const BufferRef& buffer);
  std::optional<std::string> known_buffer(const BufferRef& buffer) const;
  std::optional<std::string> buffer_before_turns(const BufferRef& buffer) const;
  // Of an each that has a tile.
  std::string output_buffer() const { return *known_buffer({.kind = BufferKind::output}); }
  void check(const std::string& buffer, std::string_view index, Need need);
  void check_control(std::string_view index, bool writes);

  // Expressions.
  std::string emit(ExprId id);
  std::string emit_given(Builtin builtin) const;
  std::string emit_arg(const Expr& expr);
  std::string emit_load(ExprId id, const Expr& expr);
  std::string emit_length(const Expr& expr);
  std::string emit_logical(const Expr& expr);
  std::string emit_function(const Expr& expr);
  std::string emit_atomic(const Expr& expr, bool has_result);
  bool is_plain(ExprId id) const;
  bool is_computed_word(ExprId id) const {
    const ExprKind kind = body_[id].kind;
    return verified_.type(id) != Type::f32 && kind != ExprKind::literal && kind != ExprKind::load;
  }
  std::optional<Word> constant_arg(ExprId index) const;

  bool is_in_turn() const { return is_in_turn_; }
  // Who acts: the leader outside each, every lane for itself inside.
  void emit_effect(const std::string& effect);
  std::string_view lanes() const { return is_in_turn() ? "OneLane{}" : "lanes"; }
  std::string_view fuel() const { return is_in_turn() ? "turn_fuel" : "fuel"; }

  const VerifiedHandler& verified_;
  const Body& body_;
  const std::size_t index_;
  const bool has_shared_buffers_;
  std::string text_;
  std::size_t level_ = 0;
  std::size_t next_temporary_ = 0;
  std::size_t next_loop_ = 0;
  std::size_t next_ahead_ = 0;
  std::vector<Loop> loops_;      // outermost first
  Each each_{0};                 // the last one
  bool is_in_turn_ = false;      // inside its body
  bool turn_is_left_ = false;    // whether something jumps to the end of the turn
  bool quick_is_left_ = false;   // whether something jumps from quick turns to careful ones
  bool loop_is_broken_ = false;  // whether something jumps behind the innermost loop
  std::map<EntryHandle, std::string> entry_buffers_;
  std::set<LocalId> handle_locals_;  // names of handles that do not change
};

std::string HandlerCodegen::run() {
  gather_handles();
  line("template <class Lanes>");
  open("EK_DEVICE Word body_{}(const Lanes& lanes, Item& item, Fuel& fuel) {{", index_);
  emit_entry_buffers();
  emit(body_.root);
  line("return outcome(Ending::done);");
  close();
  // Always inlined: an item behind a pointer would lie in memory.
  line("template <class Lanes>");
  open("EK_DEVICE Word handler_{}(const Lanes& lanes, Item& item) {{", index_);
  line("Fuel fuel = item.fuel;");
  line("const Word result = body_{}(lanes, item, fuel);", index_);
  line("item.fuel = fuel;");
  line("return result;");
  close();
  return std::move(text_);
}

std::string HandlerCodegen::named(Type type, const std::string& value) {
  std::string temporary = fresh();
  line("const {} {} = {};", cuda_type(type), temporary, value);
  return temporary;
}

// What stops the item, or inside each the turn. A quick turn that has changed nothing yet is run
// again by the careful ones, which find out what is wrong.
std::string HandlerCodegen::fault(std::string_view code) {
  if (!is_in_turn()) return fmt::format("return fault_outcome({});", code);
  if (each_.is_quick && !each_.has_effect) {
    quick_is_left_ = true;
    if (each_.gathers) return fmt::format("goto careful_{};", each_.number);
    return fmt::format("{{ u_{0} = q_{0}; goto careful_{0}; }}", each_.number);
  }
  turn_is_left_ = true;
  return fmt::format("{{ bad_{}.note(turn_{}, {}); goto {}; }}", each_.number, each_.number, code,
                     turn_end());
}

// ---- statements ----

void HandlerCodegen::emit(BlockId id) {
  for (const StmtId stmt : body_[id].statements) emit(stmt);
}

void HandlerCodegen::emit(StmtId id) {
  const Stmt& stmt = body_[id];
  switch (stmt.kind) {
    case StmtKind::let_value:
    case StmtKind::let_variable:
      return emit_let(id, stmt);
    case StmtKind::assign_name: {
      const std::string value = emit(stmt.operands[0]);
      each_.has_effect |= !each_.declared.contains(verified_.local(id));
      return line("{} = {};", name(verified_.local(id)),
                  cuda_assigned(verified_.type(stmt.operands[0]), value));
    }
    case StmtKind::assign_arg:
      return emit_assign_arg(stmt);
    case StmtKind::store:
      return emit_store(stmt);
    case StmtKind::branch:
      return emit_branch(stmt);
    case StmtKind::for_loop:
      return emit_for(id, stmt);
    case StmtKind::each_loop:
      return emit_each(id, stmt);
    case StmtKind::while_loop:
      return emit_while(stmt);
    case StmtKind::break_loop:
      return emit_break();
    case StmtKind::continue_loop:
      return emit_continue();
    case StmtKind::finish:
      return emit_end("done");
    case StmtKind::yield:
      return emit_end("yield");
    case StmtKind::requeue:
      return emit_end("requeue");
    case StmtKind::fault: {
      const std::string n = emit(stmt.operands[0]);
      return line("{}", fault(fmt::format("user_fault({})", n)));
    }
    case StmtKind::evaluate: {
      const Expr& expr = body_[stmt.operands[0]];
      if (expr.kind == ExprKind::atomic) {
        emit_atomic(expr, /*has_result=*/false);
      } else {
        emit(stmt.operands[0]);
      }
      return;
    }
    case StmtKind::await_read:
    case StmtKind::await_write:
      return emit_await(stmt);
  }
}

void HandlerCodegen::emit_let(StmtId id, const Stmt& stmt) {
  const LocalId local = verified_.local(id);
  const std::string value = emit(stmt.operands[0]);
  const Type type = verified_.type(stmt.operands[0]);
  const bool is_let = stmt.kind == StmtKind::let_value;
  if (is_let) {
    line("const {} {} = {};", cuda_type(type), name(local), value);
  } else {
    line("{} {} = {};", cuda_variable_type(type), name(local), cuda_assigned(type, value));
  }
  if (is_let && handle_locals_.contains(local)) {
    line("const Buffer {}_buffer = {};", name(local), find_buffer(name(local)));
  }
}

// Lanes that had nothing to do wait for the leader: ptxas 13.0 lets them run ahead, past the next
// thing that only the leader does, and then takes them for one with it all the same.
void HandlerCodegen::emit_effect(const std::string& effect) {
  if (is_in_turn()) return line("{};", effect);
  line("if (lanes.leads()) {};", effect);
  line("lanes.converge();");
}

void HandlerCodegen::emit_assign_arg(const Stmt& stmt) {
  each_.has_effect = true;
  if (const auto index = constant_arg(stmt.operands[0])) {
    const std::string value = emit(stmt.operands[1]);
    line("item.args[{}] = opaque({});", *index, value);
    return emit_moved_buffers(index);
  }
  const std::string index = emit(stmt.operands[0]);
  const std::string value = emit(stmt.operands[1]);
  line("if ({} >= abi::kSlotArgs) {}", index, fault(FaultCode::index_out_of_range));
  line("store_arg(item, {}, opaque({}));", index, value);
  emit_moved_buffers(std::nullopt);
}

void HandlerCodegen::emit_store(const Stmt& stmt) {
  if (stmt.buffer.kind == BufferKind::control) {
    const std::string index = emit(stmt.operands[0]);
    const std::string value = emit(stmt.operands[1]);
    check_control(index, /*writes=*/true);
    each_.has_effect = true;
    return emit_effect(fmt::format("item.control.store_relaxed({}, {})", index, value));
  }
  const std::string buffer = resolve(stmt.buffer);
  const std::string index = emit(stmt.operands[0]);
  const std::string value = emit(stmt.operands[1]);
  check(buffer, index, Need::write);
  each_.has_effect = true;
  emit_effect(fmt::format("{}({}, {}, {})", has_shared_buffers_ ? "store_shared" : "store_owned",
                          buffer, index, value));
}

void HandlerCodegen::emit_branch(const Stmt& stmt) {
  const std::string condition = emit(stmt.operands[0]);
  open("if ({}) {{", condition);
  emit(stmt.body);
  if (stmt.otherwise) {
    --level_;
    open("}} else {{");
    emit(*stmt.otherwise);
  }
  close();
}

// The fuel of turns that were paid for and, since the loop is left, do not run. After a fault fuel
// means nothing.
void HandlerCodegen::emit_refund() {
  if (loops_.empty() || !loops_.back().pays_ahead) return;
  line("{0} += some_{1} - 1 - k_{1};", fuel(), loops_.back().number);
}

void HandlerCodegen::emit_end(std::string_view ending) {
  emit_refund();
  line("return outcome(Ending::{});", ending);
}

void HandlerCodegen::emit_break() {
  if (!loops_.back().pays_ahead) return line("break;");
  emit_refund();
  loop_is_broken_ = true;
  line("goto broken_{};", loops_.back().number);
}

void HandlerCodegen::emit_continue() {
  if (loops_.back().kind != StmtKind::each_loop) return line("continue;");
  turn_is_left_ = true;
  line("goto {};", turn_end());
}

void HandlerCodegen::emit_await(const Stmt& stmt) {
  constexpr std::string_view kFields[] = {"source", "block", "destination", "byte_count"};
  line("item.io.is_write = {}u;", stmt.kind == StmtKind::await_write ? 1 : 0);
  for (std::size_t i = 0; i < 4; ++i) {
    const std::string value = emit(stmt.operands[i]);
    line("item.io.{} = {};", kFields[i], value);
  }
  emit_end("wait_io");
}

// ---- loops ----

BlockFacts HandlerCodegen::facts_of(BlockId id) const {
  BlockFacts facts;
  for_each_node(
      body_, id,
      [&](StmtId stmt) {
        const StmtKind kind = body_[stmt].kind;
        ++facts.instructions;
        facts.has_loop |= is_loop(kind);
        const bool declares =
            is_loop(kind) || kind == StmtKind::let_value || kind == StmtKind::let_variable;
        if (declares && kind != StmtKind::while_loop) facts.declared.insert(verified_.local(stmt));
      },
      [&](ExprId part) {
        const Expr& expr = body_[part];
        ++facts.instructions;
        facts.uses_lane |= expr.kind == ExprKind::builtin && expr.builtin == Builtin::lane;
        if (expr.kind == ExprKind::load) facts.loads.push_back(part);
        if (expr.kind == ExprKind::atomic && expr.buffer.kind == BufferKind::output) {
          facts.output_atomic = expr.atomic;
        }
      });
  return facts;
}

// A call that gives the code of a fault, or 0.
void HandlerCodegen::emit_fault_code(const std::string& call) {
  const std::string code = named(Type::u32, call);
  line("if ({} != 0) {}", code, fault(code));
}

void HandlerCodegen::emit_spend_turn() {
  emit_fault_code(fmt::format("spend_turn({}, item, {})", lanes(), fuel()));
}

// An abort is seen in the first turn of the outermost loop, and then now and then as fuel is spent.
void HandlerCodegen::emit_while(const Stmt& stmt) {
  const bool is_outermost = loops_.empty();
  const std::size_t number = next_loop_++;
  if (is_outermost) line("const Fuel start_{} = fuel;", number);
  open("for (;;) {{");
  const std::string condition = emit(stmt.operands[0]);
  line("if (!{}) break;", condition);
  if (is_outermost) {
    line("if (fuel == start_{} && is_aborted(lanes, item)) {}", number, fault(FaultCode::deadline));
  }
  emit_spend_turn();
  loops_.push_back({stmt.kind});
  emit(stmt.body);
  loops_.pop_back();
  close();
}

void HandlerCodegen::emit_for(StmtId id, const Stmt& stmt) {
  const std::size_t number = next_loop_++;
  const std::string first = named(Type::u32, emit(stmt.operands[0]));
  const std::string last = emit(stmt.operands[1]);
  line("const Word turns_{} = {}({}, {});", number, turns_function(stmt), first, last);
  if (loops_.empty()) {
    line("if (turns_{} != 0 && is_aborted(lanes, item)) {}", number, fault(FaultCode::deadline));
  }
  if (!facts_of(stmt.body).has_loop) return emit_chunks(id, stmt, first, number);
  open("for (Word turn_{0} = 0; turn_{0} < turns_{0}; ++turn_{0}) {{", number);
  emit_spend_turn();
  emit_counter(verified_.local(id), fmt::format("{} + turn_{}", first, number));
  loops_.push_back({stmt.kind});
  emit(stmt.body);
  loops_.pop_back();
  close();
}

// An innermost loop pays for as many turns as there are to the next look at the abort word. With
// loops inside it cannot: when their fuel runs out is visible.
void HandlerCodegen::emit_chunks(StmtId id, const Stmt& stmt, std::string_view first,
                                 std::size_t number) {
  const bool outer_is_broken = loop_is_broken_;
  loop_is_broken_ = false;
  open("for (Word done_{0} = 0; done_{0} < turns_{0};) {{", number);
  line("Word some_{0} = turns_{0} - done_{0};", number);
  emit_fault_code(fmt::format("spend_turns({}, item, {}, some_{})", lanes(), fuel(), number));
  open("for (Word k_{0} = 0; k_{0} < some_{0}; ++k_{0}) {{", number);
  emit_counter(verified_.local(id), fmt::format("{} + done_{} + k_{}", first, number, number));
  loops_.push_back({.kind = stmt.kind, .number = number, .pays_ahead = true});
  emit(stmt.body);
  loops_.pop_back();
  close();
  line("done_{0} += some_{0};", number);
  close();
  if (loop_is_broken_) line("broken_{}:;", number);
  loop_is_broken_ = outer_is_broken;
}

void HandlerCodegen::emit_counter(LocalId counter, std::string_view value) {
  line("const Word {} = opaque({});", name(counter), value);
  if (handle_locals_.contains(counter)) {
    line("const Buffer {}_buffer = {};", name(counter), find_buffer(name(counter)));
  }
}

// Turns are charged before the first; each may then spend its share, and what they all spent is
// charged at the end. A turn that faults ends alone; the lowest one's code is the item's. Lanes
// meet at both ends, so that each sees what the others did.
void HandlerCodegen::emit_each(StmtId id, const Stmt& stmt) {
  const BlockFacts facts = facts_of(stmt.body);
  const std::size_t each = next_loop_++;
  const std::string first = named(Type::u32, emit(stmt.operands[0]));
  const std::string last = emit(stmt.operands[1]);
  line("const Word turns_{} = {}({}, {});", each, turns_function(stmt), first, last);
  open("if (turns_{} != 0) {{", each);
  line("if (is_aborted(lanes, item)) {}", fault(FaultCode::deadline));
  line("if (fuel < turns_{}) {}", each, fault(FaultCode::fuel_exhausted));
  line("fuel -= turns_{};", each);
  if (facts.has_loop) {
    line("const Fuel share_{0} = fuel / turns_{0};", each);
    line("Fuel spent_{} = 0;", each);
  }
  line("TurnFault bad_{};", each);
  each_ = {.number = each, .counter = verified_.local(id), .declared = facts.declared};
  if (const auto is_alone = tile_condition(facts)) {
    each_.has_tile = true;
    each_.gathers = ends_with_its_update(stmt);
    line("const Tile<Lanes, {0}> tile_{1}(lanes, {2}, turns_{1}, {3});",
         cuda_combine(*facts.output_atomic), each, output_buffer(), *is_alone);
  }
  line("lanes.meet();");
  emit_turns(stmt, first, facts);
  if (each_.has_tile) line("tile_{}.flush(lanes, {});", each, output_buffer());
  line("if (lanes.meet_any(bad_{0}.is_set())) return fault_outcome(lowest_fault(lanes, bad_{0}));",
       each);
  if (facts.has_loop) line("fuel -= lanes.total(spent_{});", each);
  close();
}

// When the updates of output may wait in a tile: they commute, and nothing that the turns read can
// be a word of output.
std::optional<std::string> HandlerCodegen::tile_condition(const BlockFacts& facts) {
  const Handler& handler = verified_.handler;
  const bool can_wait = handler.commutes && handler.scope != Scope::lane && facts.output_atomic &&
                        known_buffer({.kind = BufferKind::output});
  if (!can_wait) return std::nullopt;
  std::set<std::string> conditions;
  for (const ExprId id : facts.loads) {
    const BufferRef& buffer = body_[id].buffer;
    if (buffer.kind == BufferKind::control) continue;
    const auto known = buffer_before_turns(buffer);
    if (!known) return std::nullopt;
    conditions.insert(fmt::format("is_apart({}, {})", *known, output_buffer()));
  }
  return conditions.empty() ? "true" : fmt::format("{}", fmt::join(conditions, " && "));
}

// Whether all that a turn does before it updates output is to compute. Then several turns can
// compute, and be found to be inside, before the first of them changes anything.
bool HandlerCodegen::ends_with_its_update(const Stmt& stmt) const {
  const auto& statements = body_[stmt.body].statements;
  const auto computes = [&](ExprId root) {
    bool is_pure = true;
    for_each_expr(body_, root,
                  [&](ExprId part) { is_pure &= body_[part].kind != ExprKind::atomic; });
    return is_pure;
  };
  for (const StmtId id : std::span(statements).first(statements.size() - 1)) {
    const Stmt& inner = body_[id];
    const bool goes_on = is_computation(inner.kind) && each_.declared.contains(verified_.local(id));
    if (!goes_on || !computes(inner.operands[0])) return false;
  }
  const Stmt& last = body_[statements.back()];
  if (last.kind != StmtKind::evaluate) return false;
  const Expr& update = body_[last.operands[0]];
  return update.kind == ExprKind::atomic && update.buffer.kind == BufferKind::output &&
         computes(update.operands[0]) && computes(update.operands[1]);
}

// The turns of one lane: some for all lanes, a look at the abort word, the next ones.
void HandlerCodegen::emit_turns(const Stmt& stmt, std::string_view first, const BlockFacts& facts) {
  const std::size_t each = each_.number;
  find_ahead_loads(stmt, facts);
  line("const Word step_{} = lanes.count() * kPollEachTurns;", each);
  open("for (Word base_{} = 0;;) {{", each);
  line("const Word some_{0} = min_u32(turns_{0} - base_{0}, step_{0});", each);
  if (each_.ahead.empty()) {
    open("for (Word k_{0} = lanes.index(); k_{0} < some_{0}; k_{0} += lanes.count()) {{", each);
    emit_turn(stmt, first, facts);
    close();
  } else {
    open("for (Word j_{0} = lanes.index(); j_{0} < some_{0}; j_{0} += kAhead * lanes.count()) {{",
         each);
    line("Word u_{} = 0;", each);
    emit_quick_turns(stmt, first, facts);
    line("#pragma unroll 1");
    open("for (; u_{0} < kAhead; ++u_{0}) {{", each);
    line("const Word k_{0} = j_{0} + u_{0} * lanes.count();", each);
    line("if (k_{0} >= some_{0}) break;", each);
    emit_turn(stmt, first, facts);
    close();
    close();
  }
  line("if (turns_{0} - base_{0} <= step_{0}) break;", each);
  line("base_{0} += step_{0};", each);
  open("if (is_aborted(OneLane{{}}, item)) {{");
  line("bad_{0}.note(base_{0} + lanes.index(), {1}u);", each,
       static_cast<Word>(FaultCode::deadline));
  line("break;");
  close();
  close();
}

// As many turns in a row as words are fetched for, if there are so many and all their words are
// inside: nothing of that is looked at again. What they cannot do the careful ones do.
void HandlerCodegen::emit_quick_turns(const Stmt& stmt, std::string_view first,
                                      const BlockFacts& facts) {
  const std::size_t each = each_.number;
  quick_is_left_ = false;
  // One lane runs its turns in order.
  open("if ({1}some_{0} - j_{0} > (kAhead - 1) * lanes.count()) {{", each,
       each_.gathers ? "!Lanes::kKeepsOrder && " : "");
  line("const Word begin_{0} = {1} + base_{0} + j_{0};", each, first);
  emit_ahead_loads();
  if (each_.gathers) line("Word to_{0}[kAhead], by_{0}[kAhead];", each);
  line("#pragma unroll");
  open("for (Word q_{0} = 0; q_{0} < kAhead; ++q_{0}) {{", each);
  line("const Word k_{0} = j_{0} + q_{0} * lanes.count();", each);
  each_.is_quick = true;
  emit_turn(stmt, first, facts);
  each_.is_quick = false;
  close();
  if (each_.gathers) {
    open("if (are_inside({}.updatable, to_{})) {{", output_buffer(), each);
    line("tile_{0}.update({1}, to_{0}, by_{0});", each, output_buffer());
  }
  line("continue;");
  if (each_.gathers) close();
  close();
  close();
  if (quick_is_left_) line("careful_{}:;", each);
}

void HandlerCodegen::emit_turn(const Stmt& stmt, std::string_view first, const BlockFacts& facts) {
  const std::size_t each = each_.number;
  each_.has_effect = false;
  line("const Word turn_{0} = base_{0} + k_{0};", each);
  if (facts.has_loop) line("Fuel turn_fuel = share_{};", each);
  open("{{");
  if (facts.uses_lane) line("const Word lane_{0} = turn_{0} % item.lanes;", each);
  emit_counter(each_.counter, each_.is_quick
                                  ? fmt::format("begin_{0} + q_{0} * lanes.count()", each)
                                  : fmt::format("{} + turn_{}", first, each));
  is_in_turn_ = true;
  turn_is_left_ = false;
  loops_.push_back({stmt.kind});
  emit(stmt.body);
  loops_.pop_back();
  is_in_turn_ = false;
  close();
  if (turn_is_left_) line("{}:;", turn_end());
  if (facts.has_loop) line("spent_{0} += share_{0} - turn_fuel;", each);
}

// Loads that every turn makes before it changes anything, at an index that follows from its number.
// Turns are independent: a load may as well come before the turns in front of it. Memory is far;
// several words at once take as long as one.
void HandlerCodegen::find_ahead_loads(const Stmt& stmt, const BlockFacts& facts) {
  if (facts.has_loop || facts.instructions > kMaxAheadInstructions) return;
  bool has_effect = false;
  const auto scan = [&](ExprId root) {
    for_each_expr(body_, root, [&](ExprId part) {
      has_effect |= body_[part].kind == ExprKind::atomic;
      const bool is_load = body_[part].kind == ExprKind::load;
      if (!is_load || has_effect || each_.ahead.size() >= kMaxAheadLoads) return;
      if (can_load_ahead(body_[part])) each_.ahead.emplace(part, next_ahead_++);
    });
  };
  for (const StmtId inner_id : body_[stmt.body].statements) {
    const Stmt& inner = body_[inner_id];
    const bool is_store = inner.kind == StmtKind::store;
    if (is_store && inner.buffer.kind == BufferKind::handle) scan(inner.buffer.handle);
    for (std::size_t i = 0; i < operand_count(inner.kind); ++i) scan(inner.operands[i]);
    if (!is_computation(inner.kind) || has_effect) return;
  }
}

bool HandlerCodegen::can_load_ahead(const Expr& load) const {
  if (!buffer_before_turns(load.buffer) || !is_plain(load.operands[0])) return false;
  bool is_known = true;
  for_each_expr(body_, load.operands[0], [&](ExprId part) {
    const bool is_lane =
        body_[part].kind == ExprKind::builtin && body_[part].builtin == Builtin::lane;
    const bool is_inside =
        body_[part].kind == ExprKind::name && each_.declared.contains(verified_.local(part));
    is_known &= !is_lane && !is_inside;
  });
  return is_known;
}

// Opens the block of the turns whose words are there.
void HandlerCodegen::emit_ahead_loads() {
  const std::size_t each = each_.number;
  for (const auto& [load, number] : each_.ahead) line("Word at_{}[kAhead];", number);
  line("#pragma unroll");
  open("for (Word q_{0} = 0; q_{0} < kAhead; ++q_{0}) {{", each);
  line("const Word {0} = opaque(begin_{1} + q_{1} * lanes.count());", name(each_.counter), each);
  for (const auto& [load, number] : each_.ahead) {
    const std::string index = emit(body_[load].operands[0]);
    line("at_{}[q_{}] = {};", number, each, index);
  }
  close();
  std::vector<std::string> conditions;
  for (const auto& [load, number] : each_.ahead) {
    conditions.push_back(
        fmt::format("are_inside({}.readable, at_{})", *known_buffer(body_[load].buffer), number));
  }
  open("if ({}) {{", fmt::join(conditions, " && "));
  for (const auto& [load, number] : each_.ahead) {
    line("Word ahead_{}[kAhead];", number);
    line("load_ahead_{0}(lanes, {1}, at_{2}, ahead_{2});", has_shared_buffers_ ? "shared" : "owned",
         *known_buffer(body_[load].buffer), number);
  }
}

// ---- buffers ----

// The handle as something known before the body runs, if it is; see emit_moved_buffers().
std::optional<EntryHandle> HandlerCodegen::entry_handle(ExprId id) const {
  const Expr& expr = body_[id];
  if (expr.kind == ExprKind::literal) return EntryHandle{EntryHandle::Kind::literal, expr.bits};
  if (expr.kind == ExprKind::builtin && expr.builtin == Builtin::param) {
    return EntryHandle{EntryHandle::Kind::arg, 2};
  }
  if (expr.kind != ExprKind::arg) return std::nullopt;
  const auto index = constant_arg(expr.operands[0]);
  if (!index) return std::nullopt;
  return EntryHandle{EntryHandle::Kind::arg, *index};
}

// Looking a buffer up never faults, so it may come before its use: at the entry, or right behind
// the name of its handle.
void HandlerCodegen::gather_handles() {
  const auto add = [&](const BufferRef& buffer) {
    std::optional<EntryHandle> handle;
    if (buffer.kind == BufferKind::handle) {
      handle = entry_handle(buffer.handle);
      const Expr& expr = body_[buffer.handle];
      if (expr.kind == ExprKind::name) {
        const LocalId local = verified_.local(buffer.handle);
        const bool is_variable = verified_.locals[static_cast<std::size_t>(local)].is_variable;
        if (!is_variable) handle_locals_.insert(local);
      }
    } else if (buffer.kind != BufferKind::control) {
      handle = EntryHandle{EntryHandle::Kind::arg, buffer.kind == BufferKind::input ? 0u : 1u};
    }
    if (!handle || entry_buffers_.size() >= kMaxBuffersAtEntry) return;
    entry_buffers_.emplace(*handle, fmt::format("b{}", entry_buffers_.size()));
  };
  for_each_node(
      body_, body_.root,
      [&](StmtId id) {
        if (body_[id].kind == StmtKind::store) add(body_[id].buffer);
      },
      [&](ExprId id) {
        const ExprKind kind = body_[id].kind;
        if (kind == ExprKind::load || kind == ExprKind::atomic || kind == ExprKind::length) {
          add(body_[id].buffer);
        }
      });
}

void HandlerCodegen::emit_entry_buffers() {
  for (const auto& [handle, buffer] : entry_buffers_) {
    const bool is_arg = handle.kind == EntryHandle::Kind::arg;
    line("{}Buffer {} = {};", is_arg && verified_.effects.writes_args ? "" : "const ", buffer,
         find_buffer(is_arg ? fmt::format("item.args[{}]", handle.value)
                            : fmt::format("{}u", handle.value)));
  }
}

// Behind a change of that arg, or of one that is not known: its buffer is another one.
void HandlerCodegen::emit_moved_buffers(std::optional<Word> arg) {
  for (const auto& [handle, buffer] : entry_buffers_) {
    const bool has_moved =
        handle.kind == EntryHandle::Kind::arg && handle.value == arg.value_or(handle.value);
    if (!has_moved) continue;
    line("{} = {};", buffer, find_buffer(fmt::format("item.args[{}]", handle.value)));
  }
}

std::string HandlerCodegen::find_buffer(std::string_view handle) {
  return fmt::format("find_buffer(item.buffers, {}, item.tenant)", handle);
}

// The name of a buffer that has been looked up already.
std::optional<std::string> HandlerCodegen::known_buffer(const BufferRef& buffer) const {
  std::optional<EntryHandle> handle;
  if (buffer.kind == BufferKind::handle) {
    handle = entry_handle(buffer.handle);
    const bool is_name = body_[buffer.handle].kind == ExprKind::name;
    if (is_name && handle_locals_.contains(verified_.local(buffer.handle))) {
      return fmt::format("{}_buffer", name(verified_.local(buffer.handle)));
    }
  } else if (buffer.kind != BufferKind::control) {
    handle = EntryHandle{EntryHandle::Kind::arg, buffer.kind == BufferKind::input ? 0u : 1u};
  }
  if (!handle) return std::nullopt;
  const auto found = entry_buffers_.find(*handle);
  if (found == entry_buffers_.end()) return std::nullopt;
  return found->second;
}

// The same, if it was looked up before the turns of the each: its handle is no turn's own.
std::optional<std::string> HandlerCodegen::buffer_before_turns(const BufferRef& buffer) const {
  if (buffer.kind == BufferKind::handle && body_[buffer.handle].kind == ExprKind::name) {
    const LocalId local = verified_.local(buffer.handle);
    if (local == each_.counter || each_.declared.contains(local)) return std::nullopt;
  }
  return known_buffer(buffer);
}

// The name of a buffer that is not control; evaluates its handle.
std::string HandlerCodegen::resolve(const BufferRef& buffer) {
  if (auto known = known_buffer(buffer)) return *std::move(known);
  const std::string handle = buffer.kind == BufferKind::handle  ? emit(buffer.handle)
                             : buffer.kind == BufferKind::input ? "item.args[0]"
                                                                : "item.args[1]";
  std::string temporary = fresh();
  line("const Buffer {} = {};", temporary, find_buffer(handle));
  return temporary;
}

void HandlerCodegen::check(const std::string& buffer, std::string_view index, Need need) {
  const std::string_view limit = need == Need::read    ? "readable"
                                 : need == Need::write ? "writable"
                                                       : "updatable";
  line("if ({} >= {}.{}) {}", index, buffer, limit,
       fault(fmt::format("access_fault({}, {}u)", buffer, static_cast<Word>(need))));
}

void HandlerCodegen::check_control(std::string_view index, bool writes) {
  const std::string code = named(
      Type::u32, fmt::format("control_fault(item, {}, {})", index, writes ? "true" : "false"));
  line("if ({} != 0) {}", code, fault(code));
}

// ---- expressions ----

std::string HandlerCodegen::emit(ExprId id) {
  const Expr& expr = body_[id];
  switch (expr.kind) {
    case ExprKind::literal:
      return cuda_literal(expr.type, expr.bits);
    case ExprKind::name: {
      const LocalId local = verified_.local(id);
      const bool is_variable = verified_.locals[static_cast<std::size_t>(local)].is_variable;
      return is_variable ? cuda_variable(verified_.type(id), name(local)) : name(local);
    }
    case ExprKind::builtin:
      return emit_given(expr.builtin);
    case ExprKind::arg:
      return emit_arg(expr);
    case ExprKind::load:
      return emit_load(id, expr);
    case ExprKind::length:
      return emit_length(expr);
    case ExprKind::unary: {
      const Expr& operand = body_[expr.operands[0]];
      const bool is_number = operand.kind == ExprKind::literal && operand.type == Type::i32;
      if (is_number && expr.unary == ir::UnaryOp::negate) {  // there is no other way to write one
        return cuda_literal(Type::i32, 0u - operand.bits);
      }
      const std::string a = emit(expr.operands[0]);
      return named(verified_.type(id), cuda_unary(expr.unary, verified_.type(expr.operands[0]), a));
    }
    case ExprKind::binary: {
      const bool is_logical =
          expr.binary == BinaryOp::logical_and || expr.binary == BinaryOp::logical_or;
      if (is_logical && !is_plain(expr.operands[1])) return emit_logical(expr);
      const std::string a = emit(expr.operands[0]);
      const std::string b = emit(expr.operands[1]);
      return named(verified_.type(id),
                   cuda_binary(expr.binary, verified_.type(expr.operands[0]), a, b));
    }
    case ExprKind::call:
      if (expr.function == Function::printf || expr.function == Function::emit) {
        return emit_function(expr);
      }
      return named(verified_.type(id), emit_function(expr));
    case ExprKind::atomic:
      return emit_atomic(expr, /*has_result=*/true);
  }
  return "";
}

std::string HandlerCodegen::emit_given(Builtin builtin) const {
  switch (builtin) {
    case Builtin::opcode:
      return "item.opcode";
    case Builtin::tenant:
      return "item.tenant";
    case Builtin::priority:
      return "item.priority";
    case Builtin::slot:
      return "item.slot";
    case Builtin::param:
      return "item.args[2]";
    case Builtin::lane:
      return is_in_turn() ? fmt::format("lane_{}", each_.number) : "0u";
    case Builtin::lanes:
      return "item.lanes";
  }
  return "";
}

// The index as a constant that is inside the args.
std::optional<Word> HandlerCodegen::constant_arg(ExprId index) const {
  const Expr& expr = body_[index];
  if (expr.kind != ExprKind::literal || expr.bits >= abi::kSlotArgs) return std::nullopt;
  return expr.bits;
}

std::string HandlerCodegen::emit_arg(const Expr& expr) {
  if (const auto index = constant_arg(expr.operands[0])) {
    return fmt::format("item.args[{}]", *index);
  }
  const std::string index = emit(expr.operands[0]);
  line("if ({} >= abi::kSlotArgs) {}", index, fault(FaultCode::index_out_of_range));
  return named(Type::u32, fmt::format("load_arg(item, {})", index));
}

std::string HandlerCodegen::emit_load(ExprId id, const Expr& expr) {
  if (expr.buffer.kind == BufferKind::control) {
    const std::string index = emit(expr.operands[0]);
    check_control(index, /*writes=*/false);
    return named(Type::u32, fmt::format("load_control({}, item, {})", lanes(), index));
  }
  if (const auto ahead = each_.ahead.find(id); each_.is_quick && ahead != each_.ahead.end()) {
    return named(Type::u32, fmt::format("take_{0}(lanes, {1}, at_{2}[q_{3}], ahead_{2}[q_{3}])",
                                        has_shared_buffers_ ? "shared" : "owned",
                                        *known_buffer(expr.buffer), ahead->second, each_.number));
  }
  const std::string buffer = resolve(expr.buffer);
  const std::string index = emit(expr.operands[0]);
  // Fetched before it is checked, which gives 0 for what cannot be loaded: a chain of loads then
  // waits for no branch.
  const std::string word =
      named(Type::u32, fmt::format("fetch_{}({}, {}, {})", has_shared_buffers_ ? "shared" : "owned",
                                   lanes(), buffer, index));
  check(buffer, index, Need::read);
  return word;
}

std::string HandlerCodegen::emit_length(const Expr& expr) {
  if (expr.buffer.kind == BufferKind::control) return "item.control.size()";
  const std::string buffer = resolve(expr.buffer);
  line("if ({0}.fault != 0) {1}", buffer, fault(fmt::format("{}.fault", buffer)));
  return fmt::format("{}.length", buffer);
}

// Whether evaluating it has no effect and cannot fault, so that it does not matter if it is.
bool HandlerCodegen::is_plain(ExprId id) const {
  bool is_plain = true;
  for_each_expr(body_, id, [&](ExprId part) {
    const Expr& expr = body_[part];
    switch (expr.kind) {
      case ExprKind::literal:
      case ExprKind::name:
      case ExprKind::builtin:
      case ExprKind::unary:
      case ExprKind::binary:
        return;
      case ExprKind::call:
        is_plain &= expr.function != Function::printf && expr.function != Function::emit;
        return;
      case ExprKind::arg:
        is_plain &= constant_arg(expr.operands[0]).has_value();
        return;
      case ExprKind::load:
      case ExprKind::length:
      case ExprKind::atomic:
        is_plain = false;
        return;
    }
  });
  return is_plain;
}

std::string HandlerCodegen::emit_logical(const Expr& expr) {
  const std::string left = emit(expr.operands[0]);
  std::string result = fresh();
  line("bool {} = {};", result, left);
  open("if ({}{}) {{", expr.binary == BinaryOp::logical_and ? "" : "!", result);
  const std::string right = emit(expr.operands[1]);
  line("{} = {};", result, right);
  close();
  return result;
}

std::string HandlerCodegen::emit_function(const Expr& expr) {
  std::string values[3];
  for (std::size_t i = 0; i < expr.operand_count; ++i) values[i] = emit(expr.operands[i]);
  if (expr.function == Function::bits_f32 && is_computed_word(expr.operands[0])) {
    values[0] = fmt::format("hidden({})", values[0]);
  }
  if (expr.function == Function::printf || expr.function == Function::emit) {
    each_.has_effect = true;
    emit_effect(fmt::format("{}(item, {}, {}, {})",
                            expr.function == Function::printf ? "print_record" : "append_hit",
                            values[0], values[1], values[2]));
    return "";
  }
  return cuda_call(expr.function, verified_.type(expr.operands[0]), values[0], values[1],
                   values[2]);
}

std::string HandlerCodegen::emit_atomic(const Expr& expr, bool has_result) {
  const bool is_control = expr.buffer.kind == BufferKind::control;
  const std::string buffer = is_control ? "item.control" : resolve(expr.buffer);
  const std::string index = emit(expr.operands[0]);
  std::string values = emit(expr.operands[1]);
  if (expr.operand_count > 2) values += ", " + emit(expr.operands[2]);
  if (each_.is_quick && each_.gathers) {
    line("to_{0}[q_{0}] = {1}, by_{0}[q_{0}] = {2};", each_.number, index, values);
    return "";
  }
  if (is_control) {
    check_control(index, /*writes=*/true);
  } else {
    check(buffer, index, Need::update);
  }
  each_.has_effect = true;
  if (is_in_turn() && each_.has_tile && expr.buffer.kind == BufferKind::output) {
    line("tile_{}.update({}, {}, {});", each_.number, buffer, index, values);
    return "";
  }
  const std::string call = fmt::format("{}.atomic({}).{}({})", buffer, index,
                                       cuda_atomic(expr.atomic, has_result), values);
  if (!has_result) {
    emit_effect(call);
    return "";
  }
  if (is_in_turn()) return named(Type::u32, call);
  std::string result = fresh();
  line("Word {} = 0;", result);
  line("if (lanes.leads()) {} = {};", result, call);
  line("{0} = lanes.from_leader({0});", result);
  return result;
}

// ---- all handlers ----

/// A handler as the tables of the text know it.
struct Entry {
  std::size_t index;  // in the program, or behind it
  Word opcode;
  Scope scope;
  bool is_payload;
  Word traits;
};

Word traits_of(Scope scope, bool commutes, const Effects& effects) {
  // The bits of device/item.cuh, kTraitWarp and so on.
  const bool bits[] = {scope == Scope::warp,
                       scope == Scope::group,
                       effects.can_yield || effects.can_await,
                       effects.writes_args,
                       commutes,
                       effects.reads_input,
                       effects.writes_input,
                       effects.reads_output,
                       effects.writes_output};
  Word traits = 0;
  for (std::size_t i = 0; i < std::size(bits); ++i) traits |= Word{bits[i]} << i;
  return traits;
}

Entry entry_of(std::size_t index, const VerifiedHandler& verified) {
  const Handler& handler = verified.handler;
  return {.index = index,
          .opcode = handler.opcode,
          .scope = handler.scope,
          .is_payload = handler.is_payload,
          .traits = traits_of(handler.scope, handler.commutes, verified.effects)};
}

Entry entry_of(std::size_t index, const ir::TrustedHandler& handler) {
  return {.index = index,
          .opcode = handler.opcode,
          .scope = handler.scope,
          .is_payload = false,
          .traits = traits_of(handler.scope, handler.commutes, handler.effects)};
}

// A function that makes a choice by the handler's index, or by its opcode.
template <class Case>
std::string switch_text(std::string_view head, std::string_view subject,
                        const std::vector<Entry>& entries, std::string_view otherwise,
                        const Case& case_text) {
  std::string text = fmt::format("{} {{\n  switch ({}) {{\n", head, subject);
  for (const Entry& entry : entries) text += case_text(entry);
  return text + fmt::format("    default:\n      return {};\n  }}\n}}\n", otherwise);
}

std::string run_text(std::string_view name, std::string_view lanes,
                     const std::vector<Entry>& entries) {
  return switch_text(
      fmt::format("EK_DEVICE Word {}(Word handler, Item& item)", name), "handler", entries,
      fmt::format("fault_outcome({}u)", static_cast<Word>(FaultCode::unknown_opcode)),
      [&](const Entry& entry) {
        return fmt::format("    case {0}u:\n      return handler_{0}({1}{{}}, item);\n",
                           entry.index, lanes);
      });
}

std::vector<Entry> chosen(const std::vector<Entry>& entries,
                          bool (*is_chosen)(const Entry& entry)) {
  std::vector<Entry> some;
  std::ranges::copy_if(entries, std::back_inserter(some), is_chosen);
  return some;
}

std::string tables_text(const std::vector<Entry>& entries) {
  const auto lane = chosen(entries, [](const Entry& e) { return e.scope == Scope::lane; });
  const auto warp = chosen(entries, [](const Entry& e) { return e.scope == Scope::warp; });
  const auto group = chosen(entries, [](const Entry& e) { return e.scope == Scope::group; });
  const auto by_opcode = chosen(entries, [](const Entry& e) { return !e.is_payload; });
  const auto payload = chosen(entries, [](const Entry& e) { return e.is_payload; });
  Word any_trait = 0;
  for (const Entry& entry : entries) any_trait |= entry.traits;
  std::string text = fmt::format(
      "inline constexpr Word kPayload = {};\n"
      "inline constexpr Word kAnyTrait = {:#x}u;\n"
      "inline constexpr bool kHasLaneHandlers = {};\n"
      "inline constexpr bool kHasWarpHandlers = {};\n"
      "inline constexpr bool kHasGroupHandlers = {};\n",
      payload.empty() ? "kNoHandler" : fmt::format("{}u", payload[0].index), any_trait,
      !lane.empty(), !warp.empty(), !group.empty());
  text += switch_text("EK_DEVICE Word find_handler(Word opcode)", "opcode", by_opcode, "kNoHandler",
                      [](const Entry& entry) {
                        return fmt::format("    case {}u:\n      return {}u;\n", entry.opcode,
                                           entry.index);
                      });
  text += switch_text(
      "EK_DEVICE Word traits_of(Word handler)", "handler", entries, "0u", [](const Entry& entry) {
        return fmt::format("    case {}u:\n      return {:#x}u;\n", entry.index, entry.traits);
      });
  text += run_text("run_lane_handler", "OneLane", lane);
  text += run_text("run_warp_handler", "WarpLanes", warp);
  return text + run_text("run_group_handler", "GroupLanes", group);
}

// A trusted handler: its text in a namespace of its own, and what runs it. Messages of the compiler
// count the lines of each text from its first.
void add_trusted(std::string& text, std::size_t index, const ir::TrustedHandler& handler) {
  const Effects& effects = handler.effects;
  text += fmt::format("namespace trusted_{} {{\n#line 1 \"trusted handler {}\"\n{}\n", index,
                      handler.name, handler.cuda);
  const auto lines = std::ranges::count(text, '\n');
  text += fmt::format("#line {} \"everkernel/handlers.cuh\"\n}}\n", lines + 2);
  text += fmt::format(
      "template <class Lanes>\n"
      "EK_DEVICE Word handler_{0}(const Lanes& lanes, Item& item) {{\n"
      "  const KeptArgs before(item);\n"
      "  TrustedItem<Lanes> view(lanes, item);\n"
      "  const Word ended = trusted_{0}::{4}(view);\n"
      "  return end_trusted(view, lanes, item, before, ended, {{{1}, {2}, {3}}});\n"
      "}}\n\n",
      index, effects.can_yield, effects.can_await, effects.writes_args, handler.name);
}

// What a handler computes and does not use, or compares and always finds so, is its own affair.
constexpr std::string_view kWithoutWarnings =
    "#if defined(__CUDACC__)\n"
    "#pragma nv_diagnostic push\n"
    "#pragma nv_diag_suppress 111, 128, 177, 186\n"
    "#endif\n\n";
constexpr std::string_view kWithWarnings =
    "#if defined(__CUDACC__)\n"
    "#pragma nv_diagnostic pop\n"
    "#endif\n\n";

}  // namespace

std::string emit_cuda(const VerifiedProgram& program, const CudaOptions& options) {
  const bool has_trusted = !options.trusted_handlers.empty();
  std::string text = fmt::format("// Generated from {}handlers.\n#pragma once\n\n",
                                 has_trusted ? "verified and trusted " : "verified ");
  if (has_trusted) text += "#include \"jit/device/trusted.cuh\"\n\n";
  text += "namespace everkernel::device {\n\n";
  text += kWithoutWarnings;
  std::vector<Entry> entries;
  for (std::size_t i = 0; i < program.handlers().size(); ++i) {
    const VerifiedHandler& verified = program.handlers()[i];
    if (verified.handler.is_payload && !options.payload) continue;
    entries.push_back(entry_of(i, verified));
    text += HandlerCodegen(verified, i, options).run() + '\n';
  }
  text += kWithWarnings;
  for (std::size_t i = 0; i < options.trusted_handlers.size(); ++i) {
    entries.push_back(entry_of(program.handlers().size() + i, options.trusted_handlers[i]));
    add_trusted(text, entries.back().index, options.trusted_handlers[i]);
  }
  text += tables_text(entries);
  return text + "\n}  // namespace everkernel::device\n";
}

}  // namespace everkernel::jit
