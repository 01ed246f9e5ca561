// One function a handler. Variables are stack slots that LLVM turns into registers; the args are a
// private copy that is written back at the end; fuel is counted in a register.
//
// A loop polls the abort word and pays fuel. An innermost counted loop does both once for a chunk
// of turns, and chunks whose index checks are known to pass run without them (bounds.hpp): that is
// the loop LLVM vectorises. A loop with loops inside pays turn by turn, because when fuel runs out
// in between is visible.
#include "jit/llvm_codegen.hpp"

#include <fmt/format.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/MDBuilder.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Support/raw_ostream.h>

#include <functional>

#include "everkernel/abi/control.hpp"
#include "everkernel/base/assert.hpp"
#include "jit/bounds.hpp"
#include "jit/llvm_values.hpp"

namespace everkernel::jit {
namespace {

using namespace ir;
using abi::FaultCode;
using llvm::BasicBlock;
using llvm::Value;

/// Turns of an innermost loop between two looks at the abort word.
constexpr std::uint32_t kChunkTurns = 4096;

/// A buffer whose handle has been looked up.
struct ResolvedBuffer {
  Value* entry = nullptr;       // an entry of zeros when the handle names nothing
  Value* words = nullptr;       // first word
  Value* is_usable = nullptr;   // there, and the tenant may use it
  Value* word_count = nullptr;  // what len() gives, if it is usable
  Value* readable = nullptr;    // words that may be loaded: 0 when reading is not allowed
  Value* writable = nullptr;    // words that may be stored
  Value* updatable = nullptr;   // words that may be both
};

/// Whether items of other workers may touch the buffers of an item while it runs. A plan lets items
/// of a handler that commutes add to one output side by side; it orders everything else.
bool shares_buffers(const Handler& handler, MemoryUse memory) {
  switch (memory) {
    case MemoryUse::shared:
      return true;
    case MemoryUse::exclusive:
      return false;
    case MemoryUse::planned:
      return handler.commutes;
  }
  return true;
}

/// What a break, a continue or a fault leaves.
struct LoopTargets {
  BasicBlock* on_break = nullptr;
  BasicBlock* on_continue = nullptr;
  Value* paid_turns = nullptr;               // of a chunk that has paid for its turns: how many
  llvm::AllocaInst* current_turn = nullptr;  // and which of them runs
};

class HandlerCodegen {
 public:
  HandlerCodegen(const VerifiedHandler& verified, const NativeOptions& options,
                 llvm::Module& module, const std::string& symbol);
  void run();

 private:
  // Frame.
  Value* frame_field(std::size_t offset, const char* name);
  Value* load_frame_word(std::size_t offset, const char* name);
  void emit_prologue();
  void emit_exits();
  llvm::AllocaInst* slot(llvm::Type* type, const char* name);
  BasicBlock* block(const char* name) { return BasicBlock::Create(context_, name, function_); }

  // Endings.
  void end(Ending ending);
  void fault(Value* code);
  void fault_unless(Value* condition, const std::function<Value*()>& code);
  void branch_likely(Value* condition, BasicBlock* likely, BasicBlock* unlikely);
  Value* code(FaultCode fault_code) { return builder_.getInt32(static_cast<Word>(fault_code)); }

  // Statements.
  void emit(BlockId id);
  void emit(StmtId id);
  void emit_branch(const Stmt& stmt);
  void emit_while(const Stmt& stmt);
  void emit_for(StmtId id, const Stmt& stmt);
  void emit_each(StmtId id, const Stmt& stmt);
  void emit_await(const Stmt& stmt);
  void emit_store(StmtId id, const Stmt& stmt);
  void leave_to(BasicBlock* target);
  void give_back_fuel(const LoopTargets& chunk);

  // Loops.
  Value* turn_count(const Stmt& stmt, Value* first, Value* last);
  void poll_abort();
  void spend_turn();
  void emit_turns(Value* turns, const std::function<void(Value* turn)>& body);
  void emit_chunks(const Stmt& stmt, Value* first, Value* turns, bool pays_fuel,
                   const std::function<void(Value* turn)>& body);
  Value* chunk_length(Value* turn, Value* turns, bool pays_fuel);
  Value* chunk_is_safe(const Stmt& stmt, const LoopFacts& facts, LocalId counter,
                       Value* last_counter, std::set<ExprId>& loads, std::set<StmtId>& stores);
  Value* upper_bound(ExprId id, const LoopFacts& facts, LocalId counter, Value* last_counter);
  Value* upper_bound_binary(const Expr& expr, const LoopFacts& facts, LocalId counter,
                            Value* last_counter);

  // Memory.
  Value* handle_value(const BufferRef& buffer);
  ResolvedBuffer resolve(Value* handle);
  ResolvedBuffer resolved(BufferKind kind, Value* handle);
  bool is_settled(BufferKind kind) const {
    return (kind == BufferKind::input || kind == BufferKind::output) &&
           !verified_.effects.moves_buffers;
  }
  Value* place(BufferKind kind, Value* handle, Value* index, memory::Access access, bool is_proven);
  Value* control_place(Value* index, memory::Access access, bool is_proven);
  Value* access_code(const ResolvedBuffer& buffer, Word needed);
  // Control words are always shared: other items and the host use them whatever the buffers are.
  bool is_shared(BufferKind kind) const {
    return has_shared_buffers_ || kind == BufferKind::control;
  }
  Value* load_word(BufferKind kind, Value* pointer);
  void store_word(BufferKind kind, Value* word, Value* pointer);

  // Expressions.
  Value* emit(ExprId id, bool cannot_wrap = false);
  Value* emit_given(Builtin builtin);
  Value* emit_logical(const Expr& expr);
  Value* emit_function(const Expr& expr);
  void hide_one(const Expr& expr, Value*& left, Value*& right);
  Value* emit_atomic(ExprId id, const Expr& expr);
  Value* emit_length(const Expr& expr);
  Value* arg_pointer(Value* index);
  void call_hook(const char* name, const Expr& expr);
  llvm::Function* find_buffer_function();
  llvm::GlobalVariable* no_buffer();

