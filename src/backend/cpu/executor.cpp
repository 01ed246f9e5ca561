// From a verified program to something a worker can run by opcode.
#include "backend/cpu/executor.hpp"

#include <algorithm>
#include <utility>

#include "everkernel/ir/interpreter.hpp"

namespace everkernel::backend::cpu {
namespace {

// Opcodes below this find their handler by one load.
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

bool has_loops(const ir::Body& body) {
  return std::ranges::any_of(body.stmts, [](const ir::Stmt& stmt) {
    return stmt.kind == ir::StmtKind::for_loop || stmt.kind == ir::StmtKind::each_loop ||
           stmt.kind == ir::StmtKind::while_loop;
  });
}

}  // namespace

Result<Executor> Executor::create(const KernelOptions& options, const FindCache& find_cache) {
  Executor executor;
  executor.program_ = options.program;
  executor.dense_.assign(kDenseOpcodes, kNone);
  if (options.program) {
    const auto handlers = options.program->handlers();
    for (Word i = 0; i < handlers.size(); ++i) {
      const ir::VerifiedHandler& verified = handlers[i];
      executor.infos_.push_back(
          {.lanes = lanes_of(verified.handler.scope, options.geometry.workgroup_size),
           .can_leave = verified.effects.can_yield || verified.effects.can_await,
           .is_pure = verified.handler.is_pure,
           .writes_args = verified.effects.writes_args,
           .has_loops = has_loops(verified.handler.body),
           .commutes = verified.handler.commutes,
           .effects = verified.effects});
      executor.has_long_items_ |= executor.infos_.back().has_loops;
      if (verified.handler.is_payload) {
        if (options.payload) executor.payload_ = i;
      } else {
        executor.add_opcode(verified.handler.opcode, i);
      }
    }
    std::ranges::sort(executor.sparse_);
  }
  if (options.payload && executor.payload_ == kNone) {
    return fail(Code::invalid_argument, "megakernel: the program has no payload to run",
                "add a `payload { … }` to the handlers, or do not ask for it");
  }
  const bool wants_native = options.execution == Execution::native;
  if (options.program &&
      (wants_native || (options.execution == Execution::automatic && jit::has_native_code()))) {
    const auto memory = options.planned ? jit::MemoryUse::planned : jit::MemoryUse::shared;
    auto native =
        jit::NativeProgram::compile(*options.program, {.memory = memory, .cache = find_cache()});
    if (native) {
      executor.native_ = std::move(*native);
    } else if (wants_native) {
      return Failure(native.error());
    }
  }
  return executor;
}

void Executor::add_opcode(Word opcode, Word handler) {
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
