// Walks the tree of a verified handler. A fault is an exception that never leaves this file: every
// evaluation can fault, and error checks would hide the meaning of each step.
#include "everkernel/ir/interpreter.hpp"

#include <algorithm>
#include <array>
#include <atomic>

#include "everkernel/abi/control.hpp"
#include "everkernel/base/assert.hpp"
#include "everkernel/ir/detail/vocabulary_tables.hpp"
#include "ir/semantics.hpp"
#include "ir/touch_watch.hpp"

namespace everkernel::ir {
namespace {

using abi::FaultCode;

/// Ends the item, or the turn of an each.
struct Fault {
  Word code;
};

/// Ends the interpretation of an item that has had no effect: it runs elsewhere from the start.
struct Leave {};

constexpr std::uint64_t kNever = ~std::uint64_t{0};
/// Turns between two looks for a way out.
constexpr std::uint64_t kLookInterval = 4096;
/// Turns from which on a loop counts as long, and the turns that a loop inside a loop is expected
/// to take.
constexpr std::uint64_t kLongLoop = 32768;
constexpr std::uint64_t kInnerTurns = 64;

/// Where control goes after a statement.
enum class Flow : std::uint8_t { next, break_loop, continue_loop, end };

class Interpreter {
 public:
  Interpreter(const VerifiedHandler& verified, ItemFrame& frame, TouchWatch* watch,
              WayOut* way_out = nullptr)
      : verified_(verified),
        body_(verified.handler.body),
        frame_(frame),
        watch_(watch),
        way_out_(way_out),
        next_look_(way_out == nullptr ? kNever : kLookInterval) {}

  Outcome run() {
    try {
      run_block(body_.root);
    } catch (const Fault& fault) {
      return {Ending::fault, fault.code};
    }
    return outcome_;
  }

  /// As run(); nothing if the item took the way out.
  std::optional<Outcome> run_or_leave() {
    const std::uint64_t fuel = frame_.fuel;
    std::optional<Outcome> outcome;
    try {
      outcome = run();
    } catch (const Leave&) {
      frame_.fuel = fuel;
    }
    way_out_->turns_run = turns_;
    return outcome;
  }

 private:
  [[noreturn]] static void stop(FaultCode code) { throw Fault{static_cast<Word>(code)}; }

  // ---- statements ----

  Flow run_block(BlockId id) {
    for (const StmtId stmt : body_[id].statements) {
      const Flow flow = run_statement(stmt);
      if (flow != Flow::next) return flow;
    }
    return Flow::next;
  }

  Flow end(Ending ending) {
    outcome_ = {ending, 0};
    return Flow::end;
  }

  Flow run_statement(StmtId id) {
    const Stmt& stmt = body_[id];
    switch (stmt.kind) {
      case StmtKind::let_value:
      case StmtKind::let_variable:
      case StmtKind::assign_name: {
        Word& variable = local(verified_.local(id));
        const Word word = value(stmt.operands[0]);
        const Type type = verified_.locals[static_cast<std::size_t>(verified_.local(id))].type;
        variable = stmt.compound ? semantics::binary(*stmt.compound, type, variable, word) : word;
        return Flow::next;
      }
      case StmtKind::assign_arg:
        assign_arg(stmt);
        return Flow::next;
      case StmtKind::store:
        stmt.compound ? update(stmt) : store(stmt);
        return Flow::next;
      case StmtKind::branch:
        if (value(stmt.operands[0]) != 0) return run_block(stmt.body);
        return stmt.otherwise ? run_block(*stmt.otherwise) : Flow::next;
      case StmtKind::for_loop:
        return run_for(id, stmt);
      case StmtKind::each_loop:
        return run_each(id, stmt);
      case StmtKind::while_loop:
        return run_while(stmt);
      case StmtKind::break_loop:
        return Flow::break_loop;
      case StmtKind::continue_loop:
        return Flow::continue_loop;
      case StmtKind::finish:
        return end(Ending::done);
      case StmtKind::yield:
        return end(Ending::yield);
      case StmtKind::requeue:
        return end(Ending::requeue);
      case StmtKind::fault:
        throw Fault{user_fault_code(value(stmt.operands[0]))};
      case StmtKind::evaluate: {
        const Expr& expr = body_[stmt.operands[0]];
        if (expr.kind == ExprKind::atomic) {
          atomic(expr, /*has_result=*/false);
        } else {
          value(stmt.operands[0]);
        }
        return Flow::next;
      }
      case StmtKind::await_read:
      case StmtKind::await_write:
        frame_.io.is_write = Word{stmt.kind == StmtKind::await_write};
        frame_.io.source = value(stmt.operands[0]);
        frame_.io.block = value(stmt.operands[1]);
        frame_.io.destination = value(stmt.operands[2]);
        frame_.io.byte_count = value(stmt.operands[3]);
        return end(Ending::wait_io);
      case StmtKind::declare_array: {
        const Local& array = declared(verified_.local(id));
        std::fill_n(arrays_.begin() + array.first_word, array.array_words, Word{0});
        return Flow::next;
      }
      case StmtKind::store_element:
        store_element(declared(verified_.local(id)), stmt);
        return Flow::next;
    }
    return Flow::next;
  }