  const VerifiedHandler& verified_;
  const Body& body_;
  const bool has_shared_buffers_;
  llvm::Module& module_;
  llvm::LLVMContext& context_;
  llvm::IRBuilder<> builder_;
  llvm::Function* function_;
  BasicBlock* entry_;
  BasicBlock* finish_block_ = nullptr;
  BasicBlock* fault_block_ = nullptr;  // where a fault goes: the item's end, or a turn's
  llvm::AllocaInst* ending_ = nullptr;
  llvm::AllocaInst* code_ = nullptr;
  llvm::AllocaInst* fuel_ = nullptr;
  llvm::AllocaInst* lane_ = nullptr;
  llvm::AllocaInst* args_ = nullptr;
  llvm::ArrayType* args_type_ = nullptr;
  Value* frame_ = nullptr;
  Value* tenant_ = nullptr;
  Value* control_ = nullptr;
  Value* control_words_ = nullptr;
  Value* table_entries_ = nullptr;
  Value* table_mask_ = nullptr;
  Value* abort_ = nullptr;
  Value* lanes_ = nullptr;
  std::vector<llvm::AllocaInst*> locals_;
  std::optional<ResolvedBuffer> input_, output_;
  std::vector<LoopTargets> loops_;
  std::set<ExprId> proven_loads_;
  std::set<StmtId> proven_stores_;
  std::map<LocalId, Value*> definition_bounds_;  // of this chunk; made once, or chains would double
};

HandlerCodegen::HandlerCodegen(const VerifiedHandler& verified, const NativeOptions& options,
                               llvm::Module& module, const std::string& symbol)
    : verified_(verified),
      body_(verified.handler.body),
      has_shared_buffers_(shares_buffers(verified.handler, options.memory)),
      module_(module),
      context_(module.getContext()),
      builder_(context_) {
  llvm::Type* const pointer = llvm::PointerType::getUnqual(context_);
  auto* const type = llvm::FunctionType::get(builder_.getInt32Ty(), {pointer}, false);
  function_ = llvm::Function::Create(type, llvm::Function::ExternalLinkage, symbol, module_);
  function_->setDoesNotThrow();
  entry_ = block("entry");
}

void HandlerCodegen::run() {
  emit_prologue();
  emit(body_.root);
  end(Ending::done);
  builder_.CreateUnreachable();
  emit_exits();
}

// ---- frame ----

Value* HandlerCodegen::frame_field(std::size_t offset, const char* name) {
  return builder_.CreateConstInBoundsGEP1_64(builder_.getInt8Ty(), frame_, offset, name);
}

Value* HandlerCodegen::load_frame_word(std::size_t offset, const char* name) {
  return builder_.CreateLoad(builder_.getInt32Ty(), frame_field(offset, name), name);
}

llvm::AllocaInst* HandlerCodegen::slot(llvm::Type* type, const char* name) {
  llvm::IRBuilder<> at_entry(entry_, entry_->begin());
  return at_entry.CreateAlloca(type, nullptr, name);
}

void HandlerCodegen::emit_prologue() {
  builder_.SetInsertPoint(entry_);
  llvm::Type* const i32 = builder_.getInt32Ty();
  llvm::Type* const pointer = builder_.getPtrTy();
  frame_ = function_->getArg(0);
  ending_ = slot(i32, "ending");
  code_ = slot(i32, "code");
  fuel_ = slot(builder_.getInt64Ty(), "fuel");
  lane_ = slot(i32, "lane");
  args_type_ = llvm::ArrayType::get(i32, abi::kSlotArgs);
  args_ = slot(args_type_, "args");
  for (const Local& local : verified_.locals) {
    llvm::Type* const type = llvm_type(context_, local.type);
    locals_.push_back(slot(type, body_[local.name].c_str()));
    builder_.CreateStore(llvm::Constant::getNullValue(type), locals_.back());
  }
  builder_.CreateMemCpy(args_, llvm::Align(4), frame_field(offsetof(ItemFrame, args), "frame.args"),
                        llvm::Align(8), sizeof(ItemFrame::args));
  builder_.CreateStore(builder_.getInt32(0), lane_);
  builder_.CreateStore(builder_.getInt32(0), code_);
  builder_.CreateStore(builder_.CreateLoad(builder_.getInt64Ty(),
                                           frame_field(offsetof(ItemFrame, fuel), "frame.fuel")),
                       fuel_);
  tenant_ = load_frame_word(offsetof(ItemFrame, tenant), "tenant");
  lanes_ = builder_.CreateBinaryIntrinsic(llvm::Intrinsic::umax, builder_.getInt32(1),
                                          load_frame_word(offsetof(ItemFrame, lanes), "lanes"));
  control_words_ = load_frame_word(offsetof(ItemFrame, control_words), "control_words");
  control_ = builder_.CreateLoad(pointer, frame_field(offsetof(ItemFrame, control), "f.control"));
  constexpr std::size_t kTable = offsetof(ItemFrame, buffers);
  table_entries_ = builder_.CreateLoad(pointer, frame_field(kTable, "f.entries"), "entries");
  table_mask_ = load_frame_word(kTable + offsetof(memory::BufferTableView, mask), "mask");
  // Without an abort word, a zero of our own is polled: no branch in the loops.
  auto* const zero = new llvm::GlobalVariable(module_, i32, true, llvm::GlobalValue::PrivateLinkage,
                                              builder_.getInt32(0), "never");
  Value* const asked =
      builder_.CreateLoad(pointer, frame_field(offsetof(ItemFrame, abort), "f.abort"));
  abort_ = builder_.CreateSelect(builder_.CreateIsNull(asked), zero, asked, "abort");
  finish_block_ = block("finish");
  fault_block_ = block("fault");
  // input and output are looked up once if their handles cannot change. What is wrong with them is
  // said where they are used, not here.
  if (is_settled(BufferKind::input)) input_ = resolve(builder_.CreateLoad(i32, args_));
  if (is_settled(BufferKind::output)) {
    output_ = resolve(builder_.CreateLoad(i32, arg_pointer(builder_.getInt32(1))));
  }
}

void HandlerCodegen::emit_exits() {
  builder_.SetInsertPoint(fault_block_);
  Value* const fault_code = builder_.CreateLoad(builder_.getInt32Ty(), code_);
  Value* const packed_fault = builder_.CreateOr(
      builder_.CreateShl(fault_code, 8), builder_.getInt32(static_cast<Word>(Ending::fault)));
  builder_.CreateStore(packed_fault, ending_);
  builder_.CreateBr(finish_block_);

  builder_.SetInsertPoint(finish_block_);
  if (verified_.effects.writes_args) {
    builder_.CreateMemCpy(frame_field(offsetof(ItemFrame, args), "frame.args"), llvm::Align(8),
                          args_, llvm::Align(4), sizeof(ItemFrame::args));
  }
  builder_.CreateStore(builder_.CreateLoad(builder_.getInt64Ty(), fuel_),
                       frame_field(offsetof(ItemFrame, fuel), "frame.fuel"));
  builder_.CreateRet(builder_.CreateLoad(builder_.getInt32Ty(), ending_));
}

// ---- endings ----

void HandlerCodegen::end(Ending ending) {
  if (!loops_.empty() && loops_.back().paid_turns != nullptr) give_back_fuel(loops_.back());
  builder_.CreateStore(builder_.getInt32(static_cast<Word>(ending)), ending_);
  leave_to(finish_block_);
}

void HandlerCodegen::leave_to(BasicBlock* target) {
  builder_.CreateBr(target);
  builder_.SetInsertPoint(block("unreachable"));  // what the text has behind it never runs
}

void HandlerCodegen::fault(Value* fault_code) {
  builder_.CreateStore(fault_code, code_);
  leave_to(fault_block_);
}

void HandlerCodegen::branch_likely(Value* condition, BasicBlock* likely, BasicBlock* unlikely) {
  llvm::MDBuilder metadata(context_);
  builder_.CreateCondBr(condition, likely, unlikely, metadata.createBranchWeights(1 << 20, 1));
}

void HandlerCodegen::fault_unless(Value* condition, const std::function<Value*()>& fault_code) {
  BasicBlock* const passed = block("ok");
  BasicBlock* const failed = block("bad");
  branch_likely(condition, passed, failed);
  builder_.SetInsertPoint(failed);
  builder_.CreateStore(fault_code(), code_);
  builder_.CreateBr(fault_block_);
  builder_.SetInsertPoint(passed);
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
    case StmtKind::assign_name: {
      Value* const value = emit(stmt.operands[0]);
      builder_.CreateStore(value, locals_[static_cast<std::size_t>(verified_.local(id))]);
      return;
    }
    case StmtKind::assign_arg: {
      Value* const index = emit(stmt.operands[0]);
      Value* const word = emit(stmt.operands[1]);
      fault_unless(builder_.CreateICmpULT(index, builder_.getInt32(abi::kSlotArgs)),
                   [&] { return code(FaultCode::index_out_of_range); });
      builder_.CreateStore(word, arg_pointer(index));
      return;
    }
    case StmtKind::store:
      return emit_store(id, stmt);
    case StmtKind::branch:
      return emit_branch(stmt);
    case StmtKind::for_loop:
      return emit_for(id, stmt);
    case StmtKind::each_loop:
      return emit_each(id, stmt);
    case StmtKind::while_loop:
      return emit_while(stmt);
    case StmtKind::break_loop:
      return leave_to(loops_.back().on_break);
    case StmtKind::continue_loop:
      return leave_to(loops_.back().on_continue);
    case StmtKind::finish:
      return end(Ending::done);
    case StmtKind::yield:
      return end(Ending::yield);
    case StmtKind::requeue:
      return end(Ending::requeue);
    case StmtKind::fault: {
      Value* const n = builder_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, emit(stmt.operands[0]),
                                                      builder_.getInt32(abi::kMaxUserFault));
      return fault(builder_.CreateAdd(n, builder_.getInt32(abi::kFirstUserFault)));
    }
    case StmtKind::evaluate:
      emit(stmt.operands[0]);
      return;
    case StmtKind::await_read:
    case StmtKind::await_write:
      return emit_await(stmt);
  }
}

