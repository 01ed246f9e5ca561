// What can be said about native handlers without looking inside, and running their C++ half.
#include "everkernel/ir/unverified.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "everkernel/abi/control.hpp"
#include "everkernel/abi/opcode.hpp"
#include "everkernel/ir/unverified_item.hpp"

namespace everkernel::ir {
namespace {

using abi::FaultCode;

constexpr Word kHighestCode = abi::kFirstUserFault + abi::kMaxUserFault;

Failure wrong(const UnverifiedHandler& handler, std::string_view what, std::string hint = {}) {
  return fail(Code::invalid_argument, fmt::format("native handler '{}': {}", handler.name, what),
              std::move(hint));
}

// Whether `pure` can be true of what the handler says it does. The verifier asks the same of
// bodies.
bool can_be_pure(const Effects& effects) {
  return !effects.writes_input && !effects.uses_handles && !effects.reads_control &&
         !effects.writes_control && !effects.moves_buffers && !effects.writes_args &&
         !effects.can_yield && !effects.can_await && !effects.prints && !effects.emits;
}

Result<void> check_alone(const UnverifiedHandler& handler) {
  if (!is_word(handler.name)) {
    return wrong(handler, "this cannot be a name", "names are letters, digits and _");
  }
  if (abi::is_reserved_opcode(handler.opcode)) {
    return wrong(handler,
                 fmt::format("opcode {0} ({0:#x}) is reserved for the system", handler.opcode),
                 "free are 8 … 0xffef and 0x10000 … 0x7fffffff");
  }
  if (handler.scope > Scope::group) return wrong(handler, "its scope is not one of the three");
  if (handler.cpu == nullptr && handler.cuda.empty()) {
    return wrong(handler, "it has neither a C++ function nor CUDA text");
  }
  if (handler.is_pure && !can_be_pure(handler.effects)) {
    return wrong(handler, "it is declared pure, and its effects say otherwise",
                 "a pure handler reads input and param and writes output: declare no other effect");
  }
  return {};
}

Result<void> check_half(const UnverifiedHandler& handler, Half needed) {
  const bool is_there = needed == Half::cpu ? handler.cpu != nullptr : !handler.cuda.empty();
  if (is_there) return {};
  return fail(Code::unsupported,
              fmt::format("native handler '{}' has no {}, and the backend {} needs it",
                          handler.name, needed == Half::cpu ? "C++ function" : "CUDA text",
                          needed == Half::cpu ? "cpu" : "cuda"),
              "give it one, or make the megakernel without it");
}

Result<void> check_against(const UnverifiedHandler& handler, const HandlerTraits& other) {
  if (handler.name == other.name) return wrong(handler, "a handler of this name is there already");
  if (handler.opcode != other.opcode) return {};
  return wrong(handler, fmt::format("opcode {} is handler '{}'", other.opcode, other.name),
               "give every handler a number of its own");
}

// An outcome the handler may have: nothing else in the library expects another.
Outcome settle(const UnverifiedHandler& handler, const Outcome& outcome) {
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

Outcome call(const UnverifiedHandler& handler, UnverifiedItem& item) {
  try {
    return settle(handler, handler.cpu(item));
  } catch (...) {
    return {Ending::fault, kThrewFault};
  }
}

}  // namespace

Result<void> check_unverified(std::span<const UnverifiedHandler> handlers,
                              const VerifiedProgram* program, Half needed) {
  for (std::size_t i = 0; i < handlers.size(); ++i) {
    EVERKERNEL_TRY(check_alone(handlers[i]));
    for (const UnverifiedHandler& other : handlers.first(i)) {
      EVERKERNEL_TRY(check_against(handlers[i], traits_of(other)));
    }
    if (program == nullptr) continue;
    for (const VerifiedHandler& other : program->handlers()) {
      if (other.handler.is_payload) continue;
      EVERKERNEL_TRY(check_against(handlers[i], traits_of(other)));
    }
  }
  for (const UnverifiedHandler& handler : handlers) EVERKERNEL_TRY(check_half(handler, needed));
  return {};
}

Outcome run_unverified(const UnverifiedHandler& handler, ItemFrame& frame) {
  Word args[abi::kSlotArgs];
  std::ranges::copy(frame.args, args);
  UnverifiedItem item(frame);
  Outcome outcome = call(handler, item);
  // Workers count on args that stay where nobody declared a change.
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

HandlerTraits traits_of(const UnverifiedHandler& handler) {
  return {.name = handler.name,
          .opcode = handler.opcode,
          .is_pure = handler.is_pure,
          .commutes = handler.commutes,
          .effects = handler.effects};
}

// ---- the item ----

UnverifiedBuffer UnverifiedItem::buffer(Word handle) {
  UnverifiedBuffer buffer(fault_);
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
  buffer.readable_ = (found->access & UnverifiedBuffer::kRead) != 0 ? found->word_count : 0;
  buffer.writable_ = (found->access & UnverifiedBuffer::kWrite) != 0 ? found->word_count : 0;
  return buffer;
}

UnverifiedBuffer UnverifiedItem::control() {
  UnverifiedBuffer buffer(fault_);
  buffer.words_ = frame_.control;
  buffer.length_ = buffer.readable_ = buffer.writable_ = frame_.control_words;
  buffer.access_ = static_cast<Word>(memory::Access::read_write);
  if (frame_.tenant != 0) buffer.first_writable_ = abi::kControlFirstObservable;
  return buffer;
}

// Why a word cannot be used so, in the order in which handlers find out; 0 if it can.
Word UnverifiedBuffer::missing_right(Word index, Word needed) const {
  if (reason_ != 0) return reason_;
  const bool is_protected = (needed & kWrite) != 0 && index < first_writable_;
  const bool may = (access_ & needed) == needed && !is_protected;
  return static_cast<Word>(may ? FaultCode::none : FaultCode::permission_denied);
}

Word UnverifiedBuffer::reason_of(Word index, Word needed) const {
  const Word reason = missing_right(index, needed);
  return reason != 0 ? reason : static_cast<Word>(FaultCode::index_out_of_range);
}

}  // namespace everkernel::ir