  const Local& declared(LocalId id) const { return verified_.locals[static_cast<std::size_t>(id)]; }

  /// The word of an array, after its check.
  Word& element(const Local& array, Word index) {
    if (index >= array.array_words) stop(FaultCode::index_out_of_range);
    return arrays_[array.first_word + index];
  }

  void store_element(const Local& array, const Stmt& stmt) {
    const Word index = value(stmt.operands[0]);
    if (!stmt.compound) {
      const Word word = value(stmt.operands[1]);
      element(array, index) = word;
      return;
    }
    Word& target = element(array, index);
    const Word word = value(stmt.operands[1]);
    target = semantics::binary(*stmt.compound, array.type, target, word);
  }

  void assign_arg(const Stmt& stmt) {
    const Word index = value(stmt.operands[0]);
    const bool is_inside = index < abi::kSlotArgs;
    if (stmt.compound && !is_inside) stop(FaultCode::index_out_of_range);
    const Word word = value(stmt.operands[1]);
    if (!is_inside) stop(FaultCode::index_out_of_range);
    has_effect_ = true;
    Word& arg = frame_.args[index];
    arg = stmt.compound ? semantics::binary(*stmt.compound, Type::u32, arg, word) : word;
  }

  void store(const Stmt& stmt) {
    const Word handle = handle_of(stmt.buffer);
    const Word index = value(stmt.operands[0]);
    const Word word = value(stmt.operands[1]);
    Word& target = place(stmt.buffer.kind, handle, index, memory::Access::write);
    touch({.word = &target, .is_write = true});
    has_effect_ = true;
    std::atomic_ref(target).store(word, std::memory_order_relaxed);
  }

  /// `buffer[index] op= value`: the check and the load come before the value.
  void update(const Stmt& stmt) {
    const Word handle = handle_of(stmt.buffer);
    const Word index = value(stmt.operands[0]);
    Word& target = place(stmt.buffer.kind, handle, index, memory::Access::read_write);
    touch({.word = &target});
    const Word before = std::atomic_ref(target).load(std::memory_order_relaxed);
    const Word word = value(stmt.operands[1]);
    touch({.word = &target, .is_write = true});
    has_effect_ = true;
    std::atomic_ref(target).store(semantics::binary(*stmt.compound, Type::u32, before, word),
                                  std::memory_order_relaxed);
  }

  bool is_aborted() const {
    if (frame_.abort == nullptr) return false;
    const std::atomic_ref<Word> word(const_cast<Word&>(*frame_.abort));
    return word.load(std::memory_order_relaxed) != 0;
  }

  /// Called before every turn of a loop.
  void poll_abort() const {
    if (is_aborted()) stop(FaultCode::deadline);
  }