void HandlerCodegen::emit_store(StmtId id, const Stmt& stmt) {
  const bool is_proven = proven_stores_.contains(id);
  Value* const handle = handle_value(stmt.buffer);
  Value* const index = emit(stmt.operands[0], is_proven);
  Value* const word = emit(stmt.operands[1]);
  Value* const pointer = place(stmt.buffer.kind, handle, index, memory::Access::write, is_proven);
  store_word(stmt.buffer.kind, word, pointer);
}

void HandlerCodegen::emit_branch(const Stmt& stmt) {
  Value* const condition = emit(stmt.operands[0]);
  BasicBlock* const then = block("then");
  BasicBlock* const otherwise = block("else");
  BasicBlock* const after = block("endif");
  builder_.CreateCondBr(condition, then, otherwise);
  builder_.SetInsertPoint(then);
  emit(stmt.body);
  builder_.CreateBr(after);
  builder_.SetInsertPoint(otherwise);
  if (stmt.otherwise) emit(*stmt.otherwise);
  builder_.CreateBr(after);
  builder_.SetInsertPoint(after);
}

void HandlerCodegen::emit_await(const Stmt& stmt) {
  const bool is_write = stmt.kind == StmtKind::await_write;
  constexpr std::size_t kFields[] = {offsetof(IoAsk, source), offsetof(IoAsk, block),
                                     offsetof(IoAsk, destination), offsetof(IoAsk, byte_count)};
  constexpr std::size_t kIo = offsetof(ItemFrame, io);
  builder_.CreateStore(builder_.getInt32(is_write ? 1 : 0),
                       frame_field(kIo + offsetof(IoAsk, is_write), "io.is_write"));
  for (std::size_t i = 0; i < 4; ++i) {
    Value* const value = emit(stmt.operands[i]);
    builder_.CreateStore(value, frame_field(kIo + kFields[i], "io"));
  }
  end(Ending::wait_io);
}

// ---- loops ----

void HandlerCodegen::poll_abort() {
  auto* const word = builder_.CreateLoad(builder_.getInt32Ty(), abort_, "aborted");
  word->setAtomic(llvm::AtomicOrdering::Monotonic);
  word->setAlignment(llvm::Align(4));
  fault_unless(builder_.CreateICmpEQ(word, builder_.getInt32(0)),
               [&] { return code(FaultCode::deadline); });
}

void HandlerCodegen::spend_turn() {
  poll_abort();
  Value* const fuel = builder_.CreateLoad(builder_.getInt64Ty(), fuel_);
  fault_unless(builder_.CreateICmpNE(fuel, builder_.getInt64(0)),
               [&] { return code(FaultCode::fuel_exhausted); });
  builder_.CreateStore(builder_.CreateSub(fuel, builder_.getInt64(1)), fuel_);
}

void HandlerCodegen::emit_while(const Stmt& stmt) {
  BasicBlock* const head = block("while");
  BasicBlock* const body = block("while.body");
  BasicBlock* const after = block("while.end");
  builder_.CreateBr(head);
  builder_.SetInsertPoint(head);
  builder_.CreateCondBr(emit(stmt.operands[0]), body, after);
  builder_.SetInsertPoint(body);
  spend_turn();
  loops_.push_back({.on_break = after, .on_continue = head});
  emit(stmt.body);
  loops_.pop_back();
  builder_.CreateBr(head);
  builder_.SetInsertPoint(after);
}

Value* HandlerCodegen::turn_count(const Stmt& stmt, Value* first, Value* last) {
  const bool is_signed = verified_.type(stmt.operands[0]) == Type::i32;
  Value* const has_turns =
      is_signed ? builder_.CreateICmpSLT(first, last) : builder_.CreateICmpULT(first, last);
  return builder_.CreateSelect(has_turns, builder_.CreateSub(last, first), builder_.getInt32(0));
}

// for turn in 0 .. turns: body(turn). The body ends in the block that leads to the next turn.
void HandlerCodegen::emit_turns(Value* turns, const std::function<void(Value* turn)>& body) {
  BasicBlock* const before = builder_.GetInsertBlock();
  BasicBlock* const head = block("turn");
  BasicBlock* const inside = block("turn.body");
  BasicBlock* const after = block("turn.end");
  builder_.CreateBr(head);
  builder_.SetInsertPoint(head);
  llvm::PHINode* const turn = builder_.CreatePHI(builder_.getInt32Ty(), 2, "t");
  turn->addIncoming(builder_.getInt32(0), before);
  builder_.CreateCondBr(builder_.CreateICmpULT(turn, turns), inside, after);
  builder_.SetInsertPoint(inside);
  body(turn);
  turn->addIncoming(builder_.CreateAdd(turn, builder_.getInt32(1), "", true),
                    builder_.GetInsertBlock());
  builder_.CreateBr(head);
  builder_.SetInsertPoint(after);
}

