// From a verifier's findings to the bits that planning decides by.
#include "everkernel/planner/effects.hpp"

#include <algorithm>

namespace everkernel::planner {
namespace {

Effects bits_of(const ir::VerifiedHandler& verified) {
  const ir::Effects& effects = verified.effects;
  const bool is_barrier = effects.uses_handles || effects.writes_control || effects.moves_buffers;
  unsigned bits = 0;
  if (effects.reads_input) bits |= kReadsInput;
  if (effects.writes_input) bits |= kWritesInput;
  if (effects.reads_output) bits |= kReadsOutput;
  if (effects.writes_output) bits |= kWritesOutput;
  if (is_barrier) bits |= kBarrier;
  if (verified.handler.is_pure) bits |= kPure;
  if (verified.handler.commutes && !is_barrier) bits |= kCommutes;
  return static_cast<Effects>(bits);
}

}  // namespace

EffectTable::EffectTable(const ir::VerifiedProgram* program) : dense_(kDense, kUnknownOpcode) {
  dense_[0] = 0;  // NOP
  if (program == nullptr) return;
  for (const ir::VerifiedHandler& verified : program->handlers()) {
    if (verified.handler.is_payload) continue;
    const Word opcode = verified.handler.opcode;
    if (opcode < kDense) {
      dense_[opcode] = bits_of(verified);
    } else {
      sparse_.push_back({opcode, bits_of(verified)});
    }
  }
  std::ranges::sort(sparse_, {}, &Entry::opcode);
}

Effects EffectTable::find_sparse(Word opcode) const {
  const auto at = std::ranges::lower_bound(sparse_, opcode, {}, &Entry::opcode);
  return at != sparse_.end() && at->opcode == opcode ? at->effects : kUnknownOpcode;
}

}  // namespace everkernel::planner