  void spend_turn() {
    poll_abort();
    if (frame_.fuel == 0) stop(FaultCode::fuel_exhausted);
    --frame_.fuel;
    if (++turns_ == next_look_) look();
  }

  /// Looks for a way out, also if it is too late for this item: others of its handler may follow.
  void look() {
    next_look_ = turns_ + kLookInterval;
    if (way_out_->look(turns_) && !has_effect_) throw Leave{};
  }

  /// Called before a loop of that many turns.
  void expect(std::uint64_t turns, BlockId body) {
    if (way_out_ == nullptr || has_effect_ || turns * kInnerTurns < kLongLoop) return;
    if (has_loop(body)) turns *= kInnerTurns;
    if (turns >= kLongLoop && way_out_->expect(turns)) throw Leave{};
  }

  bool has_loop(BlockId id) const {
    return std::ranges::any_of(body_[id].statements, [this](StmtId statement) {
      const Stmt& stmt = body_[statement];
      switch (stmt.kind) {
        case StmtKind::for_loop:
        case StmtKind::each_loop:
        case StmtKind::while_loop:
          return true;
        case StmtKind::branch:
          return has_loop(stmt.body) || (stmt.otherwise && has_loop(*stmt.otherwise));
        default:
          return false;
      }
    });
  }

  Flow run_while(const Stmt& stmt) {
    while (value(stmt.operands[0]) != 0) {
      spend_turn();
      const Flow flow = run_block(stmt.body);
      if (flow == Flow::break_loop) break;
      if (flow == Flow::end) return flow;
    }
    return Flow::next;
  }

  /// Turns from `first` to `last`, which are of the given type.
  static Word turn_count(Type type, Word first, Word last) {
    const bool is_empty = type == Type::i32
                              ? semantics::as_signed(first) >= semantics::as_signed(last)
                              : first >= last;
    return is_empty ? 0 : last - first;
  }

  Flow run_for(StmtId id, const Stmt& stmt) {
    const Word first = value(stmt.operands[0]);
    const Word last = value(stmt.operands[1]);
    const Type type = verified_.type(stmt.operands[0]);
    const Word step = stmt.has_step ? value(stmt.operands[2]) : 1;
    if (step == 0 || (type == Type::i32 && semantics::as_signed(step) < 0)) {
      stop(FaultCode::index_out_of_range);
    }
    const Word distance = turn_count(type, first, last);
    const Word turns = distance == 0 ? 0 : (distance - 1) / step + 1;
    expect(turns, stmt.body);
    for (Word turn = 0; turn < turns; ++turn) {
      spend_turn();
      local(verified_.local(id)) = first + turn * step;
      const Flow flow = run_block(stmt.body);
      if (flow == Flow::break_loop) break;
      if (flow == Flow::end) return flow;
    }
    return Flow::next;
  }

  Flow run_each(StmtId id, const Stmt& stmt) {
    const Word first = value(stmt.operands[0]);
    const Word last = value(stmt.operands[1]);
    const Word turns = turn_count(verified_.type(stmt.operands[0]), first, last);
    if (turns == 0) return Flow::next;
    poll_abort();
    if (frame_.fuel < turns) stop(FaultCode::fuel_exhausted);
    const std::uint64_t fuel_left = frame_.fuel - turns;
    const std::uint64_t fuel_each = fuel_left / turns;
    std::uint64_t fuel_spent = 0;
    std::optional<Fault> lowest_fault;
    expect(turns, stmt.body);
    if (watch_ != nullptr) watch_->on_each();
    for (Word turn = 0; turn < turns; ++turn) {
      // All turns that are left would end here too. An exception takes a microsecond, and there may
      // be millions of them.
      if (is_aborted()) {
        if (!lowest_fault) lowest_fault = Fault{static_cast<Word>(FaultCode::deadline)};
        break;
      }
      if (++turns_ == next_look_) look();
      frame_.fuel = fuel_each;
      lane_ = turn % frame_.lanes;
      if (watch_ != nullptr) watch_->on_turn(turn);
      local(verified_.local(id)) = first + turn;
      try {
        run_block(stmt.body);
      } catch (const Fault& fault) {
        if (!lowest_fault) lowest_fault = fault;
      }
      fuel_spent += fuel_each - frame_.fuel;
    }
    if (watch_ != nullptr) watch_->on_each_end();
    lane_ = 0;
    frame_.fuel = fuel_left - fuel_spent;
    if (lowest_fault) throw *lowest_fault;
    return Flow::next;
  }

