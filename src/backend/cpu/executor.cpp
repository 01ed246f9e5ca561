// Lets a worker find handlers by opcode, and run them with the code that is there.
#include "backend/cpu/executor.hpp"

#include <algorithm>
#include <utility>

#include "everkernel/abi/fault.hpp"

namespace everkernel::backend::cpu {
namespace {

// Opcodes below this index an array; larger ones are searched for.
constexpr std::size_t kDenseOpcodes = 4096;
constexpr Word kWarpLanes = 32;
// How long a kernel that can interpret waits for the code that a run needs most. A handler of
// usual size takes 10 to 20 ms.
constexpr auto kShortWait = std::chrono::milliseconds(100);

// Built-in operations whose executions have no control word.
constexpr std::array kLargeOpcodes{
    static_cast<Word>(abi::Opcode::load_miss), static_cast<Word>(abi::Opcode::printf),
    static_cast<Word>(abi::Opcode::packed_slot), static_cast<Word>(abi::Opcode::shutdown)};

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

Result<Executor> Executor::create(const KernelOptions& options, BackgroundCompiler& compiler,
                                  HandlerCode::FindCache find_cache) {
  if (options.execution == Execution::native && options.program && !jit::has_native_code()) {
    return fail(Code::unsupported, "native code: this build has no LLVM",
                "build with LLVM 19 (llvm-19-dev), or run the handlers with the interpreter");
  }
  Executor executor;
  if (jit::has_native_code()) executor.execution_ = options.execution;
  executor.dense_.assign(kDenseOpcodes, kNone);
  EVERKERNEL_TRY(executor.add_program(options));
  EVERKERNEL_TRY(executor.add_trusted(options));
  std::ranges::sort(executor.sparse_);
  for (const abi::OpcodeInfo& row : abi::kOpcodes) {
    executor.opcodes_.push_back(static_cast<Word>(row.opcode));
  }
  std::ranges::sort(executor.opcodes_);
  if (options.program) {
    const auto memory = options.planned ? jit::MemoryUse::planned : jit::MemoryUse::shared;
    executor.code_ = std::make_shared<HandlerCode>(*options.program, memory,
                                                   executor.is_native() ? &compiler : nullptr,
                                                   std::move(find_cache));
    executor.entries_ = executor.code_->entries();
  }
  for (Word opcode = 0; opcode < executor.classes_.size(); ++opcode) {
    executor.classes_[opcode] = executor.find_class(opcode);
  }
  return executor;
}

Executor::ItemClass Executor::find_class(Word opcode) const {
  if (opcode == static_cast<Word>(abi::Opcode::batch_fence)) return ItemClass::waits;
  if (payload_ == kNone && opcode == static_cast<Word>(abi::Opcode::load_miss)) {
    return ItemClass::waits;
  }
  const Word handler = payload_ != kNone ? payload_ : find(opcode);
  if (handler != kNone && infos_[handler].can_leave) return ItemClass::waits;
  return is_short(opcode) ? ItemClass::quick : ItemClass::slow;
}

Executor::~Executor() {
  if (code_ != nullptr) code_->cancel();
}

Result<void> Executor::add_program(const KernelOptions& options) {
  const auto handlers =
      options.program ? options.program->handlers() : std::span<const ir::VerifiedHandler>{};
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

// Makes the handler that was added last the one of this opcode.
void Executor::add_opcode(Word opcode) {
  const Word handler = static_cast<Word>(infos_.size() - 1);
  opcodes_.push_back(opcode);
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

// The large built-in operations, counted behind the handlers.
Word Executor::find_builtin_counter(Word opcode) const {
  const auto* const found = std::ranges::find(kLargeOpcodes, opcode);
  if (found == kLargeOpcodes.end()) return kNone;
  return static_cast<Word>(infos_.size()) + static_cast<Word>(found - kLargeOpcodes.begin());
}

Word Executor::counter_count() const {
  return static_cast<Word>(infos_.size() + kLargeOpcodes.size());
}

Result<void> Executor::prepare(const CodeRequest& request) const {
  if (code_ == nullptr || !is_native()) return {};
  std::vector<Word> handlers;
  if (payload_ != kNone) handlers.push_back(payload_);
  for (const Word opcode : request.opcodes) {
    const Word handler = find(opcode);
    if (handler < first_trusted_ && handler != payload_) handlers.push_back(handler);
  }
  code_->request(handlers);
  if (handlers.empty()) return {};
  if (!is_only_native()) {
    const auto now = Clock::now();
    const auto limit = std::min<Clock::duration>(kShortWait, (request.deadline.time - now) / 4);
    static_cast<void>(code_->wait(std::span(handlers).first(1), now + limit, nullptr));
    return {};
  }
  if (!code_->wait(handlers, request.deadline, nullptr)) {
    return fail(Code::timeout, "native code: the handlers were not compiled before the deadline",
                "raise the deadline, run again, or let the interpreter run them meanwhile");
  }
  if (auto failure = code_->find_failure(handlers)) return Failure(*std::move(failure));
  return {};
}

// An item of a kernel that runs only native code waits for it; if the code cannot be made, which
// prepare() reports to a caller that can ask beforehand, the interpreter runs the item.
ir::Outcome Executor::run_without_code(Word handler, ir::ItemFrame& frame) const {
  if (!is_native()) return code_->interpret(handler, frame);
  if (!is_only_native()) return code_->run(handler, frame);
  code_->request({&handler, 1});
  if (!code_->wait({&handler, 1}, {}, frame.abort)) {
    return {ir::Ending::fault, static_cast<Word>(abi::FaultCode::deadline)};
  }
  const HandlerCode::Entry entry = code_->find(handler);
  if (entry != nullptr) return jit::NativeHandler::run(entry, frame);
  return code_->interpret(handler, frame);
}

}  // namespace everkernel::backend::cpu
