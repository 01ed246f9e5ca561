// Runs the algorithm of ir/number_functions.hpp on values of the IR: each operation of it adds an
// instruction. None carries a fast-math flag, so that none is contracted or reordered.
#include "jit/llvm_numbers.hpp"

#include <fmt/format.h>
#include <llvm/IR/IRBuilder.h>

#include <string>
#include <type_traits>
#include <vector>

#include "everkernel/ir/detail/vocabulary_tables.hpp"
#include "ir/number_functions.hpp"

namespace everkernel::jit {
namespace {

using ir::Function;
using Builder = llvm::IRBuilder<>;

/// A value of the IR. The type of its literals tells the kinds of values apart.
template <class LiteralType>
struct Emitted {
  using Literal = LiteralType;
  Builder* builder;
  llvm::Value* value;

  Emitted with(llvm::Value* other) const { return {builder, other}; }
  Emitted literal(Literal number) const {
    if constexpr (std::is_floating_point_v<Literal>) {
      return with(llvm::ConstantFP::get(value->getType(), number));
    } else {
      return with(llvm::ConstantInt::get(value->getType(), number));
    }
  }
};
using Word = Emitted<unsigned>;
using Long = Emitted<unsigned long long>;
using Real = Emitted<double>;
using Truth = Emitted<bool>;

// An operator on two values, and on a value and a literal.
#define EVERKERNEL_EMITS(Left, Result, sign, method)               \
  Result operator sign(Left a, Left b) {                           \
    return {a.builder, a.builder->method(a.value, b.value)};       \
  }                                                                \
  [[maybe_unused]] Result operator sign(Left a, Left::Literal b) { \
    return a sign a.literal(b);                                    \
  }
EVERKERNEL_EMITS(Word, Word, +, CreateAdd)
EVERKERNEL_EMITS(Word, Word, &, CreateAnd)
EVERKERNEL_EMITS(Word, Word, |, CreateOr)
EVERKERNEL_EMITS(Word, Word, ^, CreateXor)
EVERKERNEL_EMITS(Word, Word, <<, CreateShl)
EVERKERNEL_EMITS(Word, Truth, ==, CreateICmpEQ)
EVERKERNEL_EMITS(Word, Truth, <, CreateICmpULT)
EVERKERNEL_EMITS(Word, Truth, >, CreateICmpUGT)
EVERKERNEL_EMITS(Long, Long, +, CreateAdd)
EVERKERNEL_EMITS(Long, Long, &, CreateAnd)
EVERKERNEL_EMITS(Long, Long, |, CreateOr)
EVERKERNEL_EMITS(Long, Long, ^, CreateXor)
EVERKERNEL_EMITS(Long, Long, <<, CreateShl)
EVERKERNEL_EMITS(Long, Long, >>, CreateLShr)
EVERKERNEL_EMITS(Long, Truth, ==, CreateICmpEQ)
EVERKERNEL_EMITS(Long, Truth, >, CreateICmpUGT)
EVERKERNEL_EMITS(Real, Real, +, CreateFAdd)
EVERKERNEL_EMITS(Real, Real, -, CreateFSub)
EVERKERNEL_EMITS(Real, Real, *, CreateFMul)
EVERKERNEL_EMITS(Real, Real, /, CreateFDiv)
#undef EVERKERNEL_EMITS

Truth operator&(Truth a, Truth b) {
  return {a.builder, a.builder->CreateAnd(a.value, b.value)};
}
Truth operator|(Truth a, Truth b) {
  return {a.builder, a.builder->CreateOr(a.value, b.value)};
}
Truth operator!(Truth a) {
  return {a.builder, a.builder->CreateNot(a.value)};
}

/// The numbers of ir/number_functions.hpp.
struct LlvmValues {
  using Word = jit::Word;
  using Long = jit::Long;
  using Real = jit::Real;
  using Truth = jit::Truth;

  Real widened(Word bits) const {
    llvm::Value* const narrow = builder->CreateBitCast(bits.value, builder->getFloatTy());
    return {builder, builder->CreateFPExt(narrow, builder->getDoubleTy())};
  }
  Word narrowed(Real number) const {
    llvm::Value* const narrow = builder->CreateFPTrunc(number.value, builder->getFloatTy());
    return {builder, builder->CreateBitCast(narrow, builder->getInt32Ty())};
  }
  Long bits(Real number) const {
    return {builder, builder->CreateBitCast(number.value, builder->getInt64Ty())};
  }
  Real real(Long bits) const {
    return {builder, builder->CreateBitCast(bits.value, builder->getDoubleTy())};
  }
  Word low(Long bits) const {
    return {builder, builder->CreateTrunc(bits.value, builder->getInt32Ty())};
  }
  Word word(unsigned literal) const { return {builder, builder->getInt32(literal)}; }
  Long wide(unsigned long long literal) const { return {builder, builder->getInt64(literal)}; }
  template <class T>
  T choose(Truth is_first, T a, T b) const {
    return a.with(builder->CreateSelect(is_first.value, a.value, b.value));
  }

  Builder* builder;
};

Word computed(const ir::NumberFunctions<LlvmValues>& functions, Function function,
              const std::vector<Word>& x) {
  switch (function) {
    case Function::exp:
      return functions.exp(x[0]);
    case Function::log:
      return functions.log(x[0]);
    case Function::exp2:
      return functions.exp2(x[0]);
    case Function::log2:
      return functions.log2(x[0]);
    case Function::sin:
      return functions.sin(x[0]);
    case Function::cos:
      return functions.cos(x[0]);
    case Function::tanh:
      return functions.tanh(x[0]);
    default:
      return functions.pow(x[0], x[1]);
  }
}

}  // namespace

llvm::Function* number_function(llvm::Module& module, Function function) {
  const std::string name = fmt::format("everkernel.{}", info(function).name);
  if (llvm::Function* const known = module.getFunction(name)) return known;
  llvm::LLVMContext& context = module.getContext();
  llvm::Type* const f32 = llvm::Type::getFloatTy(context);
  const std::vector<llvm::Type*> operands(static_cast<std::size_t>(info(function).argument_count),
                                          f32);
  auto* const made = llvm::Function::Create(llvm::FunctionType::get(f32, operands, false),
                                            llvm::Function::InternalLinkage, name, module);
  made->setDoesNotThrow();
  made->setDoesNotAccessMemory();
  made->setWillReturn();
  Builder builder(llvm::BasicBlock::Create(context, "entry", made));
  std::vector<Word> bits;
  for (llvm::Argument& operand : made->args()) {
    bits.push_back({&builder, builder.CreateBitCast(&operand, builder.getInt32Ty())});
  }
  const ir::NumberFunctions functions(LlvmValues{&builder});
  builder.CreateRet(builder.CreateBitCast(computed(functions, function, bits).value, f32));
  return made;
}

}  // namespace everkernel::jit