  // ---- memory ----

  Word handle_of(const BufferRef& buffer) {
    switch (buffer.kind) {
      case BufferKind::input:
        return frame_.args[0];
      case BufferKind::output:
        return frame_.args[1];
      case BufferKind::handle:
        return value(buffer.handle);
      case BufferKind::control:
        break;
    }
    return 0;
  }

  const memory::BufferEntry& entry(Word handle) const {
    const memory::BufferEntry* found = frame_.buffers.find(handle);
    if (found == nullptr) stop(FaultCode::bad_buffer_handle);
    const bool is_owner = found->owner == memory::kEveryTenant || found->owner == frame_.tenant;
    if (!is_owner) stop(FaultCode::permission_denied);
    return *found;
  }

  Word length(const BufferRef& buffer) {
    const Word handle = handle_of(buffer);
    if (buffer.kind == BufferKind::control) return frame_.control_words;
    return entry(handle).word_count;
  }

  /// The word at `index`, after every check.
  Word& place(BufferKind kind, Word handle, Word index, memory::Access access) const {
    const Word needed = static_cast<Word>(access);
    if (kind == BufferKind::control) {
      if (index >= frame_.control_words) stop(FaultCode::index_out_of_range);
      const bool is_write = (needed & static_cast<Word>(memory::Access::write)) != 0;
      const bool is_protected = frame_.tenant != 0 && index < abi::kControlFirstObservable;
      if (is_write && is_protected) stop(FaultCode::permission_denied);
      return frame_.control[index];
    }
    const memory::BufferEntry& found = entry(handle);
    if ((found.access & needed) != needed) stop(FaultCode::permission_denied);
    if (index >= found.word_count) stop(FaultCode::index_out_of_range);
    return found.words[index];
  }

  void touch(const Touch& touch) const {
    if (watch_ != nullptr) watch_->on_touch(touch);
  }

  // ---- expressions ----

  Word& local(LocalId id) { return locals_[static_cast<std::size_t>(id)]; }

  Word value(ExprId id) {
    const Expr& expr = body_[id];
    switch (expr.kind) {
      case ExprKind::literal:
        return expr.bits;
      case ExprKind::name:
        return local(verified_.local(id));
      case ExprKind::builtin:
        return given(expr.builtin);
      case ExprKind::arg: {
        const Word index = value(expr.operands[0]);
        if (index >= abi::kSlotArgs) stop(FaultCode::index_out_of_range);
        return frame_.args[index];
      }
      case ExprKind::load: {
        const Word handle = handle_of(expr.buffer);
        const Word index = value(expr.operands[0]);
        Word& source = place(expr.buffer.kind, handle, index, memory::Access::read);
        touch({.word = &source});
        return std::atomic_ref(source).load(std::memory_order_relaxed);
      }
      case ExprKind::element:
        return element(declared(verified_.local(id)), value(expr.operands[0]));
      case ExprKind::length:
        return length(expr.buffer);
      case ExprKind::unary:
        return semantics::unary(expr.unary, verified_.type(expr.operands[0]),
                                value(expr.operands[0]));
      case ExprKind::binary:
        return binary(expr);
      case ExprKind::call:
        return call(expr);
      case ExprKind::atomic:
        return atomic(expr, /*has_result=*/true);
      case ExprKind::bind: {
        const Word bound = value(expr.operands[0]);
        local(verified_.local(id)) = bound;
        return value(expr.operands[1]);
      }
      case ExprKind::user_call:
        break;  // no verified handler has one
    }
    return 0;
  }

