// The outputs of `printf` and `emit`: the debug log and the hits of a submission. Many items append
// at the same time; a record or hit without room is counted.
#pragma once

#include "everkernel/abi/control.hpp"
#include "everkernel/abi/debug_log.hpp"
#include "everkernel/abi/hit.hpp"
#include "everkernel/abi/slot.hpp"
#include "jit/device/types.hpp"
#include "jit/device/words.cuh"

namespace everkernel::device {

/// Where the items of a submission append debug records and hits.
struct ItemSinks {
  Words control;       // counts the debug records without room
  Words log;           // the debug log
  abi::Hit* hits;      // room for hits
  Wide hit_capacity;   // hits that fit
  Wide* emitted;       // hits so far, with those that did not fit; null = no room for any
  Words hits_dropped;  // one word: hits that did not fit
};

/// Appends a debug record of the item that `name` names, or counts it as dropped.
EK_DEVICE void append_record(const ItemSinks& sinks, Word name, Word fmt, Word a, Word b) {
  const Word capacity = (sinks.log.size() - 1) / abi::kDebugRecordWords * abi::kDebugRecordWords;
  for (;;) {
    const Word cursor = sinks.log.load_relaxed(abi::kDebugCursor);
    const bool is_sound = cursor % abi::kDebugRecordWords == 0 && cursor <= capacity;
    if (!is_sound || cursor == capacity) {
      sinks.control.add_relaxed(abi::kControlDebugDropped.first, 1);
      return;
    }
    if (!sinks.log.claim(abi::kDebugCursor, cursor, cursor + abi::kDebugRecordWords)) continue;
    const Word first = abi::kDebugFirstRecord + cursor;
    sinks.log.store_relaxed(first, fmt);
    sinks.log.store_relaxed(first + 1, a);
    sinks.log.store_relaxed(first + 2, b);
    sinks.log.store_relaxed(first + 3, name);
    return;
  }
}

/// Appends a hit of the item with this number, or counts it as dropped.
EK_DEVICE void append_hit(const ItemSinks& sinks, Word number, Word a, Word b, Word c) {
  Wide place = ~Wide{0};
  if (sinks.emitted != nullptr) {
    asm volatile("atom.relaxed.gpu.global.add.u64 %0, [%1], 1; // ek:word"
                 : "=l"(place)
                 : "l"(__cvta_generic_to_global(sinks.emitted)));
  }
  if (sinks.emitted == nullptr || place >= sinks.hit_capacity) {
    sinks.hits_dropped.add_relaxed(0, 1);
    return;
  }
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4}; // ek:hit" ::"l"(
                   __cvta_generic_to_global(sinks.hits + place)),
               "r"(number), "r"(a), "r"(b), "r"(c));
}

}  // namespace everkernel::device
