// Checks on trusted handlers that do not read their code, and running their C++ functions.
#include "everkernel/ir/trusted.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "everkernel/abi/control.hpp"
#include "everkernel/abi/opcode.hpp"
#include "everkernel/ir/detail/vocabulary_tables.hpp"
#include "everkernel/ir/trusted_item.hpp"

namespace everkernel::ir {
namespace {

using abi::FaultCode;

constexpr Word kHighestCode = abi::kFirstUserFault + abi::kMaxUserFault;

Failure wrong(const TrustedHandler& handler, std::string_view what, std::string hint = {}) {
  return fail(Code::invalid_argument, fmt::format("trusted handler '{}': {}", handler.name, what),
              std::move(hint));
}

// Whether a handler with these effects can be pure. The verifier applies the same rule to bodies.
bool can_be_pure(const Effects& effects) {
  return !effects.writes_input && !effects.uses_handles && !effects.reads_control &&
         !effects.writes_control && !effects.moves_buffers && !effects.writes_args &&
         !effects.can_yield && !effects.can_await && !effects.prints && !effects.emits;
}

Result<void> check_alone(const TrustedHandler& handler) {
  if (!is_word(handler.name)) {
    return wrong(handler, "the name is not valid", "a name is letters, digits and _");
  }
  if (abi::is_reserved_opcode(handler.opcode)) {
    return wrong(handler,
                 fmt::format("opcode {0} ({0:#x}) is reserved for the system", handler.opcode),
                 "choose one of 8 … 0xffef or 0x10000 … 0x7fffffff");
  }
  if (handler.scope > Scope::group) return wrong(handler, "its scope is not lane, warp or group");
  if (handler.cpu == nullptr && handler.cuda.empty()) {
    return wrong(handler, "it has neither a C++ function nor CUDA text");
  }
  if (handler.is_pure && !can_be_pure(handler.effects)) {
    return wrong(
        handler, "it is declared pure, but its effects are not",
        "a pure handler reads input and param and writes output: remove every other effect");
  }
  return {};
}

Result<void> check_has_code(const TrustedHandler& handler, TrustedCode needed) {
  const bool is_there = needed == TrustedCode::cpu ? handler.cpu != nullptr : !handler.cuda.empty();
  if (is_there) return {};
  return fail(Code::unsupported,
              fmt::format("trusted handler '{}' has no {}, which the {} backend needs",
                          handler.name, needed == TrustedCode::cpu ? "C++ function" : "CUDA text",
                          needed == TrustedCode::cpu ? "cpu" : "cuda"),
              "add it, or create the megakernel without the handler");
}

Result<void> check_against(const TrustedHandler& handler, const HandlerTraits& other) {
  if (handler.name == other.name) return wrong(handler, "another handler has this name");
  if (handler.opcode != other.opcode) return {};
  return wrong(handler, fmt::format("opcode {} belongs to handler '{}'", other.opcode, other.name),
               "give every handler an opcode of its own");
}

// The outcome if the handler declared it, else FAULT (kUndeclaredFault): the rest of the library
// relies on declared outcomes.
Outcome declared_or_fault(const TrustedHandler& handler, const Outcome& outcome) {
  switch (outcome.ending) {
    case Ending::done:
      return {};
    case Ending::yield:
    case Ending::requeue:
      if (handler.effects.can_yield) return {outcome.ending, 0};
      break;
    case Ending::wait_io:
      if (handler.effects.can_await) return {outcome.ending, 0};
      break;
    case Ending::fault:
      if (outcome.fault_code != 0 && outcome.fault_code <= kHighestCode) return outcome;
      break;
  }
  return {Ending::fault, kUndeclaredFault};
}

Outcome call(const TrustedHandler& handler, TrustedItem& item) {
  try {
    return declared_or_fault(handler, handler.cpu(item));
  } catch (...) {
    return {Ending::fault, kThrewFault};
  }
}

}  // namespace

Result<void> check_trusted(std::span<const TrustedHandler> handlers, const VerifiedProgram* program,
                           TrustedCode needed) {
  for (std::size_t i = 0; i < handlers.size(); ++i) {
    EVERKERNEL_TRY(check_alone(handlers[i]));
    for (const TrustedHandler& other : handlers.first(i)) {
      EVERKERNEL_TRY(check_against(handlers[i], traits_of(other)));
    }
    if (program == nullptr) continue;
    for (const VerifiedHandler& other : program->handlers()) {
      if (other.handler.is_payload) continue;
      EVERKERNEL_TRY(check_against(handlers[i], traits_of(other)));
    }
  }
  for (const TrustedHandler& handler : handlers) EVERKERNEL_TRY(check_has_code(handler, needed));
  return {};
}

Outcome run_trusted(const TrustedHandler& handler, ItemFrame& frame) {
  Word args[abi::kSlotArgs];
  std::ranges::copy(frame.args, args);
  TrustedItem item(frame);
  Outcome outcome = call(handler, item);
  // Workers rely on unchanged args unless the handler declares `writes_args`.
  if (!handler.effects.writes_args) std::ranges::copy(args, frame.args);
  const Word code = item.fault_code();
  if (code == 0) return outcome;
  if (outcome.ending != Ending::fault) return {Ending::fault, code};
  return {Ending::fault, std::min(code, outcome.fault_code)};
}

HandlerTraits traits_of(const VerifiedHandler& handler) {
  return {.name = handler.handler.name,
          .opcode = handler.handler.opcode,
          .is_pure = handler.handler.is_pure,
          .commutes = handler.handler.commutes,
          .effects = handler.effects};
}

HandlerTraits traits_of(const TrustedHandler& handler) {
  return {.name = handler.name,
          .opcode = handler.opcode,
          .is_pure = handler.is_pure,
          .commutes = handler.commutes,
          .effects = handler.effects};
}

// ---- the item ----

TrustedBuffer TrustedItem::buffer(Word handle) {
  TrustedBuffer buffer(fault_);
  const memory::BufferEntry* const found = frame_.buffers.find(handle);
  if (found == nullptr) {
    buffer.reason_ = static_cast<Word>(FaultCode::bad_buffer_handle);
    return buffer;
  }
  if (found->owner != memory::kEveryTenant && found->owner != frame_.tenant) {
    buffer.reason_ = static_cast<Word>(FaultCode::permission_denied);
    return buffer;
  }
  buffer.words_ = found->words;
  buffer.length_ = found->word_count;
  buffer.access_ = found->access;
  buffer.readable_ = (found->access & TrustedBuffer::kRead) != 0 ? found->word_count : 0;
  buffer.writable_ = (found->access & TrustedBuffer::kWrite) != 0 ? found->word_count : 0;
  return buffer;
}

TrustedBuffer TrustedItem::control() {
  TrustedBuffer buffer(fault_);
  buffer.words_ = frame_.control;
  buffer.length_ = buffer.readable_ = buffer.writable_ = frame_.control_words;
  buffer.access_ = static_cast<Word>(memory::Access::read_write);
  if (frame_.tenant != 0) buffer.first_writable_ = abi::kControlFirstObservable;
  return buffer;
}

// The fault code of an access without the right, 0 with it. Checks run in the order of verified
// handlers: handle and owner, then rights; reason_of() adds the length.
Word TrustedBuffer::missing_right(Word index, Word needed) const {
  if (reason_ != 0) return reason_;
  const bool is_protected = (needed & kWrite) != 0 && index < first_writable_;
  const bool may = (access_ & needed) == needed && !is_protected;
  return static_cast<Word>(may ? FaultCode::none : FaultCode::permission_denied);
}

Word TrustedBuffer::reason_of(Word index, Word needed) const {
  const Word reason = missing_right(index, needed);
  return reason != 0 ? reason : static_cast<Word>(FaultCode::index_out_of_range);
}

}  // namespace everkernel::ir
