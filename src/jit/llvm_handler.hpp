// LLVM IR of one handler: a function. Variables are stack slots that LLVM turns into registers; the
// args are a private copy that is written back at the end; fuel is counted in a register.
//
// The members are defined by the kind of code they emit: llvm_handler.cpp (frame and endings),
// llvm_statements.cpp, llvm_loops.cpp, llvm_bounds.cpp, llvm_memory.cpp and llvm_expressions.cpp.
// llvm_values.hpp has the operators.
#pragma once

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "everkernel/abi/fault.hpp"
#include "everkernel/ir/item.hpp"
#include "everkernel/jit/memory_use.hpp"
#include "jit/handler_facts.hpp"

namespace everkernel::jit {

/// Adds the function of one handler to a module.
class LlvmHandlerCodegen {
 public:
  /// For the function of that symbol.
  LlvmHandlerCodegen(const ir::VerifiedHandler& verified, MemoryUse memory, llvm::Module& module,
                     const std::string& symbol);
  /// Emits the body of the function.
  void run();

 private:
  /// A buffer whose handle has been looked up.
  struct ResolvedBuffer {
    llvm::Value* entry = nullptr;       // an entry of zeros when the handle names nothing
    llvm::Value* words = nullptr;       // first word
    llvm::Value* is_usable = nullptr;   // the handle names a buffer, and the tenant may use it
    llvm::Value* word_count = nullptr;  // the value of len(), if it is usable
    llvm::Value* readable = nullptr;    // words that may be loaded: 0 when reading is not allowed
    llvm::Value* writable = nullptr;    // words that may be stored
    llvm::Value* updatable = nullptr;   // words that may be both
  };

  /// The targets of break and continue in one loop.
  struct LoopTargets {
    llvm::BasicBlock* on_break = nullptr;
    llvm::BasicBlock* on_continue = nullptr;
    llvm::Value* paid_turns = nullptr;         // in a chunk that has paid for its turns: how many
    llvm::AllocaInst* current_turn = nullptr;  // and which of them runs
  };

  /// The values that the counter of a loop takes.
  struct Range {
    llvm::Value* first = nullptr;
    llvm::Value* turns = nullptr;  // how many
    llvm::Value* step = nullptr;   // null for a step of 1
    bool is_unsigned = true;       // then no value wraps
  };

  /// A chunk of turns of an innermost loop, as far as the bounds of its indices need it.
  struct Chunk {
    const LoopFacts& facts;
    ir::LocalId counter;
    llvm::Value* last_counter;  // its value in the last turn
  };

  /// Accesses whose index is known to lie inside.
  struct ProvenAccesses {
    std::set<ir::ExprId> loads = {};  // and atomics
    std::set<ir::StmtId> stores = {};
  };

  // Frame.
  llvm::Value* frame_field(std::size_t offset, const char* name);
  llvm::Value* load_frame_word(std::size_t offset, const char* name);
  void emit_prologue();
  void emit_exits();
  llvm::AllocaInst* slot(llvm::Type* type, const char* name);
  llvm::BasicBlock* block(const char* name) {
    return llvm::BasicBlock::Create(context_, name, function_);
  }

  // Endings.
  void end(ir::Ending ending);
  void fault(llvm::Value* code);
  void fault_unless(llvm::Value* condition, const std::function<llvm::Value*()>& code);
  void branch_likely(llvm::Value* condition, llvm::BasicBlock* likely, llvm::BasicBlock* unlikely);
  llvm::Value* code(abi::FaultCode fault_code) {
    return builder_.getInt32(static_cast<abi::Word>(fault_code));
  }
  void leave_to(llvm::BasicBlock* target);

  // Statements.
  void emit(ir::BlockId id);
  void emit(ir::StmtId id);
  void emit_branch(const ir::Stmt& stmt);
  void emit_await(const ir::Stmt& stmt);
  void emit_assign_arg(const ir::Stmt& stmt);
  void emit_store(ir::StmtId id, const ir::Stmt& stmt);
  void emit_array(ir::LocalId local);
  void emit_element_store(ir::LocalId local, const ir::Stmt& stmt);
  llvm::Value* element(ir::LocalId local, llvm::Value* index);

