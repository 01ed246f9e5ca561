// Translates the effects that the verifier found and that trusted handlers declare into the bits
// that planning uses.
#include "planner/effects.hpp"

#include <algorithm>

namespace everkernel::planner {
namespace {

Effects bits_of(const ir::HandlerTraits& handler) {
  const ir::Effects& effects = handler.effects;
  const bool is_barrier = effects.uses_handles || effects.writes_control || effects.moves_buffers;
  unsigned bits = 0;
  if (effects.reads_input) bits |= kReadsInput;
  if (effects.writes_input) bits |= kWritesInput;
  if (effects.reads_output) bits |= kReadsOutput;
  if (effects.writes_output) bits |= kWritesOutput;
  if (is_barrier) bits |= kBarrier;
  if (handler.is_pure) bits |= kPure;
  if (handler.commutes && !is_barrier) bits |= kCommutes;
  return static_cast<Effects>(bits);
}

}  // namespace

EffectTable::EffectTable(const ir::VerifiedProgram* program,
                         std::span<const ir::TrustedHandler> trusted_handlers)
    : dense_(kDense, kUnknownOpcode) {
  dense_[0] = 0;  // NOP
  if (program != nullptr) {
    for (const ir::VerifiedHandler& verified : program->handlers()) {
      if (!verified.handler.is_payload) add(ir::traits_of(verified));
    }
  }
  for (const ir::TrustedHandler& handler : trusted_handlers) add(ir::traits_of(handler));
  std::ranges::sort(sparse_, {}, &Entry::opcode);
}

void EffectTable::add(const ir::HandlerTraits& handler) {
  if (handler.opcode < kDense) {
    dense_[handler.opcode] = bits_of(handler);
  } else {
    sparse_.push_back({handler.opcode, bits_of(handler)});
  }
}

Effects EffectTable::find_sparse(Word opcode) const {
  const auto at = std::ranges::lower_bound(sparse_, opcode, {}, &Entry::opcode);
  return at != sparse_.end() && at->opcode == opcode ? at->effects : kUnknownOpcode;
}

}  // namespace everkernel::planner
