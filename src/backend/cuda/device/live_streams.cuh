// Streams: when a look finds a whole window of entries, everything that is filled becomes a
// stretch, from which crews pull portions beside each other. live_kernel.cuh opens stretches and
// runs portions.
//
// The claim of a queue is one word: the number of its present stretch, and the portions of it that
// were pulled. Pulling is one addition. A crew that comes too late for a stretch adds to no other:
// the next stretch begins with another word. The stretch is looked up by its number, and its row is
// written again only when every portion of it has ended.
#pragma once

#include "backend/cuda/device/live_memory.cuh"
#include "backend/cuda/live_rows.hpp"
#include "jit/device/lanes.cuh"
#include "jit/device/types.hpp"
#include "jit/device/words.cuh"

namespace everkernel::device {

/// Entries of a portion: one for each lane of a warp.
inline constexpr Word kPortion = kWarpLanes;
/// Fewest entries of a stretch.
inline constexpr Word kLeastStretch = 4 * kPortion;

/// Tickets of one queue that a crew has pulled.
struct Portion {
  Wide first = 0;
  Word count = 0;    // 0: none
  Word stretch = 0;  // number of the stretch, for end_portion()
};

/// The stretches of one queue.
struct Stretches {
  LiveQueueRow* row;

  /// Whether portions of the present stretch are left to pull.
  EK_DEVICE bool has_more() const {
    const Wide claim = claims().load_relaxed();
    const Word number = static_cast<Word>(claim >> 32);
    return static_cast<Word>(claim) < portions(load_field(&stretch(number).count));
  }

  /// Makes `count` tickets from `first` on the next stretch. Only the crew that looks calls it,
  /// with one lane. False if the row of the stretch is still in use.
  EK_DEVICE bool open(Wide first, Word count) const {
    if (has_more()) return false;
    const Word number = static_cast<Word>(claims().load_relaxed() >> 32) + 1;
    LiveStretch& next = stretch(number);
    if (load_field(&next.left) != 0) return false;
    WideWord(&next.first).store_relaxed(first);
    one_word(&next.count).store_relaxed(0, count);
    one_word(&next.left).store_relaxed(0, portions(count));
    claims().store_release(Wide{number} << 32);
    return true;
  }

  /// Pulls a portion. One lane calls it.
  EK_DEVICE Portion pull() const {
    Portion portion;
    const Wide claim = claims().fetch_add_acq_rel(1);
    const Word number = static_cast<Word>(claim >> 32);
    const Word index = static_cast<Word>(claim);
    const LiveStretch& from = stretch(number);
    const Word count = load_field(&from.count);
    if (index >= portions(count)) return portion;
    portion.first = WideWord(&from.first).load_relaxed() + Wide{index} * kPortion;
    portion.count = count - index * kPortion < kPortion ? count - index * kPortion : kPortion;
    portion.stretch = number;
    return portion;
  }
  /// Called by one lane when nothing of a portion is in use any more.
  EK_DEVICE void end(const Portion& portion) const {
    one_word(&stretch(portion.stretch).left).add_release(0, 0u - 1);
  }

 private:
  EK_DEVICE static Word portions(Word count) { return (count + kPortion - 1) / kPortion; }
  EK_DEVICE WideWord claims() const { return WideWord(&row->claim); }
  EK_DEVICE LiveStretch& stretch(Word number) const { return row->stretches[number % kStretches]; }
};

/// How far the producer of a queue has filled it, by its own word: any number.
EK_DEVICE Wide load_filled(const Word* entries) {
  const Word* const line = entries - sizeof(abi::ProducerLine) / sizeof(Word);
  Wide filled;
  asm volatile("ld.relaxed.sys.global.u64 %0, [%1]; // ek:word"
               : "=l"(filled)
               : "l"(__cvta_generic_to_global(reinterpret_cast<const Wide*>(line) + 1)));
  return filled;
}

/// The queues that have stretches, for crews that wait: each word is the epoch of the orders and
/// the queue's place in their list, plus one.
struct StreamBoard {
  Wide* words;

  /// The place in the list that word `i` names, plus one; 0 if none of these orders.
  EK_DEVICE Word load(Word i, Word epoch) const {
    const Wide word = WideWord(words + i).load_relaxed();
    return static_cast<Word>(word >> 32) == epoch ? static_cast<Word>(word) : 0;
  }
  /// Puts a queue up, unless it is there; false if there is no room. One lane calls it.
  EK_DEVICE bool put(Word place, Word epoch) const {
    const Wide wanted = Wide{epoch} << 32 | (place + 1);
    for (Word tries = 0; tries < kBoardTries; ++tries) {
      const WideWord word(words + (place + tries) % kBoardWords);
      const Wide found = word.load_relaxed();
      if (found == wanted) return true;
      if (static_cast<Word>(found >> 32) == epoch && found != 0) continue;
      if (word.exchange_if(found, wanted)) return true;
    }
    return false;
  }

 private:
  static constexpr Word kBoardTries = 4;
};

}  // namespace everkernel::device
