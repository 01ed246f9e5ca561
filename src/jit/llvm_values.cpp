// No operation here can trap or be undefined: divisors are replaced before they divide, shift
// counts are masked, conversions saturate. Nothing carries a fast-math flag, so nothing is
// contracted.
#include "jit/llvm_values.hpp"

#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/ValueSymbolTable.h>

#include "everkernel/base/assert.hpp"

namespace everkernel::jit {
namespace {

using ir::BinaryOp;
using ir::Function;
using ir::Type;
using llvm::Value;

Value* word(llvm::IRBuilder<>& builder, std::uint32_t bits) {
  return builder.getInt32(bits);
}

// A zero whose value LLVM cannot see, made once at the start of a function.
Value* hidden_zero(llvm::IRBuilder<>& builder) {
  constexpr const char* kName = "hidden.zero";  // names of handlers have no dot
  llvm::Function* const function = builder.GetInsertBlock()->getParent();
  if (Value* const known = function->getValueSymbolTable()->lookup(kName)) return known;
  llvm::Type* const i32 = builder.getInt32Ty();
  auto* const same = llvm::InlineAsm::get(llvm::FunctionType::get(i32, {i32}, false), "", "=r,0",
                                          /*hasSideEffects=*/false);
  llvm::BasicBlock& entry = function->getEntryBlock();
  llvm::IRBuilder<> at_entry(&entry, entry.begin());
  llvm::CallInst* const zero = at_entry.CreateCall(same, {word(builder, 0)}, kName);
  zero->setDoesNotAccessMemory();
  zero->setDoesNotThrow();
  return zero;
}

Value* divide(llvm::IRBuilder<>& builder, bool is_signed, Value* a, Value* b) {
  Value* const one = word(builder, 1);
  Value* const is_zero = builder.CreateICmpEQ(b, word(builder, 0));
  if (!is_signed) {
    Value* const quotient = builder.CreateUDiv(a, builder.CreateSelect(is_zero, one, b));
    return builder.CreateSelect(is_zero, a, quotient);
  }
  Value* const is_minus_one = builder.CreateICmpEQ(b, word(builder, 0xFFFFFFFFu));
  Value* const is_special = builder.CreateOr(is_zero, is_minus_one);
  Value* const quotient = builder.CreateSDiv(a, builder.CreateSelect(is_special, one, b));
  // quotient is a for both special cases: by 0 that is the answer, by −1 it is negated.
  return builder.CreateSelect(is_minus_one, builder.CreateNeg(a), quotient);
}

Value* remainder(llvm::IRBuilder<>& builder, bool is_signed, Value* a, Value* b) {
  Value* const one = word(builder, 1);
  Value* is_special = builder.CreateICmpEQ(b, word(builder, 0));
  if (is_signed) {
    Value* const is_minus_one = builder.CreateICmpEQ(b, word(builder, 0xFFFFFFFFu));
    is_special = builder.CreateOr(is_special, is_minus_one);
  }
  Value* const divisor = builder.CreateSelect(is_special, one, b);  // x % 1 is 0, as asked for
  return is_signed ? builder.CreateSRem(a, divisor) : builder.CreateURem(a, divisor);
}

Value* shift(llvm::IRBuilder<>& builder, BinaryOp op, bool is_signed, Value* a, Value* count) {
  Value* const masked = builder.CreateAnd(count, word(builder, 31));
  if (op == BinaryOp::shift_left) return builder.CreateShl(a, masked);
  return is_signed ? builder.CreateAShr(a, masked) : builder.CreateLShr(a, masked);
}

Value* compare(llvm::IRBuilder<>& builder, BinaryOp op, Type type, Value* a, Value* b) {
  const bool is_float = type == Type::f32;
  const bool is_signed = type == Type::i32;
  using Predicate = llvm::CmpInst::Predicate;
  const auto pick = [&](Predicate real, Predicate with_sign, Predicate without) {
    return is_float ? real : is_signed ? with_sign : without;
  };
  Predicate predicate = Predicate::ICMP_EQ;
  switch (op) {
    case BinaryOp::less:
      predicate = pick(Predicate::FCMP_OLT, Predicate::ICMP_SLT, Predicate::ICMP_ULT);
      break;
    case BinaryOp::less_equal:
      predicate = pick(Predicate::FCMP_OLE, Predicate::ICMP_SLE, Predicate::ICMP_ULE);
      break;
    case BinaryOp::greater:
      predicate = pick(Predicate::FCMP_OGT, Predicate::ICMP_SGT, Predicate::ICMP_UGT);
      break;
    case BinaryOp::greater_equal:
      predicate = pick(Predicate::FCMP_OGE, Predicate::ICMP_SGE, Predicate::ICMP_UGE);
      break;
    case BinaryOp::equal:
      predicate = pick(Predicate::FCMP_OEQ, Predicate::ICMP_EQ, Predicate::ICMP_EQ);
      break;
    case BinaryOp::not_equal:
      predicate = pick(Predicate::FCMP_UNE, Predicate::ICMP_NE, Predicate::ICMP_NE);
      break;
    default:
      EVERKERNEL_ASSERT(false && "not a comparison");
  }
  return builder.CreateCmp(predicate, a, b);
}

// The other operand if one is NaN; −0 below +0.
Value* least_or_greatest_f32(llvm::IRBuilder<>& builder, bool is_min, Value* a, Value* b) {
  Value* const a_bits = builder.CreateBitCast(a, builder.getInt32Ty());
  Value* const a_is_negative = builder.CreateICmpSLT(a_bits, word(builder, 0));
  Value* const when_equal = is_min ? builder.CreateSelect(a_is_negative, a, b)
                                   : builder.CreateSelect(a_is_negative, b, a);
  Value* const a_wins = is_min ? builder.CreateFCmpOLT(a, b) : builder.CreateFCmpOGT(a, b);
  Value* const ordered = builder.CreateSelect(builder.CreateFCmpOEQ(a, b), when_equal,
                                              builder.CreateSelect(a_wins, a, b));
  Value* const b_is_nan = builder.CreateFCmpUNO(b, b);
  Value* const a_is_nan = builder.CreateFCmpUNO(a, a);
  return builder.CreateSelect(a_is_nan, b, builder.CreateSelect(b_is_nan, a, ordered));
}

Value* least_or_greatest(llvm::IRBuilder<>& builder, Function function, Type type, Value* a,
                         Value* b) {
  const bool is_min = function == Function::min;
  if (type == Type::f32) return least_or_greatest_f32(builder, is_min, a, b);
  using llvm::Intrinsic::smax, llvm::Intrinsic::smin, llvm::Intrinsic::umax, llvm::Intrinsic::umin;
  const bool is_signed = type == Type::i32;
  return builder.CreateBinaryIntrinsic(
      is_min ? (is_signed ? smin : umin) : (is_signed ? smax : umax), a, b);
}

Value* convert(llvm::IRBuilder<>& builder, Function function, Type from, Value* a) {
  llvm::Type* const i32 = builder.getInt32Ty();
  llvm::Type* const f32 = builder.getFloatTy();
  switch (function) {
    case Function::to_u32:
      if (from == Type::boolean) return builder.CreateZExt(a, i32);
      if (from != Type::f32) return a;
      return builder.CreateIntrinsic(llvm::Intrinsic::fptoui_sat, {i32, f32}, {a});
    case Function::to_i32:
      if (from != Type::f32) return a;
      return builder.CreateIntrinsic(llvm::Intrinsic::fptosi_sat, {i32, f32}, {a});
    case Function::to_f32:
      if (from == Type::f32) return a;
      return from == Type::i32 ? builder.CreateSIToFP(a, f32) : builder.CreateUIToFP(a, f32);
    case Function::bits_u32:
    case Function::bits_i32:
      if (from != Type::f32) return a;
      return builder.CreateSelect(builder.CreateFCmpUNO(a, a), word(builder, 0x7FC00000u),
                                  builder.CreateBitCast(a, i32));
    default:
      return from == Type::f32 ? a : builder.CreateBitCast(a, f32);
  }
}

llvm::AtomicRMWInst::BinOp rmw_operation(ir::AtomicOp op) {
  switch (op) {
    case ir::AtomicOp::add:
      return llvm::AtomicRMWInst::Add;
    case ir::AtomicOp::min:
      return llvm::AtomicRMWInst::UMin;
    case ir::AtomicOp::max:
      return llvm::AtomicRMWInst::UMax;
    case ir::AtomicOp::bit_and:
      return llvm::AtomicRMWInst::And;
    case ir::AtomicOp::bit_or:
      return llvm::AtomicRMWInst::Or;
    case ir::AtomicOp::bit_xor:
      return llvm::AtomicRMWInst::Xor;
    case ir::AtomicOp::exchange:
    case ir::AtomicOp::cas:
      break;
  }
  return llvm::AtomicRMWInst::Xchg;
}

}  // namespace

llvm::Type* llvm_type(llvm::LLVMContext& context, Type type) {
  switch (type) {
    case Type::none:
      return llvm::Type::getVoidTy(context);
    case Type::u32:
    case Type::i32:
      return llvm::Type::getInt32Ty(context);
    case Type::f32:
      return llvm::Type::getFloatTy(context);
    case Type::boolean:
      return llvm::Type::getInt1Ty(context);
  }
  return nullptr;
}

Value* hidden(llvm::IRBuilder<>& builder, Value* value) {
  Value* const bits = builder.CreateBitCast(value, builder.getInt32Ty());
  return builder.CreateBitCast(builder.CreateXor(bits, hidden_zero(builder)), builder.getFloatTy());
}

Value* emit_unary(llvm::IRBuilder<>& builder, ir::UnaryOp op, Type type, Value* a) {
  if (op == ir::UnaryOp::negate)
    return type == Type::f32 ? builder.CreateFNeg(a) : builder.CreateNeg(a);
  return builder.CreateNot(a);
}

Value* emit_binary(llvm::IRBuilder<>& builder, BinaryOp op, Type type, Value* a, Value* b,
                   bool cannot_wrap) {
  const bool is_float = type == Type::f32;
  const bool is_signed = type == Type::i32;
  switch (op) {
    case BinaryOp::multiply:
      return is_float ? builder.CreateFMul(a, b) : builder.CreateMul(a, b, "", cannot_wrap);
    case BinaryOp::divide:
      return is_float ? builder.CreateFDiv(a, b) : divide(builder, is_signed, a, b);
    case BinaryOp::remainder:
      return remainder(builder, is_signed, a, b);
    case BinaryOp::add:
      return is_float ? builder.CreateFAdd(a, b) : builder.CreateAdd(a, b, "", cannot_wrap);
    case BinaryOp::subtract:
      return is_float ? builder.CreateFSub(a, b) : builder.CreateSub(a, b);
    case BinaryOp::shift_left:
    case BinaryOp::shift_right:
      return shift(builder, op, is_signed, a, b);
    case BinaryOp::less:
    case BinaryOp::less_equal:
    case BinaryOp::greater:
    case BinaryOp::greater_equal:
    case BinaryOp::equal:
    case BinaryOp::not_equal:
      return compare(builder, op, type, a, b);
    case BinaryOp::bit_and:
      return builder.CreateAnd(a, b);
    case BinaryOp::bit_xor:
      return builder.CreateXor(a, b);
    case BinaryOp::bit_or:
      return builder.CreateOr(a, b);
    case BinaryOp::logical_and:
    case BinaryOp::logical_or:
      break;
  }
  EVERKERNEL_ASSERT(false && "&& and || are branches");
  return nullptr;
}

Value* emit_call(llvm::IRBuilder<>& builder, Function function, Type type, Value* a, Value* b,
                 Value* c) {
  switch (function) {
    case Function::min:
    case Function::max:
      return least_or_greatest(builder, function, type, a, b);
    case Function::abs:
      if (type == Type::u32) return a;
      if (type == Type::f32) return builder.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, a);
      return builder.CreateBinaryIntrinsic(llvm::Intrinsic::abs, a, builder.getFalse());
    case Function::clz:
      return builder.CreateBinaryIntrinsic(llvm::Intrinsic::ctlz, a, builder.getFalse());
    case Function::popcount:
      return builder.CreateUnaryIntrinsic(llvm::Intrinsic::ctpop, a);
    case Function::select:
      return builder.CreateSelect(a, b, c);
    case Function::sqrt:
      return builder.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, a);
    case Function::floor:
      return builder.CreateUnaryIntrinsic(llvm::Intrinsic::floor, a);
    case Function::fma:
      return builder.CreateIntrinsic(llvm::Intrinsic::fma, {builder.getFloatTy()}, {a, b, c});
    case Function::rotl:
      return builder.CreateIntrinsic(llvm::Intrinsic::fshl, {builder.getInt32Ty()}, {a, a, b});
    case Function::to_u32:
    case Function::to_i32:
    case Function::to_f32:
    case Function::bits_u32:
    case Function::bits_i32:
    case Function::bits_f32:
      return convert(builder, function, type, a);
    case Function::clamp:
      return least_or_greatest(builder, Function::min, type,
                               least_or_greatest(builder, Function::max, type, a, b), c);
    case Function::exp:
    case Function::log:
    case Function::exp2:
    case Function::log2:
    case Function::sin:
    case Function::cos:
    case Function::tanh:
    case Function::pow:
      break;
    case Function::printf:
    case Function::emit:
      break;
  }
  EVERKERNEL_ASSERT(false && "printf and emit have no value, functions of numbers are calls");
  return nullptr;
}