  // Loops.
  void emit_while(const ir::Stmt& stmt);
  void emit_for(ir::StmtId id, const ir::Stmt& stmt);
  void emit_each(ir::StmtId id, const ir::Stmt& stmt);
  void note_turn_fault(llvm::AllocaInst* lowest);
  void give_back_fuel(const LoopTargets& chunk);
  Range emit_range(const ir::Stmt& stmt);
  void poll_abort();
  void spend_turn();
  void emit_turns(llvm::Value* turns, const std::function<void(llvm::Value* turn)>& body);
  void emit_chunks(ir::StmtId id, const Range& range, bool pays_fuel,
                   const std::function<void(llvm::Value* turn)>& body);
  llvm::Value* chunk_length(llvm::Value* turn, llvm::Value* turns, bool pays_fuel);

  llvm::Value* counter_value(const Range& range, llvm::Value* turn);

  // Bounds.
  llvm::Value* chunk_is_safe(const ir::Stmt& stmt, const Chunk& chunk, ProvenAccesses& proven);
  llvm::Value* upper_bound(ir::ExprId id, const Chunk& chunk);
  llvm::Value* upper_bound_binary(const ir::Expr& expr, const Chunk& chunk);

  // Memory.
  llvm::Value* handle_value(const ir::BufferRef& buffer);
  ResolvedBuffer resolve(llvm::Value* handle);
  ResolvedBuffer resolved(ir::BufferKind kind, llvm::Value* handle);
  // Whether the handle of input or output cannot change while the handler runs.
  bool is_fixed(ir::BufferKind kind) const {
    return (kind == ir::BufferKind::input || kind == ir::BufferKind::output) &&
           !verified_.effects.moves_buffers;
  }
  llvm::Value* place(ir::BufferKind kind, llvm::Value* handle, llvm::Value* index,
                     memory::Access access, bool is_proven);
  llvm::Value* control_place(llvm::Value* index, memory::Access access, bool is_proven);
  llvm::Value* access_code(const ResolvedBuffer& buffer, abi::Word needed);
  // Control words are always shared: other items and the host use them, even if all buffers are
  // exclusive.
  bool is_shared(ir::BufferKind kind) const {
    return has_shared_buffers_ || kind == ir::BufferKind::control;
  }
  llvm::Value* load_word(ir::BufferKind kind, llvm::Value* pointer);
  void store_word(ir::BufferKind kind, llvm::Value* word, llvm::Value* pointer);

  // Expressions.
  llvm::Value* emit(ir::ExprId id, bool cannot_wrap = false);
  llvm::Value* emit_given(ir::Builtin builtin);
  llvm::Value* emit_logical(const ir::Expr& expr);
  llvm::Value* emit_function(const ir::Expr& expr);
  void hide_one(const ir::Expr& expr, llvm::Value*& left, llvm::Value*& right);
  llvm::Value* emit_atomic(ir::ExprId id, const ir::Expr& expr);
  llvm::Value* emit_length(const ir::Expr& expr);
  llvm::Value* arg_pointer(llvm::Value* index);
  void call_hook(const char* name, const ir::Expr& expr);

  const ir::VerifiedHandler& verified_;
  const ir::Body& body_;
  const bool has_shared_buffers_;
  llvm::Module& module_;
  llvm::LLVMContext& context_;
  llvm::IRBuilder<> builder_;
  llvm::Function* function_;
  llvm::BasicBlock* entry_;
  llvm::BasicBlock* finish_block_ = nullptr;
  llvm::BasicBlock* fault_block_ = nullptr;  // target of faults: the end of the item, or of a turn
  llvm::AllocaInst* ending_ = nullptr;
  llvm::AllocaInst* code_ = nullptr;
  llvm::AllocaInst* fuel_ = nullptr;
  llvm::AllocaInst* lane_ = nullptr;
  llvm::AllocaInst* args_ = nullptr;
  llvm::ArrayType* args_type_ = nullptr;
  llvm::Value* frame_ = nullptr;
  llvm::Value* tenant_ = nullptr;
  llvm::Value* control_ = nullptr;
  llvm::Value* control_words_ = nullptr;
  llvm::Value* table_entries_ = nullptr;
  llvm::Value* table_mask_ = nullptr;
  llvm::Value* abort_ = nullptr;
  llvm::Value* lanes_ = nullptr;
  std::size_t number_calls_ = 0;  // calls of functions of numbers so far
  std::vector<llvm::AllocaInst*> locals_;
  std::optional<ResolvedBuffer> input_, output_;
  std::vector<LoopTargets> loops_;
  ProvenAccesses proven_;
  // Bounds of lets in this chunk. Each is computed once: without it, chains of lets would double.
  std::map<ir::LocalId, llvm::Value*> definition_bounds_;
};

}  // namespace everkernel::jit
