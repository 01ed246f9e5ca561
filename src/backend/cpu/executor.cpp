// Makes code that a worker finds by opcode from a verified program and trusted handlers.
#include "backend/cpu/executor.hpp"

#include <algorithm>
#include <utility>

#include "everkernel/ir/interpreter.hpp"

namespace everkernel::backend::cpu {
namespace {

// Opcodes below this index an array; larger ones are searched for.
constexpr std::size_t kDenseOpcodes = 4096;
constexpr Word kWarpLanes = 32;

Word lanes_of(ir::Scope scope, Word workgroup_size) {
  switch (scope) {
    case ir::Scope::lane:
      return 1;
    case ir::Scope::warp:
      return kWarpLanes;
    case ir::Scope::group:
      return workgroup_size;
  }
  return 1;
}

}  // namespace

Result<Executor> Executor::create(const KernelOptions& options, const FindCache& find_cache) {
  Executor executor;
  executor.dense_.assign(kDenseOpcodes, kNone);
  EVERKERNEL_TRY(executor.add_program(options));
  EVERKERNEL_TRY(executor.add_trusted(options));
  std::ranges::sort(executor.sparse_);
  EVERKERNEL_TRY(executor.compile(options, find_cache));
  return executor;
}

Result<void> Executor::add_program(const KernelOptions& options) {
  program_ = options.program;
  const auto handlers = program_ ? program_->handlers() : std::span<const ir::VerifiedHandler>{};
  for (const ir::VerifiedHandler& verified : handlers) {
    infos_.push_back({.lanes = lanes_of(verified.handler.scope, options.geometry.workgroup_size),
                      .can_leave = verified.effects.can_yield || verified.effects.can_await,
                      .is_pure = verified.handler.is_pure,
                      .writes_args = verified.effects.writes_args,
                      .is_long = ir::has_loops(verified.handler.body),
                      .commutes = verified.handler.commutes,
                      .effects = verified.effects});
    has_long_items_ |= infos_.back().is_long;
    if (!verified.handler.is_payload) {
      add_opcode(verified.handler.opcode);
    } else if (options.payload) {
      payload_ = static_cast<Word>(infos_.size() - 1);
    }
  }
  first_trusted_ = static_cast<Word>(infos_.size());
  if (options.payload && payload_ == kNone) {
    return fail(Code::invalid_argument, "megakernel: the program has no payload to run",
                "add a `payload { … }` to the handlers, or set `payload` to false");
  }
  return {};
}

Result<void> Executor::add_trusted(const KernelOptions& options) {
  EVERKERNEL_TRY(
      ir::check_trusted(options.trusted_handlers, options.find_program(), ir::TrustedCode::cpu));
  trusted_ = options.trusted_handlers;
  for (const ir::TrustedHandler& handler : trusted_) {
    infos_.push_back({.lanes = lanes_of(handler.scope, options.geometry.workgroup_size),
                      .can_leave = handler.effects.can_yield || handler.effects.can_await,
                      .is_pure = handler.is_pure,
                      .writes_args = handler.effects.writes_args,
                      .is_long = !handler.is_short,
                      .commutes = handler.commutes,
                      .effects = handler.effects});
    has_long_items_ |= infos_.back().is_long;
    add_opcode(handler.opcode);
  }
  return {};
}

Result<void> Executor::compile(const KernelOptions& options, const FindCache& find_cache) {
  const bool wants_native = options.execution == Execution::native;
  const bool may_be_native = options.execution == Execution::automatic && jit::has_native_code();
  if (!program_ || !(wants_native || may_be_native)) return {};
  const auto memory = options.planned ? jit::MemoryUse::planned : jit::MemoryUse::shared;
  auto native = jit::NativeProgram::compile(*program_, {.memory = memory, .cache = find_cache()});
  if (native) {
    native_ = std::move(*native);
  } else if (wants_native) {
    return Failure(native.error());
  }
  return {};
}

// Makes the handler that was added last the one of this opcode.
void Executor::add_opcode(Word opcode) {
  const Word handler = static_cast<Word>(infos_.size() - 1);
  if (opcode < kDenseOpcodes) {
    dense_[opcode] = handler;
  } else {
    sparse_.emplace_back(opcode, handler);
  }
}

Word Executor::find_sparse(Word opcode) const {
  const auto at = std::ranges::lower_bound(sparse_, std::pair<Word, Word>(opcode, 0));
  return at != sparse_.end() && at->first == opcode ? at->second : kNone;
}

ir::Outcome Executor::interpret(Word handler, ir::ItemFrame& frame) const {
  return ir::interpret(program_->handlers()[handler], frame);
}

}  // namespace everkernel::backend::cpu