// Turns of the next chunk: at most kChunkTurns, what is left, and what the fuel buys.
Value* HandlerCodegen::chunk_length(Value* turn, Value* turns, bool pays_fuel) {
  poll_abort();
  Value* length = builder_.CreateBinaryIntrinsic(llvm::Intrinsic::umin,
                                                 builder_.CreateSub(turns, turn, "", true),
                                                 builder_.getInt32(kChunkTurns));
  if (!pays_fuel) return length;
  llvm::Type* const i64 = builder_.getInt64Ty();
  Value* const fuel = builder_.CreateLoad(i64, fuel_);
  fault_unless(builder_.CreateICmpNE(fuel, builder_.getInt64(0)),
               [&] { return code(FaultCode::fuel_exhausted); });
  Value* const wide =
      builder_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, builder_.CreateZExt(length, i64), fuel);
  builder_.CreateStore(builder_.CreateSub(fuel, wide), fuel_);
  return builder_.CreateTrunc(wide, builder_.getInt32Ty());
}

// The fuel of turns that a chunk has paid for and, since it is left, does not run.
void HandlerCodegen::give_back_fuel(const LoopTargets& chunk) {
  Value* const turn = builder_.CreateLoad(builder_.getInt32Ty(), chunk.current_turn);
  Value* const unused =
      builder_.CreateSub(builder_.CreateSub(chunk.paid_turns, turn), builder_.getInt32(1));
  Value* const fuel = builder_.CreateLoad(builder_.getInt64Ty(), fuel_);
  builder_.CreateStore(builder_.CreateAdd(fuel, builder_.CreateZExt(unused, builder_.getInt64Ty())),
                       fuel_);
}

// The turns of an innermost loop, chunk by chunk. Leaving it gives back the fuel of the turns that
// the chunk has paid for and not run, except by a fault, after which fuel means nothing.
void HandlerCodegen::emit_chunks(const Stmt& stmt, Value* first, Value* turns, bool pays_fuel,
                                 const std::function<void(Value* turn)>& body) {
  const LoopFacts facts = gather_facts(verified_, stmt.body);
  const StmtId id{static_cast<std::uint32_t>(&stmt - body_.stmts.data())};
  const LocalId counter = verified_.local(id);
  llvm::AllocaInst* const done_slot = slot(builder_.getInt32Ty(), "chunk.first");
  llvm::AllocaInst* const turn_slot = slot(builder_.getInt32Ty(), "chunk.turn");
  BasicBlock* const head = block("chunk");
  BasicBlock* const inside = block("chunk.body");
  BasicBlock* const broken = block("chunk.break");
  BasicBlock* const after = block("chunk.end");
  builder_.CreateStore(builder_.getInt32(0), done_slot);
  builder_.CreateBr(head);
  builder_.SetInsertPoint(head);
  Value* const done = builder_.CreateLoad(builder_.getInt32Ty(), done_slot);
  builder_.CreateCondBr(builder_.CreateICmpULT(done, turns), inside, after);
  builder_.SetInsertPoint(inside);
  Value* const length = chunk_length(done, turns, pays_fuel);
  Value* const next = builder_.CreateAdd(done, length, "", true);

  const auto run_chunk = [&] {
    emit_turns(length, [&](Value* turn) {
      BasicBlock* const next_turn = block("turn.next");
      if (pays_fuel) builder_.CreateStore(turn, turn_slot);
      loops_.push_back({.on_break = broken,
                        .on_continue = next_turn,
                        .paid_turns = pays_fuel ? length : nullptr,
                        .current_turn = turn_slot});
      body(builder_.CreateAdd(done, turn, "", true));
      loops_.pop_back();
      builder_.CreateBr(next_turn);
      builder_.SetInsertPoint(next_turn);
    });
    builder_.CreateStore(next, done_slot);
    builder_.CreateBr(head);
  };
  std::set<ExprId> loads;
  std::set<StmtId> stores;
  Value* const last_counter =
      builder_.CreateSub(builder_.CreateAdd(first, next), builder_.getInt32(1), "last");
  Value* const is_safe = chunk_is_safe(stmt, facts, counter, last_counter, loads, stores);
  if (is_safe != nullptr) {
    BasicBlock* const fast = block("fast");
    BasicBlock* const careful = block("careful");
    branch_likely(is_safe, fast, careful);
    builder_.SetInsertPoint(fast);
    proven_loads_.swap(loads);
    proven_stores_.swap(stores);
    run_chunk();
    proven_loads_.swap(loads);
    proven_stores_.swap(stores);
    builder_.SetInsertPoint(careful);
  }
  run_chunk();

  builder_.SetInsertPoint(broken);
  if (pays_fuel) give_back_fuel({.paid_turns = length, .current_turn = turn_slot});
  builder_.CreateBr(after);
  builder_.SetInsertPoint(after);
}

void HandlerCodegen::emit_for(StmtId id, const Stmt& stmt) {
  Value* const first = emit(stmt.operands[0]);
  Value* const last = emit(stmt.operands[1]);
  Value* const turns = turn_count(stmt, first, last);
  const bool is_unsigned = verified_.type(stmt.operands[0]) == Type::u32;
  llvm::AllocaInst* const counter = locals_[static_cast<std::size_t>(verified_.local(id))];
  const auto run_turn = [&](Value* turn) {
    // first + turn is below last, so an unsigned counter does not wrap.
    builder_.CreateStore(builder_.CreateAdd(first, turn, "i", is_unsigned), counter);
    emit(stmt.body);
  };
  if (!gather_facts(verified_, stmt.body).has_inner_loop) {
    return emit_chunks(stmt, first, turns, /*pays_fuel=*/true, run_turn);
  }
  BasicBlock* const after = block("for.end");
  emit_turns(turns, [&](Value* turn) {
    BasicBlock* const next_turn = block("for.next");
    spend_turn();
    loops_.push_back({.on_break = after, .on_continue = next_turn});
    run_turn(turn);
    loops_.pop_back();
    builder_.CreateBr(next_turn);
    builder_.SetInsertPoint(next_turn);
  });
  builder_.CreateBr(after);
  builder_.SetInsertPoint(after);
}