Value* emit_plain_atomic(llvm::IRBuilder<>& builder, ir::AtomicOp op, Value* before, Value* value,
                         Value* desired) {
  switch (op) {
    case ir::AtomicOp::add:
      return builder.CreateAdd(before, value);
    case ir::AtomicOp::min:
      return builder.CreateBinaryIntrinsic(llvm::Intrinsic::umin, before, value);
    case ir::AtomicOp::max:
      return builder.CreateBinaryIntrinsic(llvm::Intrinsic::umax, before, value);
    case ir::AtomicOp::bit_and:
      return builder.CreateAnd(before, value);
    case ir::AtomicOp::bit_or:
      return builder.CreateOr(before, value);
    case ir::AtomicOp::bit_xor:
      return builder.CreateXor(before, value);
    case ir::AtomicOp::exchange:
      return value;
    case ir::AtomicOp::cas:
      return builder.CreateSelect(builder.CreateICmpEQ(before, value), desired, before);
  }
  return before;
}

Value* emit_shared_atomic(llvm::IRBuilder<>& builder, ir::AtomicOp op, Value* pointer, Value* value,
                          Value* desired) {
  constexpr auto kRelaxed = llvm::AtomicOrdering::Monotonic;
  if (op == ir::AtomicOp::cas) {
    Value* const pair =
        builder.CreateAtomicCmpXchg(pointer, value, desired, llvm::Align(4), kRelaxed, kRelaxed);
    return builder.CreateExtractValue(pair, 0);
  }
  return builder.CreateAtomicRMW(rmw_operation(op), pointer, value, llvm::Align(4), kRelaxed);
}

}  // namespace everkernel::jit
