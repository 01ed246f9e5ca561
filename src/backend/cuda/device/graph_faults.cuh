// Faults of planned work: a faulted item poisons the handles that it may have written, and items
// that use a poisoned handle end as FAULT without running. backend/cpu/graph_work.cpp does the
// same.
#pragma once

#include "backend/cuda/device/graph_tables.cuh"
#include "backend/cuda/graph_rows.hpp"
#include "jit/device/handler.cuh"
#include "jit/device/types.hpp"
#include "jit/device/words.cuh"

namespace everkernel::device {

/// The poison of a handle that no dependent item may use. A smaller value is the opcode of
/// commuting items that faulted; it does not stop other items of that opcode.
inline constexpr Word kPoisonedForAll = 0xFFFFFFFFu;

/// The handles of a run and which of them are poisoned.
struct PoisonedHandles {
  const GraphParams& params;
  GraphShared& shared;

  /// Whether an item with these traits depends on a faulted item.
  EK_DEVICE bool is_poisoned(const Quad& item, Word traits) const {
    if (params.is_ordered == 0 || one_word(&shared.has_faults).load_relaxed(0) == 0) return false;
    if (touches_input(traits) && poison_of(item.b) != 0) return true;
    if ((traits & (kTraitReadsOutput | kTraitWritesOutput)) == 0) return false;
    const Word by = poison_of(item.c);
    return by != 0 && !(commutes(item, traits) && by == item.a);
  }

  /// Poisons the handles that a faulted item may have written.
  EK_DEVICE void poison_outputs(const Quad& item, Word traits) const {
    if (params.is_ordered == 0) return;
    if ((traits & kTraitWritesInput) != 0) poison_handle(item.b, kPoisonedForAll);
    if ((traits & kTraitWritesOutput) != 0) {
      poison_handle(item.c, commutes(item, traits) ? item.a : kPoisonedForAll);
    }
    one_word(&shared.has_faults).store_relaxed(0, 1);
  }

 private:
  EK_DEVICE Wide place_of(Word handle) const {
    if (params.keys == nullptr) return handle;
    Wide at = (Wide{handle} * 0x9E3779B97F4A7C15ull >> 24) & params.key_mask;
    while (load_key(params.keys, at) != handle) at = (at + 1) & params.key_mask;
    return at;
  }
  EK_DEVICE Words poison(Word handle) const {
    return one_word(params.poisoned_by + place_of(handle));
  }
  EK_DEVICE Word poison_of(Word handle) const {
    return handle == 0 ? 0 : poison(handle).load_relaxed(0);
  }

  EK_DEVICE static bool touches_input(Word traits) {
    return (traits & (kTraitReadsInput | kTraitWritesInput)) != 0;
  }
  /// Whether the item does not depend on other items of its opcode with the same output.
  EK_DEVICE static bool commutes(const Quad& item, Word traits) {
    return (traits & kTraitCommutes) != 0 && !(touches_input(traits) && item.b == item.c);
  }
  EK_DEVICE void poison_handle(Word handle, Word by) const {
    if (handle == 0) return;
    const Words word = poison(handle);
    Word before = 0;
    for (;;) {
      const Word found =
          word.exchange_if(0, before, before == 0 || before == by ? by : kPoisonedForAll);
      if (found == before) return;
      before = found;
    }
  }
};

}  // namespace everkernel::device