// Turns are charged before the first; each may then spend its share, and what they all spent is
// charged at the end. A turn that faults ends alone; the lowest one's code is the item's.
void HandlerCodegen::emit_each(StmtId id, const Stmt& stmt) {
  llvm::Type* const i64 = builder_.getInt64Ty();
  Value* const first = emit(stmt.operands[0]);
  Value* const last = emit(stmt.operands[1]);
  Value* const turns = turn_count(stmt, first, last);
  BasicBlock* const start = block("each");
  BasicBlock* const after = block("each.end");
  builder_.CreateCondBr(builder_.CreateICmpEQ(turns, builder_.getInt32(0)), after, start);
  builder_.SetInsertPoint(start);
  poll_abort();
  Value* const wide_turns = builder_.CreateZExt(turns, i64);
  Value* const fuel = builder_.CreateLoad(i64, fuel_);
  fault_unless(builder_.CreateICmpUGE(fuel, wide_turns),
               [&] { return code(FaultCode::fuel_exhausted); });
  Value* const left = builder_.CreateSub(fuel, wide_turns);
  Value* const share = builder_.CreateUDiv(left, wide_turns);
  llvm::AllocaInst* const spent = slot(i64, "each.spent");
  llvm::AllocaInst* const lowest = slot(builder_.getInt32Ty(), "each.code");
  builder_.CreateStore(builder_.getInt64(0), spent);
  builder_.CreateStore(builder_.getInt32(0), lowest);

  const bool has_inner_loop = gather_facts(verified_, stmt.body).has_inner_loop;
  const bool is_unsigned = verified_.type(stmt.operands[0]) == Type::u32;
  llvm::AllocaInst* const counter = locals_[static_cast<std::size_t>(verified_.local(id))];
  BasicBlock* const item_fault_block = fault_block_;
  const auto run_turn = [&](Value* turn) {
    BasicBlock* const turn_fault = block("each.fault");
    BasicBlock* const turn_end = block("each.next");
    if (has_inner_loop) builder_.CreateStore(share, fuel_);
    builder_.CreateStore(builder_.CreateURem(turn, lanes_), lane_);
    builder_.CreateStore(builder_.CreateAdd(first, turn, "i", is_unsigned), counter);
    fault_block_ = turn_fault;
    loops_.push_back({.on_break = nullptr, .on_continue = turn_end});
    if (has_inner_loop) poll_abort();
    emit(stmt.body);
    loops_.pop_back();
    fault_block_ = item_fault_block;
    builder_.CreateBr(turn_end);
    builder_.SetInsertPoint(turn_fault);
    Value* const so_far = builder_.CreateLoad(builder_.getInt32Ty(), lowest);
    Value* const new_code = builder_.CreateLoad(builder_.getInt32Ty(), code_);
    Value* const is_first = builder_.CreateICmpEQ(so_far, builder_.getInt32(0));
    builder_.CreateStore(builder_.CreateSelect(is_first, new_code, so_far), lowest);
    builder_.CreateBr(turn_end);
    builder_.SetInsertPoint(turn_end);
    if (!has_inner_loop) return;
    Value* const used = builder_.CreateSub(share, builder_.CreateLoad(i64, fuel_));
    builder_.CreateStore(builder_.CreateAdd(builder_.CreateLoad(i64, spent), used), spent);
  };
  if (has_inner_loop) {
    emit_turns(turns, run_turn);
  } else {
    emit_chunks(stmt, first, turns, /*pays_fuel=*/false, run_turn);
  }
  builder_.CreateStore(builder_.getInt32(0), lane_);
  builder_.CreateStore(builder_.CreateSub(left, builder_.CreateLoad(i64, spent)), fuel_);
  Value* const lowest_code = builder_.CreateLoad(builder_.getInt32Ty(), lowest);
  fault_unless(builder_.CreateICmpEQ(lowest_code, builder_.getInt32(0)),
               [&] { return lowest_code; });
  builder_.CreateBr(after);
  builder_.SetInsertPoint(after);
}

// ---- bounds ----

// True at run time if every access whose index has a bound stays inside for the whole chunk; null
// if no access has one. Collects those accesses.
Value* HandlerCodegen::chunk_is_safe(const Stmt& stmt, const LoopFacts& facts, LocalId counter,
                                     Value* last_counter, std::set<ExprId>& loads,
                                     std::set<StmtId>& stores) {
  // A signed counter may be negative: as an index it is then huge, and nothing is known of it.
  if (verified_.type(stmt.operands[0]) != Type::u32) return nullptr;
  definition_bounds_.clear();
  Value* is_safe = nullptr;
  const auto require = [&](ExprId index, Value* limit) {
    Value* const bound = upper_bound(index, facts, counter, last_counter);
    if (bound == nullptr) return false;
    Value* const fits =
        builder_.CreateICmpULT(bound, builder_.CreateZExt(limit, builder_.getInt64Ty()));
    is_safe = is_safe == nullptr ? fits : builder_.CreateAnd(is_safe, fits);
    return true;
  };
  for (const ExprId id : facts.loads) {
    const Expr& expr = body_[id];
    const bool is_control = expr.buffer.kind == BufferKind::control && expr.kind == ExprKind::load;
    if (!is_settled(expr.buffer.kind) && !is_control) continue;
    Value* limit = control_words_;
    if (!is_control) {
      const ResolvedBuffer buffer = resolved(expr.buffer.kind, nullptr);
      limit = expr.kind == ExprKind::load ? buffer.readable : buffer.updatable;
    }
    if (require(expr.operands[0], limit)) loads.insert(id);
  }
  for (const StmtId id : facts.stores) {
    const Stmt& store = body_[id];
    if (!is_settled(store.buffer.kind)) continue;
    if (require(store.operands[0], resolved(store.buffer.kind, nullptr).writable))
      stores.insert(id);
  }
  return is_safe;
}

// A 64-bit value that no value of the u32 expression exceeds in any turn of the chunk, null if none
// is known. Sums and products saturate; an expression that wraps in 32 bits is below its bound all
// the more.
Value* HandlerCodegen::upper_bound(ExprId id, const LoopFacts& facts, LocalId counter,
                                   Value* last_counter) {
  llvm::Type* const i64 = builder_.getInt64Ty();
  if (verified_.type(id) != Type::u32) return nullptr;
  const Expr& expr = body_[id];
  const auto bound = [&](ExprId operand) {
    return upper_bound(operand, facts, counter, last_counter);
  };
  switch (expr.kind) {
    case ExprKind::literal:
      return builder_.getInt64(expr.bits);
    case ExprKind::name: {
      const LocalId local = verified_.local(id);
      if (local == counter) return builder_.CreateZExt(last_counter, i64);
      if (facts.assigned.contains(local)) return nullptr;
      const auto definition = facts.definitions.find(local);
      if (definition != facts.definitions.end()) {
        const auto known = definition_bounds_.find(local);
        if (known != definition_bounds_.end()) return known->second;
        return definition_bounds_[local] = bound(definition->second);
      }
      if (facts.declared.contains(local)) return nullptr;
      return builder_.CreateZExt(
          builder_.CreateLoad(builder_.getInt32Ty(), locals_[static_cast<std::size_t>(local)]),
          i64);
    }
    case ExprKind::builtin:
      if (expr.builtin == Builtin::param && verified_.effects.writes_args) return nullptr;
      if (expr.builtin == Builtin::lane) return builder_.CreateZExt(lanes_, i64);
      return builder_.CreateZExt(emit_given(expr.builtin), i64);
    case ExprKind::binary:
      return upper_bound_binary(expr, facts, counter, last_counter);
    case ExprKind::call: {
      if (expr.function == Function::select) {
        Value* const b = bound(expr.operands[1]);
        Value* const c = bound(expr.operands[2]);
        if (b == nullptr || c == nullptr) return nullptr;
        return builder_.CreateBinaryIntrinsic(llvm::Intrinsic::umax, b, c);
      }
      if (expr.function != Function::min) return nullptr;
      Value* const a = bound(expr.operands[0]);
      Value* const b = bound(expr.operands[1]);
      if (a == nullptr || b == nullptr) return a == nullptr ? b : a;
      return builder_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, a, b);
    }
    case ExprKind::arg:
    case ExprKind::load:
    case ExprKind::length:
    case ExprKind::unary:
    case ExprKind::atomic:
      return nullptr;
  }
  return nullptr;
}