  Word given(Builtin builtin) const {
    switch (builtin) {
      case Builtin::opcode:
        return frame_.opcode;
      case Builtin::tenant:
        return frame_.tenant;
      case Builtin::priority:
        return frame_.priority;
      case Builtin::slot:
        return frame_.slot;
      case Builtin::param:
        return frame_.args[2];
      case Builtin::lane:
        return lane_;
      case Builtin::lanes:
        return frame_.lanes;
    }
    return 0;
  }

  Word binary(const Expr& expr) {
    const Word left = value(expr.operands[0]);
    if (expr.binary == BinaryOp::logical_and && left == 0) return 0;
    if (expr.binary == BinaryOp::logical_or && left != 0) return 1;
    const Word right = value(expr.operands[1]);
    if (expr.binary == BinaryOp::logical_and || expr.binary == BinaryOp::logical_or) return right;
    return semantics::binary(expr.binary, verified_.type(expr.operands[0]), left, right);
  }

  Word call(const Expr& expr) {
    Word values[3] = {};
    for (std::size_t i = 0; i < expr.operand_count; ++i) values[i] = value(expr.operands[i]);
    const ItemHooks* hooks = frame_.hooks;
    if (expr.function == Function::printf) {
      has_effect_ = true;
      if (hooks != nullptr && hooks->print != nullptr) {
        hooks->print(hooks->self, values[0], values[1], values[2]);
      }
      return 0;
    }
    if (expr.function == Function::emit) {
      has_effect_ = true;
      if (hooks != nullptr && hooks->emit != nullptr) {
        hooks->emit(hooks->self, values[0], values[1], values[2]);
      }
      return 0;
    }
    return semantics::call(expr.function, verified_.type(expr.operands[0]), values[0], values[1],
                           values[2]);
  }

  Word atomic(const Expr& expr, bool has_result) {
    const Word handle = handle_of(expr.buffer);
    const Word index = value(expr.operands[0]);
    const Word operand = value(expr.operands[1]);
    const Word desired = expr.operand_count > 2 ? value(expr.operands[2]) : 0;
    Word& target = place(expr.buffer.kind, handle, index, memory::Access::read_write);
    const bool commutes = !has_result && info(expr.atomic).commutes;
    touch({.word = &target,
           .is_write = !commutes,
           .commuting = commutes ? std::optional(expr.atomic) : std::nullopt});
    has_effect_ = true;
    const std::atomic_ref word(target);
    Word before = word.load(std::memory_order_relaxed);
    while (!word.compare_exchange_weak(before,
                                       semantics::atomic(expr.atomic, before, operand, desired),
                                       std::memory_order_relaxed)) {
    }
    return before;
  }

  const VerifiedHandler& verified_;
  const Body& body_;
  ItemFrame& frame_;
  TouchWatch* const watch_;  // may be null
  WayOut* const way_out_;    // may be null
  std::uint64_t turns_ = 0;
  std::uint64_t next_look_;
  bool has_effect_ = false;                  // something that other items or the host can see
  std::array<Word, kMaxLocals> locals_{};    // an array, so that no item allocates
  std::array<Word, kMaxArrayWords> arrays_;  // a declaration sets its words to 0
  Word lane_ = 0;
  Outcome outcome_;
};

}  // namespace

Outcome interpret(const VerifiedHandler& handler, ItemFrame& frame) {
  EVERKERNEL_ASSERT(frame.lanes != 0);
  return Interpreter(handler, frame, nullptr).run();
}

std::optional<Outcome> interpret(const VerifiedHandler& handler, ItemFrame& frame,
                                 WayOut& way_out) {
  EVERKERNEL_ASSERT(frame.lanes != 0);
  return Interpreter(handler, frame, nullptr, &way_out).run_or_leave();
}

Outcome interpret_watched(const VerifiedHandler& handler, ItemFrame& frame, TouchWatch& watch) {
  EVERKERNEL_ASSERT(frame.lanes != 0);
  return Interpreter(handler, frame, &watch).run();
}

}  // namespace everkernel::ir
