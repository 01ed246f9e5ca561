// LLVM IR of one handler: its loops.
//
// A loop polls the abort word and pays fuel. An innermost counted loop does both once for a chunk
// of turns, and a chunk whose index checks are known to pass runs without them (llvm_bounds.cpp):
// LLVM vectorises that loop. A loop with loops inside pays turn by turn, because where the fuel
// runs out is visible in the outcome.
#include "jit/llvm_handler.hpp"

namespace everkernel::jit {

using namespace ir;
using abi::FaultCode;
using llvm::BasicBlock;
using llvm::Value;

namespace {

/// Turns of an innermost loop between two polls of the abort word.
constexpr std::uint32_t kChunkTurns = 4096;

}  // namespace

void LlvmHandlerCodegen::poll_abort() {
  auto* const word = builder_.CreateLoad(builder_.getInt32Ty(), abort_, "aborted");
  word->setAtomic(llvm::AtomicOrdering::Monotonic);
  word->setAlignment(llvm::Align(4));
  fault_unless(builder_.CreateICmpEQ(word, builder_.getInt32(0)),
               [&] { return code(FaultCode::deadline); });
}

void LlvmHandlerCodegen::spend_turn() {
  poll_abort();
  Value* const fuel = builder_.CreateLoad(builder_.getInt64Ty(), fuel_);
  fault_unless(builder_.CreateICmpNE(fuel, builder_.getInt64(0)),
               [&] { return code(FaultCode::fuel_exhausted); });
  builder_.CreateStore(builder_.CreateSub(fuel, builder_.getInt64(1)), fuel_);
}

void LlvmHandlerCodegen::emit_while(const Stmt& stmt) {
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

// Bounds and step in the order of the text, and the turns between them.
LlvmHandlerCodegen::Range LlvmHandlerCodegen::emit_range(const Stmt& stmt) {
  Value* const zero = builder_.getInt32(0);
  Range range{.first = emit(stmt.operands[0]),
              .is_unsigned = verified_.type(stmt.operands[0]) == Type::u32};
  Value* const last = emit(stmt.operands[1]);
  if (stmt.has_step && stmt.kind == StmtKind::for_loop) {
    range.step = emit(stmt.operands[2]);
    fault_unless(range.is_unsigned ? builder_.CreateICmpNE(range.step, zero)
                                   : builder_.CreateICmpSGT(range.step, zero),
                 [&] { return code(FaultCode::index_out_of_range); });
  }
  Value* const has_turns = range.is_unsigned ? builder_.CreateICmpULT(range.first, last)
                                             : builder_.CreateICmpSLT(range.first, last);
  Value* turns = builder_.CreateSub(last, range.first);
  if (range.step != nullptr) {
    Value* const one = builder_.getInt32(1);
    Value* const whole = builder_.CreateUDiv(builder_.CreateSub(turns, one), range.step);
    turns = builder_.CreateAdd(whole, one);
  }
  range.turns = builder_.CreateSelect(has_turns, turns, zero);
  return range;
}

// The counter in a turn. It is below the end of the range, so that an unsigned one does not wrap.
Value* LlvmHandlerCodegen::counter_value(const Range& range, Value* turn) {
  Value* const offset =
      range.step == nullptr ? turn : builder_.CreateMul(turn, range.step, "", range.is_unsigned);
  return builder_.CreateAdd(range.first, offset, "i", range.is_unsigned);
}

// Emits `for turn in 0 .. turns: body(turn)`. The body leaves the builder in a block that continues
// with the next turn.
void LlvmHandlerCodegen::emit_turns(Value* turns, const std::function<void(Value* turn)>& body) {
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

// Number of turns of the next chunk: at most kChunkTurns, the turns left, and the fuel left.
Value* LlvmHandlerCodegen::chunk_length(Value* turn, Value* turns, bool pays_fuel) {
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

// Gives back the fuel of turns that a chunk has paid for and does not run, because it is left.
void LlvmHandlerCodegen::give_back_fuel(const LoopTargets& chunk) {
  Value* const turn = builder_.CreateLoad(builder_.getInt32Ty(), chunk.current_turn);
  Value* const unused =
      builder_.CreateSub(builder_.CreateSub(chunk.paid_turns, turn), builder_.getInt32(1));
  Value* const fuel = builder_.CreateLoad(builder_.getInt64Ty(), fuel_);
  builder_.CreateStore(builder_.CreateAdd(fuel, builder_.CreateZExt(unused, builder_.getInt64Ty())),
                       fuel_);
}

// The turns of an innermost loop, chunk by chunk. Leaving the loop gives back the fuel of turns
// that were paid for and did not run; a fault does not, because the fuel is not used after it.
void LlvmHandlerCodegen::emit_chunks(StmtId id, const Range& range, bool pays_fuel,
                                     const std::function<void(Value* turn)>& body) {
  const Stmt& stmt = body_[id];
  Value* const turns = range.turns;
  const LoopFacts facts = gather_loop_facts(verified_, stmt.body);
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
  ProvenAccesses proven;
  Value* const last_turn = builder_.CreateSub(next, builder_.getInt32(1));
  Value* const last_offset =
      range.step == nullptr ? last_turn : builder_.CreateMul(last_turn, range.step);
  Value* const last_counter = builder_.CreateAdd(range.first, last_offset, "last");
  Value* const is_safe = chunk_is_safe(stmt, {facts, verified_.local(id), last_counter}, proven);
  if (is_safe != nullptr) {
    BasicBlock* const fast = block("fast");
    BasicBlock* const careful = block("careful");
    branch_likely(is_safe, fast, careful);
    builder_.SetInsertPoint(fast);
    std::swap(proven_, proven);
    run_chunk();
    std::swap(proven_, proven);
    builder_.SetInsertPoint(careful);
  }
  run_chunk();

  builder_.SetInsertPoint(broken);
  if (pays_fuel) give_back_fuel({.paid_turns = length, .current_turn = turn_slot});
  builder_.CreateBr(after);
  builder_.SetInsertPoint(after);
}

void LlvmHandlerCodegen::emit_for(StmtId id, const Stmt& stmt) {
  const Range range = emit_range(stmt);
  llvm::AllocaInst* const counter = locals_[static_cast<std::size_t>(verified_.local(id))];
  const auto run_turn = [&](Value* turn) {
    builder_.CreateStore(counter_value(range, turn), counter);
    emit(stmt.body);
  };
  if (!gather_loop_facts(verified_, stmt.body).has_inner_loop) {
    return emit_chunks(id, range, /*pays_fuel=*/true, run_turn);
  }
  BasicBlock* const after = block("for.end");
  emit_turns(range.turns, [&](Value* turn) {
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

// Stores the code of a turn that faulted, unless a lower turn has faulted before.
void LlvmHandlerCodegen::note_turn_fault(llvm::AllocaInst* lowest) {
  Value* const so_far = builder_.CreateLoad(builder_.getInt32Ty(), lowest);
  Value* const new_code = builder_.CreateLoad(builder_.getInt32Ty(), code_);
  Value* const is_first = builder_.CreateICmpEQ(so_far, builder_.getInt32(0));
  builder_.CreateStore(builder_.CreateSelect(is_first, new_code, so_far), lowest);
}

// The fuel of all turns is charged before the first. Each turn may then spend an equal share of the
// rest, and the sum of what the turns spent is charged at the end. A fault ends its turn only; the
// item has the fault code of its lowest turn. An abort between two turns ends the item, because all
// turns that are left would end in the same way.
void LlvmHandlerCodegen::emit_each(StmtId id, const Stmt& stmt) {
  llvm::Type* const i64 = builder_.getInt64Ty();
  const Range range = emit_range(stmt);
  Value* const turns = range.turns;
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

  const bool has_inner_loop = gather_loop_facts(verified_, stmt.body).has_inner_loop;
  llvm::AllocaInst* const counter = locals_[static_cast<std::size_t>(verified_.local(id))];
  BasicBlock* const item_fault_block = fault_block_;
  BasicBlock* const aborted = block("each.abort");
  const auto run_turn = [&](Value* turn) {
    BasicBlock* const turn_fault = block("each.fault");
    BasicBlock* const turn_end = block("each.next");
    if (has_inner_loop) poll_abort();
    if (has_inner_loop) builder_.CreateStore(share, fuel_);
    builder_.CreateStore(builder_.CreateURem(turn, lanes_), lane_);
    builder_.CreateStore(counter_value(range, turn), counter);
    fault_block_ = turn_fault;
    loops_.push_back({.on_break = nullptr, .on_continue = turn_end});
    emit(stmt.body);
    loops_.pop_back();
    fault_block_ = aborted;
    builder_.CreateBr(turn_end);
    builder_.SetInsertPoint(turn_fault);
    note_turn_fault(lowest);
    builder_.CreateBr(turn_end);
    builder_.SetInsertPoint(turn_end);
    if (!has_inner_loop) return;
    Value* const used = builder_.CreateSub(share, builder_.CreateLoad(i64, fuel_));
    builder_.CreateStore(builder_.CreateAdd(builder_.CreateLoad(i64, spent), used), spent);
  };
  BasicBlock* const turns_end = block("each.turns.end");
  fault_block_ = aborted;
  if (has_inner_loop) {
    emit_turns(turns, run_turn);
  } else {
    emit_chunks(id, range, /*pays_fuel=*/false, run_turn);
  }
  fault_block_ = item_fault_block;
  builder_.CreateBr(turns_end);
  builder_.SetInsertPoint(aborted);
  note_turn_fault(lowest);
  builder_.CreateBr(turns_end);
  builder_.SetInsertPoint(turns_end);
  builder_.CreateStore(builder_.getInt32(0), lane_);
  builder_.CreateStore(builder_.CreateSub(left, builder_.CreateLoad(i64, spent)), fuel_);
  Value* const lowest_code = builder_.CreateLoad(builder_.getInt32Ty(), lowest);
  fault_unless(builder_.CreateICmpEQ(lowest_code, builder_.getInt32(0)),
               [&] { return lowest_code; });
  builder_.CreateBr(after);
  builder_.SetInsertPoint(after);
}

}  // namespace everkernel::jit
