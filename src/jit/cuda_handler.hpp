// CUDA C++ of one handler: a function template over the lanes that run it (device/handler.cuh).
//
// Every operation is a statement with a name for its value: the order of evaluation is the order of
// the text, and no expression is deep. Outside `each` all lanes of a warp or group run the same
// statements on equal values: the leader reads memory and broadcasts the word, and the leader alone
// writes. Inside, a lane runs its turns by itself.
//
// The members are defined by the kind of text they emit: cuda_statements.cpp, cuda_each.cpp and
// cuda_expressions.cpp. cuda_values.hpp has the operators.
#pragma once

#include <fmt/format.h>

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "everkernel/abi/fault.hpp"
#include "everkernel/jit/memory_use.hpp"
#include "jit/cuda_each_plan.hpp"
#include "jit/cuda_known_buffers.hpp"
#include "jit/indented_text.hpp"

namespace everkernel::jit {

/// Makes the text of one handler.
class CudaHandlerCodegen {
 public:
  /// For the handler of that index of its program.
  CudaHandlerCodegen(const ir::VerifiedHandler& verified, std::size_t index, MemoryUse memory)
      : verified_(verified),
        body_(verified.handler.body),
        index_(index),
        has_shared_buffers_(memory == MemoryUse::shared),
        buffers_(verified) {}

  /// The definitions of body_I and handler_I.
  std::string run();

 private:
  /// The rights that an access to a buffer needs; the bits of memory::Access.
  enum class Need : abi::Word { read = 1, write = 2, update = 3 };

  /// A loop around the statement that is being emitted.
  struct Loop {
    ir::StmtKind kind;
    std::size_t number = 0;
    bool pays_ahead = false;  // has paid fuel for turns that it may not run
  };

  /// An each while its turns are emitted.
  struct Each {
    std::size_t number = 0;
    EachPlan plan = {};
    std::map<ir::ExprId, std::size_t> ahead = {};  // numbers of the plan's ahead loads
    bool is_quick = false;    // emitting turns whose ahead words have been fetched and checked
    bool has_effect = false;  // whether the turn so far may have changed anything

    bool has_tile() const { return plan.tile_condition.has_value(); }
  };

  // Names.
  std::string fresh() { return fmt::format("t{}", next_temporary_++); }
  std::string named(ir::Type type, const std::string& value);

  // Endings.
  std::string turn_end() const {
    return fmt::format("next_{}{}", each_.number, each_.is_quick ? "_quick" : "");
  }
  std::string fault(std::string_view code);
  std::string fault(abi::FaultCode code) {
    return fault(fmt::format("{}u", static_cast<abi::Word>(code)));
  }

  // Statements.
  void emit(ir::BlockId id);
  void emit(ir::StmtId id);
  void emit_let(ir::StmtId id, const ir::Stmt& stmt);
  void emit_assign_arg(const ir::Stmt& stmt);
  void emit_update_arg(const ir::Stmt& stmt);
  void emit_update(const ir::Stmt& stmt);
  void emit_store(const ir::Stmt& stmt);
  void emit_array(ir::LocalId local);
  void emit_element_store(ir::LocalId local, const ir::Stmt& stmt);
  std::string element(ir::LocalId local, const std::string& index);
  void emit_branch(const ir::Stmt& stmt);
  void emit_refund();
  void emit_end(std::string_view ending);
  void emit_break();
  void emit_continue();
  void emit_await(const ir::Stmt& stmt);

  // Loops.
  void emit_while(const ir::Stmt& stmt);
  void emit_for(ir::StmtId id, const ir::Stmt& stmt);
  void emit_chunks(ir::StmtId id, const ir::Stmt& stmt, std::string_view first, std::size_t number);
  void emit_turn_count(const ir::Stmt& stmt, std::size_t number, std::string_view first,
                       std::string_view last);
  void emit_counter(ir::LocalId counter, std::string_view value);
  void emit_spend_turn();
  void emit_fault_code(const std::string& call);
  std::string_view turns_function(const ir::Stmt& stmt) const {
    return verified_.type(stmt.operands[0]) == ir::Type::i32 ? "turns_i32" : "turns_u32";
  }

  // Each.
  void emit_each(ir::StmtId id, const ir::Stmt& stmt);
  void emit_turns(const ir::Stmt& stmt, std::string_view first);
  void emit_turn(const ir::Stmt& stmt, std::string_view first);
  void emit_quick_turns(const ir::Stmt& stmt, std::string_view first);
  void emit_ahead_loads();

  // Buffers.
  void emit_entry_buffers();
  void emit_moved_buffers(std::optional<abi::Word> arg);
  std::string find_buffer(std::string_view handle);
  std::string resolve(const ir::BufferRef& buffer);
  // Of an each that has a tile.
  std::string output_buffer() const { return *buffers_.find({.kind = ir::BufferKind::output}); }
  void check(const std::string& buffer, std::string_view index, Need need);
  void check_control(std::string_view index, bool writes);

  // Expressions.
  std::string emit(ir::ExprId id);
  std::string emit_given(ir::Builtin builtin) const;
  std::string emit_arg(const ir::Expr& expr);
  std::string emit_load(ir::ExprId id, const ir::Expr& expr);
  std::string emit_length(const ir::Expr& expr);
  std::string emit_logical(const ir::Expr& expr);
  std::string emit_function(const ir::Expr& expr);
  std::string emit_atomic(const ir::Expr& expr, bool has_result);
  bool is_computed_word(ir::ExprId id) const {
    const ir::ExprKind kind = body_[id].kind;
    return verified_.type(id) != ir::Type::f32 && kind != ir::ExprKind::literal &&
           kind != ir::ExprKind::load;
  }

  // Outside each the leader acts for all lanes; inside, every lane for itself.
  bool is_in_turn() const { return is_in_turn_; }
  void emit_effect(const std::string& effect);
  std::string_view lanes() const { return is_in_turn() ? "OneLane{}" : "lanes"; }
  std::string_view fuel() const { return is_in_turn() ? "turn_fuel" : "fuel"; }

  const ir::VerifiedHandler& verified_;
  const ir::Body& body_;
  const std::size_t index_;
  const bool has_shared_buffers_;
  const KnownBuffers buffers_;
  IndentedText out_;
  std::size_t next_temporary_ = 0;
  std::size_t next_loop_ = 0;
  std::size_t next_ahead_ = 0;
  std::size_t number_calls_ = 0;  // calls of functions of numbers so far
  std::vector<Loop> loops_;       // outermost first
  Each each_;                     // the last one
  bool is_in_turn_ = false;       // inside its body
  bool turn_is_left_ = false;     // whether a statement jumps to the end of the turn
  bool quick_is_left_ = false;    // whether a statement jumps from quick turns to careful ones
  bool loop_is_broken_ = false;   // whether a statement jumps behind the innermost loop
};

}  // namespace everkernel::jit
