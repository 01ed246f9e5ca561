// Turns of loops: they cost fuel, and between them the abort word is polled. Also the faults that
// turns of an `each` have on different lanes.
#pragma once

#include "jit/device/item.cuh"
#include "jit/device/types.hpp"
#include "jit/device/values.cuh"

namespace everkernel::device {

/// Turns of a loop between two polls of the abort word. A power of two.
inline constexpr Word kPollTurns = 1024;
/// Turns of an `each` on one lane between two polls of the abort word.
inline constexpr Word kPollEachTurns = 256;

/// Whether the abort word is set: the item must end.
template <class Lanes>
EK_DEVICE bool is_aborted(const Lanes& lanes, const Item& item) {
  const bool looks = lanes.leads() && item.abort.size() != 0;
  return lanes.from_leader(item.abort.load_relaxed_if(looks, 0)) != 0;
}

/// Pays the fuel of one turn of a loop, and polls the abort word every kPollTurns turns. Returns
/// the code of a fault, or 0.
template <class Lanes>
EK_DEVICE Word spend_turn(const Lanes& lanes, const Item& item, Fuel& fuel) {
  if (fuel % kPollTurns == 0) {
    if (is_aborted(lanes, item)) return static_cast<Word>(FaultCode::deadline);
    if (fuel == 0) return static_cast<Word>(FaultCode::fuel_exhausted);
  }
  fuel = opaque(fuel - 1);
  return 0;
}

/// Pays the fuel of up to `some` turns of a loop, up to the next poll of the abort word, and sets
/// `some` to the number of turns paid. Returns the code of a fault, or 0. Calls of spend_turn() for
/// the same turns would have the same effect.
template <class Lanes>
EK_DEVICE Word spend_turns(const Lanes& lanes, const Item& item, Fuel& fuel, Word& some) {
  Word most = static_cast<Word>(fuel % kPollTurns);
  if (most == 0) {
    if (is_aborted(lanes, item)) return static_cast<Word>(FaultCode::deadline);
    if (fuel == 0) return static_cast<Word>(FaultCode::fuel_exhausted);
    most = kPollTurns;
  }
  some = min_u32(some, most);
  fuel = opaque(fuel - some);
  return 0;
}

/// The first turn of an `each` that faulted on this lane.
struct TurnFault {
  Word turn = ~0u;
  Word code = 0;

  EK_DEVICE bool is_set() const { return code != 0; }
  EK_DEVICE void note(Word its_turn, Word its_code) {
    if (code != 0) return;  // a lane runs its turns in rising order
    turn = its_turn;
    code = its_code;
  }
};

/// The fault code of the lowest turn that faulted on any lane. At least one lane has a fault.
template <class Lanes>
EK_DEVICE Word lowest_fault(const Lanes& lanes, const TurnFault& mine) {
  const Word turn = lanes.lowest(mine.turn);
  return lanes.lowest(mine.is_set() && mine.turn == turn ? mine.code : ~0u);
}

}  // namespace everkernel::device