Value* HandlerCodegen::upper_bound_binary(const Expr& expr, const LoopFacts& facts, LocalId counter,
                                          Value* last_counter) {
  Value* const a = upper_bound(expr.operands[0], facts, counter, last_counter);
  Value* const b = upper_bound(expr.operands[1], facts, counter, last_counter);
  const auto constant = [&](ExprId id) -> std::optional<Word> {
    if (body_[id].kind != ExprKind::literal) return std::nullopt;
    return body_[id].bits;
  };
  switch (expr.binary) {
    case BinaryOp::add:
      if (a == nullptr || b == nullptr) return nullptr;
      return builder_.CreateBinaryIntrinsic(llvm::Intrinsic::uadd_sat, a, b);
    case BinaryOp::multiply: {
      // Two factors below 2^32 cannot overflow; larger bounds say nothing.
      if (a == nullptr || b == nullptr) return nullptr;
      Value* const limit = builder_.getInt64(0xFFFFFFFFu);
      Value* const is_small =
          builder_.CreateAnd(builder_.CreateICmpULE(a, limit), builder_.CreateICmpULE(b, limit));
      return builder_.CreateSelect(is_small, builder_.CreateMul(a, b),
                                   builder_.getInt64(~std::uint64_t{0}));
    }
    case BinaryOp::bit_and:
    case BinaryOp::remainder:  // x % y is at most x, and at most y; x % 0 is 0
      if (a == nullptr || b == nullptr) return a == nullptr ? b : a;
      return builder_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, a, b);
    case BinaryOp::divide:
      return a;  // x / 0 is x
    case BinaryOp::shift_right: {
      const auto count = constant(expr.operands[1]);
      if (a == nullptr || !count) return a;
      return builder_.CreateLShr(a, builder_.getInt64(*count & 31));
    }
    default:
      return nullptr;
  }
}

// ---- memory ----

Value* HandlerCodegen::handle_value(const BufferRef& buffer) {
  switch (buffer.kind) {
    case BufferKind::input:
      return builder_.CreateLoad(builder_.getInt32Ty(), args_);
    case BufferKind::output:
      return builder_.CreateLoad(builder_.getInt32Ty(), arg_pointer(builder_.getInt32(1)));
    case BufferKind::handle:
      return emit(buffer.handle);
    case BufferKind::control:
      break;
  }
  return nullptr;
}

// An entry of zeros: what a handle that names nothing leads to. Its handle is 0, its length 0.
llvm::GlobalVariable* HandlerCodegen::no_buffer() {
  if (llvm::GlobalVariable* const made = module_.getNamedGlobal("no_buffer")) return made;
  auto* const type = llvm::ArrayType::get(builder_.getInt64Ty(), sizeof(memory::BufferEntry) / 8);
  auto* const zeros =
      new llvm::GlobalVariable(module_, type, true, llvm::GlobalValue::InternalLinkage,
                               llvm::Constant::getNullValue(type), "no_buffer");
  zeros->setAlignment(llvm::Align(alignof(memory::BufferEntry)));
  return zeros;
}

// The table search, as a function of the module: const BufferEntry* (entries, mask, handle). The
// table does not change while an item runs, so the search counts as a function of its operands
// alone: LLVM then moves it out of loops and makes it once for equal handles.
llvm::Function* HandlerCodegen::find_buffer_function() {
  if (llvm::Function* const made = module_.getFunction("find_buffer")) return made;
  llvm::Type* const i32 = builder_.getInt32Ty();
  llvm::Type* const pointer = builder_.getPtrTy();
  auto* const type = llvm::FunctionType::get(pointer, {pointer, i32, i32}, false);
  auto* const find =
      llvm::Function::Create(type, llvm::Function::InternalLinkage, "find_buffer", module_);
  find->setDoesNotThrow();
  find->setDoesNotAccessMemory();
  find->addFnAttr(llvm::Attribute::NoInline);
  find->addFnAttr(llvm::Attribute::WillReturn);
  find->addFnAttr(llvm::Attribute::Speculatable);
  find->addRetAttr(llvm::Attribute::NonNull);
  find->addRetAttr(llvm::Attribute::NoUndef);
  find->addRetAttr(
      llvm::Attribute::getWithDereferenceableBytes(context_, sizeof(memory::BufferEntry)));
  llvm::IRBuilder<> build(BasicBlock::Create(context_, "entry", find));
  Value* const entries = find->getArg(0);
  Value* const mask = find->getArg(1);
  Value* const handle = find->getArg(2);
  BasicBlock* const entry = build.GetInsertBlock();
  BasicBlock* const probe = BasicBlock::Create(context_, "probe", find);
  BasicBlock* const miss = BasicBlock::Create(context_, "miss", find);
  BasicBlock* const hit = BasicBlock::Create(context_, "hit", find);
  BasicBlock* const next = BasicBlock::Create(context_, "next", find);
  BasicBlock* const none = BasicBlock::Create(context_, "none", find);
  Value* const mixed =
      build.CreateLShr(build.CreateMul(handle, build.getInt32(0x9E3779B1u)), build.getInt32(7));
  Value* const home = build.CreateAnd(mixed, mask);
  Value* const is_nothing =
      build.CreateOr(build.CreateIsNull(entries), build.CreateICmpEQ(handle, build.getInt32(0)));
  build.CreateCondBr(is_nothing, none, probe);
  build.SetInsertPoint(probe);
  llvm::PHINode* const at = build.CreatePHI(i32, 2);
  at->addIncoming(home, entry);
  Value* const offset = build.CreateMul(build.CreateZExt(at, build.getInt64Ty()),
                                        build.getInt64(sizeof(memory::BufferEntry)));
  Value* const place = build.CreateInBoundsGEP(build.getInt8Ty(), entries, offset);
  Value* const found =
      build.CreateLoad(i32, build.CreateConstInBoundsGEP1_64(
                                build.getInt8Ty(), place, offsetof(memory::BufferEntry, handle)));
  build.CreateCondBr(build.CreateICmpEQ(found, handle), hit, miss);
  build.SetInsertPoint(miss);
  build.CreateCondBr(build.CreateICmpEQ(found, build.getInt32(0)), none, next);
  build.SetInsertPoint(next);
  at->addIncoming(build.CreateAnd(build.CreateAdd(at, build.getInt32(1)), mask), next);
  build.CreateBr(probe);
  build.SetInsertPoint(hit);
  build.CreateRet(place);
  build.SetInsertPoint(none);
  build.CreateRet(no_buffer());
  return find;
}

ResolvedBuffer HandlerCodegen::resolve(Value* handle) {
  llvm::Type* const i32 = builder_.getInt32Ty();
  llvm::Type* const pointer = builder_.getPtrTy();
  Value* const entry =
      builder_.CreateCall(find_buffer_function(), {table_entries_, table_mask_, handle});
  const auto field = [&](llvm::Type* type, std::size_t offset) {
    auto* const load = builder_.CreateLoad(
        type, builder_.CreateConstInBoundsGEP1_64(builder_.getInt8Ty(), entry, offset));
    load->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(context_, {}));
    return load;
  };
  ResolvedBuffer buffer{.entry = entry};
  buffer.words = field(pointer, offsetof(memory::BufferEntry, words));
  buffer.word_count = field(i32, offsetof(memory::BufferEntry, word_count));
  Value* const access = field(i32, offsetof(memory::BufferEntry, access));
  Value* const owner = field(i32, offsetof(memory::BufferEntry, owner));
  Value* const is_owner =
      builder_.CreateOr(builder_.CreateICmpEQ(owner, tenant_),
                        builder_.CreateICmpEQ(owner, builder_.getInt32(memory::kEveryTenant)));
  Value* const found = field(i32, offsetof(memory::BufferEntry, handle));
  buffer.is_usable =
      builder_.CreateAnd(is_owner, builder_.CreateICmpNE(found, builder_.getInt32(0)));
  const auto allowed = [&](memory::Access needed) {
    Value* const bits = builder_.getInt32(static_cast<Word>(needed));
    Value* const has_access = builder_.CreateICmpEQ(builder_.CreateAnd(access, bits), bits);
    return builder_.CreateSelect(builder_.CreateAnd(is_owner, has_access), buffer.word_count,
                                 builder_.getInt32(0));
  };
  buffer.readable = allowed(memory::Access::read);
  buffer.writable = allowed(memory::Access::write);
  buffer.updatable = allowed(memory::Access::read_write);
  return buffer;
}

ResolvedBuffer HandlerCodegen::resolved(BufferKind kind, Value* handle) {
  if (is_settled(kind)) return kind == BufferKind::input ? *input_ : *output_;
  return resolve(handle);
}

// Why an access that found no word is a fault. Runs only then.
Value* HandlerCodegen::access_code(const ResolvedBuffer& buffer, Word needed) {
  llvm::Type* const i32 = builder_.getInt32Ty();
  auto* const type = llvm::FunctionType::get(i32, {builder_.getPtrTy(), i32, i32}, false);
  const auto helper = module_.getOrInsertFunction("everkernel_access_code", type);
  return builder_.CreateCall(helper, {buffer.entry, tenant_, builder_.getInt32(needed)});
}

Value* HandlerCodegen::place(BufferKind kind, Value* handle, Value* index, memory::Access access,
                             bool is_proven) {
  if (kind == BufferKind::control) return control_place(index, access, is_proven);
  const ResolvedBuffer buffer = resolved(kind, handle);
  if (!is_proven) {
    Value* const limit = access == memory::Access::read    ? buffer.readable
                         : access == memory::Access::write ? buffer.writable
                                                           : buffer.updatable;
    fault_unless(builder_.CreateICmpULT(index, limit),
                 [&] { return access_code(buffer, static_cast<Word>(access)); });
  }
  return builder_.CreateInBoundsGEP(builder_.getInt32Ty(), buffer.words,
                                    builder_.CreateZExt(index, builder_.getInt64Ty()));
}

Value* HandlerCodegen::control_place(Value* index, memory::Access access, bool is_proven) {
  if (!is_proven) {
    fault_unless(builder_.CreateICmpULT(index, control_words_),
                 [&] { return code(FaultCode::index_out_of_range); });
  }
  if (access != memory::Access::read) {
    Value* const is_open =
        builder_.CreateICmpUGE(index, builder_.getInt32(abi::kControlFirstObservable));
    Value* const is_operator = builder_.CreateICmpEQ(tenant_, builder_.getInt32(0));
    fault_unless(builder_.CreateOr(is_open, is_operator),
                 [&] { return code(FaultCode::permission_denied); });
  }
  return builder_.CreateInBoundsGEP(builder_.getInt32Ty(), control_,
                                    builder_.CreateZExt(index, builder_.getInt64Ty()));
}

Value* HandlerCodegen::load_word(BufferKind kind, Value* pointer) {
  auto* const load = builder_.CreateAlignedLoad(builder_.getInt32Ty(), pointer, llvm::Align(4));
  if (is_shared(kind)) load->setAtomic(llvm::AtomicOrdering::Monotonic);
  return load;
}

void HandlerCodegen::store_word(BufferKind kind, Value* word, Value* pointer) {
  auto* const store = builder_.CreateAlignedStore(word, pointer, llvm::Align(4));
  if (is_shared(kind)) store->setAtomic(llvm::AtomicOrdering::Monotonic);
}

// ---- expressions ----

Value* HandlerCodegen::arg_pointer(Value* index) {
  return builder_.CreateInBoundsGEP(
      args_type_, args_, {builder_.getInt64(0), builder_.CreateZExt(index, builder_.getInt64Ty())});
}

// With `cannot_wrap` the value is an index known to lie inside its buffer, and so are the terms and
// factors it is made of: LLVM may count in 64 bits.
Value* HandlerCodegen::emit(ExprId id, bool cannot_wrap) {
  const Expr& expr = body_[id];
  llvm::Type* const type = llvm_type(context_, verified_.type(id));
  switch (expr.kind) {
    case ExprKind::literal:
      if (expr.type == Type::f32) {
        return builder_.CreateBitCast(builder_.getInt32(expr.bits), type);
      }
      return llvm::ConstantInt::get(type, expr.bits);
    case ExprKind::name:
      return builder_.CreateLoad(type, locals_[static_cast<std::size_t>(verified_.local(id))]);
    case ExprKind::builtin:
      return emit_given(expr.builtin);
    case ExprKind::arg: {
      Value* const index = emit(expr.operands[0]);
      fault_unless(builder_.CreateICmpULT(index, builder_.getInt32(abi::kSlotArgs)),
                   [&] { return code(FaultCode::index_out_of_range); });
      return builder_.CreateLoad(type, arg_pointer(index));
    }
    case ExprKind::load: {
      const bool is_proven = proven_loads_.contains(id);
      Value* const handle = handle_value(expr.buffer);
      Value* const index = emit(expr.operands[0], is_proven);
      return load_word(expr.buffer.kind,
                       place(expr.buffer.kind, handle, index, memory::Access::read, is_proven));
    }
    case ExprKind::length:
      return emit_length(expr);
    case ExprKind::unary:
      return emit_unary(builder_, expr.unary, verified_.type(expr.operands[0]),
                        emit(expr.operands[0]));
    case ExprKind::binary: {
      if (expr.binary == BinaryOp::logical_and || expr.binary == BinaryOp::logical_or) {
        return emit_logical(expr);
      }
      const bool is_sum = expr.binary == BinaryOp::add || expr.binary == BinaryOp::multiply;
      Value* left = emit(expr.operands[0], cannot_wrap && is_sum);
      Value* right = emit(expr.operands[1], cannot_wrap && is_sum);
      if (verified_.type(id) == Type::boolean) hide_one(expr, left, right);
      return emit_binary(builder_, expr.binary, verified_.type(expr.operands[0]), left, right,
                         cannot_wrap);
    }
    case ExprKind::call:
      return emit_function(expr);
    case ExprKind::atomic:
      return emit_atomic(id, expr);
  }
  return nullptr;
}

Value* HandlerCodegen::emit_given(Builtin builtin) {
  switch (builtin) {
    case Builtin::opcode:
      return load_frame_word(offsetof(ItemFrame, opcode), "opcode");
    case Builtin::tenant:
      return tenant_;
    case Builtin::priority:
      return load_frame_word(offsetof(ItemFrame, priority), "priority");
    case Builtin::slot:
      return load_frame_word(offsetof(ItemFrame, slot), "slot");
    case Builtin::param:
      return builder_.CreateLoad(builder_.getInt32Ty(), arg_pointer(builder_.getInt32(2)), "param");
    case Builtin::lane:
      return builder_.CreateLoad(builder_.getInt32Ty(), lane_);
    case Builtin::lanes:
      return lanes_;
  }
  return nullptr;
}

Value* HandlerCodegen::emit_logical(const Expr& expr) {
  const bool is_and = expr.binary == BinaryOp::logical_and;
  Value* const left = emit(expr.operands[0]);
  BasicBlock* const left_end = builder_.GetInsertBlock();
  BasicBlock* const right_start = block("logical");
  BasicBlock* const after = block("logical.end");
  builder_.CreateCondBr(left, is_and ? right_start : after, is_and ? after : right_start);
  builder_.SetInsertPoint(right_start);
  Value* const right = emit(expr.operands[1]);
  BasicBlock* const right_end = builder_.GetInsertBlock();
  builder_.CreateBr(after);
  builder_.SetInsertPoint(after);
  llvm::PHINode* const result = builder_.CreatePHI(builder_.getInt1Ty(), 2);
  result->addIncoming(builder_.getInt1(!is_and), left_end);
  result->addIncoming(right, right_end);
  return result;
}

Value* HandlerCodegen::emit_function(const Expr& expr) {
  if (expr.function == Function::printf) {
    call_hook("everkernel_print", expr);
    return nullptr;
  }
  if (expr.function == Function::emit) {
    call_hook("everkernel_emit", expr);
    return nullptr;
  }
  Value* values[3] = {};
  for (std::size_t i = 0; i < expr.operand_count; ++i) values[i] = emit(expr.operands[i]);
  if (expr.function == Function::min || expr.function == Function::max) {
    hide_one(expr, values[0], values[1]);
  }
  return emit_call(builder_, expr.function, verified_.type(expr.operands[0]), values[0], values[1],
                   values[2]);
}

// Of two floats that are compared, LLVM gets to know one. Hiding a constant costs nothing in a
// loop; hiding a variable that one turn hands to the next makes every turn longer.
void HandlerCodegen::hide_one(const Expr& expr, Value*& left, Value*& right) {
  if (!left->getType()->isFloatTy()) return;
  const auto cost = [&](const Value* value, ExprId id) {
    if (llvm::isa<llvm::Constant>(value)) return 0;
    if (body_[id].kind != ExprKind::name) return 1;
    return verified_.locals[static_cast<std::size_t>(verified_.local(id))].is_variable ? 2 : 1;
  };
  const bool hides_left = cost(left, expr.operands[0]) < cost(right, expr.operands[1]);
  Value*& chosen = hides_left ? left : right;
  chosen = hidden(builder_, chosen);
}

void HandlerCodegen::call_hook(const char* name, const Expr& expr) {
  Value* values[3];
  for (std::size_t i = 0; i < 3; ++i) values[i] = emit(expr.operands[i]);
  llvm::Type* const i32 = builder_.getInt32Ty();
  auto* const type =
      llvm::FunctionType::get(builder_.getVoidTy(), {builder_.getPtrTy(), i32, i32, i32}, false);
  builder_.CreateCall(module_.getOrInsertFunction(name, type),
                      {frame_, values[0], values[1], values[2]});
}

Value* HandlerCodegen::emit_length(const Expr& expr) {
  Value* const handle = handle_value(expr.buffer);
  if (expr.buffer.kind == BufferKind::control) return control_words_;
  const ResolvedBuffer buffer = resolved(expr.buffer.kind, handle);
  fault_unless(buffer.is_usable, [&] { return access_code(buffer, 0); });
  return buffer.word_count;
}

llvm::AtomicRMWInst::BinOp rmw_operation(AtomicOp op) {
  switch (op) {
    case AtomicOp::add:
      return llvm::AtomicRMWInst::Add;
    case AtomicOp::min:
      return llvm::AtomicRMWInst::UMin;
    case AtomicOp::max:
      return llvm::AtomicRMWInst::UMax;
    case AtomicOp::bit_and:
      return llvm::AtomicRMWInst::And;
    case AtomicOp::bit_or:
      return llvm::AtomicRMWInst::Or;
    case AtomicOp::bit_xor:
      return llvm::AtomicRMWInst::Xor;
    case AtomicOp::exchange:
    case AtomicOp::cas:
      break;
  }
  return llvm::AtomicRMWInst::Xchg;
}

Value* HandlerCodegen::emit_atomic(ExprId id, const Expr& expr) {
  const bool is_proven = proven_loads_.contains(id);
  Value* const handle = handle_value(expr.buffer);
  Value* const index = emit(expr.operands[0], is_proven);
  Value* const value = emit(expr.operands[1]);
  Value* const desired = expr.operand_count > 2 ? emit(expr.operands[2]) : nullptr;
  Value* const pointer =
      place(expr.buffer.kind, handle, index, memory::Access::read_write, is_proven);
  if (!is_shared(expr.buffer.kind)) {
    Value* const before = load_word(expr.buffer.kind, pointer);
    store_word(expr.buffer.kind, emit_plain_atomic(builder_, expr.atomic, before, value, desired),
               pointer);
    return before;
  }
  constexpr auto kRelaxed = llvm::AtomicOrdering::Monotonic;
  if (expr.atomic == AtomicOp::cas) {
    Value* const pair =
        builder_.CreateAtomicCmpXchg(pointer, value, desired, llvm::Align(4), kRelaxed, kRelaxed);
    return builder_.CreateExtractValue(pair, 0);
  }
  return builder_.CreateAtomicRMW(rmw_operation(expr.atomic), pointer, value, llvm::Align(4),
                                  kRelaxed);
}

}  // namespace

std::string entry_symbol(std::size_t handler_index) {
  return fmt::format("handler_{}", handler_index);
}

std::unique_ptr<llvm::Module> generate(const VerifiedProgram& program, const NativeOptions& options,
                                       llvm::LLVMContext& context) {
  auto module = std::make_unique<llvm::Module>("everkernel", context);
  const auto handlers = program.handlers();
  for (std::size_t i = 0; i < handlers.size(); ++i) {
    HandlerCodegen(handlers[i], options, *module, entry_symbol(i)).run();
  }
  EVERKERNEL_ASSERT(!llvm::verifyModule(*module, &llvm::errs()));
  return module;
}

}  // namespace everkernel::jit
